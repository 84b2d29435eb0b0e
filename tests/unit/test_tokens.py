"""Estimates of tokens are close to o200k, add up, and take time in proportion to the text."""

from __future__ import annotations

import hashlib
import json
import string
import time
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.text.tokens import CHARACTERS_PER_TOKEN, estimate_tokens

from ..cases import cases
from ..properties import examples

COUNTS = json.loads(Path(__file__).with_name("tokens.json").read_text("utf-8"))
"""Texts of several kinds, and the tokens that o200k makes of them."""
WITHIN_15 = ("Russian", "Arabic", "Hindi", "Chinese", "Japanese", "Korean")

NOISE = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(20))
FEW = NOISE[:200]


@cases("kind", COUNTS)
def test_usual_texts_are_estimated_well(kind: str) -> None:
    text, tokens = COUNTS[kind]["text"], COUNTS[kind]["tokens"]
    assert estimate_tokens(text) == pytest.approx(tokens, rel=0.15 if kind in WITHIN_15 else 0.1)


@cases(
    ("text", "tokens"),
    [
        (b64encode(NOISE).decode(), 579),
        (NOISE.hex(), 726),
        (str(int.from_bytes(NOISE, "big")), 514),
        ("0" * 1000, 334),
        (NOISE.decode("latin-1"), 673),
        (NOISE.decode("utf-8", "replace"), 501),
        ("".join(chr(33 + byte % 94) for byte in NOISE), 484),
        ("".join(string.punctuation[byte % 32] for byte in NOISE), 430),
        ("".join(chr(97 + byte % 26) for byte in NOISE), 331),
        ("".join(f"%{byte:02X}" for byte in FEW), 460),
        ("".join(chr(0x2190 + byte * 7 % 0x900) for byte in NOISE), 1445),
        ("".join(chr(0x1F300 + byte) for byte in FEW), 397),
        ("".join(chr(0x1F900 + byte) for byte in FEW), 493),
        ("".join(chr(0x1D400 + byte) for byte in FEW), 547),
        ("".join(chr(0x12000 + byte) for byte in FEW), 798),
        ("".join(chr(0x9100 + byte) for byte in FEW), 387),
        ("a".join(chr(0x300 + byte % 0x70) for byte in FEW), 576),
    ],
)
def test_noise_is_hardly_underestimated(text: str, tokens: int) -> None:
    assert 0.85 * tokens <= estimate_tokens(text) <= 1.6 * tokens


@cases(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("\ud800", 3),
        ("word", 1),
        (" word word", 2),
        ("12345", 2),
        ("\n" * 5, 1),
        ("def x():\n    y", 6),
    ],
)
def test_short_texts(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


PARTS = st.sampled_from(
    [
        *"abqzETHé\t\r\n '\"(.,-_$%1漢。😀한дकا\u064b\x00\x0b\xa0\u200b",
        "  ",
        "don't",
        "l'eau",
        "HTMLParser",
        "ing",
        "```",
    ]
)
TEXTS = st.text(max_size=40) | st.lists(PARTS, max_size=25).map("".join)


@settings(max_examples=examples(500, chaos=3_000), deadline=None, database=None)
@given(TEXTS, TEXTS)
def test_more_text_never_takes_fewer_tokens_and_lines_add_up(one: str, other: str) -> None:
    assert estimate_tokens(one) <= estimate_tokens(one + other)
    assert estimate_tokens(f"{one}\n{other}") <= estimate_tokens(one) + 1 + estimate_tokens(other)


@settings(max_examples=examples(300, chaos=2_000), deadline=None, database=None)
@given(TEXTS | st.tuples(PARTS, st.integers(1, 300)).map(lambda pair: pair[0] * pair[1]))
def test_a_token_has_so_many_characters_at_most(text: str) -> None:
    assert len(text) <= CHARACTERS_PER_TOKEN * estimate_tokens(text)


@settings(max_examples=examples(500, chaos=2_000), deadline=None, database=None)
@given(TEXTS)
def test_a_text_has_as_many_tokens_in_parts(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = estimate_tokens(text)
        patch.setattr("memwell.text.tokens._PART", 5)
        assert estimate_tokens(text) == whole


@cases(
    "piece",
    [
        "a",
        "A",
        "Aa",
        "1",
        " ",
        "\n",
        " \n",
        "\t ",
        "(",
        "-",
        "'",
        "a ",
        "a1",
        "é",
        "д",
        "한",
        "漢",
        "\u0301",
        "👩\u200d",
    ],
)
def test_the_time_grows_with_the_length(piece: str) -> None:
    """A million characters in seconds: time that grew with the square of the length would be hours."""
    started = time.process_time()
    assert estimate_tokens(piece * (2**20 // len(piece))) >= 2**20 / CHARACTERS_PER_TOKEN
    assert time.process_time() - started < 10
