"""The entries of a bank: add, search and load them, and read, list and delete single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, structs

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure.erase import bury, erase_fact, forget_runs, scrub_later
from ..errors import Conflict, Forbidden, Invalid, NotFound
from ..facts.search import MinScore, QueryText, query_text
from ..jobs import queue
from ..model.collection import ORIGIN_OF_ROLE, Draft, Entry, Origin
from ..model.field_readers import moment_limits
from ..model.fields import (
    MAX_BATCH,
    AnyId,
    Content,
    Cursor,
    FilterField,
    Limit,
    Metadata,
    check_content,
    check_identifier,
    check_number,
    cut,
    encode_metadata,
    from_cursor,
    to_cursor,
    to_instant,
)
from ..model.filter import Filter, Query, Where, parse
from ..storage.port import Row
from . import reading
from .banks import RESERVED, SUMMARY, Bank, BankId, Key, bank_place, check_key, find_key, require_bank
from .compaction import dissolve_summaries, exceeds_threshold, hide_behind_summary
from .reading import BankEntry, ContentType, Order, to_bank_entry

if TYPE_CHECKING:
    from ..search.search_engine import Hit

MAX_DELETED = 10_000
_XML = "application/xml"
"""Matches have no XML form (S1.42, C8)."""

SpeakerField = Annotated[
    str,
    Meta(
        max_length=64,
        description="The speaker, `user` or `assistant`; required in conversation banks, and ignored in others.",
    ),
]
AddedAfter = Annotated[datetime, moment_limits("Only entries added after this time")]
AddedBefore = Annotated[datetime, moment_limits("Only entries added before this time")]
TopN = Annotated[int, Meta(ge=1, le=100, description="The number of results, from 1 to 100.")]
Format = Annotated[ContentType, Meta(description="`application/json`, `text/plain`, `text/html` or `application/xml`.")]
IncludeCompacted = Annotated[bool, Meta(description="Also return the entries that summaries have replaced.")]
SummaryId = Annotated[AnyId, Meta(description="The id of a summary: list exactly the entries that it summarises.")]

_CHATS = ("banks.create", {"name": "chats"})
_NOTES = ("banks.create", {"name": "notes", "type": "general"})
_TURN = {"bank": "$0.id", "key": "alice", "speaker": "user", "content": "I prefer an aisle seat."}
_NOTE = {"bank": "$0.id", "key": "alice", "content": "prefers aisle seats", "metadata": {"type": "fact"}}
_GIVEN = (_NOTES, ("banks.add", _NOTE))


# -- adding --------------------------------------------------------------------------------------------------------------


class AddedEntries(Response, frozen=True, kw_only=True):
    """The new entry. A conversation bank returns the messages so far, the oldest first; a general one the content."""

    id: str
    key: str
    created_at: datetime
    seq: int
    messages: list[dict[str, str]] | None = None
    content: str | None = None


class AddEntry(Request, frozen=True, kw_only=True):
    """A new entry of a bank."""

    bank: BankId
    key: Key
    content: Content
    speaker: SpeakerField | None = None
    metadata: Metadata | None = None
    compacts: (
        Annotated[
            list[AnyId],
            Meta(
                max_length=MAX_BATCH,
                description="Ids of entries of the same key that this entry summarises. It replaces them.",
            ),
        ]
        | None
    ) = None


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to write. `stamps` is metadata that the bank adds besides the key and the speaker."""

    key: str
    content: str
    speaker: str | None = None
    metadata: dict[str, Any] = {}
    stamps: dict[str, str] = {}
    id: str | None = None
    summary: bool = False


@operation(
    "banks.add",
    "POST /v1/memory_banks/{bank}/entries",
    effect="write",
    status=201,
    outside=True,
    example=Example(_TURN, (_CHATS,)),
)
def add_entry(call: Call, request: AddEntry) -> AddedEntries:
    """Write an entry. A conversation bank returns the messages so far, ready for a model."""
    messages: dict[str, list[dict[str, str]]] = {}  # not in the stored response, which must not contain other entries

    def write(space: Space) -> AddedEntries:
        bank = require_bank(space, request.bank).settings
        new = NewEntry(
            request.key, request.content, request.speaker, request.metadata or {}, summary=bool(request.compacts)
        )
        entry = write_entry(space, request.bank, bank, new)
        if request.compacts:
            hide_entries(space, request.bank, request.key, entry, request.compacts)
        if bank.type == "conversation":
            address_id = _address_id(space, request.bank, request.key)
            messages[entry.id] = reading.recent_messages(space, address_id, entry.seq)
        return AddedEntries(
            id=entry.id,
            key=request.key,
            created_at=to_datetime(entry.recorded_at),
            seq=entry.seq,
            content=entry.content if bank.type == "general" else None,
        )

    added = call.write(write)
    if added.content is not None:
        return added
    recent = messages.get(added.id)
    if recent is None:  # the request was repeated, and its stored response returned
        recent = call.read(lambda space: reading.recent_messages_of_key(space, request.bank, request.key, added.seq))
    return structs.replace(added, messages=recent)


