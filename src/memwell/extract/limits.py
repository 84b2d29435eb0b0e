"""How much a file may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take, and give."""

    wall_s: float = 1.7  # which makes two seconds with the start of the process
    cpu_s: float = 2.0  # in whole seconds: a part of one counts as one
    memory: int = 256 * 2**20  # bytes of address space, hence of memory
    characters: int = 2_000_000  # of text; the rest is left out
    unpacked: int = 100_000_000  # bytes
    start_s: float = 20.0  # for the process to start, on a machine that is busy; it has no file yet
