"""A server beside its operations: health, limits, streams, shutdown."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from memwell import Invalid, RateLimited, config
from memwell.registry import OPERATIONS, open_engine, require_operation
from memwell.surfaces.rest.limits import TimeLimit
from memwell.surfaces.rest.openapi import PAGES, build_document
from memwell.surfaces.rest.serve import JsonLines, run

from ..engines import Memory, listeners, located
from ..examples import plain
from ..live import live
from ..waiting import wait_until


def test_health_ready_metrics_and_docs(tmp_path: Path) -> None:
    with live(tmp_path) as server, server.client() as client:
        health = client.get("/health").json()
        assert health["status"] == "ok"
        assert health["storage"]["durability"] == "full"
        assert client.get("/ready").json() == {"status": "ready"}
        client.post("/v1/users/alice/turns", json={"content": "a secret word"})
        metrics = client.get("/metrics").text
        assert 'memwell_requests_total{operation="users.add",status="201"} 1' in metrics
        assert "alice" not in metrics
        page = client.get("/docs")
        assert "users.add" in page.text
        assert "http://" not in re.sub(r"http://127\.0\.0\.1:8420", "", page.text), "it needs nothing from elsewhere"
        assert "<script" not in page.text
        assert "<code>next_cursor</code>" in page.text
        assert "`" not in page.text, "what stands between backticks is code"
        assert client.get("/").headers["location"] == "/docs"
        refused = client.post("/health")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_the_openapi_document_is_whole(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    references = set(re.findall(r"#/components/schemas/(\w+)", msgspec.json.encode(document).decode()))
    assert references <= set(document["components"]["schemas"])
    for path, methods in document["paths"].items():
        for described in methods.values():
            names = {parameter["name"] for parameter in described["parameters"] if parameter["in"] == "path"}
            assert names == set(re.findall(r"{(\w+)}", path))
    assert len(
        {described["operationId"] for methods in document["paths"].values() for described in methods.values()}
    ) == (len(OPERATIONS) + len(PAGES))


def test_the_openapi_document_describes_every_page(tmp_path: Path) -> None:
    """Streams and downloads too, with what they send."""
    with live(tmp_path, worker=False) as server, server.client() as client:
        document = client.get("/openapi.json").json()
        served = {route.path for route in server.server._pages.routes}  # type: ignore[attr-defined]
    assert served - document["paths"].keys() == {"/", "/docs", "/openapi.json", "/mcp"}
    described = document["paths"]["/v1/runs/{run}/stream"]["get"]
    assert described["responses"]["200"]["content"].keys() == {"text/event-stream"}
    assert "RunEvent" in str(described)
    assert {one["name"]: one["in"] for one in described["parameters"]} == {"run": "path", "Last-Event-ID": "header"}
    assert [path for path, methods in document["paths"].items() if methods.get("get", {}).get("security") == []] == [
        *("/v1/files/{token}", "/health", "/ready", "/metrics")
    ]


OWN_NAMES = {
    "metadata",
    "value",
    "content",
    "document",
    "schema",
    "variables",
    "parameters",
    "input",
    "output",
    "inputs",
}
"""Fields whose content is the caller's, or that show what a document wrote."""


def _names(value: Any) -> set[str]:
    """The names of fields in an answer, without those of its users."""
    if isinstance(value, list):
        return set().union(*map(_names, value))
    if not isinstance(value, dict):
        return set()
    return value.keys() | set().union(*(_names(one) for name, one in value.items() if name not in OWN_NAMES))


def test_a_field_has_one_spelling(memory: Memory) -> None:
    """In schemas and in answers: `is_active`, and not also `isActive`."""
    schemas = build_document(OPERATIONS.values())
    assert re.findall(r'"name":"([a-z]+[A-Z]\w*)"', msgspec.json.encode(schemas).decode()) == []
    for schema in schemas["components"]["schemas"].values():
        assert [name for name in schema.get("properties", ()) if name != name.lower()] == []
    session = memory.app("shop").session("s1")
    session.files.upload(b"Hello", "a.txt", user_id="alice")
    memory.app("shop").sessions.update("s1", {"userId": "alice"})
    listed = [session.meta(), session.files.list(), memory.app("shop").sessions.list()]
    found = _names(plain(listed))
    assert {"is_active", "user_id", "download_url"} <= found
    assert [name for name in found if name != name.lower()] == []


