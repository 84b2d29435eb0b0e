"""Working memory: the records of an owner under memory definitions, loaded for a model, and updated all or none (S3.11–S3.41)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.catalog import Item, encode_settings
from ..core.operation import Example, Request, Response, operation
from ..core.owners import user_records
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound, TooLarge
from ..model.fields import ID_PATTERN, MAX_ID, Cursor, Limit, from_cursor, to_cursor
from ..text.fence import encode_compact, is_loud, render_line
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
    find_record,
    list_tied_page,
)
from .schema_tree import ROOT, map_schema
from .validation import (
    MAX_NAME,
    MAX_TOLD,
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
REFERENCE = "$ref"


class Section(NamedTuple):
    """The value of one definition."""

    slug: str
    name: str
    schema: Mapping[str, Any]
    value: Mapping[str, Any] | None
    merges: bool = False


NO_ROOM = f"all values together have at most {MAX_BYTES // 1024**2} MiB: bind fewer definitions at once"


class MemoryScope(NamedTuple):
    """An owner, and the workflow, thread and run that memory is loaded for."""

    owner: str
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None


class Loaded(NamedTuple):
    """A record, unless it is withheld; the reason if it is; and its address in both cases, since a warning says something of
    it, too. `reachable` is false if the workflow, thread or run of its scope was not given."""

    record: Record | None = None
    warning: str | None = None
    address_id: int | None = None
    reachable: bool = True


class BoundMemory(NamedTuple):
    """The memory of one definition. `writable` is false if it has no address, or if it was withheld for want of room: then a
    model must not write it."""

    section: Section
    loaded: Loaded
    writable: bool = True

    @property
    def record(self) -> Record | None:
        return self.loaded.record

    @property
    def warning(self) -> str | None:
        return self.loaded.warning


def list_bound(space: Space, names: Sequence[str] | None) -> list[Item[Definition]]:
    """Return definitions by id or slug, in the order of the names; all global ones if there are no names (S3.39)."""
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
    """Load the memory of an owner under some definitions, in their order. Once one has no room, all that follow are withheld
    without being read."""
    found = []
    room = MAX_BYTES
    for item in items:
        definition = item.settings
        memory: BoundMemory | None = None
        if room >= 0:
            loaded = load_memory(space, item, scope, strict=strict)
            contract = build_definition_contract(item.id, definition)
            value = None if loaded.record is None else fill_defaults(loaded.record.value, contract)
            merges = definition.update_mode == "merge"
            section = Section(definition.slug, item.name, definition.schema, value, merges)
            memory = BoundMemory(section, loaded, loaded.reachable)
            room -= len(encode_settings(definition)) + (0 if value is None else len(msgspec.json.encode(value)))
        if memory is None or room < 0:
            room = -1
            if strict:
                raise TooLarge(f"`{definition.slug}` has no room: {NO_ROOM}.", limit=MAX_BYTES)
            address_id = None if memory is None else memory.loaded.address_id
            section = Section(definition.slug, item.name, definition.schema, None)
            memory = BoundMemory(section, Loaded(warning=NO_ROOM, address_id=address_id), writable=False)
        found.append(memory)
    return found


def load_memory(space: Space, item: Item[Definition], scope: MemoryScope, *, strict: bool = False) -> Loaded:
    """Load the record for an owner and a scope. One that does not fit its schema any more is withheld (C24)."""
    definition = item.settings
    path = find_path(definition, scope)
    if path is None:
        return Loaded(warning=f"no {definition.scope} was given, to which this memory belongs", reachable=False)
    record = find_record(space, user_records(scope.owner), path)
    if record is None:
        return Loaded()
    problems = list_misfits(record.value, build_definition_contract(item.id, definition), space)
    if not problems:
        return Loaded(record, address_id=record.address_id)
    error = build_misfit_error(problems, f"The stored value of {definition.slug!r}")
    if strict:
        raise error
    return Loaded(warning=error.message, address_id=record.address_id)


def find_path(definition: Definition, whose: MemoryScope) -> str | None:
    """Return the path of a record; None if the workflow, thread or run of its scope was not given."""
    if definition.scope == "global":
        return definition.slug
    given = getattr(whose, definition.scope)
    return None if given is None else f"{definition.slug}@{definition.scope}/{given}"


def render_withheld(name: str, reason: str) -> str:
    """Return a warning as a sentence."""
    return f"`{name}` is withheld: {reason}"


MAX_BOUND = 50
MAX_SHOWN_ID = 100

Who = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=ID_PATTERN,
        description="The owner of the memory, such as a user. A key with the scope of a user can omit it.",
    ),
]
ScopeId = Annotated[str, Meta(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]

Names = Annotated[
    list[DefinitionId],
    Meta(max_length=MAX_BOUND, description="Definitions, by id or slug; omit it for all global ones."),
]
Values = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_BOUND,
        description='New values by slug, such as {"customer_profile": {"preferred_name": "Ada"}}; one may stand alone.',
    ),
]
Mode = Annotated[UpdateMode, Meta(description="`replace` or `merge`; omit it for the mode of each definition.")]
Strict = Annotated[
    bool, Meta(description="Fail if a stored value does not fit its schema any more, and not only warn.")
]

_ADA = {"owner": "u1", "memory": {"customer_profile": {"preferred_name": "Ada"}}}
_WRITTEN = (*GIVEN, ("definitions.update_memory", _ADA))
_PATH = re.compile(r"(?P<slug>[^@]+)(?:@(?P<scope>workflow|thread|run)/(?P<id>.*))?", re.DOTALL)


class Tool(Response, frozen=True, kw_only=True):
    """A tool for a model: `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Withheld(Response, frozen=True, kw_only=True):
    """A memory that is withheld, and why."""

    slug: str
    reason: str


class Bound(Response, frozen=True, kw_only=True):
    """Memory for a model: values by slug, the same as text for its system prompt, and the tool that changes them. `prompt` is
    empty if there are no values, and `tool` null if nothing can be written. `warnings`: values that are withheld, since they do
    not fit their schema any more, their workflow, thread or run was not given, or there would be more than 8 MiB."""

    values: dict[str, Any]
    prompt: str
    tool: Tool | None
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


@operation(
    "definitions.bind",
    "POST /v1/working_memory/bind",
    any_tie=True,
    example=Example({"definitions": ["customer_profile"], "owner": "u1"}, _WRITTEN),
)
def bind(space: Space, request: Bind) -> Bound:
    """Load working memory for a model: the values of an owner under some definitions, the same as text, and the tool to update
    them. Nothing is written."""
    found = load_all(
        space, list_bound(space, request.definitions), _resolve_scope(space, request), strict=request.strict
    )
    sections = [one.section for one in found]
    return Bound(
        values={one.slug: one.value for one in sections if one.value is not None},
        prompt=render_memory(sections),
        tool=build_tool([one.section for one in found if one.writable]),
        versions={one.section.slug: one.record.etag for one in found if one.record is not None},
        warnings=[Withheld(slug=one.section.slug, reason=one.warning) for one in found if one.warning is not None],
    )


class UpdateMemory(_OfOwner, frozen=True, kw_only=True):
    """New values for some of an owner's memories. `definitions` limits which they may be."""

    memory: Values
    definitions: Names | None = None
    mode: Mode | None = None
    if_match: (
        Annotated[
            dict[str, str],
            Meta(
                max_length=MAX_BOUND,
                description="The etags that were read, by slug: nothing is written if one has changed.",
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
    any_tie=True,
    example=Example(_ADA, GIVEN),
)
def update_memory(space: Space, request: UpdateMemory) -> Updated:
    """Write working memory: all values or none. First the names must be slugs, then they must be known, then each value must fit
    its schema."""
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
    any_tie=True,
    example=Example({**OF, "owner": "u1"}, _WRITTEN),
)
def delete_memory(space: Space, request: OfRecord) -> Forgotten:
    """Delete the memory of an owner under a definition, with its history."""
    whose = _resolve_scope(space, request)
    definition = require_definition(space, request.definition).settings
    job = delete_record(space, user_records(whose.owner), require_path(definition, whose))
    return Forgotten(records=int(job is not None), job=job)


class EndScope(Request, frozen=True, kw_only=True):
    """A run or a thread that is over."""

    run: Annotated[ScopeId, Meta(description="The run that is over.")] | None = None
    thread: Annotated[ScopeId, Meta(description="The thread that is over.")] | None = None


@operation(
    "definitions.end",
    "POST /v1/working_memory/end",
    effect="erase",
    example=Example({"run": "run-7"}, GIVEN),
)
def end(space: Space, request: EndScope) -> Forgotten:
    """Delete the memory of a run or a thread that is over. Runs of workflows do that themselves."""
    if (request.run is None) == (request.thread is None):
        raise Invalid("Give either `run` or `thread`.", field="run")
    tie = f"run/{request.run}" if request.run is not None else f"thread/{request.thread}"
    job, count = delete_tied(space, tie)
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
    """A definition whose records are wanted."""

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
    """The records of a definition, of all owners. A page holds at most 8 MiB of them."""
    item = require_definition(space, request.definition)
    (after,) = from_cursor("definition", request.cursor, 0)
    page, more = list_tied_page(space, definition_tie(item.id), after, request.limit)
    further = to_cursor("definition", page[-1][0].address_id) if more else None
    return MemoryRecords(records=[_to_memory_record(*one) for one in page], next_cursor=further)


def write_memory(space: Space, request: UpdateMemory, whose: MemoryScope) -> Updated:
    """Write values, all or none (C4), checked in the order of S3.41."""
    memory = request.memory
    slugs = list(memory)
    for slug in slugs:
        _check_slug(slug)
    known = _require_known(space, slugs, request.definitions)
    for slug in request.if_match or {}:
        if slug not in memory:
            raise Invalid(f"`if_match` names {slug[:MAX_SHOWN_ID]!r}, which is not written.", field="if_match")
    values: dict[str, Any] = {}
    versions: dict[str, str] = {}
    warnings: dict[str, list[ValueWarning]] = {}
    for slug in slugs:
        item = known[slug]
        record, record_warnings = _write_one(space, item, request, whose)
        contract = build_definition_contract(item.id, item.settings)
        values[slug], versions[slug] = fill_defaults(record.value, contract), record.etag
        if record_warnings:
            warnings[slug] = record_warnings
    return Updated(memory=values, versions=versions, warnings=warnings or None)


def build_tool(sections: Sequence[Section]) -> Tool | None:
    """Return the tool by which a model updates these definitions."""
    if not sections:
        return None
    schemas = {one.slug: _build_tool_part(one) for one in sections}
    return Tool(
        name=TOOL, description=render_tool_description(sections), parameters=build_tool_schema(sections, schemas)
    )


def _resolve_scope(space: Space, request: _OfOwner) -> MemoryScope:
    """Return the owner of a request, which is the user of a scoped key by default. Reject another one."""
    owner = request.owner or space.principal.user
    if owner is None:
        raise Invalid("An owner id is required: give `owner`.", field="owner")
    space.principal.require_user(owner)
    return MemoryScope(owner, request.workflow, request.thread, request.run)


def require_path(definition: Definition, whose: MemoryScope) -> str:
    path = find_path(definition, whose)
    if path is None:
        scope = definition.scope
        raise Invalid(f"{scope.capitalize()} id is required to update {scope}-scoped memory.", field=scope)
    return path


def _check_slug(slug: str) -> None:
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Invalid(f"{SLUG_ADVICE}: {slug[:MAX_SHOWN_ID]!r}.", field="memory")
    if len(slug) > MAX_NAME:
        raise Invalid(f"A slug has at most {MAX_NAME} characters: {slug[:MAX_SHOWN_ID]!r}….", field="memory")


def _require_known(space: Space, slugs: Iterable[str], names: Sequence[str] | None) -> dict[str, Item[Definition]]:
    if names is None:
        found = [find_definition_by_slug(space, slug) for slug in slugs]
        items = [item for item in found if item is not None and item.settings.scope == "global"]
    else:
        items = list_bound(space, names)
    known = {item.settings.slug: item for item in items}
    unknown = [slug for slug in slugs if slug not in known]
    if unknown:
        reasons = " ".join(_explain_unknown(space, slug) for slug in unknown[:MAX_TOLD])
        bound = f" Known here: {', '.join(known)}." if names and known else ""
        raise Invalid(reasons + bound, field=f"memory.{unknown[0]}", slug=unknown[0])
    return known


def _explain_unknown(space: Space, slug: str) -> str:
    unknown = f'Unknown memory definition "{slug}"'
    if find_definition_by_slug(space, slug) is None:
        return f"{unknown}: give values by slug, with nothing around them." if slug == "memory" else f"{unknown}."
    declared = "in a workflow, declare it in `defs` as `kind: memory`"
    return f"{unknown} here: there is one, but it is not bound. Name it in `definitions`; {declared}."


def _write_one(
    space: Space, item: Item[Definition], request: UpdateMemory, scope: MemoryScope
) -> tuple[Record, list[ValueWarning]]:
    definition = item.settings
    data = request.memory[definition.slug]
    if not isinstance(data, dict):
        raise Invalid(f"`memory.{definition.slug}` must be an object.", field=f"memory.{definition.slug}")
    place, path = user_records(scope.owner), require_path(definition, scope)
    if definition.scope == "run":
        _check_run_is_open(space, scope.run or "")
    if definition.scope == "global":
        contract = build_lasting_contract(item)
    else:
        tie = f"{definition.scope}/{getattr(scope, definition.scope)}"
        contract = build_definition_contract(item.id, definition, tie)
    edit = Edit(data, request.mode or definition.update_mode, (request.if_match or {}).get(definition.slug))
    with error_at(f"memory.{definition.slug}", slug=definition.slug):
        return write_valid(space, place, path, edit, contract)


def _check_run_is_open(space: Space, run: str) -> None:
    """Reject memory of a workflow run that is over, which was deleted with it. Other runs are not known here."""
    found = space.tx.row("run_is_over", id=run)
    if found is not None and found[0]:
        raise Conflict("This run is over, and its memory is gone with it: use memory of another scope.", run=run)


def _to_memory_record(record: Record, owner: str) -> MemoryRecord:
    found = _PATH.fullmatch(record.path)
    ids = {} if found is None or found["scope"] is None else {found["scope"]: found["id"]}
    return MemoryRecord(
        owner=owner,
        value=record.value,
        version=record.version,
        etag=record.etag,
        created_at=to_datetime(record.created_at),
        updated_at=to_datetime(record.updated_at),
        expires_at=optional_datetime(record.expires_at),
        **ids,
    )


def _build_tool_part(one: Section) -> dict[str, Any]:
    """Return a copy of the schema of a definition that accepts no value that would be refused; in merge mode also parts of one
    (C31)."""
    schema = get_schema(Contract(one.schema, True))
    return deepcopy(schema.relax() if one.merges else schema.closed)


# The text for a model, and its tool (S3.29–S3.37). Stored text is data: a value or a name that spans lines is written as a
# JSON string, so that it can forge neither a heading nor a line of its own.


def render_memory(sections: Iterable[Section]) -> str:
    """Return the values under their headings; an empty text if there are none."""
    told = [_render_section(one) for one in sections if one.value]
    return "\n".join([HEADING, "\n\n".join(told)]) if told else ""


def build_tool_schema(sections: Sequence[Section], schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of the tool: a value for each of these definitions (S3.32, S3.34)."""
    values = {
        one.slug: _nest_schema(schemas[one.slug], f"#/properties/memory/properties/{one.slug}") for one in sections
    }
    memory = {"type": "object", "properties": values, "additionalProperties": False}
    return {"type": "object", "properties": {"memory": memory}, "required": ["memory"], "additionalProperties": False}


def render_tool_description(sections: Sequence[Section]) -> str:
    merged = [one.slug for one in sections if one.merges]
    if merged and len(merged) < len(sections):
        return TOOL_DESCRIPTION.format(how=_HOW["both"].format(merged=", ".join(merged)))
    return TOOL_DESCRIPTION.format(how=_HOW["merge" if merged else "replace"])


def to_label(name: str) -> str:
    """Convert a name to a label: `preferred_name` to `Preferred name` (C20)."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:] if words else name


def _render_section(one: Section) -> str:
    properties = one.schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    value = one.value or {}
    order = [name for name in known if name in value] + [name for name in value if name not in known]
    lines = [f"- {_label(name, known.get(name))}: {render_line(value[name])}" for name in order]
    return "\n".join([f"## {render_line(one.name)}", *lines])


def _label(name: str, schema: Any) -> str:
    title = schema.get("title") if isinstance(schema, Mapping) else None
    label = render_line(title if isinstance(title, str) and title.strip() else to_label(name))
    return encode_compact(label) if is_loud(label) else label


def _nest_schema(schema: Mapping[str, Any], place: str) -> Any:
    """Return a schema as a part of another one, with its references adjusted."""
    return map_schema(dict(schema), lambda one: _move_reference(one, place))


def _move_reference(one: dict[str, Any], place: str) -> dict[str, Any]:
    reference = one.get(REFERENCE)
    return {**one, REFERENCE: place + reference.removeprefix(ROOT)} if isinstance(reference, str) else one
