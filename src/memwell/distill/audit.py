"""Looking for what should not be among facts: duplicates, contradictions, echoes, orphans, stale and secret-looking ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from .suspicion.suspect import suspect

Problem = Literal["duplicate", "contradiction", "echo", "orphan", "stale", "secret"]


class Audited(NamedTuple):
    """A current fact. Columns in the order of `audit_facts`."""

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
    """How much of the evidence was said by somebody else than the assistant."""


class Finding(NamedTuple):
    """Something that should be looked at: which facts, and why."""

    problem: Problem
    ids: tuple[str, ...]
    reason: str


def audit(facts: Iterable[Audited], now: int) -> list[Finding]:
    """What is wrong with some facts of one flow or user."""
    found: list[Finding] = []
    by_words: dict[str, list[str]] = {}
    by_topic: dict[str, list[Audited]] = {}
    for fact in facts:
        by_words.setdefault(fact.same, []).append(fact.id)
        if fact.topic is not None:
            by_topic.setdefault(fact.topic, []).append(fact)
        found += _alone(fact, now)
    for ids in by_words.values():
        if len(ids) > 1:
            found.append(Finding("duplicate", tuple(ids), "They say the same in the same words."))
    for about in by_topic.values():
        if len({fact.same for fact in about}) > 1:
            found.append(
                Finding("contradiction", tuple(fact.id for fact in about), "Only one of them can be true at a time.")
            )
    return found


def _alone(fact: Audited, now: int) -> list[Finding]:
    """What is wrong with a fact by itself."""
    found: list[Finding] = []
    if fact.plan_id is not None and not fact.evidence:
        found.append(Finding("orphan", (fact.id,), "It was distilled, and nothing that it was based on is left."))
    elif (
        fact.plan_id is not None
        and not fact.heard
        and fact.subject is not None
        and "assistant" not in fact.subject.lower()
    ):
        found.append(Finding("echo", (fact.id,), "Only the assistant has said it."))
    if fact.valid_to is not None and fact.valid_to <= now:
        found.append(Finding("stale", (fact.id,), "It is not true any more, and still counts as current."))
    suspicion = suspect(fact.content)
    if suspicion is not None and suspicion.reason == "secret":
        found.append(Finding("secret", (fact.id,), "It looks like a secret."))
    return found
