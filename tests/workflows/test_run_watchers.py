"""Clients that wait for runs or watch them delay neither other requests nor the end of a server."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import msgspec
import pytest

from memwell.surfaces.rest import streams as run_stream
from memwell.workflows.live_runs import MAX_TENANT_RUNS as MAX_RUNS
from memwell.workflows.live_runs import runs_of

from ..engines import Memory, located
from ..live import Live, live
from ..processes import Server
from ..scripted import ScriptedServer
from ..waiting import wait_until

ASKS = {
    "name": "asks",
    "steps": [{"step_type": "prompt_call", "prompt_template": "Hi", "steps": [{"step_type": "streaming_result"}]}],
}
SAYS = {"name": "says", "steps": [{"step_type": "text", "template": "Hi"}]}


class Silent:
    """A model that says nothing until it is told to."""

    def __init__(self) -> None:
        self.speaks = Event()
        self.server = ScriptedServer(self._answer)

    def _answer(self, request: object) -> str:
        self.speaks.wait(60)
        return "At last."

    @property
    def llm(self) -> str:
        return f"openai:test@{self.server.url}?timeout_s=60"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    silent = Silent()
    monkeypatch.setenv("MEMWELL_LLM", silent.llm)
    with silent.server:
        yield silent
        silent.speaks.set()


@contextmanager
def serving(home: Path, model: Silent, **settings: Any) -> Iterator[tuple[Live, httpx.Client]]:
    """A server whose runs have all ended when it does."""
    with live(home, worker=False, **settings) as server, server.client() as client:
        yield server, client
        model.speaks.set()
        wait_until(lambda: running_now(client) == 0)


def begin(client: httpx.Client, document: dict[str, Any] = ASKS, *, wait: bool = False) -> httpx.Response:
    return client.post("/v1/workflows/run", json={"document": document, "wait": wait}, timeout=30)


@contextmanager
def watching(server: Live | Server, run_id: str, count: int = 1, key: str = "") -> Iterator[list[Iterator[str]]]:
    """Open streams of a run, each of which has shown its first line."""
    headers = {"authorization": f"Bearer {key or server.key}"}
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=30, limits=httpx.Limits(max_connections=None)))
        streams = []
        for _ in range(count):
            url = f"{server.url}/v1/runs/{run_id}/stream"
            response = stack.enter_context(client.stream("GET", url, headers=headers))
            assert response.status_code == 200
            streams.append(response.iter_lines())
            assert next(streams[-1])
        yield streams


def kinds(lines: Iterator[str]) -> list[str]:
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


@contextmanager
def asking(server: Live | Server, count: int, path: str, body: dict[str, Any] | None) -> Iterator[list[socket.socket]]:
    """So many requests that wait for an answer, without a thread for each."""
    content = b"" if body is None else msgspec.json.encode(body)
    method = "GET" if body is None else "POST"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\nContent-Length: {len(content)}"
    )
    host, port = server.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(count)]
        for one in opened:
            one.sendall(f"{head}\r\n\r\n".encode() + content)
        yield opened


def running_now(client: httpx.Client) -> int:
    runs = client.get("/v1/runs", params={"limit": 200}).json()["runs"]
    return len([run for run in runs if run["status"] == "running"])


def test_watchers_do_not_hold_up_the_door_or_each_other(
    tmp_path: Path, model: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_stream, "WAIT_S", 3600.0)  # they are woken, and do not look now and then
    with serving(tmp_path / "home", model) as (server, client), server.memory() as memory:
        run_id = begin(client).json()["id"]
        said = begin(client, SAYS, wait=True).json()["id"]
        key = memory.keys.create("second", "agent").secret
        with watching(server, run_id, 40) as streams:
            for secret, status in ((key, 200), ("mw_bad", 401)):
                headers = {"authorization": f"Bearer {secret}"}
                assert client.get("/v1/flows", headers=headers).status_code == status
            assert client.get(f"/v1/runs/{said}/stream").status_code == 200
            assert client.get("/ready").status_code == 200
            model.speaks.set()
            ends = [kinds(lines)[-1] for lines in streams]
        assert set(ends) == {"run"}


def test_waiting_for_ninety_runs_delays_no_other_request(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (server, client):
        with asking(server, 90, "/v1/workflows/run", {"document": ASKS}) as waiting:
            wait_until(lambda: running_now(client) == 90)
            run_id = client.get("/v1/runs").json()["runs"][0]["id"]
            with asking(server, 50, f"/v1/runs/{run_id}/events?after=2&timeout_s=10", None) as looking:
                assert begin(client, SAYS, wait=True).status_code == 201
                assert begin(client, SAYS).status_code == 201
                assert client.post("/v1/users/alice/turns", json={"content": "Hi"}).status_code == 201
                model.speaks.set()
                answers = {one.recv(15) for one in (*waiting, *looking)}
        assert answers == {b"HTTP/1.1 201 Cr", b"HTTP/1.1 200 OK"}


def test_looking_on_without_a_stream_wakes_when_something_happens(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (_, client), ThreadPoolExecutor() as pool:
        run_id = begin(client).json()["id"]
        url = f"/v1/runs/{run_id}/events"
        wait_until(lambda: len(client.get(url).json()["events"]) == 2)
        nothing = client.get(url, params={"after": 2, "timeout_s": 0.2}).json()
        assert nothing == {"events": [], "over": False}
        next_one = pool.submit(client.get, url, params={"after": 2, "timeout_s": 10}, timeout=30)
        model.speaks.set()
        assert next_one.result(30).json()["events"][0]["number"] == 3
        assert client.get(url, params={"timeout_s": 11}).status_code == 400
        assert client.get("/v1/runs/nothing/events", params={"timeout_s": 1}).status_code == 404


def test_runs_under_way_are_limited_whether_or_not_they_are_waited_for(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (server, client):
        with asking(server, MAX_RUNS - 1, "/v1/workflows/run", {"document": ASKS}):
            begin(client)
            wait_until(lambda: running_now(client) == MAX_RUNS)
            for wait in (True, False):
                refused = begin(client, SAYS, wait=wait)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert f"{MAX_RUNS} runs in progress: try again" in refused.json()["error"]["message"]
            assert running_now(client) == MAX_RUNS, "what is refused has not begun"
            model.speaks.set()
            wait_until(lambda: running_now(client) == 0)
        wait_until(lambda: begin(client, SAYS, wait=True).status_code == 201)


def test_concurrent_starts_do_not_exceed_the_limit_of_runs(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (server, client), ThreadPoolExecutor(20) as pool:
        with asking(server, MAX_RUNS - 5, "/v1/workflows/run", {"document": ASKS}):
            wait_until(lambda: running_now(client) == MAX_RUNS - 5)
            answers = list(pool.map(lambda _: begin(client).status_code, range(20)))
        assert (answers.count(201), answers.count(503)) == (5, 15)


def test_a_run_that_takes_longer_than_a_request_may_is_named(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model, request_timeout_s=0.5) as (_, client):
        answer = begin(client, wait=True)
        run_id = answer.json()["id"]
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
        assert answer.headers["location"] == f"/v1/runs/{run_id}"
        assert "retry-after" not in answer.headers
        assert client.get(f"/v1/runs/{run_id}").json()["status"] == "running", "it goes on"
        model.speaks.set()
        wait_until(lambda: client.get(f"/v1/runs/{run_id}").json()["status"] == "done")
        model.speaks.clear()
        again = client.post(f"/v1/runs/{run_id}/repeat")
        assert (again.status_code, again.headers["location"]) == (202, f"/v1/runs/{again.json()['id']}")
        model.speaks.set()


def test_a_run_that_is_waited_for_answers_with_what_came_of_it(tmp_path: Path, model: Silent) -> None:
    model.speaks.set()
    with serving(tmp_path / "home", model) as (_, client):
        answer = begin(client, wait=True)
        run = answer.json()
        assert (answer.status_code, run["status"], run["output"]) == (201, "done", "At last.")
        assert [step["status"] for step in run["steps"]] == ["done", "done"]
        assert client.get(f"/v1/runs/{run['id']}").json() == run
        repeated = client.post(f"/v1/runs/{run['id']}/repeat")
        assert (repeated.status_code, repeated.json()["status"]) == (200, "done")
        refused = begin(client, {"name": "wrong", "steps": [{"step_type": "load_memory", "memory_bank_id": "b"}]})
        assert refused.status_code == 400


@pytest.mark.parametrize("after", [8, 999])
def test_a_watcher_that_has_seen_everything_gets_the_end_again(tmp_path: Path, model: Silent, after: int) -> None:
    """Whether the run is still in memory, or read from the database, or ends only now."""
    with serving(tmp_path / "home", model) as (server, client):
        run_id = begin(client).json()["id"]
        url = f"/v1/runs/{run_id}/stream"
        with client.stream("GET", url, headers={"last-event-id": "999"}, timeout=30) as response:
            lines = response.iter_lines()
            assert next(lines) == ": ", "nothing yet"
            model.speaks.set()
            assert kinds(lines) == ["run"]
        wait_until(lambda: client.get(f"/v1/runs/{run_id}").json()["status"] == "done")
        for _ in ("in memory", "from the database"):
            told = client.get(url, headers={"last-event-id": str(after)}).text
            (data,) = re.findall(r"^data: (.*)$", told, re.MULTILINE)
            last = msgspec.json.decode(data)
            assert (last["kind"], last["state"], last["text"]) == ("run", "done", "At last.")
            found = client.get(f"/v1/runs/{run_id}/events", params={"after": after}).json()
            assert found == {"events": [last], "over": True}
            wait_until(lambda: forgotten(server, run_id))


def forgotten(server: Live, run_id: str) -> bool:
    """Take what is over out of memory; whether this run was among it."""
    runs = runs_of(server.engine)
    runs.forget()
    return runs.find_events(run_id) is None


def test_a_number_is_written_in_digits(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (_, client):
        run_id = begin(client, SAYS, wait=True).json()["id"]
        for url in (f"/v1/runs/{run_id}/stream", "/v1/events"):
            for number in ("²", "-1", "x", "1" * 19):
                answer = client.get(url, headers={b"last-event-id": number.encode("latin-1")})
                assert answer.status_code == 400


def test_streams_are_limited_and_give_their_place_back(tmp_path: Path, model: Silent) -> None:
    with serving(tmp_path / "home", model) as (server, client), server.memory() as memory:
        keys = [memory.keys.create(f"key {number}", "reader").secret for number in range(2)]
        run_id = begin(client).json()["id"]
        url = f"/v1/runs/{run_id}/stream"
        for _ in range(3):
            assert client.get("/v1/runs/nothing/stream").status_code == 404, "which costs no place"
        _, per_tenant, per_key = run_stream.MAX_RUN_STREAMS
        with watching(server, run_id, per_key):
            refused = client.get(url)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert f"{per_key} streams of this key" in refused.json()["error"]["message"]
            with watching(server, run_id, per_key, keys[0]):
                refused = httpx.get(server.url + url, headers={"authorization": f"Bearer {keys[1]}"})
                assert f"{per_tenant} streams of this tenant" in refused.json()["error"]["message"]
        model.speaks.set()
        wait_until(lambda: client.get(url).status_code == 200)


def test_a_run_of_another_process_can_be_looked_on_at(tmp_path: Path, model: Silent) -> None:
    home = tmp_path / "home"
    with (
        serving(home, model) as (server, client),
        server.memory() as memory,
        Memory(located(home), worker=False) as other,
    ):
        run = other.call("runs.begin_document", {"document": ASKS, "wait": False})
        headers = {"last-event-id": "0"}
        with ThreadPoolExecutor(40) as pool:
            url = f"/v1/runs/{run.id}/stream"
            looking = [pool.submit(client.get, url, headers=headers, timeout=30) for _ in range(40)]
            key = memory.keys.create("second", "agent").secret
            fresh = {"authorization": f"Bearer {key}"}
            assert client.get("/v1/flows", headers=fresh).status_code == 200
            waited = pool.submit(client.get, f"/v1/runs/{run.id}/events", params={"timeout_s": 10}, timeout=30)
            model.speaks.set()
            assert all(kinds(iter(one.result(10).text.splitlines()))[-1] == "run" for one in looking)
            assert waited.result(10).json()["over"] is True
        wait_until(lambda: other.workflows.show(run.id).status == "done")


def test_a_stream_ends_with_its_key(tmp_path: Path, model: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_stream, "WAIT_S", 0.1)
    with serving(tmp_path / "home", model) as (server, client), server.memory() as memory:
        run_id = begin(client).json()["id"]
        key = memory.keys.create("second", "reader")
        with watching(server, run_id, key=key.secret) as (lines,):
            memory.keys.revoke(key.id)
            assert "run" not in kinds(lines)[1:]
        assert running_now(client) == 1


def test_a_server_that_is_stopped_ends_its_streams_and_interrupts_its_runs(tmp_path: Path, model: Silent) -> None:
    """Nothing is left that says `running`, nobody waits for ever, and nothing in the log looks like a fault."""
    with Server(tmp_path / "home", llm=model.llm).start() as server:
        with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {server.key}"}) as client:
            run_id = begin(client).json()["id"]
            with (
                watching(server, run_id, 10) as streams,
                asking(server, 3, "/v1/workflows/run", {"document": ASKS}) as waiting,
                asking(server, 3, f"/v1/runs/{run_id}/events?after=2&timeout_s=10", None) as looking,
            ):
                wait_until(lambda: running_now(client) == 4)
                client.close()
                server.stop()
                assert all("result" not in kinds(lines) for lines in streams)
                answers = [one.recv(4000) for one in waiting]
                assert {one.recv(15) for one in looking} == {b"HTTP/1.1 200 OK"}
        assert all(answer.startswith(b"HTTP/1.1 202") and b"location: /v1/runs/" in answer for answer in answers)
        assert "Traceback" not in server.err.read_text()
        server.start()
        with server.memory() as memory:
            assert {run.status for run in memory.workflows.runs()} == {"interrupted"}
            model.speaks.set()
            assert memory.workflows.repeat(run_id).status == "done"
