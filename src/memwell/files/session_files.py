"""Files of an app's sessions: upload, list, read, activate, search, delete, and download by link (S2.35, S2.36, B2.6–B2.8)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, structs

from ..clock import to_datetime
from ..core.access import Principal
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.events import publish_read
from ..core.file_links import FileRef
from ..core.operation import Awaited, Example, Request, Response, operation
from ..core.owners import app_records
from ..core.space import Space, worker_space
from ..erasure.erase import delete_orphan, has_sweep_job, sweep_later
from ..errors import Corrupted, Invalid, MemwellError, NotFound, TooLarge, Unavailable
from ..extract.extraction import Extraction, extract
from ..extract.kinds import HEAD, clean_name, mimetype_of
from ..facts.search import Explain, Hits, MinScore, QueryText, RecipeName, query_text, to_hits
from ..jobs.queue import JobKind, JobRun, StoredJob
from ..model.collection import Draft
from ..model.fields import MAX_FILE, AnyId, FilterField, Limit, SessionId, check_number
from ..model.filter import Query, Where, parse
from ..records import file_rows
from ..records.apps import (
    AppName,
    SessionMetadata,
    SessionRequest,
    UserId,
    find_app_session,
    find_app_settings,
    get_user,
    in_session_tie,
    open_session,
    require_app,
    require_or_add_app,
    require_session_owner,
    session_tie,
    user_tie,
)
from ..records.file_rows import MAX_TOKENS, STATES, File, NewFile, Owner, ShownState, text_place
from ..storage.blobs import digest_of
from ..storage.port import Tx
from ..text.tokens import estimate_tokens, share_out

READ_S = 3.0
"""Seconds that an upload waits for the extraction of its text."""
MAX_ATTEMPTS = 3
INACTIVE = "The file exists already and is not active: activate it to make it searchable."

Filename = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4096,
        description="The name of the file. Its path and invisible characters are removed.",
    ),
]
Mimetype = Annotated[
    str,
    Meta(
        max_length=255,
        description="The type of the file, such as `application/pdf`; its name and first bytes take precedence.",
    ),
]
FileContent = Annotated[bytes, Meta(description="The bytes of the file, at most 25 MiB; in JSON as Base64.")]
FileId = Annotated[AnyId, Meta(description="The id of the file.")]

_HELLO = "VGhlIHdhcnJhbnR5IG9mIHRoZSBibGVuZGVyIGVuZHMgaW4gTWFyY2guCg=="
NEW = {"app": "shop", "session_id": "sess_123", "filename": "warranty.txt", "content": _HELLO, "user_id": "user_456"}
GIVEN = (("apps.files.upload", NEW),)
OF = {"app": "shop", "session_id": "sess_123", "file_id": "$0.file_id"}


class FileInfo(Response, frozen=True, kw_only=True):
    """A file of a session. `download_url` is valid for at least 30 days; anybody with the link can read the file."""

    file_id: str
    filename: str
    mimetype: str
    size: int
    is_active: bool
    state: Annotated[ShownState, Meta(description=STATES)]
    created_at: datetime
    download_url: str | None = None
    reason: str | None = None
    job: str | None = None


class FileList(Response, frozen=True, kw_only=True):
    """The files of a session, in the order of their uploads."""

    files: list[FileInfo]


class UploadFile(Request, frozen=True, kw_only=True):
    """A file for a session, and the user and metadata of the session if it is new."""

    app: AppName
    session_id: SessionId
    filename: Filename
    content: FileContent
    mimetype: Mimetype | None = None
    user_id: UserId | None = None
    metadata: SessionMetadata | None = None


@operation(
    "apps.files.upload",
    "POST /v1/apps/{app}/sessions/{session_id}/files",
    effect="write",
    status=201,
    outside=True,
    any_scope=True,
    patient=True,
    carries="content",
    awaits=lambda request, file: _await_text(request, file),
    example=Example(NEW),
)
def upload_file(call: Call, request: UploadFile) -> FileInfo:
    """Upload a file to a session, and create the session if it is missing. The text of the file is searchable within seconds.
    Uploading the same file again returns the existing one. The body may be the file itself or a form."""
    return store_file(call, request)


class OfSession(Request, frozen=True, kw_only=True):
    """A session of an app."""

    app: AppName
    session_id: SessionId


class OfFile(OfSession, frozen=True, kw_only=True):
    """A file of a session."""

    file_id: FileId


@operation(
    "apps.files.list",
    "GET /v1/apps/{app}/sessions/{session_id}/files",
    any_scope=True,
    example=Example({"app": "shop", "session_id": "sess_123"}, GIVEN),
)
def list_files(space: Space, request: OfSession) -> FileList:
    """List the files of a session. An unknown session has none."""
    session = _find_session(space, request.app, request.session_id)
    found = [] if session is None else file_rows.list_session_files(space, session.address_id)
    return FileList(files=[_to_response(space, one) for one in found])


@operation(
    "apps.files.get",
    "GET /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    any_scope=True,
    example=Example(OF, GIVEN),
)
def get_file(space: Space, request: OfFile) -> FileInfo:
    """Return a file, without its bytes."""
    return _to_response(space, _require_file(space, request)[1])


class ReadFile(Response, frozen=True, kw_only=True):
    """A file with its bytes, in JSON as Base64."""

    file_id: str
    filename: str
    mimetype: str
    size: int
    content: bytes


@operation(
    "apps.files.read",
    "GET /v1/apps/{app}/sessions/{session_id}/files/{file_id}/content",
    outside=True,
    any_scope=True,
    example=Example(OF, GIVEN),
)
def read_file(call: Call, request: OfFile) -> ReadFile:
    """Return the bytes of a file, as they were uploaded."""
    file = call.read(lambda space: _require_file(space, request)[1])
    content = call.blobs.get(file.digest)
    return ReadFile(file_id=file.id, filename=file.filename, mimetype=file.mimetype, size=file.size, content=content)


class UpdateFile(OfFile, frozen=True, kw_only=True):
    """A file, and its new state."""

    is_active: Annotated[bool, Meta(description="True to make the text searchable, false to erase the text.")]


@operation(
    "apps.files.update",
    "PATCH /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    effect="write",
    outside=True,
    any_scope=True,
    patient=True,
    awaits=lambda request, file: _await_text(request, file),
    example=Example({**OF, "is_active": False}, GIVEN),
)
def update_file(call: Call, request: UpdateFile) -> FileInfo:
    """Activate or deactivate a file. The text of an inactive file is erased, and extracted again when it is activated."""

    def write(space: Space) -> FileInfo:
        owner, file = _require_file(space, request)
        change = file_rows.activate_file if request.is_active else file_rows.deactivate_file
        file, job = change(space, owner, file)
        _touch_session(space, owner, file.id)
        return structs.replace(_to_response(space, file), job=job)

    return call.write(write)


class DeletedFile(Response, frozen=True, kw_only=True):
    """A deleted file, and the job that erases its bytes."""

    file_id: str
    job: str


@operation(
    "apps.files.delete",
    "DELETE /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    effect="erase",
    any_scope=True,
    example=Example(OF, GIVEN),
)
def delete_file(space: Space, request: OfFile) -> DeletedFile:
    """Erase a file and its text."""
    owner, file = _require_file(space, request)
    _touch_session(space, owner, file.id)
    return DeletedFile(file_id=file.id, job=file_rows.delete_file(space, file))


# Storing


def store_file(call: Call, request: UploadFile) -> FileInfo:
    """Store a file in a session, without waiting for its text."""
    content = request.content
    if not content:
        raise Invalid("The file is empty: a file has at least one byte.", field="content")
    if len(content) > MAX_FILE:
        raise TooLarge(f"The file is larger than {MAX_FILE // 1024**2} MiB: split it.", field="content", limit=MAX_FILE)
    name = clean_name(request.filename)
    new = NewFile(digest_of(content), name, mimetype_of(name, request.mimetype, content[:HEAD]), len(content))
    answer: FileInfo | None = call.find_answer()
    if answer is not None:
        return answer
    call.read(lambda space: _check_upload(space, request, new))
    if not call.read(lambda space: has_sweep_job(space.tx)):
        call.engine.write(call.principal, lambda space: sweep_later(space.tx, space.now))
    for _ in range(MAX_ATTEMPTS):
        call.blobs.put(content)
        try:
            return call.write(lambda space: _add_row(space, call, request, new))
        except _BlobDeleted:
            continue
        except MemwellError:
            with suppress(MemwellError):  # if this fails, the sweep deletes the bytes later
                call.engine.write(call.principal, lambda space: delete_orphan(space.tx, call.blobs, new.digest))
            raise
    raise Unavailable("The same file is being erased: try again in a moment.")


def _await_text(at: OfSession | UploadFile, file: FileInfo) -> Awaited | None:
    """Wait a few seconds for the text of a file, and answer with its current state."""
    if file.job is None or file.state != "pending":
        return None

    def answer(call: Call, job: StoredJob | None) -> FileInfo:
        request = OfFile(app=at.app, session_id=at.session_id, file_id=file.file_id)
        with suppress(NotFound):  # the file was deleted meanwhile
            current = call.read(lambda space: _to_response(space, _require_file(space, request)[1]))
            return structs.replace(current, job=file.job)
        return file

    return Awaited(file.job, READ_S, answer)


def _to_response(space: Space, file: File) -> FileInfo:
    return FileInfo(
        file_id=file.id,
        filename=file.filename,
        mimetype=file.mimetype,
        size=file.size,
        is_active=bool(file.active),
        state=file.shown_state,
        created_at=to_datetime(file.created_at),
        download_url=space.link(file.id, file.digest),
        reason=None if file.reason is None or not file.active else f"The file {file.reason}.",
    )


class Session(NamedTuple):
    """A session and its user."""

    address_id: int
    user_id: str | None


def _find_session(space: Space, app: str, session_id: str) -> Session | None:
    """Return a session, if there is one. Reject a principal that may not read it."""
    found = find_app_session(space, app, session_id)
    user_id = get_user(found)
    space.principal.require_user(user_id)
    return None if found is None else Session(found.address_id, user_id)


def _check_upload(space: Space, request: UploadFile, new: NewFile) -> None:
    """Check the upload before any bytes are stored. A scoped key cannot create apps."""
    session = find_app_session(space, request.app, request.session_id)
    owner = require_session_owner(space, request.app, request.session_id, session)
    space.principal.require_user(owner or request.user_id or space.principal.user)
    if space.principal.scope is not None:
        require_app(space, request.app)
    files = [] if session is None else file_rows.list_session_files(space, session.address_id)
    if file_rows.find_same_file(files, new) is None:
        file_rows.check_file_count(files, find_app_settings(space, request.app).max_files)


def _add_row(space: Space, call: Call, request: UploadFile, new: NewFile) -> FileInfo:
    if not call.blobs.within(space.tx).has(new.digest):
        raise _BlobDeleted
    app = require_or_add_app(space, request.app).settings
    user_id = request.user_id or space.principal.user
    opening = SessionRequest(session_id=request.session_id, user_id=user_id, metadata=request.metadata)
    opened = open_session(space, request.app, opening)
    owner = _to_owner(request, opened.address_id, opened.user_id)
    file, job = file_rows.add_file(space, owner, new, app.max_files)
    _touch_session(space, owner, file.id)
    response = structs.replace(_to_response(space, file), job=job)
    return response if file.active else structs.replace(response, reason=INACTIVE)


def _require_file(space: Space, request: OfFile) -> tuple[Owner, File]:
    session = _find_session(space, request.app, request.session_id)
    file = None if session is None else file_rows.find_file(space, request.file_id, session.address_id)
    if session is None or file is None:
        raise NotFound("There is no such file in this session.")
    return _to_owner(request, session.address_id, session.user_id), file


def _to_owner(request: OfSession | UploadFile, address_id: int, user_id: str | None) -> Owner:
    app, session_id = request.app, request.session_id
    ties = (session_tie(app, session_id), in_session_tie(app, session_id))
    return Owner(address_id, app, ties if user_id is None else (*ties, user_tie(user_id)))


def _touch_session(space: Space, owner: Owner, file_id: str) -> None:
    """Record that the session has changed, so that stored responses about the file are dropped with it."""
    collection_id, _ = space.collection(app_records(owner.app))
    space.touch(collection_id, owner.address_id, 0, file_id)


class _BlobDeleted(Exception):
    """The bytes were deleted before the row was written."""


# Links: a link contains the tenant, the file and the expiry time, and works without a credential


INVALID_LINK = "There is no such file, or the link to it has expired."
PIECE = 256 * 1024
"""Bytes of a file that are in memory during a download."""


def parse_link(engine: Engine, token: str) -> FileRef:
    """Decode a link. All invalid links raise the same error."""
    found = engine.links.read(token, engine.clock.now())
    if found is None:
        raise NotFound(INVALID_LINK)
    return found


def open_link(engine: Engine, link: FileRef) -> tuple[File, bytes]:
    """Return the file of a link, checked to be whole, and its first piece."""
    principal = Principal(link.tenant, "reader", "link")
    try:
        row = engine.read(principal, lambda space: space.tx.row("live_file", id=link.file_id))
        file = None if row is None else File(*row)
        first = b"" if file is None else engine.store.blobs(link.tenant).get(file.digest)[:PIECE]
    except NotFound:
        file = None
    if file is None:
        raise NotFound(INVALID_LINK)
    if engine.store.notifier.is_watched:
        publish_read(engine, principal, read_file, None, None)
    return file, first


def read_piece(engine: Engine, link: FileRef, file: File, at: int) -> bytes:
    """Return the piece of a file at an offset, unless the file was deleted meanwhile."""
    found = engine.store.blobs(link.tenant).piece(file.digest, at, PIECE)
    if not found:
        raise NotFound(INVALID_LINK)
    return found


# Search


class SearchFiles(OfSession, frozen=True, kw_only=True):
    """A query in the files of a session."""

    query: QueryText
    limit: Limit = 5
    filter: FilterField | None = None
    min_score: MinScore | None = None
    explain: Explain = False
    recipe: RecipeName = "default"


@operation(
    "apps.sessions.search",
    "POST /v1/apps/{app}/sessions/{session_id}/search",
    outside=True,
    any_scope=True,
    example=Example({"app": "shop", "session_id": "sess_123", "query": "How long is the warranty?"}, GIVEN),
)
def search_files(call: Call, request: SearchFiles) -> Hits:
    """Search the active files of a session by words and meaning. The metadata of each hit names its file."""
    files = call.read(lambda space: _list_active(space, request))
    if any(one.state == "pending" for one in files):
        call.engine.help_out(call.principal.tenant)
        files = call.read(lambda space: _list_active(space, request))
    query = Query(
        text=query_text(request.query),
        where=tuple(Where(text_place(request.app), one.id) for one in files if one.state == "extracted"),
        limit=request.limit,
        filter=parse(request.filter) if request.filter else None,
        min_score=check_number(request.min_score, "min_score"),
        recipe=request.recipe,
    )
    found = call.engine.search(call.principal, query)
    hits = to_hits(found, explain=request.explain, session=request.session_id)
    unread = sum(one.state == "pending" for one in files)
    if not unread:
        return hits
    subject = "One file is" if unread == 1 else f"{unread} files are"
    return structs.replace(hits, warning=" ".join(filter(None, [f"{subject} still being read.", hits.warning])))


def _list_active(space: Space, request: OfSession) -> list[File]:
    session = _find_session(space, request.app, request.session_id)
    files = [] if session is None else file_rows.list_session_files(space, session.address_id)
    return [file for file in files if file.active]


TEXT_BUDGET = 8000
"""Tokens of the text of all active files in a prompt."""
PASSAGES = 100
"""Passages that are read at once."""


def read_active_text(space: Space, app: str, session_id: str) -> tuple[str, str | None]:
    """Return the text of the active files of a session under their names, within a budget of tokens, and a warning if a part is
    missing or looks like a secret."""
    files = [
        file for file in _list_active(space, OfSession(app=app, session_id=session_id)) if file.state in _WITH_TEXT
    ]
    read = [file for file in files if file.state == "extracted"]
    texts = []
    cut = 0
    for file, share in zip(read, share_out([file.tokens for file in read], TEXT_BUDGET), strict=True):
        passages, is_cut = _read_passages(space, app, file, share)
        cut += is_cut
        texts.append("\n\n".join([f"## {file.filename}", *passages, *(["(The rest is cut.)"] if is_cut else [])]))
    notes = [f"the text of {cut} of {len(read)} files is cut to {TEXT_BUDGET:,} tokens in all" if cut else ""]
    notes.append(f"{len(files) - len(read)} files are still being read" if len(files) > len(read) else "")
    text = "\n\n".join(texts)
    from ..screening.secrets import find_secret  # lazy: its patterns take a while to load

    kind = find_secret(text)
    notes.append(f"a file holds what looks like a secret ({kind})" if kind else "")
    warning = "; ".join(filter(None, notes))
    return text, f"`artifacts.text`: {warning}" if warning else None


def _read_passages(space: Space, app: str, file: File, room: int) -> tuple[list[str], bool]:
    """Return the first passages of a file within a number of tokens, and True if there are more."""
    address = space.address(text_place(app), file.id)
    found: list[str] = []
    seq = 0
    while address is not None and (page := space.after(address, seq, PASSAGES)):
        for entry in page:
            room -= estimate_tokens(entry.content)
            if room < 0:
                return found, True
            found.append(entry.content)
        seq = page[-1].seq
    return found, False


_WITH_TEXT = ("pending", "extracted")

# Extraction: a job splits the text of a file into passages, which searches in its session can find

BATCH = 100
"""Passages that are written at once."""
MAX_PASSAGE = 1200
"""Characters of a passage: long enough to be understood, and short enough for several to fit into a prompt."""
TOO_LARGE = (
    "has about {:,} tokens of text, and the files of a session may have {:,} together: deactivate other files, then activate "
    "it again"
)
_PARAGRAPH_GAP = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_GAP = re.compile(r"(?<=[.!?。！？؟])\s+|\n")


class _Gone(Exception):
    """The file was deleted or deactivated."""


def extract_file(engine: Engine, run: JobRun) -> dict[str, Any]:
    """Read the file outside any transaction, and write its passages in batches, as long as the file exists and is active. An
    interrupted job continues after the passages that are already written, because the same bytes give the same text."""
    try:
        file = run.read(lambda tx: _require_active(tx, run))
        try:
            extraction = extract(run.reach.blobs.get(file.digest), file.mimetype)
        except (Corrupted, NotFound) as error:
            extraction = Extraction("", "failed", f"could not be read: {error.message}")
        passages = split_passages(extraction.text)
        # Count the passages one by one, so that other threads get their turn.
        tokens = max(sum(map(estimate_tokens, passages)), 1)
        while run.write(lambda tx: _write_batch(tx, run, extraction, passages, tokens, engine.embeds)):
            pass
        file = run.read(lambda tx: _require_active(tx, run))
    except _Gone:
        return {"state": "gone"}
    return {"state": file.state, "tokens": file.tokens, **({} if file.reason is None else {"reason": file.reason})}


def _write_batch(tx: Tx, run: JobRun, extraction: Extraction, passages: list[str], tokens: int, embeds: bool) -> bool:
    """Write the next passages; the last ones make the file searchable. Return True if there are more."""
    space = worker_space(tx, run.reach, run.clock, embeds=embeds)
    file, place = _require_active(tx, run), text_place(run.payload["app"])
    address = space.address(place, file.id)
    if address is None or file.state != "pending":
        return False
    written = address.last_seq
    if written:
        file = file._replace(tokens=tokens)
    elif extraction.state != "extracted":
        file = file._replace(reason=extraction.reason)
    else:
        row = tx.row("file_tokens", address_id=file.address_id, id=file.id)
        if (0 if row is None else int(row[0])) + tokens > MAX_TOKENS:
            file = file._replace(reason=TOO_LARGE.format(tokens, MAX_TOKENS))
        else:
            file = file._replace(reason=extraction.reason, tokens=tokens)
    if not file.tokens:
        passages = []
    batch = passages[written : written + BATCH]
    if batch:
        metadata = msgspec.json.encode({"file_id": file.id, "filename": file.filename}).decode()
        drafts = [Draft(kind="document", content=one, origin="document", metadata=metadata) for one in batch]
        space.append(place, file.id, drafts)
    if written + len(batch) < len(passages):
        file_rows.update_file(space, file)
        return True
    state = extraction.state
    file_rows.update_file(space, file._replace(state="kept" if state == "extracted" and not file.tokens else state))
    event = {"collection_id": address.collection_id, "address_id": address.id, "entries": len(passages)}
    tx.send("add_event", at=space.now, operation="apps.files.extract", actor="worker", **event)
    return False


def _require_active(tx: Tx, run: JobRun) -> File:
    """Return the file of a job, if it is active and its text belongs to the address of this job."""
    row = tx.row("find_file", id=run.payload["file"])
    file = None if row is None else File(*row)
    if file is None or not file.active or file.text_id != run.job.address_id:
        raise _Gone
    return file


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
    """Split a long paragraph between sentences, else between words, else anywhere."""
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
    """Yield the pieces of a sentence. All but the last are as long as possible."""
    start = 0
    while len(sentence) - start > MAX_PASSAGE:
        space = sentence.rfind(" ", start + MAX_PASSAGE // 2, start + MAX_PASSAGE + 1)
        end = start + MAX_PASSAGE if space < 0 else space
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()


JOBS = (JobKind("extract", extract_file, slow=True),)
