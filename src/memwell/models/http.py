"""What the answer of a server amounts to: whatever it is, either a completion or a word for what is wrong with it."""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from itertools import product
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from .. import typed
from ..errors import Invalid, ModelFailed
from ..version import __version__
from .completer import Completion, Message, Reason, ToolCall, failed, missing, reason_of, tokens_of
from .endpoint import checked_url

MANY = 100_000_000
"""No server counts as many tokens for one call."""
T = TypeVar("T")


def decoded(body: bytes, shape: type[T]) -> T:
    """What the bytes say, if they have the shape that they should have."""
    try:
        return typed.decode(body, shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise failed("invalid_answer") from None


def counted(
    text: str, messages: Sequence[Message], counts: Sequence[int], calls: tuple[ToolCall, ...] = ()
) -> Completion:
    """A completion with the counts of its server (in, out, cached), or with estimates if those cannot be."""
    if counts and all(0 <= count < MANY for count in counts):
        came, went, *cached = counts
        return Completion(text, came, went, sum(cached), calls)
    return Completion(text, sum(map(tokens_of, messages)), tokens_of(Message("assistant", text, calls)), calls=calls)


def whole(said: Completion, *, refused: bool, cut: bool) -> Completion:
    """What was said, if the model has said all that it wanted to. What was spent is told all the same."""
    if refused:
        raise failed("refused", tokens_in=said.tokens_in, tokens_out=said.tokens_out)
    if cut:
        raise failed("cut", tokens_in=said.tokens_in, tokens_out=said.tokens_out)
    return said


# -- A limit in real time for work that may block anywhere: in a name server, a handshake, a header that drips.


THREAD = "memwell-model"
GRACE_S = 0.05
"""How long work that has told all that matters may take to end by itself."""


class _Over(NamedTuple):
    """The work has ended, well or with an error."""

    error: BaseException | None


class Flow(Generic[T]):
    """What some work yields, as it comes; `TimeoutError` when the time is over.

    No timeout of a socket bounds a whole answer: each byte that arrives starts it anew. So the work has a thread of its own,
    and whoever waits stops waiting. `give_up` must take away what the work waits for, so that the thread ends too. What has
    come in time is told whenever it is asked for. The work goes on meanwhile, so it must bound how much it yields itself.
    """

    def __init__(self, seconds: float, work: Callable[[], Iterable[T]], give_up: Callable[[], None]) -> None:
        self._until = time.monotonic() + seconds
        self._give_up = give_up
        self._given_up = False
        self._came: SimpleQueue[T | _Over] = SimpleQueue()
        self._thread = Thread(target=_run, args=(work, self._came), name=THREAD, daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            item = self._came.get(timeout=max(0.0, self._until - time.monotonic()))
        except Empty:
            self._end()
            raise TimeoutError from None
        if not isinstance(item, _Over):
            return item
        raise StopIteration if item.error is None else item.error

    def ended(self) -> bool:
        """Whether the work has ended by itself. What has not is given up."""
        if not self._given_up:
            self._thread.join(GRACE_S)
            if self._thread.is_alive():
                self._end()
        return not self._given_up

    def _end(self) -> None:
        self._given_up = True
        self._give_up()


def _run(work: Callable[[], Iterable[T]], came: SimpleQueue[T | _Over]) -> None:
    try:
        for item in work():
            came.put(item)
    except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
        came.put(_Over(error))
    else:
        came.put(_Over(None))


# -- Server-sent events, out of bytes as they come: https://html.spec.whatwg.org/multipage/server-sent-events.html.


OTHERS = frozenset({b"", b"event", b"id", b"retry"})
"""The fields that nothing here needs; the one without a name is a comment."""


def events(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    """The data of each event. One that breaks off is none; a line that belongs to no event is `invalid_answer`."""
    data: list[bytes] = []
    for line in _lines(parts, max_line):
        field, _, value = line.partition(b":")
        if not line and data:
            yield b"\n".join(data)
            data = []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field not in OTHERS:
            raise failed("invalid_answer")


def _lines(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
        if len(rest) > max_line:
            raise failed("too_large")


# -- Calls by a vendor's package that stay within a time, within a size, and with the server that is configured.
#
# The package builds the request; how long an answer may take and how large it may be is decided here, because the package
# reads whatever comes. The key is set by a hook on each request, so that no object of the package ever holds it, and the same
# hook removes what the package adds by itself (platform, versions, an organisation or headers found in the surroundings).
# Proxies are not taken from there either, and redirects are not followed: what was said goes to the address that is
# configured, and nowhere else.


MAX_ANSWER = 1024 * 1024
WRAPPING = 16
"""How many times larger a streamed answer may be: every few letters come with all that describes them."""
RAW = "x-stainless-raw-response"  # by this header the packages themselves know that they must not read the answer
SENT = frozenset({"host", "content-type", "content-length", "accept", "connection", "transfer-encoding", RAW})
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


class Vendor(NamedTuple):
    """What is a vendor's own: its package and extra, how that makes a client and asks, and headers that it wants."""

    package: str
    client: str
    create: Callable[[Any], Any]
    options: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}


class Guarded:
    """A vendor's package and one server; a server that wants no key is given none."""

    def __init__(self, vendor: Vendor, url: str, key: str, max_answer: int) -> None:
        if not key.isascii() or not (key.isprintable() or not key):
            raise Invalid("The key for the model holds a character that cannot be sent: check it.")
        self.url = checked_url(url)
        self.max_answer = max_answer
        self._vendor = vendor
        self._key = key
        self._package = _package(vendor.package)
        self._idle: list[_Line] = []
        self._closed = False

    def ask(self, request: Mapping[str, Any], until: float) -> bytes:
        """The whole body of an answer."""
        with closing(self._parts(request, until, self.max_answer)) as parts:
            return b"".join(parts)

    def open(self, request: Mapping[str, Any], until: float) -> Generator[bytes, None, None]:
        """The body of an answer as it comes. When this returns, the server has accepted the request."""
        parts = self._parts(request, until, self.max_answer * WRAPPING)
        next(parts)
        return parts

    def close(self) -> None:
        """End every line; one that is in use, when its call is over."""
        self._closed = True
        while self._idle:
            self._idle.pop().end()

    def _parts(self, request: Mapping[str, Any], until: float, limit: int) -> Generator[bytes, None, None]:
        """The parts of an answer, the first of them empty. A line that was cut to end a call is not used again."""
        left = until - time.monotonic()
        if left <= 0:
            raise failed("timeout")
        line = self._line()
        flow = Flow(left, lambda: line.read(request, until, limit), line.end)
        reason: Reason | None = None
        try:
            for part in flow:  # noqa: UP028 -- `yield from` would close the flow, which is done below
                yield part
        except TimeoutError:
            reason = "timeout"
        except Exception as error:  # noqa: BLE001 -- the package's, and those of two HTTP clients that it may stand on
            reason = _reason(error)
        finally:
            if flow.ended():
                self._idle.append(line)
            if self._closed:
                self.close()
        if reason is not None:
            raise failed(
                reason
            )  # outside of `except`: the package's errors carry the request, so none is left attached

    def _line(self) -> _Line:
        """One for each call under way: cutting it is how a call is ended, and must not end another one."""
        try:
            return self._idle.pop()
        except IndexError:
            return _Line(self._vendor, self._package, self.url, self._only_ours)

    def _only_ours(self, request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        request.headers.update(self._vendor.headers)
        request.headers["user-agent"] = f"memwell/{__version__}"
        request.headers["accept-encoding"] = "identity"  # so that a small answer cannot become a large one
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"


class _Line:
    """A client of the package, for one call at a time."""

    def __init__(self, vendor: Vendor, package: Any, url: str, only_ours: Callable[[Any], None]) -> None:
        client = _plain(package)(
            trust_env=False,
            follow_redirects=False,
            event_hooks={"request": [only_ours], "response": [self._only_good]},
            verify=url.startswith("https:"),  # without TLS, loading certificates is only slow
        )
        options = {"api_key": "unused", "base_url": url, "max_retries": 0, "http_client": client}
        self._client = getattr(package, vendor.client)(**options, **vendor.options)
        self._create = vendor.create(self._client)
        self._stream: Any = None

    def read(self, request: Mapping[str, Any], until: float, limit: int) -> Iterator[bytes]:
        """Nothing once the server has accepted the request, and then what comes."""
        size = 0
        with self._create(**request, timeout=max(0.01, until - time.monotonic())) as answer:
            yield b""
            for part in answer.http_response.iter_raw():
                size += len(part)
                if size > limit:
                    raise _Stopped("too_large")
                if time.monotonic() > until:
                    raise _Stopped("timeout")
                yield part

    def end(self) -> None:
        """Cut the connection. To close it is not enough: whoever reads from it in another thread would not notice."""
        if self._stream is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._stream.get_extra_info("socket"), socket.SHUT_RDWR)
        self._client.close()

    def _only_good(self, answer: Any) -> None:
        """Stop before the body of an error is read: it may be of any size, and is never shown."""
        self._stream = answer.extensions.get("network_stream")
        if answer.status_code != 200:
            status = answer.status_code
            raise _Stopped("server_error" if status >= 500 else STATUSES.get(status, "invalid_answer"))


class _Discreet(logging.Filter):
    """Keeps what a package tells of our requests out of logs: in many versions, that is all of them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != THREAD


_DISCREET = _Discreet()


class _Stopped(Exception):
    """The answer is not read any further."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def _package(name: str) -> Any:
    try:
        package = import_module(name)
    except ImportError:
        raise missing(name) from None
    for module in ("_base_client", "_response"):
        logging.getLogger(f"{name}.{module}").addFilter(_DISCREET)
    return package


def _plain(package: Any) -> Any:
    """The HTTP client that a package stands on. Its own version of it may take proxies from the surroundings in any case."""
    kinds = package.DefaultHttpxClient.__mro__
    return next(kind for kind in kinds if kind.__module__.partition(".")[0] != package.__name__)


def _reason(error: BaseException) -> Reason:
    """What went wrong, told by the innermost error: versions of a package wrap what happened differently."""
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


# -- Ways to ask a server: each is as good as the one before it, but for something that not every server accepts.


MOST = 1000


class Way(NamedTuple):
    """What to send: in which shape JSON is asked for, and whether the server is told to count and to be this warm."""

    shape: str = "text"
    counts: bool = False
    temperature: bool = False


def ways(shapes: Sequence[str], temperature: float | None, counts: Sequence[bool] = (False,)) -> tuple[Way, ...]:
    """From the best to the plainest. A temperature is the first thing to go, the shape the last."""
    warm = (False,) if temperature is None else (True, False)
    return tuple(Way(*each) for each in product(shapes, counts, warm))


def about(schema: Mapping[str, Any] | None) -> bytes:
    """What stands for a schema: a server may refuse one and take another."""
    if schema is None:
        return b""
    return hashlib.blake2b(msgspec.json.encode(schema, order="deterministic"), digest_size=16).digest()


class Ways:
    """Which ways a server has accepted so far, for each schema that it was asked about."""

    def __init__(self) -> None:
        self._accepted: dict[tuple[tuple[Way, ...], bytes], int] = {}

    def ask(self, given: tuple[Way, ...], ask: Callable[[Way], T], about: bytes = b"") -> T:
        """What the first way that is accepted brings. The next time it is the first to be tried."""
        found, last = (given, about), len(given) - 1
        if len(self._accepted) >= MOST:
            self._accepted.clear()
        for at in range(self._accepted.get(found, 0), last):
            try:
                answer = ask(given[at])
            except ModelFailed as error:
                if reason_of(error) != "bad_request":
                    raise
            else:
                self._accepted[found] = at
                return answer
        answer = ask(given[last])
        self._accepted[found] = last
        return answer
