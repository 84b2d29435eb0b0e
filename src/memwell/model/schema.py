"""JSON Schemas of records: what a value must be, and what it is where nothing was said.

Draft 2020-12. A schema comes from outside: it is bounded in size and depth, refers to nothing but itself, and its patterns
are matched in time linear in the text. What a value holds is in no message about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Invalid
from .schema_check import check
from .schema_closing import Closed, closed
from .schema_defaults import Defaults
from .schema_effort import Effort
from .schema_relaxing import relaxed
from .schema_walk import PATTERNS, subschemas

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_PROBLEMS = 20
MAX_REASON = 200
MANY = 20_000
"""Up to how much work all problems are named, and not only the first."""
PATTERN_BYTES = 1024 * 1024
"""How large a pattern may become when it is compiled."""
_TYPES = "array, boolean, integer, null, number, object, string"


class Problem(NamedTuple):
    """Where a value does not fit, and why."""

    path: str
    """Dotted, with indexes: `orders[0].id`; empty for the whole."""
    reason: str


class Schema:
    """A schema that was checked. `strict`: properties that it does not name are refused, unless it says itself that there may
    be others (S3.9)."""

    def __init__(self, source: Mapping[str, Any], *, strict: bool) -> None:
        self.source: dict[str, Any] = dict(source)
        check(self.source)
        self._effort = Effort(self.source)
        self._checks = [_compiled(self.source)]
        shown, fence = closed(self.source) if strict else Closed(self.source, None)
        self.closed: dict[str, Any] = shown
        """The schema as others are told it: of a strict one, if that is possible, the one that admits nothing else."""
        if shown is not self.source:
            self._checks = [_compiled(shown)]
        if fence is not None:
            self._checks.append(_compiled(fence))
        self._has_formats = any("format" in one for _, one in subschemas(self.source))
        self._looks_right: Draft202012Validator | None = None
        self._defaults = Defaults(self.source)

    def problems(self, value: Any) -> list[Problem]:
        """Why a value does not fit; nothing if it does."""
        work = self._effort.of(value)
        found = [one for each in self._checks if not each.is_valid(value) for one in _told(each, value, work)]
        return list(dict.fromkeys(found))[:MAX_PROBLEMS]

    def warnings(self, value: Any) -> list[Problem]:
        """What is let through although it does not look right: texts that do not have the format that is named (C34)."""
        if not self._has_formats:
            return []
        if self._looks_right is None:
            self._looks_right = _compiled(self.source, formats=True)
        work = self._effort.of(value)
        return [] if self._looks_right.is_valid(value) else _told(self._looks_right, value, work, "format")

    def with_defaults(self, value: Any) -> Any:
        """A value with what the schema says about properties that are missing (C23)."""
        return self._defaults.filled(value)

    def relaxed(self) -> dict[str, Any]:
        """The schema for a value that is merged into another: nothing is required (C31)."""
        return relaxed(self.closed)


def _compiled(source: Mapping[str, Any], *, formats: bool = False) -> Draft202012Validator:
    import jsonschema_rs  # here, since it takes a while to load

    try:
        return jsonschema_rs.Draft202012Validator(
            dict(source),
            validate_formats=formats,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
            mask="the value",
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        path, reason = _unusable(error)
        raise Invalid(f"`{path or 'schema'}` of the schema cannot be used: {reason}.", field="schema") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise Invalid(f"The schema cannot be used: {str(error)[:MAX_REASON]}.", field="schema") from None


def _unusable(error: ValidationError) -> Problem:
    """What is wrong with a schema, in words that help with what goes wrong most often."""
    path, reason = _problem(error)
    places = [part for part in error.instance_path if isinstance(part, str)]
    if error.kind.name == "format" and any(place in PATTERNS for place in places[-2:]):
        reason = (
            "it is no regular expression, is too large once compiled, or looks ahead or back, which is not supported"
        )
    elif places[-1:] == ["type"]:
        reason = f"the types are {_TYPES}"
    return Problem(path[:MAX_REASON], reason)


def _told(validator: Draft202012Validator, value: Any, work: int, kind: str | None = None) -> list[Problem]:
    """What is wrong with a value. All errors are made at once, so of a large value only the first one is."""
    import jsonschema_rs

    if work <= MANY:
        odd = (one for one in validator.iter_errors(value) if kind in (None, one.kind.name))
        return [_problem(one) for one in islice(odd, MAX_PROBLEMS)]
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_problem(error)] if kind in (None, error.kind.name) else []
    return []


def _problem(error: ValidationError) -> Problem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    reason = error.message.splitlines()[0]
    return Problem(_cut(path.removeprefix(".")), _cut(reason))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…"
