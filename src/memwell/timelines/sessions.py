"""Operations that users and flows share: listing sessions, settings, listing owners, and erasing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .. import typed
from ..clock import optional_datetime, to_datetime
from ..core.access import OwnerKind
from ..core.dispatch import Call
from ..core.operation import Awaited, Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Erasure, Kept, Remains, Space, written_for
from ..erasure.erase import GRAVE, erase_collection, erase_fact, forget_runs
from ..errors import NotFound
from ..jobs import queue
from ..jobs.queue import StoredJob
from ..model.collection import Place, Policy, decode_policy
from ..model.fields import Cursor, Limit, cut, from_cursor, to_cursor
from ..records.records import list_tied_addresses
from ..search.words import check_language
from ..storage.port import Row, encode_numbers

NEWEST = 2**62
RECEIPT_S = 5.0
NOT_USERS = "It has the user's name, but the bank's keys are not users: set `key_is_user`, and forget the user again."
NOT_TIED = "It has the user's name, but does not belong to the user: delete it where it is, if it is about the user."
SHARED = "Others have written there too: only what the user said, or runs of the user wrote, was erased."
Language = Annotated[
    str,
    Meta(
        max_length=8,
        description="The two-letter code of the language, such as `en`, `de` or `pt`. It decides how words are stemmed.",
    ),
]


class SessionInfo(Response, frozen=True, kw_only=True):
    """A summary of a session."""

    session: str
    turns: int
    created_at: datetime
    last_active_at: datetime
    ended_at: datetime | None = None


class Sessions(Response, frozen=True, kw_only=True):
    """Sessions, the newest first."""

    sessions: list[SessionInfo]
    next_cursor: str | None = None


class ListSessions(OwnerRequest, frozen=True, kw_only=True):
    """A page of sessions to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


@owner_operation(
    "sessions",
    "GET /sessions",
    user=Example({}, (("users.add", {"user": "alice", "content": "I am vegetarian and moved to Porto."}),)),
    flow=Example(
        {},
        (
            (
                "flows.append",
                {"flow": "support", "session": "alice-42", "role": "user", "content": "Where is my order?"},
            ),
        ),
    ),
)
def sessions(space: Space, request: ListSessions) -> Sessions:
    """List the sessions of a {owner}, the newest first."""
    before, before_id = from_cursor("sessions", request.cursor, NEWEST, NEWEST)
    position = {"before": before, "before_id": before_id}
    rows = space.rows("list_addresses", request.owner.timeline, **position, ended=1, limit=request.limit + 1)
    page, further = cut(rows, request.limit, lambda row: to_cursor("sessions", row[1], row[4]))
    found = [
        SessionInfo(
            session=path,
            turns=entries,
            created_at=to_datetime(created_at),
            last_active_at=to_datetime(last_seen_at),
            ended_at=optional_datetime(ended_at),
        )
        for path, created_at, last_seen_at, ended_at, _, entries in page
    ]
    return Sessions(sessions=found, next_cursor=further)


class Settings(Response, frozen=True, kw_only=True):
    """Current settings."""

    language: str


class ReadSettings(OwnerRequest, frozen=True, kw_only=True):
    """The owner whose settings to read."""


@owner_operation("settings", "GET /settings", user=Example(), flow=Example())
def read_settings(space: Space, request: ReadSettings) -> Settings:
    """Read the settings of a {owner}'s memory."""
    policy = space.policy(request.owner.timeline)
    return Settings(language=(policy or Policy()).language)


class Configure(OwnerRequest, frozen=True, kw_only=True):
    """New settings."""

    language: Language


@owner_operation(
    "configure",
    "PUT /settings",
    effect="write",
    role="admin",
    user=Example({"language": "pt"}),
    flow=Example({"language": "de"}),
)
def configure(space: Space, request: Configure) -> Settings:
    """Set the language of a {owner}'s memory. Stored entries are indexed again in the background."""
    language = request.language
    check_language(language)
    for place in (request.owner.timeline, request.owner.facts):
        collection_id, policy = space.collection(place)
        space.mention("collection", str(collection_id))
        if policy.language != language:
            text = msgspec.json.encode(msgspec.structs.replace(policy, language=language)).decode()
            space.tx.send("set_policy", id=collection_id, policy=text)
            queue.ensure_slot(space.tx, "index", space.now, space.now)
    return Settings(language=language)


def list_names(space: Space, dialect: str, cursor: str | None, limit: int) -> tuple[Sequence[Row], str | None]:
    """Return a page of users or flows that have memory, each with the number of its sessions and the time of its last use."""
    (after,) = from_cursor(dialect, cursor, "")
    rows = space.tx.rows("list_collections", dialect=dialect, after=after, now=space.now, limit=limit + 1)
    return cut(rows, limit, lambda row: to_cursor(dialect, row[0]))


def erase_everything(call: Call, kind: OwnerKind, name: str) -> Erasure:
    """Bury all memory of a user or a flow, its name, and the keys that are limited to it."""
    control = call.engine.store.control
    tied = {"tenant": call.principal.tenant, "tie_kind": kind, "tie_name": name}
    keys = control.write(("delete_tied_keys", tied))
    if keys:
        control.scrub()
    return call.write(_erase_name, kind, name, keys)


