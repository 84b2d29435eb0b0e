"""JSON Schemas from outside: what they refuse, what they let through with a warning, what they fill in, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from memwell import Invalid
from memwell.errors import MemwellError
from memwell.records.records import merge, project
from memwell.records.schema import MAX_PROBLEMS, Schema
from memwell.records.schema_tree import Problem

from ..cases import cases

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


def test_misfits_are_named_by_path_and_reason() -> None:
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
    assert schema.fill_defaults({}) == {"preferences": {"language": "en"}}
    assert schema.fill_defaults({"preferences": {"language": "pt"}}) == {"preferences": {"language": "pt"}}
    assert schema.fill_defaults(None) is None


def test_a_schema_for_merging_requires_nothing() -> None:
    """C31."""
    relaxed = Schema({**PROFILE, "allOf": [{"required": ["tags"]}]}, strict=True).relax()
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


@cases(
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
    assert merge(old, {"a": {"c": {"e": 3}}, "list": [3], "gone": None}) == {
        "a": {"b": 1, "c": {"d": 2, "e": 3}},
        "list": [3],
        "gone": None,
    }
    assert merge(None, {"a": 1}) == {"a": 1}
    assert merge({"a": {"b": 1}}, {"a": 2}) == {"a": 2}
    assert old["list"] == [1, 2], "nothing that was given is changed"


def test_projections() -> None:
    """What is there, where it stood."""
    value = {"a": {"b": 1, "c": 2}, "d": [{"x": 1, "y": 2}, {"y": 3}], "e": {}, "f": None}
    assert project(value, {"a.b": 1, "d.x": 1, "none.at.all": 1, "f": 1}) == {
        "a": {"b": 1},
        "d": [{"x": 1}, {}],
        "f": None,
    }
    assert project(value, {"e": 1}) == {"e": {}}
    assert project(value, {"a.b": 1, "a.c": True}) == {"a": {"b": 1, "c": 2}}
    for wrong in ({"a": 0}, {"a": "1"}, dict.fromkeys(map(str, range(101)), 1)):
        with pytest.raises(Invalid):
            project(value, wrong)


# -- what is closed, and what is not -------------------------------------------------------------------------------------

ADDRESS = {"properties": {"country": {"type": "string"}, "street": {}}}
IN_US = {"properties": {"address": {"properties": {"country": {"const": "US"}}, "required": ["country"]}}}
VISA = {"properties": {"card": {"properties": {"kind": {"const": "visa"}}, "required": ["kind"]}}}
JOINED: dict[str, Any] = {"allOf": [{"properties": {"z": {}}}]}
CASH = {"properties": {"cash": {"const": True}}, "required": ["cash"]}


@cases(
    ("source", "fits", "misfits"),
    [
        (
            {"properties": {"address": ADDRESS, "zip": {}}, "if": IN_US, "then": {"required": ["zip"]}},
            [{"address": {"country": "PT", "street": "x"}}, {"address": {"country": "US", "street": "x"}, "zip": 1}],
            [{"address": {"country": "US", "street": "x"}}, {"address": {"city": "x"}}, {"zap": 1}],
        ),
        (
            {"properties": {"card": {"properties": {"kind": {}, "n": {}}}}, "anyOf": [VISA, CASH]},
            [{"card": {"kind": "visa", "n": 1}}, {"cash": True, "card": {"n": 1}}],
            [{"card": {"kind": "visa", "m": 1}}, {"card": {"kind": "amex"}}, {"cash": True, "other": 1}],
        ),
        (
            {
                "properties": {
                    "list": {
                        "items": {"properties": {"a": {}, "b": {}}},
                        "contains": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                    }
                }
            },
            [{"list": [{"a": 1, "b": 2}, {"b": 3}]}],
            [{"list": [{"b": 2}]}, {"list": [{"a": 1, "c": 2}]}],
        ),
        (
            {"properties": {"a": {"type": "string"}}, "patternProperties": {"^x_": {"type": "integer"}}},
            [{"a": "1", "x_1": 5}],
            [{"a": "1", "zzz": 5}, {"x_1": "5"}],
        ),
        (
            {"properties": {"pet": {"anyOf": [{"properties": {"bark": {}}, "required": ["bark"]}, {"type": "null"}]}}},
            [{"pet": {"bark": 1}}, {"pet": None}],
            [{"pet": {"bark": 1, "meow": 1}}],
        ),
        (
            {"allOf": [{"properties": {"a": {"properties": {"b": {}}}}}, {"properties": {"a": {"required": ["b"]}}}]},
            [{"a": {"b": 1}}],
            [{"a": {"b": 1, "c": 1}}, {"a": {}}, {"d": 1}],
        ),
        (
            {"properties": {"a": {}}, "not": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
            [{"a": 2}, {}],
            [{"a": 1}, {"a": 2, "b": 1}],
        ),
        (
            {"properties": {"a": {}}, "allOf": [{"additionalProperties": {"type": "integer"}}]},
            [{"b": 1}, {"a": 1}],
            [{"b": "x"}],
        ),
        (
            {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]},
            [{"a": 1, "b": "x"}],
            [{"a": 1}, {"a": 1, "b": "x", "c": 1}],
        ),
        (
            {"anyOf": [{}, {"properties": {"a": {}}}]},
            [{"a": 1}],
            [{"x": 1}],
        ),
        (
            {"properties": {"a_x": {"properties": {"x": {}}}}, "patternProperties": {"^a_": {"properties": {"y": {}}}}},
            [{"a_x": {"x": 1, "y": 1}, "a_y": {"y": 1}}],
            [{"a_x": {"z": 1}}, {"a_y": {"z": 1}}, {"b": 1}],
        ),
        (
            {
                **JOINED,
                "properties": {"meta": {"type": "object"}},
                "patternProperties": {"^x_": {"properties": {"n": {}}}},
            },
            [{"meta": {"foo": 1}, "x_1": {"n": 1}, "z": 1}],
            [{"x_1": {"m": 1}}, {"y": 1}],
        ),
        (
            {**JOINED, "properties": {"meta": {"type": "object"}}, "additionalProperties": {"properties": {"n": {}}}},
            [{"meta": {"foo": 1}, "other": {"n": 1}}],
            [{"other": {"m": 1}}],
        ),
        (
            {"properties": {"l": {"prefixItems": [{"type": "object"}], "items": {"properties": {"n": {}}}}}, **JOINED},
            [{"l": [{"foo": 1}, {"n": 1}]}],
            [{"l": [{}, {"foo": 1}]}],
        ),
        (
            {
                "properties": {"kind": {}},
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "n": {}}, "additionalProperties": False},
                    {"properties": {"kind": {"const": "b"}, "m": {}}},
                ],
            },
            [{"kind": "a", "n": 1}, {"kind": "b", "m": 1}],
            [{"kind": "b", "m": 1, "zzz": 1}, {"kind": "a", "m": 1}],
        ),
        (
            {"properties": {"e": {"properties": {}}}, **JOINED},
            [{"e": {}}],
            [{"e": {"zzz": 1}}],
        ),
        (
            {
                "properties": {"a": {}},
                "$defs": {"unused": {"properties": {"b": {}}, "anyOf": [{"properties": {"c": {}}}]}},
            },
            [{"a": 1}],
            [{"b": 1}],
        ),
        (
            {"prefixItems": [{"properties": {"a": {}}}], "allOf": [{"items": {"properties": {"b": {}}}}]},
            [[{"a": 1}], [{}, {"b": 1}]],
            [[{"c": 1}], [{}, {"a": 1}]],
        ),
        (
            {
                "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "id": {}}}},
                "allOf": [{"$ref": "#/$defs/node"}],
            },
            [{"next": {"next": {"id": 1}}}],
            [{"next": {"next": {"di": 1}}}],
        ),
    ],
)
def test_a_strict_schema_refuses_what_no_part_of_it_names_and_nothing_else(
    source: dict[str, Any], fits: list[Any], misfits: list[Any]
) -> None:
    """S3.9, C23."""
    schema = Schema(source, strict=True)
    for value in fits:
        assert schema.problems(value) == [], value
    for value in misfits:
        assert schema.problems(value), value


def test_a_schema_for_merging_requires_nothing_of_its_parts() -> None:
    """C31: also where it is one of several."""
    source = {
        "properties": {"kind": {}, "a": {}, "home": {"$ref": "#/$defs/home"}},
        "if": {"properties": {"kind": {"const": "x"}}},
        "then": {"required": ["a"]},
        "oneOf": [{"required": ["a"]}, {"required": ["kind"]}],
        "$defs": {"home": {"properties": {"city": {}}, "required": ["city"]}},
    }
    relaxed = Schema(source, strict=True).relax()
    assert Schema(relaxed, strict=True).problems({"kind": "x", "home": {}}) == []
    assert Schema(relaxed, strict=True).problems({}) == []


def test_defaults_are_filled_in_lists_and_behind_references() -> None:
    """C23, and there is an end to it."""
    source = {
        "$defs": {
            "place": {"properties": {"city": {"default": "Porto"}, "near": {"$ref": "#/$defs/place", "default": {}}}},
            "count": {"default": 1},
        },
        "properties": {
            "home": {"$ref": "#/$defs/place"},
            "list": {"items": {"properties": {"n": {"$ref": "#/$defs/count"}}}},
            "all": {"allOf": [{"properties": {"q": {"default": [1]}}}]},
        },
    }
    schema = Schema(source, strict=True)
    assert schema.fill_defaults({"list": [{}, {"n": 2}], "all": {}}) == {
        "list": [{"n": 1}, {"n": 2}],
        "all": {"q": [1]},
    }
    home = schema.fill_defaults({"home": {}})["home"]
    assert (home["city"], home["near"]["city"]) == ("Porto", "Porto")


# -- what would take too long ---------------------------------------------------------------------------------------------


def twice(levels: int, reference: str) -> dict[str, Any]:
    """A short schema that stands for a very long one."""
    found = {
        f"a{n}": {"allOf": [{"$ref": reference.format(n + 1)}, {"$ref": reference.format(n + 1)}]}
        for n in range(levels)
    }
    return {"$defs": {**found, f"a{levels}": {"$anchor": "n"}}, "$ref": reference.format(0)}


HIDDEN = {"type": "object", "properties": {"a": {"$ref": "#/x"}, "b": {"$ref": "#/x"}}}


@cases(
    "source",
    [
        twice(20, "#/$defs/a{}"),
        twice(20, "#/%24defs/a{}"),
        {"$ref": "#n", "contentSchema": {"$anchor": "n"}},
        {"contentSchema": {"$anchor": "n"}},
        {"unevaluatedProperties": {"$anchor": "n"}},
        {"unevaluatedProperties": {"$dynamicRef": "#n"}},
        {"dependencies": {"a": {"$anchor": "n"}}},
        {"$ref": "#/x", "x": HIDDEN},
        {"$ref": "#/const", "const": {"pattern": "a" * 600}},
        {"dependencies": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"prefixItems": [{}], "$ref": "#/prefixItems/²"},
    ],
)
def test_a_reference_that_was_not_looked_at_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as error:
        Schema(source, strict=True)
    assert len(str(error.value)) < 400


def test_long_texts_beside_patterns_are_fine() -> None:
    """What counts is which text a pattern is for."""
    patterns = {f"p{n}": {"type": "string", "pattern": "^[a-z]{1,255}$"} for n in range(50)}
    schema = Schema(
        {"properties": {**patterns, "body": {"type": "string"}, "price": {"multipleOf": 0.01}}}, strict=True
    )
    assert schema.problems({"p1": "abc", "body": "x" * 1_000_000, "price": 1.25}) == []
    assert schema.problems({"p1": "ABC", "body": "x" * 1_000_000}) != []


@pytest.mark.parametrize(("pattern", "told"), [("(?=a)b", "lookaround"), ("(", "not a regular expression")])
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        Schema({"properties": {"a": {"pattern": pattern}}}, strict=True)


@cases(
    "pattern",
    [
        "^.{1,255}$",
        r"^\S{1,200}$",
        "^.{1,1000}$",
        r"(?i)^[a-zà-ÿ]{1,50}$",
        r"^\w+(?:[-.]\w+){0,20}(?:@\w+\.\w{2,10})?$",
        "abc",
    ],
)
def test_common_patterns_can_be_used(pattern: str) -> None:
    assert Schema({"pattern": pattern}, strict=True).problems("abc") == []


def test_an_error_about_a_type_names_the_valid_ones() -> None:
    with pytest.raises(Invalid, match="must be one of array, boolean"):
        Schema({"properties": {"a": {"type": "objekt"}}}, strict=True)


def test_reasons_are_short() -> None:
    schema = Schema({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}, strict=True)
    (problem,) = schema.problems({f"unknown_{n}": n for n in range(1000)})
    assert len(problem.reason) <= 200


def test_defaults_that_lead_to_each_other_have_an_end() -> None:
    names = [f"a{n}" for n in range(12)]
    every = {name: {"$ref": f"#/$defs/{name}", "default": {}} for name in names}
    schema = Schema({"$defs": {name: {"properties": every} for name in names}, "properties": every}, strict=True)
    found = schema.fill_defaults({})
    assert found["a1"]["a2"] == {}


def test_defaults_are_no_larger_than_a_record() -> None:
    schema = Schema({"items": {"properties": {"a": {"default": "x" * 50_000}}}}, strict=True)
    found = schema.fill_defaults([{}] * 10_000)
    assert 1 <= sum("a" in one for one in found) <= 21
    small = Schema({"items": {"properties": {f"p{n}": {"default": 1} for n in range(100)}}}, strict=True)
    assert small.fill_defaults([{}])[0] == {f"p{n}": 1 for n in range(100)}
    assert small.fill_defaults([{}] * 40_000)[-1] == {}


@cases(
    ("source", "value"),
    [
        ({"items": {"required": [str(n) for n in range(7000)]}}, [{}] * 1200),
        ({"items": {"dependentRequired": {"a": [str(n) for n in range(7000)]}}}, [{"a": 1}] * 1200),
        ({"items": {"anyOf": [False] * 8000}}, [0] * 1200),
        ({"items": {"allOf": [False] * 8000}}, [0] * 1200),
    ],
)
def test_many_errors_are_not_made_at_once(source: dict[str, Any], value: Any) -> None:
    """Each would take a thousand bytes."""
    assert len(Schema(source, strict=False).problems(value)) == 1


def test_a_value_of_any_json_can_be_described() -> None:
    """What is in a list and what is in an object are never at the same place."""
    anything = {
        "anyOf": [{"type": "string"}, {"items": {"$ref": "#/$defs/j"}}, {"additionalProperties": {"$ref": "#/$defs/j"}}]
    }
    schema = Schema({"$defs": {"j": anything}, "properties": {"a": {"$ref": "#/$defs/j"}}}, strict=True)
    assert schema.problems({"a": [{"b": ["c", {"d": {}}]}]}) == []


@cases(
    ("name", "reference"),
    [
        ("Größe", "Größe"),
        ("Größe", "Gr%C3%B6%C3%9Fe"),
        ("a b", "a b"),
        ("a/b~c", "a~1b~0c"),
        ("x%", "x%25"),
        ("List[int]", "List[int]"),
    ],
)
def test_definitions_may_be_called_anything(name: str, reference: str) -> None:
    source = {
        "$defs": {name: {"properties": {"n": {"type": "integer"}}}},
        "properties": {"a": {"$ref": f"#/$defs/{reference}"}},
    }
    schema = Schema(source, strict=True)
    assert schema.problems({"a": {"n": 1}}) == []
    assert [one.path for one in schema.problems({"a": {"n": "x"}})] == ["a.n"]
    assert [one.path for one in schema.problems({"a": {"m": 1}})] == ["a"]


def test_a_schema_for_merging_refers_to_what_there_is() -> None:
    source = {
        "oneOf": [{"required": ["a"]}],
        "properties": {"a": {"items": {"$ref": "#/oneOf/0"}}, "tree": {"items": {"$ref": "#"}}},
        "required": ["a"],
    }
    relaxed = Schema(source, strict=True).relax()
    again = Schema(relaxed, strict=False)
    assert again.problems({"a": [{"a": 1}]}) == []
    assert again.problems({"a": [{}]}), "what is in a list is replaced as a whole"
    assert again.problems({"tree": [{}]})


def test_patterns_have_a_size_together() -> None:
    with pytest.raises(Invalid, match="patterns of `schema` are too large together"):
        Schema({"properties": {f"p{n}": {"pattern": "^.{1,1000}$"} for n in range(100)}}, strict=True)
