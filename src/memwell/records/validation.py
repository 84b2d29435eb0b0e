"""Validation of records. A write checks the value against its schema and searches it for secrets; a read adds the defaults of the
schema. When a schema changes, stored records that no longer fit it are found (S3.45, C24)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from ..core.operation import Response
from ..core.space import Space
from ..errors import Conflict, Invalid, Stale, TooLarge
from ..model.collection import Place
from ..text.hidden import normalise
from .records import MAX_VALUE, Contract, Edit, Record, iterate_tied_values, list_records_at, write_record
from .schema import Schema, check_defaults, list_doubts
from .schema_limits import Effort, check_schema
from .schema_tree import At, Problem, mask_name, render_path

MAX_SHOWN = 200
MAX_WRITE_EFFORT, MAX_READ_EFFORT = 2.0, 8.0
"""Effort of checking all values of a call; 1 is the limit of one value. It is limited because other writers wait meanwhile."""
UNCHECKED = "it is too large to be checked against this schema"
MAX_LISTED = 5
"""Problems that a message lists. The details of the error have all of them."""
MAX_SCHEMAS = 256
_schemas: dict[tuple[int, bool], tuple[Mapping[str, Any], Schema]] = {}
"""Compiled schemas by the `id` of their source. The source is kept with them, so that its `id` is not reused."""
_ANYTHING: dict[str, Any] = {}


class ValueWarning(Response, frozen=True, kw_only=True):
    """A warning about an accepted value: the path, and the reason."""

    path: str
    reason: str

    def render(self, name: str) -> str:
        """Render it for a value of this name."""
        return f"`{name}.{self.path}`: {self.reason}" if self.path else f"`{name}`: {self.reason}"


def write_valid(
    space: Space, place: Place, path: str, edit: Edit, contract: Contract
) -> tuple[Record, list[ValueWarning]]:
    """Write a record under a contract. Return it with the defaults of its schema, and warnings about the accepted value."""
    warnings: list[ValueWarning] = []

    def check(value: Any) -> None:
        found = _check_value(space, value, contract)  # first, so that an invalid value is not searched
        found = [*_check_secrets(space, edit.data, contract), *found]
        warnings.extend(ValueWarning(path=one.path, reason=one.reason) for one in found)

    record = write_record(space, place, path, edit, contract, check)
    return structs.replace(record, value=fill_defaults(record.value, contract)), warnings


def fill_defaults(value: Any, contract: Contract) -> Any:
    """Return a value with the defaults of its schema (C23)."""
    return get_schema(contract).fill_defaults(value) if contract.schema else value


def list_misfits(value: Any, contract: Contract, space: Space | None = None) -> list[Problem]:
    """Return the problems of a stored value. A value that takes too long to check, alone or with the other values of the call, is
    reported as a problem."""
    if not contract.schema:
        return []
    schema = get_schema(contract)
    try:
        return schema.problems(value, _spend_effort(space, schema, value, MAX_READ_EFFORT))
    except TooLarge:
        return [Problem("", UNCHECKED)]


def get_schema(contract: Contract) -> Schema:
    """Return the compiled schema of a contract."""
    source = _ANYTHING if contract.schema is None else contract.schema
    key = id(source), contract.strict
    found = _schemas.get(key)
    if found is None:
        if len(_schemas) >= MAX_SCHEMAS:
            _schemas.clear()
        found = _schemas[key] = source, Schema(source, strict=contract.strict, stored=True)
    return found[1]


def normalize_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema as plain JSON values, as it is stored: tuples become lists, and so on."""
    try:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    except RecursionError:
        raise Invalid("`schema` is nested too deeply.", field="schema") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"`schema` must be JSON: {error}.", field="schema") from None
    return found


def check_object_schema(contract: Contract) -> None:
    """Reject an invalid schema. Records are objects, so it must describe an object (S2.10, S3.8)."""
    source = dict(contract.schema or {})
    if source.get("type", "object") not in ("object", ["object"]):
        raise Invalid("`schema` must describe an object: set its `type` to `object`.", field="schema")
    check_schema(source)
    check_defaults(get_schema(contract).source)


def list_schema_doubts(contract: Contract) -> list[str]:
    return list_doubts(dict(contract.schema), strict=contract.strict) if contract.schema else []


def check_changed_schema(space: Space, tie: str, old: Contract, new: Contract, accept_breaking: bool) -> list[str]:
    """Reject a changed schema that is invalid, or that stored records do not fit, unless `accept_breaking` is set. If it is not
    strict, those records are only reported. Return warnings."""
    check_object_schema(new)
    warnings = list_schema_doubts(new) if new.schema != old.schema else []
    if (new.schema, new.strict) == (old.schema, old.strict):
        return warnings
    found = find_breaking(space, tie, new)
    if not found.breaking:
        return warnings
    count = f"{found.breaking} of {found.records} stored records"
    if not new.strict:
        return [*warnings, f"{count} do not fit this schema, and stay as they are: {_list_examples(found)}."]
    if accept_breaking:
        return [
            *warnings,
            f"{count} do not fit this schema, and are withheld from models until they are written again.",
        ]
    raise Conflict(
        f"{count} would not fit this schema. Change them first, or save it with `accept_breaking`.",
        breaking=found.breaking,
        examples=[structs.asdict(one) for one in found.examples],
    )


