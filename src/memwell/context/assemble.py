"""What a context is put together from, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Literal, NamedTuple

from ..screening.screen import ORDER, is_trusted
from ..text.fence import PREAMBLE, closing, fence_line, fenced, in_list, opening, spoken
from ..text.tokens import MESSAGE, estimate

What = Literal["turn", "fact", "record"]
Reason = Literal["budget", "older", "low_score"]
Role = Literal["system", "user", "assistant"]


class RecentTurn(NamedTuple):
    """A turn of the conversation that goes on."""

    role: str
    name: str | None
    text: str
    at: datetime
    id: str = ""
    """Under which it is named where it was left out."""


class RelevantFact(NamedTuple):
    """A fact that recall has found."""

    id: str
    text: str
    score: float
    origin: str
    """The least trusted of what it rests on."""
    valid_from: date | None
    day: date
    """When it was first recorded."""


class RecordText(NamedTuple):
    """A record as text."""

    name: str
    text: str


class LeftOut(NamedTuple):
    """What did not make it: `budget`, it is too large; `older`, later turns took the room; `low_score`, better facts did."""

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
    """What a model is given to read, in both forms; neither takes more than the budget."""

    query: str
    messages: list[dict[str, str]]
    """The memory as one system message, then the turns."""
    text: str
    """The same as one text."""
    tokens: int
    """What the larger form takes, as estimated."""
    left_out: list[LeftOut]
    facts: list[str]
    """The ids of the facts that are in it."""


# -- How the parts of a context are written down. Everything that was stored stands inside a fence, or in a message of its own.


_KNOWN = frozenset((*ORDER, "unknown"))


def record_line(record: RecordText, token: str) -> str:
    return f"[{fence_line(record.name, token)}] {in_list(record.text, token)}"


def fact_line(fact: RelevantFact, token: str) -> str:
    since = f", since {fact.valid_from.isoformat()}" if fact.valid_from else ""
    return f"- [{fact.day.isoformat()}{since}] {fence_line(fact.text, token)}"


def turn_line(turn: RecentTurn, token: str) -> str:
    """As C19 has it: when, who, what."""
    name = f" ({fence_line(turn.name, token)})" if turn.name else ""
    return (
        f"[{turn.at.isoformat(timespec='minutes')}] {fence_line(turn.role, token)}{name}: {in_list(turn.text, token)}"
    )


def turn_message(turn: RecentTurn, token: str) -> Message:
    """Only users and assistants speak for themselves. What a tool said is shown to the model, and never as a role of its own."""
    if turn.role == "assistant":
        return Message("assistant", spoken(turn.text, token))
    if turn.role == "user":
        return Message("user", spoken(turn.text, token))
    return Message("user", fenced(turn.text, token, origin=_origin(turn.role)))


def fact_group(fact: RelevantFact) -> str:
    """The fence that a fact stands in: one for all that is trusted, one for each other origin."""
    return "" if is_trusted(fact.origin) else _origin(fact.origin)


def memory_text(records: Sequence[RecordText], facts: Sequence[RelevantFact], token: str) -> str:
    """Records first, then trusted facts, then the others by origin: the order in which they change, the slowest first."""
    blocks = [_block([record_line(one, token) for one in records], token, kind="records")] if records else []
    order = ["", *reversed(ORDER), "unknown"]
    sorted_facts = sorted(facts, key=lambda fact: (order.index(fact_group(fact)), fact.day, fact.id))
    for origin, group in groupby(sorted_facts, key=fact_group):
        labels = {"kind": "facts", "origin": origin} if origin else {"kind": "facts"}
        blocks.append(_block([fact_line(one, token) for one in group], token, **labels))
    return "\n".join([PREAMBLE, *blocks])


def turns_text(turns: Sequence[RecentTurn], token: str) -> str:
    return _block([turn_line(one, token) for one in turns], token, kind="turns") if turns else ""


def gate_cost(token: str, origin: str = "") -> int:
    """What a fence itself takes, at most."""
    labels = {"kind": "records", "origin": origin} if origin else {"kind": "records"}
    return estimate(opening(token, **labels)) + estimate(closing(token)) + 3


def line_cost(line: str) -> int:
    return estimate(line) + 1


def turn_cost(turn: RecentTurn, token: str) -> int:
    """What a turn takes in the form in which it takes more."""
    return max(line_cost(turn_line(turn, token)), estimate(turn_message(turn, token).content) + MESSAGE)


def messages_cost(messages: Sequence[Message]) -> int:
    return sum(estimate(message.content) + MESSAGE for message in messages)


def _block(lines: Sequence[str], token: str, **labels: str) -> str:
    return "\n".join([opening(token, **labels), *lines, closing(token)])


def _origin(role: str) -> str:
    return role if role in _KNOWN else "unknown"


# -- Put a context together within a budget of tokens.
#
# What changes slowest stands first, so that a prompt cache can use its beginning again: a fixed preamble, records, facts in
# the order in which they were recorded (not by score, which changes with every question), then the turns, oldest first. A
# cache also needs the fence's token to stay the same, which is what `fence.token_for` is for.
#
# The newest turn has the first claim on the budget. Turns may take up to six tenths of it, records and facts the rest, and
# whatever one side leaves over the other may use.


TURNS_SHARE = 0.6
"""The part of the budget that turns may take before facts and records have had theirs."""


def assemble(
    query: str,
    turns: Sequence[RecentTurn],
    facts: Sequence[RelevantFact],
    records: Sequence[RecordText],
    budget: int,
    *,
    token: str,
) -> Context:
    """The context for a query, which is itself no part of it: whoever asks sends it along."""
    turns = sorted(turns, key=lambda turn: turn.at)
    costs = [turn_cost(turn, token) for turn in turns]
    gate = gate_cost(token)
    first = _newest(costs, int(budget * TURNS_SHARE) - gate, budget - gate)
    chosen = _Chosen(budget - _spent(costs, first, gate), token)
    kept_records = [record for record in records if chosen.take(record_line(record, token), "records")]
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.day, fact.id))
    kept_facts = [fact for fact in ranked if chosen.take_fact(fact)]
    if chosen.left >= 0:
        first = _further(costs, first, chosen.left - (gate if first == len(costs) else 0))
    memory = memory_text(kept_records, kept_facts, token) if kept_records or kept_facts else ""
    left_out = [
        *_unkept_records(records, kept_records),
        *_unkept_facts(facts, kept_facts, chosen),
        *_unkept_turns(turns, first),
    ]
    return _context(query, memory, turns[first:], token, left_out, [fact.id for fact in kept_facts])


class _Chosen:
    """What is left of a budget while records and facts are taken into it."""

    def __init__(self, budget: int, token: str) -> None:
        self.left = budget
        self.room = budget - estimate(PREAMBLE) - MESSAGE - 1 - gate_cost(token)
        """How large a line may be at most, even if it were the only one."""
        self._token = token
        self._groups: set[str] = set()

    def take(self, line: str, group: str) -> bool:
        """Take a line if it fits, together with the fence that it needs and, for the first one, the preamble."""
        cost = line_cost(line)
        if not self._groups:
            cost += estimate(PREAMBLE) + MESSAGE + 1
        if group not in self._groups:
            cost += gate_cost(self._token, "" if group in ("records", "facts") else group)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(group)
        return True

    def take_fact(self, fact: RelevantFact) -> bool:
        return self.take(fact_line(fact, self._token), fact_group(fact) or "facts")

    def too_large(self, fact: RelevantFact) -> bool:
        return line_cost(fact_line(fact, self._token)) > self.room


def _newest(costs: Sequence[int], share: int, whole: int) -> int:
    """From which turn on they fit into the share; the newest may take the whole."""
    if not costs or costs[-1] > whole:
        return len(costs)
    return _further(costs, len(costs) - 1, share - costs[-1])


def _further(costs: Sequence[int], first: int, left: int) -> int:
    """From which turn on they fit, if those from `first` on do already. There are no gaps: a conversation with holes misleads."""
    if first == len(costs) and costs and costs[-1] > left:
        return first
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return first


def _spent(costs: Sequence[int], first: int, gate: int) -> int:
    return sum(costs[first:]) + gate if first < len(costs) else 0


def _unkept_records(records: Sequence[RecordText], kept: Sequence[RecordText]) -> list[LeftOut]:
    return [LeftOut("record", record.name, "budget") for record in records if record not in kept]


def _unkept_facts(facts: Sequence[RelevantFact], kept: Sequence[RelevantFact], chosen: _Chosen) -> list[LeftOut]:
    ids = {fact.id for fact in kept}
    missing = [fact for fact in facts if fact.id not in ids]
    return [LeftOut("fact", fact.id, "budget" if chosen.too_large(fact) else "low_score") for fact in missing]


def _unkept_turns(turns: Sequence[RecentTurn], first: int) -> list[LeftOut]:
    """If even the newest is too large, it is the budget; otherwise it is the later ones that took the room."""
    reasons = [LeftOut("turn", turn.id or turn.at.isoformat(), "older") for turn in turns[:first]]
    if reasons and first == len(turns):
        reasons[-1] = reasons[-1]._replace(reason="budget")
    return reasons


def _context(
    query: str, memory: str, turns: Sequence[RecentTurn], token: str, left_out: list[LeftOut], facts: list[str]
) -> Context:
    messages = [Message("system", memory)] if memory else []
    messages += [turn_message(turn, token) for turn in turns]
    text = "\n".join(part for part in (memory, turns_text(turns, token)) if part)
    tokens = max(estimate(text), messages_cost(messages))
    return Context(query, [message.as_dict() for message in messages], text, tokens, left_out, facts)
