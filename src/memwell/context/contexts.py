"""Context: recalled memory for a prompt within a budget of tokens, as messages and as one text.

Stored text is inside a fence, or in a message of its own. Parts that change slowly come first, so that prompt caches can
reuse the beginning: a fixed preamble, records, facts in the order they were recorded (not by score, which changes with every
query), then the turns, the oldest first. The token of the fence is new each time, or stays the same with `stable_prefix`.

The newest turn has priority. Turns take up to six tenths of the budget, records and facts the rest. Each part may use the room
that the other one leaves.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from heapq import nlargest
from itertools import groupby
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation, user_records
from ..core.space import Space
from ..core.time_travel import AsOf, FactLife, Moments, list_entries_at, list_facts_at, list_facts_in
from ..core.turns import find_foreign_origin, list_newest
from ..facts.fact_rows import FACTS_PATH
from ..facts.memories import count_quarantined
from ..facts.search import FACTS, MAX_QUERY, NOTES, MinTrust, query_text
from ..model.collection import TRUST, Entry, Place
from ..model.fields import SessionId, to_instant
from ..model.filter import Query, Where
from ..records.records import find_value_at, list_named
from ..records.user_records import find_contract
from ..records.validation import fill_defaults, list_misfits, secrets_in
from ..screening.screen import ORDER, is_trusted
from ..screening.secrets import find_secret_in_fact, list_answered
from ..text.fence import (
    PREAMBLE,
    TOKEN_BYTES,
    close_fence,
    encode_compact,
    fence,
    fence_item,
    fence_line,
    neutralise_turn,
    open_fence,
    remove_token,
    token_for,
)
from ..text.tokens import CHARACTERS_PER_TOKEN, MESSAGE, estimate_tokens
from ..timelines.sessions import NEWEST

RELEVANT = 40
"""Number of candidate facts; the budget decides how many are used."""
IMPORTANT, LATEST = 10, 200
"""The number of important facts that are added to the hits of a query, and of the newest facts to choose them from."""
RECORDS = 100
"""Number of candidate records."""
LOOKED_AT = 5000
"""Number of turns to read for those that existed at an earlier time."""
TURNS_SHARE = 0.6
"""The part of the budget that turns may take before facts and records."""

About = Annotated[
    str,
    Meta(
        description="The subject of the prompt: words or a question, at most 64 KiB of text. Omit it for the newest turns and "
        "the most important facts.",
        extra={"bytes": MAX_QUERY},
    ),
]
Budget = Annotated[int, Meta(ge=50, le=1_000_000, description="Largest number of tokens, as estimated.")]
Turns = Annotated[int, Meta(ge=0, le=500, description="Number of the newest turns to include.")]


StablePrefix = Annotated[
    bool,
    Meta(description="True to give the fence the same token every time, for prompt caches that need the same prefix."),
]
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
    stable_prefix: StablePrefix = False


class LeftOut(Response, frozen=True, kw_only=True):
    """A turn, fact or record that was left out. Reasons: `budget` (too large), `older` (newer turns took the room), `low_score`
    (better facts took the room), `secret` (it looks like a secret), `misfit` (it no longer matches its schema), `many` (this
    record and all later ones, by name, were not read)."""

    what: str
    id: str
    reason: str


class Context(Response, frozen=True, kw_only=True):
    """Memory for a prompt, as `messages` and as `text`: records and facts first, in a stable order, then the newest turns.
    Stored text is fenced, so that a model cannot mistake it for instructions. `held`: the number of quarantined facts, which are
    in no context."""

    messages: list[dict[str, str]]
    text: str
    tokens: int
    facts: list[str]
    left_out: list[LeftOut]
    held: int = 0


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
    paths = [None] if request.session is None else [request.session, FACTS_PATH]
    turns = call.read(lambda space: _session_turns(space, request))
    facts = [Where(owner.facts, path, FACTS) for path in paths]
    return _assemble(call, request, facts, turns, _Records({}, ()))


class _Records(NamedTuple):
    """The records of a user by name, and those that were left out."""

    values: Mapping[str, Any]
    left_out: Sequence[LeftOut]


def _user_turns(space: Space, request: ContextRequest) -> list[Entry]:
    """Return the newest turns of a user, of all sessions unless the request names one."""
    if request.session is not None:
        return _session_turns(space, request)
    before = [to_instant(request.as_of, "as_of") or NEWEST, NEWEST, NEWEST]
    found = list_newest(space, request.owner.timeline, None, before, request.turns) if request.turns else []
    return [entry for _, entry, _ in reversed(found)]


def _read_records(space: Space, request: ContextRequest) -> _Records:
    """Return the records of a user, now or as of another time. Leave out those that no longer fit their schema."""
    place = user_records(request.owner.name)
    found, _ = list_named(space, place, "", RECORDS)
    until = to_instant(request.as_of, "as_of")
    further = _next_record(space, place, found[-1].path, until) if found else None
    values = {one.path: one.value if until is None else find_value_at(space, one, until) for one in found}
    pairs = {name: (value, find_contract(space, name)) for name, value in values.items() if value is not None}
    misfitting = {name for name, (value, contract) in pairs.items() if list_misfits(value, contract, space)}
    left_out = [LeftOut(what="record", id=name, reason="misfit") for name in sorted(misfitting)]
    left_out += [] if further is None else [LeftOut(what="record", id=further, reason="many")]
    return _Records({name: fill_defaults(*pair) for name, pair in pairs.items() if name not in misfitting}, left_out)


def _next_record(space: Space, place: Place, after: str, until: int | None) -> str | None:
    """Return the name of the next record after a name that existed at a moment."""
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
    call: Call, request: ContextRequest, facts: Sequence[Where], turns: Sequence[Entry], records: _Records
) -> Context:
    turn_ids = {entry.id for entry in turns}
    token = secrets.token_hex(TOKEN_BYTES)
    if request.stable_prefix:
        place = f"{call.principal.tenant}/{request.owner.kind}/{request.owner.name}"
        token = token_for(call.engine.store.control.secret, place)
    longest = request.budget * CHARACTERS_PER_TOKEN
    said = {entry.id: remove_token(entry.content, token) for entry in turns}
    befores = ["", *(entry.content for entry in turns[:-1])]
    pairs = [(before, entry) for before, entry in zip(befores, turns, strict=False) if len(said[entry.id]) <= longest]
    secret = [entry for before, entry in pairs if list_answered(before, entry.content)]
    texts = {name: remove_token(encode_compact(value), token)[:longest] for name, value in records.values.items()}
    withheld = [name for name, text in texts.items() if len(text) < longest and secrets_in(records.values[name])]
    found = call.read(lambda space: _important(space, facts, request)) | _relevant(call, facts, request)
    secret_facts = [entry_id for entry_id, (entry, _) in found.items() if find_secret_in_fact(entry.content)]
    context = assemble(
        [
            RecentTurn(
                find_foreign_origin(entry) or entry.role or "user",
                entry.name,
                said[entry.id][: longest + CHARACTERS_PER_TOKEN],  # more does not fit
                to_datetime(entry.recorded_at),
                entry.id,
            )
            for entry in turns
            if entry not in secret
        ],
        [
            RelevantFact(entry.id, entry.content, score, entry.origin, to_datetime(entry.created_at).date())
            for entry, score in found.values()
            if entry.id not in turn_ids and entry.id not in secret_facts
        ],
        {name: text for name, text in texts.items() if name not in withheld},
        request.budget,
        token=token,
    )
    context.left_out.extend(LeftOut(what="turn", id=entry.id, reason="secret") for entry in secret)
    context.left_out.extend(LeftOut(what="fact", id=entry_id, reason="secret") for entry_id in secret_facts)
    context.left_out.extend(LeftOut(what="record", id=name, reason="secret") for name in withheld)
    context.left_out.extend(records.left_out)
    return replace(context, held=call.read(lambda space: count_quarantined(space, request.owner.facts)))


def _relevant(call: Call, facts: Sequence[Where], request: ContextRequest) -> Scored:
    """Return the facts that match the query, if there is one."""
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
    """Return the most important of the newest facts. Without a query there are more of them, and importance is their score."""
    least = None if request.min_trust is None else TRUST[request.min_trust]
    known = [entry for entry in _newest(space, facts, request) if least is None or TRUST[entry.origin] >= least]
    known.sort(key=lambda entry: (-(entry.importance or 0.0), entry.id))
    if request.query is None:
        return {entry.id: (entry, entry.importance or 0.0) for entry in known[:RELEVANT]}
    return {entry.id: (entry, 0.0) for entry in known[:IMPORTANT]}


def _newest(space: Space, facts: Sequence[Where], request: ContextRequest) -> list[Entry]:
    """Return the newest facts of each part of memory."""
    places = [(one.place, one.path) for one in facts if one.kinds == FACTS]
    if request.as_of is None:
        found = [entry for place, path in places for entry in _newest_in(space, place, path)]
        return [entry for entry in found if entry.kind == "fact"]
    at = Moments(as_of=to_instant(request.as_of, "as_of"))
    lives = [one for place, path in places for one in nlargest(LATEST, _list_lives(space, place, path, at), key=_age)]
    return [entry for entry, _ in list_entries_at(space, lives)]


def _newest_in(space: Space, place: Place, path: str | None) -> list[Entry]:
    if path is None:
        return [entry for _, entry, _ in list_newest(space, place, None, [NEWEST] * 3, LATEST)]
    address = space.address(place, path)
    return [] if address is None else space.last(address, LATEST)


def _list_lives(space: Space, place: Place, path: str | None, at: Moments) -> Iterator[FactLife]:
    if path is None:
        return (one for _, one in list_facts_in(space, place, at))
    address = space.address(place, path)
    return iter(()) if address is None else list_facts_at(space, address, at)


def _age(life: FactLife) -> tuple[int, int]:
    return life.known_from, life.docid


# -- within a budget -----------------------------------------------------------------------------------------------------


class RecentTurn(NamedTuple):
    """A turn of the current conversation."""

    role: str
    name: str | None
    text: str
    at: datetime
    id: str


class RelevantFact(NamedTuple):
    """A fact that a search found, with the least trusted origin of its evidence and the day it was recorded."""

    id: str
    text: str
    score: float
    origin: str
    day: date

    @property
    def group(self) -> str:
        """The origin that its fence names. Trusted facts share one fence without an origin."""
        return "" if is_trusted(self.origin) else _origin_label(self.origin)


def assemble(
    turns: Sequence[RecentTurn], facts: Sequence[RelevantFact], records: Mapping[str, str], budget: int, *, token: str
) -> Context:
    """Choose turns, facts and records that fit into the budget. `records` has texts by name."""
    turns = sorted(turns, key=lambda turn: turn.at)
    messages = [_build_message(turn, token) for turn in turns]
    lines = [_render_turn(turn, token) for turn in turns]
    sizes = [estimate_tokens(message["content"]) + MESSAGE for message in messages]
    costs = [max(_count_line(line), size) for line, size in zip(lines, sizes, strict=True)]
    fence_size = _count_fence(token)
    first = _first_newest(costs, int(budget * TURNS_SHARE) - fence_size, budget - fence_size)
    spent = sum(costs[first:]) + fence_size if first < len(costs) else 0
    room = _Budget(budget - spent, token)
    rendered = {name: f"[{fence_line(name, token)}] {fence_item(text, token)}" for name, text in records.items()}
    chosen_records = {name: line for name, line in rendered.items() if room.take(line, "records")}
    fact_lines = {fact.id: f"- [{fact.day.isoformat()}] {fence_line(fact.text, token)}" for fact in facts}
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.day, fact.id))
    chosen = [fact for fact in ranked if room.take(fact_lines[fact.id], fact.group or "facts")]
    if room.left >= 0:
        first = _extend(costs, first, room.left - (fence_size if first == len(costs) else 0))
    # Records, then trusted facts, then the others by origin.
    blocks = [_fence_lines(list(chosen_records.values()), token, kind="records")] if chosen_records else []
    order = ["", *reversed(ORDER), "unknown"]
    in_order = sorted(chosen, key=lambda fact: (order.index(fact.group), fact.day, fact.id))
    for origin, group in groupby(in_order, key=lambda fact: fact.group):
        labels = {"kind": "facts", "origin": origin} if origin else {"kind": "facts"}
        blocks.append(_fence_lines([fact_lines[one.id] for one in group], token, **labels))
    memory = ["\n".join([PREAMBLE, *blocks])] if blocks else []
    messages = [*({"role": "system", "content": text} for text in memory), *messages[first:]]
    text = "\n".join([*memory, *([_fence_lines(lines[first:], token, kind="turns")] if lines[first:] else [])])
    whole = sum(estimate_tokens(message["content"]) + MESSAGE for message in messages)
    left_out = [LeftOut(what="record", id=name, reason="budget") for name in records if name not in chosen_records]
    fact_ids = [fact.id for fact in chosen]
    for fact in facts:
        if fact.id not in fact_ids:
            too_large = _count_line(fact_lines[fact.id]) > room.max_line
            left_out.append(LeftOut(what="fact", id=fact.id, reason="budget" if too_large else "low_score"))
    for index, turn in enumerate(turns[:first], 1):
        # Only the newest turn can be too large; older ones were left out for newer ones.
        left_out.append(LeftOut(what="turn", id=turn.id, reason="budget" if index == len(turns) else "older"))
    tokens = max(estimate_tokens(text), whole)
    return Context(messages=messages, text=text, tokens=tokens, facts=fact_ids, left_out=left_out)


def _render_turn(turn: RecentTurn, token: str) -> str:
    """Render time, speaker and content (C19)."""
    name = f" ({fence_line(turn.name, token)})" if turn.name else ""
    return f"[{turn.at.isoformat(timespec='minutes')}] {fence_line(turn.role, token)}{name}: {fence_item(turn.text, token)}"


def _build_message(turn: RecentTurn, token: str) -> dict[str, str]:
    """Build a message of the user or the assistant. Turns of other roles are fenced inside a user message."""
    if turn.role in ("assistant", "user"):
        return {"role": turn.role, "content": neutralise_turn(turn.text, token)}
    return {"role": "user", "content": fence(turn.text, token, origin=_origin_label(turn.role))}


def _fence_lines(lines: Sequence[str], token: str, **labels: str) -> str:
    return "\n".join([open_fence(token, **labels), *lines, close_fence(token)])


def _count_fence(token: str, origin: str = "") -> int:
    """Return the maximum size of a fence without its content."""
    labels = {"kind": "records", "origin": origin} if origin else {"kind": "records"}
    return estimate_tokens(open_fence(token, **labels)) + estimate_tokens(close_fence(token)) + 3


def _count_line(line: str) -> int:
    return estimate_tokens(line) + 1


def _origin_label(role: str) -> str:
    return role if role in ORDER else "unknown"


class _Budget:
    """The tokens that are left while records and facts are added."""

    def __init__(self, budget: int, token: str) -> None:
        self.left = budget
        self.max_line = budget - estimate_tokens(PREAMBLE) - MESSAGE - 1 - _count_fence(token)
        """The maximum size of a single line."""
        self._token = token
        self._groups: set[str] = set()

    def take(self, line: str, group: str) -> bool:
        """Add a line if it fits, with the fence that it needs and, for the first one, the preamble."""
        cost = _count_line(line)
        if not self._groups:
            cost += estimate_tokens(PREAMBLE) + MESSAGE + 1
        if group not in self._groups:
            cost += _count_fence(self._token, "" if group in ("records", "facts") else group)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(group)
        return True


def _first_newest(costs: Sequence[int], share: int, whole: int) -> int:
    """Return the index of the first turn such that it and all later ones fit into the share. The newest may take the whole
    budget."""
    if not costs or costs[-1] > whole:
        return len(costs)
    return _extend(costs, len(costs) - 1, share - costs[-1])


def _extend(costs: Sequence[int], first: int, left: int) -> int:
    """Lower `first` while the turn before it fits. Turns are taken without gaps, because gaps would mislead the model."""
    if first == len(costs) and costs and costs[-1] > left:
        return first
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return first
