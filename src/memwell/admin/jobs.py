"""Operations on background jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.operation import Awaited, Example, Request, Response, operation
from ..core.space import Space
from ..errors import Conflict, NotFound
from ..jobs import queue
from ..jobs.queue import StoredJob
from ..model.fields import AnyId, Cursor, Label, Limit, Timeout, cut, from_cursor, to_cursor

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "content": "Where is my order?"}
_SESSION = {"flow": "support", "session": "alice-42"}
_BEFORE = (("flows.append", _TURN), ("flows.end", _SESSION))
_ONE = {"id": "$1.job"}


class Job(Response, frozen=True, kw_only=True):
    """A background job."""

    id: str
    kind: str
    state: str
    attempts: int
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None = None
    error: str | None = None
    result: dict[str, Any] | None = None


class Jobs(Response, frozen=True, kw_only=True):
    """Jobs, the newest first."""

    jobs: list[Job]
    next_cursor: str | None = None


class ListJobs(Request, frozen=True, kw_only=True):
    """Selects a page of jobs."""

    state: Annotated[
        Literal["ready", "running", "done", "dead", "cancelled"] | None,
        Meta(description="Only jobs in this state: `ready`, `running`, `done`, `dead` or `cancelled`."),
    ] = None
    kind: Label | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@operation("jobs.list", "GET /v1/jobs", example=Example({"kind": "consolidate"}, _BEFORE))
def list_jobs(space: Space, request: ListJobs) -> Jobs:
    """List the tenant's background jobs, the newest first."""
    (before,) = from_cursor("jobs", request.cursor, "~")
    rows = space.tx.rows("list_jobs", before=before, state=request.state, kind=request.kind, limit=request.limit + 1)
    page, further = cut(rows, request.limit, lambda row: to_cursor("jobs", row[0]))
    return Jobs(jobs=[to_job(StoredJob(*row)) for row in page], next_cursor=further)


class One(Request, frozen=True, kw_only=True):
    """Selects a job."""

    id: AnyId


@operation("jobs.show", "GET /v1/jobs/{id}", any_scope=True, example=Example(_ONE, _BEFORE))
def show_job(space: Space, request: One) -> Job:
    """Show a job with its result or its error."""
    return _require_job(space, request.id)


class Wait(One, frozen=True, kw_only=True):
    """Selects a job, and the time to wait for it."""

    timeout_s: Timeout = 5.0


@operation(
    "jobs.wait",
    "GET /v1/jobs/{id}/wait",
    any_scope=True,
    awaits=lambda request, job: _await_end(request, job),
    example=Example({"id": "$1.job", "timeout_s": 0}, _BEFORE),
)
def wait(space: Space, request: Wait) -> Job:
    """Wait until a job is finished or the time is up, and return the job."""
    return _require_job(space, request.id)


@operation(
    "jobs.retry",
    "POST /v1/jobs/{id}/retry",
    effect="write",
    role="admin",
    example=Example(_ONE, (*_BEFORE, ("jobs.cancel", _ONE))),
)
def retry_job(space: Space, request: One) -> Job:
    """Queue a dead or cancelled job again."""
    job = _require_job(space, request.id)
    if not space.tx.run("retry_job", id=request.id, now=space.now):
        raise Conflict(f"Only a dead or cancelled job can be retried; this one is {job.state}.")
    space.tx.wake(space.now)
    return _require_job(space, request.id)


@operation("jobs.cancel", "POST /v1/jobs/{id}/cancel", effect="write", role="admin", example=Example(_ONE, _BEFORE))
def cancel_job(space: Space, request: One) -> Job:
    """Cancel a waiting job."""
    job = _require_job(space, request.id)
    if job.kind == "erase":
        raise Conflict("An erasure cannot be cancelled: its data is hidden already.")
    if not space.tx.run("cancel_job", id=request.id, now=space.now):
        raise Conflict(f"Only a waiting job can be cancelled; this one is {job.state}.")
    return _require_job(space, request.id)


def to_job(job: StoredJob) -> Job:
    return Job(
        id=job.id,
        kind=job.kind,
        state=job.state,
        attempts=job.attempts,
        run_at=to_datetime(job.run_at),
        created_at=to_datetime(job.created_at),
        finished_at=optional_datetime(job.finished_at),
        error=job.error,
        result=msgspec.json.decode(job.result) if job.result else None,
    )


def _await_end(request: Wait, job: Job) -> Awaited | None:
    if job.finished_at is not None:
        return None
    return Awaited(request.id, request.timeout_s, _show_awaited)


def _show_awaited(_: Call | None, job: StoredJob | None) -> Job:
    if job is None:
        raise NotFound("There is no such job.")
    return to_job(job)


def _require_job(space: Space, job_id: str) -> Job:
    job = queue.find(space.tx, job_id)
    return _show_awaited(None, job if job is None or _may_see(space, job) else None)


def _may_see(space: Space, job: StoredJob) -> bool:
    """Return True unless a scoped key asks for a job that is neither about its scope nor from an answer to such a key."""
    scope = space.principal.scope
    if scope is None or queue.is_shared(job, scope.digest):
        return True
    row = None if job.address_id is None else space.tx.row("located_address", id=job.address_id)
    return row is not None and row[3:5] == (scope.kind, scope.name)
