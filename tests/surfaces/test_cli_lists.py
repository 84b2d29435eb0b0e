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


@pytest.fixture(params=[80, 120, None])
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
    assert line.split()[:6] == ["Travel", "Plan", "travel_plan", "thread", "2592000", "s"]
    assert len(line) <= (columns or 200)
    assert ("(UTC)" in head) == (columns != 80), "where there is little room, times are days"


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


@pytest.mark.parametrize("command", [("user", "records", "nobody"), ("app", "list"), ("definition", "list")])
def test_nothing_is_said_to_be_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    (line,) = listed(tmp_path, *command)
    assert line.startswith("No ")


def test_printers_are_named_after_responses() -> None:
    """The table has names instead of types. Each means one response, and so do those that decide about an exit code."""
    names = [response.__name__ for response in {operation.response for operation in OPERATIONS.values()}]
    for name in (*PRINTERS, "Run", "Executed", "Breaking"):
        assert names.count(name) == 1, name
