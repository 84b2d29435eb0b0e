"""Search: hits, their order and explanation; fresh in every process, and without deleted entries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memwell import Forbidden, Invalid, NotFound
from memwell.core.access import Principal
from memwell.core.engine import Engine
from memwell.model.filter import Query, matches, parse
from memwell.sdk.transport import LocalTransport
from memwell.search import embeddings, upkeep
from memwell.search import words as analyse
from memwell.search.columns import build_view
from memwell.search.query import ScopePart
from memwell.storage.port import search_state
from memwell.testing import FrozenClock

from .. import engines
from ..engines import DATABASES, Memory, located, remains
from ..live import live
from ..properties import examples
from ..waiting import wait_until
from .test_filters import Dice

DAY0 = datetime(2026, 4, 1, tzinfo=UTC)
TURNS: Any = {"include": ["turns"]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def memory(home: Path, clock: FrozenClock) -> Iterator[Memory]:
    with Memory(home, worker=False, clock=clock) as memory:
        yield memory


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


# -- reading one's own writes ------------------------------------------------------------------------------------------


def test_new_entries_are_found_at_once(memory: Memory) -> None:
    """C33"""
    flow = memory.flow("f")
    for number in range(30):
        flow.write(f"fact number{number}")
        flow.session("s").history.append(role="user", content=f"turn number{number}")
        both = {f"fact number{number}", f"turn number{number}"}
        assert both <= set(contents(flow.search(f"number{number}", limit=50, recipe="words", **TURNS)))
        assert contents(flow.search(f"number{number}", recipe="words")) == [f"fact number{number}"]
        assert flow.search(f"fact number{number}")[0].content == f"fact number{number}"


def test_another_memory_on_the_directory_finds_it_at_once(memory: Memory, home: Path, clock: FrozenClock) -> None:
    """C33: both have searched before, so both have an index in memory."""
    with Memory(home, worker=False, clock=clock) as other:
        assert len(memory.flow("f").search("anything")) == len(other.flow("f").search("anything")) == 0
        for number in range(5):
            here, there = (memory, other) if number % 2 else (other, memory)
            written = here.flow("f").write(f"the automobile number{number}")
            here.flow("f").session("s").history.append(role="user", content=f"said number{number}")
            assert contents(there.flow("f").search(f"number{number}", recipe="words")) == [
                f"the automobile number{number}"
            ]
            assert there.flow("f").search("car", limit=10, recipe="meaning").hits
            assert f"said number{number}" in contents(there.flow("f").search(f"number{number}", **TURNS))
            here.flow("f").update(written, content=f"the bicycle changed{number}")
            assert there.flow("f").search(f"number{number}", recipe="words").hits == []
            here.flow("f").delete_memory(written)
            assert there.flow("f").search(f"changed{number}", recipe="words").hits == []


PROGRAM = """
import sys
from memwell import Memory
home, word, others = sys.argv[1:]
with Memory(home, worker=False) as memory:
    flow = memory.flow("f")
    assert flow.search(others)[0].content.startswith(others), "the child does not see its parent's"
    gone = flow.write("gone " + word)
    flow.write(word + " of the child")
    assert len(flow.search(word, recipe="words")) == 2
    flow.delete_memory(gone)
    assert len(flow.search(word, recipe="words")) == 1
