"""Context: recalled memory made ready for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from ..clock import to_datetime
from ..dispatch import Call
from ..model.collection import Place
from ..model.entry import TRUST, Entry
from ..model.fields import Flow, SessionId, User
from ..model.query import Query, Where
from ..operation import Example, Request, Response, operation
from ..space import Space
from .memories import FLOW_PATH
from .places import flow_facts, flow_timeline, user_facts, user_timeline
from .recent import newest_first
from .search import FACTS, NOTES, AsOf, MinTrust, QueryText, query_text
from .sessions import NEWEST
from .turns import instant

RELEVANT = 40
"""How many facts are looked at; the budget decides how many are used."""
IMPORTANT, LATEST = 10, 200
"""How many facts are there whatever is asked, and among how many of the newest."""
LOOKED_AT = 5000
"""How many turns are looked at for those that were there at an earlier time."""

Budget = Annotated[int, Meta(ge=50, le=1_000_000, description="How many tokens it may take at most, as estimated.")]
Turns = Annotated[int, Meta(ge=0, le=500, description="How many of the newest turns to look at.")]


class Asked(Request, frozen=True, kw_only=True):
    """What the prompt is about, and how much room there is."""

    query: QueryText
    budget: Budget = 1500
    turns: Turns = 20
    min_trust: MinTrust | None = None
    as_of: AsOf | None = None


class UserContext(Asked, frozen=True, kw_only=True):
    """Whose memory."""

    user: User
    session: SessionId | None = None


class FlowContext(Asked, frozen=True, kw_only=True):
    """Which flow's memory; with a session, its newest turns as well."""

    flow: Flow
    session: SessionId | None = None


class LeftOut(Response, frozen=True, kw_only=True):
    """A turn, fact or record that is not in it: `budget`, it is too large; `older`, later turns took the room; `low_score`,
    better facts did."""

    what: str
    id: str
    reason: str


class Context(Response, frozen=True, kw_only=True):
    """Memory for a prompt, as `messages` and as `text`: records and facts first, in an order that stays, then the newest turns.
    What others have written is fenced, so that it cannot pass for instructions."""

    messages: list[dict[str, str]]
    text: str
    tokens: int
    facts: list[str]
    left_out: list[LeftOut]


@operation(
    "users.context",
    "POST /v1/users/{user}/context",
    bound="user",
    outside=True,
    example=Example(
        {"user": "alice", "query": "Plan a dinner"}, (("users.add", {"user": "alice", "content": "I am vegetarian."}),)
    ),
)
def context_of_user(call: Call, request: UserContext) -> Context:
    """What a prompt about a user needs: the newest turns and the facts that fit, within a budget of tokens."""
    facts = [Where(user_facts(request.user), None, FACTS), Where(user_timeline(request.user), None, NOTES)]
    turns = call.read(lambda space: _of_user(space, request))
    return _context(call, request, f"user/{request.user}", facts, turns)


@operation(
    "flows.context",
    "POST /v1/flows/{flow}/context",
    bound="flow",
    outside=True,
    example=Example(
        {"flow": "support", "query": "delivery area", "session": "alice-42"},
        (("flows.write", {"flow": "support", "content": "Ships to the EU only"}),),
    ),
)
def context_of_flow(call: Call, request: FlowContext) -> Context:
    """What a prompt in a flow needs: the newest turns of a session and the facts that fit, within a budget of tokens."""
    place = flow_facts(request.flow)
    own = [] if request.session is None else [Where(place, request.session, FACTS)]
    turns = call.read(lambda space: _of_session(space, flow_timeline(request.flow), request.session, request))
    return _context(call, request, f"flow/{request.flow}", [*own, Where(place, FLOW_PATH, FACTS)], turns)


FLOW_OPERATIONS = (context_of_flow,)
USER_OPERATIONS = (context_of_user,)


def _of_user(space: Space, request: UserContext) -> list[Entry]:
    place = user_timeline(request.user)
    if request.session is not None:
        return _of_session(space, place, request.session, request)
    before = [instant(request.as_of, "as_of") or NEWEST, NEWEST, NEWEST]
    found = newest_first(space, place, None, before, request.turns) if request.turns else []
    return [entry for _, entry, _ in reversed(found)]


def _of_session(space: Space, place: Place, session: str | None, request: Asked) -> list[Entry]:
    address = None if session is None else space.address(place, session)
    if address is None or not request.turns:
        return []
    until = instant(request.as_of, "as_of")
    found = space.last(address, request.turns if until is None else LOOKED_AT)
    return [entry for entry in found if until is None or entry.recorded_at <= until][-request.turns :]


def _context(call: Call, request: Asked, where: str, facts: Sequence[Where], turns: Sequence[Entry]) -> Context:
    from ..context.assemble import assemble
    from ..context.fence import token_for

    query = Query(
        text=query_text(request.query),
        where=tuple(facts),
        limit=RELEVANT,
        as_of=instant(request.as_of, "as_of"),
        min_trust=request.min_trust,
    )
    said = {entry.id for entry in turns}
    found = {hit.entry.id: (hit.entry, hit.score) for hit in call.engine.search(call.principal, query).hits}
    if request.as_of is None:
        rest = call.read(lambda space: _important(space, facts, request.min_trust))
        found = {entry.id: (entry, 0.0) for entry in rest} | found
    hits = [(entry, score) for entry, score in found.values() if entry.id not in said]
    token = token_for(call.engine.store.control.secret, f"{call.principal.tenant}/{where}")
    made = assemble(
        request.query,
        [_turn(entry) for entry in turns],
        [_fact(entry, score) for entry, score in hits],
        [],
        request.budget,
        token=token,
    )
    left_out = [LeftOut(what=one.what, id=one.id, reason=one.reason) for one in made.left_out]
    return Context(messages=made.messages, text=made.text, tokens=made.tokens, facts=made.facts, left_out=left_out)


def _important(space: Space, facts: Sequence[Where], min_trust: str | None) -> list[Entry]:
    """What is worth knowing whatever is asked: the most important of the newest facts."""
    addresses = [space.address(one.place, one.path or FLOW_PATH) for one in facts if one.kinds == FACTS]
    newest = [entry for address in addresses if address is not None for entry in space.last(address, LATEST)]
    trusted = [entry for entry in newest if min_trust is None or TRUST[entry.origin] >= TRUST[min_trust]]
    known = [entry for entry in trusted if entry.kind == "fact"]
    return sorted(known, key=lambda entry: (-(entry.importance or 0.0), entry.id))[:IMPORTANT]


def _turn(entry: Entry) -> Any:
    from ..context.values import RecentTurn

    return RecentTurn(entry.role or "user", entry.name, entry.content, to_datetime(entry.recorded_at), entry.id)


def _fact(entry: Entry, score: float) -> Any:
    from ..context.values import RelevantFact

    day: datetime = to_datetime(entry.created_at)
    return RelevantFact(entry.id, entry.content, score, entry.origin, None, day.date())
