"""Dialects: the words of each memory system, mapped to collections and addresses. A dialect is a list of operations."""
