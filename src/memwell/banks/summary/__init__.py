"""Summaries of older entries, by rules."""
