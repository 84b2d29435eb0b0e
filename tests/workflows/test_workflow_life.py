"""Runs during erasures, deletions, other runs, other processes and crashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from memwell import Conflict, Invalid
from memwell.errors import TooLarge
from memwell.testing import FrozenClock
from memwell.workflows.live_runs import Cache, Runs
from memwell.workflows.run_operations import Run

from ..cases import cases
from ..engines import Memory, located, remains
from ..scripted import ChatRequest, Fault, ScriptedServer
from .test_workflow_runs import CHATBOT, WHO, document, served, text

__all__ = ["served"]

SECRET = "marmalade-zeppelin"
PATIENCE_S = 20.0
NOTES = {"notes": {"type": "general"}}


def load(**fields: Any) -> dict[str, Any]:
    return {"step_type": "load_memory", "memory_bank_id": "notes", "key": "k", "content_type": "text/plain", **fields}


def add(**fields: Any) -> dict[str, Any]:
    return {"step_type": "add_memory", "memory_bank_id": "notes", "key": "k", **fields}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "home") as memory:
        yield memory


class Waiting:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.asked, self.let = Event(), Event()

    def __call__(self, _request: ChatRequest) -> str:
        self.asked.set()
        assert self.let.wait(PATIENCE_S)
        return f"You said {SECRET}."


@contextmanager
def under_way(memory: Memory, model: Waiting, source: Any, given: str, **how: Any) -> Iterator[str]:
    """A run that waits for its model; it goes on, and is waited for, when this is left."""
    asked: dict[str, Any] = {"document": source, "input": given, "wait": False, **how}
    run_id: str = memory.call("runs.begin_document", asked).id
    assert model.asked.wait(PATIENCE_S)
    try:
        yield run_id
    finally:
        model.let.set()
        for _ in memory.workflows.follow(run_id):
            pass


def only_bank(memory: Memory, name: str) -> Any:
    (bank,) = (one for one in memory.banks.list().memory_banks if one.name == name)
    return memory.banks.open(bank.id)


def told(run: Run) -> str:
    return repr(run)


def test_first_runs_at_the_same_time_make_one_bank(memory: Memory) -> None:
    source = document(add(content="{{agent.input}}"), memory_banks=NOTES)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda n: memory.workflows.run(source, f"note {n}"), range(8)))
    assert {run.status for run in runs} == {"done"}
    assert sorted(one.content for one in only_bank(memory, "notes").entries()) == [f"note {n}" for n in range(8)]


def test_a_run_that_is_refused_makes_no_bank(memory: Memory) -> None:
    source = document(add(), {**add(), "memory_bank_id": "missing"}, memory_banks=NOTES)
    with pytest.raises(Invalid, match="missing"):
        memory.workflows.run(source, "x")
    assert memory.banks.list().memory_banks == []


def test_erased_entries_are_in_no_index_of_any_process(tmp_path: Path) -> None:
    """`cache_minutes`: another process has erased it, or the erasure is not even finished."""
    with Memory(tmp_path / "home", worker=False) as memory, Memory(tmp_path / "home", worker=False) as other:
        bank = memory.banks.create("notes", type="general")
        first = bank.add(SECRET, key="k").id
        source = document(load(cache_minutes=60))
        assert memory.workflows.run(source).output == SECRET
        assert memory.workflows.run(source).steps[0].status == "cached"
        other.banks.open(bank.id).delete_entry(first)
        again = memory.workflows.run(source)
        assert (again.steps[0].status, again.output) == ("done", "")


def test_times_of_a_cached_step_are_the_same_for_a_minute(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC))
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        memory.banks.create("notes", type="general").add("A note.", key="k")
        search = {"step_type": "search_memory", "memory_bank_id": "notes", "added_after": "{{1 week ago}}"}
        source = document({**search, "cache_minutes": 5})
        assert memory.workflows.run(source, "note").steps[0].status == "done"
        clock.advance(seconds=20)
        assert memory.workflows.run(source, "note").steps[0].status == "cached"


def test_an_erasure_during_a_run_empties_it(
    memory: Memory, served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """The run goes on, but what it was given, read and gave is kept nowhere."""
    model = Waiting()
    served(model)
    with Memory(tmp_path / "other") as memory:
        with under_way(memory, model, CHATBOT, SECRET, metadata=WHO) as run_id:
            assert only_bank(memory, "chats").wipe().residual == 0
        run = memory.workflows.show(run_id)
        assert run.status == "failed"
        assert SECRET not in told(run)
        with pytest.raises(Conflict, match="erased"):
            memory.workflows.repeat(run_id)
    assert [name for name, data in remains(tmp_path).items() if SECRET.encode() in data] == []


def test_a_step_that_has_read_what_is_erased_meanwhile_keeps_nothing_of_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure falls between reading and writing down."""
    from memwell.workflows import tree_run

    bank = memory.banks.create("notes", type="general")
    bank.add(SECRET, key="k")
    real = tree_run._STEPS["load_memory"]

    read = []

    def erased_then(step: Any, doing: Any) -> Any:
        read.append(real(step, doing))
        bank.wipe() if len(read) == 1 else None
        return read[-1]

    monkeypatch.setitem(tree_run._STEPS, "load_memory", erased_then)
    run = memory.workflows.run(document(load()))
    assert [SECRET in one.text for one in read] == [True, False], "it reads again"
    assert (run.status, run.output) == ("done", "")
    assert SECRET not in told(memory.workflows.show(run.id))


