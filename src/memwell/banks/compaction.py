"""Compaction: replace older entries of a key by one summary that lists them, or try this without changing anything. Compaction
destroys nothing: erasing the summary makes the entries visible again.

The `compact` job runs when a key exceeds a threshold of its bank, every hour for entries that became too old, and on request.
No transaction is open while a summary is made. The summary is applied only if all its sources are still visible. Entries
written meanwhile are not affected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, structs

from .. import typed
from ..clock import DAY, HOUR
from ..core import documents
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space, worker_space
from ..erasure.erase import erase_fact
from ..errors import Invalid, NotFound, Stale, Unavailable
from ..jobs import queue
from ..jobs.queue import JobKind, JobRun, Repeat
from ..model.collection import Draft, Entry
from ..model.fields import Content, check_content, to_json
from ..screening.screen import lowest_trust
from ..search import upkeep
from ..storage.port import TenantStore, Tx
from ..text.tokens import estimate_tokens
from .banks import (
    BANKS,
    KIND,
    RESERVED,
    SUMMARY,
    Bank,
    BankId,
    Key,
    Prompt,
    bank_place,
    check_key,
    find_key,
    require_bank,
)
from .reading import Item, list_items
from .summary import Model, Summary, generate_samples, summarise, summarise_by_model
from .utterances import EMPTY_SUMMARY, Line

PAGE = 10_000
"""Entries that are read at once."""
MAX_RESUMMARISED = 2_000
"""The most entries behind earlier summaries that a new summary is made of, the newest."""
MAX_ATTEMPTS = 5
SUMMARY_TOKENS = 600
"""The maximum length of a summary, which is also at most a quarter of the bank's `max_size_tokens`."""
OWN_METADATA = (*RESERVED, "compaction")
"""Metadata that differs from entry to entry."""


class Size(NamedTuple):
    """A turn and its length."""

    seq: int
    id: str
    tokens: int


class Visible(NamedTuple):
    """The visible entries and summaries of a key, the oldest first."""

    items: list[Item]
    later: list[Size]
    """The turns after these items, if there are more than `PAGE`."""


def load_visible(tx: Tx, address_id: int, now: int) -> Visible:
    items = list_items(tx, address_id, now, PAGE)
    positions = [item.position for item in items if not item.entries]
    later: list[Size] = []
    if len(positions) == PAGE:
        first = positions[-1] + 1
        while rows := tx.rows("turns_from", address_id=address_id, first=first, now=now, limit=PAGE):
            later += [Size(seq, entry_id, estimate_tokens(content)) for seq, entry_id, content in rows]
            first = rows[-1][0] + 1
    return Visible(items, later)


