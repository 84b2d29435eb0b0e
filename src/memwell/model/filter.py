"""Queries, and the filter language for metadata, which is similar to MongoDB's.

    {"topic": "travel"}                                   equal
    {"score": {"$gte": 0.5, "$lt": 0.9}, "lang": "pt"}    all of these
    {"$or": [{"a": 1}, {"b.c": {"$in": [2, null]}}]}      one of these; `b.c` is `c` inside the object `b`
    {"$not": {"a": 1}}, {"a": {"$not": {"$gt": 1}}}       not so
    {}                                                    everything

Meaning (C41):

- A path goes through objects, and through all objects of an array: `{"items.name": "pen"}` matches if one of the items
  has this name. An array at its end matches if one of its elements does. The elements of an array inside an array are
  ignored, and a position in an array is no step of a path. A key that itself holds a dot, and a first key that begins
  with `$`, cannot be addressed; `fields.check_keys` refuses them in metadata.
- A path exists if one object of an array has it. Two conditions on one path may be met by two objects.
- A missing value equals `null` and nothing else. `$exists` matches if the path exists, also with a null.
- `$ne` and `$nin` are the negations of `$eq` and `$in`, so they match missing values, and arrays without an equal
  element.
- `$gt`, `$gte`, `$lt`, `$lte` compare numbers with numbers and text with text, by code point (so times written alike in
  ISO 8601 are in order). Booleans, nulls, objects and pairs of different types have no order and never match.
- 1 equals 1.0; `true` is not 1; no text is a number. Numbers are compared exactly, an integer with a float too.
- A filter's integers have 64 bits. A stored integer beyond them counts as infinitely large (or small): it is above (or
  below) every number of a filter and equals none, because databases round it, each in its own way.
- Text is only text: there are no patterns. A date or time of Python is the text of it that JSON has.

`matches` is the reference; every database's rendering is tested against it.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec

from ..errors import Invalid, TooLarge
from .collection import Place
from .fields import MAX_FILTER

MAX_NODES = 200
MAX_DEPTH = 16
MAX_VALUES = 1000
MAX_STEPS = 16
MAX_PATH = 256


Op = Literal["$in", "$exists", "$gt", "$gte", "$lt", "$lte"]
Typed: TypeAlias = tuple[str, Any]

ORDERED = ("number", "text")
_COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_CONNECTIVES = ("$and", "$or", "$not")
_ON_FIELDS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One condition on one path. Negations are a `Not` around it, and `$eq` is `$in` with one value.

    The values carry their types, because Python finds `1` equal to `True`: two leaves are equal only if they mean the
    same, so that results can be cached by leaf.
    """

    path: tuple[str, ...]
    op: Op
    values: frozenset[Typed] = frozenset()


