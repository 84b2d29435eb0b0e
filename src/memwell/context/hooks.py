"""From a hook's template to a prompt: checked when it is saved, rendered in one pass when it is asked for (C18, B4.7)."""

from __future__ import annotations

import reprlib
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, structs

from ..clock import to_datetime
from ..core import documents
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Conflict, Invalid, Stale, TooLarge
from ..model import check
from ..model.fields import ID_PATTERN
from . import template
from .hook_rules import (
    KIND,
    KNOWN,
    MAX_YAML,
    MEMORY,
    Asked,
    Candidate,
    Hook,
    Rules,
    decoded,
    encoded,
    known,
    rules_from_json,
    rules_from_yaml,
)
from .template import BARE, NAMESPACE, Expression, Recalled, Template

MAX_TEMPLATE = 256 * 1024


class Prompt(NamedTuple):
    """A rendered template, what its variables stood for, and what is withheld from it (C24)."""

    text: str
    variables: dict[str, str]
    warnings: list[str]


def checked(text: str) -> Template:
    """A template that can be rendered whatever a request brings, or an error that says what to change, and where."""
    if len(text) > MAX_TEMPLATE:
        raise TooLarge(
            f"`markdown_template` has at most {MAX_TEMPLATE // 1024} Ki characters: make it shorter.",
            field="markdown_template",
        )
    parsed = template.parse(check.content(text, field="markdown_template"))
    for expression in template.names(parsed):
        _check_known(expression)
    _rendered(parsed, {}, Recalled(lambda name: (None, None)))
    return parsed


def prompt(parsed: Template, asked: Asked, memory: Callable[[], str], recalled: Recalled) -> Prompt:
    """The prompt for a request. The log of a session, and what is recalled, are read only if the template shows them."""
    variables = asked.variables()
    if MEMORY in _used(parsed):
        variables[MEMORY] = memory()
    return Prompt(_rendered(parsed, variables, recalled), variables, recalled.warnings)


def _rendered(parsed: Template, variables: Mapping[str, str], recalled: Recalled) -> str:
    """What no request has said is empty, and so is what nothing is remembered of."""
    values = {name: variables.get(name, "") for name in _used(parsed)}
    lookup = {BARE: values, NAMESPACE: recalled}
    return template.render(parsed, lookup, missing="empty", on_one_line=(NAMESPACE,)).text


def _used(parsed: Template) -> set[str]:
    return {expression.source for expression in template.names(parsed)}


def _check_known(expression: Expression) -> None:
    if expression.namespace == NAMESPACE:
        return
    if expression.namespace == BARE and expression.path == (expression.source,) and known(expression.source):
        return
    line, column = expression.line, expression.column
    missing = "" if expression.source != NAMESPACE else f" Name what is remembered behind it: `{NAMESPACE}.<name>`."
    raise Invalid(
        f"Template, line {line}, column {column}: there is no variable {reprlib.repr(expression.source)}.{missing} "
        f"Known: {', '.join(f'`{name}`' for name in KNOWN)}.",
        field="markdown_template",
        line=line,
        column=column,
    )


# -- Prompt hooks: templates for prompts, kept by name and chosen by rules (system S4).


MAX_TOGETHER = 16 * 1024 * 1024
"""How many bytes all hooks of a tenant have together: choosing by rules looks at each of them."""

