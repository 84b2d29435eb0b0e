"""Memory stores of apps: kinds of records, each with a schema, an access mode and a retention (system S2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from ..clock import SECOND
from ..core import documents
from ..core.catalog import Catalog, Item, Version, to_response
from ..core.dispatch import KEEP_ANSWERS, Call
from ..core.operation import Example, Request, Response, explain_invalid, operation
from ..core.owners import app_records
from ..core.settings import Clearable, Fixed, build_settings, create_request, response, update_request
from ..core.space import Space
from ..erasure.erase import erase_collection
from ..errors import Conflict, Invalid, NotFound
from ..jobs import queue
from ..model.collection import join_parts
from ..model.field_readers import convert_request, text_lifetime_limits
from ..model.fields import check_content, id_limits
from ..text import lifetimes
from ..text.lifetimes import FOR_GOOD, SECONDS
from ..text.yaml import Limits, core
from ..text.yaml import read as read_yaml
from .apps import APPS, GIVEN_APP, SESSION_META, AppName, OfApp, require_app, require_or_add_app, thread_tie
from .records import Contract, Description, delete_tied, list_tied_addresses, list_tied_addresses_below
from .validation import (
    BY_SLUG,
    MAX_LISTED,
    MAX_NAME,
    Accept,
    check_changed_schema,
    check_object_schema,
    join_names,
    list_name_doubts,
    list_schema_doubts,
    normalize_schema,
)

Access = Literal["user", "application", "session"]

SESSION = "session"
"""Retention of records that are deleted when their session ends."""
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$(?!\n)"
NAME_ADVICE = "A technical name has letters, digits and underscores, and begins with a letter."
MAX_SOURCE = 1024 * 1024
MAX_LEVELS = 64
MAX_DAYS = 3650


def normalize_retention(value: Any) -> str:
    """Return a retention in its canonical form: `session`, `none` (for good), or a number of units (S2.12, S2.33)."""
    found = lifetimes.parse_lifetime(value, "day", "retention")
    if found is None:
        return FOR_GOOD
    if found == lifetimes.SESSION:
        return SESSION
    if found.seconds > MAX_DAYS * SECONDS["day"]:
        raise Invalid(
            f"`retention` is at most {MAX_DAYS} days, unlike {value!r}: give `none` to keep content for good.",
            field="retention",
        )
    return f"{found.number}_{found.unit}" + ("s" if found.number > 1 else "")


@lru_cache(maxsize=64)
def parse_retention(text: str) -> int | None:
    """Return a retention in canonical form as microseconds; None for good, and for `session`."""
    number, _, unit = text.partition("_")
    return int(number) * SECONDS[unit.removesuffix("s")] * SECOND if number.isdigit() else None


TechnicalName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME,
        description=f"The name in code and prompts, which cannot change. {NAME_ADVICE}",
    ),
]
DisplayName = Annotated[str, id_limits(MAX_NAME, "The display name, which may change.")]
SchemaField = Annotated[
    dict[str, Any],
    Meta(description="A JSON Schema (Draft 2020-12) of the content, at most 64 KiB; omit it for any object."),
]
AccessField = Annotated[
    Access, Meta(description="One record per `user`, per `session`, or for the whole `application`.")
]
RetentionField = Annotated[
    str,
    text_lifetime_limits(
        normalize_retention,
        "Lifetime of content after each write: `session`, or a time such as `1_day`, `2 weeks`, `1_month`; `null`, 0 or `none`: "
        "for good.",
    ),
]
StrictField = Annotated[
    bool, Meta(description="Reject content that does not fit the schema, instead of accepting it with a warning.")
]


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a memory store."""

    description: Clearable[Description] = None
    schema: SchemaField = {}
    access: Fixed[AccessField] = "user"
    retention: RetentionField = "1_month"
    strict: StrictField = False


