"""Every error that Memwell raises, in one tree.

    MemwellError
    ├── Invalid              the request is wrong; the sentence says what to change
    │   ├── TooLarge         … because something in it is too big
    │   ├── NotAllowed       … because that method is not possible at that address
    │   └── WrongType        … because its body is of another type
    ├── Unauthenticated      no key, or one that is not valid
    ├── Forbidden            the key may not do this
    ├── NotFound             nothing there, or it belongs to somebody else
    ├── Conflict             it cannot be done in this state
    │   ├── Stale            the version that you expected is not the current one
    │   ├── Ambiguous        the name fits several things; say which
    │   ├── KeyReused        an idempotency key was sent with another request
    │   └── Erased           what this request once wrote has been erased
    ├── RateLimited          too many requests with this key
    ├── NodeFailed           node code raised, or could not be run
    ├── ModelFailed          a model could not be loaded, or did not answer as it should
    └── StorageError         the data directory or database failed
        ├── Unavailable      try again: busy, timed out or not reachable
        │   └── LeaseLost    a worker lost its job to another one
        ├── StorageFull      no room left, or a disk that cannot be written
        ├── Corrupted        a file is damaged; nothing was changed
        └── Unsupported      this program cannot open that data

A class's docstring is its default message. `code` is what travels over HTTP, `status` is the HTTP status and `exit_code`
what the command line returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class MemwellError(Exception):
    """Something went wrong inside Memwell. This is a bug: please report it."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 70

    def __init__(self, message: str | None = None, /, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or "").split("\n")[0]
        self.details: dict[str, Any] = details
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.details)


class Invalid(MemwellError):
    """The request is not valid."""

    code, status, exit_code = "invalid", 400, 2


class TooLarge(Invalid):
    """The request is too large."""

    code, status = "too_large", 413


class NotAllowed(Invalid):
    """This method is not supported here."""

    code, status = "method_not_allowed", 405


class WrongType(Invalid):
    """The body is not of a type that this operation reads."""

    code, status = "unsupported_media_type", 415


class Unauthenticated(MemwellError):
    """A valid API key is needed: send it as `Authorization: Bearer mw_…`, or run `memwell login`."""

    code, status, exit_code = "unauthenticated", 401, 77


class Forbidden(MemwellError):
    """This API key may not do that."""

    code, status, exit_code = "forbidden", 403, 77


class NotFound(MemwellError):
    """There is nothing at that address."""

    code, status, exit_code = "not_found", 404, 4


class Conflict(MemwellError):
    """The current state does not allow this."""

    code, status, exit_code = "conflict", 409, 5


class Stale(Conflict):
    """It has changed since you read it: read it again and repeat the change."""

    code, status = "stale", 412


class Ambiguous(Conflict):
    """The name matches several things: be more specific."""

    code = "ambiguous"


class KeyReused(Conflict):
    """This Idempotency-Key was already used for another request: use a new key for a new request."""

    code, status = "idempotency_key_reused", 422


class Erased(Conflict):
    """The data of this request has been erased since; it is not written again."""

    code, status = "erased", 410


class RateLimited(MemwellError):
    """Too many requests with this key: wait a moment and try again."""

    code, status, exit_code = "rate_limited", 429, 75


class NodeFailed(MemwellError):
    """The node did not return a reply."""

    code, status, exit_code = "node_failed", 500, 1


class ModelFailed(MemwellError):
    """A model could not be used."""

    code, status, exit_code = "model_failed", 502, 69


class StorageError(MemwellError):
    """The data directory could not be used."""

    code, status, exit_code = "storage", 500, 74


class Unavailable(StorageError):
    """Memwell is busy or cannot be reached: try again in a moment."""

    code, status, exit_code = "unavailable", 503, 75


class LeaseLost(Unavailable):
    """This worker's lease on the job ran out and another worker has it now."""

    code = "lease_lost"


class StorageFull(StorageError):
    """The disk is full or cannot be written: free some space; nothing was lost and writing heals by itself."""

    code, status = "storage_full", 507


class Corrupted(StorageError):
    """A database file is damaged: run `memwell doctor`, then restore it from a backup. Nothing was changed."""

    code = "corrupted"


class Unsupported(StorageError):
    """This version of Memwell cannot open that data."""

    code = "unsupported"


def tree(root: type[MemwellError] = MemwellError) -> Iterator[type[MemwellError]]:
    """Every error class, the root first."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def from_code(code: str, message: str, details: Mapping[str, Any]) -> MemwellError:
    """Rebuild an error that travelled over a wire."""
    kind = next((kind for kind in tree() if kind.code == code), MemwellError)
    return kind(message, **details)


def _rebuild(kind: type[MemwellError], message: str, details: dict[str, Any]) -> MemwellError:
    return kind(message, **details)
