"""The parts of a summary: what was told, what of it can stand alone, and how much that matters."""
