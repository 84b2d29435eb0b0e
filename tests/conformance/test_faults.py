"""What the embedded engine survives: full and read-only disks, damaged files, other processes, and many tenants."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from memwell.core.access import create_key
from memwell.errors import Corrupted, MemwellError, NotFound, StorageError, StorageFull, Unsupported
from memwell.storage.sqlite import SqliteStore
from memwell.storage.sqlite.connect import checksum_vfs, require_sqlite

from ..cases import cases
from ..conftest import CHAOS
from .disks import FullDisk, UnsyncedDisk, full_disk, unsynced_disk
from .scene import TENANT, FrozenClock, at_once, contents, finish, note, notes, outcome, python, run_python, say

pytestmark = pytest.mark.engines("sqlite")

# -- a full disk (G17) -----------------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[FullDisk]:
    with full_disk() as disk:
        yield disk


@pytest.fixture
def on_disk(tmp_path: Path, clock: FrozenClock, disk: FullDisk) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "home", clock=clock.now, vfs=disk.name)
    store.create(TENANT)
    yield store
    disk.full = None
    store.close()


def test_a_full_disk_refuses_writes_and_goes_on_reading_and_heals(
    on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    say(on_disk, clock, "before")
    disk.full = "tenants"
    for _ in range(3):
        with pytest.raises(StorageFull):
            say(on_disk, clock, "x" * 10_000)
        assert contents(on_disk, clock) == ["before"]
    disk.full = None
    assert say(on_disk, clock, "after")[0].seq == 2
    assert contents(on_disk, clock) == ["before", "after"]
    assert on_disk.check(TENANT) == []


def test_a_disk_that_is_full_under_many_writers_loses_nothing_that_it_acknowledged(
    on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    def write(n: int) -> Any:
        if n % 50 == 20:
            disk.full = "tenants"
        if n % 50 == 40:
            disk.full = None
        return outcome(lambda: say(on_disk, clock, str(n))[0].content)

    outcomes = at_once(write, range(400), threads=8)
    disk.full = None
    acknowledged = [each for each in outcomes if isinstance(each, str)]
    refused = [each for each in outcomes if not isinstance(each, str)]
    assert {type(each) for each in refused} == {StorageFull}
    assert sorted(contents(on_disk, clock)) == sorted(acknowledged)


def test_a_log_that_cannot_be_copied_into_its_file_fails_no_write(
    on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    """The log has room, the file itself has none: the writes are durable in the log."""
    disk.full = rf"{TENANT}\.db$"
    written = [say(on_disk, clock, f"{n} " + "word " * 1000)[0].content for n in range(400)]
    assert disk.refused
    assert contents(on_disk, clock) == written
    disk.full = None
    say(on_disk, clock, "after")
    assert contents(on_disk, clock) == [*written, "after"]
    assert (on_disk.home / "tenants" / f"{TENANT}.db").stat().st_size > 2_000_000  # copied by the last write


def test_a_disk_that_is_full_at_any_write_of_a_group_stores_all_that_is_acknowledged_and_nothing_else(
    on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    """One of the writers has more pages than the cache, so that the log is written before the commit, too."""

    def write(content: str) -> Any:
        return outcome(lambda: say(on_disk, clock, content)[0].content)

    acknowledged: list[str] = []
    failed = set()
    for room in [*range(20), *range(20, 1400, 97)]:
        disk.full, disk.room = f"{TENANT}.db-wal$", room
        texts = [f"{room}/{n}" for n in range(4)]
        texts[1] += "x" * 4_000_000
        outcomes = at_once(write, texts, threads=4)
        disk.full = None
        acknowledged += [each for each in outcomes if isinstance(each, str)]
        failed |= {type(each) for each in outcomes if not isinstance(each, str)}
        assert sorted(contents(on_disk, clock)) == sorted(acknowledged), room
        if room % 20 == 19:
            on_disk.scrub(TENANT)
    assert failed == {StorageFull}


def test_a_commit_that_cannot_be_synced_says_that_its_outcome_is_unknown(
    tmp_path: Path, on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    """It is not there, but after a crash it would be found in the log; the next write replaces it there."""

    def crash(name: str) -> list[str]:
        shutil.copytree(on_disk.home, tmp_path / name, ignore=shutil.ignore_patterns("*-shm"))
        store = SqliteStore(tmp_path / name, clock=clock.now)
        try:
            return contents(store, clock)
        finally:
            store.close()

    say(on_disk, clock, "before")
    disk.broken = r"\.db-wal$"
    with pytest.raises(StorageError, match="not known whether this was stored"):
        say(on_disk, clock, "lost or found")
    disk.broken = None
    assert contents(on_disk, clock) == ["before"]
    assert crash("at once") == ["before", "lost or found"]
    say(on_disk, clock, "after")
    assert contents(on_disk, clock) == crash("later") == ["before", "after"]


def test_a_file_that_cannot_be_closed_fails_no_write_that_is_durable(
    tmp_path: Path, disk: FullDisk, clock: FrozenClock
) -> None:
    """Closing the last connection copies the log into the file."""
    store = SqliteStore(tmp_path / "home", clock=clock.now, vfs=disk.name, open_tenants=1)
    for tenant in ("first", "second"):
        store.create(tenant)

    def write(tx: Any) -> None:
        disk.full = r"second\.db$"
        assert say(store, clock, "hello", tenant="second")
        note(tx)

    store.write("first", write)
    assert disk.refused
    disk.full = None
    assert contents(store, clock, tenant="second") == ["hello"]
    assert store.read("first", notes) == ["noted"]
    store.close()


def test_a_tenant_cannot_be_made_on_a_full_disk_but_later(on_disk: SqliteStore, disk: FullDisk) -> None:
    disk.full = "other"
    for room in range(0, 60, 3):
        disk.room = room
        with pytest.raises(StorageFull):
            on_disk.create("other")
        with pytest.raises(NotFound):
            on_disk.read("other", notes)
    disk.full = None
    assert on_disk.create("other") is True
    assert on_disk.read("other", notes) == []


def test_a_hint_that_cannot_be_left_does_not_fail_a_write_that_is_durable(
    on_disk: SqliteStore, disk: FullDisk, clock: FrozenClock
) -> None:
    def write(tx: Any) -> None:
        note(tx)
        tx.wake(clock.now())

    disk.full = "control"
    on_disk.write(TENANT, write)
    assert on_disk.read(TENANT, notes) == ["noted"]


# -- a disk that cannot be written -----------------------------------------------------------------------------------

READ_ONLY = """
import os, sys
from memwell.errors import MemwellError
from memwell.storage import queries
from memwell.storage.sqlite import SqliteStore