"""


def test_two_processes_find_each_others(home: Path) -> None:
    with Memory(home, worker=False) as memory:
        flow = memory.flow("f")
        for number in range(2):
            flow.write(f"parent{number} wrote this")
            assert flow.search(f"parent{number}")[0].content == f"parent{number} wrote this"
            command = [sys.executable, "-c", PROGRAM, located(home), f"child{number}", f"parent{number}"]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MEMWELL_WORKER": "0"})
            assert done.returncode == 0, done.stderr
            assert contents(flow.search(f"child{number}", recipe="words")) == [f"child{number} of the child"]


def test_a_changed_memory_is_found_by_its_new_words_only(memory: Memory) -> None:
    flow = memory.flow("f")
    one = flow.write("He drives an automobile", metadata={"kind": "old"})
    flow.write("Something about the weather")
    assert flow.search("car")[0].id == one
    flow.update(one, content="She plays the violin", metadata={"kind": "new"})
    assert flow.search("automobile", recipe="words").hits == []
    assert contents(flow.search("violin", recipe="words")) == ["She plays the violin"]
    assert flow.search("musical instrument")[0].id == one
    assert flow.search("car", recipe="meaning", min_score=0.2).hits == []
    assert flow.search("violin", filter={"kind": "old"}).hits == []
    assert [hit.id for hit in flow.search("violin", filter={"kind": "new"})] == [one]
    flow.update(one, metadata={"kind": "newest"})
    assert flow.search("violin")[0].metadata == {"kind": "newest"}
    assert len(flow.search("violin", recipe="words")) == 1


def test_deleted_entries_are_not_found(memory: Memory) -> None:
    flow = memory.flow("f")
    one, _two = flow.write("quoxalphine one"), flow.write("quoxalphine two")
    session = flow.session("s")
    session.write("quoxalphine of the session")
    session.history.append(role="user", content="quoxalphine was said")
    assert len(flow.search("quoxalphine", **TURNS)) == 4
    flow.delete_memory(one)
    assert len(flow.search("quoxalphine", **TURNS)) == 3
    memory.call("flows.delete_session", {"flow": "f", "session": "s"})
    assert contents(flow.search("quoxalphine", **TURNS)) == ["quoxalphine two"], "before the job has run"
    flow.delete()
    assert flow.search("quoxalphine", **TURNS).hits == []
    me = memory.user("alice")
    me.add("quoxalphine of alice")
    assert len(me.search("quoxalphine")) == 1
    me.forget()
    assert me.search("quoxalphine").hits == []
    flow.write("quoxalphine again")
    assert contents(flow.search("quoxalphine")) == ["quoxalphine again"]


def test_an_ended_session_is_still_found(memory: Memory) -> None:
    """S0.36"""
    session = memory.flow("f").session("s")
    session.history.append(role="user", content="quoxalphine was said")
    session.end()
    assert len(memory.flow("f").search("quoxalphine", **TURNS)) == len(session.search("quoxalphine", **TURNS)) == 1


def test_swept_entries_do_not_return_when_the_clock_is_set_back(memory: Memory, clock: FrozenClock) -> None:
    """S0.17"""
    flow, me = memory.flow("f"), memory.user("alice")
    flow.session("old").history.append(role="user", content="quoxalphine long ago")
    me.add("quoxalphine of alice")
    clock.advance(days=60)
    flow.session("new").history.append(role="user", content="quoxalphine lately")
    flow.write("quoxalphine for ever")
    assert len(flow.search("quoxalphine", **TURNS)) == 3
    assert len(me.search("quoxalphine")) == 1
    clock.advance(days=31)
    for _ in range(2):
        assert set(contents(flow.search("quoxalphine", **TURNS))) == {"quoxalphine lately", "quoxalphine for ever"}
        assert me.search("quoxalphine").hits == []
        clock.advance(days=-31)
    engine_of(memory).worker.run_due("default")
    assert len(flow.search("quoxalphine", **TURNS)) == 2


def test_why_not_agrees_with_search_after_the_clock_went_back(memory: Memory, clock: FrozenClock) -> None:
    session = memory.flow("f").session("s")
    turn = session.history.append(role="user", content="quoxalphine long ago")
    clock.advance(days=91)
    assert memory.flow("f").search("quoxalphine", **TURNS).hits == []
    clock.advance(days=-91)
    found = [hit.id for hit in memory.flow("f").search("quoxalphine", **TURNS)]
    assert (memory.flow("f").why_not(turn.id, "quoxalphine", **TURNS).gate == "found") is (turn.id in found)


# -- conditions --------------------------------------------------------------------------------------------------------


def test_as_many_come_back_as_match(memory: Memory) -> None:
    """A filter that one in a hundred meets, with and without a time window; what fits the words best meets neither."""
    history = memory.flow("f").session("s").history
    turns = [
        {
            "role": "user",
            "content": f"note {number}" if number % 100 == 7 else f"the exact words of the query {number}",
            "metadata": {"rare": number % 100 == 7, "number": number},
            "occurred_at": DAY0 + timedelta(hours=number),
        }
        for number in range(1000)
    ]
    history.extend(turns)
    flow = memory.flow("f")
    for recipe in ("default", "words", "meaning"):
        hits = flow.search("the exact words of the query", limit=10, filter={"rare": True}, recipe=recipe, **TURNS)
        assert sorted(hit.metadata["number"] for hit in hits if hit.metadata) == list(range(7, 1000, 100))
        window: Any = {"after": DAY0 + timedelta(hours=107), "before": DAY0 + timedelta(hours=507), **TURNS}
        hits = flow.search("the exact words of the query", limit=10, filter={"rare": True}, recipe=recipe, **window)
        assert sorted(hit.metadata["number"] for hit in hits if hit.metadata) == [107, 207, 307, 407]
        hits = flow.search("nothing of this kind", limit=1000, recipe=recipe, **window)
        assert len(hits) == 400
    assert len(flow.search("query", limit=1000, **TURNS)) >= 990
    assert len(flow.search("query", limit=10, **TURNS)) == 10


OPERATORS: list[tuple[Any, set[int]]] = [
    ({"n": 2}, {2}),
    ({"n": {"$eq": 2}}, {2}),
    ({"n": {"$ne": 2}}, {0, 1, 3, 4}),
    ({"n": {"$gt": 2}}, {3}),
    ({"n": {"$gte": 2}}, {2, 3}),
    ({"n": {"$lt": 2}}, {0, 1}),
    ({"n": {"$lte": 2}}, {0, 1, 2}),
    ({"n": {"$in": [0, 3, 9]}}, {0, 3}),
    ({"n": {"$nin": [0, 3]}}, {1, 2, 4}),
    ({"n": {"$exists": True}}, {0, 1, 2, 3}),
    ({"n": {"$exists": False}}, {4}),
    ({"n": None}, {4}),
    ({"tags": "red"}, {1, 2}),
    ({"inner.deep": "x"}, {3}),
    ({"at": {"$gte": "2026-02-01"}}, {2}),
    ({"n": {"$not": {"$gt": 1}}}, {0, 1, 4}),
    ({"$and": [{"n": {"$gt": 0}}, {"tags": "red"}]}, {1, 2}),
    ({"$or": [{"n": 0}, {"tags": "blue"}]}, {0, 2}),
    ({"$not": {"n": {"$lte": 2}}}, {3, 4}),
    ({"n": True}, set()),
]


def test_every_operator_of_the_filter_works_in_search(memory: Memory) -> None:
    """C41"""
    flow = memory.flow("f")
    documents: list[dict[str, Any] | None] = [
        {"n": 0},
        {"n": 1, "tags": ["red"], "at": "2026-01-01"},
        {"n": 2.0, "tags": ["red", "blue"], "at": "2026-02-01"},
        {"n": 3, "inner": {"deep": "x"}},
        None,
    ]
    ids = [flow.write("an entry", metadata=document) for document in documents]
    for asked, expected in OPERATORS:
        found = {ids.index(hit.id) for hit in flow.search("entry", limit=100, filter=asked)}
        assert found == expected, asked
        for number, entry in enumerate(ids):
            gate = flow.why_not(entry, "entry", limit=100, filter=asked).gate
            assert gate == ("found" if number in expected else "filter")


class Crowd:
    """A flow of fifty entries with random metadata."""

    def __init__(self, memory: Memory) -> None:
        self.flow = memory.flow("crowd")
        noise = np.random.default_rng(5)
        self.documents = {}
        for _ in range(50):
            document = Dice(noise.bytes(60)).document()
            self.documents[self.flow.write("every entry", metadata=document)] = document


@pytest.fixture(scope="module")
def crowd(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    with Memory(tmp_path_factory.mktemp("crowd"), worker=False) as memory:
        yield Crowd(memory)


@settings(
    max_examples=examples(300, chaos=2_000),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(rolls=st.binary(min_size=40, max_size=120))
def test_search_agrees_with_the_plain_evaluator_on_any_filter(crowd: Crowd, rolls: bytes) -> None:
    """C41"""
    asked = Dice(rolls).condition()
    condition = parse(asked)
    expected = {entry for entry, document in crowd.documents.items() if matches(condition, document)}
    hits = crowd.flow.search("every", limit=1000, filter=asked, recipe="words")
    assert {hit.id for hit in hits} == expected


def test_columns_grow_with_what_is_written_later(memory: Memory) -> None:
    flow = memory.flow("f")
    for number in range(150):
        flow.write("entry", metadata={"n": number})
        if number % 10 == 0:
            assert len(flow.search("entry", limit=1000, filter={"n": {"$gte": 0}})) == number + 1
            assert contents(flow.search("entry", filter={"n": number})) == ["entry"]


# -- order and scores --------------------------------------------------------------------------------------------------


def talk(memory: Memory) -> None:
    """Two people and an assistant on several days."""
    history = memory.flow("talk").session("s").history
    said = [
        ("user", "Caroline", "I went to the pottery class yesterday.", 1),
        ("user", "Melanie", "How was the pottery class?", 1),
        ("user", "Caroline", "Wonderful, I made a blue bowl.", 1),
        ("assistant", None, "The pottery class sounds like fun.", 1),
        ("user", "Melanie", "My children painted a sunset in May.", 30),
        ("user", "Caroline", "Did they like painting?", 30),
        ("assistant", None, "Painting is a fine hobby. " * 40, 30),
        ("user", "Melanie", "They did! We bought an automobile too.", 31),
        ("tool", None, "weather: sunny", 31),
    ]
    for role, name, content, day in said:
        history.append(role=role, content=content, name=name, occurred_at=DAY0 + timedelta(days=day))
    memory.flow("talk").write("Caroline loves pottery")
    memory.flow("talk").session("s").write("Melanie owns a car")


QUERIES = [
    "pottery",
    "What did Caroline make?",
    "What did Mel's children paint in May 2026?",
    "When did they buy a car?",
    "what did you say about painting",
    "pottery on 2 April 2026",
    "yesterday",
    "Who asked about the class?",
    "sunny weather",
    "bowl",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_arms_add_up_to_the_score(memory: Memory, query: str) -> None:
    talk(memory)
    seen: set[str] = set()
    for recipe in ("default", "words", "meaning"):
        for include in ([], ["turns"]):
            hits = memory.flow("talk").search(query, limit=100, include=include, explain=True, recipe=recipe)
            for hit in hits:
                assert hit.arms is not None
                assert abs(sum(hit.arms.values()) - hit.score) <= 1e-6
                assert 0 <= hit.score <= 1
                seen |= set(hit.arms)
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
    assert seen <= {"words", "meaning", "neighbours", "question", "time", "speaker", "assistant"}
    assert all(hit.arms is None for hit in memory.flow("talk").search(query, **TURNS))


def test_every_arm_takes_part_somewhere(memory: Memory) -> None:
    talk(memory)
    seen: set[str] = set()
    for query in QUERIES:
        for hit in memory.flow("talk").search(query, limit=100, explain=True, **TURNS):
            seen |= set(hit.arms or {})
    assert seen == {"words", "meaning", "neighbours", "question", "time", "speaker", "assistant"}


def test_entries_of_others_do_not_change_a_score(memory: Memory) -> None:
    """Nobody can learn from a score what is in another flow, of another user, or in another tenant."""
    talk(memory)
    me = memory.user("alice")
    me.add("I went to a pottery class")
    places: list[Any] = [memory.flow("talk"), memory.flow("talk").session("s"), me]

    def scores() -> list[Any]:
        found = [place.search(query, limit=100, explain=True, **TURNS) for place in places for query in QUERIES]
        return [[(hit.id, hit.score, hit.arms) for hit in hits] for hits in found]

    before = scores()
    other = memory.flow("another")
    other.session("s").history.extend([{"role": "user", "content": f"pottery class {n}"} for n in range(500)])
    for number in range(20):
        other.write(f"pottery {number}")
        memory.user("bob").add(f"pottery class {number}")
        memory.log("s").append(entry_type="observation", content="pottery class")
    assert scores() == before


def test_a_score_is_never_below_the_least_that_was_asked_for(memory: Memory) -> None:
    talk(memory)
    flow = memory.flow("talk")
    everything = flow.search("pottery class", limit=100, min_score=0, **TURNS)
    for least in (0.0, 0.1, 0.3, 0.5, 0.9, 1.0):
        hits = flow.search("pottery class", limit=100, min_score=least, **TURNS)
        assert [hit.id for hit in hits] == [hit.id for hit in everything if hit.score >= least]


def test_a_hit_is_found_when_its_own_score_is_the_least(memory: Memory) -> None:
    talk(memory)
    flow = memory.flow("talk")
    for query in QUERIES:
        for hit in flow.search(query, limit=100, **TURNS):
            found = flow.search(query, limit=100, min_score=hit.score, **TURNS)
            assert hit.id in [one.id for one in found], (query, hit.score)


def test_the_score_of_an_entry_does_not_depend_on_the_limit(memory: Memory) -> None:
    talk(memory)
    flow = memory.flow("talk")
    for query in QUERIES:
        many = [(hit.id, hit.score) for hit in flow.search(query, limit=100, **TURNS)]
        assert [(hit.id, hit.score) for hit in flow.search(query, limit=3, **TURNS)] == many[:3]


def test_recipes_weigh_differently_and_say_so(memory: Memory) -> None:
    flow = memory.flow("f")
    flow.write("He bought an automobile")
    flow.write("A car park is a place of concrete")
    words, meaning = flow.search("car", recipe="words"), flow.search("car", recipe="meaning")
    assert contents(words) == ["A car park is a place of concrete"]
    assert set(contents(meaning)) == {"He bought an automobile", "A car park is a place of concrete"}
    assert (words.method, meaning.method, flow.search("car").method) == ("words", "meaning", "words+meaning")
    assert words[0].score != meaning[0].score
    for asked in (flow.search, lambda query, recipe: flow.why_not("0" * 26, query, recipe=recipe)):
        with pytest.raises(Invalid, match=r"'soup' does not exist\. Use one of: default, words, meaning"):
            asked("car", recipe="soup")


def test_without_a_model_words_alone_find(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", "none")
    with Memory(home, worker=False) as memory:
        memory.flow("f").write("He bought an automobile")
        hits = memory.flow("f").search("automobile")
        assert (contents(hits), hits.method) == (["He bought an automobile"], "words")
        assert memory.flow("f").search("car").hits == []


# -- why not -----------------------------------------------------------------------------------------------------------


def test_why_not_names_the_one_gate(memory: Memory, clock: FrozenClock) -> None:
    flow, session = memory.flow("f"), memory.flow("f").session("s")
    old = session.history.append(role="user", content="parcel long ago").id
    clock.advance(days=91)
    said = session.history.append(role="user", content="parcel just now").id
    best = flow.write("parcel parcel", metadata={"n": 1})
    second = flow.write("parcel and many other words beside it", metadata={"n": 2})
    far = flow.write("zebra", metadata={"n": 3})
    elsewhere = memory.flow("g").write("parcel")
    withdrawn = flow.write("parcel withdrawn")
    engine_of(memory).write(
        Principal("default", "admin"),
        lambda space: upkeep.remove_entries(
            space.tx, space.tx.rows("retire_entry", id=withdrawn, version=1, now=space.now)
        ),
    )
    now = datetime(2026, 7, 19, tzinfo=UTC)
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("scope", elsewhere, {}),
        ("scope", said, {}),
        ("retired", withdrawn, {}),
        ("expired", old, TURNS),
        ("time", best, {"after": now + timedelta(days=1)}),
        ("time", best, {"before": now - timedelta(days=1)}),
        ("filter", second, {"filter": {"n": 1}}),
        ("score", second, {"min_score": 1.0}),
        ("score", far, {"recipe": "words"}),
        ("rank", second, {"limit": 1}),
        ("found", best, {}),
        ("found", said, TURNS),
    ]
    for gate, entry, conditions in asked:
        answer = flow.why_not(entry, "parcel", **conditions)
        assert answer.gate == gate, (gate, answer)
        assert answer.id == entry
        assert answer.detail.endswith(".")
        assert "None" not in answer.detail
        found = entry in [hit.id for hit in flow.search("parcel", **conditions)]
        assert found is (gate == "found")
    assert flow.why_not(second, "parcel", limit=1).rank == 2
    assert flow.why_not(best, "parcel").score == flow.search("parcel")[0].score
    with pytest.raises(NotFound):
        flow.why_not("0" * 26, "parcel")


def test_why_not_agrees_with_search_when_a_filter_lets_in_what_fits_no_word(memory: Memory) -> None:
    """What conditions alone find is found, whatever its score."""
    flow = memory.flow("f")
    entry = flow.write("zebra", metadata={"n": 1})
    hits = flow.search("quoxalphine", recipe="words", filter={"n": 1})
    assert [hit.id for hit in hits] == [entry]
    assert flow.why_not(entry, "quoxalphine", recipe="words", filter={"n": 1}).gate == "found"


def test_a_scoped_key_does_not_reveal_others(tmp_path: Path) -> None:
    """Of another user's entry it hears the same as of one that does not exist."""
    with live(tmp_path, worker=False) as server, server.memory() as admin:
        foreign = admin.user("bob").add("bob's secret parcel").turns[0].id
        fact = admin.flow("f").write("a fact about the parcel")
        own = admin.user("alice").add("alice's parcel").turns[0].id
        logged = admin.log("l").append(entry_type="observation", content="parcel").id
        assert admin.user("alice").why_not(foreign, "parcel").gate == "scope"
        key = admin.keys.create("alice's", "reader", user="alice").secret
        with server.memory(key) as alice:
            assert alice.user("alice").why_not(own, "parcel").gate == "found"
            said = []
            for entry in (foreign, fact, logged, "0" * 26):
                with pytest.raises(NotFound) as raised:
                    alice.user("alice").why_not(entry, "parcel")
                said.append((raised.value.message, raised.value.details))
            assert said == said[:1] * 4
            for call in (alice.user("bob").search, alice.flow("f").search):
                with pytest.raises(Forbidden):
                    call("parcel")
            with pytest.raises(Forbidden):
                alice.user("bob").why_not(own, "parcel")
            assert contents(alice.user("alice").search("secret parcel", **TURNS)) == ["alice's parcel"]
        with server.client(key) as client:
            theirs = client.post("/v1/users/alice/search/why-not", json={"query": "parcel", "id": foreign})
            nobodys = client.post("/v1/users/alice/search/why-not", json={"query": "parcel", "id": "0" * 26})
            assert (theirs.status_code, theirs.content) == (nobodys.status_code, nobodys.content)
            assert theirs.status_code == 404


