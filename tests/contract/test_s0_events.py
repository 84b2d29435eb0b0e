"""S0.10: every read and every write is shown live, as it happens, across processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread

import httpx
import msgspec
import pytest

from memwell import Event, StorageError

from ..engines import Memory, located
from ..live import live
from .conftest import engine_of

WRITER = """
import sys
from memwell import Memory
memory = Memory(sys.argv[1])
session = memory.flow("support").session("s1")
session.history.append(role="user", content="a secret word")
session.history.last(5)
memory.flow("other").write("elsewhere")
"""


MARK = "mark"
"""A session that is read until a watcher sees it: from then on it sees everything."""


def watched(memory: Memory) -> Queue[Event]:
    """Events as another process would see them."""
    queue: Queue[Event] = Queue()
    begun = threading.Event()

    def pump() -> None:
        with suppress(httpx.TransportError, StorageError):
            for event in memory.watch():
                if event.session == MARK:
                    begun.set()
                else:
                    queue.put(event)

    Thread(target=pump, daemon=True).start()
    while not begun.wait(0.02):
        memory.flow("support").session(MARK).history.last(1)
    return queue


def test_reads_and_writes_of_another_process_are_seen_as_they_happen(tmp_path: Path) -> None:
    """S0.10"""
    memory = Memory(tmp_path, worker=False)
    memory.status()
    queue = watched(memory)
    subprocess.run([sys.executable, "-c", WRITER, located(tmp_path)], check=True)
    events = [queue.get(timeout=10) for _ in range(3)]
    seen = {(event.effect, event.operation, event.dialect, event.name, event.session) for event in events}
    assert seen == {
        ("write", "flows.append", "flow", "support", "s1"),
        ("read", "flows.last", "flow", "support", "s1"),
        ("write", "flows.write", "flow", "other", None),
    }
    assert b"secret" not in msgspec.json.encode(events)


def test_the_stream_over_http_shows_both_and_resumes_where_it_was(tmp_path: Path) -> None:
    """S0.10: server-sent events, with numbers for what was written."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        session = memory.flow("support").session("s1")
        session.history.append(role="user", content="before")
        lines: Queue[str] = Queue()
        begun = threading.Event()

        def pump(headers: dict[str, str]) -> None:
            headers = {"authorization": f"Bearer {server.key}", **headers}
            url = f"{server.url}/v1/events?flow=support"
            with suppress(httpx.TransportError), httpx.stream("GET", url, headers=headers, timeout=20) as response:
                for line in response.iter_lines():
                    if MARK in line:
                        begun.set()
                    elif begun.is_set():
                        lines.put(line)

        Thread(target=pump, args=({},), daemon=True).start()
        while not begun.wait(0.02):
            memory.flow("support").session(MARK).history.last(1)
        session.history.append(role="user", content="during")
        session.history.last(5)
        memory.user("alice").add("not of this flow")
        found = _collect(lines, 2)
        assert {event.operation for event in found} == {"flows.append", "flows.last"}
        Thread(target=pump, args=({"last-event-id": "0"},), daemon=True).start()
        replayed = [event for event in _collect(lines, 2) if event.effect == "write"]
        assert [event.operation for event in replayed] == ["flows.append", "flows.append"]


def _collect(lines: Queue[str], count: int) -> list[Event]:
    found: list[Event] = []
    deadline = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline:
        line = lines.get(timeout=15)
        if line.startswith("data: "):
            found.append(msgspec.json.decode(line[6:], type=Event))
    return found


