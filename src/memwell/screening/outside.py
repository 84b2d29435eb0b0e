"""Sentences in the output of tools and in documents that speak for the user or to the agent.

Nothing in them can be an agreement with the user, because the user did not write them. So the checks are stricter than those of
what a user says: a page may not state what the user wants, has agreed to or may do, nor ask for anything to be remembered.
"""

from __future__ import annotations

import re

from ..text.word_sets import load_tables

_VERDICTS = {"about_user": "speaks for the user", "to_agent": "speaks to the agent"}


def _compile(pattern: str | list[str]) -> re.Pattern[str]:
    return re.compile("".join(pattern), re.IGNORECASE)


_PATTERNS = [
    (_VERDICTS[name], _compile(pattern))
    for language in load_tables(__package__, "outside").values()
    for name, pattern in language.items()
]


def find_foreign_voice(sentence: str) -> str | None:
    """Return the verdict on a sentence of a tool or document that speaks for the user or to the agent; None if it does not."""
    return next((verdict for verdict, pattern in _PATTERNS if pattern.search(sentence)), None)
