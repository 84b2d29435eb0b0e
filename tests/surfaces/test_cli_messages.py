"""Questions, warnings and errors of commands on standard error, and their exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memwell.surfaces.cli.main import app

from ..engines import Memory, located

ANY = {"type": "object", "additionalProperties": True}
TEXTS = {**ANY, "properties": {"lang": {"type": "string"}}}


def run(home: Path, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", located(home), *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Memory(tmp_path, worker=False) as memory:
        memory.user("alice").records["profile"] = {"lang": "pt"}
        memory.app("shop").stores.create("cart", schema=TEXTS)
        memory.app("shop").sessions.update("s1", user_id="alice")
    return tmp_path


# -- questions -----------------------------------------------------------------------------------------------------------


def test_a_question_names_what_is_to_be_deleted_and_leaves_the_output_alone(filled: Path) -> None:
    asked = ("user", "delete-record", "alice", "profile")
    code, out, err = run(filled, *asked, stdin="n\n")
    assert (code, out) == (1, "")
    assert "Delete a record about a user with its history: alice, profile. Continue? [y/N]: " in err
    code, out, err = run(filled, *asked, "--json", stdin="y\n")
    assert (code, msgspec.json.decode(out)["name"], "Continue?" in err) == (0, "profile", True)


def test_a_question_of_several_sentences_names_it_in_the_first(filled: Path) -> None:
    _, _, err = run(filled, "app", "sessions-end", "shop", "s1", stdin="n\n")
    assert err.startswith("End a session: shop, s1. This deletes its metadata")
    assert "again changes nothing. Continue? [y/N]: " in err
    _, _, err = run(filled, "store", "delete-content", "shop", "cart", "--user-id", "alice", stdin="n\n")
    assert "with its history: shop, cart, --user-id alice. Other records of the store stay. Continue?" in err


def test_without_a_terminal_to_ask_the_error_names_the_option(filled: Path) -> None:
    code, out, err = run(filled, "user", "delete-record", "alice", "profile", stdin="")
    assert (code, out, "use `--yes`" in err) == (1, "", True)
    assert "`--yes`" not in run(filled, "user", "delete-record", "alice", "profile", stdin="n\n")[2]
    with Memory(filled, worker=False) as memory:
        assert "profile" in memory.user("alice").records


def test_a_process_may_have_neither_input_nor_output(filled: Path) -> None:
    memwell = f"{sys.executable} -m memwell --home '{located(filled)}' user"
    closed = f"{memwell} delete-record alice profile <&-; test $? = 1 && {memwell} records alice >&-"
    done = subprocess.run(["bash", "-c", closed], capture_output=True, text=True)
    assert (done.returncode, "use `--yes`" in done.stderr, "Traceback" in done.stderr) == (0, True, False)


def test_a_trial_is_not_asked_about(filled: Path) -> None:
    with Memory(filled, worker=False) as memory:
        bank = memory.banks.create("notes", type="general").id
        memory.call("banks.add", {"bank": bank, "key": "k", "content": "hello"})
    code, _, err = run(filled, "bank", "delete-entries", bank, "--key", "k", "--dry-run", stdin="")
    assert (code, err) == (0, "")


# -- readers that have enough --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [("user", "records", "alice", "--json"), ("user", "records", "alice"), ("--help",)]
)
def test_a_reader_that_has_enough_is_no_error(filled: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "memwell", "--home", located(filled), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == (1 if arguments == ("--help",) else 141), "as of a process that SIGPIPE has ended"


# -- what is answered with no --------------------------------------------------------------------------------------------


def test_an_import_that_would_conflict_is_a_no(filled: Path) -> None:
    with Memory(filled, worker=False) as memory:
        exported = memory.app("shop").export()
    asked = ("app", "import", "shop", "--dry-run", "--document")
    assert run(filled, *asked, text(exported))[0] == 0
    exported["stores"]["cart"]["retention"] = "1_day"
    code, out, _ = run(filled, *asked, text(exported))
    assert (code, "conflict" in out) == (1, True)
    assert run(filled, *asked, text(exported), "--json")[0] == 1


def test_a_schema_that_would_break_records_is_a_no(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.definitions.create("Profile", schema=ANY)
        memory.definitions.bind(owner="ada").update({"profile": {"lang": 3}})
    asked = ("definition", "check", "profile", "--schema")
    assert run(tmp_path, *asked, text(ANY))[0] == 0
    assert run(tmp_path, *asked, text(TEXTS))[0] == 1


# -- warnings ------------------------------------------------------------------------------------------------------------

WRONG = 'Warning: `lang`: the value is not of type "string"\n'


def test_misfits_are_warnings(filled: Path) -> None:
    asked = ("store", "set-content", "shop", "cart", "--user-id", "alice", "--data", '{"lang": 3, "warnings": [1]}')
    code, out, err = run(filled, *asked)
    assert (code, err, "not of type" in out, '"warnings":[1]' in out) == (0, WRONG, False, True)
    code, out, err = run(filled, *asked, "--json")
    assert (code, err, msgspec.json.decode(out)["warnings"][0]["path"]) == (0, "", "lang")


def test_warnings_of_several_things_say_of_which(filled: Path) -> None:
    contents = ("--contents", '{"cart": {"lang": 3}}')
    _, out, err = run(filled, "store", "set-contents", "shop", "--user-id", "alice", *contents)
    assert (err, "not of type" in out) == (WRONG.replace("lang", "cart.lang"), False)
    run(filled, "definition", "create", "--name", "Profile", "--schema", text(TEXTS))
    secret = text({"profile": {"password": "hunter2xyz!"}})
    _, out, err = run(filled, "definition", "update-memory", "--owner", "ada", "--memory", secret)
    assert (err.startswith("Warning: `profile.password`: "), "warnings" in out) == (True, False)


def test_vague_names_and_withheld_records_are_warnings(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "definition", "create", "--name", "Data")
    assert (code, err.startswith("Warning: The slug 'data'"), "choose" in out) == (0, True, False)
    _, out, err = run(tmp_path, "definition", "list")
    assert (err.startswith("Warning: `data`: The slug 'data'"), "choose" in out) == (True, False)
    run(tmp_path, "definition", "create", "--name", "Plan", "--scope", "thread")
    code, out, err = run(tmp_path, "definition", "bind", "--owner", "ada", "--definitions", "plan")
    assert (code, err.startswith("Warning: `plan`: "), "warnings" in out) == (0, True, False)


# -- errors --------------------------------------------------------------------------------------------------------------


def test_errors_name_options_and_arguments(filled: Path) -> None:
    _, _, err = run(filled, "store", "get-content", "shop", "cart")
    assert err == "Error: --user-id is missing: 'cart' has content for each user.\n"
    _, _, err = run(filled, "user", "add", "alice")
    assert err == "Error: Give either CONTENT (a text) or --messages (a list of turns).\n"
    code, _, err = run(filled, "user", "set-record", "alice", "profile", "--value", "{}", "--mode", "mix")
    assert code == 2
    assert err.startswith("Error: --mode cannot be 'mix': it is `merge` or `replace`. `replace` sets")


def test_words_that_only_look_like_fields_stay(filled: Path) -> None:
    _, _, err = run(filled, "user", "search", "alice", "--query", "x", "--min-trust", "nobody")
    assert err.startswith("Error: --min-trust cannot be 'nobody'")
    assert "`user`" in err, "a choice of --min-trust, and a field as well"
    with Memory(filled, worker=False) as memory:
        memory.definitions.create("Owner", schema=TEXTS)
    memory_given = ("--memory", '{"owner": 3}')
    _, _, err = run(filled, "definition", "update-memory", "--owner", "ada", *memory_given)
    assert "`memory.owner`" in err
