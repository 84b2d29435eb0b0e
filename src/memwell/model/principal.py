"""Who is calling. It comes from the credential of the present call and from nowhere else."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..errors import Forbidden

Role = Literal["reader", "agent", "admin", "operator"]
ROLES: tuple[Role, ...] = ("reader", "agent", "admin", "operator")
_RANKS = {role: rank for rank, role in enumerate(ROLES)}

OwnerKind = Literal["flow", "user"]


class Tie(msgspec.Struct, frozen=True):
    """The one flow or user that a key is held to."""

    kind: OwnerKind
    name: str

    def refused(self) -> Forbidden:
        """The error for whatever is not of this flow or user. It does not say whether there is anything."""
        return Forbidden(
            f"This access is held to one {self.kind}, and reaches nothing that is not kept for that {self.kind}."
        )


class Principal(msgspec.Struct, frozen=True):
    """A tenant's caller. `actor` names the key (or the process) in events, never a secret. `base` is where the caller reaches the
    server, such as `https://memory.example`; empty if there is none between."""

    tenant: str
    role: Role
    actor: str = "local"
    tie: Tie | None = None
    base: str = ""

    def may(self, role: Role) -> bool:
        return _RANKS[self.role] >= _RANKS[role]

    @property
    def user(self) -> str | None:
        """The user that the caller is held to, if it is one."""
        return self.tie.name if self.tie is not None and self.tie.kind == "user" else None

    def speaks_for(self, user: str | None) -> None:
        """Refuse what is somebody else's, or nobody's, where the caller is held to one user, and everything where to a flow."""
        if self.tie is not None and (user is None or self.user != user):
            raise self.tie.refused()
