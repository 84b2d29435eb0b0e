"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from .. import sdk
from ..errors import MemwellError
from ._sync_jobs import pages
from .transport import Transport
from .values import Handle, omit_none, parse_arguments, render_tool, to_list, to_object

_WHOSE = ("owner", "workflow", "thread", "run")
_WHERE = (*_WHOSE, "definitions")


class Definitions(Handle):
    """Memory definitions: kinds of records of an owner, each with a schema."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, **settings: Unpack[sdk.DefinitionSettings]) -> sdk.DefinitionInfo:
        """Create a definition: `schema`, `scope` (global, workflow, thread, run), `ttl_seconds`, `slug`, `update_mode`."""
        return self._transport.call("definitions.create", {"name": name, **settings})

    def define(self, name: str, **settings: Unpack[sdk.DefinitionSettings]) -> sdk.DefinitionInfo:
        """Create a definition unless the same one exists, as at the start of a program. If it differs, raise Conflict."""
        return self._transport.call("definitions.define", {"name": name, **settings})

    def apply(
        self, definitions: str | Mapping[str, Any], *, dry_run: bool = False, accept_breaking: bool = False
    ) -> sdk.Applied:
        """Make definitions what YAML or an object by slug says, all or none; with `dry_run`, only report the changes."""
        source = definitions if isinstance(definitions, str) else to_object(definitions, "definitions")
        data = {"definitions": source, "dry_run": dry_run, "accept_breaking": accept_breaking}
        return self._transport.call("definitions.apply", data)

    def list(self, **conditions: Unpack[sdk.DefinitionPage]) -> sdk.DefinitionList:
        """Return a page of definitions; `search` finds them by name, slug or description."""
        return self._transport.call("definitions.list", {**conditions})

    def get(self, definition: str) -> sdk.DefinitionInfo:
        """Return a definition by its id or slug."""
        return self._transport.call("definitions.get", {"definition": definition})

    def update(self, definition: str, **changes: Unpack[sdk.DefinitionChanges]) -> sdk.DefinitionInfo:
        """Change a definition. A schema that stored records do not match is refused, unless `accept_breaking`."""
        return self._transport.call("definitions.update", {"definition": definition, **changes})

    def check(self, definition: str, schema: Mapping[str, Any]) -> sdk.Breaking:
        """Find the stored records that a schema would break."""
        data = {"definition": definition, "schema": to_object(schema, "schema")}
        return self._transport.call("definitions.check", data)

    def delete(self, definition: str) -> sdk.DeletedDefinition:
        """Delete a definition with all its records."""
        return self._transport.call("definitions.delete", {"definition": definition})

    def records(self, definition: str) -> Sequence[sdk.MemoryRecord]:
        """List the records of a definition, of all owners."""
        found = pages(self._transport, "definitions.records", "records", {"definition": definition})
        return [one for one in found]

    def bind(
        self, definitions: Sequence[str] | None = None, owner: str | None = None, **where: Unpack[sdk.Binding]
    ) -> WorkingMemory:
        """Load the working memory of an owner: under these definitions, by id or slug, or under all global ones. Callers that are
        limited to a user may omit `owner`."""
        at = {**where} | omit_none(owner=owner, definitions=None if definitions is None else to_list(definitions))
        bound: sdk.Bound = self._transport.call("definitions.bind", at)
        return WorkingMemory(self._transport, at, bound)

    def end(self, *, run: str | None = None, thread: str | None = None, owner: str | None = None) -> sdk.Forgotten:
        """Delete the records of a run or a thread that is over, of one owner or of all."""
        return self._transport.call("definitions.end", omit_none(run=run, thread=thread, owner=owner))


class WorkingMemory(Handle):
    """The working memory of an owner, for a model: `values`, `prompt()`, `tool()`, and `update()` for calls of the tool."""

    def __init__(self, transport: Transport, at: Mapping[str, Any], bound: sdk.Bound) -> None:
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

    def update(
        self, memory: Mapping[str, Any] | str, *, mode: str | None = None, if_match: Mapping[str, str] | None = None
    ) -> sdk.Updated:
        """Write values by slug, all or none. `memory` may also be the arguments of a call of the tool, as an object or as JSON.
        If another value no longer fits its schema, that is a warning in `bound.warnings`, even with `strict`."""
        values = self._values(to_object(parse_arguments(memory), "memory"))
        at = {name: self._at[name] for name in _WHERE if name in self._at}
        data = {**at, "memory": values, **omit_none(mode=mode, if_match=if_match)}
        made: sdk.Updated = self._transport.call("definitions.update_memory", data)
        self._reload(values)
        return made

    def refresh(self) -> None:
        """Load the values again."""
        self.bound = self._transport.call("definitions.bind", self._at)

    def delete(self, definition: str) -> sdk.Forgotten:
        """Delete the record of the owner under one definition."""
        whose: dict[str, Any] = {name: self._at[name] for name in _WHOSE if name in self._at}
        gone: sdk.Forgotten = self._transport.call("definitions.delete_memory", {**whose, "definition": definition})
        self._reload([definition])
        return gone

    def _reload(self, changed: Iterable[str]) -> None:
        """Load the values again after a change. Problems become warnings: an error would make callers repeat the change."""
        at = {name: value for name, value in self._at.items() if name != "strict"}
        try:
            self.bound = self._transport.call("definitions.bind", at)
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
