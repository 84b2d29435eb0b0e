"""Workers killed at every step of consolidation, or stopped past their lease, while others write and work.

Every turn is distilled exactly once: no fact is lost, none is there twice, and a worker that slept cannot write.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ..engines import Memory, located
from ..waiting import wait_until
from ..worker_processes import REACHED, StopPoint, WorkerProcess

pytestmark = pytest.mark.long

FLOW = "support"
WRITERS, TURNS, MORE = 5, 4, 3
PAUSE_S = 2.0
"""At most, and never the same: workers look again every second, and one would always be there before the other."""
NAMES = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Heath")
REFUSED = "job.lease_lost"

KILLS = (
    StopPoint("claim_job"),
    StopPoint("claim_job", over=True),
    StopPoint("next_entries"),
    StopPoint("facts_same"),
    StopPoint("hold_job"),
    StopPoint("advance_distilled"),
    StopPoint("add_fact"),
    StopPoint("add_evidence"),
    StopPoint("settle_notes"),
    StopPoint("add_plan"),
    StopPoint("add_event"),
    StopPoint("add_plan", over=True),
    StopPoint("finish_job"),
    StopPoint("finish_job", over=True),
)
"""In the order in which a consolidation comes to them: claiming, reading, looking around, applying, settling."""
STOPS = tuple(StopPoint(name, over=True) for name in ("facts_same", "next_entries", "claim_job", "add_plan"))
"""Between transactions: who is stopped in one keeps its locks, so that nobody can take over what it does."""
UNAPPLIED = STOPS[0]
"""After this one, a plan is still to be applied."""


class Story:
    """A flow in which somebody goes on talking in five sessions, of one boat after the other."""

    def __init__(self, memory: Memory) -> None:
        self.flow = memory.flow(FLOW)
        self.flow.session("before").history.append(role="user", name="Alice", content="I live in Lisbon.")
        self.flow.consolidate("before")
        self.turns = 0
        for session in range(WRITERS):
            self.flow.session(f"s{session}").history.extend([_turn(session, turn) for turn in range(TURNS)])
        self.turns += TURNS

    def go_on(self) -> list[Thread]:
        """In each session somebody ends it, says more, and ends it again, while workers are at it."""
        writers = [Thread(target=self._write, args=(session, self.turns)) for session in range(WRITERS)]
        self.turns += MORE
        for writer in writers:
            writer.start()
        return writers

    def _write(self, session: int, first: int) -> None:
        place = self.flow.session(f"s{session}")
        place.end()
        for turn in range(first, first + MORE):
            place.history.append(**_turn(session, turn))
            time.sleep(0.01)
        place.end()

    def require_each_once(self) -> None:
        facts = self.flow.memories()
        wanted = {f"{boat(session, turn)}." for session in range(WRITERS) for turn in range(self.turns)}
        named = Counter(fact.content.split()[-1] for fact in facts)
        assert named == Counter(["Lisbon.", *wanted])
        for fact in facts:
            assert len(self.flow.memory_history(fact.id).evidence) == 1
        spans = [(one.session, seq) for one in self.flow.plans() for seq in range(one.first_seq, one.last_seq + 1)]
        turns = [(f"s{session}", seq + 1) for session in range(WRITERS) for seq in range(self.turns)]
        assert sorted(spans) == [("before", 1), *turns]


def _turn(session: int, turn: int) -> dict[str, Any]:
    return {"role": "user", "name": "Alice", "content": f"I own a boat called {boat(session, turn)}."}


def boat(session: int, turn: int) -> str:
    """A fact of its own: no two boats have the same name."""
    more, last = divmod(turn, len(NAMES))
    return NAMES[session] + (NAMES[more].lower() if more else "") + NAMES[last].lower()


def settled(memory: Memory) -> bool:
    states = [job.state for job in memory.jobs.list() if job.kind == "consolidate"]
    assert "dead" not in states
    return all(state == "done" for state in states)


def wait_until_settled(memory: Memory) -> None:
    wait_until(lambda: settled(memory), "consolidation did not come to an end")


def under_way(home: Path, point: StopPoint, how: int) -> None:
    """Five writers and two workers, one of which is stopped. They write until it is, for the other may be faster."""
    with Memory(home, worker=False) as memory:
        story = Story(memory)
        stopped, other = WorkerProcess(located(home), point, how), WorkerProcess(located(home))
        try:
            stopped.begin()
            writers = story.go_on()
            other.begin()
            while not stopped.says(REACHED, PAUSE_S * random.random()):
                writers += story.go_on()
                assert len(writers) < 50 * WRITERS, f"no worker came to {point}"
            for writer in writers:
                writer.join()
            wait_until_settled(memory)
            if how == signal.SIGSTOP:
                continued(stopped, point)
        finally:
            stopped.end()
            other.end()
        story.require_each_once()


def continued(worker: WorkerProcess, point: StopPoint) -> None:
    """Let a stopped worker go on with what another has done meanwhile."""
    worker.go_on()
    if point == UNAPPLIED:
        worker.wait_for(REFUSED)
    else:
        time.sleep(0.3)


def test_workers_killed_at_every_step_lose_nothing_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    """G6: `--rounds 200` kills at each of the points twenty times; fewer take one after the other in larger steps."""
    count = len(KILLS) * 20 if rounds >= 200 else 3
    for number in range(count):
        point = KILLS[(number * 5 + 5) % len(KILLS)]
        under_way(tmp_path / f"home-{number}", point, signal.SIGKILL)


def test_a_worker_that_was_stopped_past_its_lease_cannot_write(tmp_path: Path, rounds: int) -> None:
    """G7: it is continued when another has finished its job. With `--rounds 200`, a hundred times."""
    for number in range(100 if rounds >= 200 else 2):
        under_way(tmp_path / f"home-{number}", STOPS[number % len(STOPS)], signal.SIGSTOP)
