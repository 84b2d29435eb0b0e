"""Folding: older entries of a key are hidden behind one summary that lists them. Nothing is destroyed, and it can be undone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from .. import typed
from ..clock import DAY, HOUR
from ..core import documents
from ..core.engine import Engine
from ..core.space import Space, for_worker
from ..erasure.erase import erase_fact
from ..errors import Stale, Unavailable
from ..jobs.queue import JobRun, Repeat
from ..model import check
from ..model.collection import Draft, Entry
from ..screening.screen import lowest_trust
from ..search import upkeep
from ..storage.port import Reach, Tx
from . import banks
from .banks import KIND, RESERVED, SUMMARY, Bank
from .summary.sentences import NOTHING
from .summary.summarise import Line, summarise

MOST = 10_000
"""How many entries are looked at, at once."""
RETOLD = 2_000
"""How many of the entries behind a summary it is made of anew, at most: the newest."""


class Item(NamedTuple):
    """A visible entry or summary, in its place."""

    position: int
    entry: Entry
    entries: int
    """How many entries it is a summary of; 0 if it is none."""


class Shown(NamedTuple):
    """What a key shows, the oldest first: entries, and summaries in their places. Of very many, the first."""

    items: list[Item]
    later: list[Size]
    """The turns that follow."""


class Size(NamedTuple):
    """A turn, and how long it is."""

    seq: int
    id: str
    tokens: int


def visible(tx: Tx, address_id: int, now: int) -> Shown:
    asked = {"address_id": address_id, "now": now, "limit": MOST}
    items = [Item(row[2], Entry(*row), 0) for row in tx.rows("entries_up", **asked)]
    later = _sizes(tx, address_id, items[-1].position + 1, now) if len(items) == MOST else []
    for position, entries, *row in tx.rows("shown_summaries_up", **asked):
        items.append(Item(position, Entry(*row), entries))
    return Shown(sorted(items, key=lambda one: (one.position, one.entries > 0)), later)


def _sizes(tx: Tx, address_id: int, first: int, now: int) -> list[Size]:
    """The turns from one on. Their words are not kept: they may be many."""
    found: list[Size] = []
    while rows := tx.rows("turns_from", address_id=address_id, first=first, now=now, limit=MOST):
        found += [Size(seq, entry_id, _tokens(content)) for seq, entry_id, content in rows]
        first = rows[-1][0] + 1
    return found


def over(tx: Tx, address_id: int, bank: Bank, now: int) -> bool:
    """Whether a key has passed a threshold of its bank. Looks no further than it must."""
    if bank.max_turns is not None and _is_long(tx, address_id, bank.max_turns, now):
        return True
    old = bank.max_age_days is not None and _is_old(tx, address_id, bank.max_age_days, now)
    if not old and (bank.max_size_tokens is None or _fits(tx, address_id, bank.max_size_tokens, now)):
        return False
    shown = visible(tx, address_id, now)
    if to_fold(shown, bank, now):
        return True
    _remember(address_id, shown)
    return False


def to_fold(shown: Shown, bank: Bank, now: int) -> list[Item]:
    """Which of the visible entries are to be folded: the oldest, so that about half of what a threshold allows stays word for
    word and the next folding is a while away. The newest entry stays always; a lone summary is not folded again. Of very
    many, the first are folded first, and then the others with their summary."""
    turns = [item for item in shown.items if not item.entries]
    count = len(turns) + len(shown.later)
    until = max(_by_turns(count, bank), _by_tokens(shown, bank), _by_age(turns, bank, now))
    until = min(until, count - 1)
    if until <= 0:
        return []
    border = turns[until].position if until < len(turns) else turns[-1].position + 1
    return [item for item in shown.items if item.position < border]


def _by_turns(count: int, bank: Bank) -> int:
    """How many turns go because there are too many."""
    if bank.max_turns is None or count <= bank.max_turns:
        return 0
    return count - max(1, bank.max_turns // 2)


def _by_tokens(shown: Shown, bank: Bank) -> int:
    """How many turns go because all that is visible is too long."""
    if bank.max_size_tokens is None:
        return 0
    sizes = [(_tokens(item.entry.content), item.entries > 0) for item in shown.items]
    turns = [tokens for tokens, summary in sizes if not summary] + [one.tokens for one in shown.later]
    if sum(turns) + sum(tokens for tokens, summary in sizes if summary) <= bank.max_size_tokens:
        return 0
    room = list(accumulate(reversed(turns)))
    return len(turns) - max(1, bisect_right(room, bank.max_size_tokens // 2))


def _by_age(turns: Sequence[Item], bank: Bank, now: int) -> int:
    """How many turns go because they are too old."""
    if bank.max_age_days is None:
        return 0
    border = now - bank.max_age_days * DAY
    return sum(item.entry.recorded_at < border for item in turns)


def _tokens(content: str) -> int:
    from ..text.tokens import estimate  # here, since its patterns take a while to compile

    return estimate(content)


# -- how much a key shows -------------------------------------------------------------------------------------------------


class _Counted(NamedTuple):
    """How many tokens a key shows at most, up to one of its turns and with these summaries."""

    seq: int
    id: str
    summaries: tuple[str, ...]
    tokens: int


_counted: dict[int, _Counted] = {}
_COUNTED = 10_000
"""How many keys this process remembers the size of. Nothing that was said is in there."""


def _fits(tx: Tx, address_id: int, tokens: int, now: int) -> bool:
    """Whether a key is known to be no larger than so many tokens, by what it has got since it was last counted.

    Turns do not change, and what is behind a summary comes back only when that is erased. So while the summaries are the
    same and the turn that was the last is still there, what was counted cannot have grown.
    """
    before = _counted.get(address_id)
    if before is None or before.summaries != _summaries(tx, address_id, now):
        return False
    turns = tx.rows("turns_from", address_id=address_id, first=before.seq, now=now, limit=MOST)
    if not turns or turns[0][:2] != (before.seq, before.id) or len(turns) == MOST:
        return False
    count = before.tokens + sum(_tokens(content) for _, _, content in turns[1:])
    if count > tokens:
        return False
    _counted[address_id] = before._replace(seq=turns[-1][0], id=turns[-1][1], tokens=count)
    return True


def _remember(address_id: int, shown: Shown) -> None:
    turns = [item.entry for item in shown.items if not item.entries]
    if not turns:
        return
    if len(_counted) >= _COUNTED:
        _counted.clear()
    last = shown.later[-1] if shown.later else turns[-1]
    summaries = tuple(item.entry.id for item in shown.items if item.entries)
    tokens = sum(_tokens(item.entry.content) for item in shown.items) + sum(one.tokens for one in shown.later)
    _counted[address_id] = _Counted(last.seq, last.id, summaries, tokens)


def _summaries(tx: Tx, address_id: int, now: int) -> tuple[str, ...]:
    return tuple(row[2] for row in tx.rows("shown_summaries_up", address_id=address_id, now=now, limit=MOST))


def _is_long(tx: Tx, address_id: int, turns: int, now: int) -> bool:
    """Whether a key has more turns than so many; most have not even as many entries, which is found out sooner."""
    if tx.row("beyond_entries", address_id=address_id, turns=turns) is None:
        return False
    return tx.row("beyond_turns", address_id=address_id, turns=turns, now=now) is not None


def _is_old(tx: Tx, address_id: int, days: int, now: int) -> bool:
    """Whether the oldest turn of a key is older than so many days; none that follows is older."""
    oldest = tx.row("oldest_turn", address_id=address_id, now=now)
    return oldest is not None and oldest[0] < now - days * DAY


# -- folding -------------------------------------------------------------------------------------------------------------


class Retold(NamedTuple):
    """What a summary is made of, and of how many entries it is then."""

    items: list[Item]
    entries: int


def retold(tx: Tx, address_id: int, items: Sequence[Item], now: int) -> Retold:
    """What items to be folded are told by: summaries among them by their own words, while nothing of the key has gone;
    otherwise by what is left behind them, so that no words are handed on from summary to summary long after their time."""
    summaries = [item for item in items if item.entries]
    first = tx.row("first_kept", address_id=address_id, now=now)
    if not summaries or first == (1,):
        return Retold(list(items), sum(item.entries or 1 for item in items))
    turns = [item for item in items if not item.entries]
    behind = _behind(tx, [item.entry.id for item in summaries], now)
    newest = sorted(behind)[-RETOLD:]
    rows = tx.rows("entries_behind", address_id=address_id, first=newest[0], now=now) if newest else []
    rest = [Item(row[2], Entry(*row), 0) for row in rows if row[2] in behind]
    return Retold(sorted([*rest, *turns], key=lambda one: one.position), len(behind) + len(turns))


def _behind(tx: Tx, summaries: Sequence[str], now: int) -> set[int]:
    """The numbers of the entries that are kept behind some summaries, and behind those that these were made of."""
    found: set[int] = set()
    waiting = list(summaries)
    while waiting:
        for seq, entry_id, kind in tx.rows("folds_of", id=waiting.pop(), now=now):
            if kind == SUMMARY:
                waiting.append(entry_id)
            else:
                found.add(seq)
    return found


def fold(space: Space, address_id: int, summary: Entry, sources: Sequence[Entry], entries: int | None = None) -> None:
    """Hide entries behind a summary; refused if one of them is not visible any more. `entries`: of how many it is, if it is
    not of all that is behind them."""
    positions = [_position(space, source) for source in sources]
    for source in sources:
        rows = space.tx.rows("retire_entry", id=source.id, version=source.version, now=space.now)
        if not rows:
            raise Stale("Some of the entries to summarise are gone, or summarised already: load them again.")
        upkeep.retire(space.tx, rows)
        space.tx.send("fold_entry", docid=rows[0][0], address_id=address_id, summary_id=summary.id)
    counted = sum(_entries(space, source) for source in sources) if entries is None else entries
    space.tx.send("add_summary", id=summary.id, position=max(positions), entries=counted)


def dissolve(space: Space, entry_id: str) -> None:
    """Erase the summaries that hold an entry's words, the outermost first. What else was behind them is shown again."""
    chain = [entry_id]
    while behind := space.tx.row("summary_of", id=chain[-1]):
        chain.append(behind[0])
    for summary_id in reversed(chain[1:]):
        _unfold(space, summary_id)
        erase_fact(space.tx, summary_id, space.now)
    _unfold(space, entry_id)


