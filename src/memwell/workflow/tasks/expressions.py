"""The expressions of a document, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...context.expression import is_expression, problems_in
from ...model.yaml import Path
from ..problems import Problems

MAX_EXPRESSIONS = 2_000


class Expressions:
    """What an author wrote that begins with `=`. Each is looked at once, however often it stands there."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._found: list[tuple[str, Path]] = []

    def note(self, value: Any, path: Path) -> None:
        """Note the expressions in a part of the document."""
        match value:
            case dict():
                for name, one in value.items():
                    self.note(one, (*path, name))
            case list():
                for number, one in enumerate(value):
                    self.note(one, (*path, number))
            case str() if is_expression(value):
                self._found.append((value, path))

    def check(self) -> None:
        """Say what is wrong with them."""
        if len(self._found) > MAX_EXPRESSIONS:
            self._problems.add(self._found[MAX_EXPRESSIONS][1], f"there are more than {MAX_EXPRESSIONS} expressions.")
            return
        sources = list(dict.fromkeys(source for source, _ in self._found))
        known = dict(zip(sources, problems_in(sources), strict=True))
        for source, path in self._found:
            problem = known[source]
            if problem is not None:
                where = "" if problem.column is None else f" (at character {problem.column + 1})"
                self._problems.add(path, f"the expression cannot be read{where}: {problem.message}")


def mentions(value: Any, word: str) -> bool:
    """Whether a word is in one of the expressions in a part of a document."""
    match value:
        case Mapping():
            return any(mentions(one, word) for one in value.values())
        case list():
            return any(mentions(one, word) for one in value)
    return is_expression(value) and word in value
