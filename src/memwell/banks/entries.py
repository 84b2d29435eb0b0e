"""Reading a bank in order: entries and the summaries that stand for older ones, each in its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..core.turns import instant, to_metadata
from ..errors import Conflict, Forbidden, Invalid
from ..facts.search import MinScore, QueryText, query_text
from ..jobs import queue
from ..model import check
from ..model.collection import ORIGIN_OF_ROLE, Address, Draft, Entry, Origin
from ..model.fields import ID_PATTERN, MAX_BATCH, AnyId, Content, FilterField, Limit, Metadata
from ..model.filter import parse
from ..model.query import Query, Where
from ..storage.port import Row, Tx
from . import outputs
from .banks import KEY_ADVICE, MAX_BANK_KEY, RESERVED, SUMMARY, Bank, BankId, checked_key, find_bank, place
from .compaction import fold, over
from .outputs import WINDOW, ContentType, Shown, message, window

Order = Literal["newest_first", "oldest_first"]
_NEWEST = 2**62
_FIELDS = len(Entry.__struct_fields__)


def key_address(space: Space, bank_id: str, key: str) -> Address | None:
    return space.address(place(bank_id), key)


def history(space: Space, address_id: int, upto: int = _NEWEST) -> list[dict[str, str]]:
    """The newest messages of a key up to an entry, the oldest first: up to 100, from a place that moves in steps (C7)."""
    told = _told(space, address_id, upto, WINDOW + 1)
    told.reverse()
    last = told[-WINDOW:]
    start = window([row[0] for row in last], more=len(told) > WINDOW)
    return [message(role, content, entries) for _, role, content, entries in last[start:]]


def load_messages(space: Space, address_id: int, order: Order, limit: int) -> list[dict[str, str]]:
    """What a key shows as messages: the earliest with `oldest_first`, the latest with `newest_first`."""
    down = order == "newest_first"
    told = _told(space, address_id, _NEWEST, limit) if down else _first_told(space, address_id, limit)
    return [message(role, content, entries) for _, role, content, entries in told[:limit]]


def messages_upto(space: Space, address_id: int, upto: int, limit: int) -> list[dict[str, str]]:
    """The newest messages of a key up to an entry, so many, the oldest first."""
    told = _told(space, address_id, upto, limit)[:limit]
    return [message(role, content, entries) for _, role, content, entries in reversed(told)]


def load(space: Space, address: Address, order: Order, limit: int, *, folded: bool = False) -> list[Shown]:
    """Entries in order: the earliest with `oldest_first`, the latest with `newest_first`. `folded`: also those that are behind
    summaries."""
    down = order == "newest_first"
    asked = {"address_id": address.id, "now": space.now, "limit": limit}
    rows, summaries = _every(space.tx, down, asked) if folded else _shown(space.tx, down, asked)
    return _merged(rows, summaries, down=down)[:limit]


def _merged(entries: list[Row], summaries: list[Row], *, down: bool) -> list[Shown]:
    """Entries and summaries in one order; a summary stands behind the last entry that it was made of."""
    placed = [(one.seq, one) for one in (_from_row(row, 0) for row in entries)]
    placed += [(position, _from_row(row, of)) for position, of, *row in summaries]
    placed.sort(key=lambda pair: (pair[0], pair[1].entries > 0), reverse=down)
    return [one for _, one in placed]


def _from_row(row: Sequence[Any], entries: int) -> Shown:
    """From the columns of an entry, and the summary that it is behind if that was asked for."""
    return shown(Entry(*row[:_FIELDS]), entries, *row[_FIELDS:])


def shown(entry: Entry, entries: int = 0, behind: str | None = None) -> Shown:
    return Shown(
        entry.id,
        entry.content,
        to_datetime(entry.created_at),
        entry.seq,
        entry.role,
        to_metadata(entry.metadata),
        entries,
        behind,
    )


# -- rows ----------------------------------------------------------------------------------------------------------------


def _told(space: Space, address_id: int, upto: int, limit: int) -> list[Row]:
    """Place, role, words and how many entries they stand for, of turns and summaries alike, the latest first."""
    asked = {"address_id": address_id, "upto": upto, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("last_said", **asked), space.tx.rows("shown_summaries_down", **asked)
    return _together(turns, summaries, down=True)


def _first_told(space: Space, address_id: int, limit: int) -> list[Row]:
    """The same, the earliest first."""
    asked = {"address_id": address_id, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("first_said", **asked), space.tx.rows("shown_summaries_up", **asked)
    return _together(turns, summaries, down=False)


def _together(turns: list[Row], summaries: list[Row], *, down: bool) -> list[Row]:
    if not summaries:
        return turns
    told = [(position, None, Entry(*row).content, entries) for position, entries, *row in summaries]
    return sorted(turns + told, key=itemgetter(0), reverse=down)


def _shown(tx: Tx, down: bool, asked: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """The entries of a key that are behind no summary, and its summaries that are not."""
    if down:
        return tx.rows("entries_down", **asked), tx.rows("shown_summaries_down", upto=_NEWEST, **asked)
    return tx.rows("entries_up", **asked), tx.rows("shown_summaries_up", **asked)


def _every(tx: Tx, down: bool, asked: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """All entries of a key and all its summaries."""
    if down:
        return tx.rows("every_entry_down", **asked), tx.rows("summaries_down", **asked)
    return tx.rows("every_entry_up", **asked), tx.rows("summaries_up", **asked)


# -- The entries of a bank: added, searched, loaded in order, read one by one, and deleted.


Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_BANK_KEY,
        pattern=ID_PATTERN,
        description=f"What partitions a bank, such as a user's id. {KEY_ADVICE}",
    ),
]
SpeakerField = Annotated[
    str,
    Meta(max_length=64, description="Who speaks: `user` or `assistant`; in conversation banks only, and there always."),
]
AddedAfter = Annotated[datetime, Meta(description="Only what was added later than this time (RFC 3339).")]
AddedBefore = Annotated[datetime, Meta(description="Only what was added earlier than this time (RFC 3339).")]
TopN = Annotated[int, Meta(ge=1, le=100, description="How many to return, from 1 to 100.")]
Format = Annotated[
    ContentType,
    Meta(description="`application/json`, `text/plain`, `text/html` or `application/xml`."),
]
Folded = Annotated[bool, Meta(description="Whether to show the entries that are behind summaries, too.")]

_CHATS = ("banks.create", {"name": "chats"})
_NOTES = ("banks.create", {"name": "notes", "type": "general"})
_SAID = {"bank": "$0.id", "key": "alice", "speaker": "user", "content": "I prefer an aisle seat."}
_NOTED = {"bank": "$0.id", "key": "alice", "content": "prefers aisle seats", "metadata": {"type": "fact"}}
GIVEN = (_NOTES, ("banks.add", _NOTED))


class Added(Response, frozen=True, kw_only=True):
    """What was written. From a conversation bank the messages so far, the oldest first; from a general one the content."""

    id: str
    key: str
    created_at: datetime
    seq: int
    messages: list[dict[str, str]] | None = None
    content: str | None = None


class AddEntry(Request, frozen=True, kw_only=True):
    """An entry for a bank."""

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
                description="Ids of entries of the same key that this one summarises: it hides them.",
            ),
        ]
        | None
    ) = None


@operation(
    "banks.add",
    "POST /v1/memory_banks/{bank}/entries",
    effect="write",
    status=201,
    outside=True,
    example=Example(_SAID, (_CHATS,)),
)
def add(call: Call, request: AddEntry) -> Added:
    """Write an entry. A conversation bank answers with the messages so far, ready for a model."""
    new = NewEntry(request.key, request.content, request.speaker, request.metadata or {})
    told: dict[str, list[dict[str, str]]] = {}  # beside the answer: a stored one must not hold other entries
    added = call.write(lambda space: _added(space, request, new, told))
    if added.content is not None:
        return added
    messages = told.get(added.id)
    if messages is None:  # it was written before, and the answer is repeated
        messages = call.read(lambda space: said(space, request.bank, request.key, added.seq))
    return structs.replace(added, messages=messages)


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to be written, and what is stamped on it besides its key and speaker."""

    key: str
    content: str
    speaker: str | None = None
    metadata: dict[str, Any] = {}
    stamps: dict[str, str] = {}
    id: str | None = None
    summary: bool = False


