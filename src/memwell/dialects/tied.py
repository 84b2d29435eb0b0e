"""Keys that are held to one user, where an operation sees to it itself."""

from __future__ import annotations

from ..errors import Forbidden
from ..model.principal import Principal


def speaks_for(principal: Principal, owner: str | None) -> None:
    """Refuse whoever is held to somebody else, or to a flow."""
    tie = principal.tie
    if tie is not None and (tie.kind != "user" or tie.name != owner):
        raise Forbidden(f"This key is held to one {tie.kind} and cannot be used for anything else.")
