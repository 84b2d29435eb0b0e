"""The `extract` job: the text of a file becomes passages that its session can be searched for.

A file is read outside any transaction. What came of it is written a few passages at a time, each time only if the file is
still there and still used; that it can be searched is said with the last ones. A job that was cut off goes on behind the
passages that are there, since the same bytes give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ..core.space import Space, for_worker
from ..errors import Corrupted, NotFound
from ..extract.extract import Extraction, extract
from ..jobs.queue import JobRun
from ..model.collection import Address, Draft
from ..records.file_rows import MAX_TOKENS, File, State, text_place, update_file
from ..storage.port import Tx
from ..text.tokens import estimate
from .passages import passages

AT_ONCE = 100
KIND = "document"
TOO_MUCH = (
    "has a text of about {:,} tokens, and those of a session may have {:,} together: deactivate others, then activate it "
    "again"
)


class Gone(Exception):
    """The file was deleted, or is not used any more."""


class _Read(NamedTuple):
    """What a file came to: its passages, and what to say of it."""

    passages: Sequence[str]
    tokens: int
    found: Extraction


def read_file(run: JobRun, *, embeds: bool) -> dict[str, Any]:
    """The handler."""
    try:
        read = _read(run, run.read(lambda tx: _current(tx, run)))
        while run.write(lambda tx: _write_some(tx, run, read, embeds)):
            pass
        return run.read(lambda tx: _outcome(_current(tx, run)))
    except Gone:
        return {"state": "gone"}


def _read(run: JobRun, file: File) -> _Read:
    try:
        content = run.reach.blobs.get(file.digest)
    except (Corrupted, NotFound) as error:
        return _Read((), 0, Extraction("", "failed", f"could not be read: {error.message}"))
    found = extract(content, file.mimetype)
    pieces = passages(found.text)
    return _Read(pieces, max(sum(map(estimate, pieces)), 1), found)  # each at a time: others want to work meanwhile


def _write_some(tx: Tx, run: JobRun, read: _Read, embeds: bool) -> bool:
    """Write the next passages; False if these were the last."""
    space = for_worker(tx, run.reach, run.clock, embeds=embeds)
    file, place = _current(tx, run), text_place(run.payload["app"])
    address = space.address(place, file.id)
    if address is None or file.state != "pending":
        return False
    written = address.last_seq
    told = file._replace(tokens=read.tokens) if written else _judged(tx, file, read)
    following = read.passages[written : written + AT_ONCE] if told.tokens else ()
    if following:
        space.append(place, file.id, [_draft(file, one) for one in following])
    whole = not told.tokens or written + len(following) >= len(read.passages)
    update_file(space, told._replace(state=_state(told, read)) if whole else told)
    if whole:
        _tell(space, address, len(read.passages) if told.tokens else 0)
    return not whole


def _judged(tx: Tx, file: File, read: _Read) -> File:
    """A file with what is to be said of it. It takes its tokens before its first passage is written."""
    if read.found.state != "extracted":
        return file._replace(reason=read.found.reason)
    row = tx.row("file_tokens", address_id=file.address_id, id=file.id)
    if (0 if row is None else int(row[0])) + read.tokens > MAX_TOKENS:
        return file._replace(reason=TOO_MUCH.format(read.tokens, MAX_TOKENS))
    return file._replace(reason=read.found.reason, tokens=read.tokens)


def _state(file: File, read: _Read) -> State:
    if read.found.state == "extracted" and not file.tokens:
        return "kept"
    return read.found.state


def _tell(space: Space, address: Address, entries: int) -> None:
    event = {"collection_id": address.collection_id, "address_id": address.id, "entries": entries}
    space.tx.send("add_event", at=space.now, operation="apps.files.extract", actor="worker", **event)


def _draft(file: File, passage: str) -> Draft:
    metadata = {"file_id": file.id, "filename": file.filename}
    return Draft(kind=KIND, content=passage, origin="document", metadata=msgspec.json.encode(metadata).decode())


def _current(tx: Tx, run: JobRun) -> File:
    """The file, if it still waits for its text at the address that this job is for."""
    row = tx.row("find_file", id=run.payload["file"])
    file = None if row is None else File(*row)
    if file is None or not file.active or file.text_id != run.job.address_id:
        raise Gone
    return file


def _outcome(file: File) -> dict[str, Any]:
    return {"state": file.state, "tokens": file.tokens, **({} if file.reason is None else {"reason": file.reason})}
