"""Owners: the users and flows that timelines and facts belong to, and the operations that both of them have.

`owner_operation` declares such an operation once and creates two: `users.<verb>` below `/v1/users/{user}` and
`flows.<verb>` below `/v1/flows/{flow}`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ..clock import MINUTE
from ..model.collection import TURN_RETENTION, Place, Policy
from ..model.fields import Flow, User
from .access import OwnerKind, Role
from .operation import Effect, Example, Operation, Request, operation

IDLE = 30 * MINUTE
"""Longest pause between two turns of one session of a user."""

AGENT_LOG = Place("log", "agent", "timeline", sealed=True)

_TIMELINE_POLICIES: dict[OwnerKind, Policy] = {
    "user": Policy(retention_us=TURN_RETENTION, idle_us=IDLE),
    "flow": Policy(retention_us=TURN_RETENTION),
}
_FIELDS: dict[OwnerKind, Any] = {"user": User, "flow": Flow}
_SAMPLES: dict[OwnerKind, str] = {"user": "alice", "flow": "support"}


class Owner(NamedTuple):
    kind: OwnerKind
    name: str

    @property
    def timeline(self) -> Place:
        return Place(self.kind, self.name, "timeline", _TIMELINE_POLICIES[self.kind])

    @property
    def facts(self) -> Place:
        return Place(self.kind, self.name, "facts")


def user_timeline(user: str) -> Place:
    return Owner("user", user).timeline


def flow_timeline(flow: str) -> Place:
    return Owner("flow", flow).timeline


def flow_facts(flow: str) -> Place:
    return Owner("flow", flow).facts


def user_records(user: str) -> Place:
    """All records of a user. Forgetting the user erases them."""
    return Place("user", user, "record")


def app_records(app: str) -> Place:
    """The records of an app as a whole and of its sessions."""
    return Place("app", app, "record")


class OwnerRequest(Request, frozen=True, kw_only=True):
    """The request of an owner operation. The field `user` or `flow` is added by `owner_operation`."""

    @property
    def owner(self) -> Owner:
        raise NotImplementedError


class OwnerOperations(NamedTuple):
    """One declaration as two operations. The registry collects both."""

    user: Operation
    flow: Operation


def owner_operation(
    verb: str,
    route: str,
    *,
    user: Example,
    flow: Example,
    effect: Effect = "read",
    role: Role | None = None,
    outside: bool = False,
    status: int = 200,
    patient: bool = False,
) -> Callable[[Callable[..., Any]], OwnerOperations]:
    """Declare the function below as an operation of users and of flows; see `operation` for the flags.

    `route` is the rest of the path after the owner. The request is an `OwnerRequest`; the owner need not be in the examples.
    If the two differ in their fields, it is a union of the user's and the flow's request. `{owner}` in the docstring becomes
    `user` or `flow`.
    """
    method, path = route.split(" ")

    def declare(function: Callable[..., Any]) -> OwnerOperations:
        hint = typing.get_type_hints(function)["request"]
        user_request, flow_request = typing.get_args(hint) or (hint, hint)

        def declare_for(kind: OwnerKind, request: type[OwnerRequest], example: Example) -> Operation:
            declared = operation(
                f"{kind}s.{verb}",
                f"{method} /v1/{kind}s/{{{kind}}}{path}",
                effect=effect,
                role=role,
                example=Example({kind: _SAMPLES[kind], **example.request}, example.given),
                owner=kind,
                outside=outside,
                status=status,
                patient=patient,
                request=_add_owner(request, kind),
            )(function)
            return replace(declared, summary=declared.summary.replace("{owner}", kind))

        return OwnerOperations(declare_for("user", user_request, user), declare_for("flow", flow_request, flow))

    return declare


@cache
def _add_owner(base: type[OwnerRequest], kind: OwnerKind) -> type[msgspec.Struct]:
    """The request type with the field `user` or `flow`."""
    return msgspec.defstruct(
        f"{kind.title()}{base.__name__}",
        [(kind, _FIELDS[kind])],
        bases=(base,),
        module=base.__module__,
        namespace={"__doc__": base.__doc__, "owner": property(lambda self: Owner(kind, getattr(self, kind)))},
        frozen=True,
        kw_only=True,
    )
