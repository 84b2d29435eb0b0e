"""The contract of `storage.port`, which every engine keeps. Nothing here knows which engine it talks to."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest

from memwell.clock import DAY, HOUR, SECOND
from memwell.erasure.erase import bury, erase, sweep
from memwell.erasure.expire import expire
from memwell.errors import LeaseLost, MemwellError, NotFound
from memwell.ids import inner_id
from memwell.jobs import queue
from memwell.jobs.queue import Handler, JobRun, StoredJob
from memwell.jobs.worker import Worker
from memwell.model.collection import Address
from memwell.search import upkeep
from memwell.storage.port import Row, Store, Tx

from ..cases import cases
from .conftest import OpenStore
from .scene import (
    KEPT_A_DAY,
    PLACE,
    TENANT,
    FrozenClock,
    at_once,
    contents,
    draft,
    heard,
    note,
    notes,
    outcome,
    say,
    space,
)

pytestmark = pytest.mark.every_engine

HANDLERS: dict[str, Handler] = {"expire": expire, "erase": erase, "sweep": sweep}
LEASE = 30 * SECOND


class Failed(Exception):
    """What a work of these tests raises."""


# -- transactions ----------------------------------------------------------------------------------------------------


def test_a_write_returns_what_its_work_returns(store: Store) -> None:
    assert store.write(TENANT, lambda tx: tx.row("last_event")) == (0,)
    assert store.read(TENANT, lambda tx: "answer") == "answer"


def test_a_write_is_seen_by_the_next_read_of_anybody(store: Store, open_store: OpenStore) -> None:
    elsewhere = open_store()
    assert elsewhere.read(TENANT, notes) == []
    store.write(TENANT, note)
    assert store.read(TENANT, notes) == elsewhere.read(TENANT, notes) == ["noted"]


def test_a_read_of_one_statement_that_takes_more_sees_one_moment_all_the_same(store: Store) -> None:
    def read_around_a_write(tx: Tx) -> tuple[list[str], list[str]]:
        before = notes(tx)
        store.write(TENANT, note)
        return before, notes(tx)

    assert store.read(TENANT, notes, sole=True) == []
    before, after = store.read(TENANT, read_around_a_write, sole=True)
    assert before == after
    assert set(store.read(TENANT, notes, sole=True)) == {"noted"}


def test_a_read_of_one_statement_that_fails_harms_no_other(store: Store) -> None:
    def fail(tx: Tx) -> None:
        notes(tx)
        raise NotFound

    for _ in range(20):
        with pytest.raises(NotFound):
            store.read(TENANT, fail, sole=True)
    assert store.read(TENANT, lambda tx: [notes(tx), notes(tx)]) == [[], []]


def test_an_exception_undoes_the_whole_work(store: Store, clock: FrozenClock) -> None:
    def fail_late(tx: Tx) -> None:
        space(tx, clock).append(PLACE, "s", [draft("one"), draft("two")])
        note(tx)
        raise Failed

    with pytest.raises(Failed):
        store.write(TENANT, fail_late)
    assert store.read(TENANT, notes) == []
    assert heard(store, clock) == []
    assert store.read(TENANT, lambda tx: tx.row("collections_of_name", dialect="flow", name="support")) is None


def test_a_database_error_is_one_of_ours_and_undoes_the_work(store: Store, clock: FrozenClock) -> None:
    job_id = store.write(TENANT, lambda tx: queue.enqueue(tx, "erase", {}, clock.now()))

    def add_twice(tx: Tx) -> None:
        note(tx)
        _add_job(tx, job_id)

    with pytest.raises(MemwellError):
        store.write(TENANT, add_twice)
    assert store.read(TENANT, notes) == []


def test_an_entry_cannot_stand_at_an_address_that_is_not_there(store: Store, clock: FrozenClock) -> None:
    (entry,) = say(store, clock, "hello")

    def misplace(tx: Tx) -> None:
        tx.run("delete_address", id=_address(store, clock).id)

    with pytest.raises(MemwellError):
        store.write(TENANT, misplace)
    assert heard(store, clock) == [entry]


def test_a_read_sees_a_snapshot(store: Store) -> None:
    store.write(TENANT, note)

    def look_twice(tx: Tx) -> tuple[list[str], list[str]]:
        before = notes(tx)
        writer = Thread(target=store.write, args=(TENANT, note))
        writer.start()
        writer.join()
        return before, notes(tx)

    before, after = store.read(TENANT, look_twice)
    assert before == after == ["noted"]
    assert store.read(TENANT, notes) == ["noted", "noted"]


def test_a_read_cannot_write(store: Store) -> None:
    with pytest.raises(MemwellError):
        store.read(TENANT, note)
    assert store.read(TENANT, notes) == []


def test_a_failed_read_leaves_the_next_one_whole(store: Store) -> None:
    def fail(tx: Tx) -> None:
        notes(tx)
        raise Failed

    with pytest.raises(Failed):
        store.read(TENANT, fail)
    store.write(TENANT, note)
    assert store.read(TENANT, notes) == ["noted"]


def test_a_failing_writer_costs_only_itself(store: Store) -> None:
    start = Barrier(16)

    def write(n: int) -> Any:
        def work(tx: Tx) -> int:
            note(tx, f"{n}")
            if n % 5 == 0:
                raise Failed(n)
            return n

        start.wait()
        return outcome(lambda: store.write(TENANT, work))

    outcomes = at_once(write, range(16), threads=16)
    survivors = [n for n in range(16) if n % 5]
    assert [n for n, result in enumerate(outcomes) if result == n] == survivors
    assert [result.args for result in outcomes if isinstance(result, Failed)] == [(0,), (5,), (10,), (15,)]
    assert sorted(store.read(TENANT, notes), key=int) == [str(n) for n in survivors]


def test_numbers_of_an_address_have_no_gaps_under_sixteen_writers(store: Store, clock: FrozenClock) -> None:
    def write(writer: int) -> list[tuple[int, str]]:
        said = [say(store, clock, f"{writer}/{n}")[0] for n in range(50)]
        return [(entry.seq, entry.content) for entry in said]

    acknowledged = [pair for pairs in at_once(write, range(16), threads=16) for pair in pairs]
    stored = [(entry.seq, entry.content) for entry in heard(store, clock)]
    assert stored == sorted(acknowledged)
    assert [seq for seq, _ in stored] == list(range(1, 801))
    assert _address(store, clock).last_seq == 800


# -- tenants ---------------------------------------------------------------------------------------------------------


@cases("call", ["rows", "row", "run"])
def test_a_caller_cannot_bind_the_tenant(store: Store, call: str) -> None:
    with pytest.raises(TypeError):
        store.read(TENANT, lambda tx: getattr(tx, call)("last_event", tenant="other"))


@cases("call", ["read", "write", "scrub", "check"])
def test_an_unknown_tenant_is_not_found(store: Store, call: str) -> None:
    arguments = (notes,) if call in ("read", "write") else ()
    with pytest.raises(NotFound):
        getattr(store, call)("nobody", *arguments)


def test_a_tenant_is_made_once_and_dropped_once(store: Store) -> None:
    assert [store.create("other"), store.create("other")] == [True, False]
    assert [store.drop("other"), store.drop("other")] == [True, False]


def test_of_many_concurrent_creations_of_a_tenant_one_succeeds(store: Store, open_store: OpenStore) -> None:
    stores = [store, open_store()] * 4
    assert sorted(at_once(lambda each: each.create("other"), stores, threads=8)) == [False] * 7 + [True]
    store.write("other", note)
    assert store.read("other", notes) == ["noted"]


def test_tenants_with_the_same_names_do_not_meet(store: Store, clock: FrozenClock) -> None:
    store.create("other")
    say(store, clock, "ours")
    say(store, clock, "theirs", tenant="other")
    assert contents(store, clock) == ["ours"]
    assert contents(store, clock, tenant="other") == ["theirs"]


def test_dropping_a_tenant_leaves_no_byte_of_it(store: Store, clock: FrozenClock) -> None:
    needle = b"a very secret sentence"
    say(store, clock, needle.decode())
    assert store.residue(TENANT, [needle]) == [needle]
    store.drop(TENANT)
    assert store.residue(TENANT, [needle]) == []
    with pytest.raises(NotFound):
        heard(store, clock)


def test_dropping_a_tenant_takes_its_keys_and_hints_with_it(store: Store) -> None:
    store.control.write(("add_key", _key(TENANT)))
    store.write(TENANT, lambda tx: tx.wake(5))
    store.drop(TENANT)
    assert store.control.rows("list_keys", tenant=TENANT, after="", limit=10) == []
    assert store.control.rows("due_hints", now=10, limit=10) == []


def test_a_tenant_made_again_is_empty(store: Store, clock: FrozenClock) -> None:
    say(store, clock, "before")
    store.drop(TENANT)
    assert store.create(TENANT) is True
    assert heard(store, clock) == []
    assert say(store, clock, "after")[0].seq == 1


def test_a_tenant_that_another_process_dropped_is_not_found(
    store: Store, open_store: OpenStore, clock: FrozenClock
) -> None:
    say(store, clock, "before")
    assert contents(store, clock) == ["before"]
    open_store().drop(TENANT)
    with pytest.raises(NotFound):
        say(store, clock, "into the void")
    with pytest.raises(NotFound):
        heard(store, clock)


@pytest.mark.parametrize("maker", ["here", "there"])
def test_a_tenant_that_another_process_dropped_can_be_made_again(
    store: Store, open_store: OpenStore, clock: FrozenClock, maker: str
) -> None:
    elsewhere = open_store()
    say(store, clock, "before")
    assert contents(store, clock) == ["before"]
    elsewhere.drop(TENANT)
    (store if maker == "here" else elsewhere).create(TENANT)
    assert heard(store, clock) == []
    say(store, clock, "after")
    assert contents(elsewhere, clock) == ["after"]


def test_dropping_a_tenant_under_its_writers_tells_each_that_it_is_gone(store: Store, clock: FrozenClock) -> None:
    writing = Barrier(9)

    def write(writer: int) -> Any:
        say(store, clock, "first")
        writing.wait()
        for n in range(2000):
            result = outcome(lambda n=n: say(store, clock, f"{writer}/{n}"))  # type: ignore[misc]
            if isinstance(result, Exception):
                return result
        return None

    def drop(_: int) -> Any:
        writing.wait()
        return store.drop(TENANT)

    *writers, dropped = at_once(lambda n: drop(n) if n == 8 else write(n), range(9), threads=9)
    assert dropped is True
    assert [type(result) for result in writers] == [NotFound] * 8


# -- lifetimes -------------------------------------------------------------------------------------------------------


def test_expired_entries_are_not_read(store: Store, clock: FrozenClock) -> None:
    say(store, clock, "yesterday's", place=KEPT_A_DAY)
    clock.at += DAY - 1
    say(store, clock, "today's", place=KEPT_A_DAY)
    assert contents(store, clock, place=KEPT_A_DAY) == ["yesterday's", "today's"]
    clock.at += 1
    assert contents(store, clock, place=KEPT_A_DAY) == ["today's"]
    clock.at += DAY
    assert contents(store, clock, place=KEPT_A_DAY) == []


def test_no_query_finds_an_expired_entry_or_session(store: Store, clock: FrozenClock) -> None:
    (entry,) = say(store, clock, "hello", place=KEPT_A_DAY)

    def found(tx: Tx) -> list[Any]:
        here = space(tx, clock)
        named = {"dialect": "flow", "now": clock.now()}
        address = {"address_id": address_id, "now": clock.now()}
        return [
            *here.rows("list_addresses", KEPT_A_DAY, before=2**62, before_id=2**62, ended=1, limit=9),
            *here.rows("address_from", KEPT_A_DAY, path=""),
            *here.rows("recent_addresses", KEPT_A_DAY),
            *tx.rows("list_collections", after="", limit=9, **named),
            *tx.rows("names_of_session", path="s", **named),
            *filter(None, [here.entry(KEPT_A_DAY, entry.id)]),
            *tx.rows("last_entries", before=2**62, limit=9, **address),
            *tx.rows("next_entries", after=0, limit=9, **address),
            *tx.rows("last_entries_before", before=2**62, before_address=0, before_seq=0, limit=9, **address),
            *[row for row in tx.rows("count_entries", **address) if row != (0,)],
        ]

    address_id = _address(store, clock, KEPT_A_DAY).id
    assert len(store.read(TENANT, found)) == 10
    clock.at += DAY
    assert store.read(TENANT, found) == []


def test_a_second_version_hides_the_first(store: Store, clock: FrozenClock) -> None:
    (entry,) = say(store, clock, "first")

    def revise(tx: Tx) -> None:
        here = space(tx, clock)
        located = here.entry(PLACE, entry.id)
        assert located is not None
        here.revise(PLACE, located, draft("second"), version=1)

    store.write(TENANT, revise)
    assert [(e.content, e.version, e.seq) for e in heard(store, clock)] == [("second", 2, 2)]


def test_a_session_that_was_ended_is_opened_by_the_next_entry(store: Store, clock: FrozenClock) -> None:
    say(store, clock, "one", "two")
    clock.at += SECOND
    store.write(TENANT, lambda tx: tx.run("end_address", id=_address(store, clock).id, now=clock.now()))
    ended = _address(store, clock)
    assert (ended.ended_at, ended.ended_seq) == (clock.now(), 2)
    _touch(store, clock, ended.collection_id, count=0)
    assert _address(store, clock).ended_at == clock.now()
    say(store, clock, "three")
    again = _address(store, clock)
    assert (again.id, again.ended_at, again.ended_seq, again.last_seq) == (ended.id, None, 2, 3)


def test_time_does_not_run_backwards_when_the_clock_does(store: Store, clock: FrozenClock) -> None:
    (before,) = say(store, clock, "before")
    clock.at -= HOUR
    (after,) = say(store, clock, "after")
    assert after.recorded_at == before.recorded_at
    assert _address(store, clock).last_seen_at == before.recorded_at
    clock.at += 2 * HOUR
    say(store, clock, "later")
    assert _address(store, clock).last_seen_at == clock.now()


def test_a_session_used_again_after_its_expiry_begins_a_new_life(store: Store, clock: FrozenClock) -> None:
    say(store, clock, "old", place=KEPT_A_DAY)
    first = _address(store, clock, KEPT_A_DAY)
    clock.at += 2 * DAY
    (entry,) = say(store, clock, "new", place=KEPT_A_DAY)
    assert entry.seq == 2
    again = _address(store, clock, KEPT_A_DAY)
    assert (again.created_at, again.expires_at) == (clock.now(), clock.now() + DAY)
    assert again.created_at > first.created_at


@pytest.mark.parametrize(("first", "second", "kept"), [(10, 20, 20), (20, 10, 20), (None, 20, None), (20, None, None)])
def test_a_lifetime_is_never_shortened(
    store: Store, clock: FrozenClock, first: int | None, second: int | None, kept: int | None
) -> None:
    clock.at = 0
    collection_id, _ = store.write(TENANT, lambda tx: space(tx, clock).collection(PLACE))
    _touch(store, clock, collection_id, expires_at=first)
    _touch(store, clock, collection_id, expires_at=second)
    assert _address(store, clock).expires_at == kept


# -- idempotency -----------------------------------------------------------------------------------------------------


def test_an_answer_is_found_until_it_expires(store: Store) -> None:
    store.write(TENANT, lambda tx: _remember(tx, b"key", b"answer", expires_at=100))
    assert _answer(store, b"key", now=99) == (b"request", b"answer")
    assert _answer(store, b"key", now=100) is None
    assert _answer(store, b"other key", now=99) is None


def test_an_expired_answer_gives_way_to_a_new_one(store: Store) -> None:
    store.write(TENANT, lambda tx: _remember(tx, b"key", b"old", expires_at=100))
    store.write(TENANT, lambda tx: _remember(tx, b"key", b"new", expires_at=200))
    assert _answer(store, b"key", now=150) == (b"request", b"new")


def test_an_answer_goes_with_the_work_that_failed(store: Store) -> None:
    def fail(tx: Tx) -> None:
        _remember(tx, b"key", b"answer", expires_at=100)
        raise Failed

    with pytest.raises(Failed):
        store.write(TENANT, fail)
    assert _answer(store, b"key", now=50) is None


def test_erasing_an_address_empties_its_answers_and_refuses_the_key(store: Store) -> None:
    def remember(tx: Tx) -> None:
        for key, address in ((b"about it", 7), (b"about others", 8)):
            _remember(tx, key, b"answer", expires_at=100)
            tx.run("add_idempotency_touch", address_id=address, entry_id="", key_hash=key)

    store.write(TENANT, remember)
    assert store.write(TENANT, lambda tx: tx.run("erase_idempotency", addresses="[7]")) == 1
    assert _answer(store, b"about it", now=50) == (None, None)
    assert _answer(store, b"about others", now=50) == (b"request", b"answer")


@pytest.mark.parametrize(("touched", "emptied"), [("it", True), ("", True), ("another", False)])
def test_erasing_an_entry_empties_the_answers_that_hold_it(store: Store, touched: str, emptied: bool) -> None:
    def remember(tx: Tx) -> None:
        _remember(tx, b"key", b"answer", expires_at=100)
        tx.run("add_idempotency_touch", address_id=7, entry_id=touched, key_hash=b"key")

    store.write(TENANT, remember)
    store.write(TENANT, lambda tx: tx.run("erase_idempotency_of_entry", address_id=7, entry_id="it"))
    assert (_answer(store, b"key", now=50) == (None, None)) is emptied


def test_old_answers_go_with_what_points_at_them(store: Store) -> None:
    def remember(tx: Tx) -> None:
        _remember(tx, b"key", b"answer", expires_at=100)
        tx.run("add_idempotency_touch", address_id=7, entry_id="", key_hash=b"key")

    store.write(TENANT, remember)
    assert store.write(TENANT, lambda tx: tx.run("delete_old_idempotency", now=100)) == 1
    assert store.read(TENANT, lambda tx: tx.row("count_rows_of_address", address_id=7)) == (0,)


# -- jobs ------------------------------------------------------------------------------------------------------------


def test_of_two_claimants_one_gets_the_job(store: Store, open_store: OpenStore, clock: FrozenClock) -> None:
    stores = [store, open_store()]
    for _ in range(20):
        job_id = _job(store, clock)
        start = Barrier(2)
        claims = at_once(lambda each, j=job_id, s=start: _claim(each, clock, j, s), stores, threads=2)  # type: ignore[misc]
        assert [claim.fence for claim in claims if claim] == [1]


def test_a_job_is_not_claimed_before_its_time(store: Store, clock: FrozenClock) -> None:
    job_id = _job(store, clock, delay=SECOND)
    assert _claim(store, clock, job_id) is None
    clock.at += SECOND
    assert _claim(store, clock, job_id) is not None


def test_a_lease_that_ran_out_lets_another_claim_with_a_higher_fence(store: Store, clock: FrozenClock) -> None:
    job_id = _job(store, clock)
    first = _claim(store, clock, job_id)
    clock.at += LEASE - 1
    assert _claim(store, clock, job_id) is None
    clock.at += 1
    second = _claim(store, clock, job_id)
    assert first is not None
    assert second is not None
    assert (first.fence, first.attempts) == (1, 1)
    assert (second.fence, second.attempts) == (2, 2)


def test_a_beat_keeps_others_from_claiming(store: Store, clock: FrozenClock) -> None:
    job = _claimed(store, clock)
    clock.at += LEASE - 1
    assert _beat(store, clock, job) == 1
    clock.at += LEASE - 1
    assert _claim(store, clock, job.id) is None


def test_an_old_fence_can_do_nothing(store: Store, clock: FrozenClock) -> None:
    old = _claimed(store, clock)
    clock.at += LEASE
    new = _claim(store, clock, old.id)
    assert new is not None
    assert (_beat(store, clock, old), _finish(store, clock, old), _repeat(store, clock, old)) == (0, 0, 0)
    with pytest.raises(LeaseLost):
        JobRun(store, TENANT, old, clock).write(note)
    assert store.read(TENANT, notes) == []
    assert _find(store, old.id) == new
    JobRun(store, TENANT, new, clock).write(note)
    assert (_beat(store, clock, new), _finish(store, clock, new)) == (1, 1)


def test_a_finished_job_cannot_be_claimed(store: Store, clock: FrozenClock) -> None:
    job = _claimed(store, clock)
    assert _finish(store, clock, job) == 1
    clock.at += 2 * LEASE
    assert _claim(store, clock, job.id) is None
    assert (_beat(store, clock, job), _finish(store, clock, job)) == (0, 0)
    with pytest.raises(LeaseLost):
        JobRun(store, TENANT, job, clock).write(note)


def test_due_jobs_are_those_waiting_and_those_abandoned(store: Store, clock: FrozenClock) -> None:
    abandoned = _claimed(store, clock).id
    clock.at += LEASE
    late, early = _job(store, clock), _job(store, clock, delay=-SECOND)
    _job(store, clock, delay=SECOND)
    _job(store, clock, kind="unknown")
    finished = _claimed(store, clock)
    _finish(store, clock, finished)

    def due(tx: Tx) -> list[str]:
        return [row[0] for row in tx.rows("due_jobs", now=clock.now(), kinds='["erase"]', limit=9)]

    assert store.read(TENANT, due) == [early, late, abandoned]


def test_a_slot_holds_one_job_that_can_only_be_hastened(store: Store, clock: FrozenClock) -> None:
    for run_at in (50, 80, 30):
        store.write(TENANT, lambda tx, at=run_at: queue.ensure_slot(tx, "expire", at, 0))  # type: ignore[misc]
    rows = store.read(TENANT, lambda tx: tx.rows("list_jobs", before="~", state=None, kind=None, limit=9))
    assert [StoredJob(*row).run_at for row in rows] == [30]


# -- hints, control, hub ---------------------------------------------------------------------------------------------


def test_a_wake_leaves_a_hint_of_the_earliest_moment(store: Store) -> None:
    def wake(tx: Tx) -> None:
        note(tx)
        for at in (70, 50, 60):
            tx.wake(at)

    store.write(TENANT, wake)
    store.write(TENANT, lambda tx: tx.wake(90))
    assert store.control.rows("due_hints", now=49, limit=9) == []
    assert store.control.rows("due_hints", now=50, limit=9) == [(TENANT, 50)]


def test_a_failed_write_wakes_no_worker(store: Store) -> None:
    def fail(tx: Tx) -> None:
        tx.wake(5)
        raise Failed

    with pytest.raises(Failed):
        store.write(TENANT, fail)
    assert store.control.rows("next_hint") == [(None,)]


def test_statements_above_the_tenants_are_one_transaction(store: Store) -> None:
    add = {"id": "second", "now": 0}
    with pytest.raises(MemwellError):
        store.control.write(("add_tenant", add), ("add_key", _key("a tenant that is not there")))
    assert store.control.rows("find_tenant", id="second") == []
    assert store.control.write(("add_tenant", add)) == 1
    assert store.control.write(("add_tenant", add)) == 0


def test_the_secret_is_the_same_for_everybody(store: Store, open_store: OpenStore) -> None:
    assert len(store.control.secret) >= 32
    assert open_store().control.secret == store.control.secret


def test_a_message_reaches_those_who_listen(store: Store) -> None:
    store.notifier.publish(b"to nobody")
    with store.notifier.listen() as messages:
        assert store.notifier.is_watched
        store.notifier.publish(b"hello")
        assert next(messages) == b"hello"
        assert next(messages) is None


def test_a_sound_store_has_nothing_to_complain_about(store: Store, clock: FrozenClock) -> None:
    say(store, clock, "hello")
    assert store.check(TENANT) == []
    assert {"engine", "version", "durability"} <= store.describe().keys()


# -- erasure ---------------------------------------------------------------------------------------------------------


def test_a_deleted_entry_leaves_no_byte_after_a_scrub(store: Store, clock: FrozenClock) -> None:
    needles = [b"the first secret that is told", b"the second secret that is told"]
    gone, _ = say(store, clock, *(needle.decode() for needle in needles))
    assert store.residue(TENANT, needles) == needles

    def delete(tx: Tx) -> None:
        upkeep.remove_entries(tx, tx.rows("docids_of_entry", id=gone.id))
        tx.run("delete_entry", id=gone.id)

    store.write(TENANT, delete)
    assert store.scrub(TENANT) is True
    assert store.residue(TENANT, needles) == needles[1:]


def test_a_long_text_leaves_no_byte_either(store: Store, clock: FrozenClock) -> None:
    (entry,) = say(store, clock, "filler " * 10_000 + "a needle in a page that overflows" + " filler" * 10_000)
    store.write(TENANT, lambda tx: tx.run("delete_entry", id=entry.id))
    assert store.scrub(TENANT) is True
    assert store.residue(TENANT, [b"a needle in a page that overflows", b"filler filler"]) == []


def test_an_erasure_job_leaves_nothing_and_says_so(store: Store, clock: FrozenClock) -> None:
    """G9, as far as storage goes: the rows, the bytes, and the name of the session."""
    text = "what nobody must know any more"
    say(store, clock, text, path="alice-session")
    say(store, clock, "something harmless that may stay", path="other")
    address = _address(store, clock, path="alice-session")
    row: Row = (address.id, address.collection_id, "timeline")
    job_id = store.write(TENANT, lambda tx: bury(tx, [row], clock.now()))
    assert heard(store, clock, path="alice-session") == []
    assert Worker(store, clock, HANDLERS).run_due(TENANT) == 1
    job = _find(store, job_id)
    assert job is not None
    assert (job.state, job.result is None) == ("done", False)
    receipt = msgspec.json.decode(job.result or "")
    assert receipt["layers"] == {"answers": 0, "jobs": 0, "sessions": 1, "entries": 1}
    assert receipt["residual"] == 0
    assert receipt.get("remains", []) == [one._asdict() for one in store.find_remains(TENANT)]
    assert store.residue(TENANT, [text.encode(), b"alice-session"]) == []
    assert contents(store, clock, path="other") == ["something harmless that may stay"]


def test_the_expire_job_frees_the_bytes(store: Store, clock: FrozenClock) -> None:
    text = b"this was kept for one day only"
    say(store, clock, text.decode(), place=KEPT_A_DAY)
    clock.at += DAY
    assert store.residue(TENANT, [text]) == [text]
    assert Worker(store, clock, HANDLERS).run_due(TENANT) == 1
    assert store.residue(TENANT, [text]) == []


# -- small words -----------------------------------------------------------------------------------------------------


def _address(store: Store, clock: FrozenClock, place: Any = PLACE, path: str = "s") -> Address:
    found = store.read(TENANT, lambda tx: space(tx, clock).address(place, path))
    assert found is not None
    return found


def _touch(
    store: Store, clock: FrozenClock, collection_id: int, count: int = 1, expires_at: int | None = None
) -> Row | None:
    given = {"id": inner_id(), "collection_id": collection_id, "path": "s", "count": count, "expires_at": expires_at}
    return store.write(TENANT, lambda tx: tx.row("touch_address", now=clock.now(), **given))


def _key(tenant: str) -> dict[str, Any]:
    empty = dict.fromkeys(("tie_kind", "tie_name", "rate", "expires_at"))
    return {"id": "k", "tenant": tenant, "name": "n", "hash": b"h", "role": "agent", "now": 0, **empty}


def _remember(tx: Tx, key: bytes, response: bytes, expires_at: int) -> None:
    tx.run("add_idempotency", key_hash=key, request_hash=b"request", response=response, expires_at=expires_at)


def _answer(store: Store, key: bytes, now: int) -> Row | None:
    return store.read(TENANT, lambda tx: tx.row("find_idempotency", key_hash=key, now=now))


def _add_job(tx: Tx, job_id: str) -> None:
    empty: dict[str, Any] = dict.fromkeys(("slot", "address_id"))
    tx.run("add_job", id=job_id, kind="erase", payload="{}", max_attempts=1, run_at=0, now=0, **empty)


def _job(store: Store, clock: FrozenClock, delay: int = 0, kind: str = "erase") -> str:
    now = clock.now()
    return store.write(TENANT, lambda tx: queue.enqueue(tx, kind, {}, now, run_at=now + delay))


def _find(store: Store, job_id: str) -> StoredJob | None:
    return store.read(TENANT, lambda tx: queue.find(tx, job_id))


def _claim(store: Store, clock: FrozenClock, job_id: str, start: Barrier | None = None) -> StoredJob | None:
    if start:
        start.wait()
    now = clock.now()
    row = store.write(TENANT, lambda tx: tx.row("claim_job", id=job_id, now=now, lease_until=now + LEASE, worker="w"))
    return None if row is None else StoredJob(*row)


def _claimed(store: Store, clock: FrozenClock) -> StoredJob:
    job = _claim(store, clock, _job(store, clock))
    assert job is not None
    return job


def _beat(store: Store, clock: FrozenClock, job: StoredJob) -> int:
    return _settle(store, "beat_job", job, lease_until=clock.now() + LEASE)


def _finish(store: Store, clock: FrozenClock, job: StoredJob) -> int:
    now = clock.now()
    return _settle(store, "finish_job", job, state="done", run_at=now, error=None, result="{}", finished_at=now)


def _repeat(store: Store, clock: FrozenClock, job: StoredJob) -> int:
    return _settle(store, "repeat_job", job, run_at=clock.now())


def _settle(store: Store, query: str, job: StoredJob, **given: Any) -> int:
    run: Callable[[Tx], int] = lambda tx: tx.run(query, id=job.id, fence=job.fence, **given)  # noqa: E731
    return store.write(TENANT, run)