def write_entry(space: Space, bank_id: str, bank: Bank, new: NewEntry) -> Entry:
    """Write an entry, and schedule a compaction if its key now exceeds a threshold."""
    check_key(new.key)
    speaker = (
        None if bank.type == "general" else new.speaker
    )  # entries of a general bank have no speaker (S1.9, S1.10, C16)
    if bank.type == "conversation" and speaker not in ("user", "assistant"):
        given = "none was given" if speaker is None else f"not {speaker!r}"
        raise Invalid(f"A conversation bank needs a `speaker`, `user` or `assistant`; {given}.", field="speaker")
    content = check_content(new.content)
    # The origin of an entry is its speaker. Without one, it is the agent if a run writes it, else the application.
    origin: Origin = ORIGIN_OF_ROLE[speaker] if speaker else "assistant" if new.stamps else "system"
    for name in RESERVED:
        if name in new.metadata:
            raise Invalid(f"`metadata.{name}` is set by the bank: use another name.", field="metadata")
    stamps = {"key": new.key} | ({"speaker": speaker} if speaker else {}) | new.stamps
    draft = Draft(
        kind=SUMMARY if new.summary else "turn" if bank.type == "conversation" else "note",
        role=speaker,
        content=content,
        origin=origin,
        metadata=encode_metadata({**new.metadata, **stamps}),
        id=new.id,
    )
    (entry,) = space.append(bank_place(bank_id, bank.policy()), new.key, [draft])
    if bank.compacts:
        address_id = _address_id(space, bank_id, new.key)
        if exceeds_threshold(space.tx, address_id, bank, space.now):
            queue.ensure_slot(space.tx, "compact", space.now, space.now, address_id=address_id)
    return entry


def hide_entries(space: Space, bank_id: str, key: str, summary: Entry, ids: Sequence[str]) -> None:
    """Replace entries of a key by an entry that summarises them (C39)."""
    address = find_key(space, bank_id, key)
    assert address is not None  # noqa: S101 -- the summary was just written to it
    found = [space.entry(bank_place(bank_id), check_identifier(one, "compacts")) for one in dict.fromkeys(ids)]
    if any(one is None or one.address_id != address.id for one in found):
        raise Conflict("Some of the entries to summarise were erased, or are already summarised: load them again.")
    hide_behind_summary(space, address.id, summary, [one.entry for one in found if one is not None])


def _address_id(space: Space, bank_id: str, key: str) -> int:
    """Return the address of a key that was just written to."""
    if len(space.touched) == 1:
        return next(iter(space.touched))
    address = find_key(space, bank_id, key)
    assert address is not None  # noqa: S101 -- the key was just written to
    return address.id


# -- searching -----------------------------------------------------------------------------------------------------------


class Match(Response, frozen=True, kw_only=True):
    """An entry that matches. A summary has the number of its entries and the date of the last one; `compacted_into` is the
    summary that has replaced an entry."""

    content_title: str
    content: str
    content_url: str
    content_publish_date: datetime
    id: str
    key: str
    score: float
    metadata: dict[str, Any]
    summary_of: int | None = None
    compacted_into: str | None = None


class Matches(Response, frozen=True, kw_only=True):
    """The matches, the best first, the method of the search, and `output` if a text format was requested."""

    matches: list[Match]
    method: str
    took_ms: float
    output: str | None = None
    warning: str | None = None


class SearchBank(Request, frozen=True, kw_only=True):
    """A query in one key of a bank, or without `key` in all."""

    bank: BankId
    query: QueryText
    key: Key | None = None
    top_n: TopN = 10
    filter: FilterField | None = None
    added_after: AddedAfter | None = None
    added_before: AddedBefore | None = None
    min_score: MinScore | None = None
    include_compacted: IncludeCompacted = False
    content_type: Format = "application/json"


