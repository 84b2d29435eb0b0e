"""The same facts and queries in LangGraph's SqliteStore and in Chroma: `make bench-peers`, or `python -m bench.peers [--quick]`.

It needs the packages of `bench/peers.txt`, in a separate environment. Both peers get their vectors made beforehand and
search by meaning alone; Memwell makes the query's vector within the measured time and searches by words and meaning. No
query is asked twice. Chroma's search is approximate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from memwell import Memory
from memwell.models.wordllama import DIMENSIONS, WordLlama

from . import corpus
from .corpus import Asked, Fact
from .measure import Blocks, alternate, median_ratio
from .store import Store, build
from .table import Row, render, spread, verdict
from .texts import FLOW

TOP = 10
TIMES = 5.0
SESSIONS = 5
TOPIC = "topic-3"
SHAPE = Blocks(10, 5, longest_s=60.0)
BATCH = 1000


class Vectors:
    """The vectors of texts, computed before the measurement."""

    def __init__(self) -> None:
        self._embedder = WordLlama()
        self._known: dict[str, list[float]] = {}

    def prepare(self, texts: list[str]) -> None:
        self._known.update(zip(texts, self._embedder.embed(texts).tolist(), strict=True))

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return [self._known[text] for text in texts]


class Peer(Protocol):
    """The operations of every side. Without a session it searches everything."""

    def search(self, text: str, session: str | None, topic: str | None) -> int: ...

    def add(self, number: int, text: str, session: str) -> None: ...


class Ours:
    def __init__(self, memory: Memory) -> None:
        self._flow = memory.flow(FLOW)

    def search(self, text: str, session: str | None, topic: str | None) -> int:
        place = self._flow.session(session) if session else self._flow
        return len(place.search(text, TOP, filter={"topic": topic}) if topic else place.search(text, TOP))

    def add(self, number: int, text: str, session: str) -> None:
        self._flow.session(session).write(text, metadata={"topic": TOPIC, "n": number})


class LangGraph:
    def __init__(self, path: Path, vectors: Vectors, facts: list[Fact]) -> None:
        sys.modules["sqlite3"] = import_module("pysqlite3")  # Python's sqlite3 often cannot load extensions
        connection = import_module("sqlite3").connect(str(path), check_same_thread=False, isolation_level=None)
        index = {"dims": DIMENSIONS, "embed": vectors, "text_fields": ["text"], "fields": ["text"]}
        self._store: Any = import_module("langgraph.store.sqlite").SqliteStore(connection, index=index)
        self._store.setup()
        put = import_module("langgraph.store.base").PutOp
        for at in range(0, len(facts), BATCH):
            batch = facts[at : at + BATCH]
            self._store.batch(
                [put((FLOW, one.session), one.id, {"text": one.content, **one.metadata}) for one in batch]
            )

    def search(self, text: str, session: str | None, topic: str | None) -> int:
        place = (FLOW, session) if session else (FLOW,)
        return len(self._store.search(place, query=text, filter={"topic": topic} if topic else None, limit=TOP))

    def add(self, number: int, text: str, session: str) -> None:
        self._store.put((FLOW, session), f"new-{number}", {"text": text, "topic": TOPIC, "n": number})


class Chroma:
    def __init__(self, path: Path, vectors: Vectors, facts: list[Fact]) -> None:
        chroma = import_module("chromadb")
        quiet = import_module("chromadb.config").Settings(anonymized_telemetry=False)
        client = chroma.PersistentClient(str(path), settings=quiet)
        self._vectors = vectors
        self._facts: Any = client.create_collection(FLOW, embedding_function=None, metadata={"hnsw:space": "cosine"})
        for at in range(0, len(facts), BATCH):
            batch = facts[at : at + BATCH]
            texts = [one.content for one in batch]
            self._facts.add(
                ids=[one.id for one in batch],
                embeddings=vectors(texts),
                documents=texts,
                metadatas=[{"session": one.session, **one.metadata} for one in batch],
            )

    def search(self, text: str, session: str | None, topic: str | None) -> int:
        conditions = [{name: value} for name, value in (("session", session), ("topic", topic)) if value]
        where = {"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None
        found = self._facts.query(query_embeddings=self._vectors([text]), n_results=TOP, where=where)
        return len(found["ids"][0])

    def add(self, number: int, text: str, session: str) -> None:
        metadata = {"session": session, "topic": TOPIC, "n": number}
        self._facts.add(ids=[f"new-{number}"], embeddings=self._vectors([text]), documents=[text], metadatas=[metadata])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 facts instead of 100,000")
    entries = 5_000 if parser.parse_args().quick else 100_000
    print(f"{entries:,} facts, load {os.getloadavg()[0]:.1f} before it began")
    with TemporaryDirectory(prefix="memwell-peers-") as folder:
        print(render(rows(Path(folder), entries)).replace("bare limit", "peer      "))


def rows(folder: Path, entries: int) -> list[Row]:
    store, vectors = build(folder / "ours", entries), Vectors()
    vectors.prepare(store.texts)
    peers: dict[str, Peer] = {
        "LangGraph": LangGraph(folder / "langgraph.db", vectors, store.facts),
        "Chroma": Chroma(folder / "chroma", vectors, store.facts),
    }
    with Memory(store.home) as memory:
        ours = Ours(memory)
        return [row for name, work in _works().items() for row in _compared(name, work, ours, peers, store, vectors)]


Work = Callable[[Peer, Asked, int], object]


def _works() -> dict[str, Work]:
    def append(peer: Peer, asked: Asked, number: int) -> None:
        peer.add(number, asked.text, asked.session)
        peer.search(asked.text, asked.session, None)

    return {
        "search in one session": lambda peer, asked, _: peer.search(asked.text, asked.session, None),
        "search in all": lambda peer, asked, _: peer.search(asked.text, None, None),
        "filtered, one session": lambda peer, asked, _: peer.search(asked.text, asked.session, TOPIC),
        "filtered, all": lambda peer, asked, _: peer.search(asked.text, None, TOPIC),
        "append, then search": append,
    }


def _compared(name: str, work: Work, ours: Ours, peers: dict[str, Peer], store: Store, vectors: Vectors) -> list[Row]:
    asked = corpus.queries(store.texts, (SHAPE.rounds + 1) * SHAPE.block, sessions=SESSIONS, seed=name)
    vectors.prepare([one.text for one in asked])
    for session in {one.session for one in asked}:
        ours.search("hello", session, None)
    mine, *others = alternate(SHAPE, *(_each(work, side, asked) for side in (ours, *peers.values())))
    found = []
    for peer, took in zip(peers, others, strict=True):
        times = median_ratio(took.blocks, mine.blocks)
        texts = f"{name}: {peer}", spread(mine), spread(took), f"{times:.1f} x"
        found.append(Row(*texts, f">= {TIMES:g} x", verdict(times >= TIMES)))
    return found


def _each(work: Work, side: Peer, asked: list[Asked]) -> Callable[[], object]:
    left, numbers = iter(asked), count()
    return lambda: work(side, next(left), next(numbers))


if __name__ == "__main__":
    main()
