"""Files of sessions of apps: uploaded, listed, read, used or not, and deleted (S2.35, S2.36, B2.6–B2.8)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, structs

from ..admin.jobs import wait_for_job
from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.events import announce_read
from ..core.file_links import Named
from ..core.operation import Example, Request, Response, operation
from ..core.owners import app_records
from ..core.space import Space
from ..erasure.erase import delete_unnamed, is_swept, sweep_later
from ..errors import Invalid, MemwellError, NotFound, TooLarge, Unavailable
from ..extract.kinds import HEAD, clean_name, mimetype_of
from ..facts.search import Explain, Hits, MinScore, QueryText, RecipeName, query_text, to_hits
from ..jobs.queue import JobKind, JobRun
from ..model import check
from ..model.fields import AnyId, FilterField, Limit, SessionId
from ..model.filter import parse
from ..model.principal import Principal
from ..model.query import Query, Where
from ..records import file_rows
from ..records.app_sessions import (
    SessionMetadata,
    SessionRequest,
    UserId,
    find_app_session,
    in_session_tie,
    open_session,
    require_session_owner,
    session_tie,
    user_tie,
)
from ..records.apps import AppName, find_app_settings, require_app, require_or_add_app
from ..records.file_rows import MAX_FILE, STATES, File, NewFile, Owner, State, list_session_files, text_place
from ..storage.blobs import digest_of

READ_S = 3.0
"""How long an upload waits for its text."""
TRIES = 3
NOT_IN_USE = "The file is there already, and is not in use: activate it to have it searched."

Filename = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4096,
        description="What the file is called. It is shown without its path and without what cannot be seen.",
    ),
]
Mimetype = Annotated[
    str,
    Meta(
        max_length=255,
        description="What the file is, such as `application/pdf`; its name and its first bytes count more.",
    ),
]
FileContent = Annotated[bytes, Meta(description="The bytes of the file, at most 25 MiB; in JSON as Base64.")]
FileId = Annotated[AnyId, Meta(description="The id of the file.")]

_HELLO = "VGhlIHdhcnJhbnR5IG9mIHRoZSBibGVuZGVyIGVuZHMgaW4gTWFyY2guCg=="
NEW = {"app": "shop", "session_id": "sess_123", "filename": "warranty.txt", "content": _HELLO, "user_id": "user_456"}
GIVEN = (("apps.files.upload", NEW),)
OF = {"app": "shop", "session_id": "sess_123", "file_id": "$0.file_id"}


class FileInfo(Response, frozen=True, kw_only=True):
    """A file of a session. `download_url` holds for 30 days at least; whoever has it can read the file."""

    file_id: str
    filename: str
    mimetype: str
    size: int
    is_active: bool
    state: Annotated[State, Meta(description=STATES)]
    created_at: datetime
    download_url: str | None = None
    reason: str | None = None
    job: str | None = None


class FileList(Response, frozen=True, kw_only=True):
    """The files of a session, in the order in which they came."""

    files: list[FileInfo]


class UploadFile(Request, frozen=True, kw_only=True):
    """A file for a session, and what to pass along if that begins with it."""

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
    any_tie=True,
    patient=True,
    carries="content",
    example=Example(NEW),
)
def upload(call: Call, request: UploadFile) -> FileInfo:
    """Add a file to a session, which begins if it has not. Its text can be searched within seconds; the same file again is the
    one that is there. The body may be the file itself, or a form with it."""
    return read_soon(call, request, store(call, request))


class OfSession(Request, frozen=True, kw_only=True):
    """Which session."""

    app: AppName
    session_id: SessionId


class OfFile(OfSession, frozen=True, kw_only=True):
    """Which file of which session."""

    file_id: FileId


@operation(
    "apps.files.list",
    "GET /v1/apps/{app}/sessions/{session_id}/files",
    any_tie=True,
    example=Example({"app": "shop", "session_id": "sess_123"}, GIVEN),
)
def list_files(space: Space, request: OfSession) -> FileList:
    """The files of a session; none, if nothing is known of it."""
    session = session_of(space, request.app, request.session_id)
    found = [] if session is None else file_rows.list_session_files(space, session.address_id)
    return FileList(files=[info(space, one) for one in found])


@operation(
    "apps.files.get",
    "GET /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    any_tie=True,
    example=Example(OF, GIVEN),
)
def get(space: Space, request: OfFile) -> FileInfo:
    """What is known of a file."""
    return info(space, _existing(space, request)[1])


class ReadFile(Response, frozen=True, kw_only=True):
    """A file with its bytes, which are Base64 in JSON."""

    file_id: str
    filename: str
    mimetype: str
    size: int
    content: bytes


@operation(
    "apps.files.read",
    "GET /v1/apps/{app}/sessions/{session_id}/files/{file_id}/content",
    outside=True,
    any_tie=True,
    example=Example(OF, GIVEN),
)
def read(call: Call, request: OfFile) -> ReadFile:
    """The bytes of a file, as they were uploaded."""
    file = call.read(lambda space: _existing(space, request)[1])
    content = call.blobs.get(file.digest)
    return ReadFile(file_id=file.id, filename=file.filename, mimetype=file.mimetype, size=file.size, content=content)


class UpdateFile(OfFile, frozen=True, kw_only=True):
    """Which file, and whether it is to be used."""

    is_active: Annotated[
        bool, Meta(description="Whether its text is searched; a file that is not active is kept only.")
    ]


@operation(
    "apps.files.update",
    "PATCH /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    effect="write",
    outside=True,
    any_tie=True,
    patient=True,
    example=Example({**OF, "is_active": False}, GIVEN),
)
def update(call: Call, request: UpdateFile) -> FileInfo:
    """Use a file or use it no more. The text of one that is not active is erased, and read again once it is."""
    return read_soon(call, request, call.write(lambda space: _updated(space, request)))


class DeletedFile(Response, frozen=True, kw_only=True):
    """A file that is gone, and the job that erases its bytes."""

    file_id: str
    job: str


@operation(
    "apps.files.delete",
    "DELETE /v1/apps/{app}/sessions/{session_id}/files/{file_id}",
    effect="erase",
    any_tie=True,
    example=Example(OF, GIVEN),
)
def delete(space: Space, request: OfFile) -> DeletedFile:
    """Delete a file with its text, for good."""
    owner, file = _existing(space, request)
    _touch(space, owner, file.id)
    return DeletedFile(file_id=file.id, job=file_rows.delete_file(space, file))


# -- what others use -----------------------------------------------------------------------------------------------------


def store(call: Call, request: UploadFile) -> FileInfo:
    """Add a file to a session, and wait for nothing."""
    new = _checked(request)
    again: FileInfo | None = call.answered()
    if again is not None:
        return again
    call.read(lambda space: _require_room(space, request, new))
    if not call.read(lambda space: is_swept(space.tx)):
        call.engine.write(call.principal, lambda space: sweep_later(space.tx, space.now))
    return _stored(call, request, new)


def read_soon(call: Call, at: OfSession | UploadFile, file: FileInfo) -> FileInfo:
    """A file, with what has become of its text if that is known soon."""
    if file.job is None or file.state != "pending":
        return file
    with suppress(NotFound):  # somebody has deleted it already
        wait_for_job(call, file.job, READ_S)
        named = OfFile(app=at.app, session_id=at.session_id, file_id=file.file_id)
        current = call.read(lambda space: info(space, _existing(space, named)[1]))
        return structs.replace(current, job=file.job)
    return file


def info(space: Space, file: File) -> FileInfo:
    return FileInfo(
        file_id=file.id,
        filename=file.filename,
        mimetype=file.mimetype,
        size=file.size,
        is_active=bool(file.active),
        state=file.state,
        created_at=to_datetime(file.created_at),
        download_url=space.link(file.id, file.digest),
        reason=None if file.reason is None else f"The file {file.reason}.",
    )


class Session(NamedTuple):
    """A session that is there, and whose it is."""

    address_id: int
    user_id: str | None


def session_of(space: Space, app: str, session_id: str) -> Session | None:
    """A session, if whoever asks may know of it."""
    found = find_app_session(space, app, session_id)
    user_id = None if found is None else found.value["sessionInfo"].get("userId")
    space.principal.speaks_for(user_id)
    return None if found is None else Session(found.address_id, user_id)


# -- inside --------------------------------------------------------------------------------------------------------------


def _checked(request: UploadFile) -> NewFile:
    """What is uploaded, as it will be kept."""
    content = request.content
    if not content:
        raise Invalid("The file is empty: a file has at least one byte.", field="content")
    if len(content) > MAX_FILE:
        raise TooLarge(f"The file is larger than {MAX_FILE // 1024**2} MiB: split it.", field="content", limit=MAX_FILE)
    name = clean_name(request.filename)
    return NewFile(digest_of(content), name, mimetype_of(name, request.mimetype, content[:HEAD]), len(content))


def _require_room(space: Space, request: UploadFile, new: NewFile) -> None:
    """Refuse what will be refused before any byte of it is stored. A key that is held to somebody makes no apps."""
    session = find_app_session(space, request.app, request.session_id)
    owner = require_session_owner(space, request.app, request.session_id, session)
    space.principal.speaks_for(owner or request.user_id or space.principal.user)
    if space.principal.tie is not None:
        require_app(space, request.app)
    files = [] if session is None else file_rows.list_session_files(space, session.address_id)
    if file_rows.find_same_file(files, new) is None:
        file_rows.check_file_count(files, find_app_settings(space, request.app).max_files)


def _stored(call: Call, request: UploadFile, new: NewFile) -> FileInfo:
    """Store the bytes, then what is known of them; if that cannot be, the bytes are not kept either."""
    for _ in range(TRIES):
        call.blobs.put(request.content)
        try:
            return call.write(lambda space: _added(space, call, request, new))
        except _Deleted:
            continue
        except MemwellError:
            with suppress(MemwellError):  # the sweep finds it
                call.engine.write(call.principal, lambda space: delete_unnamed(space.tx, call.blobs, new.digest))
            raise
    raise Unavailable("The same file is being erased: try again in a moment.")


def _added(space: Space, call: Call, request: UploadFile, new: NewFile) -> FileInfo:
    """Write down what was stored, unless somebody has deleted it since."""
    if not call.blobs.within(space.tx).has(new.digest):
        raise _Deleted
    app = require_or_add_app(space, request.app).settings
    user_id = request.user_id or space.principal.user
    opening = SessionRequest(session_id=request.session_id, user_id=user_id, metadata=request.metadata)
    opened = open_session(space, request.app, opening)
    owner = _owner(request, opened.address_id, opened.user_id)
    file, job = file_rows.add_file(space, owner, new, app.max_files)
    _touch(space, owner, file.id)
    shown = structs.replace(info(space, file), job=job)
    return shown if file.active else structs.replace(shown, reason=NOT_IN_USE)


def _updated(space: Space, request: UpdateFile) -> FileInfo:
    owner, file = _existing(space, request)
    changed, job = (file_rows.activate_file if request.is_active else file_rows.deactivate_file)(space, owner, file)
    _touch(space, owner, file.id)
    return structs.replace(info(space, changed), job=job)


def _existing(space: Space, request: OfFile) -> tuple[Owner, File]:
    session = session_of(space, request.app, request.session_id)
    file = None if session is None else file_rows.find_file(space, request.file_id, session.address_id)
    if session is None or file is None:
        raise NotFound("There is no such file in this session.")
    return _owner(request, session.address_id, session.user_id), file


def _owner(request: OfSession | UploadFile, address_id: int, user_id: str | None) -> Owner:
    app, session_id = request.app, request.session_id
    ties = (session_tie(app, session_id), in_session_tie(app, session_id))
    return Owner(address_id, app, ties if user_id is None else (*ties, user_tie(user_id)))


def _touch(space: Space, owner: Owner, file_id: str) -> None:
    """The session has changed; a stored answer that speaks of the file goes with it."""
    collection_id, _ = space.collection(app_records(owner.app))
    space.touch(collection_id, owner.address_id, 0, file_id)


class _Deleted(Exception):
    """The bytes were deleted between being stored and being named."""


# -- Reading a file by its link. The link is all that is asked for: it says which file of which tenant, and until when.


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


# -- Searching the texts of a session's files: those that are active, of this session and of no other.


class SearchFiles(OfSession, frozen=True, kw_only=True):
    """What to look for in the files of a session, and under which conditions."""

    query: QueryText
    limit: Limit = 5
    filter: FilterField | None = None
    min_score: MinScore = 0.0
    explain: Explain = False
    recipe: RecipeName = "default"


@operation(
    "apps.sessions.search",
    "POST /v1/apps/{app}/sessions/{session_id}/search",
    outside=True,
    any_tie=True,
    example=Example({"app": "shop", "session_id": "sess_123", "query": "How long is the warranty?"}, GIVEN),
)
def search(call: Call, request: SearchFiles) -> Hits:
    """Search the files of a session that are active, by words and meaning. Each hit says in its metadata of which file it is."""
    files = call.read(lambda space: _files(space, request))
    if any(one.state == "pending" for one in files):
        call.engine.help_out(call.principal.tenant)
        files = call.read(lambda space: _files(space, request))
    found = call.engine.search(call.principal, _query(request, files))
    hits = to_hits(found, explain=request.explain, session=request.session_id)
    unread = sum(one.state == "pending" for one in files)
    if not unread:
        return hits
    said = "One file is" if unread == 1 else f"{unread} files are"
    return structs.replace(hits, warning=" ".join(filter(None, [f"{said} still being read.", hits.warning])))


def _files(space: Space, request: SearchFiles) -> list[File]:
    session = session_of(space, request.app, request.session_id)
    return [] if session is None else [one for one in list_session_files(space, session.address_id) if one.active]


def _query(request: SearchFiles, files: list[File]) -> Query:
    place = text_place(request.app)
    return Query(
        text=query_text(request.query),
        where=tuple(Where(place, one.id) for one in files if one.state == "extracted"),
        limit=request.limit,
        filter=parse(request.filter) if request.filter else None,
        min_score=check.number(request.min_score, "min_score") or 0.0,
        recipe=request.recipe,
    )


def run_extraction(engine: Engine, run: JobRun) -> dict[str, Any]:
    from .reading import read_file

    return read_file(run, embeds=engine.embeds)


JOBS = (JobKind("extract", run_extraction, slow=True),)
