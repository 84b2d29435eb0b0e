"""Operations as tools of the Model Context Protocol, over standard input and output or at `/mcp` of a server.

`table` says what a model is offered by default, `tools` makes tools of it or of the whole registry, `answers` carries a
call out, `server` speaks the protocol, and `stdio` and `http` are its two transports. The package `mcp` is imported by the
last three only, when the first client comes.
"""

from __future__ import annotations

from ...errors import NotFound


def require_package() -> None:
    """`mcp` is an optional extra; version 1 has no `mcp_types`."""
    try:
        import mcp_types  # noqa: F401
    except ImportError:
        raise NotFound('MCP needs the package `mcp`: run `pip install "memwell[mcp]"`.') from None