def test_a_step_reads_also_where_something_is_erased_all_the_time(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not fail for that, and what it has read is emptied when it is erased."""
    bank = memory.banks.create("notes", type="general")
    bank.add(SECRET, key="k")
    numbers = count()
    monkeypatch.setattr("memwell.workflows.tree_run.count_erasures", lambda space: next(numbers))
    run = memory.workflows.run(document(load(cache_minutes=60)))
    assert (run.status, run.output) == ("done", SECRET)
    bank.wipe()
    assert SECRET not in told(memory.workflows.show(run.id))


def test_a_cached_answer_is_not_kept_if_it_is_erased_meanwhile(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The erasure falls between the look into the cache and the writing down."""
    bank = memory.banks.create("notes", type="general")
    bank.add(SECRET, key="k")
    source = document(load(cache_minutes=60), {"step_type": "display_result"})
    assert memory.workflows.run(source).output == SECRET
    real = Cache.get

    def erased_then(cache: Cache, key: bytes) -> Any:
        found = real(cache, key)
        if found is not None:
            bank.wipe()
        return found

    monkeypatch.setattr(Cache, "get", erased_then)
    run = memory.workflows.run(source)
    assert (run.status, run.output) == ("done", "")
    assert all(SECRET not in told(memory.workflows.show(one.id)) for one in memory.workflows.runs())


def test_a_key_that_is_made_and_erased_while_all_are_searched_leaves_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memwell.workflows import tree_run

    bank = memory.banks.create("notes", type="general")
    bank.add("A note.", key="k")
    real = tree_run._STEPS["search_memory"]
    found: list[Any] = []

    def made_and_erased(step: Any, doing: Any) -> Any:
        if found:
            return real(step, doing)
        entry_id = bank.add(SECRET, key="new").id
        found.append(real(step, doing))
        bank.delete_entry(entry_id)
        return found[0]

    monkeypatch.setitem(tree_run._STEPS, "search_memory", made_and_erased)
    search = {"step_type": "search_memory", "memory_bank_id": "notes", "query": SECRET}
    run = memory.workflows.run(document(search))
    assert SECRET in found[0].text
    assert SECRET not in told(run)


def test_nothing_that_was_erased_is_told_or_written_by_a_run_that_knew_it(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """Neither by its events, which are in memory, nor by what it still had to write."""
    model = Waiting()
    served(model)
    with Memory(tmp_path / "home") as memory:
        with under_way(memory, model, CHATBOT, SECRET, metadata=WHO) as run_id:
            only_bank(memory, "chats").wipe()
        assert SECRET not in repr(list(memory.workflows.follow(run_id)))
        assert list(only_bank(memory, "chats").entries()) == []
        run = memory.workflows.show(run_id)
        assert (run.status, run.error) == ("failed", "The message was erased.")


def test_events_of_a_run_that_another_process_has_emptied_tell_nothing(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory, Memory(tmp_path / "home") as other:
        bank = memory.banks.create("notes", type="general")
        bank.add(SECRET, key="k")
        run = memory.workflows.run(document(load(), {"step_type": "display_result"}))
        assert SECRET in repr(list(memory.workflows.follow(run.id)))
        other.banks.open(bank.id).wipe()
        assert SECRET not in repr(list(memory.workflows.follow(run.id)))


@pytest.mark.every_engine
def test_a_memory_that_is_deleted_is_in_no_run_that_retrieved_it(memory: Memory) -> None:
    added = memory.user("alice").add(f"I like {SECRET} a lot.")
    memory.user("alice").consolidate(added.session)
    (fact,) = memory.user("alice").memories()
    run = memory.workflows.run(document({"step_type": "retrieval", "user": "alice", "query": SECRET}))
    assert SECRET in told(run)
    memory.user("alice").delete_memory(fact.id)
    assert SECRET not in told(memory.workflows.show(run.id))


def test_the_end_of_a_run_does_not_end_the_one_that_repeats_it(memory: Memory) -> None:
    runs = Runs()
    first = runs._add(None, "r")  # type: ignore[arg-type]
    second = runs._add(None, "r")  # type: ignore[arg-type]
    first.end()
    runs.forget()
    assert runs.find_events("r") is second
    second.end()
    runs.forget()
    assert runs.find_events("r") is None


@pytest.mark.every_engine
def test_a_run_under_way_is_not_deleted(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    model = Waiting()
    served(model)
    with Memory(tmp_path / "home") as memory:
        with under_way(memory, model, document({"step_type": "prompt_call"}), SECRET) as run_id:
            with pytest.raises(Conflict, match="still running"):
                memory.call("runs.delete", {"run": run_id})
            with pytest.raises(Conflict, match="still running"):
                memory.workflows.repeat(run_id)
        memory.call("runs.delete", {"run": run_id})
        assert memory.workflows.runs() == []


def test_a_run_is_interrupted_when_its_memory_is_closed(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C45: it says so at once, and not when its lease is over."""
    model = Waiting()
    served(model)
    with Memory(tmp_path / "home", worker=False) as memory:
        asked: dict[str, Any] = {"document": document({"step_type": "prompt_call"}), "input": "x", "wait": False}
        run_id = memory.call("runs.begin_document", asked).id
        assert model.asked.wait(PATIENCE_S)
    model.let.set()
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.workflows.show(run_id).status == "interrupted"


KILLED = """
import sys
from memwell import Memory
memory = Memory(sys.argv[1], worker=False)
asked = {"document": sys.argv[2], "input": "once", "metadata": {"user_id": "u1"}, "wait": False}
begun = memory.call("runs.begin_document", asked)
print(begun.id, flush=True)
sys.stdin.read()
"""


def test_a_run_whose_process_is_killed_is_interrupted_and_can_be_run_again(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """C45: what its steps had written is not written twice."""
    model = Waiting()
    served(model)
    home = located(tmp_path / "home")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(home), CHATBOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    assert model.asked.wait(PATIENCE_S)
    process.kill()
    process.communicate()
    model.let.set()
    with Memory(home, worker=False) as memory:
        assert memory.workflows.show(run_id).status == "running"
        with pytest.raises(Conflict, match="still running"):
            memory.workflows.repeat(run_id)
    later = FrozenClock(datetime.now(UTC) + timedelta(seconds=31))
    with Memory(home, worker=False, clock=later) as memory:
        assert memory.workflows.show(run_id).status == "interrupted"
        again = memory.workflows.repeat(run_id)
        assert (again.id, again.status, again.input) == (run_id, "done", "once")
        assert [one.content for one in only_bank(memory, "chats").entries()] == ["once", f"You said {SECRET}."]


def test_a_repeated_run_gets_the_history_as_it_was(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.29: its turn is the last, whatever was said since."""
    server = served([Fault.ERROR, "To B.", "To A."])
    with Memory(tmp_path / "home", worker=False) as memory:
        first = memory.workflows.run(CHATBOT, "A", metadata=WHO)
        assert first.status == "failed"
        assert memory.workflows.run(CHATBOT, "B", metadata=WHO).status == "done"
        assert memory.workflows.repeat(first.id).output == "To A."
    messages = [one for one in server.requests[-1].body["messages"] if one["role"] != "system"]
    assert [one["content"] for one in messages] == ["A"]


def test_a_run_that_was_given_nothing_can_be_repeated(memory: Memory) -> None:
    stored = memory.workflows.create(document(text("Hello")))
    run = memory.workflows.run(stored.id)
    assert memory.workflows.repeat(run.id).output == "Hello"


@pytest.mark.every_engine
def test_a_repeat_of_what_is_done_is_a_new_run(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C45: the first keeps its answer, as memory does; both are emptied with what they were given."""
    served(["First.", "Second."])
    with Memory(tmp_path / "home", worker=False) as memory:
        first = memory.workflows.run(CHATBOT, "Hello", metadata=WHO, owner="alice")
        again = memory.workflows.repeat(first.id)
        assert again.id != first.id
        assert (again.input, again.owner, again.metadata) == (first.input, first.owner, first.metadata)
        assert [memory.workflows.show(one.id).output for one in (first, again)] == ["First.", "Second."]
        said = [one.content for one in only_bank(memory, "chats").entries()]
        assert said == ["Hello", "First.", "Hello", "Second."]
        assert {one.id for one in memory.workflows.runs()} == {first.id, again.id}
        memory.user("alice").forget()
        assert [memory.workflows.show(one.id).output for one in (first, again)] == [None, None]


def test_a_repeated_run_shows_no_step_of_the_time_before(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served(["Yes.", Fault.ERROR])
    with Memory(tmp_path / "home", worker=False) as memory:
        asks = {"step_type": "prompt_call"}
        run = memory.workflows.run(document(asks, asks), "x")
        assert [one.status for one in run.steps] == ["done", "failed"]
        again = memory.workflows.repeat(run.id)
        assert (again.status, [one.status for one in again.steps]) == ("failed", ["failed"])


def test_of_concurrent_repeats_one_runs(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    server = served([Fault.ERROR, "Yes."])
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document({"step_type": "prompt_call"}), "x")

        def repeat(_: int) -> str:
            try:
                return memory.workflows.repeat(run.id).status
            except Conflict:
                return "refused"

        with ThreadPoolExecutor(6) as pool:
            ends = list(pool.map(repeat, range(6)))
        assert set(ends) <= {"done", "refused"}
        assert len(server.requests) == 1 + ends.count("done")


def test_metadata_does_not_say_whose_run_it_is(memory: Memory) -> None:
    run = memory.workflows.run(
        document(text("{{metadata.owner}} {{metadata.thread}}")),
        owner="alice",
        metadata={"owner": "mallory", "thread": "t"},
    )
    assert run.output == "alice t"


@cases(
    ("given", "error"),
    [
        ({"metadata": {"long": "x" * 70_000}}, TooLarge),
        ({"metadata": {"number": float("nan")}}, Invalid),
        ({"metadata": {"text": "\ud800"}}, Invalid),
        ({"input": "\ud800"}, Invalid),
        ({"input": "x\x00"}, Invalid),
    ],
)
def test_what_a_run_is_given_has_limits(memory: Memory, given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        memory.call("runs.begin_document", {"document": document(text("Hello")), **given})
    assert memory.workflows.runs() == []


def test_pieces_of_an_answer_say_which_step_they_are_of(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served(["One two."])
    with Memory(tmp_path / "home", worker=False) as memory:
        events = list(memory.workflows.stream(CHATBOT, "x", metadata=WHO))
    assert {one.step for one in events if one.kind == "text"} == {"answer"}


def test_hopeless_failures_are_not_retried(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    server = served([Fault.UNAUTHORISED])
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document({"step_type": "prompt_call", "retries": 3}), "x")
    assert (run.status, len(server.requests)) == ("failed", 1)