def await_receipt(request: Any, erasure: Erasure) -> Awaited:
    """Wait a little for the receipt: the erasure may have deleted the caller's key, so the caller could not read it later."""

    def answer(call: Call, job: StoredJob | None) -> Erasure:
        if job is None or job.state != "done" or job.result is None:
            return erasure
        receipt = msgspec.json.decode(job.result)
        remains = typed.convert(receipt.get("remains"), list[Remains] | None)
        layers, residual = receipt["layers"], receipt["residual"]
        return msgspec.structs.replace(erasure, layers=layers, residual=residual, remains=remains)

    return Awaited(erasure.job, RECEIPT_S, answer)


def _retract_sessions(space: Space, addresses: Sequence[Row]) -> None:
    """Retract the facts of flows that rest on sessions of the erased user."""
    from ..facts.retract import forget_session  # here, because few operations need its imports

    for address_id, _, kind in addresses:
        row = space.tx.row("located_address", id=address_id) if kind == "timeline" else None
        if row is not None:
            facts = Place(row[3], row[4], "facts")
            if space.find_collection_id(facts) is not None:
                forget_session(space, facts, address_id)


def erase_entries(space: Space, entries: Mapping[str, int]) -> tuple[list[Row], dict[str, int]]:
    """Erase single entries, by id with their addresses, and what was derived from them: summaries, facts, the data of runs. The
    facts of a session are made again from the turns that stay. Return the addresses (id, collection, kind) without entries,
    and the counts."""
    from ..banks.compaction import dissolve_summaries  # here, because few operations need their imports
    from ..facts.retract import release_fact

    places: dict[int, Row] = {}
    layers: Counter[str] = Counter()
    for address_id in sorted(set(entries.values())):
        row = space.tx.row("located_address", id=address_id)
        if row is not None:
            places[address_id] = row
            layers.update(forget_runs(space.tx, [address_id]))
            _retract_session(space, row)
    for entry_id, address_id in entries.items():
        if address_id not in places or not space.tx.rows("entry_addresses", id=entry_id):
            continue  # another erasure has removed it
        _, _, kind, dialect, name, path = places[address_id]
        if kind == "facts" and not path:
            release_fact(space, Place(dialect, name, kind), entry_id)
        elif kind == "timeline":
            dissolve_summaries(space, entry_id)
        erase_fact(space.tx, entry_id, space.now)
        layers["entries"] += 1
    empty = [
        (address_id, collection_id, kind)
        for address_id, collection_id, kind, *_ in places.values()
        if kind == "timeline" and space.tx.row("anything_left", address_id=address_id, now=space.now) is None
    ]
    return empty, dict(layers)


def _retract_session(space: Space, row: Row) -> None:
    """Retract the facts that rest on a session, and have it consolidated again."""
    from ..facts.retract import forget_session

    address_id, _, kind, dialect, name, _ = row
    facts = Place(dialect, name, "facts")
    if kind == "timeline" and space.find_collection_id(facts) is not None:
        forget_session(space, facts, address_id)
        for statement in ("delete_evidence_from", "delete_plans_of"):
            space.tx.send(statement, addresses=encode_numbers([address_id]))
        space.tx.send("distil_again", id=address_id)
        queue.ensure_slot(space.tx, "consolidate", space.now, space.now, address_id=address_id)


def _erase_name(space: Space, kind: OwnerKind, name: str, keys: int) -> Erasure:
    collections = space.tx.rows("collections_of_name", dialect=kind, name=name)
    addresses = list(space.tx.rows("addresses_of_name", dialect=kind, name=name))
    elsewhere = list_tied_addresses(space, f"{kind}/{name}")
    kept: list[Kept] = []
    entries: dict[str, int] = {}
    if kind == "user":
        named = space.tx.rows("addresses_at_path", path=name)
        elsewhere += [row[:3] for row in named if decode_policy(row[5]).paths_are_users]
        reached = {row[0] for row in (*addresses, *elsewhere)}
        kept += [_to_kept(name, *row[3:5]) for row in named if row[0] not in reached and row[3] != GRAVE]
        rows = space.tx.rows("entries_written_for", tie=written_for(name))
        entries = {entry_id: address_id for entry_id, address_id in rows if address_id not in reached}
    _retract_sessions(space, elsewhere)
    emptied, layers = erase_entries(space, entries)
    space.tx.send("delete_tie", tie=written_for(name))
    shared = set(entries.values()) - {row[0] for row in emptied}
    if shared:
        kept.append(Kept(place=f"{len(shared)} sessions or keys of banks", reason=SHARED))
    addresses += elsewhere + emptied
    if not collections and not addresses and not entries and not keys:
        raise NotFound(f"There is no memory of that {kind}.")
    erasure = space.bury(list({one[0]: one for one in addresses}.values()), layers, kept)
    for (collection_id,) in collections:
        erase_collection(space.tx, collection_id, space.now)
    return erasure


def _to_kept(user: str, dialect: str, name: str) -> Kept:
    """Describe an address that has the name of a forgotten user and was not reached. The description does not repeat the name."""
    of = "" if name == user else f" {name}"
    if dialect == "bank":
        return Kept(place=f"a key of the memory bank{of}", reason=NOT_USERS)
    place = "the agent log" if dialect == "log" else f"the {dialect}{of}"
    return Kept(place=f"a session of {place}", reason=NOT_TIED)
