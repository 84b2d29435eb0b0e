"""G2, power loss: whatever was acknowledged is there, however the unsynced writes were dropped or torn.

A store works on a disk that records every write and sync. Then the power is cut at many moments of that record, each
time with another fate of what was not synced, and what is left is opened again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from memwell.storage.sqlite import SqliteStore
from memwell.storage.sqlite.connect import Durability

from ..conformance.disks import Op, RecordingDisk, cut_power, recording_disk
from ..conformance.scene import TENANT, FrozenClock, at_once, contents, heard, note, say
from ..conftest import CHAOS

pytestmark = pytest.mark.engines("sqlite")

CLOCK = FrozenClock()


class Said(NamedTuple):
    """Something was said in a session, and acknowledged."""

    session: str
    content: str


class Created(NamedTuple):
    tenant: str


class Forgotten(NamedTuple):
    """A session's entry was deleted, and that was acknowledged."""

    content: str


class Scene:
    """A store on a recording disk, and what it has acknowledged."""

    def __init__(self, home: Path, disk: RecordingDisk, durability: Durability) -> None:
        self.home, self.disk, self._durability = home, disk, durability
        self.store = self._open()
        self.store.create(TENANT)
        disk.note(Created(TENANT))

    def say(self, session: str, content: str) -> None:
        say(self.store, CLOCK, content, path=session)
        self.disk.note(Said(session, content))

    def forget(self, content: str) -> None:
        (entry,) = say(self.store, CLOCK, content, path="forgotten")
        self.store.write(TENANT, lambda tx: tx.run("delete_entry", id=entry.id))
        self.disk.note(Forgotten(content))

    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()

    def _open(self) -> SqliteStore:
        return SqliteStore(self.home, clock=CLOCK.now, durability=self._durability, vfs="memwell-test-recording")


def nobody(scene: Scene) -> None:
    """The directory and its first tenant are made, and that is all."""


def one_writer(scene: Scene) -> None:
    """Small and large texts, deletions, emptied logs, hints, closing and opening, checkpoints on the way."""
    for n in range(60):
        scene.say("s", f"{n} " + "word " * (20_000 if n % 9 == 4 else 20))
        if n % 10 == 3:
            scene.forget(f"forget {n} " + "word " * 2000)
        if n % 15 == 6:
            scene.store.scrub(TENANT)
        if n % 20 == 11:
            scene.reopen()
        if n % 6 == 5:
            scene.store.write(TENANT, lambda tx: tx.wake(1))


def many_writers(scene: Scene) -> None:
    """Writers that share commits."""

    def write(writer: int) -> None:
        for n in range(12):
            scene.say(f"s{writer}", f"{writer}/{n} " + "word " * (writer * 4000))

    at_once(write, range(8), threads=8)


@pytest.mark.long
@pytest.mark.parametrize(("work", "rounds"), [(one_writer, 300), (many_writers, 120)])
def test_acknowledged_writes_survive_power_loss(tmp_path: Path, work: Callable[[Scene], None], rounds: int) -> None:
    ops = record(tmp_path / "home", work, "full")
    for seed in range(rounds):
        chance = Random(seed)
        moment = some_moment(ops, chance)
        assert lost_at(moment, ops, tmp_path, chance) == [], f"seed {seed}, moment {moment}"


@pytest.mark.long
def test_a_directory_that_was_being_made_when_the_power_went_can_be_opened(tmp_path: Path, rounds: int) -> None:
    ops = record(tmp_path / "home", nobody, "full")
    often, once = (20, 2) if rounds >= CHAOS else (10, 1)
    for moment in range(len(ops) + 1):
        for seed in range(often if moment < 12 else once):  # SQLite makes a file under a journal, before there is a log
            assert lost_at(moment, ops, tmp_path, Random(f"{moment}, {seed}")) == [], f"seed {seed}, moment {moment}"


def test_relaxed_durability_may_lose_the_last_writes_but_never_the_file(tmp_path: Path) -> None:
    """And so this trial can fail: without a sync before the acknowledgement it finds what was lost."""
    ops = record(tmp_path / "home", one_writer, "relaxed")
    rounds = [Random(seed) for seed in range(40)]
    lost = [lost_at(some_moment(ops, chance), ops, tmp_path, chance) for chance in rounds]
    assert any(lost)


def record(home: Path, work: Callable[[Scene], None], durability: Durability) -> list[Op]:
    with recording_disk() as disk:
        scene = Scene(home, disk, durability)
        work(scene)
        scene.store.close()
        return disk.ops


def some_moment(ops: list[Op], chance: Random) -> int:
    """Any moment, or one right after something was acknowledged."""
    if chance.random() < 0.5:
        return chance.randrange(len(ops) + 1)
    return chance.choice([n + 1 for n, op in enumerate(ops) if op.kind == "note"])


def lost_at(moment: int, ops: list[Op], folder: Path, chance: Random) -> list[NamedTuple]:
    """Cut the power at a moment and say what is missing of all that had been acknowledged by then."""
    before = ops[:moment]
    home = folder / "after"
    (home / "tenants").mkdir(parents=True)
    cut_power(before, folder / "home", home, chance)
    store = SqliteStore(home, clock=CLOCK.now, durability="relaxed")  # looking needs no syncs
    try:
        return missing(store, [op.data for op in before if op.kind == "note"])
    finally:
        store.close()
        shutil.rmtree(home)


def missing(store: SqliteStore, acknowledged: list[NamedTuple]) -> list[NamedTuple]:
    made = store.create(TENANT)
    lost: list[NamedTuple] = [known for known in acknowledged if isinstance(known, Created) and made]
    assert store.check(TENANT) == []
    sessions = {known.session for known in acknowledged if isinstance(known, Said)} | {"forgotten"}
    found = {(session, text) for session in sessions for text in contents(store, CLOCK, path=session)}
    lost += [known for known in acknowledged if isinstance(known, Said) and known not in found]
    lost += [known for known in acknowledged if isinstance(known, Forgotten) and ("forgotten", known.content) in found]
    for session in sessions - {"forgotten"}:
        assert [entry.seq for entry in heard(store, CLOCK, path=session)] == list(
            range(1, 1 + sum(where == session for where, _ in found))
        )
    store.write(TENANT, note)  # it goes on
    return lost
