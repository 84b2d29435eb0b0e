"""The embedder in use, and the vectors that it makes.

It is opened when a search or a job first needs it. If that fails, or if it fails later, search goes on with words alone and
warns of it; the embedder is tried again after a while. No transaction is open while a model works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..clock import Clock
from ..errors import Invalid, ModelFailed, StorageError
from ..jobs import queue
from ..model.collection import decode_policy
from ..storage.port import Row, TenantStore, Tx, encode_numbers
from .words import split_chunks

if TYPE_CHECKING:
    from ..models.embedder import Embedder, Vectors


RETRY_S = 30.0
WRITE_BATCH = 1000
MIN_WRITE = 64
"""Fewer vectors than this, of a model that makes them in no time, are not stored at once: no reader waits for a disk."""


class EmbeddingModel(NamedTuple):
    """An embedder, its name and number in one tenant, and the entry up to which all have their vectors."""

    embedder: Embedder
    name: str
    number: int
    embedded_to: int


class Embeddings:
    """The embedder of this process."""

    def __init__(self, load: Callable[[], Embedder | None], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = Lock()
        self._embedder: Embedder | None = None
        self._loaded = False
        self._failed_at: float | None = None
        self._built_in: Embedder | None = None
        self.trouble: str | None = None

    def embedder(self) -> Embedder | None:
        """The embedder, or None if there is none or it cannot be used now; then `trouble` says why."""
        if self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_S:
            return None
        if not self._loaded:
            with self._lock:
                if not self._loaded:
                    try:
                        self._embedder = self._load()
                        self._loaded = True
                    except (ModelFailed, Invalid) as error:
                        self.fail(error)
        return self._embedder

    def fail(self, error: Exception) -> None:
        """Do not use the model for a while."""
        self._failed_at = time.monotonic()
        self.trouble = str(error)

    def close(self) -> None:
        """Close the connections of the embedder, if it has any."""
        end: Callable[[], None] | None = getattr(self._embedder, "close", None)
        if end is not None:
            end()

    def forget(self) -> None:
        """Have the embedder drop its cache of texts, if it has one."""
        drop: Callable[[], None] | None = getattr(self._embedder, "forget", None)
        if drop is not None:
            drop()

    def vector(self, text: str, embedder: Embedder) -> Vectors | None:
        """The vector of a query; None if the model fails, or knows none of its words."""
        try:
            vector = embedder.embed([text])[0]
        except ModelFailed as error:
            self.fail(error)
            return None
        self._failed_at, self.trouble = None, None
        return vector if vector.any() else None

    def vectors(self, texts: Sequence[str]) -> Vectors | None:
        """The vectors of some texts; None if there is no model, or it fails."""
        embedder = self.embedder()
        if embedder is None:
            return None
        try:
            return embedder.embed(texts)
        except ModelFailed as error:
            self.fail(error)
            return None

    def named_embedder(self) -> tuple[Embedder, str] | None:
        """The embedder with the name of its vectors, if it can be used now."""
        embedder = self.embedder()
        if embedder is None:
            return None
        try:
            return embedder, build_model_name(embedder)
        except ModelFailed as error:
            self.fail(error)
            return None

    def model(self, reach: TenantStore) -> EmbeddingModel | None:
        """The model with its number in a tenant, which a new model gets now."""
        named = self.named_embedder()
        if named is None:
            return None
        embedder, name = named

        def add(tx: Tx) -> EmbeddingModel | None:
            tx.send("add_model", name=name, dimensions=embedder.dimensions, now=self._clock.now())
            return find_model(tx, embedder, name)

        try:
            return reach.read(lambda tx: find_model(tx, embedder, name)) or reach.write(add)
        except StorageError as error:  # a disk that cannot be written is searched by words
            self.trouble = str(error)
        return None

    def earlier(self, reach: TenantStore, current: EmbeddingModel) -> EmbeddingModel | None:
        """The built-in model, if it is not the current one and there are vectors of it: it serves until the new are made."""
        from ..models.wordllama import WordLlama

        name = f"{WordLlama.id}/{WordLlama.dimensions}"
        if name == current.name or reach.read(lambda tx: tx.row("find_model", name=name)) is None:
            return None
        try:
            with self._lock:
                self._built_in = self._built_in or WordLlama()
        except ModelFailed:
            return None
        embedder = self._built_in
        return reach.read(lambda tx: find_model(tx, embedder, name))


def find_model(tx: Tx, embedder: Embedder, name: str) -> EmbeddingModel | None:
    row = tx.row("find_model", name=name)
    return None if row is None else EmbeddingModel(embedder, name, row[0], row[2])


def build_model_name(embedder: Embedder) -> str:
    """The name under which a model's vectors are stored. A model that changes its width is another model."""
    return f"{embedder.id}/{embedder.dimensions}"


def embed_entries(embedder: Embedder, rows: Sequence[Row]) -> list[bytes]:
    """For each entry the vectors of its chunks, as they are stored; the policy of its collection says how it is cut."""
    policies = [decode_policy(row[5]) for row in rows]
    chunks = [
        split_chunks(row[4], policy.chunk_chars, policy.overlap_chars)
        for row, policy in zip(rows, policies, strict=True)
    ]
    vectors = embedder.embed([chunk for text in chunks for chunk in text])
    if vectors.shape[1:] != (embedder.dimensions,):
        raise ModelFailed(f"The model gave {vectors.shape[1]} dimensions instead of {embedder.dimensions}.")
    half = vectors.astype(np.float16)
    found, at = [], 0
    for text in chunks:
        found.append(half[at : at + len(text)].tobytes())
        at += len(text)
    return found


def embed_missing(reach: TenantStore, model: EmbeddingModel, docids: Sequence[int], exact: bool) -> dict[int, bytes]:
    """Make the vectors of some entries, and store them if it is worth it and the disk can be written. `exact`: the caller
    holds them as they are, and need not read them again."""
    rows = reach.read(lambda tx: tx.rows("texts_of", docids=encode_numbers(docids)))
    values = embed_entries(model.embedder, rows)
    made = {row[0]: value for row, value in zip(rows, values, strict=True)}
    if exact and len(rows) < MIN_WRITE and getattr(model.embedder, "instant", False):
        return made
    try:
        for at in range(0, len(rows), WRITE_BATCH):
            batch = list(zip(rows[at : at + WRITE_BATCH], values[at : at + WRITE_BATCH], strict=True))
            reach.write(lambda tx, batch=batch: write_vectors(tx, model, batch))  # type: ignore[misc]
    except StorageError:
        pass  # the next search, or the job, makes them again
    return made


def write_vectors(tx: Tx, model: EmbeddingModel, batch: Sequence[tuple[Row, bytes]]) -> None:
    for row, value in batch:
        named = {"model": model.number, "name": model.name, "dimensions": model.embedder.dimensions}
        tx.send("add_vector", id=row[1], version=row[2], value=value, **named)


def queue_embedding(reach: TenantStore, now: int) -> None:
    """Have a job make the missing vectors, if the disk can be written."""
    with suppress(StorageError):
        reach.write(lambda tx: queue.ensure_slot(tx, "embed", now, now))
