"""Requests sent again and again over connections that are cut: one effect each, and one answer (G4, T4, T20)."""

from __future__ import annotations

import itertools
import json
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from memwell import NotFound
from memwell.sdk.values import Receipt

from ..conftest import CHAOS
from ..engines import Memory
from ..processes import Server

pytestmark = pytest.mark.long

SEED = 20261115
REQUESTS, FEWER = 10_000, 4_000
SENT_AT_MOST = 5
CUT = 0.3
THREADS = 12
SESSIONS = 24
FLOW = "once"
PATIENCE_S = 30.0
MIB = 1 << 20
TENANTS = itertools.count(1)


class Answer(NamedTuple):
    """What came back, without the headers that may differ: the date."""

    status: int
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        return self.value.get("error", {}).get("code")


class Ask(NamedTuple):
    """A request that is to have one effect."""

    session: str
    nonce: str
    raw: bytes


class Send(NamedTuple):
    """One sending of it: how many bytes go out before the connection is cut, or None if the answer is read."""

    number: int
    cut_at: int | None


class Wire:
    """One kept-alive connection, opened when it is needed. Nothing between the test and the bytes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self, raw: bytes) -> Answer:
        """Send a request and read its answer. A server may close a connection that is idle: then once more."""
        try:
            return self._ask(raw)
        except (ConnectionError, EOFError):
            self.close()
            return self._ask(raw)

    def cut(self, raw: bytes, *, abruptly: bool) -> None:
        """Send a request, or a part of it, and go away before the answer comes."""
        try:
            connection = self._connected()
            connection.sendall(raw)
            if abruptly:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except ConnectionError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = connect(self._port)
        return self._socket

    def _ask(self, raw: bytes) -> Answer:
        connection = self._connected()
        connection.sendall(raw)
        return read_answer(connection)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_answer(connection: socket.socket) -> Answer:
    """One answer and not a byte more: what is left over would belong to somebody else's request."""
    data = _more(connection)
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
    length = int(fields[b"content-length"])
    while len(body) < length:
        body += _more(connection)
    assert len(body) == length, "an answer that nobody asked for"
    return Answer(int(lines[0].split()[1]), body)


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise EOFError
    return data


