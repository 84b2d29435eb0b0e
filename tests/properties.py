"""How many examples a property is tried on: some thousands in every run, all of them when chaos looks further.

In every run they are the same ones; to try more of the same says little about a change.
"""

from __future__ import annotations

from hypothesis import settings


def examples(every_run: int, chaos: int) -> int:
    return every_run if settings().derandomize else chaos
