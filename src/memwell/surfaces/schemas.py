"""JSON Schemas of what operations take and give, as other programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_ENDS = rb"(?!\\n)"
"""Behind a `$`, in Python's patterns: there, it lets a line break pass at the very end. In those of JSON Schema it does not, and
many who read them know nothing that looks ahead."""


def shapes(kinds: Sequence[Any], ref_template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schemas of some types, and of those that they refer to."""
    found = msgspec.json.encode(msgspec.json.schema_components(kinds, ref_template=ref_template))
    roots, types = msgspec.json.decode(found.replace(_ENDS, b""))
    return roots, types
