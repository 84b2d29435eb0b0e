"""How far an origin can be trusted. What is derived from several is trusted as little as the least of them.

What the application itself writes (`system`) stands above the user: whoever runs it vouches for it, and it could write as
anybody anyway. The assistant stands below the user, since it repeats what it was told or has made up; a tool was at least
called on purpose, while a document says whatever its author likes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.entry import Origin

ORDER: tuple[Origin, ...] = ("document", "tool", "assistant", "user", "system")
"""From the least trusted to the most."""

_RANK: dict[str, int] = {origin: rank for rank, origin in enumerate(ORDER)}


def lowest(origins: Iterable[str]) -> Origin:
    """The trust in what rests on all of these; in what rests on nothing, or on something unknown, it is the least."""
    return ORDER[min(map(_rank, origins), default=0)]


def at_least(origin: str, min_trust: str) -> bool:
    """Whether something of this origin is trusted as much as is asked for. An unknown origin never is."""
    return origin in _RANK and _rank(origin) >= _RANK.get(min_trust, len(ORDER))


def is_trusted(origin: str) -> bool:
    """Whether it may be told as a fact, and not only as what somebody else has said."""
    return at_least(origin, "user")


def _rank(origin: str) -> int:
    return _RANK.get(origin, 0)
