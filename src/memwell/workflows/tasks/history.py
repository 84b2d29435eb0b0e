"""The conversation that a task goes on with: a session of a flow, or a key of a conversation bank.

What is said in the run is written there, each once, however often the run is repeated, and a task reads up to what its own run
has said last. A conversation that nobody named is its owner's: whoever is forgotten is forgotten there, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from threading import Lock
from typing import Any, Literal, NamedTuple

import msgspec

from ...banks import entries
from ...banks.banks import bank_place, find_key, require_bank
from ...banks.entries import NewEntry
from ...banks.reading import load_messages_upto
from ...core.owners import flow_timeline
from ...core.space import Space
from ...core.turns import NewTurn, to_draft
from ...errors import Invalid
from ...ids import derived_id
from ...model import check
from ...model.collection import Entry
from ...model.fields import ID_PATTERN
from ...models.completer import Message
from ...records.app_sessions import user_tie
from ...timelines import flows
from .. import store
from ..banks import found_bank
from ..run_memory import Reach
from .document import History

NO_THREAD = (
    "History needs a conversation: run the workflow with `thread`, or give `settings.history` a session or a key."
)
TALKING = ("user", "assistant")
PAGES = 5
"""How often further turns are looked at, where many are neither the user's nor the assistant's."""

Speaker = Literal["user", "assistant"]


class Conversation(NamedTuple):
    """Where a conversation is. `owned`: it is its owner's alone."""

    flow: str | None
    bank: str | None
    path: str
    record: bool
    owned: bool


class Conversations:
    """The conversations of one run."""

    def __init__(self, reach: Reach, name: str, banks: Mapping[str, str]) -> None:
        self._reach, self._name, self._banks = reach, name, banks
        self._last: dict[Conversation, int] = {}
        self._lock = Lock()

    def find(self, history: History, given: Mapping[str, Any]) -> Conversation:
        """Where a conversation is; `given` is what its expressions came to. One that is said must not come to nothing (C17)."""
        for name in ("flow", "session", "bank", "key"):
            if getattr(history, name) is not None and not given.get(name):
                raise Invalid(
                    f"`settings.history.{name}` comes to nothing, and nobody else's conversation may be read."
                )
        said = {name: _named(str(given[name]), name) for name in ("flow", "session", "bank", "key") if given.get(name)}
        path = said.get("key" if "bank" in said else "session")
        bank = self._bank(said["bank"]) if "bank" in said else None
        flow = None if bank is not None else said.get("flow") or _named(self._name, "name")
        return Conversation(flow, bank, path or self._own(), history.record, path is None)

    def _own(self) -> str:
        """The thread of the run's owner."""
        scope = self._reach.scope
        if not scope.thread:
            raise Invalid(NO_THREAD, field="thread")
        return check.identifier(scope.thread if scope.user is None else f"{scope.user}/{scope.thread}", "thread")

    def _bank(self, name: str) -> str:
        bank_id = self._banks.get(name) or self._reach.call.read(lambda space: found_bank(space, name)) or name
        bank = self._reach.call.read(lambda space: require_bank(space, bank_id)).settings
        if bank.type != "conversation":
            raise Invalid(f"The bank {name!r} holds no conversations: history needs one of the type `conversation`.")
        return bank_id

    def messages(self, where: Conversation, limit: int) -> list[Message]:
        """The newest messages of the two who talk, up to what this run has said last, the oldest first."""
        found = self._reach.call.engine.write(self._reach.call.principal, lambda space: self._said(space, where, limit))
        return [Message(role, content) for role, content in found]

    def record(self, where: Conversation, speaker: Speaker, text: str, mark: str) -> None:
        """Write down what was said, once."""
        if not where.record or not text.strip():
            return
        operation = entries.add_entry if where.bank else flows.append
        text = text.replace("\x00", "\ufffd")
        seq = self._reach.act(operation, lambda space: self._write(space, where, speaker, text, mark))
        with self._lock:
            self._last[where] = max(seq, self._last.get(where, 0))

    def _said(self, space: Space, where: Conversation, limit: int) -> list[tuple[Any, str]]:
        """Read, and note in the same breath that the run knows of it."""
        if where.bank is not None:
            address = find_key(space, where.bank, where.path)
        else:
            address = space.address(flow_timeline(where.flow or ""), where.path)
        if address is None:
            return []
        store.touch(space, self._reach.run_id, [address.id])
        before = self._last.get(where, address.last_seq) + 1
        if where.bank is not None:
            told = load_messages_upto(space, address.id, before - 1, limit)
            return [(one["role"], one["content"]) for one in told]
        found: list[Entry] = []
        for _ in range(PAGES):
            page = space.last(address, limit, before)
            found = [one for one in page if one.role in TALKING and one.content.strip()] + found
            if len(found) >= limit or len(page) < limit:
                break
            before = page[0].seq
        return [(one.role, one.content) for one in found[-limit:]]

    def _write(self, space: Space, where: Conversation, speaker: Speaker, text: str, mark: str) -> int:
        at = flow_timeline(where.flow or "") if where.bank is None else bank_place(where.bank)
        entry_id = derived_id(self._reach.run_id, mark, at.dialect, at.name, where.path)
        there = space.rows("any_entry", at, id=entry_id)
        if there:
            return Entry(*there[0][: len(Entry.__struct_fields__)]).seq
        if where.bank is None:
            draft = msgspec.structs.replace(to_draft(NewTurn(role=speaker, content=text)), id=entry_id)
            (entry,) = space.append(at, where.path, [draft])
        else:
            bank = require_bank(space, where.bank).settings
            new = NewEntry(where.path, text, speaker, {}, {"run_id": self._reach.run_id}, entry_id)
            entry = entries.write_entry(space, where.bank, bank, new)
        store.touch(space, self._reach.run_id, space.touched)
        owner = self._reach.scope.user
        for address_id in space.touched if where.owned and owner is not None else ():
            space.tx.send("add_tie", tie=user_tie(owner or ""), address_id=address_id)
        return entry.seq


def _named(name: str, field: str) -> str:
    """A name as an address may have it."""
    if not name or len(name) > 256 or not re.fullmatch(ID_PATTERN, name):
        raise Invalid(
            f"`{field}` cannot name a conversation: {name[:50]!r}. Give `settings.history` another.", field=field
        )
    return check.identifier(name, field)
