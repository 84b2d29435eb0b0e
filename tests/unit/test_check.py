"""Values from outside: what is refused, at any depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from memwell import Invalid, TooLarge
from memwell.model.fields import MAX_BITS, check_json

from ..cases import cases

DEPTH = 8


class Loud(str):
    """A text that JSON knows nothing of, such as numpy's."""

    __slots__ = ()


class Exact(float):
    """A number likewise."""


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Odd(Enum):
    NUL = "\x00"
    BYTES = b"x"


@dataclass
class Plain:
    number: int


class Dumped:
    """As a model of pydantic's."""

    def model_dump(self) -> None: ...


WRONG: list[tuple[Any, str]] = [
    ({1: 2}, "key that is not text: 1"),
    ({True: 2}, "key that is not text: True"),
    ({"a\x00": 1}, "NUL"),
    ("\x00", "NUL"),
    ("\ud800", "surrogate"),
    ({"\udfff": 1}, "surrogate"),
    ("\ud83d\ude00", "surrogate"),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (1 << MAX_BITS, "too large"),
    (-(1 << MAX_BITS), "too large"),
    (b"x", "bytes, which is not JSON"),
    ({1}, r"set, which is not JSON: convert it by `list\(…\)`"),
    (date(2026, 1, 1), r"date, which is not JSON: give its `isoformat\(\)`"),
    (UUID(int=7), r"UUID, which is not JSON: convert it by `str\(…\)`"),
    (Decimal("1.5"), r"Decimal, which is not JSON: convert it by `str\(…\)`"),
    (Plain(1), r"Plain, which is not JSON: give its `dataclasses.asdict\(…\)`"),
    (Dumped(), r"Dumped, which is not JSON: give its `model_dump"),
    (object(), "object, which is not JSON"),
    (Loud("x"), r"Loud, which is not JSON: convert it by `str\(…\)`"),
    (Exact(0.5), r"convert it by `float\(…\)`"),
    ({Loud("x"): 1}, "key that is not text"),
    (Odd.NUL, "NUL"),
    (Odd.BYTES, "bytes, which is not JSON"),
]
FINE: list[Any] = [
    None,
    True,
    "é😀",
    1.5,
    (1 << MAX_BITS) - 1,
    1 - (1 << MAX_BITS),
    datetime(2026, 1, 1, tzinfo=UTC),
    (1, "a"),
    {},
    [],
    Colour.RED,
    Number.ONE,
    {Colour.RED: 1},
]

AROUND: list[Callable[[Any], Any]] = [
    lambda wrong: wrong,
    lambda wrong: [*FINE, wrong],
    lambda wrong: [wrong, *FINE],
    lambda wrong: {"a": [{"b": FINE}, {"b": [*FINE, {"c": (1, wrong)}]}]},
    lambda wrong: [[wrong if number == 700 else "fine"] for number in range(1000)],
]


@cases(("wrong", "reason"), WRONG, ids=[reason for _, reason in WRONG])
@cases("around", AROUND)
def test_errors_are_found_at_any_place(around: Callable[[Any], Any], wrong: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=f"`value`.*{reason}"):
        check_json(around(wrong), "value", 64)


@cases("around", AROUND)
def test_valid_input_passes(around: Callable[[Any], Any]) -> None:
    for value in FINE:
        check_json(around(value), "value", 64)


def test_levels_are_counted() -> None:
    value: Any = 1
    for _ in range(DEPTH):
        value = {"a": [value]} if isinstance(value, int) else [value]
    check_json(value, "value", DEPTH + 1)
    with pytest.raises(Invalid, match=f"deeper than {DEPTH} levels"):
        check_json(value, "value", DEPTH)


def test_a_value_that_contains_itself_is_refused() -> None:
    once: list[Any] = []
    once.append(once)
    with pytest.raises(Invalid, match="deeper than 64 levels"):
        check_json(once, "value", 64)
    twice: list[Any] = []
    twice += [twice, twice]
    with pytest.raises(TooLarge, match="more than"):
        check_json(twice, "value", 64)
