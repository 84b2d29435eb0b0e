"""Searching what a user or a flow remembers, and asking why something was not found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Response, operation
from ..core.places import flow_facts, flow_timeline, user_facts, user_timeline
from ..core.time_travel import AtATime, fact_kinds, moments
from ..core.turns import instant, to_metadata
from ..errors import Invalid, NotFound, TooLarge
from ..model import check
from ..model.collection import Origin
from ..model.fields import AnyId, FilterField, Flow, Limit, SessionId, User
from ..model.filter import parse
from ..model.query import Query, Where
from .memories import FLOW_PATH

if TYPE_CHECKING:
    from ..search.search import Found

MAX_QUERY = 64 * 1024
NOTES = ("note",)
FACTS = ("fact",)

QueryText = Annotated[str, Meta(description="What to look for: words or a question, at most 64 KiB of text.")]
Include = Annotated[
    list[Literal["turns", "past"]],
    Meta(
        max_length=2,
        description='`["turns"]` searches what was said as well, not only facts and what was written; `["past"]` also what was '
        "true once.",
    ),
]
MinTrust = Annotated[
    Origin,
    Meta(
        description="Leave out what is based on less: `system` (written by the application), `user`, `assistant`, `tool` or "
        "`document`."
    ),
]
After = Annotated[datetime, Meta(description="Only what happened at this time or later (RFC 3339).")]
Before = Annotated[datetime, Meta(description="Only what happened before this time (RFC 3339).")]
MinScore = Annotated[float, Meta(ge=0, le=1, description="Leave out hits with a lower score; from 0 to 1.")]
Explain = Annotated[
    bool, Meta(description="Whether each hit says what every arm of the search contributed to its score.")
]
RecipeName = Annotated[str, Meta(max_length=32, description="How to weigh: `default`, `words` or `meaning`.")]

_FACT = {"flow": "support", "content": "Ships to the EU only", "importance": 0.8}
_HELLO = {"user": "alice", "content": "I am vegetarian and moved to Porto."}


class Search(AtATime, frozen=True, kw_only=True):
    """What to look for, and under which conditions."""

    query: QueryText
    limit: Limit = 5
    session: SessionId | None = None
    include: Include = msgspec.field(default_factory=list)
    filter: FilterField | None = None
    after: After | None = None
    before: Before | None = None
    min_score: MinScore = 0.0
    min_trust: MinTrust | None = None
    explain: Explain = False
    recipe: RecipeName = "default"


class Hit(Response, frozen=True, kw_only=True):
    """Something that was found. With `explain`, `arms` lists what each arm of the search contributed; they add up to
    the score."""

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
    arms: dict[str, float] | None = None


class Hits(Response, frozen=True, kw_only=True):
    """What was found, the best first; by which method, and in how many milliseconds."""

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
    """The one gate that kept an entry out: `scope`, `retired`, `expired`, `time`, `filter`, `score` or `rank`; `found`
    if none did."""

    id: str
    gate: str
    detail: str
    rank: int | None = None
    score: float | None = None


class SearchUser(Search, frozen=True, kw_only=True):
    """Whose memory to search."""

    user: User


class WhyNotUser(SearchUser, frozen=True, kw_only=True):
    """A search, and the entry that it did not find."""

    id: AnyId


class SearchFlow(Search, frozen=True, kw_only=True):
    """Which flow to search; with a session, that session and what the whole flow knows."""

    flow: Flow


class WhyNotFlow(SearchFlow, frozen=True, kw_only=True):
    """A search, and the entry that it did not find."""

    id: AnyId


@operation(
    "users.search",
    "POST /v1/users/{user}/search",
    bound="user",
    outside=True,
    example=Example({"user": "alice", "query": "Where does she live?"}, (("users.add", _HELLO),)),
)
def search_user(call: Call, request: SearchUser) -> Hits:
    """Search what is remembered of a user: facts and texts as they were added, and with `include` all that was said."""
    return _search(call, request, _of_user(request))


@operation(
    "users.why_not",
    "POST /v1/users/{user}/search/why-not",
    bound="user",
    outside=True,
    example=Example(
        {"user": "alice", "query": "Porto", "id": "$1.id", "limit": 1},
        (("users.add", _HELLO), ("flows.write", _FACT)),
    ),
)
def why_not_user(call: Call, request: WhyNotUser) -> WhyNot:
    """Why a search did not find an entry."""
    return _why_not(call, request, request.id, _of_user(request))


@operation(
    "flows.search",
    "POST /v1/flows/{flow}/search",
    bound="flow",
    outside=True,
    example=Example({"flow": "support", "query": "delivery area"}, (("flows.write", _FACT),)),
)
def search_flow(call: Call, request: SearchFlow) -> Hits:
    """Search what a flow knows, or one of its sessions; with `include` also what was said."""
    return _search(call, request, _of_flow(request))


@operation(
    "flows.why_not",
    "POST /v1/flows/{flow}/search/why-not",
    bound="flow",
    outside=True,
    example=Example({"flow": "support", "query": "delivery area", "id": "$0.id"}, (("flows.write", _FACT),)),
)
def why_not_flow(call: Call, request: WhyNotFlow) -> WhyNot:
    """Why a search did not find an entry."""
    return _why_not(call, request, request.id, _of_flow(request))


def _of_user(request: SearchUser) -> list[Where]:
    kinds = None if "turns" in request.include else NOTES
    timeline = Where(user_timeline(request.user), request.session, kinds)
    return [Where(user_facts(request.user), None, _fact_kinds(request)), timeline]


def _of_flow(request: SearchFlow) -> list[Where]:
    facts = flow_facts(request.flow)
    turns = [Where(flow_timeline(request.flow), request.session)] if "turns" in request.include else []
    kinds = _fact_kinds(request)
    if request.session is None:
        return [Where(facts, None, kinds), *turns]
    return [Where(facts, request.session, kinds), Where(facts, FLOW_PATH, kinds), *turns]


def _fact_kinds(request: Search) -> tuple[str, ...]:
    return fact_kinds(request.valid_at, past="past" in request.include)


def _search(call: Call, request: Search, where: Sequence[Where]) -> Hits:
    return to_hits(call.engine.search(call.principal, _query(request, where)), explain=request.explain)


def to_hits(found: Found, *, explain: bool, session: str | None = None) -> Hits:
    """What a search gave, as it is answered; `session` is where all of it is, if its own place does not say so."""
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
            arms=hit.arms if explain else None,
        )
        for hit in found.hits
    ]
    return Hits(hits=hits, method=found.method, took_ms=round(found.took_ms, 3), warning=found.warning)


def _why_not(call: Call, request: Search, entry_id: str, where: Sequence[Where]) -> WhyNot:
    gate = call.engine.why_not(call.principal, _query(request, where), entry_id)
    if gate.gate == "scope" and call.principal.tie is not None:
        raise NotFound("There is no such entry.")  # whether others have it is none of a tied key's business
    return WhyNot(id=entry_id, gate=gate.gate, detail=gate.detail, rank=gate.rank, score=gate.score)


def _query(request: Search, where: Sequence[Where]) -> Query:
    if len(set(request.include)) < len(request.include):
        raise Invalid("`include` names something twice.", field="include")
    at = moments(request)
    return Query(
        text=query_text(request.query),
        where=tuple(where),
        limit=request.limit,
        filter=parse(request.filter) if request.filter else None,
        after=instant(request.after, "after"),
        before=instant(request.before, "before"),
        min_score=check.number(request.min_score, "min_score") or 0.0,
        recipe=request.recipe,
        as_of=at.as_of,
        valid_at=at.valid_at,
        min_trust=request.min_trust,
    )


def query_text(query: str) -> str:
    if len(query) * 4 > MAX_QUERY and len(query.encode(errors="replace")) > MAX_QUERY:
        raise TooLarge("`query` is larger than 64 KiB: ask something shorter.", field="query")
    if not query.strip():
        raise Invalid("`query` is empty: give some words or a question.", field="query")
    return check.content(query, field="query")
