"""Both engines rank alike: the same entries, asked the same questions, come back in the same order with the same scores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memwell.clock import SystemClock
from memwell.config import load
from memwell.storage import open_store
from memwell.storage.copier import move_tenant

from ..cases import cases
from ..engines import DATABASES, TEMPLATE, Memory, located

pytestmark = pytest.mark.engines()

ENTRIES = 5000
"""More than a block keeps all words and exact vectors of."""
SUBJECTS = [
    "The captain",
    "A librarian",
    "My neighbour",
    "Dr. Okafor",
    "The youngest sister",
    "An old friend",
    "The new tenant",
]
VERBS = [
    "repairs",
    "collects",
    "sells",
    "forgets",
    "paints",
    "borrows",
    "describes",
    "dislikes",
    "photographs",
    "inherits",
]
OBJECTS = [
    "wooden boats",
    "medieval maps",
    "espresso machines",
    "garden gnomes",
    "jazz records",
    "tropical fish",
    "vintage cameras",
]
PLACES = [
    "in Lisbon",
    "near the harbour",
    "at the market",
    "during winter",
    "before breakfast",
    "on rainy Sundays",
    "in her attic",
]
QUESTIONS = ("Who {} {}?", "What happens {}?", "{} and {}", "the {} of {}", "Does anybody {} {} {}?")


def sentence(chance: random.Random) -> str:
    return f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {chance.choice(OBJECTS)} {chance.choice(PLACES)}."


def question(chance: random.Random) -> str:
    words = [chance.choice(pool) for pool in (VERBS, OBJECTS, PLACES)]
    chance.shuffle(words)
    return chance.choice(QUESTIONS).format(*words)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Memory]]:
    """The same tenant in a directory and in a database."""
    chance, home = random.Random(7), tmp_path_factory.mktemp("agreement")
    database = DATABASES.server.database(TEMPLATE)
    with Memory(home, worker=False) as memory:
        memory.flow("facts").import_lines(
            {"type": "memory", "session": f"s{n % 9}", "content": sentence(chance), "metadata": {"n": n}}
            for n in range(ENTRIES)
        )
        for number in range(20):
            turns = [
                {"role": "user", "name": chance.choice(["Ann", "Bo"]), "content": sentence(chance)} for _ in range(20)
            ]
            memory.flow("talk").session(f"t{number}").history.extend(turns)
        memory.flow("facts").search("hello")
    _move(home, database)
    with Memory(home, worker=False) as here, Memory(database, worker=False) as there:
        yield here, there
    DATABASES.server.drop(database)


def _move(home: Path, database: str) -> None:
    stores = [open_store(load(home=located(place)), SystemClock().now) for place in (home, database)]
    move_tenant(stores[0], stores[1], "default")
    for store in stores:
        store.close()


@cases(
    ("flow", "session", "conditions"),
    [
        ("facts", None, {}),
        ("facts", "s3", {}),
        ("facts", None, {"filter": {"n": {"$lt": 400}}}),
        ("facts", None, {"recipe": "words"}),
        ("facts", None, {"recipe": "meaning"}),
        ("talk", None, {"include": ["turns"], "min_score": 0.0}),
        ("talk", "t4", {"include": ["turns"], "explain": True, "min_score": 0.0}),
    ],
)
def test_the_top_ten_agree(
    pair: tuple[Memory, Memory], flow: str, session: str | None, conditions: dict[str, Any]
) -> None:
    chance = random.Random(f"{flow}{session}{conditions}")
    asked = [question(chance) for _ in range(40)]
    places = [memory.flow(flow).session(session) if session else memory.flow(flow) for memory in pair]
    agree = 0
    for text in asked:
        here, there = (
            [(hit.id, hit.score, hit.arms) for hit in place.search(text, 10, **conditions)] for place in places
        )
        assert here
        agree += here == there
    assert agree == len(asked)
