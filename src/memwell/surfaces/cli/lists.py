"""Lists as people read them: a line for each thing, with what tells it apart. Everything else is in `--json`, or shown by the
command that gets one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from ...dialects.app_sessions import SessionList, SessionMeta
from ...dialects.apps import Apps
from ...dialects.definition_memory import MemoryRecord, MemoryRecords
from ...dialects.definitions import DefinitionList
from ...dialects.store_content import StoreRecords
from ...dialects.stores import Stores
from ...dialects.user_records import UserRecords
from .output import GAP, UNLIMITED, console, print_more, shown

Row = Sequence[Any]
MINUTES, DAYS = "%Y-%m-%d %H:%M", "%Y-%m-%d"
LEAST = 20
"""How much of its wide column a line shows, however little room there is."""


def print_records(found: UserRecords) -> None:
    titles = ("NAME", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [(one.name, one.version, one.updated_at, one.expires_at, _json(one.value)) for one in found.records]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_stores(found: Stores) -> None:
    titles = ("TECHNICAL NAME", "NAME", "ACCESS", "RETENTION", "STRICT", "UPDATED")
    rows = [
        (one.technical_name, one.name, one.access, one.retention, _yes(one.strict), one.updated_at)
        for one in found.stores
    ]
    _print(titles, rows, "No stores.", wide="NAME")


def print_definitions(found: DefinitionList) -> None:
    """The columns of the contract (S3.2)."""
    titles = ("NAME", "SLUG", "SCOPE", "TTL", "CREATED", "UPDATED")
    rows = [
        (one.name, one.slug, one.scope, _seconds(one.ttl_seconds), one.created_at, one.updated_at)
        for one in found.definitions
    ]
    _print(titles, rows, "No definitions.", wide="NAME")
    if found.page * found.limit < found.total:
        console().print(Text(f"{found.total} in all; there is more: --page {found.page + 1}", style="dim"))


def print_owned(found: MemoryRecords) -> None:
    """The records of a definition, and whose they are."""
    titles = ("OWNER", "OF", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [
        (one.owner, _scope(one), one.version, one.updated_at, one.expires_at, _json(one.value)) for one in found.records
    ]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_contents(found: StoreRecords) -> None:
    """The records of a store, and whose they are."""
    titles = ("USER", "SESSION", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [
        (one.user_id, one.session_id, one.version, one.updated_at, one.expires_at, _json(one.value))
        for one in found.records
    ]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_apps(found: Apps) -> None:
    titles = ("APP", "STORES", "ANSWERED BY", "UPDATED", "DESCRIPTION")
    rows = [(one.app, one.stores, one.function or one.workflow, one.updated_at, one.description) for one in found.apps]
    _print(titles, rows, "No apps.", wide="DESCRIPTION")


def print_sessions(found: SessionList) -> None:
    titles = ("SESSION", "USER", "LAST RUN", "LAST ACTIVE", "METADATA")
    _print(titles, [_session(one) for one in found.sessions], "No sessions.", wide="METADATA")
    print_more(found.next_cursor)


def _session(one: SessionMeta) -> Row:
    info = one.session_info
    at = datetime.fromisoformat(info["timestamp"]) if "timestamp" in info else None
    metadata = _json(one.metadata) if one.metadata else ""
    return one.session_id, info.get("userId"), info.get("runId"), at, metadata


LISTS: Mapping[type, Any] = {
    UserRecords: print_records,
    Stores: print_stores,
    DefinitionList: print_definitions,
    MemoryRecords: print_owned,
    StoreRecords: print_contents,
    Apps: print_apps,
    SessionList: print_sessions,
}


def _print(titles: Sequence[str], rows: Sequence[Row], empty: str, *, wide: str) -> None:
    """A table. A column in which there is nothing is left out, and the wide one has the room that the others leave; where that
    is little, times are days."""
    if not rows:
        console().print(Text(empty, style="dim"))
        return
    width = _width()
    columns = _columns(titles, rows, MINUTES)
    if width < _needed(columns, wide):
        columns = _columns(titles, rows, DAYS)
    room = width - sum(_longest(title, cells) + GAP for title, cells in columns.items() if title != wide)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, cells in columns.items():
        table.add_column(title, overflow="fold", no_wrap=title == wide or _longest(title, cells) <= LEAST)
    for cell in columns.get(wide, ()):
        cell.truncate(max(LEAST, room), overflow="ellipsis")
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    console(width).print(table)


def _columns(titles: Sequence[str], rows: Sequence[Row], times: str) -> dict[str, list[Text]]:
    found: dict[str, list[Text]] = {}
    for title, values in zip(titles, zip(*rows, strict=True), strict=True):
        if any(value not in (None, "") for value in values):
            is_time = times == MINUTES and any(isinstance(value, datetime) for value in values)
            found[f"{title} (UTC)" if is_time else title] = [_cell(value, times) for value in values]
    return found


def _cell(value: Any, times: str) -> Text:
    if isinstance(value, datetime):
        return Text(format(value.astimezone(UTC), times))
    return Text("" if value is None else " ".join(shown(str(value)).split()))


def _longest(title: str, cells: Sequence[Text]) -> int:
    return max(len(title), *(cell.cell_len for cell in cells))


def _needed(columns: Mapping[str, Sequence[Text]], wide: str) -> int:
    """How wide a screen must be that nothing but the wide column is cut."""
    lengths = {title: _longest(title, cells) for title, cells in columns.items()}
    return sum(GAP + (min(length, LEAST) if title == wide else length) for title, length in lengths.items())


def _width() -> int:
    """That of the terminal; elsewhere no line is broken or cut."""
    out = console()
    return out.width if out.is_terminal else UNLIMITED


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _seconds(ttl: int | None) -> str:
    return "-" if ttl is None else f"{ttl} s"


def _scope(one: MemoryRecord) -> str:
    named = (("workflow", one.workflow), ("thread", one.thread), ("run", one.run))
    return ", ".join(f"{word} {name}" for word, name in named if name)
