"""What a language model is to Memwell: something that continues messages, within a time and a length that it is told.

Whatever goes wrong is a `ModelFailed` whose `details["reason"]` is one word of `Reason`, the one that a job shows. The
message names it too and holds nothing else that came from outside: no key, no text that was sent or received.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ..errors import ModelFailed

Reason = Literal[
    "timeout",
    "rate_limited",
    "server_error",
    "unauthorised",
    "bad_request",
    "not_found",
    "unreachable",
    "not_installed",
    "cut",
    "too_large",
    "invalid_answer",
    "refused",
    "failed",
]
SENTENCES: dict[Reason, str] = {
    "timeout": "The model did not answer in time",
    "rate_limited": "The model's server asks for fewer requests",
    "server_error": "The model's server failed",
    "unauthorised": "The model's server does not accept the key",
    "bad_request": "The model's server does not accept the request",
    "not_found": "The model's server knows neither such a model nor such an address",
    "unreachable": "The model's server cannot be reached",
    "not_installed": "The model's package is missing",
    "cut": "The model's answer broke off",
    "too_large": "The model's answer is too large",
    "invalid_answer": "The model's server gave something that is not a completion",
    "refused": "The model refused",
    "failed": "The model failed",
}


class Tool(NamedTuple):
    """Something that a model may have done: `parameters` is the JSON Schema of what it takes."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ToolCall(NamedTuple):
    """A tool that a model wants called. The arguments are what it wrote: JSON, if it has done well."""

    id: str
    name: str
    arguments: str


class Message(NamedTuple):
    """One message of what a model is asked. An assistant's may hold calls of tools; a tool's says which call it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Completion(NamedTuple):
    """What it answered, and how many tokens that took: as its server counted, or else estimated.

    Of the tokens that went in, `tokens_cached` were found in the server's cache. `calls`: the tools that it wants called first.
    """

    text: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    calls: tuple[ToolCall, ...] = ()


class Completer(Protocol):
    """Continues messages. It returns or raises `ModelFailed` within `timeout_s`, however slowly a server drips.

    With a schema the answer should be JSON of that shape. Nobody relies on it: whoever asks checks the answer. It does not
    try again by itself, and it may be called from several threads.
    """

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion: ...


@runtime_checkable
class Streamer(Protocol):
    """Continues messages bit by bit: pieces of text as they come, and as its last item the whole `Completion`.

    The promises are those of `complete`: nobody waits longer than `timeout_s` in all, counted from when the first piece is
    asked for. What fails after some pieces fails all the same. Closing the iterator ends the call and its connection.
    A temperature is a wish: a server that accepts none is asked without.
    """

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Iterator[str | Completion]: ...


@runtime_checkable
class Caller(Protocol):
    """Continues messages, and may ask for tools to be called before it answers. The promises are those of `complete`."""

    def call(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion: ...


def stream_of(
    completer: Completer | Streamer,
    messages: Sequence[Message],
    *,
    max_tokens: int,
    timeout_s: float,
    temperature: float | None = None,
) -> Generator[str | Completion, None, None]:
    """An answer in pieces from any model; one that cannot stream gives it in one."""
    if isinstance(completer, Streamer):
        yield from completer.stream(messages, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature)
        return
    wished = wish(completer, temperature)
    answer = completer.complete(messages, schema=None, max_tokens=max_tokens, timeout_s=timeout_s, **wished)
    if answer.text:
        yield answer.text
    yield answer


def wish(completer: Completer, temperature: float | None) -> dict[str, Any]:
    """The temperature, for models whose `complete` knows one: it is not part of what every model must take."""
    known = "temperature" in signature(completer.complete).parameters
    return {"temperature": temperature} if known and temperature is not None else {}


def failed(reason: Reason, **details: Any) -> ModelFailed:
    """The error for a reason. The details may hold the `tokens_in` and `tokens_out` that were spent all the same."""
    return ModelFailed(f"{SENTENCES[reason]} ({reason}).", reason=reason, **details)


def missing(package: str) -> ModelFailed:
    """The error for a package that is not installed; the extra that brings it has its name."""
    told = f'The package `{package}` is missing: pip install "memwell[{package}]" (not_installed).'
    return ModelFailed(told, reason="not_installed")


def reason_of(error: ModelFailed) -> str:
    """The word for what went wrong; plugins may raise errors without one."""
    reason = error.details.get("reason")
    return reason if isinstance(reason, str) else "failed"


def estimated_tokens(text: str) -> int:
    """About how many tokens a text is: a quarter of its bytes, which fits English and is near for Chinese."""
    return (len(text.encode(errors="replace")) + 3) // 4


def tokens_of(message: Message) -> int:
    """About how many tokens a message is, with the calls of tools that it holds."""
    return estimated_tokens(message.content + "".join(call.name + call.arguments for call in message.calls))
