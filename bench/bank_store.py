"""Memory banks full of entries for the measurements of banks. They are written in large transactions, below the SDK."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memwell import Memory
from memwell.banks.banks import SUMMARY, bank_place, find_key
from memwell.banks.compaction import hide_behind_summary, load_visible
from memwell.core.engine import Engine
from memwell.core.space import Space
from memwell.model.collection import ORIGIN_OF_ROLE, Draft
from memwell.sdk.transport import LocalTransport

from .bare import TENANT
from .corpus import PER_SESSION, Fact, facts
from .store import Store
from .texts import TURN

T = TypeVar("T")

BATCH = 5000
SPEAKERS = ("user", "assistant")
GIST = "They travel to Porto on the early train, by the window, and eat no nuts."


def transport(memory: Memory) -> LocalTransport:
    found = memory._transport
    assert isinstance(found, LocalTransport)
    return found


def engine(memory: Memory) -> Engine:
    return transport(memory).engine


def write(memory: Memory, work: Callable[[Space], T]) -> T:
    """Run one transaction, below the operations."""
    return engine(memory).write(transport(memory).principal, work)


def read(memory: Memory, work: Callable[[Space], T]) -> T:
    return engine(memory).read(transport(memory).principal, work)


def file(home: Path) -> Path:
    return home / "tenants" / f"{TENANT}.db"


def address_id(memory: Memory, bank_id: str, key: str) -> int:
    found = read(memory, lambda space: find_key(space, bank_id, key))
    assert found is not None
    return found.id


def converse(memory: Memory, bank_id: str, key: str, turns: int) -> None:
    """Write turns to a key of a conversation bank."""
    drafts = [_turn(key, SPEAKERS[number % 2]) for number in range(min(turns, BATCH))]
    for start in range(0, turns, BATCH):
        some = drafts[: turns - start]
        write(memory, lambda space, some=some: space.append(bank_place(bank_id), key, some))  # type: ignore[misc]


def fold_down(memory: Memory, bank_id: str, key: str, left: int) -> None:
    """Replace all but the last turns of a key by a summary, as a compaction does."""
    write(memory, lambda space: _fold_down(space, bank_id, key, left))


def folded(memory: Memory, bank_id: str, key: str, turns: int, at_once: int) -> None:
    """Write a key with nested summaries, as after many compactions; the last summary hides all its turns."""
    for _ in range(turns // at_once):
        converse(memory, bank_id, key, at_once)
        fold_down(memory, bank_id, key, 0)


def searchable(home: Path, count: int) -> tuple[Store, str]:
    """Fill a general bank with the facts, a thousand per key, with all words and vectors. Return its id."""
    store = Store(home, list(facts(count)), 0.0, 0.0)
    with Memory(home, worker=False) as memory:
        bank = memory.banks.create("facts", type="general")
        for start in range(0, count, BATCH):
            some = store.facts[start : start + BATCH]
            write(memory, lambda space, some=some: _note(space, bank.id, some))  # type: ignore[misc]
        bank.search("hello")  # embeds the rest
        engine(memory).worker.run_due(TENANT)
        assert bank.search("hello").method == "words+meaning"
    return store, bank.id


def _note(space: Space, bank_id: str, some: list[Fact]) -> None:
    for start in range(0, len(some), PER_SESSION):
        of_key = some[start : start + PER_SESSION]
        space.append(bank_place(bank_id), of_key[0].session, [_fact(one) for one in of_key])


def _fact(one: Fact) -> Draft:
    metadata = _json({**one.metadata, "key": one.session})
    return Draft(kind="note", content=one.content, origin="system", metadata=metadata, id=one.id)


def _turn(key: str, speaker: str) -> Draft:
    metadata = _json({"key": key, "speaker": speaker})
    return Draft(kind="turn", role=speaker, content=TURN, origin=ORIGIN_OF_ROLE[speaker], metadata=metadata)


def _fold_down(space: Space, bank_id: str, key: str, left: int) -> None:
    address = find_key(space, bank_id, key)
    assert address is not None
    items = load_visible(space.tx, address.id, space.now).items
    turns = [item for item in items if not item.entries]
    kept = {item.entry.id for item in turns[len(turns) - left :]}
    sources = [item.entry for item in items if item.entry.id not in kept]
    draft = Draft(
        kind=SUMMARY,
        role="assistant",
        content=GIST,
        origin="assistant",
        metadata=_json({"key": key, "compaction": "rules"}),
    )
    (summary,) = space.append(bank_place(bank_id), key, [draft])
    hide_behind_summary(space, address.id, summary, sources)


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
