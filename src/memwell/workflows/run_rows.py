"""Stored runs: their input, their steps and their outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from .. import typed
from ..clock import SECOND
from ..core.owners import app_records, user_records
from ..core.space import Space
from ..erasure.erase import EVERY_RUN
from ..errors import Conflict
from ..ids import new_id
from ..records.records import add_anchor, delete_tied
from ..storage.port import Tx

State = Literal["running", "done", "failed", "interrupted"]
StepState = Literal["done", "failed", "cached"]

LEASE = 30 * SECOND
MAX_TEXT = 64 * 1024
"""Characters of an input or output that are stored with a step."""
ERASED = "The message was erased."
EMPTIED = '{"erased": true}'
"""The input of a run that was emptied, as `empty_runs` writes it."""
EMPTIED_MESSAGE = "Data that this run has read was erased: the run cannot write any more."
EMPTIED_REASON = "emptied"
"""Reason of a Conflict that ends the step and is not passed to a model, because a retry is useless."""


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
    warnings: tuple[str, ...] = ()


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


_decode_step = typed.decoder(StepBody)
decode_input = typed.decoder(RunInput)


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
    """Begin a run, or repeat one that is over, whose steps are deleted."""
    if new.run_id:
        if not space.tx.run("begin_again", id=new.run_id, now=space.now, lease_until=space.now + LEASE):
            raise Conflict("This run is still running, or its input was erased.")
        space.tx.send("delete_run_steps", run_id=new.run_id)
        return new.run_id
    run_id = new.new_id or new_id()
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


def add_step(space: Space, run_id: str, number: int, body: StepBody, addresses: Iterable[int]) -> None:
    """Store a step and the addresses that it has read; without its texts if the run was emptied meanwhile."""
    row = find_run(space.tx, run_id)
    if row is None:
        return
    if row.is_emptied:
        body = msgspec.structs.replace(body, input="", output="", error=body.error and ERASED)
    texts = {name: _replace_nul(getattr(body, name)) for name in ("input", "output", "error")}
    body = msgspec.structs.replace(body, **texts)
    if len(body.input) > MAX_TEXT or len(body.output) > MAX_TEXT:
        body = msgspec.structs.replace(body, input=body.input[:MAX_TEXT], output=body.output[:MAX_TEXT], cut=True)
    space.tx.send("keep_run_step", run_id=run_id, number=number, body=msgspec.json.encode(body).decode())
    touch(space, run_id, addresses)


def is_emptied(space: Space, run_id: str) -> bool:
    row = find_run(space.tx, run_id)
    return row is None or row.is_emptied


def end_run(space: Space, run_id: str, state: State, output: str | None, error: str | None) -> None:
    """Store the outcome of a run; without its texts if it was emptied meanwhile."""
    row = find_run(space.tx, run_id)
    if row is not None and row.is_emptied:
        output, error = None, error and ERASED
    space.tx.send(
        "end_run", id=run_id, state=state, output=_replace_nul(output), error=_replace_nul(error), now=space.now
    )
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
