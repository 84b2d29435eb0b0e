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
from ..engines import Memory

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

LAYERS = {
    f"d{n}": {"patternProperties": {"c": {"$ref": f"#/$defs/d{n}"}, ".": {"$ref": f"#/$defs/d{n + 1}"}}}
    for n in range(9)
}

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
    ({"$ref": "#/$defs/d0", "$defs": {**LAYERS, "d9": {"type": "integer"}}}, deep(60, "x")),
    ({"anyOf": [{"properties": {"c": {"$ref": "#"}}, "items": {"type": "integer"}}]}, deep(60, [1] * 500_000 + ["q"])),
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
    ({"items": {"allOf": [{"minimum": n / 2} for n in range(20)]}}, [1.5] * 200_000),
    ({"allOf": [{"minimum": n} for n in range(1000)]}, 2**13_999),
    ({"items": {"allOf": [{"minimum": n} for n in range(1000)]}}, [2**13_999] * 250),
    ({"uniqueItems": True}, [2**70 + n for n in range(10_000)]),
    ({"uniqueItems": True}, [2**13_999 + n for n in range(100)]),
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


TREE = {"properties": {"kids": {"items": {"$ref": "#/$defs/tree"}}, "name": {"type": "string"}}}
EITHER = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/sum"}, {"$ref": "#/$defs/call"}]}
FILE = {"type": "object", "properties": {"kind": {"const": "file"}, "size": {"type": "integer"}}}
FOLDER = {
    "type": "object",
    "properties": {"kind": {"const": "folder"}, "entries": {"additionalProperties": {"$ref": "#/$defs/entry"}}},
}
SCHEMA_LIKE = {
    "type": ["object", "boolean"],
    "properties": {
        **{name: {"$ref": "#"} for name in ("not", "if", "then", "items", "contains", "additionalProperties")},
        **{name: {"type": "array", "items": {"$ref": "#"}} for name in ("allOf", "anyOf", "oneOf")},
        **{name: {"type": "object", "additionalProperties": {"$ref": "#"}} for name in ("properties", "$defs")},
    },
}

ORDINARY: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    # a tree beside a schema that describes itself
    (
        {
            "$defs": {"tree": TREE},
            "properties": {"meta": {"$ref": "#/$defs/tree"}},
            "additionalProperties": {"$ref": "#"},
        },
        [{"meta": {"kids": [{"kids": [{}]}]}, "a": {"b": {"meta": {"name": "x"}}}}, {"c": deep(60, {})}],
        [{"a": {"b": {"meta": {"kids": [{"name": 1}]}}}}],
    ),
    # a linked list
    (
        {"properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
        [{"value": 1, "next": {"value": 2, "next": None}}],
        [{"value": 1, "next": {"value": "2"}}],
    ),
    # a binary tree
    (
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "key": {"type": "integer"}}},
        [{"left": {"left": {"key": 1}, "right": {"key": 2}}, "right": {"key": 3}}],
        [{"left": {"left": {"key": "1"}}}],
    ),
    # mutual recursion
    (
        {
            "$defs": {
                "sum": {"type": "object", "properties": {"left": EITHER, "right": EITHER}, "required": ["left"]},
                "call": {"type": "object", "properties": {"args": {"items": EITHER}}, "required": ["args"]},
            },
            "properties": {"formula": EITHER},
        },
        [{"formula": {"left": 1, "right": {"args": [1, {"left": 2, "right": {"args": []}}]}}}],
        [{"formula": {"left": 1, "right": {"args": [1, {"left": "2"}]}}}],
    ),
    (
        {"$defs": {"entry": {"oneOf": [FILE, FOLDER]}}, "properties": {"root": {"$ref": "#/$defs/entry"}}},
        [{"root": {"kind": "folder", "entries": {"a": {"kind": "folder", "entries": {"b": {"kind": "file"}}}}}}],
        [{"root": {"kind": "folder", "entries": {"a": {"kind": "link"}}}}],
    ),
    # two trees, one inside the other
    (
        {
            "$defs": {
                "tree": TREE,
                "thread": {"properties": {"replies": {"items": {"$ref": "#/$defs/thread"}}, "of": TREE}},
            },
            "properties": {"thread": {"$ref": "#/$defs/thread"}},
        },
        [{"thread": {"replies": [{"of": {"kids": [{"name": "x"}]}, "replies": []}] * 20}}],
        [{"thread": {"replies": [{"of": {"kids": [{"name": 1}]}}]}}],
    ),
    # schemas of schemas
    (
        SCHEMA_LIKE,
        [
            {
                "properties": {"a": {"items": {"anyOf": [{"not": {}}, True]}}},
                "if": {"contains": {}},
                "$defs": {"b": False},
            }
        ],
        [{"properties": {"a": {"items": {"anyOf": [{"not": 1}]}}}}],
    ),
    # many properties that share definitions
    (
        {
            "$defs": {
                "money": {"properties": {"amount": {"multipleOf": 0.01}, "currency": {"pattern": "^[A-Z]{3}$"}}},
                "line": {"properties": {f"p{n}": {"$ref": "#/$defs/money"} for n in range(100)}},
                "page": {"properties": {f"l{n}": {"$ref": "#/$defs/line"} for n in range(100)}},
            },
            "properties": {f"page{n}": {"$ref": "#/$defs/page"} for n in range(100)},
        },
        [{"page7": {f"l{n}": {f"p{n}": {"amount": 1.25, "currency": "EUR"}} for n in range(100)}}],
        [{"page99": {"l99": {"p99": {"currency": "euro"}}}}],
    ),
    # large patterns, for short texts beside long ones
    (
        {"properties": {"code": {"pattern": "[a-z]{1,200}[0-9]{1,800}x"}, "body": {"type": "string"}}},
        [{"code": "abc123x", "body": "x" * 1_000_000}],
        [{"code": "-", "body": "x" * 1_000_000}],
    ),
    # what is looked at again, in a tree
    (
        {"unevaluatedProperties": False, "allOf": [{"properties": {"kids": {"items": {"$ref": "#"}}}}]},
        [{"kids": [{"kids": [{}] * 20}] * 20}],
        [{"kids": [{"kids": [{"name": 1}]}]}],
    ),
]


