"""Moving tenants between a directory and a database: all of it, provably, whatever happens on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Conflict, NotFound, Unavailable
from memwell.clock import SystemClock
from memwell.config import load
from memwell.errors import StorageError
from memwell.storage import copier, open_store
from memwell.storage.copier import CopyableStore, Table, move_keys, move_tenant, read_contents
from memwell.storage.port import Tx
from memwell.surfaces.cli.main import app

from ..conformance.scene import run_python
from ..engines import DATABASES, TEMPLATE, Memory

pytestmark = pytest.mark.engines()

ENTRIES = 3000
WAYS = ["to a database", "to a directory"]


class Homes:
    """A store that is full, and one that is empty, of either kind."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def stores(self) -> tuple[CopyableStore, CopyableStore]:
        first, second = (open_store(load(home=home), SystemClock().now) for home in (self.source, self.target))
        return first, second


@pytest.fixture(params=WAYS)
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Homes]:
    database = DATABASES.server.database(TEMPLATE)
    pair = (str(tmp_path / "home"), database)
    yield Homes(*(pair if request.param == WAYS[0] else reversed(pair)))
    DATABASES.server.drop(database)


def fill(home: str, entries: int = 200) -> None:
    """Something of everything that is kept."""
    with Memory(home, worker=False) as memory:
        lines: list[dict[str, Any]] = [
            {"type": "memory", "session": f"s{n % 7}", "content": f"number {n}: it's a \\ “fact” 中文 {n % 13}"}
            for n in range(entries)
        ]
        memory.flow("f").import_lines(lines)
        session = memory.flow("f").session("talk")
        session.history.append(role="user", content="Where do parrots live? " * 300, name="Ann", key="once")
        session.history.append(role="assistant", content="In the forest.", metadata={"a": [1, 2.5, None, "x"]})
        changed = memory.flow("f").write("a parrot")
        memory.flow("f").update(changed, content="two parrots")
        memory.flow("f").delete_memory(memory.flow("f").write("nothing"))
        memory.user("alice").add("I am vegetarian and moved to Porto.")
        memory.app("shop").session("s1").files.upload("Parrots eat 中文 seeds.".encode() + b"\x0d\x0a", "seeds.txt")
        memory.user("bob").add("gone soon")
        memory.user("bob").forget()
        assert memory.flow("f").search("parrot", include=["turns"]).method == "words+meaning"


def answers(home: str) -> Any:
    with Memory(home, worker=False) as memory:
        found = [
            memory.flow("f").search(query, limit=20, include=["turns"]) for query in ("parrots", "number 12", "中文")
        ]
        session = memory.app("shop").session("s1")
        found.append(session.search("seeds"))
        return (
            [(file.filename, session.files.read(file.file_id)) for file in session.files.list()],
            [[(hit.id, hit.score) for hit in hits] for hits in found],
            [turn.content for turn in memory.flow("f").session("talk").history.all()],
            [fact.content for fact in memory.flow("f").memories()],
            [turn.content for turn in memory.user("alice").history()],
            memory.call("events.list", {}).events,
            memory.jobs.list(),
        )


def test_a_moved_tenant_is_identical(homes: Homes) -> None:
    fill(homes.source)
    before = answers(homes.source)
    source, target = homes.stores()
    with pytest.raises(NotFound):
        target.read("default", read_contents)
    moved = move_tenant(source, target, "default")
    assert moved.rows["entry"] > 200
    assert source.read("default", read_contents) == target.read("default", read_contents) == moved
    source.close()
    target.close()
    assert answers(homes.target) == before == answers(homes.source)
    for home in (homes.source, homes.target):  # and both go on from there
        with Memory(home, worker=False) as memory:
            turn = memory.flow("f").session("talk").history.append(role="user", content="one more")
            assert turn.seq == 3
            again = (
                memory.flow("f")
                .session("talk")
                .history.append(role="user", content="Where do parrots live? " * 300, name="Ann", key="once")
            )
            assert again.seq == 1, "answers to old requests came along"
            assert memory.flow("f").search("one more", include=["turns"])[0].content == "one more"


