"""The files of a session.

The text of an active file has its own address, with the ties of the session. Only addresses can be erased: to erase a file, its
row is moved to the address of its text, and that address is erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..core.space import Space
from ..erasure.erase import bury, bury_file
from ..errors import Conflict
from ..extract.kinds import READ, is_read, suffix_of
from ..ids import inner_id, new_id
from ..jobs import queue
from ..model.collection import Place

MAX_FILES = 10
MOST_FILES = 100
"""Highest limit that an app may set."""
MAX_TOKENS = 800_000
"""Tokens of the texts of all files of a session (B2.8)."""

State = Literal["pending", "extracted", "empty", "kept", "failed"]
ShownState = Literal["pending", "extracted", "empty", "kept", "failed", "inactive"]
STATES = (
    "`pending`: its text is being read; `extracted`: its text can be searched while the file is active; `empty`: it has no text; "
    "`kept`: files of this type are stored but not read; `failed`: it could not be read, see `reason`; `inactive`: it is not "
    "active, and its text is erased."
)


class File(NamedTuple):
    """A stored file. Columns in the order of `find_file`."""

    id: str
    address_id: int
    """Address of the session."""
    text_id: int | None
    """Address of its text; None while it is not active."""
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

    @property
    def shown_state(self) -> ShownState:
        """The state for people and prompts."""
        return self.state if self.active else "inactive"


JOB = "extract"
TEXT = "text"
AGAIN = ("kept", "failed")
"""States from which a file is read again when it is activated."""
NOT_AS_NAMED = "was kept and not read, since its first bytes do not match its name"
NOT_READ = "was not read, since reading it was cancelled or failed too often: activate it to read it again"


class NewFile(NamedTuple):
    """An uploaded file, whose bytes are stored already."""

    digest: str
    filename: str
    mimetype: str
    size: int


class Owner(NamedTuple):
    """The session of a file: its address, its app and its ties."""

    address_id: int
    app: str
    ties: tuple[str, ...]


def text_place(app: str) -> Place:
    """Return the collection of the texts of an app's files, which only searches of their session read."""
    return Place("app", app, "text")


def list_session_files(space: Space, address_id: int) -> list[File]:
    """Return the files of a session, in the order of their upload."""
    return [_complete(space, File(*row)) for row in space.tx.rows("files_of", address_id=address_id)]


def find_file(space: Space, file_id: str, address_id: int) -> File | None:
    """Return a file, if it belongs to that session."""
    row = space.tx.row("find_file", id=file_id)
    return _complete(space, File(*row)) if row is not None and row[1] == address_id else None


def find_same_file(files: Sequence[File], new: NewFile) -> File | None:
    """Return the file with the same name and the same bytes, if there is one."""
    return next((file for file in files if (file.filename, file.digest) == (new.filename, new.digest)), None)


def check_file_count(files: Sequence[File], most: int) -> None:
    if len(files) >= most:
        raise Conflict(f"The session has {len(files)} files, which is its limit: delete one, or raise `max_files`.")


def add_file(space: Space, owner: Owner, new: NewFile, most: int) -> tuple[File, str | None]:
    """Add a file to a session, unless it has the same file already. Return the file, and the job that reads its text."""
    files = list_session_files(space, owner.address_id)
    same = find_same_file(files, new)
    if same is not None:
        return same, None
    check_file_count(files, most)
    read, file_id = is_read(new.mimetype), new_id()
    file = File(
        **new._asdict(),
        id=file_id,
        address_id=owner.address_id,
        text_id=_add_text_address(space, owner, file_id),
        seq=files[-1].seq + 1 if files else 1,
        active=1,
        state="pending" if read else "kept",
        reason=None,
        tokens=0,
        created_at=space.now,
    )
    ids = {"id": file.id, "address_id": file.address_id, "text_id": file.text_id, "seq": file.seq}
    space.tx.send("add_file", **ids, **new._asdict(), active=file.active, state=file.state, now=space.now)
    if not read:
        return _complete(space, file), None
    return file, _enqueue_reading(space, owner, file)


def activate_file(space: Space, owner: Owner, file: File) -> tuple[File, str | None]:
    """Activate a file, or read it again if that failed. Return the file, and the job that reads its text, if any."""
    read = is_read(file.mimetype)
    if file.active and not (read and file.state in AGAIN):
        return file, None
    text_id = file.text_id or _add_text_address(space, owner, file.id)
    file = file._replace(active=1, text_id=text_id, state="pending" if read else "kept", reason=None)
    update_file(space, file)
    return file, _enqueue_reading(space, owner, file) if read else None


def deactivate_file(space: Space, owner: Owner, file: File) -> tuple[File, str | None]:
    """Deactivate a file and erase its text. Return the file, and the job that erases the bytes of the text."""
    if not file.active:
        return file, None
    collection_id, _ = space.collection(text_place(owner.app))
    job = bury(space.tx, [(file.text_id, collection_id, TEXT)], space.now)
    state = "kept" if file.state == "pending" else file.state
    file = file._replace(active=0, text_id=None, tokens=0, state=state)
    update_file(space, file)
    return file, job


def delete_file(space: Space, file: File) -> str:
    """Erase a file and its text. Return the job that erases their bytes."""
    job = bury_file(space.tx, file.id, space.now)
    assert job is not None  # noqa: S101 -- the caller has just read the file
    return job


def update_file(space: Space, file: File) -> None:
    """Store the changed columns of a file."""
    changed = {"active": file.active, "text_id": file.text_id, "state": file.state, "reason": file.reason}
    space.tx.send("set_file", id=file.id, tokens=file.tokens, **changed)


def _complete(space: Space, file: File) -> File:
    """Return a file with its reason. A pending file without a queued job has failed."""
    if file.state == "kept" and not is_read(file.mimetype) and suffix_of(file.filename) in READ:
        return file._replace(reason=NOT_AS_NAMED)
    if file.state != "pending" or space.tx.row("file_is_awaited", address_id=file.text_id) is not None:
        return file
    return file._replace(state="failed", reason=NOT_READ)


def _add_text_address(space: Space, owner: Owner, file_id: str) -> int:
    """Add an address for the text of a file, with the ties of the session."""
    collection_id, _ = space.collection(text_place(owner.app))
    new = {"id": inner_id(), "collection_id": collection_id, "path": file_id, "count": 0}
    row = space.tx.row("touch_address", **new, now=space.now, expires_at=None)
    assert row is not None  # noqa: S101 -- an upsert always returns its row
    for tie in owner.ties:
        space.tx.send("add_tie", tie=tie, address_id=row[0])
    return int(row[0])


def _enqueue_reading(space: Space, owner: Owner, file: File) -> str:
    return queue.enqueue(space.tx, JOB, {"file": file.id, "app": owner.app}, space.now, address_id=file.text_id)