if os.getuid() == 0:  # whom no permission stops: become somebody else, once everything is imported
    queries.load("sqlite")
    os.setgid(65534)
    os.setuid(65534)
store = SqliteStore(sys.argv[1], clock=lambda: 0)

def note(tx):
    tx.run("add_event", at=0, operation="x", collection_id=None, address_id=None, entries=0, actor="")

print(store.read("acme", lambda tx: tx.rows("list_events", after=0, limit=9)[0][2]))
for attempt in (lambda: store.write("acme", note), lambda: store.scrub("acme"), lambda: store.drop("acme")):
    try:
        attempt()
    except MemwellError as error:
        print(type(error).__name__)
print(len(store.read("acme", lambda tx: tx.rows("list_events", after=0, limit=9))))
"""


@pytest.fixture
def read_only_home(tmp_path: Path, sqlite: SqliteStore) -> Iterator[Path]:
    """A directory that was closed cleanly and can then be read by everybody and written by nobody."""
    sqlite.write(TENANT, note)
    sqlite.read(TENANT, notes)
    sqlite.close()
    home = sqlite.home
    opened = [
        folder for folder in home.parents if folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 1 == 0
    ]
    for folder in opened:
        folder.chmod(folder.stat().st_mode | 0o011)
    for path in [*home.rglob("*"), home]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield home
    for path in [home, home / "tenants"]:
        path.chmod(0o755)
    for folder in opened:
        folder.chmod(0o700)


def test_a_read_only_directory_is_read_and_refuses_writes(read_only_home: Path) -> None:
    before = {path: path.read_bytes() for path in read_only_home.rglob("*") if path.is_file()}
    assert run_python(READ_ONLY, read_only_home).split() == ["noted", "StorageFull", "StorageFull", "StorageFull", "1"]
    assert {path: path.read_bytes() for path in read_only_home.rglob("*") if path.is_file()} == before


def test_a_clean_close_leaves_one_file_per_tenant(sqlite: SqliteStore, clock: FrozenClock) -> None:
    """Whoever copies the `.db` files of a directory that nobody uses has everything."""
    say(sqlite, clock, "hello")
    assert contents(sqlite, clock) == ["hello"]
    sqlite.close()
    files = sorted(path.name for path in sqlite.home.rglob("*") if path.is_file() and path.suffix != ".key")
    assert files == [f"{TENANT}.db", "control.db"]


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["control.db", f"tenants/{TENANT}.db"])
def test_a_file_with_a_broken_header_is_refused_with_advice_and_left_alone(
    sqlite: SqliteStore, clock: FrozenClock, file: str
) -> None:
    say(sqlite, clock, "hello")
    sqlite.close()
    path = sqlite.home / file
    _checkpointed(path)
    damage(path, 0, b"\xff" * 100)
    before = path.read_bytes()
    with pytest.raises(Corrupted, match=r"memwell doctor.*backup"):
        _hello(sqlite.home, clock)
    assert path.read_bytes() == before


def test_broken_pages_in_the_middle_are_reported_and_left_alone(sqlite: SqliteStore, clock: FrozenClock) -> None:
    for n in range(200):
        say(sqlite, clock, f"{n} " + "word " * 100)
    sqlite.close()
    path = sqlite.home / "tenants" / f"{TENANT}.db"
    _checkpointed(path)
    middle = path.stat().st_size // 2 // 4096 * 4096
    damage(path, middle, Random(1).randbytes(20 * 4096))
    before = path.read_bytes()
    store = SqliteStore(sqlite.home, clock=clock.now)
    found = store.check(TENANT)
    assert found
    assert all(isinstance(line, str) for line in found)
    with pytest.raises(Corrupted, match=r"memwell doctor.*backup"):
        contents(store, clock)
    assert path.read_bytes() == before
    store.close()


def test_a_flipped_bit_is_reported_and_never_served(sqlite: SqliteStore, clock: FrozenClock) -> None:
    """G18: text with a wrong bit is neither returned nor called sound. A bit in the space that nothing uses does no harm."""
    for n in range(100):
        say(sqlite, clock, f"{n} " + "word " * 50 + "long " * (2000 if n % 20 == 0 else 0))
    sqlite.close()
    path = sqlite.home / "tenants" / f"{TENANT}.db"
    whole, chance = path.read_bytes(), Random(18)
    store = SqliteStore(sqlite.home, clock=clock.now)
    stored = contents(store, clock)
    store.close()
    refused = 0
    for _ in range(200):
        at = chance.randrange(100, len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
        store = SqliteStore(sqlite.home, clock=clock.now)
        result = outcome(lambda s=store: contents(s, clock))  # type: ignore[misc]
        assert result == stored or isinstance(result, Corrupted), f"byte {at}: {result!r}"
        assert outcome(lambda s=store: s.check(TENANT)), f"byte {at} is not reported"  # type: ignore[misc]
        refused += result != stored
        store.close()
    assert refused > 50


def test_a_flipped_bit_in_the_header_is_reported(sqlite: SqliteStore, clock: FrozenClock) -> None:
    """The header says whether there are checksums, so no bit of it may turn them off."""
    say(sqlite, clock, "hello")
    sqlite.close()
    path = sqlite.home / "tenants" / f"{TENANT}.db"
    whole = path.read_bytes()
    results: dict[int, Any] = {}
    for bit in range(800):
        damage(path, bit // 8, bytes([whole[bit // 8] ^ (1 << bit % 8)]))
        results[bit] = outcome(lambda: _hello(sqlite.home, clock))
        path.write_bytes(whole)
    assert {bit: each for bit, each in results.items() if not isinstance(each, MemwellError)} == {}


def test_a_file_that_lost_its_content_is_not_an_empty_tenant(sqlite: SqliteStore, clock: FrozenClock) -> None:
    say(sqlite, clock, "hello")
    sqlite.close()
    path = sqlite.home / "tenants" / f"{TENANT}.db"
    whole = path.read_bytes()
    for left in (b"", whole[:0] + bytes(4096), None):
        path.write_bytes(left) if left is not None else path.unlink()
        with pytest.raises(Corrupted, match=r"memwell doctor.*backup"):
            _hello(sqlite.home, clock)
        assert left is None or path.read_bytes() == left
    path.write_bytes(whole)
    assert _hello(sqlite.home, clock) == ["hello"]


def test_a_lost_list_of_tenants_does_not_make_a_new_one(sqlite: SqliteStore, clock: FrozenClock) -> None:
    say(sqlite, clock, "hello")
    sqlite.close()
    path, tenant = sqlite.home / "control.db", sqlite.home / "tenants" / f"{TENANT}.db"
    whole, before = path.read_bytes(), tenant.read_bytes()
    for left in (b"", None):
        path.write_bytes(left) if left is not None else path.unlink()
        with pytest.raises(Corrupted, match=r"control\.db.*backup"):
            SqliteStore(sqlite.home, clock=clock.now)
        assert tenant.read_bytes() == before
    path.write_bytes(whole)
    assert _hello(sqlite.home, clock) == ["hello"]


def test_keys_whose_secret_is_lost_are_not_replaced_silently(sqlite: SqliteStore, clock: FrozenClock) -> None:
    key_id, _ = create_key(sqlite.control, TENANT, "agent", "agent", None, None, clock.now())
    sqlite.close()
    (sqlite.home / "secret.key").unlink()
    store = SqliteStore(sqlite.home, clock=clock.now)
    with pytest.raises(StorageError, match=r"secret\.key is missing.*restore it.*revoke"):
        store.control.secret  # noqa: B018 -- asking for it is the test
    assert not (sqlite.home / "secret.key").exists()
    store.control.write(("revoke_key", {"tenant": TENANT, "id": key_id, "now": clock.now()}))
    assert len(store.control.secret) == 32
    store.close()


def test_a_secret_of_the_wrong_length_is_not_used(sqlite: SqliteStore, clock: FrozenClock) -> None:
    assert len(sqlite.control.secret) == 32
    (sqlite.home / "secret.key").write_bytes(b"short")
    again = SqliteStore(sqlite.home, clock=clock.now)
    with pytest.raises(MemwellError, match=r"secret\.key is damaged"):
        again.control.secret  # noqa: B018 -- asking for it is the test
    again.close()


@cases("version", ["3.51.2", "3.51", "3.9.9", "2.8.17"])
def test_a_sqlite_that_loses_data_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match=r"3\.51\.3"):
        require_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0"])
def test_a_sqlite_that_keeps_data_is_accepted(version: str) -> None:
    require_sqlite(version)


def test_a_home_that_is_a_file_is_refused(tmp_path: Path, clock: FrozenClock) -> None:
    (tmp_path / "home").write_text("not a directory")
    with pytest.raises(StorageError):
        SqliteStore(tmp_path / "home", clock=clock.now)


# -- other processes -------------------------------------------------------------------------------------------------

ANOTHER_WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from memwell.storage.sqlite import SqliteStore
from tests.conformance.scene import FrozenClock, say

clock = FrozenClock()
store = SqliteStore(sys.argv[1], clock=clock.now)
say(store, clock, "there/0")
print("ready", flush=True)
sys.stdin.readline()
for n in range(1, int(sys.argv[3])):
    say(store, clock, f"there/{n}")
store.close()
"""
PROJECT = Path(__file__).parents[2]


