"""Memory stores of apps: kinds of records, each with a schema, an access mode and a retention (system S2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from .. import typed
from ..clock import DAY, to_datetime
from ..core import documents
from ..core.catalog import OMITTED, Catalog, Item, Version
from ..core.dispatch import KEEP_ANSWERS, Call
from ..core.operation import Example, Request, Response, explain_invalid, operation
from ..core.owners import app_records
from ..core.space import Space
from ..erasure.erase import erase_collection
from ..errors import Conflict, Invalid, NotFound
from ..jobs import queue
from ..model.fields import check_content, id_limits
from ..text.yaml import Limits, core
from ..text.yaml import read as read_yaml
from .apps import APPS, GIVEN_APP, SESSION_META, AppName, OfApp, require_app, require_or_add_app, to_thread
from .records import Contract, Description, delete_tied, list_tied_addresses, list_tied_addresses_below
from .validation import (
    BY_SLUG,
    MAX_LISTED,
    MAX_NAME,
    Accept,
    check_changed_schema,
    check_object_schema,
    copy_settings,
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
_UNITS = {"day": 1, "week": 7, "month": 30}
_RETENTION = re.compile(r"(\d{1,4})_(day|week|month)s?")
_MAX_DAYS = 3650


class Store(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a memory store, as they are stored under its technical name."""

    access: Access = "user"
    retention: str = "1_month"
    schema: dict[str, Any] = {}
    strict: bool = False
    description: str | None = None

    @property
    def lifetime_us(self) -> int | None:
        """Lifetime of a record after each write; None: until its session ends."""
        return None if self.retention == SESSION else parse_retention(self.retention) * DAY


@lru_cache(maxsize=256)
def stores_of(app: str) -> Catalog[Store]:
    """Return the catalog of an app's stores. Their ids are their technical names."""
    return Catalog(f"store:{app}", Store, noun="store", immutable=("access",), clearable=("description",))


def normalize_retention(text: str) -> str:
    """Return a retention in its canonical form: `session`, or a number of days, weeks or months of 30 days (S2.12, S2.33)."""
    if text in (SESSION, "session_only"):
        return SESSION
    parse_retention(text)
    number, _, unit = text.removesuffix("s").partition("_")
    return f"{int(number)}_{unit}" + ("s" if int(number) > 1 else "")


@lru_cache(maxsize=64)
def parse_retention(text: str) -> int:
    """Return a retention in days."""
    found = _RETENTION.fullmatch(text)
    days = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < days <= _MAX_DAYS:
        raise Invalid(
            f"`retention` cannot be {text[:50]!r}: give `session`, `1_day`, `1_week`, `1_month`, or a multiple such as `3_days`.",
            field="retention",
        )
    return days


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
    Meta(
        max_length=50,
        description="Lifetime of content after each write: `session`, `1_day`, `1_week`, `1_month`, or a multiple: `3_days`.",
    ),
]
StrictField = Annotated[
    bool, Meta(description="Reject content that does not fit the schema, instead of accepting it with a warning.")
]
NEW = {"app": "shop", "technical_name": "userPrefs", "access": "user", "retention": "1_month"}
GIVEN = (("stores.create", NEW),)
OF = {"app": "shop", "store": "userPrefs"}


class StoreInfo(Response, frozen=True, kw_only=True):
    """A memory store."""

    app: str
    technical_name: str
    name: str
    access: str
    retention: str
    strict: bool
    schema: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    warnings: list[str] | None = None


class Stores(Response, frozen=True, kw_only=True):
    """The stores of an app, by technical name."""

    stores: list[StoreInfo]


class NewStore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a new store, without its technical name."""

    name: DisplayName | None = None
    description: Description | None = None
    schema: SchemaField | None = None
    access: AccessField = "user"
    retention: RetentionField = "1_month"
    strict: StrictField = False


class CreateStore(Request, frozen=True, kw_only=True):
    """A store to create. Only `technical_name` is required."""

    app: AppName
    technical_name: TechnicalName
    name: DisplayName | None = None
    description: Description | None = None
    schema: SchemaField | None = None
    access: AccessField = "user"
    retention: RetentionField = "1_month"
    strict: StrictField = False


@operation(
    "stores.create", "POST /v1/apps/{app}/stores", effect="write", role="admin", status=201, example=Example(NEW)
)
def create_store(space: Space, request: CreateStore) -> StoreInfo:
    """Create a memory store. Its app is created with its first store."""
    return add_store(space, request.app, request.technical_name, request)


StoresField = Annotated[
    str | dict[str, Any],
    Meta(
        description="Settings of stores by technical name, as an object, or as a YAML or JSON text (on the command line also "
        "`@FILE`)."
    ),
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


class UpdateStore(Request, frozen=True, kw_only=True):
    """Changes to a store. Omitted fields keep their values. The technical name and the access mode cannot change."""

    app: AppName
    store: TechnicalName
    name: DisplayName | None = None
    description: Description | None = OMITTED
    schema: SchemaField | None = None
    retention: RetentionField | None = None
    strict: StrictField | None = None
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
    if "retention" in changes:
        changes["retention"] = normalize_retention(changes["retention"])
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
    addresses += list_tied_addresses_below(space, f"thread/{to_thread(request.app, '')}")
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
    retention, schema = normalize_retention(new.retention), normalize_schema(new.schema or {})
    return Store(access=new.access, retention=retention, schema=schema, strict=new.strict, description=new.description)


def check_technical_name(name: str) -> None:
    if name == SESSION_META:
        raise Invalid(
            f"{SESSION_META!r} is reserved for the metadata of sessions: choose another name.", field="technical_name"
        )
    if len(name) > MAX_NAME or not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(f"{NAME_ADVICE} It cannot be {name[:100]!r}.", field="technical_name")


def parse_stores(source: str | Mapping[str, Any]) -> dict[str, NewStore]:
    """Return the stores of a configuration, by their technical names (S2.14)."""
    limits = Limits(MAX_SOURCE, MAX_LEVELS)
    value = read_yaml(source, "stores", limits, core).value if isinstance(source, str) else source
    if not isinstance(value, Mapping) or not value:
        raise Invalid("`stores` must be an object of settings by technical name.", field="stores")
    found = {}
    for name, settings in value.items():
        check_technical_name(str(name))
        try:
            found[str(name)] = typed.convert({} if settings is None else settings, NewStore)
        except msgspec.ValidationError as error:
            reason = explain_invalid(NewStore, str(error)[:300]).message
            raise Invalid(f"The store {str(name)!r} cannot be created: {reason}", field=f"stores.{name}") from None
    return found


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
    return to_store_info(app, item)


def to_store_info(app: str, item: Item[Store], warnings: Sequence[str] = ()) -> StoreInfo:
    return StoreInfo(
        app=app,
        technical_name=item.id,
        name=item.name,
        version=item.version,
        created_at=to_datetime(item.created_at),
        updated_at=to_datetime(item.updated_at),
        warnings=[*list_name_doubts(item.id, "technical name"), *warnings] or None,
        **copy_settings(item.settings),
    )
