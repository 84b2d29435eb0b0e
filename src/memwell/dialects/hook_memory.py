"""`{{memory_context}}`: the log of one session as lines, the newest of them within a budget (C19)."""

from __future__ import annotations

from typing import NamedTuple

from ..clock import to_datetime
from ..model.collection import Address
from ..model.entry import Entry
from ..space import Space
from .places import AGENT_LOG

PAGE = 20
"""How many entries are read at once, so that hardly any is read in vain."""

_BREAKS = {char: char.encode("unicode_escape").decode() for char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_SPELLED_OUT = str.maketrans(_BREAKS)


class Budget(NamedTuple):
    """How much of a log to show: lines, and characters of these."""

    entries: int
    chars: int


def memory_context(space: Space, session_id: str | None, budget: Budget) -> str:
    """The entries in the order they were recorded, and before them how many were left out. Nothing without entries."""
    address = None if session_id is None else space.address(AGENT_LOG, session_id)
    if address is None:
        return ""
    lines, left_out = _newest(space, address, budget)
    note = [f"[… {left_out} earlier {'entry' if left_out == 1 else 'entries'} left out]"] if left_out else []
    return "\n".join([*note, *reversed(lines)])


def _newest(space: Space, address: Address, budget: Budget) -> tuple[list[str], int]:
    """The lines that fit, the newest first, and how many entries are before them: their numbers have no gaps."""
    lines: list[str] = []
    room = budget.chars
    before = address.last_seq + 1
    while page := space.last(address, min(PAGE, budget.entries - len(lines)), before):
        for entry in reversed(page):
            line = _line(entry) if lines else _cut(_line(entry), room)
            if len(line) > room:
                return lines, before - 1
            lines.append(line)
            room -= len(line) + 1
            before = entry.seq
        if before == 1 or len(lines) == budget.entries:
            break
    return lines, before - 1


def _line(entry: Entry) -> str:
    """One entry, whatever it holds: a line break inside it cannot begin another."""
    at = to_datetime(entry.recorded_at).isoformat().replace("+00:00", "Z")
    return f"[{at}] {entry.kind}: {entry.content.translate(_SPELLED_OUT)}"


def _cut(line: str, room: int) -> str:
    """The newest entry is always shown, if need be only its beginning."""
    if len(line) <= room:
        return line
    mark = f" [… {len(line)} characters in all]"
    return line[: max(room - len(mark), 0)] + mark
