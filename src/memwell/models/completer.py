"""Language models: the interface that callers use, and the setting `MEMWELL_LLM` that chooses one.

Every failure is a `ModelFailed` whose `details["reason"]` is one word of `Reason`, which jobs show. The message names it too and
holds nothing else that came from outside: no key, no text that was sent or received.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable
from urllib.parse import parse_qs

from ..errors import Invalid, MemwellError, ModelFailed

ANTHROPIC_URL = "https://api.anthropic.com"
BUILT_IN = ("openai", "anthropic")
GROUP = "memwell.completers"
TIMEOUT_S = 30.0
USAGE = (
    "MEMWELL_LLM is `none`, `openai:MODEL`, `openai:MODEL@http://HOST:PORT/v1`, `anthropic:MODEL`, "
    "`anthropic:MODEL@http://HOST:PORT` (optionally followed by `?timeout_s=30&tokens_per_day=100000`), or the name of "
    "an installed plugin."
)
Reason = Literal[
    "timeout", "rate_limited", "server_error", "unauthorised", "bad_request", "not_found", "unreachable", "not_installed",
    "cut", "too_large", "invalid_answer", "refused", "failed",
]  # fmt: skip
SENTENCES: dict[Reason, str] = {
    "timeout": "The model did not answer in time",
    "rate_limited": "The model's server asks for fewer requests",
    "server_error": "The model's server failed",
    "unauthorised": "The model's server does not accept the key",
    "bad_request": "The model's server does not accept the request",
    "not_found": "The model's server does not know this model or this address",
    "unreachable": "The model's server cannot be reached",
    "not_installed": "The model's package is missing",
    "cut": "The model's answer broke off",
    "too_large": "The model's answer is too large",
    "invalid_answer": "The answer of the model's server is not a completion",
    "refused": "The model refused",
    "failed": "The model failed",
}


class Tool(NamedTuple):
    """A tool that a model may call: `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ToolCall(NamedTuple):
    """A call that a model asks for. The arguments are as it wrote them: JSON, if it has done well."""

    id: str
    name: str
    arguments: str


class Message(NamedTuple):
    """One message of a prompt. An assistant's may hold calls of tools; a tool's names the call that it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Completion(NamedTuple):
    """An answer with its tokens, as the server counted them or else estimated.

    Of `tokens_in`, `tokens_cached` were found in the server's cache. `calls`: the tools to call before the model goes on.
    """

    text: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    calls: tuple[ToolCall, ...] = ()


class Completer(Protocol):
    """Continues messages. It returns or raises `ModelFailed` within `timeout_s`, however slowly a server drips.

    With a schema the answer should be JSON of that shape; callers check it all the same. It does not retry, and it may be
    called from several threads.
    """

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion: ...


@runtime_checkable
class Streamer(Protocol):
    """Continues messages bit by bit: pieces of text as they come, and as its last item the whole `Completion`.

    The promises are those of `complete`; `timeout_s` is for all of it, from when the first piece is asked for. It may fail
    after some pieces. Closing the iterator ends the call and its connection. A server that accepts no temperature is asked
    without one.
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


def stream_completion(
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
    wished = temperature_argument(completer, temperature)
    answer = completer.complete(messages, schema=None, max_tokens=max_tokens, timeout_s=timeout_s, **wished)
    if answer.text:
        yield answer.text
    yield answer


def temperature_argument(completer: Completer, temperature: float | None) -> dict[str, Any]:
    """The temperature as an argument of `complete`, if it takes one: the protocol does not require it."""
    accepts = "temperature" in signature(completer.complete).parameters
    return {"temperature": temperature} if accepts and temperature is not None else {}


def model_error(reason: Reason, **details: Any) -> ModelFailed:
    """The error for a reason. The details may hold the `tokens_in` and `tokens_out` that were spent all the same."""
    return ModelFailed(f"{SENTENCES[reason]} ({reason}).", reason=reason, **details)


def get_reason(error: ModelFailed) -> str:
    """The reason of a failure; errors of plugins may have none."""
    reason = error.details.get("reason")
    return reason if isinstance(reason, str) else "failed"


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is: a quarter of its bytes, which fits English and is near for Chinese."""
    return (len(text.encode(errors="replace")) + 3) // 4


def estimate_message(message: Message) -> int:
    """About how many tokens a message is, with its calls of tools."""
    return estimate_tokens(message.content + "".join(call.name + call.arguments for call in message.calls))


class LLMConfig(NamedTuple):
    """A model, its address, the time limit of one call, and the tokens that a tenant may spend in a day."""

    kind: str
    model: str
    url: str
    timeout_s: float
    tokens_per_day: int | None = None


def parse_llm(text: str, default_url: str) -> LLMConfig | None:
    """Parse the setting; None: no model. `default_url` is for all kinds without an address of their own."""
    kind, _, rest = text.strip().partition(":")
    if kind in ("", "none"):
        return None
    rest, _, query = rest.partition("?")
    name, at, address = rest.rpartition("@http")  # a model's name may hold `@` and `:`, but never `@http`
    model, url = (name, "http" + address) if at else (rest, ANTHROPIC_URL if kind == "anthropic" else default_url)
    try:
        options = parse_qs(query, strict_parsing=True) if query else {}
        (seconds,) = options.pop("timeout_s", [str(TIMEOUT_S)])
        (tokens,) = options.pop("tokens_per_day", [""])
        timeout_s, per_day = float(seconds), int(tokens) if tokens else None
    except ValueError:
        raise Invalid(USAGE) from None
    if options or not 0 < timeout_s <= 600 or (per_day is not None and per_day < 0):
        raise Invalid(USAGE)
    if kind in BUILT_IN and not model:
        raise Invalid(USAGE)
    return LLMConfig(kind, model, url, timeout_s, per_day)


def open_completer(wanted: LLMConfig, key: str) -> Completer:
    """Open a model. Nothing is sent yet."""
    if wanted.kind == "openai":
        from .openai_chat import OpenAIChat

        return OpenAIChat(wanted.model, wanted.url, key)
    if wanted.kind == "anthropic":
        from .anthropic_chat import AnthropicChat

        return AnthropicChat(wanted.model, wanted.url, key)
    from importlib.metadata import entry_points

    for plugin in entry_points(group=GROUP, name=wanted.kind):
        try:
            completer: Completer = plugin.load()(wanted.model)
        except MemwellError:
            raise
        except Exception as error:  # noqa: BLE001 -- somebody else's code, whose message may hold a key
            raise ModelFailed(f"The plugin {wanted.kind!r} cannot be loaded ({type(error).__name__}).") from None
        return completer
    raise Invalid(USAGE)