def _list_examples(found: Breaking) -> str:
    """Describe some of the records that do not fit."""
    named = []
    for one in found.examples[:MAX_LISTED]:
        scope = "" if one.scope == "global" or one.scope.startswith("app/") else f" ({one.scope})"
        reasons = "; ".join(
            f"`{it['path']}`: {it['reason']}" if it["path"] else it["reason"] for it in one.problems[:2]
        )
        named.append(f"{one.owner[:MAX_SHOWN]}{scope[:MAX_SHOWN]}: {reasons}")
    more = found.breaking - len(named)
    return " | ".join(named) + (f" | and {more} more" if more else "")


@contextmanager
def error_at(where: str, **details: Any) -> Iterator[None]:
    """Add the path of a part of the request to errors."""
    try:
        yield
    except (Invalid, Stale) as error:
        raise type(error)(f"`{where}`: {error.message}", **{**error.details, **details}) from None


def build_misfit_error(problems: Sequence[Problem], what: str = "The value") -> Invalid:
    shown = "; ".join(f"`{one.path}`: {one.reason}" if one.path else one.reason for one in problems[:MAX_LISTED])
    more = f" (and {len(problems) - MAX_LISTED} more)" if len(problems) > MAX_LISTED else ""
    return Invalid(f"{what} does not fit its schema: {shown}{more}.", problems=[one._asdict() for one in problems])


def _spend_effort(space: Space | None, schema: Schema, value: Any, most: float) -> Effort:
    """Add the effort of checking a value to the effort of the call. Raise TooLarge if that exceeds the limit. The effort of a
    rejected value is not added, so that small values after a large one are still checked."""
    effort = schema.effort(value)
    if space is not None:
        if space.checked + effort.share > most:
            raise TooLarge("The values of this call take too long to be checked together: write fewer of them at once.")
        space.checked += effort.share
    return effort


def _check_value(space: Space, value: Any, contract: Contract) -> list[Problem]:
    """Reject a value that does not fit a strict schema. Return warnings about an accepted value."""
    if not contract.schema:
        return []
    schema = get_schema(contract)
    try:
        effort = _spend_effort(space, schema, value, MAX_WRITE_EFFORT)
        problems = schema.problems(value, effort)
    except TooLarge:
        if contract.strict:
            raise
        return [Problem("", UNCHECKED)]
    if problems and contract.strict:
        raise build_misfit_error(problems)
    return [*problems, *schema.warnings(value, effort)]


def _check_secrets(space: Space, data: Mapping[str, Any], contract: Contract) -> list[Problem]:
    """Find likely secrets in new data, and return or reject them (S3.44). The limit is for a call, not for each record."""
    if contract.secrets is None:
        return []
    problems, searched = find_secrets(data, MAX_VALUE - space.looked)
    space.looked += searched
    if problems and contract.secrets == "reject":
        shown = ", ".join(f"`{one.path[:MAX_SHOWN]}`" for one in problems[:MAX_LISTED])
        raise Invalid(
            f"Secrets do not belong in memory: {shown} looks like one. Nothing was saved.",
            problems=[one._asdict() for one in problems],
        )
    return problems


# Stored records that a changed schema breaks

MAX_EXAMPLES = 20
"""Broken records that a response names."""

Accept = Annotated[
    bool,
    Meta(
        description="Save the schema even if stored records do not fit it. Models do not see those until they are written again."
    ),
]


class BrokenRecord(Response, frozen=True, kw_only=True):
    """A record that does not fit: its owner, its scope, and the reasons."""

    owner: str
    scope: str
    problems: list[dict[str, str]]


class Breaking(Response, frozen=True, kw_only=True):
    """The number of records, the number that would no longer fit, and examples of those."""

    records: int
    breaking: int
    examples: list[BrokenRecord]


def find_breaking(space: Space, tie: str, contract: Contract) -> Breaking:
    """Check the records with a tie against a contract."""
    count = broken = 0
    named: dict[int, list[dict[str, str]]] = {}
    for address_id, value in iterate_tied_values(space, tie):
        count += 1
        if problems := list_misfits(value, contract):
            broken += 1
            if len(named) < MAX_EXAMPLES:
                named[address_id] = [one._asdict() for one in problems]
    examples = [
        BrokenRecord(owner=owner, scope=one.path.partition("@")[2] or "global", problems=named[one.address_id])
        for one, owner in list_records_at(space, list(named))
    ]
    return Breaking(records=count, breaking=broken, examples=examples)


# Settings and names of stores and definitions