HookId = Annotated[str, Meta(min_length=1, max_length=64, pattern=ID_PATTERN, description="The hook's id, a UUID.")]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=ID_PATTERN, description="1 to 255 characters.")]
Description = Annotated[str, Meta(max_length=1000, description="What the hook is for: at most 1,000 characters.")]
Enabled = Annotated[bool, Meta(description="A hook that is not enabled is never chosen.")]
Priority = Annotated[
    int, Meta(ge=-1_000_000, le=1_000_000, description="Of the hooks whose rules fit, the one with the highest wins.")
]
SelectorKey = Annotated[
    str,
    Meta(
        max_length=256,
        pattern=ID_PATTERN,
        description="A name by which callers may ask for the hook; no two have the same.",
    ),
]
MarkdownTemplate = Annotated[
    str,
    Meta(
        description=f"The prompt, with variables such as {{{{user_id}}}} and {{{{memory_context}}}}: at most "
        f"{MAX_TEMPLATE // 1024} Ki characters."
    ),
]
RulesField = Annotated[
    dict[str, Any],
    Meta(
        description='Which requests the hook is for, such as {"request": {"tools": ["query"]}, "schema": {"domain_tags": '
        '["sales"]}}; none: all.'
    ),
]
RulesYaml = Annotated[str, Meta(description=f"The rules as YAML instead, of at most {MAX_YAML // 1024} Ki characters.")]

_NEW = {
    "name": "Analyst",
    "markdown_template": "You help {{user_id}}.\n\n{{memory_context}}",
    "matching_rules": {"request": {"tools": ["query"]}},
}
GIVEN = (("hooks.create", _NEW),)
OF_HOOK = {"id": "$0.id"}


class HookInfo(Response, frozen=True, kw_only=True):
    """A prompt hook."""

    id: str
    name: str
    enabled: bool
    priority: int
    markdown_template: str
    matching_rules: Rules
    created_at: datetime
    updated_at: datetime
    version: int
    description: str | None = None
    selector_key: str | None = None
    matching_rules_yaml: str | None = None


class DeletedHook(Response, frozen=True, kw_only=True):
    """A hook that is gone."""

    id: str
    name: str


class CreateHook(Request, frozen=True, kw_only=True):
    """A hook to make."""

    name: Name
    markdown_template: MarkdownTemplate
    description: Description | None = None
    enabled: Enabled = True
    priority: Priority = 0
    selector_key: SelectorKey | None = None
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
def create(space: Space, request: CreateHook) -> HookInfo:
    """Make a prompt hook. Its template is tried out first: one with an unknown variable is refused."""
    hook = _changed(Hook(markdown_template=request.markdown_template), request)
    name = check.content(request.name, field="name")
    document = Document(str(uuid.uuid4()), name, 1, encoded(hook), space.now, space.now)
    _check_others(space, document, hook)
    documents.add(space.tx, KIND, document)
    return _info(document, hook)


class ListHooks(Request, frozen=True, kw_only=True):
    """Nothing: there are not many."""


@operation("hooks.list", "GET /api/prompt-hooks", envelope=True, example=Example({}, GIVEN))
def list_hooks(space: Space, request: ListHooks) -> list[HookInfo]:
    """All prompt hooks, those with the highest priority first."""
    found = [_info(one, decoded(one.body)) for one in documents.every(space.tx, KIND)]
    return sorted(found, key=lambda hook: (-hook.priority, hook.name, hook.id))


class OfHook(Request, frozen=True, kw_only=True):
    """Which hook."""

    id: HookId


@operation("hooks.get", "GET /api/prompt-hooks/{id}", envelope=True, example=Example(OF_HOOK, GIVEN))
def get(space: Space, request: OfHook) -> HookInfo:
    """A prompt hook."""
    found = documents.existing(space.tx, KIND, request.id)
    return _info(found, decoded(found.body))


class UpdateHook(Request, frozen=True, kw_only=True):
    """What to change of a hook. What is left away stays; an empty text or object clears a field."""

    id: HookId
    name: Name | None = None
    markdown_template: MarkdownTemplate | None = None
    description: Description | None = None
    enabled: Enabled | None = None
    priority: Priority | None = None
    selector_key: SelectorKey | None = None
    matching_rules: RulesField | None = None
    matching_rules_yaml: RulesYaml | None = None
    version: (
        Annotated[int, Meta(ge=1, description="The version that was read, to be told of changes since.")] | None
    ) = None