def _added(space: Space, request: AddEntry, new: NewEntry, told: dict[str, list[dict[str, str]]]) -> Added:
    _, bank = find_bank(space, request.bank)
    summary = bool(request.compacts)
    entry = write(space, request.bank, bank, structs.replace(new, summary=summary))
    if request.compacts:
        hide(space, request.bank, request.key, entry, request.compacts)
    if bank.type == "conversation":
        told[entry.id] = history(space, _address_id(space, request.bank, request.key), entry.seq)
    return Added(
        id=entry.id,
        key=request.key,
        created_at=to_datetime(entry.recorded_at),
        seq=entry.seq,
        content=entry.content if bank.type == "general" else None,
    )


def write(space: Space, bank_id: str, bank: Bank, new: NewEntry) -> Entry:
    """Write an entry, with its key and speaker as metadata, and have it compacted if there are too many now."""
    checked_key(new.key)
    draft = Draft(
        kind=SUMMARY if new.summary else "turn" if bank.type == "conversation" else "note",
        role=(speaker := _speaker(bank, new.speaker)),
        content=check.content(new.content),
        origin=_origin(speaker, new.stamps),
        metadata=check.to_json(_stamped(new, speaker)),
        id=new.id,
    )
    (entry,) = space.append(place(bank_id, bank.policy()), new.key, [draft])
    if bank.compacts:
        address_id = _address_id(space, bank_id, new.key)
        if over(space.tx, address_id, bank, space.now):
            queue.ensure_slot(space.tx, "compact", space.now, space.now, address_id=address_id)
    return entry