def test_two_processes_write_at_once_and_nothing_is_lost(sqlite: SqliteStore, clock: FrozenClock) -> None:
    other = python(ANOTHER_WRITER, sqlite.home, PROJECT, 200)
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    other.stdin.write("go\n")
    other.stdin.flush()
    at_once(lambda n: say(sqlite, clock, f"here/{n}"), range(200), threads=4)
    finish(other)
    expected = {f"{where}/{n}" for where in ("here", "there") for n in range(200)}
    stored = contents(sqlite, clock)
    assert len(stored) == len(expected)
    assert set(stored) == expected


def test_looking_for_residue_does_not_endanger_later_writes(sqlite: SqliteStore, clock: FrozenClock) -> None:
    """Closing any handle of a file drops this process's locks on it; without them, another process that closes
    takes itself for the last one and removes the log that this process still writes to."""
    say(sqlite, clock, "before")
    assert sqlite.residue(TENANT, [b"before"]) == [b"before"]
    run_another_writer(sqlite.home)
    for n in range(5):
        say(sqlite, clock, f"after/{n}")
    run_another_writer(sqlite.home)
    sqlite.close()
    reopened = SqliteStore(sqlite.home, clock=clock.now)
    assert contents(reopened, clock) == ["before", "there/0", *(f"after/{n}" for n in range(5)), "there/0"]
    reopened.close()


