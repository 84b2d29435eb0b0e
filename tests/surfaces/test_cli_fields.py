"""Fields of commands: by position and by option, from standard input, from files, and as lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import NotFound
from memwell.surfaces.cli.main import app

from ..cases import cases
from ..engines import Memory, located


def run(home: Path, *arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", located(home), *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Memory(tmp_path, worker=False) as memory:
        memory.app("shop").stores.create("cart")
        memory.app("shop").scope(user_id="alice").set_content(
            "cart", {"lang": "pt", "seat": {"row": 12, "letter": "C"}}
        )
    return tmp_path


# -- with and without its name -------------------------------------------------------------------------------------------


FIRST = [
    (("store", "create", "shop"), "--technical-name", "userPrefs", '"technical_name":"userPrefs"'),
    (("definition", "create"), "--name", "Customer Profile", '"slug":"customer_profile"'),
    (("user", "set-record", "alice", "profile"), "--value", '{"language": "pt"}', '"value":{"language":"pt"}'),
    (("store", "set-content", "shop", "cart", "--user-id", "bob"), "--data", '{"n": 1}', '"content":{"n":1}'),
    (("app", "render", "shop", "--user-id", "alice"), "--template", "{{memory.cart.lang}}", '"text":"pt"'),
    (("store", "define", "shop"), "--stores", "{notes: {retention: 1_day}}", '"technical_name":"notes"'),
    (("bank", "create"), "--name", "chats", '"name":"chats"'),
    (("flow", "search", "support", "--include", "turns"), "--query", "order", '"content":"Where is my order?"'),
]
"""What is typed first, and what the answer tells of it."""


@pytest.mark.parametrize("form", ["argument", "option"])
@pytest.mark.parametrize(("command", "option", "value", "told"), FIRST, ids=[" ".join(one[0][:2]) for one in FIRST])
def test_the_one_field_that_is_needed_may_be_given_without_its_name(
    filled: Path, form: str, command: tuple[str, ...], option: str, value: str, told: str
) -> None:
    with Memory(filled, worker=False) as memory:
        memory.flow("support").session("s1").history.append(role="user", content="Where is my order?")
    given = (value,) if form == "argument" else (option, value)
    code, out, err = run(filled, *command, *given, "--json")
    assert code == 0, err
    assert told in msgspec.json.format(out, indent=-1)


def test_a_list_may_be_given_several_times(filled: Path) -> None:
    """All of it counts, and not only the last."""
    command = ("store", "get-content", "shop", "cart", "--user-id", "alice", "--json")
    code, out, _ = run(filled, *command, "--projections", "seat.row", "--projections", '["lang"]')
    assert (code, msgspec.json.decode(out)["content"]) == (0, {"seat": {"row": 12}, "lang": "pt"})
    change = ("store", "set-content", "shop", "cart", "{}", "--user-id", "alice", "--json")
    code, out, _ = run(filled, *change, "--unset", "lang", "--unset", "seat.row,nothing")
    assert (code, msgspec.json.decode(out)["content"]) == (0, {"seat": {"letter": "C"}})
    code, _, err = run(filled, *change, "--unset", "[1]", "--unset", "@-", stdin="7")
    assert code != 0
    assert "2 times" in err


def test_required_fields_are_given_once(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "definition", "create", "Profile", "--name", "Plan")
    assert (code, "NAME and --name are the same: give one of them." in err, "Usage: " in err) == (2, True, True)
    code, _, err = run(tmp_path, "store", "create", "shop")
    assert (code, "Missing argument 'TECHNICAL_NAME' (or --technical-name)." in err, "Usage: " in err) == (
        2,
        True,
        True,
    )
    with Memory(tmp_path, worker=False) as memory:
        assert memory.definitions.list().definitions == []


def test_what_has_no_name_is_read_as_what_has_one(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "stores.yaml").write_text("notes: {retention: 1_day}\n", encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text("name: hi\nsteps:\n  - {step_type: tekst}\n", encoding="utf-8")
    assert run(filled, "store", "define", "shop", f"@{tmp_path}/stores.yaml")[0] == 0
    assert run(filled, "user", "set-record", "alice", "profile", "@-", stdin='{"name": "Zoë"}')[0] == 0
    assert run(filled, "app", "render", "shop", "@@{{memory.cart.lang}}", "--user-id", "alice")[1] == "@pt\n"
    code, out, _ = run(filled, "workflow", "validate", f"@{tmp_path}/wrong.yaml")
    assert (code, f"{tmp_path}/wrong.yaml:3:" in out) == (1, True)
    code, _, err = run(filled, "runs", "begin-document", "@-", "--inputs", "@-", stdin="{}")
    assert (code, "can be read only once" in err) == (2, True)
    with Memory(filled, worker=False) as memory:
        assert memory.user("alice").records["profile"] == {"name": "Zoë"}
        assert memory.app("shop").stores.get("notes").retention == "1_day"


@cases(
    ("command", "name", "wrong", "said"),
    [
        (("user", "set-record", "alice", "profile"), "value", "{nonsense", "must be JSON"),
        (("user", "set-record", "alice", "profile"), "value", "3", "an object"),
        (("store", "define", "shop"), "stores", "cart", "must be an object of settings by name"),
        (("tenant", "create"), "tenant", "No Tenant", "lower-case"),
    ],
)
def test_errors_name_a_field_as_it_was_given(
    filled: Path, command: tuple[str, ...], name: str, wrong: str, said: str
) -> None:
    code, _, err = run(filled, *command, wrong)
    assert (code, err.startswith(f"Error: {name.upper()}"), said in err) == (2, True, True), err
    code, _, err = run(filled, *command, f"--{name}", wrong)
    assert (code, err.startswith(f"Error: --{name}"), said in err) == (2, True, True), err


def test_what_begins_like_an_option_stands_behind_two_dashes(filled: Path) -> None:
    assert run(filled, "app", "render", "shop", "--user-id", "alice", "--", "-17")[1] == "-17\n"
    assert run(filled, "app", "render", "shop", "--user-id", "alice", "--template=-17")[1] == "-17\n"
    assert run(filled, "app", "render", "shop", "--user-id", "alice", "-17")[0] == 2


def test_an_empty_text_is_given(filled: Path) -> None:
    assert run(filled, "app", "render", "shop", "", "--user-id", "alice")[:2] == (0, "\n")
    code, _, err = run(filled, "app", "render", "shop", "", "--template", "hi", "--user-id", "alice")
    assert (code, "are the same" in err) == (2, True)


def test_yes_or_no_may_be_said_without_a_name(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        file = memory.app("shop").session("s1").files.upload(b"some words", filename="notes.txt").file_id
    asked = ("app", "files-update", "shop", "s1", file)
    for given, active in (("false", False), ("true", True), ("--no-is-active", False)):
        code, out, err = run(tmp_path, *asked, given, "--json")
        assert (code, msgspec.json.decode(out)["is_active"]) == (0, active), err
    assert run(tmp_path, *asked, "maybe")[0] == 2


def test_files_are_given_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One way in all commands: FILE, or `-` for standard input. `@FILE` and `@-` are the same."""
    monkeypatch.chdir(tmp_path)
    files = {
        "stores.yaml": (("store", "define", "shop"), "notes: {retention: 1_day}\n"),
        "profile.json": (("user", "set-record", "alice", "profile"), '{"language": "pt"}'),
        "flow.yaml": (("workflow", "validate"), "name: hi\nsteps:\n  - {step_type: text, template: Hello}\n"),
        "run.yaml": (("workflow", "run"), "name: hi\nsteps:\n  - {step_type: text, template: Hello}\n"),
        "tpl.txt": (("app", "render", "shop"), "some words"),
        "words.txt": (("app", "files-upload", "shop", "s1", "--filename", "words.txt"), "some words"),
    }
    for name, (command, text) in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        for given in (name, f"@{name}", "-"):
            code, _, err = run(tmp_path / "home", *command, given, stdin=text)
            assert code == 0, (command, given, err)
    code, _, err = run(tmp_path / "home", "workflow", "validate", "none.yaml")
    assert (code, err) == (2, "Error: DOCUMENT: there is no file 'none.yaml'.\n")
    code, _, err = run(tmp_path / "home", "workflow", "run", "none.yaml")
    assert (code, err) == (2, "Error: FILE: there is no file 'none.yaml'.\n")
    code, _, err = run(tmp_path / "home", "user", "set-record", "alice", "profile", "none.json")
    assert (code, "must be JSON or the name of a file" in err) == (2, True)


