"""Workflows: trees of steps that write, search and load memory, and ask models."""