def to_raw(server: Server, method: str, path: str, key: str | None, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {server.key}"]
    lines += [f"content-length: {len(body)}"]
    lines += [] if key is None else [f"idempotency-key: {key}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def append_to(server: Server, session: str, key: str | None, **fields: Any) -> bytes:
    body = json.dumps({"role": "user", **fields}).encode()
    return to_raw(server, "POST", f"/v1/flows/{FLOW}/sessions/{session}/turns", key, body)


@contextmanager
def running(home: Path) -> Iterator[Server]:
    with Server(home).start() as server:
        yield server
        assert server.alive
        assert "crashed" not in server.err.read_text()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that nobody else asks anything, and that may be killed."""
    with running(tmp_path / "home") as server:
        yield server


@pytest.fixture(scope="module")
def shared_server(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("shared") / "home") as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The shared server as a tenant sees it that has only just been made."""
    tenant, server = f"t{next(TENANTS)}", copy(shared_server)
    with shared_server.memory() as operator:
        operator.tenants.create(tenant)
        server.key = operator.keys.create("first key", "admin", tenant=tenant).secret
    return server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    wire = Wire(server.port)
    yield wire
    wire.close()


@pytest.fixture
def memory(server: Server) -> Iterator[Memory]:
    with server.memory() as memory:
        yield memory


@pytest.fixture
def requests(rounds: int) -> int:
    """All of them are for chaos."""
    return REQUESTS if rounds >= CHAOS else FEWER


def plan(server: Server, requests: int, random: Random) -> tuple[list[Ask], list[Send]]:
    """Every request with a nonce of its own, each to be sent one to five times, all mixed; some cut off anywhere."""
    asks = []
    for number in range(requests):
        session, nonce = f"s{number % SESSIONS}", f"{number}-{random.getrandbits(64):016x}"
        asks.append(Ask(session, nonce, append_to(server, session, f"key-{nonce}", content=nonce)))
    sends = [Send(n, None) for n in range(requests) for _ in range(random.randint(1, SENT_AT_MOST))]
    random.shuffle(sends)
    cut = [send._replace(cut_at=_cut_at(asks[send.number].raw, random)) for send in sends]
    return asks, [after if random.random() < CUT else before for before, after in zip(sends, cut, strict=True)]


def _cut_at(raw: bytes, random: Random) -> int:
    """Mostly after the last byte, when the server may be at any point; sometimes in the middle of the body."""
    return len(raw) if random.random() < 0.7 else random.randrange(raw.index(b"\r\n\r\n") + 4, len(raw))


def carry_out(server: Server, asks: list[Ask], sends: list[Send]) -> list[list[Answer]]:
    """Send everything from many threads; the answers by request."""
    answers: list[list[Answer]] = [[] for _ in asks]

    def work(share: list[Send]) -> None:
        wire = Wire(server.port)
        try:
            for place, (number, cut_at) in enumerate(share):
                if cut_at is None:
                    answers[number].append(wire.ask(asks[number].raw))
                else:
                    wire.cut(asks[number].raw[:cut_at], abruptly=place % 2 == 0)
        finally:
            wire.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for working in [pool.submit(work, sends[first::THREADS]) for first in range(THREADS)]:
            working.result()
    return answers


def test_every_request_has_one_effect_and_one_answer(own_server: Server, requests: int) -> None:
    """G4: 10,000 requests sent 1 to 5 times, 30 % of the connections cut. T4: each answer belongs to its request."""
    server = own_server
    asks, sends = plan(server, requests, Random(SEED))
    cut = sum(send.cut_at is not None for send in sends)
    assert 0.28 < cut / len(sends) < 0.32
    answers = carry_out(server, asks, sends)
    unanswered = [Send(number, None) for number, found in enumerate(answers) if not found]
    assert unanswered, "no client lost all its connections"
    for known, late in zip(answers, carry_out(server, asks, unanswered), strict=True):
        known += late
    assert sum(len(found) > 1 for found in answers) > requests // 3, "hardly anything was answered twice"
    for ask, found in zip(asks, answers, strict=True):
        assert len(set(found)) == 1, f"the answers to {ask.nonce} differ"
        assert found[0].status == 201
        assert (found[0].value["content"], found[0].value["session"]) == (ask.nonce, ask.session)
    with server.memory() as memory:
        require_effects(memory, {ask.nonce: found[0].value for ask, found in zip(asks, answers, strict=True)})


def require_effects(memory: Memory, told: dict[str, dict[str, Any]]) -> None:
    """What is stored is what was told, each once and without gaps; and there are no events but theirs."""
    flow = memory.flow(FLOW)
    found: Counter[str] = Counter()
    for session in (f"s{number}" for number in range(SESSIONS)):
        turns = list(flow.session(session).history.all())
        assert [turn.seq for turn in turns] == list(range(1, len(turns) + 1))
        for turn in turns:
            found[turn.content] += 1
            answer = told[turn.content]
            assert (answer["id"], answer["seq"], answer["session"]) == (turn.id, turn.seq, session)
    assert found == Counter(told.keys())
    assert len(flow.sessions()) == SESSIONS
    assert count_events(memory, "flows.append") == len(told)


def count_events(memory: Memory, operation: str) -> int:
    after = count = 0
    while events := memory.call("events.list", {"after": after, "limit": 1000}).events:
        after = events[-1].seq
        count += sum(event.operation == operation for event in events)
    return count


SAID: dict[str, dict[str, Any]] = {
    "plain": {"content": "plain"},
    "unicode": {"content": "Grüße, 你好 \u2028 \U0001f9e0", "name": "Zoë"},
    "zone": {"content": "when", "occurred_at": "2026-04-19T12:00:00.5+02:00"},
    "metadata": {"content": "odd", "metadata": {"z": 1e22, "a": 0.1, "n": None, "deep": [{"b": 2**53 + 1, "a": -0.0}]}},
    "tools": {"role": "assistant", "tool_calls": [{"id": "1", "arguments": '{"city": "Porto"}', "n": 1.0}]},
}


def test_a_replay_is_byte_equal_also_after_a_crash(own_server: Server) -> None:
    """G4: whatever was said, the answer that was stored is the answer that was given."""
    server, wire = own_server, Wire(own_server.port)
    raws = {name: append_to(server, f"again-{name}", f"again-{name}", **fields) for name, fields in SAID.items()}
    firsts = {name: wire.ask(raw) for name, raw in raws.items()}
    assert {name: first.status for name, first in firsts.items()} == dict.fromkeys(SAID, 201)
    assert {name: wire.ask(raw) for name, raw in raws.items()} == firsts
    server.kill()
    server.start()
    assert {name: wire.ask(raw) for name, raw in raws.items()} == firsts
    wire.close()


def test_a_key_that_is_used_for_another_request_is_refused(server: Server, wire: Wire, memory: Memory) -> None:
    """G4: 422, and nothing is written; the first request can still be repeated."""
    raw = append_to(server, "mine", "a-key", content="first")
    first = wire.ask(raw)
    others = [
        append_to(server, "mine", "a-key", content="second"),
        append_to(server, "mine", "a-key", content="first", metadata={}),
        append_to(server, "other", "a-key", content="first"),
    ]
    for other in others:
        answer = wire.ask(other)
        assert (answer.status, answer.code) == (422, "idempotency_key_reused")
    assert wire.ask(raw) == first
    assert [turn.content for turn in memory.flow(FLOW).session("mine").history.all()] == ["first"]
    assert [info.session for info in memory.flow(FLOW).sessions()] == ["mine"]


def test_a_key_belongs_to_one_operation(server: Server, wire: Wire, memory: Memory) -> None:
    """The same key elsewhere is another key."""
    assert wire.ask(append_to(server, "mine", "a-key", content="said")).status == 201
    body = json.dumps({"content": "known"}).encode()
    assert wire.ask(to_raw(server, "POST", f"/v1/flows/{FLOW}/memories", "a-key", body)).status < 300
    assert [known.content for known in memory.flow(FLOW).memories()] == ["known"]


def test_a_refused_request_leaves_its_key_free(server: Server, wire: Wire) -> None:
    """What had no effect is not remembered: the corrected request may carry the same key."""
    assert wire.ask(append_to(server, "mine", "a-key", content="")).status == 400
    assert wire.ask(append_to(server, "mine", "a-key", content="better")).status == 201


def test_what_was_erased_is_not_written_again_by_a_late_repetition(server: Server, wire: Wire, memory: Memory) -> None:
    """G4: 410 from the moment of the deletion on, also for another body; and the session does not come back."""
    raw = append_to(server, "gone", "a-key", content="a secret of twenty-four letters")
    assert wire.ask(raw).status == 201
    erasure = wire.ask(to_raw(server, "DELETE", f"/v1/flows/{FLOW}/sessions/gone", "erasure"))
    assert erasure.status == 202
    require_erased(wire.ask(raw))
    job = memory.jobs.wait(erasure.value["job"])
    assert job.state == "done"
    require_erased(wire.ask(raw))
    require_erased(wire.ask(append_to(server, "gone", "a-key", content="something else")))
    assert wire.ask(to_raw(server, "DELETE", f"/v1/flows/{FLOW}/sessions/gone", "erasure")) == erasure
    with pytest.raises(NotFound):
        memory.flow(FLOW).session("gone").show()


def require_erased(answer: Answer) -> None:
    assert (answer.status, answer.code) == (410, "erased")


def test_the_receipt_of_an_erasure_that_had_a_key_finds_nothing_left(memory: Memory) -> None:
    """The client of a server gives every write a key, an erasure too; that is no trace of what was erased."""
    session = memory.flow(FLOW).session("gone")
    session.history.append(role="user", content="a secret of twenty-four letters", key="a-key")
    receipt: Receipt = session.delete()
    assert (receipt.layers["entries"], receipt.residual) == (1, 0)


def test_an_endless_body_is_refused_without_being_kept(own_server: Server) -> None:
    """T20: 64 MB without a Content-Length: 413, and little memory, even if the client does not listen."""
    server, wire = own_server, Wire(own_server.port)
    assert wire.ask(append_to(server, "small", None, content="load the code of an append")).status == 201
    before = server.rss()
    head = append_to(server, "big", None).partition(b"content-length")[0] + b"transfer-encoding: chunked\r\n\r\n"
    for chunk, stubborn in itertools.product((MIB, 4096), (False, True)):
        case = f"chunks of {chunk} bytes, {'goes on' if stubborn else 'stops'}"
        with connect(server.port) as connection:
            sent = _stream(connection, head, chunk, stubborn=stubborn)
            answer = read_answer(connection)
        assert (answer.status, answer.code) == (413, "too_large"), case
        assert sent > 16 * MIB, f"it was refused before it was too large: {case}"
        assert server.rss("VmHWM") - before <= 48 * MIB, case
        assert wire.ask(append_to(server, "small", None, content="still here")).status == 201, case
    wire.close()


def _stream(connection: socket.socket, head: bytes, chunk: int, *, stubborn: bool) -> int:
    """Send up to 64 MB in chunks. Returns how many bytes went out before the server answered or hung up."""
    part = f"{chunk:x}\r\n".encode() + b" " * chunk + b"\r\n"
    connection.sendall(head)
    sent = 0
    deadline = time.monotonic() + PATIENCE_S
    while sent < 64 * MIB:
        assert time.monotonic() < deadline
        if not stubborn and select.select([connection], [], [], 0)[0]:
            break
        try:
            connection.sendall(part)
        except ConnectionError:
            break
        sent += chunk
    return sent
