"""What a query asks, beyond its words: whom it names, which time, and whether it asks what the assistant said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from .stop_words import STOP_WORDS

MAX_NAMES = 500
MAX_TEXT = 2048
"""A name this far into a query says nothing about whom it asks for."""
NICKNAME = 3
"""From how many letters on the beginning of a name is taken for a nickname of it, if the name has more than four."""

_ASSISTANT = re.compile(
    r"\b(you|your|our) (\w+ )?((?!need\b|feed\b)\w+ed|said|told|gave|wrote|made|sent|conversation|chat|discussion"
    r"|previous|earlier|last)\b",
    re.IGNORECASE,
)
_COMMON = frozenset(STOP_WORDS["en"].split())


class Named(NamedTuple):
    """The speakers that a query names, and the query without them."""

    names: tuple[str, ...]
    rest: str


def named(text: str, names: Iterable[str]) -> Named:
    """Which of some names a query holds: the whole name, its first word, or a nickname."""
    found: list[str] = []
    text, tail = text[:MAX_TEXT], text[MAX_TEXT:]
    for name, _ in zip(names, range(MAX_NAMES), strict=False):
        pattern = _forms(name)
        if pattern is not None and pattern.search(text):
            found.append(name)
            text = pattern.sub(" ", text)
    return Named(tuple(found), text + tail)


def forget() -> None:
    """Drop the names that are remembered with their forms."""
    _forms.cache_clear()
    re.purge()


def asks_assistant(text: str) -> bool:
    return _ASSISTANT.search(text) is not None


@lru_cache(4096)
def _forms(name: str) -> re.Pattern[str] | None:
    """The whole name in any case, its first word, and capitalised nicknames; never a word that is a common one."""
    first = name.split()[0] if name.split() else ""
    nicknames = [first[:length] for length in range(len(first) - 1, NICKNAME - 1, -1)] if len(first) > 4 else []
    whole = [f"(?i:{re.escape(form)})" for form in (name, first) if len(form) > 1 and form.lower() not in _COMMON]
    short = [re.escape(form) for form in nicknames if form[0].isupper() and form.lower() not in _COMMON]
    return re.compile(rf"(?<!\w)(?:{'|'.join([*whole, *short])})(?:['’]s)?(?!\w)") if whole else None
