"""Access: who is calling, what the caller may do, API keys and rate limits.

A principal comes only from the credential of the current call. A key is 32 random bytes behind a prefix; only a keyed hash
of it is stored. `dispatch.py` checks the scope of a key; operations with `any_scope` limit what they return by themselves.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, cast

import msgspec

from ..errors import Forbidden, RateLimited, StorageError, Unauthenticated, Unavailable
from ..ids import new_id

if TYPE_CHECKING:
    from ..clock import Clock
    from ..storage.port import Control
    from .operation import Operation

PREFIX = "mw_"
CACHE_S = 0.8
CACHED_KEYS = 10_000
SWEEP_S = 60
"""Time between two looks for expired keys."""
LARGEST_PORTION = 1 / 20
"""The share of a second's requests that one server takes at once."""
KEEP_S = 60
"""Seconds for which counts are kept, because the clock of another server may be behind."""


Role = Literal["reader", "agent", "admin", "operator"]
ROLES: tuple[Role, ...] = ("reader", "agent", "admin", "operator")
_RANKS = {role: rank for rank, role in enumerate(ROLES)}

OwnerKind = Literal["flow", "user"]


class Scope(msgspec.Struct, frozen=True):
    """The one flow or user that a key is limited to."""

    kind: OwnerKind
    name: str

    @property
    def digest(self) -> bytes:
        """A hash, where the name itself must not be stored."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=20).digest()

    def refusal(self) -> Forbidden:
        """The error for everything outside the scope. It does not reveal whether anything exists."""
        return Forbidden(f"This key is limited to one {self.kind}, and reaches nothing outside of that {self.kind}.")


class Principal(msgspec.Struct, frozen=True):
    """A tenant's caller. `actor` names the key or the process in events. `base` is the URL of the server as the caller knows it,
    such as `https://memory.example`; empty if it is embedded."""

    tenant: str
    role: Role
    actor: str = "local"
    scope: Scope | None = None
    base: str = ""

    def may(self, role: Role) -> bool:
        return _RANKS[self.role] >= _RANKS[role]

    @property
    def user(self) -> str | None:
        """The user that the caller is limited to, if any."""
        return self.scope.name if self.scope is not None and self.scope.kind == "user" else None

    def require_user(self, user: str | None) -> None:
        """Raise if the caller has a scope and that is not this user."""
        if self.scope is not None and (user is None or self.user != user):
            raise self.scope.refusal()

    def refuse_flow(self) -> None:
        """Raise if the caller is limited to a flow, before anything of users and apps is looked up."""
        self.require_user(self.user)


def authorise(principal: Principal, operation: Operation, request: Any) -> None:
    """Check the role of the caller, and the scope of its key against the owner that the request names."""
    if not principal.may(operation.role):
        require_role(principal, operation)
    scope = principal.scope
    if scope is None or operation.any_scope:
        return
    if operation.owner != scope.kind or getattr(request, scope.kind) != scope.name:
        raise scope.refusal()


def require_role(principal: Principal, operation: Operation) -> None:
    if not principal.may(operation.role):
        raise Forbidden(f"`{operation.name}` needs the role `{operation.role}`; this key has `{principal.role}`.")


class StoredKey(NamedTuple):
    """A key as it is stored, without its hash."""

    id: str
    tenant: str
    name: str
    role: str
    tie_kind: str | None
    tie_name: str | None
    rate: int | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def principal(self) -> Principal:
        scope = Scope(cast(OwnerKind, self.tie_kind), self.tie_name) if self.tie_kind and self.tie_name else None
        return Principal(self.tenant, cast(Role, self.role), f"key:{self.id}", scope)


def create_key(
    control: Control,
    tenant: str,
    name: str,
    role: Role,
    scope: Scope | None,
    rate: int | None,
    now: int,
    expires_at: int | None = None,
) -> tuple[str, str]:
    """Store a new key and return its id and its secret. The secret is stored nowhere."""
    key_id, secret = new_id(), PREFIX + secrets.token_urlsafe(32)
    control.renew()
    row = {
        "id": key_id,
        "tenant": tenant,
        "name": name,
        "hash": hash_secret(control.secret, secret),
        "role": role,
        "tie_kind": scope.kind if scope else None,
        "tie_name": scope.name if scope else None,
        "rate": rate,
        "now": now,
        "expires_at": expires_at,
    }
    control.write(("add_key", row))
    return key_id, secret


def create_first_key(control: Control, tenant: str, now: int) -> str | None:
    """Store an operator's key if no key exists, and return its secret. If several servers start, only one does."""
    secret = PREFIX + secrets.token_urlsafe(32)
    control.renew()
    row = {"id": new_id(), "tenant": tenant, "hash": hash_secret(control.secret, secret), "now": now}
    return secret if control.write(("hold_tenant", {"id": tenant}), ("add_first_key", row)) else None


def hash_secret(server_secret: bytes, secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(errors="replace"), key=server_secret, digest_size=32).digest()


