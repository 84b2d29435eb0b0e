"""`kill -9` at any moment: nothing acknowledged is lost, nothing is doubled, and an erasure is finished (G1)."""

from __future__ import annotations

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import apsw
import pytest

from memwell import Turn, Unavailable
from memwell.clock import SECOND, SystemClock
from memwell.core.space import Erasure
from memwell.jobs.queue import LEASE
from memwell.storage.sqlite.connect import checksum_vfs

from ..engines import DATABASES, Memory, query, remains
from ..processes import FLOW, Planned, Server, Writers, planned
from ..waiting import wait_until

pytestmark = pytest.mark.long

SEED = 20261115
WRITERS = 8
LOOK_EVERY = 10

TURNS = 20_000
CANARY = "quetzalcanary"


class Ledger:
    """What each writer was told: the number and the id that its n-th turn was given."""

    def __init__(self) -> None:
        self.told: list[list[tuple[int, str]]] = [[] for _ in range(WRITERS)]
        self._read = 0

    def note(self, writer: int, number: int, seq: int, entry_id: str) -> None:
        """Write down an acknowledgement. One that comes again must say the same."""
        told = self.told[writer]
        if number == len(told):
            told.append((seq, entry_id))
        assert told[number] == (seq, entry_id), f"an acknowledged turn was written again: {writer} {number}"

    def read(self, out: Path) -> None:
        """Note the whole lines that are new in a file. A process may be killed in the middle of one."""
        text = out.read_bytes()
        whole = text.rfind(b"\n") + 1
        for line in text[self._read : whole].decode().splitlines():
            writer, number, seq, entry_id = line.split()
            self.note(int(writer), int(number), int(seq), entry_id)
        self._read = len(text)

    def firsts(self) -> list[int]:
        """Where each writer goes on: it repeats its last acknowledged turn, the one most easily lost."""
        return [max(len(told) - 1, 0) for told in self.told]

    def compare(self, stored: dict[str, list[Turn]], *, in_flight: bool) -> None:
        """Everything acknowledged is there, once, where it was said to be. Each writer may have one turn in flight."""
        found: dict[tuple[int, int], tuple[str, int, str]] = {}
        for session, turns in stored.items():
            assert [turn.seq for turn in turns] == list(range(1, len(turns) + 1)), f"gaps in {session}"
            latest: dict[int, int] = defaultdict(lambda: -1)
            for turn in turns:
                writer, number = map(int, turn.content.split()[:2])
                assert turn.content == planned(writer, number).content
                assert (writer, number) not in found, f"doubled: {writer} {number}"
                assert number > latest[writer], f"out of order in {session}: {writer} {number}"
                latest[writer] = number
                found[writer, number] = session, turn.seq, turn.id
        for writer, told in enumerate(self.told):
            for number, (seq, entry_id) in enumerate(told):
                assert found.pop((writer, number), None) == (planned(writer, number).session, seq, entry_id)
        allowed = {(writer, len(told)) for writer, told in enumerate(self.told)} if in_flight else set()
        assert set(found) <= allowed, "what nobody was writing is there"


def read_back(memory: Memory) -> dict[str, list[Turn]]:
    flow = memory.flow(FLOW)
    return {info.session: list(flow.session(info.session).history.all()) for info in flow.sessions()}


def append(memory: Memory, turn: Planned) -> Turn:
    history = memory.flow(FLOW).session(turn.session).history
    return history.append(role="user", content=turn.content, key=turn.key)


def look_into(home: Path, ledger: Ledger, *, in_flight: bool) -> None:
    with Memory(home, worker=False) as memory:
        ledger.compare(read_back(memory), in_flight=in_flight)
    require_integrity(home)


def require_integrity(home: Path) -> None:
    files = sorted(home.rglob("*.db"))
    assert len(files) == (2 if DATABASES.engine == "sqlite" else 0), "PostgreSQL sees to its own"
    for file in files:
        db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE, vfs=checksum_vfs())
        try:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        finally:
            db.close()


def test_embedded_writers_that_are_killed_lose_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    """G1. Every fifth process is killed while it starts, the others under load; each repeats what may be lost."""
    random, ledger = Random(SEED), Ledger()
    with Writers(tmp_path / "home") as writers:
        for number in range(1, rounds + 1):
            writers.start(ledger.firsts())
            if number % 5:
                writers.wait_until_acknowledged()
            time.sleep(random.uniform(0.05, 0.5))
            writers.kill()
            ledger.read(writers.out)
            if number % LOOK_EVERY == 0:
                look_into(writers.home, ledger, in_flight=True)
        assert writers.err.read_text() == ""
    with Memory(writers.home, worker=False) as memory:
        for writer, told in enumerate(ledger.told):
            assert told, f"writer {writer} was never acknowledged"
            turn = append(memory, planned(writer, len(told)))
            ledger.note(writer, len(told), turn.seq, turn.id)
    look_into(writers.home, ledger, in_flight=False)


