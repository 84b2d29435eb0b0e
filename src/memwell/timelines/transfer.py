"""Export and import of a flow. A line is a session, a turn or a memory; as JSON it is a line of a JSONL file.

An export returns a page of lines at a time. An import adds all lines of a request or none, and skips entries that exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import flow_facts, flow_timeline
from ..core.space import Space
from ..core.turns import NewTurn, ToolCalls, to_draft, to_turn
from ..errors import Invalid
from ..facts.fact_rows import FACTS_PATH, FactRow, StoredFact, write_entry_fact
from ..facts.memories import find_stored
from ..ids import derive_id, inner_id
from ..model.collection import Draft, Entry, Origin, Place
from ..model.fields import (
    MAX_BATCH,
    MAX_CONTENT,
    AnyId,
    Confidence,
    Cursor,
    Flow,
    Importance,
    Label,
    Limit,
    Metadata,
    Role,
    check_content,
    check_identifier,
    check_number,
    from_cursor,
    to_cursor,
    to_instant,
    to_json,
)

Subject = Annotated[str, Meta(min_length=1, max_length=1000, description="The person that a memory is about, if any.")]

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "content": "Where is my order?"}


class EvidencePassage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage of a turn that a memory rests on, as a range of characters."""

    session: AnyId
    turn: AnyId
    start: Annotated[int, Meta(ge=0, le=MAX_CONTENT)]
    end: Annotated[int, Meta(ge=0, le=MAX_CONTENT)]


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of an export."""

    type: Annotated[Literal["session", "turn", "memory"], Meta(description="`session`, `turn` or `memory`.")]
    session: AnyId | None = None
    id: AnyId | None = None
    role: Role | None = None
    content: str | None = None
    name: Label | None = None
    tool_name: Label | None = None
    tool_call_id: Label | None = None
    tool_calls: ToolCalls | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    occurred_at: datetime | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    metadata: Metadata | None = None
    origin: Origin | None = None
    subject: Subject | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    evidence: Annotated[list[EvidencePassage], Meta(max_length=MAX_BATCH)] | None = None
    distilled: Annotated[
        bool, Meta(description="True if the turn was consolidated: its facts are among the memories.")
    ] = False


class Export(Request, frozen=True, kw_only=True):
    """A page of an export."""

    flow: Flow
    limit: Limit = 500
    cursor: Cursor | None = None


class Lines(Response, frozen=True, kw_only=True):
    """A page of an export."""

    lines: list[Line]
    next_cursor: str | None = None


@operation(
    "flows.export",
    "GET /v1/flows/{flow}/export",
    owner="flow",
    example=Example({"flow": "support"}, (("flows.append", _TURN),)),
)
def export(space: Space, request: Export) -> Lines:
    """Export a page of a flow: sessions, turns and memories, each session in order."""
    kind, path, seq = from_cursor("export", request.cursor, "timeline", "", 0)
    lines: list[Line] = []
    while len(lines) < request.limit:
        # the first address whose path is at least this one
        row = space.tx.row("address_from", dialect="flow", name=request.flow, kind=kind, path=path, now=space.now)
        if row is None:
            if kind == "facts":
                return Lines(lines=lines)
            kind, path, seq = "facts", "", 0
            continue
        address = _Place(*row)
        seq = seq if address.path == path else 0
        wanted = request.limit - len(lines)
        query, given = ("next_entries", {}) if kind == "timeline" else ("next_of_kind", {"kind": "fact"})
        rows = space.tx.rows(query, address_id=address.id, after=seq, now=space.now, limit=wanted, **given)
        entries = [Entry(*row) for row in rows]
        if kind == "timeline":
            lines += [_turn_line(entry, address) for entry in entries]
        else:
            facts = find_stored(space, entries)
            lines += [_memory_line(space, entry, address.path, facts.get(entry.id)) for entry in entries]
        if len(rows) == wanted:
            return Lines(lines=lines, next_cursor=to_cursor("export", kind, address.path, rows[-1][2]))
        if kind == "timeline":  # after its turns, so that an import ends the session after them
            created_at, ended_at = to_datetime(address.created_at), optional_datetime(address.ended_at)
            lines.append(Line(type="session", session=address.path, created_at=created_at, ended_at=ended_at))
        path, seq = address.path + "\x01", 0  # the next possible path
    return Lines(lines=lines, next_cursor=to_cursor("export", kind, path, seq))


class _Place(NamedTuple):
    """An address to export."""

    id: int
    path: str
    created_at: int
    ended_at: int | None
    distilled_seq: int


def _turn_line(entry: Entry, address: _Place) -> Line:
    turn = to_turn(entry, address.path)
    return Line(
        type="turn",
        id=turn.id,
        session=address.path,
        role=entry.role,  # type: ignore[arg-type]
        content=turn.content,
        name=turn.name,
        tool_name=turn.tool_name,
        tool_call_id=turn.tool_call_id,
        tool_calls=turn.tool_calls,
        occurred_at=turn.occurred_at,
        created_at=turn.created_at,
        metadata=turn.metadata,
        origin=turn.origin,  # type: ignore[arg-type]
        distilled=entry.seq <= address.distilled_seq,
    )


def _memory_line(space: Space, entry: Entry, path: str, fact: StoredFact | None) -> Line:
    rows = space.tx.rows("evidence_of", fact_id=entry.id, now=space.now)[:MAX_BATCH]
    return Line(
        type="memory",
        id=entry.id,
        session=path or None,
        content=entry.content,
        name=entry.name,
        importance=entry.importance,
        confidence=entry.confidence,
        occurred_at=to_datetime(entry.occurred_at),
        created_at=to_datetime(entry.created_at),
        metadata=msgspec.json.decode(entry.metadata) if entry.metadata else None,
        origin=entry.origin,  # type: ignore[arg-type]
        subject=fact.subject if fact else None,
        valid_from=optional_datetime(fact.valid_from) if fact else None,
        valid_to=optional_datetime(fact.valid_to) if fact else None,
        evidence=[EvidencePassage(session=row[6], turn=row[0], start=row[1], end=row[2]) for row in rows if row[6]]
        or None,
    )


class Import(Request, frozen=True, kw_only=True):
    """Lines to import."""

    flow: Flow
    lines: Annotated[
        list[Line], Meta(min_length=1, max_length=MAX_BATCH, description=f"1 to {MAX_BATCH} lines, in order.")
    ]


class Imported(Response, frozen=True, kw_only=True):
    """The numbers of turns and memories that were added, and that existed already."""

    added: int
    skipped: int


@operation(
    "flows.import",
    "POST /v1/flows/{flow}/import",
    effect="write",
    owner="flow",
    example=Example({"flow": "support", "lines": [{"type": "turn", "session": "s1", "role": "user", "content": "Hi"}]}),
)
def import_lines(space: Space, request: Import) -> Imported:
    """Add the lines of an export, all or none. Existing entries are skipped, so a repeated import adds nothing."""
    importer = _Importer(space, request.flow, [line.id for line in request.lines if line.id is not None])
    for number, line in enumerate(request.lines):
        importer.add(line, f"lines[{number}]")
    importer.write()
    importer.write_evidence()
    return Imported(added=importer.added, skipped=importer.skipped)


class _Importer:
    """An import in progress. The entries of one address are written together, in order, after all lines were read."""

    def __init__(self, space: Space, flow: str, ids: Sequence[str]) -> None:
        self._space = space
        self._timeline, self._facts = flow_timeline(flow), flow_facts(flow)
        listed = msgspec.json.encode(ids).decode()
        self._used: dict[str, int | str] = dict(space.tx.rows("entries_exist", ids=listed)) if ids else {}
        """The address of each id that is used: its number, or its kind and path if this import has chosen it."""
        self._addresses: dict[tuple[str, str], int | None] = {}
        self._drafts: dict[tuple[Place, str], list[tuple[Draft, Line]]] = {}
        self._evidence: list[tuple[str, EvidencePassage]] = []
        self.added = self.skipped = 0

    def add(self, line: Line, where: str) -> None:
        if line.session is not None:
            check_identifier(line.session, f"{where}.session")
        if line.type == "memory":
            if line.session is not None:
                self._drafts.setdefault((self._timeline, line.session), [])
            self._add_draft(self._facts, line.session or FACTS_PATH, line, _memory_draft(line, where))
        elif line.session is None:
            raise Invalid(
                f"`{where}.session` is missing: a {line.type} belongs to a session.", field=f"{where}.session"
            )
        elif line.type == "session":
            self._end(line.session, to_instant(line.ended_at))
        else:
            self._add_draft(self._timeline, line.session, line, _turn_draft(line, where))

    def _add_draft(self, place: Place, path: str, line: Line, draft: Draft) -> None:
        entry_id = self._find_free_id(place, path, line.id)
        if entry_id is None:
            self.skipped += 1
            return
        self.added += 1
        draft = msgspec.structs.replace(draft, id=entry_id or None)
        self._drafts.setdefault((place, path), []).append((draft, line))

    def _end(self, session: str, ended_at: int | None) -> None:
        """Create the session of a line if it has no turns, and end it if it had ended. Its turns precede this line."""
        self._drafts.setdefault((self._timeline, session), [])
        self.write()
        address = self._space.address(self._timeline, session)
        if address is not None and ended_at is not None and address.ended_at is None:
            self._space.tx.send("end_address", id=address.id, now=ended_at)

    def write(self) -> None:
        drafts, self._drafts = self._drafts, {}
        for (place, path), some in drafts.items():
            entries = self._space.append(place, path, [draft for draft, _ in some])
            pairs = [(entry, line) for entry, (_, line) in zip(entries, some, strict=True)]
            if place == self._facts:
                for entry, line in pairs:
                    write_entry_fact(self._space, place, entry, _fact_row(line))
                    self._evidence += [(entry.id, words) for words in line.evidence or ()]
            distilled = [entry.seq for entry, line in pairs if line.distilled]
            if distilled and place == self._timeline:  # the export has their facts, unless they were retracted
                address = self._space.address(place, path)
                if address is not None:
                    self._space.tx.send("set_distilled", id=address.id, upto=max(distilled))

    def write_evidence(self) -> None:
        """Add the evidence of the new memories, if its turns exist."""
        for fact_id, words in self._evidence:
            ids = self._list_ids(self._timeline, words.session, words.turn)
            turn = next(filter(None, (self._space.entry(self._timeline, one) for one in ids)), None)
            if turn is not None:
                self._space.tx.send(
                    "add_evidence",
                    id=inner_id(),
                    fact_id=fact_id,
                    entry_id=turn.entry.id,
                    address_id=turn.address_id,
                    first_char=min(words.start, len(turn.entry.content)),
                    end_char=min(words.end, len(turn.entry.content)),
                    origin=turn.entry.origin,
                    said_at=turn.entry.occurred_at,
                    plan_id="",
                )

    def _find_free_id(self, place: Place, path: str, wanted: str | None) -> str | None:
        """Return the id of a line, or one derived from it if that is used elsewhere, or "" for a new id; None if it exists."""
        for candidate in self._list_ids(place, path, wanted):
            if candidate not in self._used and candidate != wanted:  # the constructor has looked up those of lines
                row = self._space.tx.row("entry_exists", id=candidate)
                if row is not None:
                    self._used[candidate] = row[0]
            used = self._used.get(candidate)
            if used is None:
                self._used[candidate] = f"{place.kind}/{path}"
                return candidate
            if used in (f"{place.kind}/{path}", self._find_address(place, path)):
                return None
        return ""  # entries that are being erased still use both

    def _list_ids(self, place: Place, path: str, wanted: str | None) -> list[str]:
        return [] if wanted is None else [wanted, derive_id(place.name, place.kind, path, wanted)]

    def _find_address(self, place: Place, path: str) -> int | None:
        key = place.kind, path
        if key not in self._addresses:
            address = self._space.address(place, path)
            self._addresses[key] = None if address is None else address.id
        return self._addresses[key]


def _fact_row(line: Line) -> FactRow:
    since, until = to_instant(line.valid_from, "valid_from"), to_instant(line.valid_to, "valid_to")
    return FactRow(subject=line.subject, valid_from=since, valid_to=until)


def _turn_draft(line: Line, where: str) -> Draft:
    if line.role is None:
        raise Invalid(f"`{where}.role` is missing: name the speaker.", field=f"{where}.role")
    turn = NewTurn(
        role=line.role,
        content=line.content or "",
        name=line.name,
        tool_name=line.tool_name,
        tool_call_id=line.tool_call_id,
        tool_calls=line.tool_calls,
        occurred_at=line.occurred_at,
        origin=line.origin if line.origin in ("tool", "document") else None,
    )
    return msgspec.structs.replace(to_draft(turn), metadata=to_json(line.metadata))


def _memory_draft(line: Line, where: str) -> Draft:
    return Draft(
        kind="fact",
        content=check_content(line.content or "", field=f"{where}.content"),
        name=line.name,
        origin=line.origin or "system",
        importance=0.5 if line.importance is None else check_number(line.importance, "importance"),
        confidence=1.0 if line.confidence is None else check_number(line.confidence, "confidence"),
        metadata=to_json(line.metadata),
        occurred_at=to_instant(line.occurred_at),
        created_at=to_instant(line.created_at),
    )
