"""The name of a file as it is shown. It never names anything on a disk: files are stored by their content."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

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
