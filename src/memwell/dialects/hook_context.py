"""What a request says of itself, and the variables that a hook's template may use (B4.2, B4.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Invalid
from ..model import check

MAX_VALUE = 4000
MAX_ITEMS = 1000
MEMORY = "memory_context"

PLAIN = (
    "user_id",
    "organization_id",
    "tool_name",
    "session_id",
    "schema_database_id",
    "agent_id",
    "agent_version",
    "schema_mode",
    "tool_intent",
)
"""The variables that a context carries as they are."""
LISTS = {
    "grants": "grant_names_csv",
    "table_names": "schema_table_names_csv",
    "domain_tags": "schema_domain_tags_csv",
}
"""The lists that a context may carry, and the variables in which they stand with commas between."""
KNOWN = (*PLAIN, *LISTS.values(), "header_<name>", MEMORY, "memory.<store or definition>.<path>")
"""What a template may name, as it is told to people."""

_CARRIED = (*PLAIN, *LISTS, *LISTS.values(), "headers", "header_<name>")
_LIST_OF = {variable: name for name, variable in LISTS.items()}
_HEADER = re.compile(r"header_[a-z0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as rules and templates see it. Headers are kept under the names of their variables."""

    plain: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def session_id(self) -> str | None:
        return self.plain.get("session_id")

    def variables(self) -> dict[str, str]:
        """Every variable but the memory. What is absent is empty."""
        plain = {name: self.plain.get(name, "") for name in PLAIN}
        lists = {variable: ",".join(self.lists.get(name, ())) for name, variable in LISTS.items()}
        return {**plain, **lists, **self.headers}


def known(name: str) -> bool:
    """Whether a template may use a variable. Of headers nobody can know beforehand which will come."""
    return name in PLAIN or name in _LIST_OF or name == MEMORY or bool(_HEADER.fullmatch(name))


def header_variable(name: str) -> str:
    """`X-Region` is `header_x_region`."""
    return "header_" + re.sub(r"[^a-z0-9]", "_", name.strip().lower())


def asked(context: Mapping[str, Any] | None, session_id: str | None) -> Asked:
    """The context of a request, or an error that names what cannot be in one."""
    check.to_json(context, "context")
    given = {name: value for name, value in (context or {}).items() if value is not None}
    for name in given:
        _check_carried(name)
    plain = {name: _text(given[name], name) for name in PLAIN if name in given}
    return Asked(_with_session(plain, session_id), _lists(given), _headers(given))


def _check_carried(name: str) -> None:
    if name == MEMORY:
        raise Invalid(
            "`memory_context` cannot be given: it is made from the log of `session_id`.", field=f"context.{name}"
        )
    if name not in _CARRIED and not _HEADER.fullmatch(name):
        carried = ", ".join(f"`{one}`" for one in _CARRIED)
        raise Invalid(f"A context has no {name[:100]!r}. It may carry {carried}.", field="context")


def _with_session(plain: dict[str, str], session_id: str | None) -> dict[str, str]:
    if session_id is None:
        return plain
    check.identifier(session_id, "session_id")
    if plain.get("session_id", session_id) != session_id:
        raise Invalid("`session_id` and `context.session_id` differ: give one of them.", field="session_id")
    return {**plain, "session_id": session_id}


def _lists(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The lists, each given as one or as text with commas between."""
    found: dict[str, tuple[str, ...]] = {}
    for name, variable in LISTS.items():
        if name in given and variable in given:
            raise Invalid(f"`context` has both `{name}` and `{variable}`: give one of them.", field=f"context.{name}")
        if name in given:
            found[name] = _items(given[name], name)
        elif variable in given:
            found[name] = _without_blanks(_text(given[variable], variable, MAX_VALUE * 10).split(","))
    return found


def _items(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
        raise Invalid(f"`context.{name}` must be a list of at most {MAX_ITEMS} texts.", field=f"context.{name}")
    items = [_text(item, name) for item in value]
    if any("," in item for item in items):
        raise Invalid(f"`context.{name}` has an item with a comma in it: give two items.", field=f"context.{name}")
    return _without_blanks(items)


def _without_blanks(items: list[str]) -> tuple[str, ...]:
    return tuple(item.strip() for item in items if item.strip())


def _headers(given: Mapping[str, Any]) -> dict[str, str]:
    headers = given.get("headers", {})
    if not isinstance(headers, Mapping):
        raise Invalid("`context.headers` must be an object of texts.", field="context.headers")
    direct = {name: value for name, value in given.items() if _HEADER.fullmatch(name)}
    found: dict[str, str] = {}
    for name, value in [*((header_variable(name), value) for name, value in headers.items()), *direct.items()]:
        if name in found:
            raise Invalid(f"Two headers are both `{name}`: give one of them.", field="context.headers")
        found[name] = _text(value, name)
    return found


def _text(value: Any, name: str, longest: int = MAX_VALUE) -> str:
    if not isinstance(value, str):
        raise Invalid(f"`context.{name}` must be text, not {type(value).__name__}.", field=f"context.{name}")
    if len(value) > longest:
        raise Invalid(f"`context.{name}` has at most {longest} characters.", field=f"context.{name}")
    if _CONTROL.search(value):
        raise Invalid(
            f"`context.{name}` holds a line break or another control character: remove it.", field=f"context.{name}"
        )
    return value
