"""Context: recalled memory made ready for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.places import flow_facts, flow_timeline, user_facts, user_records, user_timeline
from ..core.space import Space
from ..core.time_travel import AsOf, Moments, entries_then, facts_then
from ..core.turns import instant, newest_first, passed_on
from ..facts.memories import FLOW_PATH
from ..facts.search import FACTS, NOTES, MinTrust, query_text
from ..model.collection import TRUST, Entry, Place
from ..model.fields import Flow, SessionId, User
from ..model.query import Query, Where
from ..records.records import find_value_at, list_named
from ..records.secrets import secrets_in
from ..records.user_records import find_contract
from ..records.validation import fill_defaults, list_misfits
from ..text.fence import compact
from ..timelines.sessions import NEWEST

RELEVANT = 40
"""How many facts are looked at; the budget decides how many are used."""
IMPORTANT, LATEST = 10, 200
"""How many facts are there whatever is asked, if something is, and among how many of the newest."""
RECORDS = 100
"""How many records are looked at."""
LOOKED_AT = 5000
"""How many turns are looked at for those that were there at an earlier time."""

About = Annotated[
    str,
    Meta(
        description="What the prompt is about: words or a question, at most 64 KiB of text. Left away: the newest turns and the "
        "most important facts."
    ),
]
Budget = Annotated[int, Meta(ge=50, le=1_000_000, description="How many tokens it may take at most, as estimated.")]
Turns = Annotated[int, Meta(ge=0, le=500, description="How many of the newest turns to look at.")]


Scored = dict[str, tuple[Entry, float]]
"""Facts by their ids, each with how much it matters."""


class Asked(Request, frozen=True, kw_only=True):
    """What the prompt is about, and how much room there is."""

    query: About | None = None
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
    better facts did; `secret`, it looks like one; `misfit`, it does not fit its schema any more; `many`, neither this record nor
    any behind it, by name, was looked at."""

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
    """What a prompt about a user needs: what is set, the newest turns and the facts that fit, within a budget of tokens."""
    facts = [Where(user_facts(request.user), None, FACTS), Where(user_timeline(request.user), None, NOTES)]
    turns, records = call.read(lambda space: (_of_user(space, request), _set_of(space, request)))
    return _context(call, request, f"user/{request.user}", facts, turns, records)


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


class _Set(NamedTuple):
    """What is set about a user, by name, and what of it is not shown."""

    values: Mapping[str, Any]
    left_out: Sequence[LeftOut]


def _of_user(space: Space, request: UserContext) -> list[Entry]:
    place = user_timeline(request.user)
    if request.session is not None:
        return _of_session(space, place, request.session, request)
    before = [instant(request.as_of, "as_of") or NEWEST, NEWEST, NEWEST]
    found = newest_first(space, place, None, before, request.turns) if request.turns else []
    return [entry for _, entry, _ in reversed(found)]


def _set_of(space: Space, request: UserContext) -> _Set:
    """What is set about a user, by name, as it is or as it was. What does not fit any more is withheld (C24)."""
    place = user_records(request.user)
    found = list_named(space, place, "", RECORDS)
    until = instant(request.as_of, "as_of")
    further = _further(space, place, found[-1].path, until) if found else None
    values = {one.path: one.value if until is None else find_value_at(space, one, until) for one in found}
    known = {name: (value, find_contract(space, name)) for name, value in values.items() if value is not None}
    misfitting = {name for name, (value, held) in known.items() if list_misfits(value, held, space)}
    left_out = [LeftOut(what="record", id=name, reason="misfit") for name in sorted(misfitting)]
    left_out += [] if further is None else [LeftOut(what="record", id=further, reason="many")]
    return _Set({name: fill_defaults(*pair) for name, pair in known.items() if name not in misfitting}, left_out)


def _further(space: Space, place: Place, after: str, until: int | None) -> str | None:
    """The next record behind a name; what came later than the moment that is asked for does not count."""
    while found := list_named(space, place, after, 1 if until is None else RECORDS):
        for one in found:
            if until is None or find_value_at(space, one, until) is not None:
                return one.path
        after = found[-1].path
    return None


def _of_session(space: Space, place: Place, session: str | None, request: Asked) -> list[Entry]:
    address = None if session is None else space.address(place, session)
    if address is None or not request.turns:
        return []
    until = instant(request.as_of, "as_of")
    found = space.last(address, request.turns if until is None else LOOKED_AT)
    return [entry for entry in found if until is None or entry.recorded_at <= until][-request.turns :]


