"""Apps and their sessions. An app owns memory stores, and a workflow or a function answers its messages. Code and prompts read
the data of a session in `sessionMeta` (S2.2–S2.5, S2.28–S2.30, S2.35)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, structs

from .. import typed
from ..clock import SECOND, to_datetime
from ..core import documents
from ..core.catalog import Catalog, Item, to_response
from ..core.dispatch import Call
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.owners import app_records, user_records
from ..core.settings import Clearable, response, update_request
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound
from ..ids import new_id
from ..jobs import queue
from ..model.collection import join_parts
from ..model.field_readers import lifetime_limits
from ..model.fields import (
    ID_PATTERN,
    MAX_ID,
    Cursor,
    Limit,
    SessionId,
    check_identifier,
    from_cursor,
    id_limits,
    to_cursor,
    to_json,
)
from .file_rows import MAX_FILES, MOST_FILES, list_session_files
from .records import (
    Contract,
    Description,
    Edit,
    Mode,
    Record,
    add_anchor,
    find_record,
    iterate_tied,
    list_records_between,
    list_tied_addresses,
    merge,
    write_record,
)
from .validation import error_at

MAX_STORES = 15
MAX_APP_STORES = 200
MAX_IDLE = 365 * 86_400
IDLE_JOB = "idle"
"""The job that ends idle sessions."""
APP_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)"

AppName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=APP_PATTERN,
        description="The app: 1 to 100 letters, digits or '_.-', beginning with a letter or digit.",
    ),
]
WorkflowField = Annotated[str, id_limits(64, "The id of the stored workflow that answers messages; null removes it.")]
FunctionField = Annotated[
    str, id_limits(200, "The name of the registered Python function that answers messages; null removes it.")
]
MaxStores = Annotated[int, Meta(ge=1, le=MAX_APP_STORES, description="The largest number of stores of the app.")]
IdleTime = Annotated[
    int,
    lifetime_limits(
        "second", MAX_IDLE, "Time without a message after which a session ends.", "sessions end only by a call"
    ),
]
EndConversations = Annotated[
    bool,
    Meta(description="End the conversations of sessions that end, and make facts of them; by default they are kept."),
]
MaxFiles = Annotated[int, Meta(ge=1, le=MOST_FILES, description="The largest number of files of a session.")]

NEW_APP = {"app": "shop", "description": "An online shop"}
GIVEN_APP = (("apps.configure", NEW_APP),)


class App(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an app."""

    description: Clearable[Description] = None
    workflow: Clearable[WorkflowField] = None
    function: Clearable[FunctionField] = None
    max_stores: MaxStores = MAX_STORES
    max_files: MaxFiles = MAX_FILES
    idle_seconds: Clearable[IdleTime] = None
    end_conversations: EndConversations = False

    @property
    def idle_us(self) -> int | None:
        return None if not self.idle_seconds else self.idle_seconds * SECOND


APPS = Catalog("app", App)


@response(App, after="stores")
class AppInfo(App, Response, frozen=True, kw_only=True):
    """An app. Its messages are answered by `workflow` or `function`."""

    app: str
    stores: int
    created_at: datetime
    updated_at: datetime


class Apps(Response, frozen=True, kw_only=True):
    """Apps by name."""

    apps: list[AppInfo]


@update_request(App, after="app")
class ConfigureApp(App, Request, frozen=True, kw_only=True):
    """Settings of an app. Omitted fields keep their values; null clears a field."""

    app: AppName


@operation("apps.configure", "PUT /v1/apps/{app}", effect="write", role="admin", outside=True, example=Example(NEW_APP))
def configure(call: Call, request: ConfigureApp) -> AppInfo:
    """Create or change an app: the workflow or function that answers messages, and the limits of stores and files."""
    changes = APPS.changes(request)
    if changes.get("workflow") is not None and changes.get("function") is not None:
        raise Invalid("Give either `workflow` or `function`, not both.", field="function")
    check_function(call, changes.get("function"))
    return call.write(configure_app, request)


def check_function(call: Call, name: str | None) -> None:
    """Reject a function that this process has not registered, because messages to its app would fail."""
    if name is not None:
        with error_at("function", field="function"):
            call.engine.function(name)


