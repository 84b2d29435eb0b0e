"""Messages as Anthropic's protocol wants them, with marks for its cache on what the next request will begin with too.

A mark says: keep all up to here. The server finds what it kept when a request begins with the same blocks, so the marks
stand at the end of what stays: on the instructions, and on the last message before the newest one. The next turn of a
conversation begins with all of that. Where instructions come in several messages, the first is marked on its own, so that
it is found even if those after it change. Four marks are allowed, and three are the most that is set here.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from .. import typed
from .completer import Completion, Message, Reason, Tool, ToolCall, failed
from .endpoint import ANTHROPIC, host_of
from .http import MAX_ANSWER, Guarded, Vendor, Way, Ways, about, counted, decoded, events, ways, whole

MARK = {"type": "ephemeral"}


class Layout(NamedTuple):
    """The instructions, and the turns of the two who talk."""

    system: list[dict[str, Any]]
    turns: list[dict[str, Any]]


def laid_out(messages: Sequence[Message]) -> Layout:
    """Each message is a block, so that what was sent once is sent again as it was, whatever is joined to it later.

    Messages without any letter are left out, since the protocol refuses them. If nobody talks, the instructions do.
    """
    said = [message for message in messages if message.content.strip() or message.calls or message.role == "tool"]
    if all(message.role == "system" for message in said):
        said = [Message("user", message.content) for message in said]
    blocks = [block for message in said for block in _blocks(message)]
    system: list[dict[str, Any]] = [block for role, block in blocks if role == "system"]
    rest: list[tuple[str, dict[str, Any]]] = [(role, block) for role, block in blocks if role != "system"]
    for block in (*system[:1], *system[-1:], *[block for _, block in rest][-2:-1]):
        block["cache_control"] = MARK
    return Layout(system, [_turn(role, group) for role, group in groupby(rest, key=lambda each: each[0])])


def _blocks(message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blocks of a message, each with who says it: what a tool gave, the user hands on."""
    if message.role == "tool":
        yield "user", {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
        return
    if message.content.strip():
        yield message.role, {"type": "text", "text": message.content}
    for call in message.calls:
        yield message.role, {"type": "tool_use", "id": call.id, "name": call.name, "input": _object(call.arguments)}


def _object(arguments: str) -> Any:
    """The protocol takes objects only; what a model wrote may be anything."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    return given if isinstance(given, dict) else {}


def _turn(role: str, group: Any) -> dict[str, Any]:
    return {"role": role, "content": [block for _, block in group]}


# -- A model behind Anthropic's own protocol: `POST <url>/v1/messages`, by the package `anthropic` (`memwell[anthropic]`).
#
# How calls are kept within their time and size, and keys and words out of sight, is in `guarded`; which part of a request the
# server is asked to keep for the next one, in `anthropic_layout`.


VENDOR = Vendor(
    "anthropic",
    "Anthropic",
    attrgetter("messages.with_streaming_response.create"),
    {"open_telemetry": False},  # or what was said would go wherever traces go
    {"anthropic-version": "2026-10-21"},
)
FORMATS = ("tool", "format", "text")
"""Ways to ask for JSON: the input of a tool that must be called, which the newest models refuse; a format of the answer."""
CUT = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})
ERRORS: dict[str, Reason] = {
    "invalid_request_error": "bad_request",
    "authentication_error": "unauthorised",
    "permission_error": "unauthorised",
    "not_found_error": "not_found",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
}


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: Any = None


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Start(msgspec.Struct):
    usage: Any = None


class _Delta(msgspec.Struct):
    text: str | None = None
    stop_reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""


class _Event(msgspec.Struct):
    type: str
    message: _Start | None = None
    content_block: _Delta | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: _Error | None = None


class AnthropicChat:
    """A model by its name and its server's address, with or without `/v1`."""

    def __init__(self, model: str, url: str = ANTHROPIC, key: str = "", *, max_answer: int = MAX_ANSWER) -> None:
        self._model = model
        self._server = Guarded(VENDOR, url.rstrip("/").removesuffix("/v1"), key, max_answer)
        self._ways = Ways()
        self._warm = self._server.url != ANTHROPIC
        self.id = f"anthropic:{model}@{host_of(url)}"

    def __repr__(self) -> str:
        return f"AnthropicChat({self.id!r})"

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        """As a `Completer`. A model that does not know a way to ask for JSON is asked in another."""
        until = time.monotonic() + timeout_s

        def ask(way: Way) -> bytes:
            return self._server.ask(self._request(messages, max_tokens, temperature, way) | _shaped(way, schema), until)

        found = ways(("text",) if schema is None else FORMATS, self._wish(temperature))
        return _completion(self._ways.ask(found, ask, about(schema)), messages)

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Generator[str | Completion, None, None]:
        """As a `Streamer`."""
        until = time.monotonic() + timeout_s

        def ask(way: Way) -> Generator[bytes, None, None]:
            return self._server.open(self._request(messages, max_tokens, temperature, way) | {"stream": True}, until)

        with closing(self._ways.ask(ways(("text",), self._wish(temperature)), ask)) as parts:
            yield from _pieces(events(parts, self._server.max_answer), messages)

    def call(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        """As a `Caller`."""
        until = time.monotonic() + timeout_s

        def ask(way: Way) -> bytes:
            request = self._request(messages, max_tokens, temperature, way)
            return self._server.ask(request | {"tools": [_offered(tool) for tool in tools]}, until)

        return _called(self._ways.ask(ways(("text",), self._wish(temperature)), ask), messages)

    def close(self) -> None:
        self._server.close()

    def _wish(self, temperature: float | None) -> float | None:
        """Anthropic's own server accepts no temperature any more; others that speak the protocol do."""
        return temperature if self._warm else None

    def _request(
        self, messages: Sequence[Message], max_tokens: int, temperature: float | None, way: Way
    ) -> dict[str, Any]:
        system, turns = laid_out(messages)
        request: dict[str, Any] = {"model": self._model, "max_tokens": max_tokens, "messages": turns}
        request |= {"system": system} if system else {}
        return request | ({"extra_body": {"temperature": temperature}} if way.temperature else {})


def _shaped(way: Way, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The words that ask for JSON."""
    if schema is None or way.shape == "text":
        return {}
    if way.shape == "format":
        return {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}
    tool = {"name": "answer", "description": "Takes the answer.", "input_schema": dict(schema)}
    choice = {"type": "tool", "name": "answer", "disable_parallel_tool_use": True}
    return {"tools": [tool], "tool_choice": choice}


def _completion(body: bytes, messages: Sequence[Message]) -> Completion:
    """The input of the tool, if it was called as it should be, and otherwise what was said."""
    answer = decoded(body, _Answer)
    called = [block for block in answer.content if block.type == "tool_use"]
    text = _input(called[0]) if called else "".join(block.text or "" for block in answer.content)
    return _whole(counted(text, messages, _counts(answer.usage)), answer.stop_reason)


def _called(body: bytes, messages: Sequence[Message]) -> Completion:
    """What was said, and the tools that are to be called."""
    answer = decoded(body, _Answer)
    text = "".join(block.text or "" for block in answer.content if block.type == "text")
    calls = [ToolCall(block.id, block.name, _input(block)) for block in answer.content if block.type == "tool_use"]
    return _whole(counted(text, messages, _counts(answer.usage), tuple(calls)), answer.stop_reason)


def _offered(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _input(block: _Block) -> str:
    """As it came, since whoever asked for JSON reads it again."""
    try:
        return bytes(block.input).decode()
    except UnicodeError:
        raise failed("invalid_answer") from None


def _pieces(found: Iterable[bytes], messages: Sequence[Message]) -> Generator[str | Completion, None, None]:
    """The pieces of a streamed answer, and at its end the whole."""
    told = _Told()
    for data in found:
        event = decoded(data, _Event)
        if event.type == "message_stop":
            break
        piece = told.take(event)
        if piece:
            yield piece
    yield told.whole(messages)


class _Told:
    """What a stream has told so far. Kinds of events that nobody knows yet are passed over, as the protocol wants it."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._ending: str | None = None
        self._usage: dict[str, Any] = {}
        self._begun = False

    def take(self, event: _Event) -> str:
        """The piece of text in an event, perhaps an empty one."""
        if event.type == "error":
            raise failed(ERRORS.get(event.error.type if event.error else "", "server_error"))
        if event.message is not None:
            self._begun = True
            self._count(event.message.usage)
        self._count(event.usage)
        delta = event.delta or event.content_block or _Delta()
        self._ending = delta.stop_reason or self._ending
        self._text.append(delta.text or "")
        return self._text[-1]

    def whole(self, messages: Sequence[Message]) -> Completion:
        if not self._begun:
            raise failed("invalid_answer")
        if self._ending is None:
            raise failed("cut")
        return _whole(counted("".join(self._text), messages, _counts(self._usage)), self._ending)

    def _count(self, usage: Any) -> None:
        """What is counted at the end is added to what was counted at the beginning, or takes its place."""
        if isinstance(usage, dict):
            self._usage |= {name: number for name, number in usage.items() if number is not None}


def _whole(said: Completion, ending: str | None) -> Completion:
    return whole(said, refused=ending == "refusal", cut=ending in CUT)


def _counts(usage: Any) -> tuple[int, ...]:
    """As the server counted: in, out, found in its cache. What the cache held is not among its `input_tokens`."""
    try:
        given = typed.convert(usage, _Usage)
    except msgspec.ValidationError:
        return ()
    cached = given.cache_read_input_tokens or 0
    return given.input_tokens + (given.cache_creation_input_tokens or 0) + cached, given.output_tokens, cached
