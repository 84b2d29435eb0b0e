"""The conversation that a task goes on with: a session of a flow, or a key of a conversation bank. What is said in the run is
written there, each once, however often the run is repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from ...dialects import bank_entries, flows
from ...dialects.bank_entries import NewEntry
from ...dialects.bank_reading import key_address, load_messages
from ...dialects.banks import find_bank
from ...dialects.places import flow_timeline
from ...dialects.turns import NewTurn, to_draft
from ...errors import Invalid
from ...ids import derived_id
from ...model import check
from ...model.bank import place
from ...models.completer import Message
from ...space import Space
from .. import stored
from ..run_memory import Reach

NO_THREAD = (
    "History needs a conversation: run the workflow with `thread`, or give `settings.history` a session or a key."
)

Speaker = Literal["user", "assistant"]


class Conversation(NamedTuple):
    """Where a conversation is."""

    flow: str | None
    bank: str | None
    path: str
    record: bool


class Conversations:
    """The conversations of one run."""

    def __init__(self, reach: Reach, name: str, banks: Mapping[str, str]) -> None:
        self._reach, self._name, self._banks = reach, name, banks

    def find(self, given: Mapping[str, Any]) -> Conversation:
        """Where a conversation is, by a `History` that was evaluated; by default the run's thread, in the flow of the
        workflow's name."""
        path = given.get("key" if given.get("bank") else "session") or self._reach.scope.session
        if not path:
            raise Invalid(NO_THREAD, field="thread")
        names = {name: check.identifier(str(given[name]), name) for name in ("flow", "bank") if given.get(name)}
        bank = names.get("bank")
        flow = None if bank else names.get("flow") or self._name
        bank = None if bank is None else self._banks.get(bank, bank)
        return Conversation(flow, bank, check.identifier(str(path), "thread"), bool(given.get("record", True)))

    def messages(self, where: Conversation, limit: int) -> list[Message]:
        """The newest messages of the two who talk, the oldest first."""
        found = self._reach.call.engine.write(
            self._reach.call.principal, lambda space: self._turns(space, where, limit)
        )
        return [Message(role, content) for role, content in found if role in ("user", "assistant") and content.strip()]

    def record(self, where: Conversation, speaker: Speaker, text: str, mark: str) -> None:
        """Write down what was said, once."""
        if where.record and text.strip():
            operation = bank_entries.add if where.bank else flows.append
            self._reach.act(operation, lambda space: self._write(space, where, speaker, text, mark))

    def _turns(self, space: Space, where: Conversation, limit: int) -> list[tuple[Any, str]]:
        """Read, and note in the same breath that the run knows of it."""
        if where.bank is not None:
            find_bank(space, where.bank)
            address = key_address(space, where.bank, where.path)
        else:
            address = space.address(flow_timeline(where.flow or ""), where.path)
        if address is None:
            return []
        stored.touch(space, self._reach.run_id, [address.id])
        if where.bank is None:
            return [(entry.role, entry.content) for entry in space.last(address, limit)]
        told = load_messages(space, address.id, "newest_first", limit)
        return [(one["role"], one["content"]) for one in reversed(told)]

    def _write(self, space: Space, where: Conversation, speaker: Speaker, text: str, mark: str) -> None:
        entry_id = derived_id(self._reach.run_id, mark)
        at = flow_timeline(where.flow or "") if where.bank is None else place(where.bank)
        if space.rows("any_entry", at, id=entry_id):
            return
        if where.bank is None:
            draft = msgspec.structs.replace(to_draft(NewTurn(role=speaker, content=text)), id=entry_id)
            space.append(at, where.path, [draft])
        else:
            _, bank = find_bank(space, where.bank)
            stamps = {"run_id": self._reach.run_id}
            new = NewEntry(where.path, text, speaker, {}, stamps, entry_id)
            bank_entries.write(space, where.bank, bank, new)
        stored.touch(space, self._reach.run_id, space.touched)