def test_keys_work_where_they_were_moved_to(homes: Homes) -> None:
    with Memory(homes.source, worker=False) as memory:
        memory.user("alice").add("hello")
        secret = memory.keys.create("bot", "agent").secret
    source, target = homes.stores()
    move_tenant(source, target, "default")
    assert move_keys(source, target, "default") == 1
    from memwell.core.access import Authenticator

    assert Authenticator(target.control, SystemClock()).admit(secret).tenant == "default"
    source.close()
    target.close()


def test_keys_stay_behind_where_others_would_become_useless(homes: Homes) -> None:
    for home, tenant in ((homes.source, "default"), (homes.target, "other")):
        with Memory(home, tenant=tenant, worker=False) as memory:
            memory.user("alice").add("hello")
            memory.keys.create("bot", "agent")
    source, target = homes.stores()
    move_tenant(source, target, "default")
    assert move_keys(source, target, "default") is None
    assert len(target.control.rows("page_keys", tenant="other")) == 1
    source.close()
    target.close()


def test_a_tenant_that_is_there_already_is_left_alone(homes: Homes) -> None:
    for home in (homes.source, homes.target):
        with Memory(home, worker=False) as memory:
            memory.user("alice").add(f"in {home[:5]}")
    source, target = homes.stores()
    before = target.read("default", read_contents)
    with pytest.raises(Conflict, match="already"):
        move_tenant(source, target, "default")
    assert target.read("default", read_contents) == before
    source.close()
    target.close()


class Broken(Exception):
    """What these tests raise in the middle of a move."""


def break_at(number: int) -> Callable[[str, int], None]:
    pages = iter(range(number))

    def progress(table: str, rows: int) -> None:
        if next(pages, None) is None:
            raise Broken(table)

    return progress


@pytest.mark.parametrize("number", [0, 1, 3, 6, 9])
def test_a_move_that_was_cut_off_goes_on_where_it_was(homes: Homes, number: int) -> None:
    fill(homes.source)
    source, target = homes.stores()
    with pytest.raises(Broken):
        move_tenant(source, target, "default", break_at(number))
    with pytest.raises(NotFound):
        target.read("default", read_contents)
    arrived: list[int] = []
    moved = move_tenant(source, target, "default", lambda table, rows: arrived.append(rows))
    assert sum(arrived) < sum(moved.rows.values()), "what was there already was not sent again"
    assert target.read("default", read_contents) == moved
    source.close()
    target.close()


def test_what_changed_after_a_move_was_cut_off_is_noticed(homes: Homes) -> None:
    fill(homes.source)
    source, target = homes.stores()
    with pytest.raises(Broken):
        move_tenant(source, target, "default", break_at(5))
    with Memory(homes.source, worker=False) as memory:
        memory.flow("f").delete_memory(next(iter(memory.flow("f").memories())).id)
        memory.flow("f").session("talk").history.append(role="user", content="something else")
    moved = move_tenant(source, target, "default")
    assert target.read("default", read_contents) == moved == source.read("default", read_contents)
    source.close()
    target.close()


