"""Calls by a vendor's package that stay within a time, within a size, and with the server that is configured.

The package builds the request; how long an answer may take and how large it may be is decided here, because the package
reads whatever comes. The key is set by a hook on each request, so that no object of the package ever holds it, and the same
hook removes what the package adds by itself (platform, versions, an organisation or headers found in the surroundings).
Proxies are not taken from there either, and redirects are not followed: what was said goes to the address that is
configured, and nowhere else.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import Invalid
from ..version import __version__
from .address import checked_url
from .completer import Reason, failed, missing
from .deadline import THREAD, Flow

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
