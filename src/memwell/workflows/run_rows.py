"""Stored runs: their input, their steps and their outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from .. import typed
from ..clock import SECOND
from ..core.owners import app_records, user_records
from ..core.space import Space
from ..erasure.erase import EVERY_RUN, RUN
from ..errors import Conflict
from ..ids import new_id
from ..model.collection import Entry, Place
from ..models.completer import Tool, ToolCall
from ..records.records import add_anchor, delete_tied
from ..storage.port import Tx
from ..text.fence import encode_compact

State = Literal["running", "done", "failed", "interrupted", "cancelled"]
StepState = Literal["done", "failed", "cached", "skipped", "cancelled"]

RESULTS = ("streaming_result", "display_result", "send_text_message")
"""Steps whose output is always a reply of the run."""
LEASE = 30 * SECOND
MAX_TEXT = 64 * 1024
"""Characters of an input or output that are stored with a step."""
MAX_EXCHANGED = 1024 * 1024
"""Characters that are stored with a step of what was sent to models and came back."""
ERASED = "The message was erased."
EMPTIED = '{"erased": true}'
"""The input of a run that was emptied, as `empty_runs` writes it."""
EMPTIED_MESSAGE = "Data that this run has read was erased: the run cannot write any more."
EMPTIED_REASON = "emptied"
CANCELLED_MESSAGE = "The run was cancelled."
CANCELLED_REASON = "cancelled"
ENDING = (EMPTIED_REASON, CANCELLED_REASON)
"""Reasons of a Conflict that ends the step and is not passed to a model, because a retry is useless."""


class RunInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input of a run."""

    input: str = ""
    metadata: dict[str, Any] = {}
    owner: str | None = None
    thread: str | None = None
    app: str | None = None
    document: dict[str, Any] | None = None
    inputs: dict[str, Any] | None = None
    erased: bool = False
    """True if the run was emptied, because data that it had read was erased."""

    @property
    def fields(self) -> dict[str, Any]:
        """The input as `$input`: its text as `text`, and the fields of `inputs`. A text is never parsed: users write it."""
        return {**({"text": self.input} if self.input or self.inputs is None else {}), **(self.inputs or {})}

    @property
    def text(self) -> str:
        """The input as `{{input}}`: its text; or its fields as JSON, if it has no text."""
        fields = self.fields
        text = fields.get("text")
        if isinstance(text, str):
            return text
        return encode_compact(fields) if fields else ""


class SentMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to a model. `tool_calls` are those of the model, `tool_call_id` names the one that a tool answers."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class ModelExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a model by a step: what was sent, and what came back or why it failed.

    In storage, the messages leave out those at the beginning that the call before it has, and `tools` is null for the same tools.
    """

    model: str
    messages: tuple[SentMessage, ...]
    same_messages: int = 0
    tools: tuple[Tool, ...] | None = ()
    schema: dict[str, Any] | None = None
    max_tokens: int
    temperature: float | None = None
    answer: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    error: str | None = None
    seconds: float = 0.0
    cut: bool = False
    """True if texts were longer than is stored."""


def pack_exchanges(exchanges: Sequence[ModelExchange]) -> tuple[ModelExchange, ...]:
    """Leave out what the call before has, and the texts beyond the limit."""
    left, packed = MAX_EXCHANGED, []
    before: ModelExchange | None = None
    for one in exchanges:
        messages, tools = one.messages, one.tools
        same = 0
        if before is not None:
            pairs = zip(before.messages, messages, strict=False)
            same = next(
                (at for at, (old, new) in enumerate(pairs) if old != new), min(len(before.messages), len(messages))
            )
            tools = None if tools == before.tools else tools
        before, sent, was_cut = one, [], False
        for message in messages[same:]:
            text = message.content[:left]
            was_cut, left = was_cut or len(text) < len(message.content), left - len(text)
            sent.append(msgspec.structs.replace(message, content=text))
        answer = None if one.answer is None else one.answer[:left]
        left -= len(answer or "")
        was_cut = was_cut or len(answer or "") < len(one.answer or "")
        changes = {"messages": tuple(sent), "same_messages": same, "tools": tools, "answer": answer, "cut": was_cut}
        packed.append(msgspec.structs.replace(one, **changes))
    return tuple(packed)


def unpack_exchanges(exchanges: Sequence[ModelExchange]) -> list[ModelExchange]:
    """Return the calls with all their messages and tools."""
    found: list[ModelExchange] = []
    for one in exchanges:
        messages, tools = one.messages, one.tools
        if found:
            messages = (*found[-1].messages[: one.same_messages], *messages)
            tools = found[-1].tools if tools is None else tools
        found.append(msgspec.structs.replace(one, messages=messages, tools=tools, same_messages=0))
    return found


class StepBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored step."""

    id: str
    step_type: str
    path: str
    level: int
    state: StepState
    input: str = ""
    output: str = ""
    output_content_type: str = "text/plain"
    started_at: int = 0
    ended_at: int = 0
    attempts: int = 1
    error: str | None = None
    cut: bool = False
    wrote: bool | None = None
    """For a step that adds an entry: False if it had nothing to write."""
    warnings: tuple[str, ...] = ()
    reply: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    model_calls: tuple[ModelExchange, ...] = ()

    @property
    def is_reply(self) -> bool:
        """True if its output was handed out to the caller of the run."""
        return self.reply or (self.step_type in RESULTS and self.state == "done")


