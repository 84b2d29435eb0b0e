"""What records are held to: a memory store of an app, or a memory definition."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, Literal

import msgspec

from .. import typed
from ..clock import DAY, SECOND
from ..errors import Invalid

Access = Literal["user", "application", "session"]
Scope = Literal["global", "workflow", "thread", "run"]
UpdateMode = Literal["merge", "replace"]
Secrets = Literal["warn", "reject"]

SESSION_META = "sessionMeta"
SESSION = "session"
"""The retention of what is gone when its session ends."""
MAX_STORES = 15
MAX_NAME = 255
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$(?!\n)"
SLUG_PATTERN = r"^[a-z0-9_]+$(?!\n)"
APP_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)"
NAME_ADVICE = "A technical name has letters, digits and underscores, and begins with a letter."
SLUG_ADVICE = "slug must contain only lowercase letters, numbers, and underscores"
RUN_LIFETIME = 30 * DAY
"""How long what is kept for a run stays at most, if nobody says that it is over."""

_UNITS = {"day": 1, "week": 7, "month": 30}
_RETENTION = re.compile(r"(\d{1,4})_(day|week|month)s?")
_LONGEST_DAYS = 3650
_VAGUE = re.compile(r"(?:data|temp|tmp|test|store|memory|info|stuff|misc|foo|bar|value|record)s?_?\d*", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


class Store(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory store, as it is stored under its technical name."""

    access: Access = "user"
    retention: str = "1_month"
    schema: dict[str, Any] = {}
    strict: bool = False
    description: str | None = None

    @property
    def lifetime_us(self) -> int | None:
        """How long a record lives after it was written; None: until its session ends."""
        return None if self.retention == SESSION else days_of(self.retention) * DAY


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory definition, as it is stored."""

    slug: str
    scope: Scope = "global"
    schema: dict[str, Any] = {}
    ttl_seconds: int | None = None
    update_mode: UpdateMode = "replace"
    secrets: Secrets = "warn"
    description: str | None = None
    lasting_from: int | None = None
    """When its lifetime was changed last; None: it never was."""
    former_ttls: list[int] | None = None
    """What it was before, the last ones, if that is known."""

    @property
    def lifetime_us(self) -> int | None:
        lifetime = None if self.ttl_seconds is None else self.ttl_seconds * SECOND
        return min(lifetime or RUN_LIFETIME, RUN_LIFETIME) if self.scope == "run" else lifetime


_decode_store = typed.decoder(Store)
_decode_definition = typed.decoder(Definition)


@lru_cache(maxsize=256)
def decode_store(body: str) -> Store:
    """A store as it is stored. The same text gives the same value: nobody changes what is in it."""
    return _decode_store(body)


@lru_cache(maxsize=256)
def decode_definition(body: str) -> Definition:
    """A definition, likewise."""
    return _decode_definition(body)


def encoded(contract: Store | Definition) -> str:
    return msgspec.json.encode(contract).decode()


def retention(given: str) -> str:
    """A retention in its plain form: `session`, or so many days, weeks or months of 30 days (S2.12, S2.33)."""
    if given in (SESSION, "session_only"):
        return SESSION
    days_of(given)
    number, _, unit = given.removesuffix("s").partition("_")
    return f"{int(number)}_{unit}" + ("s" if int(number) > 1 else "")


@lru_cache(maxsize=64)
def days_of(given: str) -> int:
    found = _RETENTION.fullmatch(given)
    days = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < days <= _LONGEST_DAYS:
        raise Invalid(
            f"`retention` cannot be {given[:50]!r}: give `session`, `1_day`, `1_week` or `1_month`, or so many of them.",
            field="retention",
        )
    return days


def slug_of(name: str) -> str:
    """The slug that a name suggests (S3.5); empty if it has no letter or digit of ASCII. Accents are left away."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return _NOT_IN_SLUG.sub("_", bare.casefold()).strip("_")[:MAX_NAME]


def is_vague(name: str) -> bool:
    """Whether a name says nothing about what it stands for (C40)."""
    return _VAGUE.fullmatch(name) is not None
