"""Select the hook for a request, and render its prompt with the request's variables and the log of its session.

A hook is selected by its id, by its selector key, or by rules and priority (B4.5, B4.6, B4.9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, structs

from ..clock import to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import AGENT_LOG
from ..core.space import Space
from ..errors import Ambiguous, Invalid, NotFound
from ..model.collection import Address, Entry
from ..model.fields import SessionId, check_identifier, to_json
from ..records.apps import AppName
from ..text.fence import clean_line
from . import template
from .hooks import (
    GIVEN,
    HEADER,
    HOOKS,
    LISTS,
    MEMORY,
    OF_HOOK,
    PLAIN,
    HookId,
    HookItem,
    MarkdownTemplate,
    Rules,
    RulesField,
    RulesYaml,
    SelectorKey,
    parse_rules,
    parse_template,
    priority_order,
    render_prompt,
)
from .memory_namespace import Scope, build_memory_values

# -- the context of a request --------------------------------------------------------------------------------------------


MAX_VALUE = 4000
MAX_ITEMS = 1000
_FIELDS = (*PLAIN, *LISTS, *LISTS.values(), "headers", "header_<name>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class HookContext(NamedTuple):
    """The context of a request, as rules and templates see it. Headers have the names of their variables."""

    plain: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]

    @property
    def session_id(self) -> str | None:
        return self.plain.get("session_id")

    def variables(self) -> dict[str, str]:
        """All variables except for the memory. Absent ones are empty."""
        plain = {name: self.plain.get(name, "") for name in PLAIN}
        lists = {variable: ",".join(self.lists.get(name, ())) for name, variable in LISTS.items()}
        return {**plain, **lists, **self.headers}


def parse_context(context: Mapping[str, Any] | None, session_id: str | None) -> HookContext:
    """Parse and check the context of a request. A null field counts as absent."""
    to_json(context, "context")
    fields = {name: value for name, value in (context or {}).items() if value is not None}
    for name in fields:
        if name == MEMORY:
            raise Invalid(
                "`memory_context` cannot be set: it is built from the log of `session_id`.", field=f"context.{name}"
            )
        if name not in _FIELDS and not HEADER.fullmatch(name):
            known = ", ".join(f"`{one}`" for one in _FIELDS)
            raise Invalid(f"A context has no {name[:100]!r}. It may contain {known}.", field="context")
    plain = {name: _check_text(fields[name], name) for name in PLAIN if name in fields}
    if session_id is not None:
        check_identifier(session_id, "session_id")
        if plain.get("session_id", session_id) != session_id:
            raise Invalid("`session_id` and `context.session_id` differ: give only one.", field="session_id")
        plain["session_id"] = session_id
    return HookContext(plain, _parse_lists(fields), _parse_headers(fields))


def _parse_lists(fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Parse the lists of a context. Each is a list or a text with commas."""
    lists: dict[str, tuple[str, ...]] = {}
    for name, variable in LISTS.items():
        if name in fields and variable in fields:
            raise Invalid(f"`context` has both `{name}` and `{variable}`: give only one.", field=f"context.{name}")
        if name in fields:
            value, path = fields[name], f"context.{name}"
            if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
                raise Invalid(f"`{path}` must be a list of at most {MAX_ITEMS} texts.", field=path)
            items = [_check_text(item, name) for item in value]
            if any("," in item for item in items):
                raise Invalid(f"`{path}` has an item with a comma in it: give two items.", field=path)
        elif variable in fields:
            items = _check_text(fields[variable], variable, MAX_VALUE * 10).split(",")
        else:
            continue
        lists[name] = tuple(item.strip() for item in items if item.strip())
    return lists


def _parse_headers(fields: Mapping[str, Any]) -> dict[str, str]:
    headers = fields.get("headers", {})
    if not isinstance(headers, Mapping):
        raise Invalid("`context.headers` must be an object of texts.", field="context.headers")
    variables = [(name, value) for name, value in fields.items() if HEADER.fullmatch(name)]
    found: dict[str, str] = {}
    for name, value in [*((_header_variable(name), value) for name, value in headers.items()), *variables]:
        if name in found:
            raise Invalid(f"Two headers are both `{name}`: give only one.", field="context.headers")
        found[name] = _check_text(value, name)
    return found