def test_a_tenant_that_another_process_dropped_takes_no_writes(sqlite: SqliteStore, clock: FrozenClock) -> None:
    say(sqlite, clock, "before")
    run_python(
        """
        import sys
        from memwell.storage.sqlite import SqliteStore
        store = SqliteStore(sys.argv[1], clock=lambda: 0)
        assert store.drop("acme")
        store.close()
        """,
        sqlite.home,
    )
    for _ in range(2):
        with pytest.raises(NotFound):
            say(sqlite, clock, "into the void")


def test_a_dropped_tenant_leaves_no_file_and_no_word(sqlite: SqliteStore, clock: FrozenClock) -> None:
    say(sqlite, clock, "a very secret sentence")
    sqlite.drop(TENANT)
    assert list((sqlite.home / "tenants").iterdir()) == []
    for path in sqlite.home.rglob("*"):
        assert not path.is_file() or b"a very secret sentence" not in path.read_bytes(), path


def test_a_drop_that_was_killed_can_be_repeated(sqlite: SqliteStore, clock: FrozenClock) -> None:
    say(sqlite, clock, "hello")
    sqlite.close()
    run_python(KILLED_WHILE_DROPPING, sqlite.home, code_expected=9)
    assert [path.name for path in (sqlite.home / "tenants").glob("*.db")] == [f"{TENANT}.db"]
    store = SqliteStore(sqlite.home, clock=clock.now)
    with pytest.raises(NotFound):
        contents(store, clock)
    store.drop(TENANT)
    assert list((sqlite.home / "tenants").iterdir()) == []
    store.close()


