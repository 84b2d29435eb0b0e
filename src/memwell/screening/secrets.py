"""Secrets in a text: tokens with a known format, keys over several lines, numbers with check digits, and values that the text
calls a password, a PIN or a key.

Search the whole text, before it is cut into sentences: a key has many lines, and a name and its value may stand in two sentences.
A text in disguise is searched as people read it, too. `mask_secrets` blanks what was found, so that no later step sees it.

Every format has hints, pieces of text of which each of its tokens holds one, and which are searched first. No pattern has two
unbounded repetitions of the same characters, so that the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..text.word_sets import load_sections
from .checked_numbers import iterate_numbers
from .encoded_keys import PART_OF_KEY, has_encoded_line, iterate_keys
from .found_secret import FoundSecret
from .labelled_secrets import is_name_of_secret, iterate_labelled
from .readings import iterate_decoded, read_disguised

MASK = "\ue000"
"""The character that takes the place of each character of a secret. Nobody writes it: it is for private use."""
SHOWN_MASK = "[secret]"
"""All masks look the same to readers, so that their length says nothing about the secret."""
_START = r"(?<![A-Za-z0-9_+/-])"
_END = r"(?![A-Za-z0-9_+/-])"


class Shape(NamedTuple):
    """A format of token."""

    name: str
    hints: tuple[str, ...]
    """Every token of the format contains one of these."""
    pattern: re.Pattern[str]


def _load_shapes() -> Iterator[Shape]:
    for section, lines in load_sections(__package__, "secret_formats").items():
        for line in lines:
            name, hints, body = line.split(" => ")
            pattern = f"{_START}{body}{_END}" if section == "tokens" else body
            yield Shape(name, tuple(hints.split()), re.compile(pattern, re.ASCII))


_SHAPES = tuple(_load_shapes())
_DATA = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=]+")
_SHORTEST_TOKEN = 14
"""The length of the shortest token with a known format. A shorter secret is found only if the text calls it one."""
MAX_QUESTION, MAX_ANSWER = 300, 300
"""The end of a question that is read together with its answer, and the length of an answer."""
_MASKED = re.compile(rf"{MASK}(?:\s*{MASK})*")


def find_secret(text: str) -> str | None:
    """Return the kind of a secret in a text; None without a secret."""
    first = next(_iterate_secrets(text), None)
    return None if first is None else first.kind


def warn_of_secret(source: str, text: str) -> str | None:
    """Return a warning about a stored text that goes into a prompt as it is; None without a secret. It never repeats a secret."""
    kind = find_secret(text)
    return (
        None if kind is None else f"`{source}` holds what looks like a secret ({kind}): delete it where it is stored."
    )


def find_secret_in_fact(text: str) -> str | None:
    """Return the kind of a secret in a fact. One line of a key is enough, because earlier versions made facts of such lines."""
    return find_secret(text) or (PART_OF_KEY if has_encoded_line(text) else None)


def list_secrets(text: str) -> list[FoundSecret]:
    """List the secrets in a text, in their order. Those that overlap are one."""
    merged: list[FoundSecret] = []
    for one in sorted(_iterate_secrets(text), key=lambda one: (one.start, -one.end)):
        if merged and one.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, one.end))
        else:
            merged.append(one)
    return merged


def list_answered(question: str, answer: str) -> list[FoundSecret]:
    """List the secrets in an answer, also a value that only the question before it calls a secret."""
    if len(answer) > MAX_ANSWER or "?" not in question[-MAX_QUESTION:]:
        return list_secrets(answer)
    lead = f"{question[-MAX_QUESTION:]}\n"
    found = [one._replace(start=one.start - len(lead), end=one.end - len(lead)) for one in list_secrets(lead + answer)]
    return [one._replace(start=max(0, one.start)) for one in found if one.end > 0]


def mask_secrets(text: str, secrets: Sequence[FoundSecret] | None = None) -> str:
    """Replace each character of the secrets in a text. Line breaks and the length stay, so that offsets remain valid."""
    secrets = list_secrets(text) if secrets is None else secrets
    parts, at = [], 0
    for one in secrets:
        parts += [text[at : one.start], re.sub(r"[^\n]", MASK, text[one.start : one.end])]
        at = one.end
    return "".join([*parts, text[at:]]) if secrets else text


def shorten_masks(text: str) -> str:
    """Replace the masks of a text by the one that readers see."""
    return _MASKED.sub(SHOWN_MASK, text) if MASK in text else text


def _iterate_secrets(text: str) -> Iterator[FoundSecret]:
    yield from _iterate_undisguised(text)
    if reading := read_disguised(text, is_name_of_secret):
        for one in _iterate_undisguised(reading.text):
            yield FoundSecret(one.kind, *reading.locate(one.start, one.end))
    for start, end, decoded in iterate_decoded(text):
        yield from (one._replace(start=start, end=end) for one in _iterate_undisguised(decoded))


def _iterate_undisguised(text: str) -> Iterator[FoundSecret]:
    if ";base64," in text:  # a picture or a file
        text = _DATA.sub(lambda data: " " * len(data[0]), text)
    yield from iterate_keys(text)
    if any(len(word) >= _SHORTEST_TOKEN for word in text.split()):
        for shape in _SHAPES:
            if any(hint in text for hint in shape.hints):
                yield from (FoundSecret(shape.name, *match.span()) for match in shape.pattern.finditer(text))
    yield from iterate_labelled(text)
    yield from iterate_numbers(text)
