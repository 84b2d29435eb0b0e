"""Filters as SQL for PostgreSQL (C41): the answers of the evaluator, and nothing of a caller's in the text."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, get_args

import msgspec
import psycopg
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from memwell.model import filter as filters
from memwell.model.filter import And, Filter, Not, Or, leaf_matches, leaves, look_up, matches, parse
from memwell.storage.filters import to_sql

from ..cases import cases
from ..postgres_server import Given, Server, available
from ..search.test_filters import NASTY, POOL, RULES, Dice, nested, reworded, thorough

pytestmark = pytest.mark.engines()

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server | Given]:
    with available() as started:
        yield started


@pytest.fixture(scope="module")
def database(server: Server | Given) -> Iterator[Connection]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module", params=["plan of its own", "plan for all values"])
def planned(request: pytest.FixtureRequest, server: Server | Given) -> Iterator[Connection]:
    """A connection that always, or never, looks at the values when it makes a plan."""
    mode = "force_custom_plan" if request.param == "plan of its own" else "force_generic_plan"
    with psycopg.connect(server.dsn(), autocommit=True, options=f"-c plan_cache_mode={mode}") as connection:
        connection.prepare_threshold = 0
        yield connection


def select(database: Connection, query: str, condition: Filter, documents: Iterable[Any]) -> list[tuple[Any, ...]]:
    texts = [None if document is None else msgspec.json.encode(document).decode() for document in documents]
    sql, parameters = to_sql(condition, "postgres")
    sql = re.sub(r":(\w+)", r"%(\1)s", sql)
    text = query.format(sql, source="unnest(CAST(%(documents)s AS text[])) WITH ORDINALITY AS entry (metadata, number)")
    return database.execute(text.encode(), {**parameters, "documents": texts}).fetchall()


def answers(database: Connection, condition: Filter, documents: Iterable[Any]) -> list[Any]:
    return [row[0] for row in select(database, "SELECT {} FROM {source} ORDER BY number", condition, documents)]


def fitting(database: Connection, data: Any, documents: list[Any]) -> list[Any]:
    """The documents that match, after seeing that the evaluator agrees about each."""
    condition = parse(data)
    expected = [matches(condition, document) for document in documents]
    got = answers(database, condition, documents)
    assert all(isinstance(answer, bool) for answer in got)  # never NULL
    assert [(data, doc) for doc, one, two in zip(documents, got, expected, strict=True) if one is not two] == []
    return list(itertools.compress(documents, got))


# The same meaning as everywhere.


@cases(("data", "yes", "no"), RULES, ids=lambda value: str(value)[:60])
def test_what_a_filter_means(planned: Connection, data: Any, yes: list[Any], no: list[Any]) -> None:
    assert fitting(planned, data, [*yes, *no]) == yes
    assert fitting(planned, {"$and": [data] * 3}, [*yes, *no]) == yes  # few questions and many are read differently


def test_a_condition_in_a_query(database: Connection) -> None:
    query = "SELECT metadata FROM {source} WHERE number > 1 AND {} ORDER BY number"
    condition, documents = parse({"$or": [{"a": 1}, {"b": {"$gt": "x"}}]}), [{"a": 1}, {"a": 2}, {"a": [1]}, {"b": "y"}]
    assert select(database, query, condition, documents) == [('{"a":[1]}',), ('{"b":"y"}',)]


def test_parts_of_no_parts(database: Connection) -> None:
    for condition, answer in ((And(()), True), (Or(()), False), (Not(Or(())), True), (Not(Not(And(()))), True)):
        assert answers(database, condition, [None, {}]) == [answer, answer]


@cases("nasty", [*NASTY, "%s", "%(f0)s", "%%", "{}", "{sign}", "$limit", "NULL", "a,b"], ids=ascii)
def test_any_key_and_any_text_can_be_asked_for(database: Connection, nasty: str) -> None:
    others = [key for key in NASTY if key != nasty]
    crowd: dict[str, Any] = dict.fromkeys(others, "no")
    here: list[Any] = [{"in": {**crowd, nasty: {"in": nasty}}}, {"in": {nasty: {"in": ["x", nasty]}}}]
    elsewhere: list[Any] = [{"in": {key: {"in": nasty}}} for key in others] + [{"in": {nasty: {"in": others}}}]
    assert fitting(database, {f"in.{nasty}.in": nasty}, [*here, *elsewhere]) == here
    assert fitting(database, {"$or": [{f"in.{nasty}.in": nasty}] * 3}, [*here, *elsewhere]) == here
    assert fitting(database, {f"in.{nasty}.in": {"$in": [nasty, 2**60]}}, [*here, *elsewhere]) == here
    large = {"in": {nasty: {"in": float(2**60)}}}
    assert fitting(database, {f"in.{nasty}.in": 2**60}, [*here, large]) == [large]
    assert fitting(database, {f"in.{nasty}": {"$exists": True}}, [*here, *elsewhere]) == [*here, elsewhere[-1]]
    if not nasty.startswith("$"):
        assert fitting(database, {nasty: {"$gte": "no", "$lte": "no"}}, [crowd, {nasty: "no"}]) == [{nasty: "no"}]


def test_text_is_in_the_order_of_code_points(database: Connection) -> None:
    documents = [{"a": text} for text in NASTY]
    for text in NASTY:
        assert fitting(database, {"a": {"$lt": text}}, documents) == [{"a": one} for one in NASTY if one < text]


# Numbers, where decimals, floats and integers part.


def neighbours(base: int) -> list[Any]:
    """Integers and floats around a number, and the integers that the floats' shortest decimals look like."""
    centre = float(base)
    floats = [math.nextafter(centre, -math.inf), centre, math.nextafter(centre, math.inf)]
    return [base - 1, base, base + 1, *floats, *(int(Decimal(repr(one))) for one in floats)]


