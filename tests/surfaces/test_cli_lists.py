"""Lists on the command line: a line for each thing, on narrow screens and on wide ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

from memwell.registry import OPERATIONS
from memwell.surfaces.cli.main import app
from memwell.surfaces.cli.printers import PRINTERS

from ..engines import Memory, located

ECHO = "name: echo\nsteps:\n  - {step_type: display_result}\n"
LONG = {"language": "pt", "about": "x" * 200}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Memory(tmp_path, worker=False) as memory:
        memory.user("alice").records["profile"] = LONG
        shop = memory.app("shop")
        shop.configure(description="A shop")
        shop.stores.create("cart", name="What is to be bought", access="session", retention="session", strict=True)
        shop.sessions.update("s1", user_id="alice", metadata={"channel": "web"})
        memory.definitions.create("Travel Plan", scope="thread", ttl_seconds=2592000)
        memory.definitions.bind(["travel_plan"], owner="ada", thread="t1").update({"travel_plan": LONG})
    return tmp_path


@pytest.fixture(params=[76, 120, None])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Of a terminal, or none if the output goes elsewhere."""
    width: int | None = request.param
    if width is not None:
        monkeypatch.setenv("FORCE_COLOR", "1")  # it is taken for a terminal
        monkeypatch.setenv("COLUMNS", str(width))
    return width


def listed(home: Path, *arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["--home", located(home), *arguments])
    assert result.exit_code == 0, result.output
    return [Text.from_ansi(line).plain.rstrip() for line in result.stdout.splitlines()]


def test_records_show_as_much_of_their_value_as_there_is_room_for(filled: Path, columns: int | None) -> None:
    head, line = listed(filled, "user", "records", "alice")
    assert head.split() == ["NAME", "VERSION", "UPDATED", "(UTC)", "VALUE"]
    if columns is None:
        assert line.endswith('x"}'), "where there is no screen, nothing is cut"
    else:
        assert (len(line), line[-1]) == (columns, "…")
        assert "profile  1        20" in line


def test_when_records_expire_is_said_if_one_does(filled: Path) -> None:
    with Memory(filled, worker=False) as memory:
        memory.user("alice").records.set("otp", {"code": 1}, ttl_s=60)
    assert "EXPIRES (UTC)" in listed(filled, "user", "records", "alice")[0]


def test_definitions_have_the_columns_of_the_contract(filled: Path, columns: int | None) -> None:
    """S3.2: name, slug, scope, TTL, created and updated."""
    head, line = listed(filled, "definition", "list")
    assert [word for word in head.split() if word != "(UTC)"] == ["NAME", "SLUG", "SCOPE", "TTL", "CREATED", "UPDATED"]
    assert line.split()[:6] == ["Travel", "Plan", "travel_plan", "thread", "30", "days"]
    assert len(line) <= (columns or 200)
    assert ("(UTC)" in head) == (columns != 76), "where there is little room, times are days"


def test_definitions_say_that_there_are_more(filled: Path) -> None:
    with Memory(filled, worker=False) as memory:
        memory.definitions.create("Other Plan")
    assert listed(filled, "definition", "list", "--limit", "1")[-1] == "2 in all; there is more: --page 2"
    assert len(listed(filled, "definition", "list", "--limit", "1", "--page", "2")) == 2


def test_stores_are_a_table(filled: Path, columns: int | None) -> None:
    head, line = listed(filled, "store", "list", "shop")
    assert head.startswith("TECHNICAL NAME  NAME ")
    assert head.removesuffix(" (UTC)").split()[-4:] == ["ACCESS", "RETENTION", "STRICT", "UPDATED"]
    assert line.startswith("cart            What is to be bought  session  session    yes     20")
    assert len(line) <= (columns or 200)


def test_sessions_say_whose_they_are(filled: Path) -> None:
    head, line = listed(filled, "app", "sessions-list", "shop")
    assert head.split() == ["SESSION", "USER", "LAST", "ACTIVE", "(UTC)", "METADATA"]
    assert (line.split()[:2], line.split()[-1]) == (["s1", "alice"], '{"channel":"web"}')


def test_records_of_a_definition_say_whose_they_are(filled: Path, columns: int | None) -> None:
    head, line = listed(filled, "definition", "records", "travel_plan")
    assert head.split()[:3] == ["OWNER", "OF", "VERSION"]
    assert line.startswith("ada    thread t1  1        20")
    assert columns is None or len(line) == columns


