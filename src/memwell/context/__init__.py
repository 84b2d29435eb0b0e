"""From what is stored to what a model reads: recent turns, facts and records within a budget, fenced."""
