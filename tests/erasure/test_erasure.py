"""Erased data is in no file of the data directory (G9, C43)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from memwell import Erased, NotFound, Receipt
from memwell.erasure import erase
from memwell.sdk.transport import LocalTransport
from memwell.storage.blobs import FolderBlobs, TableBlobs
from memwell.storage.port import Tx

from ..engines import Memory, remains

T = TypeVar("T")

CANARY = "zyxoqwv"
SESSION = "jjkkvvxsession"


def traces(home: Path, *words: str) -> list[str]:
    """In which files or tables a word is found."""
    kept = remains(home)
    return [f"{word} in {name}" for name, data in kept.items() for word in words if word.encode() in data]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def memory(home: Path) -> Memory:
    return Memory(home, worker=False)


def _session(memory: Memory) -> Callable[[], Receipt]:
    session = memory.flow("support").session(SESSION)
    session.history.append(role="user", content=f"the word is {CANARY} and it goes on for a while", key="k1")
    session.history.extend([{"role": "user", "content": f"{CANARY} {n} " + "x" * 500} for n in range(50)], key=CANARY)
    session.write(f"a fact about {CANARY}", metadata={"about": CANARY}, key=f"{CANARY}-2")
    session.end()
    return session.delete


def _flow(memory: Memory) -> Callable[[], Receipt]:
    flow = memory.flow(SESSION)
    flow.session("s").history.append(role="user", content=CANARY, name=CANARY, key="k1")
    flow.update(flow.write(CANARY), content=f"{CANARY} again")
    return flow.delete


def _user(memory: Memory) -> Callable[[], Receipt]:
    me = memory.user(SESSION)
    me.add(f"my word is {CANARY}, remember it please", key="k1")
    me.add([{"role": "assistant", "content": CANARY, "metadata": {"m": CANARY}}], session=CANARY, key="k2")
    memory.keys.create("tied", user=SESSION)
    return me.forget


def _log(memory: Memory) -> Callable[[], Receipt]:
    log = memory.log(SESSION)
    log.append(entry_type="observation", content=CANARY, key="k1")
    log.end()
    return log.delete


@pytest.mark.parametrize("make", [_session, _flow, _user, _log])
def test_nothing_is_left_in_any_file(
    memory: Memory, home: Path, make: Callable[[Memory], Callable[[], Receipt]]
) -> None:
    memory.flow("support").session("bystander").history.append(role="user", content="stays")
    erase = make(memory)
    assert traces(home, CANARY, SESSION)
    receipt = erase()
    assert receipt.residual == 0
    assert receipt.layers["sessions"] >= 1
    assert receipt.layers["entries"] >= 1
    assert receipt.layers["answers"] >= 1
    assert traces(home, CANARY, SESSION) == []
    assert [turn.content for turn in memory.flow("support").session("bystander").history.last(5)] == ["stays"]
    memory.close()
    assert traces(home, CANARY, SESSION) == []


@pytest.mark.every_engine
def test_one_memory_and_its_history_leave_nothing_either(memory: Memory, home: Path) -> None:
    flow = memory.flow("support")
    memory_id = flow.write(f"first {CANARY}", key="k1")
    kept = flow.write("another one", key="k2")
    flow.update(memory_id, content=f"second {CANARY}")
    flow.delete_memory(memory_id)
    assert traces(home, CANARY) == []
    assert flow.get(kept).content == "another one"
    assert flow.write("another one", key="k2") == kept, "the answers of other writes are still there"
    with pytest.raises(Erased):
        flow.write(f"first {CANARY}", key="k1")


def test_a_late_retry_does_not_bring_it_back(memory: Memory) -> None:
    """A client that repeats its request after the erasure is told, and nothing is written."""
    session = memory.flow("support").session(SESSION)
    session.history.append(role="user", content="once", key="k1")
    session.delete()
    with pytest.raises(Erased):
        session.history.append(role="user", content="once", key="k1")
    assert session.history.last(5) == []


@pytest.mark.every_engine
def test_erased_things_are_out_of_sight_before_the_job_has_run(memory: Memory) -> None:
    session = memory.flow("support").session(SESSION)
    session.history.append(role="user", content=CANARY)
    memory.call("flows.delete_session", {"flow": "support", "session": SESSION})
    assert session.history.last(5) == []
    assert memory.flow("support").sessions() == []
    assert memory.find_session(SESSION) == []
    with pytest.raises(NotFound):
        session.delete()
    session.history.append(role="user", content="a new one")
    assert [turn.seq for turn in session.history.last(5)] == [1]


def test_a_large_session_is_erased_in_steps(memory: Memory, home: Path) -> None:
    history = memory.flow("support").session(SESSION).history
    for _ in range(5):
        history.extend([{"role": "user", "content": f"{CANARY} {number}"} for number in range(1000)])
    receipt = memory.flow("support").session(SESSION).delete()
    assert receipt.layers["entries"] == 5000
    assert traces(home, CANARY, SESSION) == []


@pytest.mark.engines("sqlite")  # its write-ahead log
def test_the_second_look_finds_what_was_left(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receipt is not a constant: with a deletion that forgets to empty the log, it says so."""
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    monkeypatch.setattr(transport.engine.store, "scrub", lambda tenant, rewrite="never": True)
    session = memory.flow("support").session(SESSION)
    session.history.append(role="user", content=f"a rather long sentence with {CANARY} in it")
    assert session.delete().residual > 0