def _context(
    call: Call,
    request: Asked,
    where: str,
    facts: Sequence[Where],
    turns: Sequence[Entry],
    known: _Set = _Set({}, ()),
) -> Context:
    from ..text.fence import token_for, without
    from .assemble import assemble

    records = known.values
    said = {entry.id for entry in turns}
    secret = [entry for entry in turns if _is_secret(entry)]
    token = token_for(call.engine.store.control.secret, f"{call.principal.tenant}/{where}")
    texts = {name: without(compact(value), token)[: request.budget * 8] for name, value in records.items()}
    secrets = [name for name, text in texts.items() if len(text) < request.budget * 8 and secrets_in(records[name])]
    found = call.read(lambda space: _important(space, facts, request)) | _relevant(call, facts, request)
    hits = [(entry, score) for entry, score in found.values() if entry.id not in said]
    made = assemble(
        request.query or "",
        [_turn(entry) for entry in turns if entry not in secret],
        [_fact(entry, score) for entry, score in hits],
        [_record(name, text) for name, text in texts.items() if name not in secrets],
        request.budget,
        token=token,
    )
    left_out = [LeftOut(what=one.what, id=one.id, reason=one.reason) for one in made.left_out]
    left_out += [LeftOut(what="turn", id=entry.id, reason="secret") for entry in secret]
    left_out += [LeftOut(what="record", id=name, reason="secret") for name in secrets]
    left_out += known.left_out
    return Context(messages=made.messages, text=made.text, tokens=made.tokens, facts=made.facts, left_out=left_out)


def _relevant(call: Call, facts: Sequence[Where], request: Asked) -> Scored:
    """What fits the question, if there is one."""
    if request.query is None:
        return {}
    query = Query(
        text=query_text(request.query),
        where=tuple(facts),
        limit=RELEVANT,
        as_of=instant(request.as_of, "as_of"),
        min_trust=request.min_trust,
    )
    return {hit.entry.id: (hit.entry, hit.score) for hit in call.engine.search(call.principal, query).hits}


def _important(space: Space, facts: Sequence[Where], request: Asked) -> Scored:
    """What is worth knowing whatever is asked: the most important of the newest facts. Where nothing is asked, there are more
    of them, and their importance decides which ones fit."""
    least = None if request.min_trust is None else TRUST[request.min_trust]
    known = [entry for entry in _newest(space, facts, request) if least is None or TRUST[entry.origin] >= least]
    known.sort(key=lambda entry: (-(entry.importance or 0.0), entry.id))
    if request.query is None:
        return {entry.id: (entry, entry.importance or 0.0) for entry in known[:RELEVANT]}
    return {entry.id: (entry, 0.0) for entry in known[:IMPORTANT]}


def _newest(space: Space, facts: Sequence[Where], request: Asked) -> list[Entry]:
    places = [space.address(one.place, one.path or FLOW_PATH) for one in facts if one.kinds == FACTS]
    addresses = [address for address in places if address is not None]
    if request.as_of is None:
        return [entry for one in addresses for entry in space.last(one, LATEST) if entry.kind == "fact"]
    at = Moments(as_of=instant(request.as_of, "as_of"))
    found = [dated for one in addresses for dated in deque(facts_then(space, one, at), LATEST)]
    return [entry for entry, _ in entries_then(space, found)]


def _is_secret(entry: Entry) -> bool:
    """Whether a turn looks like a secret: such a fact is held back, and so are the words that it was told in."""
    from ..screening.screen import find_suspicion

    found = find_suspicion(entry.content, entry.origin)  # type: ignore[arg-type]
    return found is not None and found.reason == "secret"


def _turn(entry: Entry) -> Any:
    from .assemble import RecentTurn

    role = passed_on(entry) or entry.role or "user"
    return RecentTurn(role, entry.name, entry.content, to_datetime(entry.recorded_at), entry.id)


def _record(name: str, text: str) -> Any:
    from .assemble import RecordText

    return RecordText(name, text)


def _fact(entry: Entry, score: float) -> Any:
    from .assemble import RelevantFact

    day: datetime = to_datetime(entry.created_at)
    return RelevantFact(entry.id, entry.content, score, entry.origin, None, day.date())
