"""A minimal client: one open connection, prepared requests. Both sides of a comparison use it."""

from __future__ import annotations

import selectors
import socket
from time import perf_counter

import msgspec

_LENGTH = b"content-length: "


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> bytes:
        """Send a request and return the body of its response. Raise unless it succeeded."""
        self.socket.sendall(request)
        answer = self.socket.recv(65536)
        while (missing := _missing(answer)) > 0:
            answer += self.socket.recv(max(missing, 65536))
        return _body(answer)

    def close(self) -> None:
        self.socket.close()


def request(method: str, path: str, key: str, data: object = None) -> bytes:
    """Build a request as bytes."""
    body = b"" if data is None else msgspec.json.encode(data)
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: 127.0.0.1",
        f"authorization: Bearer {key}",
        "content-type: application/json",
    ]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def sustained(port: int, requests: list[bytes], seconds: float) -> float:
    """Return the responses per second. Each request has its own connection and is repeated after its response. One thread serves
    all connections, because a thread for each would compete with the server for the processor.
    """
    clients = [Client(port) for _ in requests]
    with selectors.DefaultSelector() as ready:
        for client, wanted in zip(clients, requests, strict=True):
            ready.register(client.socket, selectors.EVENT_READ, (client, wanted))
            client.socket.sendall(wanted)
        done, started = 0, perf_counter()
        while perf_counter() - started < seconds:
            for event, _ in ready.select(timeout=1):
                client, wanted = event.data
                _finish(client)
                client.socket.sendall(wanted)
                done += 1
        took = perf_counter() - started
    for client in clients:
        client.close()
    return done / took


def _finish(client: Client) -> None:
    answer = client.socket.recv(65536)
    while _missing(answer) > 0:
        answer += client.socket.recv(65536)
    _body(answer)


def _missing(answer: bytes) -> int:
    """Return the number of missing bytes of a response; at least one while its head is incomplete."""
    if not answer:
        raise ConnectionError("the server closed the connection")
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return 1
    start = answer.index(_LENGTH) + len(_LENGTH)
    return end + 4 + int(answer[start : answer.index(b"\r", start)]) - len(answer)


def _body(answer: bytes) -> bytes:
    if not answer.startswith(b"HTTP/1.1 20"):
        raise ConnectionError(answer[:500].decode("latin-1"))
    return answer[answer.index(b"\r\n\r\n") + 4 :]
