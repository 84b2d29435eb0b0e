"""Memory definitions: kinds of records of an owner, each with a name, a schema, a scope and a lifetime (system S3)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from ..clock import DAY, SECOND
from ..core import documents
from ..core.catalog import Catalog, Item, Order, PageNumber, PageSize, Sort, Version, list_page, to_response
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.settings import Clearable, Fixed, build_settings, create_request, response, update_request
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound
from ..model.field_readers import lifetime_limits, sought_lifetime_limits
from ..model.fields import check_content, id_limits
from .records import Contract, Description, Secrets, delete_tied
from .validation import (
    BY_SLUG,
    MAX_NAME,
    Accept,
    Breaking,
    check_changed_schema,
    check_object_schema,
    find_breaking,
    join_names,
    list_name_doubts,
    list_schema_doubts,
    normalize_schema,
)

Scope = Literal["global", "workflow", "thread", "run"]
UpdateMode = Literal["merge", "replace"]

SLUG_PATTERN = r"^[a-z0-9_]+$(?!\n)"
SLUG_ADVICE = "slug must contain only lowercase letters, numbers, and underscores"
MAX_TTL = 100 * 365 * 86_400
RUN_LIFETIME = 30 * DAY
"""Lifetime of the records of a run, unless the run is ended earlier."""
MAX_FORMER = 20
"""Former lifetimes that a definition remembers."""
BY_NAME = "definition_name"
"""Kind of document that maps a name to its definition, as `BY_SLUG` maps a slug. They keep names and slugs unique."""


DefinitionId = Annotated[str, id_limits(MAX_NAME, "The definition's id, or its slug.")]
Name = Annotated[
    str,
    id_limits(MAX_NAME, "A display name, and the heading in prompts: 1 to 255 characters, unique."),
]
Slug = Annotated[
    str, Meta(max_length=MAX_NAME, description=f"Its technical key; omit it to derive it from the name: {SLUG_ADVICE}.")
]
ScopeField = Annotated[
    Scope,
    Meta(description="The scope of a record within its owner: `global`, or one `workflow`, `thread` or `run`."),
]
Ttl = Annotated[int, lifetime_limits("second", MAX_TTL, "Lifetime of a record after each write.")]
TtlSought = Annotated[int, sought_lifetime_limits("second", MAX_TTL, "Only definitions with this lifetime.")]
SchemaField = Annotated[
    dict[str, Any],
    Meta(description="A JSON Schema (Draft 2020-12) of an object, at most 64 KiB; every saved value must fit it."),
]
UpdateModeField = Annotated[
    UpdateMode,
    Meta(description="`replace`: an update becomes the new value; `merge`: it is merged into the old value."),
]
SecretsField = Annotated[Secrets, Meta(description="Treatment of values that look like secrets: `warn` or `reject`.")]
Search = Annotated[str, Meta(max_length=255, description="A text that the name, slug or description must contain.")]


class DefinitionSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a memory definition."""

    slug: Fixed[str]
    scope: Fixed[ScopeField] = "global"
    schema: SchemaField = {}
    ttl_seconds: Clearable[Ttl] = None
    update_mode: UpdateModeField = "replace"
    secrets: SecretsField = "warn"
    description: Clearable[Description] = None


class Definition(DefinitionSettings, frozen=True, kw_only=True, omit_defaults=True):
    """A memory definition, as it is stored."""

    lasting_from: int | None = None
    """Time of the last change of its lifetime."""
    former_ttls: list[int] | None = None

    @property
    def lifetime_us(self) -> int | None:
        lifetime = None if self.ttl_seconds is None else self.ttl_seconds * SECOND
        return min(lifetime or RUN_LIFETIME, RUN_LIFETIME) if self.scope == "run" else lifetime


DEFINITIONS = Catalog("definition", Definition)

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


