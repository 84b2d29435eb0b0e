"""A model behind an OpenAI-compatible server: `POST <url>/chat/completions`, by the package `openai` (`memwell[openai]`).

The package builds the request; how long an answer may take and how large it may be is decided here, because the package
reads whatever comes. The key is set by a hook on each request, so that no object of the package ever holds it, and the same
hook removes what the package adds by itself (platform, versions, an organisation or headers found in the surroundings).
Proxies are not taken from there either, and redirects are not followed: what was said goes to the address that is
configured, and nowhere else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec

from ..errors import Invalid, ModelFailed
from ..version import __version__
from .address import checked_url, host_of
from .completer import Completion, Message, Reason, estimated_tokens, failed
from .deadline import THREAD, within

MAX_ANSWER = 1024 * 1024
RAW = "x-stainless-raw-response"  # by this header the package itself knows that it must not read the answer
SENT = frozenset({"host", "content-type", "content-length", "accept", "connection", "transfer-encoding", RAW})
FORMATS = ("json_schema", "json_object", "text")
OPENAI = "api.openai.com"
MANY = 100_000_000
STATUSES: dict[int, Reason] = {
    400: "bad_request",
    401: "unauthorised",
    403: "unauthorised",
    404: "not_found",
    408: "timeout",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limited",
}


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


class _Discreet(logging.Filter):
    """Keeps what the package tells of our requests out of logs: up to its third major version, that was all of them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != THREAD


_DISCREET = _Discreet()


class _Stopped(Exception):
    """The answer is not read any further."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class OpenAIChat:
    """A model by its name and its server's address; a server that wants no key is given none."""

    def __init__(self, model: str, url: str, key: str = "", *, max_answer: int = MAX_ANSWER) -> None:
        if not key.isascii() or not (key.isprintable() or not key):
            raise Invalid("The key for the model holds a character that cannot be sent: check it.")
        self._model = model
        self._url = checked_url(url)
        self._key = key
        self._max_answer = max_answer
        self._package = _package()
        self._idle: list[Any] = []
        self._format = 0
        self.id = f"openai:{model}@{host_of(url)}"

    def __repr__(self) -> str:
        return f"OpenAIChat({self.id!r})"

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion:
        until = time.monotonic() + timeout_s
        first = self._format
        for at in range(first, len(FORMATS)):
            request = self._request(messages, schema, FORMATS[at], max_tokens)
            try:
                body = self._ask(request, until)
            except ModelFailed as error:
                if error.details.get("reason") == "bad_request" and schema is not None and at + 1 < len(FORMATS):
                    continue  # perhaps the server does not know this way to ask for JSON
                raise
            self._format = at if schema is not None else first
            return _completion(body, messages)
        raise failed("bad_request")

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _request(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None, shape: str, max_tokens: int
    ) -> dict[str, Any]:
        """What to ask. OpenAI's newer models refuse the older words that all other servers understand."""
        request: dict[str, Any] = {"model": self._model, "messages": [message._asdict() for message in messages]}
        if host_of(self._url) == OPENAI:
            request |= {"max_completion_tokens": max_tokens}
        else:
            request |= {"max_tokens": max_tokens, "temperature": 0}
        if schema is not None and shape == "json_schema":
            named = {"name": "answer", "schema": dict(schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        elif schema is not None and shape == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _ask(self, request: dict[str, Any], until: float) -> bytes:
        """The body of the answer. A client that was closed to end a call is not used again."""
        left = until - time.monotonic()
        if left <= 0:
            raise failed("timeout")
        client = self._client()
        try:
            body = within(left, lambda: self._read(client, request, until), client.close)
        except TimeoutError:
            client.close()
            reason: Reason = "timeout"
        except Exception as error:  # noqa: BLE001 -- the package's, and those of two HTTP clients that it may stand on
            self._idle.append(client)
            reason = _reason(error)
        else:
            self._idle.append(client)
            return body
        raise failed(reason)  # outside of `except`: the package's errors carry the request, so none is left attached

    def _read(self, client: Any, request: dict[str, Any], until: float) -> bytes:
        parts = bytearray()
        left = max(0.01, until - time.monotonic())
        with client.chat.completions.with_streaming_response.create(**request, timeout=left) as answer:
            for part in answer.http_response.iter_raw():
                parts += part
                if len(parts) > self._max_answer:
                    raise _Stopped("too_large")
                if time.monotonic() > until:
                    raise _Stopped("timeout")
        return bytes(parts)

    def _client(self) -> Any:
        """One for each call under way: closing it is how a call is ended, and must not end another one."""
        try:
            return self._idle.pop()
        except IndexError:
            hooks = {"request": [self._only_ours], "response": [_only_good]}
            http = self._package.DefaultHttpxClient(
                trust_env=False,
                follow_redirects=False,
                event_hooks=hooks,
                verify=self._url.startswith("https:"),  # without TLS, loading certificates is only slow
            )
            return self._package.OpenAI(api_key="unused", base_url=self._url, max_retries=0, http_client=http)

    def _only_ours(self, request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        request.headers["user-agent"] = f"memwell/{__version__}"
        request.headers["accept-encoding"] = "identity"  # so that a small answer cannot become a large one
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"


def _only_good(response: Any) -> None:
    """Stop before the body of an error is read: it may be of any size, and is never shown."""
    if response.status_code != 200:
        status = response.status_code
        raise _Stopped("server_error" if status >= 500 else STATUSES.get(status, "invalid_answer"))


def _package() -> Any:
    try:
        package = import_module("openai")
    except ImportError:
        raise failed("not_installed") from None
    logging.getLogger("openai._base_client").addFilter(_DISCREET)
    return package


def _reason(error: BaseException) -> Reason:
    """What went wrong, told by the innermost error: versions of the package wrap what happened differently."""
    inner: BaseException | None = error
    names: list[str] = []
    while inner is not None:
        if isinstance(inner, _Stopped):
            return inner.reason
        names.append(type(inner).__name__)
        inner = inner.__cause__
    if any("Timeout" in name for name in names):
        return "timeout"
    if any(name in ("RemoteProtocolError", "ReadError", "IncompleteRead") for name in names):
        return "cut"
    return "unreachable" if any("Connect" in name for name in names) else "failed"


def _completion(body: bytes, messages: Sequence[Message]) -> Completion:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise failed("invalid_answer") from None
    if not answer.choices:
        raise failed("invalid_answer")
    choice = answer.choices[0]
    text = choice.message.content or ""
    tokens_in, tokens_out = _usage(answer.usage, messages, text)
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise failed("refused", tokens_in=tokens_in, tokens_out=tokens_out)
    if choice.finish_reason == "length":
        raise failed("cut", tokens_in=tokens_in, tokens_out=tokens_out)
    return Completion(text, tokens_in, tokens_out)


def _usage(given: Any, messages: Sequence[Message], text: str) -> tuple[int, int]:
    """As the server counted, if it counted in a way that can be."""
    try:
        usage = msgspec.convert(given, _Usage)
    except msgspec.ValidationError:
        usage = _Usage(-1, -1)
    if 0 <= usage.prompt_tokens < MANY and 0 <= usage.completion_tokens < MANY:
        return usage.prompt_tokens, usage.completion_tokens
    return sum(estimated_tokens(message.content) for message in messages), estimated_tokens(text)