@operation(
    "banks.search",
    "POST /v1/memory_banks/{bank}/search",
    outside=True,
    example=Example({"bank": "$0.id", "query": "seat", "key": "alice"}, _GIVEN),
)
def search_bank(call: Call, request: SearchBank) -> Matches:
    """Search a bank by words and meaning, the most relevant first."""
    check_search(call, request.bank, request.key)
    after = to_instant(request.added_after, "added_after")
    query = Query(
        text=query_text(request.query),
        where=(Where(bank_place(request.bank), None if request.key is None else check_key(request.key)),),
        limit=request.top_n,
        filter=parse(request.filter) if request.filter else None,
        after=None if after is None else after + 1,  # `after` of a query is inclusive, `added_after` is not (S1.38)
        before=to_instant(request.added_before, "added_before"),
        min_score=check_number(request.min_score, "min_score"),
        retired=request.include_compacted,
        full=True,
    )
    found = call.engine.search(call.principal, query)
    ids = [hit.entry.id for hit in found.hits if hit.entry.kind == SUMMARY]
    rows = call.read(lambda space: [(one, space.tx.row("summary_place", id=one)) for one in ids]) if ids else []
    sizes = {one: int(row[1]) for one, row in rows if row is not None}  # entries behind each summary
    hidden = _find_summaries(call, found.hits) if request.include_compacted else {}
    entries = [
        structs.replace(
            to_bank_entry(hit.entry, hit.path, sizes.get(hit.entry.id, 0), hidden.get(hit.entry.id)),
            created_at=to_datetime(hit.entry.occurred_at),
        )
        for hit in found.hits
    ]
    output = reading.render_entries(entries, request.content_type) if request.content_type != _XML else None
    return Matches(
        matches=[
            Match(
                content_title=one.title,
                content=one.content,
                content_url=f"/v1/memory_banks/{request.bank}/entries/{one.id}",
                content_publish_date=one.created_at,
                id=one.id,
                key=one.key,
                score=round(hit.score, 6),
                metadata=one.metadata or {},
                summary_of=one.summary_of,
                compacted_into=one.compacted_into,
            )
            for one, hit in zip(entries, found.hits, strict=True)
        ],
        method=found.method,
        took_ms=round(found.took_ms, 3),
        warning=found.warning,
        output=output,
    )


def _find_summaries(call: Call, hits: Sequence[Hit]) -> dict[str, str]:
    """Return the summary that hides each of the hits that are hidden."""
    ids = [hit.entry.id for hit in hits]
    rows = call.read(lambda space: [(one, space.tx.row("summary_of", id=one)) for one in ids])
    return {one: row[0] for one, row in rows if row is not None}


def check_search(call: Call, bank_id: str, key: str | None) -> None:
    """Raise an error if there is no such bank, or if it can only be searched by key and `key` is None."""
    bank = call.read(lambda space: require_bank(space, bank_id)).settings
    if key is None and not bank.cross_key_search:
        raise Forbidden("This bank can only be searched by key: give a `key`, or set `cross_key_search`.")


# -- loading -------------------------------------------------------------------------------------------------------------


class Loaded(Response, frozen=True, kw_only=True):
    """Messages of a conversation bank, entries of a general one, or `output` if a text format was requested."""

    content_type: str
    messages: list[dict[str, str]] | None = None
    entries: list[BankEntry] | None = None
    array: list[dict[str, str]] | None = None
    output: str | None = None


class LoadBank(Request, frozen=True, kw_only=True):
    """The key to load, and the order and format of its entries."""

    bank: BankId
    key: Key
    order: Annotated[Order, Meta(description="`newest_first` or `oldest_first`.")] = "newest_first"
    limit: Limit = 100
    content_type: Format = "application/json"
    shape: Annotated[
        Literal["entries", "array"], Meta(description="`array` returns only titles and contents of a general bank.")
    ] = "entries"
    include_compacted: IncludeCompacted = False


@operation(
    "banks.load",
    "GET /v1/memory_banks/{bank}/load",
    example=Example({"bank": "$0.id", "key": "alice", "order": "oldest_first"}, _GIVEN),
)
def load_bank(space: Space, request: LoadBank) -> Loaded:
    """Load the entries of a key in order. A conversation bank returns messages, ready for a model."""
    bank = require_bank(space, request.bank).settings
    address = find_key(space, request.bank, check_key(request.key))
    as_messages = bank.type == "conversation" and request.content_type == reading.JSON
    order, limit, compacted = request.order, request.limit, request.include_compacted
    if address is not None and as_messages and order == "newest_first" and not compacted:
        return Loaded(content_type=reading.JSON, messages=reading.load_messages(space, address.id, limit))
    entries = [] if address is None else reading.load_entries(space, address, order, limit, include_compacted=compacted)
    if (output := reading.render_entries(entries, request.content_type)) is not None:
        return Loaded(content_type=request.content_type, output=output)
    if as_messages:
        messages = [reading.build_message(one.speaker, one.content, one.summary_of) for one in entries]
        return Loaded(content_type=reading.JSON, messages=messages)
    if request.shape == "array":
        return Loaded(content_type=reading.JSON, array=reading.entries_to_array(entries))
    return Loaded(content_type=reading.JSON, entries=entries)


