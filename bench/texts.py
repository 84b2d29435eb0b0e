"""The texts of the measurements: turns of twenty words, about 130 characters."""

from __future__ import annotations

TURN = (
    "I would rather have the window seat on the early train to Porto, and please remember "
    "that I cannot eat anything containing nuts."
)
FLOW = "bench"
