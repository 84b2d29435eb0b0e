"""A store full of indexed facts for the measurements of search, written through the public API."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from memwell import Memory

from .corpus import Fact, facts
from .texts import FLOW

READY_S = 1800.0


@dataclass(frozen=True, slots=True)
class Store:
    """A directory with the facts, all their words and vectors, and no waiting jobs."""

    home: Path
    facts: list[Fact]
    written_s: float
    embedded_s: float

    @property
    def texts(self) -> list[str]:
        return [fact.content for fact in self.facts]

    @property
    def bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.home / "tenants").iterdir())


def build(home: Path, count: int) -> Store:
    """Write the facts, then wait until they are embedded."""
    found = list(facts(count))
    started = time.perf_counter()
    with Memory(home, worker=False) as memory:
        memory.flow(FLOW).import_lines(map(_line, found))
    written = time.perf_counter()
    with Memory(home, worker=True) as memory:
        _wait(memory)
    return Store(home, found, written - started, time.perf_counter() - written)


def _line(fact: Fact) -> dict[str, object]:
    place = {"type": "memory", "session": fact.session, "id": fact.id}
    return {**place, "content": fact.content, "metadata": fact.metadata}


def _wait(memory: Memory) -> None:
    """Search until everything is embedded, and wait for the running jobs."""
    until = time.monotonic() + READY_S
    while _is_partly(memory) or _is_waiting(memory):
        if time.monotonic() > until:
            raise RuntimeError("the store was not ready in time")
        time.sleep(0.2)


def _is_partly(memory: Memory) -> bool:
    return "partly" in memory.flow(FLOW).search("hello").method


def _is_waiting(memory: Memory) -> bool:
    states = [one.state for one in memory.status().backlog if one.kind == "embed"]
    if "dead" in states:
        raise RuntimeError("the job that embeds has failed permanently")
    return any(state in ("ready", "running") for state in states)
