"""The text of a file, whatever the file is: read within limits, or kept without its text and with the reason why."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from . import kinds, process
from .plain import seen
from .process import Limits

State = Literal["extracted", "empty", "kept", "failed"]

_NO_BYTES = "is empty"
_NO_TEXT = "contains no text that can be read; it may consist of pictures"
_NOT_INSTALLED = "was kept without its text, since pypdf is not installed: pip install memwell[files]"


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a file. `reason` says why there is none or not all of it, in words that follow the file's name."""

    text: str
    state: State
    reason: str | None = None
    truncated: bool = False
    pages: int | None = None  # how many were read, of a file that has pages


def extract(content: bytes, mimetype: str, limits: Limits = Limits()) -> Extracted:
    """Read the text of a file of this type (as `mimetype_of` tells it). A bad file is a result, never an error."""
    if not content:
        return Extracted("", "empty", _NO_BYTES)
    match mimetype:
        case kinds.TXT:
            return _text(process.read("txt", content, limits), limits)
        case kinds.JSON:
            return _text(process.read("json", content, limits, _packages("msgspec")), limits)
        case kinds.DOCX:
            return _result(process.read("docx", content, limits), limits)
        case kinds.PDF:
            return _pdf(content, limits)
    return Extracted("", "kept")


def _text(heard: process.Heard, limits: Limits) -> Extracted:
    """A text is shown as it is, with the space around it."""
    if heard.wrong:
        return _result(heard, limits)
    return _shown("".join(map(seen, heard.texts)), heard.noted, limits, heard.cut)


def _pdf(content: bytes, limits: Limits) -> Extracted:
    packages = _packages("pypdf")
    if not packages:
        return Extracted("", "kept", _NOT_INSTALLED)
    kind = "pdf+" if b"/Encrypt" in content else "pdf"
    heard = process.read(kind, content, limits, packages)
    return _result(heard, limits, len(heard.texts) or None)


def _packages(name: str) -> tuple[str, ...]:
    """Where a package is that the reading process needs; nowhere, if it is not installed."""
    installed = find_spec(name)
    return (str(Path(installed.origin).parent.parent),) if installed is not None and installed.origin else ()


def _result(heard: process.Heard, limits: Limits, pages: int | None = None) -> Extracted:
    """What came in time is kept, even of a file that could not be read to its end."""
    parts = map(seen, heard.texts)
    text = ("".join(parts) if pages is None else "\n\n".join(part.strip() for part in parts)).strip()
    if heard.wrong and text:
        return Extracted(text, "extracted", f"{heard.wrong}; what could be read was kept", True, pages)
    if heard.wrong:
        return Extracted("", "failed", heard.wrong)
    return _shown(text, None, limits, heard.cut, pages)


def _shown(text: str, wrong: str | None, limits: Limits, cut: bool = False, pages: int | None = None) -> Extracted:
    if not text.strip():
        return Extracted("", "empty", _NO_TEXT if pages is not None else "contains no text", pages=pages)
    if cut or len(text) > limits.characters:
        wrong = wrong or f"is longer than {limits.characters:,} characters; the rest of its text was left out"
        return Extracted(text[: limits.characters], "extracted", wrong, True, pages)
    return Extracted(text, "extracted", wrong, pages=pages)
