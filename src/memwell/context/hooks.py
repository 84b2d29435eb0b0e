"""Prompt hooks: templates for prompts, stored by name and selected by rules (system S4).

This module has the stored form of a hook, the checks of its rules and its template, and the operations that create, list,
change and delete hooks. `hook_resolution` selects a hook for a request and renders its prompt.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from ..core.catalog import Catalog, Item, Version, encode_settings, to_response
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.settings import create_request, response, update_request
from ..core.space import Space
from ..errors import Conflict, Invalid, TooLarge
from ..model.fields import ID_PATTERN, check_content, check_json, id_limits, to_json
from ..text import yaml
from ..text.fence import clean_line
from . import template
from .template import BARE, NAMESPACE, MemoryValues, Template

MAX_TEMPLATE = 256 * 1024
MAX_TOTAL = 16 * 1024 * 1024
"""The most bytes of all hooks of a tenant together, because a selection by rules reads all of them."""
MAX_YAML = 32 * 1024
MAX_LEVELS = 8
MAX_RULE_ITEMS = 1000

MEMORY = "memory_context"
PLAIN = (
    "user_id",
    "organization_id",
    "tool_name",
    "session_id",
    "schema_database_id",
    "agent_id",
    "agent_version",
    "schema_mode",
    "tool_intent",
)
"""Variables that are named like fields of the context."""
LISTS = {"grants": "grant_names_csv", "table_names": "schema_table_names_csv", "domain_tags": "schema_domain_tags_csv"}
"""Lists of the context, and the variables that contain them, separated by commas."""
HEADER = re.compile(r"header_[a-z0-9_]+")
_KNOWN = (*PLAIN, *LISTS.values(), "header_<name>", MEMORY, "memory.<store or definition>.<path>")
"""The variables of templates, as errors name them."""

Names = tuple[str, ...]


class RequestRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on the request. One item of each list must match, and all headers."""

    organization_ids: Names = ()
    user_ids: Names = ()
    tools: Names = ()
    session_ids: Names = ()
    grants: Names = ()
    headers: dict[str, str] = {}


class SchemaRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on the data of the request. One item of each list must match."""

    database_ids: Names = ()
    table_names: Names = ()
    domain_tags: Names = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The requests that a hook is for. Empty conditions match every request; case does not matter."""

    request: RequestRules = RequestRules()
    schema: SchemaRules = SchemaRules()


_SECTIONS: dict[str, type[RequestRules | SchemaRules]] = {"request": RequestRules, "schema": SchemaRules}