def test_a_tenant_that_arrives_damaged_is_refused(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(homes.source)
    source, target = homes.stores()
    write_page = copier._write_page

    def forgetful(tx: Tx, table: Table, rows: Any, indexed: Any) -> None:
        write_page(tx, table, rows[:-1] if table.name == "event" else rows, indexed)

    monkeypatch.setattr(copier, "_write_page", forgetful)
    with pytest.raises(StorageError, match="differs from its source"):
        move_tenant(source, target, "default")
    with pytest.raises(NotFound):
        target.read("default", read_contents)
    source.close()
    target.close()


def test_the_source_can_be_read_while_it_is_moved(homes: Homes) -> None:
    fill(homes.source)
    source, target = homes.stores()
    read: list[int] = []

    def progress(table: str, rows: int) -> None:
        if table == "entry" and not read:
            with Memory(homes.source, worker=False) as memory:
                read.append(len(memory.flow("f").session("talk").history.last(5)))

    move_tenant(source, target, "default", progress)
    assert read == [2]
    source.close()
    target.close()


KILLED = """
import os, signal, sys
from memwell.clock import SystemClock
from memwell.config import load
from memwell.storage import open_store
from memwell.storage.copier import move_tenant

pages = int(sys.argv[3])

def progress(table, rows):
    global pages
    pages -= 1
    if not pages:
        os.kill(os.getpid(), signal.SIGKILL)

source, target = (open_store(load(home=home), SystemClock().now) for home in sys.argv[1:3])
move_tenant(source, target, "default", progress)
"""


def test_a_move_that_was_killed_is_resumed(homes: Homes) -> None:
    """kill -9 in the middle of it; then the command is simply given again."""
    fill(homes.source, ENTRIES)
    for pages in (3, 12):
        run_python(KILLED, homes.source, homes.target, pages, code_expected=-9)
    command = [sys.executable, "-m", "memwell", "move", homes.source, homes.target, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    source, target = homes.stores()
    assert source.read("default", read_contents) == target.read("default", read_contents)
    assert [result["tenant"] for result in msgspec.json.decode(done.stdout)] == ["default"]
    source.close()
    target.close()


def test_the_command_moves_all_tenants_or_one(homes: Homes) -> None:
    for tenant in ("alpha", "beta", "gamma"):
        with Memory(homes.source, tenant=tenant, worker=False) as memory:
            memory.user("alice").add(f"I am of {tenant}")
    run = CliRunner()
    one = run.invoke(app, ["move", homes.source, homes.target, "--tenant", "beta"])
    assert one.exit_code == 0, one.output
    assert "beta: 1 entries" in one.stdout
    assert "both sides are equal" in one.stdout
    twice = run.invoke(app, ["move", homes.source, homes.target, "--tenant", "beta"])
    assert (twice.exit_code, "already" in twice.stderr) == (5, True)
    rest = run.invoke(app, ["move", homes.source, homes.target, "--json"])
    assert sorted(result["tenant"] for result in msgspec.json.decode(rest.stdout)) == ["alpha", "gamma"]
    assert "Everything was moved already." in run.invoke(app, ["move", homes.source, homes.target]).stdout
    missing = run.invoke(app, ["move", homes.source, homes.target, "--tenant", "delta"])
    assert (missing.exit_code != 0, "no tenant delta" in missing.stderr) == (True, True)
    same = run.invoke(app, ["move", homes.source, homes.source])
    assert (same.exit_code, "the same" in same.stderr) == (2, True)
    with Memory(homes.target, tenant="gamma", worker=False) as memory:
        assert memory.user("alice").history()[0].content == "I am of gamma"


def test_a_writer_waits_while_its_tenant_is_moved(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told to try again when that takes too long; what was acknowledged before the move is in it."""
    from memwell.storage.postgres import connect as postgres
    from memwell.storage.sqlite import connect as sqlite

    monkeypatch.setattr(sqlite, "BUSY_MS", 200)
    monkeypatch.setattr(postgres, "OPTIONS", "-c lock_timeout=200ms")
    fill(homes.source)
    source, target = homes.stores()
    refused: list[Exception] = []

    def progress(table: str, rows: int) -> None:
        if table == "entry":
            with Memory(homes.source, worker=False) as memory:
                try:
                    memory.user("carol").add("too late")
                except Unavailable as error:
                    refused.append(error)

    moved = move_tenant(source, target, "default", progress)
    assert refused
    assert target.read("default", read_contents) == source.read("default", read_contents) == moved
    source.close()
    target.close()
