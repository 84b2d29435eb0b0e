"""JSON Schemas from outside: what they refuse, what they let through with a warning, what they fill in, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from memwell import Invalid
from memwell.errors import MemwellError
from memwell.model.schema import MAX_PROBLEMS, Problem, Schema
from memwell.model.value import merged, projected

PROFILE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "seen": {"type": "string", "format": "date-time"},
    },
    "required": ["name"],
}


def test_what_does_not_fit_is_named_by_path_and_reason() -> None:
    """Never by what it holds."""
    found = Schema(PROFILE, strict=True).problems({"address": {"city": "s3cr3t", "zip": 1}, "tags": ["a", 7]})
    assert {one.path for one in found} == {"", "address", "tags[1]"}
    assert "name" in next(one.reason for one in found if one.path == "")
    assert not any("s3cr3t" in one.reason for one in found)


def test_unknown_properties_are_refused_unless_the_schema_admits_them() -> None:
    """C23."""
    value = {"name": "Ada", "address": {"zip": 1}}
    assert Schema(PROFILE, strict=False).problems(value) == []
    assert [one.path for one in Schema(PROFILE, strict=True).problems(value)] == ["address"]
    admitting = {**PROFILE, "additionalProperties": True}
    assert Schema(admitting, strict=True).problems({"name": "Ada", "other": 1}) == []


def test_what_the_parts_of_a_composed_schema_name_is_known() -> None:
    """A property is unexpected if no part names it."""
    named = {"properties": {"name": {"type": "string"}, "home": {"properties": {"city": {}}}}}
    source = {"$defs": {"named": named}, "allOf": [{"$ref": "#/$defs/named"}], "properties": {"age": {}}}
    schema = Schema(source, strict=True)
    assert schema.problems({"name": "Ada", "age": 36, "home": {"city": "Porto"}}) == []
    assert len(schema.problems({"name": "Ada", "agee": 36})) == 1
    assert "home" in {one.path for one in schema.problems({"home": {"zip": 1}})}


def test_what_is_referred_to_is_closed_where_it_is_used() -> None:
    source = {"$defs": {"home": {"properties": {"city": {}}}}, "properties": {"home": {"$ref": "#/$defs/home"}}}
    assert Schema(source, strict=True).problems({"home": {"city": "Porto"}}) == []
    assert [one.path for one in Schema(source, strict=True).problems({"home": {"zip": 1}})] == ["home"]
    tree = {"properties": {"next": {"$ref": "#"}, "name": {}}}
    assert [one.path for one in Schema(tree, strict=True).problems({"next": {"next": {"nme": 1}}})] == ["next.next"]


@pytest.mark.parametrize("source", [{"type": "object"}, {"anyOf": [{"type": "string"}, {"type": "object"}]}, {}])
def test_a_schema_that_names_no_properties_admits_any(source: dict[str, Any]) -> None:
    assert Schema(source, strict=True).problems({"anything": {"at": "all"}}) == []


def test_a_format_only_warns() -> None:
    """C34."""
    schema = Schema(PROFILE, strict=True)
    value = {"name": "Ada", "seen": "2026-01-01T10:00:00"}
    assert schema.problems(value) == []
    assert [one.path for one in schema.warnings(value)] == ["seen"]
    assert schema.warnings({"name": "Ada", "seen": "2026-01-01T10:00:00Z"}) == []


def test_defaults_are_filled_in_however_deep() -> None:
    """C23: what is there stays as it is."""
    source = {"properties": {"preferences": {"default": {}, "properties": {"language": {"default": "en"}}}}}
    schema = Schema(source, strict=True)
    assert schema.with_defaults({}) == {"preferences": {"language": "en"}}
    assert schema.with_defaults({"preferences": {"language": "pt"}}) == {"preferences": {"language": "pt"}}
    assert schema.with_defaults(None) is None


def test_a_schema_for_merging_requires_nothing() -> None:
    """C31."""
    relaxed = Schema({**PROFILE, "allOf": [{"required": ["tags"]}]}, strict=True).relaxed()
    assert Schema(relaxed, strict=True).problems({}) == []
    assert Schema(relaxed, strict=True).problems({"name": 1}) != []


def test_problems_have_an_end() -> None:
    schema = Schema({"items": {"type": "string"}}, strict=True)
    assert len(schema.problems([1] * 1000)) == MAX_PROBLEMS


def test_a_catastrophic_pattern_takes_no_time() -> None:
    schema = Schema({"pattern": "^(a+)+$"}, strict=True)
    assert schema.problems("a" * 100_000 + "!") == [Problem("", 'the value does not match "^(a+)+$"')]


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"properties": {"a": found}}
    return found


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "http://127.0.0.1:1/x.json"}, "refers to"),
        ({"properties": {"a": {"items": {"$ref": "file:///etc/passwd"}}}}, "properties.a.items"),
        ({"$ref": "#/$defs/none"}, "/$defs/none"),
        ({"$id": "https://example.com/x"}, "$id"),
        ({"$dynamicRef": "#x"}, "$dynamicRef"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
        ({"type": "text"}, "type"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"pattern": "(?=a)b"}, "pattern"),
        ({"pattern": "((a{1000}){1000}){1000}"}, "pattern"),
        ({"pattern": "a" * 513}, "512"),
        ({"patternProperties": {"a" * 513: {}}}, "512"),
        (deep(40), "nested"),
        (deep(10_000), "nested"),
        ({"enum": ["x" * 70_000]}, "64 KiB"),
        ({"const": float("nan")}, "schema"),
    ],
)
def test_schemas_that_cannot_be_used(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(MemwellError) as error:
        Schema(schema, strict=True)
    assert told in str(error.value)
    assert len(str(error.value)) < 400


def test_values_are_merged_however_deep() -> None:
    """C1, C2: lists and scalars are replaced, and nothing is something."""
    old = {"a": {"b": 1, "c": {"d": 2}}, "list": [1, 2], "gone": 1}
    assert merged(old, {"a": {"c": {"e": 3}}, "list": [3], "gone": None}) == {
        "a": {"b": 1, "c": {"d": 2, "e": 3}},
        "list": [3],
        "gone": None,
    }
    assert merged(None, {"a": 1}) == {"a": 1}
    assert merged({"a": {"b": 1}}, {"a": 2}) == {"a": 2}
    assert old["list"] == [1, 2], "nothing that was given is changed"


def test_projections() -> None:
    """What is there, where it stood."""
    value = {"a": {"b": 1, "c": 2}, "d": [{"x": 1, "y": 2}, {"y": 3}], "e": {}, "f": None}
    assert projected(value, {"a.b": 1, "d.x": 1, "none.at.all": 1, "f": 1}) == {
        "a": {"b": 1},
        "d": [{"x": 1}],
        "f": None,
    }
    assert projected(value, {"e": 1}) == {"e": {}}
    assert projected(value, {"a.b": 1, "a.c": True}) == {"a": {"b": 1, "c": 2}}
    for wrong in ({"a": 0}, {"a": "1"}, dict.fromkeys(map(str, range(101)), 1)):
        with pytest.raises(Invalid):
            projected(value, wrong)
