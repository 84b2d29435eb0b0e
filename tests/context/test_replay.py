"""Searches and contexts as of a past moment: later changes alter neither hits nor scores nor a byte of the prompt."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

import pytest

from memwell.clock import to_datetime
from memwell.sdk._sync import Flow
from memwell.testing import FrozenClock

from ..engines import Memory

PEOPLE = ["Ann", "Ben", "Cleo", "Dora"]
CITIES = ["Lisbon", "Porto", "Braga", "Faro", "Rome", "Oslo"]
THINGS = ["dog", "piano", "red bicycle", "boat", "telescope", "garden"]
QUERIES = ["Where does Ann live?", "piano apples dog", "Who has a boat since yesterday?", "Dora"]


def happen(flow: Flow, chance: random.Random, step: int) -> None:
    """Something is said, distilled, changed, deleted or taken back."""
    who, session = chance.choice(PEOPLE[: 2 + step // 10]), f"s{chance.randrange(4)}"
    said = [f"I moved to {chance.choice(CITIES)}.", f"I bought a {chance.choice(THINGS)}.", "I love apples and pears."]
    flow.session(session).history.append(role="user", name=who, content=chance.choice(said))
    plan = flow.consolidate(session)
    known = flow.memories()
    if known and chance.random() < 0.3:
        one = chance.choice(known)
        flow.update(one.id, content=f"{one.content} So it is said.")
    if plan is not None and chance.random() < 0.2:
        flow.revert(plan.id)


def seen(flow: Flow, moment: datetime) -> list[object]:
    hits = [[(hit.id, hit.content, hit.score) for hit in flow.search(query, 8, as_of=moment)] for query in QUERIES]
    return [hits, *(flow.context(query, budget=400, as_of=moment, stable_prefix=True).text for query in QUERIES)]


@pytest.mark.parametrize("seed", range(3))
def test_a_moment_looks_the_same_whatever_happens_later(tmp_path: Path, seed: int) -> None:
    clock, chance = FrozenClock(), random.Random(seed)
    with Memory(tmp_path / "store", worker=False, clock=clock) as memory:
        flow = memory.flow("support")
        before: dict[datetime, list[object]] = {}
        for step in range(24):
            happen(flow, chance, step)
            clock.advance(minutes=7)
            if step % 8 == 7:
                moment = to_datetime(clock.now())
                before[moment] = seen(flow, moment)
                clock.advance(minutes=1)
        for moment, first in before.items():
            assert seen(flow, moment) == first
