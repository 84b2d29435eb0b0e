"""Timelines: turns, sessions, users, flows and the agent log."""