KILLED_WHILE_DROPPING = """
import os, sys
from memwell.storage.sqlite import SqliteStore

store = SqliteStore(sys.argv[1], clock=lambda: 0)
sys.addaudithook(lambda event, args: os._exit(9) if event == "os.remove" else None)
store.drop("acme")
"""


def test_what_a_killed_drop_left_behind_is_not_in_the_tenant_that_is_made_anew(
    sqlite: SqliteStore, clock: FrozenClock
) -> None:
    say(sqlite, clock, "left behind")
    sqlite.close()
    run_python(KILLED_WHILE_DROPPING, sqlite.home, code_expected=9)
    store = SqliteStore(sqlite.home, clock=clock.now)
    assert store.create(TENANT) is True
    assert contents(store, clock) == []
    store.close()


# -- many tenants ----------------------------------------------------------------------------------------------------


@pytest.fixture
def fast_disk() -> Iterator[UnsyncedDisk]:
    with unsynced_disk() as disk:
        yield disk


@pytest.mark.long
def test_a_thousand_tenants_need_few_files_and_no_threads(
    tmp_path: Path, clock: FrozenClock, fast_disk: UnsyncedDisk, rounds: int
) -> None:
    """Three hundred, unless it is for chaos."""
    store = SqliteStore(tmp_path / "home", clock=clock.now, open_tenants=32, vfs=fast_disk.name)
    tenants = [f"t{n}" for n in range(1000 if rounds >= CHAOS else 300)]
    before, threads, most = open_files(), threading.active_count(), 0
    for tenant in tenants:
        store.create(tenant)
    for turn in range(3):
        for tenant in tenants:
            say(store, clock, f"{tenant}/{turn}", tenant=tenant)
            most = max(most, open_files())
    assert most - before < 32 * 4  # a file, its log and its index each, and the control file
    assert threading.active_count() == threads
    for tenant in tenants:
        assert contents(store, clock, tenant=tenant) == [f"{tenant}/{turn}" for turn in range(3)]
    store.close()
    assert open_files() <= before


