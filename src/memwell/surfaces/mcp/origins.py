"""Which Host and Origin a request may name.

A browser sends an `Origin`; a program does not. A page of this machine may call, and so may a page of the server's own
origin if its Host cannot be a rebound name: it is an IP address, or the very name that the server is bound to. Without an
Origin, any Host will do where a key is asked for: the key is what counts, and a proxy may have passed on a public name.
Without keys, the Host must be a loopback name, whoever calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from ...errors import Forbidden

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", re.ASCII)
_PORTS = {"http": 80, "https": 443}

Authority = tuple[str, int | None]


def require_allowed(headers: Iterable[tuple[bytes, bytes]], bound: str, *, keys: bool) -> None:
    hosts, origins = _values(headers, b"host"), _values(headers, b"origin")
    host = _authority(hosts[0]) if len(hosts) == 1 else None
    if host is None or not (keys or _is_loopback(host[0])):
        raise Forbidden("The Host of this request is not one that this server answers to.")
    if origins and not (len(origins) == 1 and _may_call(origins[0], host, bound)):
        raise Forbidden("Pages of other origins may not call this server.")


def _may_call(origin: str, host: Authority, bound: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    caller = _authority(found[2]) if found else None
    if found is None or caller is None:
        return False
    if _is_loopback(caller[0]):
        return True
    certain = _is_address(host[0]) or host[0] == bound.lower()
    return certain and _with_port(caller, found[1]) == _with_port(host, found[1])


def _authority(text: str) -> Authority | None:
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    return None if port is not None and not 0 < port < 65536 else (found["host"].strip("[]"), port)


def _with_port(authority: Authority, scheme: str) -> Authority:
    return authority[0], authority[1] or _PORTS[scheme]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _values(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]