HookId = Annotated[str, id_limits(64, "The hook's id, a UUID.")]
Name = Annotated[str, id_limits(255, "1 to 255 characters.")]
Description = Annotated[str, Meta(max_length=1000, description="The purpose of the hook: at most 1,000 characters.")]
Enabled = Annotated[bool, Meta(description="True if the hook can be selected.")]
Priority = Annotated[
    int, Meta(ge=-1_000_000, le=1_000_000, description="The matching hook with the highest priority is selected.")
]
SelectorKey = Annotated[
    str, Meta(max_length=256, pattern=ID_PATTERN, description="A unique name by which callers can select the hook.")
]
MarkdownTemplate = Annotated[
    str,
    Meta(
        description=f"The prompt, with variables such as {{{{user_id}}}} and {{{{memory_context}}}}: at most "
        f"{MAX_TEMPLATE // 1024} Ki characters.",
        extra_json_schema={"minLength": 1},
    ),
]
RulesField = Annotated[
    dict[str, Any],
    Meta(
        description='The requests that the hook is for, such as {"request": {"tools": ["query"]}, "schema": '
        '{"domain_tags": ["sales"]}}; all requests if empty.'
    ),
]
RulesYaml = Annotated[str, Meta(description=f"The rules as YAML instead, at most {MAX_YAML // 1024} Ki characters.")]


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a hook, as they are stored."""

    markdown_template: MarkdownTemplate
    description: Description | None = None
    enabled: Enabled = True
    priority: Priority = 0
    selector_key: SelectorKey | None = None
    matching_rules: Rules = msgspec.field(name="rules", default=Rules())
    matching_rules_yaml: RulesYaml | None = msgspec.field(name="rules_yaml", default=None)
    """The source of the rules, if it was YAML."""


HOOKS = Catalog("hook", Hook)
HookItem = Item[Hook]


# -- operations ----------------------------------------------------------------------------------------------------------


_NEW = {
    "name": "Analyst",
    "markdown_template": "You help {{user_id}}.\n\n{{memory_context}}",
    "matching_rules": {"request": {"tools": ["query"]}},
}
GIVEN = (("hooks.create", _NEW),)
OF_HOOK = {"id": "$0.id"}


@response(Hook, after="priority")
class HookInfo(Hook, Response, frozen=True, kw_only=True):
    """A prompt hook."""

    id: str
    name: str
    enabled: bool
    priority: int
    created_at: datetime
    updated_at: datetime
    version: int


class DeletedHook(Response, frozen=True, kw_only=True):
    """A hook that was deleted."""

    id: str
    name: str


@create_request(Hook)
class CreateHook(Request, frozen=True, kw_only=True):
    """A new hook."""

    name: Name
    matching_rules: RulesField | None = None
    matching_rules_yaml: RulesYaml | None = None


@operation(
    "hooks.create",
    "POST /api/prompt-hooks",
    effect="write",
    role="admin",
    status=201,
    envelope=True,
    example=Example(_NEW),
)
def create_hook(space: Space, request: CreateHook) -> HookInfo:
    """Create a prompt hook. Its template is rendered once as a check, so that an unknown variable is an error."""
    hook = Hook(**_parse_settings(request))
    parse_template(hook.markdown_template)
    name = check_content(request.name, field="name")
    _check_other_hooks(space, hook, None)
    return to_response(HookInfo, HOOKS.add(space, hook, name=name))


@operation("hooks.list", "GET /api/prompt-hooks", envelope=True, example=Example({}, GIVEN))
def list_hooks(space: Space, request: NoFields) -> list[HookInfo]:
    """List all prompt hooks, the highest priority first."""
    return [to_response(HookInfo, one) for one in sorted(HOOKS.list(space), key=priority_order)]


class OfHook(Request, frozen=True, kw_only=True):
    """A hook."""

    id: HookId


@operation("hooks.get", "GET /api/prompt-hooks/{id}", envelope=True, example=Example(OF_HOOK, GIVEN))
def get_hook(space: Space, request: OfHook) -> HookInfo:
    """Return a prompt hook."""
    return to_response(HookInfo, HOOKS.require(space, request.id))


@update_request(Hook)
class UpdateHook(Request, frozen=True, kw_only=True):
    """The fields of a hook to change. Omitted ones stay; an empty text or object clears a field."""

    id: HookId
    name: Name | None = None
    matching_rules: RulesField | None = None
    matching_rules_yaml: RulesYaml | None = None
    version: Version | None = None


@operation(
    "hooks.update",
    "PUT /api/prompt-hooks/{id}",
    effect="write",
    role="admin",
    envelope=True,
    example=Example({**OF_HOOK, "priority": 10}, GIVEN),
)
def update_hook(space: Space, request: UpdateHook) -> HookInfo:
    """Change a prompt hook. Its template and rules are checked like those of a new one."""
    item = HOOKS.require(space, request.id)
    HOOKS.check_request(request, item)
    hook = structs.replace(item.settings, **_parse_settings(request))
    parse_template(hook.markdown_template)
    name = None if request.name is None else check_content(request.name, field="name")
    _check_other_hooks(space, hook, item.id)
    return to_response(HookInfo, HOOKS.update(space, item, hook, name=name))


@operation(
    "hooks.delete",
    "DELETE /api/prompt-hooks/{id}",
    effect="erase",
    role="admin",
    envelope=True,
    example=Example(OF_HOOK, GIVEN),
)
def delete_hook(space: Space, request: OfHook) -> DeletedHook:
    """Delete a prompt hook."""
    item = HOOKS.require(space, request.id)
    HOOKS.delete(space, item.id)
    return DeletedHook(id=item.id, name=item.name)


def priority_order(item: HookItem) -> tuple[int, str, str]:
    return -item.settings.priority, item.name, item.id


def _parse_settings(request: CreateHook | UpdateHook) -> dict[str, Any]:
    """Return the settings that a request gives, as they are stored."""
    given = HOOKS.changes(request)
    for name in ("description", "selector_key"):
        if name in given:
            given[name] = check_content(given[name], field=name, may_be_empty=True) or None
    source = given.pop("matching_rules_yaml", None)
    rules = parse_rules(given.pop("matching_rules", None), source)
    return given if rules is None else given | {"matching_rules": rules, "matching_rules_yaml": source or None}


def _check_other_hooks(space: Space, hook: Hook, hook_id: str | None) -> None:
    """Check that the selector key is unique and that all hooks together are small enough."""
    others = [one for one in HOOKS.list(space) if one.id != hook_id]
    size = sum(len(encode_settings(one).encode()) for one in (hook, *(other.settings for other in others)))
    if size > MAX_TOTAL:
        raise Conflict(f"All hooks together have at most {MAX_TOTAL // 1024 // 1024} MiB: shorten or delete some.")
    if hook.selector_key is None:
        return
    for other in others:
        if other.settings.selector_key == hook.selector_key:
            raise Conflict(
                f"The hook {other.name!r} ({other.id}) already has the selector key {hook.selector_key!r}.",
                field="selector_key",
            )


# -- templates -----------------------------------------------------------------------------------------------------------


def parse_template(text: str) -> Template:
    """Parse a template, and check that it renders for every request (C18, B4.7)."""
    if len(text) > MAX_TEMPLATE:
        raise TooLarge(
            f"`markdown_template` has at most {MAX_TEMPLATE // 1024} Ki characters: make it shorter.",
            field="markdown_template",
        )
    parsed = template.parse(check_content(text, field="markdown_template"))
    for expression in template.list_expressions(parsed):
        name = expression.source
        known = name in PLAIN or name in LISTS.values() or name == MEMORY or HEADER.fullmatch(name)
        bare = expression.namespace == BARE and expression.path == (name,)
        if expression.namespace != NAMESPACE and not (known and bare):
            hint = f" Add the name of a memory: `{NAMESPACE}.<name>`." if name == NAMESPACE else ""
            line, column = expression.line, expression.column
            raise Invalid(
                f"Template, line {line}, column {column}: there is no variable {reprlib.repr(name)}.{hint} "
                f"Known: {', '.join(f'`{one}`' for one in _KNOWN)}.",
                field="markdown_template",
                line=line,
                column=column,
            )
    render_prompt(parsed, {}, MemoryValues(lambda name: (None, None)))
    return parsed


def render_prompt(parsed: Template, variables: Mapping[str, str], memory: MemoryValues) -> str:
    """Render a template. Variables and memories without a value are empty. Values can forge no tag of a chat."""
    names = {one.source for one in template.list_expressions(parsed)}
    values = {name: clean_line(variables.get(name, "")) for name in names}
    lookup = {BARE: values, NAMESPACE: memory}
    return template.render(parsed, lookup, missing="empty", on_one_line=(NAMESPACE,)).text


# -- rules ---------------------------------------------------------------------------------------------------------------


def parse_rules(rules: Mapping[str, Any] | None, rules_yaml: str | None) -> Rules | None:
    """Parse the rules of a request from JSON or YAML. Return None if it has none."""
    if rules is not None and rules_yaml is not None:
        raise Invalid("Give either `matching_rules` or `matching_rules_yaml`.", field="matching_rules")
    if rules is not None:
        to_json(rules, "matching_rules", MAX_YAML)
        return _build_rules(rules, "matching_rules")
    if rules_yaml is not None:
        value = yaml.parse(rules_yaml, "matching_rules_yaml", longest=MAX_YAML, deepest=MAX_LEVELS)
        check_json(value, "matching_rules_yaml")
        return _build_rules(value, "matching_rules_yaml")
    return None


def _build_rules(value: Any, field: str) -> Rules:
    sections = {}
    for name, section in _check_object(value, tuple(_SECTIONS), field).items():
        struct, path = _SECTIONS[name], f"{field}.{name}"
        rules = _check_object(section, struct.__struct_fields__, path)
        sections[name] = struct(**{rule: _parse_rule(rule, item, f"{path}.{rule}") for rule, item in rules.items()})
    return Rules(**sections)  # type: ignore[arg-type]


def _check_object(value: Any, names: tuple[str, ...], field: str) -> dict[str, Any]:
    """Return the fields of an object that are not null. Null itself is an empty object."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid(f"`{field}` must be an object.", field=field)
    for name in value:
        if name not in names:
            known = ", ".join(f"`{one}`" for one in names)
            raise Invalid(f"`{field}` has no {str(name)[:100]!r}. Its fields are {known}.", field=field)
    return {name: item for name, item in value.items() if item is not None}


def _parse_rule(name: str, value: Any, field: str) -> Any:
    if name == "headers":
        if not isinstance(value, Mapping):
            raise Invalid(f"`{field}` must be an object: the name of each header and its value.", field=field)
        return dict(zip(_to_texts(value, field), _to_texts(value.values(), field), strict=True))
    if not isinstance(value, list | tuple):
        raise Invalid(f"`{field}` must be a list.", field=field)
    return tuple(_to_texts(value, field))


def _to_texts(values: Iterable[Any], field: str) -> list[str]:
    texts = []
    for value in values:
        # An empty text would match nothing, or more than intended.
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise Invalid(f"`{field}` can only contain texts that are not empty, and whole numbers.", field=field)
        texts.append(str(value).strip())
    if len(texts) > MAX_RULE_ITEMS:
        raise Invalid(f"`{field}` has at most {MAX_RULE_ITEMS} items.", field=field)
    return texts
