"""What `sessionMeta` says of the files of a session (S2.35, B2.7). Nobody but an upload changes it."""

from __future__ import annotations

from typing import Any

from ..files.kept import of_session
from ..space import Space


def artifacts(space: Space, address_id: int) -> list[dict[str, Any]]:
    """The files of a session in the order in which they came. Links are made anew whenever somebody reads this."""
    return [
        {
            "fileId": file.id,
            "type": "file",
            "filename": file.filename,
            "mimetype": file.mimetype,
            "isActive": bool(file.active),
            "downloadUrl": space.link(file.id, file.digest),
            "size": file.size,
            "state": file.state,
        }
        for file in of_session(space, address_id)
    ]
