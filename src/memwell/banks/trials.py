"""Compacting a bank now, and trying out beforehand what that would give."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, structs

from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound
from ..jobs import queue
from ..jobs.queue import JobKind, JobRun, Repeat
from ..model.collection import Entry
from ..model.fields import Content
from ..storage.port import Reach
from .banks import Bank, BankId, Prompt, checked_key, find_bank, place
from .compaction import Item, retold, summarise_items, to_fold, visible
from .compaction import compact as compact_bank
from .entries import Key, key_address

FEW = 20
MAX_DIRECTION = 2000
NO_MODEL = (
    "Entries are made up by a language model, and none is set. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`, or give `sample_entries`."
)
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
    job = queue.enqueue(space.tx, "compact", {"bank": request.bank, **_narrowed(space, request)}, space.now)
    return Compacting(memory_bank_id=request.bank, status="scheduled", job=job)


def _narrowed(space: Space, request: CompactBank) -> dict[str, int]:
    """One key, if one was given: by its number, since a job is kept longer than a name may be."""
    if request.key is None:
        return {}
    address = key_address(space, request.bank, checked_key(request.key))
    return {"address": 0 if address is None else address.id}


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
Direction = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_DIRECTION,
        description="What entries should be about that a language model makes up to try it with: at most 2,000 characters.",
    ),
]
EntryCount = Annotated[int, Meta(ge=2, le=FEW, description=f"How many entries `generate_direction` makes: 2 to {FEW}.")]


class TryBank(Request, frozen=True, kw_only=True):
    """Which bank, with the entries of a key, with samples or with entries made up, and perhaps with another prompt. With none
    of them, the key that has the most entries is tried."""

    bank: BankId
    key: Key | None = None
    sample_entries: Samples | None = None
    generate_direction: Direction | None = None
    entry_count: EntryCount = 5
    compaction_prompt: Prompt | None = None


@operation(
    "banks.test_compaction",
    "POST /v1/memory_banks/{bank}/test-compaction",
    role="agent",
    outside=True,
    patient=True,
    example=Example({"bank": "$0.id", "sample_entries": _SAMPLES}, _GIVEN),
)
def test_compaction(call: Call, request: TryBank) -> Trial:
    """Show what compacting would give, on a key's entries or on samples, which are folded all at once. Nothing is changed."""
    sources = (request.key, request.sample_entries, request.generate_direction)
    if sum(one is not None for one in sources) > 1:
        raise Invalid("Give at most one of `key`, `sample_entries` and `generate_direction`.", field="sample_entries")
    _, bank = call.read(lambda space: find_bank(space, request.bank))
    if request.compaction_prompt is not None:
        bank = structs.replace(bank, compaction_prompt=request.compaction_prompt)
    if request.sample_entries is not None or request.generate_direction is not None:
        return _of_samples(call, bank, request)
    if request.key is not None:
        return _of_key(call, bank, request.bank, request.key)
    return _of_longest_key(call, bank, request.bank)


class TrySamples(Request, frozen=True, kw_only=True):
    """Samples, given or made up, and the prompt to try with them."""

    sample_entries: Samples | None = None
    generate_direction: Direction | None = None
    entry_count: EntryCount = 5
    compaction_prompt: Prompt
    type: Annotated[Literal["conversation", "general"], Meta(description="The type of bank.")] = "conversation"


@operation(
    "banks.try_compaction",
    "POST /v1/memory_banks/test-compaction",
    role="agent",
    outside=True,
    patient=True,
    example=Example({"sample_entries": _SAMPLES, "compaction_prompt": "Keep decisions and dates."}),
)
def try_compaction(call: Call, request: TrySamples) -> Trial:
    """Try a compaction prompt on sample entries, without a bank."""
    if (request.sample_entries is None) == (request.generate_direction is None):
        raise Invalid("Give either `sample_entries` or `generate_direction`.", field="sample_entries")
    bank = Bank(type=request.type, compaction_prompt=request.compaction_prompt)
    return _of_samples(call, bank, request)


# -- what is tried -------------------------------------------------------------------------------------------------------


class _Tried(NamedTuple):
    """What is visible, which of it is folded, and what the summary is made of."""

    items: list[Item]
    folded: list[Item]
    told: list[Item]


def _of_samples(call: Call, bank: Bank, request: TryBank | TrySamples) -> Trial:
    """Samples are folded all at once, whatever the bank's thresholds."""
    direction = request.generate_direction
    samples = request.sample_entries if direction is None else _made_up(call, bank, direction, request.entry_count)
    items = [Item(number, _entry(number, one), 0) for number, one in enumerate(samples or [], 1)]
    trial = _trial(call, bank, _Tried(items, items, items))
    return structs.replace(trial, generated=direction is not None)