def test_the_second_look_finds_rows_that_were_left(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a deletion that forgets the entries, the receipt says so."""
    monkeypatch.setattr(erase, "_delete_batch", lambda tx, address_id: 0)
    monkeypatch.setattr(erase, "_erase_some", lambda tx, run, addresses, at, layers: (len(addresses), layers))
    session = memory.flow("support").session(SESSION)
    session.history.append(role="user", content=f"a rather long sentence with {CANARY} in it")
    assert session.delete().residual > 0


@pytest.mark.every_engine
def test_the_same_words_of_somebody_else_are_no_residue(memory: Memory) -> None:
    text = "exactly the same rather long sentence in two places"
    memory.user("alice").add(text)
    memory.user("bob").add(text)
    assert memory.user("alice").forget().residual == 0
    assert [turn.content for turn in memory.user("bob").history()] == [text]


def test_events_keep_no_name_of_what_was_erased(memory: Memory) -> None:
    memory.user("alice").add("hi")
    memory.user("alice").forget()
    events = memory.call("events.list", {}).events
    assert [event.operation for event in events] == ["users.add", "users.forget"]
    assert {event.name for event in events} == {None}


def test_ending_a_session_that_is_not_there_leaves_no_name_behind(memory: Memory, home: Path) -> None:
    memory.call("flows.end", {"flow": "support", "session": SESSION}, key="k1")
    memory.flow("support").session(SESSION).history.append(role="user", content="x")
    memory.flow("support").session(SESSION).delete()
    assert traces(home, SESSION) == []


@pytest.mark.every_engine
def test_keys_scoped_to_it_are_erased_too(memory: Memory, home: Path) -> None:
    memory.keys.create("tied", flow=SESSION)
    memory.flow(SESSION).write("x")
    memory.flow(SESSION).delete()
    memory.keys.create("tied", user=SESSION)
    assert memory.user(SESSION).forget().residual == 0, "also if nothing else was remembered"
    assert traces(home, SESSION) == []


def test_many_sessions_are_erased_in_few_steps(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        memory.flow("big").session(str(number)).history.append(role="user", content="x")
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    writes: list[str] = []
    store = transport.engine.store
    original = store.write

    def counted(tenant: str, work: Callable[[Tx], T]) -> T:
        writes.append(tenant)
        return original(tenant, work)

    monkeypatch.setattr(store, "write", counted)
    assert memory.flow("big").delete().layers["entries"] == 300
    assert len(writes) < 10


# -- files -----------------------------------------------------------------------------------------------------------------


def _end_session(memory: Memory) -> list[str | None]:
    return [memory.app("shop").session(SESSION).end().job]


def _forget_user(memory: Memory) -> list[str | None]:
    return [memory.user("alice").forget().job]


def _delete_app(memory: Memory) -> list[str | None]:
    return [memory.app("shop").delete().job]


def _delete_files(memory: Memory) -> list[str | None]:
    """The second is not active: it has no text any more, only a name and bytes."""
    files = memory.app("shop").session(SESSION).files
    first, second = files.list()
    return [files.deactivate(second.file_id).job, *(files.delete(one.file_id).job for one in (first, second))]


@pytest.mark.every_engine
@pytest.mark.parametrize("erase_them", [_end_session, _forget_user, _delete_app, _delete_files])
def test_files_leave_nothing_in_any_file(
    memory: Memory, home: Path, erase_them: Callable[[Memory], list[str | None]]
) -> None:
    """G9, C26: names, texts, vectors, bytes and the answers of uploads, whatever they go with."""
    said = f"the word is {CANARY} and it goes on for a while".encode()
    upload = {"app": "shop", "session_id": SESSION, "filename": f"{CANARY}.txt", "content": said, "user_id": "alice"}
    memory.call("apps.files.upload", upload, key="k1")
    memory.app("shop").session(SESSION).files.upload(said + b"!", f"{CANARY}-2.txt")
    bystander = memory.app("spa").session("other").files
    kept = bystander.upload(b"This one stays where it is.", "kept.txt")
    assert len(memory.app("shop").session(SESSION).search(CANARY)) == 2
    assert traces(home, CANARY)
    layers: Counter[str] = Counter()
    for job_id in erase_them(memory):
        job = memory.jobs.wait(job_id or "")
        assert (job.state, (job.result or {})["residual"]) == ("done", 0)
        layers.update((job.result or {})["layers"])
    assert (layers["files"], layers["entries"]) == (2, 2)
    assert traces(home, CANARY) == []
    assert len(memory.app("shop").session(SESSION).search(CANARY)) == 0
    assert memory.app("shop").session(SESSION).files.list() == []
    with pytest.raises(Erased):
        memory.call("apps.files.upload", upload, key="k1")
    memory.close()
    assert traces(home, CANARY, *([] if erase_them is _delete_files else [SESSION])) == []
    with Memory(home, worker=False) as again:
        files = again.app("spa").session("other")
        assert files.files.read(kept.file_id) == b"This one stays where it is."
        assert len(files.search("where does it stay")) == 1


@pytest.mark.every_engine
def test_the_second_look_finds_bytes_of_a_file_that_were_left(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.app("shop").session(SESSION).files.upload(b"bytes that stay", "a.bin")
    for kind in (FolderBlobs, TableBlobs):
        monkeypatch.setattr(kind, "delete", lambda self, digest: None)
    job = memory.jobs.wait(memory.app("shop").session(SESSION).end().job or "")
    assert (job.result or {})["residual"] == 1
