"""Put a context together within a budget of tokens.

What changes slowest stands first, so that a prompt cache can use its beginning again: a fixed preamble, records, facts in
the order in which they were recorded (not by score, which changes with every question), then the turns, oldest first. A
cache also needs the fence's token to stay the same, which is what `fence.token_for` is for.

The newest turn has the first claim on the budget. Turns may take up to six tenths of it, records and facts the rest, and
whatever one side leaves over the other may use.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import render
from .tokens import MESSAGE, estimate
from .values import Context, LeftOut, Message, RecentTurn, RecordText, RelevantFact

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
    costs = [render.turn_cost(turn, token) for turn in turns]
    gate = render.gate_cost(token)
    first = _newest(costs, int(budget * TURNS_SHARE) - gate, budget - gate)
    chosen = _Chosen(budget - _spent(costs, first, gate), token)
    kept_records = [record for record in records if chosen.take(render.record_line(record, token), "records")]
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.day, fact.id))
    kept_facts = [fact for fact in ranked if chosen.take_fact(fact)]
    if chosen.left >= 0:
        first = _further(costs, first, chosen.left - (gate if first == len(costs) else 0))
    memory = render.memory_text(kept_records, kept_facts, token) if kept_records or kept_facts else ""
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
        self.room = budget - estimate(render.PREAMBLE) - MESSAGE - 1 - render.gate_cost(token)
        """How large a line may be at most, even if it were the only one."""
        self._token = token
        self._groups: set[str] = set()

    def take(self, line: str, group: str) -> bool:
        """Take a line if it fits, together with the fence that it needs and, for the first one, the preamble."""
        cost = render.line_cost(line)
        if not self._groups:
            cost += estimate(render.PREAMBLE) + MESSAGE + 1
        if group not in self._groups:
            cost += render.gate_cost(self._token, "" if group in ("records", "facts") else group)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(group)
        return True

    def take_fact(self, fact: RelevantFact) -> bool:
        return self.take(render.fact_line(fact, self._token), render.fact_group(fact) or "facts")

    def too_large(self, fact: RelevantFact) -> bool:
        return render.line_cost(render.fact_line(fact, self._token)) > self.room


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
    messages += [render.turn_message(turn, token) for turn in turns]
    text = "\n".join(part for part in (memory, render.turns_text(turns, token)) if part)
    tokens = max(estimate(text), render.messages_cost(messages))
    return Context(query, [message.as_dict() for message in messages], text, tokens, left_out, facts)
