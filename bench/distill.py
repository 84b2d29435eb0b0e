"""Consolidation offline: the time for a thousand turns, its growth with more turns, and each candidate compared with a search."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter

from memwell import Memory

from . import corpus
from .sizes import Sizes
from .table import Row, at_most, duration, verdict

LIMIT_S = 1.0
LINEAR = 1.5
PER_CANDIDATE = 3.0
TURNS = 1000
ROUNDS = 5
PEOPLE = 500
KINDS = (
    "I bought a {0} {1} for {2} euros.",
    "My sister lives near the {0} {1}, number {2}.",
    "I work with a {0} {1} on floor {2}.",
    "Nice weather today, isn't it?",
    "I like the {0} {1} of {2}.",
    "How are you doing with the {0}?",
)


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    with Memory(folder / "store", worker=False) as memory:
        _consolidated(memory, "warm", 50)
        rounds = [_round(memory, n) for n in range(ROUNDS)]
        whole, double, candidates = (median(column) for column in zip(*rounds, strict=True))
        ratio = median(two / one / 2 for one, two, _ in rounds)
        bare = _searched(memory, "once-0")
        _fill(memory, "large", sizes.entries)
        beside, more = _consolidated(memory, "large", TURNS)
        bare_beside = _searched(memory, "large")
    shown, each, each_beside = f"{duration(whole)}, {candidates} candidates", whole / candidates, beside / more
    known, per = f"  among {sizes.entries:,} facts", "  per candidate, beside a search"
    return [
        Row(f"consolidating {TURNS:,} turns", shown, "-", "-", f"<= {LIMIT_S:g} s", verdict(whole <= LIMIT_S)),
        at_most("  twice as many, per turn", duration(double), duration(whole), ratio, LINEAR),
        at_most(per, duration(each), duration(bare), each / bare, PER_CANDIDATE),
        at_most(known, duration(each_beside), duration(bare_beside), each_beside / bare_beside, PER_CANDIDATE),
    ]


def _round(memory: Memory, number: int) -> tuple[float, float, int]:
    """The time for a thousand turns and for twice as many, and the number of candidates in the thousand."""
    once, candidates = _consolidated(memory, f"once-{number}", TURNS)
    twice, _ = _consolidated(memory, f"twice-{number}", 2 * TURNS)
    return once, twice, candidates


def _searched(memory: Memory, flow: str) -> float:
    """The time of a search in the facts of a flow."""
    asked = corpus.queries([fact.content for fact in corpus.facts(TURNS)], 200, sessions=1)
    place = memory.flow(flow)
    place.search("hello")
    started = perf_counter()
    for one in asked:
        place.search(one.text, 6)
    return (perf_counter() - started) / len(asked)


def _fill(memory: Memory, flow: str, count: int) -> None:
    """Facts about many people, indexed for search."""
    lines = (
        {"type": "memory", "content": fact.content, "subject": f"Person {number % PEOPLE}"}
        for number, fact in enumerate(corpus.facts(count))
    )
    memory.flow(flow).import_lines(lines)
    search = memory.flow(flow).search
    while search("hello").method.endswith("(partly)"):
        pass


def _consolidated(memory: Memory, flow: str, turns: int) -> tuple[float, int]:
    """Return the duration and the number of candidates."""
    words = [fact.content.split() for fact in corpus.facts(turns)]
    said = [KINDS[n % len(KINDS)].format(one[0], one[-1].strip("."), n) for n, one in enumerate(words)]
    history = memory.flow(flow).session("s").history
    for at in range(0, len(said), 500):
        history.extend([{"role": "user", "name": "Alice", "content": text} for text in said[at : at + 500]])
    started, candidates = perf_counter(), 0
    while (plan := memory.flow(flow).consolidate("s")) is not None:
        candidates += len(plan.steps)
    return perf_counter() - started, candidates
