"""A data directory that release 0.1.0 has written is read, searched, changed and erased by this version."""

from __future__ import annotations

import tarfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from memwell.backup import back_up, restore
from memwell.backup.manifest import _shape
from memwell.clock import to_micros
from memwell.core.access import Authenticator
from memwell.errors import KeyReused, Unavailable
from memwell.storage import queries
from memwell.storage.sqlite import SqliteStore, connect
from memwell.storage.sqlite.connect import CHECKSUM_BYTES, has_checksums, list_damage, open_reader
from memwell.storage.sqlite.file import upgrade

from ..engines import Memory
from ..fixtures.home import PNG

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "home-0.1.0.tar.gz"

pytestmark = pytest.mark.engines("sqlite")  # a data directory


class ShiftedClock:
    """A clock that starts on the day on which the directory was made, so that nothing in it has expired."""

    def __init__(self) -> None:
        self._start = to_micros(datetime(2026, 11, 19, tzinfo=UTC))
        self._began = time.monotonic()

    def now(self) -> int:
        return self._start + int((time.monotonic() - self._began) * 1_000_000)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "home", filter="data")
    return tmp_path / "home"


def open_memory(home: Path) -> Memory:
    return Memory(home, worker=False, clock=ShiftedClock())


def test_it_gets_the_schema_of_a_new_directory(home: Path, tmp_path: Path) -> None:
    """The baseline must not change: another schema takes another migration."""
    for folder, name in (("sqlite", "tenants/default.db"), ("control", "control.db")):
        with closing(apsw.Connection(str(home / name))) as found:
            assert found.pragma("user_version") == queries.migrations(folder)[0][0]
        for path in (home / name, tmp_path / f"{folder}.db"):
            upgrade(path, folder, "full", None)
        found, fresh = apsw.Connection(str(home / name)), apsw.Connection(str(tmp_path / f"{folder}.db"))
        assert _shape(found) == _shape(fresh)
        if folder == "sqlite":
            stat = "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2"
            assert found.execute(stat).fetchall() == fresh.execute(stat).fetchall()
        found.close()
        fresh.close()


def test_its_pages_get_checksums(home: Path) -> None:
    with open_memory(home) as memory:
        assert memory.user("alice").history()
    for path in (home / "control.db", home / "tenants" / "default.db"):
        with closing(open_reader(path, None)) as db:
            assert has_checksums(db)
        assert path.read_bytes()[20] == CHECKSUM_BYTES


def test_a_file_that_is_larger_than_the_cache_gets_checksums_too(home: Path) -> None:
    path = home / "tenants" / "default.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE more (x)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO more VALUES (RANDOMBLOB(?))", [(3000,)] * 3000)
        db.execute("COMMIT")
    upgrade(path, "sqlite", "full", None)
    with closing(open_reader(path, None)) as db:
        assert list_damage(db, 9) == []


def test_a_process_of_an_earlier_version_is_not_overtaken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would write pages without checksums."""
    monkeypatch.setattr(connect, "BUSY_MS", 50)
    path = home / "tenants" / "default.db"
    with closing(apsw.Connection(str(path))) as older:
        older.execute("SELECT COUNT(*) FROM entry").fetchall()
        with pytest.raises(Unavailable, match="stop the processes of the earlier version"):
            upgrade(path, "sqlite", "full", None)
    upgrade(path, "sqlite", "full", None)


def test_everything_is_read_back(home: Path) -> None:
    with open_memory(home) as memory:
        alice, flow, shop = memory.user("alice"), memory.flow("support"), memory.app("shop")
        assert [one.user for one in memory.users()] == ["alice"]
        assert [turn.content for turn in alice.history()] == [
            "I am vegetarian and moved to Porto.",
            "My sister Bea keeps parrots.",
        ]
        assert [fact.content for fact in alice.memories()] == [
            "Alice is vegetarian.",
            "Alice moved to Porto.",
            "Alice's sister Bea keeps parrots.",
        ]
        facts = [fact.content for fact in flow.memories()]
        assert facts[:2] == ["Ships to the EU only", "Closes at six on Fridays"]
        assert any("Lisbon" in fact for fact in facts)
        turns = list(flow.session("talk").history.all())
        assert [turn.content for turn in turns] == ["My name is Ann and I live in Lisbon.", "Noted."]
        assert turns[1].metadata == {"a": [1, 2.5, None, "x"]}
        (bank,) = memory.banks.list().memory_banks
        assert len(list(memory.banks.open(bank.id).entries())) == 6
        scope = shop.scope(user_id="alice", session_id="s1")
        assert scope.get_content("cart") == {"items": ["apple", "pear"]}
        assert len(scope.history("cart")) == 2
        files = shop.session("s1").files
        assert [(one.filename, files.read(one.file_id)) for one in files.list()] == [
            ("seeds.txt", b"Parrots eat seeds and fruit."),
            ("pixel.png", PNG),
        ]
        assert memory.definitions.bind(["profile"], owner="alice").values == {"profile": {"name": "Alice"}}
        assert [workflow.name for workflow in memory.workflows.list()] == ["greet"]
        assert [run.output for run in memory.workflows.runs()] == ["hello"]
    store = SqliteStore(home, clock=ShiftedClock().now)
    assert Authenticator(store.control, ShiftedClock()).admit((home / "agent.key").read_text()).tenant == "default"
    store.close()


def test_it_is_searched_written_and_erased(home: Path) -> None:
    with open_memory(home) as memory:
        flow = memory.flow("support")
        assert flow.search("fridays", recipe="words")[0].content == "Closes at six on Fridays"
        assert flow.search("when do they close on fridays")[0].content == "Closes at six on Fridays"
        assert memory.app("shop").session("s1").search("seeds")[0].content == "Parrots eat seeds and fruit."
        assert memory.user("alice").search("zanzibar", recipe="words", include=["turns"]).hits == []
        flow.write("Returns take two weeks")
        assert flow.search("returns", recipe="words")[0].content == "Returns take two weeks"
        again = flow.session("talk").history
        with pytest.raises(
            KeyReused
        ):  # requests of that version are hashed in another way: refused, and not recorded twice
            again.append(role="user", content="My name is Ann and I live in Lisbon.", key="once")
        assert again.append(role="user", content="One more.").seq == 3
        receipt = memory.user("alice").forget()
        assert receipt.residual == 0
        assert list(memory.users()) == []
    assert b"vegetarian" not in (home / "tenants" / "default.db").read_bytes()


def test_it_is_backed_up_and_restored(home: Path, tmp_path: Path) -> None:
    made = back_up(home, tmp_path / "backups")
    restore(made.path, tmp_path / "new")
    with open_memory(tmp_path / "new") as memory:
        assert [one.user for one in memory.users()] == ["alice"]
        assert len(memory.flow("support").memories()) >= 3
