"""Extraction by a language model, within a tenant's budget of tokens, and what it costs written down.

What a session may cost at most is set aside before the model is asked, so that workers which ask at the same time cannot
spend the same tokens; what was not needed is given back. A worker that dies in between has spent it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...clock import DAY, Clock
from ...models.completer import Completer, estimated_tokens
from ...models.llm import Wanted
from ...storage.port import Reach, Tx
from ..extraction.extract import extract
from ..plan import Extracted
from ..values import Said
from .budget import left
from .propose import Limits, propose

PROMPT_TOKENS = 1500
"""About what the instructions to the model take, with each portion."""


def by_model(completer: Completer, wanted: Wanted, reach: Reach, clock: Clock, turns: Sequence[Said]) -> Extracted:
    """Candidates by the model as far as it can be believed and afforded, by rules for the rest. No transaction is open
    meanwhile."""
    day = clock.now() // DAY
    limits = Limits(call_s=wanted.timeout_s, total_s=4 * wanted.timeout_s)
    aside = reach.write(lambda tx: _set_aside(tx, day, _most(turns, limits), wanted.tokens_per_day))
    tokens = None if wanted.tokens_per_day is None else aside
    spent_in = spent_out = calls = 0
    try:
        found = propose(completer, turns, limits=limits._replace(tokens=tokens), rules=extract)
        spent_in, spent_out, calls = found.tokens_in, found.tokens_out, found.tries
    finally:
        reach.write(lambda tx: _settle(tx, day, spent_in - aside, spent_out, calls))
    method = "model" if found.fallback is None else "model+rules" if found.tokens_out else "rules"
    return Extracted(found.candidates, method, found.fallback)


def _most(turns: Sequence[Said], limits: Limits) -> int:
    """What asking about some turns costs at most: each portion once more if its first answer is no use."""
    asked = sum(estimated_tokens(said.text) for said in turns)
    portions = 1 + asked // limits.chunk_tokens
    return 2 * (2 * asked + portions * (PROMPT_TOKENS + limits.max_tokens))


def _set_aside(tx: Tx, day: int, most: int, budget: int | None) -> int:
    row = tx.row("spent_since", day=day)
    room = left(row[1] + row[2] if row else 0, budget)
    aside = most if room is None else min(most, room)
    _settle(tx, day, aside, 0, 0)
    return aside


def _settle(tx: Tx, day: int, tokens_in: int, tokens_out: int, calls: int) -> None:
    tx.send("add_spending", day=day, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)
