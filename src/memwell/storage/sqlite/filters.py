"""Filters as SQL for SQLite: the same answers as `model.filter.matches`, which says what a filter means.

The text is put together from the fixed pieces below and numbered placeholders. Keys, values and lists are all bound,
so the text depends on the shape of a filter alone: nothing that a caller wrote is ever read as SQL, and filters of one
shape share one prepared statement. Four things are less simple than they look:

- JSON paths (`'$."a"'`, `->`) have their own quoting, which no key with a quote or a backslash survives in every
  version. `json_each` gives the decoded key, which is compared with a bound one.
- `json_each` shows true and 1 as the same value: the type is compared as well. Of an object or an array it gives the
  text, but of a string the bare string, which would be malformed JSON for the next step: only objects go on.
- SQLite before 3.52 misreads some very large and very small floats by their last bit. Values are therefore bound as
  JSON too: both sides are read by the same reader, and what is equal stays equal.
- An integer beyond 64 bits is read as a rounded float; it is taken for an infinity here, as `typed` does.

Text is compared byte by byte, which is the order of code points as long as the database's encoding is UTF-8.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...model.filter import ORDERED, And, Filter, Leaf, Not, Or, leaf_matches

_COLUMN = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")

_STEP = "(SELECT f_step.value FROM json_each({source}) AS f_step WHERE f_step.key = {key} AND f_step.type = 'object')"
_EXISTS = "EXISTS (SELECT 1 FROM json_each({source}) AS f_value WHERE f_value.key = {key})"
# CASE, not OR: where NULL and false come to the same, SQLite looks `IN` up in an index and does not walk the list too.
_ANY = (
    "coalesce((SELECT CASE WHEN {itself} THEN 1 ELSE EXISTS (SELECT 1 FROM "
    "json_each(CASE WHEN f_value.type = 'array' THEN f_value.value END) AS f_item WHERE {item}) END "
    "FROM json_each({source}) AS f_value WHERE f_value.key = {key}), {missing})"
)
_KIND = (
    "CASE {row}.type WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' "
    "WHEN 'true' THEN 'boolean' WHEN 'false' THEN 'boolean' ELSE {row}.type END"
)
_ATOM = (
    "CASE WHEN {row}.type = 'integer' AND typeof({row}.atom) = 'real' THEN {row}.atom * 9e999 "
    "ELSE coalesce({row}.atom, 0) END"
)
_IN = "({kind}, {atom}) IN (SELECT {wanted}, coalesce(f_wanted.atom, 0) FROM json_each({values}) AS f_wanted)"
_ORDER = "({kind} = {ordered} AND {atom} {sign} json_extract({values}, '$[0]'))"
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def to_sqlite(condition: Filter, column: str = "metadata") -> tuple[str, dict[str, Any]]:
    """An expression that is 1 or 0, never NULL, over a column of JSON objects, and its parameters `f0`, `f1`, …

    A column that is NULL holds an empty object. Its name is part of our own text, not of a caller's.
    """
    if not _COLUMN.fullmatch(column):
        raise ValueError(f"not the name of a column: {column!r}")
    writer = _Writer(column)
    return writer.write(condition), writer.parameters


class _Writer:
    def __init__(self, column: str) -> None:
        self._column = column
        self.parameters: dict[str, Any] = {}

    def write(self, condition: Filter) -> str:
        match condition:
            case And(parts):
                return self._join(" AND ", parts, "1")
            case Or(parts):
                return self._join(" OR ", parts, "0")
            case Not(part):
                return f"NOT {self.write(part)}"
            case Leaf():
                return self._leaf(condition)

    def _join(self, word: str, parts: tuple[Filter, ...], of_none: str) -> str:
        return f"({word.join(map(self.write, parts)) or of_none})"

    def _leaf(self, leaf: Leaf) -> str:
        place = {"source": self._source(leaf.path[:-1]), "key": self._bind(leaf.path[-1])}
        if leaf.op == "$exists":
            return _EXISTS.format(**place)
        missing = self._bind(int(leaf_matches(leaf, False, None)))
        values = self._bind(_as_json(leaf))
        ordered = self._bind(_order(leaf)) if leaf.op in _SIGNS else ""
        itself, item = (_test(leaf, row, values, ordered) for row in ("f_value", "f_item"))
        return _ANY.format(**place, missing=missing, itself=itself, item=item)

    def _source(self, steps: tuple[str, ...]) -> str:
        """Where the last key is to be looked for: the column, or an object inside it."""
        source = self._column
        for step in steps:
            source = _STEP.format(source=source, key=self._bind(step))
        return source

    def _bind(self, value: Any) -> str:
        name = f"f{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"


def _test(leaf: Leaf, row: str, values: str, ordered: str) -> str:
    """The question put to one row of `json_each`: the value itself, or an element of it."""
    kind, atom = _KIND.format(row=row), _ATOM.format(row=row)
    if leaf.op == "$in":
        return _IN.format(kind=kind, atom=atom, values=values, wanted=_KIND.format(row="f_wanted"))
    return _ORDER.format(kind=kind, atom=atom, ordered=ordered, values=values, sign=_SIGNS[leaf.op])


def _as_json(leaf: Leaf) -> str:
    """The values as a JSON list, in an order that does not change from run to run."""
    return msgspec.json.encode([value for _, value in sorted(leaf.values, key=repr)]).decode()


def _order(leaf: Leaf) -> str:
    """The type whose values can be in order with this leaf's, or a word that is no type."""
    ((kind, _),) = leaf.values
    return kind if kind in ORDERED else "none"
