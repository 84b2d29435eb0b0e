"""What a file is, by its name, by what was declared for it and by its first bytes; and which kinds are read.

A name and a declared type are claims. A claim to be something that is read is believed only if the first bytes agree, so
that no file is parsed as what it is not; a claim to be something that is only kept does no harm.
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

HEAD = 4096  # how many first bytes are looked at

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
_SAME = {
    "application/x-pdf": PDF,
    "text/json": JSON,
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-ms-bmp": "image/bmp",
    "text/rtf": "application/rtf",
    "application/csv": "text/csv",
    "application/x-zip-compressed": ZIP,
}
_SAYS_NOTHING = ("", UNKNOWN, "binary/octet-stream", "application/unknown", "*/*")
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")

PDF_MARK = b"%PDF-"
ZIP_MARK = b"PK\x03\x04"
OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Word before 2007, and any Office file with a password
_PDF_WITHIN = 1024  # readers accept other bytes before the mark
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_RARE_IN_TEXT = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_RARE = 50  # at most one in so many bytes
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
    """The type of a file: what its first bytes prove, else the first claim that they do not contradict."""
    head = head[:HEAD]
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    claims = [claim for claim in (_BY_SUFFIX.get(suffix_of(filename)), _declared(declared)) if claim]
    for claim in claims:
        if _fits(claim, head):
            return claim
    return _looked_at(filename, claims, head)


def is_read(mimetype: str) -> bool:
    """Whether the text of such files is extracted; any other file is kept as it is."""
    return mimetype in READ.values()


def is_text(head: bytes) -> bool:
    """Whether bytes can be text: in UTF-16 or 32 with its mark, or without NUL and almost without control characters."""
    if head.startswith(_UTF16_OR_32):
        return True
    return b"\x00" not in head and len(_RARE_IN_TEXT.findall(head)) <= 1 + len(head) // _RARE


def _declared(declared: str | None) -> str | None:
    """A declared type without its parameters, if it says anything."""
    kind = (declared or "").partition(";")[0].strip().lower()
    if kind in _SAYS_NOTHING or not _TYPE.fullmatch(kind):
        return None
    return _SAME.get(kind, kind)


def _fits(claim: str, head: bytes) -> bool:
    if claim == PDF:
        return PDF_MARK in head[:_PDF_WITHIN]
    if claim == DOCX:
        return head.startswith((ZIP_MARK, OLE_MARK))
    return is_text(head) if claim in (TXT, JSON) else True


def _looked_at(filename: str, claims: list[str], head: bytes) -> str:
    """The type of a file of which nothing is claimed, or nothing true. It is text only if nobody said otherwise."""
    if head.startswith(ZIP_MARK):
        return next((kind for part, kind in _IN_A_ZIP if part in head), ZIP)
    nothing_said = not claims and not suffix_of(filename)
    return TXT if nothing_said and is_text(head) else UNKNOWN


# -- The name of a file as it is shown. It never names anything on a disk: files are stored by their content.


NAMELESS = "file"
LONGEST = 255  # bytes of UTF-8, what file systems allow
LONGEST_SUFFIX = 20
MOST_READ = 4 * LONGEST  # characters at either end; what is between cannot be shown anyway

_SEPARATOR = re.compile(r"[/\\]")
_DRIVE = re.compile(r"^(?:\s*[A-Za-z]:)+")
_JOINERS = "\u200c\u200d"  # unseen as well, but words of some languages and many emoji are wrong without them
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._ ()-]")
_BARE = "!#$&+-.^_`|~"  # what RFC 8187 leaves as it is, besides letters and digits


def clean_name(filename: str) -> str:
    """A file's own name without its path, in characters that can be seen, short enough for a file system."""
    last = _SEPARATOR.split(filename.rstrip("/\\ "))[-1]
    if len(last) > 2 * MOST_READ:
        last = last[:MOST_READ] + last[-MOST_READ:]
    seen = "".join(_visible(character) for character in last)
    name = _trimmed(_DRIVE.sub("", unicodedata.normalize("NFC", seen)))
    return _shortened(name) if name.strip(_JOINERS) else NAMELESS


def content_disposition(name: str) -> str:
    """The header that has a browser save a file under its name (RFC 6266), whatever the name is."""
    name = clean_name(name)
    plain = _NOT_PLAIN.sub("_", name)
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe=_BARE)}"


def suffix_of(filename: str) -> str:
    """What a name ends in after its last dot, in small letters: `pdf`. Empty if there is no dot."""
    stem, dot, suffix = clean_name(filename).rpartition(".")
    return suffix.lower() if dot and stem else ""


def _visible(character: str) -> str:
    """The character; a space for a line's end; nothing for what is unseen, turns the text round or is half a character."""
    if character in _JOINERS:
        return character
    category = unicodedata.category(character)
    if category in ("Zl", "Zp") or character in "\t\n\r\v\f\x85":
        return " "
    return "" if category in ("Cc", "Cf", "Cs") else character


def _trimmed(name: str) -> str:
    """Without the spaces and dots that some systems drop at the end, and never `.` or `..`."""
    return " ".join(name.split()).rstrip(". ")


def _shortened(name: str) -> str:
    if len(name.encode()) <= LONGEST:
        return name
    stem, dot, suffix = name.rpartition(".")
    ending = dot + suffix if stem and len(suffix.encode()) <= LONGEST_SUFFIX else ""
    kept = (name.removesuffix(ending)).encode()[: LONGEST - len(ending.encode())].decode(errors="ignore")
    return kept.rstrip(". ") + ending
