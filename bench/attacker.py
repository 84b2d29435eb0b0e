"""A hostile client in a process of its own: `python -m bench.attacker KIND PORT KEY JOB`. It ends with its parent's pipe."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from threading import Thread

from .client import request

BODY_BYTES = 15_000_000
BODIES = 60
POLLS = 64
HEADS = 4
SEARCHES = 8
LARGE_TURNS, LARGE_TURN = 64, 100_000
PIECE = b"x" * 16_384


def main(kind: str, port: str, key: str, job: str) -> None:
    kinds = {
        "heads": (_head, HEADS),
        "bodies": (_body, BODIES),
        "polls": (_poll, POLLS),
        "searches": (_search, SEARCHES),
    }
    attack, count = kinds[kind]
    if kind == "searches":
        with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
            _write_much(connection, key)
    for _ in range(count):
        Thread(target=_repeat, args=(attack, int(port), key, job), daemon=True).start()
    print("started", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


def _repeat(attack: Callable[[socket.socket, str, str], None], port: int, key: str, job: str) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            attack(connection, key, job)
        time.sleep(0.05)


def _head(connection: socket.socket, _: str, __: str) -> None:
    """One header value of 100 MB, piece by piece, without a key."""
    connection.sendall(b"GET /health HTTP/1.1\r\nhost: memwell\r\na: ")
    for _piece in range(6400):
        connection.sendall(PIECE)


def _body(connection: socket.socket, key: str, _: str) -> None:
    """A body of many turns."""
    turns = [{"role": "user", "content": "word " * 3000}] * (BODY_BYTES // 15_000)
    _exchange(connection, request("POST", "/v1/users/attacker/turns", key, {"messages": turns}))


def _poll(connection: socket.socket, key: str, job: str) -> None:
    _exchange(connection, request("GET", f"/v1/jobs/{job}/wait?timeout_s=10", key))


def _write_much(connection: socket.socket, key: str) -> None:
    """One write of 6.4 MB of words that occur once."""
    words = (f"{number:x}word" for number in range(LARGE_TURNS * LARGE_TURN // 5))
    turns = [{"role": "user", "content": " ".join(islice(words, LARGE_TURN // 10))} for _ in range(LARGE_TURNS)]
    _exchange(connection, request("POST", "/v1/users/attacker/turns", key, {"messages": turns}))


def _search(connection: socket.socket, key: str, _: str) -> None:
    """A search in what was just written."""
    _exchange(
        connection, request("POST", "/v1/users/attacker/search", key, {"query": "the harbour", "include": ["turns"]})
    )


def _exchange(connection: socket.socket, sent: bytes) -> None:
    connection.sendall(sent)
    connection.recv(65536)


if __name__ == "__main__":
    main(*sys.argv[1:])