@response(DefinitionSettings)
class DefinitionInfo(DefinitionSettings, Response, frozen=True, kw_only=True):
    """A memory definition. Without `ttl_seconds`, records do not expire."""

    id: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    warnings: list[str] | None = None


class DefinitionList(Response, frozen=True, kw_only=True):
    """A page of definitions, and their total number."""

    definitions: list[DefinitionInfo]
    page: int
    limit: int
    total: int

    def __iter__(self) -> Iterator[DefinitionInfo]:
        return iter(self.definitions)

    def __len__(self) -> int:
        return len(self.definitions)


@create_request(DefinitionSettings, after="slug")
class CreateDefinition(Request, frozen=True, kw_only=True):
    """A definition to create. Only `name` is required."""

    name: Name
    schema: SchemaField | None = None
    slug: Slug | None = None


@operation(
    "definitions.create", "POST /v1/memory_definitions", effect="write", role="admin", status=201, example=Example(NEW)
)
def create_definition(space: Space, request: CreateDefinition) -> DefinitionInfo:
    """Create a memory definition. By default its slug is derived from its name. The slug never changes."""
    item = add_definition(space, request)
    contract = build_definition_contract(item.id, item.settings)
    found = find_breaking(space, definition_tie(item.id), contract)
    warnings = [] if request.schema is None else list_schema_doubts(contract)
    if found.breaking:
        warnings.append(f"{found.breaking} of {found.records} existing records do not fit, and are withheld.")
    return to_definition_info(item, warnings)


def add_definition(space: Space, request: CreateDefinition) -> Item[Definition]:
    new = normalize_definition(request)
    name = check_content(new.name, field="name")
    if not new.slug:
        raise Invalid(f"No slug can be derived from {name!r}: give `slug`. {SLUG_ADVICE}.", field="slug")
    slug = new.slug
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Invalid(f"{SLUG_ADVICE}: {slug[:100]!r}.", field="slug")
    definition = build_settings(Definition, new)
    check_object_schema(Contract(definition.schema, True))
    for kind, key, field in ((BY_SLUG, slug, "slug"), (BY_NAME, name, "name")):
        _check_free(space, kind, key, field)
    item = DEFINITIONS.add(space, definition, name=name)
    for kind, key in ((BY_SLUG, slug), (BY_NAME, name)):
        documents.add(space, kind, Document(key, key, 1, item.id, space.now, space.now))
    if definition.scope == "global":  # existing records of that name get this contract
        for (address_id,) in space.tx.rows("records_at_path", dialect="user", path=slug):
            space.tx.send("add_tie", tie=definition_tie(item.id), address_id=address_id)
    return item


@operation("definitions.define", "PUT /v1/memory_definitions", effect="write", role="admin", example=Example(NEW))
def define(space: Space, request: CreateDefinition) -> DefinitionInfo:
    """Create a memory definition, or return it if it exists with the same settings."""
    new = normalize_definition(request)
    found = None if new.slug is None else find_definition_by_slug(space, new.slug)
    if found is None:
        return create_definition.run(space, request)  # type: ignore[no-any-return]
    differences = list_differences(found, new)
    if differences:
        raise Conflict(
            f"The memory definition {new.slug!r} exists already with another {join_names(differences)}: "
            "change it with `definitions.update`.",
            differences=differences,
        )
    DEFINITIONS.mention(space, found.id)
    return to_definition_info(found)


class ListDefinitions(Request, frozen=True, kw_only=True):
    """Filters, order and page of definitions."""

    search: Search | None = None
    name: Name | None = None
    slug: Slug | None = None
    scope: ScopeField | None = None
    ttl_seconds: TtlSought | None = None
    sort: Sort = "created_at"
    order: Order = "desc"
    page: PageNumber = 1
    limit: PageSize = 20