def configure_app(space: Space, request: ConfigureApp) -> AppInfo:
    item = require_or_add_app(space, request.app)
    changes = APPS.changes(request)
    for name, other in (("workflow", "function"), ("function", "workflow")):
        if changes.get(name) is not None and other not in changes:  # the new one replaces the other
            changes[other] = None
    app = structs.replace(item.settings, **changes)
    stores = documents.count(space.tx, f"store:{request.app}")
    if app.max_stores < stores:
        raise Invalid(f"The app has {stores} stores: `max_stores` cannot be smaller.", field="max_stores")
    if app.workflow is not None and documents.find(space.tx, "workflow", app.workflow) is None:
        raise Invalid(f"There is no workflow {app.workflow!r}: store it first.", field="workflow")
    if app.idle_us and app.idle_us != item.settings.idle_us:
        queue.ensure_slot(space.tx, IDLE_JOB, space.now, space.now)
    return _to_app_info(space, APPS.update(space, item, app))


@operation("apps.list", "GET /v1/apps", example=Example({}, GIVEN_APP))
def list_apps(space: Space, request: NoFields) -> Apps:
    """List the apps by name."""
    return Apps(apps=[_to_app_info(space, item) for item in APPS.list(space)])


class OfApp(Request, frozen=True, kw_only=True):
    """An app."""

    app: AppName


@operation("apps.get", "GET /v1/apps/{app}", example=Example({"app": "shop"}, GIVEN_APP))
def get_app(space: Space, request: OfApp) -> AppInfo:
    """Return an app."""
    return _to_app_info(space, require_app(space, request.app))


def require_app(space: Space, name: str) -> Item[App]:
    found = APPS.find(space, name)
    if found is None:
        raise NotFound(f"There is no app {name!r}.")
    return found


def find_app_settings(space: Space, name: str) -> App:
    """Return the settings of an app, or the defaults if there is no such app."""
    found = APPS.find(space, name)
    return App() if found is None else found.settings


def require_or_add_app(space: Space, name: str) -> Item[App]:
    return APPS.find(space, name) or APPS.add(space, App(), name=name, item_id=name)


def _to_app_info(space: Space, item: Item[App]) -> AppInfo:
    return to_response(AppInfo, item, app=item.id, stores=documents.count(space.tx, f"store:{item.id}"))


# Sessions


SESSION_META = "sessionMeta"
PREFIX = f"{SESSION_META}@session/"
PREFIX_END = f"{SESSION_META}@session0"
"""Sorts after the paths of all sessions."""
_KEPT = re.compile("(?:owner|app)=")
TAKEN = "This session, or what remains of it, belongs to another user: begin another one."

UserId = Annotated[str, id_limits(MAX_ID, "The user that the content or the session belongs to.")]
Reference = Annotated[str, id_limits(MAX_ID, "Your own name for it, by which it can be found.")]
SessionMetadata = Annotated[
    dict[str, Any],
    Meta(
        description="The session's metadata, of at most 64 KiB and 16 levels; code and prompts see it in `sessionMeta`."
    ),
]
ModeField = Annotated[Mode, Meta(description="`merge` keeps omitted metadata; `replace` removes it.")]

_NEW = {"app": "shop", "session_id": "sess_123", "metadata": {"userId": "user_456", "channel": "mobile_app"}}
SESSION_GIVEN = (("apps.sessions.update", _NEW),)
OF_SESSION = {"app": "shop", "session_id": "sess_123"}


class AppSessionInfo(Response, frozen=True, kw_only=True):
    """A session: its app, its user, its last run and the time of its last change."""

    session_id: str
    app_id: str
    session_reference: str | None = None
    user_reference: str | None = None
    user_id: str | None = None
    run_id: str | None = None
    timestamp: datetime | None = None


class Artifact(Response, frozen=True, kw_only=True):
    """A file of a session."""

    file_id: str
    type: str
    filename: str
    mimetype: str
    is_active: bool
    size: int
    state: str
    download_url: str | None = None


class SessionMeta(Response, frozen=True, kw_only=True):
    """The content of `sessionMeta`, in the names of this API."""

    session_id: str
    metadata: dict[str, Any]
    session_info: AppSessionInfo
    artifacts: list[Artifact]


class SessionList(Response, frozen=True, kw_only=True):
    """Open sessions, by id."""

    sessions: list[SessionMeta]
    next_cursor: str | None = None


