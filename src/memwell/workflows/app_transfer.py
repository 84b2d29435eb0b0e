"""An app on its way in: every part of its document is judged by what is there, and then all of them are made, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta, structs

from .. import typed
from ..banks.banks import BANKS, Bank, CreateBank, add_bank, build_bank
from ..banks.banks import KIND as BANK
from ..context.expression import is_expression
from ..core import documents
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, explain_invalid, operation
from ..core.space import Space
from ..errors import Conflict, Invalid
from ..records.apps import (
    APPS,
    MAX_STORES,
    App,
    AppName,
    ConfigureApp,
    FunctionField,
    MaxFiles,
    MaxStores,
    OfApp,
    configure,
    require_app,
)
from ..records.definitions import (
    CreateDefinition,
    add_definition,
    find_definition,
    find_definition_by_slug,
    is_name_taken,
    list_differences,
    normalize_definition,
)
from ..records.file_rows import MAX_FILES
from ..records.records import Description
from ..records.stores import GIVEN, NewStore, add_store, list_store_differences, parse_stores, stores_of
from ..records.validation import join_names
from .operations import KIND as WORKFLOW
from .operations import add_workflow, decode_document, parse_document, read_document
from .source import read_source

MAX_PARTS = 200
REFERENCES = ("memory_bank_id", "bank", "definition_id")
"""The fields of a workflow that name a part of its app."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_SHOWN = 100
"""How much of a name in a document is repeated in a sentence."""

What = Literal["app", "store", "definition", "memory_bank", "workflow"]
Action = Literal["create", "change", "reuse", "conflict"]


class AppFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exported app."""

    app: str = ""
    memwell: int = 1
    description: Description | None = None
    function: FunctionField | None = None
    max_stores: MaxStores = MAX_STORES
    max_files: MaxFiles = MAX_FILES
    stores: dict[str, Any] = {}
    definitions: Annotated[dict[str, dict[str, Any]], Meta(max_length=MAX_PARTS)] = {}
    memory_banks: Annotated[dict[str, dict[str, Any]], Meta(max_length=MAX_PARTS)] = {}
    workflow: dict[str, Any] | None = None


class Part(Response, frozen=True, kw_only=True):
    """A part of an app: whether it is made, is there already just so, or is there in another way. An app that is there is
    changed if it lacks what the document says; `reason` names that."""

    what: What
    name: str
    action: Action
    reason: str | None = None


class Imported(Response, frozen=True, kw_only=True):
    """What an import has made or would make. `ids`: what became of the ids in the document."""

    app: str
    dry_run: bool
    parts: list[Part]
    ids: dict[str, str]


class Undone(Exception):
    """An import that was only tried: whatever it wrote is taken back."""

    def __init__(self, found: Imported) -> None:
        super().__init__()
        self.found = found


class Importing:
    """An app on its way in. Whatever can be judged without the store was judged before."""

    def __init__(self, call: Call, app: str, file: AppFile) -> None:
        self._app, self._file = app, file
        self._stores = parse_stores(file.stores) if file.stores else {}
        self._definitions = {
            key: normalize_definition(_converted(one, CreateDefinition, f"definitions.{key}"))
            for key, one in file.definitions.items()
        }
        self._requests = {
            key: _converted(one, CreateBank, f"memory_banks.{key}") for key, one in file.memory_banks.items()
        }
        self._banks = {key: self._settled(call, key, one) for key, one in self._requests.items()}
        self._ids: dict[str, str] = {}
        self._parts: list[Part] = []
        if file.workflow is not None:
            parse_document(file.workflow)
            if file.function is not None:
                raise Invalid("Give either `workflow` or `function`: one of them answers.", field="document")

    def tried(self, space: Space) -> NoReturn:
        """Do it, and take it back: what only shows then is told as well."""
        found = self._looked_at(space)
        if not any(part.action == "conflict" for part in found.parts):
            try:
                self._make(space)
            except Conflict as error:
                self._note("app", self._app, "conflict", error.message)
        raise Undone(Imported(app=self._app, dry_run=True, parts=self._parts, ids=found.ids))

    def done(self, space: Space) -> Imported:
        wrong = [part for part in self._looked_at(space).parts if part.action == "conflict"]
        if wrong:
            told = "; ".join(f"{part.what} {part.name!r}: {part.reason}" for part in wrong[:5])
            listed = [structs.asdict(part) for part in wrong]
            raise Conflict(f"The app cannot be imported, and nothing was changed: {told}.", conflicts=listed)
        self._make(space)
        return Imported(app=self._app, dry_run=False, parts=self._parts, ids=self._ids)

    def _looked_at(self, space: Space) -> Imported:
        """What would be made; nothing is."""
        self._ids, self._parts = {}, []
        for name, new in self._stores.items():
            self._judge_store(space, name, new)
        for key, new_definition in self._definitions.items():
            self._judge_definition(space, key, new_definition)
        for key, bank in self._banks.items():
            self._judge_bank(space, key, bank)
        self._judge_app(space)
        return Imported(app=self._app, dry_run=True, parts=self._parts, ids=dict(self._ids))

    def _make(self, space: Space) -> None:
        self._make_app(space)
        to_make = {(part.what, part.name) for part in self._parts if part.action == "create"}
        for name, new in self._stores.items():
            if ("store", name) in to_make:
                with _named(f"stores.{name}"):
                    add_store(space, self._app, name, new)
        for key, one in self._definitions.items():
            if ("definition", one.name) in to_make:
                with _named(f"definitions.{key}"):
                    self._ids[key] = add_definition(space, one).id
        for key, request in self._requests.items():
            if ("memory_bank", request.name) in to_make:
                self._ids[key] = add_bank(space, request.name, self._banks[key]).id
        if any(part.what == "workflow" and part.action == "create" for part in self._parts):
            document = with_ids(self._file.workflow, self._ids)
            stored = add_workflow(space, read_document(document))
            configure.run(space, ConfigureApp(app=self._app, workflow=stored.id))

    def _make_app(self, space: Space) -> None:
        """How many stores there may be counts before they are made."""
        has = self._has(space)
        lacks = self._lacks(has)
        if has is None or lacks:
            configure.run(space, ConfigureApp(app=self._app, **lacks))

    def _has(self, space: Space) -> App | None:
        item = APPS.find(space, self._app)
        return None if item is None else item.settings

    def _lacks(self, app: App | None) -> dict[str, Any]:
        """What the document says and the app does not. What an app says already stays; only limits are raised."""
        file, has = self._file, App() if app is None else app
        limits = {name: getattr(file, name) for name in ("max_stores", "max_files")}
        lacks = {name: limit for name, limit in limits.items() if app is None or limit > getattr(app, name)}
        if file.function is not None and not has.function and not has.workflow:
            lacks["function"] = file.function
        if file.description is not None and has.description is None:
            lacks["description"] = file.description
        return lacks

    def _settled(self, call: Call, key: str, request: CreateBank) -> Bank:
        with _named(f"memory_banks.{key}"):
            return build_bank(call, request)

    def _judge_store(self, space: Space, name: str, new: NewStore) -> None:
        there = stores_of(self._app).find(space, name)
        others = [] if there is None else list_store_differences(there, new)
        self._judged("store", name, there is not None, _others(others))

    def _judge_definition(self, space: Space, key: str, new: CreateDefinition) -> None:
        slug = new.slug or ""
        there = find_definition_by_slug(space, slug)
        reason = None
        if there is not None:
            self._ids[key] = there.id
            others = list_differences(there, new)
            reason = f"the slug {slug!r} is there with another {join_names(others)}" if others else None
        elif is_name_taken(space, new.name):
            reason = "the name is that of another definition"
        self._judged("definition", new.name, there is not None, reason)

    def _judge_bank(self, space: Space, key: str, bank: Bank) -> None:
        name = self._requests[key].name
        there = documents.list_by_name(space.tx, BANK, name)
        reason = "there are several of that name" if len(there) > 1 else None
        if len(there) == 1:
            self._ids[key] = there[0].id
            reason = None if BANKS.decode(there[0].body) == bank else "its settings are others"
        self._judged("memory_bank", name, bool(there), reason)

    def _judge_app(self, space: Space) -> None:
        app, file = self._has(space), self._file
        if app is None:
            self._note("app", self._app, "create")
        elif _answers_otherwise(app, file):
            self._note("app", self._app, "conflict", "something else answers for it")
        elif lacks := self._lacks(app):
            self._note("app", self._app, "change", f"it gets {', '.join(f'`{name}`' for name in lacks)}")
        else:
            self._note("app", self._app, "reuse")
        if file.workflow is None:
            return
        workflow = None if app is None else app.workflow
        stored = None if workflow is None else documents.find(space.tx, WORKFLOW, workflow)
        same = stored is not None and decode_document(stored.body) == with_ids(file.workflow, self._ids)
        reason = None if stored is None or same else "the app has another workflow"
        self._judged("workflow", str(file.workflow.get("name", "")), stored is not None, reason)

    def _judged(self, what: What, name: str, there: bool, reason: str | None) -> None:
        self._note(what, name, "conflict" if reason else "reuse" if there else "create", reason)

    def _note(self, what: What, name: str, action: Action, reason: str | None = None) -> None:
        self._parts.append(Part(what=what, name=name, action=action, reason=reason))


def with_ids(value: Any, ids: Mapping[str, str], field: str = "") -> Any:
    """A document in which ids are those of this place. A document may use names in their stead: these count only where something
    is referred to, since a text may be spelled like one."""
    match value:
        case str() if field in REFERENCES or _ID.fullmatch(value):
            return ids.get(value, value)
        case dict():
            return {name: with_ids(one, ids, name) for name, one in value.items()}
        case list():
            return [with_ids(one, ids) for one in value]
    return value


def _others(names: list[str]) -> str | None:
    return f"it is there with another {join_names(names)}" if names else None


def _answers_otherwise(app: App, file: AppFile) -> bool:
    """Whether something answers for an app that is not what the document says. One that says nothing leaves it alone."""
    if file.function is not None:
        return bool(app.workflow) or app.function not in (None, "", file.function)
    return file.workflow is not None and bool(app.function)


def _converted(given: Mapping[str, Any], kind: Any, field: str) -> Any:
    try:
        return typed.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        reason = explain_invalid(kind, str(error)[:300]).message
        raise Invalid(f"`{field[:MAX_SHOWN]}` cannot be read: {reason}", field=field[:MAX_SHOWN]) from None


@contextmanager
def _named(field: str) -> Iterator[None]:
    """Errors say which part of the document they are about."""
    try:
        yield
    except (Invalid, Conflict) as error:
        details = {**error.details, "field": field[:MAX_SHOWN]}
        raise type(error)(f"`{field[:MAX_SHOWN]}` cannot be made: {error.message}", **details) from None


# -- Apps as documents: their contracts without any data, taken from one place to another (S2.39, B3.17).


__all__ = ["AppDocument", "Imported", "export", "import_app"]

_IN_TEMPLATES = re.compile(r"\bmemory\.(\w+)")
_IN_EXPRESSIONS = re.compile(r"""\bmemory\s*(?:\.\s*[`"']?|,\s*["'])(\w+)""")
"""A slug in an expression, where names may be quoted: memory.`2fa`, $lookup($context.memory, "2fa")."""

Source = Annotated[
    str | dict[str, Any],
    Meta(
        description="An app that was exported: YAML or JSON as a text (on the command line also `@FILE`), or an object."
    ),
]
DryRun = Annotated[bool, Meta(description="Only say what would be made, and what stands in the way.")]


class AppDocument(Response, frozen=True, kw_only=True):
    """An app as a document."""

    document: dict[str, Any]


@operation("apps.export", "GET /v1/apps/{app}/export", example=Example({"app": "shop"}, GIVEN))
def export(space: Space, request: OfApp) -> AppDocument:
    """An app as a document: its stores, its workflow, and the banks and definitions that this names. Content is never in it."""
    app = require_app(space, request.app).settings
    workflow = None if app.workflow is None else documents.find(space.tx, WORKFLOW, app.workflow)
    body = None if workflow is None else decode_document(workflow.body)
    found: dict[str, Any] = {"memwell": 1, "app": request.app, "max_stores": app.max_stores}
    found |= {} if app.max_files == MAX_FILES else {"max_files": app.max_files}
    found |= {name: value for name in ("description", "function") if (value := getattr(app, name))}
    stores = stores_of(request.app).list(space)
    found["stores"] = {one.id: {"name": one.name, **_plain(one.settings)} for one in stores}
    found["definitions"] = _definitions(space, body)
    found["memory_banks"] = _banks(space, body)
    if body is not None:
        found["workflow"] = body
    return AppDocument(document=deepcopy(found))  # schemas are shared by whoever reads them


class ImportApp(Request, frozen=True, kw_only=True):
    """An app to make from a document, perhaps under another name."""

    app: AppName
    document: Source
    dry_run: DryRun = False


@operation(
    "apps.import",
    "POST /v1/apps/{app}/import",
    effect="write",
    role="admin",
    outside=True,
    example=Example({"app": "shop", "document": {"stores": {"cart": {"access": "session", "retention": "session"}}}}),
)
def import_app(call: Call, request: ImportApp) -> Imported:
    """Make an app from a document, all or nothing. What is there just so is used again; what is there in another way is named,
    and nothing is changed."""
    importing = Importing(call, request.app, _file(request.document))
    if not request.dry_run:
        return call.write(importing.done)
    try:
        return call.engine.write(call.principal, importing.tried)
    except Undone as undone:
        return undone.found


def _file(source: str | dict[str, Any]) -> AppFile:
    try:
        value = read_source(source).value
    except Invalid as error:
        raise type(error)(
            f"The document cannot be read: {_reasons(error)}", field="document", **error.details
        ) from None
    if isinstance(value, dict) and list(value) == ["document"]:  # the answer of `apps.export` as it stands
        value = value["document"]
    try:
        file = typed.convert(value, AppFile)
    except msgspec.ValidationError as error:
        raise Invalid(f"This is not an exported app: {str(error)[:300]}.", field="document") from None
    if file.memwell != 1:
        raise Invalid(f"The document is of version {file.memwell}, and this program reads version 1.", field="document")
    return file


def _reasons(error: Invalid) -> str:
    return "; ".join(str(one.get("reason")) for one in error.details.get("problems", [])) or error.message


def _definitions(space: Space, workflow: Any) -> dict[str, Any]:
    """The definitions that a workflow names: by slug in a template or an expression, or by id."""
    named: dict[str, Any] = {}
    for text in _strings(workflow):
        slugs = _IN_EXPRESSIONS if is_expression(text) else _IN_TEMPLATES
        for name in [text, *slugs.findall(text)]:
            item = find_definition(space, name) if len(name) <= 255 else None
            if item is not None:
                named[item.id] = {
                    "name": item.name,
                    "slug": item.settings.slug,
                    **_plain(item.settings, leave=("slug", "lasting_from", "former_ttls")),
                }
    return named


def _banks(space: Space, workflow: Any) -> dict[str, Any]:
    """The banks that a workflow names and does not make itself, by their ids."""
    found: dict[str, Any] = {}
    if workflow is None:
        return found
    document = read_document(workflow).document
    for name in {node.bank for node in document.walk() if node.bank is not None} - set(document.banks):
        by_id = documents.find(space.tx, BANK, name)
        for bank in [by_id] if by_id is not None else documents.list_by_name(space.tx, BANK, name):
            found[bank.id] = {"name": bank.name, **_plain(BANKS.decode(bank.body))}
    return found


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            if isinstance(value.get("memory"), dict):  # what a task remembers is named by its slug
                yield from value["memory"]
            for one in value.values():
                yield from _strings(one)
        case list():
            for one in value:
                yield from _strings(one)


def _plain(contract: Any, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(contract).items() if name not in leave and value is not None}
