"""The type of a file, by its name, its declared type and its first bytes; and file names that are safe to show.

A name and a declared type are claims. For types that are parsed, a claim counts only if the first bytes agree with it; for types
that are only stored, a wrong claim is harmless. A name is never a path on a disk, because files are stored by their digest.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
TXT = "text/plain"
JSON = "application/json"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ZIP = "application/zip"
UNKNOWN = "application/octet-stream"

HEAD = 4096  # first bytes, which decide the type

READ = {"pdf": PDF, "docx": DOCX, "txt": TXT, "json": JSON}
KEPT = {
    "csv": "text/csv",
    "xls": "application/vnd.ms-excel",
    "xlsx": XLSX,
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": PPTX,
    "html": "text/html",
    "htm": "text/html",
    "rtf": "application/rtf",
    "doc": "application/msword",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "bmp": "image/bmp",
}

_BY_SUFFIX = {**READ, **KEPT, "text": TXT, "zip": ZIP}
_ALIASES = {
    "application/x-pdf": PDF,
    "text/json": JSON,
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-ms-bmp": "image/bmp",
    "text/rtf": "application/rtf",
    "application/csv": "text/csv",
    "application/x-zip-compressed": ZIP,
}
_UNSPECIFIC = ("", UNKNOWN, "binary/octet-stream", "application/unknown", "*/*")
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")

PDF_MARK = b"%PDF-"
ZIP_MARK = b"PK\x03\x04"
OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Word before 2007, and any Office file with a password
_PDF_WITHIN = 1024  # readers accept other bytes before the mark
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_BYTES_PER_CONTROL = 50
_MARKS = (
    (PDF_MARK, PDF),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (rb"{\rtf", "application/rtf"),
)
_IN_A_ZIP = ((b"word/", DOCX), (b"xl/", XLSX), (b"ppt/", PPTX))


def mimetype_of(filename: str, declared: str | None, head: bytes) -> str:
    """Return the type that the first bytes prove, else the first claim that they do not contradict."""
    head = head[:HEAD]
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    claims = [claim for claim in (_BY_SUFFIX.get(suffix_of(filename)), _parse_declared(declared)) if claim]
    for claim in claims:
        if _fits(claim, head):
            return claim
    if head.startswith(ZIP_MARK):
        return next((kind for part, kind in _IN_A_ZIP if part in head), ZIP)
    return TXT if not claims and not suffix_of(filename) and is_text(head) else UNKNOWN


def is_read(mimetype: str) -> bool:
    """Return True if text is extracted from files of this type."""
    return mimetype in READ.values()


def is_text(head: bytes) -> bool:
    """Return True if bytes can be text: UTF-16 or 32 with its mark, or without NUL and with few control characters."""
    if head.startswith(_UTF16_OR_32):
        return True
    return b"\x00" not in head and len(_CONTROL.findall(head)) <= 1 + len(head) // _BYTES_PER_CONTROL


def _parse_declared(declared: str | None) -> str | None:
    """Return a declared type without its parameters, or None if it is invalid or unspecific."""
    kind = (declared or "").partition(";")[0].strip().lower()
    if kind in _UNSPECIFIC or not _TYPE.fullmatch(kind):
        return None
    return _ALIASES.get(kind, kind)


def _fits(claim: str, head: bytes) -> bool:
    if claim == PDF:
        return PDF_MARK in head[:_PDF_WITHIN]
    if claim == DOCX:
        return head.startswith((ZIP_MARK, OLE_MARK))
    return is_text(head) if claim in (TXT, JSON) else True


NAMELESS = "file"
MAX_NAME = 255  # bytes of UTF-8, the limit of file systems
MAX_SUFFIX = 20
MAX_SCANNED = 4 * MAX_NAME  # characters at either end; the name is cut between them

_SEPARATOR = re.compile(r"[/\\]")
_DRIVE = re.compile(r"^(?:\s*[A-Za-z]:)+")
_JOINERS = "\u200c\u200d"  # invisible, but some languages and many emoji need them
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._ ()-]")
_BARE = "!#$&+-.^_`|~"  # not encoded by RFC 8187, besides letters and digits


def clean_name(filename: str) -> str:
    """Return the name of a file without its path and invisible characters, short enough for a file system."""
    last = _SEPARATOR.split(filename.rstrip("/\\ "))[-1]
    if len(last) > 2 * MAX_SCANNED:
        last = last[:MAX_SCANNED] + last[-MAX_SCANNED:]
    visible = "".join(_to_visible(character) for character in last)
    name = _DRIVE.sub("", unicodedata.normalize("NFC", visible))
    name = " ".join(name.split()).rstrip(". ")  # some systems drop them at the end; also excludes `.` and `..`
    return _shorten(name) if name.strip(_JOINERS) else NAMELESS


def content_disposition(name: str) -> str:
    """Return the header that makes a browser save a file under its name (RFC 6266)."""
    name = clean_name(name)
    plain = _NOT_PLAIN.sub("_", name)
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe=_BARE)}"


def suffix_of(filename: str) -> str:
    """Return the part of a name after its last dot, in lower case: `pdf`. It is empty without a dot."""
    stem, dot, suffix = clean_name(filename).rpartition(".")
    return suffix.lower() if dot and stem else ""


def _to_visible(character: str) -> str:
    """Return the character, a space for a line break, or an empty text for control, format and surrogate characters."""
    if character in _JOINERS:
        return character
    category = unicodedata.category(character)
    if category in ("Zl", "Zp") or character in "\t\n\r\v\f\x85":
        return " "
    return "" if category in ("Cc", "Cf", "Cs") else character


def _shorten(name: str) -> str:
    if len(name.encode()) <= MAX_NAME:
        return name
    stem, dot, suffix = name.rpartition(".")
    ending = dot + suffix if stem and len(suffix.encode()) <= MAX_SUFFIX else ""
    start = name.removesuffix(ending).encode()[: MAX_NAME - len(ending.encode())].decode(errors="ignore")
    return start.rstrip(". ") + ending
