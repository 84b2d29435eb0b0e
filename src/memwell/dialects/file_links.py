"""Reading a file by its link. The link is all that is asked for: it says which file of which tenant, and until when."""

from __future__ import annotations

from ..engine import Engine
from ..errors import NotFound
from ..files.links import Named
from ..model.file import File
from ..model.principal import Principal
from ..watch import announce_read
from .files import read

NOWHERE = "There is no such file, or the link to it has expired."
PIECE = 256 * 1024
"""So much of a file is in memory while somebody reads it, however slowly."""


def named(engine: Engine, token: str) -> Named:
    """What a link leads to. Whatever is wrong with a link, the answer is the same."""
    found = engine.links.read(token, engine.clock.now())
    if found is None:
        raise NotFound(NOWHERE)
    return found


def opened(engine: Engine, link: Named) -> tuple[File, bytes]:
    """The file that a link leads to, which is whole, and its first piece."""
    principal = Principal(link.tenant, "reader", "link")
    try:
        row = engine.read(principal, lambda space: space.tx.row("live_file", id=link.file_id))
        file = None if row is None else File(*row)
        first = b"" if file is None else engine.store.blobs(link.tenant).get(file.digest)[:PIECE]
    except NotFound:
        file = None
    if file is None:
        raise NotFound(NOWHERE)
    if engine.store.hub.watched:
        announce_read(engine, principal, read, None, None)
    return file, first


def piece(engine: Engine, link: Named, file: File, at: int) -> bytes:
    """The piece of a file that begins somewhere; an error, if the file was deleted meanwhile."""
    found = engine.store.blobs(link.tenant).piece(file.digest, at, PIECE)
    if not found:
        raise NotFound(NOWHERE)
    return found
