"""The number of tokens of a text, without the tokenizer of a model.

A text is cut into pieces as tokenizers of today cut it (a word with the space before it, a number, a run of signs, white space),
and the form of a piece says how many tokens it has. Words are the difficult part: up to four letters are one token, and of the
other letters, those cost that hardly follow the letter before them in what tokenizers were trained on. That tells English, where
a long word is mostly one token, from Italian, where it has two or three.

The costs are fitted to o200k, the tokenizer of the newer models of OpenAI. The estimate is within a tenth of it for texts in
English, German, French, Spanish, Portuguese, Italian and Dutch, and for Markdown, Python, JSON and logs; within 15 % for Russian,
Arabic, Hindi, Chinese, Japanese and Korean. Base64, digits, rare symbols and emoji are at most 15 % too low. What the costs are
not fitted to may be lower: other languages by a quarter, rare ones by more, and random letters of other alphabets by half.

A longer text never has fewer tokens, and lines together never have more than the sum of the single lines with their line ends,
so a budget can be kept by adding up. Therefore nothing but the piece itself decides about its cost, and a piece that grows never
gets cheaper.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from string import ascii_lowercase

MESSAGE = 4
"""Tokens of a chat message beside its words."""
CHARACTERS_PER_TOKEN = 16
"""The most characters of a token, which is indentation. The estimate of a text is never less than its length divided by this."""
_TOKEN = 100
"""All costs are hundredths of a token."""

_LOWER = "a-z\xc0-\xd6\xd8-\xf6\xf8-\u024f\u1e00-\u1eff"
_SIGN = r"!-/:-@\[-`{-~"
_SPACED = "\u0370-\u1cff\u2d30-\u2d7f\ua4d0-\ud7ff"
"""Alphabets and syllabaries other than Latin and Japanese."""
_OTHER = rf"[^\x00-\x7f{_LOWER}{_SPACED}]"
_PIECE = re.compile(
    rf"[ \t{_SIGN}]?(?:[A-Z]*[{_LOWER}]+|[A-Z]+)"
    rf"|[0-9]+| ?[{_SIGN}]+[\r\n]*| ?[{_SPACED}]+| ?{_OTHER}"
    r"|[ \t]*[\r\n]+|[ \t]+(?![^ \t])|[ \t]|[\x00-\x1f\x7f]"
)
_WORD = re.compile(rf"([ \t{_SIGN}]?)(?=[A-Z{_LOWER}])([A-Z]*)([{_LOWER}]*)")
_PART = 1 << 16
"""Characters that are counted at once. One count of a whole text would hold up the other threads."""
_BORDER = re.compile(rf"(?<=[^ \t\r\n]) |(?<=[0-9])[^0-9]|(?<![ \t]){_OTHER}")
"""A character with which a piece begins, so that a text may be cut before it."""


def estimate_tokens(text: str) -> int:
    cost = start = 0
    while start < len(text):
        cut = _BORDER.search(text, start + _PART)
        end = cut.start() if cut else len(text)
        pieces = Counter(_PIECE.findall(text, start, end))
        cost += sum(count * _find_cost(piece) for piece, count in pieces.items())
        start = end
    return -(-cost // _TOKEN)


def _find_cost(piece: str) -> int:
    if word := _WORD.fullmatch(piece):
        return _find_word_cost(*word.groups())
    bare = piece.lstrip(" \t")
    first = bare[:1]
    if not first or first in "\r\n":
        return _find_space_cost(piece)
    if "0" <= first <= "9":
        return _TOKEN * -(-len(bare) // 3)
    if first < "\x80":
        return _find_sign_cost(piece, bare)
    if _SPACED_WORD.match(first):
        return _find_spaced_cost(bare)
    return max(_find_other_cost(first), _TOKEN if bare != piece else 0)


# -- words in Latin letters

_LEADS = dict(zip(' \t._-/([{"`', (100, 100, 103, 103, 135, 135, 120, 120, 120, 150, 150), strict=True)) | {"": 100}
"""Costs of the shortest words by the character before them. Some signs are often one token with a word."""
_LEAD = 160
_ELISION, _LONG_ELISION = 140, 200
"""Costs of words after an apostrophe: up to five letters, such as those of `c'est`, and longer ones."""
_CONTRACTION = 45
"""Cost of the end of `don't` or `it's`. What may become such an end costs as much."""
_CONTRACTIONS = frozenset(["", "s", "t", "m", "d", "r", "re", "v", "ve", "l", "ll"])
_CAPITAL = 6
_MORE_CAPITALS = 22
"""Cost of each capital after the third."""
_LONG = 12
_MORE_LETTERS = 30
"""Cost of each letter after the twelfth, beside those of the pairs."""
_RARE = 90
_ACCENTS = 160
"""Cost of a pair of letters with accents. Hardly any language has them, so these letters are often two tokens each."""
_STEP = 12
_ALPHABET = ascii_lowercase + "é"
_PAIRS = (
    "500025080800108040006902060",
    "39200xxx53x0xx02x7560xxx0x2",
    "1x9x03x302001x8xx0000xxx0x6",
    "00x62xxx2xx0002xx303064x0x9",
    "050000471040000000004800060",
    "2xx610xx0xx04x0xx6300xxx0x1",
    "6xx70x704xx7x314x0010xxxxx6",
    "0xxx0xx00xx0000xx0001x2x0x9",
    "2000101302500000700070x1x00",
    "2xx40xxxx00xx83xxx5x0xxxxx6",
    "61x0000x0x00x46xx9055x2xxx9",
    "419000401x2436350x0000xx098",
    "00x50x2x1xx35080xx060x3x0x5",
    "26012705090007959800505x097",
    "0250610309040000x0040000077",
    "0x2306x02xx00402x2000xxx0x6",
    "xxxxxxxxxxx2xxxx0xxx1xxxxx4",
    "040100120x0000524400001x036",
    "387002000x400130220014020x1",
    "340400000xx00072x109030x049",
    "0000000702200090x0003783077",
    "9xxx0xxx0xx7xx42x9xx50xxxx7",
    "0xxx0xx00xxxx00xx00x4x0xxx7",
    "2x2x2xxx0xx2xxx0x0x0xxx00x2",
    "3xx20xxx0xx02500xx00xxxx0x7",
    "3xxx2xxx9xxxxx9xxxx77x9xx06",
    "222000099562000523206048340",
)
"""Costs of letters by the letter before them, in steps: a row for each first letter, a column for each second one. All letters
with accents are the last one. Pairs marked with an `x` hardly occur in any language, and cost at the beginning of a word too."""


def _read_pairs(beginning: bool) -> dict[tuple[str, str], int]:
    costs = {}
    for first, row in zip(_ALPHABET, _PAIRS, strict=True):
        for second, mark in zip(_ALPHABET, row, strict=True):
            costs[first, second] = _RARE if mark == "x" else 0 if beginning else int(mark) * _STEP
    return costs | {("é", "é"): _ACCENTS}


_FIRST_PAIRS = _read_pairs(beginning=True)
_LATER_PAIRS = _read_pairs(beginning=False)
_ACCENTED = re.compile("[^a-z]")


def _find_word_cost(lead: str, capitals: str, letters: str) -> int:
    cost = _find_elision_cost(capitals + letters) if lead == "'" else _LEADS.get(lead, _LEAD)
    if cost < _TOKEN:
        return cost
    if capitals:
        cost += _CAPITAL if letters else 0
        cost += _MORE_CAPITALS * max(len(capitals) - 3, 0)
    word = capitals.lower() + (letters if letters.isascii() else _ACCENTED.sub("é", letters))
    size = len(word)
    if size > _LONG:
        cost += _MORE_LETTERS * (size - _LONG)
    early = max(len(capitals) - 1, 0) + 4 if letters else size
    cost += sum(map(_FIRST_PAIRS.__getitem__, pairwise(word[:early])))
    if size > early:
        cost += sum(map(_LATER_PAIRS.__getitem__, pairwise(word[early - 1 :])))
    return cost


def _find_elision_cost(word: str) -> int:
    if word in _CONTRACTIONS:
        return _CONTRACTION
    return _TOKEN if len(word) < 3 else _ELISION if len(word) < 6 else _LONG_ELISION


# -- signs and white space

_RUNS = frozenset("!#%*+-./:;=_~")
"""Signs of which a long run is one token, or a few."""
_SAME_SIGN, _SAME_OTHER_SIGN = 7, 50
_RARE_SIGNS = frozenset("$%&+@^|~")
_RARE_SIGN = 90
"""Cost of a rare sign and one that differs from it, beside that of the first sign."""
_SIGNS = (0, 4, 46)
"""Costs of other signs that differ from the one before, by their number."""
_MORE_SIGNS = 80
_INDENT = 16
_MORE_SPACE = 13
_MIXTURE = 50
"""Cost of each change between spaces, tabs and line ends after the second."""


def _find_sign_cost(piece: str, bare: str) -> int:
    if piece == "'":
        return _find_elision_cost("")
    signs = bare.rstrip("\r\n")
    if not signs or signs < "!" or signs >= "\x7f":
        return _TOKEN
    runs = same = rare = other = 0
    for first, second in pairwise(signs):
        if first == second:
            runs, same = (runs + 1, same) if first in _RUNS else (runs, same + 1)
        elif first in _RARE_SIGNS or second in _RARE_SIGNS:
            rare += 1
        else:
            other += 1
    last = len(_SIGNS) - 1
    cost = _TOKEN + _SIGNS[min(other, last)] + _MORE_SIGNS * max(other - last, 0) + _RARE_SIGN * rare
    cost += _SAME_SIGN * runs + _SAME_OTHER_SIGN * max(same - 2, 0)
    return cost + _MORE_SPACE * max(len(bare) - len(signs) - 3, 0)


def _find_space_cost(space: str) -> int:
    kinds = space.replace("\r", "\n")
    changes = sum(first != second for first, second in pairwise(kinds))
    return _TOKEN + _MORE_SPACE * max(len(space) - _INDENT, 0) + _MIXTURE * max(changes - 2, 0)


# -- other scripts

_SPACED_WORD = re.compile(f"[{_SPACED}]")
_SCRIPTS = (
    (0x0370, 2, 45),  # Greek
    (0x0400, 2, 100),
    (0x0410, 2, 18),  # Russian
    (0x0450, 2, 100),
    (0x0451, 2, 18),
    (0x0452, 2, 100),
    (0x0530, 2, 30),  # Armenian
    (0x0590, 0, 100),  # Hebrew, points
    (0x05D0, 2, 52),  # letters
    (0x0600, 0, 100),  # Arabic, signs
    (0x0620, 3, 42),  # letters
    (0x064B, 0, 100),  # vowels
    (0x0660, 3, 60),
    (0x0700, 0, 200),  # Syriac and others
    (0x0800, 0, 300),
    (0x0900, 3, 40),  # Devanagari
    (0x0980, 1, 32),  # Bengali
    (0x0A00, 1, 58),  # Gurmukhi
    (0x0A80, 1, 30),  # Gujarati
    (0x0B00, 1, 119),  # Odia
    (0x0B80, 1, 38),  # Tamil
    (0x0C00, 1, 42),  # Telugu
    (0x0C80, 1, 36),  # Kannada
    (0x0D00, 1, 30),  # Malayalam
    (0x0D80, 1, 60),  # Sinhala
    (0x0E00, 2, 40),  # Thai
    (0x0E80, 0, 190),  # Lao
    (0x0F00, 0, 160),  # Tibetan
    (0x1000, 1, 52),  # Burmese
    (0x10A0, 2, 31),  # Georgian
    (0x1100, 0, 300),
    (0x1200, 0, 200),  # Ethiopic
    (0x1380, 0, 300),
    (0x1780, 1, 63),  # Khmer
    (0x1800, 0, 300),
    (0x2D30, 0, 270),  # Tifinagh
    (0xA4D0, 0, 300),
)
"""The first character of a script, the number of letters in one token, and the cost of each further letter in a word."""
_LAST_WITH_SPACES = "\u0e00"
"""Thai and the scripts after it put no spaces between words, so that a long word is nothing strange."""
_SCRIPT_STARTS = [start for start, _, _ in _SCRIPTS]
_HANGUL, _RARE_HANGUL = 80, 235
_HAN, _OTHER_HAN, _RARE_HAN = 79, 155, 220
_BLOCKS = (
    (0x0080, 200),
    (0x00A0, 100),
    (0x0250, 200),
    (0x0300, 170),  # accents
    (0x1D00, 270),
    (0x1F00, 220),
    (0x2000, 120),  # dashes, quotes
    (0x2040, 210),  # symbols
    (0x2340, 280),
    (0x2460, 200),
    (0x26C0, 290),
    (0x2700, 200),
    (0x27C0, 290),
    (0x2B00, 210),
    (0x2B40, 300),
    (0x3000, 80),  # punctuation
    (0x3040, 69),  # hiragana
    (0x30A0, 52),  # katakana
    (0x3100, 220),
    (0x3240, 300),
    (0x4E00, _RARE_HAN),
    (0xA000, 300),
    (0xFB00, 200),
    (0xFB40, 300),
    (0xFE00, 100),
    (0xFE10, 200),
    (0xFF00, 70),  # full width
    (0xFF40, 180),
    (0xFFF0, 100),
    (0x10000, 400),
    (0x1D000, 300),
    (0x1D400, 280),
    (0x1D800, 400),
    (0x1F000, 300),
    (0x1F1C0, 200),  # flags
    (0x1F200, 300),
    (0x1F300, 200),  # emoji
    (0x1F540, 300),
    (0x1F600, 200),
    (0x1F6C0, 290),
    (0x1F900, 200),
    (0x1F980, 300),
    (0x1FB00, 400),
)
"""All other characters: the first one of a block, and the cost of each."""
_BLOCK_STARTS = [start for start, _ in _BLOCKS]


def _find_spaced_cost(word: str) -> int:
    cost = 0
    for index, letter in enumerate(word):
        size, price = _find_script(letter)
        if not index and size:
            cost += _TOKEN
        if index >= size:
            cost += price
        if index >= _LONG and letter < _LAST_WITH_SPACES:
            cost += price
    return max(cost, _TOKEN)


@cache
def _find_script(letter: str) -> tuple[int, int]:
    """Return the number of letters in one token, and the cost of each further letter."""
    if letter >= "\uac00":
        return 0, _HANGUL if letter in _list_hangul() else _RARE_HANGUL
    return _SCRIPTS[bisect_right(_SCRIPT_STARTS, ord(letter)) - 1][1:]


def _find_other_cost(letter: str) -> int:
    code = ord(letter)
    if 0x4E00 <= code < 0xA000:
        simplified, others = _list_han()
        return _HAN if letter in simplified else _OTHER_HAN if letter in others else _RARE_HAN
    return _BLOCKS[bisect_right(_BLOCK_STARTS, code) - 1][1]


@cache
def _list_han() -> tuple[frozenset[str], frozenset[str]]:
    """The characters that the first level of a national standard has, which are the usual ones: of China; of Taiwan and Japan."""
    simplified = _list_characters("gb2312", 0xB0, 0xD7)
    return simplified, _list_characters("big5", 0xA4, 0xC6) | _list_characters("euc_jp", 0xB0, 0xCF)


@cache
def _list_hangul() -> frozenset[str]:
    return _list_characters("euc_kr", 0xB0, 0xC8)


def _list_characters(codec: str, first: int, last: int) -> frozenset[str]:
    pairs = (bytes((high, low)) for high in range(first, last + 1) for low in range(0x40, 0xFF))
    found = (pair.decode(codec, "ignore") for pair in pairs)
    return frozenset(one for one in found if len(one) == 1 and one > "\x7f")


def share_out(costs: Sequence[int], room: int) -> list[int]:
    """Divide a number of tokens, so that those that need little get it, and the others get equal parts of the rest."""
    shares = [0] * len(costs)
    for position, index in enumerate(sorted(range(len(costs)), key=costs.__getitem__)):
        shares[index] = max(min(costs[index], room // (len(costs) - position)), 0)
        room -= shares[index]
    return shares
