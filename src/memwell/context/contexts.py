"""Context: recalled memory for a prompt within a budget of tokens, as messages and as one text.

Facts and turns that fit the query compete for the budget by their scores. A fact and the turn that it was made of are not both
shown, unless each adds something. Long texts are represented by their best passage. Each line stands under the day
when it was said. If nothing fits the query, nothing is shown.

Stored text is inside a fence, or in a message of its own. Parts that change slowly come first, so that prompt caches can
reuse the beginning: a fixed preamble, records, what was recalled in the order in which it was said (not by score, which changes
with every query), then the newest turns, the oldest first. The token of the fence is new each time, or stays the same with
`stable_prefix`. The newest turn has priority. Newest turns take up to six tenths of the budget, the rest is for what is recalled;
each part may use the room that the other one leaves.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation, user_records
from ..core.space import Space
from ..core.time_travel import AsOf
from ..core.turns import find_foreign_origin, list_newest
from ..facts.fact_rows import FACTS_PATH
from ..facts.memories import count_quarantined
from ..facts.search import FACTS, MAX_QUERY, NOTES, MinTrust
from ..model.collection import Entry, Place
from ..model.fields import SessionId, to_instant
from ..model.filter import Where
from ..records.records import find_value_at, list_named
from ..records.user_records import find_contract
from ..records.validation import fill_defaults, list_misfits, secrets_in
from ..screening.screen import ORDER
from ..screening.secrets import list_answered
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
from .recall import Places, Recalled, recall

RECORDS = 100
"""Number of candidate records."""
LOOKED_AT = 5000
"""Number of turns to read for those that existed at an earlier time."""
DAY_LINE = 12
"""Number of tokens of the line that names a day, at most."""
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


Form = Annotated[
    Literal["both", "text", "messages"],
    Meta(description="What to return: `text`, `messages`, or `both`, which have the same content."),
]


class ContextRequest(OwnerRequest, frozen=True, kw_only=True):
    """The subject of the prompt, and the budget. With a session, its newest turns are included."""

    query: About | None = None
    budget: Budget = 1500
    turns: Turns = 20
    min_trust: MinTrust | None = None
    as_of: AsOf | None = None
    session: SessionId | None = None
    stable_prefix: StablePrefix = False
    form: Form = "both"


class LeftOut(Response, frozen=True, kw_only=True):
    """A turn, fact or record that was left out. Reasons: `budget` (too large), `older` (newer turns took the room), `low_score`
    (better entries took the room), `repeated` (another entry says it), `outdated` (all that is known from the turn is past),
    `secret` (it looks like a secret), `held` (it is in quarantine, or looks like a planted instruction), `misfit` (it no longer
    matches its schema), `many` (this record and all later ones, by name, were not read)."""

    what: str
    id: str
    reason: str


class Context(Response, frozen=True, kw_only=True):
    """Memory for a prompt, as `messages` and as `text`: records, facts and earlier turns first, in a stable order, then the
    newest turns. Stored text is fenced, so that a model cannot mistake it for instructions. `facts` and `turns` list what was
    recalled. `held`: the number of quarantined facts, which are in no context."""

    messages: list[dict[str, str]]
    text: str
    tokens: int
    facts: list[str]
    turns: list[str]
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
        places = Places(
            [Where(owner.facts, None, FACTS)], Where(owner.timeline, None, NOTES), Where(owner.timeline, None)
        )
        turns, records = call.read(lambda space: (_user_turns(space, request), _read_records(space, request)))
        return _assemble(call, request, places, turns, records)
    paths = [None] if request.session is None else [request.session, FACTS_PATH]
    turns = call.read(lambda space: _session_turns(space, request))
    facts = [Where(owner.facts, path, FACTS) for path in paths]
    places = Places(facts, None, Where(owner.timeline, request.session))
    return _assemble(call, request, places, turns, _Records({}, ()))


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
    call: Call, request: ContextRequest, places: Places, turns: Sequence[Entry], records: _Records
) -> Context:
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
    recalled = recall(call, request, places, {entry.id for entry in turns})
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
        recalled.entries,
        {name: text for name, text in texts.items() if name not in withheld},
        request.budget,
        token=token,
    )
    context.left_out.extend(LeftOut(what="turn", id=entry.id, reason="secret") for entry in secret)
    context.left_out.extend(
        LeftOut(what=what, id=entry_id, reason=reason) for what, entry_id, reason in recalled.left_out
    )
    context.left_out.extend(LeftOut(what="record", id=name, reason="secret") for name in withheld)
    context.left_out.extend(records.left_out)
    if request.form == "text":
        context = replace(context, messages=[])
    elif request.form == "messages":
        context = replace(context, text="")
    return replace(context, held=call.read(lambda space: count_quarantined(space, request.owner.facts)))


# -- within a budget -----------------------------------------------------------------------------------------------------


class RecentTurn(NamedTuple):
    """A turn of the current conversation."""

    role: str
    name: str | None
    text: str
    at: datetime
    id: str


def assemble(
    turns: Sequence[RecentTurn], recalled: Sequence[Recalled], records: Mapping[str, str], budget: int, *, token: str
) -> Context:
    """Choose turns, recalled entries and records that fit into the budget. `records` has texts by name."""
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
    recalled_lines = {one.id: f"- {_render_speaker(one, token)}{fence_line(one.text, token)}" for one in recalled}
    ranked = sorted(recalled, key=lambda one: (-one.score, one.day, one.id))
    chosen = [one for one in ranked if room.take(recalled_lines[one.id], one.group or "facts", one.day)]
    if room.left >= 0:
        first = _extend(costs, first, room.left - (fence_size if first == len(costs) else 0))
    # Records, then trusted entries, then the others by origin.
    blocks = [_fence_lines(list(chosen_records.values()), token, kind="records")] if chosen_records else []
    order = ["", *reversed(ORDER), "unknown"]
    in_order = sorted(chosen, key=lambda one: (order.index(one.group), one.day, one.place, one.id))
    for origin, group in groupby(in_order, key=lambda one: one.group):
        labels = {"kind": "facts", "origin": origin} if origin else {"kind": "facts"}
        blocks.append(_fence_lines(_list_by_day(list(group), recalled_lines), token, **labels))
    memory = ["\n".join([PREAMBLE, *blocks])] if blocks else []
    messages = [*({"role": "system", "content": text} for text in memory), *messages[first:]]
    text = "\n".join([*memory, *([_fence_lines(lines[first:], token, kind="turns")] if lines[first:] else [])])
    whole = sum(estimate_tokens(message["content"]) + MESSAGE for message in messages)
    left_out = [LeftOut(what="record", id=name, reason="budget") for name in records if name not in chosen_records]
    chosen_ids = {one.id for one in chosen}
    for one in recalled:
        if one.id not in chosen_ids:
            too_large = _count_line(recalled_lines[one.id]) > room.max_line
            left_out.append(LeftOut(what=one.what, id=one.id, reason="budget" if too_large else "low_score"))
    for index, turn in enumerate(turns[:first], 1):
        # Only the newest turn can be too large; older ones were left out for newer ones.
        left_out.append(LeftOut(what="turn", id=turn.id, reason="budget" if index == len(turns) else "older"))
    return Context(
        messages=messages,
        text=text,
        tokens=max(estimate_tokens(text), whole),
        facts=[one.id for one in chosen if one.what == "fact"],
        turns=[one.id for one in chosen if one.what == "turn"],
        left_out=left_out,
    )


def _list_by_day(recalled: Sequence[Recalled], lines: Mapping[str, str]) -> list[str]:
    """List entries under the days when they were said."""
    found: list[str] = []
    for day, group in groupby(recalled, key=lambda one: one.day):
        found += [_render_day(day), *(lines[one.id] for one in group)]
    return found


def _render_day(day: date) -> str:
    return f"Said {day.isoformat()}:"


def _render_speaker(one: Recalled, token: str) -> str:
    return f"{fence_line(one.speaker, token)}: " if one.speaker else ""


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
        self.max_line = budget - estimate_tokens(PREAMBLE) - MESSAGE - 1 - _count_fence(token) - DAY_LINE
        """The maximum size of a single line."""
        self._token = token
        self._groups: set[str] = set()
        self._days: set[tuple[str, date]] = set()

    def take(self, line: str, group: str, day: date | None = None) -> bool:
        """Add a line if it fits, with the line of its day, the fence that it needs and, for the first one, the preamble."""
        cost = _count_line(line)
        if day is not None and (group, day) not in self._days:
            cost += _count_line(_render_day(day))
        if not self._groups:
            cost += estimate_tokens(PREAMBLE) + MESSAGE + 1
        if group not in self._groups:
            cost += _count_fence(self._token, "" if group in ("records", "facts") else group)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(group)
        if day is not None:
            self._days.add((group, day))
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