class UpdateSession(Request, frozen=True, kw_only=True):
    """Metadata of a session."""

    app: AppName
    session_id: SessionId
    metadata: SessionMetadata | None = None
    mode: ModeField = "merge"
    user_id: UserId | None = None
    user_reference: Reference | None = None
    session_reference: Reference | None = None


@operation("apps.sessions.update", "PATCH /v1/apps/{app}/sessions/{session_id}", effect="write", example=Example(_NEW))
def update_session(space: Space, request: UpdateSession) -> SessionMeta:
    """Set the metadata of a session, and begin it if it is new. Only this operation and `apps.execute` set it."""
    require_or_add_app(space, request.app)
    fields = ("session_id", "session_reference", "user_id", "user_reference", "metadata", "mode")
    opening = SessionRequest(**{name: getattr(request, name) for name in fields})
    opened = open_session(space, request.app, opening)
    return _to_response(opened.session_id, opened.meta)


class OfSession(Request, frozen=True, kw_only=True):
    """A session."""

    app: AppName
    session_id: SessionId


@operation(
    "apps.sessions.get",
    "GET /v1/apps/{app}/sessions/{session_id}",
    any_scope=True,
    example=Example(OF_SESSION, SESSION_GIVEN),
)
def get_session(space: Space, request: OfSession) -> SessionMeta:
    """Return the metadata of a session. It is empty if the session is unknown; a key with the scope of a user is refused then."""
    return _to_response(request.session_id, read_session_meta(space, request.app, request.session_id))


class ListSessions(Request, frozen=True, kw_only=True):
    """Sessions of an app."""

    app: AppName
    user_id: UserId | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@operation("apps.sessions.list", "GET /v1/apps/{app}/sessions", example=Example({"app": "shop"}, SESSION_GIVEN))
def list_sessions(space: Space, request: ListSessions) -> SessionList:
    """List the open sessions of an app, of one user or of all users. A page holds at most 8 MiB."""
    (after,) = from_cursor("app_sessions", request.cursor, PREFIX)
    tie = None if request.user_id is None else user_tie(request.user_id)
    between = max(after, PREFIX), PREFIX_END
    found, more = list_records_between(space, app_records(request.app), between, request.limit, tie)
    further = to_cursor("app_sessions", found[-1].path) if more else None
    sessions = [
        _to_response(record.path.removeprefix(PREFIX), _build_meta(space, record.value, record.address_id))
        for record in found
    ]
    return SessionList(sessions=sessions, next_cursor=further)


class SessionRequest(NamedTuple):
    """The fields of a request that identify or describe its session."""

    session_id: str | None = None
    session_reference: str | None = None
    user_id: str | None = None
    user_reference: str | None = None
    metadata: Mapping[str, Any] | None = None
    mode: Mode = "merge"
    run_id: str | None = None


class OpenSession(NamedTuple):
    """The session of a request."""

    session_id: str
    user_id: str | None
    meta: dict[str, Any]
    address_id: int


def open_session(space: Space, app: str, opening: SessionRequest) -> OpenSession:
    """Begin or continue a session. It is found by its id, else by its reference. Without either, it is new (B2.11)."""
    to_json(opening.metadata)
    session_id = opening.session_id or find_by_reference(space, app, opening.session_reference) or new_id()
    check_identifier(session_id, "session_id")
    old = find_app_session(space, app, session_id)
    info = {} if old is None else dict(old.value["sessionInfo"])
    if find_by_reference(space, app, opening.session_reference) not in (None, session_id):
        opening = opening._replace(
            session_reference=None
        )  # the id takes precedence: the reference is that of another session
    owner = require_session_owner(space, app, session_id, old)
    reference = opening.user_reference
    names = (opening.session_id, opening.user_id, reference, _find_user_in_metadata(opening.metadata), owner)
    if all(name is None for name in names):
        reference = opening.session_reference  # the only field that can identify the user (B2.11)
    user_id = _resolve_user(opening._replace(user_reference=reference), owner, info.get("userReference"))
    space.principal.require_user(user_id)
    updates = {"sessionReference": opening.session_reference, "userReference": reference, "userId": user_id}
    updates["runId"] = opening.run_id
    info |= {name: value for name, value in updates.items() if value is not None}
    now = to_datetime(space.now).isoformat().replace("+00:00", "Z")
    info |= {"sessionId": session_id, "appId": app, "timestamp": now}
    replaced = opening.mode == "replace" and opening.metadata is not None
    metadata: dict[str, Any] = {} if old is None or replaced else old.value["metadata"]
    if opening.metadata:
        metadata = merge(metadata, dict(opening.metadata))
        to_json(metadata)  # the merged metadata must stay within the limits of a request
    value = {"metadata": metadata, "sessionInfo": info}
    ties = [session_tie(app, session_id)]
    ties += [] if user_id is None else [user_tie(user_id)]
    ties += [] if info.get("sessionReference") is None else [_reference_tie(app, info["sessionReference"])]
    contract = Contract(ties=tuple(ties), replace_ties=True, history=False)
    record = write_record(space, app_records(app), PREFIX + session_id, Edit(value, "replace"), contract)
    if idle_us := find_app_settings(space, app).idle_us:
        queue.ensure_slot(space.tx, IDLE_JOB, space.now + idle_us, space.now)
    if user_id is not None and get_user(old) is None:
        _tie_to_user(space, app, session_id, user_id)
    return OpenSession(session_id, user_id, _build_meta(space, value, record.address_id), record.address_id)


