"""What commands say besides their answer: questions, warnings and errors, on standard error; and how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Memory
from memwell.surfaces.cli.main import app

from ..engines import located

ANY = {"type": "object", "additionalProperties": True}
TEXTS = {**ANY, "properties": {"lang": {"type": "string"}}}


def run(home: Path, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


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
    assert "Delete a record about a user with its history: alice, profile. Go on? [y/N]: " in err
    code, out, err = run(filled, *asked, "--json", stdin="y\n")
    assert (code, msgspec.json.decode(out)["name"], "Go on?" in err) == (0, "profile", True)


def test_a_question_of_several_sentences_names_it_in_the_first(filled: Path) -> None:
    _, _, err = run(filled, "app", "sessions-end", "shop", "s1", stdin="n\n")
    assert err.startswith("End a session: shop, s1. Its metadata and everything")
    assert "a second time changes nothing. Go on? [y/N]: " in err
    _, _, err = run(filled, "store", "delete-content", "shop", "cart", "--user-id", "alice", stdin="n\n")
    assert "with its history: shop, cart, --user-id alice. Those of others stay. Go on?" in err


def test_whoever_cannot_be_asked_is_told_how_to_go_on(filled: Path) -> None:
    code, out, err = run(filled, "user", "delete-record", "alice", "profile", stdin="")
    assert (code, out, "`--yes` goes on without asking" in err) == (1, "", True)
    assert "`--yes`" not in run(filled, "user", "delete-record", "alice", "profile", stdin="n\n")[2]
    with Memory(filled, worker=False) as memory:
        assert "profile" in memory.user("alice").records


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


# -- errors --------------------------------------------------------------------------------------------------------------


def test_errors_name_options_and_arguments(filled: Path) -> None:
    _, _, err = run(filled, "store", "get-content", "shop", "cart")
    assert err == "Error: --user-id is missing: 'cart' is kept for each user.\n"
    _, _, err = run(filled, "user", "add", "alice")
    assert err == "Error: Give either CONTENT (a text) or --messages (a list of turns).\n"
    code, _, err = run(filled, "user", "set-record", "alice", "profile", "--value", "{}", "--mode", "mix")
    assert (code, err.startswith("Error: --mode: invalid enum value 'mix'. `replace` sets")) == (2, True)


def test_words_that_only_look_like_fields_stay(filled: Path) -> None:
    _, _, err = run(filled, "user", "search", "alice", "--query", "x", "--min-trust", "nobody")
    assert err.startswith("Error: --min-trust: ")
    assert "`user`" in err, "a choice of --min-trust, and a field as well"
    with Memory(filled, worker=False) as memory:
        memory.definitions.create("Owner", schema=TEXTS)
    memory_given = ("--memory", '{"owner": 3}')
    _, _, err = run(filled, "definition", "update-memory", "--owner", "ada", *memory_given)
    assert "`memory.owner`" in err
