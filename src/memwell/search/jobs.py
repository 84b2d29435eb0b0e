"""The jobs of search: `embed` computes missing vectors, `index` rebuilds the word index, `graph` maintains vector graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clock import SECOND
from ..errors import Unavailable
from ..jobs.queue import JobKind, JobRun, ensure_slot
from ..model.collection import decode_policy
from ..storage.port import Row, Tx, encode_numbers, search_state
from .upkeep import STATEMENTS, build_entry_tokens
from .words import MAX_WHOLE

if TYPE_CHECKING:
    from .embeddings import EmbeddingModel

GRAPH_DELAY = 60 * SECOND
"""The delay of the graph job after new vectors, so that one job covers many batches."""
EMBED_BATCH = 256
INDEX_BATCH = 500
DROP_BATCH = 2000


def run_embed(engine: Any, run: JobRun) -> dict[str, Any]:
    """Compute missing vectors, then delete those of unused models. On PostgreSQL, queue the graph job.

    Each batch is stored with its position, so that the job continues after a crash.
    """
    models = engine.recall.meaning.models(run.reach)
    if not models:
        if engine.recall.meaning.trouble:
            raise Unavailable(f"The model cannot be used: {engine.recall.meaning.trouble}")
        return {"embedded": 0}
    done = sum(_embed_all(run, model) for model in reversed(models))  # the light model first
    dropped, used = 0, {model.number for model in models}
    for number, *_ in run.read(lambda tx: tx.rows("list_models")):
        while number not in used and (count := run.write(lambda tx: _drop_vectors(tx, number))):  # noqa: B023
            dropped += count
    if done and engine.store.describe()["engine"] != "sqlite":
        now = engine.clock.now()
        run.write(lambda tx: ensure_slot(tx, "graph", now + GRAPH_DELAY, now))
    return {"embedded": done, "dropped": dropped}


def run_index(_engine: Any, run: JobRun) -> dict[str, Any]:
    """Index the words of every entry again, after the analyser or the language of a collection has changed."""
    at, done = int((run.progress or {}).get("at", 0)), 0
    while True:
        count, at = run.write(lambda tx: _reindex_batch(tx, run, at))  # noqa: B023 -- run at once
        done += count
        if not count:
            run.write(lambda tx: tx.run("add_removal", docid=None, address_id=None))
            return {"at": at, "indexed": done}


def run_graph(engine: Any, run: JobRun) -> dict[str, Any]:
    return dict(engine.store.tend(run.reach.key))


def _embed_all(run: JobRun, model: EmbeddingModel) -> int:
    """Compute the missing vectors of a model in order. Searches embed new facts and notes themselves. A sentence model gets no
    long turns, because the light model reads them as well."""
    from .embeddings import embed_entries, is_sentence_model  # imports numpy

    done, at = 0, model.embedded_to
    while True:
        rows, reached = run.read(lambda tx: _list_pending(tx, model, at, run.clock.now()))  # noqa: B023 -- run at once
        wanted = [row for row in rows if not _is_long_turn(row)] if is_sentence_model(model.embedder) else rows
        values = embed_entries(model.embedder, wanted)
        run.write(lambda tx: _write_batch(tx, model, wanted, values, reached))  # noqa: B023 -- run at once
        done, at = done + len(wanted), reached
        if len(rows) < EMBED_BATCH:
            return done


def _is_long_turn(row: Row) -> bool:
    return row[6] not in STATEMENTS and len(row[4].encode()) > MAX_WHOLE


def _list_pending(tx: Tx, model: EmbeddingModel, at: int, now: int) -> tuple[list[Row], int]:
    """Return the next entries without vectors, and the entry up to which none are missing once these have theirs."""
    rows = tx.rows("pending_entries", model=model.number, after=at, now=now, limit=EMBED_BATCH)
    return rows, int(rows[-1][0]) if len(rows) == EMBED_BATCH else search_state(tx)[0]


def _write_batch(tx: Tx, model: EmbeddingModel, rows: list[Row], values: list[bytes], reached: int) -> None:
    from .embeddings import write_vectors

    write_vectors(tx, model, list(zip(rows, values, strict=True)))
    tx.send("advance_model", id=model.number, embedded_to=reached)


def _drop_vectors(tx: Tx, number: int) -> int:
    tx.send("reset_model", id=number)
    last = tx.row("vector_after", model=number, skip=DROP_BATCH)
    if last is not None:
        return tx.run("delete_old_vectors", model=number, docid=last[0])
    count = tx.run("delete_old_vectors", model=number, docid=2**62)
    tx.send("delete_model", id=number)
    return count


def _reindex_batch(tx: Tx, run: JobRun, at: int) -> tuple[int, int]:
    """Index the words of the next entries again. Return how many there were, and the number of the last."""
    rows = tx.rows("unsealed_entries", after=at, limit=INDEX_BATCH)
    if not rows:
        return 0, at
    tx.send("delete_words", docids=encode_numbers(row[0] for row in rows))
    for docid, address_id, collection_id, kind, name, content, policy in rows:
        language = decode_policy(policy).language
        text = build_entry_tokens(address_id, collection_id, kind, name, content, language)
        tx.send("add_words", docid=docid, tokens=text)
    run.note(tx, {"at": rows[-1][0]})
    return len(rows), rows[-1][0]


JOBS = (
    JobKind("embed", run_embed, patient=True),
    JobKind("index", run_index, patient=True),
    JobKind("graph", run_graph, patient=True),
)