class Store(StoreSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a memory store, as they are stored under its technical name."""

    @property
    def lifetime_us(self) -> int | None:
        """Lifetime of a record after each write; None: until its session ends, or for good."""
        return parse_retention(self.retention)


@lru_cache(maxsize=256)
def stores_of(app: str) -> Catalog[Store]:
    """Return the catalog of an app's stores. Their ids are their technical names."""
    return Catalog(f"store:{app}", Store, noun="store")


NEW = {"app": "shop", "technical_name": "userPrefs", "access": "user", "retention": "1_month"}
GIVEN = (("stores.create", NEW),)
OF = {"app": "shop", "store": "userPrefs"}


@response(StoreSettings)
class StoreInfo(StoreSettings, Response, frozen=True, kw_only=True):
    """A memory store."""

    app: str
    technical_name: str
    name: str
    schema: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    warnings: list[str] | None = None


class Stores(Response, frozen=True, kw_only=True):
    """The stores of an app, by technical name."""

    stores: list[StoreInfo]


@create_request(StoreSettings, after="schema")
class NewStore(Request, frozen=True, kw_only=True):
    """Settings of a new store, without its technical name."""

    name: DisplayName | None = None
    description: Description | None = None
    schema: SchemaField | None = None


@create_request(StoreSettings, after="schema")
class CreateStore(Request, frozen=True, kw_only=True):
    """A store to create. Only `technical_name` is required."""

    app: AppName
    technical_name: TechnicalName
    name: DisplayName | None = None
    description: Description | None = None
    schema: SchemaField | None = None


@operation(
    "stores.create", "POST /v1/apps/{app}/stores", effect="write", role="admin", status=201, example=Example(NEW)
)
def create_store(space: Space, request: CreateStore) -> StoreInfo:
    """Create a memory store. Its app is created with its first store."""
    return add_store(space, request.app, request.technical_name, request)


StoresField = Annotated[
    str | dict[str, Any],
    Meta(description="Settings of stores by technical name, as an object, or as a YAML or JSON text."),
]


class DefineStores(Request, frozen=True, kw_only=True):
    """The stores that an app should have."""

    app: AppName
    stores: StoresField


@operation(
    "stores.define",
    "PUT /v1/apps/{app}/stores",
    effect="write",
    role="admin",
    outside=True,
    example=Example({"app": "shop", "stores": "cart:\n  access: session\n  retention: session_only\n"}),
)
def define_stores(call: Call, request: DefineStores) -> Stores:
    """Create stores from a configuration, all or none. A store that exists with the same settings is left unchanged."""
    new = parse_stores(request.stores)
    return call.write(lambda space: Stores(stores=[_define_store(space, request.app, *store) for store in new.items()]))


@operation("stores.list", "GET /v1/apps/{app}/stores", example=Example({"app": "shop"}, GIVEN))
def list_stores(space: Space, request: OfApp) -> Stores:
    """List the memory stores of an app, by technical name."""
    return Stores(stores=[to_store_info(request.app, item) for item in stores_of(request.app).list(space)])


class OfStore(Request, frozen=True, kw_only=True):
    """A store."""

    app: AppName
    store: TechnicalName


@operation("stores.get", "GET /v1/apps/{app}/stores/{store}", example=Example(OF, GIVEN))
def get_store(space: Space, request: OfStore) -> StoreInfo:
    """Return a memory store, by its technical name."""
    return to_store_info(request.app, require_store(space, request.app, request.store))


@update_request(StoreSettings)
class UpdateStore(Request, frozen=True, kw_only=True):
    """Changes to a store. Omitted fields keep their values. The technical name and the access mode cannot change."""

    app: AppName
    store: TechnicalName
    name: DisplayName | None = None
    technical_name: Annotated[str, Meta(description="It cannot be changed: omit it.")] | None = None
    access: Annotated[Access, Meta(description="It cannot be changed: omit it.")] | None = None
    accept_breaking: Accept = False
    version: Version | None = None


@operation(
    "stores.update",
    "PATCH /v1/apps/{app}/stores/{store}",
    effect="write",
    role="admin",
    example=Example({**OF, "name": "Preferences"}, GIVEN),
)
def update_store(space: Space, request: UpdateStore) -> StoreInfo:
    """Change a memory store. If stored content does not fit the new schema of a strict store, the change is rejected, unless
    `accept_breaking` is set. A shorter retention applies to stored content at once, a longer one from the next write on."""
    catalog, item = stores_of(request.app), require_store(space, request.app, request.store)
    if request.technical_name not in (None, request.store):
        raise Invalid("The technical name of a store cannot be changed: create another store.", field="technical_name")
    catalog.check_request(request, item)
    old, changes = item.settings, catalog.changes(request)
    if "schema" in changes:
        changes["schema"] = normalize_schema(changes["schema"])
    store = structs.replace(old, **changes)
    tie = store_tie(request.app, item.id)
    contracts = build_store_contract(old), build_store_contract(store)
    warnings = check_changed_schema(space, tie, *contracts, request.accept_breaking)
    name = None if request.name is None else check_content(request.name, field="name")
    item = catalog.update(space, item, store, name=name)
    if store.retention != old.retention:
        warnings += _apply_retention(space, tie, item)
    return to_store_info(request.app, item, warnings)


def _apply_retention(space: Space, tie: str, item: Item[Store]) -> list[str]:
    """Apply a new retention to stored records. Return warnings."""
    lifetime = item.settings.lifetime_us
    if item.settings.retention == FOR_GOOD:  # like every longer one, it counts from the next write on
        return []
    if lifetime is not None:
        space.tx.send("shorten_tied_records", tie=tie, lifetime=lifetime)
    else:
        space.tx.send("tie_to_sessions", tie=tie)
        if item.settings.access == "session":
            space.tx.send("end_tied_records", tie=tie, skip=len(item.id) + 1, now=space.now)
    space.tx.send("expire_tied_addresses", tie=tie)
    space.tx.send("expire_tied_versions", tie=tie)
    # Responses stored for retries must not outlive the records.
    space.tx.send("erase_answers_about_tied", tie=tie, until=space.now + KEEP_ANSWERS)
    queue.ensure_slot(space.tx, "expire", space.now, space.now)
    row = None if lifetime is not None else space.tx.row("count_tied_to_no_session", tie=tie, now=space.now)
    if row is None or row[0] == 0:
        return []
    reason = "because their session is unknown: each keeps its former lifetime until its next write"
    return [f"{row[0]} of the stored records cannot end with a session, {reason}."]


class DeletedStore(Response, frozen=True, kw_only=True):
    """A deleted store, the number of records deleted with it, and the job that erases their bytes."""

    technical_name: str
    records: int
    job: str | None = None


@operation(
    "stores.delete", "DELETE /v1/apps/{app}/stores/{store}", effect="erase", role="admin", example=Example(OF, GIVEN)
)
def delete_store(space: Space, request: OfStore) -> DeletedStore:
    """Delete a memory store with its content, of all users and sessions."""
    require_store(space, request.app, request.store)
    job, count = delete_tied(space, store_tie(request.app, request.store))
    stores_of(request.app).delete(space, request.store)
    return DeletedStore(technical_name=request.store, records=count, job=job)


class DeletedApp(Response, frozen=True, kw_only=True):
    """A deleted app, the numbers of deleted stores and records, and the job that erases their bytes."""

    app: str
    stores: int
    records: int
    job: str


@operation(
    "apps.delete", "DELETE /v1/apps/{app}", effect="erase", role="admin", example=Example({"app": "shop"}, GIVEN_APP)
)
def delete_app(space: Space, request: OfApp) -> DeletedApp:
    """Delete an app with its stores and sessions and all their records, of all users. Its workflow is kept."""
    require_app(space, request.app)
    catalog = stores_of(request.app)
    stores = catalog.list(space)
    addresses = [one for item in stores for one in list_tied_addresses(space, store_tie(request.app, item.id))]
    addresses += list_tied_addresses_below(space, thread_tie(join_parts(app=request.app) + "/"))
    place = app_records(request.app)
    addresses += space.tx.rows("addresses_of_name", dialect=place.dialect, name=place.name)
    unique = list({one[0]: one for one in addresses}.values())
    job = space.bury(unique).job
    for (collection_id,) in space.tx.rows("collections_of_name", dialect=place.dialect, name=place.name):
        erase_collection(space.tx, collection_id, space.now)
    for item in stores:
        catalog.delete(space, item.id)
    APPS.delete(space, request.app)
    records = sum(kind == "record" for _, _, kind in unique)
    return DeletedApp(app=request.app, stores=len(stores), records=records, job=job)


def store_tie(app: str, store: str) -> str:
    return f"store/{app}/{store}"


def build_store_contract(store: Store, *ties: str, replace_ties: bool = False) -> Contract:
    """Return the contract of a store's content."""
    return Contract(store.schema or None, store.strict, store.lifetime_us, ties, replace_ties)


def require_store(space: Space, app: str, name: str) -> Item[Store]:
    """Return a store by its technical name. Its display name is not accepted (S2.17)."""
    found = stores_of(app).find(space, name)
    if found is not None:
        return found
    # Do not list the stores for a scoped key.
    names = [] if space.principal.scope else [item.id for item in stores_of(app).list(space)][:MAX_LISTED]
    hint = f"Its stores are: {', '.join(names)}" if names else "Give the technical name of a store"
    raise NotFound(f"The app {app!r} has no memory store {name[:100]!r}. {hint}.")


def add_store(space: Space, app: str, technical_name: str, new: NewStore | CreateStore) -> StoreInfo:
    """Create a store, within the limit of its app."""
    check_technical_name(technical_name)
    owner = require_or_add_app(space, app).settings
    catalog = stores_of(app)
    if catalog.find(space, technical_name) is not None:
        raise Conflict(f"The app already has a store {technical_name!r}.", field="technical_name")
    count = catalog.count(space)
    if count >= owner.max_stores:
        raise Conflict(f"The app has {count} stores, which is its limit: delete one, or raise `max_stores`.")
    store = _to_store(new)
    contract = build_store_contract(store)
    check_object_schema(contract)
    name = check_content(new.name or technical_name, field="name")
    warnings = list_schema_doubts(contract)
    if documents.find(space.tx, BY_SLUG, technical_name) is not None:
        conflict = f"There is also a memory definition {technical_name!r}"
        warnings.insert(0, f"{conflict}: in this app, `{{{{memory.{technical_name}}}}}` is the store.")
    return to_store_info(app, catalog.add(space, store, name=name, item_id=technical_name), warnings)


def _to_store(new: NewStore | CreateStore) -> Store:
    return build_settings(Store, new, schema=normalize_schema(new.schema or {}))


def check_technical_name(name: str) -> None:
    if name == SESSION_META:
        raise Invalid(
            f"{SESSION_META!r} is reserved for the metadata of sessions: choose another name.", field="technical_name"
        )
    if len(name) > MAX_NAME or not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(f"{NAME_ADVICE} It cannot be {name[:100]!r}.", field="technical_name")


def parse_stores(source: str | Mapping[str, Any]) -> dict[str, NewStore]:
    """Return the stores of a configuration, by their technical names (S2.14)."""
    found = {}
    for name, settings in read_named_settings(source, "stores").items():
        check_technical_name(name)
        try:
            found[name] = convert_request(settings, NewStore)
        except msgspec.ValidationError as error:
            reason = explain_invalid(NewStore, str(error)[:300]).message
            raise Invalid(f"The store {name!r} cannot be created: {reason}", field=f"stores.{name}") from None
    return found


def read_named_settings(source: str | Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return settings by name, from YAML, JSON or an object. None stands for no settings."""
    value = read_yaml(source, field, Limits(MAX_SOURCE, MAX_LEVELS), core).value if isinstance(source, str) else source
    if not isinstance(value, Mapping) or not value:
        raise Invalid(f"`{field}` must be an object of settings by name.", field=field)
    return {str(name): {} if settings is None else settings for name, settings in value.items()}


def list_store_differences(item: Item[Store], new: NewStore) -> list[str]:
    """Return the names of the settings that differ between a store and a request. An omitted display name does not differ."""
    wanted = _to_store(new)
    names = [] if new.name in (None, item.name) else ["name"]
    return names + [one for one in Store.__struct_fields__ if getattr(item.settings, one) != getattr(wanted, one)]


def _define_store(space: Space, app: str, name: str, new: NewStore) -> StoreInfo:
    """Return the store with this name and these settings; create it if it is missing."""
    item = stores_of(app).find(space, name)
    if item is None:
        try:
            return add_store(space, app, name, new)
        except Invalid as error:
            details = {**error.details, "field": f"stores.{name}"}
            raise type(error)(f"The store {name!r} cannot be created: {error.message}", **details) from None
    differences = list_store_differences(item, new)
    if differences:
        advice = "change it with `stores.update`"
        if "access" in differences:
            advice = "the access mode cannot be changed; choose another name, or delete this store with its content"
        raise Conflict(
            f"The store {name!r} exists already with another {join_names(differences)}: {advice}.",
            differences=differences,
        )
    stores_of(app).mention(space, name)
    return to_store_info(app, item)


def to_store_info(app: str, item: Item[Store], warnings: Sequence[str] = ()) -> StoreInfo:
    warnings = [*list_name_doubts(item.id, "technical name"), *warnings]
    return to_response(StoreInfo, item, app=app, technical_name=item.id, warnings=warnings or None)
