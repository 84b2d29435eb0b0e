"""Search through the SDK, compared with `bare_search` on the same facts. No query is repeated: Memwell caches the positions
of words, so a repeated query would be faster. A query's vector is made within the measured time on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from time import perf_counter
from typing import Any

from memwell import Memory

from . import bare_search, corpus
from .bare_search import TOP, BareSearch
from .corpus import PER_SESSION, Asked
from .measure import Blocks, alternate, median_ratio
from .processes import python
from .sizes import Sizes
from .store import Store, build
from .table import Row, at_most, duration, rate, spread, verdict
from .texts import FLOW, TURN

SCOPED_LIMIT, WHOLE_LIMIT, FILTERED_LIMIT = 3.0, 2.0, 1.5
RECALL = 0.99
BYTES = 2000
OPEN_SCOPED_S, OPEN_WHOLE_S = 0.15, 0.7
STATED_FROM = 1_000_000
SESSIONS = 5
WRITERS = 8
FILTER = {"topic": "topic-3", "n": {"$lt": PER_SESSION // 2}}

_OPEN = """
from time import perf_counter
begun = perf_counter()
import sys, numpy, memwell
started = perf_counter()
with memwell.Memory(sys.argv[1]) as memory:
    place = memory.flow("bench")
    found = (place.session(sys.argv[3]) if sys.argv[3] else place).search(sys.argv[2], 10)
    ended = perf_counter()
