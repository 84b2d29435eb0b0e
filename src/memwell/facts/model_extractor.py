"""Let a language model review the candidates of the rules: send portions, read the answers, and keep to the limits.

The model sees the turns and the drafts that the rules made of them (`model_prompt`), and answers with a line for each draft. What
the lines change is checked one by one (`model_review`). The rules' candidates are the floor: if the model, its server or its
answer fails, they stand, and the plan has the reason.

An answer is read as a stream. Lines that arrived before a failure count; a model that repeats itself or does not stop is cut off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import NamedTuple

from ..clock import Clock
from ..errors import ModelFailed
from ..models.completer import (
    Completer,
    Completion,
    LLMConfig,
    Message,
    estimate_tokens,
    get_reason,
    is_local,
    stream_completion,
)
from ..models.spending import Ledger, Spent, charge_failure
from ..storage.port import TenantStore
from .datatypes import Candidate, DroppedSentence, Extraction, Turn
from .model_prompt import PROMPT_TOKENS, Piece, build_messages, list_drafts, split_portions
from .model_review import MAY_ADD, RefusedAnswer, review_drafts

# -- JSON in the answers of models

MAX_DEPTH = 16
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)


def strip_wrapping(text: str) -> str:
    """Remove the thoughts and the Markdown fence that models put around JSON if the server has no JSON mode."""
    text = text.strip()
    if text.startswith("<think>"):
        text = text.partition("</think>")[2].strip()
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text


def is_too_deep(text: str) -> bool:
    """Return True if brackets are nested deeper than `MAX_DEPTH`. Takes linear time."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        bracket = match[0]
        if bracket in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


# -- a session

MIN_SECONDS = 0.05
"""Minimum of remaining time to call the model."""
MAX_FAILURES = 2
"""Number of failed portions after which the model is not asked about the remaining portions."""
MAX_REPEATS = 3
"""Number of equal lines in a row after which a model goes in circles."""
CHARACTERS_PER_TOKEN = 8
"""Largest plausible length of a token. An answer that is longer in characters has more tokens than allowed."""


class Limits(NamedTuple):
    """Limits of time, tokens and size for one session."""

    call_s: float = 30.0
    total_s: float = 120.0
    tokens: int | None = None
    """The rest of the token budget; None if it is unlimited."""
    chunk_tokens: int = 4000
    """Tokens of the turns and drafts of one call."""
    overlap: int = 2
    """Pieces that a portion repeats from the previous one."""
    max_tokens: int = 2048
    """Tokens of an answer."""


LOCAL_LIMITS = Limits(chunk_tokens=1000, overlap=1, max_tokens=500)
"""For small models: instructions, turns, drafts and the answer fit a window of 2,048 tokens."""


class Proposal(NamedTuple):
    """The result of a session. Tokens include those of failed calls, which count against the budget too."""

    candidates: list[Candidate]
    tokens_in: int
    tokens_out: int
    tries: int
    reviewed: int
    """Number of portions whose answer was accepted."""
    fallback: str | None
    """The first reason why the rules alone decided about a portion; None if the model was heard about all of them."""


class _ModelUnusable(Exception):
    """The model failed for a portion. `final`: it would fail for the remaining portions too."""

    def __init__(self, reason: str, *, final: bool) -> None:
        self.reason = reason
        self.final = final


def propose(
    completer: Completer,
    turns: Sequence[Turn],
    drafts: Sequence[Candidate],
    dropped: Sequence[DroppedSentence],
    limits: Limits,
) -> Proposal:
    """Let the model review the drafts of a session. `dropped`: the sentences that the rules left out."""
    session = _ModelSession(completer, limits)
    by_turn: dict[str, list[DroppedSentence]] = {}
    for one in dropped:
        by_turn.setdefault(one.id, []).append(one)
    reviewed: list[Candidate] = []
    reasons: list[str] = []
    heard, over = 0, False
    for portion in split_portions(turns, drafts, limits.chunk_tokens, limits.overlap):
        own = list_drafts(portion)
        left_out = [one for piece in portion if not piece.repeated for one in by_turn.get(piece.said.id, [])]
        if over or not (own or any(one.reason in MAY_ADD for one in left_out)):
            reviewed += own
            continue
        try:
            reviewed += session.review(portion, left_out)
            heard += 1
        except _ModelUnusable as failure:
            reviewed += own
            reasons.append(failure.reason)
            over = failure.final or len(reasons) >= MAX_FAILURES
        over = over or session.is_over
    reasons += session.cut
    candidates = _sort(reviewed, turns)
    fallback = reasons[0] if reasons else None
    return Proposal(candidates, session.tokens_in, session.tokens_out, session.tries, heard, fallback)


def _sort(candidates: Sequence[Candidate], turns: Sequence[Turn]) -> list[Candidate]:
    """Sort candidates by their turns, because the later of two statements on one day supersedes the other."""
    places = {turn.id: number for number, turn in enumerate(turns)}
    if all(one.decided_by == "rules" for one in candidates):
        return list(candidates)
    return sorted(candidates, key=lambda one: (places[one.sources[0].id], one.sources[0].start))


