"""The memory of a run: what its functions and templates read and write, bound to its app, its user and its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..context.memory_namespace import MemoryValue, Scope, recall_content, recall_memory, recall_session_meta
from ..context.template import MemoryValues
from ..core.dispatch import Call, mark_once
from ..core.operation import Operation, to_request
from ..core.space import Space
from ..erasure.erase import files_of
from ..errors import Conflict, Forbidden, Invalid
from ..records import contents
from ..records.app_sessions import SESSION_META
from ..records.contents import Content, DeleteContent
from ..records.records import Mode, project
from ..records.stores import require_store
from . import store as stored

EMPTIED = "emptied"
"""Why nothing can be written any more: no model is told, and none is asked again."""
Warn = Callable[[Sequence[str]], None]
T = TypeVar("T")


class Reach(NamedTuple):
    """What a run may reach: as whom, and for whom. `warn` is told what does not fit any more."""

    call: Call
    run_id: str
    scope: Scope
    warn: Warn = lambda told: None

    def fetch(self, name: str) -> tuple[Any, str | None]:
        """What a name stands for, and why it is withheld if it is. That the run knows it is noted in the same breath: if it is
        erased, so is the run."""
        found = self.call.engine.write(self.call.principal, lambda space: self._noted(space, name))
        self._warn(found.warning)
        return found.value, found.warning

    def content(self, app: str, name: str) -> Any:
        """The content of a store, or the session meta, noted in the same way. It is what whoever asks outside of a run is given,
        though it may not fit any more: code that saw nothing would write over what is there."""

        def read(space: Space) -> MemoryValue:
            if name == SESSION_META:
                found = recall_session_meta(space, app, self.scope)
            else:
                store = require_store(space, app, name).settings
                found = recall_content(space, name, self.scope, store)
            return self._touched(space, found)

        found = self.call.engine.write(self.call.principal, read)
        self._warn(None if found.warning is None else f"`{name}`: {found.warning}")
        return found.value

    def recalled(self) -> MemoryValues:
        return MemoryValues(self.fetch)

    def act(self, operation: Operation, work: Callable[[Space], T], mark: str | None = None) -> T:
        """Carry out an operation, with its event. A run that is over, or knows something that was erased, does nothing any more.
        With a mark it is done once, however often the run is repeated."""

        def checked(space: Space) -> T:
            row = stored.find(space.tx, self.run_id)
            if row is None or row.asked == stored.EMPTIED:
                raise Conflict(
                    "What the run knew of was erased while it ran: nothing is written any more.", reason=EMPTIED
                )
            if row.state in ("done", "failed"):
                raise Conflict("The run is over: nothing is written any more.")
            space.run = self.run_id
            return work(space)

        once = None if mark is None else mark_once(operation, f"{self.run_id}/{mark}")
        return Call(self.call.engine, self.call.principal, operation, once).write(checked)

    def _warn(self, told: str | None) -> None:
        if told is not None:
            self.warn([told])

    def _noted(self, space: Space, name: str) -> MemoryValue:
        return self._touched(space, recall_memory(space, name, self.scope))

    def _touched(self, space: Space, found: MemoryValue) -> MemoryValue:
        if found.address_id is not None:
            known = [found.address_id, files_of(found.address_id)] if found.files else [found.address_id]
            stored.touch(space, self.run_id, known)
        return found


class RunMemory:
    """Memory stores as a function sees them. Methods give values directly (S2.19)."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        """The record of a store, or some of its fields; None if there is none."""
        wanted = contents.check_projections(projections)
        value = self._reach.content(self._app(), store_name)
        return value if value is None or wanted is None else project(value, wanted)

    def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        """Write to a store; fields that are not given stay as they are, unless the whole is replaced. Returns the record. What
        does not look right is a warning of the step."""
        if not isinstance(data_object, Mapping):
            raise Invalid("What is written to a store is an object: give a dict.", field="data")
        fields = [unset] if isinstance(unset, str) else list(unset)
        given = {"store": _writable(store_name), "data": dict(data_object), "mode": mode, "unset": fields}
        request = to_request(contents.set_content, {**given, **self._whose()})

        def work(space: Space) -> Content:
            made: Content = contents.set_content.run(space, request)
            stored.touch(space, self._reach.run_id, space.touched)
            return made

        made = self._reach.act(contents.set_content, work)
        self._reach.warn([f"`{store_name}`: `{one.path}`: {one.reason}" for one in made.warnings or ()])
        return made.content

    def delete_content(self, store_name: str) -> bool:
        """Delete the record of a store; False if there was none."""
        request = DeleteContent(store=_writable(store_name), **self._whose())
        return self._reach.act(
            contents.delete_content,
            lambda space: contents.delete_located(space, request, self._reach.run_id).deleted,
        )

    def _app(self) -> str:
        app = self._reach.scope.app
        if app is None:
            raise Invalid("This run belongs to no app, and has no memory stores: run it by `apps.execute`.")
        return app

    def _whose(self) -> dict[str, Any]:
        scope = self._reach.scope
        return {"app": self._app(), "user_id": scope.user, "session_id": scope.session}


class AsyncRunMemory:
    """The same, awaited."""

    def __init__(self, reach: Reach) -> None:
        self._memory = RunMemory(reach)

    async def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        return await _off_the_loop(self._memory.get_content, store_name, projections)

    async def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        return await _off_the_loop(self._memory.set_content, store_name, data_object, mode=mode, unset=unset)

    async def delete_content(self, store_name: str) -> bool:
        return await _off_the_loop(self._memory.delete_content, store_name)


async def _off_the_loop(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    import asyncio  # imported here: whoever awaits has loaded it, and nobody else needs it

    return await asyncio.to_thread(work, *arguments, **named)


def _writable(store_name: str) -> str:
    if store_name == SESSION_META:
        raise Forbidden(f"`{SESSION_META}` cannot be changed by code: its metadata is set by whoever calls the app.")
    return store_name
