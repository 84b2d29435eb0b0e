"""The same engine on PostgreSQL, beside psycopg and SQL written by hand; see `bare_postgres`.

The server is a real one with real syncs, started for this and stopped afterwards, or the one that
MEMWELL_TEST_POSTGRES_DSN names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.postgres_server import available

from memwell import Memory
from memwell.models.wordllama import WordLlama
from memwell.sdk.transport import LocalTransport
from memwell.storage.postgres import graph

from . import corpus
from .appends import rates
from .bare_postgres import TOP, Bare
from .corpus import PER_SESSION, Fact
from .measure import Blocks, alternate, median_ratio
from .sizes import APPENDERS, Sizes
from .table import Row, at_most, duration, rate, spread, verdict
from .texts import FLOW, TURN

LIMIT = 1.5
RECALL = 0.95
LARGE_SESSION, LARGE = "large", 10_000


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    with available(durable=True, settings={"shared_buffers": "512MB", "max_wal_size": "2GB"}) as server:
        server.template("bench", lambda dsn: Memory(dsn, worker=False).close())
        dsn = server.database("bench")
        with Memory(dsn, worker=False) as memory:
            found = [_appends(memory, bare := Bare(dsn), sizes)]
            facts = list(corpus.facts(sizes.entries))
            found.append(_filled(memory, facts))
            found += [_keyed(memory, bare, facts, sizes, session) for session in (corpus.session(0), LARGE_SESSION)]
            found += _whole(memory, bare, facts, sizes)
        server.drop(dsn)
    return found


def _appends(memory: Memory, bare: Bare, sizes: Sizes) -> Row:
    names = [f"session-{n}" for n in range(APPENDERS)]
    ours = [_append(memory, name) for name in names]
    sides = [ours, [bare.appender(name) for name in names]]
    mine, limit = rates(sides, sizes.group_rounds, sizes.group_s)
    ratio = median_ratio(limit, mine)
    what = f"PostgreSQL: durable appends, {APPENDERS} threads"
    return at_most(what, rate(median(mine)), rate(median(limit)), ratio, LIMIT)


def _append(memory: Memory, session: str) -> Callable[[], object]:
    history = memory.flow(FLOW).session(session).history
    return lambda: history.append(role="user", content=TURN)


def _filled(memory: Memory, facts: list[Fact]) -> Row:
    """The facts with all their vectors; ten thousand of them are also in one more session."""
    flow, started = memory.flow(FLOW), time.perf_counter()
    flow.import_lines(_line(fact, fact.session, fact.id) for fact in facts)
    flow.import_lines(_line(fact, LARGE_SESSION, f"large-{fact.number}") for fact in facts[:LARGE])
    written = time.perf_counter()
    while "partly" in flow.search("hello").method:
        pass
    ready = time.perf_counter()
    count = len(facts) + len(facts[:LARGE])
    shown = f"{rate(count / (written - started))}; made ready in {duration(ready - written)}"
    return Row(f"PostgreSQL: import of {count:,} facts", shown)


def _line(fact: Fact, session: str, fact_id: str) -> dict[str, object]:
    return {
        "type": "memory",
        "session": session,
        "id": fact_id,
        "content": fact.content,
        "metadata": fact.metadata,
    }


def _keyed(memory: Memory, bare: Bare, facts: list[Fact], sizes: Sizes, session: str) -> Row:
    place = memory.flow(FLOW).session(session)
    place.search("hello")
    search = bare.searcher(_address(memory, session), 0)
    ours, limit = alternate(
        sizes.scoped,
        _asks(facts, sizes.scoped, lambda text: place.search(text, TOP), session),
        _asks(facts, sizes.scoped, search, session),
    )
    entries = LARGE if session == LARGE_SESSION else PER_SESSION
    what = f"PostgreSQL: search in a session of {entries:,}"
    return at_most(what, spread(ours), spread(limit), median_ratio(ours.blocks, limit.blocks), LIMIT)


def _whole(memory: Memory, bare: Bare, facts: list[Fact], sizes: Sizes) -> list[Row]:
    """Search one collection: as bytes in memory (the method up to half a million), then with the graph."""
    texts, count = [fact.content for fact in facts], len(facts) + len(facts[:LARGE])
    bare.copy_vectors()
    found = [
        _everywhere(memory, bare, facts, sizes, f"PostgreSQL: search of {count:,}, in memory"),
        _recall(memory, texts, sizes.recalled, "in memory"),
    ]
    graph.FROM, usual = min(graph.FROM, len(facts)), graph.FROM
    try:
        started = time.perf_counter()
        _engine(memory).store.tend("default")
        made = Row(f"PostgreSQL: graph over {count:,} vectors", f"made in {duration(time.perf_counter() - started)}")
        by_graph = _everywhere(memory, bare, facts, sizes, f"PostgreSQL: search of {count:,}, by the graph")
        return [*found, made, by_graph, _recall(memory, texts, sizes.recalled, "by the graph")]
    finally:
        graph.FROM = usual


def _everywhere(memory: Memory, bare: Bare, facts: list[Fact], sizes: Sizes, what: str) -> Row:
    flow, by_hand = memory.flow(FLOW), bare.searcher(None, _collection(memory))
    flow.search("hello")
    ours, limit = alternate(
        sizes.whole,
        _asks(facts, sizes.whole, lambda text: flow.search(text, TOP), what),
        _asks(facts, sizes.whole, by_hand, what),
    )
    return at_most(what, spread(ours), spread(limit), median_ratio(ours.blocks, limit.blocks), LIMIT)


def _recall(memory: Memory, texts: list[str], wanted: int, how: str) -> Row:
    """Return the share of the ten nearest vectors that is found. Ties are interchangeable."""
    embedder = WordLlama()
    exact = embedder.embed(texts)
    shares = []
    for asked in corpus.queries(texts, wanted, sessions=5, seed="recall"):
        similar = exact @ embedder.embed([asked.text])[0]
        tenth = sorted(similar, reverse=True)[TOP - 1]
        hits = memory.flow(FLOW).search(asked.text, TOP, recipe="meaning")
        places = [texts.index(hit.content) for hit in hits]
        shares.append(sum(similar[place] >= tenth - 1e-3 for place in places) / TOP)
    mean = sum(shares) / len(shares)
    what = f"PostgreSQL: recall@{TOP} {how}, {wanted} queries"
    return Row(what, f"{mean:.4f}", "1 (exact)", "-", f">= {RECALL}", verdict(mean >= RECALL))


def _asks(facts: list[Fact], shape: Blocks, search: Callable[[str], Any], seed: str) -> Callable[[], object]:
    """Yield queries without repetition."""
    texts = [fact.content for fact in facts]
    asked = corpus.queries(texts, (shape.rounds + 1) * shape.block, sessions=5, seed=seed)
    left: Iterator[str] = iter([one.text for one in asked])
    return lambda: search(next(left))


def _engine(memory: Memory) -> Any:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def _address(memory: Memory, session: str) -> int:
    named = {"dialect": "flow", "name": FLOW, "kind": "facts", "path": session, "now": 0}
    row = _engine(memory).store.read("default", lambda tx: tx.row("find_address", **named))
    assert row is not None
    return int(row[0])


def _collection(memory: Memory) -> int:
    named = {"dialect": "flow", "name": FLOW, "kind": "facts"}
    row = _engine(memory).store.read("default", lambda tx: tx.row("find_collection", **named))
    assert row is not None
    return int(row[0])