EDGES = [2**53, 10**16, 2**54 + 6, 2**60, 2**63, 2**64, 10**23]
NUMBERS = [sign * number for edge in EDGES for number in neighbours(edge) for sign in (1, -1)]
NUMBERS += [0, 0.5, -1, 5e-324, 10**400, -(10**400), 1.7976931348623157e308]


@cases("edge", EDGES)
def test_large_numbers_are_compared_exactly(database: Connection, edge: int) -> None:
    near = neighbours(edge)
    documents = [{"a": number} for number in NUMBERS] + [{"a": [0.5, "1e17", number, [1]]} for number in near]
    asked = [number for number in near if isinstance(number, float) or number < 2**63]
    for number, op in itertools.product(asked, ["$gt", "$gte", "$lt", "$lte", "$eq"]):
        fitting(database, {"a": {op: number}}, documents)
        fitting(database, {"a": {op: -number}}, documents)
    fitting(database, {"a": {"$in": asked}}, documents)


def test_neighbouring_floats_are_told_apart(database: Connection) -> None:
    for exponent in range(-25, 26):
        number = 1.1 * 10.0**exponent
        documents = [{"a": number}, {"a": math.nextafter(number, math.inf)}]
        assert fitting(database, {"a": number}, documents) == documents[:1]
        assert fitting(database, {"a": {"$gt": number}}, documents) == documents[1:]


# The text is ours, whatever the filter says.


def only_placeholders(data: Any) -> None:
    sql, parameters = to_sql(parse(data), "postgres")
    names = re.findall(r":(\w+)", sql)
    assert set(names) == set(parameters) == {f"f{number}" for number in range(len(parameters))}
    assert sql.count(":") == len(names)
    assert to_sql(parse(reworded(data)), "postgres")[0] == sql


HOSTILE = ["'", '"', "\\", "%", "%s", "%(f0)s", ":x", "$1", "--", "/*", "x') OR true --", "{key}", "\n;", "E'\\'"]


def test_nothing_that_a_caller_wrote_is_in_the_text(database: Connection) -> None:
    for one, other in itertools.product(HOSTILE, repeat=2):
        key, value = f"zz{one}.zz{other}", f"zz{one}{other}"
        data = {"$or": [{key: {"$gt": value}}, {key: value}, {key: {"$in": [value, 1]}}, {key: {"$exists": False}}]}
        only_placeholders(data)
        assert "zz" not in to_sql(parse(data), "postgres")[0]
        document, near = {f"zz{one}": {f"zz{other}": value}}, {f"zz{one}": {f"zz{other}": "z"}}
        assert fitting(database, data, [document, near]) == [document]


