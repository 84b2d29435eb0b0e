"""Read, write and delete the content of memory stores, by user, session or app, with its history (S2.15–S2.27)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from ..core.operation import Example, Request, Response, operation
from ..core.owners import app_records, user_records
from ..core.space import Space
from ..core.time_travel import AsOf
from ..errors import Forbidden, Invalid, NotFound
from ..model.collection import Place
from ..model.fields import Cursor, Limit, SessionId, from_cursor, to_cursor, to_instant
from . import records
from .apps import (
    SESSION_META,
    AppName,
    SessionRequest,
    UserId,
    check_session_owner,
    find_app_session,
    find_session_user,
    get_user,
    in_session_tie,
    open_session,
    read_session_meta,
    session_tie,
    user_tie,
)
from .records import (
    MAX_TOGETHER,
    Contract,
    Edit,
    HistoryLimit,
    IfMatch,
    Mode,
    Projections,
    Record,
    RecordHistory,
    Unset,
    Value,
    describe_version,
    list_history,
    list_tied_page,
    project,
)
from .stores import GIVEN, OF, SESSION, Store, TechnicalName, build_store_contract, require_store, store_tie
from .validation import ValueWarning, error_at, fill_defaults, write_valid

ModeField = Annotated[Mode, Meta(description="`merge` keeps omitted fields, at every depth; `replace` removes them.")]

_USER = {"user_id": "u1"}
_DATA = {"preferences": {"language": "en", "notifications": True}}
_SET = {**OF, **_USER, "data": _DATA}
_WRITTEN = (*GIVEN, ("stores.set_content", _SET))


class Content(Response, frozen=True, kw_only=True):
    """The content of a store for a user, a session or the app; null if there is none."""

    content: dict[str, Any] | None
    version: int | None = None
    etag: str | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    warnings: list[ValueWarning] | None = None


class _OfContent(Request, frozen=True, kw_only=True):
    """The owner of content, as the access mode of the store requires."""

    app: AppName
    user_id: UserId | None = None
    session_id: SessionId | None = None


class GetContent(_OfContent, frozen=True, kw_only=True):
    """Content, or some of its fields."""

    store: TechnicalName
    projections: Projections | None = None
    as_of: AsOf | None = None


@operation(
    "stores.get_content",
    "GET /v1/apps/{app}/stores/{store}/content",
    any_scope=True,
    example=Example({**OF, **_USER, "projections": {"preferences.language": 1}}, _WRITTEN),
)
def get_content(space: Space, request: GetContent) -> Content:
    """Return the content of a store, or some of its fields, with the defaults of its schema. The store `sessionMeta` has the
    metadata of the session."""
    project({}, request.projections)  # reject invalid projections even if there is no content
    if request.store == SESSION_META:
        if request.as_of is not None:
            raise Invalid(f"`{SESSION_META}` has no history: omit `as_of`.", field="as_of")
        session_id = _require_session_id(request, SESSION_META)
        check_session_owner(space, request.app, session_id, request.user_id)
        return Content(content=project(read_session_meta(space, request.app, session_id), request.projections))
    where = locate_content(space, request.store, request)
    found = records.find_record(space, where.place, where.path)
    if found is not None and request.as_of is not None:
        found = records.find_record_at(space, found, to_instant(request.as_of, "as_of") or 0)
    if found is None:
        return Content(content=None)
    return _to_content(found, project(fill_defaults(found.value, where.contract), request.projections))


class SetContent(_OfContent, frozen=True, kw_only=True):
    """Content to write to a store."""

    store: TechnicalName
    data: Value
    mode: ModeField = "merge"
    if_match: IfMatch | None = None
    unset: Unset | None = None


@operation(
    "stores.set_content",
    "PATCH /v1/apps/{app}/stores/{store}/content",
    effect="write",
    any_scope=True,
    example=Example(_SET, GIVEN),
)
def set_content(space: Space, request: SetContent) -> Content:
    """Write to a store. Creates the record if it is missing, and keeps omitted fields. Returns the content with defaults."""
    edit = Edit(request.data, request.mode, request.if_match, request.unset or ())
    return _write(space, request.store, request, edit)


class SetContents(_OfContent, frozen=True, kw_only=True):
    """Content to write to several stores."""

    contents: Annotated[
        dict[str, Value],
        Meta(min_length=1, max_length=MAX_TOGETHER, description="Content by technical names of stores."),
    ]
    mode: ModeField = "merge"


class StoreContents(Response, frozen=True, kw_only=True):
    """Contents by the technical names of their stores."""

    contents: dict[str, Content]


@operation(
    "stores.set_contents",
    "PATCH /v1/apps/{app}/content",
    effect="write",
    any_scope=True,
    example=Example({"app": "shop", **_USER, "contents": {"userPrefs": _DATA}}, GIVEN),
)
def set_contents(space: Space, request: SetContents) -> StoreContents:
    """Write to several stores, all or none."""
    contents = {}
    for name, data in request.contents.items():
        with error_at(f"contents.{name}", store=name):
            contents[name] = _write(space, name, request, Edit(data, request.mode))
    return StoreContents(contents=contents)


class DeleteContent(_OfContent, frozen=True, kw_only=True):
    """Content to delete."""

    store: TechnicalName
    if_match: IfMatch | None = None


class DeletedContent(Response, frozen=True, kw_only=True):
    """`deleted` is false if there was no content; the job erases its bytes."""

    deleted: bool
    job: str | None = None


@operation(
    "stores.delete_content",
    "DELETE /v1/apps/{app}/stores/{store}/content",
    effect="erase",
    any_scope=True,
    example=Example({**OF, **_USER}, _WRITTEN),
)
def delete_content(space: Space, request: DeleteContent) -> DeletedContent:
    """Delete the record of this user, session or app, with its history. Other records of the store stay."""
    return delete_located(space, request)


class ContentHistory(_OfContent, frozen=True, kw_only=True):
    """The content to list the versions of."""

    store: TechnicalName
    limit: HistoryLimit = 20
    cursor: Cursor | None = None


@operation(
    "stores.content_history",
    "GET /v1/apps/{app}/stores/{store}/content/history",
    any_scope=True,
    example=Example({**OF, **_USER}, _WRITTEN),
)
def content_history(space: Space, request: ContentHistory) -> RecordHistory:
    """List the versions of the content of this user, session or app, newest first."""
    if request.store == SESSION_META:
        raise Invalid(f"`{SESSION_META}` has no history.", field="store")
    where = locate_content(space, request.store, request)
    found = records.find_record(space, where.place, where.path)
    if found is None:
        raise NotFound(f"There is no content of {request.store!r} here.")
    return list_history(space, found, request.limit, request.cursor)


class StoreRecord(Response, frozen=True, kw_only=True):
    """A record of a store. It belongs to a user or a session, or to the app if both are null."""

    value: dict[str, Any]
    version: int
    etag: str
    updated_at: datetime
    expires_at: datetime | None = None
    user_id: str | None = None
    session_id: str | None = None


class StoreRecords(Response, frozen=True, kw_only=True):
    """Records of a store."""

    records: list[StoreRecord]
    next_cursor: str | None = None


class ListContents(Request, frozen=True, kw_only=True):
    """The store to list the records of."""

    app: AppName
    store: TechnicalName
    limit: Limit = 50
    cursor: Cursor | None = None


@operation("stores.records", "GET /v1/apps/{app}/stores/{store}/records", role="admin", example=Example(OF, _WRITTEN))
def list_contents(space: Space, request: ListContents) -> StoreRecords:
    """List the records of a store, of all users and sessions, without defaults. A page holds at most 8 MiB."""
    require_store(space, request.app, request.store)
    (after,) = from_cursor("store", request.cursor, 0)
    page, more = list_tied_page(space, store_tie(request.app, request.store), after, request.limit)
    found = []
    for record, collection in page:
        kind, _, name = record.path.partition("@")[2].partition("/")
        user_id, session_id = collection if kind == "app" else None, name if kind == "session" else None
        stored = describe_version(record)
        found.append(StoreRecord(value=record.value, user_id=user_id, session_id=session_id, **stored))
    further = to_cursor("store", page[-1][0].address_id) if more else None
    return StoreRecords(records=found, next_cursor=further)


class Location(NamedTuple):
    """The address of content, and its contract."""

    place: Place
    path: str
    contract: Contract


def locate_content(
    space: Space, name: str, target: _OfContent, store: Store | None = None, *, written: bool = False
) -> Location:
    """Return the address of content by the access mode of its store (S2.24). Content with the retention `session` cannot be
    written in the session of another user. Content of a user can be read in any session. A scoped key may begin a session, but
    reads only those of its user."""
    space.principal.refuse_flow()
    if name == SESSION_META:
        raise Forbidden(f"`{SESSION_META}` is read-only: set its metadata with `apps.sessions.update`.")
    if store is None:
        store = require_store(space, target.app, name).settings
    tie = store_tie(target.app, name)
    match store.access:
        case "user":
            user = target.user_id or find_session_user(space, target.app, target.session_id) or space.principal.user
            space.principal.require_user(user)
            if user is None:
                raise Invalid(f"`user_id` is missing: {name!r} has content for each user.", field="user_id")
            if written and store.retention == SESSION and target.session_id is not None:
                check_session_owner(space, target.app, target.session_id, user)
            return Location(user_records(user), f"{name}@app/{target.app}", _build_contract(store, target, tie))
        case "session":
            session_id = _require_session_id(target, name)
            user = target.user_id or space.principal.user
            known = check_session_owner(space, target.app, session_id, user)
            owner = known or user
            space.principal.require_user(owner if written else known)
            ties = [tie, in_session_tie(target.app, session_id), *([] if owner is None else [user_tie(owner)])]
            path = f"{name}@session/{session_id}"
            return Location(app_records(target.app), path, _build_contract(store, target, *ties))
    space.principal.require_user(None)
    return Location(app_records(target.app), name, _build_contract(store, target, tie))


def delete_located(space: Space, request: DeleteContent, spared: str | None = None) -> DeletedContent:
    """Delete content. `spared` is the run that deletes it: its own data stays."""
    where = locate_content(space, request.store, request)
    job = records.delete_record(space, where.place, where.path, request.if_match, spared=spared)
    return DeletedContent(deleted=job is not None, job=job)


def check_projections(projections: object) -> dict[str, Any] | None:
    """Return valid projections; raise Invalid for others."""
    if projections is None:
        return None
    if not isinstance(projections, Mapping) or not all(isinstance(path, str) for path in projections):
        raise Invalid("`projections` must be an object of field paths, each with the value 1.", field="projections")
    project({}, projections)
    return dict(projections)


def _build_contract(store: Store, target: _OfContent, *ties: str) -> Contract:
    """Return the contract of content. With the retention `session`, content ends with the session that wrote it last (B2.2)."""
    if store.retention != SESSION:
        return build_store_contract(store, *ties, replace_ties=True)
    if target.session_id is None:
        return build_store_contract(store, *ties)._replace(ties=())
    return build_store_contract(store, *ties, session_tie(target.app, target.session_id), replace_ties=True)


def _require_session_id(target: _OfContent, name: str) -> str:
    if target.session_id is None:
        raise Invalid(f"`session_id` is missing: {name!r} has content for each session.", field="session_id")
    return target.session_id


def _write(space: Space, name: str, target: _OfContent, edit: Edit) -> Content:
    place, path, contract = locate_content(space, name, target, written=True)
    if not contract.ties:
        reason = "the content of this store lasts as long as the session"
        raise Invalid(f"`session_id` is missing: {reason}.", field="session_id")
    record, warnings = write_valid(space, place, path, edit, contract)
    session_id = target.session_id
    if session_id is not None and any(tie.startswith(("in/", "session/")) for tie in contract.ties):
        # Begin the session unless it is open, and give it to the user if it has none.
        user = target.user_id or space.principal.user
        found = find_app_session(space, target.app, session_id)
        if found is None or (user is not None and get_user(found) is None):
            open_session(space, target.app, SessionRequest(session_id=session_id, user_id=user))
    return _to_content(record, record.value, warnings)


def _to_content(record: Record, value: Any, warnings: list[ValueWarning] | None = None) -> Content:
    return Content(content=value, warnings=warnings or None, **describe_version(record))