def test_an_idempotency_key_makes_a_request_count_once(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        path, body = "/v1/flows/f/sessions/s/turns", {"role": "user", "content": "once"}
        first = client.post(path, json=body, headers={"idempotency-key": "k"})
        again = client.post(path, json=body, headers={"idempotency-key": "k"})
        assert (first.status_code, first.content) == (again.status_code, again.content)
        other = client.post(path, json={**body, "content": "twice"}, headers={"idempotency-key": "k"})
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
        elsewhere = client.post("/v1/flows/f/memories", json={"content": "x"}, headers={"idempotency-key": "k"})
        assert elsewhere.status_code == 201, "a key belongs to its operation"
        assert len(client.get(path).json()["turns"]) == 1
        long = client.post(path, json=body, headers={"idempotency-key": "k" * 300})
        assert long.status_code == 400


def test_operations_that_cannot_repeat_their_answer_refuse_idempotency_keys(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        for method, path in (
            ("POST", "/v1/keys"),
            ("POST", "/v1/tenants"),
            ("DELETE", "/v1/tenants/acme"),
            ("DELETE", "/v1/keys/x"),
        ):
            content = b'{"tenant": "acme"}' if path == "/v1/tenants" else b"{}"
            answer = client.request(method, path, content=content, headers={"idempotency-key": "k"})
            assert (answer.status_code, "Idempotency-Key" in answer.json()["error"]["message"]) == (400, True)
        assert len(client.get("/v1/keys").json()["keys"]) == 1


def test_a_key_is_limited_in_its_rate(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        slow = memory.keys.create("slow", "agent", rate_limit=1).secret
        with server.client(slow) as client:
            answers = [client.get("/v1/flows") for _ in range(5)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 2
        assert refused[0].headers["retry-after"] == "1"
        assert refused[0].json()["error"]["code"] == RateLimited.code


def test_a_body_is_counted_whatever_its_header_says(tmp_path: Path) -> None:
    """T20, in small: a missing or lying Content-Length does not help."""
    with live(tmp_path, worker=False, max_body=10_000) as server, server.client() as client:
        path = "/v1/flows/f/sessions/s/turns"
        whole = client.post(path, content=b"x" * 10_001)
        chunked = client.post(path, content=(b"x" * 1000 for _ in range(100)))
        assert (whole.status_code, chunked.status_code) == (413, 413)
        assert chunked.json()["error"]["code"] == "too_large"


def test_a_request_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with live(tmp_path, worker=False, request_timeout_s=0.2) as server, server.memory() as memory:
        memory.flow("f").session("s").history.append(role="user", content="x")
        (job,) = memory.jobs.list(kind="embed")  # nobody runs it
        with server.client() as client:
            answer = client.get(f"/v1/jobs/{job.id}/wait", params={"timeout_s": 1.5})
        assert answer.status_code == 503
        assert answer.headers["retry-after"]


def test_a_request_that_is_cut_off_by_the_end_of_the_server_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("memwell.surfaces.rest.serve.GRACE_S", 1)
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.status()
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        connection = socket.create_connection(address, timeout=30)
        head = f"POST /v1/users/alice/turns HTTP/1.1\r\nhost: memwell\r\nauthorization: Bearer {server.key}\r\n"
        connection.sendall(f"{head}content-length: 10\r\nexpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")  # it waits for the body
    answer = connection.recv(10_000)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"unavailable"' in answer
    assert not [record for record in caplog.records if record.exc_info]


def test_the_advice_for_what_took_too_long_can_be_followed() -> None:
    """Only what may carry an Idempotency-Key is to be repeated with one."""

    async def advice(name: str) -> str:
        limit = TimeLimit(60, require_operation(name))
        limit.lift()
        return limit.answer.body.decode()

    assert "Idempotency-Key" in asyncio.run(advice("users.add"))
    for name in ("users.history", "keys.create"):
        assert "Idempotency-Key" not in asyncio.run(advice(name))


def test_without_keys_only_this_machine_is_answered(tmp_path: Path) -> None:
    """T15, T16: no rebound name and no page of another origin."""
    with live(tmp_path, auth=False, worker=False) as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/v1/flows").status_code == 200
        assert client.get("/v1/flows", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/v1/flows", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get("/v1/flows", headers={"origin": "http://localhost:3000"}).status_code == 200


def test_no_auth_is_refused_on_other_addresses(tmp_path: Path) -> None:
    """T6"""

    configured = config.load(home=located(tmp_path), host="0.0.0.0")  # noqa: S104
    engine = open_engine(configured)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(Invalid, match="--no-auth"):
        run(engine, configured, auth=False, listener=listener)
    engine.close()


def test_a_busy_port_is_said_in_a_sentence_and_costs_no_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = serve(tmp_path, taken.getsockname()[1])
        _, err = process.communicate(timeout=30)
        assert process.returncode == 75
        assert "cannot be bound" in err
        assert "Traceback" not in err
        assert not (tmp_path / "control.db").exists()


def test_a_body_is_not_read_before_the_key_is_known(tmp_path: Path) -> None:
    """T20: who has no key cannot make the server hold on to anything."""
    with live(tmp_path, worker=False) as server, socket.create_connection(_address(server.url)) as raw:
        raw.sendall(b"POST /v1/users/a/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
        raw.settimeout(10)
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    with (
        live(tmp_path, worker=False, auth=False, request_timeout_s=0.3) as server,
        socket.create_connection(_address(server.url)) as raw,
    ):
        raw.sendall(b"POST /v1/users/a/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        raw.settimeout(10)
        assert raw.recv(100).startswith(b"HTTP/1.1 503")


def _address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def test_a_stream_that_is_left_leaves_nothing_behind(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        for _ in range(5):
            with client.stream("GET", "/v1/events") as response:
                next(response.iter_raw())
        wait_until(lambda: listeners(tmp_path) == 0)


def test_answers_cannot_be_sniffed_or_cached(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client:
        for path in ("/v1/flows", "/health", "/nowhere"):
            headers = client.get(path).headers
            assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_logs_are_json_and_hold_no_content() -> None:
    import logging

    record = logging.makeLogRecord({"msg": "request.failed", "levelname": "WARNING", "operation": "flows.append"})
    line = msgspec.json.decode(JsonLines().format(record))
    assert (line["event"], line["level"], line["operation"]) == ("request.failed", "warning", "flows.append")


def serve(home: Path, port: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "MEMWELL_HOME": located(home), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "memwell", "serve", "--port", str(port)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_serve_shows_its_address_and_first_key_once_and_stops_gracefully(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shown: list[str] = []
    for _ in range(2):
        process = serve(tmp_path, port)
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        url = f"http://127.0.0.1:{port}"
        assert url in lines[0]
        if not shown:
            lines.append(process.stdout.readline())
        key = re.search(r"mw_[\w-]{43}", "".join(lines))
        shown.append(key[0] if key else "")
        headers = {"authorization": f"Bearer {shown[0]}"}
        assert httpx.get(f"{url}/v1/flows", headers=headers).status_code == 200
        with httpx.stream("GET", f"{url}/v1/events", headers=headers):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) in (0, -signal.SIGTERM)
        _, err = process.communicate()
        assert "Traceback" not in err, err
    assert shown[0]
    assert shown[1] == "", "the key is shown once"


def test_a_second_header_of_those_that_decide_is_refused(tmp_path: Path) -> None:
    with live(tmp_path, auth=False, worker=False) as server:
        own = server.url.removeprefix("http://")
        address = ("127.0.0.1", int(own.rsplit(":", 1)[1]))
        for second in ("host: evil.example", f"host: {own}", f"origin: {server.url}\r\norigin: https://evil.example"):
            for headers in (f"host: {own}\r\n{second}", f"{second}\r\nhost: {own}"):
                with socket.create_connection(address, timeout=30) as connection:
                    connection.sendall(f"GET /v1/users HTTP/1.1\r\n{headers}\r\n\r\n".encode())
                    assert connection.recv(100).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), headers


def test_two_keys_are_refused(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server:
        keys = {"authorization": f"Bearer {server.key}", "x-api-key": server.key}
        assert httpx.get(f"{server.url}/v1/users", headers=keys).status_code == 400
        for name, value in keys.items():
            assert httpx.get(f"{server.url}/v1/users", headers={name: value}).status_code == 200


def test_only_json_is_read_as_json(tmp_path: Path) -> None:
    with live(tmp_path, auth=False, worker=False) as server:
        path, body = f"{server.url}/v1/users/alice/turns", b'{"content": "hello"}'
        for kind, status in {
            "application/json": 201,
            "application/json; charset=utf-8": 201,
            "application/vnd.memwell+json": 201,
            "text/plain": 415,
            "multipart/form-data; boundary=x": 415,
            "application/xml": 415,
        }.items():
            assert httpx.post(path, content=body, headers={"content-type": kind}).status_code == status, kind


def test_pages_cannot_be_framed_or_guessed(tmp_path: Path) -> None:
    with live(tmp_path, auth=False, worker=False) as server:
        assert "frame-ancestors 'none'" in httpx.get(f"{server.url}/docs").headers["content-security-policy"]
        for page in ("/", "/docs", "/metrics", "/health", "/openapi.json"):
            assert httpx.get(server.url + page).headers["x-content-type-options"] == "nosniff"
