"""Attacks: the latency of others while one client sends endless heads, large bodies or long polls, or has just written much.

The control is the same load on a server that is not ours, so that the ratio shows what the attack does to ours and not to the
machine.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

from memwell import Memory

from .client import Client, request
from .processes import MEMWELL, ROOT, free_port, serving
from .sizes import Sizes
from .table import Row, at_most, duration
from .texts import FLOW, TURN

LIMIT = 2.0
SETTLE_S = 0.5
ATTACKS = ("heads", "bodies", "polls", "searches")


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    """One row for each attack: the 99th percentile of an append by another tenant. Each attack has a server of its own."""
    return [_measure(kind, folder / kind, sizes) for kind in ATTACKS]


def _measure(kind: str, home: Path, sizes: Sizes) -> Row:
    with Memory(home, worker=False) as memory:
        memory.tenants.create("attacker")
        memory.tenants.create("others")
        attacker, others = (memory.keys.create(name, "agent", tenant=name).secret for name in ("attacker", "others"))
    with Memory(home, tenant="attacker", worker=False) as memory:
        job = memory.jobs.list(kind="expire")[0].id  # is due tomorrow
    port, sink = free_port(), free_port()
    settings = {"MEMWELL_HOME": str(home), "MEMWELL_PORT": str(port), "MEMWELL_RATE_LIMIT": "0"}
    with serving(MEMWELL, "serve", port=port, **settings), serving("-m", "bench.sink", str(sink), port=sink):
        append = request("POST", f"/v1/flows/{FLOW}/sessions/alice/turns", others, {"role": "user", "content": TURN})
        return _compare(port, append, sizes, partial(_attack, kind, attacker, job), kind, sink)


def _compare(
    port: int, append: bytes, sizes: Sizes, attack: Callable[[int], AbstractContextManager[None]], kind: str, sink: int
) -> Row:
    """Compare appends beside the attack with appends beside its control, in alternate rounds."""
    beside: dict[int, list[float]] = {port: [], sink: []}
    for _ in range(sizes.attacks):
        for target, timings in beside.items():
            with attack(target):
                time.sleep(SETTLE_S)
                timings += _time_appends(port, append, sizes.attack_s)
            time.sleep(SETTLE_S)
    ours, control = _p99(beside[port]), _p99(beside[sink])
    return at_most(f"others' p99 beside {kind}", duration(ours), duration(control), ours / control, LIMIT)


def _time_appends(port: int, append: bytes, seconds: float) -> list[float]:
    found = []
    until = time.perf_counter() + seconds
    with closing(Client(port)) as client:
        while (started := time.perf_counter()) < until:
            client.send(append)
            found.append(time.perf_counter() - started)
            time.sleep(0.002)
    return found


def _p99(timings: list[float]) -> float:
    return sorted(timings)[int(len(timings) * 0.99)]


@contextmanager
def _attack(kind: str, key: str, job: str, port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.attacker", kind, str(port), key, job]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout is not None:
                process.stdout.readline()
            yield
        finally:
            process.kill()
