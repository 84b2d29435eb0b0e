"""Stored values on one line of a prompt: what spans lines is written as a JSON string, so that it can forge no heading and no
line (C20), what nobody would see is left away, and no tag of a chat is opened."""

from __future__ import annotations

import json
import re
from typing import Any

from .fence import untagged

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Everything that some reader takes for the end of a line, or for a command."""
_HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
"""What has no width, turns the direction of a text, or spells words that only a model reads. Joiners stay: scripts need them."""


def one_line(value: Any) -> str:
    """A value as it stands in a prompt."""
    return visible(quoted(value))


def quoted(value: Any) -> str:
    """A value on one line, with all that is in it."""
    return value if isinstance(value, str) and not _BREAKS.search(value) else compact(value)


def visible(line: str) -> str:
    """What is seen of a line. It opens no tag of a chat, either."""
    return untagged(line if line.isascii() else _HIDDEN.sub("", line))


def compact(value: Any) -> str:
    """Compact JSON in which nothing breaks a line; `json` leaves some separators as they are."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
