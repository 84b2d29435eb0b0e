"""Folding: older entries of a key are hidden behind one summary that lists them. Nothing is destroyed, and it can be undone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ..clock import DAY
from ..errors import Stale
from ..lifecycle.erase import erase_fact
from ..model.bank import SUMMARY, Bank
from ..model.entry import Entry
from ..recall import upkeep
from ..space import Space
from ..storage.port import Tx

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
