"""Dialogues that judge reconciliation, a memory that is but a dictionary to run them through, and the judge.

The format of the dialogues is described in `dialogues/README.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from memwell.facts.datatypes import Candidate, KnownFact, Source, Turn
from memwell.facts.reconcile import Decision, combine_confidence, reconcile
from memwell.models.wordllama import WordLlama

FOLDER = Path(__file__).with_name("dialogues")


class Line(NamedTuple):
    said: Turn
    fact: str | None
    kind: Any


class Dialogue(NamedTuple):
    name: str
    sessions: list[list[Line]]
    same: list[list[str]]
    past: list[str]
    current: list[str]
    apart: list[list[str]]
    about: str


Extract = Callable[[Sequence[Line]], Iterable[Candidate]]


@dataclass
class Fact:
    id: str
    text: str
    subject: str | None
    day: date
    confidence: float
    evidence: set[str]
    past: bool = False
    reasons: list[str] = field(default_factory=list)


def dialogues(group: str) -> list[Dialogue]:
    return [_dialogue(told) for told in json.loads((FOLDER / f"{group}.json").read_text(encoding="utf-8"))]


def _dialogue(told: dict[str, Any]) -> Dialogue:
    sessions = [[_turn(row, session["day"]) for row in session["turns"]] for session in told["sessions"]]
    same, past, current, apart = (told.get(name, []) for name in ("same", "past", "current", "apart"))
    return Dialogue(told["name"], sessions, same, past, current, apart, told.get("about", ""))


def _turn(row: list[str], day: str) -> Line:
    role = "assistant" if row[1] == "Assistant" else "user"
    said = Turn(row[0], role, row[1], row[2], date.fromisoformat(day))
    return Line(said, row[3] if len(row) > 3 else None, row[4] if len(row) > 4 else "statement")


def worded_by_hand(turns: Sequence[Line]) -> Iterable[Candidate]:
    """The facts that the corpus gives with its turns: what a good extractor would make of them."""
    for said, fact, kind in turns:
        if fact:
            yield Candidate(fact, said.speaker, kind, (Source(said.id, 0, len(said.text)),), 0.5, 0.8)


def remember(dialogue: Dialogue, extract: Extract) -> list[Fact]:
    """Run a dialogue through extraction and reconciliation; every current fact is everybody's neighbour."""
    facts: dict[str, Fact] = {}
    for session in dialogue.sessions:
        for candidate in extract(session):
            _apply(facts, candidate, session[0].said.day)
    return list(facts.values())


def _apply(facts: dict[str, Fact], candidate: Candidate, day: date) -> None:
    near = [
        KnownFact(fact.id, fact.text, fact.subject, fact.day, similarity(fact.text, candidate.text))
        for fact in facts.values()
        if not fact.past
    ]
    decision = reconcile(candidate, near, day)
    evidence = {candidate.sources[0].id}  # the turn that says it; what else it takes to understand it is not judged
    if decision.do == "merge":
        _merge(facts[decision.targets[0]], candidate, evidence, decision)
    elif decision.do != "skip":
        for fact_id in decision.targets if decision.do == "supersede" else ():
            facts[fact_id].past = True
        name = str(len(facts))
        new = Fact(name, candidate.text, candidate.subject, day, candidate.confidence, evidence, decision.past)
        new.reasons.append(decision.reason)
        facts[name] = new


def _merge(fact: Fact, candidate: Candidate, evidence: set[str], decision: Decision) -> None:
    fact.evidence |= evidence
    fact.confidence = combine_confidence(fact.confidence, candidate.confidence)
    fact.reasons.append(decision.reason)


def wrong(dialogue: Dialogue, facts: Sequence[Fact]) -> str | None:
    """What is not as it should be; None if nothing."""
    meant = [fact for fact in facts if re.search(dialogue.about, fact.text, re.IGNORECASE)]
    for turns in dialogue.same:
        told = _citing(meant, turns)
        if len(told) != 1 or not set(turns) <= told[0].evidence or told[0].past:
            return f"{turns} should be one current fact, are {len(told)}"
    for turn, past in [*((turn, True) for turn in dialogue.past), *((turn, False) for turn in dialogue.current)]:
        told = _citing(meant, [turn])
        if not told or any(fact.past is not past for fact in told):
            return f"{turn} should be {'past' if past else 'current'}: {len(told)} facts"
    return _not_apart(dialogue, meant)


def _not_apart(dialogue: Dialogue, meant: Sequence[Fact]) -> str | None:
    groups = [_citing(meant, turns) for turns in dialogue.apart]
    if any(not told or any(fact.past for fact in told) for told in groups):
        return "each should have a fact of its own that stays"
    cited = [fact.id for told in groups for fact in told]
    return None if len(cited) == len(set(cited)) else "these should not be one fact"


def _citing(facts: Sequence[Fact], turns: Sequence[str]) -> list[Fact]:
    return [fact for fact in facts if fact.evidence & set(turns)]


def judged(group: str, extract: Extract) -> tuple[float, str]:
    """The share of a group's dialogues that come out right, and an account of those that do not."""
    told = dialogues(group)
    account = []
    for dialogue in told:
        facts = remember(dialogue, extract)
        failure = wrong(dialogue, facts)
        if failure:
            account += [f"{group}: {dialogue.name}: {failure}", *(f"    {_shown(fact)}" for fact in facts)]
    failed = sum(not line.startswith(" ") for line in account)
    return 1 - failed / len(told), "\n".join(account)


def _shown(fact: Fact) -> str:
    return f"{'past   ' if fact.past else 'current'} {fact.text} {sorted(fact.evidence)} {fact.reasons}"


def similarity(one: str, two: str) -> float:
    left, right = _embedder().embed([one, two])
    return max(0.0, float(left @ right))


@cache
def _embedder() -> WordLlama:
    return WordLlama()
