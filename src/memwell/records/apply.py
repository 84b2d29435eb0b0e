"""Stores and definitions as a file says: missing ones are created, different ones changed, all or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, explain_invalid, operation
from ..core.space import Space
from ..errors import Conflict, Invalid, MemwellError
from ..model.field_readers import convert_request
from .apps import AppName
from .definitions import (
    DEFINITIONS,
    CreateDefinition,
    DefinitionSettings,
    UpdateDefinition,
    create_definition,
    find_definition_by_slug,
    list_differences,
    normalize_definition,
    update_definition,
)
from .stores import (
    NewStore,
    StoreSettings,
    StoresField,
    UpdateStore,
    add_store,
    list_store_differences,
    parse_stores,
    read_named_settings,
    stores_of,
    update_store,
)
from .validation import Accept, join_names

MAX_DEFINITIONS = 200
Action = Literal["create", "change", "reuse"]
DryRun = Annotated[bool, Meta(description="Only report what would be created and changed.")]
DefinitionsField = Annotated[
    str | dict[str, Any],
    Meta(
        description="Settings of definitions by slug, as an object, or as a YAML or JSON text (on the command line also `@FILE`)."
    ),
]


class AppliedPart(Response, frozen=True, kw_only=True):
    """A store or a definition: created, changed, or reused because it has these settings. `changes` names the settings that
    differed."""

    name: str
    action: Action
    changes: list[str]
    warnings: list[str] | None = None


class Applied(Response, frozen=True, kw_only=True):
    """The parts of the file, and the names of others, which stay as they are."""

    parts: list[AppliedPart]
    others: list[str]
    dry_run: bool


class ApplyStores(Request, frozen=True, kw_only=True):
    """The stores that an app should have."""

    app: AppName
    stores: StoresField
    dry_run: DryRun = False
    accept_breaking: Accept = False


_STORES = {"app": "shop", "stores": "cart:\n  access: session\n  retention: session_only\n", "dry_run": True}


@operation(
    "stores.apply",
    "POST /v1/apps/{app}/stores/apply",
    effect="write",
    role="admin",
    outside=True,
    example=Example(_STORES),
)
def apply_stores(call: Call, request: ApplyStores) -> Applied:
    """Create and change stores until they have the settings of a file, all or none. Omitted settings have their defaults, except
    for the display name. Stores that the file does not name stay."""
    new = parse_stores(request.stores)

    def apply(space: Space) -> Applied:
        parts = [_apply_part("store", name, _apply_store, space, request, name, one) for name, one in new.items()]
        stores = stores_of(request.app)
        known = [item.id for item in stores.list(space)]
        for name in known:
            stores.mention(space, name)
        others = [name for name in known if name not in new]
        return Applied(parts=parts, others=others, dry_run=request.dry_run)

    return _run(call, apply, dry_run=request.dry_run)


class ApplyDefinitions(Request, frozen=True, kw_only=True):
    """The definitions that there should be."""

    definitions: DefinitionsField
    dry_run: DryRun = False
    accept_breaking: Accept = False


_DEFINITIONS = {"definitions": "customer_profile:\n  ttl_seconds: 90 days\n", "dry_run": True}


@operation(
    "definitions.apply",
    "POST /v1/memory_definitions/apply",
    effect="write",
    role="admin",
    outside=True,
    example=Example(_DEFINITIONS),
)
def apply_definitions(call: Call, request: ApplyDefinitions) -> Applied:
    """Create and change memory definitions until they have the settings of a file, all or none. Omitted settings have their
    defaults, except for the name. Definitions that the file does not name stay."""
    new = _parse_definitions(request.definitions)

    def apply(space: Space) -> Applied:
        parts = [_apply_part("definition", slug, _apply_definition, space, request, slug, new[slug]) for slug in new]
        known = DEFINITIONS.list(space)
        for one in known:
            DEFINITIONS.mention(space, one.id)
        others = [one.settings.slug for one in known if one.settings.slug not in new]
        return Applied(parts=parts, others=sorted(others), dry_run=request.dry_run)

    return _run(call, apply, dry_run=request.dry_run)


class _RolledBack(Exception):
    """Raised to roll back a dry run."""

    def __init__(self, result: Applied) -> None:
        super().__init__()
        self.result = result


def _run(call: Call, apply: Callable[[Space], Applied], *, dry_run: bool) -> Applied:
    """Apply a file. A dry run does the same and is rolled back, so that it finds every error."""
    if not dry_run:
        return call.write(apply)

    def apply_and_raise(space: Space) -> None:
        raise _RolledBack(apply(space))

    try:
        call.engine.write(call.principal, apply_and_raise)
    except _RolledBack as rolled_back:
        return rolled_back.result
    raise AssertionError("unreachable")


def _apply_part(kind: str, name: str, apply: Callable[..., AppliedPart], *given: Any) -> AppliedPart:
    """Apply a part of a file. Errors name it."""
    try:
        return apply(*given)
    except MemwellError as error:
        details = {**error.details, "field": f"{kind}s.{name}"}
        raise type(error)(f"The {kind} {name!r}: {error.message}", **details) from None


def _apply_store(space: Space, request: ApplyStores, name: str, new: NewStore) -> AppliedPart:
    item = stores_of(request.app).find(space, name)
    if item is None:
        return AppliedPart(
            name=name, action="create", changes=[], warnings=add_store(space, request.app, name, new).warnings
        )
    differences = list_store_differences(item, new)
    if not differences:
        return AppliedPart(name=name, action="reuse", changes=[])
    _check_fixed(differences, stores_of(request.app).fixed)
    wanted = _list_values(StoreSettings, new, differences)
    change = UpdateStore(app=request.app, store=name, accept_breaking=request.accept_breaking, **wanted)
    return AppliedPart(
        name=name, action="change", changes=differences, warnings=update_store.run(space, change).warnings
    )


def _apply_definition(space: Space, request: ApplyDefinitions, slug: str, given: CreateDefinition) -> AppliedPart:
    item = find_definition_by_slug(space, slug)
    if item is None:
        name = given.name or slug.replace("_", " ").strip().capitalize()
        new = normalize_definition(msgspec.structs.replace(given, name=name))
        return AppliedPart(name=slug, action="create", changes=[], warnings=create_definition.run(space, new).warnings)
    new = normalize_definition(msgspec.structs.replace(given, name=given.name or item.name))
    differences = list_differences(item, new)
    if not differences:
        return AppliedPart(name=slug, action="reuse", changes=[])
    _check_fixed(differences, DEFINITIONS.fixed)
    wanted = _list_values(DefinitionSettings, new, differences)
    change = UpdateDefinition(definition=item.id, accept_breaking=request.accept_breaking, **wanted)
    warnings = update_definition.run(space, change).warnings
    return AppliedPart(name=slug, action="change", changes=differences, warnings=warnings)


def _check_fixed(differences: list[str], fixed: list[str]) -> None:
    found = [name for name in differences if name in fixed]
    if found:
        raise Conflict(
            f"it exists with another {join_names(found)}, which cannot be changed. Choose another name, or delete it with its "
            "records.",
            differences=differences,
        )


def _list_values(settings: type[msgspec.Struct], new: msgspec.Struct, names: list[str]) -> dict[str, Any]:
    """Return the wanted settings of these names, with the default where a setting was omitted. Null clears a setting."""
    defaults = {one.name: one.default for one in msgspec.structs.fields(settings)}
    defaults["schema"] = {}
    given = {name: getattr(new, name) for name in names}
    return {name: defaults.get(name) if value is None else value for name, value in given.items()}


def _parse_definitions(source: str | Mapping[str, Any]) -> dict[str, CreateDefinition]:
    """Return the definitions of a file, by slug. A name may be empty."""
    found = {}
    named = read_named_settings(source, "definitions")
    if len(named) > MAX_DEFINITIONS:
        raise Invalid(f"A file has at most {MAX_DEFINITIONS} definitions, not {len(named)}.", field="definitions")
    for slug, settings in named.items():
        data = {"name": slug, **settings} if isinstance(settings, Mapping) else settings
        if isinstance(data, dict) and data.get("slug", slug) != slug:
            raise Invalid(f"The definition {slug!r} has another `slug`: omit it.", field=f"definitions.{slug}")
        try:
            checked = convert_request(data, CreateDefinition)
        except msgspec.ValidationError as error:
            reason = explain_invalid(CreateDefinition, str(error)[:300]).message
            raise Invalid(f"The definition {slug!r}: {reason}", field=f"definitions.{slug}") from None
        found[slug] = msgspec.structs.replace(checked, slug=slug, name=checked.name if "name" in settings else "")
    return found
