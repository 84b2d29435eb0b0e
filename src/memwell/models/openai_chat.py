"""A model behind an OpenAI-compatible server: `POST <url>/chat/completions`, by the package `openai` (`memwell[openai]`).

How calls are kept within their time and size, and keys and words out of sight, is in `guarded`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from operator import attrgetter
from typing import Any

import msgspec

from .. import typed
from .completer import Completion, Message, Tool, ToolCall, failed
from .endpoint import host_of
from .http import MAX_ANSWER, Guarded, Vendor, Way, Ways, about, counted, decoded, events, ways, whole

VENDOR = Vendor("openai", "OpenAI", attrgetter("chat.completions.with_streaming_response.create"))
FORMATS = ("json_schema", "json_object", "text")
OPENAI = "api.openai.com"
DONE = b"[DONE]"


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


class _Delta(msgspec.Struct):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Delta] | None = None
    usage: Any = None
    error: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: Any = None


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class OpenAIChat:
    """A model by its name and its server's address; a server that wants no key is given none."""

    def __init__(self, model: str, url: str, key: str = "", *, max_answer: int = MAX_ANSWER) -> None:
        self._model = model
        self._server = Guarded(VENDOR, url, key, max_answer)
        self._ways = Ways()
        self.id = f"openai:{model}@{host_of(url)}"

    def __repr__(self) -> str:
        return f"OpenAIChat({self.id!r})"

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        """As a `Completer`. A server that does not know a way to ask for JSON is asked in another."""
        until = time.monotonic() + timeout_s

        def ask(way: Way) -> bytes:
            return self._server.ask(self._request(messages, max_tokens, temperature, way) | _shaped(way, schema), until)

        found = ways(("text",) if schema is None else FORMATS, temperature)
        return _completion(self._ways.ask(found, ask, about(schema)), messages)

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Generator[str | Completion, None, None]:
        """As a `Streamer`. A server that cannot count what it streams is asked without counts."""
        until = time.monotonic() + timeout_s

        def ask(way: Way) -> Generator[bytes, None, None]:
            counts = {"stream_options": {"include_usage": True}} if way.counts else {}
            request = self._request(messages, max_tokens, temperature, way) | {"stream": True} | counts
            return self._server.open(request, until)

        with closing(self._ways.ask(ways(("text",), temperature, (True, False)), ask)) as parts:
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

        return _completion(self._ways.ask(ways(("text",), temperature), ask), messages)

    def close(self) -> None:
        self._server.close()

    def _request(
        self, messages: Sequence[Message], max_tokens: int, temperature: float | None, way: Way
    ) -> dict[str, Any]:
        """What to ask. OpenAI's newer models refuse the older words that all other servers understand."""
        request: dict[str, Any] = {"model": self._model, "messages": [_said(message) for message in messages]}
        if host_of(self._server.url) == OPENAI:
            request |= {"max_completion_tokens": max_tokens}
        else:
            request |= {"max_tokens": max_tokens, "temperature": 0}
        return request | ({"temperature": temperature} if way.temperature else {})


def _said(message: Message) -> dict[str, Any]:
    """A message in the words of the protocol."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if not message.calls:
        return said
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    return said | {"content": message.content or None, "tool_calls": calls}


def _offered(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _shaped(way: Way, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The words that ask for JSON."""
    if schema is None or way.shape == "text":
        return {}
    if way.shape == "json_object":
        return {"response_format": {"type": "json_object"}}
    named = {"name": "answer", "schema": dict(schema), "strict": _is_strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _is_strict(schema: Any) -> bool:
    """Whether a schema says of every object all that it has: only such a one may be asked for strictly."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        named = set(schema.get("properties") or ()) == set(schema.get("required") or ())
        if schema.get("additionalProperties") is not False or not named:
            return False
    return all(map(_is_strict, schema.values()))


def _completion(body: bytes, messages: Sequence[Message]) -> Completion:
    answer = decoded(body, _Answer)
    if not answer.choices:
        raise failed("invalid_answer")
    choice = answer.choices[0]
    calls = _calls(choice.message.tool_calls)
    said = counted(choice.message.content or "", messages, _counts(answer.usage), calls)
    return _whole(said, choice.finish_reason, bool(choice.message.refusal))


def _calls(given: Sequence[_Call] | None) -> tuple[ToolCall, ...]:
    """The calls of tools; one without an id gets one, since its answer must name it."""
    found = [(one.id, one.function) for one in given or ()]
    return tuple(
        ToolCall(call_id or f"call_{number}", function.name, function.arguments or "{}")
        for number, (call_id, function) in enumerate(found, 1)
        if function is not None
    )


def _pieces(found: Iterable[bytes], messages: Sequence[Message]) -> Generator[str | Completion, None, None]:
    """The pieces of a streamed answer, and at its end the whole."""
    told = _Told()
    for data in found:
        if data == DONE:
            told.ending = told.ending or "stop"
            break
        piece = told.take(decoded(data, _Chunk))
        if piece:
            yield piece
    yield told.whole(messages)


class _Told:
    """What a stream has told so far."""

    def __init__(self) -> None:
        self.ending: str | None = None
        self._text: list[str] = []
        self._refused = False
        self._usage: Any = None

    def take(self, chunk: _Chunk) -> str:
        """The piece of text in a chunk, perhaps an empty one."""
        if chunk.error is not None:
            raise failed("server_error")
        self._usage = chunk.usage or self._usage
        if not chunk.choices:
            return ""
        said, ending = chunk.choices[0].delta or _Message(), chunk.choices[0].finish_reason
        self.ending = ending or self.ending
        self._refused = self._refused or bool(said.refusal)
        self._text.append(said.content or "")
        return self._text[-1]

    def whole(self, messages: Sequence[Message]) -> Completion:
        if not self._text:
            raise failed("invalid_answer")
        if self.ending is None:
            raise failed("cut")
        return _whole(counted("".join(self._text), messages, _counts(self._usage)), self.ending, self._refused)


def _whole(said: Completion, ending: str | None, refused: bool) -> Completion:
    return whole(said, refused=refused or ending == "content_filter", cut=ending == "length")


def _counts(usage: Any) -> tuple[int, ...]:
    """As the server counted: in, out, found in its cache. Nothing if it did not, or not in numbers."""
    try:
        given = typed.convert(usage, _Usage)
    except msgspec.ValidationError:
        return ()
    try:
        cached = typed.convert(given.prompt_tokens_details or {}, _Details).cached_tokens
    except msgspec.ValidationError:
        cached = 0
    return given.prompt_tokens, given.completion_tokens, cached
