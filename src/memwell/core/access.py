"""API keys: 32 random bytes behind a prefix. Only a keyed hash is stored; the check costs microseconds."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple, TypeGuard, cast

from ..clock import Clock
from ..errors import RateLimited, StorageError, Unauthenticated, Unavailable
from ..ids import new_id
from ..model.principal import OwnerKind, Principal, Role, Tie
from ..storage.port import Control

PREFIX = "mw_"
CACHE_S = 0.8
CACHED_KEYS = 10_000
LARGEST_PORTION = 1 / 20
"""Of a second's requests, how much a server takes at once from what all servers share."""
KEEP_S = 60
"""How long it is kept how many requests a second had: another server's clock may be behind."""


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
        tie = Tie(cast(OwnerKind, self.tie_kind), self.tie_name) if self.tie_kind and self.tie_name else None
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
    control.renew()
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


def create_first_key(control: Control, tenant: str, now: int) -> str | None:
    """Make an operator's key if there is no key at all; returns its secret. Of servers that start at once, one makes it."""
    secret = PREFIX + secrets.token_urlsafe(32)
    control.renew()
    row = {"id": new_id(), "tenant": tenant, "hash": hashed(control.secret, secret), "now": now}
    return secret if control.write(("hold_tenant", {"id": tenant}), ("add_first_key", row)) else None


def hashed(server_secret: bytes, secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(errors="replace"), key=server_secret, digest_size=32).digest()


class Doorman:
    """Tells whom a secret speaks for. Answers are kept for less than a second, so a revoked key is useless by then."""

    def __init__(self, control: Control, clock: Clock, rate_limit: int = 0) -> None:
        self._control = control
        self._clock = clock
        self._rate_limit = rate_limit
        self._rates = Rates(control)
        self._known: OrderedDict[str, tuple[float, _Found]] = OrderedDict()
        self._renewed_at = -CACHE_S
        self._lock = Lock()

    def admit(self, secret: str | None, *, counted: bool = True) -> Principal:
        """The principal of a valid key that is within its rate; what is not `counted` belongs to an earlier request."""
        found = self._remembered(secret) or self._stored(secret)
        if found is None:
            raise Unauthenticated
        if self._is_limited(found.key, counted):
            self._rates.take(found.key.id, self._rate(found.key))
        return found.principal

    def admit_known(self, secret: str | None, *, counted: bool = True) -> Principal | None:
        """The same, from memory alone; None if the store must be asked."""
        found = self._remembered(secret)
        if found is None or (self._is_limited(found.key, counted) and not self._rates.take_held(found.key.id)):
            return None
        return found.principal

    def _remembered(self, secret: str | None) -> _Found | None:
        if not _plausible(secret):
            raise Unauthenticated
        known = self._known.get(secret)
        return known[1] if known is not None and time.monotonic() - known[0] < CACHE_S else None

    def _stored(self, secret: str | None) -> _Found | None:
        secret = secret or ""
        rows = self._control.rows("key_by_hash", hash=hashed(self._control.secret, secret))
        if not rows and self._is_renewed():
            rows = self._control.rows("key_by_hash", hash=hashed(self._control.secret, secret))
        if not rows:
            return None
        key = StoredKey(*rows[0])
        found = _Found(key, key.principal())
        with self._lock:
            self._known[secret] = time.monotonic(), found
            while len(self._known) > CACHED_KEYS:
                self._known.popitem(last=False)
        return found

    def _is_renewed(self) -> bool:
        """Whether keys are hashed with another secret by now, since a backup was restored. Seldom asked: it takes a look."""
        now = time.monotonic()
        if now - self._renewed_at < CACHE_S:
            return False
        self._renewed_at = now
        return self._control.renew()

    def _is_limited(self, key: StoredKey, counted: bool) -> bool:
        """Whether a request of a key must be counted; a key that is not valid any more has none."""
        expired = key.expires_at is not None and key.expires_at <= self._clock.now()
        if key.revoked_at is not None or expired:
            raise Unauthenticated
        return counted and self._rate(key) > 0

    def _rate(self, key: StoredKey) -> int:
        return self._rate_limit if key.rate is None else key.rate


class Rates:
    """How many requests of a second are left. All servers of a store share them, and each takes them in portions."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        self._forgot_at = 0
        self._lock = Lock()

    def take_held(self, key_id: str) -> bool:
        """Count a request if this server holds one for it; False if the store must be asked."""
        share = self._share(key_id)
        with self._lock:
            taken = share.take()
        if share.spent and not taken:
            raise share.refusal()
        return taken

    def take(self, key_id: str, rate: int) -> None:
        """Count a request. One asks the store for all that wait at this server."""
        share = self._share(key_id)
        with share.gate:
            if not share.left and not share.spent:
                self._ask(key_id, rate, share)
            with self._lock:
                taken = share.take()
        if not taken:
            raise share.refusal()

    def _ask(self, key_id: str, rate: int, share: _Share) -> None:
        """Take a portion from what all servers share. Where nothing can be written, each server counts for itself."""
        try:
            granted = self._portion(key_id, rate, share)
            spent = not granted
            self._forget(share.second)
        except Unavailable:
            raise
        except StorageError:
            granted, spent = rate, True
        with self._lock:
            share.left += granted
            share.portion = granted * 2
            share.spent = spent

    def _portion(self, key_id: str, rate: int, share: _Share) -> int:
        """The first portion is a single request and each is twice the one before, so that a server holds on to no more
        than it has used: one that is seldom asked does not keep the others from answering."""
        largest = max(int(rate * LARGEST_PORTION), 1)
        asked = {"id": key_id, "second": share.second, "rate": rate}
        sizes = dict.fromkeys([min(share.portion, largest), 1])
        return next((size for size in sizes if self._control.hint("take_rate", size=size, **asked)), 0)

    def _forget(self, second: int) -> None:
        if second - self._forgot_at >= KEEP_S:
            self._forgot_at = second
            self._control.hint("forget_rates", second=second - KEEP_S)

    def _share(self, key_id: str) -> _Share:
        """What this server holds of the present second's requests."""
        second = int(time.time())
        with self._lock:
            share = self._shares.get(key_id)
            if share is None or share.second != second:
                share = self._shares[key_id] = _Share(second)
                self._shares.move_to_end(key_id)
                while len(self._shares) > CACHED_KEYS:
                    self._shares.popitem(last=False)
            return share


class _Found(NamedTuple):
    key: StoredKey
    principal: Principal


class _Share:
    """What a server holds of one second's requests."""

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


def _plausible(secret: str | None) -> TypeGuard[str]:
    return secret is not None and secret.startswith(PREFIX) and len(secret) <= 100
