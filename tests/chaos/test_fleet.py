"""Several processes on one store: workers behind one address, servers beside each other, and any of them killed."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from queue import Queue
from random import Random
from threading import Barrier, Event, Thread
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar, cast

import httpx
import pytest

from memwell import Event as Happened
from memwell import RateLimited, StorageError, StorageFull, Turn, Unavailable, config
from memwell.clock import DAY
from memwell.core.access import LARGEST_PORTION, Authenticator, create_key
from memwell.core.engine import Engine
from memwell.jobs import queue as jobs
from memwell.jobs import worker as lifecycle
from memwell.registry import open_engine
from memwell.storage.port import Control, Store
from memwell.surfaces.rest.serve import first_key

from .. import processes
from ..engines import Memory, listeners, located, query, remains
from ..postgres_server import _free_port
from ..processes import READY_S, planned
from ..waiting import wait_until
from .test_crash import WRITERS, Later, Ledger, append, look_into, read_back

P = ParamSpec("P")
T = TypeVar("T")

pytestmark = pytest.mark.long

MEMWELL = str(Path(sys.executable).with_name("memwell"))
SEED = 20261115
CHILDREN = 3
PATIENCE_S = 120.0
"""A time-out, not a promise."""
FLOW = "fleet"
KEY = re.compile(r"mw_[\w-]{43}")
NO_KEY = "none"


# -------------------------------------------------------------------------------------------------------------- servers


class Server(processes.Server):
    """A server beside others: its output and its options are its own, and it may have been told its key."""

    def __init__(self, home: Path, name: str, *options: str, key: str = "", **settings: str) -> None:
        super().__init__(home, **settings)
        self.port = _free_port()  # not one of those that clients are lent: they try while nobody listens there
        self.out, self.err = (home.with_name(f"{home.name}-{name}.{end}") for end in ("out", "err"))
        self.key = key
        self._options = options

    def serve(self, **environment: str) -> None:
        if self._options:  # its children are started from the command, and it is what a terminal would start
            self.run(MEMWELL, "serve", *self._options, **environment)
        else:
            super().serve(**environment)

    @property
    def code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    @property
    def children(self) -> list[int]:
        """The processes that answer, if it has any."""
        if not is_alive(self.pid):
            return []
        pids = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())
        return [pid for pid in pids if b"spawn_main" in _read(f"/proc/{pid}/cmdline")]

    def wait_for_children(self) -> list[int]:
        wait_until(lambda: len(self.children) == CHILDREN, "a child was not started")
        return self.children

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that nobody has buried yet does not."""
    return re.search(rb"\) [^ZX] ", _read(f"/proc/{pid}/stat")) is not None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def require_free(port: int) -> None:
    """Nobody answers there any more, and somebody else may."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=READY_S).close()
    socket.create_server(("127.0.0.1", port)).close()


@contextmanager
def three_servers(home: Path, **settings: str) -> Iterator[list[Server]]:
    with ExitStack() as running:
        first = running.enter_context(Server(home, "0", **settings).start())
        others = [running.enter_context(Server(home, name, key=first.key, **settings)) for name in ("1", "2")]
        with ThreadPoolExecutor(len(others)) as pool:
            yield [first, *pool.map(Server.start, others)]


@contextmanager
def engines(home: Path, count: int) -> Iterator[list[Engine]]:
    """What so many servers would open."""
    with ExitStack() as closing:
        opened = [open_engine(config.load(home=located(home))) for _ in range(count)]
        for engine in opened:
            closing.callback(engine.close)
        yield opened


# ---------------------------------------------------------------------------------------------------------- connections


class Wire(http.client.HTTPConnection):
    """A connection that is kept."""

    def __init__(self, server: Server) -> None:
        super().__init__("127.0.0.1", server.port, timeout=PATIENCE_S)
        self._headers = server.headers()

    def send_off(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        self.request(method, path, None if body is None else json.dumps(body), self._headers)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        response = self.getresponse()
        text = response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, json.loads(text)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, str], Any]:
        self.send_off(method, path, body)
        return self.answer()

    @property
    def own_port(self) -> int:
        """The port at this end."""
        return int(self.sock.getsockname()[1])


class Held(NamedTuple):
    """The server's end of a connection."""

    inode: str
    unread: int


def held(port: int) -> dict[int, Held]:
    """The established connections to a port of this machine, by the port at the other end."""
    found: dict[int, Held] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(fields[place].split(":")[1], 16) for place in (1, 2))
        if local == port and fields[3] == "01":
            found[remote] = Held(fields[9], int(fields[4].split(":")[1], 16))
    return found


def sockets(pid: int) -> set[str]:
    found: set[str] = set()
    with suppress(FileNotFoundError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").removesuffix("]"))
    return found


