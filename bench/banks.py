"""Memory banks through the SDK: writing with and without the history, searching, loading, and the cost of compaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from memwell import Memory
from memwell.banks import banks, entries
from memwell.clock import SystemClock
from memwell.core.dispatch import Call
from memwell.core.space import Space
from memwell.registry import require_operation
from memwell.sdk._sync_banks import Bank
from memwell.sdk.types import BankSettings
from memwell.storage.sqlite import connect

from . import bank_store, bare_search, corpus
from .bare import TENANT, bare_writer, locked
from .bare_search import TOP, BareSearch
from .corpus import PER_SESSION, TOPICS, Asked
from .measure import Blocks, Timings, alternate, median_ratio
from .sizes import Sizes
from .store import Store
from .table import Row, at_most, spread
from .texts import TURN

ADD_LIMIT, HISTORY_LIMIT, SEARCH_LIMIT, FILTERED_LIMIT, LOAD_LIMIT, FOLDED_LIMIT = 1.5, 1.5, 3.0, 1.5, 3.0, 1.5
KEY = "alice"
Order = Literal["oldest_first", "newest_first"]
LOADED = 1000
KEYS = 5
VISIBLE = 50
FOLDED_AT_ONCE = 1000
CHAT: BankSettings = {"max_turns": 200, "max_size_tokens": 20_000}
"""The thresholds of the bank template for chatbots."""
FILTER = {"topic": "topic-3"}
"""A filter that one of twenty entries matches."""
LOADS = Blocks(40, 5, longest_s=6.0)
CYCLES = 5
CYCLE = Blocks(4, 9, longest_s=6.0)
"""A compaction between the cycles keeps the number of visible entries about the same: 50 to 95."""

# Plain SQL for the rows of a messages array.
_SAID: dict[Order, str] = {
    "oldest_first": """SELECT role, content FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq > 0
        AND kind <> 'summary' AND retired_at IS NULL AND expires_at > :now ORDER BY seq LIMIT :limit""",
    "newest_first": """SELECT role, content FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq > 0
        AND kind <> 'summary' AND retired_at IS NULL AND expires_at > :now ORDER BY seq DESC LIMIT :limit""",
}


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    """All measurements of banks. Each group has its own store, without a worker, which would embed during the measurement."""
    return [
        _added(folder, sizes),
        *_conversation(folder / "conversation", sizes),
        *_folded(folder / "folded", sizes),
        *_searched(folder, sizes),
    ]


# -- writing and loading -------------------------------------------------------------------------------------------------


def _added(folder: Path, sizes: Sizes) -> Row:
    """An entry for a general bank, compared with a bare writer thread."""
    with Memory(folder / "general", worker=False) as memory, bare_writer(folder / "general.db") as bare:
        bank, gate = memory.banks.create("notes", type="general"), locked()
        ours, limit = alternate(sizes.appends, lambda: bank.add(TURN, key=KEY), lambda: bare.append(KEY, gate))
    return _beside("add to a general bank", ours, limit, ADD_LIMIT)


def _conversation(home: Path, sizes: Sizes) -> list[Row]:
    """A key with many turns: adding, compared with a bare commit, and loading, compared with plain SQL for the same messages."""
    turns = sizes.entries
    with Memory(home, worker=False) as memory:
        bank = memory.banks.create("chats")
        bank_store.converse(memory, bank.id, KEY, turns)
        add = partial(bank.add, TURN, key=KEY, speaker="user")
        assert 50 < len(add().messages or []) <= 100
        ours, limit = alternate(sizes.appends, add, _commit(memory, bank))
        found = [_beside(f"Add to {turns:,} turns of a key", ours, limit, HISTORY_LIMIT, "its commit")]
        for order in _SAID:
            ours, limit = _loaded(home, memory, bank, order)
            found.append(_beside(f"load {LOADED:,} of {turns:,}, {order}", ours, limit, LOAD_LIMIT))
    return found


def _commit(memory: Memory, bank: Bank) -> Callable[[], object]:
    """The transaction of an Add alone: the entry, its words and its event."""
    transport = bank_store.transport(memory)
    call = Call(transport.engine, transport.principal, require_operation("banks.add"))
    return lambda: call.write(partial(_written, bank.id))


def _written(bank_id: str, space: Space) -> object:
    new = entries.NewEntry(KEY, TURN, "user")
    return entries.write_entry(space, bank_id, banks.require_bank(space, bank_id).settings, new)


def _loaded(home: Path, memory: Memory, bank: Bank, order: Order) -> list[Timings]:
    given = {"tenant": TENANT, "address_id": bank_store.address_id(memory, bank.id, KEY), "limit": LOADED}
    reader = connect.open_reader(bank_store.file(home), None)

    def by_hand() -> list[dict[str, str]]:
        now = SystemClock().now()
        return [{"role": role, "content": said} for role, said in reader.execute(_SAID[order], {**given, "now": now})]

    def ours() -> list[dict[str, str]] | None:
        return bank.load(KEY, order=order, limit=LOADED).messages

    with closing(reader):
        assert ours() == by_hand()
        return alternate(LOADS, ours, by_hand)


# -- compaction ---------------------------------------------------------------------------------------------------------


def _folded(home: Path, sizes: Sizes) -> list[Row]:
    """A key with a long history behind its summary, compared with a short one; and the cost of thresholds."""
    with Memory(home, worker=False) as memory:
        chat, plain = memory.banks.create("chats", **CHAT), memory.banks.create("plain")
        bank_store.folded(memory, chat.id, "old", sizes.entries, FOLDED_AT_ONCE)
        for bank, key in ((chat, "old"), (chat, "new"), (plain, "new")):
            bank_store.converse(memory, bank.id, key, VISIBLE)
        assert len(chat.load("old").messages or []) == VISIBLE + 1
        loads = [partial(chat.load, key, order="oldest_first") for key in ("old", "new")]
        past = f"with {sizes.entries:,} folded"
        old, new = alternate(LOADS, *loads)
        found = [_beside(f"load {VISIBLE} {past}", old, new, FOLDED_LIMIT, "none folded")]
        old, new, free = _cycled(memory, [(chat, "old"), (chat, "new"), (plain, "new")])
    found.append(_beside(f"Add to {VISIBLE} {past}", old, new, FOLDED_LIMIT, "none folded"))
    found.append(_beside("Add to a bank with thresholds", new, free, FOLDED_LIMIT, "without"))
    return found


def _cycled(memory: Memory, keys: list[tuple[Bank, str]]) -> list[Timings]:
    """Adds entries, and compacts them in pauses."""
    found = [Timings([], []) for _ in keys]
    for _ in range(CYCLES):
        timed = alternate(CYCLE, *(partial(bank.add, TURN, key=key, speaker="user") for bank, key in keys))
        for kept, one in zip(found, timed, strict=True):
            kept.each.extend(one.each)
            kept.blocks.extend(one.blocks)
        for bank, key in keys:
            bank_store.fold_down(memory, bank.id, key, VISIBLE)
    return found


# -- searching -----------------------------------------------------------------------------------------------------------


def _searched(folder: Path, sizes: Sizes) -> list[Row]:
    store, bank_id = bank_store.searchable(folder / "searched", sizes.entries)
    with (
        closing(BareSearch(folder / "bare.db", store)) as bare,
        Memory(store.home, worker=False) as memory,
    ):
        ours = _Searches(memory.banks.open(bank_id), store)
        found = [ours.beside(bare, sizes.scoped, rare) for rare in (False, True)]
        return [*found, *(ours.filtered(sizes.scoped, everywhere) for everywhere in (False, True))]


@dataclass
class _Searches:
    """A bank to search. No query is repeated."""

    bank: Bank
    store: Store

    def __post_init__(self) -> None:
        self._texts, self._seeds = self.store.texts, count()
        for number in range(KEYS):
            self.search(Asked("hello", corpus.session(number)))

    def search(self, asked: Asked, everywhere: bool = False, **how: Any) -> Any:
        return self.bank.search(asked.text, key=None if everywhere else asked.session, top_n=TOP, **how)

    def fresh(self, shape: Blocks, rare: bool = False) -> list[Asked]:
        wanted, seed = (shape.rounds + 1) * shape.block, f"banks {next(self._seeds)}"
        return corpus.queries(self._texts, wanted, sessions=KEYS, rare=rare, seed=seed)

    def beside(self, bare: BareSearch, shape: Blocks, rare: bool) -> Row:
        asked = self.fresh(shape, rare)
        ready = iter([bare_search.in_session(one) for one in asked])
        mine = iter(asked)
        ours, limit = alternate(shape, lambda: self.search(next(mine)), lambda: bare.search(next(ready)))
        what = f"search under a key of {PER_SESSION:,}, {'rare' if rare else 'common'} words"
        return _beside(what, ours, limit, SEARCH_LIMIT)

    def filtered(self, shape: Blocks, everywhere: bool) -> Row:
        narrow, wide = iter(self.fresh(shape)), iter(self.fresh(shape))
        self._met(next(iter(self.fresh(shape))), everywhere)  # builds the columns
        ours, limit = alternate(
            shape, lambda: self._met(next(narrow), everywhere), lambda: self.search(next(wide), everywhere)
        )
        what = f"filtered by 1 of {TOPICS}: {'all keys' if everywhere else 'one key'}"
        return _beside(what, ours, limit, FILTERED_LIMIT, "unfiltered")

    def _met(self, asked: Asked, everywhere: bool) -> None:
        """Check that the number of hits is as requested and that all match the filter."""
        matches = self.search(asked, everywhere, filter=FILTER).matches
        assert len(matches) == TOP
        assert all(one.metadata["topic"] == FILTER["topic"] for one in matches)


def _beside(what: str, ours: Timings, limit: Timings, most: float, note: str = "") -> Row:
    shown = f"{spread(limit)} ({note})" if note else spread(limit)
    return at_most(what, spread(ours), shown, median_ratio(ours.blocks, limit.blocks), most)
