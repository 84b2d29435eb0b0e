"""What is read from a bank, in the shape that a step hands on: messages, JSON, plain text, HTML or XML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

ContentType = Literal["application/json", "text/plain", "text/html", "application/xml"]
JSON: ContentType = "application/json"
WINDOW = 100
STRIDE = 50
TITLE = 80
DIVIDER = "\n---\n"


class Shown(NamedTuple):
    """An entry as it is shown: what it says, where it stands, and what is known of it."""

    id: str
    content: str
    created_at: datetime
    seq: int
    role: str | None = None
    metadata: dict[str, Any] | None = None
    entries: int = 0
    """How many entries it is a summary of."""
    behind: str | None = None
    """The id of the summary that it is behind."""

    @property
    def title(self) -> str:
        """The title that was given with it, or the beginning of its first line."""
        given = (self.metadata or {}).get("title")
        if isinstance(given, str) and given.strip():
            return given.strip()
        line = next(iter(self.content.strip().splitlines()), "")
        return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def message(role: str | None, content: str, entries: int = 0) -> dict[str, str]:
    """One message. A summary is told by the assistant and says that it is one (C42)."""
    if entries:
        return {"role": "assistant", "content": f"{_mark(entries, 'messages')}\n{content}"}
    return {"role": role or "user", "content": content}


def window(positions: Sequence[int], *, more: bool) -> int:
    """From which of the last entries on a messages array begins, given their places, the oldest first (C7).

    It begins at a multiple of 50 once there are more than 100, so that its beginning stays the same for 50 turns.
    """
    if not more:
        return 0
    border = -(-(positions[0] - 1) // STRIDE) * STRIDE
    return next((place for place, position in enumerate(positions) if position > border), 0)


def entries_json(entries: Sequence[Shown]) -> dict[str, Any]:
    shown = [
        {"content": one.content, "created_at": stamp(one.created_at), "title": one.title, "id": one.id}
        | ({"metadata": one.metadata} if one.metadata else {})
        | ({"summary_of": one.entries} if one.entries else {})
        | ({"compacted_into": one.behind} if one.behind else {})
        for one in entries
    ]
    return {"entries": shown}


def array_json(entries: Sequence[Shown]) -> list[dict[str, str]]:
    """Bare titles and contents: a summary can say that it is one in its content only."""
    return [{"content": _marked(one), "title": one.title} for one in entries]


def matches_json(matches: Sequence[tuple[Shown, float, str]]) -> dict[str, Any]:
    """Matches, each with its score and the address that it can be read at."""
    shown = [
        {
            "content_title": one.title,
            "content": one.content,
            "content_url": url,
            "content_publish_date": stamp(one.created_at),
            "id": one.id,
            "score": score,
            "metadata": one.metadata or {},
        }
        | ({"summary_of": one.entries} if one.entries else {})
        for one, score, url in matches
    ]
    return {"matches": shown}


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def as_text(entries: Sequence[Shown]) -> str:
    """The entries with dividers between them; a speaker is named where there is one, and a summary says that it is one."""
    return DIVIDER.join(_line(one) for one in entries)


def as_html(entries: Sequence[Shown]) -> str:
    """One article for each entry, escaped: nothing that is stored becomes markup."""
    return "\n".join(
        f'<article data-id="{html.escape(one.id)}"{_attribute("data-summary-of", one)}><h3>{html.escape(one.title)}</h3>'
        f'<time datetime="{stamp(one.created_at)}">{stamp(one.created_at)}</time>'
        f"<p>{html.escape(_line(one))}</p></article>"
        for one in entries
    )


def as_xml(entries: Sequence[Shown]) -> str:
    """An element for each entry, escaped; what XML cannot express is left away (C8). A summary says so in an attribute."""
    inner = "\n".join(
        f'  <entry id="{_escaped(one.id)}" created_at="{stamp(one.created_at)}"'
        + (f' role="{_escaped(role)}"' if (role := _role(one)) else "")
        + f"{_attribute('summary_of', one)}>{_escaped(one.content)}</entry>"
        for one in entries
    )
    return f"<entries>\n{inner}\n</entries>" if inner else "<entries/>"


def _line(one: Shown) -> str:
    role = _role(one)
    return f"{role}: {_marked(one)}" if role else _marked(one)


def _role(one: Shown) -> str | None:
    """Who speaks; a summary of a conversation is told by the assistant, whoever has written it (C42)."""
    return "assistant" if one.role and one.entries else one.role


def _marked(one: Shown) -> str:
    """The content; that of a summary says so, as it does among messages."""
    if not one.entries:
        return one.content
    return f"{_mark(one.entries, 'messages' if one.role else 'entries')}\n{one.content}"


def _mark(entries: int, of: str) -> str:
    return f"[Summary of {entries} earlier {of}]"


def _attribute(name: str, one: Shown) -> str:
    return f' {name}="{one.entries}"' if one.entries else ""


def _escaped(text: str) -> str:
    """Text for XML. A reader would take a bare carriage return for a line feed."""
    fine = "".join(sign for sign in text if sign in "\t\n\r" or (ord(sign) >= 32 and sign not in "\ufffe\uffff"))
    return html.escape(fine).replace("\r", "&#13;")