def _made_up(call: Call, bank: Bank, direction: str, count: int) -> list[Sample]:
    """Entries by the language model that is set."""
    from .summary.samples import invent  # here, since hardly anybody needs it

    if call.engine.completer is None:
        raise Invalid(NO_MODEL, field="generate_direction")
    chat = bank.type == "conversation"
    reach = Reach(call.engine.store, call.principal.tenant)
    made = invent(*call.engine.completer, reach, call.engine.clock, direction, count, chat=chat)
    return [Sample(content=one.content, speaker=one.speaker) for one in made]


def _of_key(call: Call, bank: Bank, bank_id: str, key: str) -> Trial:
    return _trial(call, bank, call.read(lambda space: _looked_up(space, bank, bank_id, key)))


def _of_longest_key(call: Call, bank: Bank, bank_id: str) -> Trial:
    """Of the key with the most entries, and it is said which one that is."""
    keys = call.read(lambda space: space.rows("bank_keys", place(bank_id)))
    if not keys:
        raise Invalid(
            "The bank has no entries: give `sample_entries` or a `generate_direction`.", field="sample_entries"
        )
    key, entries = max(keys, key=lambda row: (row[1], row[0]))[:2]
    trial = _of_key(call, bank, bank_id, key)
    told = f"Tried on the key with the most entries, `{key}` ({entries}). {trial.evaluation.reasoning}"
    return structs.replace(trial, evaluation=structs.replace(trial.evaluation, reasoning=told))


def _looked_up(space: Space, bank: Bank, bank_id: str, key: str) -> _Tried:
    """Fold as the bank would."""
    address = key_address(space, bank_id, checked_key(key))
    if address is None:
        raise NotFound("The bank has no such key.")
    shown = visible(space.tx, address.id, space.now)
    folded = to_fold(shown, bank, space.now)
    told = retold(space.tx, address.id, folded, space.now).items if folded else []
    return _Tried(shown.items, folded, told)


def _entry(number: int, one: Sample) -> Entry:
    return Entry(
        str(number), 1, number, "turn", one.speaker, None, one.content, None, None, "user", None, None, 0, 0, 0
    )


# -- what comes of it ----------------------------------------------------------------------------------------------------


def _trial(call: Call, bank: Bank, tried: _Tried) -> Trial:
    reach = Reach(call.engine.store, call.principal.tenant)
    made = summarise_items(call.engine, reach, bank, tried.told) if tried.folded else None
    gone = {item.entry.id for item in tried.folded}
    return Trial(
        original_entries=[_shown(item) for item in tried.items],
        compaction_summary=made.text if made else "",
        surviving_entries=[_shown(item) for item in tried.items if item.entry.id not in gone],
        evaluation=_evaluated(tried.folded, made.text if made else ""),
        method=made.method if made else "none",
        note=made.note if made else None,
    )


def _shown(item: Item) -> Tried:
    return Tried(content=item.entry.content, speaker=item.entry.role)


def _evaluated(folded: Sequence[Item], summary: str) -> Evaluation:
    """Judged by what can be counted: how much shorter it is, and how many of the telling words it keeps."""
    from ..text.tokens import estimate  # here, since its patterns take a while to compile

    if not folded:
        return Evaluation(
            verdict="pass", score=5, reasoning="Nothing is beyond the thresholds: nothing would be folded."
        )
    before, after = sum(estimate(item.entry.content) for item in folded), estimate(summary)
    words = {word for item in folded for word in _telling(item.entry.content)}
    kept = len(words & _telling(summary)) / len(words) if words else 1.0
    reasoning = f"{before} tokens become {after}; {kept:.0%} of the names and numbers are kept."
    if fault := _fault(folded, summary, shorter=after < before):
        return Evaluation(verdict="fail", score=1, reasoning=f"{fault} {reasoning}")
    score = 1 + (after <= 0.7 * before) + (kept >= 0.1) + (kept >= 0.3) + (kept >= 0.6)
    return Evaluation(verdict="pass" if score >= 3 else "fail", score=score, reasoning=reasoning)


def _fault(folded: Sequence[Item], summary: str, *, shorter: bool) -> str | None:
    """What makes a summary worthless, whatever else it is."""
    if not summary.strip():
        told = any(map(str.isalnum, chain.from_iterable(item.entry.content for item in folded)))
        return "The summary is empty although there was something to tell." if told else None
    return None if shorter else "The summary is not shorter than what it replaces."


def _telling(text: str) -> set[str]:
    """Names and numbers: words with a capital letter or a digit."""
    words = {word.strip(".,;:!?()[]\"'“”") for word in text.split()}
    return {word for word in words if any(sign.isdigit() or sign.isupper() for sign in word)}


def run_compaction(engine: Engine, run: JobRun) -> dict[str, Any] | Repeat:
    return compact_bank(run, lambda bank, items: summarise_items(engine, run.reach, bank, items))


JOBS = (JobKind("compact", run_compaction),)
