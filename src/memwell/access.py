"""API keys: 32 random bytes behind a prefix. Only a keyed hash is stored; the check costs microseconds."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple, TypeGuard, cast

from .clock import Clock
from .errors import RateLimited, Unauthenticated
from .ids import new_id
from .model.principal import Bound, Principal, Role, Tie
from .storage.port import Control

PREFIX = "mw_"
CACHE_S = 0.8
CACHED_KEYS = 10_000


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
        tie = Tie(cast(Bound, self.tie_kind), self.tie_name) if self.tie_kind and self.tie_name else None
        return Principal(self.tenant, cast(Role, self.role), f"key:{self.id}", tie)


def create_key(
    control: Control,
    tenant: str,
    name: str,
    role: Role,
    tie: Tie | None,
    rate: int | None,
    now: int,
    expires_at: int | None = None,
) -> tuple[str, str]:
    """Make a key; returns its id and its secret, which is nowhere else."""
    key_id, secret = new_id(), PREFIX + secrets.token_urlsafe(32)
    row = {
        "id": key_id,
        "tenant": tenant,
        "name": name,
        "hash": hashed(control.secret, secret),
        "role": role,
        "tie_kind": tie.kind if tie else None,
        "tie_name": tie.name if tie else None,
        "rate": rate,
        "now": now,
        "expires_at": expires_at,
    }
    control.write(("add_key", row))
    return key_id, secret


def hashed(server_secret: bytes, secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(errors="replace"), key=server_secret, digest_size=32).digest()


class Doorman:
    """Tells whom a secret speaks for. Answers are kept for less than a second, so a revoked key is useless by then."""

    def __init__(self, control: Control, clock: Clock, rate_limit: int = 0) -> None:
        self._control = control
        self._clock = clock
        self._rate_limit = rate_limit
        self._known: OrderedDict[str, tuple[float, StoredKey, Principal]] = OrderedDict()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def admit(self, secret: str | None) -> Principal:
        """The principal of a valid key that is within its rate."""
        found = self.admit_known(secret) or self._admit_stored(secret)
        if found is None:
            raise Unauthenticated
        return found

    def admit_known(self, secret: str | None) -> Principal | None:
        """The same, from memory alone; None if the disk must be asked."""
        if not _plausible(secret):
            raise Unauthenticated
        known = self._known.get(secret)
        if known is None or time.monotonic() - known[0] >= CACHE_S:
            return None
        return self._checked(known[1], known[2])

    def _admit_stored(self, secret: str | None) -> Principal | None:
        secret = secret or ""
        rows = self._control.rows("key_by_hash", hash=hashed(self._control.secret, secret))
        if not rows:
            return None
        key = StoredKey(*rows[0])
        principal = key.principal()
        with self._lock:
            self._known[secret] = time.monotonic(), key, principal
            while len(self._known) > CACHED_KEYS:
                self._known.popitem(last=False)
        return self._checked(key, principal)

    def _checked(self, key: StoredKey, principal: Principal) -> Principal:
        expired = key.expires_at is not None and key.expires_at <= self._clock.now()
        if key.revoked_at is not None or expired:
            raise Unauthenticated
        rate = self._rate_limit if key.rate is None else key.rate
        if rate > 0:
            self._take(key.id, rate)
        return principal

    def _take(self, key_id: str, rate: int) -> None:
        """A token bucket that holds two seconds' worth."""
        now = time.monotonic()
        with self._lock:
            tokens, at = self._buckets.get(key_id, (2.0 * rate, now))
            tokens = min(tokens + (now - at) * rate, 2.0 * rate)
            if tokens < 1:
                raise RateLimited(retry_after_s=round((1 - tokens) / rate, 3))
            self._buckets[key_id] = tokens - 1, now
            while len(self._buckets) > CACHED_KEYS:
                self._buckets.popitem(last=False)


def _plausible(secret: str | None) -> TypeGuard[str]:
    return secret is not None and secret.startswith(PREFIX) and len(secret) <= 100
