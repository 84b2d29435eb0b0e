"""Operations on memories, the facts of a user or a flow: list, read, correct, delete, trace, release and revoke them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import Owner, OwnerRequest, flow_facts, flow_timeline, owner_operation
from ..core.space import Located, Space
from ..core.time_travel import (
    FactLife,
    Moments,
    TimeTravelRequest,
    list_entries_at,
    list_facts_at,
    list_facts_in,
    require_version_at,
    to_moments,
)
from ..erasure.erase import erase_fact, forget_runs, scrub_later
from ..errors import Conflict, Invalid, NotFound
from ..model.collection import Draft, Entry, Place
from ..model.fields import (
    AnyId,
    Confidence,
    Content,
    Cursor,
    FilterField,
    Flow,
    Importance,
    Limit,
    Metadata,
    SessionId,
    check_content,
    check_number,
    cut,
    encode_metadata,
    from_cursor,
    to_cursor,
    to_metadata,
)
from ..model.filter import Filter, parse
from .datatypes import name_unnamed_user
from .fact_rows import (
    FACTS_PATH,
    NOT_ENDED,
    FactRow,
    FactVersion,
    StoredFact,
    end_fact,
    list_versions,
    write_corrected_fact,
    write_entry_fact,
)
from .plans import FLOW_DONE, USER_DONE
from .retract import release_fact, revoke_source

SESSION_MEMORIES = 200
"""Maximum number of memories in a response for one session."""

SourceId = Annotated[AnyId, Meta(description="The id of one turn.")]

_FACT = {"flow": "support", "content": "Ships to the EU only", "importance": 0.8}
_WRITTEN = (("flows.write", _FACT),)
_FLOW_FACT = Example({"id": "$0.id"}, _WRITTEN)
_DISTILLED = {"id": "$1.plan.steps.0.id"}
_USER_FACT = Example(_DISTILLED, USER_DONE)
_FLOW_SECRET = {
    "flow": "support",
    "session": "bad",
    "role": "user",
    "name": "Eve",
    "content": "My password is hunter2.",
}
_FLOW_HELD = (("flows.append", _FLOW_SECRET), ("flows.consolidate", {"flow": "support", "session": "bad"}))
_USER_SECRET = {"user": "eve", "session": "bad", "content": "My password is hunter2."}
_USER_HELD = (("users.add", _USER_SECRET), ("users.consolidate", {"user": "eve", "session": "bad"}))


class Memory(Response, frozen=True, kw_only=True):
    """A remembered statement. `held` is the reason for a quarantine: the statement looks like a `secret` or an `instruction`."""

    id: str
    content: str
    importance: float
    confidence: float
    created_at: datetime
    updated_at: datetime
    version: int
    session: str | None = None
    metadata: dict[str, Any] | None = None
    origin: str | None = None
    subject: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    held: str | None = None


class Memories(Response, frozen=True, kw_only=True):
    """Memories in the order in which they were written. `held`: the number of quarantined facts, which `held` lists."""

    memories: list[Memory]
    next_cursor: str | None = None
    held: int = 0


class DeletedMemory(Response, frozen=True, kw_only=True):
    """The deleted memory, and the job that erases its remaining traces."""

    id: str
    job: str


class Version(Response, frozen=True, kw_only=True):
    """One version of a fact. `kind`: `fact`, `past` (no longer true) or `held` (quarantined)."""

    version: int
    kind: str
    content: str
    confidence: float
    known_from: datetime
    known_to: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    plan: str | None = None
    held: str | None = None


class Evidence(Response, frozen=True, kw_only=True):
    """A passage that states a fact. If its turn has expired, only the time and the position are left."""

    turn: str
    origin: str
    said_at: datetime
    start: int
    end: int
    expired: bool
    session: str | None = None
    role: str | None = None
    name: str | None = None
    words: str | None = None
    plan: str | None = None


class MemoryHistory(Response, frozen=True, kw_only=True):
    """All versions of a fact, oldest first, and its evidence."""

    id: str
    versions: list[Version]
    evidence: list[Evidence]
    subject: str | None = None


class Revoked(Response, frozen=True, kw_only=True):
    """The facts that were withdrawn without any evidence left, and the number of facts that lost a part of theirs."""

    withdrawn: list[str]
    weakened: int


class Write(Request, frozen=True, kw_only=True):
    """A statement to remember without changes."""

    flow: Flow
    content: Content
    importance: Importance = 0.5
    confidence: Confidence = 1.0
    session: SessionId | None = None
    metadata: Metadata | None = None


@operation(
    "flows.write", "POST /v1/flows/{flow}/memories", effect="write", owner="flow", status=201, example=Example(_FACT)
)
def write(space: Space, request: Write) -> Memory:
    """Remember a statement directly, for the flow or for one of its sessions."""
    draft = Draft(
        kind="fact",
        content=check_content(request.content),
        origin="system",
        importance=check_number(request.importance, "importance"),
        confidence=check_number(request.confidence, "confidence"),
        metadata=encode_metadata(request.metadata),
    )
    owner = Owner("flow", request.flow)
    if request.session is not None:
        space.append(owner.timeline, request.session, [])  # creates the session
    entry = space.append(owner.facts, request.session or FACTS_PATH, [draft])[0]
    about = None if request.session is None else name_unnamed_user(request.session)
    write_entry_fact(space, owner.facts, entry, FactRow(subject=about))
    return to_memories(space, [entry], request.session or FACTS_PATH)[0]


class ListUserMemories(TimeTravelRequest, frozen=True, kw_only=True):
    """Selects memories and a page of them."""

    filter: FilterField | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class ListFlowMemories(TimeTravelRequest, frozen=True, kw_only=True):
    """Selects memories of the flow or of one session, and a page of them."""

    session: SessionId | None = None
    filter: FilterField | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@owner_operation("memories", "GET /memories", user=Example({}, USER_DONE), flow=Example({}, _WRITTEN))
def list_memories(space: Space, request: ListUserMemories | ListFlowMemories) -> Memories:
    """List the memories of a {owner}, now or as of another time: those about the whole {owner} first, then those of each session,
    in the order they became known."""
    facts = request.owner.facts
    session = request.session if isinstance(request, ListFlowMemories) else None
    at, condition = to_moments(request), parse(request.filter) if request.filter else None
    start = (FACTS_PATH if session is None else session, 0)
    if at.is_set:
        # all pages read at the time of the first page, so that changes between pages do not omit or repeat memories
        path, seq, begun_at = from_cursor("memories_then", request.cursor, *start, _last_moment(space, facts))
        at = at if at.as_of is not None else at._replace(as_of=begun_at)
        lives = _list_lives(space, facts, at, session, (path, seq), condition)
        then, further = cut(
            list(islice(lives, request.limit + 1)),
            request.limit,
            lambda one: to_cursor("memories_then", one[0], one[1].seq, begun_at),
        )
        return Memories(memories=_to_memories_then(space, [life for _, life in then]), next_cursor=further)
    path, seq = from_cursor("memories", request.cursor, *start)
    found = _list_facts(space, facts, session, (path, seq), request.limit + 1, condition)
    page, further = cut(found, request.limit, lambda one: to_cursor("memories", one[0], one[1].seq))
    stored = find_stored(space, [entry for _, entry in page])
    return Memories(
        memories=[to_memory(entry, path, stored.get(entry.id)) for path, entry in page],
        next_cursor=further,
        held=count_quarantined(space, facts),
    )


def count_quarantined(space: Space, facts: Place) -> int:
    """Return the number of facts that are quarantined now."""
    address = space.address(facts, FACTS_PATH)
    row = None if address is None else space.tx.row("count_held", address_id=address.id, now=space.now)
    return 0 if row is None else int(row[0])


def _list_facts(
    space: Space, facts: Place, session: str | None, start: tuple[str, int], limit: int, condition: Filter | None
) -> list[tuple[str, Entry]]:
    """Return the next facts with their paths: those of a session, or of all paths."""
    path, seq = start
    address = space.address(facts, path)
    entries = [] if address is None else space.after(address, seq, limit, condition, kind="fact")
    found = [(path, entry) for entry in entries]
    collection_id = space.find_collection_id(facts)
    if session is not None or collection_id is None or len(found) == limit:
        return found
    rows = space.tx.rows(
        "facts_after_path",
        condition,
        collection_id=collection_id,
        path=path,
        now=space.now,
        limit=limit - len(found),
    )
    return found + [(row[-1], Entry(*row[:-1])) for row in rows]


def _list_lives(
    space: Space, facts: Place, at: Moments, session: str | None, start: tuple[str, int], condition: Filter | None
) -> Iterator[tuple[str, FactLife]]:
    """Yield the next facts that were known and true then, with their paths: those of a session, or of all paths."""
    if session is None:
        return list_facts_in(space, facts, at, start, condition)
    address = space.address(facts, session)
    lives = list_facts_at(space, address, at, start[1], condition) if address else ()
    return ((session, one) for one in lives)


def _last_moment(space: Space, facts: Place) -> int:
    """Return the current time, or that of the newest fact if the clock was set back since."""
    collection_id = space.find_collection_id(facts)
    row = None if collection_id is None else space.tx.row("last_used", collection_id=collection_id, now=space.now)
    return max(space.now, row[0] or 0) if row else space.now


class MemoryThen(TimeTravelRequest, frozen=True, kw_only=True):
    """Selects a memory, and the time at which it is read."""

    id: AnyId


@owner_operation("memory", "GET /memories/{id}", user=_USER_FACT, flow=_FLOW_FACT)
def memory(space: Space, request: MemoryThen) -> Memory:
    """Read one memory of a {owner}, as it is now or as it was at another time."""
    at, facts = to_moments(request), request.owner.facts
    if at.is_set:
        return _to_memories_then(space, [require_version_at(space, facts, request.id, at)])[0]
    located = require_memory(space, facts, request.id)
    return to_memories(space, [located.entry], located.path)[0]


class UpdateMemory(OwnerRequest, frozen=True, kw_only=True):
    """Changes to a memory. Omitted fields stay as they are."""

    id: AnyId
    content: Content | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    metadata: Metadata | None = None
    version: (
        Annotated[int, Meta(description="The version that was read; the update fails if there is a newer one.")] | None
    ) = None


@owner_operation(
    "update_memory",
    "PATCH /memories/{id}",
    effect="write",
    user=Example({**_DISTILLED, "content": "Alice lives in Lisbon, near the river."}, USER_DONE),
    flow=Example({"id": "$0.id", "content": "Ships to the EU and Norway"}, _WRITTEN),
)
def update_memory(space: Space, request: UpdateMemory) -> Memory:
    """Correct a memory of a {owner}. Pass the `version` that you read to make the update fail if the memory has changed since."""
    facts = request.owner.facts
    located = require_memory(space, facts, request.id)
    old = located.entry
    if request.content is not None and not request.content.strip():
        raise Invalid("`content` is blank.", field="content")
    content = old.content if request.content is None else check_content(request.content)
    draft = Draft(
        kind=old.kind,
        content=content,
        name=old.name,
        origin="system" if content != old.content else old.origin,  # type: ignore[arg-type]
        importance=old.importance if request.importance is None else check_number(request.importance, "importance"),
        confidence=old.confidence if request.confidence is None else check_number(request.confidence, "confidence"),
        metadata=old.metadata if request.metadata is None else encode_metadata(request.metadata),
        occurred_at=old.occurred_at,
    )
    fields = ("content", "importance", "confidence", "metadata")
    is_same = all(getattr(old, name) == getattr(draft, name) for name in fields)
    if is_same and request.version in (None, old.version):
        return to_memories(space, [old], located.path)[0]
    entry = space.revise(facts, located, draft, request.version)
    write_corrected_fact(space, facts, entry)
    return to_memories(space, [entry], located.path)[0]


class OneMemory(OwnerRequest, frozen=True, kw_only=True):
    """Selects a memory."""

    id: AnyId


@owner_operation("delete_memory", "DELETE /memories/{id}", effect="erase", status=202, user=_USER_FACT, flow=_FLOW_FACT)
def delete_memory(space: Space, request: OneMemory) -> DeletedMemory:
    """Erase a memory of a {owner} and its history permanently. The turns that it came from stay."""
    facts = request.owner.facts
    located = space.entry(facts, request.id)
    # withdrawn memories can be erased too
    address_id = _versions_in(space, facts, request.id)[-1].address_id if located is None else located.address_id
    release_fact(space, facts, request.id)
    count, answers = erase_fact(space.tx, request.id, space.now)
    space.touch(space.collection(facts)[0], address_id)
    forget_runs(space.tx, [address_id])
    return DeletedMemory(id=request.id, job=scrub_later(space.tx, space.now, {"facts": count, "answers": answers}))


@owner_operation("memory_history", "GET /memories/{id}/history", user=_USER_FACT, flow=Example(_DISTILLED, FLOW_DONE))
def memory_history(space: Space, request: OneMemory) -> MemoryHistory:
    """List the versions of a fact, and its evidence with the words of the turns."""
    versions = _versions_in(space, request.owner.facts, request.id)
    rows = space.tx.rows("evidence_of", fact_id=request.id, now=space.now)
    return MemoryHistory(
        id=request.id,
        subject=versions[-1].subject,
        versions=[
            Version(
                version=one.version,
                kind=one.kind,
                content=one.content,
                confidence=1.0 if one.confidence is None else one.confidence,
                known_from=to_datetime(one.recorded_at),
                known_to=optional_datetime(one.retired_at),
                valid_from=optional_datetime(one.valid_from),
                valid_to=optional_datetime(one.valid_to),
                plan=one.plan_id,
                held=one.held,
            )
            for one in versions
        ],
        evidence=[
            Evidence(
                turn=entry_id,
                origin=origin,
                said_at=to_datetime(said_at),
                start=start,
                end=end,
                expired=content is None,
                session=path,
                role=role,
                name=name,
                words=None if content is None else content[start:end],
                plan=plan_id or None,
            )
            for entry_id, start, end, origin, said_at, plan_id, path, content, role, name, _ in rows
        ],
    )


class PageOfMemories(OwnerRequest, frozen=True, kw_only=True):
    """Selects a page."""

    limit: Limit = 50
    cursor: Cursor | None = None


@owner_operation("held", "GET /held", user=Example({"user": "eve"}, _USER_HELD), flow=Example({}, _FLOW_HELD))
def list_quarantined(space: Space, request: PageOfMemories) -> Memories:
    """List quarantined statements. They look like secrets or like instructions to the agent, and are not used until released."""
    address = space.address(request.owner.facts, FACTS_PATH)
    if address is None:
        return Memories(memories=[])
    (seq,) = from_cursor("held", request.cursor, 0)
    entries = space.after(address, seq, request.limit + 1, kind="held")
    page, further = cut(entries, request.limit, lambda entry: to_cursor("held", entry.seq))
    held = count_quarantined(space, request.owner.facts)
    return Memories(memories=to_memories(space, page, FACTS_PATH), next_cursor=further, held=held)


@owner_operation(
    "release",
    "POST /held/{id}/release",
    effect="write",
    user=Example({**_DISTILLED, "user": "eve"}, _USER_HELD),
    flow=Example(_DISTILLED, _FLOW_HELD),
)
def release(space: Space, request: OneMemory) -> Memory:
    """Release a quarantined statement, so that it is used like any other fact."""
    facts = request.owner.facts
    located = require_memory(space, facts, request.id)
    if located.entry.kind != "held":
        raise Conflict("This memory is not quarantined.")
    end_fact(space, facts, located, NOT_ENDED)
    return to_memories(space, [require_memory(space, facts, request.id).entry], FACTS_PATH)[0]


class Revoke(OwnerRequest, frozen=True, kw_only=True):
    """The session or the turn that is no longer trusted."""

    session: SessionId | None = None
    turn: SourceId | None = None


@owner_operation(
    "revoke",
    "POST /revoke",
    effect="write",
    user=Example({"session": "monday"}, USER_DONE),
    flow=Example({"session": "alice-42"}, FLOW_DONE),
)
def revoke(space: Space, request: Revoke) -> Revoked:
    """Remove a session or a turn from the evidence of all facts, and withdraw facts without other evidence. The turns stay."""
    if (request.session is None) == (request.turn is None):
        raise Invalid("Give either a `session` or a `turn` to revoke.", field="session")
    address_id = None
    if request.session is not None:
        address = space.address(request.owner.timeline, request.session)
        if address is None:
            raise NotFound("There is no such session.")
        address_id = address.id
    facts = request.owner.facts
    withdrawn, weakened = revoke_source(space, facts, address_id=address_id, entry_id=request.turn)
    return Revoked(withdrawn=withdrawn, weakened=weakened)


def require_memory(space: Space, facts: Place, memory_id: str) -> Located:
    located = space.entry(facts, memory_id)
    if located is None:
        raise NotFound(f"There is no such memory in this {facts.dialect}.")
    return located


def _versions_in(space: Space, facts: Place, memory_id: str) -> list[FactVersion]:
    """Return all versions of a memory of this owner, even if it was withdrawn."""
    versions = list_versions(space.tx, memory_id)
    row = space.tx.row("distilled_address", id=versions[-1].address_id) if versions else None
    if row is None or row[3] != space.find_collection_id(facts):
        raise NotFound(f"There is no such memory in this {facts.dialect}.")
    return versions


def session_memories(space: Space, flow: str, session: str) -> list[Memory]:
    """Return the newest memories of a session: memories written for it, and facts from its turns."""
    written = space.address(flow_facts(flow), session)
    memories = [to_memory(entry, session) for entry in space.last(written, SESSION_MEMORIES)] if written else []
    timeline = space.address(flow_timeline(flow), session)
    if timeline is not None:
        rows = space.tx.rows("facts_in_session", address_id=timeline.id, limit=SESSION_MEMORIES)
        memories += [to_memory(Entry(*row), FACTS_PATH) for row in rows]
    return memories


def to_memories(space: Space, entries: Sequence[Entry], path: str) -> list[Memory]:
    """Return memories with their subjects and validity."""
    stored = find_stored(space, entries)
    return [to_memory(entry, path, stored.get(entry.id)) for entry in entries]


def find_stored(space: Space, entries: Sequence[Entry]) -> dict[str, StoredFact]:
    """Return the fact rows of current memories by id."""
    ids = msgspec.json.encode([entry.id for entry in entries]).decode()
    return {row[0]: StoredFact(*row) for row in space.tx.rows("facts_of", ids=ids)} if entries else {}


def _to_memories_then(space: Space, lives: Sequence[FactLife]) -> list[Memory]:
    entries = list_entries_at(space, lives)
    return [to_memory(entry, path, one) for (entry, path), one in zip(entries, lives, strict=True)]


def to_memory(entry: Entry, path: str, stored: StoredFact | FactLife | None = None) -> Memory:
    return Memory(
        id=entry.id,
        content=entry.content,
        importance=0.5 if entry.importance is None else entry.importance,
        confidence=1.0 if entry.confidence is None else entry.confidence,
        created_at=to_datetime(entry.created_at),
        updated_at=to_datetime(entry.recorded_at),
        version=entry.version,
        session=path or None,
        metadata=to_metadata(entry.metadata),
        origin=entry.origin,
        subject=stored.subject if stored else None,
        valid_from=optional_datetime(stored.valid_from) if stored else None,
        valid_to=optional_datetime(stored.valid_to) if stored else None,
        held=stored.held if stored else None,
    )
