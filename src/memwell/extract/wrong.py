"""Why a file could not be read, in words for people."""

from __future__ import annotations

LONGEST = 160


class Wrong(Exception):
    """The file cannot be read. The words follow its name: `is encrypted`."""


class Note(str):
    """What is to be said of a file that can be read all the same, in words that follow its name."""


def said(error: BaseException) -> str:
    """What a parser said, on one short line."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(error)[: 4 * LONGEST]).split())
    words = words.rstrip(".") or type(error).__name__
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