def test_filters_of_one_shape_share_one_text() -> None:
    """Whatever the values are: of any type, large or small, one or a thousand."""
    shapes: list[list[Any]] = [
        [{"a": value} for value in (*POOL, {"$in": []}, {"$in": list(range(1000))}, {"$eq": 2**60})],
        [{"a": {"$lt": value}} for value in POOL],
        [{"a.b": {"$ne": 1}, "c": None}, {"x.%": {"$nin": [1, 2**60]}, "": "text"}],
    ]
    for shape in shapes:
        assert len({to_sql(parse(data), "postgres")[0] for data in shape}) == 1
    assert len({to_sql(parse(shape[0]), "postgres")[0] for shape in shapes}) == len(shapes)


# Large ones.


def test_the_largest_filters_fit_into_postgres(database: Connection) -> None:
    path = ".".join("abcdefghijklmnop")
    document: Any = 1
    for step in reversed(path.split(".")):
        document = {step: document}
    wide: Any = {"$or": [{path: {"$in": [0, number]}} for number in range(2, 201 - 16)]}
    assert fitting(database, nested(15, wide), [document])
    assert fitting(database, nested(16, {"a": {"$exists": True}}), [document])
    assert fitting(database, {"a": {"$nin": list(range(1000))}, "b": nested(16, {"$lt": 1})}, [document]) == []
    assert fitting(database, {"$and": [{path: {"$gte": 1}}] * 199}, [document])
    assert not fitting(database, {"$and": [*[{path: 1}] * 198, {path: 2}]}, [document])
    zigzag: Any = {path: 1}
    for number in range(16):
        zigzag = {"$or" if number % 2 else "$and": [zigzag, {path: {"$ne": 2}}, *[{path: 2}] * (5 * (number % 2))]}
    assert fitting(database, zigzag, [document])


def test_a_long_list_is_looked_up_not_walked(database: Connection) -> None:
    """Both for a value and for the elements of an array; the list is made ready once, not for each row."""
    documents: list[Any] = [{"n": number} for number in range(500)] + [{"n": ["x", number]} for number in range(500)]
    condition = parse({"n": {"$in": [7, *range(10_000, 10_999)]}})
    explained = select(database, "EXPLAIN (ANALYZE, VERBOSE, TIMING OFF) SELECT {} FROM {source}", condition, documents)
    plan = "\n".join(row[0] for row in explained)
    assert plan.count("hashed SubPlan") == 2
    assert re.findall(r"jsonb_array_elements f_wanted.*rows=1000\S* loops=(\d+)", plan) == ["1", "1"]


def test_a_document_is_read_once(database: Connection) -> None:
    """However many questions are asked about it."""
    condition = parse({f"a{number}": number for number in range(10)})
    plan = "\n".join(row[0] for row in select(database, "EXPLAIN (VERBOSE) SELECT {} FROM {source}", condition, []))
    assert plan.count("(entry.metadata)::jsonb") == 1


# The proof: any filter on any documents.


@pytest.mark.long
def test_sql_gives_the_answers_of_the_evaluator(database: Connection) -> None:
    seen: Counter[Any] = Counter()

    @settings(thorough, max_examples=2500)
    @given(st.binary(min_size=300, max_size=300))
    def agree(rolls: bytes) -> None:
        dice = Dice(rolls)
        documents, data = [None, *(dice.document() for _ in range(4))], dice.condition()
        note(f"filter {data}\ndocuments {str(documents)[:3000]}")
        condition = parse(data)
        chosen = fitting(database, data, documents)
        only_placeholders(data)
        seen[True] += len(chosen)
        seen[False] += len(documents) - len(chosen)
        for leaf, document in itertools.product(leaves(condition), documents):
            seen[leaf.op, leaf_matches(leaf, *look_up(leaf.path, document))] += 1

    agree()
    assert seen[True] + seen[False] >= 10_000
    assert all(seen[answer] > 1000 for answer in (True, False)), seen
    assert all(seen[op, answer] > 50 for op in get_args(filters.Op) for answer in (True, False)), seen
