"""The parent of a node: starts its process, performs operations on its memory for it, and waits for its reply.

The tenant comes from the transport's credential, and the parent sets the flow of every call, so a node's message can choose
neither. A node can call only the operations in `ALLOWED`. Messages are JSON in the frames of a sandbox.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection
from contextlib import closing
from typing import Any

import msgspec

from .. import typed
from ..config import PREFIX
from ..errors import Forbidden, Invalid, MemwellError, NodeFailed
from ..ids import new_id
from ..sandbox.process import FrameTooLarge, Process
from ..sdk.transport import Transport

MAX_FRAME = 64 * 1024 * 1024
JSON = b"J"  # the kind of every frame
ALLOWED = frozenset({"flows.append", "flows.last", "flows.write", "flows.search", "flows.end"})
TIMEOUT_S = 60.0
HARMLESS = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TERM|TZ|TMPDIR|TEMP|TMP|VIRTUAL_ENV|SSL_CERT_(FILE|DIR)"
    r"|(LC_|LD_|DYLD_|PYTHON)\w+"
)
"""The environment variables that a node inherits."""
_START = "from memwell.node.runtime import main; main()"  # not `-m`, which would load the module twice


class Start(msgspec.Struct, tag="start"):
    """From the parent: the function to run."""

    target: str
    input: Any
    execution_id: str


class Request(msgspec.Struct, tag="request"):
    """From the node: an operation on its memory."""

    number: int
    operation: str
    data: dict[str, Any]


class Response(msgspec.Struct, tag="response"):
    """From the parent: the result of an operation."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


class Reply(msgspec.Struct, tag="reply"):
    """From the node: the result of the function."""

    value: Any


class Failure(msgspec.Struct, tag="failure"):
    """From the node: the reason why there is no reply."""

    message: str
    trace: str = ""


decode_from_node = typed.decoder(Request | Reply | Failure)
decode_from_parent = typed.decoder(Start | Response)


def run_node(
    transport: Transport,
    target: str,
    flow: str,
    value: Any,
    *,
    cwd: str | None = None,
    timeout_s: float = TIMEOUT_S,
    pass_on: Collection[str] = (),
) -> Any:
    """Run `module:function` or `FILE.py:function` once for a flow and return its reply as plain data.

    `pass_on` names environment variables that the node gets beside the harmless ones.
    """
    environment = build_environment(pass_on)
    command, deadline = [sys.executable, "-c", _START], time.monotonic() + timeout_s
    with closing(Process(command, max_frame=MAX_FRAME, env=environment, cwd=cwd, confined=False)) as process:
        try:
            process.send(JSON, msgspec.json.encode(Start(target, value, new_id())), deadline)
            while True:
                match decode_from_node(process.receive(deadline).body):
                    case Reply(value):
                        return value
                    case Failure(message, trace):
                        raise NodeFailed(message, trace=trace)
                    case Request() as request:
                        process.send(JSON, msgspec.json.encode(_perform(request, transport, flow)), deadline)
        except msgspec.DecodeError as error:
            raise NodeFailed(f"The node sent a message that cannot be decoded: {error}.") from error
        except FrameTooLarge:
            raise Invalid("The node sent a message that is too large.") from None
        except TimeoutError:
            raise NodeFailed(f"The node did not reply within {timeout_s:g} seconds and was stopped.") from None
        except (EOFError, ConnectionError):
            raise NodeFailed("The node's process ended without a reply.") from None


def build_environment(pass_on: Collection[str]) -> dict[str, str]:
    """Return the variables for a node: those that programs need to start, and those named. All others may be secrets, such as
    the key of a model or the password of a database."""
    own = next((name for name in pass_on if name.startswith(PREFIX)), None)
    if own is not None:
        raise Invalid(f"{own} cannot be passed on: a node reaches memory only through `ax`.")
    return {name: value for name, value in os.environ.items() if name in pass_on or HARMLESS.fullmatch(name)}


def _perform(request: Request, transport: Transport, flow: str) -> Response:
    try:
        if request.operation not in ALLOWED:
            raise Forbidden(f"Node code cannot use `{request.operation}`.")
        result = transport.call(request.operation, {**request.data, "flow": flow})
        return Response(request.number, result=msgspec.Raw(msgspec.json.encode(result)))
    except MemwellError as error:
        return Response(request.number, error={"code": error.code, "message": error.message, "details": error.details})
