"""The next version of a fact: the same statement true until another time, or the same fact in other words."""

from __future__ import annotations

from typing import NamedTuple

from ..model.collection import Place
from ..model.entry import Draft, Entry
from ..space import Located, Space
from .stored import FactRow, versions


class Ended(NamedTuple):
    """Whether a fact is true (`fact`) or was (`past`), until when, and because of which other one."""

    kind: str
    valid_to: int | None
    by: str | None = None


TRUE = Ended("fact", None)


def end(space: Space, place: Place, located: Located, life: Ended) -> Entry:
    """Let a fact be true, or have been true until a moment. The version before stays as it was."""
    row = versions(space.tx, located.entry.id)[-1]
    following = row._replace(kind=life.kind, valid_to=life.valid_to, ended_by=life.by, held=None)
    return rewrite(space, place, located, following, located.entry.name)


def rewrite(space: Space, place: Place, located: Located, row: FactRow, name: str | None) -> Entry:
    """Write a version that is as the row says, told by somebody of that name."""
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
    space.tx.send(
        "add_fact",
        id=entry.id,
        version=entry.version,
        collection_id=space.collection(place)[0],
        subject=row.subject,
        same=row.same or "",
        topic=row.topic,
        valid_from=row.occurred_at if row.valid_from is None else row.valid_from,
        valid_to=row.valid_to,
        plan_id=row.plan_id,
        held=row.held,
        ended_by=row.ended_by,
    )
    return entry
