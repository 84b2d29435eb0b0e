"""Apps and their sessions. An app owns memory stores, and a workflow or a function answers its messages. Code and prompts read
the data of a session in `sessionMeta` (S2.2–S2.5, S2.28–S2.30, S2.35)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, structs

from ..clock import to_datetime
from ..core import documents
from ..core.catalog import OMITTED, Catalog, Item
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.owners import app_records, user_records
from ..core.space import Space
from ..erasure.erase import EVERY_RUN
from ..errors import Conflict, Invalid, NotFound
from ..ids import new_id
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
    delete_tied,
    find_record,
    iterate_tied,
    list_records_between,
    list_tied_addresses,
    merge,
    write_record,
)

MAX_STORES = 15
MAX_APP_STORES = 200
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
MaxFiles = Annotated[int, Meta(ge=1, le=MOST_FILES, description="The largest number of files of a session.")]

NEW_APP = {"app": "shop", "description": "An online shop"}
GIVEN_APP = (("apps.configure", NEW_APP),)


class App(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an app."""

    description: str | None = None
    workflow: str | None = None
    function: str | None = None
    max_stores: int = MAX_STORES
    max_files: int = MAX_FILES


APPS = Catalog("app", App, clearable=("description", "workflow", "function"))


class AppInfo(Response, frozen=True, kw_only=True):
    """An app. Its messages are answered by `workflow` or `function`."""

    app: str
    stores: int
    max_stores: int
    max_files: int
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    workflow: str | None = None
    function: str | None = None


class Apps(Response, frozen=True, kw_only=True):
    """Apps by name."""

    apps: list[AppInfo]


class ConfigureApp(Request, frozen=True, kw_only=True):
    """Settings of an app. Omitted fields keep their values; null clears a field."""

    app: AppName
    description: Description | None = OMITTED
    workflow: WorkflowField | None = OMITTED
    function: FunctionField | None = OMITTED
    max_stores: MaxStores | None = None
    max_files: MaxFiles | None = None


@operation("apps.configure", "PUT /v1/apps/{app}", effect="write", role="admin", example=Example(NEW_APP))
def configure(space: Space, request: ConfigureApp) -> AppInfo:
    """Create or change an app: the workflow or function that answers messages, and the limits of stores and files."""
    item = require_or_add_app(space, request.app)
    changes = APPS.changes(request)
    for name, other in (("workflow", "function"), ("function", "workflow")):
        if changes.get(name) is not None and other not in changes:  # the new one replaces the other
            changes[other] = None
    app = structs.replace(item.settings, **changes)
    if app.workflow is not None and app.function is not None:
        raise Invalid("Give either `workflow` or `function`, not both.", field="function")
    stores = _count_stores(space, request.app)
    if app.max_stores < stores:
        raise Invalid(f"The app has {stores} stores: `max_stores` cannot be smaller.", field="max_stores")
    if app.workflow is not None and documents.find(space.tx, "workflow", app.workflow) is None:
        raise Invalid(f"There is no workflow {app.workflow!r}: store it first.", field="workflow")
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


def _count_stores(space: Space, app: str) -> int:
    row = space.tx.row("count_documents", kind=f"store:{app}")
    return 0 if row is None else int(row[0])


def _to_app_info(space: Space, item: Item[App]) -> AppInfo:
    return AppInfo(
        app=item.id,
        stores=_count_stores(space, item.id),
        created_at=to_datetime(item.created_at),
        updated_at=to_datetime(item.updated_at),
        **structs.asdict(item.settings),
    )


# Sessions


SESSION_META = "sessionMeta"
PREFIX = f"{SESSION_META}@session/"
_END = f"{SESSION_META}@session0"
"""Sorts after the paths of all sessions."""
TAKEN = "This session belongs to another user: begin another one."

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
_GIVEN = (("apps.sessions.update", _NEW),)
_OF = {"app": "shop", "session_id": "sess_123"}