def test_metadata_is_given_in_one_way_everywhere(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"from": "a file"}', encoding="utf-8")
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: hi\nsteps:\n  - {step_type: text, template: '{{metadata.topic}} {{metadata.stars}}'}\n")
    given = (
        "-m",
        "topic=travel=far",
        "--metadata",
        '{"stars": 4}',
        "-m",
        "empty=",
        "--metadata",
        f"{tmp_path}/meta.json",
    )
    expected = {"topic": "travel=far", "stars": 4, "empty": "", "from": "a file"}
    assert run(tmp_path / "home", "user", "add", "alice", "hi", *given)[0] == 0
    assert run(tmp_path / "home", "flow", "append", "f", "s", "hi", "--role", "user", *given)[0] == 0
    assert run(tmp_path / "home", "app", "sessions-update", "shop", "s", *given)[0] == 0
    assert "travel=far 4" in run(tmp_path / "home", "workflow", "run", str(flow), *given)[1]
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.user("alice").history()[0].metadata == expected
        assert memory.flow("f").session("s").history.last(1)[0].metadata == expected
        assert memory.app("shop").session("s").meta().metadata == expected
        assert memory.workflows.show(memory.workflows.runs()[0].id).metadata == expected
    for command in (("user", "add", "alice", "hi"), ("workflow", "run", str(flow))):
        code, _, err = run(tmp_path / "home", *command, "-m", "topic")
        assert (code, err.startswith("Error: --metadata must be `name=text`, JSON or the name of a file")) == (2, True)


