"""Text: tokens, chunks, dates, hidden characters, fences, YAML."""
