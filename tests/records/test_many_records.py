"""Many records: how often the database is asked, and how much of it is read, when they are listed and deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import pytest

from memwell import Erased
from memwell.clock import DAY
from memwell.core.space import Space
from memwell.erasure import log
from memwell.jobs import queue
from memwell.model.collection import Place
from memwell.model.fields import to_cursor
from memwell.records.apps import ListSessions, list_sessions
from memwell.records.records import (
    delete_tied,
    iterate_tied,
    iterate_tied_values,
    list_named,
    list_records_between,
    list_tied_addresses,
    write_record,
)
from memwell.search import upkeep
from memwell.storage.port import Row, Tx
from memwell.testing import FrozenClock

from ..engines import Memory
from .test_records import Records, terms

T = TypeVar("T")
PLACE = Place("user", "alice", "record")
TIE = "definition/d"
MIB = 1024 * 1024


class Watched:
    """A transaction that counts what it is asked, and what it gives."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.asked: Counter[str] = Counter()
        self.given: Counter[str] = Counter()

    def rows(self, query: str, /, *condition: Any, **parameters: Any) -> list[Row]:
        self.asked[query] += 1
        found = self._tx.rows(query, *condition, **parameters)
        self.given[query] += len(found)
        return found

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._tx, name)

        def asked(query: str, /, **parameters: Any) -> Any:
            self.asked[query] += 1
            return ask(query, **parameters)

        return ask if name == "wake" else asked


@contextmanager
def watched(space: Space) -> Iterator[Watched]:
    """What a space asks of its transaction."""
    tx = space.tx
    space.tx = watching = Watched(tx)
    try:
        yield watching
    finally:
        space.tx = tx


@pytest.fixture
def records(memory: Memory) -> Records:
    return Records(memory)


def fill(records: Records, count: int, place: Place = PLACE, size: int = 1, **how: Any) -> None:
    def all_of_them(space: Space) -> None:
        for number in range(count):
            write_record(space, place, f"n{number:05}", *terms({"n": number, "text": "x" * size}, **how))

    records.writing(all_of_them)


def watching(records: Records, work: Callable[[Space], T]) -> tuple[T, Watched]:
    def watch(space: Space) -> tuple[T, Watched]:
        with watched(space) as seen:
            return work(space), seen

    return records.reading(watch)


# -- lists ---------------------------------------------------------------------------------------------------------------


def test_all_that_goes_with_something_is_read_in_few_steps(records: Records) -> None:
    fill(records, 600, ties=(TIE,))
    found, seen = watching(records, lambda space: list(iterate_tied(space, TIE)))
    assert sorted(record.value["n"] for record, _ in found) == list(range(600))
    assert {name for _, name in found} == {"alice"}
    assert seen.asked.total() <= 10
    assert seen.given == {"tied_sizes": 600, "records_of": 600}
    values, seen = watching(records, lambda space: list(iterate_tied_values(space, TIE)))
    assert values == [(record.address_id, record.value) for record, _ in found]
    assert seen.given == {"tied_sizes": 600, "values_of": 600}


