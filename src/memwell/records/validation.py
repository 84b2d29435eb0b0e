"""Records that are held to something: checked before they are kept, filled with defaults when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, structs

from ..core.operation import Response
from ..core.space import Space
from ..errors import Conflict, Invalid, Stale, TooLarge
from ..model.collection import Place
from . import records
from .records import Mode, NewValue, Record, iterate_tied_values, list_records_at
from .schema import Schema, list_doubts
from .schema_defaults import check_defaults
from .schema_limits import Effort, check_schema
from .schema_tree import Problem
from .secrets import find_secrets

Secrets = Literal["warn", "reject"]
MAX_SHOWN = 200
WRITTEN, READ = 2.0, 8.0
"""What the values of one call may take to be checked, as a share of what one may: others wait meanwhile, writers most of all."""
UNCHECKED = "it is too large to be checked against this schema"
MAX_TOLD = 5
"""How many problems are named in a sentence; all of them are in the details."""


class ValueWarning(Response, frozen=True, kw_only=True):
    """What was let through although it does not look right: where in a value, and why."""

    path: str
    reason: str


class Contract(NamedTuple):
    """What a record is held to."""

    schema: Mapping[str, Any] | None = None
    strict: bool = False
    lifetime_us: int | None = None
    ties: tuple[str, ...] = ()
    tied_anew: bool = False
    secrets: Secrets | None = None
    lasting: int | None = None
    former: tuple[int, ...] | None = None


NO_CONTRACT = Contract()
MAX_SCHEMAS = 256
_schemas: dict[tuple[int, bool], tuple[Mapping[str, Any] | None, Schema]] = {}
"""By the identity of a schema, which is kept with it, so that no other can have the same."""


class Edit(NamedTuple):
    """What to write to a record, and how."""

    data: Mapping[str, Any]
    mode: Mode = "merge"
    if_match: str | None = None
    unset: Sequence[str] = ()


def write_valid(
    space: Space, place: Place, path: str, change: Edit, held: Contract
) -> tuple[Record, list[ValueWarning]]:
    """Write a record. What is wrong with it is refused, or told if it is let through."""
    warnings: list[ValueWarning] = []

    def check(value: Any) -> None:
        judged = list(_check_value(space, value, held))  # first: what is refused anyway need not be looked through
        warnings.extend(
            ValueWarning(path=one.path, reason=one.reason) for one in _check_secrets(space, change.data, held)
        )
        warnings.extend(judged)

    asked = (change.mode, held.lifetime_us, change.if_match, held.ties, held.tied_anew)
    new = NewValue(dict(change.data), *asked, lasting=held.lasting, former=held.former, unset=tuple(change.unset))
    return records.write_record(space, place, path, new, check), warnings


def fill_defaults(value: Any, held: Contract) -> Any:
    """A value with the defaults of what it is held to (C23)."""
    return compile_contract(held).fill_defaults(value) if held.schema else value


def list_misfits(value: Any, held: Contract, space: Space | None = None) -> list[Problem]:
    """Why a value does not fit any more. One that takes too long to be checked, by itself or with the others of a call, is not
    known to fit."""
    if not held.schema:
        return []
    schema = compile_contract(held)
    try:
        return schema.problems(value, _spend_effort(space, schema, value, READ))
    except TooLarge:
        return [Problem("", UNCHECKED)]


def compile_contract(held: Contract) -> Schema:
    """The schema that counts. One that was just read again is known by what it is read from."""
    known = _schemas.get((id(held.schema), held.strict))
    if known is not None and known[0] is held.schema:
        return known[1]
    made = _made(held)
    if len(_schemas) >= MAX_SCHEMAS:
        _schemas.clear()
    _schemas[id(held.schema), held.strict] = (held.schema, made)
    return made


def check_object_schema(held: Contract) -> None:
    """Refuse a schema that cannot be used. What is kept are objects, so it must be that of one (S2.10, S3.8)."""
    if (held.schema or {}).get("type", "object") not in ("object", ["object"]):
        raise Invalid("`schema` must describe an object: its `type` is something else.", field="schema")
    source = normalize_schema(held.schema or {})
    check_schema(source)
    check_defaults(compile_contract(held).source)


def list_schema_doubts(held: Contract) -> list[str]:
    """Words of warning about a schema that was given and can be used."""
    return list_doubts(dict(held.schema), strict=held.strict) if held.schema else []


@contextmanager
def error_at(where: str, **details: Any) -> Iterator[None]:
    """Say of what is wrong which of several it is about."""
    try:
        yield
    except (Invalid, Stale) as error:
        raise type(error)(f"`{where}`: {error.message}", **{**error.details, **details}) from None


def normalize_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as it is stored. What Python says in another way, such as tuples, is the same from then on."""
    with _readable():
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return found


