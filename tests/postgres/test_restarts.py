"""PostgreSQL or a process that uses it is stopped: acknowledged writes are there once, and other processes continue."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, cast

import pytest

from memwell.errors import Unavailable
from memwell.storage.port import Tx
from memwell.storage.postgres import PostgresStore, store

from ..conformance.scene import TENANT, FrozenClock, note, notes, outcome, python
from ..engines import Memory
from ..live import live
from ..postgres_server import Server, rewrite
from ..processes import FLOW, HALL, Planned, planned
from ..waiting import wait_until

WRITERS = 8
RESTARTS = 20
SEED = 20261117
SOON_S = 60.0
"""A time-out, not a promise: what has not happened by then never will."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that loses nothing that it has acknowledged. Its commits take a while, so that a stop meets some."""
    slow = {"commit_delay": "10000", "commit_siblings": "0", "recovery_init_sync_method": "syncfs"}
    with Server(durable=True, settings=slow) as server:
        server.template("memwell", lambda dsn: Memory(dsn, worker=False).close())
        yield server


@pytest.fixture
def dsn(server: Server) -> Iterator[str]:
    dsn = server.database("memwell")
    yield dsn
    server.start()
    wait_until(lambda: not isinstance(outcome(lambda: server.run_sql("SELECT 1")), Exception))
    server.drop(dsn)


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", "none")


@contextmanager
def opened(dsn: str, **settings: Any) -> Iterator[PostgresStore]:
    """A store with a tenant in it."""
    store = PostgresStore(dsn, clock=FrozenClock().now, **settings)
    try:
        store.create(TENANT)
        yield store
    finally:
        store.close()


# -- the server is restarted ---------------------------------------------------------------------------------------------


class Writer(Thread):
    """Writes what is planned, one after the other; what was not acknowledged it repeats with the same key."""

    def __init__(self, memory: Memory, number: int, enough: Event) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._memory, self._number, self._enough = memory, number, enough
        self.acknowledged: dict[Planned, tuple[int, str]] = {}
        self.troubles: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                self._write(planned(self._number, len(self.acknowledged)))
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            self.error = error

    def _write(self, turn: Planned) -> None:
        history = self._memory.flow(FLOW).session(turn.session).history
        deadline = time.monotonic() + SOON_S
        while True:
            try:
                made = history.append(role="user", content=turn.content, key=turn.key)
            except Unavailable as error:
                self.troubles["lost" if "not known" in error.message else "away"] += 1
            else:
                self.acknowledged[turn] = (made.seq, made.id)
                return
            assert time.monotonic() < deadline, "it was never acknowledged"


def test_twenty_restarts_lose_and_double_nothing(server: Server, dsn: str) -> None:
    """The server is stopped as by a crash, again and again, under eight writers; one memory lives through it all."""
    chance, enough = Random(SEED), Event()
    with Memory(dsn) as memory:
        writers = [Writer(memory, number, enough) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            for _ in range(RESTARTS):
                _write_on(writers, chance)
                server.restart(immediate=True)
                assert {info.session for info in memory.flow(FLOW).sessions()} >= {HALL}
            _write_on(writers, chance)
        finally:
            enough.set()
            for writer in writers:
                writer.join(SOON_S)
        assert not any(writer.is_alive() for writer in writers), "a writer hangs"
        assert [writer.error for writer in writers] == [None] * WRITERS
        require_each_once(memory, {turn: told for writer in writers for turn, told in writer.acknowledged.items()})
        troubles = sum((writer.troubles for writer in writers), Counter())
        assert troubles["lost"], "no stop met a commit"


def _write_on(writers: list[Writer], chance: Random) -> None:
    """Let everybody write something more, and then a moment longer."""
    before = [len(writer.acknowledged) for writer in writers]
    wait_until(
        lambda: (
            all(len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True))
            or any(writer.error for writer in writers)
        ),
        "somebody cannot write any more",
    )
    time.sleep(chance.random() * 0.05)


def require_each_once(memory: Memory, told: dict[Planned, tuple[int, str]]) -> None:
    """What is stored is what was acknowledged, each once, under the number and id that were told, without gaps."""
    found: Counter[tuple[str, str]] = Counter()
    for session in sorted({turn.session for turn in told}):
        turns = list(memory.flow(FLOW).session(session).history.all())
        assert [turn.seq for turn in turns] == list(range(1, len(turns) + 1)), session
        found.update((session, turn.content) for turn in turns)
        kept = {turn.content: (turn.seq, turn.id) for turn in turns}
        for turn, acknowledged in told.items():
            assert turn.session != session or kept[turn.content] == acknowledged
    assert found == Counter((turn.session, turn.content) for turn in told)
    assert count_events(memory, "flows.append") == len(told)


def count_events(memory: Memory, operation: str) -> int:
    after = count = 0
    while events := memory.call("events.list", {"after": after, "limit": 1000}).events:
        after = events[-1].seq
        count += sum(event.operation == operation for event in events)
    return count


def test_a_backend_that_is_killed_takes_nothing_with_it(server: Server, dsn: str) -> None:
    """The server then ends all connections and recovers, as after a crash."""
    with opened(dsn) as store:
        session, _ = store._group(TENANT)
        pids: list[int] = []

        def work(tx: Tx) -> None:
            note(tx, "noted")
            if not pids:
                pids.append(session.batch.connection.info.backend_pid)
                os.kill(pids[0], signal.SIGKILL)
            notes(tx)

        for number in range(1, 4):
            pids.clear()
            wait_until(lambda: outcome(lambda: store.write(TENANT, work)) is None)
            assert store.read(TENANT, notes) == ["noted"] * number


