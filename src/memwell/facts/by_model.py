"""A model proposes what a session says; what it proposes is checked, and where it fails the rules take its place.

An answer that is not believed is asked for once more, with the reason. A server that is slow, busy or broken is not asked
again: the rest of the session goes to the rules at once, so that the whole ends within its limit. `fallback` names the
first reason for which rules were used; a job shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..clock import Clock
from ..errors import ModelFailed
from ..models.completer import Completer, Completion, LLMConfig, Message, estimate_tokens, get_reason
from ..models.spending import Ledger, Spent, charge_failure, estimate_cost, may_spend
from ..storage.port import TenantStore
from .model_answer import AnswerLimits, InvalidAnswer, merge_repeats, parse_answer
from .model_prompt import SCHEMA, Piece, build_messages, label_pieces, split_portions
from .plan import Candidate, Extraction, Turn
from .rules.extract import extract

Rules = Callable[[Sequence[Turn]], list[Candidate]]
MIN_SECONDS = 0.05
"""With less time than this left, nothing is asked any more."""
RETRY_HINTS = {"cut": "It was longer than allowed and broke off: list fewer facts."}
"""Failures of the model itself, not of its server, that a second try may heal; and what to tell it."""
MAX_FAILURES = 2
"""After so many portions for which the model gave nothing of use, it is not asked about the others."""


class Limits(NamedTuple):
    """Limits of time, tokens and size for one session."""

    call_s: float = 30.0
    total_s: float = 120.0
    tokens: int | None = None
    """What is left of the budget; None: there is no limit."""
    chunk_tokens: int = 4000
    overlap: int = 2
    """How many turns two portions share."""
    max_tokens: int = 4096
    max_answer: int = 1024 * 1024
    max_facts: int = 100
    max_text: int = 500


class Proposal(NamedTuple):
    """The result of a session. Tokens are those counted against the budget, also of failed calls."""

    candidates: list[Candidate]
    tokens_in: int
    tokens_out: int
    tries: int
    fallback: str | None
    """Why the rules were used for some or all of it; None: they were not."""


class _ModelUnusable(Exception):
    """The model gave nothing of use for a portion; `final`: nor will it for the next."""

    def __init__(self, reason: str, *, final: bool) -> None:
        self.reason = reason
        self.final = final


def propose(completer: Completer, turns: Sequence[Turn], *, limits: Limits, rules: Rules) -> Proposal:
    """The candidates of a session, by the model as far as it can be believed and by the rules for the rest."""
    asking = _ModelSession(completer, limits)
    proposed: list[Candidate] = []
    ruled: list[Candidate] = []
    reasons: list[str] = []
    portions = split_portions(turns, limits.chunk_tokens, limits.overlap)
    for at, portion in enumerate(portions):
        try:
            proposed += asking.about(portion)
        except _ModelUnusable as gave_up:
            reasons.append(gave_up.reason)
            over = gave_up.final or len(reasons) >= MAX_FAILURES
            ruled += rules(_distinct_turns(portions[at:] if over else [portion]))
            if over:
                break
    once = merge_repeats(proposed, {said.id: said for said in turns})
    found = _sort_by_turn([*once, *ruled], turns) if proposed else ruled
    return Proposal(found, asking.tokens_in, asking.tokens_out, asking.tries, reasons[0] if reasons else None)


class _ModelSession:
    """The calls for one session: what they have taken so far, of the time, the tokens and the tries."""

    def __init__(self, completer: Completer, limits: Limits) -> None:
        self._completer = completer
        self._limits = limits
        self._until = time.monotonic() + limits.total_s
        self.tokens_in = 0
        self.tokens_out = 0
        self.tries = 0

    def about(self, portion: Sequence[Piece]) -> list[Candidate]:
        """The model's candidates for a portion, asked twice at most."""
        try:
            return self._try(portion, None)
        except InvalidAnswer as refused:
            first = refused
        try:
            return self._try(portion, first.sentence)
        except InvalidAnswer as refused:
            raise _ModelUnusable(refused.reason, final=False) from None
        except _ModelUnusable as gave_up:
            if gave_up.reason == "timeout" and self._left_s() < MIN_SECONDS:
                raise _ModelUnusable(first.reason, final=True) from None  # there was no time for a second try
            raise

    def _try(self, portion: Sequence[Piece], trouble: str | None) -> list[Candidate]:
        limits = self._limits
        completion = self._ask(build_messages(portion, trouble))
        allowed = AnswerLimits(limits.max_answer, limits.max_facts, limits.max_text)
        return parse_answer(completion.text, label_pieces(portion), allowed)

    def _ask(self, asked: Sequence[Message]) -> Completion:
        """One call, if there are time and tokens for it."""
        limits = self._limits
        estimate = sum(estimate_tokens(message.content) for message in asked)
        timeout_s = min(limits.call_s, self._left_s())
        if timeout_s < MIN_SECONDS:
            raise _ModelUnusable("timeout", final=True)
        wanted = estimate_cost(estimate, limits.max_tokens)
        if not may_spend(self.tokens_in + self.tokens_out, limits.tokens, wanted):
            raise _ModelUnusable("budget", final=True)
        self.tries += 1
        try:
            answer = self._completer.complete(asked, schema=SCHEMA, max_tokens=limits.max_tokens, timeout_s=timeout_s)
        except ModelFailed as error:
            reason = get_reason(error)
            self._count(charge_failure(reason, estimate, limits.max_tokens, _reported_tokens(error)))
            if reason in RETRY_HINTS:
                raise InvalidAnswer(reason, RETRY_HINTS[reason]) from None
            raise _ModelUnusable(reason, final=reason != "refused") from None
        self._count(Spent(answer.tokens_in, answer.tokens_out))
        return answer

    def _count(self, spent: Spent) -> None:
        self.tokens_in += spent.tokens_in
        self.tokens_out += spent.tokens_out

    def _left_s(self) -> float:
        return self._until - time.monotonic()


