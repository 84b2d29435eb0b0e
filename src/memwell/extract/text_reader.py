"""The child process that reads a file and sends its text in pieces.

All modules are loaded first, because a confined process cannot open files. `word` reads DOCX files, this module text and PDF.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Iterator
from io import BytesIO

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
    """Return the message of an error as one short line."""
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
    _load_pdf(encrypted=kind.endswith("+"))
    return _read_pages


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
    """Return the beginning of a text, up to slightly more than the limit, or None if the bytes are not text."""
    beginning = content[: _MAX_CHARACTER * (max_characters + 2)]
    if not is_text(beginning):
        return None
    whole = len(beginning) == len(content)  # if not, the last character may be incomplete and is omitted
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace").decode(beginning[len(mark) :], whole)
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(beginning, whole)
    # A few invalid bytes among valid ones are damage. If there are more, the text has another encoding.
    wrong = text.count("\ufffd")
    if wrong and len(text) - len(text.encode("ascii", "ignore")) - wrong <= wrong:
        return beginning.decode("cp1252", "replace")
    return text


def _find_json_error(content: bytes) -> str | None:
    """Return the error of a JSON document, or None. The document is only scanned, not decoded."""
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


# PDF

# Optional dependencies of pypdf that do not help with text and take time to load.
_NOT_NEEDED = ("PIL", "brotli", "fontTools", "arabic_reshaper", "bidi")
_CIPHERS = ("cryptography", "Crypto")
# Python loads a codec at its first use, and a confined process cannot open files.
_PDF_ENCODINGS = (
    *("gbk", "gb2312", "gb18030", "cp950", "cp932", "utf-16", "utf-16-be", "utf-16-le"),
    *("latin-1", "cp1252", "charmap", "mac-roman"),
)
_SAMPLE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 22>>stream\nBT/F 9 Tf(a \\351)Tj ET \nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
)


def _load_pdf(encrypted: bool) -> None:
    """Import everything by reading a sample. The ciphers take as long to load as the rest, and are rarely needed."""
    import logging  # only PDF needs it

    for name in _NOT_NEEDED if encrypted else (*_NOT_NEEDED, *_CIPHERS):
        sys.modules[name] = None  # type: ignore[assignment]  # marks a module as not installed
    logging.disable()
    for encoding in _PDF_ENCODINGS:
        codecs.lookup(encoding)
    for _ in _read_pages(_SAMPLE):
        pass


def _read_pages(content: bytes) -> Iterator[str]:
    """Yield the text of each page. Pages that cannot be read are skipped, and reported at the end."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(BytesIO(content))
        count = len(reader.pages)
    except (DependencyError, FileNotDecryptedError):
        raise Unreadable("is encrypted") from None
    damage: list[str] = []
    for number in range(count):
        try:
            yield reader.pages[number].extract_text()
        except (MemoryError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 -- parsers raise anything over a damaged page
            damage.append(f"page {number + 1} ({shorten(error)})")
    if damage:
        more = f" and {len(damage) - 3:,} more" if len(damage) > 3 else ""
        raise Unreadable(f"is damaged: {', '.join(damage[:3])}{more} could not be read")
