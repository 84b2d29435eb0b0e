"""The embedder of this process, and the vectors that it computes.

The embedder is opened when a search or a job first needs it. If it fails then or later, searches use words alone and return a
warning, and the embedder is tried again after `RETRY_S` seconds. No transaction is open while it works, unless it is instant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from ..clock import Clock
from ..errors import Invalid, ModelFailed, StorageError
from ..jobs import queue
from ..model.collection import decode_policy
from ..storage.port import Row, TenantStore, Tx, encode_numbers
from .people import remove_subject
from .upkeep import STATEMENTS
from .words import split_chunks

if TYPE_CHECKING:
    from ..models.embedder import Embedder, Vectors


RETRY_S = 30.0
QUICK_CHARACTERS = 1 << 19
"""A search computes vectors for about so much text at most, half a second's work. A job computes the rest."""
READ_BATCH = 64
WRITE_BATCH = 1000
MIN_WRITE = 64
"""A search does not store fewer vectors than this if the model is instant, so that it need not wait for the disk."""


class EmbeddingModel(NamedTuple):
    """An embedder with its name and number in one tenant. All entries up to `embedded_to` have vectors."""

    embedder: Embedder
    name: str
    number: int
    embedded_to: int

    def normalise(self, cosines: Any) -> Any:
        """Move similarities to the scale of the models that scores were calibrated with, on which unrelated texts have 0.1 and
        equal ones 0.8."""
        if getattr(self.embedder, "instant", False):
            return cosines
        floor, ceiling = self.embedder.floor, self.embedder.ceiling
        return 0.1 + (cosines - floor) * (0.7 / max(ceiling - floor, 1e-6))


class Embeddings:
    """Opens the embedder of this process, and remembers its failures."""

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
        """Return the embedder; None if there is none, or if it failed recently. `trouble` then holds the error."""
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
        """Stop using the model for `RETRY_S` seconds."""
        self._failed_at = time.monotonic()
        self.trouble = str(error)

    def close(self) -> None:
        """Close the connections of the embedder, if it has any."""
        end: Callable[[], None] | None = getattr(self._embedder, "close", None)
        if end is not None:
            end()

    def forget(self) -> None:
        """Clear the embedder's cache of texts, if it has one."""
        drop: Callable[[], None] | None = getattr(self._embedder, "forget", None)
        if drop is not None:
            drop()

    def vector(self, text: str, embedder: Embedder) -> Vectors | None:
        """Return the vector of a query; None if the model fails or knows none of its words."""
        try:
            vector = embedder.embed([text])[0]
        except ModelFailed as error:
            self.fail(error)
            return None
        self._failed_at, self.trouble = None, None
        return vector if vector.any() else None

    def vectors(self, texts: Sequence[str]) -> Vectors | None:
        """Return the vectors of some texts by the light model; None if there is no model or it fails."""
        embedder = self.light()
        if embedder is None:
            return None
        try:
            return embedder.embed(texts)
        except ModelFailed as error:
            self.fail(error)
            return None

    def light(self) -> Embedder | None:
        """Return the embedder whose vectors serve until those of a slow one exist; the embedder itself, if it needs none."""
        embedder = self.embedder()
        if embedder is None or not is_sentence_model(embedder):
            return embedder
        return self._built_in_model() or embedder

    def named_embedders(self) -> list[tuple[Embedder, str]]:
        """Return the embedders that can be used now, each with the name of its vectors, the best one first."""
        found = []
        for embedder in dict.fromkeys((self.embedder(), self.light())):
            if embedder is not None:
                try:
                    found.append((embedder, build_model_name(embedder)))
                except ModelFailed as error:
                    self.fail(error)
        return found

    def model(self, reach: TenantStore, embedder: Embedder, name: str) -> EmbeddingModel | None:
        """Return a model with its number in a tenant. A new model is added to the tenant."""

        def add(tx: Tx) -> EmbeddingModel | None:
            tx.send("add_model", name=name, dimensions=embedder.dimensions, now=self._clock.now())
            return find_model(tx, embedder, name)

        try:
            return reach.read(lambda tx: find_model(tx, embedder, name)) or reach.write(add)
        except StorageError as error:  # if the disk cannot be written, search by words
            self.trouble = str(error)
        return None

    def models(self, reach: TenantStore) -> list[EmbeddingModel]:
        """Return the models that can be used now, the best one first."""
        found = (self.model(reach, *named) for named in self.named_embedders())
        return [model for model in found if model is not None]

    def _built_in_model(self) -> Embedder | None:
        from ..models.wordllama import WordLlama

        with suppress(ModelFailed), self._lock:
            self._built_in = self._built_in or WordLlama()
        return self._built_in

    def earlier(self, reach: TenantStore, current: EmbeddingModel) -> EmbeddingModel | None:
        """Return the built-in model if it has vectors and is not the current one. It serves until the new vectors exist."""
        from ..models.wordllama import WordLlama

        name = f"{WordLlama.id}/{WordLlama.dimensions}"
        if name == current.name or reach.read(lambda tx: tx.row("find_model", name=name)) is None:
            return None
        embedder = self._built_in_model()
        return None if embedder is None else reach.read(lambda tx: find_model(tx, embedder, name))


