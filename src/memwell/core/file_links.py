"""Links to files. A link lets its holder read one file until it expires.

A link names the tenant, the file and the day of its end, and is signed with the secret of the store. The end is counted in whole
days, so a link has the same text all day and is valid for at least thirty days.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from ..clock import DAY
from ..storage.port import Store
from .access import Principal

PATH = "/v1/files/"
KEPT_DAYS = 31
_MAC = 20
_LONGEST = 400


class FileRef(NamedTuple):
    """The file that a link names."""

    tenant: str
    file_id: str


class Links:
    """Creates and verifies links."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.embedded = True
        """True if the caller can open the data directory: then a link is the path of the file."""

    def __call__(self, principal: Principal, file_id: str, digest: str, now: int) -> str:
        """The URL of a file: a `file:` URL, one below the URL of the server, or a path if that is unknown."""
        if self.embedded and not principal.base:
            path = self._store.blobs(principal.tenant).path(digest)
            if path is not None:
                return path.resolve().as_uri()
        until = now // DAY + KEPT_DAYS
        return principal.base + PATH + sign_link(self._store.control.secret, FileRef(principal.tenant, file_id), until)

    def read(self, token: str, now: int) -> FileRef | None:
        """Return the file that a valid link names; None if the link is forged or has expired."""
        return verify_link(self._store.control.secret, token, now // DAY)


def sign_link(secret: bytes, named: FileRef, until_day: int) -> str:
    body = f"{until_day}.{named.file_id}.{named.tenant}".encode()
    return _encode_token(_mac(secret, body) + body)


def verify_link(secret: bytes, token: str, today: int) -> FileRef | None:
    if len(token) > _LONGEST or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return None
    mac, body = raw[:_MAC], raw[_MAC:]
    if not hmac.compare_digest(mac, _mac(secret, body)) or _encode_token(raw) != token:
        return None
    day, file_id, tenant = body.decode().split(".", 2)
    return FileRef(tenant, file_id) if today < int(day) else None


def _encode_token(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _mac(secret: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=secret, digest_size=_MAC, person=b"memwell files").digest()
