"""The bare limit of search: an FTS5 table with the session as a token, a scan over bytes, and the rows of the best.

It has the same texts, cut into the same tokens, and the same vectors; a query's vector is made by the same embedder on both
sides, inside the measured time. Its match expressions are made beforehand. It ranks words by bm25, re-ranks the nearest 30
vectors by their exact values, joins the two lists by rank and reads ten rows. Nothing is checked, filtered or explained.

bm25 is no floor: it looks at every row that holds a word, which Memwell does not do. So there is a stricter side too, which
only reads the numbers of the matching rows from the index and ranks by meaning alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np
import simsimd
from numpy.typing import NDArray

from memwell.models.wordllama import WordLlama
from memwell.search import words as analyse

from .corpus import PER_SESSION, Asked
from .store import Store

TOP = 10
RERANKED = 30
_SMOOTH = 60

_SCHEMA = """
CREATE TABLE entry (docid INTEGER PRIMARY KEY, id TEXT, session TEXT, content TEXT, metadata TEXT);
CREATE VIRTUAL TABLE word USING fts5 (place, tokens, content = '', tokenize = 'ascii');
"""
_BEST = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rank LIMIT 10"
_POSTINGS = "SELECT rowid FROM word WHERE word MATCH ?"
_ROWS = "SELECT * FROM entry WHERE docid IN (SELECT value FROM json_each(?))"


class Prepared(NamedTuple):
    """A prepared query: its text, the expression for the index, and the rows to scan."""

    text: str
    match: str
    first: int
    end: int


class BareSearch:
    """The facts of a store, in the simplest searchable form."""

    def __init__(self, path: Path, store: Store) -> None:
        self.embedder = WordLlama()
        self.exact: NDArray[np.float32] = self.embedder.embed(store.texts)
        self._bytes = np.rint(self.exact * 127.0).astype(np.int8)
        self._db = apsw.Connection(str(path))
        self._db.pragma("journal_mode", "off")
        self._db.execute(_SCHEMA)
        with self._db:
            self._fill(store)
            self._db.execute("INSERT INTO word (word) VALUES ('optimize')")
        self._db.pragma("cache_size", -64 * 1024)

    def search(self, wanted: Prepared) -> list[Any]:
        by_words = [docid for (docid,) in self._db.execute(_BEST, (wanted.match,))]
        return self._rows(by_words, self._near(wanted))

    def search_strictly(self, wanted: Prepared) -> list[Any]:
        self._db.execute(_POSTINGS, (wanted.match,)).fetchall()
        return self._rows(self._near(wanted))

    def nearest(self, text: str) -> tuple[NDArray[np.float32], float]:
        """The exact similarity of every fact to a text, and that of the tenth."""
        similar = self.exact @ self.embedder.embed([text])[0]
        return similar, float(np.partition(similar, -TOP)[-TOP])

    def close(self) -> None:
        self._db.close()

    def _rows(self, *lists: list[int]) -> list[Any]:
        points: dict[int, float] = {}
        for found in lists:
            for place, docid in enumerate(found):
                points[docid] = points.get(docid, 0.0) + 1.0 / (_SMOOTH + place)
        best = sorted(points, key=points.__getitem__, reverse=True)[:TOP]
        return self._db.execute(_ROWS, (f"[{','.join(map(str, best))}]",)).fetchall()

    def _near(self, wanted: Prepared) -> list[int]:
        vector = self.embedder.embed([wanted.text])[0]
        query = np.rint(vector * 127.0).astype(np.int8)
        stored = self._bytes[wanted.first : wanted.end]
        dots = np.asarray(simsimd.cdist(query[None], stored, metric="dot", out_dtype="f32"))[0]
        near = np.argpartition(dots, -RERANKED)[-RERANKED:] + wanted.first
        best: list[int] = near[np.argsort(-(self.exact[near] @ vector))[:TOP]].tolist()
        return best

    def _fill(self, store: Store) -> None:
        rows = [(fact.number, fact.id, fact.session, fact.content, str(fact.metadata)) for fact in store.facts]
        self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
        words = ((fact.number, _place(fact.session), " ".join(analyse.tokenize(fact.content))) for fact in store.facts)
        self._db.executemany("INSERT INTO word (rowid, place, tokens) VALUES (?, ?, ?)", words)


def everywhere(asked: Asked, entries: int) -> Prepared:
    return Prepared(asked.text, _tokens(asked), 0, entries)


def in_session(asked: Asked) -> Prepared:
    first = int(asked.session.rpartition("-")[2]) * PER_SESSION
    return Prepared(asked.text, f"place : {_place(asked.session)} AND {_tokens(asked)}", first, first + PER_SESSION)


def _tokens(asked: Asked) -> str:
    return "tokens : (" + " OR ".join(f'"{token}"' for token in analyse.parse_terms(asked.text).tokens) + ")"


def _place(name: str) -> str:
    return name.replace("-", "")
