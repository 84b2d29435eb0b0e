"""Stored text on one line: what spans lines is written as a JSON string, so that it can forge no heading and no line (C20)."""

from __future__ import annotations

import json
import re
from typing import Any

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Everything that some reader takes for the end of a line, or for a command."""


def one_line(text: str) -> str:
    return compact(text) if _BREAKS.search(text) else text


def compact(value: Any) -> str:
    """Compact JSON in which nothing breaks a line; `json` leaves some separators as they are."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
