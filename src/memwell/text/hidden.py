"""Invisible characters and disguised text.

Emoji, flags, Persian and Hindi need some invisible characters. The functions here tell these from the others.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata

ZERO_WIDTH = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
BIDI = "\u202a-\u202e"
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
TAGS = "\U000e0000-\U000e007f"
IGNORED = "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\ufff0-\ufff8\U000e0000-\U000e0fff"
INVISIBLE = re.compile(f"[{ZERO_WIDTH}{BIDI}{SELECTORS}{IGNORED}]")

_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{1,6}\U000e007f")
_TAGS = re.compile(f"[{TAGS}]")
_BIDI_OVERRIDE = re.compile("[\u202d\u202e]")
_IN_WORD = re.compile("[A-Za-z][\u00ad\u200b-\u200d\u2060-\u2064\ufeff]{1,64}(?=[A-Za-z])")
_RUN = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u3164]{4}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}")
_MANY = 3
"""Number of words with invisible characters inside that is no accident of copying."""

_SPACED = re.compile(r"(?<!\w)(?:\w[ .\-_*]{1,3}){7,}\w(?!\w)")
_ENCODED = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{24,4000}={0,2}(?![\w+/=])")
_LEET_INSIDE = re.compile(r"[013457@$][A-Za-z]{1,20}[013457@$]|[a-z][013457@$][a-z]")
_LEET_WORD = re.compile(r"[^\W_]*(?:[^\W\d_][013457@$]|[013457@$][^\W\d_])[^\W_@$]*[\w@$]*")
_LEET = str.maketrans("013457@$", "oieastas")
_MIXED_WORD = re.compile(r"\w*(?:[A-Za-z][Ѐ-ԯͰ-Ͽ]|[Ѐ-ԯͰ-Ͽ][A-Za-z])\w*")
_LOOKALIKES = str.maketrans(
    "аеорсухіѕјһԁԛԝвнкмтАЕОРСУХІЅЈВНКМТαοενιρτυκΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxisjhdqwbhkmtAEOPCYXISJBHKMTaoevipтukABEZHIKMNOPTYX",
)
_CYRILLIC = re.compile("[Ѐ-ԯ]")


def has_hidden_text(text: str) -> bool:
    """Return True if a text contains hidden characters that people cannot see and models can."""
    if text.isascii():
        return False
    if _BIDI_OVERRIDE.search(text) or _RUN.search(text) or len(_IN_WORD.findall(text)) >= _MANY:
        return True
    return _TAGS.search(_FLAG.sub("", text)) is not None


def normalise(text: str) -> str:
    """Return the text as people read it: without invisible characters, with plain letters for styled ones."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", INVISIBLE.sub("", text))
    return _straighten_quotes(plain)


def list_disguises(text: str) -> list[str]:
    """Return the other readings of a text: with spaced letters joined, look-alikes replaced, and base64 decoded."""
    found: list[str] = []
    if _SPACED.search(text):
        found.append(_SPACED.sub(lambda match: _join_letters(match[0]), text))
    unmasked = _LEET_WORD.sub(lambda match: match[0].translate(_LEET), text) if _LEET_INSIDE.search(text) else text
    if _CYRILLIC.search(unmasked) and _MIXED_WORD.search(unmasked):
        unmasked = _replace_lookalikes(unmasked)
    if unmasked != text:
        found.append(unmasked)
    return found + [said for match in _ENCODED.finditer(text) if (said := _decode_base64(match[0]))]


def _straighten_quotes(text: str) -> str:
    return text.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})


def _join_letters(spaced: str) -> str:
    """Join letters: `i g n o r e   a l l` is `ignore all`, because the gaps between words are wider."""
    wide = re.sub(r"[ .\-_*]{2,}", "\x00", spaced)
    return re.sub(r"[ .\-_*]", "", wide).replace("\x00", " ")


def _replace_lookalikes(text: str) -> str:
    """Replace letters that look like Latin ones, in a text whose words mix alphabets."""
    return text.translate(_LOOKALIKES)


def _decode_base64(encoded: str) -> str | None:
    """Decode base64, if the result is text."""
    try:
        said = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return said if said.isprintable() and " " in said else None
