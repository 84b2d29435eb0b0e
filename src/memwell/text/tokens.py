"""The number of tokens of a text, without the tokenizer of a model: an estimate that is too high rather than too low.

A text is cut into pieces much as tokenizers cut it (up to four letters, one capital, one digit, one sign), and each piece
counts one. Han, kana, Arabic and Hebrew letters count one and a half, Hangul two and a half, and emoji four, which is the number
of their bytes and the most that any tokenizer makes of them. Compared to the most wasteful tokenizer in use (Llama 2, with 32,000
pieces), the estimate is a fifth too high for English, a third for code, and a tenth too low only for long German words. Newer
tokenizers make fewer tokens.

A longer text never has fewer tokens, and lines together never have more than the sum of the single lines with their line ends,
so a budget can be kept by adding up.
"""

from __future__ import annotations

import re

MESSAGE = 4
"""Tokens of a chat message beside its words."""

_PIECE = re.compile(
    r"[A-Z]?[a-z]{1,4}|[A-Z]|[\x21-\x40\x5b-\x60\x7b-\x7e]|\n|[ \t]{4}|[^\x00-\x7f]|[\x00-\x08\x0b-\x1f\x7f]"
)
_HALF_MORE = re.compile("[\u0590-\u08ff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef]")
_ONE_MORE = re.compile("[\u0900-\u10ff\u1200-\u2e7f\ua4d0-\ua95f\ua980-\uabff\ud800-\uf8ff\ufb00-\ufeff\ufff0-\uffff]")
_MUCH_MORE = re.compile("[\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff]")
_BYTES = re.compile("[\U00010000-\U0010ffff]")


def estimate_tokens(text: str) -> int:
    pieces = len(_PIECE.findall(text))
    if text.isascii():
        return pieces
    halves = len(_HALF_MORE.findall(text)) + 2 * len(_ONE_MORE.findall(text))
    return pieces + (halves + 3 * len(_MUCH_MORE.findall(text)) + 6 * len(_BYTES.findall(text)) + 1) // 2
