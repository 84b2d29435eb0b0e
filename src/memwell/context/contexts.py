"""Context: recalled memory made ready for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation, user_records
from ..core.space import Space
from ..core.time_travel import AsOf, Moments, list_entries_at, list_facts_at
from ..core.turns import find_foreign_origin, list_newest
from ..facts.fact_rows import FACTS_PATH
from ..facts.search import FACTS, NOTES, MinTrust, query_text
from ..model.collection import TRUST, Entry, Place
from ..model.fields import SessionId, to_instant
from ..model.filter import Query, Where
from ..records.records import find_value_at, list_named
from ..records.user_records import find_contract
from ..records.validation import fill_defaults, list_misfits, secrets_in
from ..text.fence import encode_compact
from ..timelines.sessions import NEWEST

RELEVANT = 40
"""Number of candidate facts; the budget decides how many are used."""
IMPORTANT, LATEST = 10, 200
"""Number of important facts that are added to the hits of a query, and of the newest facts that they are chosen from."""
RECORDS = 100
"""Number of candidate records."""
LOOKED_AT = 5000
"""Number of turns to read for those that existed at an earlier time."""

About = Annotated[
    str,
    Meta(
        description="The subject of the prompt: words or a question, at most 64 KiB of text. Omit it for the newest turns and "
        "the most important facts."
    ),
]
Budget = Annotated[int, Meta(ge=50, le=1_000_000, description="Largest number of tokens, as estimated.")]
Turns = Annotated[int, Meta(ge=0, le=500, description="Number of the newest turns to include.")]


Scored = dict[str, tuple[Entry, float]]
"""Facts by id, each with its score."""


class ContextRequest(OwnerRequest, frozen=True, kw_only=True):
    """The subject of the prompt, and the budget. With a session, its newest turns are included."""

    query: About | None = None
    budget: Budget = 1500
    turns: Turns = 20
    min_trust: MinTrust | None = None
    as_of: AsOf | None = None
    session: SessionId | None = None


class LeftOut(Response, frozen=True, kw_only=True):
    """A turn, fact or record that was left out. Reasons: `budget` (too large), `older` (newer turns took the room), `low_score`
    (better facts did), `secret` (it looks like one), `misfit` (it does not match its schema any more), `many` (this record and
    all after it, by name, were not read)."""

    what: str
    id: str
    reason: str


class Context(Response, frozen=True, kw_only=True):
    """Memory for a prompt, as `messages` and as `text`: records and facts first, in a stable order, then the newest turns.
    Stored text is fenced, so that it cannot pass for instructions."""

    messages: list[dict[str, str]]
    text: str
    tokens: int
    facts: list[str]
    left_out: list[LeftOut]


@owner_operation(
    "context",
    "POST /context",
    outside=True,
    user=Example({"query": "Plan a dinner"}, (("users.add", {"user": "alice", "content": "I am vegetarian."}),)),
    flow=Example(
        {"query": "delivery area", "session": "alice-42"},
        (("flows.write", {"flow": "support", "content": "Ships to the EU only"}),),
    ),
)
def context(call: Call, request: ContextRequest) -> Context:
    """Assemble the memory of a {owner} for a prompt within a budget of tokens: records of a user, the newest turns, and the
    facts that fit."""
    owner = request.owner
    if owner.kind == "user":
        facts = [Where(owner.facts, None, FACTS), Where(owner.timeline, None, NOTES)]
        turns, records = call.read(lambda space: (_user_turns(space, request), _read_records(space, request)))
        return _assemble(call, request, facts, turns, records)
    own = [] if request.session is None else [Where(owner.facts, request.session, FACTS)]
    turns = call.read(lambda space: _session_turns(space, request))
    return _assemble(call, request, [*own, Where(owner.facts, FACTS_PATH, FACTS)], turns, _Records({}, ()))


class _Records(NamedTuple):
    """The records of a user by name, and those that are not shown."""

    values: Mapping[str, Any]
    left_out: Sequence[LeftOut]


def _user_turns(space: Space, request: ContextRequest) -> list[Entry]:
    """The newest turns of a user, across sessions unless one is named."""
    if request.session is not None:
        return _session_turns(space, request)
    before = [to_instant(request.as_of, "as_of") or NEWEST, NEWEST, NEWEST]
    found = list_newest(space, request.owner.timeline, None, before, request.turns) if request.turns else []
    return [entry for _, entry, _ in reversed(found)]


def _read_records(space: Space, request: ContextRequest) -> _Records:
    """The records of a user, now or as of another time. Those that do not fit their schema any more are left out."""
    place = user_records(request.owner.name)
    found, _ = list_named(space, place, "", RECORDS)
    until = to_instant(request.as_of, "as_of")
    further = _next_record(space, place, found[-1].path, until) if found else None
    values = {one.path: one.value if until is None else find_value_at(space, one, until) for one in found}
    known = {name: (value, find_contract(space, name)) for name, value in values.items() if value is not None}
    misfitting = {name for name, (value, held) in known.items() if list_misfits(value, held, space)}
    left_out = [LeftOut(what="record", id=name, reason="misfit") for name in sorted(misfitting)]
    left_out += [] if further is None else [LeftOut(what="record", id=further, reason="many")]
    return _Records({name: fill_defaults(*pair) for name, pair in known.items() if name not in misfitting}, left_out)


def _next_record(space: Space, place: Place, after: str, until: int | None) -> str | None:
    """The name of the next record after a name, if it existed at that moment."""
    while found := list_named(space, place, after, 1 if until is None else RECORDS)[0]:
        for one in found:
            if until is None or find_value_at(space, one, until) is not None:
                return one.path
        after = found[-1].path
    return None


def _session_turns(space: Space, request: ContextRequest) -> list[Entry]:
    address = None if request.session is None else space.address(request.owner.timeline, request.session)
    if address is None or not request.turns:
        return []
    until = to_instant(request.as_of, "as_of")
    found = space.last(address, request.turns if until is None else LOOKED_AT)
    return [entry for entry in found if until is None or entry.recorded_at <= until][-request.turns :]


def _assemble(
    call: Call, request: ContextRequest, facts: Sequence[Where], turns: Sequence[Entry], known: _Records
) -> Context:
    from ..text.fence import remove_token, token_for
    from .assemble import assemble

    records = known.values
    said = {entry.id for entry in turns}
    secret = [entry for entry in turns if _is_secret(entry)]
    token = token_for(
        call.engine.store.control.secret, f"{call.principal.tenant}/{request.owner.kind}/{request.owner.name}"
    )
    texts = {name: remove_token(encode_compact(value), token)[: request.budget * 8] for name, value in records.items()}
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


def _relevant(call: Call, facts: Sequence[Where], request: ContextRequest) -> Scored:
    """The facts that match the query, if there is one."""
    if request.query is None:
        return {}
    query = Query(
        text=query_text(request.query),
        where=tuple(facts),
        limit=RELEVANT,
        as_of=to_instant(request.as_of, "as_of"),
        min_trust=request.min_trust,
    )
    return {hit.entry.id: (hit.entry, hit.score) for hit in call.engine.search(call.principal, query).hits}


def _important(space: Space, facts: Sequence[Where], request: ContextRequest) -> Scored:
    """The most important of the newest facts. Without a query there are more of them, and importance decides which ones fit."""
    least = None if request.min_trust is None else TRUST[request.min_trust]
    known = [entry for entry in _newest(space, facts, request) if least is None or TRUST[entry.origin] >= least]
    known.sort(key=lambda entry: (-(entry.importance or 0.0), entry.id))
    if request.query is None:
        return {entry.id: (entry, entry.importance or 0.0) for entry in known[:RELEVANT]}
    return {entry.id: (entry, 0.0) for entry in known[:IMPORTANT]}


def _newest(space: Space, facts: Sequence[Where], request: ContextRequest) -> list[Entry]:
    places = [space.address(one.place, one.path or FACTS_PATH) for one in facts if one.kinds == FACTS]
    addresses = [address for address in places if address is not None]
    if request.as_of is None:
        return [entry for one in addresses for entry in space.last(one, LATEST) if entry.kind == "fact"]
    at = Moments(as_of=to_instant(request.as_of, "as_of"))
    found = [dated for one in addresses for dated in deque(list_facts_at(space, one, at), LATEST)]
    return [entry for entry, _ in list_entries_at(space, found)]


def _is_secret(entry: Entry) -> bool:
    """Return True if a turn looks like a secret. It is left out, as its fact is quarantined."""
    from ..screening.screen import find_suspicion

    found = find_suspicion(entry.content, entry.origin)  # type: ignore[arg-type]
    return found is not None and found.reason == "secret"


def _turn(entry: Entry) -> Any:
    from .assemble import RecentTurn

    role = find_foreign_origin(entry) or entry.role or "user"
    return RecentTurn(role, entry.name, entry.content, to_datetime(entry.recorded_at), entry.id)


def _record(name: str, text: str) -> Any:
    from .assemble import RecordText

    return RecordText(name, text)


def _fact(entry: Entry, score: float) -> Any:
    from .assemble import RelevantFact

    day: datetime = to_datetime(entry.created_at)
    return RelevantFact(entry.id, entry.content, score, entry.origin, None, day.date())
