"""Filters on metadata (C41): their meaning, their errors, and the same results in SQL."""

from __future__ import annotations

import itertools
import math
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args

import apsw
import msgspec
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from memwell.errors import Invalid, TooLarge
from memwell.model import filter as filters
from memwell.model.filter import And, Leaf, Not, Or, leaf_matches, leaves, look_up, matches, parse
from memwell.storage.filters import to_sql

from ..cases import cases
from ..engines import Memory
from ..properties import examples

pytestmark = pytest.mark.engines()

database = apsw.Connection(":memory:")


def in_sqlite(condition: filters.Filter, document: Any) -> bool:
    text = None if document is None else msgspec.json.encode(document).decode()
    answer = select("SELECT {} FROM (SELECT :doc AS metadata)", *to_sql(condition, "sqlite"), doc=text)
    assert answer in (0, 1), answer
    return bool(answer)


def select(query: str, sql: str, parameters: dict[str, Any], **more: Any) -> Any:
    return database.execute(query.format(sql), {**parameters, **more}).get


def both(data: Any, document: Any) -> bool:
    """The answer of the evaluator, after seeing that SQLite agrees."""
    condition = parse(data)
    answer = matches(condition, document)
    assert in_sqlite(condition, document) is answer
    return answer


# What a filter means. Each line: a filter, documents that match, documents that do not.

