"""A prompt hook: a template for a prompt, and the requests that it is meant for."""

from __future__ import annotations

import msgspec

from .. import typed

KIND = "hook"

Names = tuple[str, ...]


class RequestRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whose request it must be, and what it must carry. Of each list one must fit, of the headers all."""

    organization_ids: Names = ()
    user_ids: Names = ()
    tools: Names = ()
    session_ids: Names = ()
    grants: Names = ()
    headers: dict[str, str] = {}


class SchemaRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which data it must be about. Of each list one must fit."""

    database_ids: Names = ()
    table_names: Names = ()
    domain_tags: Names = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which requests a hook is for. What is empty asks for nothing; case does not matter."""

    request: RequestRules = RequestRules()
    schema: SchemaRules = SchemaRules()


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook is, as it is stored."""

    markdown_template: str
    description: str | None = None
    enabled: bool = True
    priority: int = 0
    selector_key: str | None = None
    rules: Rules = Rules()
    rules_yaml: str | None = None
    """The rules as they were written, if that was YAML."""


decoded = typed.decoder(Hook)


def encoded(hook: Hook) -> str:
    return msgspec.json.encode(hook).decode()