def test_a_flow_key_sees_only_events_of_its_flow(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        key = memory.keys.create("tied", "reader", flow="support").secret
        with server.memory(key) as tied:
            queue = watched(tied)
            memory.user("alice").add("private")
            memory.flow("other").write("other")
            memory.flow("support").session("s").history.append(role="user", content="hi")
            event = queue.get(timeout=10)
            assert (event.name, event.session) == ("support", "s")
            assert queue.empty()


def test_a_stream_ends_with_its_key_and_with_its_tenant(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.tenants.create("gone")
        revoked = memory.keys.create("revoked", "reader")
        dropped = memory.keys.create("dropped", "reader", tenant="gone")
        begun: Queue[str] = Queue()
        ended: Queue[str] = Queue()

        def pump(name: str, key: str) -> None:
            headers = {"authorization": f"Bearer {key}"}
            with httpx.stream("GET", f"{server.url}/v1/events", headers=headers, timeout=20) as response:
                for _ in response.iter_lines():
                    begun.put(name)
            ended.put(name)

        for key in (revoked, dropped):
            Thread(target=pump, args=(key.name, key.secret), daemon=True).start()
        seen: set[str] = set()
        while len(seen) < 2:
            seen.add(begun.get(timeout=15))
        assert ended.empty()
        memory.keys.revoke(revoked.id)
        memory.tenants.delete("gone")
        assert {ended.get(timeout=15), ended.get(timeout=15)} == {"revoked", "dropped"}


@pytest.mark.parametrize("bad", ["-1", "abc", "9" * 30])
def test_a_bad_event_number_is_refused(tmp_path: Path, bad: str) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        assert client.get("/v1/events", headers={"last-event-id": bad}).status_code == 400


def _next(queue: Queue[Event], operation: str) -> Event:
    """The next event of an operation that was carried out."""
    while True:
        event = queue.get(timeout=10)
        if event.effect == "write" and event.operation == operation:
            return event


def test_consolidation_is_seen_with_names_and_counts_and_no_words(tmp_path: Path) -> None:
    """S0.10: whoever watches sees that a plan was applied or taken back: where, and how many facts were written."""
    with Memory(tmp_path, worker=False) as memory:
        queue = watched(memory)
        flow, seen = memory.flow("support"), []
        flow.session("s1").history.append(role="user", name="Alice", content="I live in Lisbon. I have two cats.")
        plan = flow.consolidate("s1", dry_run=True)
        assert plan is not None
        seen.append(_next(queue, "flows.consolidate"))
        assert (seen[-1].name, seen[-1].session, seen[-1].entries) == ("support", "s1", 0), "nothing is written yet"
        flow.apply(plan.id)
        seen.append(_next(queue, "flows.apply_plan"))
        assert (seen[-1].dialect, seen[-1].name, seen[-1].entries) == ("flow", "support", 2)
        flow.revert(plan.id)
        seen.append(_next(queue, "flows.revert_plan"))
        assert (seen[-1].dialect, seen[-1].name, seen[-1].entries) == ("flow", "support", 0)
        assert not any(word in msgspec.json.encode(seen) for word in (b"Lisbon", b"cats", b"Alice"))


def test_a_plan_that_only_confirms_is_seen_in_its_session(tmp_path: Path) -> None:
    """S0.10: no fact is written by it."""
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("support")
        for session in ("s1", "s2"):
            flow.session(session).history.append(role="user", name="Alice", content="I live in Lisbon.")
        flow.consolidate("s1")
        queue = watched(memory)
        plan = flow.consolidate("s2", dry_run=True)
        assert plan is not None
        assert plan.counts["merged"] == 1
        flow.apply(plan.id)
        flow.revert(plan.id)
        for operation in ("flows.apply_plan", "flows.revert_plan"):
            event = _next(queue, operation)
            assert (event.name, event.session, event.entries) == ("support", "s2", 0)


def test_facts_that_a_worker_makes_are_found(tmp_path: Path) -> None:
    """S0.10: the event is written in the transaction of the plan."""
    with Memory(tmp_path, worker=False) as memory:
        queue = watched(memory)
        session = memory.flow("support").session("s1")
        session.history.append(role="user", name="Alice", content="I live in Lisbon.")
        session.end()
        assert not memory.flow("support").memories()
        engine_of(memory).worker.run_due("default", without=("embed",))
        found = [_next(queue, "flows.consolidate"), _next(queue, "flows.consolidate")]
        assert {(event.name, event.session, event.entries, event.actor) for event in found} == {
            ("support", None, 1, "worker"),
            ("support", "s1", 0, "worker"),
        }
