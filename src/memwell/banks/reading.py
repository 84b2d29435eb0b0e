"""Read the entries of a key in order, and render them as messages, JSON, plain text, HTML or XML.

A summary takes the place of the last entry that it was made of, and every form says that it is a summary.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec

from ..clock import to_datetime
from ..core.operation import Response
from ..core.space import Space
from ..model.collection import Address, Entry
from ..model.fields import to_metadata
from ..storage.port import Row, Tx
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
_MARK = "[Summary of "
_LINE_END = re.compile(r"(?:\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?!\Z)")
_NEWEST = 2**62
_FIELDS = len(Entry.__struct_fields__)


class BankEntry(Response, frozen=True, kw_only=True):
    """An entry. `seq` counts the entries of its key, `summary_of` the entries that it summarises; `compacted_into` is the
    summary that has replaced it."""

    id: str
    key: str
    seq: int
    content: str
    created_at: datetime
    title: str
    speaker: str | None = None
    metadata: dict[str, Any] | None = None
    summary_of: int | None = None
    compacted_into: str | None = None


def build_title(content: str, metadata: Mapping[str, Any] | None) -> str:
    """Return `title` of the metadata, or the beginning of the first line."""
    title = (metadata or {}).get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    line = next(iter(content.strip().splitlines()), "")
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"


def to_bank_entry(entry: Entry, key: str, entries: int = 0, summary_id: str | None = None) -> BankEntry:
    metadata = to_metadata(entry.metadata)
    return BankEntry(
        id=entry.id,
        key=key,
        seq=entry.seq,
        content=entry.content,
        created_at=to_datetime(entry.created_at),
        title=build_title(entry.content, metadata),
        speaker=entry.role,
        metadata=metadata,
        summary_of=entries or None,
        compacted_into=summary_id,
    )


# -- reading -------------------------------------------------------------------------------------------------------------


class Item(NamedTuple):
    """An entry or summary of a key at its position."""

    position: int
    entry: Entry
    entries: int = 0
    """The number of entries that it summarises; 0 if it is not a summary."""
    summary_id: str | None = None
    """The summary that hides it."""


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
    return [build_message(*row[1:]) for row in last[start:]]


def recent_messages_of_key(space: Space, bank_id: str, key: str, upto: int) -> list[dict[str, str]]:
    address = find_key(space, bank_id, key)
    return [] if address is None else recent_messages(space, address.id, upto)


def load_messages(space: Space, address_id: int, limit: int, upto: int = _NEWEST) -> list[dict[str, str]]:
    """Return the last messages of a key up to an entry, the latest first."""
    return [build_message(*row[1:]) for row in _last_messages(space, address_id, upto, limit)[:limit]]


def _last_messages(space: Space, address_id: int, upto: int, limit: int) -> list[Row]:
    """Return position, role, content and number of summarised entries of turns and summaries, the latest first."""
    params = {"address_id": address_id, "upto": upto, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("last_said", **params), space.tx.rows("shown_summaries_down", **params)
    rows = [(position, None, Entry(*row).content, entries) for position, entries, *row in summaries]
    return sorted(turns + rows, key=itemgetter(0), reverse=True) if rows else turns


def load_entries(
    space: Space, address: Address, order: Order, limit: int, *, include_compacted: bool = False
) -> list[BankEntry]:
    """Return entries of a key: the latest with `newest_first`, the earliest with `oldest_first`."""
    down = order == "newest_first"
    items = list_items(space.tx, address.id, space.now, limit, down=down, every=include_compacted)
    return [to_bank_entry(one.entry, address.path, one.entries, one.summary_id) for one in items[:limit]]


def list_items(tx: Tx, address_id: int, now: int, limit: int, *, down: bool = False, every: bool = False) -> list[Item]:
    """Return visible entries and summaries of a key in order, at most `limit` of each; with `every` also hidden ones."""
    params = {"address_id": address_id, "now": now, "limit": limit}
    if every:
        entries = tx.rows("every_entry_down" if down else "every_entry_up", **params)
        summaries = tx.rows("summaries_down" if down else "summaries_up", **params)
    elif down:
        entries = tx.rows("entries_down", **params)
        summaries = tx.rows("shown_summaries_down", upto=_NEWEST, **params)
    else:
        entries, summaries = tx.rows("entries_up", **params), tx.rows("shown_summaries_up", **params)
    rows = [(row[2], 0, *row) for row in entries] + summaries
    items = [Item(at, Entry(*row[:_FIELDS]), count, *row[_FIELDS:]) for at, count, *row in rows]
    return sorted(items, key=lambda one: (one.position, one.entries > 0), reverse=down)


# -- rendering -----------------------------------------------------------------------------------------------------------


def build_message(role: str | None, content: str, entries: int | None = None) -> dict[str, str]:
    """Build a message for a model. A summary becomes a marked message of the assistant (C42)."""
    if entries:
        return {"role": "assistant", "content": f"{_summary_mark(entries, 'messages')}\n{content}"}
    return {"role": role or "user", "content": content}


def entries_to_json(entries: Sequence[BankEntry]) -> dict[str, Any]:
    objects = [
        {"content": one.content, "created_at": _format_time(one.created_at), "title": one.title, "id": one.id}
        | ({"metadata": one.metadata} if one.metadata else {})
        | ({"summary_of": one.summary_of} if one.summary_of else {})
        | ({"compacted_into": one.compacted_into} if one.compacted_into else {})
        for one in entries
    ]
    return {"entries": objects}


def entries_to_array(entries: Sequence[BankEntry]) -> list[dict[str, str]]:
    """Convert to titles and contents only. The content of a summary therefore carries its mark."""
    return [{"content": _mark_content(one), "title": one.title} for one in entries]


def matches_to_json(matches: Sequence[tuple[BankEntry, float, str]]) -> dict[str, Any]:
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
        | ({"summary_of": one.summary_of} if one.summary_of else {})
        for one, score, url in matches
    ]
    return {"matches": objects}


def encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def render_entries(entries: Sequence[BankEntry], content_type: ContentType) -> str | None:
    """Render entries in a text format. Return None for JSON."""
    match content_type:
        case "text/plain":
            return DIVIDER.join(map(_render_line, entries))
        case "text/html":
            return _render_html(entries)
        case "application/xml":
            return _render_xml(entries)
    return None


def _render_html(entries: Sequence[BankEntry]) -> str:
    """Render an article for each entry, with all text escaped."""
    return "\n".join(
        f'<article data-id="{html.escape(one.id)}"{_summary_attribute("data-summary-of", one)}>'
        f"<h3>{html.escape(one.title)}</h3>"
        f'<time datetime="{_format_time(one.created_at)}">{_format_time(one.created_at)}</time>'
        f"<p>{html.escape(_render_line(one))}</p></article>"
        for one in entries
    )


def _render_xml(entries: Sequence[BankEntry]) -> str:
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


def _render_line(one: BankEntry) -> str:
    """Render an entry as text. Its further lines are indented, so that they cannot look like the beginning of another entry."""
    content = _LINE_END.sub("\n  ", one.content)
    if not one.summary_of and content.startswith(_MARK):
        content = f"\\{content}"  # only a summary begins with the mark of one
    role, marked = _visible_role(one), _mark(one, content)
    return f"{role}: {marked}" if role else marked


def _visible_role(one: BankEntry) -> str | None:
    """Return the speaker to show. A summary of a conversation always counts as the assistant's (C42)."""
    return "assistant" if one.speaker and one.summary_of else one.speaker


def _mark_content(one: BankEntry) -> str:
    return _mark(one, one.content)


def _mark(one: BankEntry, content: str) -> str:
    if not one.summary_of:
        return content
    return f"{_summary_mark(one.summary_of, 'messages' if one.speaker else 'entries')}\n{content}"


def _summary_mark(entries: int, noun: str) -> str:
    return f"{_MARK}{entries} earlier {noun}]"


def _summary_attribute(name: str, one: BankEntry) -> str:
    return f' {name}="{one.summary_of}"' if one.summary_of else ""


def _escape_xml(text: str) -> str:
    valid = "".join(char for char in text if char in "\t\n\r" or (ord(char) >= 32 and char not in "\ufffe\uffff"))
    return html.escape(valid).replace("\r", "&#13;")  # parsers turn a bare carriage return into a line feed
