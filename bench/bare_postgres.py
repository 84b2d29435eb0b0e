"""The bare limit on PostgreSQL: what one would write by hand with psycopg and SQL, on the same tables.

It connects as the tables' owner, so no row is checked; it takes no lock, keeps no jobs and answers nothing. An append writes
the same rows in one transaction of its own connection. A search asks for words by `ts_rank`, for the nearest by comparing
all in the session (or by a graph of its own over everything), joins the two lists by rank and reads ten rows, in one
snapshot. The query's vector is made within the measured time on both sides.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from memwell.models.wordllama import DIMENSIONS, WordLlama
from memwell.search import words as analyse
from memwell.search.upkeep import build_entry_tokens
from memwell.storage.postgres.statements import find_halfvec_oid

from .texts import TURN

TOP = 10
LISTED = 50
_SMOOTH = 60
TENANT = "bare"
COLLECTION = 1
_ids = itertools.count(1)

_TOUCH = """INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq)
VALUES (%(tenant)s, %(id)s, 1, %(path)s, 1, %(now)s, %(now)s, 0)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET last_seq = address.last_seq + 1, last_seen_at = excluded.last_seen_at
RETURNING id, last_seq"""
_ENTRY = """INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, role, content, origin, occurred_at, recorded_at)
VALUES (%(tenant)s, %(docid)s, %(entry)s, 1, %(address)s, %(seq)s, 'turn', 'user', %(content)s, 'user', %(now)s, %(now)s)"""
_WORDS = """INSERT INTO word (tenant, docid, part, tokens)
VALUES (%(tenant)s, %(docid)s, 0, ARRAY_TO_TSVECTOR(STRING_TO_ARRAY(%(tokens)s, ' ')))"""
_EVENT = """INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
VALUES (%(tenant)s, %(docid)s, %(now)s, 'flows.append', 1, %(address)s, 1, 'bench')"""
_BY_WORDS = """SELECT docid FROM word WHERE tenant = %(tenant)s AND tokens @@ CAST(%(wanted)s AS TSQUERY)
ORDER BY TS_RANK(tokens, CAST(%(wanted)s AS TSQUERY)) DESC LIMIT 50"""
_NEAR_ONE = """SELECT v.docid FROM entry e JOIN vector v ON v.tenant = e.tenant AND v.docid = e.docid
WHERE e.tenant = %(tenant)s AND e.address_id = %(address)s AND v.tenant = %(tenant)s AND v.model = 1
ORDER BY (v.value <=> %(value)s) + 0 LIMIT 50"""
_COPY = (
    "CREATE TABLE bare_vector AS SELECT tenant, model, docid, CAST(value AS HALFVEC(256)) AS value FROM vector",
    "CREATE INDEX bare_graph ON bare_vector USING hnsw (value halfvec_cosine_ops)",
    "ANALYZE bare_vector",
)
_NEAR_ALL = """SELECT docid FROM bare_vector WHERE tenant = %(tenant)s AND model = 1
ORDER BY value <=> %(value)s LIMIT 50"""
_ROWS = "SELECT * FROM entry WHERE tenant = %(tenant)s AND docid = ANY(%(docids)s)"


class _One:
    """A vector as a parameter."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class _OneDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _One) -> bytes:
        return struct.pack(">HH", DIMENSIONS, 0) + np.frombuffer(obj.data, "<f2").byteswap().tobytes()


class Bare:
    """Plain connections to the database that Memwell uses."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._embedder = WordLlama()
        with self.connect() as db:
            number = find_halfvec_oid(db)
            psycopg.adapters.register_dumper(_One, type("_OneDumper", (_OneDumper,), {"oid": number}))
            db.execute("INSERT INTO tenant (id, created_at) VALUES ('bare', 0)")
            db.execute(
                "INSERT INTO collection (tenant, id, dialect, name, kind, sealed, policy, created_at) "
                "VALUES ('bare', 1, 'flow', 'bare', 'timeline', 0, '{}', 0)"
            )

    def connect(self) -> psycopg.Connection[Any]:
        options = "-c search_path=memwell,public -c hnsw.ef_search=800"
        return psycopg.connect(self._dsn, autocommit=True, options=options)

    def appender(self, session: str) -> Callable[[], object]:
        """A writer with its own connection."""
        db = self.connect()
        tokens = build_entry_tokens(COLLECTION, COLLECTION, "turn", None, TURN, "en")

        def append() -> None:
            number, now = next(_ids), time.time_ns() // 1000
            given = {"tenant": TENANT, "id": number, "path": session, "now": now, "docid": number}
            with db.transaction():
                row = db.execute(_TOUCH, given).fetchone()
                assert row is not None
                given |= {
                    "address": row[0],
                    "seq": row[1],
                    "entry": f"bare-{number}",
                    "content": TURN,
                    "tokens": tokens,
                }
                db.execute(_ENTRY, given)
                db.execute(_WORDS, given)
                db.execute(_EVENT, given)

        return append

    def copy_vectors(self) -> None:
        """Create a table of all vectors with an HNSW index."""
        with self.connect() as db:
            for statement in _COPY:
                db.execute(statement)

    def searcher(self, address: int | None, collection: int) -> Callable[[str], list[Any]]:
        """Search one address, or everything."""
        db = self.connect()
        place = f"{analyse.ADDRESS}{address:x}" if address else f"{analyse.COLLECTION}{collection:x}"

        def search(text: str) -> list[Any]:
            half = self._embedder.embed([text])[0].astype(np.float16).tobytes()
            words = " | ".join(f"'{token}'" for token in analyse.parse_terms(text).tokens)
            given = {"tenant": "default", "address": address, "value": _One(half)}
            with db.transaction():
                lists = [
                    db.execute(_BY_WORDS, {**given, "wanted": f"'{place}' & ({words})"}, binary=True).fetchall(),
                    db.execute(_NEAR_ONE if address else _NEAR_ALL, given, binary=True).fetchall(),
                ]
                return db.execute(_ROWS, {"tenant": "default", "docids": _fused(lists)}, binary=True).fetchall()

        return search


def _fused(lists: list[list[Any]]) -> list[int]:
    points: dict[int, float] = {}
    for found in lists:
        for place, (docid,) in enumerate(found):
            points[docid] = points.get(docid, 0.0) + 1.0 / (_SMOOTH + place)
    return sorted(points, key=points.__getitem__, reverse=True)[:TOP]
