"""The corpus of the search measurements: facts of twenty words, and queries of four.

The words are the whole words of the default model's tokenizer, in its order, which is roughly that of their frequency; they
are drawn by Zipf's law. So the most frequent ones are stop words, as in real texts, and all of them mean something to the
model. A query is four words of one fact, none of them a stop word; it names no date, so ranking has no reason to move. The
four are either any ("common": thousands of facts hold one of them) or the rarest ("rare"): full text costs so differently
for the two that one alone would decide a comparison.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from tokenizers import Tokenizer

from memwell.models import wordllama
from memwell.search import query
from memwell.search import words as analyse

WORDS = 20
ASKED = 4
PER_SESSION = 1000
TOPICS = 20


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to store: its number, its session and its text."""

    number: int
    session: str
    content: str
    metadata: dict[str, Any]

    @property
    def id(self) -> str:
        return f"fact-{self.number:08d}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and the session of its fact."""

    text: str
    session: str


def facts(count: int) -> Iterator[Fact]:
    """Yield the same facts in every run, session by session."""
    draw = random.Random(count)
    for number in range(count):
        metadata = {"topic": f"topic-{draw.randrange(TOPICS)}", "n": draw.randrange(PER_SESSION)}
        yield Fact(number, session(number // PER_SESSION), sentence(draw), metadata)


def session(number: int) -> str:
    return f"session-{number}"


def sentence(draw: random.Random) -> str:
    words, weights = _vocabulary()
    return " ".join(draw.choices(words, cum_weights=weights, k=WORDS)).capitalize() + "."


def queries(texts: list[str], count: int, *, sessions: int, rare: bool = False, seed: int | str = 0) -> list[Asked]:
    """Yield queries from the facts of the first sessions."""
    draw = random.Random(f"queries {seed}")
    found: list[Asked] = []
    while len(found) < count:
        number = draw.randrange(min(sessions * PER_SESSION, len(texts)))
        text = _query(draw, texts[number], rare)
        if text:
            found.append(Asked(text, session(number // PER_SESSION)))
    return found


def _query(draw: random.Random, content: str, rare: bool) -> str | None:
    stop = analyse.list_stop_tokens("en")
    words = [word for word in content.lower().rstrip(".").split() if not stop.issuperset(analyse.tokenize(word))]
    words = sorted(set(words), key=_ranks().__getitem__)
    text = " ".join(words[-ASKED:] if rare else draw.sample(words, ASKED)) if len(words) >= ASKED else ""
    return text if text and query.remove_dates(text) == text else None


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    pieces = Tokenizer.from_file(str(wordllama.DATA / wordllama.TOKENIZER)).get_vocab()
    whole = {piece[1:]: place for piece, place in pieces.items() if piece[:1] == "\u2581"}
    words = [word for word in sorted(whole, key=whole.__getitem__) if len(word) > 2 and _is_plain(word)]
    return words, list(accumulate(1.0 / rank for rank in range(1, len(words) + 1)))


@cache
def _ranks() -> dict[str, int]:
    return {word: rank for rank, word in enumerate(_vocabulary()[0])}


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower()
