"""Searching the texts of a session's files: those that are active, of this session and of no other."""

from __future__ import annotations

from msgspec import structs

from ..dispatch import Call
from ..files.kept import of_session, texts
from ..model import check
from ..model.fields import FilterField, Limit
from ..model.file import File
from ..model.filter import parse
from ..model.query import Query, Where
from ..operation import Example, operation
from ..space import Space
from .files import GIVEN, OfSession, session_of
from .search import Explain, Hits, MinScore, QueryText, RecipeName, query_text, to_hits


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
    return [] if session is None else [one for one in of_session(space, session.address_id) if one.active]


def _query(request: SearchFiles, files: list[File]) -> Query:
    place = texts(request.app)
    return Query(
        text=query_text(request.query),
        where=tuple(Where(place, one.id) for one in files if one.state == "extracted"),
        limit=request.limit,
        filter=parse(request.filter) if request.filter else None,
        min_score=check.number(request.min_score, "min_score") or 0.0,
        recipe=request.recipe,
    )
