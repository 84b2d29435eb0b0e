"""A chat model behind HTTP. Every call is limited in time and size, whatever the server does.

`ChatModel` is the part that all protocols share. `openai_chat` and `anthropic_chat` build the requests and read the answers.
A call returns a completion or raises `ModelFailed` with a `Reason`. Prompts are sent to the configured address only: there are
no proxies and no redirects, and errors and logs contain no keys and no texts.
"""

from __future__ import annotations

import hashlib
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from itertools import product
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from .. import typed
from ..errors import Invalid, ModelFailed
from ..version import __version__
from .completer import Completion, Message, Reason, Tool, ToolCall, estimate_message, get_reason, model_error

MAX_ANSWER = 1024 * 1024
MAX_FAILURE = 16 * 1024
"""Bytes of an error that are read for its message."""
MAX_SAID = 500
"""Characters of that message that are shown."""
FAILURE_S = 1.0
"""Time to wait for the next part of an error's body."""
MAX_RETRY_AFTER_S = 3600.0
STREAM_OVERHEAD = 16
"""The factor by which a streamed answer may be larger, because every few letters come in an event of their own."""
MAX_TOKENS = 100_000_000  # larger counts are ignored
STATUS_REASONS: dict[int, Reason] = {
    400: "bad_request",
    401: "unauthorised",
    403: "unauthorised",
    404: "not_found",
    408: "timeout",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limited",
}
INVALID_URL = "The model's address is not valid. Use an address such as http://127.0.0.1:11434/v1."
T = TypeVar("T")


class RequestOptions(NamedTuple):
    """The parts of a request that a server may refuse: the format of JSON, token counts in a stream, a temperature."""

    format: str = "text"
    counts: bool = False
    temperature: bool = False


def list_options(
    formats: Sequence[str], temperature: float | None, counts: Sequence[bool] = (False,)
) -> tuple[RequestOptions, ...]:
    """All combinations of options, in the order to try them. The temperature is dropped first, the format last."""
    temperatures = (False,) if temperature is None else (True, False)
    return tuple(RequestOptions(*each) for each in product(formats, counts, temperatures))


class Fallbacks:
    """Remembers which options a server accepts for each schema, because it may refuse one schema and accept another."""

    MAX_ENTRIES = 1000

    def __init__(self) -> None:
        self._accepted: dict[tuple[tuple[RequestOptions, ...], bytes], int] = {}

    def ask(
        self,
        options: tuple[RequestOptions, ...],
        ask: Callable[[RequestOptions], T],
        schema: Mapping[str, Any] | None = None,
    ) -> T:
        """Call `ask` with one option after the other until the server accepts one, beginning with the last accepted one."""
        encoded = b"" if schema is None else msgspec.json.encode(schema, order="deterministic")
        key = (options, hashlib.blake2b(encoded, digest_size=16).digest())
        if len(self._accepted) >= self.MAX_ENTRIES:
            self._accepted.clear()
        last = len(options) - 1
        for at in range(self._accepted.get(key, 0), last + 1):
            try:
                answer = ask(options[at])
            except ModelFailed as error:
                if at == last or get_reason(error) != "bad_request":
                    raise
            else:
                self._accepted[key] = at
                return answer
        raise AssertionError("unreachable: the last option returns or raises")