@operation("definitions.list", "GET /v1/memory_definitions", example=Example({"search": "customer"}, GIVEN))
def list_definitions(space: Space, request: ListDefinitions) -> DefinitionList:
    """List memory definitions page by page. `search` looks in names, slugs and descriptions."""
    items = [item for item in DEFINITIONS.list(space) if _matches(item, request)]
    page, total = list_page(items, request)
    shown = [to_definition_info(item) for item in page]
    return DefinitionList(definitions=shown, page=request.page, limit=request.limit, total=total)


class OfDefinition(Request, frozen=True, kw_only=True):
    """A definition."""

    definition: DefinitionId


@operation("definitions.get", "GET /v1/memory_definitions/{definition}", example=Example(OF, GIVEN))
def get_definition(space: Space, request: OfDefinition) -> DefinitionInfo:
    """Return a memory definition, by its id or slug."""
    return to_definition_info(require_definition(space, request.definition))


@update_request(DefinitionSettings, after="scope")
class UpdateDefinition(Request, frozen=True, kw_only=True):
    """Changes to a definition. Omitted fields keep their values; null clears `ttl_seconds` and `description`. The slug and the
    scope cannot change, because workflows and records depend on them."""

    definition: DefinitionId
    name: Name | None = None
    slug: Annotated[str, Meta(description="It cannot be changed: omit it.")] | None = None
    scope: Annotated[Scope, Meta(description="It cannot be changed: omit it.")] | None = None
    accept_breaking: Accept = False
    version: Version | None = None


@operation(
    "definitions.update",
    "PATCH /v1/memory_definitions/{definition}",
    effect="write",
    role="admin",
    example=Example({**OF, "ttl_seconds": 3600}, GIVEN),
)
def update_definition(space: Space, request: UpdateDefinition) -> DefinitionInfo:
    """Change a memory definition. If stored records do not fit a new schema, the change is rejected with a list of them, unless
    `accept_breaking` is set."""
    item = require_definition(space, request.definition)
    DEFINITIONS.check_request(request, item)
    old, changes = item.settings, DEFINITIONS.changes(request)
    if "schema" in changes:
        changes["schema"] = normalize_schema(changes["schema"])
    if changes.get("ttl_seconds", old.ttl_seconds) != old.ttl_seconds:
        former = [*(old.former_ttls or []), *([] if old.ttl_seconds is None else [old.ttl_seconds])]
        changes |= {"lasting_from": space.now, "former_ttls": former[-MAX_FORMER:]}
    new = structs.replace(old, **changes)
    contracts = build_definition_contract(item.id, old), build_definition_contract(item.id, new)
    warnings = check_changed_schema(space, definition_tie(item.id), *contracts, request.accept_breaking)
    name = item.name if request.name is None else check_content(request.name.strip(), field="name")
    if name != item.name:
        _check_free(space, BY_NAME, name, "name")
        documents.add(space, BY_NAME, Document(name, name, 1, item.id, space.now, space.now))
        documents.remove(space.tx, BY_NAME, item.name)
    return to_definition_info(DEFINITIONS.update(space, item, new, name=name), warnings)


class CheckDefinition(Request, frozen=True, kw_only=True):
    """A schema to check against the stored records."""

    definition: DefinitionId
    schema: SchemaField


@operation(
    "definitions.check",
    "POST /v1/memory_definitions/{definition}/check",
    role="admin",
    example=Example({**OF, "schema": {**PROFILE, "required": ["preferred_name"]}}, GIVEN),
)
def check_definition(space: Space, request: CheckDefinition) -> Breaking:
    """List the stored records that would not fit a new schema, without saving the schema."""
    item = require_definition(space, request.definition)
    definition = structs.replace(item.settings, schema=normalize_schema(request.schema))
    contract = build_definition_contract(item.id, definition)
    check_object_schema(contract)
    return find_breaking(space, definition_tie(item.id), contract)


