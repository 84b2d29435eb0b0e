"""Runs that take long or fail: retries, keys, cancelling, and what a request that waits for them gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from memwell import Conflict, Erased, KeyReused, NotFound, function
from memwell.workflows import run as run_module
from memwell.workflows.live_runs import runs_of
from memwell.workflows.run import WorkflowRun
from memwell.workflows.source import Retries

from ..contract.conftest import Cli, cli, engine_of
from ..engines import Memory, located
from ..scripted import Fault, Raw, ScriptedServer
from ..surfaces.test_mcp import call, over_http
from ..waiting import wait_until
from .test_run_watchers import ASKS, SAYS, Silent, begin, model, serving
from .test_workflow_runs import document, served

__all__ = ["cli", "model", "served"]

LONG = "This model's maximum context length is 8192 tokens, but you asked for 9000."
ASK = {"step_type": "prompt_call", "id": "ask", "prompt_template": "Hi"}


def refusal(status: int, message: str, **headers: str) -> Raw:
    return Raw(status, json.dumps({"error": {"message": message}}).encode(), headers)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before retries, which are not made."""
    made: list[float] = []
    monkeypatch.setattr(WorkflowRun, "pause", lambda run, seconds: made.append(seconds))
    return made


def test_a_failed_step_says_what_the_server_of_the_model_said(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    served([refusal(400, LONG)])
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document(ASK))
        assert run.error == (
            f"Step `ask`: The model's server does not accept the request (bad_request). The server says: {LONG}"
        )
        assert LONG in (run.steps[0].error or "")


def test_retries_wait_longer_each_time_and_as_long_as_the_server_asks(
    served: Callable[..., ScriptedServer], tmp_path: Path, pauses: list[float]
) -> None:
    served([Fault.ERROR, Fault.ERROR, refusal(429, "slow down", **{"retry-after": "12"}), "At last."])
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document({**ASK, "retries": 4}))
        assert (run.output, run.steps[0].attempts) == ("At last.", 4)
    first, second, third = pauses
    assert 0.5 <= first < 1.0 <= second < 2.0
    assert third == 12


def test_a_step_does_not_wait_longer_than_a_minute(
    served: Callable[..., ScriptedServer], tmp_path: Path, pauses: list[float]
) -> None:
    served([refusal(429, "come back tomorrow", **{"retry-after": "86400"}), "never"])
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document({**ASK, "retries": 5}))
        assert (run.status, run.steps[0].attempts, pauses) == ("failed", 1, [])
        assert "It asks to wait 3600 seconds. The server says: come back tomorrow" in (run.error or "")


def test_a_pause_of_a_task_is_at_least_what_the_server_asks_for() -> None:
    """B3.21: the settings of a task limit its own pauses."""
    retries = Retries(enabled=True, backoff_ms=1000, multiplier=4, max_delay_ms=5000)
    pauses: list[Any] = [retries.pause_after(number, wanted) for number, wanted in ((1, 0), (2, 0), (3, 0), (3, 30))]
    assert pauses == [1, 4, 5, 30]


# -- keys ----------------------------------------------------------------------------------------------------------------

COUNT = {"name": "count", "steps": [{"step_type": "add_memory", "memory_bank_id": "notes", "key": "k"}]}
COUNT["memory_banks"] = {"notes": {"type": "general"}}  # type: ignore[assignment]


def test_the_same_key_runs_a_workflow_once(memory: Memory) -> None:
    """Whether the run is over, or its workflow is gone; another request with the key is an error."""
    stored = memory.workflows.create(COUNT)
    for source in (stored.id, COUNT):
        first = memory.workflows.run(source, "hello", idempotency_key=f"key of {source}")
        again = memory.workflows.run(source, "hello", idempotency_key=f"key of {source}")
        assert again == first
        with pytest.raises(KeyReused):
            memory.workflows.run(source, "another", idempotency_key=f"key of {source}")
    memory.workflows.delete(stored.id)
    assert memory.workflows.run(stored.id, "hello", idempotency_key=f"key of {stored.id}").output == "hello"
    assert len(memory.workflows.runs()) == 2
    assert len(list(memory.banks.open(memory.banks.list().memory_banks[0].id).entries())) == 2


def test_the_same_key_sends_a_message_to_an_app_once(memory: Memory) -> None:
    said: list[str] = []
    function("note_what_is_said")(said.append)
    app = memory.app("shop")
    app.configure(function="note_what_is_said")
    first = app.execute("Hello", idempotency_key="one")
    assert app.execute("Hello", idempotency_key="one") == first
    assert (said, first.status) == (["Hello"], "done")
    assert len(app.sessions.list()) == 1


def test_an_erased_run_is_not_run_again_by_its_key(memory: Memory) -> None:
    """C6, G9: the repeat is told that the run was erased."""
    first = memory.workflows.run(SAYS, "the word is zyxoqwv", owner="alice", idempotency_key="one")
    memory.user("alice").add("I am here.")
    memory.user("alice").forget()
    with pytest.raises(Erased):
        memory.workflows.run(SAYS, "the word is zyxoqwv", owner="alice", idempotency_key="one")
    assert [(one.id, one.input) for one in memory.workflows.runs()] == [(first.id, "")]