class _ModelSession:
    """The calls of the model for one session. Counts their time, tokens and tries."""

    def __init__(self, completer: Completer, limits: Limits) -> None:
        self._completer = completer
        self._limits = limits
        self._until = time.monotonic() + limits.total_s
        self.tokens_in = 0
        self.tokens_out = 0
        self.tries = 0
        self.cut: list[str] = []
        """The reasons of answers that broke off and were used as far as they came."""
        self.is_over = False

    def review(self, portion: Sequence[Piece], dropped: Collection[DroppedSentence]) -> list[Candidate]:
        """Return the drafts of a portion as the model changes them, or raise `_ModelUnusable`."""
        answer, failure = self._ask(build_messages(portion))
        try:
            review = review_drafts(strip_wrapping(answer), portion, dropped)
        except RefusedAnswer as error:
            if failure is not None:
                raise _fail(failure) from None
            raise _ModelUnusable(error.reason, final=False) from None
        if failure is not None:
            if not review.changed:
                raise _fail(failure)
            self.cut.append(get_reason(failure))
            self.is_over = _fail(failure).final
        return review.candidates

    def _ask(self, messages: Sequence[Message]) -> tuple[str, ModelFailed | None]:
        """Call the model once. Return its answer as far as it came, and the failure that ended it.

        Raise `_ModelUnusable` if the rest of the time or of the token budget is too small.
        """
        limits = self._limits
        estimate = sum(estimate_tokens(message.content) for message in messages)
        timeout_s = min(limits.call_s, self._until - time.monotonic())
        if timeout_s < MIN_SECONDS:
            raise _ModelUnusable("timeout", final=True)
        most = self.tokens_in + self.tokens_out + estimate + limits.max_tokens
        if limits.tokens is not None and most > limits.tokens:
            raise _ModelUnusable("budget", final=True)
        self.tries += 1
        answer = _Answer(limits.max_tokens * CHARACTERS_PER_TOKEN)
        spent: Spent | None = None
        failure: ModelFailed | None = None
        stream = stream_completion(
            self._completer, messages, max_tokens=limits.max_tokens, timeout_s=timeout_s, temperature=0.0
        )
        try:
            with closing(stream):
                for item in stream:
                    if isinstance(item, Completion):
                        spent = Spent(item.tokens_in, item.tokens_out)
                    elif not answer.add(item):
                        break
        except ModelFailed as error:
            failure, spent = error, charge_failure(error, estimate, limits.max_tokens)
        self._count(spent or Spent(estimate, limits.max_tokens))
        return answer.text, failure

    def _count(self, spent: Spent) -> None:
        self.tokens_in += spent.tokens_in
        self.tokens_out += spent.tokens_out


def _fail(failure: ModelFailed) -> _ModelUnusable:
    reason = get_reason(failure)
    return _ModelUnusable(reason, final=reason not in ("refused", "cut"))


class _Answer:
    """The text of an answer as it arrives."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[str] = []
        self._length = self._same = 0
        self._line = self._last = ""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, piece: str) -> bool:
        """Add a piece. Return False if no more is wanted: it is too long, or goes in circles."""
        piece = piece[: max(0, self._most - self._length)]
        self._parts.append(piece)
        self._length += len(piece)
        *lines, self._line = (self._line + piece).split("\n")
        for line in filter(None, map(str.strip, lines)):
            self._same = self._same + 1 if line == self._last else 1
            self._last = line
            if self._same >= MAX_REPEATS:
                return False
        return self._length < self._most


# -- the budget of tokens


def review_by_model(
    completer: Completer,
    config: LLMConfig,
    reach: TenantStore,
    clock: Clock,
    turns: Sequence[Turn],
    extracted: Extraction,
    fresh: Collection[str],
) -> Extraction:
    """Let the model review what the rules extracted from turns, within its daily token budget.

    `fresh`: the ids of the turns to consolidate; the others are only there to be understood. Call this outside any transaction:
    the model may take minutes.
    """
    drafts = [one for one in extracted.candidates if one.sources[0].id in fresh]
    dropped = [one for one in extracted.dropped if one.id in fresh]
    if not drafts and not any(one.reason in MAY_ADD for one in dropped):
        return extracted
    limits = LOCAL_LIMITS if is_local(config.url) else Limits()
    first = next(number for number, turn in enumerate(turns) if turn.id in fresh)
    shown = turns[max(0, first - limits.overlap) :]
    limits = limits._replace(call_s=config.timeout_s, total_s=4 * config.timeout_s)
    portions = split_portions(shown, drafts, limits.chunk_tokens, limits.overlap)
    ledger = Ledger(reach, clock, config.tokens_per_day)
    # the maximum cost of these turns
    sent = sum(estimate_tokens(message.content) for portion in portions for message in build_messages(portion))
    reserve = ledger.set_aside(sent + len(portions) * (PROMPT_TOKENS + limits.max_tokens))
    tokens = None if config.tokens_per_day is None else reserve
    spent_in = spent_out = calls = 0
    try:
        proposal = propose(completer, shown, drafts, dropped, limits._replace(tokens=tokens))
        spent_in, spent_out, calls = proposal.tokens_in, proposal.tokens_out, proposal.tries
    finally:
        ledger.settle(reserve, spent_in, spent_out, calls)
    method = "rules" if not proposal.reviewed else "model" if proposal.fallback is None else "model+rules"
    return extracted._replace(candidates=proposal.candidates, method=method, note=proposal.fallback)
