"""Protection against pages of other origins and DNS rebinding.

Only browsers send an Origin. Pages of this machine may call, and so may pages of the server's own origin if its Host cannot be a
rebound name: an IP address, or the name that the server is bound to. Without an Origin, any Host is accepted if the server
requires keys, since a proxy may pass on a public name. Without keys, the Host must be a loopback name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from starlette.types import Scope

from ...errors import Forbidden, Invalid

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", re.ASCII)
_PORTS = {"http": 80, "https": 443}

Authority = tuple[str, int | None]


_SINGLE = frozenset(
    (
        b"host",
        b"origin",
        b"authorization",
        b"x-api-key",
        b"content-type",
        b"idempotency-key",
        b"if-match",
        b"if-none-match",
    )
)


def read_headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers of a request. Reject a second one of those that decide something."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        for name in _SINGLE & headers.keys():
            if names.count(name) > 1:
                raise Invalid(f"The request has more than one header `{name.decode()}`: send one.")
    return headers


def check_origin(headers: Iterable[tuple[bytes, bytes]], bound: str, *, keys: bool) -> None:
    hosts, origins = _list_values(headers, b"host"), _list_values(headers, b"origin")
    host = _parse_authority(hosts[0]) if len(hosts) == 1 else None
    if host is None or not (keys or is_loopback(host[0])):
        raise Forbidden("This server does not serve the Host of this request.")
    if origins and not (len(origins) == 1 and _may_call(origins[0], host, bound)):
        raise Forbidden("Pages of other origins may not call this server.")


def _may_call(origin: str, host: Authority, bound: str) -> bool:
    match = _ORIGIN.fullmatch(origin)
    caller = _parse_authority(match[2]) if match else None
    if match is None or caller is None:
        return False
    if is_loopback(caller[0]):
        return True
    if not _is_address(host[0]) and host[0] != bound.lower():
        return False
    port = _PORTS[match[1]]
    return (caller[0], caller[1] or port) == (host[0], host[1] or port)


def _parse_authority(text: str) -> Authority | None:
    match = _AUTHORITY.fullmatch(text.lower())
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    return None if port is not None and not 0 < port < 65536 else (match["host"].strip("[]"), port)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _list_values(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == header]
