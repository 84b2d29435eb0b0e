"""Compacting a bank now, and trying out beforehand what that would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, structs

from ..dispatch import Call
from ..distill.fold import Item, to_fold, visible
from ..errors import Invalid
from ..lifecycle import jobs
from ..model.bank import Bank
from ..model.entry import Entry
from ..model.fields import Content
from ..operation import Example, Request, Response, operation
from ..space import Space
from ..storage.port import Reach
from .bank_entries import Key
from .bank_reading import key_address
from .banks import BankId, Prompt, find_bank

FEW = 20
_GIVEN = (("banks.create", {"name": "chats", "max_turns": 4}),)
_SAMPLES = [
    {"speaker": "user", "content": "I moved to Porto in May."},
    {"speaker": "assistant", "content": "Noted, thanks!"},
    {"speaker": "user", "content": "Please book the 9:40 train to Lisbon."},
]


class Compacting(Response, frozen=True, kw_only=True):
    """That a compaction is in line, and the job that does it."""

    memory_bank_id: str
    status: str
    job: str


class CompactBank(Request, frozen=True, kw_only=True):
    """Which bank to compact: all its keys, or one."""

    bank: BankId
    key: Key | None = None


@operation(
    "banks.compact",
    "POST /v1/memory_banks/{bank}/compact",
    effect="write",
    status=202,
    example=Example({"bank": "$0.id"}, _GIVEN),
)
def compact(space: Space, request: CompactBank) -> Compacting:
    """Fold what is beyond the bank's thresholds into summaries now. The job says when it is done."""
    _, bank = find_bank(space, request.bank)
    if not bank.compacts:
        raise Invalid("This bank has no threshold: set `max_turns`, `max_size_tokens` or `max_age_days` first.")
    payload = {"bank": request.bank} | ({"key": request.key} if request.key is not None else {})
    job = jobs.enqueue(space.tx, "compact", payload, space.now)
    return Compacting(memory_bank_id=request.bank, status="scheduled", job=job)


class Sample(Request, frozen=True, kw_only=True):
    """An entry to try a compaction with."""

    content: Content
    speaker: Annotated[Literal["user", "assistant"], Meta(description="`user` or `assistant`.")] | None = None


class Tried(Response, frozen=True, kw_only=True):
    """An entry of a trial."""

    content: str
    speaker: str | None = None


class Evaluation(Response, frozen=True, kw_only=True):
    """Whether a summary is worth having, from 1 to 5, and why."""

    verdict: str
    score: int
    reasoning: str


class Trial(Response, frozen=True, kw_only=True):
    """What a compaction would give. Nothing was changed."""

    original_entries: list[Tried]
    compaction_summary: str
    surviving_entries: list[Tried]
    evaluation: Evaluation
    method: str
    note: str | None = None
    generated: bool = False


Samples = Annotated[list[Sample], Meta(min_length=1, max_length=FEW, description=f"1 to {FEW} entries to try it with.")]


class TryBank(Request, frozen=True, kw_only=True):
    """Which bank, with a key's entries or with samples, and perhaps with another prompt."""

    bank: BankId
    key: Key | None = None
    sample_entries: Samples | None = None
    compaction_prompt: Prompt | None = None


@operation(
    "banks.test_compaction",
    "POST /v1/memory_banks/{bank}/test-compaction",
    outside=True,
    patient=True,
    example=Example({"bank": "$0.id", "sample_entries": _SAMPLES}, _GIVEN),
)
def test_compaction(call: Call, request: TryBank) -> Trial:
    """Show what compacting would give, on a key's entries or on samples. Nothing is changed."""
    if (request.key is None) == (request.sample_entries is None):
        raise Invalid("Give either a `key` of the bank or `sample_entries`.", field="sample_entries")
    _, bank = call.read(lambda space: find_bank(space, request.bank))
    if request.compaction_prompt is not None:
        bank = structs.replace(bank, compaction_prompt=request.compaction_prompt)
    if request.sample_entries is not None:
        return _tried(call, bank, _items(request.sample_entries), all_at_once=not bank.compacts)
    key = request.key or ""
    return _tried(call, bank, call.read(lambda space: _of_key(space, request.bank, key)))


