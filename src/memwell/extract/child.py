"""The process that reads files: load, confine, report, read one file, send its text in pieces.

Loading comes first, because nothing can be opened afterwards. Text files are read here, PDF and DOCX by modules of their own.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator

from ..sandbox.child import OUT_OF_MEMORY, READY, confine, encode_frame, read_frame, write
from .kinds import is_text

TEXT = b"T"  # a page, or a piece of the text
NOTE = b"N"  # a remark about a file that can be read
DONE = b"D"
CUT = b"C"  # the limit of characters is reached
FAILED = b"F"  # the reason, in words that follow the file's name

MAX_REASON = 160
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PIECE = 1 << 16  # characters: small, so that the parent's other threads get their turn
_MAX_CHARACTER = 4  # bytes


class Unreadable(Exception):
    """The reason why a file cannot be read, in words that follow its name: `is encrypted`."""


class Note(str):
    """A remark about a file that can be read, in words that follow its name."""


def main(kind: str, memory: str, cpu_s: str, max_characters: str, max_unpacked: str) -> None:
    """Read one file of a kind: `txt`, `json`, `docx`, `pdf`, or `pdf+` for a PDF that declares encryption."""
    reader = _load_reader(kind, int(max_characters), int(max_unpacked))
    confine(int(memory), float(cpu_s))
    try:
        write(encode_frame(READY))
        content = read_frame()
        if content is not None:
            _send_text(reader(content), int(max_characters))
    except Unreadable as reason:
        write(encode_frame(FAILED, str(reason)))
    except RecursionError:
        write(encode_frame(FAILED, "is nested too deeply"))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 -- parsers raise anything over a damaged file
        write(encode_frame(FAILED, f"is damaged: {shorten(error)}"))


def shorten(error: BaseException) -> str:
    """The message of an error on one short line."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(error)[: 4 * MAX_REASON]).split())
    words = words.rstrip(".") or type(error).__name__
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"


def _load_reader(kind: str, max_characters: int, max_unpacked: int) -> Callable[[bytes], Iterator[str]]:
    if kind in ("txt", "json"):
        for encoding in (*(encoding for _, encoding in _BYTE_ORDER_MARKS), "cp1252"):
            codecs.lookup(encoding)
        if kind == "json":
            _find_json_error(b"{}")
        return lambda content: _read_text(content, max_characters, json=kind == "json")
    if kind == "docx":
        from . import word

        word.load()
        return lambda content: word.read_pieces(content, max_unpacked)
    from . import pdf

    pdf.load(encrypted=kind.endswith("+"))
    return pdf.read_pages


def _send_text(pieces: Iterator[str], max_characters: int) -> None:
    for piece in pieces:
        if isinstance(piece, Note):
            write(encode_frame(NOTE, piece))
            continue
        write(encode_frame(TEXT, _join_surrogates(piece[:max_characters])))
        max_characters -= len(piece)
        if max_characters < 0:
            write(encode_frame(CUT))
            return
    write(encode_frame(DONE))


def _join_surrogates(text: str) -> str:
    """Join the surrogate pairs that some PDFs write for characters beyond the first 65,536."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _read_text(content: bytes, max_characters: int, *, json: bool) -> Iterator[str]:
    text = _decode(content, max_characters)
    if text is None:
        raise Unreadable("is not text")
    error = _find_json_error(content) if json else None
    if error is not None:
        yield Note(error)
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE]


def _decode(content: bytes, max_characters: int) -> str | None:
    """The beginning of a text, slightly over the limit if it is longer; None if the bytes are not text."""
    beginning = content[: _MAX_CHARACTER * (max_characters + 2)]
    if not is_text(beginning):
        return None
    whole = len(beginning) == len(content)  # if not, the last character may be cut in two and is left out
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace").decode(beginning[len(mark) :], whole)
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(beginning, whole)
    # A few wrong bytes among valid ones are damage; more of them are another encoding.
    wrong = text.count("\ufffd")
    if wrong and len(text) - len(text.encode("ascii", "ignore")) - wrong <= wrong:
        return beginning.decode("cp1252", "replace")
    return text


def _find_json_error(content: bytes) -> str | None:
    """The error of a JSON document, which is scanned and not built."""
    import msgspec  # only JSON needs it

    for mark, encoding in _BYTE_ORDER_MARKS:
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