def test_clients_of_a_killed_server_lose_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    """G1, over HTTP: a client repeats a request with its key until it is acknowledged, whatever the server does."""
    random, ledger, enough = Random(SEED), Ledger(), Event()
    with Server(tmp_path / "home").start() as server, server.memory() as memory:

        def write(writer: int) -> None:
            while not enough.is_set():
                number = len(ledger.told[writer])
                turn = _append_at_last(memory, planned(writer, number))
                ledger.note(writer, number, turn.seq, turn.id)

        with ThreadPoolExecutor(WRITERS) as pool:
            under_way = [pool.submit(write, writer) for writer in range(WRITERS)]
            try:
                for _ in range(max(rounds // 10, 1)):
                    before = [len(told) for told in ledger.told]
                    time.sleep(random.uniform(0.05, 0.5))
                    server.kill()
                    server.start()
                    _wait_until_all_went_on(ledger, before)
            finally:
                enough.set()
            for writing in under_way:
                writing.result()
        ledger.compare(read_back(memory), in_flight=False)
        assert "crashed" not in server.err.read_text()
        server.stop()
    look_into(server.home, ledger, in_flight=False)


def _append_at_last(memory: Memory, turn: Planned) -> Turn:
    deadline = time.monotonic() + 60
    while True:
        try:
            return append(memory, turn)
        except Unavailable:
            assert time.monotonic() < deadline, "the server did not come back"
            time.sleep(0.01)


def _wait_until_all_went_on(ledger: Ledger, before: list[int]) -> None:
    counts = list(zip(ledger.told, before, strict=True))
    wait_until(lambda: all(len(told) > count for told, count in counts), "a writer did not go on")


class Later(SystemClock):
    """The wall clock after the lease of a worker that was killed."""

    def now(self) -> int:
        return super().now() + LEASE + SECOND


def test_an_erasure_whose_worker_was_killed_is_finished(tmp_path: Path) -> None:
    """G1, G9: killed between two steps of an erasure; the next worker does the rest, and no byte is left."""
    jobs: list[str] = []
    with Server(tmp_path / "home") as server:
        assert _kill_an_erasure_half_way(server, jobs), "every erasure was finished before its server was killed"
    with Memory(server.home, clock=Later()) as memory:
        finished = [memory.jobs.wait(job_id) for job_id in jobs]
        assert [job.state for job in finished] == ["done"] * len(jobs)
        assert finished[-1].attempts == 2
        assert memory.flow(FLOW).sessions() == []
        assert _traces(server.home) == []
    assert _traces(server.home) == []
    require_integrity(server.home)
    receipts = [job.result or {} for job in finished]
    assert [receipt["residual"] for receipt in receipts] == [0] * len(jobs)
    assert [receipt["layers"]["entries"] for receipt in receipts] == [TURNS] * len(jobs), (
        "not all that was erased counts"
    )


def _kill_an_erasure_half_way(server: Server, jobs: list[str]) -> bool:
    """Kill the server while it erases a session. It may be too quick for us a few times."""
    for attempt in range(5):
        session = f"{CANARY}-{attempt}"
        _fill(server.home, session)
        assert _traces(server.home)
        server.start()
        if 0 < _kill_while_erasing(server, session, jobs) < TURNS:
            return True
    return False


def _fill(home: Path, session: str) -> None:
    with Memory(home, worker=False) as memory:
        history = memory.flow(FLOW).session(session).history
        for first in range(0, TURNS, 1000):
            turns = [{"role": "user", "content": f"{n} said {CANARY} {n}"} for n in range(first, first + 1000)]
            history.extend(turns, key=f"{session}-{first}")


def _kill_while_erasing(server: Server, session: str, jobs: list[str]) -> int:
    """Have a session erased and kill the server once the first of its entries are gone. Returns how many were left."""
    with server.memory() as memory:
        erasure: Erasure = memory.call("flows.delete_session", {"flow": FLOW, "session": session})
    jobs.append(erasure.job)
    wait_until(lambda: not query(server.home, "SELECT 1 FROM entry WHERE seq = 1"), "the erasure did not begin")
    server.kill()
    return len(query(server.home, "SELECT 1 FROM entry"))


def _traces(home: Path) -> list[str]:
    """The files that hold the canary, in the data directory and beside it, where the server's output is."""
    return [name for name, data in remains(home.parent).items() if CANARY.encode() in data]
