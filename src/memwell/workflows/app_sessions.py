"""The end of an app's session: by a call, or by a job when nobody has written for the app's idle time. The conversation of a
session outlives it, unless it is to be ended too, which makes facts of it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..banks.banks import KIND as BANK
from ..clock import MINUTE
from ..core.engine import Engine
from ..core.operation import Example, Response, operation
from ..core.owners import app_records
from ..core.space import Space, worker_space
from ..erasure.erase import EVERY_RUN
from ..jobs.queue import JobKind, JobRun, Repeat
from ..records.apps import (
    APPS,
    IDLE_JOB,
    OF_SESSION,
    PREFIX,
    PREFIX_END,
    SESSION_GIVEN,
    OfSession,
    OpenSession,
    SessionRequest,
    find_app_session,
    find_app_settings,
    find_by_reference,
    in_session_tie,
    open_session,
    session_tie,
    thread_tie,
    to_thread,
)
from ..records.records import delete_tied, list_tied_addresses
from ..storage.port import Tx
from ..timelines import flows

PAGE = 100
LOOK_AT_MOST_EVERY = MINUTE // 2


class EndSession(OfSession, frozen=True, kw_only=True):
    """A session to end, and what becomes of its conversation."""

    end_conversation: (
        Annotated[
            bool,
            Meta(description="End its conversation too, and make facts of it. Default: the app's `end_conversations`."),
        ]
        | None
    ) = None


class EndedConversation(Response, frozen=True, kw_only=True):
    """A conversation of an ended session: a session of a flow, or a key of a bank. If it was ended, a job makes facts of it.
    Else it is kept, and continues if the session begins again."""

    ended: bool
    flow: str | None = None
    session: str | None = None
    bank: str | None = None
    key: str | None = None
    job: str | None = None


class EndedSession(Response, frozen=True, kw_only=True):
    """An ended session, the number of records deleted with it, the job that erases their bytes, and its conversations."""

    session_id: str
    records: int
    job: str | None = None
    conversations: list[EndedConversation]


@operation(
    "apps.sessions.end",
    "POST /v1/apps/{app}/sessions/{session_id}/end",
    effect="erase",
    example=Example(OF_SESSION, SESSION_GIVEN),
)
def end_session(space: Space, request: EndSession) -> EndedSession:
    """End a session. This deletes its metadata, its records with the retention `session`, and the working memory of its thread,
    and keeps its conversation, unless that is to be ended, too. Ending it again changes nothing."""
    end = request.end_conversation
    if end is None:
        end = find_app_settings(space, request.app).end_conversations
    return _end(space, request.app, request.session_id, end_conversations=end)


def open_app_session(space: Space, app: str, opening: SessionRequest) -> OpenSession:
    """Begin or continue a session. One whose idle time is over ends first, so that it begins anew."""
    settings = find_app_settings(space, app)
    session_id = opening.session_id or find_by_reference(space, app, opening.session_reference)
    found = None if session_id is None or not settings.idle_us else find_app_session(space, app, session_id)
    if found is not None and session_id is not None and found.updated_at <= space.now - (settings.idle_us or 0):
        _end_if_unused(space, app, session_id, found.address_id)
    return open_session(space, app, opening)


def _end(space: Space, app: str, session_id: str, *, end_conversations: bool) -> EndedSession:
    found = list_tied_addresses(space, in_session_tie(app, session_id))
    conversations = [
        _end_conversation(space, address_id, end=end_conversations)
        for address_id, _, kind in found
        if kind == "timeline"
    ]
    ties = session_tie(app, session_id), thread_tie(to_thread(app, session_id))
    job, count = delete_tied(space, *ties, spared=EVERY_RUN)
    return EndedSession(session_id=session_id, records=count, job=job, conversations=conversations)


def _end_conversation(space: Space, address_id: int, *, end: bool) -> EndedConversation:
    row = space.tx.row("located_address", id=address_id)
    assert row is not None  # noqa: S101 -- it was just listed
    dialect, name, path = row[3:]
    if dialect == BANK:
        return EndedConversation(ended=False, bank=name, key=path)
    ended = flows.end.run(space, flows.OfSession(flow=name, session=path)) if end else None
    is_ended = ended is not None and ended.ended_at is not None
    return EndedConversation(ended=is_ended, flow=name, session=path, job=None if ended is None else ended.job)


def _end_if_unused(space: Space, app: str, session_id: str, address_id: int) -> bool:
    """End an idle session, unless a run of it is under way."""
    if space.tx.row("run_under_way_at", address_id=address_id, now=space.now) is not None:
        return False
    _end(space, app, session_id, end_conversations=find_app_settings(space, app).end_conversations)
    return True


def end_idle_sessions(_: Engine, run: JobRun) -> dict[str, Any] | Repeat:
    """End the sessions whose idle time is over, and repeat when that of the next is."""
    idle = {
        item.id: item.settings.idle_us
        for item in run.read(lambda tx: APPS.list(worker_space(tx, run.reach, run.clock)))
        if item.settings.idle_us
    }
    ended, due = 0, []
    for app, idle_us in idle.items():
        ended += _end_idle_sessions_of(run, app, idle_us)
        oldest = run.read(lambda tx: tx.row("oldest_records", **_sessions_of(app)))  # noqa: B023 -- run at once
        due += [int(oldest[0]) + idle_us] if oldest and oldest[0] is not None else []
    if not due:
        return {"ended": ended}  # the next session schedules the job again
    return Repeat(max(min(due), run.clock.now() + LOOK_AT_MOST_EVERY))


def _end_idle_sessions_of(run: JobRun, app: str, idle_us: int) -> int:
    before, ended = run.clock.now() - idle_us, 0
    where = _sessions_of(app) | {"before": before, "limit": PAGE}

    def end(tx: Tx, path: str) -> bool:
        space = worker_space(tx, run.reach, run.clock)
        session_id = path.removeprefix(PREFIX)
        found = find_app_session(space, app, session_id)
        if found is None or found.updated_at > before or not _end_if_unused(space, app, session_id, found.address_id):
            return False
        for one in space.touched.values():
            event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
            tx.send("add_event", at=space.now, operation="apps.sessions.end", actor="worker", **event)
        return True

    while rows := run.read(lambda tx: tx.rows("idle_records", **where)):
        for (path,) in rows:
            ended += run.write(lambda tx: end(tx, path))  # noqa: B023 -- run at once
        where["after"] = rows[-1][0]
    return ended


def _sessions_of(app: str) -> dict[str, Any]:
    place = app_records(app)
    return {"dialect": place.dialect, "name": place.name, "after": PREFIX, "until": PREFIX_END}


JOBS = (JobKind(IDLE_JOB, end_idle_sessions),)