def _distinct_turns(portions: Sequence[Sequence[Piece]]) -> list[Turn]:
    """The turns of some portions, each whole and once: rules know no length."""
    return list({piece.said.id: piece.said for portion in portions for piece in portion}.values())


def _sort_by_turn(found: Sequence[Candidate], turns: Sequence[Turn]) -> list[Candidate]:
    """As it was said: of two statements of one day, the later one counts."""
    places = {said.id: number for number, said in enumerate(turns)}
    return sorted(found, key=lambda candidate: (places[candidate.sources[0].id], candidate.sources[0].start))


def _reported_tokens(error: ModelFailed) -> tuple[int, int] | None:
    """The tokens that the server reported for a failed call."""
    given = (error.details.get("tokens_in"), error.details.get("tokens_out"))
    match given:
        case (int(tokens_in), int(tokens_out)):
            return tokens_in, tokens_out
    return None


# -- Extraction by a language model, within a tenant's budget of tokens, and what it costs written down.


PROMPT_TOKENS = 1500
"""About what the instructions to the model take, with each portion."""


def extract_by_model(
    completer: Completer, wanted: LLMConfig, reach: TenantStore, clock: Clock, turns: Sequence[Turn]
) -> Extraction:
    """Candidates by the model as far as it can be believed and afforded, by rules for the rest. No transaction is open
    meanwhile."""
    ledger = Ledger(reach, clock, wanted.tokens_per_day)
    limits = Limits(call_s=wanted.timeout_s, total_s=4 * wanted.timeout_s)
    aside = ledger.set_aside(_max_tokens(turns, limits))
    tokens = None if wanted.tokens_per_day is None else aside
    spent_in = spent_out = calls = 0
    try:
        found = propose(completer, turns, limits=limits._replace(tokens=tokens), rules=extract)
        spent_in, spent_out, calls = found.tokens_in, found.tokens_out, found.tries
    finally:
        ledger.settle(aside, spent_in, spent_out, calls)
    method = "model" if found.fallback is None else "model+rules" if found.tokens_out else "rules"
    return Extraction(found.candidates, method, found.fallback)


def _max_tokens(turns: Sequence[Turn], limits: Limits) -> int:
    """The most tokens that some turns can cost: each portion is asked twice at most."""
    asked = sum(estimate_tokens(said.text) for said in turns)
    portions = 1 + asked // limits.chunk_tokens
    return 2 * (2 * asked + portions * (PROMPT_TOKENS + limits.max_tokens))