def _header_variable(name: str) -> str:
    """Convert `X-Region` to `header_x_region`."""
    return "header_" + re.sub(r"[^a-z0-9]", "_", name.strip().lower())


def _check_text(value: Any, name: str, max_length: int = MAX_VALUE) -> str:
    path = f"context.{name}"
    if not isinstance(value, str):
        raise Invalid(f"`{path}` must be text, not {type(value).__name__}.", field=path)
    if len(value) > max_length:
        raise Invalid(f"`{path}` has at most {max_length} characters.", field=path)
    if _CONTROL.search(value):
        raise Invalid(f"`{path}` contains a line break or another control character: remove it.", field=path)
    return value


# -- selecting -----------------------------------------------------------------------------------------------------------


MAX_LISTED = 10
"""The most hooks that an error lists."""
_RULE_FIELDS = {
    "organization_ids": "organization_id",
    "user_ids": "user_id",
    "tools": "tool_name",
    "session_ids": "session_id",
    "database_ids": "schema_database_id",
}
"""Rules on a single field of the context. The other rules are on its lists of the same name."""


def matches_rules(rules: Rules, context: HookContext) -> bool:
    """Return whether a context meets all rules. A missing field meets no rule."""
    conditions: dict[str, Any] = {**structs.asdict(rules.request), **structs.asdict(rules.schema)}
    for name, wanted in conditions.pop("headers").items():
        header = context.headers.get(_header_variable(name))
        if header is None or wanted.casefold() != header.strip().casefold():
            return False
    for rule, names in conditions.items():
        if rule in _RULE_FIELDS:
            value = context.plain.get(_RULE_FIELDS[rule])
            values: tuple[str, ...] = () if value is None else (value,)
        else:
            values = context.lists.get(rule, ())
        if names and {name.casefold() for name in names}.isdisjoint(value.strip().casefold() for value in values):
            return False
    return True


def _select_first(matches: list[HookItem]) -> HookItem | None:
    """Return the match with the highest priority. Raise `Ambiguous` if there are several."""
    top = [one for one in matches if one.settings.priority == matches[0].settings.priority]
    if len(top) > 1:
        listed = ", ".join(f"{one.name!r} ({one.id})" for one in top[:MAX_LISTED])
        more = f" and {len(top) - MAX_LISTED} more" if len(top) > MAX_LISTED else ""
        raise Ambiguous(
            f"The choice is ambiguous: {len(top)} hooks of priority {top[0].settings.priority} match: {listed}{more}. "
            "Give them different priorities or narrower rules, or select one by `hook_id` or `selector_key`.",
            hook_ids=[one.id for one in top],
        )
    return top[0] if top else None


# -- the log of the session ----------------------------------------------------------------------------------------------


