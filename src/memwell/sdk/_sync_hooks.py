"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, Unpack

from .. import sdk
from .transport import Transport
from .values import Handle, omit_none

_Hooks: TypeAlias = "list[sdk.HookInfo]"  # `list` is a method there


class Hooks(Handle):
    """Prompt hooks: templates for prompts that can include the log of an agent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, markdown_template: str, **settings: Unpack[sdk.HookSettings]) -> sdk.HookInfo:
        """Create a hook: `description`, `enabled`, `priority`, `selector_key`, `matching_rules` or `matching_rules_yaml`."""
        data = {"name": name, "markdown_template": markdown_template, **settings}
        return self._transport.call("hooks.create", data)

    def list(self) -> _Hooks:
        """List the hooks, the highest priority first."""
        return self._transport.call("hooks.list", {})

    def get(self, hook_id: str) -> sdk.HookInfo:
        """Return a hook by its id."""
        return self._transport.call("hooks.get", {"id": hook_id})

    def update(self, hook_id: str, **changes: Unpack[sdk.HookChanges]) -> sdk.HookInfo:
        """Change a hook; an empty text or object clears a field."""
        return self._transport.call("hooks.update", {"id": hook_id, **changes})

    def delete(self, hook_id: str) -> sdk.DeletedHook:
        """Delete a hook."""
        return self._transport.call("hooks.delete", {"id": hook_id})

    def preview(
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
    ) -> sdk.Preview:
        """Try a template and rules without saving them."""
        data = omit_none(matching_rules=matching_rules, matching_rules_yaml=matching_rules_yaml)
        data |= omit_none(session_id=session_id, context=context, max_entries=max_entries, max_chars=max_chars, app=app)
        data |= {"markdown_template": markdown_template}
        return self._transport.call("hooks.preview", data)

    def resolve(
        self,
        hook_id: str | None = None,
        *,
        selector_key: str | None = None,
        session_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        max_entries: int | None = None,
        max_chars: int | None = None,
        app: str | None = None,
    ) -> sdk.Resolution:
        """Render the prompt of this hook, of the one with that selector key, or of the one whose rules match best."""
        data = omit_none(session_id=session_id, context=context, max_entries=max_entries, max_chars=max_chars, app=app)
        name = "hooks.resolve_any" if hook_id is None else "hooks.resolve"
        data |= omit_none(selector_key=selector_key) if hook_id is None else {"id": hook_id}
        return self._transport.call(name, data)