def test_requests_with_one_key_at_once_are_one_run(tmp_path: Path, model: Silent) -> None:
    """They all wait for it and get the same answer."""
    with serving(tmp_path / "home", model) as (_, client), ThreadPoolExecutor(8) as pool:
        body = {"document": ASKS}
        key = {"idempotency-key": "one"}
        asked = [pool.submit(client.post, "/v1/workflows/run", json=body, headers=key, timeout=30) for _ in range(8)]
        wait_until(lambda: len(model.server.requests) == 1)
        model.speaks.set()
        answers = [one.result(30) for one in asked]
        assert {(one.status_code, one.json()["output"]) for one in answers} == {(201, "At last.")}
        assert len({one.json()["id"] for one in answers}) == 1
        assert len(model.server.requests) == 1


def test_a_request_that_took_too_long_is_repeated_with_its_key(tmp_path: Path, model: Silent) -> None:
    """An app, too: the answer is 202 with the run, and the repeated request waits for the same run."""
    with serving(tmp_path / "home", model, request_timeout_s=0.5) as (server, client), server.memory() as memory:
        memory.app("shop").configure(workflow=memory.workflows.create(ASKS).id)
        for path, body, name in (
            ("/v1/workflows/run", {"document": ASKS}, "id"),
            ("/v1/apps/shop/execute", {"message": "Hi"}, "run_id"),
        ):
            model.speaks.clear()
            headers = {"idempotency-key": path}
            first, second = (client.post(path, json=body, headers=headers) for _ in range(2))
            run_id = first.json()[name]
            assert (first.status_code, first.json()["status"]) == (202, "running")
            assert first.headers["location"] == f"/v1/runs/{run_id}"
            assert (second.status_code, second.json()[name]) == (202, run_id)
            model.speaks.set()
            wait_until(lambda: client.get(f"/v1/runs/{run_id}").json()["status"] == "done")  # noqa: B023
            done = client.post(path, json=body, headers=headers)
            assert (done.status_code, done.json()["output"]) == (201, "At last.")
        assert len(model.server.requests) == 2


def test_the_python_api_waits_longer_than_a_request_may_take(tmp_path: Path, model: Silent) -> None:
    """For a workflow, an app and a repeat."""
    with (
        serving(tmp_path / "home", model, request_timeout_s=1.0) as (server, _),
        server.memory() as memory,
        ThreadPoolExecutor(1) as pool,
    ):
        app = memory.app("shop")
        app.configure(workflow=memory.workflows.create(ASKS).id)

        def wait_for(work: Callable[[], Any], operation: str, status: int) -> Any:
            """The result of work whose request was answered before the end of the run."""
            model.speaks.clear()
            found = pool.submit(work)
            wait_until(lambda: server.server.metrics._requests[operation, status] == 1)
            model.speaks.set()
            return found.result(30)

        run = wait_for(lambda: memory.workflows.run(ASKS), "runs.begin_document", 201)
        assert (run.status, run.output) == ("done", "At last.")
        answer = wait_for(lambda: app.execute("Hi"), "apps.execute", 202)
        assert (answer.status, answer.output, answer.replies) == ("done", "At last.", ["At last."])
        again = wait_for(lambda: memory.workflows.repeat(run.id), "runs.repeat", 202)
        assert (again.status, again.output) == ("done", "At last.")


def test_events_are_waited_for_no_longer_than_a_request_may_take(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model, request_timeout_s=1.0) as (_, client):
        run_id = begin(client).json()["id"]
        wait_until(lambda: len(client.get(f"/v1/runs/{run_id}/events").json()["events"]) == 2)
        answer = client.get(f"/v1/runs/{run_id}/events", params={"after": 2, "timeout_s": 10}, timeout=30)
        assert (answer.status_code, answer.json()) == (200, {"events": [], "over": False})


def test_the_key_of_a_deleted_run_begins_no_other(memory: Memory) -> None:
    run = memory.workflows.run(SAYS, idempotency_key="one")
    memory.call("runs.delete", {"run": run.id})
    with pytest.raises(Erased):
        memory.workflows.run(SAYS, idempotency_key="one")
    assert memory.workflows.runs() == []


def test_a_tool_that_runs_too_long_answers_with_the_run(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model, request_timeout_s=0.5) as (server, client):
        begun = over_http(server, call("runs_begin_document", {"document": ASKS}), query="?tools=all")
        assert begun.structured_content is not None
        run_id = begun.structured_content["id"]
        assert (begun.is_error, begun.structured_content["status"]) == (False, "running")
        model.speaks.set()
        wait_until(lambda: client.get(f"/v1/runs/{run_id}").json()["status"] == "done")


