"""`kill -9` of processes that write, search or embed: search then answers as with an index built from scratch."""

from __future__ import annotations

import itertools
import os
import sys
import time
import warnings
from pathlib import Path
from random import Random

import pytest

from memwell.clock import SECOND, SystemClock
from memwell.core.engine import Engine
from memwell.jobs import queue
from memwell.jobs.queue import LEASE
from memwell.sdk.transport import LocalTransport

from ..engines import DATABASES, Memory, located, query
from ..processes import Process
from ..waiting import wait_until

pytestmark = pytest.mark.long

SEED = 20261116
FLOW = "crash"
SEED_TURNS = 1200
LOOK_EVERY = 5
FIRST, SECOND_MODEL, THIRD_MODEL = "wordllama", "scripted:second", "scripted:third"

ANIMALS = ("parrot", "kitten", "horse", "salmon", "beetle", "otter", "falcon", "lizard")
THINGS = ("mango", "invoice", "bridge", "violin", "ladder", "harbour", "candle", "engine", "letter", "garden")
VERBS = ("eats", "hides", "repairs", "paints", "sells", "forgets")
QUERIES = [
    *(f"which animal {verb} the {thing}?" for verb, thing in zip(VERBS, THINGS, strict=False)),
    *(f"{animal} {thing}" for animal, thing in zip(ANIMALS, THINGS[::-1], strict=False)),
    *("a bird", "music", "payment", "boats at sea", "light", "the number 17"),
]


def sentence(number: int) -> str:
    """Few words, so that every query has many hits that differ by little."""
    random = Random(number)
    return f"The {random.choice(ANIMALS)} {random.choice(VERBS)} the {random.choice(THINGS)}, number {number}."


class Child(Process):
    """A program on the directory that goes on until it is killed; every line that it prints acknowledges a write."""

    def __init__(self, home: Path, name: str, embedder: str, site: Path) -> None:
        super().__init__(home)
        self.out, self.err = home.with_name(f"{name}.out"), home.with_name(f"{name}.err")
        self.out.touch()
        self._name, self._site = name, site
        self._settings = {"MEMWELL_EMBEDDER": embedder}

    def start(self, first: int, **more: str) -> None:
        self.fork(_go_on, str(self._site), self._name, located(self.home), str(first), **(self._settings | more))

    def wait_for_lines(self, count: int) -> None:
        """Wait until it has printed so many lines more."""
        wanted = self.out.read_bytes().count(b"\n") + count
        wait_until(lambda: self.out.read_bytes().count(b"\n") >= wanted or not self.alive, "it said nothing")
        assert self.alive, f"it ended: {self.err.read_text()}"


Possible = dict[str, set[str | None]]


def acknowledged(out: Path) -> Possible:
    """What each entry may say after what a writer printed; None: it is not there. Only a step that was begun and not
    acknowledged leaves two possibilities. The last line may be broken off, and then acknowledges nothing."""
    text = out.read_text()
    found: Possible = {}
    for line in text[: text.rfind("\n") + 1].splitlines():
        step, number, entry_id = line.split()
        content = None if step.endswith("delete") else sentence(int(number))
        if step.startswith("try-"):
            found[entry_id].add(content)
        else:
            found[entry_id] = {content}
    return found


# -- the programs ----------------------------------------------------------------------------------------------------


def _write_until_killed(home: str, first: int) -> None:
    """Append, write, change, delete and search in turn; a step is printed when its write has returned."""
    memory = Memory(home)
    flow, history, facts = memory.flow(FLOW), memory.flow(FLOW).session("s").history, list[str]()
    for number in itertools.count(first):
        _tell("append", number, history.append(role="user", content=sentence(number)).id)
        facts.append(flow.write(sentence(number)))
        _tell("write", number, facts[-1])
        if number % 3 == 2 and len(facts) > 1:
            _tell("try-update", number + 500_000, facts[-2])
            flow.update(facts[-2], content=sentence(number + 500_000))
            _tell("update", number + 500_000, facts[-2])
        if number % 5 == 4 and len(facts) > 2:
            gone = facts.pop(-3)
            _tell("try-delete", number, gone)
            memory.call("flows.delete_memory", {"flow": FLOW, "id": gone})
            _tell("delete", number, gone)
        if number % 4 == 3:
            flow.search(QUERIES[number % len(QUERIES)], include=["turns"])


def _embed_until_killed(home: str, first: int) -> None:
    """Embed everything with this process's model, which removes those of others; then do it all again."""
    memory = Memory(home, worker=False, clock=Later(first))
    engine = engine_of(memory)
    for number in itertools.count(first):
        engine.store.write("default", lambda tx: queue.ensure_slot(tx, "embed", 0, 0))
        _tell("begin", number, "-")
        engine.worker.run_due("default")
        _tell("done", number, "-")
        time.sleep(0.01)


def _go_on(site: str, name: str, home: str, first: str) -> None:
    warnings.simplefilter("error")
    sys.path.insert(0, site)
    {"writer": _write_until_killed, "embedder": _embed_until_killed}[name](home, int(first))


def _tell(step: str, number: int, entry_id: str) -> None:
    os.write(1, f"{step} {number} {entry_id}\n".encode())


