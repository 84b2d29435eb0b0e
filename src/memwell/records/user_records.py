"""Records about a user, by name. The global definition with that slug, if there is one, is the contract of a record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..clock import SECOND, optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import user_records
from ..core.space import Space
from ..core.time_travel import AsOf
from ..errors import Invalid, NotFound
from ..model.fields import WORD, Cursor, Limit, User, etag, from_cursor, name_limits, to_cursor, to_instant
from . import records
from .definitions import (
    DEFINITIONS,
    MAX_NAME,
    MAX_TTL,
    build_definition_contract,
    build_lasting_contract,
    find_definition_by_slug,
)
from .records import MAX_BYTES, Mode, Record, list_named_page, project
from .validation import NO_CONTRACT, Contract, Edit, ValueWarning, error_at, fill_defaults, write_valid

NEWEST = 2**62
MAX_TOGETHER = 50

RecordName = Annotated[str, name_limits(WORD.pattern, MAX_NAME, "The record's name: letters, digits and underscores.")]
Value = Annotated[dict[str, Any], Meta(description="A JSON object of at most 1 MiB and 64 levels.")]
Projections = Annotated[
    dict[str, Any],
    Meta(description='The fields to return, as {"preferences.language": 1}; omit it for all.'),
]
IfMatch = Annotated[
    str,
    Meta(
        max_length=400,
        description="The `etag` that the record must still have. `*`: it must exist; `none`: it must not.",
    ),
]
Unset = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=1000)]],
    Meta(max_length=100, description="Fields to remove, by their paths, such as `seat.row`: at most 100."),
]
ModeField = Annotated[
    Mode, Meta(description="`replace` sets the value; `merge` keeps the fields that are not given, at every depth.")
]
TtlField = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_TTL,
        description="Lifetime in seconds from this write; 0: forever; omit it to keep the former one, or that of its definition.",
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
    """A user whose records are wanted."""

    user: User
    limit: Limit = 100
    cursor: Cursor | None = None


@operation("users.records", "GET /v1/users/{user}/records", bound="user", example=Example({"user": "alice"}, _GIVEN))
def list_records(space: Space, request: ListRecords) -> UserRecords:
    """The records about a user, by name."""
    (after,) = from_cursor("records", request.cursor, "")
    page, more = list_named_page(space, user_records(request.user), after, request.limit)
    found = _list_within_limit(space, page)
    further = to_cursor("records", found[-1].name) if more or len(found) < len(page) else None
    return UserRecords(records=found, next_cursor=further)


class GetRecord(Request, frozen=True, kw_only=True):
    """A record, or some of its fields."""

    user: User
    record: RecordName
    projections: Projections | None = None
    as_of: AsOf | None = None


@operation(
    "users.record", "GET /v1/users/{user}/records/{record}", bound="user", example=Example(_OF, _GIVEN), sole=True
)
def get_record(space: Space, request: GetRecord) -> UserRecord:
    """A record about a user, now or at an earlier time."""
    if request.projections is not None:
        project({}, request.projections)  # rejects wrong ones, whether or not there is a record
    known = records.find_record_with_definition(space, user_records(request.user), request.record)
    if known is None:
        raise _not_found(request.record)
    found, definition_id, body = known
    if request.as_of is not None:
        then = records.find_record_at(space, found, to_instant(request.as_of, "as_of") or 0)
        if then is None:
            raise NotFound("There was no such record at that time, or its history does not reach back so far.")
        found = then
    return to_user_record(found, to_contract(definition_id, body), request.projections)


class SetRecord(Request, frozen=True, kw_only=True):
    """A value for a record."""

    user: User
    record: RecordName
    value: Value
    mode: ModeField = "replace"
    ttl_s: TtlField | None = None
    if_match: IfMatch | None = None
    unset: Unset | None = None


@operation(
    "users.set_record",
    "PUT /v1/users/{user}/records/{record}",
    effect="write",
    bound="user",
    example=Example(_SET),
)
def set_record(space: Space, request: SetRecord) -> UserRecord:
    """Set a record about a user, or merge into it. A value that does not fit its schema is refused, and the old one stays."""
    change = Edit(request.value, request.mode, request.if_match, request.unset or ())
    return _write(space, request.user, request.record, change, request.ttl_s)


class SetRecords(Request, frozen=True, kw_only=True):
    """Values for several records."""

    user: User
    records: Annotated[
        dict[str, Value], Meta(min_length=1, max_length=MAX_TOGETHER, description="Values by their names.")
    ]
    mode: ModeField = "replace"
    ttl_s: TtlField | None = None


@operation(
    "users.set_records",
    "PUT /v1/users/{user}/records",
    effect="write",
    bound="user",
    example=Example({"user": "alice", "records": {"profile": {"language": "pt"}, "diet": {"vegan": True}}}),
)
def set_records(space: Space, request: SetRecords) -> UserRecords:
    """Set several records about a user, all or none."""
    for name in request.records:
        _require_name(name)
    made = []
    for name, value in request.records.items():
        with error_at(f"records.{name}", record=name):
            made.append(_write(space, request.user, name, Edit(value, request.mode), request.ttl_s))
    return UserRecords(records=made)


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
    bound="user",
    example=Example(_OF, _GIVEN),
)
def delete_record(space: Space, request: DeleteRecord) -> DeletedRecord:
    """Delete a record about a user with its history."""
    job = records.delete_record(space, user_records(request.user), request.record, request.if_match)
    if job is None:
        raise _not_found(request.record)
    return DeletedRecord(name=request.record, job=job)


class RecordChange(Response, frozen=True, kw_only=True):
    """A version of a record: the data that was written, how, when and by whom, and the resulting value."""

    version: int
    mode: str
    data: dict[str, Any]
    value: dict[str, Any] | None
    actor: str
    written_at: datetime
    expires_at: datetime | None = None


class RecordHistory(Response, frozen=True, kw_only=True):
    """Versions of a record, the newest first."""

    versions: list[RecordChange]
    next_cursor: str | None = None


class HistoryOf(Request, frozen=True, kw_only=True):
    """A record whose history is wanted."""

    user: User
    record: RecordName
    limit: Annotated[int, Meta(ge=1, le=100, description="How many to return, from 1 to 100.")] = 20
    cursor: Cursor | None = None


@operation(
    "users.record_history",
    "GET /v1/users/{user}/records/{record}/history",
    bound="user",
    example=Example(_OF, _GIVEN),
)
def record_history(space: Space, request: HistoryOf) -> RecordHistory:
    """The versions of a record, the newest first."""
    return list_history(space, _require_record(space, request.user, request.record), request.limit, request.cursor)


def find_contract(space: Space, name: str) -> Contract:
    """Return the contract of the global definition with that slug, if there is one."""
    found = find_definition_by_slug(space, name)
    if found is None or found.settings.scope != "global":
        return NO_CONTRACT._replace(lasting=0)
    return build_lasting_contract(found)


def to_contract(definition_id: str | None, body: str | None) -> Contract:
    """Return the contract of a stored definition, if that is a global one."""
    if definition_id is None or body is None:
        return NO_CONTRACT
    definition = DEFINITIONS.decode(body)
    return build_definition_contract(definition_id, definition) if definition.scope == "global" else NO_CONTRACT


def to_user_record(
    record: Record, held: Contract, projections: Any = None, warnings: list[ValueWarning] | None = None
) -> UserRecord:
    value = fill_defaults(record.value, held) if held.schema else record.value
    created_at = to_datetime(record.created_at)
    return UserRecord(
        name=record.path,
        value=value if projections is None else project(value, projections),
        version=record.version,
        etag=etag(record.address_id, record.version),
        created_at=created_at,
        updated_at=created_at if record.updated_at == record.created_at else to_datetime(record.updated_at),
        expires_at=None if record.expires_at is None else to_datetime(record.expires_at),
        warnings=warnings or None,
    )


def _list_within_limit(space: Space, page: Sequence[Record]) -> list[UserRecord]:
    """Return the records of a page that fit into a response with their defaults; at least one, if there is any."""
    found: list[UserRecord] = []
    room = MAX_BYTES
    for record in page:
        one = to_user_record(record, find_contract(space, record.path))
        room -= len(msgspec.json.encode(one.value))
        if found and room < 0:
            break
        found.append(one)
    return found


def list_history(space: Space, record: Record, limit: int, cursor: str | None) -> RecordHistory:
    """Return versions of a record with their data and their values, as far as these fit into a response."""
    (before,) = from_cursor("versions", cursor, NEWEST)
    rows, more = records.list_versions(space, record, before, limit, MAX_BYTES // 2)
    values = records.rebuild_values(space, record, rows)
    page = rows[
        : records.count_fitting([len(msgspec.json.encode(values.get(row.version))) for row in rows], MAX_BYTES // 2)
    ]
    further = to_cursor("versions", page[-1].version) if more or len(page) < len(rows) else None
    return RecordHistory(versions=[_to_change(row, values.get(row.version)) for row in page], next_cursor=further)


def _write(space: Space, user: str, name: str, change: Edit, ttl_s: int | None) -> UserRecord:
    held = _set_lifetime(find_contract(space, name), ttl_s)
    record, warnings = write_valid(space, user_records(user), name, change, held)
    return to_user_record(record, held, None, warnings)


def _set_lifetime(held: Contract, ttl_s: int | None) -> Contract:
    """Apply the lifetime of a request, which cannot be longer than that of the definition."""
    if ttl_s is None:
        return held
    wanted = ttl_s * SECOND or None
    lifetimes = [one for one in (wanted, held.lifetime_us) if one is not None]
    return held._replace(lifetime_us=min(lifetimes, default=None), lasting=None)


def _require_name(name: str) -> None:
    if len(name) > MAX_NAME or not WORD.search(name):
        raise Invalid(
            f"{name[:100]!r} cannot name a record: use letters, digits and underscores.", field=f"records.{name[:100]}"
        )


def _require_record(space: Space, user: str, name: str) -> Record:
    found = records.find_record(space, user_records(user), name)
    if found is None:
        raise _not_found(name)
    return found


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no record {name!r} of this user.")


def _to_change(row: records.VersionRow, value: Any) -> RecordChange:
    return RecordChange(
        version=row.version,
        mode=row.mode,
        data=msgspec.json.decode(row.data),
        value=value,
        actor=row.actor,
        written_at=to_datetime(row.written_at),
        expires_at=optional_datetime(row.expires_at),
    )
