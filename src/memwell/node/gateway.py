"""Messages between a node and its parent: a length, then JSON, over a socket pair that nobody else can reach."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec

from .. import typed
from ..config import PREFIX
from ..errors import Forbidden, Invalid, MemwellError, NodeFailed
from ..ids import new_id
from ..sdk.transport import Transport

MAX_FRAME = 64 * 1024 * 1024
HEAD = struct.Struct(">I")


class Start(msgspec.Struct, tag="start"):
    """From the parent: what to run."""

    target: str
    input: Any
    execution_id: str


class Ask(msgspec.Struct, tag="ask"):
    """From the node: an operation on this invocation's memory."""

    number: int
    operation: str
    data: dict[str, Any]


class Tell(msgspec.Struct, tag="tell"):
    """From the parent: what came of it."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


class Done(msgspec.Struct, tag="done"):
    """From the node: its reply."""

    reply: Any


class Failed(msgspec.Struct, tag="failed"):
    """From the node: why there is none."""

    message: str
    trace: str = ""


FromNode = Ask | Done | Failed
FromParent = Start | Tell

decode_from_node = typed.decoder(FromNode)
decode_from_parent = typed.decoder(FromParent)


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.json.encode(message)
    return HEAD.pack(len(body)) + body


# -- The parent of a node: starts its process, answers for its memory, and waits for its reply.
#
# Identity is this invocation's: the tenant is that of the transport's credential, and the flow is stamped on every call,
# whatever the node's message says. A node can ask for the operations listed here and for nothing else.


ALLOWED = frozenset({"flows.append", "flows.last", "flows.write", "flows.search", "flows.end"})
TIMEOUT_S = 60.0
STDERR = 2  # what a node prints goes there: standard output is for its reply


def run_node(
    transport: Transport, target: str, flow: str, value: Any, *, cwd: str | None = None, timeout_s: float = TIMEOUT_S
) -> Any:
    """Run `module:function` once for a flow and return its reply as plain data."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-m", "memwell.node.child", str(theirs.fileno())]
        child = subprocess.Popen(
            command,
            start_new_session=True,
            pass_fds=[theirs.fileno()],
            env=_environment(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=STDERR,
        )
        theirs.close()
        try:
            ours.sendall(frame(Start(target, value, new_id())))
            return _converse(ours, transport, flow, time.monotonic() + timeout_s)
        except TimeoutError:
            raise NodeFailed(f"The node did not reply within {timeout_s:g} seconds and was stopped.") from None
        except (EOFError, ConnectionError):
            raise NodeFailed("The node's process ended without a reply.") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and whatever it started
            child.wait()


def _converse(link: socket.socket, transport: Transport, flow: str, deadline: float) -> Any:
    while True:
        try:
            message = decode_from_node(_receive(link, deadline))
        except msgspec.DecodeError as error:
            raise NodeFailed(f"The node sent something that is not a message: {error}.") from error
        match message:
            case Done():
                return message.reply
            case Failed():
                raise NodeFailed(f"The node failed: {message.message}", trace=message.trace)
            case Ask():
                link.sendall(frame(_answer(message, transport, flow)))


def _answer(ask: Ask, transport: Transport, flow: str) -> Tell:
    try:
        if ask.operation not in ALLOWED:
            raise Forbidden(f"Node code cannot use `{ask.operation}`.")
        result = transport.call(ask.operation, {**ask.data, "flow": flow})
        return Tell(ask.number, result=msgspec.Raw(msgspec.json.encode(result)))
    except MemwellError as error:
        return Tell(ask.number, error={"code": error.code, "message": error.message, "details": error.details})


def _receive(link: socket.socket, deadline: float) -> bytes:
    (length,) = HEAD.unpack(_exactly(link, HEAD.size, deadline))
    if length > MAX_FRAME:
        raise Invalid("The node sent a message that is too large.")
    return _exactly(link, length, deadline)


def _exactly(link: socket.socket, size: int, deadline: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        link.settimeout(max(deadline - time.monotonic(), 0.001))
        part = link.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _environment() -> dict[str, str]:
    """The node's environment: without our settings, and so without any key or data directory."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
