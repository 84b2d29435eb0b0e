"""Times as people say them, `yesterday`, `2 weeks ago`, `in 3 days`, and as they are written, `2026-04-19T10:00:00Z`.

A month is a month of the calendar: one month before 31 March is the last day of February. Days begin at midnight in a time
zone, by default UTC, which is also that of times without one. Every result is in UTC.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo

from ..errors import Invalid

MAX_NUMBER = 10_000
MAX_TEXT = 100
"""A longer text, apart from extra blanks, is not a time."""

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_EXACT = ("second", "minute", "hour")
_MONTHS = {"month": 1, "year": 12}
_UNIT = rf"({'|'.join([*_LENGTHS, *_MONTHS])})s?"
_NUMBER = r"([0-9]+|an?|one)"

_AGO = re.compile(rf"{_NUMBER} {_UNIT} ago")
_AHEAD = re.compile(rf"in {_NUMBER} {_UNIT}")
_LAST = re.compile(r"last (week|month|year)")
_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


def parse_moment(text: str, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """Parse a time in words or in ISO 8601; None if the text is not a time. Without a zone it is in `zone`."""
    plain = " ".join(text.split()).lower()
    if len(plain) > MAX_TEXT:
        return None
    try:
        return _parse_relative(plain, now, zone) or _parse_iso(plain, zone)
    except OverflowError:
        raise _beyond_all_years(plain) from None


def parse_date(text: str, zone: tzinfo = UTC) -> datetime | None:
    """Parse a day, which stands for its beginning, or a time, in ISO 8601; None if the text is neither."""
    if len(text) > MAX_TEXT:
        return None
    try:
        return _parse_iso(text.strip().lower(), zone)
    except OverflowError:
        raise _beyond_all_years(text) from None


def _beyond_all_years(text: str) -> Invalid:
    return Invalid(f"`{text}` is not within the years {MINYEAR} to {MAXYEAR}.")


def build_time_formatter(now: datetime, zone: tzinfo = UTC) -> Callable[[str], str | None]:
    """Build a function for templates that turns a time, in words or in ISO 8601, into RFC 3339 in UTC with `Z`."""

    def time(text: str) -> str | None:
        at = parse_moment(text, now, zone)
        return at.isoformat().replace("+00:00", "Z") if at else None

    return time


def _parse_relative(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Parse a time relative to now, in words."""
    if text == "now":
        return _to_utc(now, UTC)
    if text in _DAYS:
        today = _to_utc(now, UTC).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return _to_utc(today + timedelta(days=_DAYS[text]), zone)
    if match := _AGO.fullmatch(text):
        return _shift(now, -_parse_number(match[1]), match[2], zone)
    if match := _AHEAD.fullmatch(text):
        return _shift(now, _parse_number(match[1]), match[2], zone)
    if match := _LAST.fullmatch(text):
        return _shift(now, -1, match[1], zone)
    return None


def _parse_iso(text: str, zone: tzinfo) -> datetime | None:
    """Parse a time in ISO 8601."""
    if not _ISO.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return _to_utc(at, zone)


def _shift(now: datetime, number: int, unit: str, zone: tzinfo) -> datetime:
    """Return the time so many units later. Days and longer units keep the time of day in the zone."""
    start = _to_utc(now, UTC)
    if unit in _EXACT:
        return start + number * _LENGTHS[unit]
    start = start.astimezone(zone)
    if unit not in _MONTHS:
        return _to_utc(start + number * _LENGTHS[unit], zone)
    # The same day of another month, or its last one if it is too short.
    year, month = divmod(start.year * 12 + start.month - 1 + number * _MONTHS[unit], 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise OverflowError
    _, last = monthrange(year, month + 1)
    return _to_utc(start.replace(year=year, month=month + 1, day=min(start.day, last)), zone)


def _parse_number(text: str) -> int:
    if not text.isdigit():
        return 1
    number = int(text)
    if number > MAX_NUMBER:
        raise Invalid(f"A time is at most {MAX_NUMBER} units from now, not {text}.")
    return number


def _to_utc(at: datetime, zone: tzinfo) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
