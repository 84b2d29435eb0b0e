"""Timing, in blocks that alternate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

FEWEST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Blocks:
    """The number of rounds and of operations in each. There are fewer rounds if they take too long."""

    rounds: int
    block: int
    longest_s: float


@dataclass(frozen=True, slots=True)
class Timings:
    """The seconds of one side: every operation, and the median of each block."""

    each: list[float]
    blocks: list[float]

    @property
    def median(self) -> float:
        return median(self.each)

    @property
    def least(self) -> float:
        return min(self.each)


def alternate(shape: Blocks, *sides: Callable[[], object]) -> list[Timings]:
    """Time operations in small blocks, one side after the other; the first round only warms up."""
    timings = [Timings([], []) for _ in sides]
    until = perf_counter() + shape.longest_s
    for number in range(shape.rounds + 1):
        if number > FEWEST_ROUNDS and perf_counter() > until:
            break
        for kept, side in zip(timings, sides, strict=True):
            took = _timed(side, shape.block)
            if number:
                kept.each.extend(took)
                kept.blocks.append(median(took))
    return timings


def median_ratio(ours: list[float], bare: list[float]) -> float:
    """The ratio to the bare limit, round by round, because both blocks of a round ran under the same load."""
    return median(a / b for a, b in zip(ours, bare, strict=True))


def differences(more: Timings, less: Timings) -> list[float]:
    """The difference in time between the sides, block by block."""
    return [a - b for a, b in zip(more.blocks, less.blocks, strict=True)]


def _timed(work: Callable[[], object], count: int) -> list[float]:
    took = []
    for _ in range(count):
        started = perf_counter()
        work()
        took.append(perf_counter() - started)
    return took
