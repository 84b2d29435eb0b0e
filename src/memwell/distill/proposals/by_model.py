"""Extraction by a language model, within a tenant's budget of tokens, and what it costs written down."""

from __future__ import annotations

from collections.abc import Sequence

from ...clock import Clock
from ...models.completer import Completer, estimated_tokens
from ...models.llm import Wanted
from ...storage.port import Reach
from ..extraction.extract import extract
from ..plan import Extracted
from ..values import Said
from .ledger import Ledger
from .propose import Limits, propose

PROMPT_TOKENS = 1500
"""About what the instructions to the model take, with each portion."""


def by_model(completer: Completer, wanted: Wanted, reach: Reach, clock: Clock, turns: Sequence[Said]) -> Extracted:
    """Candidates by the model as far as it can be believed and afforded, by rules for the rest. No transaction is open
    meanwhile."""
    ledger = Ledger(reach, clock, wanted.tokens_per_day)
    limits = Limits(call_s=wanted.timeout_s, total_s=4 * wanted.timeout_s)
    aside = ledger.set_aside(_most(turns, limits))
    tokens = None if wanted.tokens_per_day is None else aside
    spent_in = spent_out = calls = 0
    try:
        found = propose(completer, turns, limits=limits._replace(tokens=tokens), rules=extract)
        spent_in, spent_out, calls = found.tokens_in, found.tokens_out, found.tries
    finally:
        ledger.settle(aside, spent_in, spent_out, calls)
    method = "model" if found.fallback is None else "model+rules" if found.tokens_out else "rules"
    return Extracted(found.candidates, method, found.fallback)


def _most(turns: Sequence[Said], limits: Limits) -> int:
    """What asking about some turns costs at most: each portion once more if its first answer is no use."""
    asked = sum(estimated_tokens(said.text) for said in turns)
    portions = 1 + asked // limits.chunk_tokens
    return 2 * (2 * asked + portions * (PROMPT_TOKENS + limits.max_tokens))
