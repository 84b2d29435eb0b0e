"""The text of a DOCX: paragraphs and the cells of tables as they come. Runs in the reading process only.

The one part that holds the text is unpacked and parsed as a stream, so that a document takes little memory whatever its
size, and pictures are never unpacked. What is unpacked is counted, whatever its header declares. A document type, and with
it every entity, is refused: no Word file has one.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from io import BytesIO
from xml.parsers import expat

from .wire import Wrong, said

RELATIONS = "_rels/.rels"
MOST_RELATIONS = 1_000_000  # bytes
_STEP = 1 << 16
_NO_MEMORY = expat.errors.codes[expat.errors.XML_ERROR_NO_MEMORY]
_PIECE = 1 << 15
_OLE = b"\xd0\xcf\x11\xe0"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what the format allows; others unpack without bound
_UNSEEN = frozenset({"Fallback", "instrText", "delText", "pPr", "rPr", "tblPr", "sectPr"})
_MEANS = {"p": "\n", "br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}


def load() -> None:
    """Everything is imported; decompression and the codec of file names are loaded by a use of each."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("é", b"<a/>")
    with zipfile.ZipFile(archive) as made:
        made.read("é")
    b"a".decode("cp437")


def pieces(content: bytes, most: int) -> Iterator[str]:
    """The text of a document, in pieces. At most so many bytes are unpacked."""
    if content.startswith(_OLE):
        raise Wrong("is encrypted, or of a Word before 2007 (.doc): save it as .docx without a password")
    try:
        archive = zipfile.ZipFile(BytesIO(content))  # never closed: Python cannot leave a `with` when memory is out
        yield from _texts(_unpacked(archive, _main_part(archive), most))
    except zipfile.BadZipFile as error:
        raise Wrong(f"is damaged: {said(error)}") from None
    except expat.ExpatError as error:
        if error.code == _NO_MEMORY:
            raise MemoryError from None
        raise Wrong(f"is damaged: its XML is not well-formed ({said(error)})") from None


def _main_part(archive: zipfile.ZipFile) -> str:
    """Where the text is, which the package's relations say."""
    found: list[str] = []

    def relation(name: str, attributes: dict[str, str]) -> None:
        if attributes.get("Type", "").endswith("/officeDocument"):
            found.append(attributes.get("Target", ""))

    parser = _parser()
    parser.StartElementHandler = relation
    for step in _unpacked(archive, RELATIONS, MOST_RELATIONS):
        parser.Parse(step)
    parser.Parse(b"", True)
    if not found:
        raise Wrong("is damaged: it is not a Word document")
    return posixpath.normpath(found[0].lstrip("/"))


def _unpacked(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[bytes]:
    """The bytes of a part, counted as they come out."""
    try:
        part = archive.getinfo(name)
    except KeyError:
        raise Wrong("is damaged: it is not a Word document") from None
    if part.flag_bits & 1:
        raise Wrong("is encrypted")
    if part.compress_type not in _METHODS:
        raise Wrong("is damaged: it is packed in a way that Word does not use")
    left = most if part.file_size <= most else -1
    stream = archive.open(part)
    while left >= 0 and (step := stream.read(_STEP)):
        left -= len(step)
        yield step
    if left < 0:
        raise Wrong(f"unpacks to more than {most // 1_000_000:,} MB")


def _texts(steps: Iterator[bytes]) -> Iterator[str]:
    walk = _Walk()
    parser = _parser()
    parser.StartElementHandler, parser.EndElementHandler = walk.start, walk.end
    parser.CharacterDataHandler = walk.characters
    for step in steps:
        parser.Parse(step)
        if walk.size >= _PIECE:
            yield walk.taken()
    parser.Parse(b"", True)
    yield walk.taken()


def _parser() -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _no_doctype
    return parser


def _no_doctype(*_: object) -> None:
    raise Wrong("is not a Word document: its XML declares a document type, which may hide anything")


class _Walk:
    """What the parser met so far. A row of a table is one line, with tabs between its cells."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: list[str] = []
        self._in_text = 0
        self._unseen = 0
        self._rows: list[_Row] = []  # those that are open: a cell may hold a table

    def taken(self) -> str:
        """The text since the last time."""
        text = "".join(self._texts)
        self._texts.clear()
        self.size = 0
        return text

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if self._unseen or name in _UNSEEN:
            self._unseen += 1
        elif name == "t":
            self._in_text += 1
        elif name == "tr":
            self._rows.append(_Row())
        elif self._rows:
            self._add(self._rows[-1].before(name))

    def end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        if self._unseen:
            self._unseen -= 1
        elif name == "t":
            self._in_text -= 1
        elif name == "tr":
            self._rows.pop()
            self._add("\n")
        elif name in _MEANS and not (name == "p" and self._rows):
            self._add(_MEANS[name] if not self._rows else " ")

    def characters(self, text: str) -> None:
        if self._in_text and not self._unseen:
            self._add(text)

    def _add(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self.size += len(text)


class _Row:
    """How far a row of a table has come."""

    def __init__(self) -> None:
        self._cells = 0
        self._paragraphs = 0

    def before(self, name: str) -> str:
        """What stands before an element of the row: a cell or a paragraph that is not the first."""
        if name == "tc":
            self._cells, self._paragraphs = self._cells + 1, 0
            return "\t" if self._cells > 1 else ""
        if name == "p":
            self._paragraphs += 1
            return " " if self._paragraphs > 1 else ""
        return ""
