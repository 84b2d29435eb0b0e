"""Output of commands on narrow and wide terminals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.text import Text

from memwell.surfaces.cli.output import format_json, print_value, wrap_text

from ..cases import cases

AT = datetime(2026, 1, 1, tzinfo=UTC)
HIT: dict[str, Any] = {
    "id": "0" * 26,
    "content": "Two years.\nAnd a day.",
    "score": 0.61,
    "kind": "document",
    "created_at": AT,
    "session": "s1",
    "metadata": {"file_id": "0" * 26},
}


@pytest.fixture(params=[80, 200])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # it is taken for a terminal
    monkeypatch.setenv("COLUMNS", "80")


def printed(value: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_value(value)
    return [Text.from_ansi(line).plain.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("terminal")
def test_a_table_that_has_no_room_becomes_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed({"took_ms": 3, "results": [HIT, {**HIT, "id": "1" * 26}]}, capsys)
    assert lines[0] == "took_ms  3"
    assert lines[1:5] == ["", f"id          {'0' * 26}", "content     Two years.", "            And a day."]
    assert lines[10:12] == ["", f"id          {'1' * 26}"]


def test_a_table_elsewhere_has_a_line_for_each_item_and_cuts_nothing(
    columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed({"took_ms": 3, "results": [HIT, {**HIT, "id": "1" * 26}]}, capsys)
    assert lines[:2] == ["took_ms  3", ""]
    assert lines[2].split() == ["ID", "CONTENT", "SCORE", "KIND", "CREATED", "(UTC)", "SESSION", "METADATA"]
    assert [line.split()[0] for line in lines[3:]] == ["0" * 26, "1" * 26]
    assert "Two years. And a day." in lines[3]


@pytest.mark.usefixtures("terminal")
def test_a_table_cuts_its_longest_text_but_no_identifier(capsys: pytest.CaptureFixture[str]) -> None:
    name = "n" * 40
    head, line = printed([{"name": name, "value": {"about": "x" * 100}, "open": True}], capsys)
    assert head.split() == ["NAME", "VALUE", "OPEN"]
    assert (len(head), line.split()[0], line.split()[-1], "…" in line) == (80, name, "yes", True)


# -- one thing, in a terminal ----------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "lang": {"type": "string"},
        "seat": {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]},
    },
    "required": ["lang"],
}
ONE: dict[str, Any] = {
    "name": "profile",
    "tags": ["a", "b"],
    "object": SCHEMA,
    "about": "Some words that are more than fit. " * 3,
}
"""What has a schema that is too long for a line, and a text that is."""


@pytest.mark.usefixtures("terminal")
def test_json_that_does_not_fit_beside_its_name_is_laid_out_below(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(ONE, capsys)
    assert lines[:3] == ["name    profile", 'tags    ["a", "b"]', "object"]
    assert lines[3:15] == [
        "  {",
        '    "type": "object",',
        '    "properties": {',
        '      "lang": {"type": "string"},',
        '      "seat": {',
        '        "type": "object",',
        '        "properties": {"row": {"type": "integer"}},',
        '        "required": ["row"]',
        "      }",
        "    },",
        '    "required": ["lang"]',
        "  }",
    ]
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("terminal")
def test_texts_stay_in_their_column(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed({"id": 1, "about": ONE["about"] + "\n- more"}, capsys)
    assert lines == [
        "id     1",
        "about  Some words that are more than fit. Some words that are more than fit.",
        "       Some words that are more than fit.",
        "       - more",
    ]


@pytest.mark.usefixtures("terminal")
def test_what_may_be_copied_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    link = "https://example.com/" + "x" * 100
    assert printed({"link": link}, capsys) == [f"link  {link}"]
    assert printed({"links": [link]}, capsys)[2] == f'    "{link}"'


@pytest.mark.usefixtures("terminal")
def test_values_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ({"a": "\x9b2J"}, {"a": "\x9b2J" + " word" * 30}):
        print_value({"value": value})
        out = capsys.readouterr().out
        assert ("\x9b" in out, "\\x9b2J" in out) == (False, True)


def test_without_a_terminal_lines_are_not_wrapped(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(ONE, capsys)
    assert lines[2] == f"object  {msgspec.json.encode(SCHEMA).decode()}"
    assert (len(lines), lines[3]) == (4, f"about   {ONE['about']}".rstrip())


@pytest.mark.parametrize("width", [40, 80, 200])
def test_what_is_laid_out_is_the_same_value(width: int) -> None:
    value = {"a": [{}, [], [[1, 2.5, None], {"deep": [{"er": True}] * 9}], "x" * 50], "b": SCHEMA, "é": "語語"}
    lines = format_json(value, width)
    assert msgspec.json.decode("".join(lines)) == value
    assert [line for line in lines if cell_len(line) > width and "x" * 50 not in line] == []


@cases(
    ("text", "lines"),
    [
        ("", [""]),
        ("a\n\nb", ["a", "", "b"]),
        ("  - some words that go on", ["  - some words that", "go on"]),
        ("see " + "x" * 30 + " now", ["see", "x" * 30, "now"]),
        ("語" * 12, ["語" * 10, "語" * 2]),
    ],
)
def test_texts_are_broken_between_words(text: str, lines: list[str]) -> None:
    assert wrap_text(text, 20) == lines
