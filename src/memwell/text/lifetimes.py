"""Lifetimes as people write them: `30`, `2 weeks`, `1_month`, `session only`, `for good`.

`null`, `0` and `none` mean for good, wherever a lifetime is given. A month has 30 days, a year 365.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..errors import Invalid

FOR_GOOD = "none"
"""The lifetime of what never expires, where a lifetime is a text."""
SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
    "year": 365 * 86_400,
}

_SHORT = {
    **dict.fromkeys(("s", "sec"), "second"),
    "min": "minute",
    **dict.fromkeys(("h", "hr"), "hour"),
    "d": "day",
    **dict.fromkeys(("w", "wk"), "week"),
    "mo": "month",
    **dict.fromkeys(("y", "yr"), "year"),
}
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBERS = {word: number for number, word in enumerate(_WORDS)} | {"a": 1, "an": 1}
_FOR_GOOD = frozenset(
    (FOR_GOOD, "null", "for good", "forever", "for ever", "never", "never expires", "unlimited", "no limit")
) | {"infinite", "indefinitely", "permanent", "permanently", "always"}
_SESSION = frozenset(f"{one}session{two}" for one in ("", "this ", "one ", "for the ", "per ") for two in ("", " only"))
_TEXT = re.compile(
    rf"(?:for )?([0-9]{{1,12}}|{'|'.join(_NUMBERS)})(?: ?({'|'.join([*SECONDS, *_SHORT])})s?)?",
)


class Lifetime(NamedTuple):
    """A number of units."""

    number: int
    unit: str

    @property
    def seconds(self) -> int:
        return self.number * SECONDS[self.unit]


SESSION = Lifetime(1, "session")
"""Until the end of the session."""


def parse_lifetime(value: Any, unit: str, field: str) -> Lifetime | None:
    """Parse a lifetime; None is for good. `unit` is that of a number alone."""
    found = _parse(value, unit)
    if found is None:
        shown = repr(value)[:50]
        raise Invalid(
            f"`{field}` cannot be {shown}: give a number of {unit}s, a time such as `3 days`, `2 weeks` or `1 month`, or "
            "`none` (for good).",
            field=field,
        )
    return found if found.number else None


def parse_lifetime_in(value: Any, unit: str, longest: int, field: str) -> int | None:
    """Parse a lifetime to a whole number of units; None is for good."""
    lifetime = parse_lifetime(value, unit, field)
    if lifetime is None:
        return None
    if lifetime == SESSION:
        raise Invalid(
            f"`{field}` cannot end with a session: only memory stores can. Give a time such as `2 weeks`.", field=field
        )
    number, rest = divmod(lifetime.seconds, SECONDS[unit])
    if rest:
        raise Invalid(f"`{field}` is a whole number of {unit}s, unlike {value!r}.", field=field)
    if number > longest:
        raise Invalid(
            f"`{field}` is at most {longest:,} {unit}s, unlike {value!r}: give `none` to keep it for good.", field=field
        )
    return number


def render_lifetime(number: int | None, unit: str) -> str:
    """Render a lifetime for people, such as `30 days` or `for good`."""
    if not number:
        return "for good"
    seconds = number * SECONDS[unit]
    larger = [one for one in ("day", "hour", "minute", "second") if seconds % SECONDS[one] == 0]
    count = seconds // SECONDS[larger[0]]
    return f"{count:,} {larger[0]}" + ("s" if count > 1 else "")


def _parse(value: Any, unit: str) -> Lifetime | None:
    """Return a lifetime, with the number 0 if it is for good; None if the value is not one."""
    if value is None:
        return Lifetime(0, unit)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Lifetime(int(value), unit) if value >= 0 and value == value // 1 else None
    if not isinstance(value, str) or len(value) > 100:
        return None
    plain = re.sub(r"[\s_-]+", " ", value.strip().lower()) if not value.startswith("-") else value
    if plain in _FOR_GOOD:
        return Lifetime(0, unit)
    if plain in _SESSION:
        return SESSION
    match = _TEXT.fullmatch(plain)
    if match is None or (match[2] is None and not match[1].isdigit()):
        return None
    number = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1]]
    return Lifetime(number, unit if match[2] is None else _SHORT.get(match[2], match[2]))