MAX_NAME = 255
BY_SLUG = "definition_slug"
"""Kind of document that maps a slug to its definition."""
_VAGUE = re.compile(r"(?:data|temp|tmp|test|store|memory|info|stuff|misc|foo|bar|value|record)s?_?\d*", re.IGNORECASE)


def copy_settings(settings: msgspec.Struct, *hidden: str) -> dict[str, Any]:
    """Return a copy of settings for a response. The caller may change it; the settings themselves are shared."""
    return deepcopy({name: value for name, value in structs.asdict(settings).items() if name not in hidden})


def list_name_doubts(name: str, field: str) -> list[str]:
    """Return a warning if a name does not describe its content (C40)."""
    if not _VAGUE.fullmatch(name):
        return []
    return [f"The {field} {name!r} does not say what it is for: choose a descriptive name."]


def join_names(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


# Secrets: values that look like passwords, keys or card numbers. Messages never repeat them.

MAX_LOOKED_AT = 64 * 1024
"""Default number of characters of a value that are searched for secrets."""
MAX_TEXTS = 10_000
"""Distinct texts in one value that are searched, at about fifty microseconds each."""
MAX_FOUND = 20
MAX_SPOKEN = 64
"""Characters of a name that are searched together with its value."""
_FEW_DIGITS = 1000
"""Smaller numbers are never taken for secrets."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PASSWORD = re.compile(r"\b(?:password|passwd|passphrase|passcode)s?\d*$|^pwd$")
_CODE = re.compile(r"\b(?:(?:auth(?:entication)?|access|2fa|mfa|two factor) codes?|2fa|mfa|totp)$")
_PHRASE = re.compile(r"\b(?:passphrase|pass phrase)s?\d*$")
PHRASE = "passphrase"
MAX_PHRASE = 6
"""Largest number of words of a passphrase. A longer text is a sentence about one."""
PIN = 4
_PERHAPS = frozenset({"pass", "secret"})
"""Field names whose value is a secret only if it contains a digit."""
_ONLY = frozenset({"value", "text", "plain", "raw", "current", "old", "new"})
"""Generic field names, for which the name of the parent is used instead."""


def secrets_in(data: Any) -> list[Problem]:
    """Return the places in a value that look like secrets."""
    return find_secrets(data, MAX_LOOKED_AT)[0]


def find_secrets(data: Any, most: int) -> tuple[list[Problem], int]:
    """Return up to `MAX_FOUND` places in a value that look like secrets, and the number of characters searched. If the value is
    too large to be searched, that is a problem, too."""
    from ..screening.secrets import find_secret  # lazy: its patterns take a while to load

    found: list[Problem] = []
    left = most
    kinds: dict[str, str | None] = {}
    for at, name, text in _texts(data):
        left -= len(text)
        sentence = normalise(_to_sentence(name, text))
        if left < 0 or len(kinds) > MAX_TEXTS:
            return [*found, Problem("", "it is too large to be searched for secrets")], most - max(left, 0)
        if sentence not in kinds:
            kinds[sentence] = find_secret(sentence)
        if (kind := kinds[sentence]) is not None:
            found.append(Problem(render_path(at), f"it looks like a secret ({kind})"))
            if len(found) == MAX_FOUND:
                break
    return found, most - left


def _to_sentence(name: str, text: str) -> str:
    """Return a field as a sentence, in the form in which `find_secret` recognises secrets."""
    words = text.split()
    if name == PHRASE and len(words) <= MAX_PHRASE:  # join the words: together they are one secret
        return f"password: {'_'.join(words)}"
    if name in _PERHAPS and len(words) == 1 and any(map(str.isdigit, text)):
        return f"password: {text}"
    if name.endswith("pin code") and len(text) == PIN:  # a longer one is a postal code
        return f"pin: {text}"
    return f"{name}: {text}" if name else text


def _texts(value: Any, at: At | None = None, name: str = "") -> Iterator[tuple[At | None, str, str]]:
    """Yield the texts and numbers of a value: place, spoken name, text."""
    match value:
        case dict():
            for key, item in value.items():
                inside = At(at, str(key))
                if mask_name(str(key)) != key:
                    yield inside, "", str(key)
                yield from _texts(item, inside, _to_spoken_name(str(key), name))
        case list():
            for number, item in enumerate(value):
                yield from _texts(item, At(at, number), name)
        case bool():
            return
        case int() | float() if abs(value) < _FEW_DIGITS:
            return
        case float() if value.is_integer():
            yield at, name, str(int(value))
        case str() | int() | float():
            yield at, name, str(value)


def _to_spoken_name(key: str, above: str) -> str:
    """Return a field name in words, or the name of the parent if it is generic. Long names keep their end, which matters most."""
    name = _HUMP.sub(" ", normalise(key)[-MAX_SPOKEN:]).replace("_", " ").replace("-", " ").lower()
    if name in _ONLY and above:
        return above
    if _CODE.search(name):
        return "verification code"
    if _PHRASE.search(name):
        return PHRASE
    return "password" if _PASSWORD.search(name) else name