@operation(
    "hooks.update",
    "PUT /api/prompt-hooks/{id}",
    effect="write",
    role="admin",
    envelope=True,
    example=Example({**OF_HOOK, "priority": 10}, GIVEN),
)
def update(space: Space, request: UpdateHook) -> HookInfo:
    """Change a prompt hook. The template and the rules that it then has are tried out as for a new one."""
    old = documents.existing(space.tx, KIND, request.id)
    if request.version not in (None, old.version):
        raise Stale(f"The current version is {old.version}: read it again and repeat the change.", version=old.version)
    hook = _changed(decoded(old.body), request)
    name = old.name if request.name is None else check.content(request.name, field="name")
    _check_others(space, old._replace(body=encoded(hook)), hook)
    return _info(documents.change(space.tx, KIND, old, name, encoded(hook), space.now), hook)


@operation(
    "hooks.delete",
    "DELETE /api/prompt-hooks/{id}",
    effect="erase",
    role="admin",
    envelope=True,
    example=Example(OF_HOOK, GIVEN),
)
def delete(space: Space, request: OfHook) -> DeletedHook:
    """Delete a prompt hook."""
    gone = documents.existing(space.tx, KIND, request.id)
    documents.erase(space.tx, KIND, gone.id, space.now)
    return DeletedHook(id=gone.id, name=gone.name)


# -- what others use -----------------------------------------------------------------------------------------------------


def candidate(document: Document) -> Candidate:
    return Candidate(document.id, document.name, decoded(document.body))


def rules_of(request: Any) -> tuple[Rules, str | None] | None:
    """The rules in a request and, if they are YAML, as they are written; None if it has none."""
    if request.matching_rules is not None and request.matching_rules_yaml is not None:
        raise Invalid("Give either `matching_rules` or `matching_rules_yaml`.", field="matching_rules")
    if request.matching_rules is not None:
        return rules_from_json(request.matching_rules), None
    if request.matching_rules_yaml is not None:
        return rules_from_yaml(request.matching_rules_yaml), request.matching_rules_yaml or None
    return None


def _changed(hook: Hook, request: CreateHook | UpdateHook) -> Hook:
    """A hook with what a request says, if it can be rendered."""
    changes: dict[str, Any] = {}
    for name in ("description", "selector_key"):
        if (text := getattr(request, name)) is not None:
            changes[name] = check.content(text, field=name, may_be_empty=True) or None
    for name in ("markdown_template", "enabled", "priority"):
        if (value := getattr(request, name)) is not None:
            changes[name] = value
    if (rules := rules_of(request)) is not None:
        changes["rules"], changes["rules_yaml"] = rules
    changed = structs.replace(hook, **changes)
    checked(changed.markdown_template)
    return changed


def _check_others(space: Space, document: Document, hook: Hook) -> None:
    """A key belongs to one hook, and all together must stay small enough to be looked at."""
    others = [one for one in documents.every(space.tx, KIND) if one.id != document.id]
    if len(document.body.encode()) + sum(len(one.body.encode()) for one in others) > MAX_TOGETHER:
        raise Conflict(f"All hooks together have at most {MAX_TOGETHER // 1024 // 1024} MiB: shorten or delete some.")
    if hook.selector_key is None:
        return
    for other in map(candidate, others):
        if other.hook.selector_key == hook.selector_key:
            raise Conflict(
                f"The hook {other.name!r} ({other.id}) has the selector key {hook.selector_key!r} already.",
                field="selector_key",
            )


def _info(document: Document, hook: Hook) -> HookInfo:
    return HookInfo(
        id=document.id,
        name=document.name,
        enabled=hook.enabled,
        priority=hook.priority,
        markdown_template=hook.markdown_template,
        matching_rules=hook.rules,
        created_at=to_datetime(document.created_at),
        updated_at=to_datetime(document.updated_at),
        version=document.version,
        description=hook.description,
        selector_key=hook.selector_key,
        matching_rules_yaml=hook.rules_yaml,
    )