class RunRow(NamedTuple):
    """A run. Columns in the order of `find_run`."""

    id: str
    workflow_id: str | None
    workflow_version: int | None
    name: str
    state: str
    asked: str
    output: str | None
    error: str | None
    started_at: int
    ended_at: int | None
    lease_until: int | None
    outlived: bool = False
    """True if it has read data that has expired and is not swept yet."""

    @property
    def is_emptied(self) -> bool:
        return self.asked == EMPTIED

    def find_state(self, now: int) -> str:
        """Return the state of the run; `interrupted` if its process no longer renews its lease (C45)."""
        is_over = self.state == "running" and self.lease_until is not None and self.lease_until < now
        return "interrupted" if is_over else self.state

    def is_stopping(self, now: int) -> bool:
        """Return True if the run was cancelled and its process, such as a function in it, has not stopped yet."""
        return self.state == "cancelled" and self.lease_until is not None and self.lease_until >= now


_decode_step = typed.decoder(StepBody)
decode_input = typed.decoder(RunInput)


class Begun(msgspec.Struct, frozen=True):
    """The stored answer to a request that begins a run. It says nothing about the run, which may be erased before it."""

    run: str
    call: str = ""
    """The call that has begun it."""


class NewRun(NamedTuple):
    """A run to begin."""

    name: str
    given: RunInput
    workflow_id: str | None = None
    workflow_version: int | None = None
    run_id: str = ""
    """The run to repeat."""
    new_id: str = ""
    """The id of the new run, if the caller chose it."""
    addresses: tuple[int, ...] = ()
    """The addresses from which its input was read."""


def begin_run(space: Space, new: NewRun) -> str:
    """Begin a run, or repeat one that is over. One that is done keeps its output and its steps, so its repeat is a new run. Other
    runs begin again."""
    repeated = find_run(space.tx, new.run_id) if new.run_id else None
    if new.run_id and (repeated is None or repeated.is_emptied or repeated.state != "done"):
        if not space.tx.run("begin_again", id=new.run_id, now=space.now, lease_until=space.now + LEASE):
            raise Conflict("This run has not stopped yet, or its input was erased.")
        space.tx.send("delete_run_steps", run_id=new.run_id)
        space.mention(RUN, new.run_id)
        return new.run_id
    run_id = new.new_id or new_id()
    space.mention(RUN, run_id)
    if repeated is not None:  # its input is erased with the same data
        space.tx.send("copy_run_touches", run_id=repeated.id, new_id=run_id)
    space.tx.send(
        "add_run",
        id=run_id,
        workflow_id=new.workflow_id,
        workflow_version=new.workflow_version,
        name=new.name,
        asked=msgspec.json.encode(new.given).decode(),
        now=space.now,
        lease_until=space.now + LEASE,
    )
    given = new.given
    if given.owner is not None:  # so that deleting the user empties the run
        touch(space, run_id, [add_anchor(space, user_records(given.owner))])
    if given.app is not None:
        touch(space, run_id, [add_anchor(space, app_records(given.app)), *new.addresses])
    return run_id


def touch(space: Space, run_id: str, addresses: Iterable[int]) -> None:
    """Note the addresses that a run reads. If data of one is erased, the run is emptied."""
    for address_id in addresses:
        space.tx.send("touch_run", address_id=address_id, run_id=run_id)


