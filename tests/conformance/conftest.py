"""A store for every engine. The conformance tests see it only through the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memwell.storage.port import Store
from memwell.storage.postgres import PostgresStore
from memwell.storage.sqlite import SqliteStore

from ..engines import located
from .scene import TENANT, FrozenClock

OpenStore = Callable[[], Store]


def open_sqlite(home: Path, clock: FrozenClock) -> Store:
    return SqliteStore(home, clock=clock.now)


def open_postgres(home: Path, clock: FrozenClock) -> Store:
    return PostgresStore(located(home), clock=clock.now)


ENGINES: dict[str, Callable[[Path, FrozenClock], Store]] = {
    "sqlite": open_sqlite,
    "postgres": open_postgres,
    "citus": open_postgres,
}


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def open_store(engine_name: str, tmp_path: Path, clock: FrozenClock) -> Iterator[OpenStore]:
    """Opens the same data as often as one likes, as several processes would."""
    opened: list[Store] = []

    def open_again() -> Store:
        opened.append(ENGINES[engine_name](tmp_path / "home", clock))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    """A store with one tenant in it."""
    store = open_store()
    store.create(TENANT)
    return store


@pytest.fixture
def sqlite(tmp_path: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    """The embedded engine itself, for what only it can do."""
    store = SqliteStore(tmp_path / "home", clock=clock.now)
    store.create(TENANT)
    yield store
    store.close()
