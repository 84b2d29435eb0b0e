"""Addresses of model servers: checked before anything is sent there, shown without secrets."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..errors import Invalid

ANTHROPIC = "https://api.anthropic.com"
HOW = "The model's address is not one such as http://127.0.0.1:11434/v1."


def checked_url(url: str) -> str:
    """The address without a slash at its end. One that holds a password is refused: logs of HTTP clients name addresses."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid(HOW) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise Invalid(HOW)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid("The model's address may hold no user, password, `?` or `#`: its key is a setting of its own.")
    return url.rstrip("/")


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
