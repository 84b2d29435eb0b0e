"""Hostile schemas are refused; composed schemas work with strictness and merging."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from memwell import Invalid, TooLarge
from memwell.records.schema import Schema

from ..cases import cases
from ..engines import Memory

OBJECT = {"type": "object"}


def chain(links: int, link: Any, last: dict[str, Any]) -> dict[str, Any]:
    """A schema that refers from one part to the next."""
    parts = {f"d{n}": link(f"#/$defs/d{n + 1}") for n in range(links)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, f"d{links}": last}}


def has(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {}}, **more}


# -- what is refused before it is used -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "asks"),
    [
        (lambda to: {"$ref": to}, False),
        (lambda to: {"allOf": [{"$ref": to}]}, False),
        (lambda to: {"if": {"$ref": to}, "then": {}}, True),
    ],
)
def test_parts_that_describe_a_value_by_one_another_are_few(link: Any, asks: bool) -> None:
    """A validator goes down with each of them, for each level of a value, and its stack has an end."""
    back = {"type": "object", "properties": {"c": {"$ref": "#/$defs/d0"}}}
    for links in (100, 1000):
        with pytest.raises(Invalid, match="subschemas for the same value"):
            Schema(chain(links, link, back), strict=False)
    deep: dict[str, Any] = {"c": 1}
    for _ in range(61):
        deep = {"c": deep}
    assert bool(Schema(chain(20, link, back), strict=False).problems(deep)) is not asks


@cases("asked", ["unevaluatedProperties", "unevaluatedItems"])
@cases("word", ["allOf", "anyOf", "oneOf"])
def test_what_looks_at_everything_again_does_so_a_few_times_only(asked: str, word: str) -> None:
    """Each takes three times as long as the one below it."""
    last = {"properties": {"a": {"type": "integer"}}, "prefixItems": [{"type": "integer"}]}

    def link(to: str) -> dict[str, Any]:
        return {asked: False, word: [{"$ref": to}]}

    with pytest.raises(Invalid, match="subschemas"):
        Schema(chain(12, link, last), strict=False)
    few = Schema(chain(3, link, last), strict=False)
    assert few.problems({"a": 1}) == []
    assert few.problems({"a": "x"})


def test_what_describes_itself_looks_at_everything_again_a_few_times_only() -> None:
    tree = {"type": "object", "unevaluatedProperties": False, "anyOf": [{"properties": {"c": {"$ref": "#"}}}]}
    schema = Schema(tree, strict=False)
    assert schema.problems({"c": {"c": {}}}) == []
    assert schema.problems({"c": {"d": {}}})
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"c": deep}
    with pytest.raises(TooLarge):
        schema.problems(deep)
    flat = {"type": "object", "unevaluatedProperties": False, "anyOf": [has("c")]}
    assert [one.path for one in Schema(flat, strict=False).problems({"d": 1})] == [""]


def test_a_value_with_too_many_names_for_the_patterns_is_refused() -> None:
    patterns: dict[str, Any] = {f"^p{n}_": {} for n in range(300)}
    schema = Schema({"properties": {"a": {}}, "patternProperties": patterns, "allOf": [has("b")]}, strict=True)
    assert schema.problems({"a": 1, "b": 2, "p7_x": 3}) == []
    assert [one.path for one in schema.problems({"c": 1})] == [""]
    with pytest.raises(TooLarge):
        schema.problems({f"p0_{n}": n for n in range(1000)})


# -- what strictness means -----------------------------------------------------------------------------------------------

LISTS = {
    "oneOf": [{"type": "array", "items": has("a")}, {"type": "array", "items": has("b")}],
}
STRICT: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"properties": {"x": LISTS}}, {"x": [{"a": 1}]}, False),  # both fit, as they do without strictness
    ({"properties": {"x": {"anyOf": LISTS["oneOf"]}}}, {"x": [{"a": 1}, {"b": 1}]}, True),
    ({"properties": {"x": {"anyOf": LISTS["oneOf"]}}}, {"x": [{"c": 1}]}, False),
    ({"properties": {"x": {"oneOf": [has("a"), OBJECT]}}}, {"x": {"b": 1}}, False),
    ({"properties": {"x": {"oneOf": [has("a"), {"type": "null"}]}}}, {"x": {"a": 1}}, True),
    ({"properties": {"x": {"oneOf": [has("a"), {"type": "null"}]}}}, {"x": {"b": 1}}, False),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": has("x")}, {"a": {"y": 1}}, True),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": has("x")}, {"b": {"y": 1}}, False),
    ({"patternProperties": {"^a": OBJECT, "^b": has("y")}}, {"a": {"free": 1}}, True),
    ({"patternProperties": {"^a": OBJECT, "^b": has("y")}}, {"b": {"free": 1}}, False),
    ({"patternProperties": {"^a": has("x"), "^b": has("y")}}, {"a": {"y": 1}}, False),
    ({"patternProperties": {"^a": has("x"), "b$": has("y")}}, {"ab": {"x": 1, "y": 1}}, True),
    (
        {"patternProperties": {"^a": OBJECT}, "additionalProperties": has("x"), "allOf": [has("q")]},
        {"a": {"c": 1}},
        True,
    ),
    ({"properties": {"l": {"contains": has("kind", required=["kind"])}}}, {"l": [{"kind": 1}, {"x": 1}]}, True),
    ({"properties": {"l": {"items": has("a"), "contains": has("b")}}}, {"l": [{"a": 1, "b": 1}]}, True),
    ({"properties": {"l": {"items": has("a"), "contains": has("b")}}}, {"l": [{"a": 1, "c": 1}]}, False),
    ({"properties": {"a": {}}, "required": ["id"]}, {"id": 1, "a": 2}, True),
    ({"properties": {"a": {}}, "required": ["id"]}, {"id": 1, "b": 2}, False),
    ({"allOf": [{"properties": {"a": {}}}], "required": ["id"]}, {"id": 1, "a": 2}, True),
]


@cases(("source", "value", "fits"), STRICT)
def test_strictness_refuses_what_no_part_names_and_changes_nothing_else(
    source: dict[str, Any], value: dict[str, Any], fits: bool
) -> None:
    """S3.9."""
    strict = Schema({"type": "object", **source}, strict=True)
    assert (strict.problems(value) == []) is fits
    if fits:
        assert jsonschema_rs.Draft202012Validator({"type": "object", **source}).is_valid(value)


def test_a_value_without_names_can_be_checked() -> None:
    assert Schema({"allOf": [{"properties": {"a": {}}}]}, strict=True).problems("text") == []


def test_formats_of_composed_schemas_warn_and_never_reject() -> None:
    """C34."""
    source = {"allOf": [{"properties": {"at": {"format": "date-time"}}}], "properties": {"a": {}}}
    schema = Schema(source, strict=True)
    assert schema.problems({"at": "2026-11-17T10:00:00"}) == []
    assert [one.path for one in schema.warnings({"at": "2026-11-17T10:00:00"})] == ["at"]


def test_names_that_may_be_secrets_are_not_repeated() -> None:
    secret = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"
    for source in (has("q"), {"allOf": [has("q")]}):
        (problem,) = Schema(source, strict=True).problems({secret: 1})
        assert "'sk-l…' was unexpected" in problem.reason
    inside = Schema({"additionalProperties": has("q")}, strict=True).problems({secret: {"z": 1}})
    assert [one.path for one in inside] == ["sk-l…"]


# -- what merging may be given -------------------------------------------------------------------------------------------

NEEDED = {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x", "y"]}
MERGED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"properties": {"a": {}, "b": {}}, "dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1, "b": 1}, {"a": 2}),
    ({"additionalProperties": NEEDED}, {"k": {"x": 1, "y": 1}}, {"k": {"x": 2}}),
    ({"patternProperties": {"^k": NEEDED}}, {"k": {"x": 1, "y": 1}}, {"k": {"x": 2}}),
    ({"unevaluatedProperties": NEEDED}, {"k": {"x": 1, "y": 1}}, {"k": {"x": 2}}),
    ({"properties": {"p": {"enum": [{"x": 1, "y": 1}, 7]}}}, {"p": {"x": 1, "y": 1}}, {"p": {"x": 1}}),
    ({"properties": {"t": {}, "v": {}}, "not": {"properties": {"t": {"const": 1}}}}, {"t": 2, "v": 1}, {"v": 2}),
    (
        {"properties": {"t": {}, "v": {}}, "if": {"properties": {"t": {"const": 1}}}, "then": {"required": ["w"]}},
        {"t": 2, "v": 1},
        {"v": 2},
    ),
]


@pytest.mark.parametrize(("source", "stored", "given"), MERGED)
def test_the_tool_takes_every_part_that_can_be_merged(
    memory: Memory, source: dict[str, Any], stored: dict[str, Any], given: dict[str, Any]
) -> None:
    """C31."""
    memory.definitions.create("Part", schema={"type": "object", **source}, update_mode="merge")
    view = memory.definitions.bind(["part"], owner="u1")
    view.update({"part": stored})
    tool = view.tool()
    assert tool is not None
    taken = jsonschema_rs.Draft202012Validator(tool["function"]["parameters"])
    assert taken.is_valid({"memory": {"part": given}})
    view.update({"part": given})


def test_the_tool_is_not_much_larger_than_what_it_is_made_of(memory: Memory) -> None:
    spellings = [f"%{ord(a):02x}{b}" if n else a + b for n in (0, 1) for a, b in [("b", "ig")]]
    big = {"description": "x" * 30_000, "type": "string"}
    names = {f"p{n}": {"$ref": f"#/$defs/{name}"} for n, name in enumerate(spellings * 20)}
    schema = {"type": "object", "properties": names, "$defs": {"big": big}}
    memory.definitions.create("Spelled", schema=schema, update_mode="merge")
    bound = memory.definitions.bind(["spelled"], owner="u1").bound
    assert len(str(bound.tool)) < 4 * 30_000
