"""Catalogs: kinds of documents that users define and the engine stores as JSON, such as stores, definitions or banks.

A room declares the settings of a kind as a struct (see `settings`), and one catalog of them:

    HOOKS = Catalog("hook", Hook)

    hook = HOOKS.add(space, Hook(**HOOKS.changes(request)), name="Greeting")     # an Item
    hook = HOOKS.require(space, hook.id)                         # NotFound if there is none; `find` returns None
    page, total = list_page(HOOKS.list(space), request)          # `request` has `page`, `limit`, `sort` and `order`
    HOOKS.check_request(request, hook)                           # fixed settings, and the `version` that was read
    settings = structs.replace(hook.settings, **HOOKS.changes(request))
    hook = HOOKS.update(space, hook, settings, name=request.name)
    HOOKS.delete(space, hook.id)                                 # also from a backup that is restored later
    return to_response(HookInfo, hook)

Stored settings are decoded with the limits of the struct, so a limit may be raised, but not lowered.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, structs

from .. import typed
from ..clock import to_datetime
from ..errors import Conflict, Invalid, NotFound, Stale
from . import documents
from .documents import Document
from .settings import CLEARABLE, FIXED, list_flagged
from .space import Space

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

Version = Annotated[
    int, Meta(ge=1, description="The version that was read. If it has changed since, the request fails.")
]


PageNumber = Annotated[int, Meta(ge=1, le=1_000_000, description="Number of the page, from 1.")]
PageSize = Annotated[int, Meta(ge=1, le=100, description="Items per page, from 1 to 100.")]
Sort = Annotated[Literal["created_at", "updated_at", "name"], Meta(description="Field to sort by.")]
Order = Annotated[Literal["asc", "desc"], Meta(description="`asc` or `desc`.")]


class Item(NamedTuple, Generic[T]):
    """A document with its settings."""

    id: str
    name: str
    version: int
    settings: T
    created_at: int
    updated_at: int


class PageRequest(Protocol):
    @property
    def page(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def sort(self) -> str: ...
    @property
    def order(self) -> str: ...


class Catalog(Generic[T]):
    """The documents of one kind, each with settings of one struct."""

    def __init__(
        self,
        kind: str,
        struct: type[T],
        *,
        noun: str | None = None,
        plain_conflicts: bool = False,
    ) -> None:
        self.kind = kind
        """Kind in storage; it never changes."""
        self.noun = noun or kind
        self.fixed = list_flagged(struct, FIXED)
        self.clearable = list_flagged(struct, CLEARABLE)
        self._error = Conflict if plain_conflicts else None
        """`plain_conflicts`: a change of a fixed setting and an old version are a Conflict, not Invalid and Stale."""
        self._names = struct.__struct_fields__
        self.decode = _find_decoder(struct)
        """From JSON to settings. The result is shared: callers must not change it."""

    def find(self, space: Space, item_id: str) -> Item[T] | None:
        row = space.tx.row("find_document", kind=self.kind, id=item_id)
        return None if row is None else Item(row[0], row[1], row[2], self.decode(row[3]), row[4], row[5])

    def require(self, space: Space, item_id: str) -> Item[T]:
        found = self.find(space, item_id)
        if found is None:
            raise NotFound(f"There is no such {self.noun}.")
        return found

    def list(self, space: Space) -> list[Item[T]]:
        """Return all, by id. There are at most `documents.MAX_DOCUMENTS`."""
        found = documents.list_documents(space.tx, self.kind)
        return [Item(*document[:3], self.decode(document.body), *document[4:]) for document in found]

    def count(self, space: Space) -> int:
        return documents.count(space.tx, self.kind)

    def add(self, space: Space, settings: T, *, name: str, item_id: str | None = None) -> Item[T]:
        """Add an item under a new id, or under an unused one of the caller."""
        item = Item(item_id or str(uuid.uuid4()), name, 1, settings, space.now, space.now)
        body = encode_settings(settings)
        documents.add(space, self.kind, Document(item.id, name, 1, body, space.now, space.now))
        return item

    def mention(self, space: Space, item_id: str) -> None:
        """Note that the answer describes an item which it has not changed; see `Space.mention`."""
        space.mention(self.kind, item_id)

    def check_request(self, request: Any, item: Item[T]) -> None:
        """Reject a request to update that changes a fixed setting, or was made for another version."""
        for name in self.fixed:
            if getattr(request, name, None) not in (None, getattr(item.settings, name)):
                message = f"The {name} of a {self.noun} cannot be changed: create another {self.noun}."
                raise self._error(message) if self._error else Invalid(message, field=name)
        if request.version not in (None, item.version):
            message = f"The current version is {item.version}: read it again and repeat the change."
            raise self._error(message) if self._error else Stale(message, version=item.version)

    def changes(self, request: Any) -> dict[str, Any]:
        """Return the settings that a request gives. Null is a value of clearable settings only."""
        given = {name: getattr(request, name, UNSET) for name in self._names}
        cleared = {name: None for name, value in given.items() if value is None and name in self.clearable}
        return {name: value for name, value in given.items() if value not in (UNSET, None)} | cleared

    def update(self, space: Space, item: Item[T], settings: T, *, name: str | None = None) -> Item[T]:
        """Store the next version of an item, if it is still the one that was read."""
        old = Document(item.id, item.name, item.version, "", item.created_at, item.updated_at)
        body = encode_settings(settings)
        changed = documents.change(space, self.kind, old, name or item.name, body)
        return item._replace(
            name=changed.name, version=changed.version, settings=settings, updated_at=changed.updated_at
        )

    def delete(self, space: Space, item_id: str) -> bool:
        return documents.erase(space, self.kind, item_id)


_decoders: dict[type, Any] = {}


def _find_decoder(struct: type[T]) -> Callable[[str], T]:
    """Return the decoder that all catalogs of a struct share."""
    return _decoders.setdefault(struct, lru_cache(maxsize=256)(typed.decoder(struct)))  # type: ignore[no-any-return]


def encode_settings(settings: Any) -> str:
    return msgspec.json.encode(settings).decode()


def list_page(items: Sequence[Item[T]], request: PageRequest) -> tuple[list[Item[T]], int]:
    """Return one page of items in the order of a request, and the number of all items."""
    order = sorted(items, key=lambda one: (getattr(one, request.sort), one.id), reverse=request.order == "desc")
    first = (request.page - 1) * request.limit
    return order[first : first + request.limit], len(order)


def to_response(kind: type[R], item: Item[Any], **fields: Any) -> R:
    """Return a response with these fields and those of an item. The caller may change its values; settings are shared."""
    values = structs.asdict(item.settings) | {
        "id": item.id,
        "name": item.name,
        "version": item.version,
        "created_at": to_datetime(item.created_at),
        "updated_at": to_datetime(item.updated_at),
    }
    return kind(**{name: deepcopy(values[name]) for name in kind.__struct_fields__ if name in values} | fields)
