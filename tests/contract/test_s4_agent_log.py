"""S4: the agent log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memwell import Invalid
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory
from ..live import live


@pytest.mark.every_engine
def test_the_routes_and_their_envelope(tmp_path: Path) -> None:
    """S4.5, S4.6, S4.7, S4.8, S4.9, S4.11, S4.16: the published shapes, times in UTC, last_seen_at moving."""
    clock = FrozenClock()
    with live(tmp_path, worker=False, clock=clock) as server, server.client() as client:
        made = client.post(
            "/api/agent-memory/abc-123", json={"entry_type": "observation", "content": "It looked right."}
        )
        assert made.status_code == 201
        assert list(made.json()) == ["data"]
        clock.advance(minutes=42)
        client.post("/api/agent-memory/abc-123", json={"entry_type": "tool_call", "content": '{ "tool": "query" }'})
        client.post("/api/agent-memory/abc-123", json={"entry_type": "decision", "content": "Send it."})
        sessions = client.get("/api/agent-sessions").json()
        assert sessions == {
            "data": [{"id": "abc-123", "created_at": "2026-04-19T10:00:00Z", "last_seen_at": "2026-04-19T10:42:00Z"}]
        }
        entries = client.get("/api/agent-memory/abc-123").json()["data"]
        shown = [{name: entry[name] for name in ("entry_type", "content", "created_at")} for entry in entries]
        assert shown == [
            {"entry_type": "observation", "content": "It looked right.", "created_at": "2026-04-19T10:00:00Z"},
            {"entry_type": "tool_call", "content": '{ "tool": "query" }', "created_at": "2026-04-19T10:42:00Z"},
            {"entry_type": "decision", "content": "Send it.", "created_at": "2026-04-19T10:42:00Z"},
        ]
        clock.advance(seconds=0.25)
        client.post("/api/agent-memory/abc-123", json={"entry_type": "note", "content": "x"})
        last = client.get("/api/agent-memory/abc-123").json()["data"][-1]["created_at"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", last)
        assert client.get("/api/agent-memory/unknown").json() == {"data": []}


def test_sessions_are_isolated(memory: Memory) -> None:
    """S4.1, S4.2"""
    memory.log("one").append(entry_type="observation", content="seen by one")
    memory.log("two").append(entry_type="observation", content="seen by two")
    assert [entry.content for entry in memory.log("one").entries()] == ["seen by one"]
    assert [entry.content for entry in memory.log("two").entries()] == ["seen by two"]
    assert memory.log("three").entries() == []


def test_entries_keep_their_order_whatever_the_clock_says(memory: Memory, clock: FrozenClock) -> None:
    """S4.3"""
    log = memory.log("s")
    for number in range(5):
        log.append(entry_type="observation", content=str(number))
        clock.advance(minutes=-1)
    assert [entry.content for entry in log.entries()] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    "content",
    [
        '{"a":  1,\n\t"b": [ ]}',
        " leading and trailing \r\n",
        "ünïcødé 漢字 🧠 \u200d",
        "=1+1",
        "{{7*7}}",
        "\\u0000 literal",
        "'; --",
    ],
)
def test_content_is_kept_byte_for_byte_and_never_parsed(memory: Memory, clock: FrozenClock, content: str) -> None:
    """S4.4, S4.10: exactly as recorded, for as long as the session lives (no retention)."""
    memory.log("s").append(entry_type="tool_call", content=content)
    clock.advance(days=3650)
    assert memory.log("s").entries()[0].content.encode() == content.encode()
    memory.log("s").end()
    assert memory.log("s").entries()[0].content.encode() == content.encode()


def test_every_entry_is_returned_however_many(memory: Memory) -> None:
    """S4.7: all entries, chronological."""
    log = memory.log("s")
    for number in range(1205):
        log.append(entry_type="observation", content=str(number))
    assert [entry.content for entry in log.entries()] == [str(number) for number in range(1205)]
    some = memory.call("log.entries", {"session": "s", "after": 1200, "limit": 3})
    assert [entry.seq for entry in some] == [1201, 1202, 1203]


@pytest.mark.every_engine
def test_active_sessions_are_those_not_ended(memory: Memory) -> None:
    """S4.5, C14: the ended ones with status=all; a later entry opens one again."""
    memory.log("one").append(entry_type="observation", content="x")
    memory.log("two").append(entry_type="observation", content="x")
    memory.log("one").end()
    assert [session.id for session in memory.logs()] == ["two"]
    assert {session.id for session in memory.logs("all")} == {"one", "two"}
    memory.log("one").append(entry_type="observation", content="again")
    assert {session.id for session in memory.logs()} == {"one", "two"}


@cases("kind", ["", "has space", "x" * 65, "1st", "tab\t"])
def test_a_bad_entry_type_is_refused(memory: Memory, kind: str) -> None:
    with pytest.raises(Invalid, match="entry_type"):
        memory.log("s").append(entry_type=kind, content="x")


@pytest.mark.every_engine
def test_the_log_is_sealed(memory: Memory) -> None:
    """C10: it is no flow's and no user's, and is never distilled."""
    memory.log("s").append(entry_type="observation", content="x")
    memory.log("s").end()
    assert memory.flows() == []
    assert memory.users() == []
    assert memory.find_session("s") == []
    assert memory.jobs.list(kind="consolidate") == []