# -- single entries ------------------------------------------------------------------------------------------------------


class OfEntry(Request, frozen=True, kw_only=True):
    """An entry of a bank."""

    bank: BankId
    id: AnyId


@operation(
    "banks.entry", "GET /v1/memory_banks/{bank}/entries/{id}", example=Example({"bank": "$0.id", "id": "$1.id"}, _GIVEN)
)
def get_entry(space: Space, request: OfEntry) -> BankEntry:
    """Return one entry, even if a summary has replaced it. To list the entries of a summary, use `banks.entries` with
    `summary`."""
    entry, key, _ = _require_entry(space, request.bank, request.id)
    hidden_by = space.tx.row("summary_of", id=request.id)
    summary = space.tx.row("summary_place", id=request.id)
    size = 0 if summary is None else int(summary[1])
    return to_bank_entry(entry, key, size, None if hidden_by is None else hidden_by[0])


class ListEntries(Request, frozen=True, kw_only=True):
    """The entries to list: those of a bank or of one key, with or without entries that summaries have replaced; or those of one
    summary."""

    bank: BankId
    key: Key | None = None
    filter: FilterField | None = None
    include_compacted: IncludeCompacted = False
    summary: SummaryId | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class BankEntries(Response, frozen=True, kw_only=True):
    """Entries by key, those of a key in the order they were written."""

    entries: list[BankEntry]
    next_cursor: str | None = None


@operation(
    "banks.entries", "GET /v1/memory_banks/{bank}/entries", example=Example({"bank": "$0.id", "key": "alice"}, _GIVEN)
)
def list_entries(space: Space, request: ListEntries) -> BankEntries:
    """List the entries of a bank or of one key, page by page: by key, those of a key in the order they were written. Entries
    that summaries have replaced are left out, unless `include_compacted` or `summary` is set."""
    require_bank(space, request.bank)
    if request.summary is not None:
        return _list_sources(space, request, request.summary)
    condition = parse(request.filter) if request.filter else None
    path, seq = from_cursor("bank_entries", request.cursor, "", 0)
    found = walk_entries(space, request.bank, request.key, condition, path, seq, hidden=request.include_compacted)
    page, further = cut(
        list(islice(found, request.limit + 1)),
        request.limit,
        lambda last: to_cursor("bank_entries", last.key, last.entry.seq),
    )
    return BankEntries(entries=[one.to_bank_entry() for one in page], next_cursor=further)


def _list_sources(space: Space, request: ListEntries, summary_id: str) -> BankEntries:
    """List the entries that a summary summarises."""
    if request.key is not None or request.filter:
        raise Invalid("`summary` cannot be combined with `key` or `filter`.", field="summary")
    _, key, _ = _require_entry(space, request.bank, check_identifier(summary_id, "summary"))
    (after,) = from_cursor("bank_sources", request.cursor, 0)
    rows = space.tx.rows("sources_of_summary", id=summary_id, after=after, now=space.now, limit=request.limit + 1)
    sources = [EntryLocation.from_row(key, 0, row) for row in rows]
    page, further = cut(sources, request.limit, lambda last: to_cursor("bank_sources", last.entry.seq))
    return BankEntries(entries=[one.to_bank_entry() for one in page], next_cursor=further)


class DeletedEntries(Response, frozen=True, kw_only=True):
    """The deleted entries, or those that would be deleted, and the job that clears their last traces."""

    ids: list[str]
    dry_run: bool = False
    job: str | None = None


@operation(
    "banks.delete_entry",
    "DELETE /v1/memory_banks/{bank}/entries/{id}",
    effect="erase",
    status=202,
    example=Example({"bank": "$0.id", "id": "$1.id"}, _GIVEN),
)
def delete_entry(space: Space, request: OfEntry) -> DeletedEntries:
    """Erase one entry. Summaries of it are erased too, and their other entries become visible again."""
    entry, _, address_id = _require_entry(space, request.bank, request.id)
    return _erase_entries(space, request.bank, {entry.id: address_id})


class DeleteEntries(Request, frozen=True, kw_only=True):
    """The entries to delete: those of a key, those that match a filter, or both."""

    bank: BankId
    key: Key | None = None
    filter: FilterField | None = None
    maximum: Annotated[
        int, Meta(ge=1, le=MAX_DELETED, description=f"Fail if more entries than this match; at most {MAX_DELETED:,}.")
    ] = 1000
    dry_run: Annotated[bool, Meta(description="Only list what would be deleted.")] = False


