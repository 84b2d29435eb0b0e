"""Generate `sdk/types.py`: the keyword arguments of SDK methods as TypedDicts, from the fields of requests."""

from __future__ import annotations

import types
import typing
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from memwell.model.field_readers import has_reader, is_lifetime
from memwell.registry import require_operation

HEAD = '''"""Keyword arguments of SDK methods. Generated from the requests by `tools/sdk_types.py`: run `make format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from .values import Lifetime, Moment
'''
PLAIN = (str, int, float, bool, datetime)
OVERRIDES = {"unset": "str | Sequence[str]", "include": "Sequence[str]", "min_trust": "str", "if_match": "str | None"}


class Source(NamedTuple):
    """An operation whose request has the fields, and the fields that are separate arguments."""

    operation: str
    omit: str
    description: str


TYPES = {
    "Conditions": Source("users.search", "limit query session user", "Conditions of a search beside its query."),
    "BankSettings": Source("banks.create", "name", "Settings of a new bank."),
    "BankUpdate": Source("banks.update", "bank mode type", "Changes of a bank; `version` is the one that was read."),
    "BankPage": Source("banks.list", "", "Page, order and filter of a list of banks."),
    "Loading": Source("banks.load", "bank key", "Selection and form of the entries of a key."),
    "Days": Source("banks.stats", "bank", "The days to count: the last ones, or between two dates."),
    "Sampled": Source("banks.test_compaction", "bank", "Entries and prompt of a trial compaction."),
    "HookSettings": Source(
        "hooks.create", "markdown_template name", "Settings of a hook beside its name and template."
    ),
    "HookChanges": Source("hooks.update", "id", "Changes of a hook; `version` is the one that was read."),
    "Running": Source("runs.begin", "input wait workflow", "Options of a run beside its input."),
    "AppSettings": Source("apps.configure", "app", "Settings of an app."),
    "FileSettings": Source("apps.files.upload", "app content filename session_id", "Options of an upload."),
    "FileConditions": Source("apps.sessions.search", "app limit query session_id", "Conditions of a search in files."),
    "Executing": Source("apps.execute", "app message metadata session_id", "Options of a message to an app."),
    "SessionChanges": Source("apps.sessions.update", "app metadata session_id", "Options of a change of a session."),
    "StoreSettings": Source("stores.create", "app technical_name", "Settings of a store beside its technical name."),
    "StoreChanges": Source(
        "stores.update", "access app store technical_name", "Changes of a store; `version` is the one that was read."
    ),
    "ContentChange": Source(
        "stores.set_content", "app data session_id store user_id", "Mode and expected version of a write."
    ),
    "DefinitionSettings": Source("definitions.create", "name", "Settings of a definition beside its name."),
    "DefinitionChanges": Source(
        "definitions.update", "definition scope slug", "Changes of a definition; `version` is the one that was read."
    ),
    "DefinitionPage": Source("definitions.list", "", "Page, order and filter of a list of definitions."),
    "Binding": Source("definitions.bind", "definitions owner", "Scope of a working memory beside its owner."),
}


def generate() -> str:
    parts = [HEAD]
    for name, source in TYPES.items():
        request = require_operation(source.operation).request
        hints = typing.get_type_hints(request, include_extras=True)
        omit = source.omit.split()
        lines = []
        for field in msgspec.structs.fields(request):
            if field.name in omit:
                continue
            kind = render_type(hints[field.name])
            if has_reader(hints[field.name]):
                kind = "Lifetime" if is_lifetime(hints[field.name]) else "Moment"
            if field.default is None and not source.operation.endswith(".create"):
                kind = kind.removesuffix(" | None")  # it only means that the field was omitted
            lines.append(f"    {field.name}: {OVERRIDES.get(field.name, kind)}")
        parts.append(
            f'class {name}(TypedDict, total=False):\n    """{source.description}"""\n\n' + "\n".join(lines) + "\n"
        )
    return "\n\n".join(parts)


def render_type(hint: Any) -> str:
    """The type of a keyword argument. Structs are passed as mappings."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return render_type(arguments[0])
    if isinstance(hint, types.UnionType) or origin is typing.Union:
        members = [render_type(one) for one in arguments if one is not msgspec.UnsetType]
        return " | ".join(dict.fromkeys(members))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if hint is type(None):
        return "None"
    if origin is list:
        return f"Sequence[{render_type(arguments[0])}]"
    if hint in PLAIN:
        return str(hint.__name__)
    return "Any" if hint is Any else "Mapping[str, Any]"
