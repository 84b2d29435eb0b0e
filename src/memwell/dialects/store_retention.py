"""A changed retention of a store, and what is stored: it never lives longer than it was to live, until it is written again."""

from __future__ import annotations

from ..dispatch import KEEP_ANSWERS
from ..lifecycle import jobs
from ..model.contract import Store
from ..space import Space


def retain(space: Space, tie: str, name: str, store: Store) -> list[str]:
    """Let what a store holds live by its new retention. Returns what is to be said about that. However much there is, each step
    is one statement."""
    if store.lifetime_us is not None:
        space.tx.send("shorten_tied_records", tie=tie, lifetime=store.lifetime_us)
    else:
        space.tx.send("tie_to_sessions", tie=tie)
    if store.lifetime_us is None and store.access == "session":
        space.tx.send("end_tied_records", tie=tie, skip=len(name) + 1, now=space.now)
    space.tx.send("expire_tied_addresses", tie=tie)
    space.tx.send("expire_tied_versions", tie=tie)
    space.tx.send("erase_answers_about_tied", tie=tie, until=space.now + KEEP_ANSWERS)  # they may not outlive it
    jobs.ensure_slot(space.tx, "expire", space.now, space.now)
    return _told(space, tie) if store.lifetime_us is None else []


def _told(space: Space, tie: str) -> list[str]:
    """Whoever asks for content to go with its session must know of what cannot, since nobody knows its session."""
    row = space.tx.row("count_tied_to_no_session", tie=tie, now=space.now)
    count = 0 if row is None else int(row[0])
    if count == 0:
        return []
    told = f"{count} of the stored records cannot go with a session, since it is not known in which one they were written: "
    return [f"{told}each stays as long as it was to stay before, until it is written again."]
