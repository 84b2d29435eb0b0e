"""HTTP: the latency that it adds to an operation, compared with a bare route, and the throughput of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from memwell import Memory

from .client import Client, request, sustained
from .measure import alternate, differences, median_ratio
from .processes import MEMWELL, free_port, serving
from .sizes import APPENDERS, LAST, Sizes
from .table import Row, at_most, duration, rate
from .texts import FLOW, TURN

LIMIT = 2.0
SESSION = "alice"
_TURN = {"role": "user", "content": TURN}


class Ports(NamedTuple):
    """The ports of the two servers, and the key for ours."""

    ours: int
    bare: int
    key: str


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    """The rows about HTTP. All of them share the servers."""
    with _servers(folder) as ports, _filled(folder / "embedded") as memory:
        return [
            _added("append", _post(ports.key, SESSION), _append(memory), ports, sizes),
            _added(f"last({LAST})", _get(ports.key), _last(memory), ports, sizes),
            _sustained(ports, sizes),
        ]


def _added(what: str, message: bytes, embedded: Callable[[], object], ports: Ports, sizes: Sizes) -> Row:
    with closing(Client(ports.ours)) as ours, closing(Client(ports.bare)) as bare:
        sides = partial(ours.send, message), embedded, partial(bare.send, message)
        through, inside, limit = alternate(sizes.http, *sides)
    added = differences(through, inside)
    shown = f"{duration(median(added))} ({duration(through.median)} - {duration(inside.median)})"
    ratio = median_ratio(added, limit.blocks)
    row = at_most(f"what HTTP adds to {what}", shown, duration(limit.median), ratio, LIMIT)
    return row if ratio > 0 else replace(row, verdict="unclear")  # a negative difference is noise


def _sustained(ports: Ports, sizes: Sizes) -> Row:
    messages = [_post(ports.key, f"client-{n}") for n in range(APPENDERS)]
    sustained(ports.ours, messages, 0.3)
    per_second = sustained(ports.ours, messages, sizes.sustained_s)
    return Row(f"durable appends over HTTP, {APPENDERS} clients", rate(per_second))


@contextmanager
def _servers(folder: Path) -> Iterator[Ports]:
    home = folder / "served"
    with _filled(home) as memory:
        key = memory.keys.create("bench").secret
    ports = Ports(free_port(), free_port(), key)
    settings = {"MEMWELL_HOME": str(home), "MEMWELL_PORT": str(ports.ours), "MEMWELL_RATE_LIMIT": "0"}
    ours = serving(MEMWELL, "serve", port=ports.ours, **settings)
    bare = serving("-m", "bench.bare_route", str(ports.bare), port=ports.bare)
    with ours, bare:
        yield ports


@contextmanager
def _filled(home: Path) -> Iterator[Memory]:
    with Memory(home) as memory:
        memory.flow(FLOW).session(SESSION).history.extend([_TURN] * 1000)
        yield memory


def _post(key: str, session: str) -> bytes:
    return request("POST", f"/v1/flows/{FLOW}/sessions/{session}/turns", key, _TURN)


def _get(key: str) -> bytes:
    return request("GET", f"/v1/flows/{FLOW}/sessions/{SESSION}/turns?limit={LAST}", key)


def _append(memory: Memory) -> Callable[[], object]:
    history = memory.flow(FLOW).session(SESSION).history
    return lambda: history.append(role="user", content=TURN)


def _last(memory: Memory) -> Callable[[], object]:
    history = memory.flow(FLOW).session(SESSION).history
    return lambda: history.last(LAST)