def hide(space: Space, bank_id: str, key: str, summary: Entry, ids: Sequence[str]) -> None:
    """Hide entries of a key behind one that summarises them (C39)."""
    address = key_address(space, bank_id, key)
    assert address is not None  # noqa: S101 -- the summary was just written there
    found = [space.entry(place(bank_id), check.identifier(one, "compacts")) for one in dict.fromkeys(ids)]
    if any(one is None or one.address_id != address.id for one in found):
        raise Conflict("Some of the entries to summarise are gone, or summarised already: load them again.")
    fold(space, address.id, summary, [one.entry for one in found if one is not None])


def said(space: Space, bank_id: str, key: str, upto: int = 2**62) -> list[dict[str, str]]:
    address = key_address(space, bank_id, key)
    return [] if address is None else history(space, address.id, upto)


# -- searching -----------------------------------------------------------------------------------------------------------


class Match(Response, frozen=True, kw_only=True):
    """An entry that was found. A summary says how many entries it is of, and is dated as the last of them."""

    content_title: str
    content: str
    content_url: str
    content_publish_date: datetime
    id: str
    key: str
    score: float
    metadata: dict[str, Any]
    summary_of: int | None = None


class Matches(Response, frozen=True, kw_only=True):
    """What was found, the best first, and `output` if it was asked for as text; how it was searched."""

    matches: list[Match]
    method: str
    took_ms: float
    output: str | None = None
    warning: str | None = None


class SearchBank(Request, frozen=True, kw_only=True):
    """What to look for in a bank: under one key, or without one under all."""

    bank: BankId
    query: QueryText
    key: Key | None = None
    top_n: TopN = 10
    filter: FilterField | None = None
    added_after: AddedAfter | None = None
    added_before: AddedBefore | None = None
    min_score: MinScore = 0.0
    content_type: Format = "application/json"


