"""`python -m bench [--quick] [--million] [--only PART]`: measure, and print one table.

A missed target is marked; it never fails a build. Search is measured in a store of 100,000 facts, with `--quick` of 5,000;
`--million` measures it in 1,000,000 as well, which takes many minutes and some gigabytes of memory.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from . import (
    appends,
    attacks,
    backup,
    banks,
    distill,
    expressions,
    faults,
    files,
    footprint,
    http,
    postgres,
    reads,
    records,
    search,
    sentences,
)
from .sizes import FULL, QUICK, Sizes
from .table import Row, render

Part = Callable[[Path, Sizes], list[Row]]

PARTS: dict[str, Part] = {
    "single appends": lambda folder, sizes: [appends.single(folder, sizes)],
    "appends at once": lambda folder, sizes: [appends.grouped(folder, sizes)],
    "reading": lambda folder, sizes: [reads.last(folder, sizes)],
    "HTTP": http.rows,
    "attacks": attacks.rows,
    "import": lambda folder, sizes: [footprint.import_time(folder, sizes)],
    "memory": lambda folder, _: footprint.resident(folder),
    "disk": lambda folder, sizes: [footprint.disk(folder, sizes)],
    "search": search.rows,
    "sentence model": sentences.rows,
    "banks": banks.rows,
    "records": records.rows,
    "backup": backup.rows,
    "expressions": expressions.rows,
    "files": files.rows,
    "consolidation": distill.rows,
    "failing models": faults.rows,
    "PostgreSQL": postgres.rows,
}

MILLION = "search in 1,000,000"

_NOTE = "Ours and bare alternate in small blocks; figures are medians, ratios are medians of the ratio of each round."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a look: about a minute")
    parser.add_argument("--million", action="store_true", help="search in a store of 1,000,000 as well")
    parser.add_argument("--only", choices=sorted(PARTS), help="measure this part alone")
    given = parser.parse_args()
    sizes = QUICK if given.quick else FULL
    parts = {given.only: PARTS[given.only]} if given.only else dict(PARTS)
    if given.million:
        parts[MILLION] = lambda folder, sizes: search.rows(folder, replace(sizes, entries=1_000_000))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended and directories removed
    _forget_settings()
    load = os.getloadavg()[0]
    rows = [row for name, part in parts.items() for row in _measured(name, part, sizes)]
    print(_machine(load), render(rows), _NOTE, sep="\n\n")


def _measured(name: str, part: Part, sizes: Sizes) -> list[Row]:
    started = time.monotonic()
    print(f"measuring {name} ... ", end="", file=sys.stderr, flush=True)
    with TemporaryDirectory(prefix="memwell-bench-") as folder:
        rows = part(Path(folder), sizes)
    print(f"{time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    return rows


def _machine(load: float) -> str:
    """The machine, and its load from other work."""
    processors = os.cpu_count() or 1
    busy = f"\nBUSY before it began (load {load:.1f}): measure again when it is quiet." if load > processors / 2 else ""
    versions = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    return f"Memwell on {platform.machine()}, {processors} processors, {versions}, durability full{busy}"


def _forget_settings() -> None:
    """Measure the defaults, whatever the caller's environment says; but search by the light model, which the bare limits use."""
    for name in [name for name in os.environ if name.startswith("MEMWELL_")]:
        del os.environ[name]
    os.environ["MEMWELL_EMBEDDER"] = "wordllama"


if __name__ == "__main__":
    main()
