"""Lifetimes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from memwell.errors import Invalid
from memwell.text.lifetimes import SESSION, parse_lifetime, parse_lifetime_in, render_lifetime

from ..cases import cases

DAY = 86_400


@cases(
    ("value", "seconds"),
    [
        (30, 30 * DAY),
        ("30", 30 * DAY),
        (30.0, 30 * DAY),
        ("1 month", 30 * DAY),
        ("1_month", 30 * DAY),
        ("one month", 30 * DAY),
        ("a week", 7 * DAY),
        ("2 weeks", 14 * DAY),
        ("2-weeks", 14 * DAY),
        (" 2  Weeks ", 14 * DAY),
        ("for two weeks", 14 * DAY),
        ("2w", 14 * DAY),
        ("12 hours", 12 * 3600),
        ("90 min", 90 * 60),
        ("1 year", 365 * DAY),
    ],
)
def test_a_lifetime_is_read(value: Any, seconds: int) -> None:
    found = parse_lifetime(value, "day", "retention")
    assert found is not None
    assert found.seconds == seconds


@cases("value", [None, 0, "0", "none", "None", "for good", "forever", "never", "unlimited", "0 days", 0.0])
def test_a_lifetime_may_be_for_good(value: Any) -> None:
    assert parse_lifetime(value, "day", "retention") is None


@cases("value", ["session", "session only", "session_only", "Session-only", "this session", "for the session"])
def test_a_lifetime_may_be_that_of_a_session(value: Any) -> None:
    assert parse_lifetime(value, "day", "retention") == SESSION


@cases(
    "value",
    [
        "",
        " ",
        "week",
        "soon",
        "-1",
        -1,
        1.5,
        "1.5 days",
        "1 fortnight",
        True,
        False,
        [],
        {},
        "1 day 2 hours",
        float("nan"),
    ],
)
def test_other_values_are_refused_with_advice(value: Any) -> None:
    with pytest.raises(
        Invalid, match=r"`keep` cannot be .*: give a number of days, a time such as .*for good"
    ) as error:
        parse_lifetime(value, "day", "keep")
    assert error.value.details["field"] == "keep"


@cases(
    ("value", "reason"),
    [("12 hours", "whole number of days"), ("200 years", "at most 36,500 days"), ("session", "only memory stores")],
)
def test_a_lifetime_in_units_is_whole_and_limited(value: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        parse_lifetime_in(value, "day", 36_500, "retention_days")


def test_a_lifetime_is_shown_in_its_largest_unit() -> None:
    shown = [render_lifetime(*one) for one in ((None, "day"), (0, "day"), (1, "day"), (90, "second"), (7200, "second"))]
    assert shown == ["for good", "for good", "1 day", "90 seconds", "2 hours"]
