"""Screening: secrets and planted instructions that must not become facts unseen."""