@dataclass(frozen=True, slots=True)
class And:
    """All parts match; without parts, everything matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


Filter: TypeAlias = And | Or | Not | Leaf


def parse(data: Any) -> Filter:
    """Parse a filter of a request, or raise Invalid."""
    return _Reader().conditions(data, 0)


def matches(condition: Filter, document: Mapping[str, Any] | None) -> bool:
    """Return True if a decoded JSON document matches. None is an empty document."""
    match condition:
        case And(parts):
            return all(matches(part, document) for part in parts)
        case Or(parts):
            return any(matches(part, document) for part in parts)
        case Not(part):
            return not matches(part, document)
        case Leaf(path):
            return leaf_matches(condition, *look_up(path, document))


def leaves(condition: Filter) -> Iterator[Leaf]:
    """Every condition of a filter, with repetitions."""
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case Leaf():
            yield condition


def look_up(path: tuple[str, ...], document: Mapping[str, Any] | None) -> tuple[bool, Any]:
    """Return whether a path exists, and the value at its end. If it goes through an array, that is a list of all values that it
    leads to."""
    found: list[Any] = [document]
    is_spread = False
    for step in path:
        above: list[Any] = []
        for value in found:
            is_array = isinstance(value, list | tuple)
            is_spread |= is_array
            above += value if is_array else (value,)
        found = [one[step] for one in above if isinstance(one, Mapping) and step in one]
    if not is_spread or not found:
        return (True, found[0]) if found else (False, None)
    return True, [one for value in found for one in (value if isinstance(value, list | tuple) else (value,))]


def leaf_matches(leaf: Leaf, present: bool, value: Any) -> bool:
    """Return True if a value meets a condition. The result is the same for every document with that value."""
    if leaf.op == "$exists":
        return present
    if not present:
        value = None
    elements = value if isinstance(value, list | tuple) else (value,)
    return any(_holds(leaf, to_typed(element)) for element in elements)


def to_typed(value: Any) -> Typed:
    """A value with its type, so that only values of one type can be equal."""
    match value:
        case None:
            return "null", None
        case bool():
            return "boolean", value
        case int():
            return "number", value if _fits(value) else math.inf if value > 0 else -math.inf
        case float():
            return "number", value
        case str():
            return "text", value
        case _:
            return "other", None


def _holds(leaf: Leaf, element: Typed) -> bool:
    if leaf.op == "$in":
        return element in leaf.values
    kind, value = element
    compare = _COMPARE[leaf.op]
    return kind in ORDERED and any(kind == other and compare(value, limit) for other, limit in leaf.values)


class _Reader:
    """Reads one filter and counts its cost, so that a huge one is rejected early."""

    def __init__(self) -> None:
        self._nodes = 0
        self._size = 0

    def conditions(self, data: Any, depth: int) -> Filter:
        if not isinstance(data, dict):
            _refuse(f'A filter is an object such as {{"topic": "travel"}}, not {_name(data)}.')
        if not data:
            self._spend()
        return _all([self._condition(key, value, depth) for key, value in data.items()])

    def _condition(self, key: Any, value: Any, depth: int) -> Filter:
        self._text(key, "a key")
        if key in _CONNECTIVES:
            return self._connective(key, value, _deeper(depth))
        if key in _ON_FIELDS:
            _refuse(f'`{key}` needs the name of a field before it: {{"field": {{"{key}": …}}}}.')
        if key.startswith("$"):
            _unknown(key)
        path = tuple(key.split("."))
        if len(key) > MAX_PATH or len(path) > MAX_STEPS:
            _refuse(f"A path has at most {MAX_PATH} characters and {MAX_STEPS} steps, unlike {_quote(key)}.")
        return self._field(path, value, depth)

    def _connective(self, op: str, value: Any, depth: int) -> Filter:
        self._spend()
        if op == "$not":
            return Not(self.conditions(value, depth))
        if not isinstance(value, list | tuple) or not value:
            _refuse(f"`{op}` takes a list of at least one filter, not {_name(value)}.")
        parts = tuple(self.conditions(part, depth) for part in value)
        return And(parts) if op == "$and" else Or(parts)

    def _field(self, path: tuple[str, ...], value: Any, depth: int) -> Filter:
        if not isinstance(value, dict):
            return self._question(path, "$eq", value)
        if not value or not all(isinstance(key, str) and key.startswith("$") for key in value):
            name = ".".join(path)
            _refuse(
                f"{_quote(name)} is compared with an object, which cannot be done: use operators such as `$eq`, "
                f"or a dotted path to reach inside, such as {_quote(name + '.name')}."
            )
        return _all([self._operator(path, key, operand, depth) for key, operand in value.items()])

    def _operator(self, path: tuple[str, ...], op: str, operand: Any, depth: int) -> Filter:
        if op in ("$and", "$or"):
            _refuse(f'`{op}` stands before the names of fields: {{"{op}": [{{"field": …}}, …]}}.')
        if op not in _ON_FIELDS:
            _unknown(op)
        if op != "$not":
            return self._question(path, op, operand)
        self._spend()
        if not isinstance(operand, dict):
            _refuse(f"`$not` after a field takes operators, not {_name(operand)}: for one value use `$ne`.")
        return Not(self._field(path, operand, _deeper(depth)))

    def _question(self, path: tuple[str, ...], op: str, operand: Any) -> Filter:
        self._spend()
        match op:
            case "$gt" | "$gte" | "$lt" | "$lte":
                return Leaf(path, op, frozenset([self._scalar(op, operand)]))
            case "$eq" | "$ne":
                leaf = Leaf(path, "$in", frozenset([self._scalar(op, operand)]))
                return leaf if op == "$eq" else Not(leaf)
            case "$in" | "$nin":
                if not isinstance(operand, list | tuple):
                    _refuse(f"`{op}` takes a list of values, not {_name(operand)}.")
                if len(operand) > MAX_VALUES:
                    _refuse(f"`{op}` takes at most {MAX_VALUES} values, not {len(operand)}.")
                leaf = Leaf(path, "$in", frozenset(self._scalar(op, value) for value in operand))
                return leaf if op == "$in" else Not(leaf)
            case _:
                if not isinstance(operand, bool):
                    _refuse(f"`$exists` takes true or false, not {_name(operand)}.")
                return Leaf(path, "$exists") if operand else Not(Leaf(path, "$exists"))

    def _scalar(self, op: str, value: Any) -> Typed:
        self._spend(0, 8)
        if isinstance(value, date):  # as it is written in metadata
            value = msgspec.to_builtins(value)
        match value:
            case str():
                self._text(value, "a value")
            case float() if not math.isfinite(value):
                _refuse(f"`{op}` takes finite numbers, not {value}.")
            case int() if not _fits(value):
                _refuse(f"`{op}` takes integers of at most 64 bits: store longer ones as text.")
            case None | bool() | int() | float():
                pass
            case _:
                advice = ": for one of several values use `$in`" if isinstance(value, list | tuple) else ""
                _refuse(f"`{op}` compares with text, a number, true, false or null, not {_name(value)}{advice}.")
        return to_typed(value)

    def _text(self, text: Any, what: str) -> None:
        if not isinstance(text, str):
            _refuse(f"`filter` has {what} that is not text: {_name(text)}.")
        if "\x00" in text:
            _refuse(f"`filter` has {what} with the NUL character, which stored text cannot contain: remove it.")
        try:
            self._spend(0, len(text.encode()))
        except UnicodeEncodeError:
            _refuse(f"`filter` has {what} that is not valid Unicode: it holds half of a surrogate pair.")

    def _spend(self, nodes: int = 1, size: int = 0) -> None:
        self._nodes += nodes
        self._size += size
        if self._nodes > MAX_NODES:
            _refuse(f"`filter` has more than {MAX_NODES} conditions: use `$in` for many values of one field.")
        if self._size > MAX_FILTER:
            raise TooLarge(f"`filter` is larger than {MAX_FILTER // 1024} KiB.", field="filter")


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        _refuse(f"`filter` has `$and`, `$or` and `$not` nested deeper than {MAX_DEPTH} levels.")
    return depth + 1


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _unknown(op: str) -> NoReturn:
    known = " ".join(sorted({*_CONNECTIVES, *_ON_FIELDS}))
    _refuse(f"`filter` has an unknown operator {_quote(op)}. These are known: {known}.")


def _refuse(message: str) -> NoReturn:
    raise Invalid(message, field="filter")


def _name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case []:
            return "an empty list"
        case _:
            numbers = {int: "a number", float: "a number", bool: "a boolean"}
            names = numbers | {str: "text", dict: "an object", list: "a list"}
            return names.get(type(value), f"a {type(value).__name__}")


def _quote(text: str) -> str:
    """Quote and shorten text of a request for a message."""
    return reprlib.repr(text)


# -- Queries, and the times when a fact was known and true

NEVER = 2**62


class Life(NamedTuple):
    """Two half-open periods of a fact: known and true. The fields are moments, or arrays of them for many facts at once."""

    known_from: Any
    known_to: Any
    true_from: Any
    true_to: Any

    @classmethod
    def of(cls, known_from: int, known_to: int | None, true_from: int, true_to: int | None) -> Life:
        """Build a life from stored columns, where NULL is no end."""
        return cls(
            known_from, NEVER if known_to is None else known_to, true_from, NEVER if true_to is None else true_to
        )

    def fits(self, as_of: int | None, valid_at: int | None) -> Any:
        """True if it was known at `as_of` and true at `valid_at`; a moment of None is not checked. An array for arrays."""
        known = as_of is None or (self.known_from <= as_of) & (self.known_to > as_of)
        true = valid_at is None or (self.true_from <= valid_at) & (self.true_to > valid_at)
        return known & true


class Where(NamedTuple):
    """A part of memory: a collection or one path in it, and kinds of entries. None means all."""

    place: Place
    path: str | None = None
    kinds: tuple[str, ...] | None = None


class Query(NamedTuple):
    """A search: a text, the parts of memory, and conditions, which are applied before ranking."""

    text: str
    where: tuple[Where, ...]
    limit: int = 5
    filter: Filter | None = None
    after: int | None = None
    before: int | None = None
    min_score: float | None = None
    """The lowest score of a hit; None leaves out what is very unlikely to be right."""
    recipe: str = "default"
    as_of: int | None = None
    """Only entries known at this time, as they were known then."""
    valid_at: int | None = None
    """Only entries true at this time, as far as is known."""
    min_trust: str | None = None
    """Only entries whose origin is trusted at least as much as this one."""
    retired: bool = False
    """Also entries that are retired, such as those that summaries have replaced."""
    full: bool = False
    """Fill up to the limit, also with entries that have nothing in common with the text."""
