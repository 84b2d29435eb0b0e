"""Backups: the time to make and verify one, compared with copying the file, and the effect on concurrent writers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from memwell import Memory
from memwell.backup import back_up, restore

from .measure import Blocks, alternate, median_ratio
from .sizes import Sizes
from .store import Store, build
from .table import Row, duration

ROUNDS = Blocks(5, 1, longest_s=30.0)
SPELLS = 3
OVER_AND_OVER = """
import sys
from memwell.backup import back_up
while True:
    back_up(sys.argv[1], sys.argv[2], keep=1)
"""


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    store = build(folder / "home", sizes.entries)
    return [*_made(folder, store), _restored(folder, store), _while_made(folder, store, sizes.writing_s)]


def _made(folder: Path, store: Store) -> list[Row]:
    file = store.home / "tenants" / "default.db"
    sides = lambda: back_up(store.home, folder / "backups", keep=1), lambda: _copy(file, folder / "copy.db")
    ours, bare = alternate(ROUNDS, *sides)
    size = store.bytes / 1e6
    what = f"backup of {len(store.facts):,} entries ({size:,.0f} MB), checked"
    ratio = median_ratio(ours.blocks, bare.blocks)
    return [Row(what, _speed(size, ours.median), f"{_speed(size, bare.median)} (copy)", f"{ratio:.1f} x the time")]


def _restored(folder: Path, store: Store) -> Row:
    made = back_up(store.home, folder / "backups", keep=1)
    started = time.perf_counter()
    restore(made.path, folder / "restored")
    took = time.perf_counter() - started
    return Row("  its restore, checked", f"{_speed(store.bytes / 1e6, took)}, {duration(took)}")


def _while_made(folder: Path, store: Store, spell_s: float) -> Row:
    """The median of single appends with and without a backup in progress."""
    quiet: list[float] = []
    busy: list[float] = []
    with Memory(store.home, worker=False) as memory:
        for _ in range(SPELLS):
            quiet.append(_appends(memory, spell_s))
            with _backups(store.home, folder / "meanwhile"):
                busy.append(_appends(memory, spell_s))
    ours, bare = median(busy), median(quiet)
    ratio = f"{median(a / b for a, b in zip(busy, quiet, strict=True)):.2f} x"
    return Row("append, p50, while backups are made", duration(ours), f"{duration(bare)} (quiet)", ratio)


def _appends(memory: Memory, spell_s: float) -> float:
    history = memory.flow("meanwhile").session("s").history
    took: list[float] = []
    until = time.perf_counter() + spell_s
    while (started := time.perf_counter()) < until:
        history.append(role="user", content="Something is said while a backup is made.")
        took.append(time.perf_counter() - started)
    return median(took)


@contextmanager
def _backups(home: Path, folder: Path) -> Iterator[None]:
    """Run another process that makes one backup after the other. Enter when the first one is complete."""
    shutil.rmtree(folder, ignore_errors=True)
    process = subprocess.Popen([sys.executable, "-c", OVER_AND_OVER, str(home), str(folder)])
    try:
        while not folder.exists():
            if process.poll() is not None:
                raise RuntimeError("the backups have ended")
            time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.wait()


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def _speed(size_mb: float, seconds: float) -> str:
    return f"{size_mb / seconds:,.0f} MB/s"
