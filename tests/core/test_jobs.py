"""Jobs: durable, leased, fenced, retried, visible (G7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from memwell import Conflict, LeaseLost, config
from memwell.clock import SECOND
from memwell.core.engine import Engine
from memwell.jobs import queue
from memwell.jobs.queue import MAX_ATTEMPTS, JobRun, Repeat, after_failure, backoff
from memwell.jobs.worker import Worker
from memwell.registry import open_engine
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, located
from ..waiting import wait_until

pytestmark = pytest.mark.every_engine


@pytest.fixture
def engine(tmp_path: Path, clock: FrozenClock) -> Iterator[Engine]:
    engine = open_engine(config.load(home=located(tmp_path)), clock)
    engine.ensure_tenant("default")
    yield engine
    engine.close()


def worker(engine: Engine, handler: Any, lease: int = 30 * SECOND) -> Worker:
    return Worker(engine.store, engine.clock, {"test": handler}, lease)


def enqueue(engine: Engine, **payload: Any) -> str:
    return engine.store.write("default", lambda tx: queue.enqueue(tx, "test", payload, engine.clock.now()))


def state(engine: Engine, job_id: str) -> Any:
    return engine.store.read("default", lambda tx: queue.find(tx, job_id))


def test_a_job_exists_exactly_if_what_caused_it_does(engine: Engine) -> None:
    def fails(tx: Any) -> None:
        queue.enqueue(tx, "test", {}, 0)
        raise RuntimeError("undo")

    with pytest.raises(RuntimeError):
        engine.store.write("default", fails)
    assert worker(engine, lambda run: {}).run_due("default") == 0
    enqueue(engine)
    assert worker(engine, lambda run: {}).run_due("default") == 1


def test_a_result_is_kept(engine: Engine) -> None:
    job_id = enqueue(engine, a=1)
    worker(engine, lambda run: {"saw": run.payload}).run_due("default")
    job = state(engine, job_id)
    assert (job.state, job.result, job.attempts) == ("done", '{"saw":{"a":1}}', 1)


def test_a_failing_job_is_tried_again_later_and_dies_in_the_end(engine: Engine, clock: FrozenClock) -> None:
    def fail(run: JobRun) -> dict[str, Any]:
        raise ValueError("broken")

    job_id = enqueue(engine)
    failing = worker(engine, fail)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert failing.run_due("default") == 1
        assert failing.run_due("default") == 0, "not before its time"
        job = state(engine, job_id)
        assert job.error == "ValueError: broken"
        assert job.state == ("ready" if attempt < MAX_ATTEMPTS else "dead")
        clock.advance(minutes=6)
    assert failing.run_due("default") == 0


@cases(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (8, 128), (20, 300)])
def test_the_pause_doubles_up_to_five_minutes(attempts: int, seconds: int) -> None:
    assert backoff(attempts) == seconds * SECOND


@cases(("attempts", "expected"), [(1, "ready"), (7, "ready"), (8, "dead"), (9, "dead")])
def test_outcomes_of_a_failure(attempts: int, expected: str) -> None:
    assert after_failure(attempts, 8, 0)[0] == expected


def test_a_repeating_job_comes_back_at_its_time(engine: Engine, clock: FrozenClock) -> None:
    job_id = enqueue(engine)
    repeating = worker(engine, lambda run: Repeat(clock.now() + 60 * SECOND))
    assert repeating.run_due("default") == 1
    assert repeating.run_due("default") == 0
    clock.advance(minutes=1)
    assert repeating.run_due("default") == 1
    assert state(engine, job_id).state == "ready"


def test_a_worker_that_slept_past_its_lease_cannot_write(engine: Engine, clock: FrozenClock) -> None:
    """G7: its successor has a higher fence; the late write, heartbeat and result are all refused."""
    job_id = enqueue(engine)
    late: list[str] = []

    def sleeper(run: JobRun) -> dict[str, Any]:
        clock.advance(minutes=1)  # past the lease, as a stopped process would find
        assert worker(engine, lambda other: {"by": "successor"}).run_due("default") == 1
        try:
            run.write(lambda tx: tx.run("delete_jobs_of", addresses="[1]"))
        except LeaseLost:
            late.append("refused")
            raise
        return {"by": "sleeper"}

    worker(engine, sleeper).run_due("default")
    assert late == ["refused"]
    assert state(engine, job_id).result == '{"by":"successor"}'


def test_a_late_result_is_dropped_even_if_the_job_wrote_nothing(engine: Engine, clock: FrozenClock) -> None:
    job_id = enqueue(engine)

    def sleeper(run: JobRun) -> dict[str, Any]:
        clock.advance(minutes=1)
        worker(engine, lambda other: {"by": "successor"}).run_due("default")
        return {"by": "sleeper"}

    worker(engine, sleeper).run_due("default")
    assert state(engine, job_id).result == '{"by":"successor"}'


def test_a_job_whose_worker_always_dies_is_not_tried_for_ever(engine: Engine, clock: FrozenClock) -> None:
    job_id = enqueue(engine)
    for _ in range(MAX_ATTEMPTS):
        claim = {"id": job_id, "now": clock.now(), "lease_until": clock.now() + SECOND, "worker": "dies"}
        assert engine.store.write("default", lambda tx, c=claim: tx.row("claim_job", **c)) is not None  # type: ignore[misc]
        clock.advance(seconds=2)
    worker(engine, lambda run: {}).run_due("default")
    assert state(engine, job_id).state == "dead"


def test_a_long_job_keeps_its_lease(engine: Engine) -> None:
    """The heartbeat renews it, so nobody else takes the job meanwhile."""
    from memwell.clock import SystemClock

    engine.clock = SystemClock()
    lease = SECOND // 2
    job_id = enqueue(engine)
    stolen: list[int] = []

    def slow(run: JobRun) -> dict[str, Any]:
        for _ in range(10):
            time.sleep(0.15)
            stolen.append(worker(engine, lambda other: {}, lease).run_due("default"))
        return {"by": "first"}

    worker(engine, slow, lease).run_due("default")
    assert stolen == [0] * 10
    assert state(engine, job_id).result == '{"by":"first"}'


def test_a_worker_leaves_alone_what_it_does_not_know(engine: Engine) -> None:
    job_id = engine.store.write("default", lambda tx: queue.enqueue(tx, "later", {}, engine.clock.now()))
    assert worker(engine, lambda run: {}).run_due("default") == 0
    assert state(engine, job_id).state == "ready"


def test_work_is_found_by_hints_and_without_them(engine: Engine, clock: FrozenClock) -> None:
    """A hint that was lost costs time, not the job: the walk over the tenants finds it."""
    enqueue(engine)
    engine.store.control.hint("forget_hint", tenant="default")
    found = worker(engine, lambda run: {})
    assert found.run_hinted() == 0
    found._sweep()
    assert found.run_hinted() == 1


def test_what_is_to_be_done_once_waits_for_no_clock_that_was_set_back(engine: Engine, clock: FrozenClock) -> None:
    """G8, G9: what was deleted is erased, also if the clock was ahead by less than a daily job waits."""
    clock.advance(hours=47)
    job_id = enqueue(engine)
    clock.advance(hours=-47)
    known = worker(engine, lambda run: {})
    known._sweep()
    known.run_hinted()
    assert state(engine, job_id).state == "done"


@pytest.mark.parametrize("ahead", [{"hours": 1}, {"days": 365}], ids=["an hour", "a year"])
def test_a_clock_that_is_set_back_leaves_no_job_waiting(
    engine: Engine, clock: FrozenClock, ahead: dict[str, float]
) -> None:
    """G8: what was put off, and what was taken by a worker that has died, is done within the time that it would have taken."""

    def dies(run: JobRun) -> dict[str, Any]:
        raise KeyboardInterrupt

    known = worker(engine, lambda run: {})
    known._sweep()
    clock.advance(**ahead)
    put_off, taken = enqueue(engine), enqueue(engine)
    assert worker(engine, lambda run: Repeat(engine.clock.now() + 60 * SECOND)).run_due("default") == 2
    clock.advance(minutes=1)
    with pytest.raises(KeyboardInterrupt):
        worker(engine, dies).run_due("default")
    clock.advance(**{unit: -count for unit, count in ahead.items()})
    clock.advance(hours=1, minutes=1)  # an hour is a wait that a job may have
    known._sweep()
    clock.advance(minutes=1)
    known.run_hinted()
    assert [state(engine, job_id).state for job_id in (put_off, taken)] == ["done", "done"]


def test_jobs_can_be_listed_cancelled_retried_and_waited_for(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        session = memory.flow("f").session("s")
        session.history.append(role="user", content="x")
        job_id = session.end().job or ""
        assert [job.id for job in memory.jobs.list(state="ready", kind="consolidate")] == [job_id]
        with pytest.raises(Conflict, match="ready"):
            memory.jobs.retry(job_id)
        assert memory.jobs.cancel(job_id).state == "cancelled"
        with pytest.raises(Conflict, match="cancelled"):
            memory.jobs.cancel(job_id)
        assert memory.jobs.retry(job_id).state == "ready"
        assert memory.jobs.wait(memory.call("flows.delete", {"flow": "f"}).job).state == "done"
        backlog = {(line.kind, line.state): line.count for line in memory.status().backlog}
        assert backlog["erase", "done"] == 1
        erasure = memory.call("flows.append", {"flow": "f", "session": "s", "role": "user", "content": "x"})
        assert erasure.seq == 1
        job_id = memory.call("flows.delete_session", {"flow": "f", "session": "s"}).job
        with pytest.raises(Conflict, match="cannot be cancelled"):
            memory.jobs.cancel(job_id)


def test_the_embedded_worker_runs_by_itself_unless_it_is_off(tmp_path: Path) -> None:
    with Memory(tmp_path / "on") as memory:
        memory.flow("f").session("s").history.append(role="user", content="x")
        job_id = memory.call("flows.delete_session", {"flow": "f", "session": "s"}).job
        wait_until(lambda: memory.jobs.show(job_id).state == "done")
        assert memory.status().worker
    with Memory(tmp_path / "off", worker=False) as memory:
        memory.flow("f").session("s").history.append(role="user", content="x")
        job_id = memory.call("flows.delete_session", {"flow": "f", "session": "s"}).job
        assert not memory.status().worker
        assert memory.jobs.show(job_id).state == "ready"


def test_tenants_take_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """G9: one that has much to do does not keep the others waiting: after its time it goes behind them."""
    monkeypatch.setattr("memwell.jobs.worker.TURN_S", 0.0)
    order: list[str] = []
    engine.ensure_tenant("busy")
    for tenant, count in (("busy", 3), ("default", 1)):
        for _ in range(count):
            engine.store.write(tenant, lambda tx: queue.enqueue(tx, "test", {}, engine.clock.now() - SECOND))
    engine.store.control.hint("add_hint", tenant="busy", due_at=0)  # it has waited for longest

    def note(run: JobRun) -> dict[str, Any]:
        order.append(run.reach.key)
        return {}

    fair = worker(engine, note)
    assert [fair.run_hinted() for _ in range(4)] == [2, 1, 1, 0]
    assert order == ["busy", "default", "busy", "busy"]


def test_long_jobs_keep_no_others_waiting(engine: Engine) -> None:
    """G9: nobody's erasure waits until somebody's files are read."""
    begun, done = Event(), Event()

    def slow(run: JobRun) -> dict[str, Any]:
        begun.set()
        return {"in time": done.wait(30)}

    def quick(run: JobRun) -> dict[str, Any]:
        done.set()
        return {}

    both = Worker(engine.store, engine.clock, {"slow": slow, "quick": quick}, slow=("slow",))
    reading = engine.store.write("default", lambda tx: queue.enqueue(tx, "slow", {}, engine.clock.now()))
    both.start()
    assert begun.wait(30)
    engine.store.write("default", lambda tx: queue.enqueue(tx, "quick", {}, engine.clock.now()))
    both.wake()
    assert done.wait(30)
    both.stop()
    assert (state(engine, reading).result, both.running) == ('{"in time":true}', False)
