"""Language models: the interface that callers use, and the setting `MEMWELL_LLM` that chooses one.

Every failure is a `ModelFailed` whose `details["reason"]` is a `Reason`, which jobs show. Its message contains the reason, but
nothing from outside: no key, and no text that was sent or received. What the server itself said about the failure is in
`details["said"]`, without the key. Steps of runs show it, and it is erased with them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from inspect import signature
from ipaddress import ip_address
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable
from urllib.parse import parse_qs, urlsplit

from ..errors import Invalid, MemwellError, ModelFailed

ANTHROPIC_URL = "https://api.anthropic.com"
BUILT_IN = ("openai", "anthropic")
GROUP = "memwell.completers"
TIMEOUT_S = 30.0
LOCAL_TIMEOUT_S = 120.0
"""The time limit of a call to a model on the same machine or network, which may read a prompt on a processor."""
USAGE = (
    "MEMWELL_LLM is `none`, `openai:MODEL`, `openai:MODEL@http://HOST:PORT/v1`, `anthropic:MODEL`, "
    "`anthropic:MODEL@http://HOST:PORT` (optionally followed by `?timeout_s=60&tokens_per_day=100000`), or the name of "
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
    """A tool call that a model requests. The arguments are the text that it wrote, which may not be valid JSON."""

    id: str
    name: str
    arguments: str


class Message(NamedTuple):
    """One message of a prompt. An assistant's message may hold tool calls; a tool's names the call that it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Completion(NamedTuple):
    """An answer with its token counts, from the server or else estimated.

    `tokens_cached` is the part of `tokens_in` that the server found in its cache. `calls` are the tools to call before the
    model continues.
    """

    text: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    calls: tuple[ToolCall, ...] = ()


class Completer(Protocol):
    """Continues messages. It returns or raises `ModelFailed` within `timeout_s`, however slowly the server answers.

    With a schema, the answer should be JSON of that shape, but callers must check it. It does not retry, and it may be
    called from several threads.
    """

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion: ...


@runtime_checkable
class Streamer(Protocol):
    """Continues messages as a stream: pieces of text, and the whole `Completion` as the last item.

    The guarantees are those of `complete`. `timeout_s` covers the whole stream, from the request for its first piece. It may
    fail after some pieces. Closing the iterator ends the call and its connection. If the server accepts no temperature, none
    is sent.
    """

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Iterator[str | Completion]: ...


@runtime_checkable
class Caller(Protocol):
    """Continues messages, and may request tool calls before it answers. The guarantees are those of `complete`."""

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
    """Stream an answer from any model. A model that cannot stream yields its answer as one piece."""
    if isinstance(completer, Streamer):
        yield from completer.stream(messages, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature)
        return
    extra = temperature_argument(completer, temperature)
    answer = completer.complete(messages, schema=None, max_tokens=max_tokens, timeout_s=timeout_s, **extra)
    if answer.text:
        yield answer.text
    yield answer


def temperature_argument(completer: Completer, temperature: float | None) -> dict[str, Any]:
    """The temperature as an argument of `complete`, if it takes one: the protocol does not require it."""
    accepts = "temperature" in signature(completer.complete).parameters
    return {"temperature": temperature} if accepts and temperature is not None else {}


def model_error(reason: Reason, **details: Any) -> ModelFailed:
    """Build the error for a reason. The details may hold the `tokens_in` and `tokens_out` that the failed call cost."""
    return ModelFailed(f"{SENTENCES[reason]} ({reason}).", reason=reason, **details)


def explain_failure(error: MemwellError) -> str:
    """Return the message of an error, with what the model's server said about it, and when it wants to be asked again."""
    said, seconds = error.details.get("said"), error.details.get("retry_after_s")
    later = f" It asks to wait {seconds:g} seconds." if seconds else ""
    return f"{error.message}{later} The server says: {said}" if said else f"{error.message}{later}"


def get_reason(error: ModelFailed) -> str:
    """The reason of a failure; errors of plugins may have none."""
    reason = error.details.get("reason")
    return reason if isinstance(reason, str) else "failed"


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: a quarter of its bytes, which fits English and is close for Chinese."""
    return (len(text.encode(errors="replace")) + 3) // 4


def estimate_message(message: Message) -> int:
    """Estimate the number of tokens of a message with its tool calls."""
    return estimate_tokens(message.content + "".join(call.name + call.arguments for call in message.calls))


class LLMConfig(NamedTuple):
    """A model, its address, the time limit of one call, and the tokens that a tenant may spend in a day."""

    kind: str
    model: str
    url: str
    timeout_s: float
    tokens_per_day: int | None = None


def parse_llm(text: str, default_url: str) -> LLMConfig | None:
    """Parse the setting; None if it chooses no model. `default_url` is the address if the setting has none."""
    kind, _, rest = text.strip().partition(":")
    if kind in ("", "none"):
        return None
    rest, _, query = rest.partition("?")
    name, at, address = rest.rpartition("@http")  # a model's name may hold `@` and `:`, but never `@http`
    model, url = (name, "http" + address) if at else (rest, ANTHROPIC_URL if kind == "anthropic" else default_url)
    try:
        options = parse_qs(query, strict_parsing=True) if query else {}
        (seconds,) = options.pop("timeout_s", [str(default_timeout(url))])
        (tokens,) = options.pop("tokens_per_day", [""])
        timeout_s, per_day = float(seconds), int(tokens) if tokens else None
    except ValueError:
        raise Invalid(USAGE) from None
    if options or not 0 < timeout_s <= 600 or (per_day is not None and per_day < 0):
        raise Invalid(USAGE)
    if kind in BUILT_IN and not model:
        raise Invalid(USAGE)
    return LLMConfig(kind, model, url, timeout_s, per_day)


def default_timeout(url: str) -> float:
    return LOCAL_TIMEOUT_S if is_local(url) else TIMEOUT_S


def is_local(url: str) -> bool:
    """Return True if an address is on the same machine or in a private network: loopback, private, or a name without a domain."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".local", ".internal", ".localhost", ".lan")))
    return address.is_loopback or address.is_private or address.is_link_local


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
        except Exception as error:  # noqa: BLE001 -- a plugin may raise anything, with a key in the message
            raise ModelFailed(f"The plugin {wanted.kind!r} cannot be loaded ({type(error).__name__}).") from None
        return completer
    raise Invalid(USAGE)
