"""Real processes to be killed: `memwell serve`, and a program that embeds the memory and writes until it dies.

Everything listens on 127.0.0.1 only, prints into files beside the data directory, and is ended by its process id. Where
nothing else is needed, they are forked from one process that has loaded everything, so that a start takes 0.2 s instead
of a whole second, of which the tests need hundreds.
"""

from __future__ import annotations

import faulthandler
import http.client
import itertools
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

from memwell.surfaces.cli.main import main

from .engines import Memory, located
from .waiting import wait_until

READY_S = 20.0
"""A time-out, not a promise: whoever is not ready by then never will be."""

FLOW = "crash"
HALL = "hall"
PRELOADED = (
    __name__,
    "numpy",
    "psycopg",
    "pytest",
    "uvloop",
    "memwell.banks.compaction",
    "memwell.facts.consolidation",
    "memwell.facts.rules.extractor",
    "memwell.models.wordllama",
    "memwell.surfaces.cli.main",
    "memwell.surfaces.rest.serve",
)


@cache
def forks() -> Any:
    """A context of multiprocessing whose processes are forked from one that has loaded everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


class Forked:
    """A forked process as far as one that was started is asked for the same."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._process = forks().Process(target=work, args=arguments, daemon=True)
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout_s: float) -> None:
        self._process.join(timeout_s)
        if self._process.is_alive():
            raise subprocess.TimeoutExpired(self._process.name, timeout_s)


class Process:
    """A process that can be killed and started again on the same directory. Its output outlives it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.out = home.with_name(home.name + ".out")
        self.err = home.with_name(home.name + ".err")
        self._process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def last_words(self) -> str:
        """With which code it ended, if it has, and what it had to say."""
        code = None if self._process is None else self._process.poll()
        return f"{code}: {self.err.read_text()}"

    def run(self, *command: str, **environment: str) -> None:
        """Start a command; of the tests' own environment it sees no setting of Memwell's."""
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_clean() | environment
            )

    def fork(self, work: Callable[..., None], *arguments: str, **environment: str) -> None:
        """Start what a function does with these arguments, in the same environment."""
        for path in (self.out, self.err):
            path.touch()
        self._process = Forked(_begin, self.out, self.err, _clean() | environment, work, arguments)

    def kill(self) -> None:
        """`kill -9`: no handler runs, nothing is flushed."""
        self._end(signal.SIGKILL, READY_S)

    def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        try:
            self._end(signal.SIGTERM, READY_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                os.kill(self._process.pid, number)
            self._process.wait(timeout_s)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MEMWELL_")}


def _begin(
    out: Path, err: Path, environment: dict[str, str], work: Callable[..., None], arguments: tuple[str, ...]
) -> None:
    for path, number in ((out, 1), (err, 2)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable()  # who falls says where
    work(*arguments)


def memwell(*arguments: str) -> None:
    """What the command does."""
    sys.argv = ["memwell", *arguments]
    main()


class Server(Process):
    """`memwell serve` on a free port, without a rate limit: `with Server(home).start() as server:`."""

    def __init__(self, home: Path, **settings: str) -> None:
        super().__init__(home)
        self.port = free_port()
        self.key = ""
        self._settings = {f"MEMWELL_{name.upper()}": value for name, value in settings.items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it, for the first time or again, and wait until it is ready. The first time, it tells its key."""
        settings = {"MEMWELL_HOME": located(self.home), "MEMWELL_PORT": str(self.port), "MEMWELL_RATE_LIMIT": "0"}
        self.serve(**(settings | self._settings))
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def serve(self, **environment: str) -> None:
        self.fork(memwell, "serve", **environment)

    def memory(self) -> Memory:
        return Memory(self.url, api_key=self.key)

    def rss(self, field: str = "VmRSS") -> int:
        """How many bytes of memory it holds; `VmHWM`: at its highest."""
        found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def _wait_until_ready(self) -> None:
        wait_until(
            lambda: (self._told_its_key() and self._ready()) or not self.alive, "the server did not become ready"
        )
        assert self.alive, f"the server ended: {self.last_words}"

    def _told_its_key(self) -> bool:
        if not self.key and (found := re.search(r"mw_[\w-]{43}", self.out.read_text())):
            self.key = found[0]
        return bool(self.key)

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_S)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Writers(Process):
    """A program that embeds the memory and writes what is planned from many threads, for ever."""

    def start(self, firsts: list[int]) -> None:
        """One thread for every number: from which of its planned turns it goes on."""
        self.fork(_write_until_killed, located(self.home), *map(str, firsts))

    def wait_until_acknowledged(self) -> None:
        """Wait for the first line after those that are there."""
        size = self.out.stat().st_size
        wait_until(lambda: self.out.stat().st_size > size or not self.alive, "nothing was acknowledged")
        assert self.alive, f"the writers ended: {self.last_words}"


class Planned(NamedTuple):
    """A turn that a writer is going to write. Nobody else ever writes the same."""

    session: str
    content: str
    key: str


def planned(writer: int, number: int) -> Planned:
    """Two sessions of the writer's own, and one that all share. Lengths vary, so that pages fill up at odd places."""
    session = HALL if number % 4 == 0 else f"desk-{writer}-{number % 2}"
    padding = "." * (number * 37 % 400)
    return Planned(session, f"{writer} {number} {padding}", f"key-{writer}-{number}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_until_killed(home: str, *firsts: str) -> None:
    memory = Memory(home)

    def write(writer: int, first: int) -> None:
        for number in itertools.count(first):
            turn = planned(writer, number)
            history = memory.flow(FLOW).session(turn.session).history
            recorded = history.append(role="user", content=turn.content, key=turn.key)
            os.write(1, f"{writer} {number} {recorded.seq} {recorded.id}\n".encode())

    threads = [Thread(target=write, args=item) for item in enumerate(map(int, firsts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