def test_why_not_does_not_know_deleted_entries(memory: Memory) -> None:
    session = memory.flow("f").session("s")
    entry = session.write("parcel")
    memory.call("flows.delete_session", {"flow": "f", "session": "s"})
    with pytest.raises(NotFound):
        memory.flow("f").why_not(entry, "parcel")


# -- long texts --------------------------------------------------------------------------------------------------------


def long_text(seed: int, sentence: str = "") -> str:
    noise = np.random.default_rng(seed)
    words = ["report", "meeting", "budget", "table", "market", "quarter", "figure", "plan", "review", "office", "team"]
    sentences = [" ".join(noise.choice(words, 12)).capitalize() + "." for _ in range(416)]
    if sentence:
        sentences.insert(250, sentence)
    return " ".join(sentences)


@pytest.mark.parametrize(
    ("query", "recipe"),
    [
        ("veterinarian", "words"),
        ("puppy", "default"),
        ("our puppy was examined by a vet", "default"),
        ("the vet looked at the small dog", "meaning"),
    ],
)
def test_one_sentence_of_a_long_text_is_found(memory: Memory, query: str, recipe: str) -> None:
    flow = memory.flow("f")
    flow.write(long_text(0, "The veterinarian examined our puppy."))
    for seed in range(1, 6):
        flow.write(long_text(seed))
    assert len(flow.memories()[0].content.split()) > 4990
    hit = flow.search(query, recipe=recipe, explain=True)[0]
    assert "veterinarian" in hit.content
    assert abs(sum((hit.arms or {}).values()) - hit.score) <= 1e-6


