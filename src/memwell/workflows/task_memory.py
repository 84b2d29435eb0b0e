"""The memory and the conversations of a run of tasks (S3.23–S3.41).

Memory is loaded for expressions, shown to a model, and updated by a task or a model. A conversation is a session of a flow,
or a key of a conversation bank. Messages of the run are recorded there once, even if the run is repeated, and a task reads up
to the last message of its own run. A conversation that the document does not name belongs to the run's owner, and is deleted
with the owner. Its flow is that of the workflow: by the id if it is stored, else by the document's name, or by its content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ..banks import entries
from ..banks.banks import bank_place, find_bank_id, require_bank
from ..banks.entries import NewEntry
from ..banks.reading import load_messages
from ..core import documents
from ..core.owners import flow_timeline
from ..core.space import Space
from ..core.turns import NewTurn, to_draft
from ..errors import Invalid
from ..ids import derive_id
from ..model.collection import Place, join_parts
from ..model.fields import ID_PATTERN, check_identifier
from ..models.completer import Message, Tool
from ..records import working_memory
from ..records.apps import check_thread, in_session_tie, is_kept, user_tie
from ..records.definitions import UpdateMode
from ..records.working_memory import (
    BUDGET,
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
from .run_rows import NewRun, find_seq
from .source import KIND as WORKFLOW
from .task_document import History, Memory

if TYPE_CHECKING:
    from .run import RunCall

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

    def show(self, bound: Sequence[Memory], budget: int = BUDGET) -> ModelMemory:
        """Return the values under the definitions that are bound to a task, within a budget of tokens (S3.28–S3.32)."""
        if not bound:
            return ModelMemory()
        if self._scope is None:
            return ModelMemory(warnings=("This run has no owner and therefore no memory: run it with `owner`.",))
        memories = self._read(self._scope, [one.definition for one in bound])
        prompt, cut = render_memory(memories, budget)
        tool = build_tool(memories, cut)
        withheld = [render_withheld(one.slug, one.warning) for one in memories if one.warning is not None]
        return ModelMemory(
            prompt,
            None if tool is None else Tool(tool.name, tool.description, tool.parameters),
            (*withheld, *(f"`{slug}`: {reason}" for slug, reason in cut.items())),
        )

    def update(
        self,
        memory: Mapping[str, Any],
        bound: Sequence[Memory] | None = None,
        mode: UpdateMode | None = None,
        mark: str | None = None,
    ) -> Updated:
        """Write values, all or none, and return the new ones with warnings. A model writes to the definitions that are bound to
        its task, a task to all of the document (S3.38–S3.41). With a mark they are written once, even if the run is repeated
        (C45)."""
        scope = self._scope
        if scope is None:
            raise Invalid("An owner id is required to update memory: run the workflow with `owner`.", field="owner")

        def work(space: Space) -> Updated:
            space.principal.require_user(scope.owner)
            names = self._list_definitions(space) if bound is None else [one.definition for one in bound]
            request = UpdateMemory(memory=dict(memory), definitions=names, mode=mode)
            return write_memory(space, request, scope)

        return self._call.perform(working_memory.update_memory, work, mark)

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

    def __init__(self, call: RunCall, new: NewRun, banks: Mapping[str, str]) -> None:
        self._call, self._new, self._banks = call, new, banks
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
        scope = self._call.scope
        if path is None or (scope.app is not None and path == scope.thread):
            path, owned = scope.conversation, True
            if path is None:
                raise Invalid(
                    "History needs a conversation: run the workflow with `thread`, or set `session` or `key` in "
                    "`settings.history`.",
                    field="thread",
                )
        else:
            check_thread(path, "session" if bank is None else "key")
        place = bank_place(bank) if bank else flow_timeline(names.get("flow") or self._find_flow(path))
        return Conversation(place, bank, path, history.record, owned)

    def _find_flow(self, path: str) -> str:
        """Return the flow of the workflow, with which no other workflow shares conversations."""
        new = self._new
        if new.workflow_id is not None:
            return self._call.read(_find_flow_of_stored, new.workflow_id, new.name, path)
        document = new.given.document or {}
        if document.get("name"):
            return _check_name(new.name, "name")
        return join_parts(document=derive_id(msgspec.json.encode(document, order="deterministic").decode()))

    def _require_bank(self, name: str) -> str:
        bank_id = self._banks.get(name) or self._call.read(find_bank_id, name) or name
        bank = self._call.read(require_bank, bank_id).settings
        if bank.type != "conversation":
            raise Invalid(f"The bank {name!r} has no conversations: history needs a bank of the type `conversation`.")
        return bank_id

    def record(self, where: Conversation, speaker: Literal["user", "assistant"], text: str, mark: str) -> None:
        """Write a message once."""
        if not where.record or not text.strip():
            return
        operation = entries.add_entry if where.bank else flows.append
        text = text.replace("\x00", "\ufffd")
        seq = self._call.perform(operation, lambda space: self._write(space, where, speaker, text, mark))
        with self._lock:
            self._last[where] = max(seq, self._last.get(where, 0))

    def list_messages(self, space: Space, where: Conversation, limit: int) -> list[Message]:
        """Return the newest messages of user and assistant up to the last of this run, the oldest first."""
        address = space.address(where.place, where.path)
        if address is None:
            return []
        run_rows.touch(space, self._call.run_id, [address.id])
        self._tie(space, where, [address.id])
        before = self._last.get(where, address.last_seq) + 1
        if where.bank is not None:
            messages: list[Any] = load_messages(space, address.id, limit, before - 1)[::-1]
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
            # in a session that users share, the statements of one do not end those of another
            user = None if where.owned or speaker != "user" else self._call.scope.user
            draft = msgspec.structs.replace(to_draft(NewTurn(role=speaker, content=text, user=user)), id=entry_id)
            (entry,) = space.append(place, where.path, [draft])
        else:
            bank = require_bank(space, where.bank).settings
            new = NewEntry(where.path, text, speaker, {}, {"run_id": self._call.run_id}, entry_id)
            entry = entries.write_entry(space, where.bank, bank, new)
        self._tie(space, where, space.touched)
        return entry.seq

    def _tie(self, space: Space, where: Conversation, addresses: Iterable[int]) -> None:
        """Tie a conversation to its owner, with whom it is erased, and to its app's session, with which it may end."""
        scope = self._call.scope
        ties = [] if scope.user is None else [user_tie(scope.user)]
        ties += [] if scope.app is None or scope.session is None else [in_session_tie(scope.app, scope.session)]
        for address_id in addresses if where.owned else ():
            for tie in ties:
                space.tx.send("add_tie", tie=tie, address_id=address_id)


def _find_flow_of_stored(space: Space, workflow_id: str, name: str, path: str) -> str:
    """Return the flow of a stored workflow. A conversation that an earlier version has begun under the workflow's name continues
    there, if only this workflow can have begun it: by its runs, or by its owner and the name when the runs are deleted."""
    flow = join_parts(workflow=workflow_id)
    if space.address(flow_timeline(flow), path) is not None:
        return flow
    address = space.address(flow_timeline(name), path)
    if address is None:
        return flow
    workflows = {row[0] for row in space.tx.rows("workflows_of_address", address_id=address.id)}
    named = [one.id for one in documents.list_by_name(space.tx, WORKFLOW, name)]
    is_own = workflows == {workflow_id} or (not workflows and named == [workflow_id] and is_kept(path))
    return name if is_own else flow


def _check_name(name: str, field: str) -> str:
    if not name or len(name) > 256 or not re.fullmatch(ID_PATTERN, name):
        raise Invalid(
            f"`{field}` cannot name a conversation: {name[:50]!r}. Set another in `settings.history`.", field=field
        )
    return check_identifier(name, field)
