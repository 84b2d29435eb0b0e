"""Who is calling. It comes from the credential of the present call and from nowhere else."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["reader", "agent", "admin", "operator"]
ROLES: tuple[Role, ...] = ("reader", "agent", "admin", "operator")

Bound = Literal["flow", "user"]


class Tie(msgspec.Struct, frozen=True):
    """The one flow or user that a key is held to."""

    kind: Bound
    name: str


class Principal(msgspec.Struct, frozen=True):
    """A tenant's caller. `actor` names the key (or the process) in events, never a secret. `base` is where the caller reaches the
    server, such as `https://memory.example`; empty if there is none between."""

    tenant: str
    role: Role
    actor: str = "local"
    tie: Tie | None = None
    base: str = ""

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)
