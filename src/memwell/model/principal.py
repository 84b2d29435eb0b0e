"""The principal: the caller, its role and its scope. It comes only from the credential of the current call."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..errors import Forbidden

Role = Literal["reader", "agent", "admin", "operator"]
ROLES: tuple[Role, ...] = ("reader", "agent", "admin", "operator")
_RANKS = {role: rank for rank, role in enumerate(ROLES)}

OwnerKind = Literal["flow", "user"]


class Scope(msgspec.Struct, frozen=True):
    """The one flow or user that a key is limited to."""

    kind: OwnerKind
    name: str

    def refusal(self) -> Forbidden:
        """The error for everything outside the scope. It does not reveal whether anything exists."""
        return Forbidden(f"This key is limited to one {self.kind}, and reaches nothing outside of that {self.kind}.")


class Principal(msgspec.Struct, frozen=True):
    """A tenant's caller. `actor` names the key or the process in events. `base` is the URL of the server as the caller knows it,
    such as `https://memory.example`; empty if it is embedded."""

    tenant: str
    role: Role
    actor: str = "local"
    scope: Scope | None = None
    base: str = ""

    def may(self, role: Role) -> bool:
        return _RANKS[self.role] >= _RANKS[role]

    @property
    def user(self) -> str | None:
        """The user that the caller is limited to, if any."""
        return self.scope.name if self.scope is not None and self.scope.kind == "user" else None

    def require_user(self, user: str | None) -> None:
        """Raise if the caller has a scope and that is not this user."""
        if self.scope is not None and (user is None or self.user != user):
            raise self.scope.refusal()
