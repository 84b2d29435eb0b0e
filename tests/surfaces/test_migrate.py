"""`memwell migrate`: what an older version left is brought up to date, on purpose."""

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
from memwell.storage.sqlite.connect import newest
from memwell.surfaces.cli.main import app

from ..engines import Memory
from ..storage.databases import database, older_database
from ..test_upgrade import older_file

CONTENTS = ["Ships to the EU only", "Closes at six on Fridays"]


def run(home: str, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", home, "migrate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def older(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """Where an older version has written something."""
    if engine_name == "sqlite":
        older_file(tmp_path, CONTENTS)
        yield str(tmp_path)
    else:
        with database() as dsn:
            older_database(dsn, CONTENTS)
            yield dsn


def version(home: str) -> int:
    if "://" in home:
        with psycopg.connect(home, autocommit=True) as db:
            return migrate.version(db)
    with closing(apsw.Connection(f"{home}/tenants/default.db")) as db:
        return int(db.pragma("user_version"))


def test_it_brings_an_older_home_up_to_date(older: str) -> None:
    assert version(older) == 1
    code, out, _ = run(older)
    assert (code, "is up to date: 1 tenant." in " ".join(out.split())) == (0, True)
    assert version(older) == newest("sqlite") == migrate.newest()
    with Memory(older, worker=False) as memory:
        assert [found.content for found in memory.flow("support").memories()] == CONTENTS


def test_it_may_be_run_again_and_tells_machines_too(older: str) -> None:
    for _ in range(2):
        code, out, _ = run(older, "--json")
        assert (code, msgspec.json.decode(out)) == (0, {"tenants": 1})


def test_a_password_is_not_repeated(older: str) -> None:
    out = run(older)[1]
    if "://" in older:
        assert str(psycopg.conninfo.conninfo_to_dict(older)["password"]) not in out


def test_distributing_what_cannot_be_says_why(engine_name: str, older: str) -> None:
    if engine_name == "citus":
        pytest.skip("there it can be")
    code, out, err = run(older, "--citus")
    assert (code != 0, out) == (True, "")
    assert err.count("\n") == 1
    assert ("--home postgresql://" if engine_name == "sqlite" else "CREATE EXTENSION citus") in err