class Later(SystemClock):
    """The wall clock after the leases of so many workers that were killed one after the other."""

    def __init__(self, killed: int) -> None:
        self._ahead = (killed + 1) * (LEASE + SECOND)

    def now(self) -> int:
        return super().now() + self._ahead


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    transport._prepare()
    return transport.engine


# -- looking into it -------------------------------------------------------------------------------------------------


def require_integrity(home: Path) -> None:
    wide = "vector_dims(v.value)"
    if DATABASES.engine == "sqlite":
        assert query(home, "PRAGMA integrity_check") == [("ok",)]
        assert query(home, "PRAGMA foreign_key_check") == []
        query(home, "INSERT INTO word (word) VALUES ('integrity-check')")
        wide = "LENGTH(v.value) / 2"
    wrong = f"""SELECT v.model, v.docid FROM vector v
        LEFT JOIN model m ON m.id = v.model LEFT JOIN entry e ON e.docid = v.docid
        WHERE m.id IS NULL OR e.docid IS NULL OR {wide} % m.dimensions <> 0"""
    assert query(home, wrong) == []


def require_acknowledged(home: Path, possible: Possible) -> None:
    """Nothing acknowledged is lost, whether it was written, changed or deleted."""
    with Memory(home, worker=False) as memory:
        flow = memory.flow(FLOW)
        stored = {turn.id: turn.content for turn in flow.session("s").history.all()}
        stored |= {fact.id: fact.content for fact in flow.memories()}
    wrong = {entry_id: stored.get(entry_id) for entry_id, may in possible.items() if stored.get(entry_id) not in may}
    assert wrong == {}


Results = list[tuple[str, list[tuple[str, float]]]]


def results(home: Path) -> Results:
    """What every query finds, and how well, by a process that has just started."""
    with Memory(home, worker=False) as memory:
        found = [memory.flow(FLOW).search(query, limit=20, include=["turns"]) for query in QUERIES]
    assert {(hits.method, hits.warning) for hits in found} == {("words+meaning", None)}
    return [(query, [(hit.id, hit.score) for hit in hits]) for query, hits in zip(QUERIES, found, strict=True)]


def rebuilt(home: Path, copy: Path) -> Path:
    """A copy whose index was thrown away and made from the entries alone."""
    DATABASES.copy(home, copy)
    for table in ("word", "vector", "model", "removal"):
        query(copy, f"DELETE FROM {table}")
    with Memory(copy, worker=False, clock=Later(10_000)) as memory:
        engine = engine_of(memory)
        engine.store.write("default", lambda tx: queue.ensure_slot(tx, "index", 0, 0))
        engine.worker.run_due("default")
        assert memory.jobs.list(kind="index")[0].state == "done"
    return copy


def look_into(home: Path, possible: Possible, copy: Path) -> None:
    require_integrity(home)
    require_acknowledged(home, possible)
    anew = results(rebuilt(home, copy))
    assert results(home) == anew
    assert results(home) == anew, "and it stays so"
    assert sum(len(hits) for _, hits in anew) > 10 * len(QUERIES), "there is something to compare"
    require_integrity(home)
    DATABASES.remove(copy)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the second and third model are installed, as far as anybody can tell."""
    about = tmp_path / "site" / "memwell_scripted-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: memwell-scripted\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[memwell.embedders]\nscripted = memwell.testing:ScriptedEmbedder\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("MEMWELL_EMBEDDER", FIRST)
    return tmp_path / "site"


def fill(home: Path) -> None:
    """Enough for an embedding to take several batches."""
    with Memory(home, worker=False) as memory:
        turns = [{"role": "user", "content": sentence(n)} for n in range(1_000_000, 1_000_000 + SEED_TURNS)]
        memory.flow(FLOW).session("seed").history.extend(turns[:1000])
        memory.flow(FLOW).session("seed").history.extend(turns[1000:])
        memory.flow(FLOW).search(QUERIES[0], include=["turns"])


def test_writers_and_embedders_that_are_killed_leave_the_index_as_if_made_from_scratch(
    tmp_path: Path, rounds: int, site: Path
) -> None:
    """One process writes and searches, one embeds under a second or third model; every fifth round they are killed while
    they start, else at work, one after the other."""
    random, home = Random(SEED), tmp_path / "home"
    fill(home)
    with Child(home, "writer", FIRST, site) as writer, Child(home, "embedder", SECOND_MODEL, site) as embedder:
        for number in range(1, max(rounds // 4, 1) + 1):
            writer.start(number * 10_000)
            embedder.start(number, MEMWELL_EMBEDDER=(SECOND_MODEL, THIRD_MODEL)[number % 2])
            if number % 5:
                embedder.wait_for_lines(2 if number == 1 else 1)  # the first time it gets to the end
                writer.wait_for_lines(random.randrange(1, 60))
            for child in random.sample((writer, embedder), 2):
                time.sleep(random.uniform(0.0, 0.15))
                child.kill()
            if number % LOOK_EVERY == 0:
                look_into(home, acknowledged(writer.out), tmp_path / "copy")
        assert writer.err.read_text() == ""
        assert embedder.err.read_text() == ""
        steps = writer.out.read_text()
        assert all(f"\n{step} " in steps for step in ("append", "write", "update", "delete"))
        assert "done" in embedder.out.read_text()
        look_into(home, acknowledged(writer.out), tmp_path / "copy")
