"""What a schema may say and hardly means: words that count for nothing, and objects of which nothing is named."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

from .walk import LIST, NAMED, ONE, subschemas

MAX_DOUBTS = 5
MAX_SHOWN = 100

# fmt: off
_WORDS = (
    "const", "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated", "description",
    "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maximum", "maxItems",
    "maxLength", "maxProperties", "minContains", "minimum", "minItems", "minLength", "minProperties", "multipleOf",
    "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
)
# fmt: on
_KNOWN = frozenset((*_WORDS, *ONE, *LIST, *NAMED))
_NAMING = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames")
_ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "enum", "const", "maxProperties")
_OURS = ("$", "x-", "x_")
"""How words begin that are somebody's own, or the schema's about itself."""


def doubts(source: dict[str, Any], *, strict: bool) -> list[str]:
    """Words of warning about a schema that can be used all the same."""
    odd = (_odd(path, word) for path, one in subschemas(source) for word in _unknown(one))
    return [*islice(odd, MAX_DOUBTS), *_open(source, strict)]


def _unknown(one: dict[str, Any]) -> Iterator[str]:
    return (word for word in one if word not in _KNOWN and not word.startswith(_OURS))


def _odd(path: str, word: str) -> str:
    close = get_close_matches(word[:MAX_SHOWN], _KNOWN, 1)
    meant = f": did you mean `{close[0]}`?" if close else "."
    where = f"`schema{path[:MAX_SHOWN]}`"
    return f"{where} has `{word[:MAX_SHOWN]}`, which JSON Schema does not know and which counts for nothing{meant}"


def _open(source: dict[str, Any], strict: bool) -> list[str]:
    if not strict or any(word in source for word in (*_NAMING, *_ELSEWHERE)):
        return []
    return ["The schema names no `properties`, so that every property is accepted."]
