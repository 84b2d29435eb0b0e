"""The amounts to measure: enough for reliable figures, or just enough to test the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from .measure import Blocks


@dataclass(frozen=True, slots=True)
class Sizes:
    """Blocks alternate with their bare limit, so that a noisy neighbour hits both."""

    appends: Blocks
    group_rounds: int
    group_s: float
    stored_turns: int
    reads: Blocks
    http: Blocks
    sustained_s: float
    imports: int
    disk_turns: int
    entries: int
    scoped: Blocks
    whole: Blocks
    opens: int
    recalled: int
    writing_s: float
    attacks: int
    attack_s: float


FULL = Sizes(
    appends=Blocks(80, 50, longest_s=20.0),
    group_rounds=9,
    group_s=1.2,
    stored_turns=1_000_000,
    reads=Blocks(100, 50, longest_s=20.0),
    http=Blocks(250, 12, longest_s=20.0),
    sustained_s=5.0,
    imports=7,
    disk_turns=100_000,
    entries=100_000,
    scoped=Blocks(30, 20, longest_s=15.0),
    whole=Blocks(20, 10, longest_s=15.0),
    opens=5,
    recalled=50,
    writing_s=5.0,
    attacks=3,
    attack_s=4.0,
)

QUICK = Sizes(
    appends=Blocks(30, 25, longest_s=3.0),
    group_rounds=5,
    group_s=0.6,
    stored_turns=100_000,
    reads=Blocks(40, 25, longest_s=3.0),
    http=Blocks(60, 10, longest_s=3.0),
    sustained_s=2.0,
    imports=5,
    disk_turns=10_000,
    entries=5_000,
    scoped=Blocks(8, 10, longest_s=3.0),
    whole=Blocks(8, 10, longest_s=3.0),
    opens=2,
    recalled=50,
    writing_s=1.0,
    attacks=2,
    attack_s=1.5,
)

SESSIONS = 100
APPENDERS = 32
LAST = 20