@contextmanager
def wires_to_all(server: Server, path: str = "/health") -> Iterator[dict[int, list[Wire]]]:
    """Connections that were answered on, by the child that holds them: at least one to each. It is chance who accepts."""
    children, wires = server.wait_for_children(), ExitStack()
    found: dict[int, list[Wire]] = {}
    with wires, ThreadPoolExecutor(16) as pool:

        def connect(_: int) -> Wire:
            wire = Wire(server)
            assert wire.ask("GET", path)[0] == 200
            return wire

        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(children):
            assert time.monotonic() < deadline, f"only {len(found)} of {len(children)} answer"
            for wire in pool.map(connect, range(16)):
                wires.callback(wire.close)
                end = held(server.port).get(wire.own_port)
                for pid in [child for child in children if end and end.inode in sockets(child)]:
                    found.setdefault(pid, []).insert(0, wire)  # the newest first: an idle one is closed some time
        yield found


# -------------------------------------------------------------------------------------------- workers behind one address


def test_several_processes_answer_at_one_address(tmp_path: Path) -> None:
    with Server(tmp_path / "home", "a", "--workers", str(CHILDREN)).start() as server, wires_to_all(server) as wires:
        assert set(wires) == set(server.children)
        path = f"/v1/flows/{FLOW}/sessions/s/turns"
        turns = [
            wire.ask("POST", path, {"role": "user", "content": str(pid)}) for pid, (wire, *_) in sorted(wires.items())
        ]
        assert [(status, turn["seq"]) for status, _, turn in turns] == [(201, 1), (201, 2), (201, 3)]
        for wire, *_ in wires.values():
            said = wire.ask("GET", path)[2]["turns"]
            assert [turn["content"] for turn in said] == [str(pid) for pid in sorted(wires)]
        server.stop()
        assert server.code == 0
        assert server.err.read_text() == ""


def test_sigterm_lets_every_child_finish_what_is_under_way(tmp_path: Path) -> None:
    """A request that waits, an open stream and writers, when the end is asked for."""
    ledger = Ledger()
    with Server(tmp_path / "home", "a", "--workers", str(CHILDREN)).start() as server, ExitStack() as opened:
        job = _a_job_that_waits(server)
        memory = opened.enter_context(server.memory())
        pool = opened.enter_context(ThreadPoolExecutor(WRITERS))
        stream = opened.enter_context(httpx.stream("GET", f"{server.url}/v1/events", headers=server.headers()))
        writing = [pool.submit(_write_until_refused, memory, ledger, writer) for writer in range(WRITERS)]
        wait_until(lambda: all(ledger.told), "a writer was not acknowledged")
        wires = opened.enter_context(wires_to_all(server))
        for wire, *_ in wires.values():
            wire.send_off("GET", f"/v1/jobs/{job}/wait?timeout_s=3")
        ports = {wire.own_port for wire, *_ in wires.values()}
        wait_until(lambda: not any(held(server.port)[port].unread for port in ports), "a request was not read")
        time.sleep(0.2)
        children = server.children
        server.stop()
        assert [wire.answer()[0] for wire, *_ in wires.values()] == [200] * CHILDREN
        list(stream.iter_raw())  # it has ended in good order
        for future in writing:
            future.result()
        assert server.code == 0
        assert not any(map(is_alive, children))
        require_free(server.port)
        assert "Traceback" not in server.err.read_text()
        assert "server.died" not in server.err.read_text()
    look_into(server.home, ledger, in_flight=True)


def _a_job_that_waits(server: Server) -> str:
    with server.memory() as memory:
        session = memory.flow(FLOW).session("ended")
        session.history.append(role="user", content="x")
        return session.end().job or ""


def _write_until_refused(memory: Memory, ledger: Ledger, writer: int) -> None:
    with suppress(Unavailable):
        while True:
            number = len(ledger.told[writer])
            turn = append(memory, planned(writer, number))
            ledger.note(writer, number, turn.seq, turn.id)