def test_large_values_are_read_a_few_at_a_time(records: Records) -> None:
    fill(records, 8, size=MIB // 2, ties=(TIE,))
    first, seen = watching(records, lambda space: next(iterate_tied(space, TIE)))
    assert len(first[0].value["text"]) == MIB // 2
    assert seen.given["records_of"] == 1
    assert len(watching(records, lambda space: list(iterate_tied(space, TIE)))[0]) == 8


def test_expired_records_do_not_end_a_list(records: Records, clock: FrozenClock) -> None:
    """Whole pages of it may lie between what lives."""
    fill(records, 200, ties=(TIE,), lifetime_us=DAY)
    records.set({"n": 1}, path="z", ties=(TIE,))
    clock.advance(days=2)
    assert [record.path for record, _ in records.reading(lambda space: list(iterate_tied(space, TIE)))] == ["z"]
    found, more = records.reading(lambda space: list_named(space, PLACE, "", 1))
    assert ([one.path for one in found], more) == (["z"], False)


def test_a_page_reads_the_values_that_it_gives_and_no_others(records: Records) -> None:
    fill(records, 40)
    for number in range(40):
        records.set({"text": "y"}, path=f"n{number:05}@session/s")
    (found, more), seen = watching(records, lambda space: list_named(space, PLACE, "n00009", 20))
    assert [one.path for one in found] == [f"n{number:05}" for number in range(10, 30)]
    assert more
    assert seen.given["records_of"] == 20
    assert seen.asked.total() <= 4


def test_a_page_holds_what_fits_into_an_answer(records: Records) -> None:
    fill(records, 20, size=MIB - 100)
    (found, more), seen = watching(records, lambda space: list_records_between(space, PLACE, ("", "o"), 100))
    assert 7 <= len(found) <= 8
    assert more
    assert seen.given["records_of"] == len(found)
    rest, more = records.reading(lambda space: list_records_between(space, PLACE, (found[-1].path, "n00010"), 100))
    assert [one.path for one in rest] == [f"n{number:05}" for number in range(len(found), 10)]
    assert not more


@pytest.mark.parametrize("user_id", [None, "alice"])
def test_the_sessions_of_an_app_are_listed_without_what_is_stored_in_them(
    memory: Memory, records: Records, user_id: str | None
) -> None:
    shop = memory.app("shop")
    shop.stores.create("zcart", access="session", retention="1_month")
    for number in range(5):
        shop.sessions.update(f"s{number}", {"n": number}, user_id="alice")
        shop.scope(user_id="alice", session_id=f"s{number}").set_content("zcart", {"text": "y" * 1000})
    asked = ListSessions(app="shop", user_id=user_id, limit=100)
    found, seen = watching(records, lambda space: list_sessions.run(space, asked))
    assert [one.session_id for one in found.sessions] == [f"s{number}" for number in range(5)]
    assert found.next_cursor is None
    assert seen.given["records_of"] == 5


def test_a_page_of_sessions_holds_what_fits_into_an_answer(memory: Memory) -> None:
    shop = memory.app("shop")
    for number in range(140):
        shop.sessions.update(f"s{number:03}", {"text": "z" * 65_000}, user_id="alice")
    for whose in ({}, {"user_id": "alice"}):
        page = memory.call("apps.sessions.list", {"app": "shop", "limit": 1000, **whose})
        assert len(msgspec.json.encode(page)) < 8.5 * MIB
        assert page.next_cursor is not None
        rest = memory.call("apps.sessions.list", {"app": "shop", "limit": 1000, "cursor": page.next_cursor, **whose})
        listed = [one.session_id for one in [*page.sessions, *rest.sessions]]
        assert listed == [f"s{number:03}" for number in range(140)]
        assert rest.next_cursor is None


def test_a_cursor_leads_to_sessions_only(memory: Memory) -> None:
    """Somebody may make one up."""
    shop = memory.app("shop")
    shop.stores.create("cart", access="application", retention="1_month")
    shop.scope().set_content("cart", {"n": 1})
    shop.sessions.update("s1")
    page = memory.call("apps.sessions.list", {"app": "shop", "cursor": to_cursor("app_sessions", "")})
    assert [one.session_id for one in page.sessions] == ["s1"]


# -- deletion ------------------------------------------------------------------------------------------------------------


def test_many_records_are_deleted_in_few_steps(records: Records) -> None:
    """A tenant can write nothing else meanwhile."""
    fill(records, 600, ties=(TIE,))
    ids = [row[0] for row in records.reading(lambda space: list_tied_addresses(space, TIE))]

    def gone(space: Space) -> tuple[int, Watched]:
        with watched(space) as seen:
            return delete_tied(space, TIE)[1], seen

    count, seen = records.writing(gone)
    assert count == 600
    assert seen.asked.total() <= 40
    assert records.reading(lambda space: list_tied_addresses(space, TIE)) == []
    assert records.reading(lambda space: list_records_between(space, PLACE, ("", "o"), 9)) == ([], False)
    lines = records.reading(lambda space: log.list_lines(space.tx))
    assert [line.id for line in lines if line.kind == "address"] == list(map(str, ids))
    assert records.reading(lambda space: space.tx.rows("removals_after", after=0)) == []  # no index holds a record
    records.engine.worker.run_due("default")
    assert records.reading(lambda space: space.tx.row("count_rows_of_address", address_id=ids[-1])) == (0,)


def test_many_addresses_are_taken_out_of_every_index_in_order(records: Records) -> None:
    records.writing(lambda space: upkeep.remove_addresses(space.tx, [70, 8, 9]))
    records.writing(lambda space: upkeep.remove_addresses(space.tx, [5]))
    removed = records.reading(lambda space: space.tx.rows("removals_after", after=0))
    assert [(row[0], row[2]) for row in removed] == [(1, 70), (2, 8), (3, 9), (4, 5)]


def test_deleting_a_definition_reports_each_record_and_clears_stored_answers(memory: Memory, records: Records) -> None:
    definition = memory.definitions.create("Profile", slug="profile")
    asked = [{"user": f"u{number}", "record": "profile", "value": {"n": number}} for number in range(4)]
    for number, one in enumerate(asked):
        memory.call("users.set_record", one, key=f"k{number}")
    memory.call("definitions.delete", {"definition": definition.id})
    events = records.reading(lambda space: space.tx.rows("list_events", after=0, limit=1000))
    assert sorted(row[6] for row in events if row[2] == "definitions.delete") == ["u0", "u1", "u2", "u3"]
    assert [row[0] for row in events] == list(range(1, len(events) + 1))
    for number, one in enumerate(asked):
        with pytest.raises(Erased):
            memory.call("users.set_record", one, key=f"k{number}")


def test_the_run_that_deletes_many_keeps_what_it_knows_and_no_other_does(records: Records) -> None:
    fill(records, 3, ties=(TIE,))
    other = records.set({"n": 1}, path="other").address_id

    def deleted(space: Space) -> str | None:
        for address_id in [*(row[0] for row in list_tied_addresses(space, TIE)), other]:
            for run_id in ("mine", "theirs"):
                space.tx.send("touch_run", address_id=address_id, run_id=run_id)
        return delete_tied(space, TIE, spared="mine")[0]

    job = records.writing(deleted)
    found = records.reading(lambda space: queue.find(space.tx, job or ""))
    assert found is not None
    assert msgspec.json.decode(found.payload)["layers"]["runs"] == 1
    assert records.reading(lambda space: space.tx.rows("runs_of", addresses=f"[{other}]")) == [("mine",)]
