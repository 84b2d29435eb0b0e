"""A file of a session: what it is called, whether it is used, and what became of its text."""

from __future__ import annotations

from typing import Literal, NamedTuple

MAX_FILE = 25 * 1024 * 1024
MAX_FILES = 10
MOST_FILES = 100
"""What an app may allow a session to have."""
MAX_TOKENS = 800_000
"""Of the texts of a session's files together (B2.8)."""

State = Literal["pending", "extracted", "empty", "kept", "failed"]
STATES = (
    "`pending`: its text is being read; `extracted`: it can be searched while the file is active; `empty`: it has none; "
    "`kept`: such files are kept and not read; `failed`: it could not be read, and `reason` says why."
)


class File(NamedTuple):
    """A file as it is stored. Columns in the order of `find_file`."""

    id: str
    address_id: int
    """The session's."""
    text_id: int | None
    """Where its text is, or will be; None while it is not active."""
    seq: int
    digest: str
    filename: str
    mimetype: str
    size: int
    active: int
    state: State
    reason: str | None
    tokens: int
    created_at: int