@operation(
    "banks.search",
    "POST /v1/memory_banks/{bank}/search",
    outside=True,
    example=Example({"bank": "$0.id", "query": "seat", "key": "alice"}, GIVEN),
)
def search(call: Call, request: SearchBank) -> Matches:
    """Search a bank by words and meaning, the most relevant first."""
    may_search(call, request.bank, request.key)
    found = call.engine.search(call.principal, _query(request))
    summaries = _made_of(call, [hit.entry.id for hit in found.hits if hit.entry.kind == SUMMARY])
    hits = [(_dated(hit.entry, summaries.get(hit.entry.id, 0)), hit.path, round(hit.score, 6)) for hit in found.hits]
    return Matches(
        matches=[_match(request.bank, *hit) for hit in hits],
        method=found.method,
        took_ms=round(found.took_ms, 3),
        warning=found.warning,
        output=_rendered([one for one, _, _ in hits], request.content_type, search=True),
    )


def may_search(call: Call, bank_id: str, key: str | None) -> None:
    """Refuse what cannot be searched: a bank that there is not, or all keys of one that keeps them apart."""
    bank = call.read(lambda space: find_bank(space, bank_id)[1])
    if key is None and not bank.cross_key_search:
        raise Forbidden("This bank is searched under a key only: give one, or set `cross_key_search`.")


def _query(request: SearchBank) -> Query:
    after = instant(request.added_after, "added_after")
    return Query(
        text=query_text(request.query),
        where=(Where(place(request.bank), None if request.key is None else checked_key(request.key)),),
        limit=request.top_n,
        filter=parse(request.filter) if request.filter else None,
        after=None if after is None else after + 1,  # a query's own bound is not left out (S1.38)
        before=instant(request.added_before, "added_before"),
        min_score=check.number(request.min_score, "min_score") or 0.0,
        full=True,
    )


def _made_of(call: Call, ids: Sequence[str]) -> dict[str, int]:
    """Of how many entries summaries are."""
    if not ids:
        return {}
    rows = call.read(lambda space: [(one, space.tx.row("summary_place", id=one)) for one in ids])
    return {one: int(row[1]) for one, row in rows if row is not None}


def _dated(entry: Entry, entries: int) -> Shown:
    """An entry with the time that a search narrows down by."""
    return shown(entry, entries)._replace(created_at=to_datetime(entry.occurred_at))


def _match(bank_id: str, one: Shown, key: str, score: float) -> Match:
    return Match(
        content_title=one.title,
        content=one.content,
        content_url=url(bank_id, one.id),
        content_publish_date=one.created_at,
        id=one.id,
        key=key,
        score=score,
        metadata=one.metadata or {},
        summary_of=one.entries or None,
    )


def url(bank_id: str, entry_id: str) -> str:
    return f"/v1/memory_banks/{bank_id}/entries/{entry_id}"


# -- in order ------------------------------------------------------------------------------------------------------------


class BankEntry(Response, frozen=True, kw_only=True):
    """An entry of a bank. A summary says how many entries it is of; one that is behind a summary says which. `seq` counts
    what was written under the key."""

    id: str
    key: str
    seq: int
    content: str
    created_at: datetime
    title: str
    speaker: str | None = None
    metadata: dict[str, Any] | None = None
    summary_of: int | None = None
    compacted_into: str | None = None


class Loaded(Response, frozen=True, kw_only=True):
    """Messages from a conversation bank, entries from a general one, or `output` if they were asked for as text."""

    content_type: str
    messages: list[dict[str, str]] | None = None
    entries: list[BankEntry] | None = None
    array: list[dict[str, str]] | None = None
    output: str | None = None


