"""What each kind of step does: from its input and its fields to its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from .. import typed
from ..context import outputs
from ..context.outputs import JSON
from ..dialects import bank_entries
from ..dialects.bank_entries import NewEntry, SearchBank
from ..dialects.bank_reading import key_address, load
from ..dialects.banks import find_bank
from ..dialects.search import Search as SearchRequest
from ..dialects.search import SearchFlow, SearchUser, search_flow, search_user
from ..dispatch import Call
from ..errors import Conflict, Invalid
from ..ids import derived_id
from ..model.bank import Bank, place
from ..model.entry import Entry
from ..space import Space
from . import fields as kinds
from . import stored
from .asking import Asking
from .calling import call_function
from .run_memory import Reach
from .substitute import instant


class Output(NamedTuple):
    """What a step hands on, and what that is."""

    text: str
    content_type: str = "text/plain"
    loaded: tuple[str, ...] = ()
    """The ids of the entries that it is made of, if it loaded some."""


class Doing(NamedTuple):
    """A step under way: who runs it, on what, and what it is marked with."""

    call: Call
    asking: Asking
    input: str
    step_id: str
    run_id: str
    agent_id: str
    now: datetime
    banks: Mapping[str, str]
    """The ids of banks by their names."""
    loaded: tuple[str, ...]
    """The entries that its input is made of."""
    reach: Reach
    """The memory of the run."""

    def bank(self, given: str) -> str:
        return self.banks.get(given, given)


def do(kind: str, given: Mapping[str, Any], doing: Doing) -> Output:
    """Carry out a step whose templates are filled."""
    try:
        step = typed.convert(dict(given), kinds.KINDS[kind], strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"The step does not fit after substitution: {error}.") from None
    return _DOES[kind](step, doing)


def _add(step: kinds.AddMemory, doing: Doing) -> Output:
    bank_id = doing.bank(step.memory_bank_id)
    content = doing.input if step.content is None else step.content
    stamps = {"agent_id": doing.agent_id, "run_id": doing.run_id}
    new = NewEntry(
        step.key,
        content,
        step.speaker,
        step.entry_metadata or {},
        stamps,
        derived_id(doing.run_id, doing.step_id),
        step.compacts is not None and bool(doing.loaded),
    )
    bank, seq = doing.call.write(lambda space: _write(space, bank_id, new, doing))
    if bank.type == "conversation":
        told = doing.call.read(lambda space: bank_entries.said(space, bank_id, step.key, seq))
        return Output(outputs.as_json(told), JSON)
    return Output(doing.input if step.output == "input" else content)


def _write(space: Space, bank_id: str, new: NewEntry, doing: Doing) -> tuple[Bank, int]:
    """Write an entry once, however often the run is repeated (C45); where there is nothing to write, nothing is. A run that
    knows something that was erased meanwhile writes nothing any more."""
    if stored.is_emptied(space.tx, doing.run_id):
        raise Conflict("What the run knew of was erased while it ran: nothing is written any more.")
    _, bank = find_bank(space, bank_id)
    there = space.rows("any_entry", place(bank_id), id=new.id or "")
    if there:
        return bank, Entry(*there[0][: len(Entry.__struct_fields__)]).seq
    address = key_address(space, bank_id, new.key)
    if not new.content.strip():
        return bank, 0 if address is None else address.last_seq
    entry = bank_entries.write(space, bank_id, bank, new)
    address = address or key_address(space, bank_id, new.key)
    stored.touch(space, doing.run_id, [] if address is None else [address.id])
    if new.summary:
        bank_entries.hide(space, bank_id, new.key, entry, doing.loaded)
    return bank, entry.seq


def _search(step: kinds.SearchMemory, doing: Doing) -> Output:
    query = doing.input if step.query is None else step.query
    bank_id = doing.bank(step.memory_bank_id)
    if not query.strip():
        bank_entries.may_search(doing.call, bank_id, step.key)
        nothing = outputs.as_json({"matches": []}) if step.content_type == JSON else ""
        return Output(nothing, step.content_type)
    request = SearchBank(
        bank=bank_id,
        query=query,
        key=step.key,
        top_n=step.top_n,
        filter=step.filter,
        added_after=instant(step.added_after, "added_after", doing.now),
        added_before=instant(step.added_before, "added_before", doing.now),
        content_type=step.content_type,
    )
    found = bank_entries.search.run(doing.call, request)
    if found.output is not None:
        return Output(found.output, step.content_type)
    return Output(outputs.as_json({"matches": found.matches}), JSON)


def _load(step: kinds.LoadMemory, doing: Doing) -> Output:
    bank_id = doing.bank(step.memory_bank_id)

    def read(space: Space) -> tuple[Bank, list[outputs.Shown]]:
        _, bank = find_bank(space, bank_id)
        address = key_address(space, bank_id, step.key)
        if address is None:
            return bank, []
        return bank, load(space, address, step.order, step.limit, folded=step.include_compacted)

    bank, found = doing.call.read(read)
    ids = tuple(one.id for one in found)
    match step.content_type:
        case "text/plain":
            return Output(outputs.as_text(found), step.content_type, ids)
        case "text/html":
            return Output(outputs.as_html(found), step.content_type, ids)
        case "application/xml":
            return Output(outputs.as_xml(found), step.content_type, ids)
    if bank.type == "conversation":
        told = [outputs.message(one.role, one.content, one.entries) for one in found]
        return Output(outputs.as_json(told), JSON, ids)
    shaped: Any = outputs.array_json(found) if step.shape == "array" else outputs.entries_json(found)
    return Output(outputs.as_json(shaped), JSON, ids)


def _prompt(step: kinds.PromptCall, doing: Doing) -> Output:
    return Output(doing.asking.prompt(step, doing.input), loaded=doing.loaded)


def _insight(step: kinds.Insight, doing: Doing) -> Output:
    from .insight import insight  # here, since what extraction knows takes a while to load

    text = insight(step, doing.input if step.content is None else step.content, doing.asking, doing.now.date())
    return Output(text, JSON if step.output == "json" else "text/plain")


def _retrieve(step: kinds.Retrieval, doing: Doing) -> Output:
    where = [name for name in ("memory_bank_id", "flow", "user") if getattr(step, name)]
    if len(where) != 1:
        raise Invalid("A retrieval needs one of `memory_bank_id`, `flow` or `user`.")
    if step.memory_bank_id:
        search = kinds.SearchMemory(
            memory_bank_id=step.memory_bank_id,
            query=step.query,
            top_n=step.top_n,
            filter=step.filter,
            content_type=step.content_type,
        )
        return _search(search, doing)
    query = doing.input if step.query is None else step.query
    common: dict[str, Any] = {"query": query, "limit": step.top_n, "filter": step.filter}
    request: SearchRequest = (
        SearchFlow(flow=step.flow, **common) if step.flow else SearchUser(user=step.user or "", **common)
    )
    found = (search_flow if step.flow else search_user).run(doing.call, request)
    shown = [
        (outputs.Shown(hit.id, hit.content, hit.created_at, 0, hit.role, hit.metadata), hit.score, f"memory:{hit.id}")
        for hit in found
    ]
    entries = [one for one, _, _ in shown]
    if step.content_type == "text/plain":
        return Output(outputs.as_text(entries), step.content_type)
    if step.content_type == "text/html":
        return Output(outputs.as_html(entries), step.content_type)
    return Output(outputs.as_json(outputs.matches_json(shown)), JSON)


def _text(step: kinds.Text, doing: Doing) -> Output:
    return Output(step.template, loaded=doing.loaded)


def _call(step: kinds.Function, doing: Doing) -> Output:
    function = doing.call.engine.function(step.function)
    return Output(*call_function(function, step.function, doing.input, step.arguments or {}, doing.reach))


def _result(step: kinds.Common, doing: Doing) -> Output:
    return Output(doing.input)


_DOES: dict[str, Callable[[Any, Doing], Output]] = {
    "add_memory": _add,
    "search_memory": _search,
    "load_memory": _load,
    "prompt_call": _prompt,
    "insight": _insight,
    "retrieval": _retrieve,
    "text": _text,
    "function": _call,
    "streaming_result": _result,
    "display_result": _result,
}
