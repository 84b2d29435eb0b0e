"""The text of files as people have them, and of some that are damaged."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from random import Random

import docx
import pypdf
import pytest

from memwell.extract.extraction import Extraction, Limits, extract
from memwell.extract.kinds import DOCX, JSON, KEPT, PDF, TXT

from ..cases import cases
from .bombs import BOMBS
from .samples import OFFICE, RELATIONS, archive, one_page, paragraphs, pdf, said, stream, text_pdf, word

pytestmark = pytest.mark.engines()

PATIENT = Limits(wall_s=30, cpu_s=30)  # where the time is not what is tried


def test_a_pdf_is_read_page_by_page() -> None:
    """S2.36: PDF → content extraction yes."""
    found = extract(text_pdf([["Dear Zoë (and Ann),", "it’s 5 € each."], [], ["Page three"]]), PDF, PATIENT)
    assert found == Extraction("Dear Zoë (and Ann),\nit’s 5 € each.\n\n\n\nPage three", "extracted", pages=3)
    scan = extract(text_pdf([[], []]), PDF, PATIENT)
    assert (scan.state, scan.text, scan.pages) == ("empty", "", 2)
    assert scan.reason == "contains no readable text; it may consist of pictures"


def test_a_pdf_in_another_script_needs_nothing_that_was_not_loaded() -> None:
    """The reading process can open no file any more when it meets the first letter."""
    font = b"<</Type /Font /Subtype /Type0 /BaseFont /A /Encoding /%b /DescendantFonts [6 0 R]>>"
    below = b"<</Type /Font /Subtype /CIDFontType0 /BaseFont /A>>"
    for cmap, encoding in ((b"GBK2K-H", "gb18030"), (b"90ms-RKSJ-H", "cp932"), (b"UniJIS-UTF16-H", "utf-16-be")):
        shown = stream(b"BT /F 9 Tf <%b> Tj ET" % "日本😀"[: 3 - (encoding == "cp932")].encode(encoding).hex().encode())
        assert extract(one_page(shown, below, font=font % cmap), PDF, PATIENT).text in ("日本", "日本😀")


def test_a_word_document_is_read_in_its_order() -> None:
    """S2.36: DOCX → content extraction yes, paragraphs and the cells of tables."""
    document = docx.Document()
    document.add_heading("Offer")
    document.add_paragraph("Dear ").add_run("Zoë 日本").bold = True
    table = document.add_table(2, 2)
    for cell, text in zip(
        (cell for row in table.rows for cell in row.cells), ["What", "Price", "Tea\nGreen", "5 €"], strict=True
    ):
        cell.text = text
    document.add_paragraph("Until\tMonday")
    file = BytesIO()
    document.save(file)
    found = extract(file.getvalue(), DOCX, PATIENT)
    assert found == Extraction("Offer\nDear Zoë 日本\nWhat\tPrice\nTea Green\t5 €\nUntil\tMonday", "extracted")


def test_visible_text_of_a_word_document_is_read_and_hidden_text_is_not() -> None:
    inside = (
        b"<w:sdt><w:sdtContent><w:p><w:r><w:t>a field</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        b"<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:ins><w:r><w:t>added</w:t></w:r></w:ins>"
        b"<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText><w:br/></w:r>"
        b"<mc:AlternateContent><mc:Choice><w:t>new</w:t></mc:Choice><mc:Fallback><w:t>old</w:t></mc:Fallback>"
        b"</mc:AlternateContent></w:p>"
    )
    assert extract(word(paragraphs(inside)), DOCX, PATIENT).text == "a field\nadded\nnew"
    moved = f'<Relationships><Relationship Type="{OFFICE}" Target="/word/../word/document.xml"/></Relationships>'
    assert extract(word(paragraphs(inside), moved.encode()), DOCX, PATIENT).text == "a field\nadded\nnew"


def test_headers_and_footers_of_a_word_document_are_read() -> None:
    """S2.36: before and after the text; those that are equal in several sections once, and none from outside."""
    base = OFFICE.removesuffix("officeDocument")
    kinds = (
        ("header", "header1"),
        ("header", "header2"),
        ("footer", "footer1"),
        ("image", "header3"),
        ("header", "gone"),
    )
    related = "".join(f'<Relationship Id="{name}" Type="{base}{kind}" Target="{name}.xml"/>' for kind, name in kinds)
    outside = f'<Relationship Id="x" Type="{base}header" Target="https://x/h.xml" TargetMode="External"/>'
    texts = {"header1": "Offer 17", "header2": "Offer 17", "footer1": "Valid until May", "header3": "a picture"}
    part = '<w:hdr xmlns:w="w"><w:p><w:t>{}</w:t></w:p></w:hdr>'
    parts = [(f"word/{name}.xml", part.format(text).encode(), None) for name, text in texts.items()]
    document = paragraphs(b"<w:p><w:t>The blender costs 80 euros.</w:t></w:p>")
    file = archive(
        [
            ("_rels/.rels", RELATIONS, None),
            ("word/document.xml", document, None),
            ("word/_rels/document.xml.rels", f"<Relationships>{related}{outside}</Relationships>".encode(), None),
            *parts,
        ]
    )
    found = extract(file, DOCX, PATIENT)
    assert found.text.split("\n") == ["Offer 17", "", "The blender costs 80 euros.", "", "Valid until May"]


@cases(
    ("content", "text"),
    [
        ("Zoë 日本\r\n".encode(), "Zoë 日本\r\n"),
        ("\ufeffZoë".encode(), "Zoë"),
        ("Zoë".encode("utf-16"), "Zoë"),
        (b"\xfe\xff" + "Zoë".encode("utf-16-be"), "Zoë"),
        ("Zoë".encode("utf-32"), "Zoë"),
        ("“Zoë”, 5 €".encode("cp1252"), "“Zoë”, 5 €"),
        ("Zoë, Jérôme and Anaïs".encode() + b"\xff", "Zoë, Jérôme and Anaïs\ufffd"),
        (b"one\x0ctwo" + b"." * 50 + b"\x07\x1b[0m", "one\ntwo" + "." * 50 + "[0m"),
    ],
)
def test_a_text_is_read_in_its_encoding(content: bytes, text: str) -> None:
    """S2.36: TXT → content extraction yes."""
    assert extract(content, TXT) == Extraction(text, "extracted")


def test_json_is_its_text_and_is_checked() -> None:
    """S2.36: JSON → content extraction yes. What is not JSON is text all the same."""
    assert extract(b' {"b": 1, "a": [2.50]}\n', JSON) == Extraction(' {"b": 1, "a": [2.50]}\n', "extracted")
    assert extract('{"a": "Zoë"}'.encode("utf-16"), JSON) == Extraction('{"a": "Zoë"}', "extracted")
    wrong = extract(b'{"a": 1,}', JSON)
    assert (wrong.text, wrong.state) == ('{"a": 1,}', "extracted")
    assert wrong.reason is not None
    assert wrong.reason.startswith("is not valid JSON: ")


def test_texts_too_are_read_where_they_can_do_no_harm() -> None:
    """T13: whatever takes a parser long or much takes it from nobody else."""
    for mimetype in (TXT, JSON):
        assert extract(b"[" + b"1," * 4_000_000, mimetype, Limits(memory=1)).reason == "needed too much memory"
        late = extract(b"[" + b"1," * 4_000_000, mimetype, Limits(wall_s=0)).reason or ""
        assert late.startswith("took longer than")


def test_other_files_are_kept_as_they_are() -> None:
    """S2.36: CSV, XLS, PPT, HTML, pictures → extraction no."""
    for mimetype in (*KEPT.values(), "text/markdown", "application/octet-stream", "nonsense"):
        assert extract(b"%PDF-1.7 PK\x03\x04 words", mimetype) == Extraction("", "kept")
    for mimetype in (PDF, DOCX, TXT, JSON):
        assert extract(b"", mimetype) == Extraction("", "empty", "is empty")


def test_without_the_package_a_pdf_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    found = extract(text_pdf([["a"]]), PDF)
    assert (found.state, found.text) == ("kept", "")
    assert found.reason is not None
    assert "pip install memwell[files]" in found.reason


def locked(user: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=BytesIO(text_pdf([["secret"]])))
    writer.encrypt(user, "owner", algorithm="AES-256")
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def bomb(name: str) -> tuple[str, bytes]:
    mimetype, make = BOMBS[name]
    return mimetype, make()


GOOD = text_pdf([["one"], ["two"]])
SPOILT = pdf(
    [
        b"<</Type /Catalog /Pages 2 0 R>>",
        b"<</Type /Pages /Kids [4 0 R 6 0 R] /Count 2>>",
        b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>",
        b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources <</Font <</F 3 0 R>> >> /Contents 5 0 R>>",
        stream(b"x", b"/Filter /Nonsense"),
        b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources <</Font <</F 3 0 R>> >> /Contents 7 0 R>>",
        stream(said(["two"])),
    ]
)


@pytest.mark.parametrize(("seed", "begins"), [(210, b"/U <c400"), (275, b"/O <5c00")])
def test_what_looks_like_utf_16_in_the_dictionary_of_a_cipher_is_read(
    seed: int, begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.36: one in a hundred files has such bytes by chance. What decodes them must be there before the process is limited: it
    can open no file any more then."""
    monkeypatch.setattr("secrets.token_bytes", Random(seed).randbytes)
    file = locked("")
    assert begins in file
    assert extract(file, PDF, PATIENT).text == "secret"


