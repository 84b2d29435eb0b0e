"""The footprint of Memwell: time to import, memory, disk space."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter

from memwell import Memory

from .processes import python
from .sizes import Sizes
from .table import Row, duration, verdict
from .texts import FLOW, TURN

IMPORT_LIMIT_S = 0.25
BATCH = 500

_RESIDENT = """
import sys
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
bare = resident()
import memwell
imported = resident()
with memwell.Memory(sys.argv[1]) as memory:
    history = memory.flow("bench").session("alice").history
    for _ in range(1000):
        history.append(role="user", content=sys.argv[2])
    print(bare, imported, resident())
"""


def import_time(folder: Path, sizes: Sizes) -> Row:
    """A fresh interpreter that imports Memwell, compared with one that imports nothing."""
    _started(folder, "import memwell")  # compiles everything
    rounds = [(_started(folder, "import memwell"), _started(folder, "pass")) for _ in range(sizes.imports)]
    ours, bare = (median(column) for column in zip(*rounds, strict=True))
    texts = duration(ours), f"{duration(bare)} (bare interpreter)", f"{ours / bare:.2f} x"
    return Row("import memwell", *texts, f"<= {IMPORT_LIMIT_S:g} s", verdict(ours <= IMPORT_LIMIT_S))


def resident(folder: Path) -> list[Row]:
    """The resident memory of a process that uses Memwell. Linux only."""
    if not Path("/proc/self/status").exists():
        return []
    _started(folder, "import memwell")
    bare, imported, used = map(int, python(folder, "-c", _RESIDENT, str(folder / "resident"), TURN).split())
    limit = f"{_megabytes(bare)} (bare interpreter)"
    return [
        Row("resident memory after import", _megabytes(imported), limit),
        Row("resident memory after 1,000 appends", _megabytes(used), limit),
    ]


def disk(folder: Path, sizes: Sizes) -> Row:
    """Bytes on disk per turn, including indexes, events and free pages."""
    home = folder / "disk"
    with Memory(home) as memory:
        for number in range(sizes.disk_turns // BATCH):
            history = memory.flow(FLOW).session(f"session-{number % 10}").history
            history.extend([{"role": "user", "content": TURN}] * BATCH)
    size = sum(file.stat().st_size for file in (home / "tenants").iterdir())
    what = f"disk per turn, {sizes.disk_turns:,} turns"
    return Row(what, f"{size / sizes.disk_turns:.0f} bytes", f"{len(TURN)} bytes (its text)")


def _started(folder: Path, code: str) -> float:
    started = perf_counter()
    python(folder, "-c", code)
    return perf_counter() - started


def _megabytes(kilobytes: int) -> str:
    return f"{kilobytes / 1024:.1f} MB"
