"""Vectors from the first write on: deferred, completed, made anew for another model, and never in the way of words."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memwell import Hits
from memwell.clock import SECOND
from memwell.core.engine import Engine
from memwell.core.space import EMBED_AFTER
from memwell.jobs import queue
from memwell.models.wordllama import WordLlama
from memwell.sdk.transport import LocalTransport
from memwell.search import embeddings, search_engine
from memwell.testing import FrozenClock, ScriptedEmbedder

from ..conformance.scene import finish, python, run_python
from ..engines import DATABASES, Memory, located, query
from ..scripted import EmbeddingServer
from ..waiting import wait_until

KEY = "sk-never-to-be-seen"
SCRIPTED: dict[str, ScriptedEmbedder] = {}
FACTS = ["The parrot eats mangoes", "Invoices are paid on Fridays", "The office is in Porto", "Ships to the EU only"]


def scripted(name: str) -> ScriptedEmbedder:
    """The plugin of these tests: `MEMWELL_EMBEDDER=scripted:NAME` is the embedder that a test made under that name."""
    return SCRIPTED[name]


def register(site: Path, value: str) -> None:
    about = site / "memwell_scripted-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: memwell-scripted\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[memwell.embedders]\nscripted = {value}\n")


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    register(tmp_path / "site", f"{__name__}:scripted")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield
    for embedder in SCRIPTED.values():
        embedder.heal()
    SCRIPTED.clear()


class Scene:
    """One data directory that is opened again and again, each time under the embedder of one's choice."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.clock = FrozenClock()
        self._monkeypatch = monkeypatch

    def make(self, name: str, **options: Any) -> ScriptedEmbedder:
        SCRIPTED[name] = ScriptedEmbedder(name, **options)
        return SCRIPTED[name]

    def open(self, embedder: str = "wordllama", *, worker: bool = False) -> Memory:
        name = f"scripted:{embedder}" if embedder in SCRIPTED else embedder
        self._monkeypatch.setenv("MEMWELL_EMBEDDER", name)
        return Memory(self.home, worker=worker, clock=self.clock)

    def run_jobs(self, memory: Memory) -> None:
        """Let the time pass after which new entries are embedded, and do what is due."""
        self.clock.advance(seconds=2 * EMBED_AFTER / SECOND)
        engine_of(memory).worker.run_due("default")

    def query(self, sql: str) -> list[Any]:
        return query(self.home, sql)

    def vectors(self) -> dict[str, int]:
        """How many entries have vectors, by model."""
        return dict(
            self.query(
                "SELECT m.name, COUNT(DISTINCT v.docid) FROM model m LEFT JOIN vector v ON v.model = m.id GROUP BY m.name"
            )
        )

    def require_whole(self) -> None:
        """Every vector is of a model that is known, as wide as it says, and of an entry that is there."""
        wide = "LENGTH(v.value) / 2" if DATABASES.engine == "sqlite" else "vector_dims(v.value)"
        wrong = f"""SELECT v.model, v.docid, m.dimensions FROM vector v
            LEFT JOIN model m ON m.id = v.model LEFT JOIN entry e ON e.docid = v.docid
            WHERE m.id IS NULL OR e.docid IS NULL OR {wide} % m.dimensions <> 0 OR {wide} = 0"""
        assert self.query(wrong) == []


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path / "home", monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        monkeypatch.setenv("MEMWELL_EMBEDDER_URL", server.url)
        monkeypatch.setenv("MEMWELL_OPENAI_API_KEY", KEY)
        yield server


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def remember(memory: Memory, *facts: str) -> list[str]:
    return [memory.flow("f").write(fact) for fact in facts or FACTS]


def ask(memory: Memory, query: str = "parrot mangoes", **conditions: Any) -> Hits:
    return memory.flow("f").search(query, **conditions)


def best(memory: Memory, query: str = "parrot mangoes", **conditions: Any) -> str:
    """The best hit of a search by meaning as well."""
    found = ask(memory, query, **conditions)
    assert (found.method.split(" ")[0], found.warning) == ("words+meaning", None)
    content: str = found[0].content
    return content


def say(memory: Memory, *contents: str) -> None:
    memory.flow("f").session("s").history.extend([{"role": "user", "content": content} for content in contents])


# -- deferred --------------------------------------------------------------------------------------------------------


