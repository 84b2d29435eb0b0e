"""The rows of facts and their versions. All of them are written by `write_fact`.

A fact is an entry (its text) with a row in the table `fact` (subject, lookup keys, validity). To add a column, change `FactRow`,
`FactVersion`, and the statements `add_fact` and `fact_versions`.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from ..core.space import Located, Space
from ..model.collection import Draft, Entry, Place
from ..storage.port import Tx
from .datatypes import decode_steps, encode_steps
from .wording import lookup_keys, parse_statement

FACTS_PATH = ""
"""Path of the facts of a whole flow or user."""


class StoredFact(NamedTuple):
    """A current fact. The columns are in the order of `facts_same`; `facts_of` adds `held`, the reason for a quarantine."""

    id: str
    version: int
    content: str
    subject: str | None
    kind: str
    confidence: float | None
    occurred_at: int
    topic: str | None
    valid_from: int | None
    valid_to: int | None
    origin: str
    held: str | None = None


class FactVersion(NamedTuple):
    """A version of a fact. The columns are in the order of `fact_versions`."""

    version: int
    kind: str
    content: str
    origin: str
    importance: float | None
    confidence: float | None
    recorded_at: int
    retired_at: int | None
    subject: str | None
    valid_from: int | None
    valid_to: int | None
    plan_id: str | None
    held: str | None
    same: str | None
    topic: str | None
    occurred_at: int
    address_id: int
    ended_by: str | None


def list_versions(tx: Tx, fact_id: str) -> list[FactVersion]:
    return [FactVersion(*row) for row in tx.rows("fact_versions", id=fact_id)]


class FactRow(NamedTuple):
    """The columns of one version of a fact."""

    id: str = ""
    version: int = 0
    subject: str | None = None
    """The person that the fact is about; None if it is not about a particular person."""
    same: str = ""
    """Lookup key shared by statements with the same words about the same subject."""
    topic: str | None = None
    """Lookup key of the subject and the slot, for slots that hold one value at a time."""
    valid_from: int | None = None
    valid_to: int | None = None
    plan_id: str | None = None
    """The plan that added the fact; None if a person wrote it."""
    held: str | None = None
    """The reason for a quarantine."""
    ended_by: str | None = None


def write_fact(space: Space, place: Place, row: FactRow) -> None:
    space.tx.send("add_fact", collection_id=space.collection(place)[0], **row._asdict())


# -- new versions of a fact


class Ending(NamedTuple):
    """The end of a fact: its kind (`fact` while it is true, `past` afterwards), the time, and the fact that took its place."""

    kind: str
    valid_to: int | None
    by: str | None = None
    held: str | None = None
    """The reason for a quarantine; the kind is `held` then."""


NOT_ENDED = Ending("fact", None)


def end_fact(space: Space, place: Place, located: Located, ending: Ending) -> Entry:
    """Write a version with another ending. The previous version stays unchanged."""
    row = list_versions(space.tx, located.entry.id)[-1]
    # a change can be dated before the day on which the fact was stated
    until = None if ending.valid_to is None else max(ending.valid_to, row.valid_from or row.occurred_at)
    if ending.kind == "fact":  # it is true again, for the period that the statement itself gives
        first = list_versions(space.tx, located.entry.id)[0]
        until = None if first.kind == "past" else first.valid_to
    following = row._replace(kind=ending.kind, valid_to=until, ended_by=ending.by, held=ending.held)
    return revise_fact(space, place, located, following, located.entry.name)


def revise_fact(space: Space, place: Place, located: Located, row: FactVersion, name: str | None) -> Entry:
    """Write a version with the values of `row`, stated by the speaker `name`."""
    old = located.entry
    draft = Draft(
        kind=row.kind,
        content=row.content,
        name=name,
        origin=row.origin,  # type: ignore[arg-type]
        importance=row.importance,
        confidence=row.confidence,
        metadata=old.metadata,
        occurred_at=row.occurred_at,
    )
    entry = space.revise(place, located, draft, old.version)
    since = row.occurred_at if row.valid_from is None else row.valid_from
    version = FactRow(entry.id, entry.version, row.subject, row.same or "", row.topic, since, row.valid_to)
    write_fact(space, place, version._replace(plan_id=row.plan_id, held=row.held, ended_by=row.ended_by))
    return entry


# -- facts that people write


def write_entry_fact(space: Space, place: Place, entry: Entry, row: FactRow = FactRow()) -> None:
    """Write the row of a fact that a person added. Later statements can then confirm or end the fact."""
    same, topic = lookup_keys(parse_statement(entry.content, row.subject), row.subject)
    since = entry.occurred_at if row.valid_from is None else row.valid_from
    write_fact(space, place, row._replace(id=entry.id, version=entry.version, same=same, topic=topic, valid_from=since))


def write_corrected_fact(space: Space, place: Place, entry: Entry) -> None:
    """Write the row of a fact after a person corrected its text. The subject and the validity stay."""
    earlier = [row for row in list_versions(space.tx, entry.id) if row.version < entry.version and row.same]
    last = earlier[-1] if earlier else None
    row = FactRow() if last is None else FactRow(**{name: getattr(last, name) for name in _STAYS})
    write_entry_fact(space, place, entry, row)


_STAYS = ("subject", "valid_from", "valid_to", "plan_id", "held", "ended_by")


def remove_from_plans(tx: Tx, collection_id: int, fact_id: str) -> None:
    """Remove the steps of a fact from all plans. Call this before the fact is erased."""
    for (plan_id,) in tx.rows("plans_of_fact", collection_id=collection_id, pattern=f'%"{fact_id}"%'):
        row = tx.row("plan_steps", id=plan_id)
        if row is not None:
            body = decode_steps(row[0])
            remaining = [step for step in body.steps if step.id != fact_id]
            tx.send("set_plan_steps", id=plan_id, steps=encode_steps(structs.replace(body, steps=remaining)))
