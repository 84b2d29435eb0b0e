"""Contracts of records: a value is checked against a schema and searched for secrets before it is stored, and filled with
defaults when it is read. Also: which stored records a changed schema would break (S3.45, C24)."""

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
"""Effort of checking the values of one call, in units of what one value may take; other writers wait meanwhile."""
UNCHECKED = "it is too large to be checked against this schema"
MAX_TOLD = 5
"""Problems that a message names; all of them are in its details."""
MAX_SCHEMAS = 256
_schemas: dict[tuple[int, bool], tuple[Mapping[str, Any], Schema]] = {}
"""Compiled schemas by the identity of their source, which is kept with them, so that no other source can have it."""
_ANYTHING: dict[str, Any] = {}


class ValueWarning(Response, frozen=True, kw_only=True):
    """Something odd in a value that was accepted: where, and why."""

    path: str
    reason: str


def write_valid(
    space: Space, place: Place, path: str, edit: Edit, contract: Contract
) -> tuple[Record, list[ValueWarning]]:
    """Write a record that fulfils a contract. Return it with the defaults of its schema, and warnings about what was accepted."""
    warnings: list[ValueWarning] = []

    def check(value: Any) -> None:
        found = _check_value(space, value, contract)  # first: a value that does not fit need not be searched
        found = [*_check_secrets(space, edit.data, contract), *found]
        warnings.extend(ValueWarning(path=one.path, reason=one.reason) for one in found)

    record = write_record(space, place, path, edit, contract, check)
    return structs.replace(record, value=fill_defaults(record.value, contract)), warnings


def fill_defaults(value: Any, contract: Contract) -> Any:
    """Return a value with the defaults of its schema (C23)."""
    return get_schema(contract).fill_defaults(value) if contract.schema else value


def list_misfits(value: Any, contract: Contract, space: Space | None = None) -> list[Problem]:
    """Return why a stored value does not fit. One that takes too long to check, by itself or with the others of a call, does not
    count as fitting."""
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
    """Return a schema as it is stored: tuples become lists, and so on."""
    try:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    except RecursionError:
        raise Invalid("`schema` is nested too deeply.", field="schema") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"`schema` must be JSON: {error}.", field="schema") from None
    return found


def check_object_schema(contract: Contract) -> None:
    """Reject a new, normalized schema that cannot be used. Records are objects, so it must describe one (S2.10, S3.8)."""
    source = dict(contract.schema or {})
    if source.get("type", "object") not in ("object", ["object"]):
        raise Invalid("`schema` must describe an object: its `type` is something else.", field="schema")
    check_schema(source)
    check_defaults(get_schema(contract).source)


def list_schema_doubts(contract: Contract) -> list[str]:
    return list_doubts(dict(contract.schema), strict=contract.strict) if contract.schema else []


def check_changed_schema(space: Space, tie: str, old: Contract, new: Contract, accept_breaking: bool) -> list[str]:
    """Reject a changed schema that cannot be used, or one that stored records do not fit, unless that is accepted. Return
    warnings."""
    check_object_schema(new)
    warnings = list_schema_doubts(new) if new.schema != old.schema else []
    if not new.strict or (new.schema, new.strict) == (old.schema, old.strict):
        return warnings
    found = find_breaking(space, tie, new)
    if not found.breaking:
        return warnings
    count = f"{found.breaking} of {found.records} stored records"
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


@contextmanager
def error_at(where: str, **details: Any) -> Iterator[None]:
    """Name the part of a request that an error is about."""
    try:
        yield
    except (Invalid, Stale) as error:
        raise type(error)(f"`{where}`: {error.message}", **{**error.details, **details}) from None


def build_misfit_error(problems: Sequence[Problem], what: str = "The value") -> Invalid:
    shown = "; ".join(f"`{one.path}`: {one.reason}" if one.path else one.reason for one in problems[:MAX_TOLD])
    more = f" (and {len(problems) - MAX_TOLD} more)" if len(problems) > MAX_TOLD else ""
    return Invalid(f"{what} does not fit its schema: {shown}{more}.", problems=[one._asdict() for one in problems])


def _spend_effort(space: Space | None, schema: Schema, value: Any, most: float) -> Effort:
    """Add the effort of checking a value to that of the call. Reject it if that is too much; then it is not added, so that small
    values after a large one are checked."""
    effort = schema.effort(value)
    if space is not None:
        if space.checked + effort.share > most:
            raise TooLarge("The values of this call take too long to be checked together: write fewer of them at once.")
        space.checked += effort.share
    return effort


