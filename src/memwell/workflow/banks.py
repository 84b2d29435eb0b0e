"""The banks of a document: found by id or name, made where the document says what they are to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import documents
from ..dialects.bank_reading import key_address
from ..dialects.banks import CreateBank, create
from ..dispatch import Call
from ..errors import Invalid, MemwellError
from ..model.bank import KIND
from ..space import Space
from .document import Document, Node
from .substitute import Values, rendered

_PLACES = ("memory_bank_id", "key", "flow", "user")
_NAMED = ("add_memory", "search_memory", "load_memory", "retrieval")


def provide(call: Call, document: Document) -> dict[str, str]:
    """The ids of the banks that a document names. Every one that there is not is named in the error."""
    wanted = {value: node.path for node in document.walk() if (value := _bank(node)) is not None}
    found, missing = {}, []
    for name, path in wanted.items():
        bank_id = call.read(lambda space: _find(space, name))  # noqa: B023 -- run at once
        if bank_id is None and name in document.banks:
            bank_id = _made(call, name, document.banks[name])
        if bank_id is None:
            missing.append(f"{path}.memory_bank_id: there is no memory bank {name!r}")
        else:
            found[name] = bank_id
    if missing:
        raise Invalid(f"The workflow names banks that there are not: {'; '.join(missing)}.", unresolved=missing)
    return found


def named(document: Document) -> set[str]:
    """The banks that a document names, by their ids or names."""
    return {value for node in document.walk() if (value := _bank(node)) is not None}


def unresolved(space: Space, document: Document) -> list[tuple[str, str]]:
    """The banks that a document names and that there are not, each with where it does."""
    wanted = {value: node.path for node in document.walk() if (value := _bank(node)) is not None}
    return [(name, path) for name, path in wanted.items() if name not in document.banks and _find(space, name) is None]


def touched_by(space: Space, node: Node, values: Values, banks: Mapping[str, str]) -> list[int]:
    """The numbers of the keys that a step knows something of."""
    try:
        name, key, *others = (rendered(str(node.fields.get(one) or ""), values) for one in _PLACES)
    except MemwellError:
        return []
    if not name:
        pairs = zip(("flow", "user"), others, strict=True)
        return [
            row[0] for kind, one in pairs if one for row in space.tx.rows("addresses_of_name", dialect=kind, name=one)
        ]
    bank_id = banks.get(name, name)
    if key:
        address = key_address(space, bank_id, key)
        return [] if address is None else [address.id]
    return [row[0] for row in space.tx.rows("addresses_of_name", dialect=KIND, name=bank_id)]


def _bank(node: Node) -> str | None:
    """The bank that a step names, if it does so before it runs."""
    value = node.fields.get("memory_bank_id") if node.kind in _NAMED else None
    return value if isinstance(value, str) and "{{" not in value else None


def _find(space: Space, name: str) -> str | None:
    if documents.find(space.tx, KIND, name) is not None:
        return name
    named = documents.named(space.tx, KIND, name)
    if len(named) > 1:
        raise Invalid(f"There are {len(named)} memory banks called {name!r}: give an id.")
    return named[0].id if named else None


def _made(call: Call, name: str, settings: Mapping[str, Any]) -> str:
    try:
        request = msgspec.convert({"name": name, **settings}, CreateBank)
    except msgspec.ValidationError as error:
        raise Invalid(f"`memory_banks.{name}` does not fit: {error}.") from None
    bank_id: str = create.run(call, request).id
    return bank_id
