"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from .. import sdk
from .transport import Transport
from .values import Handle, Receipt, omit_none, to_receipt, to_unavailable

_Jobs: TypeAlias = "list[sdk.Job]"  # `list` is a method there


class Jobs(Handle):
    """Background work."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, state: str | None = None, kind: str | None = None) -> _Jobs:
        """List the jobs, the newest first."""
        data = omit_none(state=state, kind=kind)
        return [job for job in pages(self._transport, "jobs.list", "jobs", data)]

    def show(self, job_id: str) -> sdk.Job:
        """Return one job."""
        return self._transport.call("jobs.show", {"id": job_id})

    def wait(self, job_id: str, *, timeout_s: float = 60.0) -> sdk.Job:
        """Wait until a job is finished."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            data = {"id": job_id, "timeout_s": max(min(left, 5.0), 0.0)}
            job: sdk.Job = self._transport.call("jobs.wait", data)
            if job.state in ("done", "dead", "cancelled"):
                return job
            if left <= 0:
                raise to_unavailable(job)

    def retry(self, job_id: str) -> sdk.Job:
        """Put a dead or cancelled job back into the queue."""
        return self._transport.call("jobs.retry", {"id": job_id})

    def cancel(self, job_id: str) -> sdk.Job:
        """Cancel a waiting job."""
        return self._transport.call("jobs.cancel", {"id": job_id})


def pages(transport: Transport, operation: str, field: str, data: dict[str, Any]) -> Iterator[Any]:
    """Yield all items of a paged operation."""
    while True:
        page = transport.call(operation, data)
        for item in getattr(page, field):
            yield item
        if page.next_cursor is None:
            return
        data = {**data, "cursor": page.next_cursor}


def erase(transport: Transport, operation: str, data: Mapping[str, Any], timeout_s: float) -> Receipt:
    erasure: sdk.Erasure = transport.call(operation, dict(data))
    if erasure.residual is not None:
        kept, remains = erasure.kept or [], erasure.remains or []
        return Receipt(erasure.job, erasure.sessions, erasure.layers or {}, erasure.residual, kept, remains)
    return to_receipt(erasure, Jobs(transport).wait(erasure.job, timeout_s=timeout_s))
