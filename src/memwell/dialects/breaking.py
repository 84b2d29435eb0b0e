"""Which stored records a changed schema would break, told before it is saved (S3.45, C24)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, structs

from ..errors import Conflict
from ..operation import Response
from ..record_lists import at, tied_values
from ..records import Record
from ..space import Space
from .held import Held, misfits

MAX_EXAMPLES = 20
"""How many of the records that would break are named."""

Accept = Annotated[
    bool,
    Meta(
        description="Save a schema that stored records do not fit: until they are written anew, no model is shown them."
    ),
]


class BrokenRecord(Response, frozen=True, kw_only=True):
    """A record that does not fit: whose, where, and why."""

    owner: str
    scope: str
    problems: list[dict[str, str]]


class Breaking(Response, frozen=True, kw_only=True):
    """How many records there are, how many would not fit any more, and some of these."""

    records: int
    breaking: int
    examples: list[BrokenRecord]


def broken_by(space: Space, tie: str, held: Held) -> Breaking:
    """What would not fit of the records that go with something."""
    count = broken = 0
    named: dict[int, list[dict[str, str]]] = {}
    for address_id, value in tied_values(space, tie):
        count += 1
        problems = misfits(value, held)
        if problems:
            broken += 1
        if problems and len(named) < MAX_EXAMPLES:
            named[address_id] = [{"path": one.path, "reason": one.reason} for one in problems]
    examples = [_example(record, owner, named[record.address_id]) for record, owner in at(space, list(named))]
    return Breaking(records=count, breaking=broken, examples=examples)


def _example(record: Record, owner: str, problems: list[dict[str, str]]) -> BrokenRecord:
    return BrokenRecord(owner=owner, scope=record.path.partition("@")[2] or "global", problems=problems)


def accepted(found: Breaking, accept: bool) -> list[str]:
    """A warning about the records that break; an error, if that is not accepted."""
    if not found.breaking:
        return []
    if accept:
        count = f"{found.breaking} of {found.records} stored records"
        return [f"{count} do not fit this schema, and are withheld from models until they are written anew."]
    raise Conflict(
        f"{found.breaking} of {found.records} stored records would not fit this schema. Change them first, or save it with "
        "`accept_breaking`.",
        breaking=found.breaking,
        examples=[structs.asdict(one) for one in found.examples],
    )
