"""Schemas and values that are meant to take long or to end the process: each is refused or checked within two seconds of
processor time, and takes little memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest

from memwell import Invalid, MemwellError, TooLarge
from memwell.records.schema import Schema
from memwell.records.schema_limits import measure_pattern

from ..cases import cases

SECONDS = 2.0
MEGABYTES = 400
WORDS = [f"s{number:05}" for number in range(7000)]
LETTERS = "".join(random.Random(1).choice("ab") for _ in range(600_000))


def chain(links: int, link: Callable[[str], dict[str, Any]], last: dict[str, Any]) -> dict[str, Any]:
    parts = {f"d{n}": link(f"#/$defs/d{n + 1}") for n in range(links)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, f"d{links}": last}}


def many(pattern: str, count: int) -> dict[str, Any]:
    return {"properties": {f"p{n}": {"pattern": pattern + str(n)} for n in range(count)}}


def deep(levels: int, leaf: Any = 1) -> Any:
    for _ in range(levels):
        leaf = {"c": leaf}
    return leaf


def doubling(levels: int) -> dict[str, Any]:
    return chain(levels, lambda to: {"allOf": [{"$ref": to}, {"$ref": to}]}, {"type": "string"})


BACK: dict[str, Any] = {"type": "object", "properties": {"c": {"$ref": "#/$defs/d0"}}}
TWICE = {"allOf": [{"properties": {"c": {"$ref": "#"}}}, {"properties": {"c": {"$ref": "#"}}}]}
TWICE_BELOW = {"properties": {"c": {"allOf": [{"$ref": "#"}, {"properties": {"c": {"$ref": "#"}}}]}}}
NAMED_TWICE = {"properties": {"c": {"$ref": "#"}}, "patternProperties": {"^c": {"$ref": "#"}}}
UNEVALUATED = [
    chain(12, lambda to, a=asked, w=word: {a: False, w: [{"$ref": to}]}, {"properties": {"c": {}}})  # type: ignore[misc]
    for asked in ("unevaluatedProperties", "unevaluatedItems")
    for word in ("allOf", "anyOf")
]

HOSTILE: list[tuple[dict[str, Any], Any]] = [
    # recursion of the validator
    (chain(1500, lambda to: {"$ref": to}, {"type": "string"}), {}),
    (chain(1500, lambda to: {"allOf": [{"$ref": to}]}, BACK), deep(60)),
    (chain(60, lambda to: {"allOf": [{"$ref": to}]}, BACK), deep(60)),
    (chain(1000, lambda to: {"if": {"$ref": to}, "then": {}}, BACK), deep(60)),
    ({"$ref": "#"}, {}),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        {},
    ),
    (deep(10_000), {}),
    # work that doubles with every level
    (doubling(20), {}),
    (doubling(11), {"a": [1] * 100_000}),
    (TWICE, deep(60)),
    (TWICE_BELOW, deep(60)),
    (NAMED_TWICE, deep(60)),
    ({"dependencies": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}, {"a": 1, "b": 2}),
    ({"unevaluatedProperties": False, "anyOf": [{"properties": {"c": {"$ref": "#"}}}]}, deep(60)),
    *((source, deep(60)) for source in UNEVALUATED),
    # patterns that take long to compile
    (many(r"\p{L}{16}", 200), {}),
    (many(r"(?:\pL|\P{Nd}){8}", 300), {}),
    (many("(?i)" + "[ -\U0010ffff]" * 12, 50), {}),
    (many(r"\w" * 250, 60), {}),
    (many("^.{1,1000}$", 500), {}),
    ({"pattern": "((a{1000}){1000}){1000}"}, "a"),
    # patterns that take long to match
    ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
    ({"pattern": "^[ab]*a[ab]{200}[cd]"}, LETTERS + "c"),
    ({"allOf": [{"pattern": f"[ab]{{{n + 100}}}a[ab]{{100}}[^ab]"} for n in range(5)]}, LETTERS),
    ({"items": {"pattern": "[ab]{100}a[ab]{100}[^ab]"}}, [LETTERS[:1000]] * 600),
    ({"propertyNames": {"pattern": "[ab]{100}a[ab]{100}[^ab]"}}, {f"{n}{LETTERS[:1000]}": 1 for n in range(600)}),
    ({"patternProperties": {"[ab]{100}a[ab]{100}[^ab]": {}}}, {f"{n}{LETTERS[:1000]}": 1 for n in range(600)}),
    # large enums, slow numbers
    ({"items": {"enum": [*range(4000), *map(str, range(4000))]}}, ["3999"] * 100_000),
    ({"items": {"not": {"enum": [{"a": n} for n in range(4000)]}}}, [{"a": -1}] * 50_000),
    ({"items": {"multipleOf": 1e-300}}, [1.5] * 200_000),
    ({"uniqueItems": True}, [2**70 + n for n in range(10_000)]),
    # errors that repeat the schema
    ({"items": {"enum": WORDS}}, ["q"] * 8000),
    ({"propertyNames": {"enum": WORDS}}, {f"q{number}": 1 for number in range(2000)}),
    ({"items": {"required": ["x" * 60_000]}}, [{}] * 2000),
    ({"items": {"required": [str(n) for n in range(7000)]}}, [{}] * 1200),
    ({"items": {"anyOf": [False] * 8000}}, [0] * 500),
]


@pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.long)])
def test_hostile_schemas_are_refused_or_checked_in_time(strict: bool) -> None:
    slow = []
    for number, (source, value) in enumerate(HOSTILE):
        started = time.process_time()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            schema = Schema(source, strict=strict)
            schema.problems(value)
            schema.warnings(value)
            schema.fill_defaults(value)
        except MemwellError:
            pass
        taken = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        if taken > SECONDS or grown > MEGABYTES:
            slow.append((number, str(source)[:60], round(taken, 1), grown))
    assert slow == []


@pytest.mark.parametrize("pattern", [r"\p{L}{16}", r"[\p{L}\p{N}]{8}", r"(?:\pL|\P{Nd}){8}"])
def test_unicode_classes_count_as_hundreds_of_letters(pattern: str) -> None:
    assert measure_pattern(pattern) >= 16 * 250
    with pytest.raises(Invalid, match="patterns of `schema` are too large together"):
        Schema(many(pattern, 20), strict=True)
    schema = Schema({"properties": {"name": {"pattern": pattern}}}, strict=True)
    assert schema.problems({"name": "Adalovelace" * 2}) == []


@cases(
    ("pattern", "size"),
    [
        ("abc", 3),
        (r"\w{16}", 26),
        ("(ab){3}", 6),
        ("[a-z]{2,5}", 5),
        (r"a{,3}", 5),
        (r"\u{1F600}x", 2),
        ("(", 0),
        ("\\", 1),
    ],
)
def test_repetitions_in_patterns_are_written_out(pattern: str, size: int) -> None:
    assert measure_pattern(pattern) == size


def test_a_large_pattern_counts_even_if_it_matches_only_beginnings() -> None:
    items = {"type": "string", "pattern": "^(?:[ab]{0,50}[ac]{0,50}){1,50}$"}
    schema = Schema({"properties": {"codes": {"items": items}}}, strict=False)
    assert schema.problems({"codes": ["ab", "ac"]}) == []
    with pytest.raises(TooLarge, match="patterns of its schema"):
        schema.problems({"codes": [f"{'a' * 4000}{n}" for n in range(250)]})


def test_a_value_that_would_take_too_long_is_refused() -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"items": {"enum": WORDS}}, ["q"] * 8000),
        ({"properties": {"t": {"pattern": "[ab]{200}a[ab]{200}[^ab]"}}}, {"t": LETTERS}),
        ({"items": {"multipleOf": 1e-300}}, [1.5] * 200_000),
    ]
    for source, value in cases:
        with pytest.raises(TooLarge, match="too"):
            Schema(source, strict=False).problems(value)
