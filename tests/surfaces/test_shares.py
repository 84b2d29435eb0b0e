"""Limits before the work, and fair shares: what one client sends or waits for does not keep others waiting (T20)."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.errors import Unavailable
from memwell.surfaces.rest import limits
from memwell.surfaces.rest.app import HttpRequest
from memwell.surfaces.rest.limits import ByteBudget, ThreadPool, count_values

from ..live import Live, live
from ..waiting import wait_until

MIB = 1 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "home", worker=False) as running:
        yield running


def test_a_body_has_the_limit_of_its_operation(server: Live) -> None:
    """The limit follows from the fields: an id is short, and a turn has 1 MiB of text, however it is escaped."""
    with server.client() as client:
        assert client.post("/v1/flows", json={"flow": "f", "x": "y" * 20_000}).status_code in (404, 405)
        assert client.put("/v1/users/alice/settings", json={"language": "x" * 20_000}).status_code == 413
        assert client.post("/v1/users/alice/search", json={"query": "x" * 3 * MIB}).status_code == 413
        turn = '{"content": "' + "\\u0041" * MIB + '"}'
        assert client.post("/v1/users/alice/turns", content=turn).status_code == 201
        (kept,) = client.get("/v1/users/alice/turns").json()["turns"]
        assert kept["content"] == "A" * MIB


def test_a_body_with_too_many_values_is_refused_before_it_is_decoded(server: Live) -> None:
    with server.client() as client:
        many: list[dict[str, Any]] = [{f"k{number}": 1 for number in range(150_000)}, {"list": [[]] * 150_000}]
        for metadata in many:
            answer = client.post("/v1/users/alice/turns", json={"content": "x", "metadata": metadata})
            assert (answer.status_code, answer.json()["error"]["details"]) == (413, {"limit": limits.MAX_NODES})
        commas = 'a "quoted" [text], {with} \\ signs' * 10_000  # is one value
        assert client.post("/v1/users/alice/turns", json={"content": commas}).status_code == 201


ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text('",[{\\a') | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('",[{\\a'), inner),
)


@settings(deadline=None)
@given(ANY_JSON, st.integers(1, 9))
def test_no_value_escapes_the_count(value: Any, chunk: int) -> None:
    def count(one: Any) -> int:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        return 1 + sum(map(count, inner))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_CHUNK", chunk)
        *_, counted = count_values(msgspec.json.encode(value))
    empty = len([one for one in _walk(value) if one in ([], {}) and isinstance(one, list | dict)])
    assert counted == count(value) + empty, "an empty list or object counts twice"


def _walk(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walk(inner)


def test_large_bodies_share_a_budget_in_turns() -> None:
    async def scene() -> list[str]:
        budget, order, idle = ByteBudget(100, 60, 60, lambda: order.append("idle")), [], asyncio.Event()

        async def hold(name: str, tenant: str, size: int, until: asyncio.Event) -> None:
            async with budget.hold(tenant, name, size):
                order.append(name)
                await until.wait()

        first, rest = asyncio.Event(), idle
        tasks = [asyncio.create_task(hold(*one)) for one in [("a1", "a", 60, first), ("a2", "a", 50, rest)]]
        tasks += [asyncio.create_task(hold(f"b{size}", "b", size, rest)) for size in (30, 500)]
        await _settle()
        assert order == ["a1", "b30"], "a2 waits for its tenant and not before the others; b500 counts as 60"
        tasks[3].cancel()
        first.set()
        await _settle()
        assert order == ["a1", "b30", "a2"]
        rest.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert asyncio.run(scene())[-1] == "idle"


def test_tenants_take_turns_in_threads() -> None:
    async def scene() -> None:
        pool: ThreadPool[str] = ThreadPool(3, "test", share=2, most_pending=10)
        go = threading.Event()

        def wait() -> str:
            assert go.wait(30)
            return "done"

        busy = [pool.run(wait, "busy") for _ in range(10)]
        with pytest.raises(Unavailable):
            pool.run(wait, "busy")
        assert await pool.run(lambda: "quick", "other") == "quick"
        busy[5].cancel()
        go.set()
        done = await asyncio.gather(*busy, return_exceptions=True)
        assert done.count("done") == 9
        assert await pool.run(lambda: "again", "busy") == "again"
        pool.close()

    asyncio.run(scene())


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_requests_that_wait_for_a_job_hold_no_thread(server: Live) -> None:
    with server.memory() as memory:
        memory.flow("f").session("s").history.append(role="user", content="My name is Alice.")
        (job,) = memory.jobs.list(kind="embed")  # nobody runs it
        reader = memory.keys.create("reader", "reader").secret
    path = f"/v1/jobs/{job.id}/wait?timeout_s=10"
    with ExitStack() as stack:
        client = stack.enter_context(
            httpx.Client(base_url=server.url, timeout=30, limits=httpx.Limits(max_connections=None))
        )
        waiting = [threading.Thread(target=_get, args=(client, path, reader)) for _ in range(100)]
        for one in waiting:
            one.start()
        wait_until(lambda: server.server._waiting == 100)
        with server.client() as other:
            assert other.post("/v1/flows/f/sessions/s/consolidate", json={"dry_run": True}).status_code == 200
            assert other.delete("/v1/users/nobody").status_code in (202, 404)
        assert server.server._waiting >= 90, "they still wait"
        with server.memory() as memory:
            memory.jobs.cancel(job.id)
        for one in waiting:
            one.join()


def _get(client: httpx.Client, path: str, key: str) -> None:
    assert client.get(path, headers={"authorization": f"Bearer {key}"}).json()["state"] == "cancelled"


def test_bodies_that_stop_halfway_keep_only_their_own_key_waiting(server: Live) -> None:
    with server.memory() as memory:
        memory.tenants.create("other")
        keys = [memory.keys.create("other", "agent", tenant=tenant).secret for tenant in ("default", "other")]
    turns = {"messages": [{"role": "user", "content": "x" * 1000}] * 500}
    with ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(open_upload(server, "/v1/users/alice/turns"))
            connection.sendall(b'{"content": "' + b"x" * 300_000)
        wait_until(lambda: server.server._budget._held)
        for key in keys:
            with server.client(key) as client:
                assert client.post("/v1/users/alice/turns", json=turns).status_code == 201
        with server.client() as client:
            assert client.post("/v1/users/alice/turns", json={"content": "small"}).status_code == 201


def test_a_refused_body_is_not_kept_until_the_next_collection_of_garbage(server: Live) -> None:
    """The frames of an error hold the body that it is about."""
    gc.collect()
    gc.disable()
    try:
        with server.client() as client:
            for path in ("/v1/users/alice/turns", "/v1/users/alice/search"):
                content = b'{"content": "' + b"x" * 2 * MIB + b'"}'
                assert client.post(path, content=content).status_code in (400, 413)
        wait_until(
            lambda: not [one for one in gc.get_objects() if isinstance(one, HttpRequest) and len(one.body) > MIB]
        )
    finally:
        gc.enable()


def test_memory_is_returned_after_an_upload(server: Live) -> None:
    with server.client() as client:
        path = "/v1/apps/shop/sessions/s/files?filename=a.txt"
        assert client.post(path, content=b"x" * MIB, headers=PLAIN).status_code == 201
        wait_until(lambda: server.server._large._threads and not server.server._release, "nothing was released")


def open_upload(server: Live, path: str) -> socket.socket:
    """Send the head of a request that announces a large body."""
    connection = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    head = f"POST {path} HTTP/1.1\r\nhost: memwell\r\nauthorization: Bearer {server.key}\r\n"
    connection.sendall(f"{head}content-length: 15000000\r\n\r\n".encode())
    return connection


def test_a_request_that_sends_no_body_holds_nothing(server: Live) -> None:
    """Neither memory for large bodies nor a slot for uploads."""
    with ExitStack() as stack, server.client() as client:
        for path in ["/v1/users/alice/turns", "/v1/apps/shop/sessions/s/files?filename=a.txt"] * 20:
            stack.enter_context(open_upload(server, path))
        turns = {"messages": [{"role": "user", "content": "x" * 1000}] * 500}
        assert client.post("/v1/users/alice/turns", json=turns).status_code == 201
        uploaded = client.post("/v1/apps/shop/sessions/s/files?filename=a.txt", content=b"hello", headers=PLAIN)
        assert uploaded.status_code == 201
        assert not server.server._budget._held


PLAIN = {"content-type": "text/plain"}


def test_a_message_of_mcp_has_few_values_and_waits_without_a_thread(server: Live) -> None:
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {server.key}"}

    def call(name: str, arguments: dict[str, Any]) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        return httpx.post(f"{server.url}/mcp?tools=all", json=message, headers=headers, timeout=60)

    assert call("users_search", {"user": "alice", "query": "x", "x": [[]] * 20_000}).status_code == 413
    with server.memory() as memory:
        memory.flow("f").session("s").history.append(role="user", content="My name is Alice.")
        (job,) = memory.jobs.list(kind="embed")  # nobody runs it
        waiting = [
            threading.Thread(target=call, args=("jobs_wait", {"id": job.id, "timeout_s": 10})) for _ in range(20)
        ]
        for one in waiting:
            one.start()
        wait_until(lambda: server.server._waiting == 20)
        with server.client() as client:
            answer = client.post("/v1/flows/f/sessions/s/consolidate", json={"dry_run": True})
        assert answer.status_code == 200
        assert server.server._waiting >= 18, "they still wait"
        memory.jobs.cancel(job.id)
        for one in waiting:
            one.join()
