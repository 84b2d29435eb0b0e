"""A retriever for measuring search quality, through the public API alone; in a directory, or in MEMWELL_BENCH_HOME.

Documents are turns: each is appended to its session of one flow, with its speaker and time, and searched for with
`include=["turns"]`. `factory()` gives an object with `index(documents)` and `search(query, k)`. With `facts()` and `both()`
every session is distilled, and facts alone, or facts and turns together, are searched: a fact stands for the turns it cites.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from memwell import Memory

Document = tuple[str, str, dict[str, Any]]
BATCH = 500
ROLES = ("user", "assistant", "system", "tool")


class Retriever:
    """One memory in its own directory. Each index is a separate flow."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memwell-retrieval-")
        self._memory = Memory(os.environ.get("MEMWELL_BENCH_HOME") or self._folder.name, worker=False)
        self._flows = 0
        self._ids: dict[str, str] = {}

    def index(self, documents: Sequence[Document]) -> None:
        self._flows += 1
        self._flow = self._memory.flow(f"flow-{self._flows}")
        self._ids.clear()
        for session, group in groupby(documents, key=lambda document: str(document[2]["session"])):
            for batch in _batches(list(group)):
                turns = self._flow.session(session).history.extend([_turn(document) for document in batch])
                self._ids.update(zip((turn.id for turn in turns), (document[0] for document in batch), strict=True))
        self._flow.search("hello", include=["turns"])  # embeds the new entries

    def search(self, query: str, k: int) -> list[str]:
        return [self._ids[hit.id] for hit in self._flow.search(query, limit=k, include=["turns"])]


class FromFacts(Retriever):
    """The same search in facts, alone or together with the turns."""

    def __init__(self, include: list[str]) -> None:
        super().__init__()
        self._include = include
        self._cited: dict[str, list[str]] = {}

    def index(self, documents: Sequence[Document]) -> None:
        super().index(documents)
        self._cited.clear()
        for session in dict.fromkeys(str(document[2]["session"]) for document in documents):
            while (plan := self._flow.consolidate(session)) is not None:
                for step in plan.steps:
                    turns = [self._ids[one.turn] for one in step.evidence if one.turn in self._ids]
                    self._cited.setdefault(step.id or "", []).extend(turns)

    def search(self, query: str, k: int) -> list[str]:
        hits = self._flow.search(query, limit=2 * k, include=self._include)
        turns = [turn for hit in hits for turn in self._cited.get(hit.id) or [self._ids.get(hit.id, "")]]
        return list(dict.fromkeys(turn for turn in turns if turn))[:k]


def factory() -> Retriever:
    return Retriever()


def facts() -> Retriever:
    return FromFacts(["past"])


def both() -> Retriever:
    return FromFacts(["past", "turns"])


def _batches(documents: list[Document]) -> Iterator[list[Document]]:
    for at in range(0, len(documents), BATCH):
        yield documents[at : at + BATCH]


def _turn(document: Document) -> dict[str, Any]:
    _, text, meta = document
    speaker = meta["speaker"]
    content = f"{text} [{meta['caption']}]" if meta.get("caption") else text
    turn = {
        "role": speaker if speaker in ROLES else "user",
        "content": content or " ",
        "occurred_at": _time(meta["date"]),
    }
    return turn if speaker in ROLES else {**turn, "name": speaker}


def _time(text: str) -> datetime:
    """The two date formats of such data."""
    bare = re.sub(r" \(\w+\)", "", text)
    form = "%I:%M %p on %d %B, %Y" if " on " in bare else "%Y/%m/%d %H:%M"
    return datetime.strptime(bare, form).replace(tzinfo=UTC)
