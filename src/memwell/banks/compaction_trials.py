"""Try a compaction without changing anything: on a key, on sample entries, or on entries that a language model makes up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, structs

from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound
from ..model.collection import Entry
from ..model.fields import Content
from ..storage.port import TenantStore
from .banks import Bank, BankId, Key, Prompt, bank_place, check_key, find_key, require_bank
from .compaction import Item, load_sources, load_visible, select_items, summarise_items

MAX_SAMPLES = 20
MAX_DIRECTION = 2000
NO_MODEL = (
    "Generating entries needs a language model, and none is set. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`, or give `sample_entries`."
)
_SAMPLES = [
    {"speaker": "user", "content": "I moved to Porto in May."},
    {"speaker": "assistant", "content": "Noted, thanks!"},
    {"speaker": "user", "content": "Please book the 9:40 train to Lisbon."},
]


class Sample(Request, frozen=True, kw_only=True):
    """An entry to try a compaction with."""

    content: Content
    speaker: Annotated[Literal["user", "assistant"], Meta(description="`user` or `assistant`.")] | None = None


class TrialEntry(Response, frozen=True, kw_only=True):
    """An entry of a trial."""

    content: str
    speaker: str | None = None


class Evaluation(Response, frozen=True, kw_only=True):
    """A verdict on the summary with a score from 1 to 5 and the reasons."""

    verdict: str
    score: int
    reasoning: str


class Trial(Response, frozen=True, kw_only=True):
    """The result that a compaction would have. Nothing was changed."""

    original_entries: list[TrialEntry]
    compaction_summary: str
    surviving_entries: list[TrialEntry]
    evaluation: Evaluation
    method: str
    note: str | None = None
    generated: bool = False


Samples = Annotated[
    list[Sample], Meta(min_length=1, max_length=MAX_SAMPLES, description=f"1 to {MAX_SAMPLES} sample entries.")
]
Direction = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_DIRECTION,
        description="The topic of sample entries that a language model makes up: at most 2,000 characters.",
    ),
]
EntryCount = Annotated[
    int,
    Meta(ge=2, le=MAX_SAMPLES, description=f"The number of entries for `generate_direction`, from 2 to {MAX_SAMPLES}."),
]


class TryBank(Request, frozen=True, kw_only=True):
    """A bank, and the entries to try: those of a key, samples, or generated ones. Without any of these, the key with the most
    entries is tried. `compaction_prompt` replaces the prompt of the bank."""

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
    example=Example(
        {"bank": "$0.id", "sample_entries": _SAMPLES}, (("banks.create", {"name": "chats", "max_turns": 4}),)
    ),
)
def test_compaction(call: Call, request: TryBank) -> Trial:
    """Show the result of compacting a key or samples, without changing anything. Samples are compacted all at once."""
    sources = (request.key, request.sample_entries, request.generate_direction)
    if sum(one is not None for one in sources) > 1:
        raise Invalid("Give at most one of `key`, `sample_entries` and `generate_direction`.", field="sample_entries")
    bank = call.read(lambda space: require_bank(space, request.bank)).settings
    if request.compaction_prompt is not None:
        bank = structs.replace(bank, compaction_prompt=request.compaction_prompt)
    if request.sample_entries is not None or request.generate_direction is not None:
        return _try_samples(call, bank, request)
    if request.key is not None:
        return _try_key(call, bank, request.bank, request.key)
    keys = call.read(lambda space: space.rows("bank_keys", bank_place(request.bank)))
    if not keys:
        raise Invalid(
            "The bank has no entries: give `sample_entries` or a `generate_direction`.", field="sample_entries"
        )
    key, count = max(keys, key=lambda row: (row[1], row[0]))[:2]
    trial = _try_key(call, bank, request.bank, key)
    reasoning = f"Tried on the key with the most entries, `{key}` ({count}). {trial.evaluation.reasoning}"
    return structs.replace(trial, evaluation=structs.replace(trial.evaluation, reasoning=reasoning))


class TrySamples(Request, frozen=True, kw_only=True):
    """Samples, given or generated, and the prompt to try with them."""

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
    return _try_samples(call, bank, request)


def _try_samples(call: Call, bank: Bank, request: TryBank | TrySamples) -> Trial:
    """Compact all samples at once, whatever the bank's thresholds are."""
    direction = request.generate_direction
    samples = request.sample_entries or []
    if direction is not None:
        samples = _generate_samples(call, bank, direction, request.entry_count)
    items = [
        Item(
            seq,
            Entry(str(seq), 1, seq, "turn", one.speaker, None, one.content, None, None, "user", None, None, 0, 0, 0),
            0,
        )
        for seq, one in enumerate(samples, 1)
    ]
    return structs.replace(_build_trial(call, bank, items, items, items), generated=direction is not None)