def test_a_server_in_good_order_is_restarted_unnoticed(server: Server, dsn: str) -> None:
    with Memory(dsn, worker=False) as memory:
        history = memory.flow(FLOW).session("s").history
        for number in range(3):
            history.append(role="user", content=str(number))
            server.restart()
        assert [turn.content for turn in history.all()] == ["0", "1", "2"]


def test_an_outage_is_a_503_and_ends_by_itself(
    server: Server, dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for long while there is no server, and whoever comes first afterwards is served."""
    monkeypatch.setattr(store, "PAUSES_S", (0.0, 0.02))
    turn = {"role": "user", "content": "hello"}
    with live(cast(Path, dsn)) as running, running.client() as client:
        path = f"/v1/flows/{FLOW}/sessions/s/turns"
        assert client.post(path, json=turn).status_code == 201
        server.kill()
        time.sleep(1)  # until no key is known by heart any more
        for method, asked, body in (
            ("GET", "/v1/flows", None),
            ("POST", path, turn),
            ("GET", "/ready", None),
            ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ):
            answer = client.request(method, asked, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), answer.text
            assert int(answer.headers["retry-after"]) >= 1
            assert "127.0.0.1" not in answer.text, "where the database is, is nobody's business"
        assert client.get("/health").status_code == 200
        server.start()
        assert client.get("/ready").status_code == 200
        assert client.post(path, json=turn).status_code == 201
        assert len(client.get(path).json()["turns"]) == 2
        assert running.engine.worker.running
    assert not [record for record in caplog.records if "crashed" in record.message]


def test_opening_a_memory_during_an_outage_fails_and_can_be_repeated(server: Server, dsn: str) -> None:
    server.kill()
    with pytest.raises(Unavailable, match="cannot be reached"):
        Memory(dsn, worker=False)
    server.start()
    with Memory(dsn, worker=False) as memory:
        assert memory.flows() == []


def test_a_watcher_comes_back_after_an_outage(server: Server, dsn: str) -> None:
    with opened(dsn) as store:
        with pytest.raises(Unavailable, match="watch again"), store.notifier.listen() as messages:  # noqa: PT012
            server.restart(immediate=True)
            for _ in range(100):
                next(messages)
        with store.notifier.listen() as messages:
            wait_until(lambda: store.notifier.is_watched)
            store.notifier.publish(b"back")
            assert b"back" in [next(messages) for _ in range(4)]


# -- a process is stopped ------------------------------------------------------------------------------------------------

HOLDS_THE_TENANT = """
    import sys, time
    from memwell.errors import MemwellError
    from memwell.storage.postgres import PostgresStore

    store = PostgresStore(sys.argv[1], clock=lambda: 0)

    def work(tx):
        tx.run("add_event", at=0, operation="slow", collection_id=None, address_id=None, entries=0, actor="test")
        print("in the middle", flush=True)
        sys.stdin.readline()
        tx.run("add_event", at=0, operation="done", collection_id=None, address_id=None, entries=0, actor="test")

    store.write("acme", work)
    print("written", flush=True)
    store.close()
"""


@pytest.fixture(scope="module")
def quick_server() -> Iterator[Server]:
    """It outlives these tests, so it need not be durable."""
    with Server() as server:
        server.template("memwell", lambda dsn: Memory(dsn, worker=False).close())
        yield server


@pytest.fixture
def quick(quick_server: Server) -> Iterator[str]:
    dsn = quick_server.database("memwell")
    yield dsn
    quick_server.drop(dsn)


@contextmanager
def stopped(dsn: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, in the middle of a transaction, which gets no time any more."""
    process = python(HOLDS_THE_TENANT, dsn)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n", process.communicate()[1]
        os.kill(process.pid, signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SOON_S)


def test_a_process_that_is_stopped_holds_up_writers_but_not_for_ever_and_readers_not_at_all(quick: str) -> None:
    with opened(rewrite(quick, options="-c lock_timeout=300ms")) as store:
        store.write(TENANT, note)
        store.create("other")
        with stopped(quick) as process:
            for _ in range(2):
                error = outcome(lambda: store.write(TENANT, note))
                assert type(error) is Unavailable
                assert "Another process has locked this tenant: try again" in error.message
            assert store.read(TENANT, notes) == ["noted"], "a reader who was held up would be told so, too"
            store.write("other", note)
            process.kill()
            process.wait(SOON_S)
            wait_until(lambda: outcome(lambda: store.write(TENANT, note)) is None)
        assert store.read(TENANT, notes) == ["noted", "noted"]


def test_many_writers_behind_a_process_that_is_stopped_all_hear_of_it(quick: str) -> None:
    with opened(rewrite(quick, options="-c lock_timeout=300ms"), connections=2) as store, stopped(quick):
        outcomes: list[Any] = []
        threads = [
            Thread(target=lambda: outcomes.append(outcome(lambda: store.write(TENANT, note)))) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S)
        assert {type(each) for each in outcomes} == {Unavailable}
        assert len(outcomes) == 12
        assert store.read(TENANT, notes) == []


def test_what_a_process_holds_that_is_stopped_for_long_is_taken_from_it(quick: str) -> None:
    """And when it goes on, it writes what it wanted to write, once and whole."""
    impatient = rewrite(quick, options="-c idle_in_transaction_session_timeout=400ms")
    with opened(quick) as store, stopped(impatient) as process:
        store.write(TENANT, note)
        assert store.read(TENANT, notes) == ["noted"]
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate("go on\ngo on\n", timeout=SOON_S)
        assert (out, process.returncode) == ("in the middle\nwritten\n", 0), err
        assert store.read(TENANT, notes) == ["noted", "slow", "done"]
