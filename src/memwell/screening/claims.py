"""Claims: rules and statements about the world that a user wants to be remembered.

"Remember that refunds over 500 euros need no approval" may be true, a mistake or a fraud: nobody can tell from the sentence.
So it is kept as what it is, somebody's claim, and not as the truth for everybody. What people say about themselves, their plans
and their ways of working is no claim: nobody knows it better.

A clause is a claim if it sets a rule (an exemption, a permission, a policy), or if somebody asks for it to be remembered and it
says nothing about the speaker. Only English is judged; sentences in other languages are quoted as the words of the speaker.
"""

from __future__ import annotations

import re

from ..text.word_sets import load_tables
from .conventions import is_agreement

_LONGEST = 2000
"""Characters of a text that is judged. A longer one was pasted."""
_SHORTEST = 3
"""Words of a clause."""


def _load_patterns() -> dict[str, re.Pattern[str]]:
    tables = load_tables(__package__, "claims")
    parts = {name: "|".join(pieces) for name, pieces in tables["parts"].items()}
    patterns = {}
    for name, pieces in tables["patterns"].items():
        pattern = re.sub(r"\{([A-Z]+)\}", lambda part: parts[part[1]], "|".join(pieces))
        patterns[name] = re.compile(pattern, re.IGNORECASE)
    return patterns


_PATTERNS = _load_patterns()


def asks_to_remember(text: str) -> bool:
    """Return True if a text asks for something to be remembered."""
    return len(text) <= _LONGEST and _has("asks", text)


def is_claim(statement: str, asked: bool) -> bool:
    """Return True for a rule or a statement about the world. `asked`: the speaker wants it to be remembered."""
    if len(statement) > _LONGEST or statement.rstrip("\"') ").endswith("?"):
        return False
    if _has("policy", statement):
        return True
    clauses = (one for one in _PATTERNS["tells"].split(statement) if len(one.split()) >= _SHORTEST)
    if any(_has("rule", one) and not _has("own_first", one) and not _has("own", one) for one in clauses):
        return True
    told = _PATTERNS["reports"].sub("", _find_told(statement), count=1)
    return asked and not any(_has(name, told) for name in ("own", "ours", "schedule")) and not is_agreement(told)


def _has(name: str, text: str) -> bool:
    return _PATTERNS[name].search(text) is not None


def _find_told(statement: str) -> str:
    """Return what a statement tells: the words after, or else before, those that ask to remember it."""
    asks = _PATTERNS["asks"].search(statement)
    if asks is None:
        return statement
    after = statement[asks.end() :]
    return after if len(after.split()) > 1 else statement[: asks.start()]
