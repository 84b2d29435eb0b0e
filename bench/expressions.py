"""Expressions: the cost of their own process, and the effect of two hundred malicious ones on the requests of other callers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter

from tests.context.evil import evil

from memwell import Memory, MemwellError
from memwell.context import expression

from .measure import Timings, alternate, median_ratio
from .sizes import Sizes
from .table import Row, at_most, duration, spread, verdict
from .texts import FLOW, TURN

LONGEST_S = 1.0
BESIDE = 1.5
BLOCK = 40
CALLERS = 2  # as many as a lane admits
SOURCE = "='Hello ' & ($context.memory.profile.name ? $context.memory.profile.name : 'there')"
SCOPE = {"input": {"text": "hello"}, "context": {"memory": {"profile": {"name": "Ada"}}}}


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    try:
        return [_round_trip(sizes), *_beside(folder)]
    finally:
        expression.close()


def _round_trip(sizes: Sizes) -> Row:
    jsonata = importlib.import_module("jsonatapy")
    assert expression.evaluate([SOURCE], SCOPE) == ["Hello Ada"]
    ours, bare = alternate(
        sizes.reads,
        lambda: expression.evaluate([SOURCE], SCOPE),
        lambda: jsonata.compile(SOURCE[1:]).evaluate_json_or_none("{}", SCOPE),
    )
    ratio = median_ratio(ours.blocks, bare.blocks)
    return Row("evaluate an expression, in a process of its own", spread(ours), spread(bare), f"{ratio:.2f} x")


class Evil(Thread):
    """A caller that sends malicious expressions one after the other."""

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.took: list[float] = []
        self._sources = sources
        self._may, self._rests = Event(), Event()

    def run(self) -> None:
        for source in self._sources:
            if not self._may.is_set():
                self._rests.set()
                self._may.wait()
            started = perf_counter()
            with suppress(MemwellError):
                expression.evaluate([source], {}, lane="evil")
            self.took.append(perf_counter() - started)

    @contextmanager
    def let_loose(self) -> Iterator[None]:
        self._rests.clear()
        self._may.set()
        yield
        self._may.clear()
        while self.is_alive() and not self._rests.wait(0.1):
            pass


def _beside(folder: Path) -> list[Row]:
    """Alternate requests on an idle server with requests during malicious expressions of another caller."""
    with Memory(folder / "expressions", worker=False) as memory:
        session = memory.flow(FLOW).session("alice")
        session.history.append(role="user", content=TURN)
        memory.flow(FLOW).write("Ships to the EU only")
        names = count()
        requests: dict[str, Callable[[], object]] = {
            "append a turn": lambda: session.history.append(role="user", content=f"{TURN} {next(names)}"),
            "search": lambda: memory.flow(FLOW).search("delivery area", limit=5),
            "evaluate an expression": lambda: expression.evaluate([SOURCE], SCOPE, lane="good"),
        }
        bad = [Evil(evil()[number::CALLERS]) for number in range(CALLERS)]
        for caller in bad:
            caller.start()
        quiet, loud = ({name: Timings([], []) for name in requests} for _ in range(2))
        for request in requests.values():
            request()
        while any(caller.is_alive() for caller in bad):
            _block(requests, quiet)
            with ExitStack() as loose:
                for caller in bad:
                    loose.enter_context(caller.let_loose())
                _block(requests, loud)
    took = [seconds for caller in bad for seconds in caller.took]
    slowest = max(took)
    first = Row(
        f"{len(took)} evil expressions, {CALLERS} at a time: the slowest",
        f"{duration(slowest)} (median {duration(median(took))})",
        target=f"<= {LONGEST_S:g} s",
        verdict=verdict(slowest <= LONGEST_S),
    )
    return [first, *(_ratio(name, loud[name], quiet[name]) for name in requests)]


def _block(requests: dict[str, Callable[[], object]], kept: dict[str, Timings]) -> None:
    for name, request in requests.items():
        took = []
        for _ in range(BLOCK):
            started = perf_counter()
            request()
            took.append(perf_counter() - started)
        kept[name].each.extend(took)
        kept[name].blocks.append(median(took))


def _ratio(name: str, loud: Timings, quiet: Timings) -> Row:
    pairs = min(len(loud.blocks), len(quiet.blocks))
    ratio = median_ratio(loud.blocks[:pairs], quiet.blocks[:pairs])
    return at_most(f"{name}, beside them", spread(loud), spread(quiet), ratio, BESIDE)