def test_tenants_that_are_in_use_are_not_closed_under_their_users(tmp_path: Path, clock: FrozenClock) -> None:
    store = SqliteStore(tmp_path / "home", clock=clock.now, durability="relaxed", open_tenants=2)
    tenants = [f"t{n}" for n in range(12)]
    for tenant in tenants:
        store.create(tenant)

    def write(n: int) -> None:
        say(store, clock, str(n), tenant=tenants[n % 12])

    at_once(write, range(600), threads=12)
    for start, tenant in enumerate(tenants):
        assert sorted(contents(store, clock, tenant=tenant), key=int) == [str(n) for n in range(start, 600, 12)]
    store.close()


def test_tenants_that_are_read_may_be_closed_and_are_read_all_the_same(tmp_path: Path, clock: FrozenClock) -> None:
    store = SqliteStore(tmp_path / "home", clock=clock.now, durability="relaxed", open_tenants=2)
    tenants = [f"t{n}" for n in range(12)]
    for tenant in tenants:
        store.create(tenant)
        say(store, clock, tenant, tenant=tenant)

    def read(n: int) -> None:
        tenant = tenants[n % 12]
        assert contents(store, clock, tenant=tenant) == [tenant]

    at_once(read, range(1200), threads=12)
    assert len([name for name in open_names(tmp_path / "home" / "tenants") if name.endswith(".db")]) <= 2
    store.close()
    assert open_names(tmp_path) == set()


def test_the_least_recently_used_tenant_is_closed(tmp_path: Path, clock: FrozenClock) -> None:
    store = SqliteStore(tmp_path / "home", clock=clock.now, durability="relaxed", open_tenants=2)
    for tenant in ("often", "once", "then"):
        store.create(tenant)
    for tenant in ("often", "once", "often", "then"):
        contents(store, clock, tenant=tenant)
    assert sorted(store._files._files) == ["often", "then"]
    store.close()


def test_what_is_hinted_already_is_not_written_again(sqlite: SqliteStore, clock: FrozenClock) -> None:
    def due(at: int) -> int:
        sqlite.write(TENANT, lambda tx: tx.wake(at))
        return int(sqlite.control.rows("hinted", tenant=TENANT, due_at=1 << 60)[0][0])

    assert [due(500), due(700), due(300), due(400)] == [500, 500, 300, 300]


# -- small words -----------------------------------------------------------------------------------------------------


def run_another_writer(home: Path) -> None:
    finish(python(ANOTHER_WRITER, home, PROJECT, 1), said="go\n")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_names(folder: Path) -> set[str]:
    """The files in a folder that this process has open."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing itself had one open
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith(str(folder))}


def damage(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _checkpointed(path: Path) -> None:
    """Everything into the file itself, and no log beside it."""
    db = apsw.Connection(str(path), vfs=checksum_vfs())
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()


def _hello(home: Path, clock: FrozenClock) -> list[str]:
    store = SqliteStore(home, clock=clock.now)
    try:
        return contents(store, clock)
    finally:
        store.close()