def _unfold(space: Space, summary_id: str) -> None:
    rows = space.tx.rows("unfold", id=summary_id)
    upkeep.changed(space.tx, rows)
    space.tx.send("forget_folds", id=summary_id)


def _position(space: Space, source: Entry) -> int:
    """Where an entry stands: at its number, or, if it is a summary, where what it was made of stood."""
    row = space.tx.row("summary_place", id=source.id)
    return source.seq if row is None else int(row[0])


def _entries(space: Space, source: Entry) -> int:
    row = space.tx.row("summary_place", id=source.id)
    return 1 if row is None else int(row[1])


# -- Compaction: the job that folds older entries of a bank's keys into summaries, by a language model or by rules.
#
# No transaction is open while a summary is made. It is applied only if everything that it was made of is still visible then;
# what was written meanwhile is not touched.


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
        return _count_keys(_compact_key(run, run.job.address_id, make))
    only = run.payload.get("bank")
    done = [
        made
        for bank_id in ([only] if only else run.read(_banks))
        for address_id in run.read(lambda tx: _keys(tx, bank_id, run.payload.get("address")))  # noqa: B023 -- run at once
        for made in _compact_key(run, address_id, make)
    ]
    return _count_keys(done) if only or not run.read(_banks) else Repeat(run.clock.now() + HOUR)


def summarise_items(engine: Engine, reach: Reach, bank: Bank, items: Sequence[Item]) -> Summarised:
    """A summary of older entries: by a language model if one is set and the bank has a prompt, by rules otherwise."""
    if engine.completer is None or not bank.compaction_prompt:
        return by_rules(bank, items)
    from .summary.by_model import by_model

    return by_model(*engine.completer, reach, engine.clock, bank, items)


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


def _count_keys(done: Sequence[_Done]) -> dict[str, Any]:
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
        origin=lowest_trust(["assistant", *(entry.origin for entry in sources)]),
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
