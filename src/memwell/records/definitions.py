"""Memory definitions: what is remembered of an owner, under which name, in which scope and for how long (system S3)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, structs

from ..clock import SECOND, to_datetime
from ..core import documents
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound, Stale
from ..model import check
from ..model.fields import ID_PATTERN
from .contract import (
    MAX_NAME,
    SLUG_ADVICE,
    SLUG_PATTERN,
    Definition,
    Scope,
    Secrets,
    UpdateMode,
    decode_definition,
    encoded,
    is_vague,
    slug_of,
)
from .records import delete_tied
from .validation import (
    Accept,
    Breaking,
    Contract,
    check_breaking,
    check_object_schema,
    find_breaking,
    list_schema_doubts,
    normalize_schema,
)

KIND = "definition"
BY_SLUG, BY_NAME = "definition_slug", "definition_name"
"""Documents that lead from a slug or a name to the definition that has it: no two can have the same."""
MAX_TTL = 100 * 365 * 86_400
MAX_FORMER = 20
"""How many of its former lifetimes a definition knows."""

DefinitionId = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, pattern=ID_PATTERN, description="The definition's id, or its slug.")
]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME,
        pattern=ID_PATTERN,
        description="A name for people, and the heading under which a model reads it: 1 to 255 characters, unique.",
    ),
]
Slug = Annotated[
    str,
    Meta(max_length=MAX_NAME, description=f"Its technical key, made from the name if it is left away: {SLUG_ADVICE}."),
]
ScopeField = Annotated[
    Scope,
    Meta(
        description="What a record belongs to beside its owner: `global` nothing, or one `workflow`, `thread` or `run`."
    ),
]
Ttl = Annotated[
    int,
    Meta(
        ge=1, le=MAX_TTL, description="How many seconds a record lives after it was written: a positive whole number."
    ),
]
SchemaField = Annotated[
    dict[str, Any],
    Meta(description="A JSON Schema (Draft 2020-12) of an object, at most 64 KiB; every value that is saved must fit."),
]
Description = Annotated[str, Meta(max_length=1000, description="What it is for: at most 1,000 characters.")]
UpdateModeField = Annotated[
    UpdateMode,
    Meta(description="Whether an update becomes the new value (`replace`), or is merged into the old one (`merge`)."),
]
SecretsField = Annotated[
    Secrets, Meta(description="What happens to values that look like secrets: `warn` or `reject`.")
]
Page = Annotated[int, Meta(ge=1, le=1_000_000, description="Which page, from 1 on.")]
PerPage = Annotated[int, Meta(ge=1, le=100, description="How many on a page, from 1 to 100.")]

Search = Annotated[str, Meta(max_length=255, description="Only those with this in their name, slug or description.")]

_LEFT_AWAY: Any = UNSET
PROFILE = {
    "type": "object",
    "properties": {
        "preferred_name": {"type": "string", "description": "What the person wants to be called."},
        "interests": {"type": "array", "items": {"type": "string"}},
    },
}
NEW = {"name": "Customer Profile", "schema": PROFILE}
GIVEN = (("definitions.create", NEW),)
OF = {"definition": "customer_profile"}


class DefinitionInfo(Response, frozen=True, kw_only=True):
    """A memory definition. No `ttl_seconds`: records stay for good."""

    id: str
    name: str
    slug: str
    scope: str
    schema: dict[str, Any]
    update_mode: str
    secrets: str
    version: int
    created_at: datetime
    updated_at: datetime
    ttl_seconds: int | None = None
    description: str | None = None
    warnings: list[str] | None = None


class DefinitionList(Response, frozen=True, kw_only=True):
    """A page of definitions, and how many there are in all."""

    definitions: list[DefinitionInfo]
    page: int
    limit: int
    total: int

    def __iter__(self) -> Iterator[DefinitionInfo]:
        return iter(self.definitions)

    def __len__(self) -> int:
        return len(self.definitions)


class CreateDefinition(Request, frozen=True, kw_only=True):
    """A definition to make. Only its name is needed."""

    name: Name
    schema: SchemaField | None = None
    slug: Slug | None = None
    scope: ScopeField = "global"
    ttl_seconds: Ttl | None = None
    update_mode: UpdateModeField = "replace"
    secrets: SecretsField = "warn"
    description: Description | None = None


@operation(
    "definitions.create", "POST /v1/memory_definitions", effect="write", role="admin", status=201, example=Example(NEW)
)
def create(space: Space, request: CreateDefinition) -> DefinitionInfo:
    """Make a memory definition. Its slug is made from its name and does not change."""
    document, definition = made(space, request)
    found = find_breaking(space, tie_of(document.id), held_to(document.id, definition))
    there = f"{found.breaking} of {found.records} records that were there already do not fit, and are withheld."
    odd = [] if request.schema is None else list_schema_doubts(held_to(document.id, definition))
    return _warned(info(document, definition), [*odd, *([there] if found.breaking else [])])


def made(space: Space, request: CreateDefinition) -> tuple[Document, Definition]:
    name = check.content(request.name.strip(), field="name")
    slug = slug_of(name) if request.slug is None else checked_slug(request.slug)
    if not slug:
        raise Invalid(f"No slug can be made from {name!r}: give one. {SLUG_ADVICE}.", field="slug")
    fields = {one: getattr(request, one) for one in ("scope", "ttl_seconds", "update_mode", "secrets", "description")}
    definition = Definition(slug=slug, schema=normalize_schema(request.schema or {"type": "object"}), **fields)
    check_object_schema(held_to("", definition))
    document = Document(str(uuid.uuid4()), name, 1, encoded(definition), space.now, space.now)
    _claim(space, BY_SLUG, slug, document.id, "slug")
    _claim(space, BY_NAME, name, document.id, "name")
    documents.add(space.tx, KIND, document)
    if definition.scope == "global":  # what people have set under that name is held to it from now on
        for (address_id,) in space.tx.rows("records_at_path", dialect="user", path=slug):
            space.tx.send("add_tie", tie=tie_of(document.id), address_id=address_id)
    return document, definition


class ListDefinitions(Request, frozen=True, kw_only=True):
    """Which definitions, in which order."""

    search: Search | None = None
    name: Name | None = None
    slug: Slug | None = None
    scope: ScopeField | None = None
    ttl_seconds: Ttl | None = None
    sort: Annotated[Literal["created_at", "updated_at", "name"], Meta(description="By what to sort.")] = "created_at"
    order: Annotated[Literal["asc", "desc"], Meta(description="`asc` or `desc`.")] = "desc"
    page: Page = 1
    limit: PerPage = 20


@operation("definitions.list", "GET /v1/memory_definitions", example=Example({"search": "customer"}, GIVEN))
def list_definitions(space: Space, request: ListDefinitions) -> DefinitionList:
    """The memory definitions, page by page; `search` finds them by name, slug or description."""
    found = [pair for pair in every(space) if _is_wanted(*pair, request)]
    found.sort(key=lambda pair: (getattr(pair[0], request.sort), pair[0].id), reverse=request.order == "desc")
    first = (request.page - 1) * request.limit
    shown = [info(*pair) for pair in found[first : first + request.limit]]
    return DefinitionList(definitions=shown, page=request.page, limit=request.limit, total=len(found))


class OfDefinition(Request, frozen=True, kw_only=True):
    """Which definition."""

    definition: DefinitionId


@operation("definitions.get", "GET /v1/memory_definitions/{definition}", example=Example(OF, GIVEN))
def get(space: Space, request: OfDefinition) -> DefinitionInfo:
    """A memory definition, by its id or its slug."""
    return info(*existing(space, request.definition))


class UpdateDefinition(Request, frozen=True, kw_only=True):
    """What to change of a definition. What is left away stays; null clears `ttl_seconds` and `description`. The slug and the
    scope stay, since workflows and records hang on them."""

    definition: DefinitionId
    name: Name | None = None
    slug: Annotated[str, Meta(description="It cannot be changed: leave it away.")] | None = None
    scope: Annotated[Scope, Meta(description="It cannot be changed: leave it away.")] | None = None
    schema: SchemaField | None = None
    ttl_seconds: Ttl | None = _LEFT_AWAY
    update_mode: UpdateModeField | None = None
    secrets: SecretsField | None = None
    description: Description | None = _LEFT_AWAY
    accept_breaking: Accept = False
    version: (
        Annotated[int, Meta(ge=1, description="The version that was read, to be told of changes since.")] | None
    ) = None


@operation(
    "definitions.update",
    "PATCH /v1/memory_definitions/{definition}",
    effect="write",
    role="admin",
    example=Example({**OF, "ttl_seconds": 3600}, GIVEN),
)
def update(space: Space, request: UpdateDefinition) -> DefinitionInfo:
    """Change a memory definition. A schema that stored records do not fit is refused, and they are named, unless it is accepted
    that they break."""
    old, before = existing(space, request.definition)
    for one in ("slug", "scope"):
        if getattr(request, one) not in (None, getattr(before, one)):
            raise Invalid(f"The {one} of a definition never changes: make another definition.", field=one)
    if request.version not in (None, old.version):
        raise Stale(f"The current version is {old.version}: read it again and repeat the change.", version=old.version)
    changes = {one: getattr(request, one) for one in ("schema", "update_mode", "secrets")}
    changed = {one: value for one, value in changes.items() if value is not None}
    if "schema" in changed:
        changed["schema"] = normalize_schema(changed["schema"])
    changed |= {
        one: getattr(request, one) for one in ("ttl_seconds", "description") if getattr(request, one) is not UNSET
    }
    if changed.get("ttl_seconds", before.ttl_seconds) != before.ttl_seconds:
        was = [] if before.ttl_seconds is None else [before.ttl_seconds]
        changed |= {"lasting_from": space.now, "former_ttls": [*(before.former_ttls or []), *was][-MAX_FORMER:]}
    definition = structs.replace(before, **changed)
    check_object_schema(held_to("", definition))
    odd: list[str] = []
    if definition.schema != before.schema:
        held = held_to(old.id, definition)
        odd = [
            *list_schema_doubts(held),
            *check_breaking(find_breaking(space, tie_of(old.id), held), request.accept_breaking),
        ]
    name = old.name if request.name is None else check.content(request.name.strip(), field="name")
    if name != old.name:
        _claim(space, BY_NAME, name, old.id, "name")
        documents.remove(space.tx, BY_NAME, old.name)
    return _warned(info(documents.change(space.tx, KIND, old, name, encoded(definition), space.now), definition), odd)


class CheckDefinition(Request, frozen=True, kw_only=True):
    """A schema to try on what is stored."""

    definition: DefinitionId
    schema: SchemaField


@operation(
    "definitions.check",
    "POST /v1/memory_definitions/{definition}/check",
    role="admin",
    example=Example({**OF, "schema": {**PROFILE, "required": ["preferred_name"]}}, GIVEN),
)
def check_schema(space: Space, request: CheckDefinition) -> Breaking:
    """Which stored records a new schema would break, without saving it."""
    document, definition = existing(space, request.definition)
    definition = structs.replace(definition, schema=normalize_schema(request.schema))
    check_object_schema(held_to("", definition))
    return find_breaking(space, tie_of(document.id), held_to(document.id, definition))


class DeletedDefinition(Response, frozen=True, kw_only=True):
    """A definition that is gone, how many records have gone with it, and the job that erases their bytes."""

    id: str
    slug: str
    records: int
    job: str | None = None


@operation(
    "definitions.delete",
    "DELETE /v1/memory_definitions/{definition}",
    effect="erase",
    role="admin",
    example=Example(OF, GIVEN),
)
def delete(space: Space, request: OfDefinition) -> DeletedDefinition:
    """Delete a memory definition with all its records."""
    document, definition = existing(space, request.definition)
    job, count = delete_tied(space, tie_of(document.id))
    for kind, key in ((BY_SLUG, definition.slug), (BY_NAME, document.name), (KIND, document.id)):
        documents.erase(space.tx, kind, key, space.now)
    return DeletedDefinition(id=document.id, slug=definition.slug, records=count, job=job)


# -- what others use -----------------------------------------------------------------------------------------------------


def existing(space: Space, name: str) -> tuple[Document, Definition]:
    """A definition by its id or its slug."""
    found = find(space, name)
    if found is None:
        raise NotFound(f"Memory Definition with ID {name} not found.")
    return found


def find(space: Space, name: str) -> tuple[Document, Definition] | None:
    document = documents.find(space.tx, KIND, name)
    if document is not None:
        return document, decode_definition(document.body)
    return by_slug(space, name)


def by_slug(space: Space, slug: str) -> tuple[Document, Definition] | None:
    named = documents.find(space.tx, BY_SLUG, slug)
    document = None if named is None else documents.find(space.tx, KIND, named.body)
    return None if document is None else (document, decode_definition(document.body))


def every(space: Space) -> list[tuple[Document, Definition]]:
    return [(one, decode_definition(one.body)) for one in documents.every(space.tx, KIND)]


def tie_of(definition_id: str) -> str:
    return f"definition/{definition_id}"


def held_to(definition_id: str, definition: Definition, *ties: str) -> Contract:
    """What the records of a definition are held to."""
    return Contract(
        definition.schema, True, definition.lifetime_us, (tie_of(definition_id), *ties), secrets=definition.secrets
    )


def held_with_its_lifetime(document: Document, definition: Definition) -> Contract:
    """The same for records that may have a lifetime of their own, which they keep. What was written before the definition's was
    changed, and lived as long as that was, has none."""
    since = 0 if definition.lasting_from is None else definition.lasting_from + 1
    former = None if definition.former_ttls is None else tuple(one * SECOND for one in definition.former_ttls)
    return held_to(document.id, definition)._replace(lasting=since, former=former)


def checked_slug(slug: str) -> str:
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Invalid(f"{SLUG_ADVICE}: {slug[:100]!r}.", field="slug")
    return slug


def info(document: Document, definition: Definition) -> DefinitionInfo:
    return DefinitionInfo(
        id=document.id,
        name=document.name,
        slug=definition.slug,
        scope=definition.scope,
        schema=deepcopy(definition.schema),  # what is kept in memory is everybody's
        update_mode=definition.update_mode,
        secrets=definition.secrets,
        version=document.version,
        created_at=to_datetime(document.created_at),
        updated_at=to_datetime(document.updated_at),
        ttl_seconds=definition.ttl_seconds,
        description=definition.description,
        warnings=vague(definition.slug, "slug"),
    )


def vague(name: str, field: str) -> list[str] | None:
    """A word of warning about a name that says nothing (C40)."""
    return [f"The {field} {name!r} does not say what it is for: choose a telling one."] if is_vague(name) else None


def _warned(found: DefinitionInfo, more: Sequence[str]) -> DefinitionInfo:
    return structs.replace(found, warnings=[*(found.warnings or []), *more] or None)


def _claim(space: Space, kind: str, key: str, definition_id: str, field: str) -> None:
    if documents.find(space.tx, kind, key) is not None:
        raise Conflict(f"There is a memory definition with the {field} {key!r} already.", field=field)
    documents.add(space.tx, kind, Document(key, key, 1, definition_id, space.now, space.now))


def _is_wanted(document: Document, definition: Definition, request: ListDefinitions) -> bool:
    asked = (request.name, request.slug, request.scope, request.ttl_seconds)
    has = (document.name, definition.slug, definition.scope, definition.ttl_seconds)
    if any(wanted not in (None, given) for wanted, given in zip(asked, has, strict=True)):
        return False
    if request.search is None:
        return True
    sought = request.search.casefold()
    return any(sought in (text or "").casefold() for text in (document.name, definition.slug, definition.description))
