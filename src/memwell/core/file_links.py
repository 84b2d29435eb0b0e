"""Links to files: whoever has one may read one file until a day, and nothing else.

A link names the tenant, the file and the day, and is signed with a key that is made from the store's secret. The day is that
of the request and thirty days more, so a link is the same text all day long and holds for thirty days at least.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from ..clock import DAY
from ..model.principal import Principal
from ..storage.port import Store

PATH = "/v1/files/"
KEPT_DAYS = 31
_MAC = 20
_LONGEST = 400


class FileRef(NamedTuple):
    """What a link names."""

    tenant: str
    file_id: str


class Links:
    """Makes links, and reads them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.embedded = True
        """Whether whoever asks works on the data directory itself: then a link is where the file lies."""

    def __call__(self, principal: Principal, file_id: str, digest: str, now: int) -> str:
        """Where a file can be read: on this disk, at the address that the caller knows the server by, or at any."""
        if self.embedded and not principal.base:
            path = self._store.blobs(principal.tenant).path(digest)
            if path is not None:
                return path.resolve().as_uri()
        until = now // DAY + KEPT_DAYS
        return principal.base + PATH + sign_link(self._store.control.secret, FileRef(principal.tenant, file_id), until)

    def read(self, token: str, now: int) -> FileRef | None:
        """What a link names, if it is one of ours and its time is not up."""
        return verify_link(self._store.control.secret, token, now // DAY)


def sign_link(secret: bytes, named: FileRef, until_day: int) -> str:
    body = f"{until_day}.{named.file_id}.{named.tenant}".encode()
    return _written(_mac(secret, body) + body)


def verify_link(secret: bytes, token: str, today: int) -> FileRef | None:
    if len(token) > _LONGEST or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return None
    mac, body = raw[:_MAC], raw[_MAC:]
    if not hmac.compare_digest(mac, _mac(secret, body)) or _written(raw) != token:
        return None
    day, file_id, tenant = body.decode().split(".", 2)
    return FileRef(tenant, file_id) if today < int(day) else None


def _written(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _mac(secret: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=secret, digest_size=_MAC, person=b"memwell files").digest()
