"""Group commit: many writers share one sync, and nothing is acknowledged before it is durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import apsw
import pytest

from memwell.storage.group_commit import MAX_BATCH, GroupCommit
from memwell.storage.sqlite.file import SqliteSession

from .scene import at_once, run_python

pytestmark = pytest.mark.engines("sqlite")

QUEUE_UP_S = 0.05


class Failed(Exception):
    """What a work of these tests raises."""


class Table:
    """A file with one table of numbers, written through a group commit."""

    def __init__(self, path: Path) -> None:
        self.db = apsw.Connection(str(path))
        self.db.pragma("journal_mode", "wal")
        self.db.execute("CREATE TABLE number (n INTEGER NOT NULL)")
        self.group = GroupCommit(SqliteSession(self.db))
        self.commits = 0
        self.sync_s = 0.0
        self.db.set_commit_hook(self._count)

    def add(self, n: int, then: Callable[[], object] = lambda: None) -> int:
        """Write a number; when this returns, it is there."""

        def work() -> int:
            assert self.db.in_transaction
            self.db.execute("INSERT INTO number VALUES (?)", (n,))
            then()
            return n

        return self.group.run(work)

    def add_together(self, *works: Callable[[], Any]) -> list[Any]:
        """What becomes of works that queue up in this order while somebody else is writing; they share a commit."""
        holding, queued = Event(), Event()
        outcomes: dict[int, Any] = {}

        def follow(n: int) -> None:
            outcomes[n] = caught(works[n])

        def hold() -> None:
            holding.set()
            queued.wait()

        threads = [Thread(target=self.group.alone, args=(hold,))]
        threads += [Thread(target=follow, args=(n,)) for n in range(len(works))]
        for thread in threads:
            thread.start()
            holding.wait()
            time.sleep(0.001)
        time.sleep(QUEUE_UP_S)
        queued.set()
        for thread in threads:
            thread.join(timeout=10)
        assert not any(thread.is_alive() for thread in threads), "a writer hangs"
        return [outcomes[n] for n in range(len(works))]

    def numbers(self) -> list[int]:
        rows: list[Any] = self.db.execute("SELECT n FROM number ORDER BY n").fetchall()
        return [row[0] for row in rows]

    def _count(self) -> bool:
        self.commits += 1
        time.sleep(self.sync_s)
        return False


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    table = Table(tmp_path / "numbers.db")
    yield table
    table.db.close()


def test_every_work_of_many_writers_is_done_once(table: Table) -> None:
    assert at_once(table.add, range(2000), threads=32) == list(range(2000)) == table.numbers()


def test_thirty_two_writers_share_commits(table: Table) -> None:
    table.sync_s = 0.001  # a disk's, while in memory nobody would come to wait
    at_once(table.add, range(640), threads=32)
    assert table.commits < 640 / 2


def test_queued_writers_share_one_commit(table: Table) -> None:
    works = [adding(table, n) for n in range(8)]
    assert table.add_together(*works) == list(range(8)) == table.numbers()
    assert table.commits == 1


def test_a_batch_is_bounded(table: Table) -> None:
    works = [adding(table, n) for n in range(MAX_BATCH + 10)]
    assert table.add_together(*works) == list(range(MAX_BATCH + 10)) == table.numbers()
    assert table.commits == 2


def test_a_single_writer_uses_no_other_thread(table: Table) -> None:
    assert [table.add(n) for n in range(5)] == list(range(5)) == table.numbers()
    assert table.commits == 5


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [0, 3, 7])
def test_a_failing_work_costs_only_its_author(table: Table, failing: int) -> None:
    outcomes = table.add_together(*[adding(table, n, fail if n == failing else nothing) for n in range(8)])
    assert type(outcomes.pop(failing)) is Failed
    assert outcomes == [n for n in range(8) if n != failing] == table.numbers()
    assert table.commits == 1


def test_a_failing_statement_costs_only_its_author(table: Table) -> None:
    def break_a_rule() -> None:
        table.db.execute("INSERT INTO number VALUES (NULL)")

    outcomes = table.add_together(adding(table, 0), adding(table, 1, break_a_rule), adding(table, 2))
    assert type(outcomes[1]) is apsw.ConstraintError
    assert [outcomes[0], outcomes[2]] == table.numbers() == [0, 2]


def test_each_writer_gets_its_own_error(table: Table) -> None:
    def fail_as(n: int) -> Callable[[], None]:
        return lambda: fail(n)

    outcomes = table.add_together(*[adding(table, n, fail_as(n)) for n in range(8)])
    assert [error.args for error in outcomes] == [(n,) for n in range(8)]
    assert table.numbers() == []
    assert table.add(9) == 9


def test_a_transaction_that_sqlite_rolled_back_is_not_acknowledged(table: Table) -> None:
    """As on a full disk: SQLite rolls back, under everybody's feet."""

    def give_up() -> None:
        table.db.execute("ROLLBACK")
        raise Failed

    outcomes = table.add_together(adding(table, 0), adding(table, 1, give_up), adding(table, 2))
    assert all(isinstance(each, Exception) for each in outcomes)
    assert table.numbers() == []
    assert table.add(4) == 4


