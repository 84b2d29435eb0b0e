"""`memwell migrate`: the tables are made or brought up to date on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from memwell.storage.postgres import migrate
from memwell.storage.queries import newest
from memwell.surfaces.cli.main import app

from ..engines import Memory
from ..postgres.databases import database


def run(home: str, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", home, "migrate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def place(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """A place where nothing was written yet."""
    if engine_name == "sqlite":
        yield str(tmp_path)
    else:
        with database() as dsn:
            yield dsn


def version(home: str) -> int:
    if "://" in home:
        with psycopg.connect(home, autocommit=True) as db:
            return migrate.version(db)
    with closing(apsw.Connection(f"{home}/tenants/default.db")) as db:
        return int(db.pragma("user_version"))


def test_it_makes_the_tables_and_may_be_run_again(place: str) -> None:
    code, out, _ = run(place)
    assert (code, "is up to date: 0 tenants." in " ".join(out.split())) == (0, True)
    with Memory(place, worker=False) as memory:
        memory.flow("support").write("Ships to the EU only")
    for _ in range(2):
        code, out, _ = run(place, "--json")
        assert (code, msgspec.json.decode(out)) == (0, {"tenants": 1})
    assert version(place) == newest("sqlite") == newest("postgres")


def test_a_password_is_not_repeated(place: str) -> None:
    out = run(place)[1]
    if "://" in place:
        assert str(psycopg.conninfo.conninfo_to_dict(place)["password"]) not in out


def test_distributing_what_cannot_be_says_why(engine_name: str, place: str) -> None:
    if engine_name == "citus":
        pytest.skip("there it can be")
    code, out, err = run(place, "--citus")
    assert (code != 0, out) == (True, "")
    assert err.count("\n") == 1
    assert ("--home postgresql://" if engine_name == "sqlite" else "CREATE EXTENSION citus") in err
