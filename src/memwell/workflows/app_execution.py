"""Executing an app: a message, in a session, answered by the app's workflow or function (S2.29)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid
from ..model import check
from ..model.fields import SessionId
from ..records.app_sessions import Reference, SessionMetadata, SessionRequest, UserId, open_session
from ..records.apps import App, AppName, require_app
from . import store
from .document import Runnable, parse
from .operations import decoded, find
from .run_operations import MAX_INPUT, Wait
from .runs import runs_of
from .store import Asked, Begun

_ECHO: dict[str, Any] = {"name": "echo", "steps": [{"step_type": "display_result"}]}
_GIVEN = (
    ("workflows.create", {"document": _ECHO}),
    ("apps.configure", {"app": "shop", "workflow": "$0.id"}),
)
Message = Annotated[str, Meta(max_length=MAX_INPUT, description="What is said to the app.")]


class Execute(Request, frozen=True, kw_only=True):
    """A message to an app. Without a `session_id` or a `session_reference` a session begins."""

    app: AppName
    message: Message
    session_id: SessionId | None = None
    metadata: SessionMetadata | None = None
    user_id: UserId | None = None
    user_reference: Reference | None = None
    session_reference: Reference | None = None
    wait: Wait = True


class Executed(Response, frozen=True, kw_only=True):
    """What came of a message: `done` with an output, `failed` with an error, or still `running`."""

    session_id: str
    run_id: str
    status: str
    output: str | None = None
    error: str | None = None


@operation(
    "apps.execute",
    "POST /v1/apps/{app}/execute",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    status=201,
    example=Example(
        {"app": "shop", "message": "Hello", "session_id": "sess_123", "metadata": {"userId": "user_456"}}, _GIVEN
    ),
)
def execute(call: Call, request: Execute) -> Executed:
    """Send a message to an app: its workflow or function answers, with the metadata in the session's `sessionMeta`."""
    message = check.content(request.message, may_be_empty=True, field="message")
    app = call.read(lambda space: require_app(space, request.app).settings)
    document, workflow_id, version = call.read(lambda space: _answers(space, request.app, app))
    run_id = store.new_run_id()
    opening = SessionRequest(
        request.session_id,
        request.session_reference,
        request.user_id,
        request.user_reference,
        request.metadata,
        run_id=run_id,
    )
    opened = call.write(lambda space: open_session(space, request.app, opening))
    asked = Asked(
        input=message,
        metadata=opened.meta["metadata"],
        owner=opened.user_id,
        thread=opened.session_id,
        app=request.app,
        document=None if workflow_id else _by_function(request.app, app),
    )
    begun = Begun(document.name, asked, workflow_id, version, new_id=run_id, knows=(opened.address_id,))
    runs = runs_of(call.engine)
    if request.wait:
        runs.run(call, document, begun)
    else:
        runs.start(call, document, begun)
    return call.read(lambda space: _told(space, opened.session_id, run_id))


def _answers(space: Space, name: str, app: App) -> tuple[Runnable, str | None, int | None]:
    if app.workflow is not None:
        found = find(space, app.workflow, None)
        return parse(decoded(found.body)), found.id, found.version
    return parse(_by_function(name, app)), None, None


def _by_function(name: str, app: App) -> dict[str, Any]:
    """A workflow of one step, for an app that is answered by a function."""
    if not app.function:
        raise Invalid(
            f"Nothing answers for the app {name!r}: give it a `workflow` or a `function` by `apps.configure`."
        )
    return {
        "name": name,
        "steps": [{"step_type": "function", "function": app.function}, {"step_type": "display_result"}],
    }


def _told(space: Space, session_id: str, run_id: str) -> Executed:
    row = store.find(space.tx, run_id)
    if row is None:
        return Executed(session_id=session_id, run_id=run_id, status="erased")
    state = store.state_of(row, space.now)
    return Executed(session_id=session_id, run_id=run_id, status=state, output=row.output, error=row.error)
