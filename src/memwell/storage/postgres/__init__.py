"""The engine on a server: PostgreSQL with pgvector, one database for all tenants."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
