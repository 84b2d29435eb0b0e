"""Files made by hand, byte by byte where a library would refuse: PDFs, ZIP archives and Word documents."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
RELATIONS = (
    f'<Relationships><Relationship Id="r1" Type="{OFFICE}" Target="word/document.xml"/></Relationships>'.encode()
)
DEFLATED = 8
MEGABYTE = 1_000_000


def pdf(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects; the first is the catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d /Root 1 0 R %b>>\nstartxref\n%d\n%%%%EOF\n" % (len(places) + 1, trailer, start)
    return bytes(out)


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d %b>>\nstream\n%b\nendstream" % (len(data), entries, data)


def one_page(content: bytes, *more: bytes, page: bytes = b"", font: bytes | None = None) -> bytes:
    """A PDF of one page: objects 1 to 5 are catalogue, pages, page, its content (a stream) and the font; then `more`."""
    return pdf(
        [
            b"<</Type /Catalog /Pages 2 0 R>>",
            b"<</Type /Pages /Kids [3 0 R] /Count 1>>",
            b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F 5 0 R>> "
            b"/XObject <</X 6 0 R>> >> " + page + b">>",
            content,
            font or b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>",
            *more,
        ]
    )


def text_pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with these lines on its pages."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<</Type /Catalog /Pages 2 0 R>>",
        b"<</Type /Pages /Kids [%b] /Count %d>>" % (kids, len(pages)),
        b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>",
    ]
    for number, lines in enumerate(pages):
        content = b"%d 0 R" % (5 + 2 * number)
        objects.append(
            b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources <</Font <</F 3 0 R>> >> /Contents %b>>"
            % content
        )
        objects.append(stream(zlib.compress(said(lines)), b"/Filter /FlateDecode"))
    return pdf(objects)


def said(lines: Iterable[str]) -> bytes:
    """What writes these lines on a page."""
    shown = b"".join(b"(%b) Tj T* " % _escaped(line) for line in lines)
    return b"BT /F 11 Tf 14 TL 50 750 Td %b ET" % shown


def _escaped(line: str) -> bytes:
    return line.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")


def archive(members: Iterable[tuple[str, bytes, int | None]]) -> bytes:
    """A ZIP archive. A member with a size holds that much, it says, and its bytes are deflated ones; else they are stored."""
    out, central, count = bytearray(), bytearray(), 0
    for name, data, size in members:
        held, method = (len(data), 0) if size is None else (size, DEFLATED)
        common = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, zlib.crc32(data), len(data), held, len(name), 0)
        central += b"PK\x01\x02\x14\x00" + common + struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name.encode()
        out += b"PK\x03\x04" + common + name.encode() + data
        count += 1
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(central), len(out), 0)
    return bytes(out + central + end)


def word(document: bytes, relations: bytes = RELATIONS, size: int | None = None) -> bytes:
    """A Word document of this XML, or of these deflated bytes that claim to hold so much."""
    return archive([("_rels/.rels", relations, None), ("word/document.xml", document, size)])


def paragraphs(inside: bytes, doctype: bytes = b"") -> bytes:
    return b'<?xml version="1.0"?>' + doctype + b'<w:document xmlns:w="w"><w:body>' + inside + b"</w:body></w:document>"


def repeated(unit: bytes, times: int, before: bytes = b"") -> bytes:
    """Deflated bytes of `before` and of a unit repeated, made without making what they hold."""
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = maker.compress(before) + maker.flush(zlib.Z_FULL_FLUSH)
    block = maker.compress(unit) + maker.flush(zlib.Z_FULL_FLUSH)
    return first + block * times + maker.flush()


def in_zlib(deflated: bytes) -> bytes:
    """Deflated bytes as a PDF's filter wants them; what they hold is not summed up, as many a writer does not."""
    return b"\x78\x9c" + deflated