def test_writing_asks_no_model_and_searching_asks_once_for_each_entry(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory:
        say(memory, *FACTS)
        remember(memory, "A fact of its own")
        assert model.seen == []
        assert scene.vectors() == {}
        for _ in range(3):
            assert best(memory, include=["turns"]) == FACTS[0]
        assert sorted(model.seen) == sorted([*FACTS, "A fact of its own", *["parrot mangoes"] * 3])
        say(memory, "The parrot eats mangoes and grapes")
        assert best(memory, "grapes", include=["turns"]) == "The parrot eats mangoes and grapes"
        assert len(model.seen) == 5 + 3 + 2
    with scene.open("one") as memory:
        assert best(memory, include=["turns"]) == FACTS[0]
        assert len(model.seen) == 5 + 3 + 2 + 1, "what has vectors is not embedded again"


def test_a_search_embeds_only_where_it_looks(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory:
        remember(memory)
        memory.flow("other").write("Something else entirely")
        memory.log("agent").append(entry_type="decision", content="sealed")
        assert best(memory) == FACTS[0]
        scene.run_jobs(memory)
    assert model.seen.count("Something else entirely") == 1
    assert "sealed" not in model.seen


def test_long_texts_are_found_by_a_detail_and_have_a_vector_for_each_part(scene: Scene) -> None:
    scene.make("one")
    filler = "Nothing of note was said about the weather on that day. " * 20
    with scene.open("one") as memory:
        remember(memory, filler + "The parrot eats mangoes. " + filler, *FACTS[1:])
        assert "parrot" in best(memory)
        scene.require_whole()
        parts = "LENGTH(MAX(value)) / 128" if DATABASES.engine == "sqlite" else "COUNT(*)"
        widths = [count for (count,) in scene.query(f"SELECT {parts} FROM vector GROUP BY docid ORDER BY docid")]
        assert widths[0] > 3
        assert widths[1:] == [1, 1, 1]


def test_the_job_waits_for_its_time_and_then_embeds_everything(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory:
        say(memory, *FACTS)
        worker = engine_of(memory).worker
        scene.clock.advance(seconds=EMBED_AFTER / SECOND - 1)
        worker.run_due("default")
        assert model.seen == []
        scene.clock.advance(seconds=1)
        worker.run_due("default")
        assert model.seen == FACTS
        assert scene.vectors() == {"one/64": 4}
        (job,) = memory.jobs.list(kind="embed")
        assert (job.state, job.result) == ("done", {"embedded": 4, "dropped": 0})
        say(memory, "One more")
        scene.run_jobs(memory)
        assert model.seen == [*FACTS, "One more"]


def test_the_worker_in_the_background_embeds_by_itself(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one", worker=True) as memory:
        say(memory, *FACTS)
        scene.clock.advance(seconds=2 * EMBED_AFTER / SECOND)
        wait_until(lambda: scene.vectors() == {"one/64": 4}, "the worker did not embed")
    assert sorted(model.seen) == sorted(FACTS)


def test_what_is_written_while_the_job_works_is_embedded_by_a_job_too(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory, ThreadPoolExecutor(1) as pool:
        say(memory, *FACTS)
        model.hang()
        working = pool.submit(scene.run_jobs, memory)
        model.wait_until_asked()
        say(memory, "Said while the job was at work")
        model.heal()
        working.result(30)
        scene.run_jobs(memory)
        assert scene.vectors() == {"one/64": 5}


def test_removed_entries_leave_no_vector(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory, ThreadPoolExecutor(1) as pool:
        first, second, third, _ = remember(memory)
        model.hang()
        searching = pool.submit(ask, memory)
        model.wait_until_asked()
        memory.flow("f").update(second, content="Invoices are paid on Mondays")
        memory.flow("f").delete_memory(third)
        model.heal()
        assert searching.result(30)[0].id == first
        scene.require_whole()
        assert scene.vectors() == {"one/64": 3}, "of what was changed meanwhile, what it said before may be asked for"
        assert best(memory, "Mondays") == "Invoices are paid on Mondays"
        assert [hit.id for hit in ask(memory, "office Porto") if hit.id == third] == []
        memory.flow("f").delete()
        assert scene.query("SELECT COUNT(*) FROM vector") == [(0,)]


# -- more than can be done while somebody waits ----------------------------------------------------------------------


def test_a_search_that_cannot_embed_all_says_partly_until_the_job_is_done(scene: Scene) -> None:
    model = scene.make("slow", quick=3)
    with scene.open("slow") as memory:
        remember(memory, *(f"Fact number {n} of many" for n in range(20)), "The parrot eats mangoes")
        found = ask(memory)
        assert (found.method, found.warning) == ("words+meaning (partly)", None)
        assert found[0].content == "The parrot eats mangoes"
        assert len(model.seen) == 3 + 1
        assert ask(memory, "number 0 of many").method == "words+meaning (partly)"
        scene.run_jobs(memory)
        assert ask(memory).method == "words+meaning"
        assert len([text for text in model.seen if "Fact" in text]) == 20, "nothing twice"


def test_a_search_after_a_large_write_answers_from_a_part_of_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few entries there are, a search computes vectors for a limited amount of text."""
    monkeypatch.setattr(search_engine, "QUICK_CHARACTERS", 10_000)
    model = scene.make("quick", quick=1000)
    with scene.open("quick") as memory:
        remember(memory, *(f"Fact number {n} " + "is long " * 400 for n in range(100)), "The parrot eats mangoes")
        for _ in range(3):
            model.seen.clear()
            found = ask(memory)
            assert (found[0].content, found.method) == ("The parrot eats mangoes", "words+meaning (partly)")
            assert sum(map(len, model.seen)) < 40_000, "chunks overlap"
        scene.run_jobs(memory)
        assert ask(memory).method == "words+meaning"


class OneByOne(ScriptedEmbedder):
    """Computes in this process, and counts how many of its calls for entries overlap."""

    instant = True
    running = most = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.running += len(texts) > 1
        self.most = max(self.most, self.running)
        time.sleep(0.01)
        found = super().embed(texts)
        self.running -= len(texts) > 1
        return found


def test_searches_of_a_tenant_compute_vectors_one_after_another(scene: Scene) -> None:
    """Otherwise many searches after a large write would take the processor from other tenants."""
    model = SCRIPTED["local"] = OneByOne("local", quick=1000)
    with scene.open("local") as memory:
        remember(memory, *(f"Fact number {n}" for n in range(200)))
        with ThreadPoolExecutor(8) as pool:
            assert all(found.hits for found in pool.map(lambda _: ask(memory), range(8)))
    assert model.most == 1


def test_a_search_that_cannot_embed_all_finds_the_rest_by_words(scene: Scene) -> None:
    scene.make("slow", quick=0)
    with scene.open("slow") as memory:
        remember(memory)
        for fact in FACTS:
            found = ask(memory, fact)
            assert found[0].content == fact
            assert found.method == "words+meaning (partly)"


# -- another model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [("wordllama", "wide"), ("wide", "narrow"), ("narrow", "wordllama")])
def test_another_model_takes_over_while_search_goes_on(scene: Scene, before: str, after: str) -> None:
    """At once, during, and after: found every time, and in the end the old vectors are gone."""
    scene.make("wide", dimensions=96, quick=1)
    scene.make("narrow", dimensions=8)
    names = {"wordllama": f"{WordLlama.id}/256", "wide": "wide/96", "narrow": "narrow/8"}
    with scene.open(before) as memory:
        remember(memory)
        assert best(memory) == FACTS[0]
        scene.run_jobs(memory)
        assert scene.vectors() == {names[before]: 4}
    with scene.open(after) as memory:
        assert best(memory) == FACTS[0]
        assert names[before] in scene.vectors(), "until the new ones are complete the old ones stay"
        remember(memory, "Grapes are written during the switch")
        assert best(memory, "grapes") == "Grapes are written during the switch"
        scene.require_whole()
        scene.run_jobs(memory)
        assert scene.vectors() == {names[after]: 5}
        assert best(memory) == FACTS[0]
        assert ask(memory).method == "words+meaning"
        scene.require_whole()


def test_a_switch_is_completed_though_nothing_more_is_written(scene: Scene) -> None:
    """Those who only search must not have half an index for ever."""
    scene.make("old")
    scene.make("new", dimensions=32, quick=1)
    with scene.open("old") as memory:
        remember(memory)
        scene.run_jobs(memory)
    with scene.open("new") as memory:
        assert ask(memory).method == "words+meaning (partly)"
        scene.run_jobs(memory)
        assert scene.vectors() == {"new/32": 4}


def test_what_is_written_during_a_switch_is_found_under_either_model(scene: Scene) -> None:
    scene.make("old", dimensions=16)
    scene.make("new", dimensions=48)
    with scene.open("old") as old, scene.open("new") as new:
        for n, fact in enumerate(FACTS):
            remember((old, new)[n % 2], fact)
            for memory in (old, new):
                assert best(memory, fact) == fact
        scene.require_whole()
        assert scene.vectors() == {"old/16": 4, "new/48": 4}


def test_a_search_goes_on_while_another_process_removes_its_vectors(scene: Scene) -> None:
    scene.make("old", dimensions=16)
    scene.make("new", dimensions=48)
    with scene.open("old") as old, scene.open("new") as new:
        remember(old)
        for _ in range(3):
            assert best(old) == FACTS[0]
            remember(new, "Something more")
            scene.run_jobs(new)
            assert list(scene.vectors()) == ["new/48"]
            assert best(old) == FACTS[0]
            assert best(new) == FACTS[0]
            scene.require_whole()


def test_vectors_that_are_made_while_their_model_is_removed_are_not_left_behind(scene: Scene) -> None:
    """They would belong to no model: no erasure would find them, and another model might get their number."""
    scene.make("new", dimensions=48)
    old = scene.make("old", dimensions=16)
    with scene.open("new") as new:
        remember(new)
        assert best(new) == FACTS[0]
    with scene.open("old") as memory, scene.open("new") as new, ThreadPoolExecutor(1) as pool:
        old.hang()
        searching = pool.submit(ask, memory)
        old.wait_until_asked()
        remember(new, "Something more")
        scene.run_jobs(new)
        old.heal()
        assert searching.result(30)[0].content == FACTS[0]
        scene.require_whole()
        memory.flow("f").delete()
        assert scene.query("SELECT COUNT(*) FROM vector") == [(0,)]


def test_a_number_that_was_another_models_brings_no_vectors_of_its_width(scene: Scene) -> None:
    """Dimensions never clash, though one model goes and another comes while the first is at work."""
    first, second, third = scene.make("first"), scene.make("second", dimensions=16), scene.make("third", dimensions=48)
    with scene.open("first") as one, scene.open("second") as two, scene.open("third") as three:
        remember(one)
        assert best(one) == FACTS[0]
        with ThreadPoolExecutor(1) as pool:
            second.hang()
            searching = pool.submit(ask, two)
            second.wait_until_asked()
            remember(one, "Something more")
            scene.run_jobs(one)
            assert three.flow("f").search("nothing like it").warning is None
            third.seen.clear()
            say(three, "The third model is known, and has a vector to make")
            second.heal()
            assert searching.result(30)[0].content == FACTS[0]
        for memory in (one, two, three):
            assert best(memory, include=["turns"]) == FACTS[0]
        scene.require_whole()
    with scene.open("third") as three:
        assert best(three, include=["turns"]) == FACTS[0]
    assert first.seen


def test_a_removal_that_was_broken_off_is_made_good_by_the_job(scene: Scene) -> None:
    """Whoever goes back to a model whose removal had begun gets its vectors again in the background."""
    scene.make("old", quick=1)
    with scene.open("old") as memory:
        remember(memory)
        scene.run_jobs(memory)
    scene.query("UPDATE model SET embedded_to = 0")  # the first batch of a removal, whose worker then died
    scene.query("DELETE FROM vector WHERE docid <= 3")
    with scene.open("old") as memory:
        remember(memory, "Something more")
        scene.run_jobs(memory)
        assert scene.vectors() == {"old/64": 5}


# -- a model that fails ----------------------------------------------------------------------------------------------


def test_a_model_that_fails_is_left_alone_for_a_while_and_then_used_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scene.make("one")
    with scene.open("one") as memory:
        remember(memory)
        model.fail("Out of memory.")
        for _ in range(3):
            found = ask(memory)
            assert (found[0].content, found.method, found.warning) == (FACTS[0], "words", "Out of memory.")
        assert len(model.seen) == len(FACTS), "it was asked once"
        model.heal()
        assert ask(memory).method == "words"
        monkeypatch.setattr(embeddings, "RETRY_S", 0.0)
        assert best(memory) == FACTS[0]


def test_a_model_that_fails_only_at_the_query_gives_a_warning_too(scene: Scene) -> None:
    model = scene.make("one")
    with scene.open("one") as memory:
        remember(memory)
        assert best(memory) == FACTS[0]
        model.fail()
        found = ask(memory)
        assert (found[0].content, found.method) == (FACTS[0], "words")
        assert found.warning == "The scripted model fails."


def test_a_job_whose_model_fails_is_tried_again_and_keeps_the_old_vectors(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "RETRY_S", 0.0)
    scene.make("old")
    new = scene.make("new", dimensions=32)
    with scene.open("old") as memory:
        remember(memory)
        scene.run_jobs(memory)
    with scene.open("new") as memory:
        remember(memory, "Something more")
        new.fail("Out of memory.")
        scene.run_jobs(memory)
        job = memory.jobs.list(kind="embed")[0]
        assert job.state == "ready"
        assert "Out of memory." in (job.error or "")
        assert scene.vectors()["old/64"] == 4
        new.heal()
        scene.run_jobs(memory)
        assert scene.vectors() == {"new/32": 5}


# -- an endpoint -----------------------------------------------------------------------------------------------------


def test_a_search_through_an_endpoint_finds_by_meaning(scene: Scene, server: EmbeddingServer) -> None:
    with scene.open("openai:tiny") as memory:
        remember(memory)
        assert server.requests == []
        assert best(memory) == FACTS[0]
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
        assert {request.body["model"] for request in server.requests} == {"tiny"}
        assert [server.texts.count(fact) for fact in FACTS] == [1, 1, 1, 1]
        assert scene.vectors() == {f"openai:tiny@{server.url.split('/')[2]}/32": 4}


BAD = ["error", "busy", "garbage", "half", "wrong_dimension"]


@pytest.mark.parametrize("answer", BAD)
def test_an_endpoint_that_fails_leaves_search_its_words(
    scene: Scene, server: EmbeddingServer, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with scene.open("openai:tiny") as memory:
        remember(memory)
        server.answer = answer
        found = ask(memory)
        assert (found[0].content, found.method) == (FACTS[0], "words")
        assert "endpoint" in (found.warning or "")
        scene.run_jobs(memory)
        assert memory.jobs.list(kind="embed")[0].error
        assert scene.query("SELECT COUNT(*) FROM vector") == [(0,)]
        said = f"{found} {memory.jobs.list()} {caplog.text}"
    assert KEY not in said


@pytest.mark.parametrize("answer", BAD)
def test_an_endpoint_that_fails_later_is_used_again_once_it_answers(
    scene: Scene, server: EmbeddingServer, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.open("openai:tiny") as memory:
        remember(memory)
        assert best(memory) == FACTS[0]
        server.answer = answer
        remember(memory, "Grapes came later")
        asked = len(server.requests)
        for _ in range(3):
            found = ask(memory, "grapes")
            assert (found[0].content, found.method) == ("Grapes came later", "words")
            assert found.warning
        assert len(server.requests) - asked == 1
        server.answer = "normal"
        monkeypatch.setattr(embeddings, "RETRY_S", 0.0)
        assert best(memory, "grapes") == "Grapes came later"
        scene.require_whole()


def test_an_endpoint_that_changes_its_dimension_leaves_search_its_words(scene: Scene, server: EmbeddingServer) -> None:
    with scene.open("openai:tiny") as memory:
        remember(memory)
        assert best(memory) == FACTS[0]
        server.dimensions = 48
        found = ask(memory)
        assert (found[0].content, found.method) == (FACTS[0], "words")
        assert "48 dimensions" in (found.warning or "")
        scene.require_whole()
    with scene.open("openai:tiny") as memory:  # started anew, it is another model
        assert best(memory) == FACTS[0]
        scene.require_whole()
        remember(memory, "Something more")
        scene.run_jobs(memory)
        assert [name.split("/")[-1] for name in scene.vectors()] == ["48"]


def test_an_endpoint_that_hangs_delays_one_search_only(
    scene: Scene, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memwell.models.embedder.Endpoint.__init__.__kwdefaults__", {"timeout_s": 0.5})
    with scene.open("openai:tiny") as memory:
        remember(memory)
        server.answer = "hang"
        found = ask(memory)
        assert (found[0].content, found.method) == (FACTS[0], "words")
        assert found.warning
        asked = len(server.requests)
        for _ in range(10):
            assert ask(memory).method == "words"
        assert len(server.requests) == asked, "it is left alone for a while"
        server.answer = "normal"
        monkeypatch.setattr(embeddings, "RETRY_S", 0.0)
        assert best(memory) == FACTS[0]


def test_a_model_is_left_alone_for_half_a_minute() -> None:
    assert embeddings.RETRY_S == 30.0


def test_closing_a_memory_closes_its_connections(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddingServer(keep_alive=True) as server:
        monkeypatch.setenv("MEMWELL_EMBEDDER_URL", server.url)
        memory = scene.open("openai:tiny")
        remember(memory)
        assert best(memory) == FACTS[0]
        assert server.connections == 1
        embedder: Any = engine_of(memory).recall.meaning.embedder()
        memory.close()
        try:
            wait_until(lambda: server.connections == 0)
        finally:
            embedder._client.close()  # whatever the outcome, no socket outlives the test


# -- disks and processes ---------------------------------------------------------------------------------------------

READ_ONLY = """
import os, sys, tempfile
from memwell import Memory
from memwell.models import wordllama

def search(home):
    with Memory(home, worker=False) as memory:
        return [memory.flow("f").search("parrot mangoes") for _ in range(2)]

if os.getuid() == 0:  # whom no permission stops: become somebody else, once everything is imported
    with tempfile.TemporaryDirectory() as elsewhere:
        with Memory(elsewhere, worker=False) as memory:
            memory.flow("f").write("parrot")
        search(elsewhere)
    model = wordllama.WordLlama()
    wordllama.WordLlama = lambda: model
    os.setgid(65534)
    os.setuid(65534)
for found in search(sys.argv[1]):
    print(found[0].content, "|", found.method, "|", found.warning)
"""


@pytest.mark.engines("sqlite")  # a directory that cannot be written
@pytest.mark.parametrize("embedded", ["all", "some", "none"])
def test_a_read_only_directory_can_be_searched(scene: Scene, embedded: str) -> None:
    """With vectors or without: those that cannot be kept are made all the same."""
    with scene.open() as memory:
        if embedded == "some":
            remember(memory, "Something earlier")
            ask(memory, "earlier")
        remember(memory)
        if embedded == "all":
            ask(memory)
    # Beside pytest's directories, whose modes other runs change.
    with tempfile.TemporaryDirectory() as folder:
        home = shutil.copytree(scene.home, Path(folder) / "home")
        Path(folder).chmod(0o755)
        modes = {path: path.stat().st_mode for path in [*home.rglob("*"), home]}
        for path in modes:
            path.chmod(0o555 if path.is_dir() else 0o444)
        lines = run_python(READ_ONLY, home).splitlines()
        for path, mode in modes.items():
            path.chmod(mode)
    assert [line.split(" | ")[0] for line in lines] == [FACTS[0]] * 2
    if embedded == "none":  # the model cannot be made known: by words, and it says why
        assert [line.split(" | ")[1] for line in lines] == ["words"] * 2
        assert "None" not in lines[0].split(" | ")[2]
    else:
        assert [line.split(" | ")[1:] for line in lines] == [["words+meaning", "None"]] * 2


ANOTHER = """
import sys
from memwell import Memory

with Memory(sys.argv[1], worker=False) as memory:
    flow = memory.flow("f")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(40):
        flow.write(f"There was number {n} of the kiwi")
        assert flow.search(f"number {n} kiwi")[0].content.endswith("kiwi")
        if n % 10 == 9:
            memory._transport.engine.store.write("default", lambda tx: hasten(tx))
            memory._transport.engine.worker.run_due("default")
    print(flow.search("kiwi").method)
"""
HASTEN = """
from memwell.jobs import queue
def hasten(tx):
    queue.ensure_slot(tx, "embed", 0, 0)
"""


def test_two_processes_with_different_models_do_not_damage_each_others_vectors(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.make("here", dimensions=48)
    register(tmp_path / "elsewhere", "memwell.testing:ScriptedEmbedder")
    with scene.open("here") as memory:
        remember(memory)
        monkeypatch.setenv("MEMWELL_EMBEDDER", "scripted:there")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
        other = python(HASTEN + ANOTHER, located(scene.home))
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        engine = engine_of(memory)
        for n in range(40):
            remember(memory, f"Here was number {n} of the plum")
            assert best(memory, f"number {n} plum") == f"Here was number {n} of the plum"
            if n % 10 == 5:
                engine.store.write("default", lambda tx: queue.ensure_slot(tx, "embed", 0, 0))
                engine.worker.run_due("default")
        assert finish(other).strip() == "words+meaning"
        assert best(memory) == FACTS[0]
        assert best(memory, "number 39 kiwi") == "There was number 39 of the kiwi"
        scene.require_whole()