def _made(held: Contract) -> Schema:
    with _readable():
        source = msgspec.json.encode(held.schema or {})
    return _schema(source, held.strict)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise Invalid("`schema` is nested too deeply.", field="schema") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"`schema` must be JSON: {error}.", field="schema") from None


def build_misfit_error(problems: Sequence[Problem], what: str = "The value") -> Invalid:
    """The error for a value that does not fit."""
    told = "; ".join(_describe(one) for one in problems[:MAX_TOLD])
    more = f" (and {len(problems) - MAX_TOLD} more)" if len(problems) > MAX_TOLD else ""
    listed = [{"path": one.path, "reason": one.reason} for one in problems]
    return Invalid(f"{what} does not fit its schema: {told}{more}.", problems=listed)


def _describe(problem: Problem) -> str:
    return f"`{problem.path}`: {problem.reason}" if problem.path else problem.reason


def _spend_effort(space: Space | None, schema: Schema, value: Any, most: float) -> Effort:
    """What it takes to check a value; an error if there is too much to be checked in this call. What is not checked does not
    count: small values behind a large one are."""
    effort = schema.effort(value)
    if space is not None:
        if space.checked + effort.share > most:
            raise TooLarge("The values of this call take too long to be checked together: write fewer of them at once.")
        space.checked += effort.share
    return effort


def _check_value(space: Space, value: Any, held: Contract) -> Iterator[ValueWarning]:
    if not held.schema:
        return
    schema = compile_contract(held)
    try:
        effort = _spend_effort(space, schema, value, WRITTEN)
        problems = schema.problems(value, effort)
    except TooLarge:
        if held.strict:
            raise
        yield ValueWarning(path="", reason=UNCHECKED)
        return
    if problems and held.strict:
        raise build_misfit_error(problems)
    for one in [*problems, *schema.warnings(value, effort)]:
        yield ValueWarning(path=one.path, reason=one.reason)


def _check_secrets(space: Space, data: Mapping[str, Any], held: Contract) -> list[Problem]:
    """What looks like a secret in what is to be written, if anybody minds (S3.44). Others wait meanwhile, so there is a limit for
    a call, and not for each record in it."""
    if held.secrets is None:
        return []
    problems, looked = find_secrets(data, records.MAX_VALUE - space.looked)
    space.looked += looked
    if problems and held.secrets == "reject":
        told = ", ".join(f"`{one.path[:MAX_SHOWN]}`" for one in problems[:MAX_TOLD])
        listed = [{"path": one.path, "reason": one.reason} for one in problems]
        raise Invalid(f"Secrets do not belong in memory: {told} looks like one. Nothing was saved.", problems=listed)
    return problems


@lru_cache(maxsize=128)
def _schema(source: bytes, strict: bool) -> Schema:
    return Schema(msgspec.json.decode(source), strict=strict, stored=True)


# -- Which stored records a changed schema would break, told before it is saved (S3.45, C24).


MAX_EXAMPLES = 20
"""How many of the records that would break are named."""

Accept = Annotated[
    bool,
    Meta(
        description="Save a schema that stored records do not fit: until they are written anew, no model is shown them."
    ),
]


class BrokenRecord(Response, frozen=True, kw_only=True):
    """A record that does not fit: whose, where, and why."""

    owner: str
    scope: str
    problems: list[dict[str, str]]


class Breaking(Response, frozen=True, kw_only=True):
    """How many records there are, how many would not fit any more, and some of these."""

    records: int
    breaking: int
    examples: list[BrokenRecord]


def find_breaking(space: Space, tie: str, held: Contract) -> Breaking:
    """What would not fit of the records that go with something."""
    count = broken = 0
    named: dict[int, list[dict[str, str]]] = {}
    for address_id, value in iterate_tied_values(space, tie):
        count += 1
        problems = list_misfits(value, held)
        if problems:
            broken += 1
        if problems and len(named) < MAX_EXAMPLES:
            named[address_id] = [{"path": one.path, "reason": one.reason} for one in problems]
    examples = [
        _example(record, owner, named[record.address_id]) for record, owner in list_records_at(space, list(named))
    ]
    return Breaking(records=count, breaking=broken, examples=examples)


def _example(record: Record, owner: str, problems: list[dict[str, str]]) -> BrokenRecord:
    return BrokenRecord(owner=owner, scope=record.path.partition("@")[2] or "global", problems=problems)


def check_breaking(found: Breaking, accept: bool) -> list[str]:
    """A warning about the records that break; an error, if that is not accepted."""
    if not found.breaking:
        return []
    if accept:
        count = f"{found.breaking} of {found.records} stored records"
        return [f"{count} do not fit this schema, and are withheld from models until they are written anew."]
    raise Conflict(
        f"{found.breaking} of {found.records} stored records would not fit this schema. Change them first, or save it with "
        "`accept_breaking`.",
        breaking=found.breaking,
        examples=[structs.asdict(one) for one in found.examples],
    )
