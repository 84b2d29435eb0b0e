"""What the reading process says: one letter, the length of what follows, and that."""

from __future__ import annotations

import struct

HEAD = struct.Struct(">cI")
READY = b"R"  # loaded and limited: send the file
TEXT = b"T"  # a page, or a piece of the text
NOTE = b"N"  # what is to be said of a file that can be read all the same
DONE = b"D"
CUT = b"C"  # as many characters as were wanted; there are more
FAILED = b"F"  # with the reason, in words that follow "the file"
OUT_OF_MEMORY = 71  # the exit status when there is none left even to say so


def frame(kind: bytes, said: str = "") -> bytes:
    body = said.encode(errors="replace")
    return HEAD.pack(kind, len(body)) + body


# -- Why a file could not be read, in words for people.


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
