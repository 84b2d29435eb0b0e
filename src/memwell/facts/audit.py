"""Audit facts: find duplicates, contradictions, echoes, orphans, stale facts, and facts that look like secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations
from typing import NamedTuple

from ..clock import to_datetime
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space
from ..model.collection import Place
from ..screening.secrets import find_secret_in_fact
from .datatypes import Candidate, KnownFact
from .plans import FLOW_DONE, USER_DONE
from .reconcile import reconcile

MAX_COMPARED = 50
"""Maximum number of facts on one topic that are compared with each other."""
PAGE = 2000
SHOWN = 1000


class AuditedFact(NamedTuple):
    """A current fact. The columns are in the order of `audit_facts`."""

    docid: int
    id: str
    content: str
    origin: str
    subject: str | None
    same: str
    topic: str | None
    valid_to: int | None
    plan_id: str | None
    evidence: int
    heard: int
    """Number of passages of the evidence that do not come from an assistant."""


class AuditFinding(Response, frozen=True, kw_only=True):
    """A problem to review: `duplicate`, `contradiction`, `echo`, `orphan`, `stale` or `secret`."""

    problem: str
    ids: list[str]
    reason: str


class Audit(Response, frozen=True, kw_only=True):
    """The number of facts, the number of findings of each kind, and the first thousand findings."""

    facts: int
    counts: dict[str, int]
    findings: list[AuditFinding]


class AuditRequest(OwnerRequest, frozen=True, kw_only=True):
    """Selects the owner whose facts are audited."""


@owner_operation("audit", "GET /audit", user=Example({}, USER_DONE), flow=Example({}, FLOW_DONE))
def audit(space: Space, request: AuditRequest) -> Audit:
    """Find duplicates, contradictions, echoes, orphans, stale facts, and facts that look like secrets of a {owner}."""
    facts = list(_list_facts(space, request.owner.facts))
    problems = _find_problems(facts, space.now)
    return Audit(facts=len(facts), counts=dict(Counter(one.problem for one in problems)), findings=problems[:SHOWN])


def _list_facts(space: Space, place: Place) -> Iterator[AuditedFact]:
    collection = space.find_collection_id(place)
    after = ("", -1)
    while collection is not None:
        parameters = {"collection_id": collection, "after": after[0], "after_too": after[1], "limit": PAGE}
        rows = [AuditedFact(*row) for row in space.tx.rows("audit_facts", **parameters)]
        yield from rows
        if len(rows) < PAGE:
            return
        after = (rows[-1].same, rows[-1].docid)


def _find_problems(facts: Iterable[AuditedFact], now: int) -> list[AuditFinding]:
    findings: list[AuditFinding] = []
    by_words: dict[str, list[str]] = {}
    by_topic: dict[str, list[AuditedFact]] = {}

    def report(problem: str, ids: list[str], reason: str) -> None:
        findings.append(AuditFinding(problem=problem, ids=ids, reason=reason))

    for fact in facts:
        by_words.setdefault(fact.same, []).append(fact.id)
        if fact.topic is not None:
            by_topic.setdefault(fact.topic, []).append(fact)
        about_person = fact.subject is not None and "assistant" not in fact.subject.lower()
        if fact.plan_id is not None and not fact.evidence:
            report("orphan", [fact.id], "It was extracted from turns, but none of its evidence is left.")
        elif fact.plan_id is not None and not fact.heard and about_person:
            report("echo", [fact.id], "Its only source is the assistant.")
        if fact.valid_to is not None and fact.valid_to <= now:
            report("stale", [fact.id], "Its validity has ended, but it still counts as current.")
        if find_secret_in_fact(fact.content) is not None:
            report("secret", [fact.id], "It looks like a secret.")
    for ids in by_words.values():
        if len(ids) > 1:
            report("duplicate", ids, "They have the same words.")
    for about in by_topic.values():
        contradicting = _find_contradicting(about[:MAX_COMPARED], to_datetime(now).date())
        if contradicting:
            report("contradiction", contradicting, "Only one of them can be true at a time.")
    return findings


def _find_contradicting(facts: Sequence[AuditedFact], day: date) -> list[str]:
    """Return facts on one topic that contradict each other: reconciliation would let a later one supersede an earlier one."""
    ids: dict[str, None] = {}
    for later, earlier in combinations(sorted(facts, key=lambda fact: -fact.docid), 2):
        candidate = Candidate(later.content, later.subject, "statement", (), 0.5, 0.5)
        known = KnownFact(earlier.id, earlier.content, earlier.subject, day, 0.0)
        if reconcile(candidate, [known], day).do == "supersede":
            ids |= {earlier.id: None, later.id: None}
    return list(ids)
