"""What a schema from outside may hold: it is bounded in size and depth, and refers to nothing but itself."""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import Invalid, TooLarge
from ...model.check import plain
from .compiled import compiled
from .patterns import size
from .walk import ROOT, named, referred, subschemas

MAX_SCHEMA = 64 * 1024
MAX_DEPTH = 64
"""Levels of JSON; an object in an object takes two."""
MAX_PATTERN = 512
MAX_PATTERNS = 50_000
"""The parts of all patterns, with their repetitions written out: each takes a while to be compiled."""

_ELSEWHERE = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary")
_PLAIN = (
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "type",
)
"""Words that say all they mean by themselves."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def check(source: dict[str, Any]) -> None:
    """Refuse a schema that cannot be used here, before anything looks at it."""
    plain(source, "schema", MAX_DEPTH)
    if len(msgspec.json.encode(source)) > MAX_SCHEMA:
        raise TooLarge(f"`schema` is larger than {MAX_SCHEMA // 1024} KiB.", field="schema")
    if str(source.get("$schema", _DRAFT)).rstrip(ROOT) != _DRAFT:
        raise Invalid(
            "`schema` is read as JSON Schema Draft 2020-12: leave `$schema` away, or name that.", field="schema"
        )
    every = list(subschemas(source))
    known = {id(one) for _, one in every}
    for path, one in every:
        where = f"`schema{path[:200]}`"
        _check_words(where, one)
        _check_reference(where, one, source, known)


def check_patterns(source: dict[str, Any]) -> None:
    """Refuse patterns that take long to be compiled. What is stored was looked at when it was given, by what counted then."""
    if sum(size(pattern) for _, one in subschemas(source) for pattern in _patterns(one)) > MAX_PATTERNS:
        raise Invalid("`schema` has patterns that are too large together: repeat less in them.", field="schema")


def check_defaults(source: dict[str, Any]) -> None:
    """Refuse defaults that a schema itself would refuse, as far as it says so where they stand: whoever reads them could not
    write them back."""
    for path, one in subschemas(source):
        own = {word: one[word] for word in _PLAIN if word in one}
        if "default" in one and own and not compiled(own).is_valid(one["default"]):
            raise Invalid(f"`schema{path[:200]}` has a `default` that does not fit it.", field="schema")


def _patterns(one: dict[str, Any]) -> list[str]:
    own = [one["pattern"]] if isinstance(one.get("pattern"), str) else []
    return [*own, *named(one, "patternProperties")]


def _check_words(where: str, one: dict[str, Any]) -> None:
    for name in _ELSEWHERE:
        if name in one:
            raise Invalid(f"{where} has `{name}`, which cannot be used here.", field="schema")
    for pattern in _patterns(one):
        if len(pattern) > MAX_PATTERN:
            raise Invalid(f"{where} has a pattern of more than {MAX_PATTERN} characters.", field="schema")


def _check_reference(where: str, one: dict[str, Any], root: dict[str, Any], known: set[int]) -> None:
    """A reference is a path to a schema: whatever else a validator may understand has not been looked at."""
    reference = one.get("$ref", ROOT)
    if not isinstance(reference, str) or not (reference == ROOT or reference.startswith("#/")):
        raise Invalid(
            f"{where} refers to {str(reference)[:100]!r}: only paths such as `#/$defs/address` can be referred to.",
            field="schema",
        )
    target = referred(root, reference)
    if not isinstance(target, bool) and id(target) not in known:
        raise Invalid(f"{where} refers to {reference[:100]!r}, where there is no schema.", field="schema")
