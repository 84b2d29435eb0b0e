"""Filters as SQL for PostgreSQL: the same answers as `model.filter.matches`, which says what a filter means.

As for SQLite, the text is put together from the fixed pieces below and placeholders, and depends on the shape of a filter
alone. The column is text, so that what was stored is given back as it was written. It is read once for each row: `OFFSET 0`
keeps the planner from copying that reading, and the value that a path leads to, into every place of use.

- `jsonb` costs more to make than `json`, and nothing to look into. It pays from the third question on.
- `->` with a key steps through objects only, unlike `#>`, which also counts through arrays.
- A `jsonb` equals another of its own type only, and 1 equals 1.0: a list of values is a set of them, hashed once for a query.
  `IS TRUE` keeps it so where elements are looked up: the planner would else make a join of it, anew for each row.
- A strict `jsonpath` compares numbers with numbers and text with text, by code point whatever the collation, and does not
  look into arrays by itself. What has no order is compared with an object, with which nothing is in order.
- A `jsonb` number is the decimal that was written and no longer tells whether it was written as an integer. Up to 2^53, where
  every integer is a float as well, decimals are in the order of the numbers that they stand for. Beyond, 1e23 and the
  integer 10^23 become the same, and 1.152921504606847e18 is the decimal next to the float 2^60, not the float. So where a
  filter's number and a stored one are both beyond 2^53, the latter is read again from the text: a float as the integer that
  it is, if it has 64 bits, and a longer integer as one beyond all floats, as `typed` does.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...model.filter import ORDERED, And, Filter, Leaf, Not, Or, leaves

_COLUMN = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_EVERY_INTEGER_IS_A_FLOAT = 2**53
_FEW_LEAVES = 2

_DOCUMENT = (
    "(SELECT {condition} FROM (SELECT CAST({column} AS {kind}) AS parsed, {column} AS written OFFSET 0) AS f_document)"
)
_STEP = " -> CAST({key} AS text)"
_EXISTS = "({parsed} IS NOT NULL)"
_VALUE = (
    "(SELECT {test} FROM (SELECT CASE WHEN CAST({large} AS boolean) "
    "AND jsonb_path_exists({parsed}, '$[*] ? (@ > 9007199254740992 || @ < -9007199254740992)') "
    "THEN {exact} ELSE {parsed} END AS found OFFSET 0) AS f_value)"
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
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}

# Of an array, or of one value as an array: what `_exact` makes of a filter's values. There are only objects on the way.
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
_WRITTEN = "(CAST(f_document.written AS json) #> CAST({path} AS text[]))"


def to_postgres(condition: Filter, column: str = "metadata") -> tuple[str, dict[str, Any]]:
    """An expression that is true or false, never NULL, over a column of JSON text, and its parameters `f0`, `f1`, …

    A column that is NULL holds an empty object. Its name is part of our own text, not of a caller's.
    """
    if not _COLUMN.fullmatch(column):
        raise ValueError(f"not the name of a column: {column!r}")
    kind = "json" if len(list(leaves(condition))) <= _FEW_LEAVES else "jsonb"
    writer = _Writer()
    return _DOCUMENT.format(condition=writer.write(condition), column=column, kind=kind), writer.parameters


class _Writer:
    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def write(self, condition: Filter) -> str:
        match condition:
            case And(parts):
                return self._join(" AND ", parts, "true")
            case Or(parts):
                return self._join(" OR ", parts, "false")
            case Not(part):
                return f"NOT {self.write(part)}"
            case Leaf():
                return self._leaf(condition)

    def _join(self, word: str, parts: tuple[Filter, ...], of_none: str) -> str:
        return f"({word.join(map(self.write, parts)) or of_none})"

    def _leaf(self, leaf: Leaf) -> str:
        steps = [_STEP.format(key=self._bind(step)) for step in leaf.path]
        parsed = f"CAST(f_document.parsed{''.join(steps)} AS jsonb)"
        if leaf.op == "$exists":
            return _EXISTS.format(parsed=parsed)
        large = self._bind(any(kind == "number" and _is_large(value) for kind, value in leaf.values))
        exact = _EXACT.format(written=_WRITTEN.format(path=self._bind(list(leaf.path))))
        return _VALUE.format(test=self._test(leaf), large=large, parsed=parsed, exact=exact)

    def _test(self, leaf: Leaf) -> str:
        """The question put to the value at the end of a path, or to its elements."""
        if leaf.op == "$in":
            return _ANY.format(is_in=_IN.format(values=self._bind(_list(leaf))))
        return _ORDER.format(sign=_SIGNS[leaf.op], limit=self._bind(_limit(leaf)))

    def _bind(self, value: Any) -> str:
        name = f"f{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"


def _list(leaf: Leaf) -> str:
    """The values as a JSON list, in an order that does not change from run to run."""
    return _json([_exact(value) for _, value in sorted(leaf.values, key=repr)])


def _limit(leaf: Leaf) -> str:
    """The variables of a `jsonpath`."""
    ((kind, value),) = leaf.values
    return _json({"limit": _exact(value) if kind in ORDERED else {}})


def _exact(value: Any) -> Any:
    """A float of which the decimal may be another number than the float, as the integer that it is."""
    if isinstance(value, float) and _is_large(value) and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def _is_large(number: float) -> bool:
    return abs(number) > _EVERY_INTEGER_IS_A_FLOAT


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