assert len(found) and found.method == "words+meaning", found.method
print(ended - started, ended - begun)
"""

Search = Callable[[Asked], Any]


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    """All measurements of search, on one store. Those that add entries come last."""
    store = build(folder / "store", sizes.entries)
    found = [_written(store), _disk(store), *_opened(folder, store, sizes)]
    with closing(BareSearch(folder / "bare.db", store)) as bare, Memory(store.home) as memory:
        ours = _Ours(memory, store)
        for name, everywhere, limit in (("one session", False, SCOPED_LIMIT), ("all", True, WHOLE_LIMIT)):
            shape = sizes.whole if everywhere else sizes.scoped
            for rare in (False, True):
                found += ours.beside(
                    bare, f"{name}, {'rare' if rare else 'common'} words", shape, limit, everywhere, rare
                )
            found.append(ours.filtered(name, shape, everywhere))
        found += [ours.recall(bare, sizes.recalled), *(ours.added(sizes.scoped, where) for where in (False, True))]
        found += [ours.while_written(sizes.writing_s, where) for where in (False, True)]
    return [_stated(row) for row in found] if sizes.entries >= STATED_FROM else found


class _Ours:
    """An open store, and its unused queries."""

    def __init__(self, memory: Memory, store: Store) -> None:
        self.flow = memory.flow(FLOW)
        self.store = store
        self._texts = store.texts
        self._seeds = count()
        for number in range(min(SESSIONS, len(store.facts) // PER_SESSION)):
            self.in_session(Asked("hello", corpus.session(number)))
        self.everywhere(Asked("hello", ""))

    def in_session(self, asked: Asked, **conditions: Any) -> Any:
        return self.flow.session(asked.session).search(asked.text, TOP, **conditions)

    def everywhere(self, asked: Asked, **conditions: Any) -> Any:
        return self.flow.search(asked.text, TOP, **conditions)

    def fresh(self, wanted: int, *, rare: bool = False) -> list[Asked]:
        """Return unused queries."""
        seed = next(self._seeds)
        return corpus.queries(self._texts, wanted, sessions=SESSIONS, rare=rare, seed=seed)

    def beside(
        self, bare: BareSearch, name: str, shape: Blocks, limit: float, everywhere: bool, rare: bool
    ) -> list[Row]:
        asked = self.fresh((shape.rounds + 1) * shape.block, rare=rare)
        entries = len(self.store.facts)
        ready = [bare_search.everywhere(one, entries) if everywhere else bare_search.in_session(one) for one in asked]
        search: Search = self.everywhere if everywhere else self.in_session
        sides = _each(search, asked), _each(bare.search, ready), _each(bare.search_strictly, ready)
        ours, limited, strict = alternate(shape, *sides)
        what = f"search of {entries:,}: {name}"
        ratio = median_ratio(ours.blocks, strict.blocks)
        return [
            at_most(what, spread(ours), spread(limited), median_ratio(ours.blocks, limited.blocks), limit),
            Row("  beside postings + scan, no bm25", spread(ours), spread(strict), f"{ratio:.2f} x"),
        ]

    def filtered(self, name: str, shape: Blocks, everywhere: bool) -> Row:
        asked = self.fresh((shape.rounds + 1) * shape.block)
        search = self.everywhere if everywhere else self.in_session
        search(asked[0], filter=FILTER)  # builds the columns
        narrow = _each(lambda one: search(one, filter=FILTER), asked)
        other = _each(search, self.fresh(len(asked)))
        ours, open_ = alternate(shape, narrow, other)
        ratio = median_ratio(ours.blocks, open_.blocks)
        return at_most(f"filtered: {name}", spread(ours), f"{spread(open_)} (unfiltered)", ratio, FILTERED_LIMIT)

    def recall(self, bare: BareSearch, wanted: int) -> Row:
        """Return the share of the ten nearest vectors that is found. Ties are interchangeable."""
        places = {fact.id: fact.number for fact in self.store.facts}
        shares = []
        for asked in self.fresh(wanted):
            similar, tenth = bare.nearest(asked.text)
            hits = self.everywhere(asked, recipe="meaning")
            shares.append(sum(similar[places[hit.id]] >= tenth - 1e-6 for hit in hits) / TOP)
        mean = sum(shares) / len(shares)
        what = f"recall@{TOP} of meaning, {wanted} queries"
        return Row(what, f"{mean:.4f}", "1 (exact)", "-", f">= {RECALL}", verdict(mean >= RECALL))

    def added(self, shape: Blocks, everywhere: bool) -> Row:
        """Write a new text, and find it with the next search."""
        texts = iter(self.fresh((shape.rounds + 1) * shape.block))
        numbers = count()

        def add() -> None:
            asked = next(texts)
            written = self.flow.session(asked.session).write(f"{asked.text} novelty{next(numbers)}x")
            hits = (self.everywhere if everywhere else self.in_session)(asked)
            assert written in [hit.id for hit in hits]

        (ours,) = alternate(shape, add)
        return Row(f"add, then find it: {'all' if everywhere else 'one session'}", spread(ours))

    def while_written(self, seconds: float, everywhere: bool) -> Row:
        """Search a flow while threads of the same process write turns and facts to it."""
        stop, written = Event(), [0] * WRITERS
        threads = [Thread(target=self._write, args=(n, stop, written), daemon=True) for n in range(WRITERS)]
        asked = iter(self.fresh(max(200, int(seconds * 2000))))
        search: Search = self.everywhere if everywhere else self.in_session
        for thread in threads:
            thread.start()
        took, until = [], perf_counter() + seconds
        while perf_counter() < until:
            started = perf_counter()
            search(next(asked))
            took.append(perf_counter() - started)
        stop.set()
        for thread in threads:
            thread.join()
        worst = f"p99 {duration(quantiles(took, n=100)[98])}" if len(took) >= 100 else f"max {duration(max(took))}"
        shown = f"{worst}, p50 {duration(median(took))} ({len(took)} searches)"
        what = f"search while {WRITERS} write: {'all' if everywhere else 'one session'}"
        return Row(what, shown, f"{rate(sum(written) / seconds)} written")

    def _write(self, number: int, stop: Event, written: list[int]) -> None:
        session = self.flow.session(corpus.session(number % SESSIONS))
        while not stop.is_set():
            session.history.append(role="user", content=TURN)
            session.write(TURN)
            written[number] += 2


def _each(work: Callable[[Any], object], given: list[Any]) -> Callable[[], object]:
    """Call the function with one item after the other, without repetition."""
    left: Iterator[Any] = iter(given)
    return lambda: work(next(left))


def _written(store: Store) -> Row:
    entries = len(store.facts)
    shown = f"{rate(entries / store.written_s)}; made ready in {duration(store.embedded_s)}"
    return Row(f"import of {entries:,} facts", shown)


def _disk(store: Store) -> Row:
    each = store.bytes / len(store.facts)
    text = median(len(fact.content) for fact in store.facts)
    return Row(
        "disk per fact",
        f"{each:.0f} bytes",
        f"{text:.0f} bytes (its text)",
        "-",
        f"<= {BYTES} bytes",
        verdict(each <= BYTES),
    )


def _opened(folder: Path, store: Store, sizes: Sizes) -> list[Row]:
    """A new process opens the store and searches once; the clock starts after the imports of memwell and numpy."""
    asked = corpus.queries(store.texts, 1, sessions=1)[0]
    found = []
    for name, session, limit in (("one session", asked.session, OPEN_SCOPED_S), ("all", "", OPEN_WHOLE_S)):
        arguments = ("-c", _OPEN, str(store.home), asked.text, session)
        python(folder / "compiled", *arguments)
        runs = [tuple(map(float, python(folder / "compiled", *arguments).split())) for _ in range(sizes.opens)]
        ours, imported = (median(column) for column in zip(*runs, strict=True))
        target = f"<= {limit:g} s"
        shown = f"{duration(ours)} (with imports {duration(imported)})"
        found.append(Row(f"open + first search: {name}", shown, "-", "-", target, verdict(ours <= limit)))
    return found


def _stated(row: Row) -> Row:
    return replace(row, target="stated", verdict="")