def test_a_file_that_cannot_be_read_says_why() -> None:
    """T12: encrypted, cut off, damaged, or something else than it says."""
    cases = {
        (PDF, locked("password")): ("failed", "", "is encrypted"),
        (PDF, locked("")): ("extracted", "secret", "None"),  # locked against changes only
        (PDF, GOOD[:-300]): ("failed", "", "is damaged: "),
        (PDF, SPOILT): ("extracted", "two", "is damaged: page 1 ("),
        (PDF, b"words"): ("failed", "", "is damaged: "),
        (PDF, word(paragraphs(b""))): ("failed", "", "is damaged: "),
        (DOCX, b"words"): ("failed", "", "is damaged: "),
        (DOCX, GOOD): ("failed", "", "is damaged: "),
        (DOCX, word(paragraphs(b""))[:-9]): ("failed", "", "is damaged: "),
        (DOCX, word(paragraphs(b"<w:p>"))): ("failed", "", "is damaged: its XML is not well-formed"),
        (DOCX, word(b"", b"<Relationships/>")): ("failed", "", "is damaged: it is not a Word document"),
        (DOCX, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)): (
            "failed",
            "",
            "is encrypted, or from a Word version before",
        ),
        (TXT, b"MZ\x00\x01"): ("failed", "", "is not text"),
        bomb("a billion laughs"): ("failed", "", "is not a Word document: its XML declares a document type"),
        bomb("laughing relations"): ("failed", "", "is not a Word document: its XML declares a document type"),
        bomb("somebody else's file"): ("failed", "", "is not a Word document: its XML declares a document type"),
        bomb("a gigabyte in one part"): ("failed", "", "unpacks to more than 100 MB"),
        bomb("a gigabyte that says it is small"): ("failed", "", "is damaged: Bad CRC-32"),
        bomb("an archive of archives"): ("failed", "", "is damaged: it is not a Word document"),
    }
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda case: extract(case[1], case[0], PATIENT), cases))
    for (state, text, reason), one in zip(cases.values(), found, strict=True):
        assert (one.state, one.text, str(one.reason)[: len(reason)]) == (state, text, reason)
        assert one.truncated == (state == "extracted" and reason != "None")