class FaultySession(SqliteSession):
    """Counts transactions, and cannot roll back the next ones."""

    begun = 0
    failures = 0

    def begin(self) -> None:
        self.begun += 1
        super().begin()

    def roll_back(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Failed
        super().roll_back()


def test_no_follower_leads_beside_another_after_a_roll_back_that_failed(table: Table) -> None:
    session = FaultySession(table.db)
    session.failures = 2
    table.group = GroupCommit(session)
    outcomes = table.add_together(adding(table, 0), adding(table, 1, fail), adding(table, 2))
    assert all(isinstance(each, Exception) for each in outcomes)
    assert session.begun == 1
    assert type(caught(adding(table, 8))) is apsw.SQLError  # finds the transaction open, and rolls it back
    assert table.add(9) == 9
    assert table.numbers() == [9]


def test_no_follower_leads_beside_another_after_the_connection_is_closed(table: Table) -> None:
    session = FaultySession(table.db)
    table.group = GroupCommit(session)
    outcomes = table.add_together(lambda: table.group.alone(table.db.close), *[adding(table, n) for n in range(3)])
    assert [type(each) for each in outcomes[1:]] == [apsw.ConnectionClosedError] * 3
    assert session.begun == 1


# -- solitary work ---------------------------------------------------------------------------------------------------


def test_solitary_work_never_overlaps_a_transaction(table: Table) -> None:
    alone: list[int] = []

    def checkpoint() -> None:
        assert not table.db.in_transaction
        alone.append(1)
        table.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        time.sleep(0.001)
        alone.pop()

    def write(n: int) -> None:
        if n % 7 == 0:
            table.group.alone(checkpoint)
        else:
            table.add(n, then=lambda: fail() if alone else None)

    at_once(write, range(700), threads=16)
    assert table.numbers() == [n for n in range(700) if n % 7]


def test_solitary_work_keeps_its_place_in_the_line(table: Table) -> None:
    seen: list[list[int]] = []
    table.add_together(
        adding(table, 0), lambda: table.group.alone(lambda: seen.append(table.numbers())), adding(table, 1)
    )
    assert seen == [[0]]
    assert table.numbers() == [0, 1]


def test_a_failing_solitary_work_fails_alone(table: Table) -> None:
    outcomes = table.add_together(adding(table, 0), lambda: table.group.alone(fail), adding(table, 1))
    assert type(outcomes[1]) is Failed
    assert [outcomes[0], outcomes[2]] == table.numbers() == [0, 1]


# -- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupted", [0, 4, 7])
def test_an_interrupted_work_acknowledges_nothing_falsely(table: Table, interrupted: int) -> None:
    """The first in line leads, and is the one in whose thread the interrupt is raised."""
    works = [adding(table, n, interrupt if n == interrupted else nothing) for n in range(8)]
    outcomes = table.add_together(*works)
    assert type(outcomes[0]) is KeyboardInterrupt
    assert [n for n in outcomes if isinstance(n, int)] == table.numbers()
    assert interrupted not in table.numbers()
    assert at_once(table.add, range(100, 110), threads=4) == list(range(100, 110))


def test_an_interrupt_while_each_is_tried_apart_acknowledges_nothing_falsely(table: Table) -> None:
    works = [adding(table, 0), adding(table, 1, second_time(interrupt)), adding(table, 2, fail), adding(table, 3)]
    outcomes = table.add_together(*works)
    assert type(outcomes[0]) is KeyboardInterrupt
    assert [n for n in outcomes if isinstance(n, int)] == table.numbers()
    assert table.add(9) == 9


def test_an_interrupted_solitary_work_lets_the_next_one_lead(table: Table) -> None:
    outcomes = table.add_together(lambda: table.group.alone(interrupt), adding(table, 1), adding(table, 2))
    assert type(outcomes[0]) is KeyboardInterrupt
    assert outcomes[1:] == table.numbers() == [1, 2]


def test_an_interrupt_right_after_the_commit_does_not_take_it_back(table: Table) -> None:
    """The leader hears of it when the sync returns: what the others wrote is durable, and they are told so."""
    table.db.set_wal_hook(interrupt_once())
    outcomes = table.add_together(*[adding(table, n) for n in range(4)])
    assert type(outcomes[0]) is KeyboardInterrupt
    assert outcomes[1:] == [1, 2, 3]
    assert table.numbers() == [0, 1, 2, 3]


def test_an_interrupt_right_after_the_commit_does_not_make_a_failure_a_success(table: Table) -> None:
    table.db.set_wal_hook(interrupt_once())
    outcomes = table.add_together(adding(table, 0), adding(table, 1), adding(table, 2, fail))
    assert table.numbers() == [0, 1]
    assert outcomes[1] == 1
    assert type(outcomes[2]) is Failed


def test_an_interrupt_at_the_end_of_a_wait_leaves_no_writer_hanging() -> None:
    """Ctrl-C in the main thread, at the moment in which its leader has finished."""
    run_python(INTERRUPTED_AS_THE_WAIT_ENDS)


# The leader wakes the main thread and interrupts it before it can run: the switch interval keeps it from running.
INTERRUPTED_AS_THE_WAIT_ENDS = """
import faulthandler, signal, sys, threading, time
import apsw
from memwell.storage.group_commit import GroupCommit
from memwell.storage.sqlite.file import SqliteSession

faulthandler.dump_traceback_later(5, exit=True)
group = GroupCommit(SqliteSession(apsw.Connection("")))
leading = threading.Event()

def hold():
    leading.set()
    time.sleep(0.1)

def lead():
    group.run(hold)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

leader = threading.Thread(target=lead)
sys.setswitchinterval(1)
try:
    leader.start()
    leading.wait()
    group.run(lambda: None)
    time.sleep(1)
except KeyboardInterrupt:
    sys.setswitchinterval(0.005)
leader.join()
assert group.run(lambda: 7) == 7
"""


# -- small words -----------------------------------------------------------------------------------------------------


def adding(table: Table, n: int, then: Callable[[], object] = lambda: None) -> Callable[[], int]:
    return lambda: table.add(n, then)


def caught(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 -- interrupts are what these tests are about
        return error


def nothing() -> None:
    """All is well."""


def fail(*about: object) -> None:
    raise Failed(*about)


def interrupt() -> None:
    raise KeyboardInterrupt


def second_time(action: Callable[[], None]) -> Callable[[], None]:
    """A work is done again when another one failed: act then."""
    times = iter([nothing, action])
    return lambda: next(times)()


def interrupt_once() -> Callable[[apsw.Connection, str, int], int]:
    """SQLite calls this when a commit is in the log and synced."""
    actions = iter([interrupt])

    def committed(db: apsw.Connection, name: str, pages: int) -> int:
        next(actions, nothing)()
        return 0

    return committed
