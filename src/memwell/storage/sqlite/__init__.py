"""The embedded engine: a directory, one SQLite file per tenant, no server."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
