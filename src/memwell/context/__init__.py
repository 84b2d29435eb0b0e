"""Memory for prompts: recent turns, facts and records within a budget, templates, and prompt hooks."""
