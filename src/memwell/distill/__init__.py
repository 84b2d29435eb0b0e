"""From what was said to what is known: extraction, reconciliation, and plans that can be looked at and undone."""
