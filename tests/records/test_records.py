"""Records in the engine: values that are merged and replaced, checked, versioned, timed and erased."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from memwell import Invalid, Stale
from memwell.clock import DAY, SECOND
from memwell.core.access import Principal
from memwell.core.engine import Engine
from memwell.core.space import Space
from memwell.errors import TooLarge
from memwell.model.collection import Place
from memwell.records.records import (
    KEPT_VERSIONS,
    NO_CONTRACT,
    Contract,
    Edit,
    Record,
    delete_record,
    find_record,
    find_value_at,
    list_named,
    list_versions,
    rebuild_value,
    write_record,
)
from memwell.sdk.transport import LocalTransport
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, remains

T = TypeVar("T")
PLACE = Place("user", "alice", "record")
LATER = 2**62
ROOM = 1 << 30


def terms(data: Any, **how: Any) -> tuple[Edit, Contract]:
    """A change, and the contract that it is made under."""
    edit = {name: how.pop(name) for name in Edit._fields if name in how}
    return Edit(data, **edit), Contract(**how)


class Records:
    """One tenant's records, each call in a transaction of its own."""

    def __init__(self, memory: Memory) -> None:
        transport = memory._transport
        assert isinstance(transport, LocalTransport)
        self.engine: Engine = transport.engine
        self.principal: Principal = transport.principal
        memory.user("carol").add("I am here.")  # so that there is a tenant

    def writing(self, work: Callable[[Space], T]) -> T:
        return self.engine.write(self.principal, work)

    def reading(self, work: Callable[[Space], T]) -> T:
        return self.engine.read(self.principal, work)

    def set(self, data: Any, path: str = "profile", **how: Any) -> Record:
        return self.writing(lambda space: write_record(space, PLACE, path, *terms(data, **how)))

    def get(self, path: str = "profile") -> Record | None:
        return self.reading(lambda space: find_record(space, PLACE, path))

    def value(self, path: str = "profile") -> Any:
        found = self.get(path)
        return None if found is None else found.value

    def erased(self, path: str = "profile", **how: Any) -> str | None:
        job = self.writing(lambda space: delete_record(space, PLACE, path, **how))
        self.engine.worker.run_due("default")
        return job


@pytest.fixture
def records(memory: Memory) -> Records:
    return Records(memory)


def test_values_are_merged_or_replaced(records: Records) -> None:
    """C1, C2."""
    assert records.value() is None
    records.set({"name": "Ada", "home": {"city": "Lisbon", "zip": "1100"}, "tags": ["a"]})
    records.set({"home": {"city": "Porto"}, "tags": ["b"], "name": None})
    assert records.value() == {"name": None, "home": {"city": "Porto", "zip": "1100"}, "tags": ["b"]}
    records.set({"name": "Ada"}, mode="replace")
    assert records.value() == {"name": "Ada"}
    assert [one.path for one in records.reading(lambda space: list_named(space, PLACE, "", 9)[0])] == ["profile"]


def test_a_failed_check_changes_nothing(records: Records) -> None:
    """C3: the result is checked, and not what was given."""

    def check(value: Any) -> None:
        if set(value) != {"a", "b"}:
            raise Invalid("Both are needed.")

    records.set({"a": 1, "b": 1})
    records.writing(lambda space: write_record(space, PLACE, "profile", Edit({"b": 2}), NO_CONTRACT, check))
    with pytest.raises(Invalid):
        records.writing(lambda space: write_record(space, PLACE, "profile", Edit({"c": 3}), NO_CONTRACT, check))
    found = records.get()
    assert found is not None
    assert (found.value, found.version) == ({"a": 1, "b": 2}, 2)


def test_a_change_of_what_somebody_else_has_changed_is_refused(records: Records) -> None:
    first = records.set({"n": 1})
    second = records.set({"n": 2}, if_match=first.etag)
    with pytest.raises(Stale):
        records.set({"n": 3}, if_match=first.etag)
    with pytest.raises(Stale):
        records.set({"n": 3}, path="none", if_match="*")
    records.set({"n": 4}, if_match="*")
    with pytest.raises(Stale):
        records.erased(if_match=second.etag)
    assert records.value() == {"n": 4}


def test_a_record_that_is_made_again_is_another(records: Records) -> None:
    first = records.set({"n": 1})
    assert records.erased() is not None
    assert records.erased() is None
    assert records.set({"n": 1}).etag != first.etag


def test_writes_renew_the_lifetime_and_reads_do_not(records: Records, clock: FrozenClock) -> None:
    """C15: expired is invisible at once, on every path."""
    records.set({"a": 1}, lifetime_us=60 * SECOND)
    clock.advance(seconds=50)
    records.set({"b": 1}, lifetime_us=60 * SECOND)
    clock.advance(seconds=59)
    assert records.value() == {"a": 1, "b": 1}
    clock.advance(seconds=1)
    assert records.value() is None
    assert records.reading(lambda space: list_named(space, PLACE, "", 9)[0]) == []
    records.set({"c": 1}, lifetime_us=None)
    assert records.value() == {"c": 1}, "what has expired is no base to merge into"
    clock.advance(days=1000)
    assert records.value() == {"c": 1}


