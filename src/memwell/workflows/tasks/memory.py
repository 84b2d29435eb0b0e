"""The memory of a run of tasks: loaded for expressions, shown to a model, updated by a task or a model (S3.23–S3.41)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...core.space import Space
from ...errors import Invalid
from ...models.completer import Tool
from ...records import working_memory
from ...records.definitions import UpdateMode
from ...records.memory_prompt import render_memory
from ...records.working_memory import (
    BoundMemory,
    MemoryScope,
    Updated,
    UpdateMemory,
    build_tool,
    list_bound,
    load_all,
    render_withheld,
    write_memory,
)
from .. import store
from ..run_memory import Reach
from .document import Memory

NO_OWNER = "An owner id is required to update memory: run the workflow with `owner`."


class Shown(NamedTuple):
    """Memory as a model has it: a part of its instructions, and the tool that changes it, if there is one. `warnings`: what is
    withheld, and why (C24)."""

    prompt: str = ""
    tool: Tool | None = None
    warnings: tuple[str, ...] = ()


class Known(NamedTuple):
    """Memory as expressions have it: values by slug, and what is withheld, with a warning each."""

    values: dict[str, Any]
    withheld: dict[str, str]


class TaskMemory:
    """What is remembered under the definitions of a document, of the run's owner."""

    def __init__(self, reach: Reach, declared: Sequence[Memory]) -> None:
        self._reach = reach
        self._declared = [one.definition for one in declared]

    def known(self) -> Known:
        """What is known, by slug: under every global definition, and those that are declared (S3.39, S3.40)."""
        if self._whose is None:
            return Known({}, {})
        found = self._read(None)
        values = {one.section.slug: one.section.value for one in found if one.section.value is not None}
        return Known(values, {one.section.slug: told for one in found for told in _withheld(one)})

    def shown(self, bound: Sequence[Memory]) -> Shown:
        """What a model sees of the definitions that are bound to its task (S3.28–S3.32)."""
        if not bound:
            return Shown()
        if self._whose is None:
            return Shown(warnings=("Nobody owns this run, so nothing is remembered in it: run it with `owner`.",))
        found = self._read([one.definition for one in bound])
        tool = build_tool([one.section for one in found if one.writable])
        offered = None if tool is None else Tool(tool.name, tool.description, tool.parameters)
        warnings = tuple(told for one in found for told in _withheld(one))
        return Shown(render_memory(one.section for one in found), offered, warnings)

    def update(
        self,
        memory: Mapping[str, Any],
        bound: Sequence[Memory] | None = None,
        mode: UpdateMode | None = None,
        mark: str | None = None,
    ) -> dict[str, Any]:
        """Write values, all or none, and give them as they are read from now on. A model writes what is bound to its task, a task
        what the document may (S3.38–S3.41). With a mark it is done once, also if the run is repeated (C45)."""
        whose = self._whose
        if whose is None:
            raise Invalid(NO_OWNER, field="owner")

        def work(space: Space) -> Updated:
            space.principal.require_user(whose.owner)
            names = self._writable(space) if bound is None else [one.definition for one in bound]
            request = UpdateMemory(memory=dict(memory), definitions=names, mode=mode)
            made = write_memory(space, request, whose)
            store.touch(space, self._reach.run_id, space.touched)
            return made

        return self._reach.act(working_memory.update_memory, work, mark).memory

    @property
    def _whose(self) -> MemoryScope | None:
        scope = self._reach.scope
        return None if scope.user is None else MemoryScope(scope.user, scope.workflow, scope.thread, scope.run)

    def _read(self, names: Sequence[str] | None) -> list[BoundMemory]:
        """Read, and note in the same breath that the run knows it: if it is erased, so is the run."""
        whose = self._whose
        if whose is None:
            return []

        def read(space: Space) -> list[BoundMemory]:
            space.principal.require_user(whose.owner)
            pairs = list_bound(space, self._writable(space) if names is None else names)
            found = load_all(space, pairs, whose)
            addresses = [one.loaded.address_id for one in found]
            store.touch(space, self._reach.run_id, [one for one in addresses if one is not None])
            return found

        return self._reach.call.engine.write(self._reach.call.principal, read)

    def _writable(self, space: Space) -> list[str]:
        return [*self._declared, *(item.id for item in list_bound(space, None))]


def _withheld(one: BoundMemory) -> list[str]:
    return [] if one.warning is None else [render_withheld(one.section.slug, one.warning)]