@cases(("source", "fits", "misfits"), ORDINARY)
def test_ordinary_schemas_can_be_used(source: dict[str, Any], fits: list[Any], misfits: list[Any]) -> None:
    for strict in (False, True):
        schema = Schema(source, strict=strict)
        assert [schema.problems(value) for value in fits] == [[]] * len(fits)
        assert all(schema.problems(value) for value in misfits)
        assert max(schema.effort(value).share for value in fits) < 0.5


def random_schema(dice: random.Random, depth: int = 0) -> Any:
    """A schema whose parts refer to each other in many ways."""
    if depth > 3 or dice.random() < 0.15:
        return dice.choice([{}, False, {"type": "object"}, {"items": {"type": "integer"}}, {"required": ["z"]}])
    if dice.random() < 0.55:
        return {"$ref": dice.choice(["#", *(f"#/$defs/d{number}" for number in range(6))])}
    found: dict[str, Any] = {}
    for keyword in dice.sample(sorted(PARTS), dice.randint(1, 3)):
        found[keyword] = PARTS[keyword](lambda: random_schema(dice, depth + 1))
    return found


PARTS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    **{name: lambda part: [part(), part()] for name in ("allOf", "anyOf", "oneOf", "prefixItems")},
    **{
        name: lambda part: part()
        for name in ("additionalProperties", "items", "contains", "not", "unevaluatedProperties")
    },
    **{name: lambda part: {"a": part(), "b": part(), "c": part()} for name in ("properties", "patternProperties")},
    "dependentSchemas": lambda part: {"a": part()},
}


def random_value(dice: random.Random) -> Any:
    value = dice.choice([{}, 1, {"z": 1}, [*range(5000), "q"]])
    for _ in range(dice.choice([5, 20, 60])):
        value = {dice.choice("abc"): value} if dice.random() < 0.9 else [value]
    return {"a": value}


@pytest.mark.parametrize("first", [0, pytest.param(300, marks=pytest.mark.long)])
def test_random_schemas_are_refused_or_checked_in_time(first: int) -> None:
    slow, used = [], 0
    for seed in range(first, first + first * 10 + 300):
        dice = random.Random(seed)
        defs = {f"d{number}": random_schema(dice) for number in range(6)}
        value = random_value(dice)
        started = time.process_time()
        try:
            schema = Schema({"$defs": defs, "allOf": [random_schema(dice)]}, strict=seed % 2 == 0)
            schema.problems(value)
            used += 1
        except MemwellError:
            pass
        if (taken := time.process_time() - started) > SECONDS:
            slow.append((seed, round(taken, 1)))
    assert slow == []
    assert used > 50


@cases("bound", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
def test_a_bound_that_takes_long_to_compare_counts_more(bound: str) -> None:
    cheap, *costly = [
        Schema({"items": {bound: number}}, strict=False).effort([1] * 1000) for number in (9, 10**30, 0.5)
    ]
    assert all(one.share > 5 * cheap.share for one in costly)


def test_a_store_with_a_tree_can_be_updated(memory: Memory) -> None:
    (source, _, _), *_ = ORDINARY
    stores = memory.app("shop").stores
    stores.create("notes", schema={"type": "object", **source}, strict=True)
    assert stores.update("notes", schema={"type": "object", "title": "Notes", **source}).warnings is None
    memory.app("shop").scope(user_id="u1").set_content("notes", {"a": {"meta": {"kids": [{"name": "x"}]}}})


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
    with pytest.raises(TooLarge, match="takes too long"):
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