# -- cancelling ----------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_a_model_is_cancelled_at_once(tmp_path: Path, model: Silent) -> None:
    """Over REST: whoever waits or follows is told, later steps do not begin, and the place is free again."""
    slow = {**ASKS, "steps": [*ASKS["steps"], {"step_type": "text", "template": "never", "id": "later"}]}
    with serving(tmp_path / "home", model) as (server, client), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(begin, client, slow, wait=True)
        wait_until(lambda: len(model.server.requests) == 1)
        run_id = client.get("/v1/runs").json()["runs"][0]["id"]
        cancelled = client.post(f"/v1/runs/{run_id}/cancel")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        assert waiting.result(30).json()["status"] == "cancelled"
        assert client.post(f"/v1/runs/{run_id}/cancel").status_code == 200, "once more changes nothing"
        wait_until(lambda: runs_of(server.engine)._counts.total() == 0)
        run = client.get(f"/v1/runs/{run_id}").json()
        assert [(step["id"], step["status"]) for step in run["steps"]] == [("step-1", "cancelled")]
        assert (run["status"], run["error"]) == ("cancelled", "The run was cancelled.")
        last = client.get(f"/v1/runs/{run_id}/events", params={"after": 99}).json()["events"][0]
        assert (last["state"], last["error"]) == ("cancelled", "The run was cancelled.")
        model.speaks.set()
        assert client.post(f"/v1/runs/{run_id}/repeat").json()["status"] == "done"
        late = client.post(f"/v1/runs/{run_id}/cancel")
        assert (late.status_code, late.json()["status"]) == (200, "done")


def test_a_cancelled_run_writes_nothing_any_more(tmp_path: Path, cli: Cli) -> None:
    """Its function goes on, but has no memory; nor does the entry after it appear. Over the command line."""
    inside, go_on, refused = Event(), Event(), []

    @function("slow_function")
    def slow_function(message: str, memory: Any) -> str:
        inside.set()
        go_on.wait(60)
        try:
            memory.set_content("notes", {"a": 1})
        except Conflict as error:
            refused.append(error.message)
            raise
        return "x"

    with Memory(tmp_path / "home", worker=False) as memory:
        app = memory.app("shop")
        app.stores.create("notes", access="application", schema={"type": "object"})
        app.configure(function="slow_function")
        begun = app.execute("Hello", wait=False)
        assert inside.wait(60)
        assert cli("runs", "cancel", begun.run_id).code == 0
        assert memory.workflows.show(begun.run_id).status == "cancelled"
        go_on.set()
        wait_until(lambda: runs_of(engine_of(memory))._counts.total() == 0)
        assert refused == ["The run was cancelled."]
        assert memory.workflows.show(begun.run_id).status == "cancelled"
        assert app.stores.records("notes") == []


def test_a_run_is_cancelled_by_another_process(tmp_path: Path, model: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    """It notices long before it renews its lease."""
    monkeypatch.setattr(run_module, "BEAT_S", 3600.0)
    with Memory(tmp_path / "home", worker=False) as memory, Memory(located(tmp_path / "home"), worker=False) as other:
        begun = memory.call("runs.begin_document", {"document": ASKS, "wait": False})
        wait_until(lambda: len(model.server.requests) == 1)
        assert other.workflows.cancel(begun.id).status == "cancelled"
        assert list(memory.workflows.follow(begun.id))[-1].state == "cancelled"
        wait_until(lambda: runs_of(engine_of(memory))._counts.total() == 0)
        with pytest.raises(NotFound):
            other.workflows.cancel("nothing")


@pytest.mark.every_engine
def test_a_cancelled_run_is_repeated_when_it_has_stopped(tmp_path: Path) -> None:
    """The repeat neither is ended by the cancelled one nor lets its function write."""
    inside, go_on, refused = Event(), Event(), []

    @function("first_is_slow")
    def first_is_slow(message: str, memory: Any) -> str:
        if inside.is_set():
            return "second"
        inside.set()
        go_on.wait(60)
        try:
            memory.set_content("notes", {"a": 1})
        except Conflict as error:
            refused.append(error.message)
        return "first"

    with Memory(tmp_path / "home", worker=False) as memory, ThreadPoolExecutor(1) as pool:
        app = memory.app("shop")
        app.stores.create("notes", access="application", schema={"type": "object"})
        app.configure(function="first_is_slow")
        begun = app.execute("Hello", wait=False)
        assert inside.wait(60)
        memory.workflows.cancel(begun.run_id)
        repeated = pool.submit(memory.workflows.repeat, begun.run_id)
        assert not repeated.done()
        go_on.set()
        again = repeated.result(30)
        assert (again.id, again.status, again.output) == (begun.run_id, "done", "second")
        assert refused == ["The run was cancelled."]
        assert (app.stores.records("notes"), memory.workflows.show(begun.run_id).status) == ([], "done")


def test_a_pause_before_a_retry_ends_when_the_run_is_cancelled(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    server = served([refusal(429, "slow down", **{"retry-after": "59"})])
    with Memory(tmp_path / "home", worker=False) as memory:
        begun = memory.call("runs.begin_document", {"document": document({**ASK, "retries": 1}), "wait": False})
        wait_until(lambda: len(server.requests) == 1)
        memory.workflows.cancel(begun.id)
        wait_until(lambda: runs_of(engine_of(memory))._counts.total() == 0)
        assert len(server.requests) == 1
