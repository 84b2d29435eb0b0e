"""`as_of` and `valid_at` mean the same in lists, single memories and search."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import product

import pytest

from memwell import Invalid, NotFound
from memwell.model.filter import NEVER, Life
from memwell.sdk._sync import Flow, User
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory

EVERYTHING = datetime(1971, 1, 1, tzinfo=UTC)
"""Searching for what happened since then gives all there is: conditions alone make a hit."""


@pytest.fixture
def flow(memory: Memory) -> Flow:
    return memory.flow("support")


def now(clock: FrozenClock) -> datetime:
    return datetime.fromtimestamp(clock.now() / 1e6, UTC)


def tell(flow: Flow, session: str, text: str, name: str = "Alice") -> None:
    flow.session(session).history.append(role="user", name=name, content=text)
    flow.consolidate(session)


def listed(known: Flow | User, as_of: datetime | None = None, valid_at: datetime | None = None) -> list[str]:
    return sorted(found.content for found in known.memories(as_of=as_of, valid_at=valid_at))


@cases(
    ("as_of", "valid_at", "fits"),
    [
        (None, None, True),
        (9, None, False),
        (10, None, True),
        (19, None, True),
        (20, None, False),
        (None, 4, False),
        (None, 5, True),
        (None, NEVER - 1, True),
        (15, 4, False),
        (25, 7, False),
        (15, 7, True),
    ],
)
def test_a_stretch_of_time_has_its_beginning_and_not_its_end(
    as_of: int | None, valid_at: int | None, fits: bool
) -> None:
    assert bool(Life.of(10, 20, 5, None).fits(as_of, valid_at)) is fits


def test_a_flow_lists_what_it_knew_and_what_was_true(flow: Flow, clock: FrozenClock) -> None:
    before = now(clock)
    clock.advance(days=1)
    tell(flow, "s1", "I live in Lisbon.")
    clock.advance(days=5)
    between = now(clock)
    clock.advance(days=5)
    tell(flow, "s2", "I moved to Porto.")
    clock.advance(days=5)
    after = now(clock)
    assert listed(flow) == ["Alice moved to Porto."]
    assert listed(flow, as_of=before) == listed(flow, valid_at=before) == []
    assert listed(flow, as_of=between) == listed(flow, valid_at=between) == ["Alice lives in Lisbon."]
    assert listed(flow, as_of=after) == listed(flow, valid_at=after) == ["Alice moved to Porto."]
    assert listed(flow, as_of=between, valid_at=after) == ["Alice lives in Lisbon."], "as far as was known"
    assert listed(flow, as_of=before, valid_at=after) == []
    (then,) = flow.memories(as_of=between)
    (past,) = flow.memories(valid_at=between)
    assert (then.id, then.version, then.valid_to, then.subject) == (past.id, 1, None, "Alice")
    assert past.version == 2
    assert past.valid_to is not None


def test_a_user_has_it_too(memory: Memory, clock: FrozenClock) -> None:
    me = memory.user("alice")
    me.consolidate(me.add("I live in Lisbon.").session)
    clock.advance(days=5)
    then = now(clock)
    clock.advance(days=5)
    me.consolidate(me.add("I moved to Porto.").session)
    assert listed(me) == ["Alice moved to Porto."]
    assert listed(me, as_of=then) == listed(me, valid_at=then) == ["Alice lives in Lisbon."]
    (found,) = me.memories(as_of=then)
    assert me.get(found.id, as_of=then) == found
    assert me.get(found.id).version == 2


def test_what_was_written_for_a_session_has_a_past(memory: Memory, flow: Flow, clock: FrozenClock) -> None:
    """It has no row beside its entry: it is true from when it happened."""
    memory_id = flow.session("s").write("The first wording")
    clock.advance(days=1)
    then = now(clock)
    clock.advance(days=1)
    flow.update(memory_id, content="The second wording")
    data = {"flow": "support", "session": "s"}
    for moment in ({"as_of": then}, {"as_of": then, "valid_at": then}):
        (found,) = memory.call("flows.memories", data | moment).memories
        assert (found.content, found.session) == ("The first wording", "s")
    assert [found.content for found in memory.call("flows.memories", data | {"valid_at": then}).memories] == [
        "The second wording"
    ]
    assert flow.get(memory_id, as_of=then).content == "The first wording"


def test_a_memory_is_shown_as_it_was(flow: Flow, clock: FrozenClock) -> None:
    before = now(clock)
    clock.advance(days=1)
    memory_id = flow.write("Ships to the EU only", importance=0.3)
    clock.advance(days=1)
    first = now(clock)
    clock.advance(days=1)
    flow.update(memory_id, content="Ships to the EU and Norway", importance=0.8)
    clock.advance(days=1)
    assert flow.get(memory_id).content == "Ships to the EU and Norway"
    then = flow.get(memory_id, as_of=first)
    assert (then.content, then.importance, then.version) == ("Ships to the EU only", 0.3, 1)
    assert flow.get(memory_id, as_of=now(clock)) == flow.get(memory_id)
    with pytest.raises(NotFound, match="not known at that time: it was first written on 20"):
        flow.get(memory_id, as_of=before)
    with pytest.raises(NotFound, match="not true at that time"):
        flow.get(memory_id, valid_at=before)
    assert flow.get(memory_id, valid_at=first).version == 2


def test_what_was_withdrawn_was_known_until_then(flow: Flow, clock: FrozenClock) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    (fact,) = flow.memories()
    clock.advance(days=1)
    then = now(clock)
    clock.advance(days=1)
    flow.revoke(session="s1")
    clock.advance(days=1)
    assert flow.get(fact.id, as_of=then) == fact
    assert flow.memories(as_of=then) == [fact]
    with pytest.raises(NotFound, match="not known any more at that time: it was withdrawn on 20"):
        flow.get(fact.id, as_of=now(clock))
    for valid_at in (None, then):
        with pytest.raises(NotFound, match="no such memory in this flow"):
            flow.get(fact.id, valid_at=valid_at)
        assert flow.memories(valid_at=valid_at) == []


def test_what_is_deleted_was_never_known_and_others_do_not_see_it(
    memory: Memory, flow: Flow, clock: FrozenClock
) -> None:
    memory_id = flow.write("Ships to the EU only")
    clock.advance(days=1)
    then = now(clock)
    with pytest.raises(NotFound, match="no such memory"):
        memory.flow("sales").get(memory_id, as_of=then)
    assert memory.flow("sales").memories(as_of=then) == []
    flow.delete_memory(memory_id)
    assert flow.memories(as_of=then) == []
    with pytest.raises(NotFound, match="no such memory"):
        flow.get(memory_id, as_of=then)


def test_quarantined_facts_are_in_no_list_of_any_time(flow: Flow, clock: FrozenClock) -> None:
    tell(flow, "s1", "My password is hunter2xyz!")
    clock.advance(days=1)
    (held,) = flow.held()
    assert held.held == "secret"
    assert listed(flow, as_of=now(clock)) == listed(flow, valid_at=now(clock)) == []
    flow.release(held.id)
    assert flow.get(held.id).held is None
    assert flow.get(held.id, as_of=now(clock)).held is None


def test_filters_hold_at_another_time(flow: Flow, clock: FrozenClock) -> None:
    flow.write("of trains", metadata={"topic": "trains"})
    changed = flow.write("of boats", metadata={"topic": "boats"})
    clock.advance(days=1)
    then = now(clock)
    clock.advance(days=1)
    flow.update(changed, metadata={"topic": "trains"})
    trains = {"topic": "trains"}
    assert [found.content for found in flow.memories(filter=trains, as_of=then)] == ["of trains"]
    assert [found.content for found in flow.memories(filter=trains, valid_at=then)] == ["of trains", "of boats"]


@pytest.mark.parametrize("asked", ["as_of", "valid_at"])
def test_pages_stay_as_they_were_whatever_happens_between_them(
    memory: Memory, flow: Flow, clock: FrozenClock, asked: str
) -> None:
    ids = [flow.write(f"number {number}") for number in range(23)]
    clock.advance(days=1)
    data = {"flow": "support", "limit": 5, asked: now(clock)}
    found, page = [], memory.call("flows.memories", data)
    while page.next_cursor:
        found += page.memories
        clock.advance(days=1)
        for memory_id in (ids[0], ids[len(found) - 1], ids[-1]):
            flow.update(memory_id, content=f"changed when {len(found)} were shown")
        flow.write("a new one")
        page = memory.call("flows.memories", data | {"cursor": page.next_cursor})
    found += page.memories
    assert [one.id for one in found] == ids
    assert [one.content for one in found] == [f"number {number}" for number in range(23)]


def test_a_cursor_of_another_list_is_refused(memory: Memory, flow: Flow, clock: FrozenClock) -> None:
    for number in range(3):
        flow.write(f"number {number}")
    plain = memory.call("flows.memories", {"flow": "support", "limit": 1}).next_cursor
    dated = memory.call("flows.memories", {"flow": "support", "limit": 1, "as_of": now(clock)}).next_cursor
    for data in ({"cursor": dated}, {"cursor": plain, "as_of": now(clock)}):
        with pytest.raises(Invalid, match="cursor"):
            memory.call("flows.memories", {"flow": "support", **data})


@pytest.mark.parametrize("seed", range(3))
def test_lists_and_search_agree_about_every_moment(flow: Flow, clock: FrozenClock, seed: int) -> None:
    moments: list[datetime | None] = [None, *_live(flow, clock, random.Random(seed))]
    for as_of, valid_at in product(moments, moments):
        given = {name: at for name, at in (("as_of", as_of), ("valid_at", valid_at)) if at is not None}
        hits = flow.search("Alice", limit=1000, after=EVERYTHING, **given)  # type: ignore[arg-type]
        found = flow.memories(as_of=as_of, valid_at=valid_at)
        assert sorted((one.id, one.content) for one in found) == sorted((hit.id, hit.content) for hit in hits)
        for one in found:
            assert flow.get(one.id, as_of=as_of, valid_at=valid_at) == one


def _live(flow: Flow, clock: FrozenClock, chance: random.Random) -> list[datetime]:
    """Some weeks in the life of a flow; returns moments of them."""
    moments = []
    for number in range(14):
        moments.append(now(clock))
        clock.advance(hours=chance.randint(1, 100))
        known = flow.memories()
        match chance.choice(["say", "say", "say", "write", "update", "revoke", "revert"]):
            case "say":
                city = chance.choice(["Lisbon", "Porto", "Faro", "Braga"])
                tell(
                    flow, f"s{number}", chance.choice([f"I live in {city}.", f"I moved to {city}.", "I have two cats."])
                )
            case "write":
                flow.write(f"Statement {number} about Alice")
            case "update" if known:
                flow.update(chance.choice(known).id, content=f"Corrected at {number}: Alice")
            case "revoke" if sessions := flow.sessions():
                flow.revoke(session=chance.choice(sessions).session)
            case "revert" if plans := [plan for plan in flow.plans() if plan.state == "applied"]:
                flow.revert(chance.choice(plans).id)
    return moments
