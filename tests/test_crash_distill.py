"""Workers killed, or stopped past their lease, at every step of consolidation, while others write and work.

Every turn is distilled exactly once: no fact is lost, none is there twice, and a worker that slept cannot write.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from memwell import Memory
from memwell.clock import SECOND
from memwell.config import load
from memwell.engine import Engine
from memwell.lifecycle.worker import Worker
from memwell.sdk._sync import Flow
from tests.engines import located

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
FLOW = "support"
LEASE = SECOND // 2
SESSIONS, TURNS, MORE = 6, 5, 4
POINTS = 12
"""More than the reads and writes of one consolidation: claiming, reading, looking around, applying, settling."""
DONE_S = 60.0
NAMES = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Heath", "Islet", "Jetty")


def statement(session: int, turn: int) -> str:
    """A fact of its own: no two boats have the same name."""
    return f"I own a boat called {NAMES[session]}{NAMES[turn].lower()}."


def work(home: str, deadly: int, how: int) -> None:
    """A worker, in a process of its own, that is struck at the n-th transaction of its jobs; 0: never."""
    engine = Engine.open(load(home=home))
    worker = Worker(engine.store, engine.clock, engine._handlers(), lease=LEASE)
    if deadly:
        _strike_at(engine, deadly, how)
    print("ready", flush=True)
    worker.work()


def _strike_at(engine: Engine, deadly: int, how: int) -> None:
    """Strike before a transaction, or, every other time, once it is over: its answer does not arrive."""
    store: Any = engine.store
    count = iter(range(1, sys.maxsize))

    def struck(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(tenant: str, work: Callable[..., Any]) -> Any:
            number = next(count)
            if number == deadly and deadly % 2:
                os.kill(os.getpid(), how)
            result = method(tenant, work)
            if number == deadly and not deadly % 2:
                os.kill(os.getpid(), how)
            return result

        return call

    store.read, store.write = struck(store.read), struck(store.write)


class Child:
    """A worker process."""

    def __init__(self, home: str, deadly: int = 0, how: int = signal.SIGKILL) -> None:
        command = [sys.executable, "-c", f"from {__name__} import work; work({home!r}, {deadly}, {int(how)})"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def told(memory: Memory) -> Flow:
    flow = memory.flow(FLOW)
    for session in range(SESSIONS):
        turns = [{"role": "user", "name": "Alice", "content": statement(session, turn)} for turn in range(TURNS)]
        flow.session(f"s{session}").history.extend(turns)
    return flow


def go_on(flow: Flow, session: int) -> None:
    """A writer: it ends a session, says more, and ends it again, while workers are at it."""
    place = flow.session(f"s{session}")
    place.end()
    for turn in range(TURNS, TURNS + MORE):
        place.history.append(role="user", name="Alice", content=statement(session, turn))
        time.sleep(0.01)
    place.end()


def settled(memory: Memory) -> bool:
    states = [job.state for job in memory.jobs.list() if job.kind == "consolidate"]
    assert "dead" not in states
    return all(state == "done" for state in states)


def wait_until_settled(memory: Memory) -> None:
    until = time.monotonic() + DONE_S
    while not settled(memory):
        assert time.monotonic() < until, "consolidation did not come to an end"
        time.sleep(0.05)


def require_each_once(flow: Flow) -> None:
    facts = flow.memories()
    wanted = {f"{NAMES[session]}{NAMES[turn].lower()}" for session in range(SESSIONS) for turn in range(TURNS + MORE)}
    named = Counter(name for fact in facts for name in wanted if name in fact.content)
    assert set(named) == wanted
    assert set(named.values()) == {1}
    for fact in facts:
        assert len(flow.memory_history(fact.id).evidence) == 1
    spans = [(plan.session, seq) for plan in flow.plans() for seq in range(plan.first_seq, plan.last_seq + 1)]
    assert sorted(spans) == sorted(
        (f"s{session}", seq + 1) for session in range(SESSIONS) for seq in range(TURNS + MORE)
    )


def under_way(home: Path, struck: int, how: int) -> None:
    with Memory(home, worker=False) as memory:
        flow = told(memory)
        workers = [Child(located(home), struck, how), Child(located(home))]
        try:
            writers = [Thread(target=go_on, args=(flow, session)) for session in range(SESSIONS)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            wait_until_settled(memory)
            workers[0].process.send_signal(signal.SIGCONT)
            time.sleep(0.1)
            wait_until_settled(memory)
        finally:
            for worker in workers:
                worker.end()
        require_each_once(flow)


def test_workers_killed_at_every_step_lose_nothing_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    """G6: `make chaos` strikes at each of the points twenty times."""
    for number in range(POINTS * 20 if rounds >= 200 else max(3, rounds // 8)):
        under_way(tmp_path / f"home-{number}", 1 + number % POINTS, signal.SIGKILL)


def test_a_worker_that_was_stopped_past_its_lease_cannot_write(tmp_path: Path, rounds: int) -> None:
    """G7: it is continued when another has finished its job."""
    for number in range(max(2, rounds // 10)):
        under_way(tmp_path / f"home-{number}", 2 + number % POINTS, signal.SIGSTOP)
