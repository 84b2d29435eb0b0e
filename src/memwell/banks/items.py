"""Single entries of a bank: read, listed, and deleted, one by one or by what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, NamedTuple

from msgspec import Meta

from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure.erase import bury, erase_fact, forget_runs, scrub_later
from ..errors import Conflict, Invalid, NotFound
from ..model import check
from ..model.collection import Address, Entry
from ..model.fields import MAX_BATCH, AnyId, Cursor, FilterField, Limit, cut, from_cursor, to_cursor
from ..model.filter import Filter, parse
from ..storage.port import Row
from .banks import BankId, checked_key, find_bank, place
from .compaction import dissolve
from .entries import GIVEN, BankEntry, Folded, Key, key_address, shown, to_entry
from .outputs import Shown

MAX_DELETED = 10_000

SummaryId = Annotated[
    AnyId, Meta(description="The id of a summary: exactly what it was made of is listed, instead of what is shown.")
]


class OfEntry(Request, frozen=True, kw_only=True):
    """Which entry."""

    bank: BankId
    id: AnyId


@operation(
    "banks.entry",
    "GET /v1/memory_banks/{bank}/entries/{id}",
    example=Example({"bank": "$0.id", "id": "$1.id"}, GIVEN),
)
def entry(space: Space, request: OfEntry) -> BankEntry:
    """One entry, also one that is behind a summary. A summary says how many entries it is of; `banks.entries` with `summary`
    lists them."""
    found, path, _ = _existing(space, request.bank, request.id)
    behind = space.tx.row("summary_of", id=request.id)
    stands = space.tx.row("summary_place", id=request.id)
    made_of = 0 if stands is None else int(stands[1])
    return to_entry(shown(found, made_of, None if behind is None else behind[0]), path)


class ListEntries(Request, frozen=True, kw_only=True):
    """Which entries of a bank: those that are shown, of all keys or one; with those behind summaries; or what one summary was
    made of."""

    bank: BankId
    key: Key | None = None
    filter: FilterField | None = None
    include_compacted: Folded = False
    summary: SummaryId | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class BankEntries(Response, frozen=True, kw_only=True):
    """Entries by key, and of a key in the order they were written."""

    entries: list[BankEntry]
    next_cursor: str | None = None


@operation(
    "banks.entries", "GET /v1/memory_banks/{bank}/entries", example=Example({"bank": "$0.id", "key": "alice"}, GIVEN)
)
def entries(space: Space, request: ListEntries) -> BankEntries:
    """The entries of a bank or of one key, page by page: by key, and of each key in the order they were written. Those behind
    summaries are left out, unless `include_compacted` or a `summary` asks for them."""
    find_bank(space, request.bank)
    if request.summary is not None:
        return _sources(space, request, request.summary)
    condition = parse(request.filter) if request.filter else None
    path, seq = from_cursor("bank_entries", request.cursor, "", 0)
    found = walk(space, request.bank, request.key, condition, path, seq, hidden=request.include_compacted)
    page, further = cut(
        list(islice(found, request.limit + 1)),
        request.limit,
        lambda last: to_cursor("bank_entries", last.key, last.entry.seq),
    )
    return BankEntries(entries=[to_entry(one.shown(), one.key) for one in page], next_cursor=further)


def _sources(space: Space, request: ListEntries, summary_id: str) -> BankEntries:
    """What a summary was made of, and nothing that is behind a summary among that."""
    if request.key is not None or request.filter:
        raise Invalid("A `summary` says which entries: leave `key` and `filter` away.", field="summary")
    _, key, _ = _existing(space, request.bank, check.identifier(summary_id, "summary"))
    (after,) = from_cursor("bank_sources", request.cursor, 0)
    rows = space.tx.rows("sources_of_summary", id=summary_id, after=after, now=space.now, limit=request.limit + 1)
    found = [Found.of(key, 0, row) for row in rows]
    page, further = cut(found, request.limit, lambda last: to_cursor("bank_sources", last.entry.seq))
    return BankEntries(entries=[to_entry(one.shown(), key) for one in page], next_cursor=further)


class DeletedEntries(Response, frozen=True, kw_only=True):
    """What was deleted, or would be; the job that clears their last traces."""

    ids: list[str]
    dry_run: bool = False
    job: str | None = None


@operation(
    "banks.delete_entry",
    "DELETE /v1/memory_banks/{bank}/entries/{id}",
    effect="erase",
    status=202,
    example=Example({"bank": "$0.id", "id": "$1.id"}, GIVEN),
)
def delete_entry(space: Space, request: OfEntry) -> DeletedEntries:
    """Erase one entry for good. A summary that was made of it goes too, and what else was behind that is shown again."""
    found, _, address_id = _existing(space, request.bank, request.id)
    return _erase(space, request.bank, {found.id: address_id})


class DeleteEntries(Request, frozen=True, kw_only=True):
    """Which entries to delete: those of a key, those that meet a filter, or both."""

    bank: BankId
    key: Key | None = None
    filter: FilterField | None = None
    maximum: Annotated[
        int, Meta(ge=1, le=MAX_DELETED, description=f"Refuse if more than this would go; at most {MAX_DELETED:,}.")
    ] = 1000
    dry_run: Annotated[bool, Meta(description="Only say what would go.")] = False


@operation(
    "banks.delete_entries",
    "POST /v1/memory_banks/{bank}/entries/delete",
    effect="erase",
    status=202,
    example=Example({"bank": "$0.id", "filter": {"type": "fact"}, "dry_run": True}, GIVEN),
)
def delete_entries(space: Space, request: DeleteEntries) -> DeletedEntries:
    """Erase entries by key and metadata for good, those behind summaries too, or say which that would be."""
    find_bank(space, request.bank)
    if request.key is None and not request.filter:
        raise Invalid("Give a `key` or a `filter`. `banks.wipe` erases everything.", field="filter")
    condition = parse(request.filter) if request.filter else None
    located: dict[str, int] = {}
    for found in walk(space, request.bank, request.key, condition, hidden=True):
        located[found.entry.id] = found.address_id
        if len(located) > request.maximum:
            raise Conflict(f"More than {request.maximum} entries match: narrow the filter, or raise `maximum`.")
    return DeletedEntries(ids=[*located], dry_run=True) if request.dry_run else _erase(space, request.bank, located)


# -- inside ---------------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """An entry on a walk through a bank: of how many it is a summary, and behind which it is."""

    key: str
    address_id: int
    entry: Entry
    entries: int
    behind: str | None

    @classmethod
    def of(cls, key: str, address_id: int, row: Row) -> Found:
        """From a row of `next_shown`."""
        *entry, entries, behind = row
        return cls(key, address_id, Entry(*entry), entries or 0, behind)

    def shown(self) -> Shown:
        return shown(self.entry, self.entries, self.behind)


def walk(
    space: Space,
    bank_id: str,
    key: str | None,
    condition: Filter | None,
    path: str = "",
    seq: int = 0,
    *,
    hidden: bool = False,
) -> Iterator[Found]:
    """The entries of a key, or of all keys one after the other, behind a position. `hidden`: also those behind summaries."""
    while True:
        address = _next_address(space, bank_id, key, path)
        if address is None:
            return
        if address.path != path:
            seq = 0
        while page := _after(space, address, seq, condition, hidden):
            yield from page
            seq = page[-1].entry.seq
        if key is not None:
            return
        path, seq = address.path + "\x01", 0  # no key holds a control character


def _after(space: Space, address: Address, seq: int, condition: Filter | None, hidden: bool) -> list[Found]:
    asked = {"address_id": address.id, "after": seq, "now": space.now, "limit": MAX_BATCH}
    rows = space.tx.rows("next_of_all" if hidden else "next_shown", condition, **asked)
    return [Found.of(address.path, address.id, row) for row in rows]


def _next_address(space: Space, bank_id: str, key: str | None, path: str) -> Address | None:
    if key is not None:
        return key_address(space, bank_id, checked_key(key))
    rows = space.rows("address_from", place(bank_id), path=path)
    return key_address(space, bank_id, rows[0][1]) if rows else None


def _erase(space: Space, bank_id: str, located: Mapping[str, int]) -> DeletedEntries:
    """Erase entries, each with where it is: with the summaries that hold their words, and with the names of the keys that
    nothing is left of. No add comes in between: a tenant's writes follow one another."""
    collection_id, _ = space.collection(place(bank_id))
    for entry_id in located:
        if space.tx.row("entry_addresses", id=entry_id) is not None:  # it may have gone with another one
            dissolve(space, entry_id)
            erase_fact(space.tx, entry_id, space.now)
    keys = sorted(set(located.values()))
    for address_id in keys:
        forget_runs(space.tx, [address_id])
        space.touch(collection_id, address_id)
    empty = [(address_id, collection_id, "timeline") for address_id in keys if _is_empty(space, address_id)]
    layers = {"entries": len(located)}
    job = bury(space.tx, empty, space.now, layers) if empty else scrub_later(space.tx, space.now, layers)
    return DeletedEntries(ids=[*located], job=job)


def _is_empty(space: Space, address_id: int) -> bool:
    return space.tx.row("anything_left", address_id=address_id, now=space.now) is None


def _existing(space: Space, bank_id: str, entry_id: str) -> tuple[Entry, str, int]:
    """An entry of a bank, its key, and where that is."""
    find_bank(space, bank_id)
    rows = space.rows("any_entry", place(bank_id), id=entry_id)
    if not rows:
        raise NotFound("There is no such entry in this bank.")
    *entry, key, address_id = rows[0]
    return Entry(*entry), key, address_id
