"""How much is measured: enough to be believed, or just enough to see that nothing fell over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Blocks alternate with their bare limit, so that a noisy neighbour hits both."""

    append_rounds: int
    append_block: int
    group_rounds: int
    group_s: float
    stored_turns: int
    read_rounds: int
    read_block: int
    http_rounds: int
    http_block: int
    sustained_s: float
    imports: int
    disk_turns: int


FULL = Sizes(
    append_rounds=80,
    append_block=50,
    group_rounds=9,
    group_s=1.2,
    stored_turns=1_000_000,
    read_rounds=100,
    read_block=50,
    http_rounds=250,
    http_block=12,
    sustained_s=5.0,
    imports=7,
    disk_turns=100_000,
)

QUICK = Sizes(
    append_rounds=30,
    append_block=25,
    group_rounds=5,
    group_s=0.6,
    stored_turns=100_000,
    read_rounds=40,
    read_block=25,
    http_rounds=60,
    http_block=10,
    sustained_s=2.0,
    imports=5,
    disk_turns=10_000,
)

SESSIONS = 100
APPENDERS = 32
LAST = 20
