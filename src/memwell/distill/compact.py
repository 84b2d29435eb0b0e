"""Compaction: the job that folds older entries of a bank's keys into summaries, by a language model or by rules.

No transaction is open while a summary is made. It is applied only if everything that it was made of is still visible then;
what was written meanwhile is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import documents, typed
from ..clock import HOUR
from ..errors import Stale, Unavailable
from ..lifecycle.run import JobRun, Repeat
from ..model import bank as banks
from ..model import check
from ..model.bank import KIND, RESERVED, SUMMARY, Bank
from ..model.entry import Draft, Entry
from ..space import for_worker
from ..storage.port import Tx
from .fold import Item, Retold, fold, retold, to_fold, visible
from .summary import Line, summarise
from .summing.told import NOTHING
from .trust import lowest

TRIES = 5
SUMMARY_TOKENS = 600
OWN = (*RESERVED, "compaction")
"""Metadata that each entry has of its own."""


class Summarised(NamedTuple):
    """A summary, how it was made (`rules` or `model`), and why not by the model if it was not."""

    text: str
    method: str = "rules"
    note: str | None = None


Summarise = Callable[[Bank, Sequence[Item]], Summarised]


class Key(NamedTuple):
    """A key of a bank. Columns in the order of `bank_address`."""

    address_id: int
    bank_id: str
    path: str


def compact(run: JobRun, make: Summarise) -> dict[str, Any] | Repeat:
    """The `compact` job: for one key, for the keys of one bank, or, every hour, for those of all."""
    if run.job.address_id is not None:
        return _counted(_compact_key(run, run.job.address_id, make))
    only = run.payload.get("bank")
    done = [
        made
        for bank_id in ([only] if only else run.read(_banks))
        for address_id in run.read(lambda tx: _keys(tx, bank_id, run.payload.get("address")))  # noqa: B023 -- run at once
        for made in _compact_key(run, address_id, make)
    ]
    return _counted(done) if only or not run.read(_banks) else Repeat(run.clock.now() + HOUR)


def by_rules(bank: Bank, items: Sequence[Item]) -> Summarised:
    """A summary of the most telling sentences."""
    lines = [Line(item.entry.content, item.entry.role, bool(item.entries)) for item in items]
    return Summarised(summarise(lines, summary_tokens(bank)).text)


def summary_tokens(bank: Bank) -> int:
    """How long a summary may be: a quarter of what its bank may show, if there is a limit to that."""
    return SUMMARY_TOKENS if bank.max_size_tokens is None else max(20, min(SUMMARY_TOKENS, bank.max_size_tokens // 4))


class _Done(NamedTuple):
    folded: int
    method: str | None = None
    note: str | None = None


def _counted(done: Sequence[_Done]) -> dict[str, Any]:
    made = [one for one in done if one.folded]
    notes = sorted({one.note for one in made if one.note})
    methods = sorted({one.method for one in made if one.method})
    return {"summaries": len(made), "entries": sum(one.folded for one in made), "methods": methods, "notes": notes}


def _compact_key(run: JobRun, address_id: int, make: Summarise) -> list[_Done]:
    """Fold what is to be folded under a key, a bounded number at once; again if it has changed meanwhile."""
    done: list[_Done] = []
    tries = 0
    while tries < TRIES:
        found = run.read(lambda tx: _look(tx, address_id, run.clock.now()))
        if found is None:
            return done
        made = make(found.bank, found.told.items)
        try:
            run.write(lambda tx: _apply(tx, run, found, made))  # noqa: B023 -- run at once
        except Stale:
            tries += 1
            continue
        done.append(_Done(len(found.items), made.method, made.note))
    raise Unavailable("The entries kept changing while a summary was made.")


class _Found(NamedTuple):
    """What is to be folded under a key, and what its summary is made of."""

    key: Key
    bank: Bank
    items: list[Item]
    told: Retold


def _look(tx: Tx, address_id: int, now: int) -> _Found | None:
    row = tx.row("bank_address", id=address_id)
    if row is None:
        return None
    key = Key(*row)
    document = documents.find(tx, KIND, key.bank_id)
    if document is None:
        return None
    bank = banks.decoded(document.body)
    items = to_fold(visible(tx, address_id, now), bank, now)
    return _Found(key, bank, items, retold(tx, address_id, items, now)) if items else None


def _apply(tx: Tx, run: JobRun, found: _Found, made: Summarised) -> None:
    space = for_worker(tx, run.reach, run.clock)
    key, bank, items = found.key, found.bank, found.items
    sources = [item.entry for item in found.told.items]
    draft = Draft(
        kind=SUMMARY,
        role="assistant" if bank.type == "conversation" else None,
        content=check.content(made.text or NOTHING),
        origin=lowest(["assistant", *(entry.origin for entry in sources)]),
        metadata=check.to_json({**_shared(sources), "key": key.path, "compaction": made.method}),
        occurred_at=items[-1].entry.occurred_at,
    )
    (summary,) = space.append(banks.place(key.bank_id, bank.policy()), key.path, [draft])
    fold(space, key.address_id, summary, [item.entry for item in items], found.told.entries)
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation="banks.compact", actor="worker", **event)


def _shared(sources: Sequence[Entry]) -> dict[str, Any]:
    """The metadata that all have in common, so that filters find the summary as they found them."""
    found = [typed.decode(entry.metadata or "{}", dict[str, Any]) for entry in sources]
    first = found[0] if found else {}
    return {
        name: value
        for name, value in first.items()
        if name not in OWN and all(name in one and one[name] == value for one in found)
    }


def _banks(tx: Tx) -> list[str]:
    """The banks that compact."""
    return [one.id for one in documents.every(tx, KIND) if banks.decoded(one.body).compacts]


def _keys(tx: Tx, bank_id: str, only: int | None) -> list[int]:
    """The keys of a bank by their numbers, or one of them."""
    found = [row[0] for row in tx.rows("addresses_of_name", dialect=KIND, name=bank_id)]
    return found if only is None else [address_id for address_id in found if address_id == only]
