"""JSON Schemas of requests and responses for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_LOOKAHEAD = rb"(?!\\n)"
"""Follows a `$` in Python's patterns, where `$` also matches before a final line break. JSON Schema does not need it, and
many of its readers do not support lookahead."""


def build_schemas(types: Sequence[Any], ref_template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schemas of some types, and those that they refer to by name."""
    text = msgspec.json.encode(msgspec.json.schema_components(types, ref_template=ref_template))
    schemas, components = msgspec.json.decode(text.replace(_LOOKAHEAD, b""))
    return schemas, components
