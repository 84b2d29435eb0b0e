"""Read the entries of a key in order, and render them as messages, JSON, plain text, HTML or XML.

A summary takes the place of the last entry that it was made of, and every form says that it is a summary.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec

from ..clock import to_datetime
from ..core.space import Space
from ..model.collection import Address, Entry
from ..model.fields import to_metadata
from ..storage.port import Row
from .banks import find_key

ContentType = Literal["application/json", "text/plain", "text/html", "application/xml"]
Order = Literal["newest_first", "oldest_first"]
JSON: ContentType = "application/json"
WINDOW = 100
"""The most messages of a key that `banks.add` returns."""
STRIDE = 50
"""The first of these messages changes only every so many turns, so that prompt caches keep their prefix."""
MAX_TITLE = 80
DIVIDER = "\n---\n"
_NEWEST = 2**62
_FIELDS = len(Entry.__struct_fields__)


class EntryView(NamedTuple):
    """An entry for a response."""

    id: str
    content: str
    created_at: datetime
    seq: int
    role: str | None = None
    metadata: dict[str, Any] | None = None
    entries: int = 0
    """The number of entries that it summarises; 0 if it is not a summary."""
    summary_id: str | None = None
    """The summary that hides it."""

    @property
    def title(self) -> str:
        """`title` of its metadata, or the beginning of its first line."""
        title = (self.metadata or {}).get("title")
        if isinstance(title, str) and title.strip():
            return title.strip()
        line = next(iter(self.content.strip().splitlines()), "")
        return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"


def to_view(entry: Entry, entries: int = 0, summary_id: str | None = None) -> EntryView:
    created_at, metadata = to_datetime(entry.created_at), to_metadata(entry.metadata)
    return EntryView(entry.id, entry.content, created_at, entry.seq, entry.role, metadata, entries, summary_id)


# -- reading -------------------------------------------------------------------------------------------------------------


def recent_messages(space: Space, address_id: int, upto: int) -> list[dict[str, str]]:
    """Return the last messages of a key up to an entry, the oldest first: 51 to 100, or fewer if the key is short (C7)."""
    rows = _last_messages(space, address_id, upto, WINDOW + 1)
    rows.reverse()
    last = rows[-WINDOW:]
    start = 0
    if len(rows) > WINDOW:
        # Begin after a multiple of 50, so that the first message stays the same for 50 turns.
        border = -(-(last[0][0] - 1) // STRIDE) * STRIDE
        start = next((index for index, row in enumerate(last) if row[0] > border), 0)
    return [build_message(role, content, entries) for _, role, content, entries in last[start:]]


def recent_messages_of_key(space: Space, bank_id: str, key: str, upto: int) -> list[dict[str, str]]:
    address = find_key(space, bank_id, key)
    return [] if address is None else recent_messages(space, address.id, upto)


def load_messages(space: Space, address_id: int, order: Order, limit: int) -> list[dict[str, str]]:
    """Return messages of a key: the latest with `newest_first`, the earliest with `oldest_first`."""
    if order == "newest_first":
        rows = _last_messages(space, address_id, _NEWEST, limit)
    else:
        params = {"address_id": address_id, "now": space.now, "limit": limit}
        turns, summaries = space.tx.rows("first_said", **params), space.tx.rows("shown_summaries_up", **params)
        rows = _merge_messages(turns, summaries, down=False)
    return [build_message(role, content, entries) for _, role, content, entries in rows[:limit]]


def load_messages_upto(space: Space, address_id: int, upto: int, limit: int) -> list[dict[str, str]]:
    """Return the last messages of a key up to an entry, the oldest first."""
    rows = _last_messages(space, address_id, upto, limit)[:limit]
    return [build_message(role, content, entries) for _, role, content, entries in reversed(rows)]


def load_entries(
    space: Space, address: Address, order: Order, limit: int, *, include_compacted: bool = False
) -> list[EntryView]:
    """Return entries of a key: the latest with `newest_first`, the earliest with `oldest_first`."""
    down = order == "newest_first"
    params = {"address_id": address.id, "now": space.now, "limit": limit}
    if include_compacted:
        entries = space.tx.rows("every_entry_down" if down else "every_entry_up", **params)
        summaries = space.tx.rows("summaries_down" if down else "summaries_up", **params)
    elif down:
        entries = space.tx.rows("entries_down", **params)
        summaries = space.tx.rows("shown_summaries_down", upto=_NEWEST, **params)
    else:
        entries = space.tx.rows("entries_up", **params)
        summaries = space.tx.rows("shown_summaries_up", **params)
    views = [(one.seq, one) for one in (_from_row(row, 0) for row in entries)]
    views += [(position, _from_row(row, count)) for position, count, *row in summaries]
    views.sort(key=lambda pair: (pair[0], pair[1].entries > 0), reverse=down)
    return [one for _, one in views[:limit]]


def _from_row(row: Sequence[Any], entries: int) -> EntryView:
    """Build from the columns of an entry, and the id of its summary if the query selects it."""
    return to_view(Entry(*row[:_FIELDS]), entries, *row[_FIELDS:])


def _last_messages(space: Space, address_id: int, upto: int, limit: int) -> list[Row]:
    """Return position, role, content and number of summarised entries of turns and summaries, the latest first."""
    params = {"address_id": address_id, "upto": upto, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("last_said", **params), space.tx.rows("shown_summaries_down", **params)
    return _merge_messages(turns, summaries, down=True)


def _merge_messages(turns: list[Row], summaries: list[Row], *, down: bool) -> list[Row]:
    if not summaries:
        return turns
    rows = [(position, None, Entry(*row).content, entries) for position, entries, *row in summaries]
    return sorted(turns + rows, key=itemgetter(0), reverse=down)


# -- rendering -----------------------------------------------------------------------------------------------------------


def build_message(role: str | None, content: str, entries: int = 0) -> dict[str, str]:
    """Build a message for a model. A summary becomes a marked message of the assistant (C42)."""
    if entries:
        return {"role": "assistant", "content": f"{_summary_mark(entries, 'messages')}\n{content}"}
    return {"role": role or "user", "content": content}


def entries_to_json(entries: Sequence[EntryView]) -> dict[str, Any]:
    objects = [
        {"content": one.content, "created_at": _format_time(one.created_at), "title": one.title, "id": one.id}
        | ({"metadata": one.metadata} if one.metadata else {})
        | ({"summary_of": one.entries} if one.entries else {})
        | ({"compacted_into": one.summary_id} if one.summary_id else {})
        for one in entries
    ]
    return {"entries": objects}


def entries_to_array(entries: Sequence[EntryView]) -> list[dict[str, str]]:
    """Convert to titles and contents only. The content of a summary therefore carries its mark."""
    return [{"content": _mark_content(one), "title": one.title} for one in entries]


def matches_to_json(matches: Sequence[tuple[EntryView, float, str]]) -> dict[str, Any]:
    """Convert matches with their scores and URLs."""
    objects = [
        {
            "content_title": one.title,
            "content": one.content,
            "content_url": url,
            "content_publish_date": _format_time(one.created_at),
            "id": one.id,
            "score": score,
            "metadata": one.metadata or {},
        }
        | ({"summary_of": one.entries} if one.entries else {})
        for one, score, url in matches
    ]
    return {"matches": objects}


def encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def render_entries(entries: Sequence[EntryView], content_type: ContentType) -> str | None:
    """Render entries in a text format. Return None for JSON."""
    match content_type:
        case "text/plain":
            return DIVIDER.join(map(_render_line, entries))
        case "text/html":
            return _render_html(entries)
        case "application/xml":
            return _render_xml(entries)
    return None


def _render_html(entries: Sequence[EntryView]) -> str:
    """Render an article for each entry, with all text escaped."""
    return "\n".join(
        f'<article data-id="{html.escape(one.id)}"{_summary_attribute("data-summary-of", one)}>'
        f"<h3>{html.escape(one.title)}</h3>"
        f'<time datetime="{_format_time(one.created_at)}">{_format_time(one.created_at)}</time>'
        f"<p>{html.escape(_render_line(one))}</p></article>"
        for one in entries
    )


def _render_xml(entries: Sequence[EntryView]) -> str:
    """Render an element for each entry, escaped and without characters that XML cannot express (C8)."""
    inner = "\n".join(
        f'  <entry id="{_escape_xml(one.id)}" created_at="{_format_time(one.created_at)}"'
        + (f' role="{_escape_xml(role)}"' if (role := _visible_role(one)) else "")
        + f"{_summary_attribute('summary_of', one)}>{_escape_xml(one.content)}</entry>"
        for one in entries
    )
    return f"<entries>\n{inner}\n</entries>" if inner else "<entries/>"


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _render_line(one: EntryView) -> str:
    role = _visible_role(one)
    return f"{role}: {_mark_content(one)}" if role else _mark_content(one)


def _visible_role(one: EntryView) -> str | None:
    """Return the speaker to show. A summary of a conversation always counts as the assistant's (C42)."""
    return "assistant" if one.role and one.entries else one.role


def _mark_content(one: EntryView) -> str:
    if not one.entries:
        return one.content
    return f"{_summary_mark(one.entries, 'messages' if one.role else 'entries')}\n{one.content}"


def _summary_mark(entries: int, noun: str) -> str:
    return f"[Summary of {entries} earlier {noun}]"


def _summary_attribute(name: str, one: EntryView) -> str:
    return f' {name}="{one.entries}"' if one.entries else ""


def _escape_xml(text: str) -> str:
    valid = "".join(char for char in text if char in "\t\n\r" or (ord(char) >= 32 and char not in "\ufffe\uffff"))
    return html.escape(valid).replace("\r", "&#13;")  # parsers turn a bare carriage return into a line feed
