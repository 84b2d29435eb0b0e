"""Times as they are said and written. Contract: S1.17, S1.38, S1.39."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memwell.errors import Invalid
from memwell.text.moments import MAX_NUMBER, build_time_formatter, parse_moment

from ..cases import cases
from ..properties import examples

NOW = datetime(2026, 4, 19, 10, 30, 15, 250_000, tzinfo=UTC)
MIDNIGHT = datetime(2026, 4, 19, tzinfo=UTC)
UNITS = ["second", "minute", "hour", "day", "week", "month", "year"]
SAID = st.builds("{} {}s ago".format, st.integers(0, MAX_NUMBER), st.sampled_from(UNITS)) | st.builds(
    "in {} {}".format, st.integers(0, MAX_NUMBER), st.sampled_from(UNITS)
)
PIECES = [
    "now", "today", "last", "week", "month", "months", "years", "ago", "in", "a", "an", "one", "1", "0", "10000", "10001",
    "99999999", "٣", "-", "+", ":", ".", "T", "t", "Z", " ", "\n", "2026", "-04", "-19", "0001-01-01", "9999-12-31", "T00:00",
    "T23:59:59.999999", "+23:59", "-23:59", "0000", "W01", "\ud800", "ı", "K",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=8).map("".join)
ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))


def far(text: str, now: datetime) -> bool:
    """Whether a time comes near the first or the last of all years, by a rough count of days."""
    number, unit = re.findall(r"(\d+) ([a-z]+?)s?\b", text)[0]
    days = int(number) * {"second": 0, "minute": 0, "hour": 1, "day": 1, "week": 7, "month": 31, "year": 366}[unit] + 10
    ordinal = now.toordinal()
    return ordinal + days > datetime.max.toordinal() if text.startswith("in ") else ordinal - days < 1


@cases(
    ("text", "at"),
    [
        ("now", NOW),
        ("today", MIDNIGHT),
        ("yesterday", MIDNIGHT - timedelta(days=1)),
        ("tomorrow", MIDNIGHT + timedelta(days=1)),
        ("1 second ago", NOW - timedelta(seconds=1)),
        ("90 minutes ago", NOW - timedelta(minutes=90)),
        ("an hour ago", NOW - timedelta(hours=1)),
        ("a day ago", NOW - timedelta(days=1)),
        ("one week ago", NOW - timedelta(weeks=1)),
        ("1 week ago", NOW - timedelta(weeks=1)),
        ("0 days ago", NOW),
        ("10000 weeks ago", NOW - timedelta(weeks=10_000)),
        ("in 2 hours", NOW + timedelta(hours=2)),
        ("in a week", NOW + timedelta(weeks=1)),
        ("in 1 day", NOW + timedelta(days=1)),
        ("2 months ago", NOW.replace(month=2)),
        ("4 months ago", NOW.replace(year=2025, month=12)),
        ("in 9 months", NOW.replace(year=2027, month=1)),
        ("a year ago", NOW.replace(year=2025)),
        ("in 10 years", NOW.replace(year=2036)),
        ("last week", NOW - timedelta(weeks=1)),
        ("last month", NOW.replace(month=3)),
        ("last year", NOW.replace(year=2025)),
        ("  Two  ", None),
        (" 1\t WEEK \n Ago ", NOW - timedelta(weeks=1)),
        ("1" + " " * 10_000 + "week ago", NOW - timedelta(weeks=1)),
        ("YESTERDAY", MIDNIGHT - timedelta(days=1)),
    ],
)
def test_times_that_are_said_count_from_now(text: str, at: datetime | None) -> None:
    """S1.17, S1.38, S1.39."""
    assert parse_moment(text, NOW) == at


@cases(
    ("start", "text", "at"),
    [
        ((2025, 3, 31), "1 month ago", (2025, 2, 28)),
        ((2024, 3, 31), "1 month ago", (2024, 2, 29)),
        ((2026, 3, 30), "last month", (2026, 2, 28)),
        ((2026, 5, 31), "in 1 month", (2026, 6, 30)),
        ((2026, 1, 31), "in 13 months", (2027, 2, 28)),
        ((2024, 2, 29), "a year ago", (2023, 2, 28)),
        ((2024, 2, 29), "4 years ago", (2020, 2, 29)),
        ((2026, 1, 15), "1 month ago", (2025, 12, 15)),
        ((2026, 12, 15), "in a month", (2027, 1, 15)),
        ((2, 1, 1), "1 year ago", (1, 1, 1)),
        ((9999, 11, 30), "in 1 month", (9999, 12, 30)),
    ],
)
def test_months_and_years_are_those_of_the_calendar(
    start: tuple[int, int, int], text: str, at: tuple[int, int, int]
) -> None:
    """S1.17."""
    assert parse_moment(text, datetime(*start, 8, 30, tzinfo=UTC)) == datetime(*at, 8, 30, tzinfo=UTC)


@cases(
    ("text", "at"),
    [
        ("2026-04-19", "2026-04-19T00:00:00+00:00"),
        ("2026-04-19T10:00", "2026-04-19T10:00:00+00:00"),
        ("2026-04-19T10:00:30", "2026-04-19T10:00:30+00:00"),
        ("2026-04-19T10:00:30Z", "2026-04-19T10:00:30+00:00"),
        ("2026-04-19t10:00:30z", "2026-04-19T10:00:30+00:00"),
        ("2026-04-19 10:00:30", "2026-04-19T10:00:30+00:00"),
        ("2026-04-19T10:00:30.5Z", "2026-04-19T10:00:30.500000+00:00"),
        ("2026-04-19T10:00:30.123456789Z", "2026-04-19T10:00:30.123456+00:00"),
        ("2026-04-19T10:00:30+02:00", "2026-04-19T08:00:30+00:00"),
        ("2026-04-19T23:30-0530", "2026-04-20T05:00:00+00:00"),
        ("2026-04-19T10:00+02", "2026-04-19T08:00:00+00:00"),
        (" 0001-01-01 ", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
    ],
)
def test_times_that_are_written_come_out_in_utc(text: str, at: str) -> None:
    """S1.38, S1.39."""
    found = parse_moment(text, NOW)
    assert found is not None
    assert found.isoformat() == at


@cases(
    "text",
    [
        "", " ", "soon", "week ago", "1 week", "ago", "two weeks ago", "-1 days ago", "1.5 days ago", "1 fortnight ago",
        "in last week", "last day", "last hour", "next week", "yesterday evening", "in 1 week ago", "now()", "٣ days ago",
        "2026", "2026-04", "20260419", "2026-W16-7", "2026-04-31", "2026-13-01", "0000-01-01", "10000-01-01",
        "2026-04-19T25:00", "2026-04-19T10", "2026-04-19T10:00:61Z", "2026-04-19T10:00+24:00", "2026-04-19x10:00",
        "2026-04-19Z", "1776594600", "today" * 30, "0" * 200 + " days ago",
    ],
)  # fmt: skip
def test_an_invalid_time_is_none(text: str) -> None:
    assert parse_moment(text, NOW) is None
    assert build_time_formatter(NOW)(text) is None


@cases(
    ("text", "said"),
    [
        ("10001 seconds ago", "at most 10000 units from now, not 10001"),
        ("in 99999999999999999999 days", "at most 10000 units"),
        ("2026 years ago", "`2026 years ago` is not within the years 1 to 9999"),
        ("In  9000 Years", "`in 9000 years` is not within the years 1 to 9999"),
    ],
)
def test_what_is_too_far_away_is_an_error(text: str, said: str) -> None:
    for ask in (lambda: parse_moment(text, NOW), lambda: build_time_formatter(NOW)(text)):
        with pytest.raises(Invalid, match=re.escape(said)):
            ask()


@cases(
    ("text", "now"),
    [
        ("0001-01-01T00:00+01:00", NOW),
        ("9999-12-31T23:59-00:01", NOW),
        ("yesterday", datetime.min.replace(tzinfo=UTC)),
        ("tomorrow", datetime.max.replace(tzinfo=UTC)),
        ("last month", datetime.min.replace(tzinfo=UTC)),
        ("in a second", datetime.max.replace(tzinfo=UTC)),
        ("in a month", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_nothing_leaves_the_years_that_there_are(text: str, now: datetime) -> None:
    with pytest.raises(Invalid, match="not within the years 1 to 9999"):
        parse_moment(text, now)


def test_now_may_come_from_another_zone() -> None:
    late = datetime(2026, 4, 19, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert parse_moment("today", late) == datetime(2026, 4, 20, tzinfo=UTC)
    assert parse_moment("now", late.replace(tzinfo=None)) == datetime(2026, 4, 19, 23, 30, tzinfo=UTC)


def test_in_a_template_a_time_is_written_with_z() -> None:
    """S1.17: as RFC 3339, which a time field reads back."""
    said = build_time_formatter(NOW)
    assert said("1 week ago") == "2026-04-12T10:30:15.250000Z"
    assert said(" Yesterday ") == "2026-04-18T00:00:00Z"
    assert said("2025 years ago") == "0001-04-19T10:30:15.250000Z"
    assert said("2026-04-19") == "2026-04-19T00:00:00Z"
    assert said("2026-04-19t10:00:30.5+02:00") == "2026-04-19T08:00:30.500000Z"


@settings(max_examples=examples(300, chaos=20_000), deadline=None, database=None)
@given(SAID, st.datetimes(timezones=ZONES))
@example("1 month ago", datetime(2024, 3, 31, tzinfo=UTC))
@example("10000 years ago", datetime.max.replace(tzinfo=UTC))
def test_months_never_raise_and_read_back_the_same(text: str, now: datetime) -> None:
    """S1.17: nothing but the end of all years is in the way."""
    try:
        found = parse_moment(text, now)
    except Invalid:
        assert far(text, now)
        return
    assert found is not None
    assert found.tzinfo is UTC
    written = build_time_formatter(now)(text)
    assert written is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", written)
    assert parse_moment(written, now) == found


@settings(max_examples=examples(300, chaos=10_000), deadline=None, database=None)
@given(st.datetimes(datetime(900, 1, 1), datetime(9000, 1, 1)), st.integers(0, MAX_NUMBER))
def test_months_keep_the_day_or_take_the_last(naive: datetime, number: int) -> None:
    """S1.17."""
    now = naive.replace(tzinfo=UTC)
    found = parse_moment(f"{number} months ago", now)
    assert found is not None
    assert (now.year - found.year) * 12 + now.month - found.month == number
    assert found.timetz() == now.timetz()
    assert found.day == now.day or (found.day < now.day and (found + timedelta(days=1)).day == 1)


@settings(max_examples=examples(300, chaos=20_000), deadline=None, database=None)
@given(HOSTILE | st.text(), st.datetimes(timezones=ZONES | st.none()))
def test_no_input_makes_anything_but_invalid(text: str, now: datetime) -> None:
    with suppress(Invalid):
        found = parse_moment(text, now)
        assert found is None or found.tzinfo is UTC


@cases("piece", ["1", " ", "a ", "2026-04-19", "in 1 "])
def test_a_mebibyte_is_read_in_linear_time(piece: str) -> None:
    start = time.process_time()
    assert parse_moment(piece * ((1 << 20) // len(piece)), NOW) is None
    assert time.process_time() - start < 5
