"""Operations as tools of the Model Context Protocol, over standard input and output or at `/mcp` of a server.

`tools` builds the tools, `protocol` answers requests, and `stdio` and `endpoint` (HTTP) are the two transports. The package
`mcp` is optional and slow to import, so it is loaded for the first client.
"""

from __future__ import annotations

from ...errors import NotFound


def require_package() -> None:
    """Raise if the optional package `mcp` is missing or too old."""
    try:
        import mcp_types  # noqa: F401 (version 1 does not have it)
    except ImportError:
        raise NotFound('MCP needs the package `mcp`: run `pip install "memwell[mcp]"`.') from None
