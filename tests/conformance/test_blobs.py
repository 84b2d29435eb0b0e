"""Files by their digest: durable, whole or an error, one tenant's own. T13, G9."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell.clock import HOUR
from memwell.errors import Corrupted, NotFound, StorageFull
from memwell.storage import blobs as files
from memwell.storage.blobs import Blobs, digest_of
from memwell.storage.port import Store, Tx
from memwell.storage.sqlite import SqliteStore

from ..cases import cases
from .scene import TENANT, FrozenClock

CONTENT = b"%PDF-1.7 \x00\xff quarterly figures"


@pytest.fixture
def blobs(store: Store) -> Blobs:
    return store.blobs(TENANT)


def test_a_stored_blob_is_there_once_and_whole(store: Store, blobs: Blobs, clock: FrozenClock) -> None:
    digest = blobs.put(CONTENT)
    assert digest == digest_of(CONTENT)
    assert blobs.get(digest) == CONTENT
    assert list(blobs.list()) == [(digest, clock.at)]
    clock.at += HOUR
    assert blobs.put(CONTENT) == digest
    assert list(blobs.list()) == [(digest, clock.at)]  # as if it were stored just now
    assert blobs.get(blobs.put(b"")) == b""
    blobs.delete(digest)
    blobs.delete(digest)
    assert not blobs.has(digest)
    with pytest.raises(NotFound):
        blobs.get(digest)


def test_blobs_are_one_tenants_own_and_go_with_it(store: Store, blobs: Blobs) -> None:
    store.create("other")
    digest = blobs.put(CONTENT)
    other = store.blobs("other")
    assert not other.has(digest)
    assert list(other.list()) == []
    with pytest.raises(NotFound):
        other.get(digest)
    other.put(CONTENT)
    store.drop("other")
    with pytest.raises(NotFound):
        other.put(CONTENT)
    store.create("other")
    assert list(store.blobs("other").list()) == []
    assert blobs.get(digest) == CONTENT


def test_a_transaction_sees_and_deletes_blobs(store: Store, blobs: Blobs) -> None:
    digest = blobs.put(CONTENT)

    def check(tx: Tx) -> bool:
        return blobs.within(tx).has(digest)

    assert store.write(TENANT, check)
    store.write(TENANT, lambda tx: blobs.within(tx).delete(digest))
    assert not store.write(TENANT, check)


NAMES = [
    "",
    ".",
    "..",
    "../../control.db",
    "/etc/passwd",
    "a" * 63,
    "A" * 64,
    "a" * 64 + "\n",
    "a" * 63 + "/",
    "\x00" * 64,
]


@cases("name", NAMES)
def test_no_name_leads_elsewhere(blobs: Blobs, name: str) -> None:
    """T13: what is not a digest is refused before it is part of a path."""
    for work in (blobs.get, blobs.has, blobs.delete):
        with pytest.raises(NotFound):
            work(name)


# -- in a directory --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "home", clock=clock.now)
    store.create(TENANT)
    yield store
    store.close()


def test_damage_is_an_error_and_a_second_upload_heals_it(folder: SqliteStore) -> None:
    blobs = folder.blobs(TENANT)
    digest = blobs.put(CONTENT)
    path = blobs.path(digest)
    assert path is not None
    path.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(Corrupted, match="backup"):
        blobs.get(digest)
    blobs.put(CONTENT)
    assert blobs.get(digest) == CONTENT


def test_files_are_for_their_owner_only_and_lie_where_they_should(folder: SqliteStore) -> None:
    path = folder.blobs(TENANT).path(folder.blobs(TENANT).put(CONTENT))
    assert path is not None
    assert path.relative_to(folder.home).parts == ("blobs", TENANT, path.name[:2], digest_of(CONTENT))
    assert path.stat().st_mode & 0o777 == 0o600
    assert {above.stat().st_mode & 0o777 for above in list(path.parents)[:3]} == {0o700}


def test_remains_of_a_killed_upload_are_removed(folder: SqliteStore, clock: FrozenClock) -> None:
    blobs = folder.blobs(TENANT)
    path = blobs.path(blobs.put(CONTENT))
    assert path is not None
    draft = path.with_name(f"{files._DRAFT}1")
    draft.write_bytes(b"half of it")
    os.utime(draft, ns=(clock.at * 1000, clock.at * 1000))
    assert len(list(blobs.list())) == 1
    blobs.tidy(clock.at)
    assert draft.exists()
    blobs.tidy(clock.at + 1)
    assert not draft.exists()
    assert path.exists()


def test_a_file_is_on_the_disk_before_it_has_its_name(folder: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is all that a power cut leaves: bytes, name, folder."""
    done: list[str] = []
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, _noted(done, name, getattr(os, name)))
    folder.blobs(TENANT).put(CONTENT)
    assert done[-3:] == ["fsync", "replace", "fsync"]


def test_a_disk_that_cannot_be_written_says_so_and_leaves_nothing(
    folder: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    blobs = folder.blobs(TENANT)
    blobs.put(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull, match="space"):
        blobs.put(CONTENT)
    assert [path.read_bytes() for path in folder.home.glob("blobs/*/*/*")] == [b"before"]


def _noted(done: list[str], name: str, work: object) -> object:
    def run(*given: object) -> object:
        done.append(name)
        return work(*given)  # type: ignore[operator]

    return run
