"""Schemas as a validator checks them. Everything that it is given here has been looked at before."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from ...errors import Invalid
from ..values import masked, told_name
from .walk import PATTERNS, ROOT, mapped, path_of

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_REASON = 200
MAX_TOLD = 10
MAX_SHOWN = 100
PATTERN_BYTES = 1024 * 1024
"""How large a pattern may become when it is compiled."""
_TYPES = "array, boolean, integer, null, number, object, string"
_PLAIN = "~!$&'()*+,;=:@-._"


class Problem(NamedTuple):
    """Where a value does not fit, and why."""

    path: str
    """Dotted, with indexes: `orders[0].id`; empty for the whole."""
    reason: str


def compiled(source: dict[str, Any], *, formats: bool = False) -> Draft202012Validator:
    """A validator; an error that says what is wrong with the schema, if it cannot be one."""
    import jsonschema_rs  # here, since it takes a while to load

    try:
        return jsonschema_rs.Draft202012Validator(
            mapped(source, _spelled),
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


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Draft202012Validator:
    """Says whether the name of a property matches a pattern, as it does for the validator."""
    return compiled({"pattern": pattern})


def problem(error: ValidationError, names: Set[str] = frozenset()) -> Problem:
    """What an error says. `names` are those that the schema names itself, which are no secrets."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{told_name(part, names)}" for part in error.instance_path]
    return Problem(_cut("".join(parts).removeprefix(".")), _cut(_reason(error)))


def _reason(error: ValidationError) -> str:
    unexpected: list[str] = getattr(error.kind, "unexpected", [])
    if unexpected:
        return not_allowed(unexpected)
    if error.kind.name != "propertyNames":
        return error.message.splitlines()[0]
    inner: Any = getattr(error.kind, "error")  # noqa: B009 -- it has one, whatever its type says
    name, message = str(inner.instance), error.message.splitlines()[0]  # in which the validator does not mask the name
    written = msgspec.json.encode(name).decode()
    what = message.removeprefix(written) if message.startswith(written) else " does not fit"
    return f"the name {masked(name)[:MAX_SHOWN]!r}{what}"


def not_allowed(names: list[str]) -> str:
    """Why properties are refused that nobody has named."""
    told = ", ".join(
        [*(repr(masked(name)[:MAX_SHOWN]) for name in names[:MAX_TOLD]), *(["…"] if len(names) > MAX_TOLD else [])]
    )
    return f"Additional properties are not allowed ({told} {'was' if len(names) == 1 else 'were'} unexpected)"


def _spelled(one: dict[str, Any]) -> dict[str, Any]:
    """A schema whose reference is spelled as the validator reads it, and leads where we have looked."""
    reference = one.get("$ref")
    if not isinstance(reference, str):
        return one
    spelled = "/".join(
        [ROOT, *(quote(part.replace("~", "~0").replace("/", "~1"), safe=_PLAIN) for part in path_of(reference))]
    )
    return one if spelled == reference else {**one, "$ref": spelled}


def _unusable(error: ValidationError) -> Problem:
    """What is wrong with a schema, in words that help with what goes wrong most often."""
    path, reason = problem(error)
    places = [part for part in error.instance_path if isinstance(part, str)]
    if error.kind.name == "format" and any(place in PATTERNS for place in places[-2:]):
        reason = (
            "it is no regular expression, is too large once compiled, or looks ahead or back, which is not supported"
        )
    elif places[-1:] == ["type"]:
        reason = f"the types are {_TYPES}"
    return Problem(path, reason)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…"
