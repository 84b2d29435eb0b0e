"""The tokenizer of BERT models: words are lowered, stripped of accents, and cut into the longest pieces of a vocabulary.

It gives the same pieces as the package `tokenizers`, except that names of special pieces in a text, such as `[SEP]`, are words
like any other: what a text says must not end it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import ModelFailed

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
CONTINUED = "##"
MAX_PIECE_WORD = 100  # a longer run without a space or a punctuation mark is unknown
MAX_CACHED = 48
CACHE_SIZE = 32 * 1024
IGNORED = {"Mn", "Cc", "Cf", "Co", "Cs"}
"""Categories of characters that are left out: accents, control characters, and those without a public meaning."""
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")  # `split` would take some of them for spaces
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """Cuts texts into the pieces of a vocabulary: a file with one piece in each line."""

    def __init__(self, path: Path) -> None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise ModelFailed(f"The model's file {path.name} is missing or damaged: reinstall memwell.") from error
        self._vocabulary = {piece: number for number, piece in enumerate(lines)}
        try:
            self._unknown, self._start, self._end = (self._vocabulary[name] for name in (UNKNOWN, START, END))
        except KeyError as error:
            raise ModelFailed(f"The model's file {path.name} has no piece {error}: reinstall memwell.") from error
        self._cached_cut: Any = lru_cache(CACHE_SIZE)(self._cut)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the numbers of a text's first pieces between the start and the end piece, `limit` in all at most."""
        return [self._start, *islice(self._pieces(_CONTROLS.sub("", text)), limit - 2), self._end]

    def forget(self) -> None:
        """Clear the cache of words, which come from texts that may be erased."""
        self._cached_cut.cache_clear()

    def _pieces(self, text: str) -> Iterator[int]:
        cut: Callable[[str], tuple[int, ...]] = self._cached_cut
        for word in text.split():
            if len(word) <= MAX_CACHED:
                yield from cut(word)
            else:
                for part in _split_word(word):
                    yield from self._cut_part(part)

    def _cut(self, word: str) -> tuple[int, ...]:
        return tuple(piece for part in _split_word(word) for piece in self._cut_part(part))

    def _cut_part(self, part: str) -> list[int]:
        """Cut off the longest known piece again and again. If anything is left, the whole part is unknown."""
        if len(part) > MAX_PIECE_WORD:
            return [self._unknown]
        vocabulary, found, at = self._vocabulary, [], 0
        while at < len(part):
            prefix = CONTINUED if at else ""
            for end in range(len(part), at, -1):
                number = vocabulary.get(prefix + part[at:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            at = end
        return found


def _split_word(word: str) -> Iterator[str]:
    """Lower a word without its accents, and yield its parts: punctuation marks and ideographs stand alone."""
    if not word.isascii():
        word = unicodedata.normalize("NFD", word)
        word = "".join(sign for sign in word if unicodedata.category(sign) not in IGNORED)
        word = word.replace("Σ", "σ")  # `lower` writes it as ς at the end of a word, which the vocabulary does not
    start = 0
    word = word.lower()
    for at, sign in enumerate(word):
        if _stands_alone(sign):
            if at > start:
                yield word[start:at]
            yield sign
            start = at + 1
    if start < len(word):
        yield word[start:]


@lru_cache(4096)
def _stands_alone(sign: str) -> bool:
    if sign.isascii():
        return not sign.isalnum()
    number = ord(sign)
    return unicodedata.category(sign)[0] == "P" or any(first <= number <= last for first, last in _IDEOGRAPHS)