def test_expired_data_is_gone_from_the_files(records: Records, clock: FrozenClock, tmp_path: Path) -> None:
    records.set({"word": "zyxoqwvquill-that-nobody-says"}, lifetime_us=60 * SECOND)
    clock.advance(days=2)
    records.engine.worker.run_due("default")
    assert [name for name, data in remains(tmp_path).items() if b"zyxoqwvquill" in data] == []


def test_deleting_leaves_no_byte_of_any_version(records: Records, tmp_path: Path) -> None:
    records.set({"word": "zyxoqwvquill-that-nobody-says"})
    records.set({"word": "another one, said by nobody else"})
    job = records.erased()
    assert job is not None
    receipt = records.reading(lambda space: space.tx.row("find_job", id=job))
    assert receipt is not None
    assert '"residual":0' in str(receipt)
    found = remains(tmp_path)
    assert [name for name, data in found.items() if b"zyxoqwvquill" in data or b"said by nobody" in data] == []


def test_history_and_what_was_at_a_moment(records: Records, clock: FrozenClock) -> None:
    moments = []
    for number in range(200):
        records.set({f"key{number % 7}": number})
        moments.append(clock.now())
        clock.advance(seconds=1)
    record = records.get()
    assert record is not None
    changes = records.reading(lambda space: list_versions(space, record, LATER, 1000, ROOM)[0])
    assert [one.version for one in changes] == list(range(200, 0, -1))
    expected: dict[str, int] = {}
    for number, moment in enumerate(moments):
        expected[f"key{number % 7}"] = number
        assert records.reading(lambda space: find_value_at(space, record, moment)) == expected  # noqa: B023 -- run at once
        assert records.reading(lambda space: rebuild_value(space, record, number + 1)) == expected  # noqa: B023 -- run at once
    assert records.reading(lambda space: find_value_at(space, record, moments[0] - 1)) is None


def test_what_has_expired_is_no_part_of_what_comes_after(records: Records, clock: FrozenClock) -> None:
    records.set({"a": 1}, lifetime_us=60 * SECOND)
    start = clock.now()
    clock.advance(seconds=120)
    records.set({"b": 1})
    record = records.get()
    assert record is not None
    seen = [
        records.reading(lambda space, n=n: find_value_at(space, record, start + n * SECOND))  # type: ignore[misc]
        for n in (0, 59, 60, 119, 120)
    ]
    assert seen == [None, None, None, None, {"b": 1}]
    assert len(records.reading(lambda space: list_versions(space, record, LATER, 10, ROOM)[0])) == 1


def test_history_has_an_end(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memwell.records.records.KEPT_VERSIONS", 64)
    assert KEPT_VERSIONS == 1024
    for number in range(200):
        records.set({f"key{number}": number})
    record = records.get()
    assert record is not None
    kept = records.reading(lambda space: list_versions(space, record, LATER, 1000, ROOM)[0])
    assert 64 <= len(kept) <= 128
    oldest = kept[-1].version
    assert len(records.reading(lambda space: rebuild_value(space, record, oldest))) == oldest
    assert records.reading(lambda space: rebuild_value(space, record, oldest - 1)) is None


@cases("value", [[1], "text", 7, None, {"a": float("nan")}, {"a": "\ud800"}])
def test_values_that_are_none(records: Records, value: Any) -> None:
    with pytest.raises(Invalid):
        records.set(value)
    assert records.value() is None


def test_values_have_limits(records: Records) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    records.set({"a": "x" * 1_000_000})
    with pytest.raises(TooLarge):
        records.set({"b": "x" * 100_000})
    with pytest.raises(Invalid):
        records.set(deep)
    assert set(records.value()) == {"a"}


def test_no_update_is_lost(records: Records) -> None:
    """Many writers on one record."""
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda number: records.set({f"key{number}": number}), range(200)))
    assert records.value() == {f"key{number}": number for number in range(200)}
    found = records.get()
    assert found is not None
    assert found.version == 200


def test_records_of_others_stay(records: Records, memory: Memory) -> None:
    other = Place("user", "bob", "record")
    records.set({"n": 1})
    records.writing(lambda space: write_record(space, other, "profile", Edit({"n": 2})))
    assert memory.user("alice").forget().residual == 0
    assert records.value() is None
    found = records.reading(lambda space: find_record(space, other, "profile"))
    assert found is not None
    assert found.value == {"n": 2}


def test_a_lifetime_is_counted_from_the_write(records: Records, clock: FrozenClock) -> None:
    found = records.set({"n": 1}, lifetime_us=DAY)
    assert found.expires_at == clock.now() + DAY
