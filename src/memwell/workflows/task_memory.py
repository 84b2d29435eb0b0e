"""The memory and the conversations of a run of tasks (S3.23–S3.41).

Memory is loaded for expressions, shown to a model, and updated by a task or a model. A conversation is a session of a flow,
or a key of a conversation bank. Messages of the run are recorded there once, even if the run is repeated, and a task reads up
to the last message of its own run. A conversation that the document does not name belongs to the run's owner, and is deleted
with the owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal, NamedTuple

import msgspec

from ..banks import entries
from ..banks.banks import bank_place, require_bank
from ..banks.entries import NewEntry
from ..banks.reading import load_messages_upto
from ..core.owners import flow_timeline
from ..core.space import Space
from ..core.turns import NewTurn, to_draft
from ..errors import Invalid
from ..ids import derive_id
from ..model.collection import Place
from ..model.fields import ID_PATTERN, check_identifier
from ..models.completer import Message, Tool
from ..records import working_memory
from ..records.apps import user_tie
from ..records.definitions import UpdateMode
from ..records.working_memory import (
    BoundMemory,
    MemoryScope,
    Updated,
    UpdateMemory,
    build_tool,
    list_bound,
    load_all,
    render_memory,
    render_withheld,
    write_memory,
)
from ..timelines import flows
from . import run_rows
from .run import RunCall, find_bank_id, find_seq
from .task_document import History, Memory

_SPEAKERS = ("user", "assistant")
_MAX_PAGES = 5
"""The most pages of turns to read if many turns are neither the user's nor the assistant's."""


class ModelMemory(NamedTuple):
    """Memory as a model sees it: a part of its prompt, the tool that updates it, and warnings about withheld values (C24)."""

    prompt: str = ""
    tool: Tool | None = None
    warnings: tuple[str, ...] = ()


class TaskMemory:
    """The memory of the run's owner under the definitions of a document."""

    def __init__(self, call: RunCall, declared: Sequence[Memory]) -> None:
        self._call = call
        self._declared = [one.definition for one in declared]
        scope = call.scope
        self._scope = None if scope.user is None else MemoryScope(scope.user, scope.workflow, scope.thread, scope.run)

    def load(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values under all global definitions and those that the document declares, and a warning for each withheld
        value, by slug (S3.39, S3.40)."""
        memories = [] if self._scope is None else self._read(self._scope, None)
        values = {one.slug: one.value for one in memories if one.value is not None}
        return values, {one.slug: render_withheld(one.slug, one.warning) for one in memories if one.warning is not None}

    def show(self, bound: Sequence[Memory]) -> ModelMemory:
        """Return the values under the definitions that are bound to a task (S3.28–S3.32)."""
        if not bound:
            return ModelMemory()
        if self._scope is None:
            return ModelMemory(warnings=("This run has no owner and therefore no memory: run it with `owner`.",))
        memories = self._read(self._scope, [one.definition for one in bound])
        tool = build_tool(memories)
        return ModelMemory(
            render_memory(memories),
            None if tool is None else Tool(tool.name, tool.description, tool.parameters),
            tuple(render_withheld(one.slug, one.warning) for one in memories if one.warning is not None),
        )

    def update(
        self,
        memory: Mapping[str, Any],
        bound: Sequence[Memory] | None = None,
        mode: UpdateMode | None = None,
        mark: str | None = None,
    ) -> dict[str, Any]:
        """Write values, all or none, and return the new ones. A model writes to the definitions that are bound to its task, a
        task to all of the document (S3.38–S3.41). With a mark they are written once, even if the run is repeated (C45)."""
        scope = self._scope
        if scope is None:
            raise Invalid("An owner id is required to update memory: run the workflow with `owner`.", field="owner")

        def work(space: Space) -> Updated:
            space.principal.require_user(scope.owner)
            names = self._list_definitions(space) if bound is None else [one.definition for one in bound]
            request = UpdateMemory(memory=dict(memory), definitions=names, mode=mode)
            updated = write_memory(space, request, scope)
            run_rows.touch(space, self._call.run_id, space.touched)
            return updated

        return self._call.perform(working_memory.update_memory, work, mark).memory

    def _read(self, scope: MemoryScope, names: Sequence[str] | None) -> list[BoundMemory]:
        def read(space: Space) -> list[BoundMemory]:
            space.principal.require_user(scope.owner)
            pairs = list_bound(space, self._list_definitions(space) if names is None else names)
            memories = load_all(space, pairs, scope)
            addresses = [one.address_id for one in memories]
            run_rows.touch(space, self._call.run_id, [one for one in addresses if one is not None])
            return memories

        return self._call.note(read)

    def _list_definitions(self, space: Space) -> list[str]:
        return [*self._declared, *(item.id for item in list_bound(space, None))]


class Conversation(NamedTuple):
    """The address of a conversation, which may be in a bank. `owned` is true if it belongs only to the run's owner."""

    place: Place
    bank: str | None
    path: str
    record: bool
    owned: bool


class Conversations:
    """The conversations of one run."""

    def __init__(self, call: RunCall, name: str, banks: Mapping[str, str]) -> None:
        self._call, self._name, self._banks = call, name, banks
        self._last: dict[Conversation, int] = {}
        self._lock = Lock()

    def find(self, history: History, values: Mapping[str, Any]) -> Conversation:
        """Return the conversation of a task. `values` are the results of its expressions; none may be empty (C17)."""
        names = {}
        for name in ("flow", "session", "bank", "key"):
            if values.get(name):
                names[name] = _check_name(str(values[name]), name)
            elif getattr(history, name) is not None:
                raise Invalid(
                    f"`settings.history.{name}` is empty: give a value, so that no other conversation is read."
                )
        path, owned = names.get("key" if "bank" in names else "session"), False
        bank = self._require_bank(names["bank"]) if "bank" in names else None
        flow = "" if bank is not None else names.get("flow") or _check_name(self._name, "name")
        if path is None:
            scope, owned = self._call.scope, True
            if not scope.thread:
                raise Invalid(
                    "History needs a conversation: run the workflow with `thread`, or set `session` or `key` in "
                    "`settings.history`.",
                    field="thread",
                )
            path = check_identifier(scope.thread if scope.user is None else f"{scope.user}/{scope.thread}", "thread")
        return Conversation(bank_place(bank) if bank else flow_timeline(flow), bank, path, history.record, owned)

    def _require_bank(self, name: str) -> str:
        bank_id = self._banks.get(name) or self._call.read(find_bank_id, name) or name
        bank = self._call.read(require_bank, bank_id).settings
        if bank.type != "conversation":
            raise Invalid(f"The bank {name!r} has no conversations: history needs a bank of the type `conversation`.")
        return bank_id

    def list_messages(self, where: Conversation, limit: int) -> list[Message]:
        """Return the newest messages of user and assistant up to the last of this run, the oldest first."""
        return self._call.note(self._read, where, limit)

    def record(self, where: Conversation, speaker: Literal["user", "assistant"], text: str, mark: str) -> None:
        """Write a message once."""
        if not where.record or not text.strip():
            return
        operation = entries.add_entry if where.bank else flows.append
        text = text.replace("\x00", "\ufffd")
        seq = self._call.perform(operation, lambda space: self._write(space, where, speaker, text, mark))
        with self._lock:
            self._last[where] = max(seq, self._last.get(where, 0))

    def _read(self, space: Space, where: Conversation, limit: int) -> list[Message]:
        address = space.address(where.place, where.path)
        if address is None:
            return []
        run_rows.touch(space, self._call.run_id, [address.id])
        before = self._last.get(where, address.last_seq) + 1
        if where.bank is not None:
            messages: list[Any] = load_messages_upto(space, address.id, before - 1, limit)
            return [Message(one["role"], one["content"]) for one in messages]
        turns: list[Message] = []
        for _ in range(_MAX_PAGES):
            page = space.last(address, limit, before)
            spoken: list[Any] = [one for one in page if one.role in _SPEAKERS and one.content.strip()]
            turns = [Message(one.role, one.content) for one in spoken] + turns
            if len(turns) >= limit or len(page) < limit:
                break
            before = page[0].seq
        return turns[-limit:]

    def _write(
        self, space: Space, where: Conversation, speaker: Literal["user", "assistant"], text: str, mark: str
    ) -> int:
        place = where.place
        entry_id = derive_id(self._call.run_id, mark, place.dialect, place.name, where.path)
        seq = find_seq(space, place, entry_id)
        if seq is not None:
            return seq
        if where.bank is None:
            draft = msgspec.structs.replace(to_draft(NewTurn(role=speaker, content=text)), id=entry_id)
            (entry,) = space.append(place, where.path, [draft])
        else:
            bank = require_bank(space, where.bank).settings
            new = NewEntry(where.path, text, speaker, {}, {"run_id": self._call.run_id}, entry_id)
            entry = entries.write_entry(space, where.bank, bank, new)
        run_rows.touch(space, self._call.run_id, space.touched)
        owner = self._call.scope.user
        for address_id in space.touched if where.owned and owner is not None else ():
            space.tx.send("add_tie", tie=user_tie(owner or ""), address_id=address_id)
        return entry.seq


def _check_name(name: str, field: str) -> str:
    if not name or len(name) > 256 or not re.fullmatch(ID_PATTERN, name):
        raise Invalid(
            f"`{field}` cannot name a conversation: {name[:50]!r}. Set another in `settings.history`.", field=field
        )
    return check_identifier(name, field)
