"""How far an origin can be trusted. What is derived from several is trusted as little as the least of them.

What the application itself writes (`system`) stands above the user: whoever runs it vouches for it, and it could write as
anybody anyway. The assistant stands below the user, since it repeats what it was told or has made up; a tool was at least
called on purpose, while a document says whatever its author likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from ..model.entry import TRUST, Origin

ORDER: tuple[Origin, ...] = tuple(sorted(get_args(Origin), key=TRUST.__getitem__))
"""From the least trusted to the most."""


def lowest(origins: Iterable[str]) -> Origin:
    """The trust in what rests on all of these; in what rests on nothing, or on something unknown, it is the least."""
    return ORDER[min(map(_rank, origins), default=0)]


def at_least(origin: str, min_trust: str) -> bool:
    """Whether something of this origin is trusted as much as is asked for. An unknown origin never is."""
    return origin in TRUST and _rank(origin) >= TRUST.get(min_trust, len(ORDER))


def is_trusted(origin: str) -> bool:
    """Whether it may be told as a fact, and not only as what somebody else has said."""
    return at_least(origin, "user")


def _rank(origin: str) -> int:
    return TRUST.get(origin, 0)
