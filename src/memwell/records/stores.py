"""A changed retention of a store, and what is stored: it never lives longer than it was to live, until it is written again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, structs

from ..clock import to_datetime
from ..core import documents
from ..core.dispatch import KEEP_ANSWERS
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.owners import app_records
from ..core.space import Space
from ..erasure.erase import erase_collection
from ..errors import Conflict, Invalid, NotFound, Stale
from ..jobs import queue
from ..model import check
from ..model.fields import ID_PATTERN
from .app_sessions import to_thread
from .apps import KIND as APP
from .apps import NEW_APP, AppName, Description, OfApp, settled
from .apps import existing as existing_app
from .contract import MAX_NAME, NAME_ADVICE, NAME_PATTERN, SESSION_META, Access, Store, decode_store, encoded, retention
from .definitions import by_slug, vague
from .records import delete_tied, list_tied_addresses, list_tied_addresses_below
from .validation import (
    MAX_TOLD,
    Accept,
    Contract,
    check_breaking,
    check_object_schema,
    find_breaking,
    list_schema_doubts,
    normalize_schema,
)


def retain(space: Space, tie: str, name: str, store: Store) -> list[str]:
    """Let what a store holds live by its new retention. Returns what is to be said about that. However much there is, each step
    is one statement."""
    if store.lifetime_us is not None:
        space.tx.send("shorten_tied_records", tie=tie, lifetime=store.lifetime_us)
    else:
        space.tx.send("tie_to_sessions", tie=tie)
    if store.lifetime_us is None and store.access == "session":
        space.tx.send("end_tied_records", tie=tie, skip=len(name) + 1, now=space.now)
    space.tx.send("expire_tied_addresses", tie=tie)
    space.tx.send("expire_tied_versions", tie=tie)
    space.tx.send("erase_answers_about_tied", tie=tie, until=space.now + KEEP_ANSWERS)  # they may not outlive it
    queue.ensure_slot(space.tx, "expire", space.now, space.now)
    return _told(space, tie) if store.lifetime_us is None else []


def _told(space: Space, tie: str) -> list[str]:
    """Whoever asks for content to go with its session must know of what cannot, since nobody knows its session."""
    row = space.tx.row("count_tied_to_no_session", tie=tie, now=space.now)
    count = 0 if row is None else int(row[0])
    if count == 0:
        return []
    told = f"{count} of the stored records cannot go with a session, since it is not known in which one they were written: "
    return [f"{told}each stays as long as it was to stay before, until it is written again."]


# -- Memory stores of apps: which content they hold, whose it is, and for how long (system S2).


TechnicalName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME,
        description=f"The name in code and prompts; it never changes. {NAME_ADVICE}",
    ),
]
DisplayName = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, pattern=ID_PATTERN, description="A name for people; it may change.")
]
SchemaField = Annotated[
    dict[str, Any],
    Meta(description="A JSON Schema (Draft 2020-12) of the content, at most 64 KiB; left away: any object."),
]
AccessField = Annotated[
    Access,
    Meta(
        description="Whose content it is: one record for each `user`, for each `session`, or one for the `application`."
    ),
]
RetentionField = Annotated[
    str,
    Meta(
        max_length=50,
        description="How long content stays after it was written: `session`, `1_day`, `1_week`, `1_month`, or so many of them.",
    ),
]
StrictField = Annotated[
    bool,
    Meta(description="Whether content that does not fit the schema is refused; otherwise there is only a warning."),
]
_LEFT_AWAY: Any = UNSET
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
    """What a store is to be, beside its technical name."""

    name: DisplayName | None = None
    description: Description | None = None
    schema: SchemaField | None = None
    access: AccessField = "user"
    retention: RetentionField = "1_month"
    strict: StrictField = False


class CreateStore(Request, frozen=True, kw_only=True):
    """A store to make. Only its technical name is needed."""

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
def create(space: Space, request: CreateStore) -> StoreInfo:
    """Make a memory store. It can be written to at once; the app is made with its first one."""
    new = NewStore(**{name: getattr(request, name) for name in NewStore.__struct_fields__})
    return made(space, request.app, request.technical_name, new)


@operation("stores.list", "GET /v1/apps/{app}/stores", example=Example({"app": "shop"}, GIVEN))
def list_stores(space: Space, request: OfApp) -> Stores:
    """The memory stores of an app, by technical name."""
    return Stores(stores=[info(request.app, *pair) for pair in every(space, request.app)])


class OfStore(Request, frozen=True, kw_only=True):
    """Which store."""

    app: AppName
    store: TechnicalName


@operation("stores.get", "GET /v1/apps/{app}/stores/{store}", example=Example(OF, GIVEN))
def get(space: Space, request: OfStore) -> StoreInfo:
    """A memory store, by its technical name."""
    return info(request.app, *existing(space, request.app, request.store))


class UpdateStore(Request, frozen=True, kw_only=True):
    """What to change of a store. What is left away stays. The technical name and whose content it is cannot change."""

    app: AppName
    store: TechnicalName
    name: DisplayName | None = None
    description: Description | None = _LEFT_AWAY
    schema: SchemaField | None = None
    retention: RetentionField | None = None
    strict: StrictField | None = None
    technical_name: Annotated[str, Meta(description="It cannot be changed: leave it away.")] | None = None
    access: Annotated[Access, Meta(description="It cannot be changed: leave it away.")] | None = None
    accept_breaking: Accept = False
    version: (
        Annotated[int, Meta(ge=1, description="The version that was read, to be told of changes since.")] | None
    ) = None


@operation(
    "stores.update",
    "PATCH /v1/apps/{app}/stores/{store}",
    effect="write",
    role="admin",
    example=Example({**OF, "name": "Preferences"}, GIVEN),
)
def update(space: Space, request: UpdateStore) -> StoreInfo:
    """Change a memory store. If it is strict, a schema that stored content does not fit is refused, unless that is accepted. A
    shorter retention holds for what is stored, too; a longer one from the next write on."""
    old, before = existing(space, request.app, request.store)
    if request.technical_name not in (None, request.store):
        raise Invalid("The technical name of a store never changes: make another store.", field="technical_name")
    if request.access not in (None, before.access):
        raise Invalid("Whose content a store holds never changes: make another store.", field="access")
    if request.version not in (None, old.version):
        raise Stale(f"The current version is {old.version}: read it again and repeat the change.", version=old.version)
    changes = {name: value for name in ("schema", "strict") if (value := getattr(request, name)) is not None}
    if "schema" in changes:
        changes["schema"] = normalize_schema(changes["schema"])
    changes |= {} if request.retention is None else {"retention": retention(request.retention)}
    changes |= {name: value for name in ("description",) if (value := getattr(request, name)) is not UNSET}
    store = structs.replace(before, **changes)
    held = held_to(store)
    check_object_schema(held)
    told = list_schema_doubts(held) if store.schema != before.schema else []
    if store.strict and (store.schema, store.strict) != (before.schema, before.strict):
        told += check_breaking(find_breaking(space, tie_of_store(request.app, old.id), held), request.accept_breaking)
    name = old.name if request.name is None else check.content(request.name, field="name")
    changed = documents.change(space.tx, store_kind(request.app), old, name, encoded(store), space.now)
    if store.retention != before.retention:
        told += retain(space, tie_of_store(request.app, old.id), old.id, store)
    return info(request.app, changed, store, told)


class DeletedStore(Response, frozen=True, kw_only=True):
    """A store that is gone, how many records have gone with it, and the job that erases their bytes."""

    technical_name: str
    records: int
    job: str | None = None


@operation(
    "stores.delete", "DELETE /v1/apps/{app}/stores/{store}", effect="erase", role="admin", example=Example(OF, GIVEN)
)
def delete(space: Space, request: OfStore) -> DeletedStore:
    """Delete a memory store with all its content, of all users and sessions."""
    existing(space, request.app, request.store)
    job, count = delete_tied(space, tie_of_store(request.app, request.store))
    documents.erase(space.tx, store_kind(request.app), request.store, space.now)
    return DeletedStore(technical_name=request.store, records=count, job=job)


class DeletedApp(Response, frozen=True, kw_only=True):
    """An app that is gone, with its stores and all their records."""

    app: str
    stores: int
    records: int
    job: str


@operation(
    "apps.delete",
    "DELETE /v1/apps/{app}",
    effect="erase",
    role="admin",
    example=Example({"app": "shop"}, (("apps.configure", NEW_APP),)),
)
def delete_app(space: Space, request: OfApp) -> DeletedApp:
    """Delete an app with its stores, its sessions and all their records, of all users. Its workflow stays."""
    existing_app(space, request.app)
    stores = every(space, request.app)
    addresses = [one for store, _ in stores for one in list_tied_addresses(space, tie_of_store(request.app, store.id))]
    addresses += list_tied_addresses_below(space, f"thread/{to_thread(request.app, '')}")
    place = app_records(request.app)
    addresses += space.tx.rows("addresses_of_name", dialect=place.dialect, name=place.name)
    unique = list({one[0]: one for one in addresses}.values())
    job = space.bury(unique)
    for (collection_id,) in space.tx.rows("collections_of_name", dialect=place.dialect, name=place.name):
        erase_collection(space.tx, collection_id, space.now)
    for store, _ in stores:
        documents.erase(space.tx, store_kind(request.app), store.id, space.now)
    documents.erase(space.tx, APP, request.app, space.now)
    records = sum(kind == "record" for _, _, kind in unique)
    return DeletedApp(app=request.app, stores=len(stores), records=records, job=job)


# -- what others use -----------------------------------------------------------------------------------------------------


def store_kind(app: str) -> str:
    """The kind of document under which the stores of an app are kept, each with its technical name as its id."""
    return f"store:{app}"


def tie_of_store(app: str, store: str) -> str:
    return f"store/{app}/{store}"


def held_to(store: Store, *ties: str, tied_anew: bool = False) -> Contract:
    """What the content of a store is held to."""
    return Contract(store.schema or None, store.strict, store.lifetime_us, ties, tied_anew)


def existing(space: Space, app: str, name: str) -> tuple[Document, Store]:
    """A store by its technical name, which is the only one that counts (S2.17)."""
    found = documents.find(space.tx, store_kind(app), name)
    if found is None:
        raise _absent(space, app, name)
    return found, decode_store(found.body)


def _absent(space: Space, app: str, name: str) -> NotFound:
    """The error for a store that there is not. Whoever is held to somebody is not told what else there is."""
    names = [] if space.principal.tie else [one.id for one in documents.every(space.tx, store_kind(app))][:MAX_TOLD]
    there = f"There is {', '.join(names)}" if names else "Stores are named by their technical names"
    return NotFound(f"The app {app!r} has no memory store {name[:100]!r}. {there}.")


def every(space: Space, app: str) -> list[tuple[Document, Store]]:
    return [(one, decode_store(one.body)) for one in documents.every(space.tx, store_kind(app))]


def made(space: Space, app: str, technical_name: str, new: NewStore) -> StoreInfo:
    """Make a store, if there is room for another."""
    checked_name(technical_name)
    _, owner = settled(space, app)
    kind = store_kind(app)
    if documents.find(space.tx, kind, technical_name) is not None:
        raise Conflict(f"The app has a store {technical_name!r} already.", field="technical_name")
    count = space.tx.row("count_documents", kind=kind)
    if count is not None and count[0] >= owner.max_stores:
        raise Conflict(f"The app has {count[0]} stores, and may have no more: delete one, or raise `max_stores`.")
    store = settings_of(new)
    check_object_schema(held_to(store))
    name = check.content(new.name or technical_name, field="name")
    document = Document(technical_name, name, 1, encoded(store), space.now, space.now)
    documents.add(space.tx, kind, document)
    return info(app, document, store, [*_hidden(space, technical_name), *list_schema_doubts(held_to(store))])


def settings_of(new: NewStore) -> Store:
    return Store(
        access=new.access,
        retention=retention(new.retention),
        schema=normalize_schema(new.schema or {}),
        strict=new.strict,
        description=new.description,
    )


def checked_name(name: str) -> str:
    if name == SESSION_META:
        raise Invalid(f"{SESSION_META!r} is what every session has: choose another name.", field="technical_name")
    if len(name) > MAX_NAME or not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(f"{NAME_ADVICE} It cannot be {name[:100]!r}.", field="technical_name")
    return name


def _hidden(space: Space, name: str) -> list[str]:
    """A word of warning where templates of the app do not reach a definition any more."""
    if by_slug(space, name) is None:
        return []
    return [f"There is a memory definition {name!r}: in this app, `{{{{memory.{name}}}}}` is the store, and not that."]


def info(app: str, document: Document, store: Store, told: Sequence[str] = ()) -> StoreInfo:
    """What is shown of a store, with what else is to be said. Whoever is shown the schema may change that one: it is a copy."""
    return StoreInfo(
        app=app,
        technical_name=document.id,
        name=document.name,
        access=store.access,
        retention=store.retention,
        strict=store.strict,
        schema=msgspec.json.decode(msgspec.json.encode(store.schema)),
        version=document.version,
        created_at=to_datetime(document.created_at),
        updated_at=to_datetime(document.updated_at),
        description=store.description,
        warnings=[*(vague(document.id, "technical name") or []), *told] or None,
    )