def test_long_and_short_texts_keep_their_own_vectors(memory: Memory) -> None:
    """Parts are laid out anew when a long text joins: nothing slips to a neighbour."""
    flow = memory.flow("f")
    texts = ["He bought an automobile", "The cat sleeps", "She plays the violin", "They got married in a church"]
    for number, text in enumerate(texts):
        flow.write(text)
        flow.search("anything")
        flow.write(long_text(number))
        if number % 2:
            flow.search("anything")
    for query, number in (("car", 0), ("kitten", 1), ("musical instrument", 2), ("wedding", 3)):
        assert flow.search(query, recipe="meaning")[0].content == texts[number]


# -- many at once, little memory ---------------------------------------------------------------------------------------


def test_searching_while_others_write(home: Path) -> None:
    with Memory(home, worker=False) as memory:
        stop, troubles, written, searched = Event(), list[str](), [0] * 4, [0] * 4
        memory.flow("f").write("writer 9 number 0", metadata={"w": 9, "n": 0})

        def write(writer: int) -> None:
            flow = memory.flow("f")
            while not stop.is_set():
                number = written[writer]
                content, metadata = f"writer {writer} number {number}", {"w": writer, "n": number}
                if number % 5 == 0:
                    flow.write(content + " " + "and so on. " * (60 if number % 10 else 0), metadata=metadata)
                else:
                    flow.session(f"s{writer}").history.append(role="user", content=content, metadata=metadata)
                written[writer] += 1

        def search(searcher: int) -> None:
            while not stop.is_set():
                asked: Any = {"filter": {"w": searcher}} if searcher % 2 else {}
                hits = memory.flow("f").search("writer number", limit=50, explain=True, **TURNS, **asked)
                searched[searcher] += 1
                for hit in hits:
                    said = hit.metadata or {}
                    if not hit.content.startswith(f"writer {said['w']} number {said['n']}"):
                        troubles.append(f"{hit.content} has {said}")
                    if asked and said["w"] != searcher:
                        troubles.append(f"{said} does not meet {asked}")
                    if abs(sum((hit.arms or {}).values()) - hit.score) > 1e-6:
                        troubles.append(f"{hit.arms} is not {hit.score}")

        def guarded(work: Callable[[int], None], number: int) -> None:
            try:
                work(number)
            except Exception as error:  # noqa: BLE001 -- whatever it is, the test shows it
                troubles.append(repr(error))

        threads = [Thread(target=guarded, args=(work, number)) for work in (write, search) for number in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: troubles or min(*written, *searched) >= 25)
        stop.set()
        for thread in threads:
            thread.join()
        assert troubles == []
        for writer, count in enumerate(written):
            hits = memory.flow("f").search("writer", limit=1000, filter={"w": writer}, **TURNS)
            assert len(hits) == min(count, 1000)


