"""Audit facts: find duplicates, contradictions, echoes, orphans, stale facts, and facts that look like secrets.

For duplicates and contradictions, the audit names the pair and suggests which of them to keep. `suggest_plan` makes a plan of
these suggestions, which is applied and reverted like any other plan: a contradicted fact becomes a past fact, and a duplicate is
held in quarantine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from ..clock import to_datetime
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space
from ..ids import new_id
from ..model.collection import TRUST, Place
from ..model.fields import AnyId
from ..screening.secrets import find_secret_in_fact, mask_secrets
from .datatypes import Candidate, KnownFact, PlanBody, Step, StoredPlan, Target, encode_steps, find_session
from .fact_rows import FACTS_PATH
from .faithfulness import list_words
from .paraphrase import paraphrase_key
from .periods import find_period
from .plans import FLOW_DONE, USER_DONE, Plan, find_last_fact_seq, to_response, write_plan
from .reconcile import OPPOSITES, reconcile
from .wording import ParsedStatement, parse_statement, stems, subject_person

MAX_COMPARED = 50
"""Maximum number of facts on one topic or with the same words that are compared with each other."""
PAGE = 2000
SHOWN = 1000
MAX_STEPS = 1000
"""Maximum number of steps of a suggested plan."""


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
    version: int
    occurred_at: int
    valid_from: int | None

    @property
    def since(self) -> int:
        return self.occurred_at if self.valid_from is None else self.valid_from


class AuditFinding(Response, frozen=True, kw_only=True):
    """A problem to review: `duplicate`, `contradiction`, `echo`, `orphan`, `stale` or `secret`. Of the first two, `ids` and
    `texts` are a pair. `suggestion`: `end` or `hold` the one that is not to `keep`; null if a person has to decide."""

    problem: str
    ids: list[str]
    reason: str
    texts: tuple[str, ...] = ()
    keep: str | None = None
    suggestion: str | None = None


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
    problems = [*_find_problems(facts, space.now), *(_to_finding(pair) for pair in find_pairs(facts))]
    return Audit(facts=len(facts), counts=dict(Counter(one.problem for one in problems)), findings=problems[:SHOWN])


_ADDED = {"user": "alice", "content": "I live in Lisbon. I have a dog.", "session": "monday"}
_USER_PAIR = (
    ("users.add", _ADDED),
    ("users.consolidate", {"user": "alice", "session": "monday"}),
    ("users.update_memory", {"user": "alice", "id": "$1.plan.steps.1.id", "content": "Alice lives in Lisbon."}),
)
_FLOW_PAIR = (
    ("flows.write", {"flow": "support", "content": "The office is in Lisbon."}),
    ("flows.write", {"flow": "support", "content": "the office is in Lisbon"}),
)

Chosen = Annotated[
    tuple[AnyId, ...],
    Meta(max_length=MAX_STEPS, description="Only pairs with one of these memories; empty for all pairs."),
]


class AuditPlanRequest(OwnerRequest, frozen=True, kw_only=True):
    """The pairs to make a plan of."""

    ids: Chosen = ()


class AuditPlan(Response, frozen=True, kw_only=True):
    """The suggested plan; null if there is nothing to suggest."""

    plan: Plan | None = None


@owner_operation(
    "suggest_plan", "POST /audit/plan", effect="write", user=Example({}, _USER_PAIR), flow=Example({}, _FLOW_PAIR)
)
def suggest_plan(space: Space, request: AuditPlanRequest) -> AuditPlan:
    """Make a plan of what the audit of a {owner} suggests: end contradicted facts, and hold duplicates. It is not applied yet."""
    place = request.owner.facts
    pairs = find_pairs(list(_list_facts(space, place)))
    if (collection := space.find_collection_id(place)) is not None:
        space.mention(
            "collection", str(collection)
        )  # also if there is no plan, because the answer says so of these facts
    chosen = [pair for pair in pairs if not request.ids or {pair.kept.id, pair.other.id} & set(request.ids)]
    steps = [_to_step(pair) for pair in _list_suggested(chosen)][:MAX_STEPS]
    address = space.address(place, FACTS_PATH)
    session = None if address is None else find_session(space.tx, address.id)
    if not steps or session is None:
        return AuditPlan()
    plan = StoredPlan(
        id=new_id(),
        collection_id=session.collection_id,
        address_id=session.address_id,
        state="proposed",
        method="audit",
        note=None,
        head=find_last_fact_seq(space, session),
        first_seq=1,
        last_seq=0,
        steps=encode_steps(PlanBody(steps)),
        created_at=space.now,
        applied_at=None,
        reverted_at=None,
    )
    return AuditPlan(plan=to_response(space, write_plan(space, session, plan)))


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
    """Find the problems of single facts."""
    findings: list[AuditFinding] = []

    def report(problem: str, fact: AuditedFact, reason: str) -> None:
        findings.append(AuditFinding(problem=problem, ids=[fact.id], reason=reason))

    for fact in facts:
        about_person = fact.subject is not None and "assistant" not in fact.subject.lower()
        if fact.plan_id is not None and not fact.evidence:
            report("orphan", fact, "It was extracted from turns, but none of its evidence is left.")
        elif fact.plan_id is not None and not fact.heard and about_person:
            report("echo", fact, "Its only source is the assistant.")
        # a statement about a period of the past stays true
        if fact.valid_to is not None and fact.valid_to <= now and find_period(fact.content).until is None:
            report("stale", fact, "Its validity has ended, but it still counts as current.")
        if find_secret_in_fact(fact.content) is not None:
            report("secret", fact, "It looks like a secret.")
    return findings


# -- pairs


class FactPair(NamedTuple):
    """Two facts of which only one should stay current."""

    problem: Literal["duplicate", "contradiction"]
    kept: AuditedFact
    other: AuditedFact
    reason: str
    is_clear: bool
    """The other one can be ended or held without asking a person."""


class _Statement(NamedTuple):
    fact: AuditedFact
    subject: str
    parsed: ParsedStatement


def find_pairs(facts: Sequence[AuditedFact]) -> list[FactPair]:
    """Find duplicates and contradictions: in blocks of facts about one subject that fill one slot, or have the same words whether
    affirmed or denied."""
    blocks: defaultdict[tuple[str, object], list[_Statement]] = defaultdict(list)
    for fact in sorted(facts, key=lambda fact: (fact.occurred_at, fact.docid)):
        subject = fact.subject or _guess_subject(fact.content)
        statement = _Statement(fact, subject, parse_statement(fact.content, subject or None))
        person = subject_person(subject) if subject else ""
        for key in _block_keys(statement):
            blocks[person, key].append(statement)
    found: dict[frozenset[str], FactPair] = {}
    for block in blocks.values():
        for earlier, later in combinations(block[-MAX_COMPARED:], 2):
            ids = frozenset((earlier.fact.id, later.fact.id))
            if ids not in found and (pair := _compare(earlier, later)) is not None:
                found[ids] = pair
    return _drop_implied(found.values())


def _guess_subject(text: str) -> str:
    """Return the name at the beginning of a fact that the application wrote without a subject; empty if there is none."""
    first = next(iter(list_words(text)), "").removesuffix("'s").removesuffix("’s")
    return first if first[:1].isupper() and stems(first.lower()) else ""


def _block_keys(statement: _Statement) -> set[object]:
    wording = statement.parsed.wording
    words = frozenset(min(word, OPPOSITES.get(word, word)) for word in wording.words) | wording.numbers
    slots = {topic.slot for topic in statement.parsed.topics if topic.fills != "many"} if statement.subject else set()
    return {
        _normalize(statement.fact.content),
        words,
        paraphrase_key(statement.fact.content, statement.subject),
        *slots,
    }


def _compare(earlier: _Statement, later: _Statement) -> FactPair | None:
    old, new = earlier.fact, later.fact
    is_same = _normalize(old.content) == _normalize(new.content)
    if is_same or _is_paraphrase(earlier, later):
        kept, other = _choose(old, new)
        reason = "They have the same words." if is_same else "They say the same in other words."
        return FactPair("duplicate", kept, other, reason, is_clear=True)
    if not earlier.subject or _is_over(old, new):
        return None
    known = KnownFact(old.id, old.content, earlier.subject, to_datetime(old.occurred_at).date(), 0.0)
    candidate = Candidate(new.content, later.subject, "statement", (), 0.5, 0.5)
    if reconcile(candidate, [known], to_datetime(new.occurred_at).date()).do != "supersede":
        return None
    is_clear = TRUST[new.origin] >= TRUST[old.origin]  # a machine does not end what a person said
    return FactPair("contradiction", new, old, "Only one of them can be true at a time.", is_clear)


def _normalize(text: str) -> str:
    return " ".join(word.casefold() for word in list_words(text)) or text


def _is_paraphrase(one: _Statement, two: _Statement) -> bool:
    key = paraphrase_key(one.fact.content, one.subject)
    return key == paraphrase_key(two.fact.content, two.subject) and not _is_over(one.fact, two.fact)


def _is_over(old: AuditedFact, new: AuditedFact) -> bool:
    """Return True if the validity of one fact ends before that of the other begins."""
    return any(one.valid_to is not None and one.valid_to <= two.since for one, two in ((old, new), (new, old)))


def _choose(old: AuditedFact, new: AuditedFact) -> tuple[AuditedFact, AuditedFact]:
    """Return the duplicate to keep, and the other one."""
    return (old, new) if _rank_fact(old) <= _rank_fact(new) else (new, old)


def _rank_fact(fact: AuditedFact) -> tuple[int, int, int, int]:
    """Sort duplicates: the most trusted first, then those with more evidence, then the older."""
    return (-TRUST[fact.origin], -fact.evidence, fact.occurred_at, fact.docid)


def _drop_implied(pairs: Collection[FactPair]) -> list[FactPair]:
    """Keep one pair of a kind for each fact that should not stay: with the first fact that contradicts it, or the best duplicate.

    What is contradicted is not held as a duplicate too, because the two facts may be of two times: after a move and a move back.
    """
    chosen: dict[tuple[str, str], FactPair] = {}
    for pair in pairs:
        first = chosen.setdefault((pair.problem, pair.other.id), pair)
        if _rank(pair) < _rank(first):
            chosen[pair.problem, pair.other.id] = pair
    disputed = {one.id for pair in pairs if pair.problem == "contradiction" for one in (pair.kept, pair.other)}
    return [
        pair._replace(is_clear=False)
        if pair.problem == "duplicate" and {pair.kept.id, pair.other.id} & disputed
        else pair
        for pair in chosen.values()
    ]


def _rank(pair: FactPair) -> tuple[object, ...]:
    return _rank_fact(pair.kept) if pair.problem == "duplicate" else (pair.kept.occurred_at, pair.kept.docid)


def _list_suggested(pairs: Sequence[FactPair]) -> list[FactPair]:
    """Return the clear pairs, in an order in which each fact that stays is current when its step is applied."""
    clear = [pair for pair in pairs if pair.is_clear]
    return sorted(clear, key=lambda pair: (pair.kept.occurred_at, pair.kept.docid, pair.other.docid))


def _to_finding(pair: FactPair) -> AuditFinding:
    facts = (pair.kept, pair.other)
    suggestion = "hold" if pair.problem == "duplicate" else "end"
    return AuditFinding(
        problem=pair.problem,
        ids=[one.id for one in facts],
        reason=pair.reason,
        texts=tuple(mask_secrets(one.content) for one in facts),
        keep=pair.kept.id if pair.is_clear else None,
        suggestion=suggestion if pair.is_clear else None,
    )


def _to_step(pair: FactPair) -> Step:
    is_duplicate = pair.problem == "duplicate"
    return Step(
        do="hold" if is_duplicate else "end",
        reason=pair.problem,
        text="",
        kind="statement",
        evidence=[],
        importance=0.0,
        confidence=0.0,
        origin=pair.kept.origin,
        same="",
        valid_from=max(pair.kept.since, pair.other.since),
        id=pair.kept.id,
        subject=pair.kept.subject,
        targets=[Target(pair.other.id, pair.other.version, 1.0)],
        held="duplicate" if is_duplicate else None,
    )
