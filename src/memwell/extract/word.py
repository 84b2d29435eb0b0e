"""The text of DOCX files: headers, then paragraphs and table cells in their order, then footers. Runs only in the child process.

Each part with text is unpacked and parsed as a stream, so that a large document needs little memory. Pictures are never
unpacked. Unpacked bytes are counted, because headers may be wrong. A document type, and with it every entity, is rejected: Word
files do not have one.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from io import BytesIO
from xml.parsers import expat

from .text_reader import Unreadable, shorten

RELATIONS = "_rels/.rels"
MAX_RELATIONS = 1_000_000  # bytes
MAX_PARTS = 50
"""The most headers, and the most footers, that are read."""
_STEP = 1 << 16
_NO_MEMORY = expat.errors.codes[expat.errors.XML_ERROR_NO_MEMORY]
_PIECE = 1 << 15
_OLE = b"\xd0\xcf\x11\xe0"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the format allows only these; others unpack without a limit
_IGNORED = frozenset({"Fallback", "instrText", "delText", "pPr", "rPr", "tblPr", "sectPr"})
_CHARACTERS = {"p": "\n", "br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}


def load() -> None:
    """Load decompression and the codec of file names by using them."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("é", b"<a/>")
    with zipfile.ZipFile(archive) as file:
        file.read("é")
    b"a".decode("cp437")


def read_pieces(content: bytes, max_unpacked: int) -> Iterator[str]:
    """Yield the text of a document in pieces. Unpack at most `max_unpacked` bytes."""
    if content.startswith(_OLE):
        raise Unreadable("is encrypted, or from a Word version before 2007 (.doc): save it as .docx without a password")
    try:
        archive = zipfile.ZipFile(BytesIO(content))  # never closed: Python cannot leave a `with` when memory is out
        room = _Room(max_unpacked)
        for name in _list_parts(archive):
            yield from _parse(_unpack(archive, name, room))
            yield "\n"
    except zipfile.BadZipFile as error:
        raise Unreadable(f"is damaged: {shorten(error)}") from None
    except expat.ExpatError as error:
        if error.code == _NO_MEMORY:
            raise MemoryError from None
        raise Unreadable(f"is damaged: its XML is not well-formed ({shorten(error)})") from None


class _Room:
    """The bytes that may still be unpacked."""

    def __init__(self, size: int) -> None:
        self.size = self.left = size


def _list_parts(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the parts with text: headers, the main part, footers. Equal headers of several sections count once."""
    main = next((target for kind, target in _list_relations(archive, RELATIONS) if kind == "officeDocument"), None)
    if main is None:
        raise Unreadable("is damaged: it is not a Word document")
    folder, name = posixpath.split(main)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    entries = {one.filename: (one.CRC, one.file_size) for one in archive.infolist()}
    found: dict[str, dict[tuple[int, int], str]] = {"header": {}, "footer": {}}
    for kind, target in _list_relations(archive, relations) if relations in entries else ():
        if kind in found and target in entries and len(found[kind]) < MAX_PARTS:
            found[kind].setdefault(entries[target], target)
    return [*found["header"].values(), main, *found["footer"].values()]


def _list_relations(archive: zipfile.ZipFile, name: str) -> list[tuple[str, str]]:
    """Return the kinds and the targets of relations, according to a part of the package that lists them."""
    found: list[tuple[str, str]] = []
    folder = posixpath.dirname(posixpath.dirname(name))

    def add_relation(_name: str, attributes: dict[str, str]) -> None:
        target = attributes.get("Target", "")
        if target and attributes.get("TargetMode") != "External":
            path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found.append((attributes.get("Type", "").rpartition("/")[2], path))

    parser = _create_parser()
    parser.StartElementHandler = add_relation
    for step in _unpack(archive, name, _Room(MAX_RELATIONS)):
        parser.Parse(step)
    parser.Parse(b"", True)
    return found


def _unpack(archive: zipfile.ZipFile, name: str, room: _Room) -> Iterator[bytes]:
    """Yield the bytes of a part, and count them while they are unpacked."""
    try:
        part = archive.getinfo(name)
    except KeyError:
        raise Unreadable("is damaged: it is not a Word document") from None
    if part.flag_bits & 1:
        raise Unreadable("is encrypted")
    if part.compress_type not in _METHODS:
        raise Unreadable("is damaged: it is packed in a way that Word does not use")
    if part.file_size > room.left:
        room.left = -1
    stream = archive.open(part)
    while room.left >= 0 and (step := stream.read(_STEP)):
        room.left -= len(step)
        yield step
    if room.left < 0:
        raise Unreadable(f"unpacks to more than {room.size // 1_000_000:,} MB")


def _parse(steps: Iterator[bytes]) -> Iterator[str]:
    walk = _Walk()
    parser = _create_parser()
    parser.StartElementHandler, parser.EndElementHandler = walk.start, walk.end
    parser.CharacterDataHandler = walk.characters
    for step in steps:
        parser.Parse(step)
        if walk.size >= _PIECE:
            yield walk.take()
    parser.Parse(b"", True)
    yield walk.take()


def _create_parser() -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


def _refuse_doctype(*_: object) -> None:
    raise Unreadable("is not a Word document: its XML declares a document type, which no Word file has")


class _Walk:
    """Collects text from the parser's events. A row of a table is one line, with tabs between its cells."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: list[str] = []
        self._in_text = 0
        self._ignored = 0
        self._rows: list[_Row] = []  # open rows: a cell may contain a table

    def take(self) -> str:
        """Return the text collected since the last call."""
        text = "".join(self._texts)
        self._texts.clear()
        self.size = 0
        return text

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if self._ignored or name in _IGNORED:
            self._ignored += 1
        elif name == "t":
            self._in_text += 1
        elif name == "tr":
            self._rows.append(_Row())
        elif self._rows:
            self._add(self._rows[-1].separator(name))

    def end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        if self._ignored:
            self._ignored -= 1
        elif name == "t":
            self._in_text -= 1
        elif name == "tr":
            self._rows.pop()
            self._add("\n")
        elif name in _CHARACTERS and not (name == "p" and self._rows):
            self._add(_CHARACTERS[name] if not self._rows else " ")

    def characters(self, text: str) -> None:
        if self._in_text and not self._ignored:
            self._add(text)

    def _add(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self.size += len(text)


class _Row:
    """Position in a row of a table."""

    def __init__(self) -> None:
        self._cells = 0
        self._paragraphs = 0

    def separator(self, name: str) -> str:
        """Return the text to insert before an element of the row."""
        if name == "tc":
            self._cells, self._paragraphs = self._cells + 1, 0
            return "\t" if self._cells > 1 else ""
        if name == "p":
            self._paragraphs += 1
            return " " if self._paragraphs > 1 else ""
        return ""
