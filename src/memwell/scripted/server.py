"""What a scripted server must know of a protocol to speak it."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal, NamedTuple, Protocol, Self

from ..models.completer import estimated_tokens
from .model import HUGE, Fault, Raw, Reply, StreamFault, ToolCall, ToolCalls, Worded, worded

PIECE = 16
"""How many letters of an answer are streamed at a time."""


class Wire(Protocol):
    """A protocol: where it is spoken, and what things look like in it."""

    base: str
    path: str
    opening: bytes
    nothing: dict[str, Any]

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        """The whole answer at once."""
        ...

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        """The answer as the events of a stream."""
        ...

    def error(self, told: str) -> dict[str, Any]: ...

    def broken(self) -> bytes:
        """The event that tells of an error in the middle of a stream."""
        ...

    def models(self, name: str) -> dict[str, Any]: ...


def pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def event(data: object, name: str = "") -> bytes:
    """One event of a stream, with its name if it has one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def words(body: Mapping[str, Any]) -> str:
    """All that a request says: its messages, and the instructions that stand beside them."""
    system = [body["system"]] if body.get("system") else []
    said = [message.get("content") for message in body.get("messages", [])]
    return "\n".join(_text(content) for content in [*system, *said])


def _text(content: object) -> str:
    if not isinstance(content, list):
        return str(content)
    return "\n".join(str(block.get("text")) for block in content if isinstance(block, dict))


def tokens_out(reply: ToolCalls | Worded) -> int:
    if isinstance(reply, ToolCalls):
        return estimated_tokens(json.dumps([call.arguments for call in reply.calls]))
    return estimated_tokens(reply.text or "") if reply.tokens_out is None else reply.tokens_out


# -- A cache of prompts as Anthropic's protocol has it: what a request marks is found by the next that begins with it.


MARK = "cache_control"


class _Block(NamedTuple):
    """A part of a request, and whether all up to it is to be kept."""

    text: str
    marked: bool


class Cache:
    """All that requests have marked. Nothing is too short for it, and nothing is ever forgotten."""

    def __init__(self) -> None:
        self._kept: set[tuple[str, ...]] = set()
        self._lock = Lock()

    def counts(self, body: Mapping[str, Any]) -> dict[str, int]:
        """How many tokens of a request were found, newly kept, and neither; what it marks is kept from now on."""
        blocks = list(_blocks(body))
        texts = tuple(block.text for block in blocks)
        marks = [at for at, block in enumerate(blocks, 1) if block.marked]
        with self._lock:
            found = max((at for at in range(1, max(marks, default=0) + 1) if texts[:at] in self._kept), default=0)
            self._kept |= {texts[:at] for at in marks}
        kept = max(marks, default=0)
        return {
            "input_tokens": _tokens(texts[kept:]),
            "cache_creation_input_tokens": _tokens(texts[found:kept]),
            "cache_read_input_tokens": _tokens(texts[:found]),
        }


def _tokens(texts: tuple[str, ...]) -> int:
    return sum(map(estimated_tokens, texts))


def _blocks(body: Mapping[str, Any]) -> Iterator[_Block]:
    """In the order in which a model reads them: tools, instructions, messages."""
    yield from (_block("tool", tool) for tool in body.get("tools") or [])
    yield from (_block("system", block) for block in _listed(body.get("system")))
    for message in body.get("messages", []):
        yield from (_block(str(message.get("role")), block) for block in _listed(message.get("content")))


def _listed(content: Any) -> list[Any]:
    """A text on its own is short for one block."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []


def _block(role: str, block: Mapping[str, Any]) -> _Block:
    bare = {name: value for name, value in block.items() if name != MARK}
    return _Block(f"{role}: {bare.get('text') or json.dumps(bare)}", MARK in block)


# -- The OpenAI protocol, as a scripted server speaks it.


STARTED_AT = 1_776_592_800
"""When every answer says that it was made."""


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    base = "/v1"
    path = "/v1/chat/completions"
    opening = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "'
    nothing: dict[str, Any] = {"id": "chatcmpl-0", "object": "chat.completion", "choices": []}  # noqa: RUF012

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        made, ended = _message(reply)
        choice = {"index": 0, "message": made, "finish_reason": ended}
        return _head(number, body, "chat.completion") | {"choices": [choice], "usage": _usage(reply, body)}

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Some words at a time, each call of a tool in two parts, the counts at the end if wanted."""
        head = _head(number, body, "chat.completion.chunk")
        _, ended = _message(reply)
        for delta in [{"role": "assistant"}, *_deltas(reply)]:
            yield event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": ended}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield event(head | {"choices": [], "usage": _usage(reply, body)})
        yield b"data: [DONE]\n\n"

    def error(self, told: str) -> dict[str, Any]:
        return {"error": {"message": told, "type": "invalid_request_error", "code": None}}

    def broken(self) -> bytes:
        return event({"error": {"message": "it failed in the middle", "type": "server_error", "code": None}})

    def models(self, name: str) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "memwell"}]}


