"""Passages: the parts of long entries that answer a query.

A long entry counts as much as its best passage, so its length costs it nothing. Passages are the chunks that have vectors, see
`split_chunks`. The texts of the entries that were read last stay with the index.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..model.collection import decode_policy
from ..storage.port import Tx, encode_numbers
from . import words
from .upkeep import STATEMENTS
from .vector_space import Array

MAX_SHOWN = 700
"""The length of a passage that is shown with its neighbours, in characters."""
MAX_TEXTS = 64
"""The number of long texts that an index keeps."""


class Passage(NamedTuple):
    """A part of an entry's text, and its place in it."""

    text: str
    start: int


class LongText(NamedTuple):
    """The passages of an entry, and the words of each."""

    passages: Sequence[Passage]
    tokens: Sequence[frozenset[str]]

    def show(self, place: int) -> Passage:
        """Return a passage with those beside it, as far as they are short: a sentence says more among its neighbours."""
        first, last = place, place
        for beside in (place - 1, place + 1):
            if 0 <= beside < len(self.passages):
                wider = min(first, beside), max(last, beside)
                if sum(len(self.passages[at].text) for at in range(wider[0], wider[1] + 1)) <= MAX_SHOWN:
                    first, last = wider
        parts = self.passages[first : last + 1]
        return Passage(" ".join(part.text for part in parts), parts[0].start)

    def cover(self, weights: Mapping[str, float], total: float) -> Array:
        """The share of a query's words that each passage covers."""
        if not total:
            return np.zeros(len(self.tokens))
        return np.array([sum(weights[token] for token in weights.keys() & there) / total for there in self.tokens])


class LongTexts:
    """The long texts of an index that were read last."""

    def __init__(self) -> None:
        self._texts: OrderedDict[int, LongText] = OrderedDict()

    def read(self, tx: Tx, docids: Sequence[int], language: str) -> dict[int, LongText]:
        """Return the texts of some entries, by their numbers. Entries with one passage are left out."""
        missing = [docid for docid in docids if docid not in self._texts]
        found = {docid: self._texts[docid] for docid in docids if docid in self._texts}
        if missing:
            for row in tx.rows("texts_of", docids=encode_numbers(missing)):
                policy = decode_policy(row[5])
                chunks = words.split_chunks(row[4], policy.chunk_chars, policy.overlap_chars, fine=row[6] in STATEMENTS)
                found[row[0]] = find_passages(row[4], chunks[1:], language)
        for docid, text in found.items():
            self._texts[docid] = text
            self._texts.move_to_end(docid)
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)
        return {docid: text for docid, text in found.items() if len(text.passages) > 1}

    def forget(self) -> None:
        self._texts.clear()


def find_passages(content: str, chunks: Sequence[str], language: str) -> LongText:
    """Find the places of chunks in a text."""
    found, at = [], 0
    for chunk in chunks:
        start = content.find(chunk[:40], at)
        start = at if start < 0 else start
        found.append(Passage(chunk, start))
        at = start + 1
    return LongText(found, [frozenset(words.tokenize(passage.text, language)) for passage in found])