class ChatModel(ABC):
    """A model, by its name and its server's address. It implements `Completer`, `Streamer` and `Caller`."""

    PROVIDER: ClassVar[str]
    PATH: ClassVar[str]
    HEADERS: ClassVar[Mapping[str, str]] = {}
    FORMATS: ClassVar[tuple[str, ...]]
    COUNTS: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, model: str, url: str, key: str = "") -> None:
        self._model = model
        self._server = ChatServer(url, self.PATH, key, self.HEADERS)
        self._fallbacks = Fallbacks()
        self.id = f"{self.PROVIDER}:{model}@{get_host(url)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        until = time.monotonic() + timeout_s
        temperature = self.adjust_temperature(temperature)

        def ask(options: RequestOptions) -> bytes:
            request = self.build_request(messages, max_tokens, temperature if options.temperature else None)
            if schema is not None:
                request |= self.build_format(options.format, schema)
            return self._server.post(request, until)

        options = list_options(("text",) if schema is None else self.FORMATS, temperature)
        return self.read_answer(self._fallbacks.ask(options, ask, schema), messages)

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Generator[str | Completion, None, None]:
        until = time.monotonic() + timeout_s
        temperature = self.adjust_temperature(temperature)

        def ask(options: RequestOptions) -> Generator[bytes, None, None]:
            request = self.build_request(messages, max_tokens, temperature if options.temperature else None)
            request |= {"stream": True} | ({"stream_options": {"include_usage": True}} if options.counts else {})
            return self._server.open_stream(request, until)

        with closing(self._fallbacks.ask(list_options(("text",), temperature, self.COUNTS), ask)) as parts:
            yield from self.read_stream(parse_events(parts, MAX_ANSWER), messages)

    def call(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        until = time.monotonic() + timeout_s
        temperature = self.adjust_temperature(temperature)

        def ask(options: RequestOptions) -> bytes:
            request = self.build_request(messages, max_tokens, temperature if options.temperature else None)
            return self._server.post(request | {"tools": [self.build_tool(tool) for tool in tools]}, until)

        return self.read_tool_calls(self._fallbacks.ask(list_options(("text",), temperature), ask), messages)

    def close(self) -> None:
        self._server.close()

    def adjust_temperature(self, temperature: float | None) -> float | None:
        """Return the temperature to send; None if the server accepts none."""
        return temperature

    @abstractmethod
    def build_request(
        self, messages: Sequence[Message], max_tokens: int, temperature: float | None
    ) -> dict[str, Any]: ...

    @abstractmethod
    def build_format(self, format: str, schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
        """The fields that ask for JSON in one of `FORMATS`."""

    @abstractmethod
    def build_tool(self, tool: Tool) -> dict[str, Any]: ...

    @abstractmethod
    def read_answer(self, body: bytes, messages: Sequence[Message]) -> Completion: ...

    def read_tool_calls(self, body: bytes, messages: Sequence[Message]) -> Completion:
        return self.read_answer(body, messages)

    @abstractmethod
    def read_stream(
        self, events: Iterable[bytes], messages: Sequence[Message]
    ) -> Generator[str | Completion, None, None]:
        """Yield the pieces of a streamed answer, and then the whole completion."""


# -- Answers


def decode_answer(body: bytes, kind: type[T]) -> T:
    try:
        return typed.decode(body, kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise model_error("invalid_answer") from None


def build_completion(
    text: str,
    messages: Sequence[Message],
    counts: tuple[int, ...],
    calls: tuple[ToolCall, ...] = (),
    *,
    refused: bool,
    cut: bool,
) -> Completion:
    """Build a completion with the server's counts (in, out, cached), or with estimates if these are missing or absurd.

    If the answer was refused or cut, raise an error that holds the tokens spent.
    """
    if not counts or not all(0 <= count < MAX_TOKENS for count in counts):
        counts = sum(map(estimate_message, messages)), estimate_message(Message("assistant", text, calls)), 0
    tokens_in, tokens_out, cached = counts
    if refused or cut:
        raise model_error("refused" if refused else "cut", tokens_in=tokens_in, tokens_out=tokens_out)
    return Completion(text, tokens_in, tokens_out, cached, calls)


# -- The HTTP client


def check_url(url: str) -> str:
    """Return the address without a slash at its end. Reject one with a password, because HTTP clients log addresses."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid(INVALID_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise Invalid(INVALID_URL)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid("The model's address must not contain a user, a password, `?` or `#`: set the key separately.")
    return url.rstrip("/")


def get_host(url: str) -> str:
    """The host and port of an address, without a user or password."""
    return urlsplit(url).netloc.rpartition("@")[2]


class ChatServer:
    """The address of a server, with a pool of idle connections."""

    def __init__(self, url: str, path: str, key: str, headers: Mapping[str, str]) -> None:
        import httpx

        if not key.isascii() or not (key.isprintable() or not key):
            raise Invalid("The key for the model contains a character that cannot be sent.")
        self.url, self.key = check_url(url), key
        self._path = path
        self._headers = {
            "accept": "application/json",
            "accept-encoding": "identity",  # so that a small answer cannot be decompressed to a huge one
            "user-agent": f"memwell/{__version__}",
            **({"authorization": f"Bearer {key}"} if key else {}),
            **headers,
        }
        # Loading certificates is slow, so it is done once for all connections, and only for TLS.
        self._tls: Any = httpx.create_ssl_context(trust_env=False) if self.url.startswith("https:") else False
        self._idle: list[_Connection] = []
        self._closed = False

    def post(self, request: Mapping[str, Any], until: float) -> bytes:
        """Return the whole body of an answer."""
        with closing(self._read(request, until, MAX_ANSWER)) as parts:
            return b"".join(parts)

    def open_stream(self, request: Mapping[str, Any], until: float) -> Generator[bytes, None, None]:
        """Return the body of an answer as a stream. When this returns, the server has accepted the request."""
        parts = self._read(request, until, MAX_ANSWER * STREAM_OVERHEAD)
        next(parts)
        return parts

    def close(self) -> None:
        """Close every connection. One that is in use is closed when its call is over."""
        self._closed = True
        while self._idle:
            self._idle.pop().cut()

    def _read(self, request: Mapping[str, Any], until: float, limit: int) -> Generator[bytes, None, None]:
        """Yield the parts of an answer, the first of them empty. A connection that was cut is not used again."""
        left = until - time.monotonic()
        if left <= 0:
            raise model_error("timeout")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self.url, self._path, self._headers, self._tls, self.key)
        stream = TimedStream(left, lambda: connection.read(request, until, limit), connection.cut)
        reason: Reason | None = None
        details: dict[str, Any] = {}
        try:
            for part in stream:  # noqa: UP028 -- `yield from` would close the stream, which is done below
                yield part
        except TimeoutError:
            reason = "timeout"
        except Exception as error:  # noqa: BLE001 -- raised below as an error without any text of the request
            reason = _find_reason(error)
            details = {name: value for name, value in getattr(error, "details", {}).items() if name != "reason"}
        finally:
            if stream.finish():
                self._idle.append(connection)
            if self._closed:
                self.close()
        # This is outside of `except`, so that the error of httpx, which holds the request, is not attached as its context.
        if reason is not None:
            raise model_error(reason, **details)


class _Connection:
    """An HTTP client for one call at a time. Cutting the connection cancels its call, and must not cancel another one."""

    def __init__(self, url: str, path: str, headers: Mapping[str, str], tls: Any, key: str) -> None:
        import httpx

        self._url = url + path
        self._key = key
        self._client = httpx.Client(headers=headers, verify=tls, trust_env=False, follow_redirects=False)
        self._stream: Any = None

    def read(self, request: Mapping[str, Any], until: float, limit: int) -> Iterator[bytes]:
        """Yield an empty part when the server has accepted the request, and then the parts of the body."""
        size = 0
        timeout_s = max(0.01, until - time.monotonic())
        with self._client.stream("POST", self._url, json=request, timeout=timeout_s) as answer:
            self._stream = answer.extensions.get("network_stream")
            if answer.status_code != 200:
                raise self._read_failure(answer)
            yield b""
            for part in answer.iter_raw():
                size += len(part)
                if size > limit:
                    raise model_error("too_large")
                if time.monotonic() > until:
                    raise model_error("timeout")
                yield part

    def _read_failure(self, answer: Any) -> ModelFailed:
        """Return the error for a status, with what the server says. Only the beginning of its body is read, if it comes soon.

        Servers repeat the key in answers about the key, so these are not shown."""
        import httpx

        status, body = answer.status_code, b""
        details: dict[str, Any] = {}
        if (seconds := parse_retry_after(answer.headers)) is not None:
            details["retry_after_s"] = seconds
        if status >= 400 and STATUS_REASONS.get(status) != "unauthorised":
            answer.request.extensions["timeout"] = {**answer.request.extensions["timeout"], "read": FAILURE_S}
            until = time.monotonic() + FAILURE_S
            with suppress(httpx.HTTPError):
                for part in answer.iter_raw():
                    body += part
                    if len(body) >= MAX_FAILURE or time.monotonic() > until:
                        break
            details |= describe_failure(body, self._key)
        reason = "server_error" if status >= 500 else STATUS_REASONS.get(status, "invalid_answer")
        return model_error(reason, **details)

    def cut(self) -> None:
        """Shut the socket down. Closing it is not enough, because a thread that reads from it would not notice."""
        if self._stream is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._stream.get_extra_info("socket"), socket.SHUT_RDWR)
        self._client.close()


def _find_reason(error: Exception) -> Reason:
    import httpx

    if isinstance(error, ModelFailed):
        reason: Reason = error.details["reason"]
        return reason
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return "cut"
    return "unreachable" if isinstance(error, httpx.TransportError) else "failed"


def describe_failure(body: bytes, key: str) -> dict[str, str]:
    """Return the message in the body of an error as a detail, on one line and without the key; nothing if it has none."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    for name in ("error", "message", "detail"):  # a message, or an object with one
        while isinstance(found, dict) and found.get(name):
            found = found[name]
    text = " ".join(found.split()) if isinstance(found, str) else ""
    text = "".join(one for one in text if one.isprintable())
    text = text.replace(key, "[key]") if key else text
    return {"said": text if len(text) <= MAX_SAID else f"{text[:MAX_SAID]}…"} if text else {}


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which a server wants to be asked again. A date is compared with the server's own time."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text) if text[:1].isdigit() else _read_date(text) - _read_date(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _read_date(text: str) -> float:
    return parsedate_to_datetime(text).timestamp()


# -- A limit of the total time


class _End(NamedTuple):
    error: BaseException | None


class TimedStream(Generic[T]):
    """The items of an iterable that may block. Raises `TimeoutError` when the time is over.

    A timeout of a socket does not limit a whole answer: it starts again with every byte, and does not cover name servers and
    handshakes. So the work runs in a thread of its own. `cancel` must close what the work waits for, so that the thread ends
    too. Items that came in time are returned even if they are read later.
    """

    THREAD = "memwell-model"
    GRACE_S = 0.05  # the time that work has to end by itself after its last item

    def __init__(self, seconds: float, work: Callable[[], Iterable[T]], cancel: Callable[[], None]) -> None:
        self._until = time.monotonic() + seconds
        self._work = work
        self._cancel = cancel
        self._cancelled = False
        self._items: SimpleQueue[T | _End] = SimpleQueue()
        self._thread = Thread(target=self._run, name=self.THREAD, daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            item = self._items.get(timeout=max(0.0, self._until - time.monotonic()))
        except Empty:
            self._stop()
            raise TimeoutError from None
        if not isinstance(item, _End):
            return item
        raise StopIteration if item.error is None else item.error

    def finish(self) -> bool:
        """Cancel the work unless it has ended. Return True if it ended by itself."""
        if not self._cancelled:
            self._thread.join(self.GRACE_S)
            if self._thread.is_alive():
                self._stop()
        return not self._cancelled

    def _stop(self) -> None:
        self._cancelled = True
        self._cancel()

    def _run(self) -> None:
        try:
            for item in self._work():
                self._items.put(item)
        except BaseException as error:  # noqa: BLE001 -- raised again in `__next__`
            self._items.put(_End(error))
        else:
            self._items.put(_End(None))


# -- Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html

OTHER_FIELDS = frozenset({b"", b"event", b"id", b"retry"})  # a line whose field has no name is a comment


def parse_events(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    """Yield the data of each complete event. A line that is not part of an event is an `invalid_answer`."""
    data: list[bytes] = []
    for line in _split_lines(parts, max_line):
        field, _, value = line.partition(b":")
        if not line and data:
            yield b"\n".join(data)
            data = []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field not in OTHER_FIELDS:
            raise model_error("invalid_answer")


def _split_lines(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
        if len(rest) > max_line:
            raise model_error("too_large")
