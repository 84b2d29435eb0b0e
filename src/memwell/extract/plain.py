"""Text files: which letters their bytes are, and whether JSON is JSON. Nothing here is parsed into objects, and all of it but
`seen` runs in the reading process only."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from .kinds import is_text
from .wire import Note, Wrong

_MARKED = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ENCODINGS = (*(encoding for _, encoding in _MARKED), "cp1252")
_PIECE = 1 << 16  # characters: each is looked through at one go by whoever listens, who has other things to do
_WIDEST = 4  # bytes of a character, at most
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]+")


def load(*, json: bool) -> None:
    """Import what reading needs."""
    for encoding in _ENCODINGS:
        codecs.lookup(encoding)
    if json:
        wrong_json(b"{}")


def pieces(content: bytes, most: int, *, json: bool) -> Iterator[str]:
    """A text in pieces, after what is to be said of it."""
    text = decoded(content, most)
    if text is None:
        raise Wrong("is not text")
    wrong = wrong_json(content) if json else None
    if wrong is not None:
        yield Note(wrong)
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE]


def decoded(content: bytes, most: int) -> str | None:
    """The beginning of a text, a little over `most` characters of it if it is longer; None if these bytes are no text."""
    beginning = content[: _WIDEST * (most + 2)]
    if not is_text(beginning):
        return None
    whole = len(beginning) == len(content)
    for mark, encoding in _MARKED:
        if content.startswith(mark):
            return _as(encoding, beginning[len(mark) :], whole)
    text = _as("utf-8", beginning, whole)
    return text if _mostly_meant(text) else beginning.decode("cp1252", "replace")


def seen(text: str) -> str:
    """A text without the characters that no text needs and no database takes."""
    return _UNSEEN.sub("", text.replace("\f", "\n").replace("\v", "\n"))


def wrong_json(content: bytes) -> str | None:
    """What is wrong with a JSON document, if anything. Its values are looked at, never built."""
    import msgspec  # here, since only JSON needs it

    for mark, encoding in _MARKED:
        if content.startswith(mark):
            content = content[len(mark) :].decode(encoding, "replace").encode()
            break
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except RecursionError:
        return "is JSON that is nested too deeply to be checked"
    except msgspec.DecodeError as error:
        return f"is not valid JSON: {error}"
    return None


def _as(encoding: str, content: bytes, whole: bool) -> str:
    """Decoded; a character that was cut in two at the end of the beginning is left out."""
    return codecs.getincrementaldecoder(encoding)("replace").decode(content, whole)


def _mostly_meant(text: str) -> bool:
    """Whether a text is UTF-8: all of it, or so much that a few wrong bytes are damage and not another encoding."""
    wrong = text.count("\ufffd")
    if not wrong:
        return True
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return beyond_ascii - wrong > wrong
