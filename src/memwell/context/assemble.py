"""Assemble a context for a prompt within a budget of tokens: records, facts and turns, as messages and as one text.

Stored text stands inside a fence, or in a message of its own. Parts that change slowly come first, so that prompt caches can
reuse the beginning: a fixed preamble, records, facts in the order they were recorded (not by score, which changes with every
query), then the turns, the oldest first. The token of the fence must stay the same too: see `fence.token_for`.

The newest turn has priority. Turns take up to six tenths of the budget, records and facts the rest; each side may use what the
other leaves over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Literal, NamedTuple

from ..screening.screen import ORDER, is_trusted
from ..text.fence import PREAMBLE, close_fence, fence, fence_item, fence_line, neutralise_turn, open_fence
from ..text.tokens import MESSAGE, estimate_tokens

What = Literal["turn", "fact", "record"]
Reason = Literal["budget", "older", "low_score"]
Role = Literal["system", "user", "assistant"]


class RecentTurn(NamedTuple):
    """A turn of the current conversation."""

    role: str
    name: str | None
    text: str
    at: datetime
    id: str = ""
    """Its id in `left_out`."""


class RelevantFact(NamedTuple):
    """A fact that a search found."""

    id: str
    text: str
    score: float
    origin: str
    """The least trusted origin of its evidence."""
    valid_from: date | None
    day: date
    """The day it was first recorded."""


class RecordText(NamedTuple):
    """A record as text."""

    name: str
    text: str


class LeftOut(NamedTuple):
    """Something that did not fit. `budget`: it is too large; `older`: later turns took its place; `low_score`: better facts."""

    what: What
    id: str
    reason: Reason


class Message(NamedTuple):
    """A message to a chat model."""

    role: Role
    content: str

    def as_dict(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


class Context(NamedTuple):
    """An assembled context in two forms, neither of them larger than the budget."""

    query: str
    messages: list[dict[str, str]]
    """The memory as one system message, then the turns."""
    text: str
    """The same as one text."""
    tokens: int
    """The estimated size of the larger form."""
    left_out: list[LeftOut]
    facts: list[str]
    """The ids of its facts."""


TURNS_SHARE = 0.6
"""The part of the budget that turns may take before facts and records."""
_ORIGINS = frozenset((*ORDER, "unknown"))


def render_record(record: RecordText, token: str) -> str:
    return f"[{fence_line(record.name, token)}] {fence_item(record.text, token)}"


def render_fact(fact: RelevantFact, token: str) -> str:
    since = f", since {fact.valid_from.isoformat()}" if fact.valid_from else ""
    return f"- [{fact.day.isoformat()}{since}] {fence_line(fact.text, token)}"


def render_turn(turn: RecentTurn, token: str) -> str:
    """Time, speaker and content (C19)."""
    name = f" ({fence_line(turn.name, token)})" if turn.name else ""
    return f"[{turn.at.isoformat(timespec='minutes')}] {fence_line(turn.role, token)}{name}: {fence_item(turn.text, token)}"


def build_turn_message(turn: RecentTurn, token: str) -> Message:
    """A message of the user or the assistant. Turns of other roles are fenced inside a user message."""
    if turn.role == "assistant":
        return Message("assistant", neutralise_turn(turn.text, token))
    if turn.role == "user":
        return Message("user", neutralise_turn(turn.text, token))
    return Message("user", fence(turn.text, token, origin=_origin_label(turn.role)))


def fact_group(fact: RelevantFact) -> str:
    """The fence of a fact: one for all trusted facts, and one for each other origin."""
    return "" if is_trusted(fact.origin) else _origin_label(fact.origin)


def render_memory(records: Sequence[RecordText], facts: Sequence[RelevantFact], token: str) -> str:
    """Records, then trusted facts, then the others by origin."""
    blocks = [_render_block([render_record(one, token) for one in records], token, kind="records")] if records else []
    order = ["", *reversed(ORDER), "unknown"]
    sorted_facts = sorted(facts, key=lambda fact: (order.index(fact_group(fact)), fact.day, fact.id))
    for origin, group in groupby(sorted_facts, key=fact_group):
        labels = {"kind": "facts", "origin": origin} if origin else {"kind": "facts"}
        blocks.append(_render_block([render_fact(one, token) for one in group], token, **labels))
    return "\n".join([PREAMBLE, *blocks])


def render_turns(turns: Sequence[RecentTurn], token: str) -> str:
    return _render_block([render_turn(one, token) for one in turns], token, kind="turns") if turns else ""


def count_fence_tokens(token: str, origin: str = "") -> int:
    """The maximum size of a fence itself."""
    labels = {"kind": "records", "origin": origin} if origin else {"kind": "records"}
    return estimate_tokens(open_fence(token, **labels)) + estimate_tokens(close_fence(token)) + 3


def count_line_tokens(line: str) -> int:
    return estimate_tokens(line) + 1


def count_turn_tokens(turn: RecentTurn, token: str) -> int:
    """The size of a turn in its larger form."""
    return max(
        count_line_tokens(render_turn(turn, token)), estimate_tokens(build_turn_message(turn, token).content) + MESSAGE
    )


def _render_block(lines: Sequence[str], token: str, **labels: str) -> str:
    return "\n".join([open_fence(token, **labels), *lines, close_fence(token)])


def _origin_label(role: str) -> str:
    return role if role in _ORIGINS else "unknown"


def assemble(
    query: str,
    turns: Sequence[RecentTurn],
    facts: Sequence[RelevantFact],
    records: Sequence[RecordText],
    budget: int,
    *,
    token: str,
) -> Context:
    """Assemble the context for a query. The query itself is not part of it."""
    turns = sorted(turns, key=lambda turn: turn.at)
    costs = [count_turn_tokens(turn, token) for turn in turns]
    fence = count_fence_tokens(token)
    first = _first_newest(costs, int(budget * TURNS_SHARE) - fence, budget - fence)
    spent = sum(costs[first:]) + fence if first < len(costs) else 0
    room = _Budget(budget - spent, token)
    chosen_records = [record for record in records if room.take(render_record(record, token), "records")]
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.day, fact.id))
    chosen_facts = [fact for fact in ranked if room.take(render_fact(fact, token), fact_group(fact) or "facts")]
    if room.left >= 0:
        first = _extend(costs, first, room.left - (fence if first == len(costs) else 0))
    memory = render_memory(chosen_records, chosen_facts, token) if chosen_records or chosen_facts else ""
    messages = [Message("system", memory)] if memory else []
    messages += [build_turn_message(turn, token) for turn in turns[first:]]
    text = "\n".join(part for part in (memory, render_turns(turns[first:], token)) if part)
    tokens = max(estimate_tokens(text), sum(estimate_tokens(message.content) + MESSAGE for message in messages))
    fact_ids = [fact.id for fact in chosen_facts]
    left_out = [LeftOut("record", record.name, "budget") for record in records if record not in chosen_records]
    for fact in facts:
        if fact.id not in fact_ids:
            too_large = count_line_tokens(render_fact(fact, token)) > room.max_line
            left_out.append(LeftOut("fact", fact.id, "budget" if too_large else "low_score"))
    for index, turn in enumerate(turns[:first], 1):
        # Only the newest turn can be too large; older ones gave way to later turns.
        reason: Reason = "budget" if index == len(turns) else "older"
        left_out.append(LeftOut("turn", turn.id or turn.at.isoformat(), reason))
    return Context(query, [message.as_dict() for message in messages], text, tokens, left_out, fact_ids)


class _Budget:
    """The tokens that are left while records and facts are added."""

    def __init__(self, budget: int, token: str) -> None:
        self.left = budget
        self.max_line = budget - estimate_tokens(PREAMBLE) - MESSAGE - 1 - count_fence_tokens(token)
        """The maximum size of a single line."""
        self._token = token
        self._groups: set[str] = set()

    def take(self, line: str, group: str) -> bool:
        """Add a line if it fits, with the fence that it needs and, for the first one, the preamble."""
        cost = count_line_tokens(line)
        if not self._groups:
            cost += estimate_tokens(PREAMBLE) + MESSAGE + 1
        if group not in self._groups:
            cost += count_fence_tokens(self._token, "" if group in ("records", "facts") else group)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(group)
        return True


def _first_newest(costs: Sequence[int], share: int, whole: int) -> int:
    """The first turn from which on all fit into the share. The newest may take the whole budget."""
    if not costs or costs[-1] > whole:
        return len(costs)
    return _extend(costs, len(costs) - 1, share - costs[-1])


def _extend(costs: Sequence[int], first: int, left: int) -> int:
    """The first turn from which on all fit, given that those from `first` on do. There are no gaps, which would mislead."""
    if first == len(costs) and costs and costs[-1] > left:
        return first
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return first
