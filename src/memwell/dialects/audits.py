"""Audits: what should not be among the facts of a flow or a user, with the items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model.collection import Place
from ..model.fields import Flow, User
from ..operation import Example, Request, Response, operation
from ..space import Space
from .places import flow_facts, user_facts
from .plans import FLOW_DONE, USER_DONE

if TYPE_CHECKING:
    from ..distill.audit import Audited

PAGE = 2000
SHOWN = 1000


class Finding(Response, frozen=True, kw_only=True):
    """Something to look at: a `duplicate`, `contradiction`, `echo`, `orphan`, `stale` or `secret`-looking fact."""

    problem: str
    ids: list[str]
    reason: str


class Audit(Response, frozen=True, kw_only=True):
    """How many facts were looked at, how many findings there are of each kind, and the first thousand of them."""

    facts: int
    counts: dict[str, int]
    findings: list[Finding]


class AuditFlow(Request, frozen=True, kw_only=True):
    """Which flow to audit."""

    flow: Flow


class AuditUser(Request, frozen=True, kw_only=True):
    """Which user's memory to audit."""

    user: User


@operation("flows.audit", "GET /v1/flows/{flow}/audit", bound="flow", example=Example({"flow": "support"}, FLOW_DONE))
def audit_flow(space: Space, request: AuditFlow) -> Audit:
    """Look for duplicates, contradictions, echoes, orphans, stale and secret-looking facts of a flow."""
    return _audit(space, flow_facts(request.flow))


@operation("users.audit", "GET /v1/users/{user}/audit", bound="user", example=Example({"user": "alice"}, USER_DONE))
def audit_user(space: Space, request: AuditUser) -> Audit:
    """Look for duplicates, contradictions, echoes, orphans, stale and secret-looking facts of a user."""
    return _audit(space, user_facts(request.user))


def _audit(space: Space, place: Place) -> Audit:
    from ..distill.audit import audit

    facts = list(_facts(space, place))
    found = audit(facts, space.now)
    return Audit(
        facts=len(facts),
        counts=dict(Counter(one.problem for one in found)),
        findings=[Finding(problem=one.problem, ids=list(one.ids), reason=one.reason) for one in found[:SHOWN]],
    )


def _facts(space: Space, place: Place) -> Iterator[Audited]:
    from ..distill.audit import Audited as Row

    collection = space.found(place)
    after = ("", -1)
    while collection is not None:
        named = {"collection_id": collection, "after": after[0], "after_too": after[1], "limit": PAGE}
        rows = [Row(*row) for row in space.tx.rows("audit_facts", **named)]
        yield from rows
        if len(rows) < PAGE:
            return
        after = (rows[-1].same, rows[-1].docid)
