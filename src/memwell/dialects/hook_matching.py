"""Which hook a request gets: rules read, rules held against a request, the one that wins (B4.5, B4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from ..errors import Ambiguous, Invalid
from ..model import check, yaml
from ..model.hook import Hook, RequestRules, Rules, SchemaRules
from .hook_context import Asked, header_variable

MAX_YAML = 32 * 1024
MAX_LEVELS = 8
MAX_ITEMS = 1000
NAMED_IN_ERRORS = 10

_PLAIN = {
    "organization_ids": "organization_id",
    "user_ids": "user_id",
    "tools": "tool_name",
    "session_ids": "session_id",
    "database_ids": "schema_database_id",
}
"""The rules about one value of a request."""
_LISTS = ("grants", "table_names", "domain_tags")
"""The rules about lists of a request, which have the same names there."""
_SECTIONS: dict[str, type[RequestRules | SchemaRules]] = {"request": RequestRules, "schema": SchemaRules}


class Candidate(NamedTuple):
    """A hook that may be chosen."""

    id: str
    name: str
    hook: Hook


# -- reading rules -------------------------------------------------------------------------------------------------------


def rules_from_yaml(text: str) -> Rules:
    field = "matching_rules_yaml"
    value = yaml.parse(text, field, longest=MAX_YAML, deepest=MAX_LEVELS)
    check.plain(value, field)
    return _rules(value, field)


def rules_from_json(value: Mapping[str, Any]) -> Rules:
    check.to_json(value, "matching_rules", MAX_YAML)
    return _rules(value, "matching_rules")


def _rules(value: Any, field: str) -> Rules:
    given = _known(value, tuple(_SECTIONS), field)
    return Rules(**{name: _section(kind, given.get(name), f"{field}.{name}") for name, kind in _SECTIONS.items()})


def _section(kind: type[RequestRules | SchemaRules], value: Any, field: str) -> Any:
    given = _known(value, kind.__struct_fields__, field)
    rules: dict[str, Any] = {name: _rule(name, item, f"{field}.{name}") for name, item in given.items()}
    return kind(**rules)


def _known(value: Any, names: tuple[str, ...], field: str) -> dict[str, Any]:
    """An object of these names and no others. Nothing is an empty one, and what stands for nothing is left away."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid(f"`{field}` must be an object.", field=field)
    for name in value:
        if name not in names:
            known = ", ".join(f"`{one}`" for one in names)
            raise Invalid(f"`{field}` has no {str(name)[:100]!r}. There are {known}.", field=field)
    return {name: item for name, item in value.items() if item is not None}


def _rule(name: str, value: Any, field: str) -> tuple[str, ...] | dict[str, str]:
    if name != "headers":
        if not isinstance(value, list | tuple):
            raise Invalid(f"`{field}` must be a list.", field=field)
        return tuple(_scalars(value, field))
    if not isinstance(value, Mapping):
        raise Invalid(f"`{field}` must be an object: the name of each header and its value.", field=field)
    return dict(zip(_scalars(value, field), _scalars(value.values(), field), strict=True))


def _scalars(values: Iterable[Any], field: str) -> list[str]:
    """Texts and whole numbers, as texts. An empty one would match nothing, or more than was meant."""
    found = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise Invalid(f"`{field}` may hold texts that are not empty, and whole numbers.", field=field)
        found.append(str(value).strip())
    if len(found) > MAX_ITEMS:
        raise Invalid(f"`{field}` has at most {MAX_ITEMS} items.", field=field)
    return found


# -- choosing ------------------------------------------------------------------------------------------------------------


def fits(rules: Rules, asked: Asked) -> bool:
    """Whether rules are met. What a request does not say meets none."""
    wanted: dict[str, Any] = {
        **msgspec.structs.asdict(rules.request),
        **msgspec.structs.asdict(rules.schema),
    }
    headers = wanted.pop("headers")
    return all(_any_of(names, _given(rule, asked)) for rule, names in wanted.items()) and all(
        _same(value, asked.headers.get(header_variable(name))) for name, value in headers.items()
    )


def _given(rule: str, asked: Asked) -> tuple[str, ...]:
    if rule in _LISTS:
        return asked.lists.get(rule, ())
    value = asked.plain.get(_PLAIN[rule])
    return () if value is None else (value,)


def _any_of(wanted: tuple[str, ...], given: tuple[str, ...]) -> bool:
    return not wanted or not {name.casefold() for name in wanted}.isdisjoint(_folded(given))


def _folded(names: tuple[str, ...]) -> list[str]:
    return [name.strip().casefold() for name in names]


def _same(wanted: str, given: str | None) -> bool:
    return given is not None and wanted.casefold() == given.strip().casefold()


def matching(hooks: Iterable[Candidate], asked: Asked) -> list[Candidate]:
    """The hooks whose rules are met, the most important first. One that is disabled is none of them."""
    found = [one for one in hooks if one.hook.enabled and fits(one.hook.rules, asked)]
    return sorted(found, key=lambda one: (-one.hook.priority, one.name, one.id))


def winner(matches: list[Candidate]) -> Candidate | None:
    """The one with the highest priority. If there are several, nobody can say which prompt was meant."""
    top = [one for one in matches if one.hook.priority == matches[0].hook.priority]
    if len(top) > 1:
        shown = ", ".join(f"{one.name!r} ({one.id})" for one in top[:NAMED_IN_ERRORS])
        more = f" and {len(top) - NAMED_IN_ERRORS} more" if len(top) > NAMED_IN_ERRORS else ""
        raise Ambiguous(
            f"The choice is ambiguous: {len(top)} hooks of priority {top[0].hook.priority} match: {shown}{more}. Give "
            "them different priorities or narrower rules, or say which by `hook_id` or `selector_key`.",
            hook_ids=[one.id for one in top],
        )
    return top[0] if top else None