class LoadBank(Request, frozen=True, kw_only=True):
    """Which entries of a key, in which order and shape."""

    bank: BankId
    key: Key
    order: Annotated[Order, Meta(description="`newest_first` or `oldest_first`.")] = "newest_first"
    limit: Limit = 100
    content_type: Format = "application/json"
    shape: Annotated[
        Literal["entries", "array"], Meta(description="`array` gives bare titles and contents of a general bank.")
    ] = "entries"
    include_compacted: Folded = False


@operation(
    "banks.load",
    "GET /v1/memory_banks/{bank}/load",
    example=Example({"bank": "$0.id", "key": "alice", "order": "oldest_first"}, GIVEN),
)
def load_bank(space: Space, request: LoadBank) -> Loaded:
    """Load the entries of a key in order. A conversation bank gives messages, ready for a model."""
    _, bank = find_bank(space, request.bank)
    address = key_address(space, request.bank, checked_key(request.key))
    if address is not None and _as_messages(bank, request) and not request.include_compacted:
        return Loaded(
            content_type=outputs.JSON, messages=load_messages(space, address.id, request.order, request.limit)
        )
    found = (
        [] if address is None else load(space, address, request.order, request.limit, folded=request.include_compacted)
    )
    if request.content_type != outputs.JSON:
        return Loaded(content_type=request.content_type, output=_rendered(found, request.content_type))
    if _as_messages(bank, request):
        told = [outputs.message(one.role, one.content, one.entries) for one in found]
        return Loaded(content_type=outputs.JSON, messages=told)
    if request.shape == "array":
        return Loaded(content_type=outputs.JSON, array=outputs.array_json(found))
    return Loaded(content_type=outputs.JSON, entries=[to_entry(one, request.key) for one in found])


def _as_messages(bank: Bank, request: LoadBank) -> bool:
    return bank.type == "conversation" and request.content_type == outputs.JSON


def to_entry(one: Shown, key: str) -> BankEntry:
    return BankEntry(
        id=one.id,
        key=key,
        seq=one.seq,
        content=one.content,
        created_at=one.created_at,
        title=one.title,
        speaker=one.role,
        metadata=one.metadata,
        summary_of=one.entries or None,
        compacted_into=one.behind,
    )


def _rendered(found: Sequence[Shown], content_type: ContentType, *, search: bool = False) -> str | None:
    """Entries as text. A search has no XML: it stays JSON (S1.42, C8)."""
    match content_type:
        case "text/plain":
            return outputs.as_text(found)
        case "text/html":
            return outputs.as_html(found)
        case "application/xml" if not search:
            return outputs.as_xml(found)
    return None


# -- inside --------------------------------------------------------------------------------------------------------------


def _address_id(space: Space, bank_id: str, key: str) -> int:
    """The number of a key that was just written to."""
    if len(space.touched) == 1:
        return next(iter(space.touched))
    address = key_address(space, bank_id, key)
    assert address is not None  # noqa: S101 -- something was just written there
    return address.id


def _speaker(bank: Bank, speaker: str | None) -> str | None:
    """Who speaks; a general bank has no speakers (S1.9, S1.10, C16)."""
    if bank.type == "general":
        return None
    if speaker not in ("user", "assistant"):
        given = "none was given" if speaker is None else f"not {speaker!r}"
        raise Invalid(f"A conversation bank needs a `speaker`, `user` or `assistant`; {given}.", field="speaker")
    return speaker


def _origin(speaker: str | None, stamps: dict[str, str]) -> Origin:
    """Whose words they are: a speaker's, an agent's if a run wrote them, and else the application's own."""
    return ORIGIN_OF_ROLE[speaker] if speaker else "assistant" if stamps else "system"


def _stamped(new: NewEntry, speaker: str | None) -> dict[str, Any]:
    for name in RESERVED:
        if name in new.metadata:
            raise Invalid(f"`metadata.{name}` is set by the bank itself: use another name.", field="metadata")
    own = {"key": new.key} | ({"speaker": speaker} if speaker else {}) | new.stamps
    return {**new.metadata, **own}