def find_model(tx: Tx, embedder: Embedder, name: str) -> EmbeddingModel | None:
    row = tx.row("find_model", name=name)
    return None if row is None else EmbeddingModel(embedder, name, row[0], row[2])


def build_model_name(embedder: Embedder) -> str:
    """The name under which a model's vectors are stored. With other dimensions it is another model."""
    return f"{embedder.id}/{embedder.dimensions}"


def embed_entries(embedder: Embedder, rows: Sequence[Row]) -> list[bytes]:
    """Return the encoded vectors of each entry's chunks. The policy of its collection sets the size of the chunks.

    A sentence model also reads short statements without their subject, because questions often name another or none. The
    vector of such a statement is the mean of both readings.
    """
    policies = [decode_policy(row[5]) for row in rows]
    chunks = [
        split_chunks(row[4], policy.chunk_chars, policy.overlap_chars, fine=row[6] in STATEMENTS)
        for row, policy in zip(rows, policies, strict=True)
    ]
    bare: dict[int, str] = {}
    if is_sentence_model(embedder):
        for at, row in enumerate(rows):
            if row[6] in STATEMENTS and len(chunks[at]) == 1 and (rest := remove_subject(row[4])) != row[4]:
                bare[at] = rest
    texts = [chunk for text in chunks for chunk in text]
    vectors = embedder.embed([*texts, *bare.values()])
    if vectors.shape[1:] != (embedder.dimensions,):
        raise ModelFailed(f"The model returned {vectors.shape[1]} dimensions instead of {embedder.dimensions}.")
    without = dict(zip(bare, vectors[len(texts) :], strict=True))
    found, at = [], 0
    for number, text in enumerate(chunks):
        own = vectors[at : at + len(text)]
        if number in without:
            mean = own[0] + without[number]
            own = (mean / max(float(np.linalg.norm(mean)), 1e-12))[None]
        found.append(own.astype(np.float16).tobytes())
        at += len(text)
    return found


def is_sentence_model(embedder: Embedder) -> bool:
    """True for a model that reads whole sentences, and is so slow that light vectors serve until its own exist."""
    return bool(getattr(embedder, "with_light", False))


def embed_missing(
    reach: TenantStore, model: EmbeddingModel, docids: Sequence[int], exact: bool, characters: int
) -> tuple[dict[int, bytes], int, int]:
    """Compute the vectors of some entries in order, until their texts have so many characters. Store the vectors if that is worth
    a write and the disk can be written. Return them, how many entries were looked at, and how many characters are left.

    `exact`: the caller keeps the exact vectors in memory and need not read them again. If the model computes in this process,
    one search of a tenant does so at a time: many would only take the processor from other tenants.
    """
    turn = _turns.setdefault(reach.key, Lock()) if getattr(model.embedder, "instant", False) else nullcontext()
    with turn:
        return _embed_missing(reach, model, docids, exact, characters)


_turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()
"""The tenants whose searches compute vectors."""


def _embed_missing(
    reach: TenantStore, model: EmbeddingModel, docids: Sequence[int], exact: bool, characters: int
) -> tuple[dict[int, bytes], int, int]:
    found: list[tuple[Row, bytes]] = []
    place = 0
    while place < len(docids) and characters > 0:
        batch = encode_numbers(docids[place : place + READ_BATCH])
        texts = {row[0]: row for row in reach.read(lambda tx, batch=batch: tx.rows("texts_of", docids=batch))}  # type: ignore[misc]
        rows = []
        for docid in docids[place : place + READ_BATCH]:
            place += 1
            if docid in texts:  # it may have been deleted
                rows.append(texts[docid])
                characters -= len(texts[docid][4])
            if characters <= 0:
                break
        found += zip(rows, embed_entries(model.embedder, rows), strict=True)
    if not exact or len(found) >= MIN_WRITE or not getattr(model.embedder, "instant", False):
        _store_vectors(reach, model, found)
    return {row[0]: value for row, value in found}, place, characters


def _store_vectors(reach: TenantStore, model: EmbeddingModel, found: Sequence[tuple[Row, bytes]]) -> None:
    with suppress(StorageError):  # the next search or the job computes them again
        for at in range(0, len(found), WRITE_BATCH):
            batch = found[at : at + WRITE_BATCH]
            reach.write(lambda tx, batch=batch: write_vectors(tx, model, batch))  # type: ignore[misc]


def write_vectors(tx: Tx, model: EmbeddingModel, batch: Sequence[tuple[Row, bytes]]) -> None:
    for row, value in batch:
        named = {"model": model.number, "name": model.name, "dimensions": model.embedder.dimensions}
        tx.send("add_vector", id=row[1], version=row[2], value=value, **named)


def queue_embedding(reach: TenantStore, now: int) -> None:
    """Queue a job that computes the missing vectors, if the disk can be written."""
    with suppress(StorageError):
        reach.write(lambda tx: queue.ensure_slot(tx, "embed", now, now))