def test_apps_are_a_table(filled: Path, columns: int | None) -> None:
    head, line = listed(filled, "app", "list")
    assert head.split() == ["APP", "STORES", "UPDATED", "(UTC)", "DESCRIPTION"]
    assert (line.split()[:2], line.endswith("A shop")) == (["shop", "1"], True)


def test_every_list_is_a_table(tmp_path: Path, columns: int | None) -> None:
    """With a line for each item, and whole ids, however narrow the terminal is."""
    with Memory(tmp_path, worker=False) as memory:
        shop = memory.app("shop").session("s1")
        ids = {
            ("bank", "list"): [memory.banks.create(name, type="general").id for name in ("chats", "a bank of notes")],
            ("hook", "list"): [memory.hooks.create(name, "Hello {{user_id}}. " * 20).id for name in ("One", "Two")],
            ("app", "files-list", "shop", "s1"): [
                shop.files.upload(b"words", filename=f"{number}.txt").file_id for number in range(2)
            ],
            ("runs", "list"): [memory.workflows.run(ECHO, "What should I see there? " * 9).id for _ in range(2)],
        }
        bank = memory.banks.open(ids["bank", "list"][0])
        ids["bank", "entries", "chats"] = [bank.add(text * 50, key="alice").id for text in ("long ", "words ")]
        ids["bank", "load", "chats", "alice"] = ids["bank", "entries", "chats"]
    for command, expected in ids.items():
        head, *lines = listed(tmp_path, *command)
        assert head.isupper() or "(UTC)" in head, command
        assert sorted(word for line in lines for word in line.split() if word in expected) == sorted(expected), command
        assert len(lines) == 2 + lines[-1].startswith("There is no room for"), command
        assert all(len(line) <= (columns or 10_000) for line in lines), command


def test_schemas_are_readable(tmp_path: Path, columns: int | None) -> None:
    schema = {
        "type": "object",
        "properties": {
            "language": {"enum": ["en", "pt"], "description": "The language."},
            "seat": {"type": "object", "properties": {"row": {"type": "integer", "minimum": 1}}, "required": ["row"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["language"],
        "additionalProperties": False,
    }
    with Memory(tmp_path, worker=False) as memory:
        memory.app("shop").stores.create("cart", schema=schema)
    lines = listed(tmp_path, "store", "get", "shop", "cart")
    at = lines.index("schema")
    assert [" ".join(line.split()) for line in lines[at + 1 : at + 6]] == [
        'language "en" | "pt" required The language.',
        "seat object",
        "row integer required, minimum 1",
        "tags array of string",
        "additionalProperties false",
    ]
    assert lines[at + 3].startswith("    row ")


def test_what_can_be_piped_stands_alone(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.banks.create("notes", type="general").add("aisle seats", key="alice")
        memory.user("alice").add("I live in Porto.")
    expected = {
        ("bank", "load", "notes", "alice", "--content-type", "text/plain"): "aisle seats\n",
        ("bank", "search", "notes", "aisle", "--content-type", "text/plain"): "aisle seats\n",
    }
    for command, text in expected.items():
        result = CliRunner().invoke(app, ["--home", located(tmp_path), *command])
        assert (result.exit_code, result.stdout) == (0, text)
    result = CliRunner().invoke(app, ["--home", located(tmp_path), "user", "context", "alice"])
    assert ("tokens" in result.stdout, "tokens" in result.stderr) == (False, True)


def test_several_lists_have_headings(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.banks.create("chats").add("hi", key="alice", speaker="user")
    lines = listed(tmp_path, "bank", "stats", "chats")
    assert [line for line in lines if line in ("Top keys", "Speakers", "No tags.")] == [
        "Top keys",
        "Speakers",
        "No tags.",
    ]


@pytest.mark.parametrize("command", [("user", "records", "nobody"), ("app", "list"), ("definition", "list")])
def test_nothing_is_said_to_be_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    (line,) = listed(tmp_path, *command)
    assert line.startswith("No ")


def test_printers_are_named_after_responses() -> None:
    """The table has names instead of types. Each means one response, and so do those that decide about an exit code."""
    names = [response.__name__ for response in {operation.response for operation in OPERATIONS.values()}]
    for name in (*PRINTERS, "Run", "Executed", "Breaking"):
        assert names.count(name) == 1, name
