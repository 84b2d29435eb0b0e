"""Erasure and retention: delete data so that no byte of it stays."""
