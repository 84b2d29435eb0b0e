"""Search the memory of a user or a flow, and explain why a search did not find an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Response
from ..core.owners import owner_operation
from ..core.space import Space
from ..core.time_travel import TimeTravelRequest, fact_kinds, to_moments
from ..errors import Invalid, NotFound, TooLarge
from ..model.collection import Origin
from ..model.field_readers import moment_limits
from ..model.fields import AnyId, FilterField, Limit, SessionId, check_content, check_number, to_instant, to_metadata
from ..model.filter import Query, Where, parse
from .fact_rows import FACTS_PATH, StoredFact

if TYPE_CHECKING:
    from ..search.search_engine import SearchResult

MAX_QUERY = 64 * 1024
NOTES = ("note",)
FACTS = ("fact",)
NO_SUBJECTS: Mapping[str, str | None] = {}

QueryText = Annotated[
    str,
    Meta(
        description="Words or a question, at most 64 KiB of text.",
        extra={"bytes": MAX_QUERY},
        extra_json_schema={"minLength": 1},
    ),
]
Include = Annotated[
    list[Literal["turns", "past"]],
    Meta(
        max_length=2,
        description='`["turns"]` also searches turns, `["past"]` also facts that are no longer true.',
    ),
]
MinTrust = Annotated[
    Origin,
    Meta(
        description="Omit hits from less trusted origins. From most to least trusted: `system` (written by the application), "
        "`user`, `assistant`, `tool`, `document`."
    ),
]
After = Annotated[datetime, moment_limits("Return only entries that happened at this time or later")]
Before = Annotated[datetime, moment_limits("Return only entries that happened before this time")]
MinScore = Annotated[
    float,
    Meta(
        ge=0,
        le=1,
        description="Omit hits with a lower score; from 0 to 1. By default, hits that are very unlikely to be right are "
        "omitted; 0 shows all.",
    ),
]
Explain = Annotated[bool, Meta(description="Show how much each arm of the search contributed to the score of a hit.")]
RecipeName = Annotated[str, Meta(max_length=32, description="The weighting: `default`, `words` or `meaning`.")]

_FACT = {"flow": "support", "content": "Ships to the EU only", "importance": 0.8}
_HELLO = {"user": "alice", "content": "I am vegetarian and moved to Porto."}


class Search(TimeTravelRequest, frozen=True, kw_only=True):
    """A query, and the conditions that hits must meet."""

    query: QueryText
    limit: Limit = 5
    session: SessionId | None = None
    include: Include = msgspec.field(default_factory=list)
    filter: FilterField | None = None
    after: After | None = None
    before: Before | None = None
    min_score: MinScore | None = None
    min_trust: MinTrust | None = None
    explain: Explain = False
    recipe: RecipeName = "default"


class Hit(Response, frozen=True, kw_only=True):
    """A hit. A long entry has a `passage` that fits best, and its place in the content. `subject`: the person that a fact is
    about. With `explain`, `arms` lists the contribution of each arm of the search; they add up to the score."""

    id: str
    content: str
    score: float
    kind: str
    created_at: datetime
    occurred_at: datetime
    session: str | None = None
    role: str | None = None
    name: str | None = None
    importance: float | None = None
    confidence: float | None = None
    metadata: dict[str, Any] | None = None
    passage: str | None = None
    passage_start: int | None = None
    arms: dict[str, float] | None = None
    subject: str | None = None


class Hits(Response, frozen=True, kw_only=True):
    """The hits, best first, the search method, and the duration of the search."""

    hits: list[Hit]
    method: str
    took_ms: float
    warning: str | None = None

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Any:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]


class WhyNot(Response, frozen=True, kw_only=True):
    """The gate that excluded an entry: `scope`, `retired`, `expired`, `time`, `filter`, `score` or `rank`; `found` if the search
    returns the entry."""

    id: str
    gate: str
    detail: str
    rank: int | None = None
    score: float | None = None


@owner_operation(
    "search",
    "POST /search",
    outside=True,
    user=Example({"query": "Where does she live?"}, (("users.add", _HELLO),)),
    flow=Example({"query": "delivery area"}, (("flows.write", _FACT),)),
)
def search(call: Call, request: Search) -> Hits:
    """Search the facts and notes of a {owner}, and with `include` also turns. With a `session`, search only that session and
    facts about the whole {owner}."""
    result = call.engine.search(call.principal, _to_query(request))
    facts = [hit.entry.id for hit in result.hits if hit.entry.kind in ("fact", "past")]
    # what a search for a past moment returns must not change, but the subject of a fact can
    subjects = call.read(_find_subjects, facts) if facts and request.as_of is None else {}
    return to_hits(result, explain=request.explain, subjects=subjects)


def _find_subjects(space: Space, ids: Sequence[str]) -> dict[str, str | None]:
    rows = space.tx.rows("facts_of", ids=msgspec.json.encode(ids).decode())
    return {fact.id: fact.subject for fact in (StoredFact(*row) for row in rows)}


class WhyNotSearch(Search, frozen=True, kw_only=True):
    """A search, and the entry that it did not find."""

    id: AnyId


@owner_operation(
    "why_not",
    "POST /search/why-not",
    outside=True,
    user=Example({"query": "Porto", "id": "$1.id", "limit": 1}, (("users.add", _HELLO), ("flows.write", _FACT))),
    flow=Example({"query": "delivery area", "id": "$0.id"}, (("flows.write", _FACT),)),
)
def why_not(call: Call, request: WhyNotSearch) -> WhyNot:
    """Explain why a search did not find an entry."""
    gate = call.engine.why_not(call.principal, _to_query(request), request.id)
    if gate.gate == "scope" and call.principal.scope is not None:
        raise NotFound("There is no such entry.")  # a scoped key must not learn that the entry exists
    return WhyNot(id=request.id, gate=gate.gate, detail=gate.detail, rank=gate.rank, score=gate.score)


def to_hits(
    result: SearchResult,
    *,
    explain: bool,
    session: str | None = None,
    subjects: Mapping[str, str | None] = NO_SUBJECTS,
) -> Hits:
    """Return the response for a search result. `session` replaces the sessions of the hits. `subjects`: those of facts by id."""
    hits = [
        Hit(
            id=hit.entry.id,
            content=hit.entry.content,
            score=round(hit.score, 6),
            kind=hit.entry.kind,
            created_at=to_datetime(hit.entry.created_at),
            occurred_at=to_datetime(hit.entry.occurred_at),
            session=session or hit.path or None,
            role=hit.entry.role,
            name=hit.entry.name,
            importance=hit.entry.importance,
            confidence=hit.entry.confidence,
            metadata=to_metadata(hit.entry.metadata),
            passage=hit.passage.text if hit.passage else None,
            passage_start=hit.passage.start if hit.passage else None,
            arms=hit.arms if explain else None,
            subject=subjects.get(hit.entry.id),
        )
        for hit in result.hits
    ]
    return Hits(hits=hits, method=result.method, took_ms=round(result.took_ms, 3), warning=result.warning)


def _to_query(request: Search) -> Query:
    if len(set(request.include)) < len(request.include):
        raise Invalid("`include` has a duplicate: list each value once.", field="include")
    at = to_moments(request)
    return Query(
        text=query_text(request.query),
        where=tuple(_places(request)),
        limit=request.limit,
        filter=parse(request.filter) if request.filter else None,
        after=to_instant(request.after, "after"),
        before=to_instant(request.before, "before"),
        min_score=check_number(request.min_score, "min_score"),
        recipe=request.recipe,
        as_of=at.as_of,
        valid_at=at.valid_at,
        min_trust=request.min_trust,
    )


def _places(request: Search) -> list[Where]:
    """Return the parts of an owner's memory to search."""
    owner, session = request.owner, request.session
    with_turns = "turns" in request.include
    kinds = fact_kinds(request.valid_at, past="past" in request.include)
    if owner.kind == "user":
        return [Where(owner.facts, None, kinds), Where(owner.timeline, session, None if with_turns else NOTES)]
    turns = [Where(owner.timeline, session)] if with_turns else []
    if session is None:
        return [Where(owner.facts, None, kinds), *turns]
    return [Where(owner.facts, session, kinds), Where(owner.facts, FACTS_PATH, kinds), *turns]


def query_text(query: str) -> str:
    if len(query) * 4 > MAX_QUERY and len(query.encode(errors="replace")) > MAX_QUERY:
        raise TooLarge("`query` is larger than 64 KiB: shorten it.", field="query")
    if not query.strip():
        raise Invalid("`query` is empty: give some words or a question.", field="query")
    return check_content(query, field="query")