def test_a_text_is_cut_where_the_limit_says() -> None:
    few = Limits(characters=10, wall_s=30)
    for content, mimetype in (
        ("é123456789abc".encode(), TXT),
        (one_page(stream(said(["é123456789abc"]))), PDF),
        (word(paragraphs("<w:p><w:t>é123456789abc</w:t></w:p>".encode())), DOCX),
    ):
        found = extract(content, mimetype, few)
        assert (found.text, found.state, found.truncated) == ("é123456789", "extracted", True)
        assert found.reason == "is longer than 10 characters; the rest of its text was left out"


def test_a_limit_that_is_met_is_named_and_what_came_before_is_kept() -> None:
    """T12: by the processor's time, which another's load does not change."""
    endless = stream(b"BT /F 9 Tf %b ET" % (b"(a) Tj " * 500_000))
    page = b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources <</Font <</F 5 0 R>> >> /Contents 7 0 R>>"
    long = one_page(stream(said(["one"])), page, endless).replace(
        b"/Kids [3 0 R] /Count 1", b"/Kids [3 0 R 6 0 R] /Count 2"
    )
    found = extract(long, PDF, Limits(wall_s=30, cpu_s=0.5))
    assert (found.text, found.state, found.truncated, found.pages) == ("one", "extracted", True, 1)
    assert found.reason == "took longer than 0.5 seconds to read; the text read so far was kept"
    deep = word(paragraphs(b"<a>" * 2_000_000))
    assert extract(deep, DOCX, Limits(wall_s=10, cpu_s=30, memory=64 * 2**20)).reason == "needed too much memory"


def test_the_reading_process_can_open_nothing(tmp_path: Path) -> None:
    """T12: no file, no network, nothing written and no more memory, whatever a file makes a parser do."""
    program = (
        "import os, socket, sys; from memwell.sandbox.child import confine; confine(2**28, 2)\n"
        "def write(): os.write(1, b'x')\n"
        "def read(): open('/etc/passwd')\n"
        "def swell(): bytearray(2**28)\n"
        "for attempt in (read, write, swell, socket.socket, os.pipe):\n"
        "    try: attempt()\n"
        "    except (OSError, MemoryError): continue\n"
        "    sys.exit(f'it could {attempt}')\n"
    )
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
