"""The storage layer: its contract, its walls, and what it survives."""
