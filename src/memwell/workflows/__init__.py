"""Workflows: documents, steps, runs."""
