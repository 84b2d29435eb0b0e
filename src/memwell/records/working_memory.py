"""Working memory: the records of an owner under memory definitions, loaded for a model and updated together (S3.11–S3.41)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from ..clock import to_datetime
from ..core.catalog import Item, encode_settings
from ..core.operation import Example, Request, Response, operation
from ..core.owners import user_records
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound, TooLarge
from ..model.fields import MAX_ID, Cursor, Limit, from_cursor, id_limits, to_cursor
from ..text.fence import encode_compact, is_loud, render_line
from ..text.tokens import CHARACTERS_PER_TOKEN, estimate_tokens, share_out
from .definitions import (
    DEFINITIONS,
    GIVEN,
    OF,
    SLUG_ADVICE,
    SLUG_PATTERN,
    Definition,
    DefinitionId,
    UpdateMode,
    build_definition_contract,
    build_lasting_contract,
    definition_tie,
    find_definition,
    find_definition_by_slug,
    require_definition,
)
from .records import (
    MAX_BYTES,
    Contract,
    Edit,
    Record,
    delete_record,
    delete_tied,
    describe_version,
    find_record,
    list_tied_page,
)
from .schema_tree import ROOT, map_schema
from .validation import (
    MAX_LISTED,
    MAX_NAME,
    ValueWarning,
    build_misfit_error,
    error_at,
    fill_defaults,
    get_schema,
    list_misfits,
    write_valid,
)

HEADING = "# Working Memory"
TOOL = "update_memory"
TOOL_DESCRIPTION = (
    "Save stable facts and preferences to working memory. Give only the memories that change. {how} Do not store secrets, "
    "payment details or one-time message content."
)
_HOW = {
    "replace": "The value you give for a memory becomes its new value: include the fields to keep.",
    "merge": "Omitted fields stay as they are.",
    "both": "For {merged}, omitted fields stay as they are; for the others, the value you give becomes the new value.",
}
OTHERS = " Without `definitions`, only global ones can be written: name those of other scopes there."
BUDGET = 4000
"""Default number of tokens of working memory in a prompt."""
MIN_SHOWN = 24
"""Tokens of a line that is worth showing when it is cut."""
NOTE = 32
"""Tokens of a note about what is cut."""
CUT = " … (cut)"
CUT_VALUES = "({} of {} values are cut: there is no room for them.)"
CUT_MEMORIES = "({} memories are cut: there is no room for them.)"
NO_ROOM = f"all values together have at most {MAX_BYTES // 1024**2} MiB: bind fewer definitions at once"


class MemoryScope(NamedTuple):
    """An owner, and the workflow, thread and run that memory is loaded for."""

    owner: str
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None


class BoundMemory(NamedTuple):
    """The memory of an owner under one definition."""

    item: Item[Definition]
    value: dict[str, Any] | None = None
    """With the defaults of its schema; None if there is no record, or if it is withheld."""
    etag: str | None = None
    address_id: int | None = None
    """Set for a withheld record, too, because its warning is derived from it."""
    warning: str | None = None
    """The reason why the record is withheld."""
    writable: bool = True
    """True if a model may write it: False if the workflow, thread or run of its scope is missing, or it did not fit into the
    room."""

    @property
    def slug(self) -> str:
        return self.item.settings.slug


def list_bound(space: Space, names: Sequence[str] | None) -> list[Item[Definition]]:
    """Return definitions by id or slug, in the order of the names, or all global ones if `names` is None (S3.39)."""
    if names is None:
        found = [item for item in DEFINITIONS.list(space) if item.settings.scope == "global"]
        return sorted(found, key=lambda item: item.name)
    items = {name: find_definition(space, name) for name in dict.fromkeys(names)}
    missing = [name for name, item in items.items() if item is None]
    if missing:
        raise NotFound(f"Unable to find memory definition(s): {', '.join(missing)}.", definitions=missing)
    return list({item.id: item for item in items.values() if item is not None}.values())


def load_all(
    space: Space, items: Iterable[Item[Definition]], scope: MemoryScope, *, strict: bool = False
) -> list[BoundMemory]:
    """Load the memory of an owner under some definitions, in their order. When the room is used up, the rest is withheld without
    being read."""
    found = []
    room = MAX_BYTES
    for item in items:
        memory: BoundMemory | None = None
        if room >= 0:
            memory = load_memory(space, item, scope, strict=strict)
            room -= len(encode_settings(item.settings))
            room -= 0 if memory.value is None else len(msgspec.json.encode(memory.value))
        if memory is None or room < 0:
            room = -1
            if strict:
                raise TooLarge(f"`{item.settings.slug}` has no room: {NO_ROOM}.", limit=MAX_BYTES)
            address_id = None if memory is None else memory.address_id
            memory = BoundMemory(item, address_id=address_id, warning=NO_ROOM, writable=False)
        found.append(memory)
    return found


def load_memory(space: Space, item: Item[Definition], scope: MemoryScope, *, strict: bool = False) -> BoundMemory:
    """Load the record for an owner and a scope. A record that no longer fits its schema is withheld (C24)."""
    definition = item.settings
    path = find_path(definition, scope)
    if path is None:
        reason = f"it belongs to a {definition.scope}, and no `{definition.scope}` was given"
        return BoundMemory(item, warning=reason, writable=False)
    record = find_record(space, user_records(scope.owner), path)
    if record is None:
        return BoundMemory(item)
    contract = build_definition_contract(item.id, definition)
    problems = list_misfits(record.value, contract, space)
    if not problems:
        return BoundMemory(item, fill_defaults(record.value, contract), record.etag, record.address_id)
    error = build_misfit_error(problems, f"The stored value of {definition.slug!r}")
    if strict:
        raise error
    return BoundMemory(item, address_id=record.address_id, warning=error.message)


def find_path(definition: Definition, scope: MemoryScope) -> str | None:
    """Return the path of a record, or None if the workflow, thread or run of its scope is missing."""
    if definition.scope == "global":
        return definition.slug
    scope_id = getattr(scope, definition.scope)
    return None if scope_id is None else f"{definition.slug}@{definition.scope}/{scope_id}"


def render_withheld(name: str, reason: str) -> str:
    """Render a warning about a withheld memory."""
    return f"`{name}` is withheld: {reason}"


MAX_BOUND = 50
MAX_SHOWN_ID = 100

Who = Annotated[
    str, id_limits(MAX_ID, "The owner of the memory, such as a user. A key with the scope of a user can omit it.")
]
ScopeId = Annotated[str, id_limits(MAX_ID)]

Names = Annotated[
    list[DefinitionId],
    Meta(max_length=MAX_BOUND, description="Definitions by id or slug; omit it for all global definitions."),
]
Values = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_BOUND,
        description='New values by slug, such as {"customer_profile": {"preferred_name": "Ada"}}; one or several.',
    ),
]
Mode = Annotated[UpdateMode, Meta(description="`replace` or `merge`; omit it for the mode of each definition.")]
PromptBudget = Annotated[
    int,
    Meta(ge=50, le=1_000_000, description="Largest number of tokens of the text for the prompt; what is cut is named."),
]
Strict = Annotated[
    bool, Meta(description="Fail if a stored value no longer fits its schema, instead of returning a warning.")
]

_ADA = {"owner": "u1", "memory": {"customer_profile": {"preferred_name": "Ada"}}}
_WRITTEN = (*GIVEN, ("definitions.update_memory", _ADA))
_HUMP = re.compile(r"(?<=[a-z0-9]{2})(?P<name>[A-Z]+)(?![a-z])|(?:(?<=[a-z0-9]{2})|(?<=[A-Z]))(?P<word>[A-Z](?=[a-z]))")
"""Beginning of a word in a name such as `preferredName`, `userID` or `HTTPServer`, but not `iPhone`."""
_PATH = re.compile(r"(?P<slug>[^@]+)(?:@(?P<scope>workflow|thread|run)/(?P<id>.*))?", re.DOTALL)


class MemoryTool(Response, frozen=True, kw_only=True):
    """A tool for a model: `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Withheld(Response, frozen=True, kw_only=True):
    """A withheld memory, and the reason."""

    slug: str
    reason: str


class Bound(Response, frozen=True, kw_only=True):
    """Memory for a model: the values by slug, a text of them for the system prompt, and the tool that changes them. `prompt` is
    empty if there are no values, and `tool` is null if nothing can be written. `warnings` lists withheld values: they no longer
    fit their schema, or their workflow, thread or run is missing, or all values together would exceed 8 MiB; and those that the
    budget of the prompt has cut."""

    values: dict[str, Any]
    prompt: str
    tool: MemoryTool | None
    versions: dict[str, str]
    warnings: list[Withheld]


class _OfOwner(Request, frozen=True, kw_only=True):
    """An owner, and the workflow, thread and run that memory is loaded for."""

    owner: Who | None = None
    workflow: Annotated[ScopeId, Meta(description="The workflow, for definitions of that scope.")] | None = None
    thread: Annotated[ScopeId, Meta(description="The conversation, for definitions of that scope.")] | None = None
    run: Annotated[ScopeId, Meta(description="The run, for definitions of that scope.")] | None = None


class Bind(_OfOwner, frozen=True, kw_only=True):
    """Definitions to load for an owner."""

    definitions: Names | None = None
    strict: Strict = False
    budget: PromptBudget = BUDGET


@operation(
    "definitions.bind",
    "POST /v1/working_memory/bind",
    any_scope=True,
    example=Example({"definitions": ["customer_profile"], "owner": "u1"}, _WRITTEN),
)
def bind(space: Space, request: Bind) -> Bound:
    """Load working memory for a model: the values of an owner under some definitions, a text of them for the system prompt, and
    the tool that updates them."""
    scope = _resolve_scope(space, request)
    found = load_all(space, list_bound(space, request.definitions), scope, strict=request.strict)
    prompt, cut = render_memory(found, request.budget)
    withheld = {one.slug: one.warning for one in found if one.warning is not None}
    return Bound(
        values={one.slug: one.value for one in found if one.value is not None},
        prompt=prompt,
        tool=build_tool(found, cut),
        versions={one.slug: one.etag for one in found if one.etag is not None},
        warnings=[Withheld(slug=slug, reason=reason) for slug, reason in {**withheld, **cut}.items()],
    )


class UpdateMemory(_OfOwner, frozen=True, kw_only=True):
    """New values for memories of an owner. Only those in `definitions` can be written."""

    memory: Values
    definitions: Names | None = None
    mode: Mode | None = None
    if_match: (
        Annotated[
            dict[str, str],
            Meta(
                max_length=MAX_BOUND,
                description="The etags that were read, by slug. If one has changed, nothing is written.",
            ),
        ]
        | None
    ) = None


class Updated(Response, frozen=True, kw_only=True):
    """The new values, by slug."""

    memory: dict[str, Any]
    versions: dict[str, str]
    warnings: dict[str, list[ValueWarning]] | None = None


@operation(
    "definitions.update_memory",
    "PATCH /v1/working_memory",
    effect="write",
    any_scope=True,
    example=Example(_ADA, GIVEN),
)
def update_memory(space: Space, request: UpdateMemory) -> Updated:
    """Write working memory, all values or none. Checks first that the names are slugs, then that they are known, then that each
    value fits its schema."""
    return write_memory(space, request, _resolve_scope(space, request))


class OfRecord(_OfOwner, frozen=True, kw_only=True):
    """The memory of an owner under a definition."""

    definition: DefinitionId


class Forgotten(Response, frozen=True, kw_only=True):
    """The number of deleted records, and the job that erases their bytes."""

    records: int
    job: str | None = None


@operation(
    "definitions.delete_memory",
    "DELETE /v1/memory_definitions/{definition}/memory",
    effect="erase",
    any_scope=True,
    example=Example({**OF, "owner": "u1"}, _WRITTEN),
)
def delete_memory(space: Space, request: OfRecord) -> Forgotten:
    """Delete the memory of an owner under a definition, with its history."""
    scope = _resolve_scope(space, request)
    definition = require_definition(space, request.definition).settings
    job = delete_record(space, user_records(scope.owner), require_path(definition, scope))
    return Forgotten(records=int(job is not None), job=job)


class EndScope(Request, frozen=True, kw_only=True):
    """A run or a thread that has ended."""

    run: Annotated[ScopeId, Meta(description="The run that has ended.")] | None = None
    thread: Annotated[ScopeId, Meta(description="The thread that has ended.")] | None = None
    owner: (
        Annotated[str, id_limits(MAX_ID, "Only the memory of this owner; omit it for that of all owners.")] | None
    ) = None


@operation("definitions.end", "POST /v1/working_memory/end", effect="erase", example=Example({"run": "run-7"}, GIVEN))
def end(space: Space, request: EndScope) -> Forgotten:
    """Delete the memory of a run or a thread that has ended. For workflow runs, the engine does this by itself."""
    if (request.run is None) == (request.thread is None):
        raise Invalid("Give either `run` or `thread`.", field="run")
    tie = f"run/{request.run}" if request.run is not None else f"thread/{request.thread}"
    job, count = delete_tied(space, tie, place=None if request.owner is None else user_records(request.owner))
    return Forgotten(records=count, job=job)


class MemoryRecord(Response, frozen=True, kw_only=True):
    """A record: its owner, its scope and its value."""

    owner: str
    value: dict[str, Any]
    version: int
    etag: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None


class MemoryRecords(Response, frozen=True, kw_only=True):
    """Records of a definition."""

    records: list[MemoryRecord]
    next_cursor: str | None = None


class ListRecords(Request, frozen=True, kw_only=True):
    """The definition to list the records of."""

    definition: DefinitionId
    limit: Limit = 50
    cursor: Cursor | None = None


@operation(
    "definitions.records",
    "GET /v1/memory_definitions/{definition}/records",
    role="admin",
    example=Example(OF, _WRITTEN),
)
def list_records(space: Space, request: ListRecords) -> MemoryRecords:
    """List the records of a definition, of all owners. A page holds at most 8 MiB."""
    item = require_definition(space, request.definition)
    (after,) = from_cursor("definition", request.cursor, 0)
    page, more = list_tied_page(space, definition_tie(item.id), after, request.limit)
    found = []
    for record, owner in page:
        scope = _PATH.fullmatch(record.path)
        ids: dict[str, Any] = {} if scope is None or scope["scope"] is None else {scope["scope"]: scope["id"]}
        stored = describe_version(record) | {"created_at": to_datetime(record.created_at)}
        found.append(MemoryRecord(owner=owner, value=record.value, **stored, **ids))
    further = to_cursor("definition", page[-1][0].address_id) if more else None
    return MemoryRecords(records=found, next_cursor=further)


def write_memory(space: Space, request: UpdateMemory, scope: MemoryScope) -> Updated:
    """Write values, all or none (C4). The order of the checks is that of S3.41."""
    slugs = list(request.memory)
    for slug in slugs:
        if not re.fullmatch(SLUG_PATTERN, slug):
            raise Invalid(f"{SLUG_ADVICE}: {slug[:MAX_SHOWN_ID]!r}.", field="memory")
        if len(slug) > MAX_NAME:
            raise Invalid(f"A slug has at most {MAX_NAME} characters: {slug[:MAX_SHOWN_ID]!r}….", field="memory")
    known = _require_known(space, slugs, request.definitions)
    for slug in request.if_match or {}:
        if slug not in request.memory:
            raise Invalid(f"`if_match` names {slug[:MAX_SHOWN_ID]!r}, which is not written.", field="if_match")
    values: dict[str, Any] = {}
    versions: dict[str, str] = {}
    warnings: dict[str, list[ValueWarning]] = {}
    for slug in slugs:
        record, found = _write_one(space, known[slug], request, scope)
        values[slug], versions[slug] = record.value, record.etag
        if found:
            warnings[slug] = found
    return Updated(memory=values, versions=versions, warnings=warnings or None)


def _resolve_scope(space: Space, request: _OfOwner) -> MemoryScope:
    """Return the owner and scope of a request. For a scoped key, the owner is its user by default, and must be its user."""
    owner = request.owner or space.principal.user
    if owner is None:
        raise Invalid("An owner id is required: give `owner`.", field="owner")
    space.principal.require_user(owner)
    return MemoryScope(owner, request.workflow, request.thread, request.run)


def require_path(definition: Definition, scope: MemoryScope) -> str:
    path = find_path(definition, scope)
    if path is None:
        kind = definition.scope
        raise Invalid(f"{kind.capitalize()} id is required to update {kind}-scoped memory.", field=kind)
    return path


def _require_known(space: Space, slugs: Iterable[str], names: Sequence[str] | None) -> dict[str, Item[Definition]]:
    if names is None:
        found = [find_definition_by_slug(space, slug) for slug in slugs]
        items = [item for item in found if item is not None and item.settings.scope == "global"]
    else:
        items = list_bound(space, names)
    known = {item.settings.slug: item for item in items}
    unknown = [slug for slug in slugs if slug not in known]
    if unknown:
        reasons = " ".join(map(_explain_unknown, unknown[:MAX_LISTED]))
        # The same for all, because a model must not learn of definitions that are not bound.
        bound = OTHERS if names is None else f" Known here: {', '.join(known)}." if known else ""
        raise Invalid(reasons + bound, field=f"memory.{unknown[0]}", slug=unknown[0])
    return known


def _explain_unknown(slug: str) -> str:
    advice = ": give the values directly by slug, without an object around them" if slug == "memory" else ""
    return f'Unknown memory definition "{slug}"{advice}.'


def _write_one(
    space: Space, item: Item[Definition], request: UpdateMemory, scope: MemoryScope
) -> tuple[Record, list[ValueWarning]]:
    definition = item.settings
    data = request.memory[definition.slug]
    if not isinstance(data, dict):
        raise Invalid(f"`memory.{definition.slug}` must be an object.", field=f"memory.{definition.slug}")
    place, path = user_records(scope.owner), require_path(definition, scope)
    if definition.scope == "run" and _is_over(space, scope):
        message = "This run has ended, and its memory was deleted: use memory of another scope."
        raise Conflict(message, run=scope.run)
    if definition.scope == "global":
        contract = build_lasting_contract(item)
    else:
        tie = f"{definition.scope}/{getattr(scope, definition.scope)}"
        contract = build_definition_contract(item.id, definition, tie)
    edit = Edit(data, request.mode or definition.update_mode, (request.if_match or {}).get(definition.slug))
    with error_at(f"memory.{definition.slug}", slug=definition.slug):
        return write_valid(space, place, path, edit, contract)


def _is_over(space: Space, scope: MemoryScope) -> bool:
    """Return True if a run of a workflow has ended. To a scoped key, the runs of others are like unknown ones."""
    run_id = scope.run or ""
    over = space.tx.row("run_is_over", id=run_id)
    if over is None or not over[0]:
        return False
    if space.principal.scope is None:
        return True
    anchor = space.address(user_records(scope.owner), "")
    return anchor is not None and (run_id,) in space.tx.rows("runs_of_address", address_id=anchor.id)


# The text for a model, and its tool (S3.29–S3.37). Stored text is data: a value or a name with line breaks is written as a JSON
# string, so that it can forge neither a heading nor a line.


def render_memory(memories: Iterable[BoundMemory], budget: int = BUDGET) -> tuple[str, dict[str, str]]:
    """Render the values under their headings, within a budget of tokens. Return the text, which is empty if there are no values,
    and the reasons why memories are cut, by slug."""
    shown = [one for one in memories if one.value]
    sections = [_list_lines(one.item, one.value or {}) for one in shown]
    costs = [sum(_count_tokens(line, budget) for line in lines) for lines in sections]
    left = budget - _count_tokens(HEADING, budget) - NOTE
    texts: list[str] = []
    cut: dict[str, str] = {}
    for one, lines, cost, share in zip(shown, sections, costs, share_out(costs, left), strict=True):
        text, missing = _fit_lines(lines, min(left, cost if cost <= share else max(share, 2 * NOTE)))
        left -= _count_tokens(text, budget) + 1 if text else 0
        texts += [text] if text else []
        if missing:
            part = f"{missing} of {len(lines) - 1} values do not fit into the budget of {budget:,} tokens"
            whole = one.item.settings.update_mode == "merge"
            cut[one.slug] = f"it is cut in the prompt: {part}" + ("" if whole else ", so a model cannot replace it")
    if len(texts) < len(shown):
        texts.append(CUT_MEMORIES.format(len(shown) - len(texts)))
    return ("\n".join([HEADING, "\n\n".join(texts)]) if shown else ""), cut


def _list_lines(item: Item[Definition], value: Mapping[str, Any]) -> list[str]:
    """Render the heading and the values of a definition."""
    properties = item.settings.schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    order = [name for name in known if name in value] + [name for name in value if name not in known]
    lines = [f"- {_render_label(name, known.get(name))}: {render_line(value[name])}" for name in order]
    return [f"## {render_line(item.name)}", *lines]


def _fit_lines(lines: list[str], room: int) -> tuple[str, int]:
    """Return the heading and the lines that fit into a number of tokens, some of them only in part, and the number of those that
    are cut. The text has that number, so that the model knows."""
    costs = [_count_tokens(line, room) for line in lines]
    if sum(costs) <= room:
        return "\n".join(lines), 0
    left, missing = room - costs[0] - NOTE, 0
    if left < 0:
        return "", len(lines) - 1
    kept = lines[:1]
    for line, cost, share in zip(lines[1:], costs[1:], share_out(costs[1:], left), strict=True):
        shown = _shorten_line(line, cost, min(left, max(share, MIN_SHOWN)))
        missing += shown != line
        if shown:
            kept.append(shown)
            left -= _count_tokens(shown, room)
    return "\n".join([*kept, CUT_VALUES.format(missing, len(lines) - 1)]), missing


def _shorten_line(line: str, cost: int, room: int) -> str:
    """Return a line within a number of tokens: as it is, or its beginning; empty if that would say nothing."""
    if cost <= room:
        return line
    if room < MIN_SHOWN:
        return ""
    ends = range(room * CHARACTERS_PER_TOKEN)
    end = bisect_right(ends, room - 1, key=lambda size: estimate_tokens(line[:size] + CUT)) - 1
    return line[:end].rstrip() + CUT


def _count_tokens(text: str, most: int) -> int:
    """Count the tokens of a line with its end. For a text that is much too long, its beginning suffices."""
    return estimate_tokens(text[: most * CHARACTERS_PER_TOKEN + 1]) + 1


def _render_label(name: str, schema: Any) -> str:
    """Render the title of a property, or its name as a label: `preferred_name` and `preferredName` become `Preferred name`
    (C20)."""
    title = schema.get("title") if isinstance(schema, Mapping) else None
    if not isinstance(title, str) or not title.strip():
        words = _HUMP.sub(lambda hump: f" {hump['word'].lower() if hump['word'] else hump['name']}", name)
        words = " ".join(words.split("_")).strip()
        title = words[:1].upper() + words[1:] if words else name
    label = render_line(title)
    return encode_compact(label) if is_loud(label) else label


def build_tool(memories: Iterable[BoundMemory], cut: Container[str] = ()) -> MemoryTool | None:
    """Build the tool with which a model updates memories. It has a parameter for each writable memory (S3.32, S3.34). A model
    cannot replace a memory of which it has seen only a part."""
    shown = (one for one in memories if one.slug not in cut or one.item.settings.update_mode == "merge")
    items = [one.item for one in shown if one.writable]
    if not items:
        return None
    merged = [one.settings.slug for one in items if one.settings.update_mode == "merge"]
    how = _HOW["merge" if merged else "replace"]
    if merged and len(merged) < len(items):
        how = _HOW["both"].format(merged=", ".join(merged))
    values = {one.settings.slug: _build_tool_part(one.settings) for one in items}
    memory = {"type": "object", "properties": values, "additionalProperties": False}
    whole = {"type": "object", "properties": {"memory": memory}, "required": ["memory"], "additionalProperties": False}
    return MemoryTool(name=TOOL, description=TOOL_DESCRIPTION.format(how=how), parameters=whole)


def _build_tool_part(definition: Definition) -> Any:
    """Return a copy of a definition's schema for use inside the schema of the tool. It accepts only values that a write would
    accept; in merge mode, it also accepts parts of them (C31)."""
    schema = get_schema(Contract(definition.schema, True))
    place = f"#/properties/memory/properties/{definition.slug}"

    def move_reference(one: dict[str, Any]) -> dict[str, Any]:
        reference = one.get("$ref")
        return {**one, "$ref": place + reference.removeprefix(ROOT)} if isinstance(reference, str) else one

    return map_schema(deepcopy(schema.relax() if definition.update_mode == "merge" else schema.closed), move_reference)
