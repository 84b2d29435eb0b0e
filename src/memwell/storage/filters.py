"""Filters on metadata as SQL for each engine, with the same answers as `model.filter.matches`, which defines their meaning.

The text is made of the fixed pieces below and numbered placeholders `:f0`, `:f1`, … Keys, values and lists are all bound, so the
text depends only on the shape of a filter: no input of a caller is ever read as SQL, and filters of the same shape share a
prepared statement. An expression is true or false, never NULL. A column that is NULL holds an empty object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ..model.filter import ORDERED, And, Filter, Leaf, Not, Or, leaf_matches, leaves

_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class _Writer(ABC):
    """Renders a filter and collects its parameters."""

    true: str
    false: str

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def write(self, condition: Filter) -> str:
        match condition:
            case And(parts):
                return f"({' AND '.join(map(self.write, parts)) or self.true})"
            case Or(parts):
                return f"({' OR '.join(map(self.write, parts)) or self.false})"
            case Not(part):
                return f"NOT {self.write(part)}"
            case Leaf():
                return self.write_leaf(condition)

    @abstractmethod
    def write_leaf(self, leaf: Leaf) -> str: ...

    def bind(self, value: Any) -> str:
        name = f"f{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"


def to_sql(condition: Filter, engine: Literal["sqlite", "postgres"]) -> tuple[str, dict[str, Any]]:
    """Return an expression over the column `metadata`, and its parameters."""
    if engine == "sqlite":
        writer: _Writer = _SqliteWriter()
        return writer.write(condition), writer.parameters
    writer = _PostgresWriter()
    kind = "json" if len(list(leaves(condition))) <= _FEW_LEAVES else "jsonb"
    return _DOCUMENT.format(condition=writer.write(condition), kind=kind), writer.parameters


def _list_values(leaf: Leaf) -> list[Any]:
    """Return the values in an order that is the same in every process."""
    return [value for _, value in sorted(leaf.values, key=repr)]


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- SQLite
#
# - JSON paths (`'$."a"'`, `->`) have their own quoting, which some versions get wrong for keys with a quote or a backslash.
#   `json_each` gives the decoded key, which is compared with a bound one.
# - `json_each` shows true and 1 as the same value: the type is compared as well. It returns an
#   object or an array as JSON text, but a string without quotes, which the next step would reject: only objects are followed,
#   and those in an array. An object is put into an array of one, so that both are the same step.
# - SQLite before 3.52 misreads some very large and very small floats by their last bit. Values are therefore bound as JSON
#   too: the same parser reads both sides, so equal values stay equal.
# - An integer beyond 64 bits is read as a rounded float; it counts as infinite here, as in `typed`.
# - Text is compared byte by byte, which is the order of code points as long as the database's encoding is UTF-8.

_SQLITE_BELOW = (
    "json_each(CASE f_step{above}.type WHEN 'object' THEN '[' || f_step{above}.value || ']' "
    "WHEN 'array' THEN f_step{above}.value END) AS f_item{number} "
    "CROSS JOIN json_each(CASE WHEN f_item{number}.type = 'object' THEN f_item{number}.value END) AS f_step{number}"
)
_SQLITE_EXISTS = "EXISTS (SELECT 1 FROM {rows})"
# CASE, not OR: where NULL and false are equivalent, SQLite would look `IN` up in an index and not search the list as well.
_SQLITE_ANY = (
    "coalesce((SELECT max(CASE WHEN {itself} THEN 1 ELSE EXISTS (SELECT 1 FROM "
    "json_each(CASE WHEN f_value.type = 'array' THEN f_value.value END) AS f_item WHERE {item}) END) "
    "FROM {rows}), {missing})"
)
_KIND = (
    "CASE {row}.type WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' "
    "WHEN 'true' THEN 'boolean' WHEN 'false' THEN 'boolean' ELSE {row}.type END"
)
_ATOM = (
    "CASE WHEN {row}.type = 'integer' AND typeof({row}.atom) = 'real' THEN {row}.atom * 9e999 "
    "ELSE coalesce({row}.atom, 0) END"
)
_SQLITE_IN = "({kind}, {atom}) IN (SELECT {wanted}, coalesce(f_wanted.atom, 0) FROM json_each({values}) AS f_wanted)"
_SQLITE_ORDER = "({kind} = {ordered} AND {atom} {sign} json_extract({values}, '$[0]'))"


class _SqliteWriter(_Writer):
    true, false = "1", "0"

    def write_leaf(self, leaf: Leaf) -> str:
        rows = self._write_rows(leaf.path)
        if leaf.op == "$exists":
            return _SQLITE_EXISTS.format(rows=rows)
        missing = self.bind(int(leaf_matches(leaf, False, None)))
        values = self.bind(_encode(_list_values(leaf)))
        ordered = ""
        if leaf.op in _SIGNS:  # the type that this value can be compared with, or `none`, which is not a type
            ((kind, _),) = leaf.values
            ordered = self.bind(kind if kind in ORDERED else "none")
        itself, item = (_test_row(leaf, row, values, ordered) for row in ("f_value", "f_item"))
        return _SQLITE_ANY.format(rows=rows, missing=missing, itself=itself, item=item)

    def _write_rows(self, path: Sequence[str]) -> str:
        """Render the rows of `f_value`, the values that a path leads to."""
        keys = [self.bind(step) for step in path]
        rows, conditions = ["json_each(metadata) AS f_step0"], [f"f_step0.key = {keys[0]}"]
        for number, key in enumerate(keys[1:], 1):
            rows.append(_SQLITE_BELOW.format(above=number - 1, number=number))
            conditions.append(f"f_step{number}.key = {key}")
        text = f"{' CROSS JOIN '.join(rows)} WHERE {' AND '.join(conditions)}"
        return text.replace(f"f_step{len(path) - 1}", "f_value")


def _test_row(leaf: Leaf, row: str, values: str, ordered: str) -> str:
    """Render the test of a row of `json_each`, which is the value itself or one of its elements."""
    kind, atom = _KIND.format(row=row), _ATOM.format(row=row)
    if leaf.op == "$in":
        return _SQLITE_IN.format(kind=kind, atom=atom, values=values, wanted=_KIND.format(row="f_wanted"))
    return _SQLITE_ORDER.format(kind=kind, atom=atom, ordered=ordered, values=values, sign=_SIGNS[leaf.op])


# -- PostgreSQL
#
# The column is text, so that stored metadata is returned as it was written. It is parsed once for each row: `OFFSET 0` keeps
# the planner from copying the parsing, and the value that a path leads to, into every place of use.
#
# - Parsing to `jsonb` costs more than to `json`, but its lookups are free. It pays off from the third lookup on.
# - `->` with a key looks into objects only, unlike `#>`, which also indexes arrays. A path of several steps may go through
#   arrays: each step but the first makes one array of all values that it leads to, from all objects above it. They are read
#   as `json`, which keeps numbers as they were written.
# - A `jsonb` equals only another of the same type, and 1 equals 1.0. So a list of values can be a set, which is hashed once for
#   a query. `IS TRUE` keeps it a set where elements are looked up; otherwise the planner would join it for each row.
# - A strict `jsonpath` compares numbers with numbers and text with text, by code point whatever the collation, and does not
#   look into arrays by itself. A value that has no order is compared with an object, which is
#   never less or greater than anything.
# - A `jsonb` number keeps the decimal value as it was written, but not whether it was written as an integer. Up to 2^53,
#   where every integer is a float as well, decimals have the same order as the numbers that they stand for. Beyond, 1e23 and the
#   integer 10^23 become the same, and 1.152921504606847e18 is a decimal close to the float 2^60, not equal to it. So where a
#   filter's number and a stored one are both beyond 2^53, the latter is read again from the text: a float as its
#   exact integer, if that has 64 bits, and a longer integer as one beyond all floats, as in `typed`.

_EVERY_INTEGER_IS_A_FLOAT = 2**53
_FEW_LEAVES = 2

_DOCUMENT = (
    "(SELECT {condition} FROM (SELECT CAST(metadata AS {kind}) AS parsed, metadata AS written OFFSET 0) AS f_document)"
)
_STEP = " -> CAST({key} AS text)"
_SPREAD = (
    "(SELECT CASE WHEN count(*) > 0 THEN coalesce(json_agg(f_flat.value) FILTER (WHERE f_flat.value IS NOT NULL), '[]') END "
    "FROM (SELECT {above} AS value OFFSET 0) AS f_above CROSS JOIN LATERAL json_array_elements("
    "CASE json_typeof(f_above.value) WHEN 'array' THEN f_above.value ELSE json_build_array(f_above.value) END) AS f_each "
    "CROSS JOIN LATERAL (SELECT f_each.value -> CAST({key} AS text) AS value OFFSET 0) AS f_below "
    "LEFT JOIN LATERAL json_array_elements(CASE json_typeof(f_below.value) WHEN 'array' THEN f_below.value "
    "ELSE json_build_array(f_below.value) END) AS f_flat ON true "
    "WHERE json_typeof(f_each.value) = 'object' AND f_below.value IS NOT NULL)"
)
_EXISTS = "({parsed} IS NOT NULL)"
_VALUE = (
    "(SELECT {test} FROM (SELECT CASE WHEN CAST({large} AS boolean) "
    "AND jsonb_path_exists({parsed}, '$[*] ? (@ > 9007199254740992 || @ < -9007199254740992)') "
    "THEN {exact} ELSE {parsed} END AS found{source} OFFSET 0) AS f_value)"
)
_IN = "IN (SELECT f_wanted.value FROM jsonb_array_elements(CAST({values} AS jsonb)) AS f_wanted)"
_ANY = (
    "CASE WHEN jsonb_typeof(f_value.found) = 'array' "
    "THEN EXISTS (SELECT 1 FROM jsonb_array_elements(f_value.found) AS f_item WHERE (f_item.value {is_in}) IS TRUE) "
    "ELSE coalesce(f_value.found, 'null') {is_in} END"
)
_ORDER = (
    "coalesce(jsonb_path_exists(f_value.found, "
    "'strict $ ? (@ {sign} $limit || exists(@[*] ? (@ {sign} $limit)))', CAST({limit} AS jsonb)), false)"
)

# The counterpart of `_to_exact` for stored values: an array, or a single value as an array.
_EXACT = (
    "(SELECT jsonb_agg(CASE WHEN json_typeof(f_item.value) <> 'number' THEN CAST(f_item.value AS jsonb) "
    "WHEN f_item.written !~ '[.eE]' THEN to_jsonb(CAST(f_item.written AS numeric) * CASE WHEN "
    "CAST(f_item.written AS numeric) BETWEEN -9223372036854775808 AND 9223372036854775807 THEN 1 ELSE 1e400 END) "
    "WHEN abs(CAST(f_item.written AS float8)) > 9007199254740992 AND CAST(f_item.written AS float8) "
    "BETWEEN -9223372036854775808 AND 9223372036854774784 THEN to_jsonb(CAST(CAST(f_item.written AS float8) AS int8)) "
    "ELSE CAST(f_item.value AS jsonb) END) FROM (SELECT f_each.value, CAST(f_each.value AS text) AS written "
    "FROM json_array_elements(CASE WHEN json_typeof({written}) = 'array' THEN {written} "
    "ELSE json_build_array({written}) END) AS f_each) AS f_item)"
)
_WRITTEN = "(CAST(f_document.written AS json) -> CAST({key} AS text))"


class _PostgresWriter(_Writer):
    true, false = "true", "false"

    def write_leaf(self, leaf: Leaf) -> str:
        first, *others = (self.bind(step) for step in leaf.path)
        parsed, written, source = f"f_document.parsed{_STEP.format(key=first)}", _WRITTEN.format(key=first), ""
        for key in others:
            written = parsed = _SPREAD.format(above=written, key=key)
        if leaf.op == "$exists":
            return _EXISTS.format(parsed=parsed)
        if others:
            source = f" FROM (SELECT {written} AS written OFFSET 0) AS f_path"
            parsed = written = "f_path.written"
        parsed = f"CAST({parsed} AS jsonb)"
        large = self.bind(any(kind == "number" and _is_large(value) for kind, value in leaf.values))
        exact = _EXACT.format(written=written)
        if leaf.op == "$in":
            values = self.bind(_encode([_to_exact(value) for value in _list_values(leaf)]))
            test = _ANY.format(is_in=_IN.format(values=values))
        else:
            ((kind, value),) = leaf.values
            limit = self.bind(_encode({"limit": _to_exact(value) if kind in ORDERED else {}}))
            test = _ORDER.format(sign=_SIGNS[leaf.op], limit=limit)
        return _VALUE.format(test=test, large=large, parsed=parsed, exact=exact, source=source)


def _to_exact(value: Any) -> Any:
    """Return the exact integer of a large float, because its shortest decimal may be another number."""
    if isinstance(value, float) and _is_large(value) and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def _is_large(number: float) -> bool:
    return abs(number) > _EVERY_INTEGER_IS_A_FLOAT