@operation(
    "banks.delete_entries",
    "POST /v1/memory_banks/{bank}/entries/delete",
    effect="erase",
    status=202,
    example=Example({"bank": "$0.id", "filter": {"type": "fact"}, "dry_run": True}, _GIVEN),
)
def delete_entries(space: Space, request: DeleteEntries) -> DeletedEntries:
    """Erase entries by key and metadata, including those that summaries have replaced. With `dry_run`, only list them."""
    require_bank(space, request.bank)
    if request.key is None and not request.filter:
        raise Invalid("Give a `key` or a `filter`. `banks.wipe` erases everything.", field="filter")
    condition = parse(request.filter) if request.filter else None
    addresses: dict[str, int] = {}
    for location in walk_entries(space, request.bank, request.key, condition, hidden=True):
        addresses[location.entry.id] = location.address_id
        if len(addresses) > request.maximum:
            raise Conflict(f"More than {request.maximum} entries match: narrow the filter, or raise `maximum`.")
    if request.dry_run:
        return DeletedEntries(ids=[*addresses], dry_run=True)
    return _erase_entries(space, request.bank, addresses)


class EntryLocation(NamedTuple):
    """An entry and its key, the number of entries that it summarises, and the summary that hides it."""

    key: str
    address_id: int
    entry: Entry
    entries: int
    summary_id: str | None

    @classmethod
    def from_row(cls, key: str, address_id: int, row: Row) -> EntryLocation:
        """Build from a row of `next_shown`, `next_of_all` or `sources_of_summary`."""
        *entry, entries, summary_id = row
        return cls(key, address_id, Entry(*entry), entries or 0, summary_id)

    def to_bank_entry(self) -> BankEntry:
        return to_bank_entry(self.entry, self.key, self.entries, self.summary_id)


def walk_entries(
    space: Space,
    bank_id: str,
    key: str | None,
    condition: Filter | None,
    path: str = "",
    seq: int = 0,
    *,
    hidden: bool = False,
) -> Iterator[EntryLocation]:
    """Iterate over the entries after a position, of one key or of all keys in turn. With `hidden`, include the entries that
    summaries have replaced."""
    query = "next_of_all" if hidden else "next_shown"
    while True:
        if key is None:
            rows = space.rows("address_from", bank_place(bank_id), path=path)
            address = find_key(space, bank_id, rows[0][1]) if rows else None
        else:
            address = find_key(space, bank_id, check_key(key))
        if address is None:
            return
        if address.path != path:
            seq = 0
        while rows := space.tx.rows(query, condition, address_id=address.id, after=seq, now=space.now, limit=MAX_BATCH):
            page = [EntryLocation.from_row(address.path, address.id, row) for row in rows]
            yield from page
            seq = page[-1].entry.seq
        if key is not None:
            return
        path, seq = address.path + "\x01", 0  # keys have no control characters


def _erase_entries(space: Space, bank_id: str, addresses: Mapping[str, int]) -> DeletedEntries:
    """Erase entries, the summaries that contain their words, and keys that become empty. A tenant's writes are serial, so nothing
    is added to these keys meanwhile."""
    collection_id, _ = space.collection(bank_place(bank_id))
    for entry_id in addresses:
        if space.tx.row("entry_addresses", id=entry_id) is not None:  # an earlier round may have erased it
            dissolve_summaries(space, entry_id)
            erase_fact(space.tx, entry_id, space.now)
    keys = sorted(set(addresses.values()))
    for address_id in keys:
        forget_runs(space.tx, [address_id])
        space.touch(collection_id, address_id)
    empty = [
        (address_id, collection_id, "timeline")
        for address_id in keys
        if space.tx.row("anything_left", address_id=address_id, now=space.now) is None
    ]
    counts = {"entries": len(addresses)}
    job = bury(space.tx, empty, space.now, counts) if empty else scrub_later(space.tx, space.now, counts)
    return DeletedEntries(ids=[*addresses], job=job)


def _require_entry(space: Space, bank_id: str, entry_id: str) -> tuple[Entry, str, int]:
    """Return an entry of a bank, its key, and the key's address."""
    require_bank(space, bank_id)
    rows = space.rows("any_entry", bank_place(bank_id), id=entry_id)
    if not rows:
        raise NotFound("There is no such entry in this bank.")
    *entry, key, address_id = rows[0]
    return Entry(*entry), key, address_id