def test_a_killed_child_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path, rounds: int) -> None:
    random, ledger, enough = Random(SEED), Ledger(), Event()
    home = tmp_path / "home"
    with Server(home, "a", "--workers", str(CHILDREN)).start() as server, server.memory() as memory:

        def write(writer: int) -> None:
            while not enough.is_set():
                number = len(ledger.told[writer])
                turn = at_last(append, memory, planned(writer, number))
                ledger.note(writer, number, turn.seq, turn.id)

        with ThreadPoolExecutor(WRITERS) as pool:
            under_way = [pool.submit(write, writer) for writer in range(WRITERS)]
            try:
                for _ in range(max(rounds // 10, 1)):
                    _kill_a_child(server, random)
                    before = [len(told) for told in ledger.told]
                    wait_until(partial(_went_on, ledger, before), "a writer did not go on")
            finally:
                enough.set()
            for writing in under_way:
                writing.result()
        ledger.compare(read_back(memory), in_flight=False)
        assert len(KEY.findall(server.out.read_text())) == 1, "the first key is shown by nobody else"
        assert server.err.read_text().count("server.died") == max(rounds // 10, 1)
        server.stop()
        assert server.code == 0
    look_into(home, ledger, in_flight=False)


def _kill_a_child(server: Server, random: Random) -> None:
    children = server.wait_for_children()
    time.sleep(random.uniform(0.05, 0.5))
    killed = random.choice(children)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in server.children, "a killed child is still there")
    assert set(children) - {killed} < set(server.wait_for_children()), "the others go on"


def _went_on(ledger: Ledger, before: list[int]) -> bool:
    return all(len(told) > count for told, count in zip(ledger.told, before, strict=True))


def at_last(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What comes of a call, however often it must be repeated."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call(*arguments, **named)
        except Unavailable:
            assert time.monotonic() < deadline, "nobody answered any more"
            time.sleep(0.01)


def test_the_children_of_a_killed_parent_end(tmp_path: Path) -> None:
    with Server(tmp_path / "home", "a", "--workers", str(CHILDREN)).start() as server, wires_to_all(server) as wires:
        with httpx.stream("GET", f"{server.url}/v1/events", headers=server.headers()):
            server.kill()
            wait_until(lambda: not any(map(is_alive, wires)), "a child outlives its parent")
        require_free(server.port)
        assert "Traceback" not in server.err.read_text()
        server.start()
        assert len(KEY.findall(server.out.read_text())) == 1
        server.stop()
        assert server.code == 0


def test_an_interrupt_at_the_terminal_ends_parent_and_children_in_good_order(tmp_path: Path) -> None:
    """A terminal sends it to all of them at once."""
    with Server(tmp_path / "home", "a", "--workers", str(CHILDREN)).start() as server:
        with wires_to_all(server) as wires:
            for pid in (server.pid, *wires):
                os.kill(pid, signal.SIGINT)
            wait_until(lambda: not server.alive, "the parent did not end")
        assert server.code == 0
        assert not any(map(is_alive, wires))
        assert server.err.read_text() == ""
        require_free(server.port)


def test_servers_that_start_at_once_make_one_first_key_between_them(tmp_path: Path) -> None:
    together = Barrier(4)

    def start(engine: Engine) -> str | None:
        together.wait(PATIENCE_S)
        return first_key(engine, config.load())

    for attempt in range(3):
        with engines(tmp_path / str(attempt), 4) as opened, ThreadPoolExecutor(4) as pool:
            keys = [key for key in pool.map(start, opened) if key]
            assert len(keys) == 1
            assert opened[0].store.control.rows("count_keys")[0][0] == 1


def test_without_keys_every_child_answers_this_machine_only(tmp_path: Path) -> None:
    options = ("--workers", str(CHILDREN), "--no-auth")
    with Server(tmp_path / "home", "a", *options, key=NO_KEY).start() as server, wires_to_all(server) as wires:
        assert KEY.search(server.out.read_text()) is None
        for wire, *_ in wires.values():
            for name, value, status in (
                ("origin", "http://localhost:3000", 200),
                ("origin", "https://evil.example", 403),
                ("host", "evil.example", 403),
            ):
                wire.request("GET", "/v1/flows", headers={name: value})
                assert wire.answer()[0] == status


def test_without_keys_no_other_address_is_bound(tmp_path: Path) -> None:
    home = tmp_path / "home"
    server = Server(home, "a", "--workers", str(CHILDREN), "--no-auth", "--host", "0.0.0.0", key=NO_KEY)  # noqa: S104
    with server, pytest.raises(AssertionError, match="the server ended"):
        server.start()
    assert server.code == 2
    assert "--no-auth needs a loopback address" in server.err.read_text()
    assert "Traceback" not in server.err.read_text()
    assert not home.exists(), "nothing was made"
    require_free(server.port)


# ---------------------------------------------------------------------------------------------------------------- rates

RATE = 20
HAMMER_S = 3.0


class Sent(NamedTuple):
    """A request: when it was sent and answered, and whether it was refused."""

    sent_at: float
    answered_at: float
    refused: bool

    @property
    def seconds(self) -> range:
        """The calendar seconds in one of which it was counted."""
        return range(int(self.sent_at), int(self.answered_at) + 1)


def fits(admitted: list[Sent], rate: int) -> bool:
    """Whether each request can be counted in one of its seconds, so that none has more than its rate."""
    waiting = sorted(admitted, key=lambda sent: sent.sent_at)
    if not waiting:
        return True
    for second in range(waiting[0].seconds[0], max(sent.seconds[-1] for sent in waiting) + 1):
        ready = sorted((sent for sent in waiting if second in sent.seconds), key=lambda sent: sent.seconds[-1])
        for sent in ready[:rate]:
            waiting.remove(sent)
        if any(sent.seconds[-1] == second for sent in waiting):
            return False
    return not waiting


@pytest.mark.parametrize(("spans", "rate", "fit"), [([(1.1, 1.2)] * 3, 2, False), ([(1.1, 2.2)] * 3, 2, True)])
def test_requests_fit_into_their_seconds(spans: list[tuple[float, float]], rate: int, fit: bool) -> None:
    assert fits([Sent(*span, refused=False) for span in spans], rate) is fit


def require_used_up(log: list[Sent], rate: int) -> int:
    """A second in which one was refused has answered as many as it may. Returns how many such seconds there were.

    Each server may hold on to what it has not used of its last portion, if nobody asks it any more.
    """
    unused = CHILDREN * (max(int(rate * LARGEST_PORTION), 1) - 1)
    full = {sent.seconds[0] for sent in log if sent.refused and len(sent.seconds) == 1}
    for second in full:
        answered = sum(second in sent.seconds for sent in log if not sent.refused)
        assert answered >= rate - unused, f"{answered} of {rate} were answered, and others refused"
    return len(full)


@pytest.mark.parametrize("shape", ["servers", "workers"])
def test_a_rate_limit_holds_across_processes_and_is_used_up(tmp_path: Path, shape: str) -> None:
    with ExitStack() as opened:
        if shape == "servers":
            started = opened.enter_context(three_servers(tmp_path / "home"))
            with started[0].memory() as memory:
                secret = memory.keys.create("slow", "reader", rate_limit=RATE).secret or ""
            for server in started:
                server.key = secret
            wires = [Wire(server) for server in started for _ in range(2)]
        else:
            server = Server(tmp_path / "home", "a", "--workers", str(CHILDREN)).start()
            opened.enter_context(server)
            with server.memory() as memory:
                server.key = memory.keys.create("slow", "reader", rate_limit=RATE).secret or ""
            by_child = opened.enter_context(wires_to_all(server))
            wires = [wire for found in by_child.values() for wire in found[:2]]
        with ThreadPoolExecutor(len(wires)) as pool:
            log = [sent for sents in pool.map(_hammer, wires) for sent in sents]
        for wire in wires:
            wire.close()
    admitted = [sent for sent in log if not sent.refused]
    assert fits(admitted, RATE), "more were answered within a second than may be"
    assert require_used_up(log, RATE), "the limit was never reached"


def _hammer(wire: Wire) -> list[Sent]:
    log: list[Sent] = []
    until = time.monotonic() + HAMMER_S
    while time.monotonic() < until:
        sent_at = time.time()
        status, headers, body = wire.ask("GET", "/v1/flows")
        log.append(Sent(sent_at, time.time(), status == 429))
        assert status in (200, 429), body
        if status == 429:
            assert body["error"]["code"] == RateLimited.code
            assert headers["retry-after"] == "1"
            assert 0 <= body["error"]["details"]["retry_after_s"] <= 1
    return log


@contextmanager
def doormen(home: Path, count: int, rate: int) -> Iterator[tuple[list[Authenticator], str]]:
    """As many servers as there are doormen, and a key."""
    with engines(home, count) as opened:
        opened[0].ensure_tenant("default")
        _, secret = create_key(opened[0].store.control, "default", "k", "reader", None, rate, opened[0].clock.now())
        yield [Authenticator(engine.store.control, engine.clock) for engine in opened], secret


def test_a_server_that_is_asked_once_leaves_the_rest_to_the_others(tmp_path: Path) -> None:
    """However many servers there are: nobody is refused who has not used up what is allowed."""
    with doormen(tmp_path, 30, rate=40) as (all_of_them, secret):
        for doorman in all_of_them:
            doorman.admit(secret)
    with doormen(tmp_path / "other", 4, rate=400) as ((first, *others), secret):
        for doorman in others:
            doorman.admit(secret)
        for _ in range(390):
            first.admit(secret)


def test_where_nothing_can_be_written_each_server_counts_for_itself(tmp_path: Path) -> None:
    """A full disk can be read, with a limit or without."""
    with engines(tmp_path, 1) as (engine,):
        engine.ensure_tenant("default")
        _, secret = create_key(engine.store.control, "default", "k", "reader", None, 5, engine.clock.now())
        full = Authenticator(cast(Control, _Full(engine.store.control)), engine.clock)
        admitted = [_admitted(full, secret) for _ in range(50)]
        assert admitted[:5] == [True] * 5
        assert False in admitted


def _admitted(doorman: Authenticator, secret: str) -> bool:
    try:
        return doorman.admit(secret) is not None
    except RateLimited:
        return False


class _Full:
    """What stands above the tenants, on a full disk."""

    def __init__(self, control: Control) -> None:
        self.rows, self.secret = control.rows, control.secret

    def hint(self, query: str, /, **parameters: Any) -> int:
        raise StorageFull


@pytest.mark.parametrize("rate", [7, 200])
def test_threads_of_several_servers_lose_nothing_of_a_rate(tmp_path: Path, rate: int) -> None:
    """What one thread was given is not taken away by another."""
    with doormen(tmp_path, CHILDREN, rate) as (all_of_them, secret), ThreadPoolExecutor(12) as pool:
        until = time.monotonic() + 2.5

        def knock(doorman: Authenticator) -> list[Sent]:
            log: list[Sent] = []
            while time.monotonic() < until:
                sent_at = time.time()
                try:
                    doorman.admit_cached(secret) or doorman.admit(secret)
                    log.append(Sent(sent_at, time.time(), refused=False))
                except RateLimited:
                    log.append(Sent(sent_at, time.time(), refused=True))
                    time.sleep(0.001)
            return log

        log = [sent for sents in pool.map(knock, all_of_them * 4) for sent in sents]
    assert fits([sent for sent in log if not sent.refused], rate)
    require_used_up(log, rate)


def test_a_stream_of_events_is_one_request(tmp_path: Path) -> None:
    """Whoever watches a busy memory can still ask it something."""
    home = tmp_path / "home"
    with Server(home, "a").start() as server, server.memory() as memory:
        server.key = memory.keys.create("slow", "reader", rate_limit=3).secret or ""
        with server.memory() as watcher, ThreadPoolExecutor(1) as pool:
            (queue,) = watched(home, watcher)
            time.sleep(1.0)  # the stream itself is a request
            enough = Event()
            writing = pool.submit(_write_until, memory, enough)
            wire = Wire(server)
            try:
                for _ in range(4):
                    time.sleep(0.5)
                    assert wire.ask("GET", "/v1/flows")[0] == 200
            finally:
                enough.set()
                wire.close()
            assert writing.result() > 10
            assert queue.qsize() > 10


def _write_until(memory: Memory, enough: Event) -> int:
    count = 0
    while not enough.is_set():
        memory.flow(FLOW).session("busy").history.append(role="user", content="x")
        count += 1
    return count


# --------------------------------------------------------------------------------------------- events, sessions, retries


def watched(home: Path, *memories: Memory) -> list[Queue[Happened]]:
    """Events as they come to each, from when this returns: everybody who does something sees by then that they listen."""
    queues: list[Queue[Happened]] = [Queue() for _ in memories]

    def pump(memory: Memory, queue: Queue[Happened]) -> None:
        with suppress(httpx.TransportError, StorageError):
            for event in memory.watch():
                queue.put(event)

    for pair in zip(memories, queues, strict=True):
        Thread(target=pump, args=pair, daemon=True).start()
    (home / "live").mkdir(parents=True, exist_ok=True)  # where a directory's listeners are
    wait_until(lambda: listeners(home) == len(memories), "somebody does not listen")
    time.sleep(1.0)  # a process looks once a second for listeners
    return queues


def test_a_watcher_sees_what_is_done_through_any_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with three_servers(home) as started, ExitStack() as opened:
        first, second, third = (opened.enter_context(server.memory()) for server in started)
        embedded = opened.enter_context(Memory(home, worker=False))
        first.flow(FLOW).write("something")
        queues = watched(home, first, embedded)
        for number, memory in enumerate((second, third, embedded, second)):
            session = memory.flow(FLOW).session(f"s{number}")
            session.history.append(role="user", content="a secret word")
            session.history.last(5)
        expected = {(effect, f"s{number}") for number in range(4) for effect in ("read", "write")}
        for queue in queues:
            events = [queue.get(timeout=PATIENCE_S) for _ in range(8)]
            assert {(event.effect, event.session) for event in events} == expected
            numbers = [event.seq for event in events if event.seq is not None]
            assert numbers == list(range(numbers[0], numbers[0] + 4)), "writes come in order and each once"
            assert queue.empty()


def test_a_session_goes_on_at_any_server(tmp_path: Path) -> None:
    """No session sticks to a server: numbers have no gaps, and what one has acknowledged the others show at once."""
    with three_servers(tmp_path / "home") as started, ExitStack() as opened:
        memories = [opened.enter_context(server.memory()) for server in started]
        for number in range(1, 31):
            writes, reads = memories[number % 3], memories[(number + 1) % 3]
            said = writes.flow(FLOW).session("one").history.append(role="user", content=str(number))
            assert said.seq == number
            assert reads.flow(FLOW).session("one").history.last(1) == [said]

        def talk(memory: Memory) -> list[Turn]:
            history = memory.flow(FLOW).session("all").history
            return [history.append(role="user", content="x") for _ in range(40)]

        with ThreadPoolExecutor(6) as pool:
            told = [turn for turns in pool.map(talk, memories * 2) for turn in turns]
        assert sorted(turn.seq for turn in told) == list(range(1, 241))
        for memory in memories:
            assert list(memory.flow(FLOW).session("all").history.all()) == sorted(told, key=lambda turn: turn.seq)


def test_a_key_that_is_sent_to_several_servers_at_once_has_one_effect(tmp_path: Path) -> None:
    with three_servers(tmp_path / "home") as started, ExitStack() as opened:
        memories = [opened.enter_context(server.memory()) for server in started]
        together = Barrier(len(memories))

        def send(memory: Memory, number: int) -> Turn:
            together.wait(PATIENCE_S)
            history = memory.flow(FLOW).session("once").history
            return history.append(role="user", content=f"turn {number}", key=f"key-{number}")

        with ThreadPoolExecutor(len(memories)) as pool:
            for number in range(1, 41):
                sent: list[Future[Turn]] = [pool.submit(send, memory, number) for memory in memories]
                first, *others = [future.result() for future in sent]
                assert others == [first, first]
                assert (first.seq, first.content) == (number, f"turn {number}")
        assert len(list(memories[0].flow(FLOW).session("once").history.all())) == 40


# ----------------------------------------------------------------------------------------------------------------- jobs


class _Meanwhile:
    """What stands above the tenants, as a worker uses it while something else happens just before it settles a hint."""

    def __init__(self, control: Control, meanwhile: Callable[[], object]) -> None:
        self._control = control
        self._meanwhile: Callable[[], object] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    def hint(self, query: str, /, **parameters: Any) -> int:
        if query in ("set_hint", "delete_hint") and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return self._control.hint(query, **parameters)


@pytest.mark.parametrize("later", [False, True], ids=["nothing else is due", "something else is due later"])
def test_a_job_that_comes_while_a_worker_has_just_looked_is_found_at_once(tmp_path: Path, later: bool) -> None:
    """Its server says that there is work when the worker has seen that there is none, and has not said so yet."""
    with engines(tmp_path, 1) as (engine,):
        engine.store.create("default")
        now = engine.clock.now()

        def enqueue(run_at: int) -> str:
            return engine.store.write("default", lambda tx: jobs.enqueue(tx, "test", {}, now, run_at=run_at))

        if later:
            enqueue(now + DAY)
        enqueue(now)
        meanwhile = _Meanwhile(engine.store.control, lambda: enqueue(engine.clock.now()))
        worker = lifecycle.Worker(_With(engine.store, meanwhile), engine.clock, {"test": lambda run: {}})
        assert worker.run_hinted() == 1
        assert worker.run_hinted() == 1
        assert worker.run_hinted() == 0


class _With:
    """A store with another control."""

    def __init__(self, store: Store, control: Any) -> None:
        self._store = store
        self.control = control

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


TURNS = 8_000


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_a_server_that_is_asked_to_end_finishes_its_job(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Nobody has to wait for the end of its lease."""
    home = tmp_path / "home"
    with Server(home, "a", *options) as server:
        for attempt in range(5):  # it may be too quick for us a few times
            with Memory(home, worker=False) as memory:
                history = memory.flow(FLOW).session(str(attempt)).history
                for first in range(0, TURNS, 1000):
                    history.extend([{"role": "user", "content": f"{first} {n}"} for n in range(1000)])
            server.start()
            with server.memory() as memory:
                memory.call("flows.delete_session", {"flow": FLOW, "session": str(attempt)})
            wait_until(lambda: bool(_erasing(home)) or not _unfinished(home), "the erasure did not begin")
            found = _erasing(home)
            server.stop()
            assert server.code == 0
            assert not _erasing(home), "a job was cut off"
            assert not _unfinished(home)
            if found:
                return
    raise AssertionError("every erasure was finished before its server was asked to end")


# ------------------------------------------------------------------------------------------------------- kills under load

CLIENTS = 6
SHORT_S, SHORT_EVERY_S = 12.0, 2.0
LONG_S, LONG_EVERY_S = 120.0, 5.0
MANY_ROUNDS = 200
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")
WORD = re.compile(rb"z[b-t]{12}x")


class Worker(processes.Process):
    """`memwell worker`."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__(home)
        self.out, self.err = (home.with_name(f"{home.name}-{name}.{end}") for end in ("out", "err"))

    def start(self) -> Self:
        self.fork(processes.memwell, "worker", MEMWELL_HOME=located(self.home))
        return self


class Talk:
    """A session as its one client knows it: what was acknowledged is there, in this order, and nothing else is."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.turns: list[Turn] = []

    def plan(self, count: int) -> list[dict[str, str]]:
        """The next turns: each begins with a word that occurs nowhere else."""
        first = len(self.turns) + 1
        return [{"role": "user", "content": f"{self._word(first + n)} {'.' * (n * 37 % 200)}"} for n in range(count)]

    def note(self, plan: list[dict[str, str]], told: list[Turn]) -> None:
        first = len(self.turns) + 1
        assert [turn.seq for turn in told] == list(range(first, first + len(plan))), "lost or doubled"
        assert [turn.content for turn in told] == [turn["content"] for turn in plan]
        self.turns += told

    def _word(self, number: int) -> str:
        digest = blake2b(f"{self.session} {number}".encode(), digest_size=6).hexdigest()
        return f"z{digest.translate(LETTERS)}x"


class Erasing(NamedTuple):
    """A session that was acknowledged to be gone, and when."""

    talk: Talk
    job: str
    at: float


class Client:
    """Talks to whichever server answers, repeats what may be lost, and knows what every answer must be."""

    def __init__(self, number: int, memories: list[Memory], gone: dict[str, float]) -> None:
        self._number = number
        self._memories = memories
        self._random = Random(SEED + number)
        self._begun = 0
        self._gone = gone
        self.talk = self._next_talk()
        self.kept: list[Talk] = []
        self.erased: list[Erasing] = []
        self.done: Counter[str] = Counter()
        self.receipts: dict[str, dict[str, Any]] = {}

    def run(self, enough: Event) -> None:
        steps = [self.say] * 8 + [self.say_much, self.read, self.read, self.read_other, self.search, self.look_at_job]
        while not enough.is_set():
            step = self._random.choice(steps)
            step()
            self.done[step.__name__] += 1
            if len(self.talk.turns) > self._random.randrange(5, 100):
                self.leave()

    def say(self) -> None:
        plan = self.talk.plan(1)
        history = {"flow": FLOW, "session": self.talk.session}
        turn: Turn = self._call("flows.append", {**history, **plan[0]}, self._key())
        self.talk.note(plan, [turn])

    def say_much(self) -> None:
        plan = self.talk.plan(self._random.randrange(2, 40))
        turns = {"flow": FLOW, "session": self.talk.session, "turns": plan}
        self.talk.note(plan, self._call("flows.extend", turns, self._key()).turns)

    def read(self) -> None:
        self._read(self.talk, 7)

    def read_other(self) -> None:
        if self.kept:
            self._read(self._random.choice(self.kept), 500)

    def search(self) -> None:
        """What was acknowledged is found, whoever is asked; what is gone is not."""
        talk = self._random.choice([self.talk, *self.kept])
        if not talk.turns:
            return
        turn = self._random.choice(talk.turns)
        self._search(turn.content, found=True)

    def leave(self) -> None:
        """End with a session: every other one is erased."""
        talk, self.talk = self.talk, self._next_talk()
        if self._begun % 2:
            self.kept.append(talk)
            return
        session = {"flow": FLOW, "session": talk.session}
        erasure = self._call("flows.delete_session", session, f"{talk.session}-erased")
        assert erasure.sessions == 1
        self._gone.update((turn.content, time.monotonic()) for turn in talk.turns)
        self.erased.append(Erasing(talk, erasure.job, time.monotonic()))
        self.done["erase"] += 1
        assert self._call("flows.last", session).turns == []
        self._search(talk.turns[-1].content, found=False)

    def look_at_job(self) -> None:
        if not self.erased:
            return
        erasing = self._random.choice(self.erased)
        job = self._call("jobs.show", {"id": erasing.job})
        assert job.state in ("ready", "running", "done"), f"{job.state}: {job.error}"
        if job.state == "done":
            assert self.receipts.setdefault(job.id, job.result) == job.result, "a receipt has changed"

    def require(self, memory: Memory) -> None:
        """What is kept is all there, and what was erased is not."""
        for talk in (self.talk, *self.kept):
            assert list(memory.flow(FLOW).session(talk.session).history.all()) == talk.turns
        for erasing in self.erased:
            assert memory.flow(FLOW).session(erasing.talk.session).history.last(1) == []

    def _read(self, talk: Talk, limit: int) -> None:
        turns = self._call("flows.last", {"flow": FLOW, "session": talk.session, "limit": limit}).turns
        assert turns == talk.turns[-limit:]

    def _search(self, content: str, *, found: bool) -> None:
        started = time.monotonic()
        word = content.split()[0]
        hits = self._call("flows.search", {"flow": FLOW, "query": word, "include": ["turns"]})
        assert (content in [hit.content for hit in hits]) is found
        stale = [hit.content for hit in hits if self._gone.get(hit.content, started) < started]
        assert stale == [], "what was erased is found"

    def _call(self, operation: str, data: dict[str, Any], key: str | None = None) -> Any:
        return at_last(lambda: self._random.choice(self._memories).call(operation, data, key=key))

    def _key(self) -> str:
        return f"{self.talk.session}-{len(self.talk.turns)}"

    def _next_talk(self) -> Talk:
        self._begun += 1
        return Talk(f"client-{self._number}-{self._begun}")


def test_processes_that_are_killed_under_load_do_every_job_once_and_lose_nothing(tmp_path: Path, rounds: int) -> None:
    """Three servers and three workers, one of which is killed every few seconds and started again."""
    home, long = tmp_path / "home", rounds >= MANY_ROUNDS
    figures: Counter[str] = Counter()
    with three_servers(home, worker="off") as started, ExitStack() as running:
        workers = [running.enter_context(Worker(home, f"worker-{number}").start()) for number in range(3)]
        memories = [running.enter_context(server.memory()) for server in started]
        gone: dict[str, float] = {}
        clients = [Client(number, memories, gone) for number in range(CLIENTS)]
        _under_kills(clients, started, workers, figures, long=long)
        for memory in memories:
            for client in clients:
                client.require(memory)
        if long:
            wait_until(lambda: not _unfinished(home), "a job was not finished")
        for process in (*started, *workers):
            process.stop()
        assert _erasing(home).isdisjoint(worker.pid for worker in workers), "a worker that could finish its job did not"
        logs = "".join(process.err.read_text() for process in (*started, *workers))
    assert "Traceback" not in logs, logs[:3000]
    figures.update(re.findall(r'"event": "([\w.]+)"', logs))
    _require_done(home, clients, figures)
    print(dict(figures))


def _under_kills(
    clients: list[Client], started: list[Server], workers: list[Worker], figures: Counter[str], *, long: bool
) -> None:
    """Let the clients talk for some time while processes are killed and started again: now a server, now a worker."""
    random, enough = Random(SEED), Event()
    length_s, every_s = (LONG_S, LONG_EVERY_S) if long else (SHORT_S, SHORT_EVERY_S)
    until = time.monotonic() + length_s
    with ThreadPoolExecutor(len(clients)) as pool:
        talking = [pool.submit(client.run, enough) for client in clients]
        try:
            for turn in itertools.count():
                time.sleep(every_s)
                if time.monotonic() > until or any(future.done() for future in talking):
                    break  # after the last kill, they are left alone for some time
                victim = _at_work(workers, random) if turn % 2 else random.choice(started)
                victim.kill()
                victim.start()
                figures[f"killed {type(victim).__name__}s"] += 1
        finally:
            enough.set()
        for future in talking:
            future.result()


def _at_work(workers: list[Worker], random: Random) -> Worker:
    """A worker that has an erasure at hand, if one is met within a second."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pids = _erasing(workers[0].home)
        if found := [worker for worker in workers if worker.pid in pids]:
            return random.choice(found)
    return random.choice(workers)


def _erasing(home: Path) -> set[int]:
    """The processes that have an erasure at hand."""
    rows = query(home, "SELECT worker FROM job WHERE kind = 'erase' AND state = 'running'")
    return {int(name.split("-")[0]) for (name,) in rows}


def _unfinished(home: Path) -> bool:
    return query(home, "SELECT id FROM job WHERE kind = 'erase' AND state <> 'done'") != []


def _require_done(home: Path, clients: list[Client], figures: Counter[str]) -> None:
    """Every erasure was done once, completely, and nothing else is gone or doubled. A killed worker's lease is over."""
    erased = [erasing for client in clients for erasing in client.erased]
    kept = [talk for client in clients for talk in (client.talk, *client.kept)]
    with Memory(home, clock=Later()) as memory:
        for erasing in erased:
            job = memory.jobs.wait(erasing.job)
            assert job.state == "done", f"{job.state}: {job.error}"
            receipt = job.result or {}
            assert (receipt["residual"], receipt["layers"]["entries"]) == (0, len(erasing.talk.turns))
            figures[f"jobs done at attempt {job.attempts}"] += 1
        results = {job.id: job.result for job in memory.jobs.list(kind="erase")}
        for client in clients:
            client.require(memory)
            assert client.receipts.items() <= results.items()
            figures.update(client.done)
        assert [line for line in memory.status().backlog if line.state == "dead"] == []
        counts = Counter(event.operation for event in _events(memory))
        assert counts["flows.append"] == figures["say"]
        assert counts["flows.extend"] == figures["say_much"]
        assert counts["flows.delete_session"] == len(erased) == figures["erase"]
    assert query(home, "SELECT COUNT(*) FROM entry") == [(sum(len(talk.turns) for talk in kept),)]
    words = {turn.content.split()[0].encode() for erasing in erased for turn in erasing.talk.turns}
    assert words.isdisjoint(word for data in remains(home.parent).values() for word in WORD.findall(data))


def _events(memory: Memory) -> Iterator[Happened]:
    """Everything that was written. Numbers have no gaps."""
    seen = 0
    while page := memory.call("events.list", {"after": seen, "limit": 1000}).events:
        assert [event.seq for event in page] == list(range(seen + 1, seen + 1 + len(page)))
        seen += len(page)
        yield from page