def _generate_samples(call: Call, bank: Bank, direction: str, count: int) -> list[Sample]:
    from .summary.by_model import generate_samples  # imported here because it is rarely needed

    if call.engine.completer is None:
        raise Invalid(NO_MODEL, field="generate_direction")
    reach = TenantStore(call.engine.store, call.principal.tenant)
    chat = bank.type == "conversation"
    samples = generate_samples(*call.engine.completer, reach, call.engine.clock, direction, count, chat=chat)
    return [Sample(content=content, speaker=speaker) for content, speaker in samples]


def _try_key(call: Call, bank: Bank, bank_id: str, key: str) -> Trial:
    """Compact a key as the bank would."""

    def read(space: Space) -> tuple[list[Item], list[Item], list[Item]]:
        address = find_key(space, bank_id, check_key(key))
        if address is None:
            raise NotFound("The bank has no such key.")
        visible = load_visible(space.tx, address.id, space.now)
        selected = select_items(visible, bank, space.now)
        sources = load_sources(space.tx, address.id, selected, space.now).items if selected else []
        return visible.items, selected, sources

    return _build_trial(call, bank, *call.read(read))


def _build_trial(call: Call, bank: Bank, items: list[Item], selected: list[Item], sources: list[Item]) -> Trial:
    """Summarise the sources, and show the items that would be replaced and those that would remain."""
    reach = TenantStore(call.engine.store, call.principal.tenant)
    summary = summarise_items(call.engine, reach, bank, sources) if selected else None
    replaced = {item.entry.id for item in selected}
    entries = [(item.entry.id, TrialEntry(content=item.entry.content, speaker=item.entry.role)) for item in items]
    return Trial(
        original_entries=[entry for _, entry in entries],
        compaction_summary=summary.text if summary else "",
        surviving_entries=[entry for entry_id, entry in entries if entry_id not in replaced],
        evaluation=_evaluate(selected, summary.text if summary else ""),
        method=summary.method if summary else "none",
        note=summary.note if summary else None,
    )


def _evaluate(selected: Sequence[Item], summary: str) -> Evaluation:
    """Judge a summary by its length and by the names and numbers that it keeps."""
    from ..text.tokens import estimate_tokens  # imported here because its patterns take a while to compile

    if not selected:
        return Evaluation(
            verdict="pass", score=5, reasoning="Nothing is beyond the thresholds: nothing would be compacted."
        )
    before, after = sum(estimate_tokens(item.entry.content) for item in selected), estimate_tokens(summary)
    words = {word for item in selected for word in _names_and_numbers(item.entry.content)}
    kept = len(words & _names_and_numbers(summary)) / len(words) if words else 1.0
    reasoning = f"{before} tokens become {after}; {kept:.0%} of the names and numbers are kept."
    fault = None
    if not summary.strip():
        if any(char.isalnum() for item in selected for char in item.entry.content):
            fault = "The summary is empty although the entries are not."
    elif after >= before:
        fault = "The summary is not shorter than the entries."
    if fault:
        return Evaluation(verdict="fail", score=1, reasoning=f"{fault} {reasoning}")
    score = 1 + (after <= 0.7 * before) + (kept >= 0.1) + (kept >= 0.3) + (kept >= 0.6)
    return Evaluation(verdict="pass" if score >= 3 else "fail", score=score, reasoning=reasoning)


def _names_and_numbers(text: str) -> set[str]:
    """The words with a capital letter or a digit."""
    words = {word.strip(".,;:!?()[]\"'“”") for word in text.split()}
    return {word for word in words if any(char.isdigit() or char.isupper() for char in word)}