class Authenticator:
    """Finds the principal of a secret. Results are cached for less than a second, so a revoked key soon fails."""

    def __init__(self, control: Control, clock: Clock, rate_limit: int = 0) -> None:
        self._control = control
        self._clock = clock
        self._rate_limit = rate_limit
        self._rates = RateLimits(control)
        self._cache: OrderedDict[str, tuple[float, _CachedKey]] = OrderedDict()
        self._renewed_at = -CACHE_S
        self._swept_at = -float(SWEEP_S)
        self._lock = Lock()

    def admit(self, secret: str | None, *, counted: bool = True) -> Principal:
        """Return the principal of a valid key that is within its rate; `counted=False` is for parts of an earlier request."""
        found = self._find_cached(secret) or self._find_stored(secret)
        if found is None or self._is_over(found.key):
            if found is not None and found.key.revoked_at is None:
                self._end_expired()
            raise Unauthenticated
        if self._is_limited(found.key, counted):
            self._rates.take(found.key.id, self._rate(found.key))
        return found.principal

    def admit_cached(self, secret: str | None, *, counted: bool = True) -> Principal | None:
        """Do the same from the cache alone. Return None if the store must be read."""
        found = self._find_cached(secret)
        if found is None or self._is_over(found.key):
            return None
        if self._is_limited(found.key, counted) and not self._rates.take_local(found.key.id):
            return None
        return found.principal

    def _find_cached(self, secret: str | None) -> _CachedKey | None:
        if not _is_plausible(secret):
            raise Unauthenticated
        known = self._cache.get(secret)
        return known[1] if known is not None and time.monotonic() - known[0] < CACHE_S else None

    def _find_stored(self, secret: str | None) -> _CachedKey | None:
        secret = secret or ""
        if time.monotonic() - self._swept_at >= SWEEP_S:
            self._end_expired()
        rows = self._control.rows("key_by_hash", hash=hash_secret(self._control.secret, secret))
        if not rows and self._has_new_secret():
            rows = self._control.rows("key_by_hash", hash=hash_secret(self._control.secret, secret))
        if not rows:
            return None
        key = StoredKey(*rows[0])
        found = _CachedKey(key, key.principal())
        with self._lock:
            self._cache[secret] = time.monotonic(), found
            while len(self._cache) > CACHED_KEYS:
                self._cache.popitem(last=False)
        return found

    def _end_expired(self) -> None:
        """Revoke expired keys, so that they stay invalid if the clock is set back."""
        self._swept_at = time.monotonic()
        with suppress(StorageError):
            self._control.hint("end_expired_keys", now=self._clock.now())

    def _has_new_secret(self) -> bool:
        """Return True if a restored backup has brought another secret. It reads the store, so it is called rarely."""
        now = time.monotonic()
        if now - self._renewed_at < CACHE_S:
            return False
        self._renewed_at = now
        return self._control.renew()

    def _is_limited(self, key: StoredKey, counted: bool) -> bool:
        """Return True if a request must be counted."""
        return counted and self._rate(key) > 0

    def _is_over(self, key: StoredKey) -> bool:
        """Return True if a key is revoked or has expired."""
        return key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= self._clock.now())

    def _rate(self, key: StoredKey) -> int:
        return self._rate_limit if key.rate is None else key.rate


class RateLimits:
    """Counts requests per second. All servers of a store share the count, and each takes it in portions."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        self._deleted_at = 0
        self._lock = Lock()

    def take_local(self, key_id: str) -> bool:
        """Count a request against this server's portion. Return False if the portion is used up."""
        share = self._share(key_id)
        with self._lock:
            taken = share.take()
        if share.spent and not taken:
            raise share.refusal()
        return taken

    def take(self, key_id: str, rate: int) -> None:
        """Count a request. Only one of the waiting requests takes a new portion from the store."""
        share = self._share(key_id)
        with share.gate:
            if not share.left and not share.spent:
                self._ask(key_id, rate, share)
            with self._lock:
                taken = share.take()
        if not taken:
            raise share.refusal()

    def _ask(self, key_id: str, rate: int, share: _Share) -> None:
        """Take a portion of the shared count. If nothing can be written, each server counts for itself."""
        try:
            granted = self._portion(key_id, rate, share)
            spent = not granted
            self._delete_old(share.second)
        except Unavailable:
            raise
        except StorageError:
            granted, spent = rate, True
        with self._lock:
            share.left += granted
            share.portion = granted * 2
            share.spent = spent

    def _portion(self, key_id: str, rate: int, share: _Share) -> int:
        # Portions start at one request and double, so that an idle server does not withhold requests from the others.
        largest = max(int(rate * LARGEST_PORTION), 1)
        asked = {"id": key_id, "second": share.second, "rate": rate}
        sizes = dict.fromkeys([min(share.portion, largest), 1])
        return next((size for size in sizes if self._control.hint("take_rate", size=size, **asked)), 0)

    def _delete_old(self, second: int) -> None:
        if second - self._deleted_at >= KEEP_S:
            self._deleted_at = second
            self._control.hint("forget_rates", second=second - KEEP_S)

    def _share(self, key_id: str) -> _Share:
        """This server's share of the current second."""
        second = int(time.time())
        with self._lock:
            share = self._shares.get(key_id)
            if share is None or share.second != second:
                share = self._shares[key_id] = _Share(second)
                self._shares.move_to_end(key_id)
                while len(self._shares) > CACHED_KEYS:
                    self._shares.popitem(last=False)
            return share


class _CachedKey(NamedTuple):
    key: StoredKey
    principal: Principal


class _Share:
    """A server's share of one second's requests."""

    __slots__ = ("gate", "left", "portion", "second", "spent")

    def __init__(self, second: int) -> None:
        self.second = second
        self.left = 0
        self.portion = 1
        self.spent = False
        self.gate = Lock()

    def take(self) -> bool:
        if not self.left:
            return False
        self.left -= 1
        return True

    def refusal(self) -> RateLimited:
        return RateLimited(retry_after_s=round(max(self.second + 1 - time.time(), 0), 3))


def _is_plausible(secret: str | None) -> TypeGuard[str]:
    return secret is not None and secret.startswith(PREFIX) and len(secret) <= 100
