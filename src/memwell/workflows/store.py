"""Runs as they are stored: what they were given, what each step did, what came of them."""

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
MAX_SHOWN = 64 * 1024
"""How much of an input or output is kept with a step."""
ERASED = "What it said was erased."
EMPTIED = '{"erased": true}'
"""What `empty_run` leaves of what a run was given."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run was given."""

    input: str = ""
    metadata: dict[str, Any] = {}
    owner: str | None = None
    thread: str | None = None
    app: str | None = None
    document: dict[str, Any] | None = None
    inputs: dict[str, Any] | None = None
    erased: bool = False
    """Whether all this was taken away, since it knew of something that was erased."""


class StepBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step did."""

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
    """Whether it knows what has expired and was not swept yet."""


_decode_step = typed.decoder(StepBody)
decode_asked = typed.decoder(Asked)


class Begun(NamedTuple):
    """A run to be begun: of which workflow, and with what."""

    name: str
    asked: Asked
    workflow_id: str | None = None
    workflow_version: int | None = None
    run_id: str = ""
    """The run that is begun again."""
    new_id: str = ""
    """Under which id a new one is known already."""
    knows: tuple[int, ...] = ()
    """The addresses that what it was given comes from."""


def new_run_id() -> str:
    return new_id()


def begin(space: Space, begun: Begun) -> str:
    """Begin a run, or begin one again that is over: what its steps did then is forgotten."""
    if begun.run_id:
        if not space.tx.run("begin_again", id=begun.run_id, now=space.now, lease_until=space.now + LEASE):
            raise Conflict("This run is under way, or what it was given was erased.")
        space.tx.send("delete_run_steps", run_id=begun.run_id)
        return begun.run_id
    run_id = begun.new_id or new_id()
    space.tx.send(
        "add_run",
        id=run_id,
        workflow_id=begun.workflow_id,
        workflow_version=begun.workflow_version,
        name=begun.name,
        asked=msgspec.json.encode(begun.asked).decode(),
        now=space.now,
        lease_until=space.now + LEASE,
    )
    asked = begun.asked
    if asked.owner is not None:  # whoever is forgotten is forgotten here, too
        touch(space, run_id, [add_anchor(space, user_records(asked.owner))])
    if asked.app is not None:
        touch(space, run_id, [add_anchor(space, app_records(asked.app)), *begun.knows])
    return run_id


def touch(space: Space, run_id: str, touched: Iterable[int]) -> None:
    """Note which keys a run knows something of, before it reads them: if one is erased, the run must be emptied with it."""
    for address_id in touched:
        space.tx.send("touch_run", address_id=address_id, run_id=run_id)


def keep_step(space: Space, run_id: str, number: int, body: StepBody, touched: Iterable[int]) -> None:
    """Write down what a step did. Of a run that was emptied meanwhile, only what tells nothing."""
    row = find(space.tx, run_id)
    if row is None:
        return
    if row.asked == EMPTIED:
        body = msgspec.structs.replace(body, input="", output="", error=body.error and ERASED)
    space.tx.send("keep_run_step", run_id=run_id, number=number, body=msgspec.json.encode(_short(body)).decode())
    touch(space, run_id, touched)


def is_emptied(tx: Tx, run_id: str) -> bool:
    """Whether what a run was given and gave was taken away."""
    row = find(tx, run_id)
    return row is None or row.asked == EMPTIED


def end(space: Space, run_id: str, state: State, output: str | None, error: str | None) -> None:
    """Write down what came of a run that is there, and was not emptied."""
    row = find(space.tx, run_id)
    if row is not None and row.asked == EMPTIED:
        output, error = None, error and ERASED
    space.tx.send("end_run", id=run_id, state=state, output=plain(output), error=plain(error), now=space.now)
    if state != "interrupted":
        delete_tied(space, run_tie(run_id), spared=EVERY_RUN)


def run_tie(run_id: str) -> str:
    """What is kept for a run goes with it (S3.15)."""
    return f"run/{run_id}"


def find(tx: Tx, run_id: str) -> RunRow | None:
    row = tx.row("find_run", id=run_id)
    return None if row is None else RunRow(*row)


def presentable(space: Space, rows: Sequence[RunRow]) -> list[RunRow]:
    """Runs as they may be shown: one that knows what has expired is as it will be once that is swept."""
    if not rows:
        return []
    ids = [row.id for row in rows]
    over = {one[0] for one in space.tx.rows("runs_that_outlive", first=min(ids), last=max(ids), now=space.now)}
    return [_outlived(row) if row.id in over else row for row in rows]


def steps_of(tx: Tx, row: RunRow) -> list[StepBody]:
    """What the steps of a run did; nothing, if that has expired."""
    return [] if row.outlived else [_decode_step(body) for _, body in tx.rows("run_steps", run_id=row.id)]


def _outlived(row: RunRow) -> RunRow:
    return row._replace(asked=EMPTIED, output=None, error=row.error and ERASED, outlived=True)


def state_of(row: RunRow, now: int) -> str:
    """A run whose process does not say any more that it goes on was interrupted (C45)."""
    over = row.state == "running" and row.lease_until is not None and row.lease_until < now
    return "interrupted" if over else row.state


def plain(text: str | None) -> str | None:
    """A text as every engine keeps it: what a model or a function gives may hold NUL, and one of them would end there."""
    return None if text is None else text.replace("\x00", "\ufffd")


def _short(body: StepBody) -> StepBody:
    if "\x00" in body.input or "\x00" in body.output or "\x00" in (body.error or ""):
        cleaned = {"input": plain(body.input), "output": plain(body.output), "error": plain(body.error)}
        body = msgspec.structs.replace(body, **cleaned)
    if len(body.input) <= MAX_SHOWN and len(body.output) <= MAX_SHOWN:
        return body
    return msgspec.structs.replace(body, input=body.input[:MAX_SHOWN], output=body.output[:MAX_SHOWN], cut=True)