class TrySamples(Request, frozen=True, kw_only=True):
    """Samples, and the prompt to try with them."""

    sample_entries: Samples
    compaction_prompt: Prompt
    type: Annotated[Literal["conversation", "general"], Meta(description="The type of bank.")] = "conversation"


@operation(
    "banks.try_compaction",
    "POST /v1/memory_banks/test-compaction",
    outside=True,
    patient=True,
    example=Example({"sample_entries": _SAMPLES, "compaction_prompt": "Keep decisions and dates."}),
)
def try_compaction(call: Call, request: TrySamples) -> Trial:
    """Try a compaction prompt on sample entries, without a bank."""
    bank = Bank(type=request.type, compaction_prompt=request.compaction_prompt)
    return _tried(call, bank, _items(request.sample_entries), all_at_once=True)


OPERATIONS = (compact, try_compaction, test_compaction)


def _of_key(space: Space, bank_id: str, key: str) -> list[Item]:
    address = key_address(space, bank_id, key)
    return [] if address is None else visible(space.tx, address.id, space.now)


def _items(samples: Sequence[Sample]) -> list[Item]:
    return [Item(number, _entry(number, one), 0) for number, one in enumerate(samples, 1)]


def _entry(number: int, one: Sample) -> Entry:
    return Entry(
        str(number), 1, number, "turn", one.speaker, None, one.content, None, None, "user", None, None, 0, 0, 0
    )


def _tried(call: Call, bank: Bank, items: Sequence[Item], *, all_at_once: bool = False) -> Trial:
    """Fold as the bank would; samples without thresholds all at once."""
    folded = list(items) if all_at_once else to_fold(items, bank, call.engine.clock.now())
    left = [item for item in items if item not in folded]
    made = call.engine.summarise(Reach(call.engine.store, call.principal.tenant), bank, folded) if folded else None
    return Trial(
        original_entries=[_shown(item) for item in items],
        compaction_summary=made.text if made else "",
        surviving_entries=[_shown(item) for item in left],
        evaluation=_evaluated(folded, made.text if made else ""),
        method=made.method if made else "none",
        note=made.note if made else None,
    )


def _shown(item: Item) -> Tried:
    return Tried(content=item.entry.content, speaker=item.entry.role)


def _evaluated(folded: Sequence[Item], summary: str) -> Evaluation:
    """Judged by what can be counted: how much shorter it is, and how many of the telling words it keeps."""
    from ..context.tokens import estimate  # here, since its patterns take a while to compile

    if not folded:
        return Evaluation(
            verdict="pass", score=5, reasoning="Nothing is beyond the thresholds: nothing would be folded."
        )
    before = sum(estimate(item.entry.content) for item in folded)
    after = estimate(summary)
    words = {word for item in folded for word in _telling(item.entry.content)}
    kept = len(words & _telling(summary)) / len(words) if words else 1.0
    shorter = 1 - after / before if before else 0.0
    good = (bool(summary.strip())) + (shorter > 0) + (shorter >= 0.3) + (kept >= 0.3) + (kept >= 0.6)
    score = max(1, min(5, int(good)))
    reasoning = f"{before} tokens become {after}; {kept:.0%} of the names and numbers are kept."
    return Evaluation(verdict="pass" if score >= 3 else "fail", score=score, reasoning=reasoning)


def _telling(text: str) -> set[str]:
    """Names and numbers: words with a capital letter or a digit."""
    words = {word.strip(".,;:!?()[]\"'“”") for word in text.split()}
    return {word for word in words if any(sign.isdigit() or sign.isupper() for sign in word)}
