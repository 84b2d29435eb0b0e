"""The `extract` job: split the text of a file into passages that searches in its session find.

The file is read outside any transaction. Passages are written a few at a time, each time only if the file still exists and is
active; the last ones make the file searchable. A job that was interrupted continues after the passages that are there, because
the same bytes give the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ..core.space import worker_space
from ..errors import Corrupted, NotFound
from ..extract.extract import Extraction, extract
from ..jobs.queue import JobRun
from ..model.collection import Draft
from ..records.file_rows import MAX_TOKENS, File, text_place, update_file
from ..storage.port import Tx
from ..text.tokens import estimate_tokens

BATCH = 100
"""Passages that are written at once."""
MAX_PASSAGE = 1200
"""Characters of a passage. It is to be read, and several have to fit into a prompt."""
TOO_LARGE = (
    "has a text of about {:,} tokens, and those of a session may have {:,} together: deactivate others, then activate it "
    "again"
)
_PARAGRAPH_GAP = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_GAP = re.compile(r"(?<=[.!?。！？؟])\s+|\n")


class Gone(Exception):
    """The file was deleted or deactivated."""


class _FileText(NamedTuple):
    passages: Sequence[str]
    tokens: int
    extraction: Extraction


def extract_file(run: JobRun, *, embeds: bool) -> dict[str, Any]:
    """Run the job."""
    try:
        text = _read_text(run, run.read(lambda tx: _require_file(tx, run)))
        while run.write(lambda tx: _write_batch(tx, run, text, embeds)):
            pass
        file = run.read(lambda tx: _require_file(tx, run))
    except Gone:
        return {"state": "gone"}
    return {"state": file.state, "tokens": file.tokens, **({} if file.reason is None else {"reason": file.reason})}


def _read_text(run: JobRun, file: File) -> _FileText:
    try:
        content = run.reach.blobs.get(file.digest)
    except (Corrupted, NotFound) as error:
        return _FileText((), 0, Extraction("", "failed", f"could not be read: {error.message}"))
    extraction = extract(content, file.mimetype)
    passages = split_passages(extraction.text)
    # Count the passages one by one, so that other threads get their turn.
    return _FileText(passages, max(sum(map(estimate_tokens, passages)), 1), extraction)


def _write_batch(tx: Tx, run: JobRun, text: _FileText, embeds: bool) -> bool:
    """Write the next passages. Returns whether there are more."""
    space = worker_space(tx, run.reach, run.clock, embeds=embeds)
    file, place = _require_file(tx, run), text_place(run.payload["app"])
    address = space.address(place, file.id)
    if address is None or file.state != "pending":
        return False
    written = address.last_seq
    file = file._replace(tokens=text.tokens) if written else _reserve_tokens(tx, file, text)
    passages = text.passages[written : written + BATCH] if file.tokens else ()
    if passages:
        metadata = msgspec.json.encode({"file_id": file.id, "filename": file.filename}).decode()
        drafts = [Draft(kind="document", content=one, origin="document", metadata=metadata) for one in passages]
        space.append(place, file.id, drafts)
    if file.tokens and written + len(passages) < len(text.passages):
        update_file(space, file)
        return True
    state = text.extraction.state
    update_file(space, file._replace(state="kept" if state == "extracted" and not file.tokens else state))
    event = {"collection_id": address.collection_id, "address_id": address.id}
    count = len(text.passages) if file.tokens else 0
    tx.send("add_event", at=space.now, operation="apps.files.extract", actor="worker", entries=count, **event)
    return False


def _reserve_tokens(tx: Tx, file: File, text: _FileText) -> File:
    """The file with its tokens, if the session has room for them, or with the reason why it has no text."""
    if text.extraction.state != "extracted":
        return file._replace(reason=text.extraction.reason)
    row = tx.row("file_tokens", address_id=file.address_id, id=file.id)
    if (0 if row is None else int(row[0])) + text.tokens > MAX_TOKENS:
        return file._replace(reason=TOO_LARGE.format(text.tokens, MAX_TOKENS))
    return file._replace(reason=text.extraction.reason, tokens=text.tokens)


def _require_file(tx: Tx, run: JobRun) -> File:
    """The file, if it is active and its text belongs to the address of this job. Raises `Gone`."""
    row = tx.row("find_file", id=run.payload["file"])
    file = None if row is None else File(*row)
    if file is None or not file.active or file.text_id != run.job.address_id:
        raise Gone
    return file


# -- passages ------------------------------------------------------------------------------------------------------------


def split_passages(text: str) -> list[str]:
    """Split a text into passages of whole paragraphs, or of whole sentences where paragraphs are too long."""
    passages: list[str] = []
    for paragraph in _split(_PARAGRAPH_GAP, text):
        for piece in _split_paragraph(paragraph.strip()):
            joined = f"{passages[-1]}\n\n{piece}" if passages else piece
            if passages and len(joined) <= MAX_PASSAGE:
                passages[-1] = joined
            else:
                passages.append(piece)
    return passages


def _split(gap: re.Pattern[str], text: str) -> Iterator[str]:
    """Split lazily, because splitting a long text at once would block other threads."""
    start = 0
    for found in gap.finditer(text):
        yield text[start : found.start()]
        start = found.end()
    yield text[start:]


def _split_paragraph(paragraph: str) -> Iterator[str]:
    """Split a paragraph that is too long between sentences, else between words, else anywhere."""
    rest = ""
    for sentence in _split(_SENTENCE_GAP, paragraph) if len(paragraph) > MAX_PASSAGE else [paragraph]:
        if rest and len(rest) + 1 + len(sentence) > MAX_PASSAGE:
            yield rest
            rest = ""
        *whole, last = _split_sentence(sentence.strip())
        if whole and rest:
            yield rest
            rest = ""
        yield from filter(None, whole)
        rest = f"{rest} {last}".strip()
    if rest:
        yield rest


def _split_sentence(sentence: str) -> Iterator[str]:
    """Pieces of a sentence. All but the last are as long as possible."""
    start = 0
    while len(sentence) - start > MAX_PASSAGE:
        space = sentence.rfind(" ", start + MAX_PASSAGE // 2, start + MAX_PASSAGE + 1)
        end = start + MAX_PASSAGE if space < 0 else space
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()