class DeletedDefinition(Response, frozen=True, kw_only=True):
    """A deleted definition, the number of records deleted with it, and the job that erases their bytes."""

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
def delete_definition(space: Space, request: OfDefinition) -> DeletedDefinition:
    """Delete a memory definition with all its records."""
    item = require_definition(space, request.definition)
    job, count = delete_tied(space, definition_tie(item.id))
    for kind, key in ((BY_SLUG, item.settings.slug), (BY_NAME, item.name)):
        documents.erase(space, kind, key)
    DEFINITIONS.delete(space, item.id)
    return DeletedDefinition(id=item.id, slug=item.settings.slug, records=count, job=job)


def require_definition(space: Space, name: str) -> Item[Definition]:
    """Return a definition by its id or its slug."""
    found = find_definition(space, name)
    if found is None:
        raise NotFound(f"Memory Definition with ID {name} not found.")
    return found


def find_definition(space: Space, name: str) -> Item[Definition] | None:
    return DEFINITIONS.find(space, name) or find_definition_by_slug(space, name)


def find_definition_by_slug(space: Space, slug: str) -> Item[Definition] | None:
    found = documents.find(space.tx, BY_SLUG, slug)
    return None if found is None else DEFINITIONS.find(space, found.body)


def is_name_taken(space: Space, name: str) -> bool:
    return documents.find(space.tx, BY_NAME, name) is not None


def normalize_definition(new: CreateDefinition) -> CreateDefinition:
    """Return a request with the slug and the schema in the form in which they are stored."""
    name = new.name.strip()
    slug = derive_slug(name) or None if new.slug is None else new.slug
    return structs.replace(new, name=name, slug=slug, schema=normalize_schema(new.schema or {"type": "object"}))


def list_differences(item: Item[Definition], new: CreateDefinition) -> list[str]:
    """Return the settings in which a definition differs from a normalized request."""
    names = [] if item.name == new.name else ["name"]
    settings = DefinitionSettings.__struct_fields__
    return names + [one for one in settings if getattr(item.settings, one) != getattr(new, one)]


def definition_tie(definition_id: str) -> str:
    return f"definition/{definition_id}"


def build_definition_contract(definition_id: str, definition: Definition, *ties: str) -> Contract:
    """Return the contract of a definition's records."""
    ties = (definition_tie(definition_id), *ties)
    return Contract(definition.schema, True, definition.lifetime_us, ties, secrets=definition.secrets)


def build_lasting_contract(item: Item[Definition]) -> Contract:
    """Return a contract under which records keep an individual lifetime. A record that was written before the definition's
    lifetime changed, and has that former lifetime, does not have an individual one."""
    since, former = item.settings.lasting_from, item.settings.former_ttls
    return build_definition_contract(item.id, item.settings)._replace(
        lasting=0 if since is None else since + 1,
        former=None if former is None else tuple(one * SECOND for one in former),
    )


def derive_slug(name: str) -> str:
    """Return the slug of a name (S3.5), without accents; empty if the name has no ASCII letter or digit."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return re.sub(r"[^a-z0-9]+", "_", bare.casefold()).strip("_")[:MAX_NAME]


def to_definition_info(item: Item[Definition], warnings: Sequence[str] = ()) -> DefinitionInfo:
    warnings = [*list_name_doubts(item.settings.slug, "slug"), *warnings]
    return to_response(DefinitionInfo, item, warnings=warnings or None)


def _check_free(space: Space, kind: str, key: str, field: str) -> None:
    if documents.find(space.tx, kind, key) is not None:
        raise Conflict(f"There is already a memory definition with the {field} {key!r}.", field=field)


def _matches(item: Item[Definition], request: ListDefinitions) -> bool:
    definition = item.settings
    wanted = (request.name, request.slug, request.scope)
    own = (item.name, definition.slug, definition.scope)
    if any(one not in (None, value) for one, value in zip(wanted, own, strict=True)):
        return False
    if request.ttl_seconds not in (None, definition.ttl_seconds or 0):
        return False
    if request.search is None:
        return True
    text = request.search.casefold()
    return any(text in (one or "").casefold() for one in (item.name, definition.slug, definition.description))
