"""Apps as documents: their contracts without any data, taken from one place to another (S2.39, B3.17)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from .. import documents
from ..dialects.apps import (
    App,
    AppName,
    ConfigureApp,
    Description,
    FunctionField,
    MaxFiles,
    MaxStores,
    OfApp,
    configure,
    existing,
)
from ..dialects.apps import decode as decode_app
from ..dialects.banks import CreateBank, created, settled
from ..dialects.definitions import BY_NAME, CreateDefinition, by_slug, find
from ..dialects.definitions import made as made_definition
from ..dialects.stores import GIVEN, NewStore, difference, every, made, read_stores, store_kind
from ..dispatch import Call
from ..errors import Conflict, Invalid
from ..model.bank import KIND as BANK
from ..model.bank import Bank
from ..model.bank import decoded as decode_bank
from ..model.contract import MAX_STORES
from ..model.file import MAX_FILES
from ..operation import Example, Request, Response, operation
from ..space import Space
from .document import look
from .operations import KIND as WORKFLOW
from .operations import created as created_workflow
from .operations import decoded, read
from .source import read as read_source

_MEMORY = re.compile(r"\bmemory\.(\w+)")
_DEFINED = ("scope", "schema", "ttl_seconds", "update_mode", "secrets", "description")
MAX_PARTS = 200

Source = Annotated[
    str | dict[str, Any],
    Meta(
        description="An app that was exported: YAML or JSON as a text (on the command line also `@FILE`), or an object."
    ),
]
DryRun = Annotated[bool, Meta(description="Only say what would be made, and what stands in the way.")]
What = Literal["app", "store", "definition", "memory_bank", "workflow"]


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


class AppDocument(Response, frozen=True, kw_only=True):
    """An app as a document."""

    document: dict[str, Any]


@operation("apps.export", "GET /v1/apps/{app}/export", example=Example({"app": "shop"}, GIVEN))
def export(space: Space, request: OfApp) -> AppDocument:
    """An app as a document: its stores, its workflow, and the banks and definitions that this names. Content is never in it."""
    _, app = existing(space, request.app)
    workflow = None if app.workflow is None else documents.find(space.tx, WORKFLOW, app.workflow)
    body = None if workflow is None else decoded(workflow.body)
    found: dict[str, Any] = {"memwell": 1, "app": request.app, "max_stores": app.max_stores}
    found |= {} if app.max_files == MAX_FILES else {"max_files": app.max_files}
    found |= {name: value for name in ("description", "function") if (value := getattr(app, name)) is not None}
    found["stores"] = {one.id: {"name": one.name, **_plain(store)} for one, store in every(space, request.app)}
    found["definitions"] = _definitions(space, body)
    found["memory_banks"] = _banks(space, body)
    if body is not None:
        found["workflow"] = body
    return AppDocument(document=found)


class ImportApp(Request, frozen=True, kw_only=True):
    """An app to make from a document, perhaps under another name."""

    app: AppName
    document: Source
    dry_run: DryRun = False


class Part(Response, frozen=True, kw_only=True):
    """A part of an app: whether it is made, is there already just so, or is there in another way."""

    what: What
    name: str
    action: Literal["create", "reuse", "conflict"]
    reason: str | None = None


class Imported(Response, frozen=True, kw_only=True):
    """What an import has made or would make. `ids`: what became of the ids in the document."""

    app: str
    dry_run: bool
    parts: list[Part]
    ids: dict[str, str]


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
    importing = _Importing(call, request.app, _file(request.document))
    if not request.dry_run:
        return call.write(lambda space: importing.done(space))
    try:
        return call.engine.write(call.principal, importing.tried)
    except _Undone as undone:
        return undone.found


OPERATIONS = (export, import_app)


class _Undone(Exception):
    """An import that was only tried: whatever it wrote is taken back."""

    def __init__(self, found: Imported) -> None:
        super().__init__()
        self.found = found


class _Importing:
    """An app on its way in. Whatever can be judged without the store was judged before."""

    def __init__(self, call: Call, app: str, file: AppFile) -> None:
        self._app, self._file = app, file
        self._stores = read_stores(file.stores) if file.stores else {}
        self._definitions = {
            key: _converted(one, CreateDefinition, "definitions") for key, one in file.definitions.items()
        }
        self._requests = {key: _converted(one, CreateBank, "memory_banks") for key, one in file.memory_banks.items()}
        self._banks = {key: settled(call, one) for key, one in self._requests.items()}
        self._ids: dict[str, str] = {}
        self._parts: list[Part] = []
        if file.workflow is not None:
            read(file.workflow)

    def looked_at(self, space: Space) -> Imported:
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

    def tried(self, space: Space) -> Imported:
        """Do it, and take it back: what only shows then is told as well."""
        found = self.looked_at(space)
        if not any(part.action == "conflict" for part in found.parts):
            try:
                self._make(space)
            except Conflict as error:
                self._note("app", self._app, True, error.message)
        raise _Undone(Imported(app=self._app, dry_run=True, parts=self._parts, ids=found.ids))

    def done(self, space: Space) -> Imported:
        wrong = [part for part in self.looked_at(space).parts if part.action == "conflict"]
        if wrong:
            told = "; ".join(f"{part.what} {part.name!r}: {part.reason}" for part in wrong[:5])
            listed = [structs.asdict(part) for part in wrong]
            raise Conflict(f"The app cannot be imported, and nothing was changed: {told}.", conflicts=listed)
        self._make(space)
        return Imported(app=self._app, dry_run=False, parts=self._parts, ids=self._ids)

    def _make(self, space: Space) -> None:
        self._make_app(space)
        to_make = {(part.what, part.name) for part in self._parts if part.action == "create"}
        for name, new in self._stores.items():
            if ("store", name) in to_make:
                made(space, self._app, name, new)
        for key, one in self._definitions.items():
            if ("definition", one.name) in to_make:
                self._ids[key] = made_definition(space, one)[0].id
        for key, request in self._requests.items():
            if ("memory_bank", request.name) in to_make:
                self._ids[key] = created(space, request, self._banks[key]).id
        if any(part.what == "workflow" and part.action == "create" for part in self._parts):
            document = _with_ids(self._file.workflow, self._ids)
            stored = created_workflow(space, look(document))
            configure.run(space, ConfigureApp(app=self._app, workflow=stored.id))

    def _make_app(self, space: Space) -> None:
        """How many stores there may be counts before they are made."""
        file = self._file
        has = documents.find(space.tx, "app", self._app)
        old = None if has is None else decode_app(has.body)
        fewest = (0, 0) if old is None else (old.max_stores, old.max_files)
        given = {"description": file.description, "function": file.function}
        settings = {} if has is not None else {name: value for name, value in given.items() if value is not None}
        stores, files = max(fewest[0], file.max_stores), max(fewest[1], file.max_files)
        configure.run(space, ConfigureApp(app=self._app, max_stores=stores, max_files=files, **settings))

    def _judge_store(self, space: Space, name: str, new: NewStore) -> None:
        there = documents.find(space.tx, store_kind(self._app), name)
        reason = None if there is None else difference(there, name, new)
        self._note("store", name, there is not None, reason and f"its {reason} is another")

    def _judge_definition(self, space: Space, key: str, new: CreateDefinition) -> None:
        slug = new.slug or ""
        there = by_slug(space, slug)
        reason = None
        if there is not None:
            self._ids[key] = there[0].id
            wanted = {name: getattr(new, name) for name in _DEFINED}
            other = next((name for name in _DEFINED if getattr(there[1], name) != wanted[name]), None)
            other = "name" if there[0].name != new.name else other
            reason = other and f"the slug {slug!r} is there with another {other}"
        elif documents.find(space.tx, BY_NAME, new.name) is not None:
            reason = "the name is that of another definition"
        self._note("definition", new.name, there is not None, reason)

    def _judge_bank(self, space: Space, key: str, bank: Bank) -> None:
        name = self._requests[key].name
        there = documents.named(space.tx, BANK, name)
        reason = "there are several of that name" if len(there) > 1 else None
        if len(there) == 1:
            self._ids[key] = there[0].id
            reason = None if decode_bank(there[0].body) == bank else "its settings are others"
        self._note("memory_bank", name, bool(there), reason)

    def _judge_app(self, space: Space) -> None:
        there = documents.find(space.tx, "app", self._app)
        app = App() if there is None else decode_app(there.body)
        file = self._file
        clash = app.function is not None and app.function != file.function
        clash = clash or (app.workflow is not None and file.function is not None)
        self._note("app", self._app, there is not None, "something else answers for it" if clash else None)
        if file.workflow is None:
            return
        stored = None if app.workflow is None else documents.find(space.tx, WORKFLOW, app.workflow)
        same = stored is not None and decoded(stored.body) == _with_ids(file.workflow, self._ids)
        reason = None if stored is None or same else "the app has another workflow"
        self._note("workflow", str(file.workflow.get("name", "")), stored is not None, reason)

    def _note(self, what: What, name: str, there: bool, reason: str | None) -> None:
        action: Literal["create", "reuse", "conflict"] = "conflict" if reason else "reuse" if there else "create"
        self._parts.append(Part(what=what, name=name, action=action, reason=reason))


def _file(source: str | dict[str, Any]) -> AppFile:
    try:
        value = read_source(source).value
    except Invalid as error:
        raise type(error)(
            f"The document cannot be read: {_reasons(error)}", field="document", **error.details
        ) from None
    try:
        file = msgspec.convert(value, AppFile)
    except msgspec.ValidationError as error:
        raise Invalid(f"This is not an exported app: {str(error)[:300]}.", field="document") from None
    if file.memwell != 1:
        raise Invalid(f"The document is of version {file.memwell}, and this program reads version 1.", field="document")
    return file


def _reasons(error: Invalid) -> str:
    return "; ".join(str(one.get("reason")) for one in error.details.get("problems", [])) or error.message


def _converted(given: Mapping[str, Any], kind: Any, field: str) -> Any:
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"`{field}` cannot be read: {str(error)[:300]}.", field=field) from None


def _definitions(space: Space, workflow: Any) -> dict[str, Any]:
    """The definitions that a workflow names: by slug in a template, or by id."""
    named: dict[str, Any] = {}
    for text in _strings(workflow):
        for name in [text, *_MEMORY.findall(text)]:
            pair = find(space, name) if len(name) <= 255 else None
            if pair is not None:
                named[pair[0].id] = {"name": pair[0].name, "slug": pair[1].slug, **_plain(pair[1], leave=("slug",))}
    return named


def _banks(space: Space, workflow: Any) -> dict[str, Any]:
    """The banks that a workflow names and does not make itself, by their ids."""
    found: dict[str, Any] = {}
    if workflow is None:
        return found
    document = look(workflow).document
    for name in {node.bank for node in document.walk() if node.bank is not None} - set(document.banks):
        by_id = documents.find(space.tx, BANK, name)
        for bank in [by_id] if by_id is not None else documents.named(space.tx, BANK, name):
            found[bank.id] = {"name": bank.name, **_plain(decode_bank(bank.body))}
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


def _with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """A document in which ids are those of this place."""
    match value:
        case str():
            return ids.get(value, value)
        case dict():
            return {name: _with_ids(one, ids) for name, one in value.items()}
        case list():
            return [_with_ids(one, ids) for one in value]
    return value


def _plain(contract: Any, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(contract).items() if name not in leave and value is not None}
