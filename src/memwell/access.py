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
SLICES = 20
"""In how many portions a second's requests are handed out to the servers that share a store."""
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
        self._portions: OrderedDict[str, tuple[int, int]] = OrderedDict()
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
        return self._checked(known[1], known[2], ask=False)

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
        return self._checked(key, principal, ask=True)

    def _checked(self, key: StoredKey, principal: Principal, ask: bool) -> Principal | None:
        expired = key.expires_at is not None and key.expires_at <= self._clock.now()
        if key.revoked_at is not None or expired:
            raise Unauthenticated
        rate = self._rate_limit if key.rate is None else key.rate
        return principal if rate <= 0 or self._take(key.id, rate, ask) else None

    def _take(self, key_id: str, rate: int, ask: bool) -> bool:
        """Count a request against this second's. False if the store must be asked for another portion, and may not be."""
        now = time.time()
        second = int(now)
        with self._lock:
            at, left = self._portions.get(key_id, (0, 0))
            if at == second and left > 0:
                self._portions[key_id] = second, left - 1
                return True
        if at == second and left < 0:
            raise RateLimited(retry_after_s=round(second + 1 - now, 3))
        if not ask:
            return False
        self._portion(key_id, rate, second, first=at != second)
        return self._take(key_id, rate, ask)

    def _portion(self, key_id: str, rate: int, second: int, *, first: bool) -> None:
        """Take a portion of a second's requests from what all servers share; none is left if that is used up."""
        size = max(rate // SLICES, 1)
        granted = self._control.hint("take_rate", id=key_id, second=second, size=size, rate=rate)
        if first:
            self._control.hint("forget_rates", id=key_id, second=second - 1)
        with self._lock:
            self._portions[key_id] = second, size if granted else -1
            self._portions.move_to_end(key_id)
            while len(self._portions) > CACHED_KEYS:
                self._portions.popitem(last=False)


def _plausible(secret: str | None) -> TypeGuard[str]:
    return secret is not None and secret.startswith(PREFIX) and len(secret) <= 100
