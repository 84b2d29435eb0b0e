"""Files made to exhaust their reader: small, but huge when unpacked.

Run as a program (`python -m tests.files.bombs`), it reads all of them, two at a time, and tells in JSON how each ended,
how long it took, and the most memory that a reading process had.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from memwell.extract.extraction import Extraction, Limits, extract
from memwell.extract.kinds import DOCX, JSON, PDF, TXT

from .samples import MEGABYTE, archive, in_zlib, one_page, paragraphs, pdf, repeated, said, stream, text_pdf, word

FLATE = b"/Filter /FlateDecode"
LAUGHS = b"<!DOCTYPE d [<!ENTITY a0 'ha'>%b]>" % b"".join(
    b"<!ENTITY a%d '%b'>" % (number, b"&a%d;" % (number - 1) * 10) for number in range(1, 10)
)
OUTSIDE = b"<!DOCTYPE d [<!ENTITY a9 SYSTEM 'file:///etc/passwd'>]>"
TEXT = b"<w:p><w:r><w:t>%b</w:t></w:r></w:p>"


def zipped(levels: int) -> bytes:
    """An archive of sixteen archives of sixteen archives …, with a gigabyte at the bottom of each."""
    inner = archive([("0", repeated(bytes(MEGABYTE), 1_000), 1_000 * MEGABYTE)])
    for _ in range(levels):
        packed = repeated(inner, 1)
        inner = archive([(f"{number:x}.zip", packed, len(inner)) for number in range(16)])
    return inner


def word_of(unit: bytes, megabytes: int, before: bytes = b"<d>") -> bytes:
    block = unit * (MEGABYTE // len(unit))
    return word(repeated(block, megabytes, before), size=len(block) * megabytes + len(before))


def page_of(unit: bytes, megabytes: int) -> bytes:
    block = unit * (MEGABYTE // len(unit))
    return one_page(stream(in_zlib(repeated(block, megabytes)), FLATE))


def filtered(times: int) -> bytes:
    """A stream with the same two filters many times over: each round halves it, and unpacks it."""
    data = in_zlib(repeated(bytes(MEGABYTE), 60))
    for _ in range(times):
        data = data.hex().encode() + b">"
    filters = b"/Filter [%b /FlateDecode]" % (b"/ASCIIHexDecode " * times)
    return one_page(stream(data, filters))


def twice(depth: int) -> bytes:
    """Forms that each draw the next one twice: two to the power of so many texts."""
    forms = [
        stream(b"/X Do /X Do", b"/Type /XObject /Subtype /Form /Resources <</XObject <</X %d 0 R>> >>" % (7 + number))
        for number in range(depth)
    ]
    last = stream(said(["x"]), b"/Type /XObject /Subtype /Form /Resources <</Font <</F 5 0 R>> >>")
    return one_page(stream(b"/X Do"), *forms, last)


def wide(widths: bytes) -> bytes:
    """A font of many characters with these widths."""
    descendant = b"<</Type /Font /Subtype /CIDFontType2 /BaseFont /A /W [%b]>>" % widths
    font = b"<</Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-H /DescendantFonts [6 0 R]>>"
    return one_page(stream(b"BT /F 9 Tf <00410042> Tj ET"), descendant, font=font)


def mapped(ranges: bytes) -> bytes:
    """A font that says itself which letters its codes are."""
    font = b"<</Type /Font /Subtype /Type1 /BaseFont /A /ToUnicode 6 0 R>>"
    return one_page(stream(said(["ab"])), stream(ranges), font=font)


def pages(tree: bytes, *more: bytes) -> bytes:
    return pdf([b"<</Type /Catalog /Pages 2 0 R>>", tree, *more])


def looping_xref() -> bytes:
    good = text_pdf([["never"]])
    start = good.rindex(b"xref\n0 ")
    return good.replace(b"/Root", b"/Prev %d /Root" % start).replace(b"/Root 1 0 R", b"/Root 99 0 R")


def many_objects(count: int) -> bytes:
    return b"%PDF-1.4\n" + b"1 0 obj\n<<\n" * count + b"\nstartxref\n7\n%%EOF\n"


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "an archive of archives": (DOCX, lambda: zipped(5)),
    "an archive of 60,000 files": (DOCX, lambda: archive((f"{n:x}", b"", None) for n in range(60_000))),
    "a gigabyte in one part": (DOCX, lambda: word(repeated(bytes(MEGABYTE), 1000), size=1000 * MEGABYTE)),
    "a gigabyte that says it is small": (DOCX, lambda: word(repeated(bytes(MEGABYTE), 1000, b"<a/>"), size=1000)),
    "a gigabyte of relations": (DOCX, lambda: word(b"", repeated(b" " * MEGABYTE, 1000), size=1000)),
    "a million paragraphs": (DOCX, lambda: word_of(b"<p></p>", 90)),
    "elements in elements": (DOCX, lambda: word_of(b"<p>", 90)),
    "rows in rows": (DOCX, lambda: word_of(b"<tr><tc>", 90)),
    "one long attribute": (DOCX, lambda: word_of(b"a", 90, b"<d a='")),
    "one long name": (DOCX, lambda: word_of(b"a", 90, b"<")),
    "many attributes": (DOCX, lambda: word(b"<d %b/>" % b" ".join(b"a%d=''" % n for n in range(300_000)))),
    "a billion laughs": (DOCX, lambda: word(paragraphs(TEXT % b"&a9;", LAUGHS))),
    "laughing relations": (DOCX, lambda: word(paragraphs(TEXT % b"x"), LAUGHS + b"<a>&a9;</a>")),
    "somebody else's file": (DOCX, lambda: word(paragraphs(TEXT % b"&a9;", OUTSIDE))),
    "pages that are their own parents": (PDF, lambda: pages(b"<</Type /Pages /Kids [2 0 R 2 0 R] /Count 9>>")),
    "pages in a ring": (
        PDF,
        lambda: pages(b"<</Type /Pages /Kids [3 0 R]>>", b"<</Type /Pages /Parent 3 0 R /Kids [2 0 R 3 0 R]>>"),
    ),
    "a page that is drawn many times": (
        PDF,
        lambda: one_page(stream(said(["x"]))).replace(b"/Kids [3 0 R]", b"/Kids [%b]" % (b"3 0 R " * 90_000)),
    ),
    "a billion pages": (PDF, lambda: pages(b"<</Type /Pages /Kids [] /Count 1000000000>>")),
    "pages in pages": (
        PDF,
        lambda: pdf(
            [b"<</Type /Catalog /Pages 2 0 R>>"]
            + [b"<</Type /Pages /Kids [%d 0 R %d 0 R]>>" % (n + 3, n + 3) for n in range(3_000)]
        ),
    ),
    "a table of contents that leads to itself": (PDF, looping_xref),
    "200,000 broken objects": (PDF, lambda: many_objects(200_000)),
    "five gigabytes in one stream": (PDF, lambda: page_of(b" ", 5_000)),
    "operators without end": (PDF, lambda: page_of(b"q ", 60)),
    "letters without end": (PDF, lambda: page_of(b"BT /F 9 Tf (abcdefgh) Tj ET ", 60)),
    "arrays in arrays": (PDF, lambda: page_of(b"[", 60)),
    "one long text": (PDF, lambda: one_page(stream(b"BT /F 9 Tf (" + b"\\(" * 4_000_000 + b") Tj ET"))),
    "one stream many times": (
        PDF,
        lambda: page_of(b"BT (a) Tj ET ", 20).replace(b"/Contents 4 0 R", b"/Contents [%b]" % (b"4 0 R " * 5_000)),
    ),
    "arrays in the catalogue": (PDF, lambda: pdf([b"[" * 1_000_000])),
    "dictionaries in the catalogue": (PDF, lambda: pdf([b"<</A " * 500_000])),
    "filters on filters": (PDF, lambda: filtered(6)),
    "the same filter a thousand times": (
        PDF,
        lambda: one_page(stream(b"00>", b"/Filter [%b]" % (b"/LZWDecode /ASCIIHexDecode /ASCII85Decode " * 3_000))),
    ),
    "lengths of lengths": (PDF, lambda: one_page(b"<</Length 6 0 R>>\nstream\nx\nendstream", b"6 0 R")),
    "LZW": (PDF, lambda: one_page(stream(b"\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01" * 500_000, b"/Filter /LZWDecode"))),
    "run lengths": (PDF, lambda: one_page(stream(b"\x81 " * 2_000_000, b"/Filter /RunLengthDecode"))),
    "columns without end": (
        PDF,
        lambda: one_page(
            stream(
                in_zlib(repeated(bytes(MEGABYTE), 60)), FLATE + b"/DecodeParms <</Predictor 12 /Columns 1000000000>>"
            )
        ),
    ),
    "rows without end": (
        PDF,
        lambda: one_page(
            stream(in_zlib(repeated(bytes(MEGABYTE), 60)), FLATE + b"/DecodeParms <</Predictor 12 /Columns 1>>")
        ),
    ),
    "a form that draws itself": (
        PDF,
        lambda: one_page(stream(b"/X Do"), stream(b"/X Do", b"/Subtype /Form /Resources <</XObject <</X 6 0 R>> >>")),
    ),
    "forms that draw the next one twice": (PDF, lambda: twice(40)),
    "a page of a billion points": (
        PDF,
        lambda: one_page(stream(said(["big"]))).replace(b"[0 0 600 800]", b"[0 0 1000000000 1000000000]"),
    ),
    "letters a billion points apart": (
        PDF,
        lambda: one_page(stream(b"BT /F 1000000000 Tf 1000000000 Tw 1000000000 0 Td [(a) -1000000000 (b)] TJ ET")),
    ),
    "a font with two billion widths": (PDF, lambda: wide(b"0 2147483647 500")),
    "a font with widths again and again": (PDF, lambda: wide(b"0 65535 500 " * 20_000)),
    "a font for every number": (
        PDF,
        lambda: mapped(
            b"1 beginbfrange <00000000> <ffffffff> <0000> endbfrange 1 begincodespacerange <0> <f> endcodespacerange"
        ),
    ),
    "a font of many maps": (PDF, lambda: mapped(b"1 beginbfrange <0000> <ffff> <0000> endbfrange " * 20_000)),
    "25 MB of noise": (PDF, lambda: b"%PDF-1.7\n" + bytes(range(256)) * 100_000),
    "25 MB of ends": (PDF, lambda: b"%PDF-1.7\n" + b"startxref\n9\n%%EOF\n" * 1_400_000),
    "25 MB of text": (TXT, lambda: "é and so on\n".encode() * 2_000_000),
    "JSON in JSON": (JSON, lambda: b"[" * 100_000 + b"]" * 100_000),
    "objects in JSON": (JSON, lambda: b'{"a":' * 5_000_000),
}


@dataclass(frozen=True, slots=True)
class Blast:
    """How one bomb ended."""

    name: str
    state: str
    reason: str | None
    truncated: bool
    characters: int
    took_s: float


def blasts(limits: Limits, at_once: int) -> list[Blast]:
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(lambda name: _blast(name, limits), BOMBS))


def _blast(name: str, limits: Limits) -> Blast:
    mimetype, make = BOMBS[name]
    content = make()
    started = time.perf_counter()
    found: Extraction = extract(content, mimetype, limits)
    took = time.perf_counter() - started
    return Blast(name, found.state, found.reason, found.truncated, len(found.text), took)


def largest_child() -> int:
    """The most memory that any ended child of this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def main(wall_s: float, at_once: int) -> None:
    ended = blasts(Limits(wall_s=wall_s), at_once)
    print(json.dumps({"blasts": [asdict(one) for one in ended], "largest": largest_child()}))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
