"""What a file is, and what it may be called."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice, product
from urllib.parse import unquote

from memwell.extract.kinds import (
    DOCX,
    JSON,
    KEPT,
    PDF,
    PPTX,
    READ,
    TXT,
    UNKNOWN,
    XLSX,
    ZIP,
    clean_name,
    content_disposition,
    is_read,
    mimetype_of,
)

from ..cases import cases

PNG = b"\x89PNG\r\n\x1a\n\x00\x00"
OFFICE = b"PK\x03\x04\x14\x00word/document.xml"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00"
HEADS = {"pdf": b"%PDF-1.7", "docx": OFFICE, "txt": b"words", "json": b"{}", "png": PNG, "doc": OLE, "gif": b"GIF89a"}


def test_which_types_are_read_and_which_are_kept() -> None:
    """S2.36 and B2.7: the table of types, told by name or by declared type alone."""
    assert set(READ) == {"pdf", "docx", "txt", "json"}
    assert " ".join(sorted(KEPT)) == "bmp csv doc gif htm html jpeg jpg png ppt pptx rtf xls xlsx"
    for suffix, mimetype in (READ | KEPT).items():
        head = HEADS.get(suffix, b"a,b")
        assert mimetype_of(f"Report.{suffix.upper()}", None, head) == mimetype
        assert mimetype_of("report", f"{mimetype.upper()}; charset=x", head) == mimetype
        assert is_read(mimetype) == (suffix in READ)


@cases(
    ("filename", "declared", "head", "mimetype"),
    [
        ("a.txt", "application/pdf", b"words", TXT),  # the name is right
        ("a.pdf", "text/plain", b"words", TXT),  # the declared type is
        ("a.pdf", "application/pdf", b"words", UNKNOWN),  # neither is, and text is not guessed
        ("a.pdf", "application/pdf", b"\xef\xbb\xbf\n%PDF-1.4", PDF),  # readers allow bytes before the mark
        ("a.png", "image/png", b"%PDF-1.4", PDF),  # what the bytes prove
        ("a.pdf", "application/pdf", PNG, "image/png"),
        ("a.docx", None, b"%PDF-1.4", PDF),
        ("a.pdf", "application/pdf", OFFICE, DOCX),
        ("a.txt", "text/plain", b"PK\x03\x04\x00xl/workbook.xml", XLSX),
        ("a.txt", None, b"PK\x03\x04\x00ppt/presentation.xml", PPTX),
        ("a.json", None, b"PK\x03\x04\x00", ZIP),
        ("a.docx", None, OLE, DOCX),  # with a password
        ("a.docx", None, b"words", UNKNOWN),
        ("a.txt", "text/plain", b"MZ\x90\x00\x03\x00", UNKNOWN),
        ("a.txt", None, "Ж".encode("utf-16"), TXT),
        ("a.txt", None, b"caf\xe9", TXT),
        ("a.txt", None, b"end of a file of DOS\r\n\x1a", TXT),
        ("a.json", "text/json", b"", JSON),
        ("a.csv", "application/vnd.ms-excel", b"a,b", "text/csv"),
        ("a.exe", "text/plain", b"MZ\x90\x00", UNKNOWN),
        ("a.md", "text/markdown", b"# A", "text/markdown"),  # unknown here, and only kept
        ("a.md", None, b"# A", UNKNOWN),
        ("README", None, b"words", TXT),  # nobody says what it is
        ("README", "application/octet-stream", b"\x00", UNKNOWN),
        ("a", 'text/html"\r\nX: y', b"words", TXT),
        ("report.pdf\x00.txt", None, b"words", TXT),
        ("cod\u202etxt.exe", None, b"words", UNKNOWN),
        (".pdf", None, b"words", TXT),
    ],
)
def test_no_claim_has_a_file_read_as_what_it_is_not(filename: str, declared: str, head: bytes, mimetype: str) -> None:
    """T12, S2.36: a name and a declared type are believed where the first bytes agree."""
    assert mimetype_of(filename, declared, head) == mimetype


PARTS = [
    "../", "..\\", "/etc/passwd", "\\\\server\\share\\", "C:\\", "C:", "%2e%2e%2f", "%00", "\x00", "\r\n", "\n", "\u202e",
    "\u2066", "\u200b", "\ufeff", "\ud800", "\x1b[2J", '"', "\\", ";", "'", "=", "CON", "NUL.txt", "aux", ".", "..", " ", "~",
    "$HOME", "`id`", "<script>", "|", "*", "?", ":", "a" * 5_000, "é" * 3_000, "日本", "e\u0301", "\u2028", "\x85", "🧑\u200d🚀",
    "\u2100", "．．／", "\u2044", "\u2215", "file:///", ".htaccess", "-rf", "--", ".pdf", "." + "x" * 300, "\t", "\U000e0041",
]  # fmt: skip
HOSTILE = ["", *PARTS, *map("".join, islice(product(PARTS, PARTS), 0, None, 5)), *(part * 4 for part in PARTS)]
UNSEEN = {"Cc", "Cs", "Zl", "Zp"}


def test_a_name_is_shown_and_never_a_path_or_a_second_header() -> None:
    """T13: 500 names and more."""
    assert len(HOSTILE) >= 500
    for given in HOSTILE:
        name, header = clean_name(given), content_disposition(given)
        assert name
        assert name not in (".", "..")
        assert not re.search(r"[/\\\x00]", name)
        assert not any(unicodedata.category(c) in UNSEEN for c in name)
        assert not any(unicodedata.bidirectional(c) in {"RLO", "LRO", "RLI", "LRI", "FSI", "RLE", "LRE"} for c in name)
        assert len(name.encode()) <= 255
        assert clean_name(name) == name == unicodedata.normalize("NFC", name)
        assert re.fullmatch(
            r'attachment; filename="[\w. ()-]+"(; filename\*=UTF-8\'\'[\w!#$%&+.^`|~-]+)?', header, re.ASCII
        )
        plain, _, quoted = header.partition("; filename*=UTF-8''")
        assert name == (unquote(quoted) if quoted else plain.split('"')[1])


@cases(
    ("given", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\alice\\Report 2026.pdf", "Report 2026.pdf"),
        ("C:secret.txt", "secret.txt"),
        ("a/..", "file"),
        ("", "file"),
        ("\x00\u202e", "file"),
        ("inbox/", "inbox"),
        ("one\r\ntwo: three", "one two: three"),
        ("cafe\u0301.txt", "café.txt"),
        ("x" * 10_000 + ".pdf", "x" * 251 + ".pdf"),
        ("é" * 10_000 + ".pdf", "é" * 125 + ".pdf"),
        ("🧑\u200d🚀.png", "🧑\u200d🚀.png"),
        (".env", ".env"),
    ],
)
def test_what_can_be_kept_of_a_name_is_kept(given: str, name: str) -> None:
    """S2.35: `filename` is the original name."""
    assert clean_name(given) == name


def test_a_header_says_a_name_twice_only_where_it_must() -> None:
    assert content_disposition("a b.pdf") == 'attachment; filename="a b.pdf"'
    assert content_disposition('né"e.pdf') == "attachment; filename=\"n__e.pdf\"; filename*=UTF-8''n%C3%A9%22e.pdf"
