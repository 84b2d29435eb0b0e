"""Summarise older entries of a bank, by rules or by a language model."""
