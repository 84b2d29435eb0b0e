"""Readings of a text in disguise, and where each part of a reading stands in the text.

People read `p@ssw0rd`, `p a s s w o r d` and a word with invisible or look-alike letters as the same word. Base64 is read by
machines. A secret that is found in a reading is masked in the text.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..text.hidden import INVISIBLE, LEET, LOOKALIKES, MIXED_WORD, join_letters

_INVISIBLE_RUN = re.compile(f"(?:{INVISIBLE.pattern})+")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]{1,3}){5,}[^\W\d_](?![^\W_])")
_LEET_WORD = re.compile(r"(?<![\w@$])(?=[A-Za-z@$]{0,20}[013457@$])[\w@$]{3,24}(?![\w@$])")
_ACCENTED = re.compile("[^\\W\u0300-\u036f][\u0300-\u036f]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_SMALL_CAPITAL = re.compile("LATIN LETTER SMALL CAPITAL ([A-Z])")
_ENCODED = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{24,4000}={0,2}(?![\w+/=-])")


class _Edit(NamedTuple):
    """A piece of a text that another one replaced: its place in the new text, and in the old one."""

    start: int
    end: int
    old_start: int
    old_end: int


class Reading:
    """A text as it may be read. Edits of a layer are in order, and a later layer edits the result of an earlier one."""

    def __init__(self, text: str, layers: tuple[list[_Edit], ...] = ()) -> None:
        self.text, self._layers = text, layers

    def rewrite(self, pattern: re.Pattern[str], to: Callable[[str], str]) -> Reading:
        """Replace what a pattern matches."""
        edits, parts, at, shift = list[_Edit](), list[str](), 0, 0
        for match in pattern.finditer(self.text):
            if (new := to(match[0])) != match[0]:
                parts += [self.text[at : match.start()], new]
                start, at = match.start() + shift, match.end()
                edits.append(_Edit(start, start + len(new), *match.span()))
                shift = edits[-1].end - at
        return Reading("".join([*parts, self.text[at:]]), (*self._layers, edits)) if edits else self

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text that a span of the reading stands for."""
        for edits in reversed(self._layers):
            first = bisect_right(edits, start, key=lambda edit: edit.start) - 1
            last = bisect_left(edits, end, key=lambda edit: edit.start) - 1
            if first >= 0:
                edit = edits[first]
                start = edit.old_start if start < edit.end else edit.old_end + start - edit.end
            if last >= 0:
                edit = edits[last]
                end = edit.old_end if end <= edit.end else edit.old_end + end - edit.end
        return start, end


def read_disguised(text: str, is_name: Callable[[str], bool]) -> Reading | None:
    """Return a text as people read it; None if nothing in it is disguised. Digits and marks stand for letters only in words that
    are the name of a secret then."""
    reading = Reading(text)
    if not text.isascii():
        reading = reading.rewrite(_INVISIBLE_RUN, lambda _: "")
        if table := _list_styled(reading.text):
            styled = re.compile(f"[{''.join(map(re.escape, table))}]")
            reading = reading.rewrite(styled, table.__getitem__)
        reading = reading.rewrite(_ACCENTED, lambda letter: _ACCENT.sub("", unicodedata.normalize("NFC", letter)))
        reading = reading.rewrite(MIXED_WORD, lambda word: word.translate(LOOKALIKES))
    reading = reading.rewrite(_LEET_WORD, lambda word: _read_leet(word, is_name)).rewrite(_SPACED, join_letters)
    return None if reading.text == text else reading


def iterate_decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the span and the text of what is written in base64."""
    for match in _ENCODED.finditer(text):
        encoded = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if all(letter.isprintable() or letter.isspace() for letter in decoded):
            yield *match.span(), decoded


def _list_styled(text: str) -> dict[str, str]:
    """Return the styled characters of a text, with the plain letters that they stand for."""
    table = {}
    for letter in set(text):
        small = _SMALL_CAPITAL.fullmatch(unicodedata.name(letter, ""))
        table[letter] = small[1].lower() if small else unicodedata.normalize("NFKC", letter)
    return {letter: plain for letter, plain in table.items() if plain != letter}


def _read_leet(word: str, is_name: Callable[[str], bool]) -> str:
    letters = word.translate(LEET)
    return letters if is_name(letters) else word
