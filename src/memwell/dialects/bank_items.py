"""Single entries of a bank: read, listed, and deleted, one by one or by what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from ..distill.fold import dissolve
from ..errors import Conflict, Invalid, NotFound
from ..lifecycle.erase import erase_fact, forget_runs, scrub_later
from ..model.bank import place
from ..model.collection import Address
from ..model.entry import Entry
from ..model.fields import MAX_BATCH, AnyId, Cursor, FilterField, Limit
from ..model.filter import Filter, parse
from ..model.page import from_cursor, to_cursor
from ..operation import Example, Request, Response, operation
from ..space import Space
from .bank_entries import GIVEN, BankEntry, Key, to_entry
from .bank_reading import key_address, shown
from .banks import BankId, find_bank

MAX_DELETED = 10_000


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
    """One entry, also one that is behind a summary; a summary with how many entries it was made of."""
    found, path = _existing(space, request)
    behind = space.tx.row("summary_of", id=request.id)
    stands = space.tx.row("summary_place", id=request.id)
    made_of = 0 if stands is None else int(stands[1])
    return to_entry(shown(found, found.seq, made_of), path, None if behind is None else behind[0])


class ListEntries(Request, frozen=True, kw_only=True):
    """Which entries of a bank."""

    bank: BankId
    key: Key | None = None
    filter: FilterField | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class BankEntries(Response, frozen=True, kw_only=True):
    """Entries by key, the oldest first."""

    entries: list[BankEntry]
    next_cursor: str | None = None


@operation(
    "banks.entries", "GET /v1/memory_banks/{bank}/entries", example=Example({"bank": "$0.id", "key": "alice"}, GIVEN)
)
def entries(space: Space, request: ListEntries) -> BankEntries:
    """The entries of a bank or of one key, page by page, in the order they were written."""
    find_bank(space, request.bank)
    condition = parse(request.filter) if request.filter else None
    path, seq = from_cursor("bank_entries", request.cursor, "", 0)
    page: list[tuple[str, Entry]] = []
    for found in walk(space, request.bank, request.key, condition, path, seq):
        if len(page) == request.limit:
            last = page[-1]
            cursor = to_cursor("bank_entries", last[0], last[1].seq)
            return BankEntries(entries=[to_entry(shown(one, one.seq), key) for key, one in page], next_cursor=cursor)
        page.append(found)
    return BankEntries(entries=[to_entry(shown(one, one.seq), key) for key, one in page])


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
    found, _ = _existing(space, request)
    return _erase(space, request.bank, [found.id])


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
    ids: list[str] = []
    for _, found in walk(space, request.bank, request.key, condition, hidden=True):
        ids.append(found.id)
        if len(ids) > request.maximum:
            raise Conflict(f"More than {request.maximum} entries match: narrow the filter, or raise `maximum`.")
    return DeletedEntries(ids=ids, dry_run=True) if request.dry_run else _erase(space, request.bank, ids)


OPERATIONS = (entries, entry, delete_entry, delete_entries)


# -- inside ---------------------------------------------------------------------------------------------------------------


def walk(
    space: Space,
    bank_id: str,
    key: str | None,
    condition: Filter | None,
    path: str = "",
    seq: int = 0,
    *,
    hidden: bool = False,
) -> Iterator[tuple[str, Entry]]:
    """The entries of a key, or of all keys one after the other, behind a position. `hidden`: also those behind summaries."""
    while True:
        address = _next_address(space, bank_id, key, path)
        if address is None:
            return
        if address.path != path:
            seq = 0
        while page := _after(space, address, seq, condition, hidden):
            yield from ((address.path, one) for one in page)
            seq = page[-1].seq
        if key is not None:
            return
        path, seq = address.path + "\x01", 0  # no key holds a control character


def _after(space: Space, address: Address, seq: int, condition: Filter | None, hidden: bool) -> list[Entry]:
    if not hidden:
        return space.after(address, seq, MAX_BATCH, condition)
    asked = {"address_id": address.id, "after": seq, "now": space.now, "limit": MAX_BATCH}
    return [Entry(*row) for row in space.tx.rows("next_of_all", condition, **asked)]


def _next_address(space: Space, bank_id: str, key: str | None, path: str) -> Address | None:
    if key is not None:
        return key_address(space, bank_id, key)
    rows = space.rows("address_from", place(bank_id), path=path)
    return key_address(space, bank_id, rows[0][1]) if rows else None


def _erase(space: Space, bank_id: str, ids: Sequence[str]) -> DeletedEntries:
    """Erase entries, with the summaries that hold their words."""
    for entry_id in ids:
        located = space.tx.row("entry_addresses", id=entry_id)
        if located is not None:
            dissolve(space, entry_id)
            erase_fact(space.tx, entry_id)
            forget_runs(space.tx, located[0])
            space.touch(space.collection(place(bank_id))[0], located[0])
    return DeletedEntries(ids=list(ids), job=scrub_later(space.tx, space.now, {"entries": len(ids)}))


def _existing(space: Space, request: OfEntry) -> tuple[Entry, str]:
    find_bank(space, request.bank)
    rows = space.rows("any_entry", place(request.bank), id=request.id)
    if not rows:
        raise NotFound("There is no such entry in this bank.")
    return Entry(*rows[0][:-2]), rows[0][-2]
