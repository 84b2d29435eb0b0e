"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from msgspec import UNSET, UnsetType

from .. import sdk
from ..errors import NotFound
from ._sync_jobs import pages
from .transport import Transport
from .values import Handle, Lifetime, Moment, omit_none, omit_unset, to_list, to_object

D = TypeVar("D")
Fields: TypeAlias = Mapping[str, int]
"""The fields to return, each with 1."""
MOST_CHANGES = 100
"""Largest number of changes in one response."""


class RecordCalls(Handle):
    """Records of one person by name: JSON objects, each validated by the definition of that name, if there is one."""

    def __init__(self, transport: Transport, user: str) -> None:
        self._transport = transport
        self._user = user

    @overload
    def get(
        self, name: str, default: None = None, *, projections: Fields | None = None, as_of: Moment | None = None
    ) -> dict[str, Any] | None: ...

    @overload
    def get(
        self, name: str, default: D, *, projections: Fields | None = None, as_of: Moment | None = None
    ) -> dict[str, Any] | D: ...

    def get(
        self, name: str, default: Any = None, *, projections: Fields | None = None, as_of: Moment | None = None
    ) -> Any:
        """Return the value of a record, or some of its fields such as `projections={"home.city": 1}`; or the default."""
        try:
            found = self.read(name, projections=projections, as_of=as_of)
        except NotFound:
            return default
        return found.value

    def read(self, name: str, *, projections: Fields | None = None, as_of: Moment | None = None) -> sdk.UserRecord:
        """Return a record with its version and times, or raise NotFound."""
        data: dict[str, Any] = {"user": self._user, "record": name}
        if projections is not None or as_of is not None:
            data |= omit_none(projections=projections, as_of=as_of)
        return self._transport.call("users.record", data)

    def set(
        self, name: str, value: Mapping[str, Any], *, ttl_s: Lifetime | UnsetType = UNSET, if_match: str | None = None
    ) -> sdk.UserRecord:
        """Set a record. `ttl_s` is its lifetime; None: for good. With `if_match`, only if it has not changed since then."""
        return self._write(name, value, "replace", omit_unset(ttl_s=ttl_s) | omit_none(if_match=if_match))

    def update(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        unset: str | Sequence[str] = (),
        ttl_s: Lifetime | UnsetType = UNSET,
        if_match: str | None = None,
    ) -> sdk.UserRecord:
        """Merge changes into a record, at every depth. Omitted fields stay; those in `unset` are removed."""
        more = omit_unset(ttl_s=ttl_s) | omit_none(if_match=if_match, unset=to_list(unset) or None)
        return self._write(name, changes, "merge", more)

    def set_all(
        self, records: Mapping[str, Mapping[str, Any]], *, merge: bool = False, ttl_s: Lifetime | UnsetType = UNSET
    ) -> list[sdk.UserRecord]:
        """Set several records, all or none."""
        values = {name: to_object(value, name) for name, value in to_object(records, "records").items()}
        data = {
            "user": self._user,
            "records": values,
            "mode": "merge" if merge else "replace",
            **omit_unset(ttl_s=ttl_s),
        }
        return (self._transport.call("users.set_records", data)).records

    def delete(self, name: str, *, if_match: str | None = None) -> sdk.DeletedRecord:
        """Delete a record with its history."""
        data = omit_none(user=self._user, record=name, if_match=if_match)
        return self._transport.call("users.delete_record", data)

    def all(self) -> dict[str, Any]:
        """Return all values by name."""
        found = pages(self._transport, "users.records", "records", {"user": self._user})
        return {record.name: record.value for record in found}

    def history(self, name: str, limit: int = 20) -> list[sdk.RecordChange]:
        """List the changes of a record, the newest first, at most `limit`."""
        data = {"user": self._user, "record": name}
        return changes(self._transport, "users.record_history", data, limit)

    def _write(self, name: str, value: Mapping[str, Any], mode: str, more: Mapping[str, Any]) -> sdk.UserRecord:
        data = {"user": self._user, "record": name, "value": to_object(value, "value"), "mode": mode, **more}
        return self._transport.call("users.set_record", data)


def changes(transport: Transport, operation: str, data: Mapping[str, Any], limit: int) -> list[sdk.RecordChange]:
    """List the newest changes of a record, page by page, because one response has a limited size."""
    found: list[sdk.RecordChange] = []
    cursor: str | None = None
    while True:
        asked = {**data, "limit": min(limit - len(found), MOST_CHANGES), **omit_none(cursor=cursor)}
        page = transport.call(operation, asked)
        found += page.versions
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            return found
