"""Which store a home names: a directory, or the address of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import Unsupported
from .sqlite import SqliteStore

if TYPE_CHECKING:
    from ..config import Config
    from .postgres import PostgresStore


def open_store(config: Config, clock: Callable[[], int], vfs: str | None = None) -> SqliteStore | PostgresStore:
    """Open the store, making what is new."""
    if config.on_postgres:
        return _postgres(config, clock)
    return SqliteStore(
        config.home_path, clock=clock, durability=config.durability, open_tenants=config.open_tenants, vfs=vfs
    )


def _postgres(config: Config, clock: Callable[[], int]) -> PostgresStore:
    try:
        from .postgres import PostgresStore
    except ImportError as error:
        raise Unsupported("PostgreSQL needs some packages: `pip install 'memwell[postgres]'`.") from error
    return PostgresStore(config.home, clock=clock, connections=config.connections)