RULES: list[tuple[Any, list[Any], list[Any]]] = [
    # everything
    ({}, [None, {}, {"a": 1}], []),
    ({"$not": {}}, [], [None, {}, {"a": 1}]),
    ({"$and": [{}]}, [{}, {"a": 1}], []),
    # equality and types
    ({"a": 1}, [{"a": 1}, {"a": 1.0}], [{"a": True}, {"a": "1"}, {"a": 2}, {"a": None}, {}, None, {"b": 1}]),
    ({"a": {"$eq": 0}}, [{"a": 0}, {"a": 0.0}, {"a": -0.0}], [{"a": False}, {"a": ""}, {"a": None}, {}, {"a": []}]),
    ({"a": True}, [{"a": True}], [{"a": 1}, {"a": False}, {"a": "true"}, {"a": 1.0}]),
    ({"a": False}, [{"a": False}], [{"a": 0}, {"a": True}, {"a": None}, {}]),
    ({"a": "1"}, [{"a": "1"}], [{"a": 1}, {"a": "1 "}, {"a": "01"}]),
    ({"a": "null"}, [{"a": "null"}], [{"a": None}, {}]),
    ({"a": ""}, [{"a": ""}], [{"a": None}, {}, {"a": 0}, {"a": []}, {"a": {}}]),
    ({"a": "^x.*"}, [{"a": "^x.*"}], [{"a": "xy"}]),
    ({"a": "x%"}, [{"a": "x%"}], [{"a": "xy"}, {"a": "X%"}]),
    ({"a": '{"b":1}'}, [{"a": '{"b":1}'}], [{"a": {"b": 1}}]),
    ({"a": "[]"}, [{"a": "[]"}], [{"a": []}]),
    # missing and null
    ({"a": None}, [{"a": None}, {}, None, {"b": 1}, {"a": [None]}], [{"a": 0}, {"a": False}, {"a": ""}, {"a": []}]),
    ({"a": {"$ne": 1}}, [{}, None, {"a": 2}, {"a": None}, {"a": True}, {"a": "1"}], [{"a": 1}, {"a": 1.0}]),
    ({"a": {"$ne": None}}, [{"a": 1}, {"a": False}, {"a": []}, {"a": {}}], [{"a": None}, {}, None]),
    ({"a": {"$exists": True}}, [{"a": None}, {"a": 0}, {"a": []}, {"a": {}}], [{}, None, {"b": 1}]),
    ({"a": {"$exists": False}}, [{}, None, {"b": 1}], [{"a": None}, {"a": 0}]),
    ({"a.b": {"$exists": True}}, [{"a": {"b": None}}], [{"a": None}, {"a": {}}, {"a": "b"}, {"a": ["b"]}]),
    ({"a.b": None}, [{}, {"a": 1}, {"a": {}}, {"a": {"b": None}}], [{"a": {"b": 1}}]),
    # order, within one type only
    ({"a": {"$gt": 1}}, [{"a": 2}, {"a": 1.5}], [{"a": 1}, {"a": True}, {"a": "2"}, {"a": None}, {}, {"a": {"b": 2}}]),
    ({"a": {"$gte": 1}}, [{"a": 1}, {"a": 1.0}], [{"a": 0.9}, {"a": True}, {"a": "1"}]),
    ({"a": {"$lt": 1}}, [{"a": 0}, {"a": -5}, {"a": 0.99}], [{"a": False}, {"a": None}, {}, {"a": ""}, {"a": 1}]),
    ({"a": {"$lte": 1}}, [{"a": 1}, {"a": 1.0}], [{"a": True}, {"a": 1.01}, {"a": []}]),
    ({"a": {"$gt": "b"}}, [{"a": "c"}, {"a": "ba"}, {"a": "é"}], [{"a": "b"}, {"a": "B"}, {"a": 5}, {"a": True}, {}]),
    ({"a": {"$lt": "\U0001f600"}}, [{"a": "\uffff"}, {"a": "é"}], [{"a": "\U0001f600"}, {"a": "\U0001f601"}]),
    ({"a": {"$gte": "2025-01-31T00:00:00Z"}}, [{"a": "2025-02-01T00:00:00Z"}], [{"a": "2024-12-31T23:59:59Z"}]),
    ({"a": {"$gte": 1, "$lt": 3}}, [{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 0}, {}]),
    ({"a": {"$gte": True}}, [], [{"a": True}, {"a": False}, {"a": 1}, {"a": 2}, {}]),
    ({"a": {"$lte": None}}, [], [{"a": None}, {"a": 0}, {}, None, {"a": [None]}]),
    ({"a": {"$not": {"$gt": 1}}}, [{"a": 1}, {"a": "x"}, {}, {"a": None}, {"a": [0, 1]}], [{"a": 2}, {"a": [0, 2]}]),
    # lists of values
    ({"a": {"$in": [1, "x", None]}}, [{"a": 1.0}, {"a": "x"}, {"a": None}, {}, None], [{"a": True}, {"a": "1"}]),
    ({"a": {"$in": [1, True]}}, [{"a": 1}, {"a": True}], [{"a": False}, {"a": None}, {}]),
    ({"a": {"$in": [False]}}, [{"a": False}, {"a": [False]}], [{"a": 0}, {"a": None}, {}, {"a": [0, None]}]),
    ({"a": {"$in": []}}, [], [{"a": 1}, {"a": None}, {}, {"a": []}]),
    ({"a": {"$nin": []}}, [{"a": 1}, {"a": None}, {}, {"a": []}], []),
    ({"a": {"$nin": [1, 2]}}, [{"a": 3}, {}, {"a": None}, {"a": []}, {"a": [3]}], [{"a": 1}, {"a": [3, 2]}]),
    ({"a": {"$nin": [None]}}, [{"a": 3}, {"a": []}], [{}, {"a": None}, {"a": [None]}]),
    # arrays
    ({"a": 1}, [{"a": [1]}, {"a": [0, 1.0]}], [{"a": []}, {"a": [[1]]}, {"a": [True]}, {"a": [{"a": 1}]}]),
    ({"a": {"$ne": 1}}, [{"a": []}, {"a": [2]}, {"a": [[1]]}], [{"a": [2, 1]}]),
    ({"a": {"$gt": 1}}, [{"a": [0, 2]}], [{"a": [0, 1]}, {"a": ["2"]}, {"a": [[2]]}, {"a": [True]}]),
    ({"a": {"$gt": 1, "$lt": 0}}, [{"a": [2, -1]}], [{"a": [2]}, {"a": [-1]}]),
    ({"a": ""}, [{"a": [""]}, {"a": ["x", ""]}], [{"a": ["[]"]}, {"a": [None]}]),
    # paths
    ({"a.b": 1}, [{"a": {"b": 1}}, {"a": {"b": [1]}}], [{"a.b": 1}, {"b": 1}, {"a": {"a": 1}}, {"a": [1]}]),
    ({"a.b.c": "x"}, [{"a": {"b": {"c": "x"}}}], [{"a": {"b": "x"}}, {"a": {"c": "x"}}]),
    # paths through arrays of objects
    (
        {"a.b": 1},
        [{"a": [{"b": 1}]}, {"a": [2, None, {"c": 1}, {"b": 2}, {"b": 1.0}]}, {"a": [{"b": [2, 1]}, {}]}],
        [
            {"a": []},
            {"a": [{}]},
            {"a": [{"b": "1"}]},
            {"a": [[{"b": 1}]]},
            {"a": [{"b": [[1]]}]},
            {"a": [{"b": {"b": 1}}]},
        ],
    ),
    (
        {"a.b.c": "x"},
        [{"a": [{"b": {"c": "x"}}]}, {"a": {"b": [{"c": "x"}]}}, {"a": [{"b": [{"c": "y"}, {"c": "x"}]}, {"b": 1}]}],
        [{"a": {"b": [[{"c": "x"}]]}}, {"a": [{"b": "x"}]}, {"a": [{"b": []}]}, {"a": [{"c": "x"}]}],
    ),
    ({"a.b": {"$ne": 1}}, [{"a": [{"b": 2}]}, {"a": []}, {"a": [{}]}], [{"a": [{"b": 2}, {"b": 1}]}]),
    ({"a.b": {"$gt": 1, "$lt": 0}}, [{"a": [{"b": 2}, {"b": -1}]}], [{"a": [{"b": 2}]}, {"a": [{"b": "2"}]}]),
    (
        {"a.b": {"$exists": True}},
        [{"a": [{}, {"b": None}]}, {"a": [{"b": []}]}],
        [{"a": [{}]}, {"a": []}, {"a": ["b"]}],
    ),
    (
        {"a.b": None},
        [{"a": [{}]}, {"a": []}, {"a": [{"b": None}, {"b": 1}]}],
        [{"a": [{"b": []}]}, {"a": [{"b": 1}, {}]}],
    ),
    ({"a.b": 2**53 + 1}, [{"a": [{"b": 2**53 + 1}]}], [{"a": [{"b": 2**53}, {"b": float(2**53)}]}]),
    ({"a.b": {"$gt": 2**63 - 1}}, [{"a": [{"b": 1}, {"b": 2**63}]}], [{"a": [{"b": 2**63 - 1}]}]),
    ({"a.b": 1e23}, [{"a": [{"b": 1e23}]}], [{"a": [{"b": 10**23}]}]),
    ({"a.0": 1}, [{"a": {"0": 1}}], [{"a": [1]}]),
    ({"0": 1}, [{"0": 1}], [{"a": 1}]),
    ({"a.$b": 1}, [{"a": {"$b": 1}}], [{"a": 1}]),
    ({"a.b": 1}, [], [{"a": '{"b":1}'}, {"a": "not json"}, {"a": 1}, {"a": None}, {"a": True}]),
    ({"A": 1}, [{"A": 1}], [{"a": 1}]),
    # connectives
    ({"a": 1, "b": 2}, [{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}, {"a": 1, "b": 3}]),
    ({"$or": [{"a": 1}, {"b": 2}]}, [{"a": 1}, {"b": 2}, {"a": 1, "b": 2}], [{}, {"a": 2, "b": 1}]),
    ({"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 3}}]}, [{"a": 2}], [{"a": 3}, {}]),
    ({"$or": [{"a": 1}, {"b": 2}], "c": 3}, [{"a": 1, "c": 3}], [{"a": 1}, {"c": 3}]),
    ({"$not": {"$or": [{"a": 1}, {"b": 1}]}}, [{}, {"a": 2}], [{"a": 1}, {"b": 1}]),
    ({"$not": {"a": 1, "b": 1}}, [{}, {"a": 1}], [{"a": 1, "b": 1}]),
    ({"a": {"$not": {"$gt": 1, "$lt": 5}}}, [{"a": 1}, {"a": 5}, {}], [{"a": 2}]),
    ({"a": {"$not": {"$not": {"$eq": 1}}}}, [{"a": 1}], [{"a": 2}, {}]),
    # exact numbers
    ({"a": 2**53 + 1}, [{"a": 2**53 + 1}], [{"a": 2**53}, {"a": float(2**53)}]),
    ({"a": {"$gt": float(2**53)}}, [{"a": 2**53 + 1}], [{"a": 2**53}]),
    ({"a": {"$lt": 2**53 + 1}}, [{"a": float(2**53)}], [{"a": float(2**53 + 2)}]),
    ({"a": 2**63 - 1}, [{"a": 2**63 - 1}], [{"a": 2**63}, {"a": float(2**63)}]),
    ({"a": -(2**63)}, [{"a": -(2**63)}, {"a": -float(2**63)}], [{"a": -(2**63) - 1}]),
    ({"a": {"$gt": 2**63 - 1}}, [{"a": 2**63}, {"a": 10**400}, {"a": 1e300}], [{"a": 2**63 - 1}, {"a": -(2**70)}]),
    ({"a": {"$lt": -(2**63)}}, [{"a": -(2**63) - 1}, {"a": -(10**400)}], [{"a": -(2**63)}, {"a": 2**70}]),
    ({"a": 1e23}, [{"a": 1e23}], [{"a": 10**23}]),
    ({"a": 0.1}, [{"a": 0.1}], [{"a": 0.1 + 2**-56}, {"a": 0.30000000000000004}]),
    ({"a": {"$gt": 5e-324}}, [{"a": 1e-323}], [{"a": 5e-324}, {"a": 0}]),
    ({"a": 1.7976931348623157e308}, [{"a": 1.7976931348623157e308}], [{"a": 10**400}]),
]


@cases(("data", "fitting", "others"), RULES, ids=lambda value: str(value)[:60])
def test_what_a_filter_means(data: Any, fitting: list[Any], others: list[Any]) -> None:
    assert [document for document in fitting if not both(data, document)] == []
    assert [document for document in others if both(data, document)] == []


NASTY = [
    *("", " ", '"', '""', "\\", "\\\\", 'a"b', "a\\b", 'a\\"b', "\\u0041", "\u0001\u001f", "\n\t\r\b\f", "\x7f\x80"),
    *("ß", "\u2028", "\ufeffa", "\uffff", "😀", "e\u0301", "$", "[0]", "#-1", "0", "'; DROP TABLE x; --", ":f0", "?"),
    *("key", "value", "null", "*", "%_", "{row}", "/"),
]


@cases("nasty", NASTY, ids=ascii)
def test_any_key_and_any_text_can_be_asked_for(nasty: str) -> None:
    others = [key for key in NASTY if key != nasty]
    crowd = dict.fromkeys(others, "no")
    inner = {"in": {**crowd, nasty: {"in": nasty}}}
    assert both({f"in.{nasty}.in": nasty}, inner)
    assert not both({f"in.{nasty}.in": {"$exists": True}}, {"in": {key: {"in": nasty} for key in others}})
    assert both({"in": nasty}, {"in": nasty})
    assert not both({"in": nasty}, {"in": others})
    assert both({"in": {"$in": [nasty, 1]}}, {"in": ["x", nasty]})
    if not nasty.startswith("$"):
        assert both({nasty: "yes"}, {**crowd, nasty: "yes"})
        assert not both({nasty: {"$exists": True}}, crowd)


def test_text_is_in_the_order_of_code_points() -> None:
    for first in NASTY:
        for second in NASTY:
            assert both({"a": {"$lt": second}}, {"a": first}) is (first < second)


# What is refused, and what the sentence says.


def nested(depth: int, data: Any) -> Any:
    for _ in range(depth):
        data = {"$not": data}
    return data


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("not an object", lambda: [1], "is an object"),
    ("null", lambda: None, "not null"),
    ("unknown operator", lambda: {"a": {"$regex": "x"}}, r"unknown operator '\$regex'.*\$and \$eq \$exists .*\$or"),
    ("unknown connective", lambda: {"$nor": [{"a": 1}]}, r"unknown operator '\$nor'"),
    ("long unknown operator", lambda: {"$" + "x" * 10_000: 1}, r"unknown operator '\$x{1,20}\.\.\."),
    ("operator without a field", lambda: {"$eq": 1}, "needs the name of a field"),
    ("connective after a field", lambda: {"a": {"$or": [1]}}, "before the names of fields"),
    ("empty and", lambda: {"$and": []}, "at least one filter, not an empty list"),
    ("empty or", lambda: {"$or": []}, "at least one filter"),
    ("or without a list", lambda: {"$or": {"a": 1}}, "at least one filter, not an object"),
    ("and of values", lambda: {"$and": [1]}, "is an object"),
    ("not of a list", lambda: {"$not": [{"a": 1}]}, "is an object"),
    ("not of a value", lambda: {"a": {"$not": 1}}, "use `\\$ne`"),
    ("object without operators", lambda: {"a": {"b": 1}}, "dotted path.*'a.name'"),
    ("object with some operators", lambda: {"a": {"$gt": 1, "b": 1}}, "dotted path"),
    ("empty object", lambda: {"a": {}}, "dotted path"),
    ("not of nothing", lambda: {"a": {"$not": {}}}, "dotted path"),
    ("equal to an object", lambda: {"a": {"$eq": {"b": 1}}}, "not an object"),
    ("equal to a list", lambda: {"a": [1, 2]}, "use `\\$in`"),
    ("in without a list", lambda: {"a": {"$in": "x"}}, "a list of values, not text"),
    ("nin without a list", lambda: {"a": {"$nin": None}}, "a list of values, not null"),
    ("in with an object", lambda: {"a": {"$in": [{}]}}, "not an object"),
    ("in with a list", lambda: {"a": {"$in": [[1]]}}, "not a list"),
    ("exists with a number", lambda: {"a": {"$exists": 1}}, "true or false"),
    ("not JSON", lambda: {"a": b"x"}, "not a bytes"),
    ("NaN", lambda: {"a": math.nan}, "finite"),
    ("infinity", lambda: {"a": {"$lt": math.inf}}, "finite"),
    ("infinity in a list", lambda: {"a": {"$in": [-math.inf]}}, "finite"),
    ("long integer", lambda: {"a": 2**63}, "64 bits"),
    ("long negative integer", lambda: {"a": {"$in": [-(2**63) - 1]}}, "64 bits"),
    ("very long integer", lambda: {"a": 10**5000}, "64 bits"),
    ("NUL in a value", lambda: {"a": "x\x00"}, "a value with the NUL"),
    ("NUL in a key", lambda: {"x\x00": 1}, "a key with the NUL"),
    ("half a pair in a value", lambda: {"a": {"$in": ["\ud800"]}}, "surrogate"),
    ("half a pair in a key", lambda: {"a.\udc00": 1}, "surrogate"),
    ("key that is not text", lambda: {1: 1}, "not text: a number"),
    ("operator that is not text", lambda: {"a": {1: 1}}, "dotted path"),
    ("too deep", lambda: nested(17, {"a": 1}), "deeper than 16"),
    ("too deep after a field", lambda: {"a": nested(17, {"$eq": 1})}, "deeper than 16"),
    ("far too deep", lambda: nested(100_000, {"a": 1}), "deeper than 16"),
    ("too many leaves", lambda: {f"a{n}": 1 for n in range(201)}, "more than 200"),
    ("too many operators", lambda: {"$and": [{"a": 1}] * 200}, "more than 200"),
    ("far too many", lambda: {"$or": [{"a": 1}] * 1_000_000}, "more than 200"),
    ("many empty ones", lambda: {"$or": [{}] * 1_000_000}, "more than 200"),
    ("many negations", lambda: {"$or": [{"$not": {}}] * 101}, "more than 200"),
    ("too many values", lambda: {"a": {"$in": list(range(1001))}}, "at most 1000 values, not 1001"),
    ("too many steps", lambda: {".".join("a" * 17): 1}, "16 steps"),
    ("too long a path", lambda: {"a" * 257: 1}, "256 characters"),
    ("too large", lambda: {"a": "x" * 300_000}, "larger than 256 KiB"),
    ("too large in bytes", lambda: {"a": "😀" * 70_000}, "larger than 256 KiB"),
    ("too large together", lambda: {"$or": [{"a": {"$in": [0] * 1000}}] * 40}, "larger than 256 KiB"),
]


@cases(("build", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals_and_their_reasons(build: Callable[[], Any], sentence: str) -> None:
    data = build()
    started = time.thread_time()
    with pytest.raises(Invalid) as refusal:
        parse(data)
    assert time.thread_time() - started < 5
    assert re.search(sentence, refusal.value.message)
    assert len(refusal.value.message) < 300
    assert refusal.value.details == {"field": "filter"}
    assert isinstance(refusal.value, TooLarge) is ("larger" in refusal.value.message)


def test_a_day_of_python_is_its_text() -> None:
    day, moment = date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC)
    document = msgspec.json.decode(msgspec.json.encode({"day": day, "at": moment}))
    assert both({"day": day, "at": {"$gte": moment, "$in": [moment, None]}}, document)
    assert not both({"day": {"$gt": day}}, document)


UNADDRESSED: list[dict[str, Any]] = [{"a.b": 1}, {"x": {"a.b": 1}}, {"x": [1, [{".": 1}]]}, {"$a": 1}]


def test_keys_that_no_filter_can_address_are_refused(tmp_path: Path) -> None:
    """C41: where metadata is written, on every surface; exports that have them are still imported."""
    with Memory(tmp_path, worker=False) as memory:
        flow, bank = memory.flow("f"), memory.banks.create("b", type="general")
        fact, step = flow.write("It is so."), {"step_type": "add_memory", "memory_bank_id": bank.id, "key": "k"}
        writes: list[Callable[[Any], Any]] = [
            lambda metadata: flow.session("s").history.append(role="user", content="Hi", metadata=metadata),
            lambda metadata: memory.user("u").add("I moved.", metadata=metadata),
            lambda metadata: flow.write("So it is.", metadata=metadata),
            lambda metadata: flow.update(fact, metadata=metadata),
            lambda metadata: bank.add("x", key="k", metadata=metadata),
            lambda metadata: memory.workflows.run({"name": "w", "steps": [{**step, "entry_metadata": metadata}]}, "x"),
        ]
        for metadata in UNADDRESSED:
            for write in writes:
                with pytest.raises(Invalid, match="which filters cannot address"):
                    write(metadata)
        flow.session("s").history.append(role="user", content="Hi", metadata={"x": {"$a": 1}})
        (line,) = (one for one in flow.export() if one.type == "turn")
        old = msgspec.structs.replace(line, metadata={"a.b": 1}, id=None)
        assert flow.import_lines([old]).added == 1


def test_the_limits_themselves_are_allowed() -> None:
    assert both(nested(16, {"a": 1}), {"a": 1})
    assert both({"a": nested(16, {"$eq": 1}), "b": {"$nin": list(range(1000))}}, {"a": 1})
    assert not both({".".join("a" * 16): 1, "a" * 256: 1}, {"a": 1})
    assert not both({f"a{n}": 1 for n in range(200)}, {})


def test_a_parsed_filter_is_a_plain_value() -> None:
    one, two = frozenset([("number", 1)]), frozenset([("text", "2")])
    assert parse({}) == And(())
    assert parse({"a": 1}) == parse({"a": {"$eq": 1.0}}) == Leaf(("a",), "$in", one)
    assert parse({"a.b": {"$gt": 1, "$ne": "2"}}) == And(
        (Leaf(("a", "b"), "$gt", one), Not(Leaf(("a", "b"), "$in", two)))
    )
    assert parse({"$or": [{"a": 1}, {"$not": {"a": {"$exists": False}}}]}) == Or(
        (Leaf(("a",), "$in", one), Not(Not(Leaf(("a",), "$exists"))))
    )


def test_leaves_are_equal_only_if_they_mean_the_same() -> None:
    """So that an index may keep its answers under them."""
    assert parse({"a": 1}) != parse({"a": True})
    assert parse({"a": 0}) != parse({"a": False})
    assert parse({"a": {"$in": [1, 0]}}) != parse({"a": {"$in": [True, False]}})
    assert len({parse({"a": 1}), parse({"a": 1.0}), parse({"a": True}), parse({"a": {"$in": [1, 1.0]}})}) == 2


def test_leaves_can_be_answered_one_by_one() -> None:
    condition = parse({"a": {"$gt": 1, "$ne": 5}, "$or": [{"b.c": None}, {"$not": {"a": {"$exists": True}}}]})
    assert [leaf.path for leaf in leaves(condition)] == [("a",), ("a",), ("b", "c"), ("a",)]
    document = {"a": [0, 3], "b": {"c": None}}
    assert look_up(("a",), document) == (True, [0, 3])
    assert look_up(("b", "c"), document) == (True, None)
    assert look_up(("b", "d"), document) == look_up(("a", "0"), document) == look_up(("x",), None) == (False, None)
    answers = [leaf_matches(leaf, *look_up(leaf.path, document)) for leaf in leaves(condition)]
    assert answers == [True, False, True, True]


# SQL is made of fixed words, whatever the filter says.

WORDS = {
    *("SELECT", "FROM", "AS", "WHERE", "AND", "OR", "NOT", "IN", "EXISTS", "CASE", "WHEN", "THEN", "ELSE", "END"),
    *(
        "json_each",
        "json_extract",
        "typeof",
        "coalesce",
        "metadata",
        "f_value",
        "f_item",
        "f_wanted",
        "max",
        "CROSS",
        "JOIN",
        "|",
        "'['",
        "']'",
    ),
    *(f"f_step{n}{part}" for n in range(16) for part in ("", ".key", ".value", ".type")),
    *(f"f_item{n}{part}" for n in range(16) for part in ("", ".value", ".type")),
    *("f_value.key", "f_value.value", "f_value.type", "f_value.atom"),
    *("f_item.type", "f_item.atom", "f_wanted.type", "f_wanted.atom"),
    *("'object'", "'array'", "'integer'", "'real'", "'number'", "'true'", "'false'", "'boolean'", "'$[0]'"),
    *("(", ")", ",", "=", "<", ">", "<=", ">=", "*", "0", "1", "9e999"),
}
TOKEN = re.compile(r"\s+|:f\d+|'[^']*'|[a-zA-Z_][\w.]*|\d\w*|[<>]=?|.", re.DOTALL)


def only_fixed_words(sql: str, parameters: dict[str, Any]) -> None:
    tokens = [token for token in TOKEN.findall(sql) if not token.isspace()]
    placeholders = {token[1:] for token in tokens if token.startswith(":f")}
    assert {token for token in tokens if token[1:] not in placeholders} <= WORDS
    assert placeholders == set(parameters) == {f"f{number}" for number in range(len(parameters))}


def reworded(data: Any) -> Any:
    """The same shape with other keys and values; only operators and `$exists` stay."""
    if not isinstance(data, dict):
        return [reworded(part) for part in data] if isinstance(data, list) else data
    renamed = {}
    for number, (key, value) in enumerate(data.items()):
        if key in ("$and", "$or", "$not"):
            renamed[key] = reworded(value)
        elif key.startswith("$"):
            renamed[key] = value if key == "$exists" else other_value(value)
        else:
            steps = [f"z{number}"] * (key.count(".") + 1)
            renamed[".".join(steps)] = reworded(value) if isinstance(value, dict) else other_value(value)
    return renamed


def other_value(value: Any) -> Any:
    return [None, "'other", 7.5] if isinstance(value, list) else None if value else "?"


def everything_is_bound(condition: filters.Filter, parameters: dict[str, Any]) -> None:
    bound = {value for value in parameters.values() if isinstance(value, str)}
    lists = [msgspec.json.decode(value) for value in bound if value.startswith("[")]
    for leaf in leaves(condition):
        assert set(leaf.path) <= bound
        assert leaf.op == "$exists" or leaf.values in [frozenset(map(filters.to_typed, values)) for values in lists]


# The proof: any filter on any document.

KEYS = ["a", 'q"\\', ""]
PAIRS = [f"{one}.{two}" for one in KEYS for two in KEYS]
PATHS = [*KEYS * 8, *PAIRS, *(f"a.{pair}" for pair in PAIRS)]
POOL: list[Any] = [
    *(1, None, True, False, 0, -1, 2, 0.0, -0.0, 1.0, 0.5, 1e300, 5e-324, 1e23, 2**53, 2**53 + 1, 2**53 - 1),
    *(float(2**53), -(2**53) - 1, 2**63 - 1, -(2**63), float(2**63), "", "1", "a", "b", "true", "null", "é", "😀"),
    *("\uffff", 'q"', "\\", "\n\x01", "[]", "{}", "2025-01-01T00:00:00Z"),
]
STORED_ONLY = [2**63, -(2**63) - 1, 2**64 + 1, 10**23, -(10**400), [], {}]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists"]


class Dice:
    """Turns bytes into choices: one draw for a whole example is fast, and zeros are the simplest choices."""

    def __init__(self, rolls: bytes) -> None:
        self._rolls, self._made = iter(rolls), list[Any]([1])

    def roll(self, sides: int) -> int:
        return next(self._rolls, 0) % sides

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.roll(len(options))]

    def some(self, most: int, one: Callable[[], Any]) -> list[Any]:
        return [one() for _ in range(self.roll(most + 1))]

    def scalar(self) -> Any:
        """A new value, or one made before, so that a filter often asks for what its document holds."""
        self._made.append(self.pick(self._made) if self.roll(5) > 2 else self.new())
        return self._made[-1]

    def new(self) -> Any:
        match self.roll(10):
            case 7:
                number = struct.unpack("d", bytes(self.roll(256) for _ in range(8)))[0]
                return number if math.isfinite(number) else -2.5
            case 8:
                return int.from_bytes(bytes(self.roll(256) for _ in range(8)), signed=True)
            case 9:
                codes = self.some(3, lambda: self.roll(17) * 65536 + self.roll(256) * 256 + self.roll(256))
                return "".join("x" if code == 0 or 0xD800 <= code < 0xE000 else chr(code) for code in codes)
            case _:
                return self.pick(POOL)

    def stored(self, depth: int) -> Any:
        match self.roll(8):
            case 5:
                return self.pick(STORED_ONLY)
            case 6 if depth:
                return self.some(3, lambda: self.stored(depth - 1))
            case 7 if depth:
                return self.document(depth - 1)
            case _:
                return self.scalar()

    def document(self, depth: int = 3) -> dict[str, Any]:
        return {key: self.stored(depth) for key in KEYS if self.roll(5)}

    def condition(self, depth: int = 3) -> dict[str, Any]:
        match self.roll(8):
            case 5 if depth:
                return {"$not": self.condition(depth - 1)}
            case 6 | 7 if depth:
                parts = [self.condition(depth - 1), *self.some(2, lambda: self.condition(depth - 1))]
                return {**self.fields(), self.pick(["$and", "$or"]): parts}
            case _:
                return self.fields()

    def fields(self) -> dict[str, Any]:
        return {self.pick(PATHS): self.question() for _ in range(self.pick([1, 1, 1, 2, 0]))}

    def question(self) -> Any:
        asked = dict(self.operator() for _ in range(1 + self.roll(4) // 3))
        return self.pick([self.scalar(), asked, asked, asked, {"$not": asked}])

    def operator(self) -> tuple[str, Any]:
        op = self.pick(OPERATORS)
        if op in ("$in", "$nin"):
            return op, self.some(4, self.scalar)
        if op == "$exists":
            return op, self.pick([True, False])
        value = self.scalar()
        return op, value if op in ("$eq", "$ne") else self.pick([value, value, 1, float(2**53), "b"])


EXAMPLES = examples(4_000, chaos=10_000)
thorough = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.long
def test_sql_gives_the_answers_of_the_evaluator() -> None:
    seen: Counter[Any] = Counter()

    @thorough
    @given(st.binary(min_size=120, max_size=120))
    def agree(rolls: bytes) -> None:
        dice = Dice(rolls)
        document, data = dice.pick([*[dice.document()] * 9, None]), dice.condition()
        note(f"filter {data}\ndocument {str(document)[:1000]}")
        condition = parse(data)
        answer = matches(condition, document)
        assert in_sqlite(condition, document) is answer
        sql, parameters = to_sql(condition, "sqlite")
        only_fixed_words(sql, parameters)
        everything_is_bound(condition, parameters)
        assert to_sql(parse(reworded(data)), "sqlite")[0] == sql
        seen[answer] += 1
        seen.update((leaf.op, leaf_matches(leaf, *look_up(leaf.path, document))) for leaf in leaves(condition))

    agree()
    assert all(seen[answer] > EXAMPLES / 10 for answer in (True, False)), seen
    assert all(seen[op, answer] > 20 for op in get_args(filters.Op) for answer in (True, False)), seen


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)


@settings(max_examples=500, deadline=None, database=None)
@given(text.filter(lambda key: not key.startswith("$") and "." not in key), text, st.sampled_from(POOL))
def test_any_text_is_a_key(key: str, other: str, value: Any) -> None:
    assert both({key: value}, {other: "?", key: value})
    assert both({f"a.{key}": value}, {"a": {other: "?", key: value}})
    assert both({key: {"$exists": True}}, {other: 1}) is (key == other)


def test_neighbouring_floats_are_told_apart() -> None:
    for exponent in range(-25, 26):
        number = 1.1 * 10.0**exponent
        above = math.nextafter(number, math.inf)
        assert both({"a": number}, {"a": number})
        assert not both({"a": number}, {"a": above})
        assert both({"a": {"$gt": number}}, {"a": above})


def test_the_largest_filters_fit_into_sqlite() -> None:
    path = ".".join("abcdefghijklmnop")
    document: Any = 1
    for step in reversed(path.split(".")):
        document = {step: document}
    wide: Any = {"$or": [{path: {"$in": [0, number]}} for number in range(2, 201 - 16)]}
    assert both(nested(15, wide), document)
    assert both({"$and": [{path: 1}] * 199}, document)
    assert not both({"$and": [*[{path: 1}] * 198, {path: 2}]}, document)
    zigzag: Any = {path: 1}
    for number in range(16):
        zigzag = {"$or" if number % 2 else "$and": [zigzag, {path: {"$ne": 2}}, *[{path: 2}] * (5 * (number % 2))]}
    assert both(zigzag, document)


def test_a_long_list_is_looked_up_not_walked() -> None:
    """The work for 1,000 rows hardly grows from one value to 1,000; walking the list would make it a hundredfold."""
    query = "SELECT count(*) FROM (SELECT value AS metadata FROM json_each(:rows)) WHERE {}"
    rows = msgspec.json.encode([{"n": number} for number in range(1000)]).decode()

    def work(values: list[int]) -> int:
        calls = itertools.count()
        database.set_progress_handler(lambda: next(calls) < 0, 100)
        assert select(query, *to_sql(parse({"n": {"$in": values}}), "sqlite"), rows=rows) == 1
        database.set_progress_handler(None)
        return next(calls)

    assert 100 < work([7, *range(10_000, 10_999)]) < 4 * work([7])