def test_what_is_said_comes_from_standard_input(tmp_path: Path) -> None:
    assert run(tmp_path, "user", "add", "alice", "-", stdin="first\nsecond\n")[0] == 0
    with Memory(tmp_path, worker=False) as memory:
        assert memory.user("alice").history()[0].content == "first\nsecond"


def test_banks_are_named_by_their_ids_or_names(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        bank = memory.banks.create("Support notes", type="general").id
        memory.banks.create("twice")
        memory.banks.create("twice")
        assert [one.name for one in memory.banks.list(name="twice")] == ["twice", "twice"]
    for given in (bank, "Support notes"):
        assert run(tmp_path, "bank", "add", given, "aisle seats", "--key", "alice")[0] == 0
        code, out, err = run(tmp_path, "bank", "search", given, "aisle", "--json")
        assert (code, "aisle seats" in out) == (0, True), err
        assert msgspec.json.decode(run(tmp_path, "bank", "get", given, "--json")[1])["id"] == bank
    code, _, err = run(tmp_path, "bank", "get", "nothing")
    assert (code, err) == (4, "Error: There is no bank 'nothing': `memwell bank list` lists them.\n")
    code, _, err = run(tmp_path, "bank", "delete", "twice", "--yes")
    assert (code, "Several banks are called 'twice': give an id" in err) == (5, True)
    assert run(tmp_path, "bank", "delete", "Support notes", "--yes")[0] == 0


def test_workflows_are_named_by_their_ids_or_names(tmp_path: Path) -> None:
    document = "name: {}\nsteps:\n  - {{step_type: text, template: 'Hello {{{{agent.input}}}}'}}\n"
    with Memory(tmp_path, worker=False) as memory:
        workflow = memory.workflows.create(document.format("hello")).id
        for _ in range(2):
            memory.workflows.create(document.format("twice"))
    for given in (workflow, "hello"):
        assert run(tmp_path, "workflow", "run", given, "--input", "Ada")[1] == "Hello Ada\n"
        code, out, err = run(tmp_path, "runs", "begin", given, "--input", "Ada", "--json")
        assert (code, msgspec.json.decode(out)["output"]) == (0, "Hello Ada"), err
        assert msgspec.json.decode(run(tmp_path, "workflow", "get", given, "--json")[1])["id"] == workflow
    code, _, err = run(tmp_path, "workflow", "run", "nothing")
    assert (code, err) == (4, "Error: There is no workflow 'nothing': `memwell workflow list` lists them.\n")
    assert run(tmp_path, "workflow", "run", "twice")[0] == 5


def test_the_sdk_asks_for_the_id_of_what_is_given_by_name(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        bank = memory.banks.create("preferences").id
        hello = {"name": "hello", "steps": [{"step_type": "text", "template": "Hi"}]}
        workflows = [memory.workflows.create(hello).id for _ in range(2)]
        attempts: list[tuple[Callable[[], object], list[str]]] = [
            (lambda: memory.workflows.run("hello"), workflows),
            (lambda: memory.workflows.get("hello"), workflows),
            (lambda: memory.banks.open("preferences").info(), [bank]),
            (lambda: memory.banks.open("nothing").info(), []),
        ]
        for attempt, ids in attempts:
            with pytest.raises(NotFound) as error:
                attempt()
            assert [one for one in (*workflows, bank) if one in error.value.message] == ids
            assert ("Give an id" in error.value.message) is bool(ids)


# -- standard input ------------------------------------------------------------------------------------------------------


def test_json_is_read_from_standard_input(tmp_path: Path) -> None:
    asked = ("user", "set-record", "alice", "profile", "--value", "@-")
    assert run(tmp_path, *asked, stdin='{"name": "Zoë"}')[0] == 0
    with Memory(tmp_path, worker=False) as memory:
        assert memory.user("alice").records["profile"] == {"name": "Zoë"}
    code, _, err = run(tmp_path, *asked, stdin="{nonsense")
    assert (code, "--value in <stdin> must be JSON" in err) == (2, True)
    code, _, err = run(tmp_path, *asked, stdin=b"\xff")
    assert (code, "<stdin> is not UTF-8 text" in err) == (2, True)


def test_a_document_is_read_from_standard_input(tmp_path: Path) -> None:
    asked = ("workflow", "validate", "--document", "@-")
    assert run(tmp_path, *asked, stdin="name: hi\nsteps:\n  - {step_type: text, template: Hello}\n")[0] == 0
    code, out, _ = run(tmp_path, *asked, stdin="name: hi\nsteps:\n  - {step_type: tekst}\n")
    assert (code, "<stdin>:3:" in out) == (1, True)


def test_standard_input_is_read_once(tmp_path: Path) -> None:
    both = ("--inputs", "@-", "--document", "@-")
    code, _, err = run(tmp_path, "runs", "begin-document", *both, stdin="{}")
    assert (code, "can be read only once" in err) == (2, True)


def test_a_file_from_standard_input_needs_a_name(tmp_path: Path) -> None:
    for asked in (("app", "files-upload", "shop", "s1", "@-"), ("app", "upload", "shop", "s1", "-")):
        code, _, err = run(tmp_path, *asked, stdin="some words")
        assert (code, "--filename is missing" in err) == (2, True)
        code, out, err = run(tmp_path, *asked, "--filename", "notes.txt", stdin="some words")
        assert (code, "notes.txt" in out) == (0, True), err
    with Memory(tmp_path, worker=False) as memory:
        files = memory.app("shop").session("s1").files
        assert [files.read(one.file_id) for one in files.list()] == [b"some words"]


def test_several_files_are_added_or_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    code, _, err = run(
        tmp_path / "home", "app", "upload", "shop", "s1", str(tmp_path / "a.txt"), str(tmp_path / "none")
    )
    assert (code, "none cannot be read" in err) == (2, True)
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.app("shop").session("s1").files.list() == []


# -- templates -----------------------------------------------------------------------------------------------------------


def test_a_rendered_text_stands_alone(filled: Path) -> None:
    asked = ("app", "render", "shop", "--user-id", "alice", "--template")
    code, out, err = run(filled, *asked, "You speak {{memory.cart.lang}}{{memory.cart.tone}}.")
    assert (code, out) == (0, "You speak pt.\n")
    assert err == "Warning: `{{memory.cart.tone}}` has no value.\n"
    assert msgspec.json.decode(run(filled, *asked, "hi", "--json")[1])["missing"] == []


def test_a_template_is_read_from_a_file(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "tpl.txt").write_text("You speak {{memory.cart.lang}}.\n", encoding="utf-8")
    asked = ("app", "render", "shop", "--user-id", "alice", "--template")
    assert run(filled, *asked, f"@{tmp_path}/tpl.txt")[1] == "You speak pt.\n"
    assert run(filled, *asked, "@-", stdin="{{memory.cart.lang}}")[1] == "pt\n"
    assert run(filled, *asked, "@@{{memory.cart.lang}}")[1] == "@pt\n", "two `@` are one of the text"
    code, _, err = run(filled, *asked, "@none.txt")
    assert (code, "none.txt" in err) == (74, True)
    code, out, _ = run(filled, "hook", "preview", "--markdown-template", "@-", "--json", stdin="Hi {{user_id}}")
    assert (code, "Hi " in out) == (0, True)


def test_what_is_said_may_begin_with_an_at_sign(tmp_path: Path) -> None:
    assert run(tmp_path, "user", "add", "alice", "@bob is my brother")[0] == 0
    with Memory(tmp_path, worker=False) as memory:
        assert memory.user("alice").history()[0].content == "@bob is my brother"


# -- lists ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["profile,plan", " profile , plan ", '["profile", "plan"]'])
def test_a_list_of_texts_has_commas_or_is_json(tmp_path: Path, given: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for name in ("Profile", "Plan", "Other"):
            memory.definitions.create(name)
        memory.definitions.bind(owner="u1").update({name: {"n": 1} for name in ("profile", "plan", "other")})
    code, out, err = run(tmp_path, "definition", "bind", "--owner", "u1", "--definitions", given, "--json")
    assert code == 0, err
    assert msgspec.json.decode(out)["values"] == {"profile": {"n": 1}, "plan": {"n": 1}}


@pytest.mark.parametrize("given", ["lang,seat.row", '{"lang": 1, "seat.row": 1}', ' ["lang", "seat.row"]'])
def test_fields_to_return_are_named_with_commas_or_as_json(filled: Path, given: str) -> None:
    asked = ("store", "get-content", "shop", "cart", "--user-id", "alice", "--projections", given, "--json")
    code, out, err = run(filled, *asked)
    assert (code, msgspec.json.decode(out)["content"]) == (0, {"lang": "pt", "seat": {"row": 12}}), err


@cases("given", ["[1]", '"lang"', '[["lang"]]', '"lang","seat"', "@-"])
def test_fields_to_return_that_are_no_paths_are_an_error(filled: Path, given: str) -> None:
    asked = ("store", "get-content", "shop", "cart", "--user-id", "alice", "--projections", given)
    code, out, err = run(filled, *asked, stdin="3")
    assert (code, out, err.startswith("Error: --projections ")) == (2, "", True), err
