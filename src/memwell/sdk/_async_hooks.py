"""The Python API, awaited: prompt hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from .values import omit_none

if TYPE_CHECKING:
    from ..context.hook_resolution import Preview, Resolution
    from ..context.hooks import DeletedHook, HookInfo
    from .transport import AsyncTransport
    from .types import HookChanges, HookSettings

    _Hooks = list[HookInfo]  # `list` is a method there


class AsyncHooks:
    """Prompt hooks: templates for prompts that can include the log of an agent."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, markdown_template: str, **settings: Unpack[HookSettings]) -> HookInfo:
        """Create a hook: `description`, `enabled`, `priority`, `selector_key`, `matching_rules` or `matching_rules_yaml`."""
        data = {"name": name, "markdown_template": markdown_template, **settings}
        return await self._transport.call("hooks.create", data)

    async def list(self) -> _Hooks:
        """List the hooks, the highest priority first."""
        return await self._transport.call("hooks.list", {})

    async def get(self, hook_id: str) -> HookInfo:
        """Return a hook by its id."""
        return await self._transport.call("hooks.get", {"id": hook_id})

    async def update(self, hook_id: str, **changes: Unpack[HookChanges]) -> HookInfo:
        """Change a hook; an empty text or object clears a field."""
        return await self._transport.call("hooks.update", {"id": hook_id, **changes})

    async def delete(self, hook_id: str) -> DeletedHook:
        """Delete a hook."""
        return await self._transport.call("hooks.delete", {"id": hook_id})

    async def preview(
        self,
        markdown_template: str,
        *,
        session_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        matching_rules: Mapping[str, Any] | None = None,
        matching_rules_yaml: str | None = None,
        max_entries: int | None = None,
        max_chars: int | None = None,
        app: str | None = None,
    ) -> Preview:
        """Try a template and rules without saving them."""
        data = omit_none(matching_rules=matching_rules, matching_rules_yaml=matching_rules_yaml)
        data |= omit_none(session_id=session_id, context=context, max_entries=max_entries, max_chars=max_chars, app=app)
        data |= {"markdown_template": markdown_template}
        return await self._transport.call("hooks.preview", data)

    async def resolve(
        self,
        hook_id: str | None = None,
        *,
        selector_key: str | None = None,
        session_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        max_entries: int | None = None,
        max_chars: int | None = None,
        app: str | None = None,
    ) -> Resolution:
        """Render the prompt of this hook, of the one with that selector key, or of the one whose rules match best."""
        data = omit_none(session_id=session_id, context=context, max_entries=max_entries, max_chars=max_chars, app=app)
        name = "hooks.resolve_any" if hook_id is None else "hooks.resolve"
        data |= omit_none(selector_key=selector_key) if hook_id is None else {"id": hook_id}
        return await self._transport.call(name, data)
