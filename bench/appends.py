"""Durable appends by one caller and by many concurrent callers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from threading import Barrier, Thread
from time import perf_counter

from memwell import Memory

from .bare import BareWriter, bare_writer, locked
from .measure import alternate, median_ratio
from .sizes import APPENDERS, Sizes
from .table import Row, at_most, rate, spread, verdict
from .texts import FLOW, TURN

SINGLE_LIMIT = 1.5
GROUP_SHARE = 0.5


def single(folder: Path, sizes: Sizes) -> Row:
    """One durable append through the SDK, compared with a bare writer thread."""
    with Memory(folder / "single") as memory, bare_writer(folder / "single.db") as bare:
        ours, limit = alternate(sizes.appends, _ours(memory, "one"), _bare(bare, "one"))
    ratio = median_ratio(ours.blocks, limit.blocks)
    return at_most("durable append, one caller", spread(ours), spread(limit), ratio, SINGLE_LIMIT)


def grouped(folder: Path, sizes: Sizes) -> Row:
    """Concurrent appenders, each in its own session, compared with a bare group-commit queue."""
    with Memory(folder / "grouped") as memory, bare_writer(folder / "grouped.db") as bare:
        names = [f"session-{n}" for n in range(APPENDERS)]
        sides = [[_ours(memory, name) for name in names], [_bare(bare, name) for name in names]]
        ours, limit = rates(sides, sizes.group_rounds, sizes.group_s)
    share = median_ratio(ours, limit)
    texts = f"durable appends, {APPENDERS} threads", rate(median(ours)), rate(median(limit))
    return Row(*texts, f"{share:.0%}", f">= {GROUP_SHARE:.0%}", verdict(share >= GROUP_SHARE))


def rates(sides: list[list[Callable[[], object]]], rounds: int, seconds: float) -> list[list[float]]:
    """Operations per second of each side, round by round, one side after the other."""
    for side in sides:
        _rate(side, 0.2)
    found = [[_rate(side, seconds) for side in sides] for _ in range(rounds)]
    return [list(column) for column in zip(*found, strict=True)]


def _ours(memory: Memory, session: str) -> Callable[[], object]:
    history = memory.flow(FLOW).session(session).history
    return lambda: history.append(role="user", content=TURN)


def _bare(writer: BareWriter, session: str) -> Callable[[], object]:
    gate = locked()
    return lambda: writer.append(session, gate)


def _rate(works: list[Callable[[], object]], seconds: float) -> float:
    """Operations per second if a separate thread repeats each function."""
    counts = [0] * len(works)
    start = Barrier(len(works) + 1)

    def repeat(place: int) -> None:
        work, done = works[place], 0
        start.wait()
        until = perf_counter() + seconds
        while perf_counter() < until:
            work()
            done += 1
        counts[place] = done

    threads = [Thread(target=repeat, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    start.wait()
    started = perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (perf_counter() - started)
