"""Requests that wait for a run: its end, or what happens next in it. The run has a thread of its own, the waiting none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...dispatch import dispatch
from ...errors import Unavailable
from ...model.principal import Principal
from ...operation import Operation, to_request
from ...registry import find
from ...workflow.run_operations import EventsOfRun, Happened, OfRun, Run
from ...workflow.running import Beginning, left_to_others
from . import replies
from .onlooker import Onlooker, ended
from .time_limit import TimeLimit

if TYPE_CHECKING:
    from .server import Sent, Server

Way = Callable[["Sent", TimeLimit], Awaitable[replies.Reply]]


class RunRequests:
    """How the operations that may wait for a run are carried out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ways: dict[str, Way] = {
            "runs.begin": self._run,
            "runs.begin_document": self._run,
            "runs.repeat": self._run,
            "runs.events": self._events,
        }

    def way(self, operation: Operation) -> Way | None:
        return self._ways.get(operation.name)

    async def _run(self, sent: Sent, limit: TimeLimit) -> replies.Reply:
        """Begin a run, and answer at its end if it is to be waited for."""
        reply, begun = await self._server.in_thread(lambda: self._begin(sent), patient=False)
        if begun is None or begun.live is None:
            return reply
        limit.answer = _goes_on(begun.run_id)
        if not await ended(begun.live, self._server.stopping):
            raise _stopped(begun.run_id)
        return await self._server.in_thread(
            lambda: self._server.answered(sent.operation, lambda: self._shown(sent.principal, begun)), patient=False
        )

    def _begin(self, sent: Sent) -> tuple[replies.Reply, Beginning | None]:
        with left_to_others() as noted:
            reply = self._server.carry_out(sent)
        return reply, noted[0] if noted else None

    def _shown(self, principal: Principal, begun: Beginning) -> Run:
        if begun.error is not None:
            raise begun.error
        asked = OfRun(run=begun.run_id)
        run: Run = self._server.engine.read(principal, lambda space: find("runs.get").run(space, asked))
        return run

    async def _events(self, sent: Sent, limit: TimeLimit) -> replies.Reply:
        """What has happened in a run, as soon as something has."""
        asked, found = await self._server.in_thread(lambda: self._so_far(sent), patient=False)
        if asked.timeout_s and not found.events and not found.over:
            onlooker = Onlooker(self._server, sent.principal, asked.run)
            found = await onlooker.next(asked.after, asked.timeout_s)
        return replies.success(sent.operation, found)

    def _so_far(self, sent: Sent) -> tuple[EventsOfRun, Happened]:
        data = sent.data()
        asked = to_request(sent.operation, data, strict=False)
        assert isinstance(asked, EventsOfRun)  # noqa: S101 -- for the type checker
        data["timeout_s"] = 0
        return asked, dispatch(self._server.engine, sent.principal, sent.operation, data, strict=False)


def _goes_on(run_id: str) -> Unavailable:
    return Unavailable(
        f"The run takes longer than a request may, and goes on. Read it with GET /v1/runs/{run_id}, or look on with "
        f"GET /v1/runs/{run_id}/stream.",
        run=run_id,
    )


def _stopped(run_id: str) -> Unavailable:
    return Unavailable(
        f"The server is being stopped, and the run is interrupted. Repeat it with POST /v1/runs/{run_id}/repeat.",
        run=run_id,
    )
