"""Records as a mapping. Only the synchronous API has it, because Python's operators cannot be awaited."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from ..errors import Invalid, NotFound
from ._async_records import AsyncRecordCalls
from ._sync_records import RecordCalls


class AsyncRecords(AsyncRecordCalls):
    """Records of one person, awaited."""


class Records(RecordCalls):
    """Records of one person, also as `records["profile"]`."""

    def __getitem__(self, name: str) -> dict[str, Any]:
        try:
            return self.read(name).value
        except NotFound:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Mapping[str, Any]) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        try:
            self.delete(name)
        except NotFound:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.get(name) is not None
        except Invalid:  # no record can have such a name
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.all())

    def keys(self) -> KeysView[str]:
        return self.all().keys()

    def values(self) -> ValuesView[Any]:
        return self.all().values()

    def items(self) -> ItemsView[str, Any]:
        return self.all().items()

    def __len__(self) -> int:
        return len(self.all())
