"""What may not be in a value from outside, wherever in it that is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from memwell import Invalid, TooLarge
from memwell.model.check import MAX_BITS, plain

DEPTH = 8
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
    ({1}, "set, which is not JSON"),
    (object(), "object, which is not JSON"),
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
]

values = st.recursive(
    st.sampled_from(FINE), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner, max_size=4)
)


@hypothesis.given(st.lists(values, max_size=6), st.sampled_from(WRONG), st.data())
def test_what_is_wrong_is_found_wherever_it_is(around: list[Any], case: tuple[Any, str], data: st.DataObject) -> None:
    wrong, reason = case
    around.insert(data.draw(st.integers(0, len(around))), wrong)
    with pytest.raises(Invalid, match=f"`value`.*{reason}"):
        plain({"a": around}, "value", 64)


@hypothesis.given(values)
def test_what_is_fine_passes(value: Any) -> None:
    plain(value, "value", 64)


def test_levels_are_counted() -> None:
    value: Any = 1
    for _ in range(DEPTH):
        value = {"a": [value]} if isinstance(value, int) else [value]
    plain(value, "value", DEPTH + 1)
    with pytest.raises(Invalid, match=f"deeper than {DEPTH} levels"):
        plain(value, "value", DEPTH)


def test_what_holds_itself_ends() -> None:
    once: list[Any] = []
    once.append(once)
    with pytest.raises(Invalid, match="deeper than 64 levels"):
        plain(once, "value", 64)
    twice: list[Any] = []
    twice += [twice, twice]
    with pytest.raises(TooLarge, match="more than"):
        plain(twice, "value", 64)
