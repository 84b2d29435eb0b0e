"""Connections: no client without a key can make others wait, with heads, connections or unread answers (T20)."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from memwell.surfaces.rest import connections

from ..cases import cases
from ..live import Live, live
from ..waiting import wait_until

GET = b"GET /health HTTP/1.1\r\nhost: memwell\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "home", worker=False) as running:
        yield running


@contextmanager
def connect(url: str, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    port = int(url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0)) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def send_until_refused(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send pieces until the server answers or hangs up; return the number of bytes."""
    connection.setblocking(False)
    sent = 0
    while sent < most:
        try:
            if connection.recv(1, socket.MSG_PEEK) is not None:
                break
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        try:
            sent += connection.send(piece)
        except BlockingIOError:
            continue
        except ConnectionError:
            break
    connection.setblocking(True)
    return sent


def test_a_head_of_more_than_64_kib_is_refused(server: Live) -> None:
    for head in (
        GET + b"a: " + b"x" * 70_000,
        b"GET /" + b"x" * 70_000,
        (GET + b"\r\n") + GET + b"a: " + b"x" * 70_000,
    ):
        with connect(server.url) as connection:
            connection.sendall(head)
            answer = read_all(connection)
            assert b"HTTP/1.1 431 " in answer
            assert b'"code":"too_large"' in answer
    with connect(server.url) as connection:
        connection.sendall(GET + b"a: " + b"x" * 50_000 + b"\r\nconnection: close\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_a_head_that_comes_piece_by_piece_is_refused_as_soon_as_it_is_too_large(server: Live) -> None:
    with connect(server.url) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        connection.sendall(GET + b"a: ")
        send_until_refused(connection, b"x" * 1024, most=64 << 20)
        assert b"HTTP/1.1 431 " in read_all(connection)


@pytest.mark.parametrize("more", [b"", b"transfer-encoding: chunked\r\n"])
def test_more_than_100_headers_are_refused(server: Live, more: bytes) -> None:
    with connect(server.url) as connection:
        connection.sendall(GET + more + b"a: b\r\n" * 100 + b"\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 100_000, b"0\r\n" + b"a: b\r\n" * 20_000])
def test_what_surrounds_the_pieces_of_a_body_is_limited_too(server: Live, endless: bytes) -> None:
    """Chunk extensions and trailers."""
    request = b"POST /v1/users/alice/turns HTTP/1.1\r\nhost: memwell\r\ntransfer-encoding: chunked\r\n"
    request += f"authorization: Bearer {server.key}\r\n\r\n".encode()
    with connect(server.url) as connection:
        connection.sendall(request + endless)
        assert b"HTTP/1.1 2" not in read_all(connection)


TINY_CHUNKS = b"1\r\n{\r\n" * 2_000_000
"""The parser calls the server for each of them, so a few connections could keep it busy."""


@cases("line", ["POST /health", "POST /v1/users/alice/turns"])
def test_a_body_that_nobody_reads_is_not_parsed_if_it_has_many_tiny_chunks(server: Live, line: str) -> None:
    with connect(server.url) as connection, suppress(ConnectionError):
        connection.sendall(f"{line} HTTP/1.1\r\nhost: memwell\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        connection.sendall(TINY_CHUNKS + b"0\r\n\r\n" + GET + b"connection: close\r\n\r\n")
        assert b"HTTP/1.1 200 " not in read_all(connection), "the request behind the body is not reached"


def test_a_body_of_many_tiny_chunks_is_refused(server: Live) -> None:
    head = "POST /v1/users/alice/turns HTTP/1.1\r\nhost: memwell\r\ntransfer-encoding: chunked\r\n"
    with connect(server.url) as connection:
        connection.sendall(f"{head}authorization: Bearer {server.key}\r\n\r\n".encode() + TINY_CHUNKS)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"tiny chunks" in answer


def test_a_body_may_come_in_small_chunks(server: Live) -> None:
    """As those that a JSON encoder yields."""
    content = json.JSONEncoder().iterencode({"messages": [{"role": "user", "content": "x"}] * 900})
    with server.client() as client:
        assert client.post("/v1/users/alice/turns", content=(piece.encode() for piece in content)).status_code == 201
        much = (b"x" * 100 for _ in range(15_000))
        body = itertools.chain([b'{"content": "'], much, [b'"}'])
        assert client.post("/v1/users/alice/turns", content=body).json()["error"]["details"]["field"] == "content"


def test_what_is_no_http_gets_an_error_like_any_other(server: Live) -> None:
    with connect(server.url) as connection:
        connection.sendall(b"hello\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"invalid"' in answer


def test_a_head_must_be_complete_in_time(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "SWEEP_S", 0.05)
    for sent in (b"", b"\r\n", GET, GET + b"\r\n" + GET):
        with connect(server.url) as connection:
            connection.sendall(sent)
            read_all(connection)  # it ends


def test_requests_on_one_connection_are_answered_in_order_but_not_without_limit(server: Live) -> None:
    with connect(server.url) as connection:
        connection.sendall((GET + b"\r\n") * 30 + GET + b"connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200 ") == 31
    with connect(server.url) as connection:
        connection.sendall((GET + b"\r\n") * 3000)
        assert read_all(connection).count(b"HTTP/1.1 200 ") < 3000


def test_a_body_that_nobody_reads_ends_the_connection(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "DRAIN_BYTES", 1 << 20)
    with connect(server.url) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: memwell\r\ncontent-length: 1000000000\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(b"x" * 1_000_000_000)


def test_a_small_body_that_nobody_reads_keeps_the_connection(server: Live) -> None:
    with httpx.Client(base_url=server.url) as client:
        for _ in range(3):
            assert client.post("/nowhere", content=b"x" * 300_000).status_code == 404
            assert client.get("/health").status_code == 200


def test_connections_without_a_request_make_room_for_others(tmp_path: Path) -> None:
    """With 200 descriptors there are 100 connections, 50 for each address."""
    environment = {**os.environ, "MEMWELL_HOME": str(tmp_path / "home")}
    command = f"ulimit -n 200 && exec {sys.executable} -m memwell serve --no-auth --port {(port := _free_port())}"
    server = subprocess.Popen(
        ["bash", "-c", command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _is_healthy(url), "the server did not start", 30)
        with ExitStack() as stack:
            for source in ("127.0.0.2", "127.0.0.3"):
                attackers = [stack.enter_context(connect(url, source)) for _ in range(300)]
                for one in attackers[-40:]:
                    one.sendall(GET)
                for _ in range(3):
                    assert httpx.get(f"{url}/health").status_code == 200
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False
