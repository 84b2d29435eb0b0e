"""Forgotten bytes in the files of a PostgreSQL server: gone after the erasure, or named by its receipt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from memwell import Memory
from memwell.storage.postgres import PostgresStore, scrub
from memwell.surfaces.cli.main import app

from .databases import database, owner

CANARY = "quetzalcoatlus"
FILES = """
    SELECT c.relname, pg_read_binary_file(pg_relation_filepath(c.oid)) FROM pg_class c
    WHERE pg_relation_filepath(c.oid) IS NOT NULL AND pg_relation_size(c.oid) > 0
"""


@pytest.fixture
def place() -> Iterator[str]:
    with database("memwell") as dsn:
        yield dsn


def find_canary(place: str) -> list[str]:
    """The tables and indexes of a database whose files have the canary."""
    with psycopg.connect(place, autocommit=True) as db:
        db.execute("CHECKPOINT")
        return [name for name, data in db.execute(FILES, binary=True).fetchall() if CANARY.encode() in bytes(data)]


def fill(memory: Memory) -> None:
    for number in range(20):
        memory.user("alice").add(f"My pet {CANARY}{number} lives in Porto. " + f"{CANARY} " * 300 * (number % 2))


def test_forgotten_bytes_are_in_no_table_file(place: str) -> None:
    """No table, index or statistic of the planner has them after `forget`. The receipt says where else they are."""
    with Memory(place) as memory:
        fill(memory)
        memory.user("bob").add("I like tea.")
        with psycopg.connect(place, autocommit=True) as db:
            db.execute("ANALYZE")
        assert find_canary(place)
        receipt = memory.user("alice").forget()
        assert receipt.residual == 0
        assert find_canary(place) == []
        assert [one.place for one in receipt.remains] == [
            "write-ahead log",
            "replicas and archived logs",
            "backups of the server",
        ]
        assert [turn.content for turn in memory.user("bob").history()] == ["I like tea."]


def test_what_is_too_large_to_be_rewritten_at_once_is_named_until_doctor_rewrites_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "SMALL", 0)
    with Memory(place) as memory:
        fill(memory)
        receipt = memory.user("alice").forget()
    assert receipt.residual == 0
    assert find_canary(place)
    assert "free space in entry" in [one.place for one in receipt.remains]
    with closing(PostgresStore(place, clock=lambda: 0)) as store:
        pages = store.count_stale_pages("default")
    assert pages is not None
    assert pages[1] > 0
    monkeypatch.undo()
    result = CliRunner().invoke(app, ["--home", place, "doctor", "--erasure", "--json"])
    assert result.exit_code == 0, result.output
    first, *others = msgspec.json.decode(result.stdout)
    assert first["text"].startswith("rewritten; 0 of ")
    assert {one["subject"] for one in others} == {"remains"}
    assert find_canary(place) == []


def test_an_open_transaction_that_may_read_erased_rows_is_no_obstacle_but_named(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "SNAPSHOTS_S", 0.0)
    with closing(PostgresStore(place, clock=lambda: 0)) as store:
        with psycopg.connect(place) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            store.create("acme")
            assert store.scrub("acme", "small") is True
            assert "free space in entry" in [one.place for one in store.find_remains("acme")]
            assert store.scrub("acme", "always") is False
        assert store.scrub("acme", "always") is True
        assert "free space in entry" not in [one.place for one in store.find_remains("acme")]


def test_a_user_who_may_not_look_at_the_files_is_told(place: str) -> None:
    with database() as dsn, owner(dsn) as mine:
        with Memory(mine, worker=False) as memory:
            memory.user("alice").add("hi")
        result = CliRunner().invoke(app, ["--home", mine, "doctor", "--erasure", "--json"])
        assert result.exit_code == 0, result.output
        assert "pg_read_server_files" in msgspec.json.decode(result.stdout)[0]["text"]
