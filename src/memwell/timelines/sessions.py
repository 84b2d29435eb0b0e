"""Operations that users and flows share: listing sessions, settings, listing owners, and erasing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from ..admin.jobs import wait_for_job
from ..clock import optional_datetime, to_datetime
from ..core.access import OwnerKind
from ..core.dispatch import Call
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Erasure, Space
from ..erasure.erase import erase_collection
from ..errors import NotFound
from ..jobs import queue
from ..model.collection import Place, Policy
from ..model.fields import Cursor, Limit, cut, from_cursor, to_cursor
from ..records.records import list_tied_addresses
from ..search.words import check_language
from ..storage.port import Row

NEWEST = 2**62
RECEIPT_S = 5.0
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
    erasure = call.write(_erase_name, kind, name, keys)
    # Wait a little for the receipt: the erasure may have deleted the caller's key, so the caller could not read it later.
    job = wait_for_job(call, erasure.job, RECEIPT_S)
    if job.state != "done" or job.result is None:
        return erasure
    return msgspec.structs.replace(erasure, layers=job.result["layers"], residual=job.result["residual"])


def _retract_sessions(space: Space, addresses: Sequence[Row]) -> None:
    """Retract the facts of flows that rest on sessions of the erased user."""
    from ..facts.retract import forget_session  # here, because few operations need its imports

    for address_id, _, kind in addresses:
        row = space.tx.row("located_address", id=address_id) if kind == "timeline" else None
        if row is not None:
            facts = Place(row[3], row[4], "facts")
            if space.find_collection_id(facts) is not None:
                forget_session(space, facts, address_id)


def _erase_name(space: Space, kind: OwnerKind, name: str, keys: int) -> Erasure:
    collections = space.tx.rows("collections_of_name", dialect=kind, name=name)
    addresses = list(space.tx.rows("addresses_of_name", dialect=kind, name=name))
    elsewhere = list_tied_addresses(space, f"{kind}/{name}")
    _retract_sessions(space, elsewhere)
    addresses += elsewhere
    if not collections and not addresses and not keys:
        raise NotFound(f"There is no memory of that {kind}.")
    erasure = space.bury(list({one[0]: one for one in addresses}.values()))
    for (collection_id,) in collections:
        erase_collection(space.tx, collection_id, space.now)
    return erasure
