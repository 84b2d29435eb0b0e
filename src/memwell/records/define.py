"""Stores and definitions that are to be there: made unless they are, and refused if they are there in another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from .. import typed
from ..core import documents
from ..core.dispatch import Call
from ..core.documents import Document
from ..core.operation import Example, Request, explained, operation
from ..core.space import Space
from ..errors import Conflict, Invalid
from ..text.yaml import Limits, core
from ..text.yaml import read as read_yaml
from . import definitions, stores
from .apps import AppName
from .contract import Definition, Store, decode_store, slug_of
from .definitions import CreateDefinition, DefinitionInfo
from .stores import NewStore, StoreInfo, Stores
from .validation import normalize_schema

MAX_SOURCE = 1024 * 1024
MAX_LEVELS = 64
_SETTINGS = ("scope", "schema", "ttl_seconds", "update_mode", "secrets", "description")

StoresField = Annotated[
    str | dict[str, Any],
    Meta(
        description="Stores by technical name, each with its settings: YAML or JSON as a text (on the command line also "
        "`@FILE`), or an object."
    ),
]


class DefineStores(Request, frozen=True, kw_only=True):
    """Stores that are to be there."""

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
    """Make stores from a configuration, all or none. Those that are there already with the same settings stay as they are."""
    wanted = read_stores(request.stores)
    return call.write(lambda space: _defined(space, request.app, wanted))


@operation(
    "definitions.define",
    "PUT /v1/memory_definitions",
    effect="write",
    role="admin",
    example=Example(definitions.NEW),
)
def define(space: Space, request: CreateDefinition) -> DefinitionInfo:
    """Make a memory definition, unless it is there already with the same settings."""
    wanted = as_stored(request)
    there = None if wanted.slug is None else definitions.by_slug(space, wanted.slug)
    if there is None:
        return definitions.create.run(space, request)  # type: ignore[no-any-return]
    others = other_settings(there, wanted)
    if others:
        raise Conflict(
            f"There is a memory definition {wanted.slug!r} already with another {told(others)}: "
            "change that with `definitions.update`.",
            differences=others,
        )
    return definitions.info(*there)


# -- what others use -----------------------------------------------------------------------------------------------------


def as_stored(new: CreateDefinition) -> CreateDefinition:
    """A definition with what would be made of it, so that the same is known again."""
    name = new.name.strip()
    slug = slug_of(name) or None if new.slug is None else new.slug
    return structs.replace(new, name=name, slug=slug, schema=normalize_schema(new.schema or {"type": "object"}))


def other_settings(there: tuple[Document, Definition], wanted: CreateDefinition) -> list[str]:
    """In what a definition is not the one that is wanted."""
    names = [] if there[0].name == wanted.name else ["name"]
    return names + [one for one in _SETTINGS if getattr(there[1], one) != getattr(wanted, one)]


def other_settings_of_store(there: Document, new: NewStore) -> list[str]:
    """In what a store is not the one that is wanted. Whoever does not say what it is called leaves that open."""
    has, wanted = decode_store(there.body), stores.settings_of(new)
    names = [] if new.name in (None, there.name) else ["name"]
    return names + [one for one in Store.__struct_fields__ if getattr(has, one) != getattr(wanted, one)]


def told(names: list[str]) -> str:
    """Some names in a sentence."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def read_stores(source: str | Mapping[str, Any]) -> dict[str, NewStore]:
    """The stores of a configuration, by their technical names (S2.14)."""
    given = (
        read_yaml(source, "stores", Limits(MAX_SOURCE, MAX_LEVELS), core).value if isinstance(source, str) else source
    )
    if not isinstance(given, Mapping) or not given:
        raise Invalid("`stores` must give settings by the technical names of stores.", field="stores")
    return {stores.checked_name(str(name)): _read_store(str(name), one) for name, one in given.items()}


def _defined(space: Space, app: str, wanted: Mapping[str, NewStore]) -> Stores:
    return Stores(stores=[_defined_store(space, app, name, new) for name, new in wanted.items()])


def _defined_store(space: Space, app: str, name: str, new: NewStore) -> StoreInfo:
    there = documents.find(space.tx, stores.store_kind(app), name)
    if there is None:
        return _made(space, app, name, new)
    others = other_settings_of_store(there, new)
    if others:
        raise Conflict(
            f"There is a store {name!r} already with another {told(others)}: {_advice(others)}.", differences=others
        )
    return stores.info(app, there, decode_store(there.body))


def _advice(others: list[str]) -> str:
    if "access" in others:
        return "whose content it holds never changes; make one of another name, or delete this one with its content"
    return "change that with `stores.update`"


def _made(space: Space, app: str, name: str, new: NewStore) -> StoreInfo:
    try:
        return stores.made(space, app, name, new)
    except Invalid as error:
        details = {**error.details, "field": f"stores.{name}"}
        raise type(error)(f"The store {name!r} cannot be made: {error.message}", **details) from None


def _read_store(name: str, given: Any) -> NewStore:
    try:
        return typed.convert({} if given is None else given, NewStore)
    except msgspec.ValidationError as error:
        reason = explained(NewStore, str(error)[:300]).message
        raise Invalid(f"The store {name!r} cannot be made: {reason}", field=f"stores.{name}") from None