PAGE = 20
"""Entries that are read at once. A small number, because few fit into a prompt."""
_ESCAPES = {char: char.encode("unicode_escape").decode() for char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_ESCAPE_BREAKS = str.maketrans(_ESCAPES)


def render_memory_context(space: Space, session_id: str | None, max_entries: int, max_chars: int) -> str:
    """Render the newest entries of a log in order, one per line, after a note on omitted ones (C19)."""
    address = None if session_id is None else space.address(AGENT_LOG, session_id)
    if address is None:
        return ""
    lines: list[str] = []
    room, left_out = max_chars, address.last_seq  # sequence numbers have no gaps
    for entry in _newest_first(space, address, max_entries):
        header = _render_header(entry)
        line = header + _render_content(entry.content[:room])  # cut first, because cleaning takes time
        size = max(len(line), len(header) + len(entry.content))
        if not lines and size > room:  # the newest entry is always shown
            mark = f" [… {size} characters in all]"
            line = line[: max(room - len(mark), 0)] + mark
            size = len(line)
        if size > room:
            break
        lines.append(line)
        room -= size + 1
        left_out = entry.seq - 1
    note = [f"[… {left_out} earlier {'entry' if left_out == 1 else 'entries'} left out]"] if left_out else []
    return "\n".join([*note, *reversed(lines)])


def _newest_first(space: Space, address: Address, most: int) -> Iterator[Entry]:
    before = address.last_seq + 1
    while most and before > 1 and (page := space.last(address, min(PAGE, most), before)):
        yield from reversed(page)
        before, most = page[0].seq, most - len(page)


def _render_header(entry: Entry) -> str:
    at = to_datetime(entry.recorded_at).isoformat().replace("+00:00", "Z")
    return f"[{at}] {entry.kind}: "


def _render_content(content: str) -> str:
    """Render the content of an entry on one line, so that it can forge neither another entry nor a message of a chat."""
    return clean_line(content.translate(_ESCAPE_BREAKS))


# -- operations ----------------------------------------------------------------------------------------------------------


MAX_IN_EVENT = 20
"""The most matching hooks that an event names."""

Reason = Literal["explicit_hook_id", "explicit_selector_key", "priority_match"]
ContextField = Annotated[
    dict[str, Any],
    Meta(
        description='Properties of the request, such as {"user_id": "u1", "tool_name": "query", "headers": '
        '{"X-Region": "eu"}, "grants": ["read"]}; at most 64 KiB.'
    ),
]
MaxEntries = Annotated[
    int, Meta(ge=1, le=10_000, description="The maximum number of log entries to show, the newest: 1 to 10,000.")
]
MaxChars = Annotated[
    int,
    Meta(
        ge=100,
        le=1_000_000,
        description="The maximum number of characters of the log to show, the newest: 100 to 1,000,000.",
    ),
]
AppField = Annotated[
    AppName, Meta(description="The app whose stores {{memory.…}} shows, for the context's user and session.")
]

_LOGGED = ("log.append", {"session": "abc-123", "entry_type": "observation", "content": "The report looked right."})
_REQUEST = {"session_id": "abc-123", "context": {"user_id": "alice", "tool_name": "query"}}


class Resolution(Response, frozen=True, kw_only=True):
    """The selected hook and its prompt, or null. `warnings` lists the values that are withheld from the prompt, with reasons, and
    says if the log in the prompt looks as if it held a secret."""

    selected_hook_id: str | None
    selected_hook_name: str | None
    rendered_prompt: str | None
    selection_reason: Reason | None
    matched_hook_ids: list[str]
    variables: dict[str, str]
    warnings: list[str] | None = None


class Preview(Response, frozen=True, kw_only=True):
    """The result that a hook would have. `warnings` lists the values that are withheld from the prompt, with reasons, and says if
    the log in the prompt looks as if it held a secret."""

    matches_context: bool
    rendered_prompt: str
    variables: dict[str, str]
    parsed_rules: Rules
    warnings: list[str] | None = None


class PromptRequest(Request, frozen=True, kw_only=True):
    """A request that needs a prompt. The log of its session is available as {{memory_context}}."""

    session_id: SessionId | None = None
    context: ContextField | None = None
    max_entries: MaxEntries = 1000
    max_chars: MaxChars = 100_000
    app: AppField | None = None


class PreviewHook(PromptRequest, frozen=True, kw_only=True):
    """A hook that is not stored, and a request to try it on."""

    markdown_template: MarkdownTemplate
    matching_rules: RulesField | None = None
    matching_rules_yaml: RulesYaml | None = None


@operation(
    "hooks.preview",
    "POST /api/prompt-hooks/preview",
    envelope=True,
    example=Example({"markdown_template": "You help {{user_id}}.\n{{memory_context}}", **_REQUEST}, (_LOGGED,)),
)
def preview_hook(space: Space, request: PreviewHook) -> Preview:
    """Try a template and rules on a request, without storing them."""
    rules = parse_rules(request.matching_rules, request.matching_rules_yaml) or Rules()
    parsed = parse_template(request.markdown_template)
    context = parse_context(request.context, request.session_id)
    prompt = _render_prompt(space, request, context, parsed)
    return Preview(matches_context=matches_rules(rules, context), parsed_rules=rules, **prompt)


class ResolveHook(PromptRequest, frozen=True, kw_only=True):
    """A hook, and the request for its prompt."""

    id: HookId


class ResolveAny(PromptRequest, frozen=True, kw_only=True):
    """A request that needs a prompt, and perhaps the id or selector key of a hook."""

    hook_id: HookId | None = None
    selector_key: SelectorKey | None = None


def _to_event(resolution: Resolution) -> dict[str, Any]:
    """Return the part of a resolution that goes into its event: never the prompt or its sources (B4.10)."""
    return {
        "hook_id": resolution.selected_hook_id,
        "hook_name": resolution.selected_hook_name,
        "reason": resolution.selection_reason,
        "matched_hook_ids": resolution.matched_hook_ids[:MAX_IN_EVENT],
    }


@operation(
    "hooks.resolve",
    "POST /api/prompt-hooks/{id}/resolve",
    envelope=True,
    tells=_to_event,
    example=Example({**OF_HOOK, **_REQUEST}, (*GIVEN, _LOGGED)),
)
def resolve_hook(space: Space, request: ResolveHook) -> Resolution:
    """Render the prompt of one hook for a request. Its template can show the log of the session."""
    context = parse_context(request.context, request.session_id)
    return _resolve(space, request, context, HOOKS.require(space, request.id), "explicit_hook_id")


@operation(
    "hooks.resolve_any",
    "POST /api/prompt-hooks/resolve",
    envelope=True,
    tells=_to_event,
    example=Example(_REQUEST, (*GIVEN, _LOGGED)),
)
def resolve_any_hook(space: Space, request: ResolveAny) -> Resolution:
    """Render the prompt for a request: of the hook with the given id or selector key, else of the best match."""
    context = parse_context(request.context, request.session_id)
    if request.hook_id is not None:
        check_identifier(request.hook_id, "hook_id")
        return _resolve(space, request, context, HOOKS.require(space, request.hook_id), "explicit_hook_id")
    hooks = HOOKS.list(space)
    if request.selector_key is not None:
        named = next((one for one in hooks if one.settings.selector_key == request.selector_key), None)
        if named is None:
            raise NotFound("There is no hook with that selector key.")
        return _resolve(space, request, context, named, "explicit_selector_key")
    matching = (one for one in hooks if one.settings.enabled and matches_rules(one.settings.matching_rules, context))
    matches = sorted(matching, key=priority_order)
    selected = _select_first(matches)
    if selected is None:
        return Resolution(
            selected_hook_id=None,
            selected_hook_name=None,
            rendered_prompt=None,
            selection_reason=None,
            matched_hook_ids=[],
            variables=context.variables(),
        )
    resolution = _resolve(space, request, context, selected, "priority_match")
    return structs.replace(resolution, matched_hook_ids=[one.id for one in matches])


def _resolve(space: Space, request: PromptRequest, context: HookContext, item: HookItem, reason: Reason) -> Resolution:
    if not item.settings.enabled:
        raise NotFound(f"The hook {item.name!r} is disabled: enable it first.")
    prompt = _render_prompt(space, request, context, parse_template(item.settings.markdown_template))
    return Resolution(
        selected_hook_id=item.id,
        selected_hook_name=item.name,
        selection_reason=reason,
        matched_hook_ids=[item.id],
        **prompt,
    )


def _render_prompt(
    space: Space, request: PromptRequest, context: HookContext, parsed: template.Template
) -> dict[str, Any]:
    """Return the prompt for a request, its variables, and warnings on withheld values (C24) and on a secret in the log. The log
    and the memories are read only if the template shows them."""
    variables, secret = context.variables(), None
    if any(one.source == MEMORY for one in template.list_expressions(parsed)):
        limits = (request.max_entries, request.max_chars)
        variables[MEMORY] = render_memory_context(space, context.session_id, *limits)
        from ..screening.secrets import warn_of_secret  # lazy: its patterns take a while to load

        secret = warn_of_secret(MEMORY, variables[MEMORY])
    memory = build_memory_values(space, Scope(request.app, context.plain.get("user_id") or None, context.session_id))
    text = render_prompt(parsed, variables, memory)
    return {
        "rendered_prompt": text,
        "variables": variables,
        "warnings": list(filter(None, [*memory.warnings, secret])) or None,
    }
