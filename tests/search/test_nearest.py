"""The arm of meaning: bytes are near enough, and signs choose candidates where there are very many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memwell.models.wordllama import WordLlama
from memwell.search import nearest, vector_space
from memwell.search.nearest import SignBits
from memwell.search.vector_space import quantise

from ..engines import Memory

Vectors = NDArray[np.float32]

TOPICS = ("coffee", "bicycle", "violin", "mountain", "invoice", "garden", "doctor", "winter", "airport", "puppy")
FRAMES = (
    "I like my {}",
    "the {} was expensive",
    "she lost the {} yesterday",
    "we talked about a {}",
    "no {} this year",
)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [FRAMES[n % 5].format(f"{TOPICS[n % 10]} {TOPICS[(n // 10) % 10]} {n % 97}") for n in range(1500)]


def vectors(count: int, seed: int = 1) -> Vectors:
    """Unit vectors in clusters, as texts have them."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(20, 64))
    found = centres[chance.integers(0, 20, count)] + 0.5 * chance.normal(size=(count, 64))
    unit: Vectors = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return unit


def test_bytes_are_near_enough() -> None:
    given = vectors(500)
    small, scale = quantise(given)
    assert np.abs(small * scale[:, None] - given).max() < 0.005
    assert quantise(np.zeros((2, 64), np.float32))[0].any() == np.False_


def test_bytes_are_those_of_a_plain_conversion() -> None:
    given = (vectors(3000) * np.geomspace(1e-3, 1e3, 3000)[:, None]).astype(np.float16)
    given[5] = 0.0
    given[6, 3:] = np.float16(6e-8)  # the smallest there is
    wide = given.astype(np.float32)
    top = np.abs(wide).max(axis=1)
    top[top == 0.0] = 127.0
    small, scale = quantise(given)
    assert (scale == top / 127.0).all()
    assert (small == np.rint(wide * (127.0 / top)[:, None])).all()


def test_signs_name_the_nearest() -> None:
    given = vectors(5000)
    small, scale = quantise(given)
    bits = SignBits()
    bits.update(small, scale)
    assert bits.candidates is not None
    query = given[7] + 0.05 * vectors(1, seed=9)[0]
    best = np.argsort(-(given @ query))[:10]
    assert np.isin(best, bits.nearest(query, bits.candidates)).mean() >= 0.9


def test_signs_grow_with_what_is_added_and_leave_out_what_is_banned() -> None:
    given = vectors(3000)
    small, scale = quantise(given)
    bits, whole = SignBits(), SignBits()
    bits.update(small[:2000], scale[:2000])
    bits.update(small, scale)
    whole.update(small, scale)
    assert (bits.words == whole.words).all()
    banned = np.arange(0, 3000, 2)
    assert not np.isin(banned, bits.nearest(given[4], 100, banned)).any()


def test_where_signs_say_nothing_everything_is_scanned() -> None:
    """Vectors that point nowhere in particular: no number of candidates is enough, and the check finds that out."""
    chance = np.random.default_rng(3).normal(size=(40_000, 64)).astype(np.float32)
    small, scale = quantise(chance / np.linalg.norm(chance, axis=1, keepdims=True))
    bits = SignBits()
    bits.update(small, scale)
    assert bits.candidates is None or bits.candidates >= 16_000


def test_a_large_scope_is_searched_like_a_small_one(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_space, "MAX_EXACT_PARTS", 100)
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("f")
        flow.import_lines([{"type": "memory", "content": text, "metadata": {"n": n}} for n, text in enumerate(texts)])
        queries = ["a warm coffee", "his old bicycle 40", "winter in the mountain", "the doctor's invoice"]
        asked = [{}, {"filter": {"n": {"$lt": 900}}}, {"filter": {"n": {"$lt": 100}}}]
        expected = [[hit.id for hit in flow.search(q, limit=10, **a)] for q in queries for a in asked]  # type: ignore[arg-type]
        monkeypatch.setattr(nearest, "SCAN_ALL", 200)
        found = [[hit.id for hit in flow.search(q, limit=10, **a)] for q in queries for a in asked]  # type: ignore[arg-type]
    same = [len({*one} & {*other}) / len(one) for one, other in zip(expected, found, strict=True)]
    assert min(same) >= 0.8
    assert sum(same) / len(same) >= 0.95


def test_meaning_alone_finds_what_exact_arithmetic_finds(tmp_path: Path, texts: list[str]) -> None:
    model = WordLlama()
    exact = model.embed(texts)
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("f")
        flow.import_lines([{"type": "memory", "content": text} for text in texts])
        shares = []
        for query in ("warm coffee", "a lost puppy", "airport in winter", "expensive violin lessons"):
            cosines = exact @ model.embed([query])[0]
            of = dict(zip(texts, cosines.tolist(), strict=True))
            tenth = sorted(cosines.tolist())[-10]  # of texts that are equally near, any will do
            found = [of[hit.content] for hit in flow.search(query, limit=10, recipe="meaning")]
            shares.append(sum(cosine >= tenth - 5e-4 for cosine in found) / 10)
    assert sum(shares) / len(shares) >= 0.99
