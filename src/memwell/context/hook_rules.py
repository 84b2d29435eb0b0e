"""A prompt hook: a template for a prompt, and the requests that it is meant for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from .. import typed
from ..errors import Ambiguous, Invalid
from ..model import check
from ..text import yaml

KIND = "hook"

Names = tuple[str, ...]


class RequestRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whose request it must be, and what it must carry. Of each list one must fit, of the headers all."""

    organization_ids: Names = ()
    user_ids: Names = ()
    tools: Names = ()
    session_ids: Names = ()
    grants: Names = ()
    headers: dict[str, str] = {}


class SchemaRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which data it must be about. Of each list one must fit."""

    database_ids: Names = ()
    table_names: Names = ()
    domain_tags: Names = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which requests a hook is for. What is empty asks for nothing; case does not matter."""

    request: RequestRules = RequestRules()
    schema: SchemaRules = SchemaRules()


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook is, as it is stored."""

    markdown_template: str
    description: str | None = None
    enabled: bool = True
    priority: int = 0
    selector_key: str | None = None
    rules: Rules = Rules()
    rules_yaml: str | None = None
    """The rules as they were written, if that was YAML."""


decoded = typed.decoder(Hook)


def encoded(hook: Hook) -> str:
    return msgspec.json.encode(hook).decode()


# -- What a request says of itself, and the variables that a hook's template may use (B4.2, B4.7).


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


# -- Which hook a request gets: rules read, rules held against a request, the one that wins (B4.5, B4.6).


MAX_YAML = 32 * 1024
MAX_LEVELS = 8
MAX_RULE_ITEMS = 1000
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
    if len(found) > MAX_RULE_ITEMS:
        raise Invalid(f"`{field}` has at most {MAX_RULE_ITEMS} items.", field=field)
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
