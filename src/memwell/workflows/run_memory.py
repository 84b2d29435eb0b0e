"""The memory of a run: its call, its banks, and the memory stores that its functions read and write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from .. import typed
from ..banks.banks import KIND as BANK
from ..banks.banks import CreateBank, add_bank, build_bank
from ..context.memory_namespace import MemoryValue, Scope, recall_content, recall_memory, recall_session_meta
from ..context.template import MemoryValues
from ..core import documents
from ..core.dispatch import Call, mark_once
from ..core.operation import Operation, to_request
from ..core.space import Space
from ..erasure.erase import files_of
from ..errors import Conflict, Forbidden, Invalid
from ..records import contents
from ..records.apps import SESSION_META
from ..records.contents import Content, DeleteContent
from ..records.records import Mode, project
from ..records.stores import require_store
from ..text.yaml import spell_path
from . import store as run_store
from .document import Runnable

EMPTIED = "emptied"
"""Reason of a Conflict that no model is told of, because a retry does not help."""
EMPTIED_MESSAGE = "Data that this run has read was erased: the run cannot write any more."
T = TypeVar("T")


class RunCall(Call):
    """The call of a run, with the run's app, user and session.

    Reads through it are noted in the run in the same transaction: if what was read is erased, so is the run.
    """

    def __init__(self, call: Call, run_id: str, scope: Scope) -> None:
        super().__init__(call.engine, call.principal, call._operation, call._mark)
        self.run_id, self.scope = run_id, scope
        self.warn: Callable[[Sequence[str]], None] = lambda messages: None

    def with_warn(self, warn: Callable[[Sequence[str]], None]) -> Self:
        """The same call with another receiver of warnings."""
        call = copy.copy(self)
        call.warn = warn
        return call

    def note(self, work: Callable[[Space], T]) -> T:
        """Write about the run itself, without an event."""
        return self.engine.write(self.principal, work)

    def recall(self) -> MemoryValues:
        """The `{{memory.…}}` namespace, read on demand."""

        def fetch(name: str) -> tuple[Any, str | None]:
            found = self.note(lambda space: self._note_read(space, recall_memory(space, name, self.scope)))
            if found.warning is not None:
                self.warn([found.warning])
            return found.value, found.warning

        return MemoryValues(fetch)

    def read_content(self, app: str, name: str) -> Any:
        """The content of a store, or the session meta. Content that does not fit its schema any more is returned with a
        warning: code that saw nothing would overwrite it."""

        def read(space: Space) -> MemoryValue:
            if name == SESSION_META:
                found = recall_session_meta(space, app, self.scope)
            else:
                store = require_store(space, app, name).settings
                found = recall_content(space, name, self.scope, store)
            return self._note_read(space, found)

        found = self.note(read)
        if found.warning is not None:
            self.warn([f"`{name}`: {found.warning}"])
        return found.value

    def perform(self, operation: Operation, work: Callable[[Space], T], mark: str | None = None) -> T:
        """Perform an operation with its event, unless the run is over or was emptied. With a mark it is done once, however
        often the run is repeated."""

        def check_and_work(space: Space) -> T:
            row = run_store.find_run(space.tx, self.run_id)
            if row is None or row.asked == run_store.EMPTIED:
                raise Conflict(EMPTIED_MESSAGE, reason=EMPTIED)
            if row.state in ("done", "failed"):
                raise Conflict("The run is over: it cannot write any more.")
            space.run = self.run_id
            return work(space)

        once = None if mark is None else mark_once(operation, f"{self.run_id}/{mark}")
        return Call(self.engine, self.principal, operation, once).write(check_and_work)

    def _note_read(self, space: Space, found: MemoryValue) -> MemoryValue:
        if found.address_id is not None:
            read = [found.address_id, files_of(found.address_id)] if found.files else [found.address_id]
            run_store.touch(space, self.run_id, read)
        return found


class RunMemory:
    """Memory stores as a function sees them. Methods return values directly (S2.19)."""

    def __init__(self, call: RunCall) -> None:
        self._call = call

    def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        """The record of a store, or some of its fields; None if there is none."""
        wanted = contents.check_projections(projections)
        value = self._call.read_content(self._app(), store_name)
        return value if value is None or wanted is None else project(value, wanted)

    def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        """Write to a store and return the record. Omitted fields stay as they are, unless `mode` replaces the record."""
        if not isinstance(data_object, Mapping):
            raise Invalid("The data of a store must be an object: give a dict.", field="data")
        fields = [unset] if isinstance(unset, str) else list(unset)
        data = {"store": _check_writable(store_name), "data": dict(data_object), "mode": mode, "unset": fields}
        request = to_request(contents.set_content, {**data, **self._owner()})

        def work(space: Space) -> Content:
            content: Content = contents.set_content.run(space, request)
            run_store.touch(space, self._call.run_id, space.touched)
            return content

        content = self._call.perform(contents.set_content, work)
        self._call.warn([f"`{store_name}`: `{one.path}`: {one.reason}" for one in content.warnings or ()])
        return content.content

    def delete_content(self, store_name: str) -> bool:
        """Delete the record of a store; False if there was none."""
        request = DeleteContent(store=_check_writable(store_name), **self._owner())
        return self._call.perform(
            contents.delete_content,
            lambda space: contents.delete_located(space, request, self._call.run_id).deleted,
        )

    def _app(self) -> str:
        app = self._call.scope.app
        if app is None:
            raise Invalid("This run belongs to no app and has no memory stores: run it by `apps.execute`.")
        return app

    def _owner(self) -> dict[str, Any]:
        scope = self._call.scope
        return {"app": self._app(), "user_id": scope.user, "session_id": scope.session}


class AsyncRunMemory:
    """`RunMemory` for async functions."""

    def __init__(self, call: RunCall) -> None:
        self._memory = RunMemory(call)

    async def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        return await _run_in_thread(self._memory.get_content, store_name, projections)

    async def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        return await _run_in_thread(self._memory.set_content, store_name, data_object, mode=mode, unset=unset)

    async def delete_content(self, store_name: str) -> bool:
        return await _run_in_thread(self._memory.delete_content, store_name)


async def _run_in_thread(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    import asyncio  # here, because only async functions need it

    return await asyncio.to_thread(work, *arguments, **named)


def _check_writable(store_name: str) -> str:
    if store_name == SESSION_META:
        raise Forbidden(f"`{SESSION_META}` cannot be changed by code: its metadata is set by the caller of the app.")
    return store_name


def provide_banks(call: Call, document: Runnable) -> dict[str, str]:
    """The ids of the banks that a document names. Banks that it declares are created; the error names all others."""
    paths = {name: spell_path(node.bank_at) for node in document.walk() if (name := node.bank) is not None}
    ids = call.read(lambda space: {name: find_bank_id(space, name) for name in paths})
    unknown = [name for name, bank_id in ids.items() if bank_id is None]
    missing = [f"{paths[name]}: there is no memory bank {name!r}" for name in unknown if name not in document.banks]
    if missing:
        raise Invalid(f"The workflow names banks that do not exist: {'; '.join(missing)}.", unresolved=missing)
    new = {name: _create_bank(call, name, document.banks[name]) for name in unknown}
    return {name: bank_id for name, bank_id in ids.items() if bank_id is not None} | new


def find_bank_id(space: Space, name: str) -> str | None:
    """The id of a bank, by its id or its name."""
    if documents.find(space.tx, BANK, name) is not None:
        return name
    banks = documents.list_by_name(space.tx, BANK, name)
    if len(banks) > 1:
        raise Invalid(f"There are {len(banks)} memory banks called {name!r}: give an id.")
    return banks[0].id if banks else None


def _create_bank(call: Call, name: str, settings: Mapping[str, Any]) -> str:
    try:
        request = typed.convert({**settings, "name": name}, CreateBank)
    except msgspec.ValidationError as error:
        raise Invalid(f"`memory_banks.{name}` does not fit: {error}.") from None
    bank = build_bank(call, request)
    # Another run may have created it meanwhile; there is one writer at a time, so that each name exists once.
    return call.write(lambda space: find_bank_id(space, name) or add_bank(space, request.name, bank).id)
