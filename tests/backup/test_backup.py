"""Backups: hot, whole, verified, and the way back, whatever happens on it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import apsw
import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Conflict, NotFound
from memwell.backup import back_up, check, make, restore
from memwell.backup.manifest import (
    MANIFEST,
    FileInfo,
    Manifest,
    TenantInfo,
    digest_of,
    list_strangers,
    render_manifest,
    seal_manifest,
)
from memwell.clock import SystemClock
from memwell.config import load
from memwell.core.access import Authenticator
from memwell.errors import Corrupted, Invalid, StorageFull, Unsupported
from memwell.storage import open_store
from memwell.storage.copier import Contents, CopyableStore, read_contents
from memwell.storage.sqlite.connect import checksum_vfs
from memwell.surfaces.cli.main import app

from ..conftest import CHAOS
from ..engines import DATABASES, TEMPLATE, Memory, located
from .test_move import answers, fill

pytestmark = pytest.mark.every_engine


def stored(home: str | Path) -> CopyableStore:
    return open_store(load(home=located(home)), SystemClock().now)


def digest(home: str | Path, tenant: str = "default") -> Contents:
    """What a tenant holds, whatever engine keeps it."""
    store = stored(home)
    try:
        return store.read(tenant, read_contents)
    finally:
        store.close()


def tenants(home: str | Path) -> list[str]:
    store = stored(home)
    try:
        return [row[0] for row in store.control.rows("list_tenants", after="", limit=100)]
    finally:
        store.close()


def say(home: str, *tenants: str) -> None:
    """Something to be backed up, for each tenant."""
    for tenant in tenants or ("default",):
        with Memory(home, tenant=tenant, worker=False) as memory:
            memory.user("alice").add(f"I am of {tenant}.")


@pytest.fixture
def home(tmp_path: Path) -> str:
    return located(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def other(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """An empty home of the other engine."""
    if engine_name != "sqlite":
        yield str(tmp_path / "directory")
        return
    database = DATABASES.server.database(TEMPLATE)
    yield database
    DATABASES.server.drop(database)


# -- there and back ------------------------------------------------------------------------------------------------------


def test_what_is_restored_is_what_was_there_on_any_engine(
    home: str, folder: Path, tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup carries everything: files, keys, jobs and numbers; it says what it holds, and nobody else may read it."""
    fill(home)
    with Memory(home, worker=False) as memory:
        memory.app("gallery").session("g").files.upload(b"\x89PNG" + bytes(3000), "a.png")
        secret = memory.keys.create("bot", "agent").secret
    before, held = answers(home), digest(home)
    made = back_up(home, folder)
    assert check(made.path) == made.manifest
    (one,) = made.manifest.tenants
    assert (one.entries, one.files, one.lost) == (held.rows["entry"], held.rows["file"], [])
    for path in [made.path, *made.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    names = sorted(path.relative_to(made.path).as_posix() for path in made.path.rglob("*") if path.is_file())
    assert names == sorted([MANIFEST, *(file.path for file in made.manifest.files)])
    for place in (located(tmp_path / "new"), other):
        if place == other:
            monkeypatch.setattr(DATABASES, "engine", "sqlite")  # every home is what it is called
        done = restore(made.path, place)
        assert [(one.tenant, one.entries, one.keys, one.erased) for one in done.tenants] == [
            ("default", held.rows["entry"], 1, 0)
        ]
        assert digest(place) == held
        assert answers(place) == before
        store = stored(place)
        assert Authenticator(store.control, SystemClock()).admit(secret).tenant == "default"
        store.close()
        with Memory(place, worker=False) as memory:
            files = memory.app("gallery").session("g").files
            assert files.read(files.list()[0].file_id) == b"\x89PNG" + bytes(3000)
            assert memory.flow("f").session("talk").history.append(role="user", content="one more").seq == 3
    assert digest(home) == held


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_a_backup_can_be_opened_as_it_is(home: str, folder: Path) -> None:
    say(home)
    made = back_up(home, folder)
    with Memory(made.path, worker=False) as memory:
        assert [turn.content for turn in memory.user("alice").history()] == ["I am of default."]


def test_a_hot_backup_holds_every_write_that_was_acknowledged_before_it(
    home: str, folder: Path, tmp_path: Path, rounds: int
) -> None:
    """G10: under load, each restores, and nothing that was acknowledged before it began is missing."""
    acknowledged: list[list[str]] = [[], [], [], []]
    stop = Event()

    def write(number: int) -> None:
        with Memory(home, worker=False) as memory:
            while not stop.is_set():
                turn = memory.flow("f").session(str(number)).history.append(role="user", content="x" * 200)
                acknowledged[number].append(turn.id)

    say(home)
    writers = [Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    try:
        while not all(acknowledged):
            stop.wait(0.01)
        for number in range(rounds // 10 if rounds >= CHAOS else 2):
            before = [list(told) for told in acknowledged]
            made = back_up(home, folder)
            place = located(tmp_path / f"new{number}")
            restore(made.path, place)
            with Memory(place, worker=False) as memory:
                for who, told in enumerate(before):
                    turns = list(memory.flow("f").session(str(who)).history.all())
                    assert [turn.id for turn in turns][: len(told)] == told
                    assert [turn.seq for turn in turns] == list(range(1, len(turns) + 1))
    finally:
        stop.set()
        for thread in writers:
            thread.join()


def test_tenants_are_restored_together_or_one_by_one(home: str, folder: Path, tmp_path: Path) -> None:
    say(home, "alpha", "beta", "gamma")
    made = back_up(home, folder)
    place = located(tmp_path / "new")
    assert [one.tenant for one in restore(made.path, place, tenants=["beta"]).tenants] == ["beta"]
    assert tenants(place) == ["beta"]
    with pytest.raises(Conflict, match="has a tenant beta already"):
        restore(made.path, place)
    assert tenants(place) == ["beta"], "nothing of the others came before it was refused"
    with pytest.raises(NotFound, match="no tenant delta"):
        restore(made.path, place, tenants=["delta"])
    restore(made.path, place, tenants=["gamma", "alpha"])
    assert tenants(place) == ["alpha", "beta", "gamma"]
    one = back_up(home, folder, tenants=["gamma"])
    assert (one.manifest.names, one.manifest.chosen) == (["gamma"], ["gamma"])


def test_an_empty_store_has_a_backup_as_well(home: str, folder: Path, tmp_path: Path) -> None:
    stored(home).close()
    made = back_up(home, folder)
    place = located(tmp_path / "new")
    assert (made.manifest.tenants, restore(made.path, place).tenants, tenants(place)) == ([], [], [])


def test_a_tenant_is_replaced_in_one_step_for_all_who_use_it(home: str, folder: Path) -> None:
    """Whoever has it open sees what is restored, and search does not find what is not there any more."""
    fill(home)
    with Memory(home, worker=False) as memory:
        made = back_up(home, folder)
        held = digest(home)
        memory.flow("f").write("penguins live in the south")
        session = memory.flow("f").session("talk")
        session.history.append(role="user", content="and penguins?")
        assert "penguins" in memory.flow("f").search("penguins", include=["turns"])[0].content
        seen = memory.call("events.list", {"limit": 1000}).events[-1].seq
        (one,) = restore(made.path, home, replace=True).tenants
        assert one.replaced
        rows = digest(home).rows
        kept = ("entry", "address", "document", "fact")
        assert {table: rows[table] for table in kept} == {table: held.rows[table] for table in kept}
        later = memory.call("events.list", {"after": seen}).events
        assert [event.operation for event in later] == ["backup.restore"], "who looks on is told, and misses nothing"
        assert [turn.content for turn in session.history.all()][1:] == ["In the forest."]
        found = memory.flow("f").search("penguins", include=["turns"], recipe="words")
        assert [hit.content for hit in found if "penguin" in hit.content] == []
        memory.flow("f").write("penguins are birds")
        assert memory.flow("f").search("penguins", recipe="words")[0].content == "penguins are birds"


@pytest.mark.engines("sqlite")  # files of another version
def test_a_backup_of_another_version_is_refused(tmp_path: Path, folder: Path) -> None:
    say(str(tmp_path / "home"))
    made = back_up(tmp_path / "home", folder)
    changed = apsw.Connection(str(made.path / "tenants" / "default.db"), vfs=checksum_vfs())
    changed.pragma("journal_mode", "delete")
    changed.pragma("user_version", 4)
    changed.close()
    reseal(made.path, schema=4)
    with pytest.raises(Unsupported, match="has schema 4"):
        restore(made.path, tmp_path / "new")
    reseal(made.path, schema=1000)
    with pytest.raises(Unsupported, match="newer version"):
        restore(made.path, tmp_path / "another")


def reseal(path: Path, **changes: Any) -> None:
    """Let a manifest say what is there, as if it had been made so."""
    manifest = check_manifest(path)
    files = [msgspec.structs.replace(one, **sized(path / one.path)) for one in manifest.files]
    manifest = seal_manifest(msgspec.structs.replace(manifest, files=files, **changes))
    (path / MANIFEST).write_bytes(render_manifest(manifest))


def check_manifest(path: Path) -> Manifest:
    return msgspec.json.decode((path / MANIFEST).read_bytes(), type=Manifest)


def sized(path: Path) -> dict[str, Any]:
    size, sha256 = digest_of(path)
    return {"size": size, "sha256": sha256}


# -- what is wrong is refused --------------------------------------------------------------------------------------------


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_a_damaged_backup_is_refused_and_nothing_is_changed(home: str, folder: Path, tmp_path: Path) -> None:
    say(home)
    with Memory(home, worker=False) as memory:
        memory.app("shop").session("s1").files.upload(b"bytes of a file", "a.bin")
        memory.keys.create("bot", "agent")
        memory.user("bob").add("x")
        memory.user("bob").forget()
    made = back_up(home, folder)
    new = tmp_path / "new"
    kinds = set()
    for path in [path for path in made.path.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        for damaged in (flipped, whole[:-1], None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            with pytest.raises((Corrupted, Invalid)):
                check(made.path)
            with pytest.raises((Corrupted, Invalid)):
                restore(made.path, new)
            assert not new.exists()
            path.write_bytes(whole)
        kinds.add(path.relative_to(made.path).parts[0])
    assert kinds == {MANIFEST, "control.db", "secret.key", "tenants", "erasures", "blobs"}
    assert check(made.path) == made.manifest


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_a_folder_that_is_no_backup_is_recognised(home: str, folder: Path, tmp_path: Path) -> None:
    say(home)
    made = back_up(home, folder)
    only = back_up(home, folder, erasures_only=True)
    for path, error, said in (
        (tmp_path / "nowhere", NotFound, "no backup at"),
        (tmp_path, Invalid, "has no manifest.json"),
        (Path(home), Invalid, "a data directory, not a backup"),
        (folder, Invalid, f"folder of 2 backups: choose one. The newest is {only.path}"),
        (only.path, Invalid, "only an erasure log"),
    ):
        with pytest.raises(error, match=said):
            restore(path, tmp_path / "new")
    with pytest.raises(Invalid, match="into itself"):
        restore(made.path, made.path)
    manifest = check_manifest(made.path)
    outside = msgspec.structs.replace(manifest.files[0], path="../../home/control.db")
    (made.path / MANIFEST).write_bytes(
        render_manifest(seal_manifest(msgspec.structs.replace(manifest, files=[outside])))
    )
    with pytest.raises(Corrupted):
        check(made.path)
    (made.path / MANIFEST).write_bytes(render_manifest(seal_manifest(msgspec.structs.replace(manifest, format=2))))
    with pytest.raises(Unsupported):
        check(made.path)
    assert not (tmp_path / "new").exists()


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_a_manifest_that_could_not_have_been_written_is_refused(home: str, folder: Path, tmp_path: Path) -> None:
    """Names in it become paths: whoever has made it, it leads nowhere else, and nothing is opened for it."""
    say(home)
    made = back_up(home, folder)
    manifest, one = made.manifest, made.manifest.tenants[0]
    files = {file.path: file for file in manifest.files}
    tenant = files["tenants/default.db"]

    def without(path: str) -> list[FileInfo]:
        return [file for file in manifest.files if file.path != path]

    def named(name: str) -> list[TenantInfo]:
        return [msgspec.structs.replace(one, tenant=name)]

    impossible: list[dict[str, Any]] = [
        {"tenants": named("../../victim")}, {"tenants": named("other")}, {"tenants": [one, one]}, {"tenants": []},
        {"files": without(tenant.path)}, {"files": without("erasures/default.jsonl")}, {"files": without("control.db")},
        {"files": [*manifest.files, tenant]}, {"files": [*manifest.files, msgspec.structs.replace(tenant, path="tenants/x.db")]},
        {"format": -1}, {"schema": -3}, {"created_at": datetime(2020, 1, 1)}, {"created_at": datetime(1, 1, 1, tzinfo=UTC)},
        {"kind": "erasures"}, {"chosen": ["../x"]},
    ]  # fmt: skip
    for changes in impossible:
        (made.path / MANIFEST).write_bytes(render_manifest(seal_manifest(msgspec.structs.replace(manifest, **changes))))
        refused(made.path, tmp_path / "new", "was modified")
    (made.path / MANIFEST).write_bytes(render_manifest(manifest))
    whole = {name: (made.path / name).read_bytes() for name in ("control.db", tenant.path)}
    key = (
        "INSERT INTO api_key (id, tenant, name, hash, role, created_at) VALUES ('k', 'default', 'k', x'00', 'agent', 1)"
    )
    for name, sql, said in (
        ("control.db", "UPDATE tenant SET id = '../../victim'", "do not agree"),
        ("control.db", "UPDATE tenant SET created_at = 'x'", "do not agree"),
        ("control.db", "INSERT INTO tenant VALUES ('other', 1)", "do not agree"),
        ("control.db", key, "do not agree"),
        ("control.db", "CREATE VIEW v AS SELECT 1", "foreign tables"),
        (tenant.path, "CREATE TRIGGER t BEFORE DELETE ON entry BEGIN SELECT raise(ignore); END", "foreign tables"),
        (tenant.path, "DROP INDEX address_path", "foreign tables"),
    ):  # fmt: skip
        db = apsw.Connection(str(made.path / name), vfs=checksum_vfs())
        db.execute(sql)
        db.close()
        reseal(made.path)
        refused(made.path, tmp_path / "new", said)
        (made.path / name).write_bytes(whole[name])
    reseal(made.path)
    assert check(made.path) == manifest
    (made.path / "tenants" / "default.db-wal").write_bytes(b"x")
    assert list_strangers(made.path, manifest) == ["tenants/default.db-wal"]


def refused(path: Path, place: Path, said: str) -> None:
    for attempt in (check, lambda one: restore(one, place)):
        with pytest.raises(Corrupted, match=said):
            attempt(path)
    assert not place.exists()


@pytest.mark.engines("sqlite")  # folders
def test_a_backup_is_made_where_it_may_be(home: str, tmp_path: Path) -> None:
    say(home)
    (tmp_path / "file").write_text("")
    for place, said in ((Path(home) / "inside", "inside the data directory"), (tmp_path / "file", "is not a folder")):
        with pytest.raises(Invalid, match=said):
            back_up(home, place)
    with pytest.raises(NotFound, match="no memory at"):
        back_up(tmp_path / "nothing", tmp_path / "b")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(Invalid, match="needs a folder"):
        back_up("postgresql://localhost/nothing")
    assert back_up(home).path.parent == tmp_path / "home-backups"


def test_lost_files_are_reported(home: str, folder: Path, tmp_path: Path) -> None:
    """A backup of what is left is better than none; it says what is missing, and takes the place of no other."""
    say(home)
    with Memory(home, worker=False) as memory:
        files = memory.app("shop").session("s1").files
        kept, gone = (files.upload(content, "f.bin") for content in (b"kept", b"gone"))
    first = back_up(home, folder)
    store = stored(home)
    lost = next(digest for digest, _ in store.blobs("default").list() if store.blobs("default").get(digest) == b"gone")
    store.blobs("default").delete(lost)
    store.close()
    second = back_up(home, folder, keep=1)
    assert (second.manifest.tenants[0].lost, second.removed) == ([lost], [])
    assert first.path.exists()
    place = located(tmp_path / "new")
    assert restore(second.path, place).tenants[0].lost == [lost]
    with Memory(place, worker=False) as memory:
        files = memory.app("shop").session("s1").files
        assert files.read(kept.file_id) == b"kept"
        with pytest.raises(NotFound):
            files.read(gone.file_id)


# -- older ones ----------------------------------------------------------------------------------------------------------


@pytest.mark.engines("sqlite")  # folders
def test_only_older_backups_of_the_same_kind_are_removed(home: str, folder: Path, tmp_path: Path) -> None:
    say(home, "alpha", "beta")
    say(str(tmp_path / "elsewhere"))
    kept = [
        back_up(tmp_path / "elsewhere", folder).path,
        back_up(home, folder, tenants=["alpha"]).path,
        back_up(home, folder, erasures_only=True).path,
    ]
    old = [back_up(home, folder).path for _ in range(3)]
    broken = folder / "memwell-20200101T000000.000000Z"
    broken.mkdir()
    (broken / MANIFEST).write_text("{}")
    foreign = folder / "memwell-notes"
    foreign.mkdir()
    old[0].rename(tmp_path / "large")
    old[0].symlink_to(tmp_path / "large")
    made = back_up(home, folder, keep=2)
    assert made.removed == [old[1].name], "what is a link only is left alone, and so is what it leads to"
    assert sorted(folder.iterdir()) == sorted([*kept, old[0], old[2], made.path, broken, foreign])
    assert check(old[0]).names == ["alpha", "beta"]
    with pytest.raises(Invalid):
        back_up(home, folder, keep=0)


# -- cut off -------------------------------------------------------------------------------------------------------------

# One process that forks for each point: the child does it, and is killed when it gets there.
KILLED = """
import importlib, os, signal, sys
from memwell import backup
from memwell.storage.sqlite.store import SqliteCopier
from memwell.storage.postgres.store import PostgresCopier

restoring = importlib.import_module("memwell.backup.restore")

call, points, *given = sys.argv[1:]

def die(what):
    if what.startswith(point):
        os.kill(os.getpid(), signal.SIGKILL)

SqliteCopier.admit = PostgresCopier.admit = lambda self, arrivals: die("admitting")
restoring._Restore._build_approval = lambda self, tenant: lambda tx: die("replacing")
for point in points.split(","):
    child = os.fork()
    if child == 0:
        exec(call)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        sys.exit(point + " was not reached")
"""


def killed(call: str, points: str, *given: str) -> None:
    """Do something in other processes, each of which is killed when it comes to a point."""
    subprocess.run([sys.executable, "-c", KILLED, call, points, *given], check=True)


def test_a_killed_backup_is_removed_by_the_next_one(home: str, folder: Path) -> None:
    say(home)
    killed("backup.back_up(*given, progress=die)", "copying,checking", home, str(folder))
    (left,) = folder.iterdir()
    assert left.name.endswith(".partial")
    with pytest.raises(Invalid, match="interrupted backup"):
        restore(left, located(folder.parent / "new"))
    made = back_up(home, folder)
    assert list(folder.iterdir()) == [made.path]


def test_a_restore_that_was_killed_is_simply_repeated(
    engine_name: str, home: str, folder: Path, tmp_path: Path
) -> None:
    """Until all is there, nothing is; and what is there already stays as it is until it is replaced."""
    say(home, "alpha", "beta")
    made = back_up(home, folder)
    place = located(tmp_path / "new")
    points = "preparing beta,restoring beta,admitting"
    killed("backup.restore(*given, progress=die)", points, str(made.path), place)
    assert tenants(place) == []
    assert len(list(folder.iterdir())) == 2, "a copy was left beside the backup"
    assert len(restore(made.path, place).tenants) == 2
    say(place, "alpha")
    held = digest(place, "alpha")
    call = "backup.restore(*given, tenants=['alpha'], replace=True, progress=die)"
    killed(call, "replacing", str(made.path), place)
    assert digest(place, "alpha") == held
    restore(made.path, place, tenants=["alpha"], replace=True)
    assert digest(place, "alpha").rows["entry"] == 1 < held.rows["entry"]
    assert list(folder.iterdir()) == [made.path], "and cleared away"
    if engine_name == "sqlite":
        assert [path.name for path in (tmp_path / "new").iterdir() if path.is_dir()] == ["tenants"]


@pytest.mark.engines("sqlite")  # its own file system
def test_a_full_disk_leaves_nothing_behind(home: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(home)

    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28), str(path))

    monkeypatch.setattr(make, "sync", full)
    with pytest.raises(StorageFull, match="Free some space"):
        back_up(home, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.engines("sqlite")  # its own damage
def test_a_damaged_store_gives_no_backup(home: str, folder: Path) -> None:
    say(home)
    path = Path(home) / "tenants" / "default.db"
    data = bytearray(path.read_bytes())
    for at in range(4096 * 3, len(data), 4096):
        data[at : at + 64] = os.urandom(64)
    path.write_bytes(bytes(data))
    with pytest.raises(Corrupted):
        back_up(home, folder)
    assert list(folder.iterdir()) == []


# -- by command ----------------------------------------------------------------------------------------------------------


def test_the_commands_back_up_check_and_restore(home: str, folder: Path, tmp_path: Path) -> None:
    say(home, "alpha", "beta")
    run, place = CliRunner(), located(tmp_path / "new")
    made = run.invoke(app, ["--home", home, "backup", str(folder), "--json"])
    assert made.exit_code == 0, made.output
    told = msgspec.json.decode(made.stdout)
    assert [one["tenant"] for one in told["tenants"]] == ["alpha", "beta"]
    checked = run.invoke(app, ["backup", "--check", told["path"]])
    assert (checked.exit_code, "is complete" in checked.stdout) == (0, True)
    shown = run.invoke(app, ["--home", place, "restore", told["path"], "--tenant", "beta"])
    assert (shown.exit_code, "beta: 1 entries restored" in shown.stdout) == (0, True), shown.output
    twice = run.invoke(app, ["--home", place, "restore", told["path"]])
    assert (twice.exit_code, "--replace" in twice.stderr) == (5, True)
    again = run.invoke(app, ["--home", place, "restore", told["path"], "--replace", "--json"])
    assert [one["replaced"] for one in msgspec.json.decode(again.stdout)["tenants"]] == [False, True]
    Path(told["path"], "control.db").write_bytes(b"")
    broken = run.invoke(app, ["backup", "--check", told["path"]])
    assert (broken.exit_code, "control.db was modified" in broken.stderr) == (74, True)
    wrong = run.invoke(app, ["backup", str(folder), "--check", told["path"]])
    assert wrong.exit_code == 2
    server = "http://127.0.0.1:9"
    for asked in (["--url", server, "backup", str(folder)], ["restore", told["path"]]):
        elsewhere = run.invoke(app, asked, env={"MEMWELL_URL": server})
        assert (elsewhere.exit_code, "cannot work through http://127.0.0.1:9" in elsewhere.stderr) == (2, True)
