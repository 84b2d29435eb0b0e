"""Reading a file by its link. The link is all that is asked for: it says which file of which tenant, and until when."""

from __future__ import annotations

from ..engine import Engine
from ..errors import NotFound
from ..model.file import File
from ..model.principal import Principal
from ..watch import announce_read
from .files import read

NOWHERE = "There is no such file, or the link to it has expired."


def opened(engine: Engine, token: str) -> tuple[File, bytes]:
    """The file that a link leads to. Whatever is wrong with a link, the answer is the same."""
    named = engine.links.read(token, engine.clock.now())
    if named is None:
        raise NotFound(NOWHERE)
    principal = Principal(named.tenant, "reader", "link")
    try:
        row = engine.read(principal, lambda space: space.tx.row("live_file", id=named.file_id))
        file = None if row is None else File(*row)
        content = b"" if file is None else engine.store.blobs(named.tenant).get(file.digest)
    except NotFound:
        file = None
    if file is None:
        raise NotFound(NOWHERE)
    announce_read(engine, principal, read, None, None)
    return file, content
