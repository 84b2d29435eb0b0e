"""Folding: older entries of a key are hidden behind one summary that lists them. Nothing is destroyed, and it can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..clock import DAY
from ..errors import Stale
from ..lifecycle.erase import erase_fact
from ..model.bank import Bank
from ..model.entry import Entry
from ..recall import upkeep
from ..space import Space
from ..storage.port import Tx

MOST = 10_000
"""How many entries are looked at, at once."""


class Item(NamedTuple):
    """A visible entry or summary, in its place."""

    position: int
    entry: Entry
    entries: int
    """How many entries it is a summary of; 0 if it is none."""


def visible(tx: Tx, address_id: int, now: int) -> list[Item]:
    """What a key shows, the oldest first: entries, and summaries in their places."""
    asked = {"address_id": address_id, "now": now, "limit": MOST}
    items = [Item(row[2], Entry(*row), 0) for row in tx.rows("entries_up", **asked)]
    for position, entries, *row in tx.rows("shown_summaries_up", **asked):
        items.append(Item(position, Entry(*row), entries))
    return sorted(items, key=lambda one: (one.position, one.entries > 0))


def over(tx: Tx, address_id: int, bank: Bank, now: int) -> bool:
    """Whether a key has passed a threshold of its bank. Looks no further than it must."""
    if bank.max_turns is not None and _is_long(tx, address_id, bank.max_turns, now):
        return True
    old = bank.max_age_days is not None and _is_old(tx, address_id, bank.max_age_days, now)
    if not old and (bank.max_size_tokens is None or _fits(tx, address_id, bank.max_size_tokens, now)):
        return False
    items = visible(tx, address_id, now)
    if to_fold(items, bank, now):
        return True
    _remember(address_id, items)
    return False


def to_fold(items: Sequence[Item], bank: Bank, now: int) -> list[Item]:
    """Which of the visible entries are to be folded: the oldest, so that about half of what a threshold allows stays word for
    word and the next folding is a while away. The newest entry stays always; a lone summary is not folded again."""
    turns = [item for item in items if not item.entries]
    until = max(_by_turns(turns, bank), _by_tokens(items, turns, bank), _by_age(turns, bank, now))
    until = min(until, len(turns) - 1)
    if until <= 0:
        return []
    border = turns[until].position
    return [item for item in items if item.position < border]


def _by_turns(turns: Sequence[Item], bank: Bank) -> int:
    """How many turns go because there are too many."""
    if bank.max_turns is None or len(turns) <= bank.max_turns:
        return 0
    return len(turns) - max(1, bank.max_turns // 2)


def _by_tokens(items: Sequence[Item], turns: Sequence[Item], bank: Bank) -> int:
    """How many turns go because all that is visible is too long."""
    if bank.max_size_tokens is None or sum(_tokens(item.entry.content) for item in items) <= bank.max_size_tokens:
        return 0
    kept = room = 0
    for item in reversed(turns):
        room += _tokens(item.entry.content)
        if room > bank.max_size_tokens // 2:
            break
        kept += 1
    return len(turns) - max(1, kept)


def _by_age(turns: Sequence[Item], bank: Bank, now: int) -> int:
    """How many turns go because they are too old."""
    if bank.max_age_days is None:
        return 0
    border = now - bank.max_age_days * DAY
    return sum(item.entry.recorded_at < border for item in turns)


def _tokens(content: str) -> int:
    from ..context.tokens import estimate  # here, since its patterns take a while to compile

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


def _remember(address_id: int, items: Sequence[Item]) -> None:
    turns = [item.entry for item in items if not item.entries]
    if not turns or len(turns) == MOST:
        return
    if len(_counted) >= _COUNTED:
        _counted.clear()
    summaries = tuple(item.entry.id for item in items if item.entries)
    tokens = sum(_tokens(item.entry.content) for item in items)
    _counted[address_id] = _Counted(turns[-1].seq, turns[-1].id, summaries, tokens)


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


def fold(space: Space, address_id: int, summary: Entry, sources: Sequence[Entry]) -> None:
    """Hide entries behind a summary; refused if one of them is not visible any more."""
    positions = [_position(space, source) for source in sources]
    for source in sources:
        rows = space.tx.rows("retire_entry", id=source.id, version=source.version, now=space.now)
        if not rows:
            raise Stale("Some of the entries to summarise are gone, or summarised already: load them again.")
        upkeep.retire(space.tx, rows)
        space.tx.send("fold_entry", docid=rows[0][0], address_id=address_id, summary_id=summary.id)
    counted = sum(_entries(space, source) for source in sources)
    space.tx.send("add_summary", id=summary.id, position=max(positions), entries=counted)


def dissolve(space: Space, entry_id: str) -> None:
    """Erase the summaries that hold an entry's words, the outermost first. What else was behind them is shown again."""
    behind = space.tx.row("summary_of", id=entry_id)
    if behind is not None:
        dissolve(space, behind[0])
        _unfold(space, behind[0])
        erase_fact(space.tx, behind[0])
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
