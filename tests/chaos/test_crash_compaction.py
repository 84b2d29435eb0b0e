"""Workers killed at every step of a compaction, or stopped past their lease, while others write and work.

Every entry is visible or behind exactly one summary, and a worker that slept cannot write.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import pytest

from memwell.sdk._sync_banks import Bank

from ..banks.test_compaction import behind, engine_of
from ..engines import Memory, located
from ..waiting import wait_until
from ..worker_processes import REACHED, StopPoint, WorkerProcess

pytestmark = pytest.mark.long

WRITERS, TURNS = 5, 8
PAUSE_S = 2.0
"""At most, and never the same: workers look again every second, and one would always be there before the other."""
KILLS = (
    StopPoint("claim_job", over=True),
    StopPoint("bank_address"),
    StopPoint("entries_up"),
    StopPoint("hold_job"),
    StopPoint("touch_address"),
    StopPoint("retire_entry"),
    StopPoint("fold_entry"),
    StopPoint("add_summary"),
    StopPoint("add_event"),
    StopPoint("add_summary", over=True),
    StopPoint("finish_job"),
    StopPoint("finish_job", over=True),
)
STOPS = (StopPoint("entries_up", over=True), StopPoint("add_summary", over=True))


class Story:
    """Five people talk into one key of a bank that folds what is older than ten turns."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.bank: Bank = memory.banks.create("chats", max_turns=10)
        self.said: Counter[str] = Counter()
        self._round = 0

    def go_on(self) -> list[Thread]:
        self._round += 1
        writers = [Thread(target=self._write, args=(writer, self._round)) for writer in range(WRITERS)]
        for number in range(WRITERS):
            self.said.update(f"writer {number} round {self._round} turn {turn}." for turn in range(TURNS))
        for writer in writers:
            writer.start()
        return writers

    def _write(self, writer: int, round_: int) -> None:
        for turn in range(TURNS):
            self.bank.add(f"writer {writer} round {round_} turn {turn}.", key="k", speaker="user")

    def require_each_once(self) -> None:
        shown = [one.content for one in self.bank.entries(key="k") if not (one.metadata or {}).get("compaction")]
        assert Counter(shown) + Counter(behind(self.memory)) == self.said
        assert len(shown) <= 10


def wait_until_settled(story: Story) -> None:
    """Until nothing is beyond the threshold any more, and no job for the key is under way."""

    def settled() -> bool:
        states = [job.state for job in story.memory.jobs.list(kind="compact")]
        assert "dead" not in states
        return sum(state in ("ready", "running") for state in states) <= 1  # the one that looks every hour

    wait_until(settled, "compaction did not come to an end")


def under_way(home: Path, point: StopPoint, how: int) -> None:
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
            wait_until_settled(story)
            if how == signal.SIGSTOP:
                stopped.go_on()
                time.sleep(0.3)
        finally:
            stopped.end()
            other.end()
        engine_of(memory).worker.run_due("default")
        story.require_each_once()


def test_workers_killed_at_every_step_lose_nothing_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    """`--rounds 200` kills at each of the points ten times; fewer take one after the other in larger steps."""
    count = len(KILLS) * 10 if rounds >= 200 else 3
    for number in range(count):
        at = number if rounds >= 200 else number * 5
        under_way(tmp_path / f"home{number}", KILLS[at % len(KILLS)], signal.SIGKILL)


def test_a_worker_stopped_past_its_lease_cannot_write(tmp_path: Path, rounds: int) -> None:
    for number in range(20 if rounds >= 200 else 2):
        under_way(tmp_path / f"home{number}", STOPS[number % len(STOPS)], signal.SIGSTOP)
