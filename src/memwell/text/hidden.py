"""Invisible characters, and text that is disguised so that only a machine reads it.

Emoji, flags, Persian and Hindi need some of these characters; only other uses count as hidden text.
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

_JOINED = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1a20-\u1cff\ua840-\ua8ff"
    "\ua9e0-\uaaff\uabc0-\uabff\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00010eff\U00011000-\U00011fff"
)
"""Letters of scripts in which a joiner between two letters changes their form: Arabic, Indic and some others."""
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)
_UNNEEDED = re.compile(
    rf"(?:(?![\u200c\u200d\ufe0e\ufe0f]){INVISIBLE.pattern})++"
    rf"|\u200c(?:(?<![{_JOINED}]\u200c)|(?![{_JOINED}]))"
    rf"|\u200d(?<![{_JOINED}]\u200d)(?<![{_EMOJI}]\u200d)(?<![{_EMOJI}]\ufe0f\u200d)|\u200d(?![{_JOINED}{_EMOJI}])"
    rf"|[\ufe0e\ufe0f](?<![{_EMOJI}][\ufe0e\ufe0f])(?:(?<![0-9#*]\ufe0f)|(?!\u20e3))"
)
"""Invisible characters, except for one joiner between two letters or emoji, and one selector after an emoji."""

_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{1,6}\U000e007f")
_TAGS = re.compile(f"[{TAGS}]")
_BIDI_OVERRIDE = re.compile("[\u202d\u202e]")
_IN_WORD = re.compile("[A-Za-z][\u00ad\u200b-\u200d\u2060-\u2064\ufeff]{1,64}(?=[A-Za-z])")
_RUN = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u3164]{4}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}")
_MANY = 3
"""The number of words with something invisible inside that is no accident of copying."""

_SPACED = re.compile(r"(?<!\w)(?:\w[ .\-_*]{1,3}){7,}\w(?!\w)")
_ENCODED = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{24,4000}={0,2}(?![\w+/=])")
_LEET_INSIDE = re.compile(r"[013457@$][A-Za-z]{1,20}[013457@$]|[a-z][013457@$][a-z]")
_LEET_WORD = re.compile(r"(?<![^\W_])[^\W_]*(?:[^\W\d_][013457@$]|[013457@$][^\W\d_])[^\W_@$]*[\w@$]*")
LEET = str.maketrans("013457@$", "oieastas")
MIXED_WORD = re.compile(r"(?<!\w)\w*(?:[A-Za-z][Ѐ-ԯͰ-Ͽ]|[Ѐ-ԯͰ-Ͽ][A-Za-z])\w*")
LOOKALIKES = str.maketrans(
    "аеорсухіѕјһԁԛԝвнкмтАЕОРСУХІЅЈВНКМТαοενιρτυκΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxisjhdqwbhkmtAEOPCYXISJBHKMTaoevipтukABEZHIKMNOPTYX",
)
_CYRILLIC = re.compile("[Ѐ-ԯ]")
_QUOTES = str.maketrans("‘’“”", "''\"\"")


def has_hidden_text(text: str) -> bool:
    """True if a text holds characters that hide something from people who read it."""
    if text.isascii():
        return False
    if _BIDI_OVERRIDE.search(text) or _RUN.search(text) or len(_IN_WORD.findall(text)) >= _MANY:
        return True
    return _TAGS.search(_FLAG.sub("", text)) is not None


def remove_hidden(text: str) -> str:
    """The text without the invisible characters that no script and no emoji needs, among them all that could carry a message."""
    return text if text.isascii() else _UNNEEDED.sub("", text)


def normalise(text: str) -> str:
    """The text as people read it: without invisible characters, with plain letters instead of styled ones."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).translate(_QUOTES)


def list_disguises(text: str) -> list[str]:
    """The texts that may be disguised in a text: spaced out, in look-alike characters, or in base64."""
    found: list[str] = []
    if _SPACED.search(text):
        found.append(_SPACED.sub(lambda match: join_letters(match[0]), text))
    unmasked = _LEET_WORD.sub(lambda match: match[0].translate(LEET), text) if _LEET_INSIDE.search(text) else text
    if _CYRILLIC.search(unmasked) and MIXED_WORD.search(unmasked):
        unmasked = unmasked.translate(LOOKALIKES)
    if unmasked != text:
        found.append(unmasked)
    return found + [decoded for match in _ENCODED.finditer(text) if (decoded := _decode_base64(match[0]))]


def join_letters(spaced: str) -> str:
    """Turn `i g n o r e   a l l` into `ignore all`: the gaps between words are wider."""
    wide = re.sub(r"[ .\-_*]{2,}", "\x00", spaced)
    return re.sub(r"[ .\-_*]", "", wide).replace("\x00", " ")


def _decode_base64(encoded: str) -> str | None:
    """Decode base64; None if the result is not text."""
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded if decoded.isprintable() and " " in decoded else None
