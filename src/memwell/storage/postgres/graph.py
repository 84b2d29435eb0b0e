"""Graphs over the vectors of large collections, so that no process has to keep them in memory.

There is one graph for each number of dimensions, over the vectors that are marked. The vectors of a collection are marked
once there are enough of them, until it has shrunk to half of that. A collection is searched by the graph once all of its
vectors are in it, and a graph that no collection needs is dropped. Indexes are created and dropped concurrently with writers.
Only the owner of the tables may do so; without that right, collections stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..port import Tx
from . import migrate
from .connect import SCHEMA
from .statements import Connection

if TYPE_CHECKING:
    from .store import PostgresStore

FROM = 500_000
BATCH = 5000
_NAME = "vector_graph_{}"


class Collection(NamedTuple):
    """A collection's vectors of one model."""

    model: int
    id: int
    dimensions: int
    entries: int
    state: str | None
    """`marking` until all of its vectors are in the graph, then `ready`; None if it is not in a graph."""


def tend(store: PostgresStore, tenant: str) -> dict[str, int]:
    """Put large collections of a tenant into a graph and take small ones out. Return the numbers of both."""
    taken = let_go = 0
    for collection in [Collection(*row) for row in store.read(tenant, lambda tx: tx.rows("graph_sizes"))]:
        if collection.entries >= FROM and collection.state != "ready":
            _take_in(store, tenant, collection)
            taken += 1
        elif collection.entries < FROM // 2 and collection.state is not None:
            _let_go(store, tenant, collection)
            let_go += 1
    return {"taken": taken, "let_go": let_go}


def _take_in(store: PostgresStore, tenant: str, collection: Collection) -> None:
    named, dimensions = {"model": collection.model, "collection": collection.id}, collection.dimensions
    store.write(tenant, lambda tx: tx.run("add_graph", dimensions=dimensions, **named))
    _mark(store, tenant, named, True)
    store.use_pooled(lambda db: _build(db, dimensions))
    store.write(tenant, lambda tx: _switch(tx, "finish_graph", named))


def _let_go(store: PostgresStore, tenant: str, collection: Collection) -> None:
    named, dimensions = {"model": collection.model, "collection": collection.id}, collection.dimensions
    store.write(tenant, lambda tx: _switch(tx, "delete_graph", named))
    _mark(store, tenant, named, False)
    if not store.run_above(lambda db: _is_used(db, dimensions), False):
        store.use_pooled(lambda db: _drop(db, dimensions))


def _mark(store: PostgresStore, tenant: str, named: dict[str, int], graph: bool) -> None:
    """Mark vectors in batches, so that other writers of this tenant can run in between."""
    while store.write(tenant, lambda tx: tx.run("mark_vectors", graph=graph, limit=BATCH, **named)):
        pass


def _switch(tx: Tx, query: str, named: dict[str, int]) -> None:
    """Change the state of a collection, and make every process reload its index, with the vectors or without."""
    tx.send(query, **named)
    tx.send("add_removal", docid=None, address_id=None)


def _build(db: Connection, dimensions: int) -> bool:
    """Create the index if it is missing or incomplete."""
    name = _NAME.format(dimensions)
    found = db.execute(
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.relname = %s AND n.nspname = %s",
        (name, SCHEMA),
    ).fetchone()
    if found is None or not found[0]:
        if found is not None:
            _drop(db, dimensions)
        schema = migrate.vector_schema(db) or "public"
        db.execute(
            f"CREATE INDEX CONCURRENTLY {name} ON {SCHEMA}.vector USING hnsw "
            f'((value::"{schema}".halfvec({dimensions})) "{schema}".halfvec_cosine_ops) '
            f"WHERE graph AND dimensions = {dimensions}"
        )
    db.execute(f"ANALYZE {SCHEMA}.vector")  # the planner does not use the graph of a table that it thinks is small
    return True


def _drop(db: Connection, dimensions: int) -> bool:
    db.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{_NAME.format(dimensions)}")
    return True


def _is_used(db: Connection, dimensions: int) -> bool:
    """Return True if any tenant has a collection in this graph."""
    return db.execute("SELECT 1 FROM graph WHERE dimensions = %s LIMIT 1", (dimensions,)).fetchone() is not None
