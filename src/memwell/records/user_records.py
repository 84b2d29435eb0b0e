"""Records about a user, by name. If a global definition has the name as its slug, it is the contract of the record."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..clock import SECOND, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import user_records
from ..core.space import Space
from ..core.time_travel import AsOf
from ..errors import Invalid, NotFound
from ..model.field_readers import lifetime_limits
from ..model.fields import WORD, Cursor, Limit, User, from_cursor, name_limits, to_cursor, to_instant
from . import records
from .definitions import (
    DEFINITIONS,
    MAX_TTL,
    build_definition_contract,
    build_lasting_contract,
    find_definition_by_slug,
)
from .records import (
    MAX_BYTES,
    MAX_TOGETHER,
    NO_CONTRACT,
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
    list_named,
    project,
)
from .validation import MAX_NAME, ValueWarning, error_at, fill_defaults, write_valid

RecordName = Annotated[str, name_limits(WORD.pattern, MAX_NAME, "The record's name: letters, digits and underscores.")]
ModeField = Annotated[Mode, Meta(description="`replace` sets the value; `merge` keeps omitted fields, at every depth.")]
TtlField = Annotated[
    int,
    lifetime_limits(
        "second",
        MAX_TTL,
        "Lifetime from this write; omit it to keep the old one, or that of the definition, which is never exceeded.",
    ),
]

_SET = {"user": "alice", "record": "profile", "value": {"language": "pt", "seat": {"row": 12}}}
_GIVEN = (("users.set_record", _SET),)
_OF = {"user": "alice", "record": "profile"}


class UserRecord(Response, frozen=True, kw_only=True):
    """A record, with its version."""

    name: str
    value: dict[str, Any]
    version: int
    etag: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    warnings: list[ValueWarning] | None = None


class UserRecords(Response, frozen=True, kw_only=True):
    """Records by name."""

    records: list[UserRecord]
    next_cursor: str | None = None


class ListRecords(Request, frozen=True, kw_only=True):
    """The user to list the records of."""

    user: User
    limit: Limit = 100
    cursor: Cursor | None = None


@operation("users.records", "GET /v1/users/{user}/records", owner="user", example=Example({"user": "alice"}, _GIVEN))
def list_records(space: Space, request: ListRecords) -> UserRecords:
    """List the records about a user, by name."""
    (after,) = from_cursor("records", request.cursor, "")
    page, more = list_named(space, user_records(request.user), after, request.limit)
    found: list[UserRecord] = []
    room = MAX_BYTES
    for record in page:
        value = fill_defaults(record.value, find_contract(space, record.path))
        room -= len(msgspec.json.encode(value))
        if found and room < 0:  # with defaults, the page may be too large for a response
            more = True
            break
        found.append(_to_response(record, value))
    return UserRecords(records=found, next_cursor=to_cursor("records", found[-1].name) if more else None)


class GetRecord(Request, frozen=True, kw_only=True):
    """A record, or some of its fields."""

    user: User
    record: RecordName
    projections: Projections | None = None
    as_of: AsOf | None = None


@operation(
    "users.record", "GET /v1/users/{user}/records/{record}", owner="user", example=Example(_OF, _GIVEN), sole=True
)
def get_record(space: Space, request: GetRecord) -> UserRecord:
    """Return a record about a user, as it is now or was at an earlier time."""
    if request.projections:
        project({}, request.projections)  # reject invalid projections even if there is no record
    found = records.find_record_with_definition(space, user_records(request.user), request.record)
    if found is None:
        raise _not_found(request.record)
    record, definition_id, body = found
    if request.as_of is not None:
        earlier = records.find_record_at(space, record, to_instant(request.as_of, "as_of") or 0)
        if earlier is None:
            raise NotFound("There was no such record at that time, or its history does not reach back so far.")
        record = earlier
    value = record.value
    if definition_id is not None and body is not None:
        definition = DEFINITIONS.decode(body)
        if definition.scope == "global":
            value = fill_defaults(value, build_definition_contract(definition_id, definition))
    return _to_response(record, project(value, request.projections))


class SetRecord(Request, frozen=True, kw_only=True):
    """A value for a record."""

    user: User
    record: RecordName
    value: Value
    mode: ModeField = "replace"
    ttl_s: TtlField | UnsetType | None = UNSET
    if_match: IfMatch | None = None
    unset: Unset | None = None


@operation(
    "users.set_record", "PUT /v1/users/{user}/records/{record}", effect="write", owner="user", example=Example(_SET)
)
def set_record(space: Space, request: SetRecord) -> UserRecord:
    """Set a record about a user, or merge into it. A value that does not fit the schema is rejected, and the old value stays."""
    edit = Edit(request.value, request.mode, request.if_match, request.unset or ())
    return _write(space, request.user, request.record, edit, request.ttl_s)


class SetRecords(Request, frozen=True, kw_only=True):
    """Values for several records."""

    user: User
    records: Annotated[
        dict[str, Value], Meta(min_length=1, max_length=MAX_TOGETHER, description="Values by their names.")
    ]
    mode: ModeField = "replace"
    ttl_s: TtlField | UnsetType | None = UNSET


@operation(
    "users.set_records",
    "PUT /v1/users/{user}/records",
    effect="write",
    owner="user",
    example=Example({"user": "alice", "records": {"profile": {"language": "pt"}, "diet": {"vegan": True}}}),
)
def set_records(space: Space, request: SetRecords) -> UserRecords:
    """Set several records about a user, all or none."""
    for name in request.records:
        if len(name) > MAX_NAME or not WORD.search(name):
            reason = f"{name[:100]!r} cannot name a record: use letters, digits and underscores."
            raise Invalid(reason, field=f"records.{name[:100]}")
    written = []
    for name, value in request.records.items():
        with error_at(f"records.{name}", record=name):
            written.append(_write(space, request.user, name, Edit(value, request.mode), request.ttl_s))
    return UserRecords(records=written)


class DeleteRecord(Request, frozen=True, kw_only=True):
    """A record to delete."""

    user: User
    record: RecordName
    if_match: IfMatch | None = None


class DeletedRecord(Response, frozen=True, kw_only=True):
    """A deleted record; the job erases its bytes and those of its history."""

    name: str
    job: str


@operation(
    "users.delete_record",
    "DELETE /v1/users/{user}/records/{record}",
    effect="erase",
    owner="user",
    example=Example(_OF, _GIVEN),
)
def delete_record(space: Space, request: DeleteRecord) -> DeletedRecord:
    """Delete a record about a user with its history."""
    job = records.delete_record(space, user_records(request.user), request.record, request.if_match)
    if job is None:
        raise _not_found(request.record)
    return DeletedRecord(name=request.record, job=job)


class HistoryOf(Request, frozen=True, kw_only=True):
    """The record to list the versions of."""

    user: User
    record: RecordName
    limit: HistoryLimit = 20
    cursor: Cursor | None = None


@operation(
    "users.record_history", "GET /v1/users/{user}/records/{record}/history", owner="user", example=Example(_OF, _GIVEN)
)
def record_history(space: Space, request: HistoryOf) -> RecordHistory:
    """List the versions of a record, newest first."""
    found = records.find_record(space, user_records(request.user), request.record)
    if found is None:
        raise _not_found(request.record)
    return list_history(space, found, request.limit, request.cursor)


def find_contract(space: Space, name: str) -> Contract:
    """Return the contract of a record: that of the global definition with its name as slug, or an empty one."""
    found = find_definition_by_slug(space, name)
    if found is None or found.settings.scope != "global":
        return NO_CONTRACT._replace(lasting=0)
    return build_lasting_contract(found)


def _write(space: Space, user: str, name: str, edit: Edit, ttl_s: int | UnsetType | None) -> UserRecord:
    contract = find_contract(space, name)
    if ttl_s is not UNSET:  # at most the lifetime of the definition; None: for good
        lifetimes = [one for one in (ttl_s and ttl_s * SECOND, contract.lifetime_us) if one is not None]
        contract = contract._replace(lifetime_us=min(lifetimes, default=None), lasting=None)
    record, warnings = write_valid(space, user_records(user), name, edit, contract)
    return _to_response(record, record.value, warnings)


def _to_response(record: Record, value: Any, warnings: list[ValueWarning] | None = None) -> UserRecord:
    version = describe_version(record)
    is_first = record.created_at == record.updated_at
    created_at = version["updated_at"] if is_first else to_datetime(record.created_at)
    return UserRecord(name=record.path, value=value, created_at=created_at, warnings=warnings or None, **version)


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no record {name!r} of this user.")