def test_a_filter_asked_on_an_older_snapshot_spoils_no_later_answer(home: Path) -> None:
    """A reader that began before a write may look at a block which already holds it; what it cannot see is not noted."""
    with Memory(home, worker=False) as memory:
        flow, engine = memory.flow("f"), engine_of(memory)
        flow.write("entry zero", metadata={"n": 0})
        assert len(flow.search("entry", filter={"n": {"$gte": 0}})) == 1

        def write_and_search() -> None:
            flow.write("entry one", metadata={"n": 1})
            flow.search("entry")

        def old_reader(tx: Any) -> None:
            tx.row("list_models")  # the snapshot is taken here
            thread = Thread(target=write_and_search)
            thread.start()
            thread.join()
            (block,) = engine.recall.indexes._indexes.values()
            query = Query("entry", (), filter=parse({"n": {"$gte": 0}}))
            build_view(
                tx, block, ScopePart(True, block.scope_id, None, "en"), query, engine.clock.now(), search_state(tx)
            )

        engine.store.read("default", old_reader)
        assert len(flow.search("entry")) == 2
        assert len(flow.search("entry", filter={"n": {"$gte": 0}})) == 2
        assert contents(flow.search("entry", filter={"n": 1})) == ["entry one"]


def test_hardly_any_memory_changes_no_answer(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(folder: Path) -> list[Any]:
        with Memory(folder, worker=False, clock=FrozenClock()) as memory:
            for number in range(4):
                memory.flow(f"f{number}").write(f"The automobile of flow {number}", metadata={"n": number})
                memory.flow(f"f{number}").session("s").history.append(role="user", content=f"my car {number}")
                memory.user(f"u{number}").add(f"A violin of user {number}")
            places: list[Any] = [memory.flow(f"f{number}") for number in range(4)]
            places += [memory.user(f"u{number}") for number in range(4)] + [memory.flow("f1").session("s")]
            found: list[Any] = []
            for query in ("car", "automobile", "musical instrument", "user"):
                for place in places:
                    hits = place.search(query, limit=10, **TURNS)
                    found.append([(hit.content, hit.score) for hit in hits])
                    found.append(contents(place.search(query, filter={"n": {"$gte": 1}}, **TURNS)))
            if folder is home:
                assert len(engine_of(memory).recall.indexes._indexes) == 1
            return found

    expected = answers(tmp_path / "plenty")
    monkeypatch.setenv("MEMWELL_INDEX_MEMORY", "1")
    assert answers(home) == expected


# -- erasure -----------------------------------------------------------------------------------------------------------

CANARY = "zorblaxquine"
SENTENCE = f"the {CANARY} automobile of the physician"


@pytest.fixture
def kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search keeps the vectors that it makes, however few they are."""
    monkeypatch.setattr(embeddings, "MIN_WRITE", 1)


def stored(home: Path) -> list[tuple[bytes, str]]:
    """The vectors and the tokens of what mentions the canary, as they lie in the file."""
    columns, number = "v.value, w.tokens", "rowid"
    if DATABASES.engine == "postgres":
        columns, number = "SUBSTRING(HALFVEC_SEND(v.value) FROM 5), CAST(w.tokens AS TEXT)", "docid"
    sql = f"""SELECT {columns} FROM entry e JOIN vector v ON v.docid = e.docid
              JOIN word w ON w.{number} = e.docid WHERE e.content LIKE '%{CANARY}%'"""
    return [(value, tokens) for value, tokens in engines.query(home, sql)]


def traces(home: Path, needles: list[bytes]) -> list[str]:
    """Which files or tables hold one of some bytes."""
    kept = remains(home).items()
    return [f"{needle[:20]!r} in {name}" for name, data in kept for needle in needles if needle in data]


def _user(memory: Memory) -> Callable[[], Any]:
    memory.user("alice").add(SENTENCE)
    memory.user("alice").add([{"role": "user", "content": f"{SENTENCE} again", "name": CANARY}])
    memory.user("alice").search(CANARY, **TURNS)
    return memory.user("alice").forget


def _session(memory: Memory) -> Callable[[], Any]:
    session = memory.flow("f").session("s")
    session.write(SENTENCE + " at length. " * 100)
    session.history.append(role="user", content=SENTENCE)
    memory.flow("f").search(CANARY, **TURNS)
    session.search(CANARY, **TURNS)
    return session.delete


def _flow(memory: Memory) -> Callable[[], Any]:
    memory.flow("f").write(SENTENCE)
    memory.flow("f").search(CANARY)
    return memory.flow("f").delete


def _memory(memory: Memory) -> Callable[[], Any]:
    flow = memory.flow("f")
    entry = flow.write(SENTENCE)
    flow.search(CANARY)
    return lambda: flow.delete_memory(entry)


ERASURES = [_user, _session, _flow, _memory]


@pytest.mark.usefixtures("kept_at_once")
@pytest.mark.parametrize("make", ERASURES)
def test_no_vector_and_no_token_of_what_was_erased_is_in_any_file(
    home: Path, make: Callable[[Memory], Callable[[], Any]]
) -> None:
    with Memory(home, worker=False) as memory:
        memory.flow("kept").write("a bystander with a violin")
        erase = make(memory)
        found = stored(home)
        assert found
        needles = [value[at : at + 48] for value, _ in found for at in range(0, len(value), 512)]
        needles += [CANARY.encode(), analyse.tokenize(CANARY)[0].encode()]
        assert traces(home, needles[:1])
        assert traces(home, needles[-1:])
        erase()
        assert traces(home, needles) == []
        assert stored(home) == []
        assert memory.flow("kept").search("musical instrument")[0].content == "a bystander with a violin"
    assert traces(home, needles) == []


@pytest.mark.usefixtures("kept_at_once")
@pytest.mark.parametrize("make", ERASURES)
def test_no_vector_of_what_was_erased_stays_in_memory(home: Path, make: Callable[[Memory], Callable[[], Any]]) -> None:
    """An index in memory is a copy too: when the erasure has reported, it is gone from there."""
    with Memory(home, worker=False) as memory:
        erase = make(memory)
        order = "<f2" if DATABASES.engine == "sqlite" else ">f2"
        halves = [np.frombuffer(value, order).reshape(-1, 256) for value, _ in stored(home)]
        needles = [half.astype(np.float32).tobytes() for half in halves]

        def held() -> bool:
            blocks = list(engine_of(memory).recall.indexes._indexes.values())
            return any(
                needle in space.vectors._room.tobytes()
                for needle in needles
                for block in blocks
                for space in block.spaces
            )

        assert held()
        erase()
        assert not held()


@pytest.mark.usefixtures("kept_at_once")
def test_a_changed_memory_leaves_its_old_vector_nowhere_once_it_is_deleted(home: Path) -> None:
    with Memory(home, worker=False) as memory:
        flow = memory.flow("f")
        entry = flow.write(SENTENCE)
        flow.search(CANARY)
        (old,) = (value for value, _ in stored(home))
        flow.update(entry, content="something harmless")
        assert flow.search(CANARY, recipe="words").hits == []
        flow.delete_memory(entry)
        assert traces(home, [old[:48], CANARY.encode()]) == []


def test_a_tenant_of_the_same_name_finds_nothing_of_the_erased_one(home: Path) -> None:
    with Memory(home, worker=False) as operator:
        operator.tenants.create("acme")
        with Memory(home, tenant="acme", worker=False) as acme:
            acme.flow("f").write(SENTENCE)
            assert len(acme.flow("f").search(CANARY)) == 1
        operator.tenants.delete("acme")
        operator.tenants.create("acme")
        with Memory(home, tenant="acme", worker=False) as acme:
            assert acme.flow("f").search(CANARY).hits == []
            acme.flow("f").write("a new beginning")
            assert contents(acme.flow("f").search(f"{CANARY} beginning")) == ["a new beginning"]
    assert traces(home, [CANARY.encode()]) == []


def test_a_search_leaves_few_vectors_to_the_background(home: Path) -> None:
    """No reader waits for a disk; what was not kept is made again by whoever opens the directory next."""
    with Memory(home, worker=False) as memory:
        memory.flow("f").write(SENTENCE)
        assert len(memory.flow("f").search("doctor's car")) == 1
        assert stored(home) == []
    with Memory(home, worker=False) as memory:
        assert memory.flow("f").search("doctor's car").method == "words+meaning"
        memory.flow("f").import_lines({"type": "memory", "content": f"{SENTENCE} {n}"} for n in range(99))
        memory.flow("f").search("doctor's car")
        assert len(stored(home)) == 99


def test_hits_survive_their_way_over_http(tmp_path: Path) -> None:
    """The same fields, scores and arms here and there."""
    with live(tmp_path / "server", worker=False) as server, server.memory() as there:
        talk(there)
        with Memory(tmp_path / "here", worker=False) as here:
            talk(here)
            for query in QUERIES[:4]:
                pair = [m.flow("talk").search(query, explain=True, limit=20, **TURNS) for m in (here, there)]
                assert [(hit.content, hit.score, hit.arms, hit.name) for hit in pair[0]] == [
                    (hit.content, hit.score, hit.arms, hit.name) for hit in pair[1]
                ]
                assert msgspec.json.decode(msgspec.json.encode(pair[1]))["method"] == "words+meaning"
