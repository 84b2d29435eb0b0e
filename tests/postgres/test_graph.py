"""Large collections are searched by a graph: the same answers, and every scope gets its k."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memwell import Hits
from memwell.core.engine import Engine
from memwell.sdk.transport import LocalTransport
from memwell.search import nearest
from memwell.storage.postgres import graph

from ..engines import Memory, query

LARGE = 600
TOPICS = ("parrot", "violin", "harbour", "invoice", "mango", "ladder", "falcon", "candle")
VERBS = ("likes", "hides", "paints", "sells", "repairs", "forgets", "finds")


def sentence(n: int) -> str:
    return f"The {TOPICS[n % 8]} {VERBS[n % 7]} the {TOPICS[n // 8 % 8]} of number {n}."


QUERIES = [f"Who {VERBS[n % 7]} a {TOPICS[n % 8]}?" for n in range(20)] + [
    "a musical instrument",
    "a bird",
    "number 77",
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "FROM", LARGE)
    monkeypatch.setattr(graph, "BATCH", 150)
    monkeypatch.setattr(nearest, "MAX_COMPARE", 40)
    monkeypatch.setattr(nearest, "NEAREST", 100)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path, worker=False) as memory:
        yield memory


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def fill(memory: Memory, flow: str, count: int, first: int = 0) -> None:
    lines = ({"type": "memory", "content": sentence(n), "metadata": {"n": n}} for n in range(first, first + count))
    memory.flow(flow).import_lines(lines)
    memory.flow(flow).search("hello")  # which makes the vectors


def tend(memory: Memory) -> dict[str, int]:
    return engine_of(memory).store.tend("default")


def ranked(hits: Hits) -> list[tuple[str, float]]:
    return [(hit.content, hit.score) for hit in hits]


def same(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> bool:
    """The same in the same order; sums of floats may differ by their last digit."""
    return [text for text, _ in one] == [text for text, _ in other] and np.allclose(
        [score for _, score in one], [score for _, score in other], atol=2e-6
    )


def is_remote(memory: Memory) -> bool:
    return any(space.remote for block in engine_of(memory).recall.indexes._indexes.values() for space in block.spaces)


def index_names(home: Path) -> list[Any]:
    return [row[0] for row in query(home, "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vector_graph_%'")]


def test_a_large_collection_is_searched_by_a_graph_and_answers_as_before(memory: Memory, tmp_path: Path) -> None:
    fill(memory, "f", LARGE)
    before = [ranked(memory.flow("f").search(query, limit=10)) for query in QUERIES]
    assert not is_remote(memory)
    assert tend(memory) == {"taken": 1, "let_go": 0}
    assert index_names(tmp_path) == ["vector_graph_256"]
    assert tend(memory) == {"taken": 0, "let_go": 0}
    after = [ranked(memory.flow("f").search(query, limit=10)) for query in QUERIES]
    assert is_remote(memory)
    agree = np.mean([same(one, other) for one, other in zip(before, after, strict=True)])
    assert agree >= 0.95
    spaces = [space for block in engine_of(memory).recall.indexes._indexes.values() for space in block.spaces]
    held = [space.vectors.size for space in spaces if space.remote]
    assert held == [0], "no vector is in memory"


def test_what_is_written_and_deleted_later_is_known_to_the_graph(memory: Memory) -> None:
    fill(memory, "f", LARGE)
    tend(memory)
    entry = memory.flow("f").write("A zebra crosses the savannah.")
    assert memory.flow("f").search("zebra on the savannah", recipe="meaning")[0].content.startswith("A zebra")
    with Memory(_home(memory), worker=False) as other:
        assert other.flow("f").search("zebra")[0].id == entry
        assert is_remote(other)
    memory.flow("f").delete_memory(entry)
    assert not any("zebra" in hit.content for hit in memory.flow("f").search("zebra", limit=100))


def _home(memory: Memory) -> str:
    return engine_of(memory)._config.home


@pytest.mark.parametrize("condition", [{"n": {"$lt": 20}}, {"n": {"$lt": 300}}, {"n": {"$gte": 590}}, {"n": 7}])
def test_every_filter_gets_its_k(memory: Memory, condition: dict[str, Any]) -> None:
    """C41: k results come back whenever k match."""
    fill(memory, "f", LARGE)
    expected = [ranked(memory.flow("f").search(query, limit=10, filter=condition)) for query in QUERIES[:6]]
    tend(memory)
    found = [ranked(memory.flow("f").search(query, limit=10, filter=condition)) for query in QUERIES[:6]]
    assert is_remote(memory)
    assert [len(hits) for hits in found] == [len(hits) for hits in expected]
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_every_scope_gets_its_k(memory: Memory) -> None:
    """Two collections in one graph, one much larger; and small ones beside them, which are in none."""
    fill(memory, "big", 3 * LARGE)
    fill(memory, "also", LARGE)
    fill(memory, "small", 30)
    assert tend(memory) == {"taken": 2, "let_go": 0}
    for flow in ("big", "also", "small"):
        for text in QUERIES:
            hits = memory.flow(flow).search(text, limit=10, filter={"n": {"$gte": 0}})
            assert len(hits) == 10, (flow, text)
    texts = {sentence(n) for n in range(30)}
    assert {hit.content for hit in memory.flow("small").search("a bird", limit=30)} <= texts


def test_another_tenant_never_sees_through_a_graph(tmp_path: Path) -> None:
    for tenant, first in (("alpha", 0), ("beta", 10_000)):
        with Memory(tmp_path, tenant=tenant, worker=False) as memory:
            fill(memory, "f", LARGE, first)
            assert engine_of(memory).store.tend(tenant) == {"taken": 1, "let_go": 0}
    with Memory(tmp_path, tenant="beta", worker=False) as memory:
        for text in QUERIES:
            hits = memory.flow("f").search(text, limit=10)
            assert len(hits) == 10
            assert min(int(hit.content.split()[-1][:-1]) for hit in hits) >= 10_000


def test_a_collection_that_shrinks_leaves_the_graph_which_goes_with_the_last(memory: Memory, tmp_path: Path) -> None:
    fill(memory, "f", LARGE)
    fill(memory, "g", LARGE)
    assert tend(memory) == {"taken": 2, "let_go": 0}
    for flow, names in (("f", ["vector_graph_256"]), ("g", [])):
        for fact in list(memory.flow(flow).memories())[: LARGE * 3 // 4]:
            memory.call("flows.delete_memory", {"flow": flow, "id": fact.id})
        assert tend(memory) == {"taken": 0, "let_go": 1}
        assert index_names(tmp_path) == names
        assert len(memory.flow(flow).search("a bird", limit=10)) == 10
    assert not is_remote(memory)


def test_a_making_that_was_cut_off_is_gone_on_with(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory, "f", LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(graph, "_build", lambda db, dimensions: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tend(memory)
    assert len(memory.flow("f").search("a bird", limit=10)) == 10
    assert not is_remote(memory), "half of it is no graph"
    fill(memory, "f", 10, LARGE)
    assert tend(memory)["taken"] == 1
    assert len(memory.flow("f").search("a bird", limit=10)) == 10
    assert is_remote(memory)


def test_the_job_tends_to_it_after_embedding(memory: Memory) -> None:
    fill(memory, "f", LARGE)
    engine = engine_of(memory)
    from memwell.jobs import queue

    engine.store.write("default", lambda tx: queue.ensure_slot(tx, "graph", 0, 0))
    engine.worker.run_due("default")
    job = memory.jobs.list(kind="graph")[0]
    assert (job.state, job.result) == ("done", {"taken": 1, "let_go": 0})
