"""The Python API, awaited: memory definitions and working memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from .. import sdk
from ..errors import MemwellError
from ._async_jobs import pages
from .transport import AsyncTransport
from .values import Handle, omit_none, parse_arguments, render_tool, to_list, to_object

_WHOSE = ("owner", "workflow", "thread", "run")
_WHERE = (*_WHOSE, "definitions")


class AsyncDefinitions(Handle):
    """Memory definitions: kinds of records of an owner, each with a schema."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, **settings: Unpack[sdk.DefinitionSettings]) -> sdk.DefinitionInfo:
        """Create a definition: `schema`, `scope` (global, workflow, thread, run), `ttl_seconds`, `slug`, `update_mode`."""
        return await self._transport.call("definitions.create", {"name": name, **settings})

    async def define(self, name: str, **settings: Unpack[sdk.DefinitionSettings]) -> sdk.DefinitionInfo:
        """Create a definition unless the same one exists, as at the start of a program. If it differs, raise Conflict."""
        return await self._transport.call("definitions.define", {"name": name, **settings})

    async def apply(
        self, definitions: str | Mapping[str, Any], *, dry_run: bool = False, accept_breaking: bool = False
    ) -> sdk.Applied:
        """Make definitions what YAML or an object by slug says, all or none; with `dry_run`, only report the changes."""
        source = definitions if isinstance(definitions, str) else to_object(definitions, "definitions")
        data = {"definitions": source, "dry_run": dry_run, "accept_breaking": accept_breaking}
        return await self._transport.call("definitions.apply", data)

    async def list(self, **conditions: Unpack[sdk.DefinitionPage]) -> sdk.DefinitionList:
        """Return a page of definitions; `search` finds them by name, slug or description."""
        return await self._transport.call("definitions.list", {**conditions})

    async def get(self, definition: str) -> sdk.DefinitionInfo:
        """Return a definition by its id or slug."""
        return await self._transport.call("definitions.get", {"definition": definition})

    async def update(self, definition: str, **changes: Unpack[sdk.DefinitionChanges]) -> sdk.DefinitionInfo:
        """Change a definition. A schema that stored records do not match is refused, unless `accept_breaking`."""
        return await self._transport.call("definitions.update", {"definition": definition, **changes})

    async def check(self, definition: str, schema: Mapping[str, Any]) -> sdk.Breaking:
        """Find the stored records that a schema would break."""
        data = {"definition": definition, "schema": to_object(schema, "schema")}
        return await self._transport.call("definitions.check", data)

    async def delete(self, definition: str) -> sdk.DeletedDefinition:
        """Delete a definition with all its records."""
        return await self._transport.call("definitions.delete", {"definition": definition})

    async def records(self, definition: str) -> Sequence[sdk.MemoryRecord]:
        """List the records of a definition, of all owners."""
        found = pages(self._transport, "definitions.records", "records", {"definition": definition})
        return [one async for one in found]

    async def bind(
        self, definitions: Sequence[str] | None = None, owner: str | None = None, **where: Unpack[sdk.Binding]
    ) -> AsyncWorkingMemory:
        """Load the working memory of an owner: under these definitions, by id or slug, or under all global ones. Callers that are
        limited to a user may omit `owner`."""
        at = {**where} | omit_none(owner=owner, definitions=None if definitions is None else to_list(definitions))
        bound: sdk.Bound = await self._transport.call("definitions.bind", at)
        return AsyncWorkingMemory(self._transport, at, bound)

    async def end(
        self, *, run: str | None = None, thread: str | None = None, owner: str | None = None
    ) -> sdk.Forgotten:
        """Delete the records of a run or a thread that is over, of one owner or of all."""
        return await self._transport.call("definitions.end", omit_none(run=run, thread=thread, owner=owner))


class AsyncWorkingMemory(Handle):
    """The working memory of an owner, for a model: `values`, `prompt()`, `tool()`, and `update()` for calls of the tool."""

    def __init__(self, transport: AsyncTransport, at: Mapping[str, Any], bound: sdk.Bound) -> None:
        self._transport = transport
        self._at = dict(at)
        self.bound = bound

    @property
    def values(self) -> dict[str, Any]:
        """Values by slug; a slug without a record is missing."""
        return self.bound.values

    def prompt(self, system: str | None = None) -> str:
        """Return the values as text, after the system instructions if there are any."""
        return "\n\n".join(part for part in (system, self.bound.prompt) if part)

    def tool(self, style: str = "openai") -> dict[str, Any] | None:
        """Return the `update_memory` tool in the format of `openai` or `anthropic`."""
        return render_tool(self.bound.tool, style)

    async def update(
        self, memory: Mapping[str, Any] | str, *, mode: str | None = None, if_match: Mapping[str, str] | None = None
    ) -> sdk.Updated:
        """Write values by slug, all or none. `memory` may also be the arguments of a call of the tool, as an object or as JSON.
        If another value no longer fits its schema, that is a warning in `bound.warnings`, even with `strict`."""
        values = self._values(to_object(parse_arguments(memory), "memory"))
        at = {name: self._at[name] for name in _WHERE if name in self._at}
        data = {**at, "memory": values, **omit_none(mode=mode, if_match=if_match)}
        made: sdk.Updated = await self._transport.call("definitions.update_memory", data)
        await self._reload(values)
        return made

    async def refresh(self) -> None:
        """Load the values again."""
        self.bound = await self._transport.call("definitions.bind", self._at)

    async def delete(self, definition: str) -> sdk.Forgotten:
        """Delete the record of the owner under one definition."""
        whose: dict[str, Any] = {name: self._at[name] for name in _WHOSE if name in self._at}
        gone: sdk.Forgotten = await self._transport.call(
            "definitions.delete_memory", {**whose, "definition": definition}
        )
        await self._reload([definition])
        return gone

    async def _reload(self, changed: Iterable[str]) -> None:
        """Load the values again after a change. Problems become warnings: an error would make callers repeat the change."""
        at = {name: value for name, value in self._at.items() if name != "strict"}
        try:
            self.bound = await self._transport.call("definitions.bind", at)
        except MemwellError as error:
            from ..records.working_memory import Withheld  # rooms are imported at their first use

            reason = f"it was changed, but could not be loaded again: {error.message}"
            warnings = [*self.bound.warnings, *(Withheld(slug=one, reason=reason) for one in changed)]
            self.bound = replace(self.bound, warnings=warnings)

    def _values(self, memory: dict[str, Any]) -> dict[str, Any]:
        """Values by slug. What a tool was called with has them inside of `memory`, which may also be a slug."""
        inner = memory.get("memory")
        if set(memory) != {"memory"}:
            return memory
        slugs = self._slugs()
        if "memory" in slugs and not (isinstance(inner, Mapping) and set(inner) <= set(slugs)):
            return memory
        return to_object(inner, "memory")

    def _slugs(self) -> Mapping[str, Any]:
        tool = self.bound.tool
        slugs: Mapping[str, Any] = {} if tool is None else tool.parameters["properties"]["memory"]["properties"]
        return slugs