def select_items(visible: Visible, bank: Bank, now: int) -> list[Item]:
    """Return the items to compact: the oldest, so that about half of the allowed size remains, and compactions are rare. The
    newest entry always remains, and a single summary is not compacted again. If there are more than `PAGE` turns, the first
    ones are compacted first, then the others together with their summary."""
    turns = [item for item in visible.items if not item.entries]
    count = len(turns) + len(visible.later)
    end = 0
    if bank.max_turns is not None and count > bank.max_turns:
        end = count - max(1, bank.max_turns // 2)
    if bank.max_size_tokens is not None:
        end = max(end, _count_excess(visible, bank.max_size_tokens))
    if bank.max_age_days is not None:
        oldest = now - bank.max_age_days * DAY
        end = max(end, sum(item.entry.recorded_at < oldest for item in turns))
    end = min(end, count - 1)
    if end <= 0:
        return []
    border = turns[end].position if end < len(turns) else turns[-1].position + 1
    return [item for item in visible.items if item.position < border]


def _count_excess(visible: Visible, max_tokens: int) -> int:
    """Return the number of turns to compact because the visible items are too long together."""
    sizes = [(estimate_tokens(item.entry.content), item.entries > 0) for item in visible.items]
    turns = [tokens for tokens, is_summary in sizes if not is_summary] + [one.tokens for one in visible.later]
    if sum(turns) + sum(tokens for tokens, is_summary in sizes if is_summary) <= max_tokens:
        return 0
    totals = list(accumulate(reversed(turns)))
    return len(turns) - max(1, bisect_right(totals, max_tokens // 2))


# -- thresholds ----------------------------------------------------------------------------------------------------------


class _KnownSize(NamedTuple):
    """An upper bound for the visible tokens of a key, up to one of its turns and with these summaries."""

    seq: int
    id: str
    summaries: tuple[str, ...]
    tokens: int


_known_sizes: dict[int, _KnownSize] = {}
"""Sizes of keys that this process has counted, without any content."""
_MAX_KNOWN_SIZES = 10_000


def exceeds_threshold(tx: Tx, address_id: int, bank: Bank, now: int) -> bool:
    """Return whether a key exceeds a threshold of its bank. Cheap checks come first, and most keys need no others."""
    turns = bank.max_turns
    if (
        turns is not None
        and tx.row(
            "beyond_entries", address_id=address_id, turns=turns
        )  # an index answers this, and it is false for most keys
        and tx.row("beyond_turns", address_id=address_id, turns=turns, now=now)
    ):
        return True
    may_be_old = False
    if bank.max_age_days is not None:
        oldest = tx.row("oldest_turn", address_id=address_id, now=now)
        may_be_old = oldest is not None and oldest[0] < now - bank.max_age_days * DAY
    if not may_be_old and (bank.max_size_tokens is None or _is_known_to_fit(tx, address_id, bank.max_size_tokens, now)):
        return False
    visible = load_visible(tx, address_id, now)
    if select_items(visible, bank, now):
        return True
    if turns_shown := [item.entry for item in visible.items if not item.entries]:
        if len(_known_sizes) >= _MAX_KNOWN_SIZES:
            _known_sizes.clear()
        last = visible.later[-1] if visible.later else turns_shown[-1]
        summaries = tuple(item.entry.id for item in visible.items if item.entries)
        tokens = sum(estimate_tokens(item.entry.content) for item in visible.items)
        tokens += sum(one.tokens for one in visible.later)
        _known_sizes[address_id] = _KnownSize(last.seq, last.id, summaries, tokens)
    return False


def _is_known_to_fit(tx: Tx, address_id: int, max_tokens: int, now: int) -> bool:
    """Return whether a key is small enough, by its last counted size and the turns since then.

    Turns do not change, and compacted entries become visible again only when their summary is erased. So as long as the
    summaries are the same and the last counted turn is still there, the counted size cannot have grown.
    """
    known = _known_sizes.get(address_id)
    if known is None:
        return False
    summaries = tx.rows("shown_summaries_up", address_id=address_id, now=now, limit=PAGE)
    if known.summaries != tuple(row[2] for row in summaries):
        return False
    turns = tx.rows("turns_from", address_id=address_id, first=known.seq, now=now, limit=PAGE)
    if not turns or turns[0][:2] != (known.seq, known.id) or len(turns) == PAGE:
        return False
    tokens = known.tokens + sum(estimate_tokens(content) for _, _, content in turns[1:])
    if tokens > max_tokens:
        return False
    _known_sizes[address_id] = known._replace(seq=turns[-1][0], id=turns[-1][1], tokens=tokens)
    return True


# -- summaries and their entries -----------------------------------------------------------------------------------------


class Sources(NamedTuple):
    """The items that a summary is made of, and the number of entries behind it."""

    items: list[Item]
    entries: int


def load_sources(tx: Tx, address_id: int, items: Sequence[Item], now: int) -> Sources:
    """Return the sources of a summary of items. An earlier summary stands for its entries while the key is complete. After an
    entry has expired, the remaining ones are summarised again, so that summaries do not pass on expired words."""
    summaries = [item for item in items if item.entries]
    first = tx.row("first_kept", address_id=address_id, now=now)
    if not summaries or first == (1,):
        return Sources(list(items), sum(item.entries or 1 for item in items))
    turns = [item for item in items if not item.entries]
    hidden: set[int] = set()  # sequence numbers of the entries behind these summaries, at any depth
    waiting = [item.entry.id for item in summaries]
    while waiting:
        for seq, entry_id, kind in tx.rows("folds_of", id=waiting.pop(), now=now):
            if kind == SUMMARY:
                waiting.append(entry_id)
            else:
                hidden.add(seq)
    newest = sorted(hidden)[-MAX_RESUMMARISED:]
    rows = tx.rows("entries_behind", address_id=address_id, first=newest[0], now=now) if newest else []
    entries = [Item(row[2], Entry(*row)) for row in rows if row[2] in hidden]
    return Sources(sorted([*entries, *turns], key=lambda one: one.position), len(hidden) + len(turns))


def hide_behind_summary(
    space: Space, address_id: int, summary: Entry, sources: Sequence[Entry], entries: int | None = None
) -> None:
    """Hide entries behind a summary. Raise `Stale` if one of them is no longer visible. `entries` is the number of summarised
    entries, if it differs from the number behind the sources."""
    # Position and number of entries of each source: those of a summary, or its own.
    places = [space.tx.row("summary_place", id=one.id) or (one.seq, 1) for one in sources]
    for source in sources:
        rows = space.tx.rows("retire_entry", id=source.id, version=source.version, now=space.now)
        if not rows:
            raise Stale("Some of the entries to summarise were erased, or are already summarised: load them again.")
        upkeep.mark_changed(space.tx, rows)
        space.tx.send("fold_entry", docid=rows[0][0], address_id=address_id, summary_id=summary.id)
    position = max(int(place[0]) for place in places)
    count = sum(int(place[1]) for place in places) if entries is None else entries
    space.tx.send("add_summary", id=summary.id, position=position, entries=count)


def dissolve_summaries(space: Space, entry_id: str) -> None:
    """Erase the summaries that contain an entry's words, the outermost first. Their other entries become visible again."""
    chain = [entry_id]
    while outer := space.tx.row("summary_of", id=chain[-1]):
        chain.append(outer[0])
    for summary_id in reversed(chain):
        rows = space.tx.rows("unfold", id=summary_id)
        upkeep.mark_changed(space.tx, rows)
        space.tx.send("forget_folds", id=summary_id)
        if summary_id != entry_id:
            erase_fact(space.tx, summary_id, space.now)


def summarise_items(engine: Engine, reach: TenantStore, bank: Bank, items: Sequence[Item]) -> Summary:
    """Summarise entries: by the language model if one is set and the bank has a prompt, by rules otherwise, or if the check of
    `banks.test_compaction` fails the model's summary."""
    limit = bank.max_size_tokens
    max_tokens = SUMMARY_TOKENS if limit is None else max(20, min(SUMMARY_TOKENS, limit // 4))
    lines = [Line(item.entry.content, item.entry.role, bool(item.entries)) for item in items]
    if engine.completer is None or not bank.compaction_prompt:
        return Summary(summarise(lines, max_tokens))
    model = Model(*engine.completer, reach, engine.clock)
    summary = summarise_by_model(model, bank.compaction_prompt, lines, max_tokens)
    if summary.method == "model" and _evaluate(items, summary.text).verdict == "fail":
        return Summary(summarise(lines, max_tokens), note="poor_summary")
    return summary


# -- the operation and the job -------------------------------------------------------------------------------------------


class Compacting(Response, frozen=True, kw_only=True):
    """The job that compacts the bank."""

    memory_bank_id: str
    status: str
    job: str


class CompactBank(Request, frozen=True, kw_only=True):
    """The bank to compact: all its keys, or one."""

    bank: BankId
    key: Key | None = None


@operation(
    "banks.compact",
    "POST /v1/memory_banks/{bank}/compact",
    effect="write",
    status=202,
    example=Example({"bank": "$0.id"}, (("banks.create", {"name": "chats", "max_turns": 4}),)),
)
def compact_bank(space: Space, request: CompactBank) -> Compacting:
    """Compact the keys that exceed a threshold of the bank. The job reports the result."""
    bank = require_bank(space, request.bank).settings
    if not bank.compacts:
        raise Invalid("This bank has no threshold: set `max_turns`, `max_size_tokens` or `max_age_days` first.")
    payload: dict[str, Any] = {"bank": request.bank}
    if request.key is not None:
        # Store the address instead of the key (0 if there is none), because the key may be erased before the job ends.
        address = find_key(space, request.bank, check_key(request.key))
        payload["address"] = 0 if address is None else address.id
    BANKS.mention(space, request.bank)
    job = queue.enqueue(space.tx, "compact", payload, space.now)
    return Compacting(memory_bank_id=request.bank, status="scheduled", job=job)


class _Task(NamedTuple):
    """The items of a key to compact, and the sources of their summary."""

    address_id: int
    bank_id: str
    key: str
    bank: Bank
    items: list[Item]
    sources: Sources


_Results = list[tuple[int, Summary]]
"""The summaries of a job, each with its number of entries."""


def run_compaction(engine: Engine, run: JobRun) -> dict[str, Any] | Repeat:
    """Run the `compact` job: for one key, for the keys of one bank, or every hour for those of all banks."""
    if run.job.address_id is not None:
        return _to_report(_compact_key(engine, run, run.job.address_id))
    bank_id, only = run.payload.get("bank"), run.payload.get("address")
    results: _Results = []
    for one in [bank_id] if bank_id else run.read(_list_compacting):
        rows = run.read(lambda tx: tx.rows("addresses_of_name", dialect=KIND, name=one))  # noqa: B023 -- run at once
        for address_id, *_ in rows:
            if only in (None, address_id):
                results += _compact_key(engine, run, address_id)
    return _to_report(results) if bank_id or not run.read(_list_compacting) else Repeat(run.clock.now() + HOUR)


JOBS = (JobKind("compact", run_compaction),)


def _list_compacting(tx: Tx) -> list[str]:
    """Return the ids of the banks that have a threshold."""
    return [one.id for one in documents.list_documents(tx, KIND) if BANKS.decode(one.body).compacts]


def _to_report(results: _Results) -> dict[str, Any]:
    return {
        "summaries": len(results),
        "entries": sum(entries for entries, _ in results),
        "methods": sorted({summary.method for _, summary in results}),
        "notes": sorted({summary.note for _, summary in results if summary.note}),
    }


def _compact_key(engine: Engine, run: JobRun, address_id: int) -> _Results:
    """Compact a key in steps of limited size; repeat a step if its entries have changed meanwhile."""
    results: _Results = []
    attempts = 0
    while attempts < MAX_ATTEMPTS:
        task = run.read(lambda tx: _find_task(tx, address_id, run.clock.now()))
        if task is None:
            return results
        summary = summarise_items(engine, run.reach, task.bank, task.sources.items)
        try:
            run.write(lambda tx: _apply_summary(tx, run, task, summary))  # noqa: B023 -- run at once
        except Stale:
            attempts += 1
            continue
        results.append((len(task.items), summary))
    raise Unavailable("The entries kept changing while a summary was made.")


def _find_task(tx: Tx, address_id: int, now: int) -> _Task | None:
    row = tx.row("bank_address", id=address_id)
    if row is None:
        return None
    _, bank_id, key = row
    document = documents.find(tx, KIND, bank_id)
    if document is None:
        return None
    bank = BANKS.decode(document.body)
    items = select_items(load_visible(tx, address_id, now), bank, now)
    if not items:
        return None
    return _Task(address_id, bank_id, key, bank, items, load_sources(tx, address_id, items, now))


def _apply_summary(tx: Tx, run: JobRun, task: _Task, summary: Summary) -> None:
    space = worker_space(tx, run.reach, run.clock)
    sources = [item.entry for item in task.sources.items]
    draft = Draft(
        kind=SUMMARY,
        role="assistant" if task.bank.type == "conversation" else None,
        content=check_content(summary.text or EMPTY_SUMMARY),
        origin=lowest_trust(["assistant", *(entry.origin for entry in sources)]),
        metadata=to_json({**_common_metadata(sources), "key": task.key, "compaction": summary.method}),
        occurred_at=task.items[-1].entry.occurred_at,
    )
    (entry,) = space.append(bank_place(task.bank_id, task.bank.policy()), task.key, [draft])
    hide_behind_summary(space, task.address_id, entry, [item.entry for item in task.items], task.sources.entries)
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation="banks.compact", actor="worker", **event)


def _common_metadata(sources: Sequence[Entry]) -> dict[str, Any]:
    """Return the metadata that all sources share, so that filters that found the entries find the summary."""
    decoded = [typed.decode(entry.metadata or "{}", dict[str, Any]) for entry in sources]
    first = decoded[0] if decoded else {}
    return {
        name: value
        for name, value in first.items()
        if name not in OWN_METADATA and all(name in one and one[name] == value for one in decoded)
    }


# -- trials --------------------------------------------------------------------------------------------------------------


Speaker = Literal["user", "assistant"]
MAX_SAMPLES = 20
MAX_DIRECTION = 2000
NO_MODEL = (
    "Generating entries needs a language model, but the server has none. Set MEMWELL_LLM, for example to "
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
    speaker: Annotated[Speaker, Meta(description="`user` or `assistant`.")] | None = None


class TrialEntry(Response, frozen=True, kw_only=True):
    """An entry of a trial."""

    content: str
    speaker: str | None = None


class Evaluation(Response, frozen=True, kw_only=True):
    """A verdict on a summary, with a score from 1 to 5 and the reasons."""

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
    """Show the result of compacting a key or samples, without changing anything. All samples are compacted at once."""
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
    """Compact all samples at once, regardless of the bank's thresholds."""
    direction = request.generate_direction
    samples = request.sample_entries or []
    for one in samples:
        check_content(one.content, field="sample_entries")
    if direction is not None:
        samples = _generate_samples(call, bank, direction, request.entry_count)
    items = [
        Item(
            seq,
            Entry(str(seq), 1, seq, "turn", one.speaker, None, one.content, None, None, "user", None, None, 0, 0, 0),
        )
        for seq, one in enumerate(samples, 1)
    ]
    return structs.replace(_build_trial(call, bank, items, items, items), generated=direction is not None)


def _generate_samples(call: Call, bank: Bank, direction: str, count: int) -> list[Sample]:
    if call.engine.completer is None:
        raise Invalid(NO_MODEL, field="generate_direction")
    model = Model(*call.engine.completer, TenantStore(call.engine.store, call.principal.tenant), call.engine.clock)
    chat = bank.type == "conversation"
    speakers: tuple[Speaker | None, Speaker | None] = ("user", "assistant") if chat else (None, None)
    contents = generate_samples(model, direction, count, chat=chat)
    return [Sample(content=content, speaker=speakers[number % 2]) for number, content in enumerate(contents)]


def _try_key(call: Call, bank: Bank, bank_id: str, key: str) -> Trial:
    """Compact a key as the bank would, without storing the result."""

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
    if not selected:
        return Evaluation(verdict="pass", score=5, reasoning="No threshold is exceeded: nothing would be compacted.")
    # Together, because a sum of single estimates is a little higher, and a copy of the entries would count as shorter.
    before, after = estimate_tokens(" ".join(item.entry.content for item in selected)), estimate_tokens(summary)
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
    """Return the words with a capital letter or a digit."""
    words = {word.strip(".,;:!?()[]\"'“”") for word in text.split()}
    return {word for word in words if any(char.isdigit() or char.isupper() for char in word)}
