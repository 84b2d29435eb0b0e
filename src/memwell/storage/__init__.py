"""Storage: the port, named SQL, and the engines. `open_store` opens the store that the configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import Unsupported

if TYPE_CHECKING:
    from ..config import Config
    from .postgres import PostgresStore
    from .sqlite import SqliteStore


def open_store(config: Config, clock: Callable[[], int]) -> SqliteStore | PostgresStore:
    """Open the store, and create it if it is new."""
    if config.on_postgres:
        try:
            from .postgres import PostgresStore
        except ImportError as error:
            raise Unsupported("PostgreSQL needs some packages: `pip install 'memwell[postgres]'`.") from error
        return PostgresStore(config.home, clock=clock, connections=config.connections)
    from .sqlite import SqliteStore

    durability, open_tenants = config.durability, config.open_tenants
    return SqliteStore(config.home_path, clock=clock, durability=durability, open_tenants=open_tenants)
