"""JSON Schemas of records: what a value must be, and what it is where nothing was said.

Draft 2020-12. A schema comes from outside: it is bounded in size and depth, refers to nothing but itself, and its patterns
are matched in time linear in the text. What a value holds is in no message about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from .schemas.check import check, check_patterns
from .schemas.closing import Closed, closed
from .schemas.compiled import Problem as Problem
from .schemas.compiled import compiled, problem
from .schemas.defaults import Defaults
from .schemas.effort import Effort
from .schemas.effort import Taken as Taken
from .schemas.relaxing import relaxed
from .schemas.walk import named, subschemas
from .values import longest_path

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

Tell: TypeAlias = "Callable[[ValidationError], Problem | None]"

NO_FORMAT = "the value has none of the formats that are named"
MAX_PROBLEMS = 20
MUCH = 20_000_000
"""Characters of all errors that a value may have: their paths, and what they repeat of the schema."""
MANY = 20_000
"""Up to how many errors there may be, all of them are looked for, and not only the first."""


class Schema:
    """A schema that was checked. `strict`: properties that it does not name are refused, unless it says itself that there may
    be others (S3.9). `stored`: it is one that was given before."""

    def __init__(self, source: Mapping[str, Any], *, strict: bool, stored: bool = False) -> None:
        self.source: dict[str, Any] = dict(source)
        check(self.source)
        if not stored:
            check_patterns(self.source)
        self._effort = Effort(self.source)
        self._check = compiled(self.source)
        shown, fence = closed(self.source) if strict else Closed(self.source, None)
        self.closed: dict[str, Any] = shown
        """The schema as others are told it: of a strict one, if that is possible, the one that admits nothing else."""
        if shown is not self.source:
            self._check = compiled(shown)
        self._fence = fence
        every = [one for _, one in subschemas(self.source)]
        self._names = frozenset(name for one in every for name in named(one, "properties"))
        self._has_formats = any("format" in one for one in every)
        self._looks_right: Draft202012Validator | None = None
        self._defaults = Defaults(self.source)

    def effort(self, value: Any) -> Taken:
        """What it takes to check a value; an error if that is too long."""
        return self._effort.of(value)

    def problems(self, value: Any, effort: Taken | None = None) -> list[Problem]:
        """Why a value does not fit; nothing if it does."""
        taken = effort or self.effort(value)
        found = [] if self._check.is_valid(value) else self._told(self._check, value, taken, self._problem)
        found += [] if self._fence is None else self._fence.problems(value, MAX_PROBLEMS)
        return list(dict.fromkeys(found))[:MAX_PROBLEMS]

    def warnings(self, value: Any, effort: Taken | None = None) -> list[Problem]:
        """What is let through although it does not look right: texts that do not have the format that is named (C34)."""
        if not self._has_formats:
            return []
        if self._looks_right is None:
            self._looks_right = compiled(self.source, formats=True)
        if self._looks_right.is_valid(value):
            return []
        fits = self._check.is_valid(value)

        def looks(error: ValidationError) -> Problem | None:
            if error.kind.name == "format":
                return self._problem(error)
            return self._problem(error)._replace(reason=NO_FORMAT) if fits else None  # else that is a problem

        return self._told(self._looks_right, value, effort or self.effort(value), looks)

    def with_defaults(self, value: Any) -> Any:
        """A value with what the schema says about properties that are missing (C23)."""
        return self._defaults.filled(value)

    def relaxed(self) -> dict[str, Any]:
        """The schema for a value that is merged into another: nothing is required (C31)."""
        return relaxed(self.closed)

    def _problem(self, error: ValidationError) -> Problem:
        return problem(error, self._names)

    def _told(self, validator: Draft202012Validator, value: Any, taken: Taken, tell: Tell) -> list[Problem]:
        """What is wrong with a value. All errors are made at once, so of a large value only the first one is."""
        import jsonschema_rs

        faults = taken.faults
        if faults <= MANY and faults * (self._effort.said + longest_path(value)) <= MUCH:
            return list(islice(filter(None, map(tell, validator.iter_errors(value))), MAX_PROBLEMS))
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return list(filter(None, [tell(error)]))
        return []
