"""The banks of a document: found by id or name, made where the document says what they are to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import typed
from ..banks.banks import KIND, CreateBank, add_bank, build_bank, find_key
from ..core import documents
from ..core.dispatch import Call
from ..core.space import Space
from ..errors import Invalid, MemwellError
from ..text.yaml import spelled
from .document import Node, Runnable
from .values import Values, rendered

_PLACES = ("memory_bank_id", "key", "flow", "user")


def provide(call: Call, document: Runnable) -> dict[str, str]:
    """The ids of the banks that a document names. Every one that there is not is named in the error."""
    wanted = {value: spelled(node.bank_at) for node in document.walk() if (value := node.bank) is not None}
    found = call.read(lambda space: {name: found_bank(space, name) for name in wanted})
    unknown = [name for name, bank_id in found.items() if bank_id is None]
    missing = [f"{wanted[name]}: there is no memory bank {name!r}" for name in unknown if name not in document.banks]
    if missing:
        raise Invalid(f"The workflow names banks that there are not: {'; '.join(missing)}.", unresolved=missing)
    made = {name: _made(call, name, document.banks[name]) for name in unknown}
    return {name: bank_id for name, bank_id in found.items() if bank_id is not None} | made


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
        address = find_key(space, bank_id, key)
        return [] if address is None else [address.id]
    return [row[0] for row in space.tx.rows("addresses_of_name", dialect=KIND, name=bank_id)]


def found_bank(space: Space, name: str) -> str | None:
    """The id of a bank, by that or by its name."""
    if documents.find(space.tx, KIND, name) is not None:
        return name
    named = documents.named(space.tx, KIND, name)
    if len(named) > 1:
        raise Invalid(f"There are {len(named)} memory banks called {name!r}: give an id.")
    return named[0].id if named else None


def _made(call: Call, name: str, settings: Mapping[str, Any]) -> str:
    """A new bank, unless another run has just made it: whoever writes is alone, so that there is one of each name."""
    try:
        request = typed.convert({**settings, "name": name}, CreateBank)
    except msgspec.ValidationError as error:
        raise Invalid(f"`memory_banks.{name}` does not fit: {error}.") from None
    bank = build_bank(call, request)
    return call.write(lambda space: found_bank(space, name) or add_bank(space, request.name, bank).id)
