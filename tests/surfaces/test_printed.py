"""What commands print for people, on narrow screens and on wide ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memwell.surfaces.cli.output import print_value

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


def test_a_table_that_has_no_room_becomes_blocks(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_value({"took_ms": 3, "results": [HIT, {**HIT, "id": "1" * 26}]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "took_ms  3"
    if columns == 200:
        assert lines[1].split() == ["ID", "CONTENT", "SCORE", "KIND", "CREATED", "AT", "SESSION", "METADATA"]
        assert len(lines) == 4
    else:
        assert lines[1:5] == ["", f"id          {'0' * 26}", "content     Two years.", "            And a day."]
        assert lines[10:12] == ["", f"id          {'1' * 26}"]


def test_a_table_of_few_columns_stays_one(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_value([{"name": "profile", "value": {"about": "x" * 100}, "version": 1}])
    assert capsys.readouterr().out.splitlines()[0].split() == ["NAME", "VALUE", "VERSION"]