def _head(number: int, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": STARTED_AT, "model": body.get("model")}


def _usage(reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, int]:
    given = reply.tokens_in if isinstance(reply, Worded) else None
    came, went = estimated_tokens(words(body)) if given is None else given, tokens_out(reply)
    return {"prompt_tokens": came, "completion_tokens": went, "total_tokens": came + went}


def _message(reply: ToolCalls | Worded) -> tuple[dict[str, Any], str]:
    """The assistant's message, and why it ended there."""
    if isinstance(reply, Worded):
        refused = {"refusal": reply.refusal} if reply.refusal is not None else {}
        return {"role": "assistant", "content": reply.text} | refused, reply.finish_reason
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(reply.calls, 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def _deltas(reply: ToolCalls | Worded) -> Iterator[dict[str, Any]]:
    if isinstance(reply, Worded):
        if reply.refusal is not None:
            yield {"refusal": reply.refusal}
        yield from ({"content": piece} for piece in pieces(reply.text or ""))
        return
    for number, call in enumerate(_message(reply)[0]["tool_calls"]):
        function = call["function"]
        yield {"tool_calls": [call | {"index": number, "function": function | {"arguments": ""}}]}
        yield {"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]}


# -- Anthropic's protocol, as a scripted server speaks it.


ENDINGS = {"stop": "end_turn", "length": "max_tokens"}


class Messages:
    """`POST /v1/messages`, with a cache of its own."""

    base = ""
    path = "/v1/messages"
    opening = b'{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "'
    nothing: dict[str, Any] = {"id": "msg_0", "type": "message", "role": "assistant"}  # noqa: RUF012

    def __init__(self) -> None:
        self._cache = Cache()

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        usage = self._usage(reply, body)
        content, ending = _content(_called(reply, body))
        return _message_head(number, body) | {"content": content, "stop_reason": ending, "usage": usage}

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        usage = self._usage(reply, body)
        content, ending = _content(_called(reply, body))
        begun = _message_head(number, body) | {
            "content": [],
            "stop_reason": None,
            "usage": usage | {"output_tokens": 1},
        }
        yield _event("message_start", message=begun)
        for index, block in enumerate(content):
            yield from _message_block(index, block)
        ended = {"stop_reason": ending, "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage={"output_tokens": usage["output_tokens"]})
        yield _event("message_stop")

    def error(self, told: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": told}}

    def broken(self) -> bytes:
        return _event("error", error={"type": "overloaded_error", "message": "it failed in the middle"})

    def models(self, name: str) -> dict[str, Any]:
        model = {"type": "model", "id": name, "display_name": name, "created_at": "2026-04-19T10:00:00Z"}
        return {"data": [model], "has_more": False, "first_id": name, "last_id": name}

    def _usage(self, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, int]:
        """What was counted; an answer with a count of its own has found nothing in the cache."""
        found = self._cache.counts(body)
        if isinstance(reply, Worded) and reply.tokens_in is not None:
            found = dict.fromkeys(found, 0) | {"input_tokens": reply.tokens_in}
        return found | {"output_tokens": tokens_out(reply)}


def _message_head(number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "stop_sequence": None,
    }


def _called(reply: ToolCalls | Worded, body: Mapping[str, Any]) -> ToolCalls | Worded:
    """JSON goes into the tool that must be called, if one must; a model that says something else just says it."""
    forced = (body.get("tool_choice") or {}).get("name")
    if forced is None or isinstance(reply, ToolCalls) or reply.finish_reason != "stop":
        return reply
    try:
        given = json.loads(reply.text or "")
    except (ValueError, RecursionError):
        return reply
    return ToolCalls((ToolCall(forced, given),)) if isinstance(given, dict) else reply


def _content(reply: ToolCalls | Worded) -> tuple[list[dict[str, Any]], str]:
    """The blocks of an answer, and why it ended there."""
    if isinstance(reply, Worded):
        ending = ENDINGS.get(reply.finish_reason, reply.finish_reason) if reply.refusal is None else "refusal"
        return [{"type": "text", "text": reply.text}] if reply.text else [], ending
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": call.arguments}
        for number, call in enumerate(reply.calls, 1)
    ]
    return calls, "tool_use"


def _message_block(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    called = block["type"] == "tool_use"
    empty: dict[str, Any] = {"input": {}} if called else {"text": ""}
    yield _event("content_block_start", index=index, content_block=block | empty)
    yield _event("ping")
    for piece in pieces(json.dumps(block["input"]) if called else block["text"]):
        delta = {"type": "input_json_delta", "partial_json": piece} if called else {"type": "text_delta", "text": piece}
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(name: str, **data: Any) -> bytes:
    return event({"type": name} | data, name)


# -- One connection to a scripted server: it reads what is asked, and answers or fails as it is told.


MAX_BODY = 16 * 1024 * 1024
PATIENCE_S = 60.0
"""After this long even an answer that was told to hang ends, so that a test which forgot it ends."""
PAGE = b"<html>not what you expected</html>"
BEGUN = Worded("This is how the answer begins, and this is how it would go on.")
"""What is said where a stream fails in its middle."""


class Connection(BaseHTTPRequestHandler):
    """One connection."""

    script: ScriptedServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    disable_nagle_algorithm = True  # a stream is many small parts, and none of them waits for the next

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as it is named there
        """Nothing is printed."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._json(200, self.script.wire.models(self.script.model))
        else:
            self._error(404, "there is nothing at that address")

    def do_POST(self) -> None:
        body = self._asked()
        if body is None:
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, reply = self.script.reply_to(self.path, headers, body)
        if isinstance(reply, Raw):
            self._send(reply.status, reply.body, **reply.headers)
        elif isinstance(reply, StreamFault):
            self._break(number, reply, body)
        elif isinstance(reply, Fault) and reply in _BROKEN:
            _BROKEN[reply](self)
        else:
            self._say(number, reply if isinstance(reply, ToolCalls) else worded(reply), body)

    def _asked(self) -> dict[str, Any] | None:
        """What is asked, if it is asked as the protocol wants; otherwise that is told, and None returned."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._error(413, "too large")
            return None
        body = _decoded(self.rfile.read(int(length)))
        if self.path.rstrip("/") != self.script.wire.path:
            self._error(404, "there is nothing at that address")
        elif body is None:
            self._error(400, "model and messages are needed, as JSON")
        else:
            return body
        return None

    def _say(self, number: int, reply: ToolCalls | Worded, body: dict[str, Any]) -> None:
        if body.get("stream"):
            self._stream(self.script.wire.parts(number, reply, body))
        else:
            self._json(200, self.script.wire.whole(number, reply, body))

    def _break(self, number: int, fault: StreamFault, body: dict[str, Any]) -> None:
        """Half of a stream, and then what goes wrong."""
        if not body.get("stream"):
            _BROKEN[_LIKEWISE[fault]](self)
            return
        parts = list(self.script.wire.parts(number, BEGUN, body))
        half, rest = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        if fault is StreamFault.GARBAGE:
            self._stream([*half, b"data: " + PAGE + b"\n\n", *rest])
        elif fault is StreamFault.ERROR:
            self._stream([*half, self.script.wire.broken()])
        else:
            self._begin(half)
            _UNENDED[fault](self)

    def _stream(self, parts: Iterable[bytes]) -> None:
        self._begin(parts)
        self.wfile.write(_chunk(b""))

    def _begin(self, parts: Iterable[bytes]) -> None:
        """A stream without its end."""
        self._head(200, None, **{"content-type": "text/event-stream"})
        for part in parts:
            self.wfile.write(_chunk(part))

    def _json(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _error(self, status: int, told: str) -> None:
        self._json(status, self.script.wire.error(told))

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self._head(status, len(body), **headers)
        self.wfile.write(body)

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is None:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["content-length"] = str(length)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    # -- faults ----------------------------------------------------------------------------------------------------

    def hang(self) -> None:
        self.script.closing.wait(PATIENCE_S)
        self.close_connection = True

    def drip(self) -> None:
        self._head(200, HUGE)
        self._drops(b" ")

    def drip_events(self) -> None:
        """A comment that does not end."""
        self._drops(_chunk(b":"))

    def drip_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        self._drops(b"x")

    def _drops(self, drop: bytes) -> None:
        self.close_connection = True
        for _ in range(int(PATIENCE_S / self.script.drip_s)):
            if self.script.closing.wait(self.script.drip_s):
                return
            self.wfile.write(drop)

    def error(self) -> None:
        self._send(500, PAGE, **{"content-type": "text/html"})

    def busy(self) -> None:
        self._send(429, json.dumps(self.script.wire.error("not now")).encode(), **{"retry-after": "20"})

    def unauthorised(self) -> None:
        self._error(401, "that key is not known")

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def cut(self) -> None:
        self.close_connection = True

    def half(self) -> None:
        body = json.dumps(self.script.wire.whole(1, Worded('{"facts": []}'), {"model": self.script.model})).encode()
        self._head(200, len(body))
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def huge(self) -> None:
        """All in one answer whose JSON would be right, as far as it goes."""
        self._head(200, HUGE)
        self.wfile.write(self.script.wire.opening)
        for _ in range(HUGE // 65536):
            self.wfile.write(b"x" * 65536)
        self.close_connection = True

    def no_choices(self) -> None:
        self._json(200, self.script.wire.nothing)

    def garbage(self) -> None:
        self._send(200, PAGE, **{"content-type": "text/html"})


def _chunk(part: bytes) -> bytes:
    """A part of an answer whose length nobody knows yet; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(part), part)


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return None
    messages = body.get("messages")
    named = isinstance(messages, list) and messages and all(isinstance(message, dict) for message in messages)
    return body if named else None


_BROKEN: dict[Fault, Callable[[Connection], None]] = {
    Fault.HANG: Connection.hang,
    Fault.DRIP: Connection.drip,
    Fault.DRIP_HEADERS: Connection.drip_headers,
    Fault.ERROR: Connection.error,
    Fault.BUSY: Connection.busy,
    Fault.UNAUTHORISED: Connection.unauthorised,
    Fault.RESET: Connection.reset,
    Fault.HALF: Connection.half,
    Fault.HUGE: Connection.huge,
    Fault.NO_CHOICES: Connection.no_choices,
    Fault.GARBAGE: Connection.garbage,
}
_UNENDED: dict[StreamFault, Callable[[Connection], None]] = {
    StreamFault.CUT: Connection.cut,
    StreamFault.HANG: Connection.hang,
    StreamFault.DRIP: Connection.drip_events,
}
_LIKEWISE = {
    StreamFault.GARBAGE: Fault.GARBAGE,
    StreamFault.CUT: Fault.HALF,
    StreamFault.HANG: Fault.HANG,
    StreamFault.DRIP: Fault.DRIP,
    StreamFault.ERROR: Fault.ERROR,
}


# -- A server on 127.0.0.1 that speaks the protocol of a model and does what it is told, also wrong. Standard library only.


MAX_REQUESTS = 10_000
PROTOCOLS: dict[str, Callable[[], Wire]] = {"openai": ChatCompletions, "anthropic": Messages}


class ChatRequest(NamedTuple):
    """What the server was asked: the headers, in small letters, and the body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All that the messages say."""
        return words(self.body)


Script = Iterable[Reply] | Callable[[ChatRequest], Reply]


class ScriptedServer:
    """A model's server in a thread: `with ScriptedServer(["Hello!"]) as server:`, then ask `server.url`.

    It answers `POST /v1/chat/completions`, or with `protocol="anthropic"` `POST /v1/messages` (whole or streamed, words,
    JSON or tools), and `GET /v1/models`. The script is a list of replies, of which the last is repeated for ever, or a
    function that is given each request. A reply is a text, a mapping (sent as JSON), `ToolCalls`, `Worded`, `Raw`, a `Fault`
    or a `StreamFault`. `server.fault = Fault.HANG` makes every answer fail that way, until it is None again. `requests`
    holds what was asked.
    """

    def __init__(
        self,
        script: Script = ({"facts": []},),
        *,
        fault: Fault | StreamFault | None = None,
        model: str = "scripted",
        drip_s: float = 1.0,
        protocol: Literal["openai", "anthropic"] = "openai",
    ) -> None:
        self.wire = PROTOCOLS[protocol]()
        self.fault = fault
        self.model = model
        self.drip_s = drip_s
        self.requests: list[ChatRequest] = []
        self.closing = Event()
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (Connection,), {"script": self}))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="scripted-server", daemon=True)

    @property
    def url(self) -> str:
        """What a client of the protocol is told: for OpenAI's with `/v1`, for Anthropic's without."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.wire.base}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.open)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of it is left: whoever still waits is cut off, and every thread has ended."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.cut_off()
        self._server.server_close()

    def reply_to(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Reply]:
        """The number of the request, and what to answer."""
        request = ChatRequest(path, headers, body)
        with self._lock:
            if len(self.requests) >= MAX_REQUESTS:
                return 0, Raw(503, b'{"error": {"message": "too many requests for a test"}}')
            self.requests.append(request)
            number = len(self.requests)
            if self.fault is not None:
                return number, self.fault
            if self._function is None:
                return number, self._next()
        return number, self._function(request)

    def _next(self) -> Reply:
        if not self._replies:
            return Raw(500, b'{"error": {"message": "the script is empty"}}')
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def cut_off(self) -> None:
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended by itself
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle here; that is what is tested."""
