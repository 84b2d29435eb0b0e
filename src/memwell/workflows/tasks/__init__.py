"""Workflows of tasks: definitions, blocks and agents."""