def add_step(space: Space, run_id: str, number: int, body: StepBody) -> None:
    """Store a step; without its texts if the run was emptied meanwhile."""
    row = find_run(space.tx, run_id)
    if row is None:
        return
    if row.is_emptied:
        body = msgspec.structs.replace(body, input="", output="", error=body.error and ERASED, model_calls=())
    texts = {name: _replace_nul(getattr(body, name)) for name in ("input", "output", "error")}
    body = msgspec.structs.replace(body, **texts)
    if len(body.input) > MAX_TEXT or len(body.output) > MAX_TEXT:
        body = msgspec.structs.replace(body, input=body.input[:MAX_TEXT], output=body.output[:MAX_TEXT], cut=True)
    space.tx.send("keep_run_step", run_id=run_id, number=number, body=msgspec.json.encode(body).decode())


def check_running(space: Space, run_id: str) -> None:
    """Raise if a run may not write any more."""
    row = find_run(space.tx, run_id)
    if row is None or row.is_emptied:
        raise Conflict(EMPTIED_MESSAGE, reason=EMPTIED_REASON)
    if row.state == "cancelled":
        raise Conflict(CANCELLED_MESSAGE, reason=CANCELLED_REASON)
    if row.state in ("done", "failed"):
        raise Conflict("The run is over and cannot write any more.")


def cancel_run(space: Space, run_id: str) -> None:
    """Mark a run as cancelled, unless it is over."""
    space.mention(RUN, run_id)
    if space.tx.run("cancel_run", id=run_id, error=CANCELLED_MESSAGE, now=space.now):
        delete_tied(space, run_tie(run_id), spared=EVERY_RUN)


def end_run(space: Space, run_id: str, state: State, output: str | None, error: str | None) -> None:
    """Store the outcome of a run; without its texts if it was emptied meanwhile."""
    row = find_run(space.tx, run_id)
    if row is not None and row.is_emptied:
        output, error = None, error and ERASED
    if row is not None and row.state == "cancelled":
        space.tx.send("release_run", id=run_id)
    else:
        texts = {"output": _replace_nul(output), "error": _replace_nul(error)}
        space.tx.send("end_run", id=run_id, state=state, now=space.now, **texts)
    if state != "interrupted":
        delete_tied(space, run_tie(run_id), spared=EVERY_RUN)


def run_tie(run_id: str) -> str:
    """Return the tie of records that are deleted with the run (S3.15)."""
    return f"run/{run_id}"


def find_run(tx: Tx, run_id: str) -> RunRow | None:
    row = tx.row("find_run", id=run_id)
    return None if row is None else RunRow(*row)


def hide_expired(space: Space, rows: Sequence[RunRow]) -> list[RunRow]:
    """Empty the runs that have read expired data, as the sweep will do."""
    if not rows:
        return []
    ids = [row.id for row in rows]
    expired = {one[0] for one in space.tx.rows("runs_that_outlive", first=min(ids), last=max(ids), now=space.now)}
    return [
        row._replace(asked=EMPTIED, output=None, error=row.error and ERASED, outlived=True)
        if row.id in expired
        else row
        for row in rows
    ]


def list_steps(tx: Tx, row: RunRow) -> list[StepBody]:
    return [] if row.outlived else [_decode_step(body) for _, body in tx.rows("run_steps", run_id=row.id)]


def _replace_nul(text: str | None) -> str | None:
    """Replace NUL, which models and functions may return and PostgreSQL rejects."""
    return None if text is None else text.replace("\x00", "\ufffd")


class Output(NamedTuple):
    """The output of a step, which is the input of the next."""

    text: str
    content_type: str = "text/plain"
    loaded: tuple[str, ...] = ()
    """The ids of its entries, if it was loaded from a bank."""
    value: Any = None
    """The output of a task as expressions see it."""
    wrote: bool | None = None
    """For a step that adds an entry: False if it had nothing to write."""


def find_seq(space: Space, place: Place, entry_id: str) -> int | None:
    """Return the sequence number of an entry, or None if the run has not written it yet."""
    rows = space.rows("any_entry", place, id=entry_id)
    return Entry(*rows[0][: len(Entry.__struct_fields__)]).seq if rows else None