def find_app_session(space: Space, app: str, session_id: str) -> Record | None:
    return find_record(space, app_records(app), PREFIX + session_id)


def get_user(session: Record | None) -> str | None:
    """Return the user of a session, or None if the session or its user is unknown."""
    return None if session is None else session.value["sessionInfo"].get("userId")


def find_session_user(space: Space, app: str, session_id: str | None) -> str | None:
    """Return the user of a session, or None if the session or its user is unknown."""
    return None if session_id is None else get_user(find_app_session(space, app, session_id))


def require_session_owner(space: Space, app: str, session_id: str, found: Record | None) -> str | None:
    """Return the user of a session, or of the records that remain of an ended one. A scoped key may begin a session, but an
    existing session must belong to its user. Otherwise the key could take over a session without a user."""
    owner = get_user(found)
    rest = () if owner else list_tied_addresses(space, in_session_tie(app, session_id))
    for address_id, _, _ in rest:  # only the same user may continue an ended session
        ties = space.tx.rows("user_ties", address_id=address_id)
        if ties:
            owner = str(ties[0][0]).removeprefix(user_tie(""))
            break
    if space.principal.scope is not None and (owner or found or rest):
        space.principal.require_user(owner)
    return owner


def check_session_owner(space: Space, app: str, session_id: str, user: str | None) -> str | None:
    """Return the user of a session. Raise Conflict if a request names another user."""
    owner = require_session_owner(space, app, session_id, find_app_session(space, app, session_id))
    if owner is not None and user not in (None, owner):
        raise Conflict(TAKEN)
    return owner


def read_session_meta(space: Space, app: str, session_id: str) -> dict[str, Any]:
    """Return the content of `sessionMeta`, with all fields. To a scoped key, unknown sessions are like those of others."""
    found = find_app_session(space, app, session_id)
    owner = get_user(found) if found is not None else require_session_owner(space, app, session_id, None)
    space.principal.require_user(owner)
    if found is None:
        info = {"sessionId": session_id, "appId": app, "userId": owner}
        return _build_meta(space, {"metadata": {}, "sessionInfo": info})
    return _build_meta(space, found.value, found.address_id)


def session_tie(app: str, session_id: str) -> str:
    return f"session/{app}/{session_id}"


def to_thread(app: str, session_id: str) -> str:
    """Return the id of a session's thread, for working memory of that scope."""
    return join_parts(app=app, session=session_id)


def to_conversation(app: str | None, owner: str | None, thread: str) -> str:
    """Return the session or key of the conversation of an owner's thread, or of an app's session. No two of them share one."""
    if app is not None:
        return join_parts(owner=owner, app=app, session=thread)
    return thread if owner is None else join_parts(owner=owner, thread=thread)


def is_kept(thread: str) -> bool:
    """Return True for a name that is kept for the conversation of an owner or an app."""
    return _KEPT.match(thread) is not None


