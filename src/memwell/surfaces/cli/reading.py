"""Files and the standard input, as commands read them."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

import typer

from ...errors import Invalid, TooLarge
from ...model.file import MAX_FILE
from ...sdk.values import file_given

STANDARD_INPUT = "-"
NAMELESS = "--filename is missing: what comes from the standard input has no name of its own."
_document: ContextVar[str] = ContextVar("document", default="document")


def text_of(file: str) -> str:
    """The text of a file with a document. Problems that are found in it are told with the file's name."""
    _document.set(called(file))
    return file_text(file)


def file_text(file: str) -> str:
    """The text of a file, or of the standard input: `-`."""
    try:
        if file == STANDARD_INPUT:
            return typer.get_binary_stream("stdin").read().decode("utf-8-sig")
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{called(file)} is not a text in UTF-8.") from None


def bytes_of(file: str) -> bytes:
    """The bytes of a file, or of the standard input: `-`. Of what is too large, no more is read than it takes to know that."""
    if file != STANDARD_INPUT:
        return file_given(file, None)[0]
    content: bytes = typer.get_binary_stream("stdin").read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise TooLarge(f"{called(file)} is larger than {MAX_FILE // 1024**2} MiB: split it.", limit=MAX_FILE)
    return content


def called(file: str) -> str:
    """A file as compilers name it."""
    return "<stdin>" if file == STANDARD_INPUT else file


def document() -> str:
    """What the command has read its document from."""
    return _document.get()


def forget_document() -> None:
    """For the next command in this process."""
    _document.set("document")