class SessionMeta(Response, frozen=True, kw_only=True):
    """The content of `sessionMeta`, as code and prompts read it."""

    session_id: str
    metadata: dict[str, Any]
    session_info: dict[str, Any]
    artifacts: list[dict[str, Any]]


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
    "apps.sessions.get", "GET /v1/apps/{app}/sessions/{session_id}", any_scope=True, example=Example(_OF, _GIVEN)
)
def get_session(space: Space, request: OfSession) -> SessionMeta:
    """Return the metadata of a session. It is empty if the session is unknown."""
    return _to_response(request.session_id, read_session_meta(space, request.app, request.session_id))


class ListSessions(Request, frozen=True, kw_only=True):
    """Sessions of an app."""

    app: AppName
    user_id: UserId | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@operation("apps.sessions.list", "GET /v1/apps/{app}/sessions", example=Example({"app": "shop"}, _GIVEN))
def list_sessions(space: Space, request: ListSessions) -> SessionList:
    """List the open sessions of an app, of one user or of all users. A page holds at most 8 MiB."""
    (after,) = from_cursor("app_sessions", request.cursor, PREFIX)
    tie = None if request.user_id is None else user_tie(request.user_id)
    between = max(after, PREFIX), _END
    found, more = list_records_between(space, app_records(request.app), between, request.limit, tie)
    further = to_cursor("app_sessions", found[-1].path) if more else None
    sessions = [
        _to_response(record.path.removeprefix(PREFIX), _build_meta(space, record.value, record.address_id))
        for record in found
    ]
    return SessionList(sessions=sessions, next_cursor=further)


class EndedSession(Response, frozen=True, kw_only=True):
    """An ended session, the number of records deleted with it, and the job that erases their bytes."""

    session_id: str
    records: int
    job: str | None = None


@operation(
    "apps.sessions.end", "POST /v1/apps/{app}/sessions/{session_id}/end", effect="erase", example=Example(_OF, _GIVEN)
)
def end_session(space: Space, request: OfSession) -> EndedSession:
    """End a session. This deletes its metadata, its records with the retention `session`, and the working memory of its thread.
    Ending it again changes nothing."""
    of_session = session_tie(request.app, request.session_id)
    of_thread = f"thread/{to_thread(request.app, request.session_id)}"
    job, count = delete_tied(space, of_session, of_thread, spared=EVERY_RUN)
    return EndedSession(session_id=request.session_id, records=count, job=job)


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
    session_id = opening.session_id or _find_by_reference(space, app, opening.session_reference) or new_id()
    check_identifier(session_id, "session_id")
    old = find_app_session(space, app, session_id)
    info = {} if old is None else dict(old.value["sessionInfo"])
    if _find_by_reference(space, app, opening.session_reference) not in (None, session_id):
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
    """Return the content of `sessionMeta`, with all fields."""
    found = find_app_session(space, app, session_id)
    if found is None:
        space.principal.require_user(space.principal.user)
        return _build_meta(space, {"metadata": {}, "sessionInfo": {"sessionId": session_id, "appId": app}})
    space.principal.require_user(get_user(found))
    return _build_meta(space, found.value, found.address_id)


def session_tie(app: str, session_id: str) -> str:
    return f"session/{app}/{session_id}"


def to_thread(app: str, session_id: str) -> str:
    """Return the id of a session's thread, for working memory of that scope."""
    return f"{app}/{session_id}"


def in_session_tie(app: str, session_id: str) -> str:
    """Return the tie of everything that was written in a session, whatever its lifetime."""
    return f"in/{app}/{session_id}"


def user_tie(user_id: str) -> str:
    return f"user/{user_id}"


_INFO = ("sessionId", "appId", "sessionReference", "userReference", "userId", "runId", "timestamp")


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
            "state": file.state,
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
    if given is None or isinstance(given, bool) or given == "":
        return None
    if isinstance(given, int):
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


def _find_by_reference(space: Space, app: str, reference: str | None) -> str | None:
    if reference is None:
        return None
    found = next(iterate_tied(space, _reference_tie(app, reference)), None)
    return None if found is None else found[0].path.removeprefix(PREFIX)


def _reference_tie(app: str, reference: str) -> str:
    return f"reference/{app}/{reference}"


def _to_response(session_id: str, meta: Mapping[str, Any]) -> SessionMeta:
    metadata, info, artifacts = meta["metadata"], meta["sessionInfo"], meta["artifacts"]
    return SessionMeta(session_id=session_id, metadata=metadata, session_info=info, artifacts=artifacts)