def check_thread(thread: str, field: str = "thread") -> str:
    """Refuse a name that is kept for the conversation of an owner or an app."""
    if is_kept(thread):
        raise Invalid(
            f"`{field}` cannot be {thread[:50]!r}: such a name is kept for the conversation of an owner or of an app's session. "
            "Choose another name.",
            field=field,
        )
    return check_identifier(thread, field)


def thread_tie(thread: str) -> str:
    return f"thread/{thread}"


def in_session_tie(app: str, session_id: str) -> str:
    """Return the tie of everything that was written in a session, whatever its lifetime."""
    return f"in/{app}/{session_id}"


def user_tie(user_id: str) -> str:
    return f"user/{user_id}"


_INFO = ("sessionId", "appId", "sessionReference", "userReference", "userId", "runId", "timestamp")


ARTIFACT = ("fileId", "type", "filename", "mimetype", "isActive", "downloadUrl", "size", "state")
"""The fields of a file in `sessionMeta.artifacts`."""


def _build_meta(space: Space, value: Mapping[str, Any], address_id: int | None = None) -> dict[str, Any]:
    """Return the content of `sessionMeta`. Files are in the order of their upload, each with a new link (B2.7)."""
    info = {name: value["sessionInfo"].get(name) for name in _INFO}
    artifacts = [
        {
            "fileId": file.id,
            "type": "file",
            "filename": file.filename,
            "mimetype": file.mimetype,
            "isActive": bool(file.active),
            "downloadUrl": space.link(file.id, file.digest),
            "size": file.size,
            "state": file.shown_state,
        }
        for file in ([] if address_id is None else list_session_files(space, address_id))
    ]
    return {"metadata": value["metadata"], "sessionInfo": info, "artifacts": artifacts}


def _resolve_user(opening: SessionRequest, owner: str | None, reference: str | None) -> str | None:
    """Return the user of a session: by `user_id`, else by the metadata, else by the reference. A known user never changes."""
    claims = {claim for claim in (opening.user_id, _find_user_in_metadata(opening.metadata)) if claim is not None}
    if len(claims) > 1:
        raise Invalid(
            "`user_id` and `metadata.userId` name different users, but a session belongs to one user.", field="metadata"
        )
    if owner is not None and not claims <= {owner}:
        raise Conflict(TAKEN)
    another = opening.user_reference not in (None, owner, reference)
    if owner is not None and another and (reference is not None or not claims):  # else `user_id` identifies the user
        raise Conflict(TAKEN)
    user_id = owner or next((claim for claim in [*claims, opening.user_reference] if claim is not None), None)
    return None if user_id is None else check_identifier(user_id, "user_id")


def _find_user_in_metadata(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the user id in the metadata, if it has one."""
    given = (metadata or {}).get("userId")
    if given is None or given == "":
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not isinstance(given, str) or len(given) > MAX_ID or not re.fullmatch(ID_PATTERN, given):
        raise Invalid("`metadata.userId` is not a valid user id.", field="metadata")
    return given


def _tie_to_user(space: Space, app: str, session_id: str, user_id: str) -> None:
    """Tie the records of a session to its user, when the user becomes known."""
    heir = add_anchor(space, user_records(user_id))
    for tie in (session_tie(app, session_id), in_session_tie(app, session_id)):
        for address_id, _, _ in list_tied_addresses(space, tie):
            space.tx.send("add_tie", tie=user_tie(user_id), address_id=address_id)
            for (run_id,) in space.tx.rows("runs_of_address", address_id=address_id):
                space.tx.send("touch_run", address_id=heir, run_id=run_id)


def find_by_reference(space: Space, app: str, reference: str | None) -> str | None:
    if reference is None:
        return None
    found = next(iterate_tied(space, _reference_tie(app, reference)), None)
    return None if found is None else found[0].path.removeprefix(PREFIX)


def _reference_tie(app: str, reference: str) -> str:
    return f"reference/{app}/{reference}"


def _to_response(session_id: str, meta: Mapping[str, Any]) -> SessionMeta:
    return SessionMeta(
        session_id=session_id,
        metadata=meta["metadata"],
        session_info=typed.convert(_to_snake_case(meta["sessionInfo"]), AppSessionInfo),
        artifacts=[typed.convert(_to_snake_case(one), Artifact) for one in meta["artifacts"]],
    )


def _to_snake_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the fields of `sessionMeta` to names of this API, such as `isActive` to `is_active`."""
    return {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in fields.items()}