def _check_value(space: Space, value: Any, contract: Contract) -> list[Problem]:
    """Reject a value that does not fit a strict schema. Return what is odd about an accepted one."""
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
    """Return what looks like a secret in new data, or reject it (S3.44). The limit is for a call, not for each record in it."""
    if contract.secrets is None:
        return []
    problems, searched = find_secrets(data, MAX_VALUE - space.looked)
    space.looked += searched
    if problems and contract.secrets == "reject":
        shown = ", ".join(f"`{one.path[:MAX_SHOWN]}`" for one in problems[:MAX_TOLD])
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
        description="Save a schema that stored records do not fit: models do not see these until they are written again."
    ),
]


class BrokenRecord(Response, frozen=True, kw_only=True):
    """A record that does not fit: its owner, its scope, and why."""

    owner: str
    scope: str
    problems: list[dict[str, str]]


class Breaking(Response, frozen=True, kw_only=True):
    """The number of records, of those that would not fit any more, and some of these."""

    records: int
    breaking: int
    examples: list[BrokenRecord]


def find_breaking(space: Space, tie: str, contract: Contract) -> Breaking:
    """Return which of the records with a tie would not fit."""
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
"""Document that leads from a slug to its definition."""
_VAGUE = re.compile(r"(?:data|temp|tmp|test|store|memory|info|stuff|misc|foo|bar|value|record)s?_?\d*", re.IGNORECASE)


def copy_settings(settings: msgspec.Struct, *hidden: str) -> dict[str, Any]:
    """Return settings for a response, which the caller may change, while they are shared themselves."""
    return deepcopy({name: value for name, value in structs.asdict(settings).items() if name not in hidden})


def list_name_doubts(name: str, field: str) -> list[str]:
    """Return a warning about a name that says nothing about its content (C40)."""
    if not _VAGUE.fullmatch(name):
        return []
    return [f"The {field} {name!r} does not say what it is for: choose a telling one."]


def join_names(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


# Secrets: fields that look like passwords, keys or card numbers; their values are never repeated

MAX_LOOKED_AT = 64 * 1024
"""Characters of a value that are searched for secrets by default."""
MAX_TEXTS = 10_000
"""Different texts that are searched in one value, at about fifty microseconds each."""
MAX_FOUND = 20
MAX_SPOKEN = 64
"""Characters of a name that are searched together with its value."""
_FEW_DIGITS = 1000
"""A smaller number is no code, whatever its name."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PASSWORD = re.compile(r"\b(?:password|passwd|passphrase|passcode)s?\d*$|^pwd$")
_CODE = re.compile(r"\b(?:(?:auth(?:entication)?|access|2fa|mfa|two factor) codes?|2fa|mfa|totp)$")
_PHRASE = re.compile(r"\b(?:passphrase|pass phrase)s?\d*$")
PHRASE = "passphrase"
MAX_PHRASE = 6
"""Words of a passphrase; more are a sentence about one."""
PIN = 4
_PERHAPS = frozenset({"pass", "secret"})
"""Names under which a plain word is no secret."""
_ONLY = frozenset({"value", "text", "plain", "raw", "current", "old", "new"})
"""Names that say no more than the name above them."""


def secrets_in(data: Any, most: int = MAX_LOOKED_AT) -> list[Problem]:
    """Return what looks like a secret in a value, and where."""
    return find_secrets(data, most)[0]


def find_secrets(data: Any, most: int) -> tuple[list[Problem], int]:
    """Return what looks like a secret in a value, up to `MAX_FOUND`, and how many characters were searched. A value that is too
    large to be searched is a problem itself."""
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
    """Return a name and a value as somebody would say them."""
    words = text.split()
    if name == PHRASE and len(words) <= MAX_PHRASE:  # several words are one secret
        return f"password: {'_'.join(words)}"
    if name in _PERHAPS and len(words) == 1 and any(map(str.isdigit, text)):
        return f"password: {text}"
    if name.endswith("pin code") and len(text) == PIN:  # a longer one is that of a place
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
    """Return a name as somebody would say it; where it says nothing, the one above it. Its end says most."""
    name = _HUMP.sub(" ", normalise(key)[-MAX_SPOKEN:]).replace("_", " ").replace("-", " ").lower()
    if name in _ONLY and above:
        return above
    if _CODE.search(name):
        return "verification code"
    if _PHRASE.search(name):
        return PHRASE
    return "password" if _PASSWORD.search(name) else name
