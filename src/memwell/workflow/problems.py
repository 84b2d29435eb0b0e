"""What is wrong with a document, each problem with where it stands: its path and, in a text, its line and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import Invalid
from ..model.yaml import Path, Place, spelled

MOST_PROBLEMS = 100
_IN_A_SENTENCE = 20
_LONGEST = 500


class Problem(NamedTuple):
    """What is wrong, and where. A document that is no text has no lines."""

    path: str
    reason: str
    line: int | None = None
    column: int | None = None

    def told(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "column": self.column, "reason": self.reason}


class Problems:
    """The problems of one document. There is an end to them, so that none answers with more than it was given."""

    def __init__(self, place: Place | None = None) -> None:
        self.found: list[Problem] = []
        self._place = place

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_PROBLEMS

    def add(self, path: Path, reason: str) -> None:
        if not self.full:
            line, column = (None, None) if self._place is None else self._place.of(path)[:2]
            reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
            self.found.append(Problem(spelled(path), reason, line, column))

    def told(self) -> list[dict[str, Any]]:
        return [one.told() for one in _in_order(self.found)]


def refuse(found: Sequence[Problem], kind: type[Invalid] = Invalid) -> None:
    """Raise an error that names every problem, if there are any."""
    if found:
        found = _in_order(found)
        shown = "; ".join(f"{one.path or 'the document'}: {one.reason}" for one in found[:_IN_A_SENTENCE])
        raise kind(f"The workflow has {_counted(len(found))}: {shown}", problems=[one.told() for one in found])


def _in_order(found: Sequence[Problem]) -> list[Problem]:
    """As they stand in the text; those of an object as they were found."""
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))


def _counted(number: int) -> str:
    many = f"{MOST_PROBLEMS} or more" if number >= MOST_PROBLEMS else f"{number}"
    return f"{many} problem{'' if number == 1 else 's'}"
