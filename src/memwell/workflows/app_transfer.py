"""Export and import of apps as documents, which contain no data (S2.39, B3.17).

An import compares every part of the document with the stored one. It then creates all missing parts, or nothing if there is a
conflict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Annotated, Any, Literal

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
from ..model.field_readers import convert_request
from ..records.apps import (
    APPS,
    MAX_STORES,
    App,
    AppName,
    ConfigureApp,
    EndConversations,
    FunctionField,
    IdleTime,
    MaxFiles,
    MaxStores,
    OfApp,
    check_function,
    configure_app,
    require_app,
)
from ..records.definitions import (
    DEFINITIONS,
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
from ..records.stores import GIVEN, add_store, list_store_differences, parse_stores, stores_of
from ..records.validation import join_names
from .operations import add_workflow, decode_document, parse_document, read_document
from .source import KIND as WORKFLOW
from .source import read_source

MAX_PARTS = 200
MAX_SHOWN = 100
"""Characters of a name in a document that an error repeats."""
REFERENCES = ("memory_bank_id", "bank", "definition_id")
"""The fields of a workflow that name a part of its app."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IN_TEMPLATES = re.compile(r"\bmemory\.(\w+)")
_IN_EXPRESSIONS = re.compile(r"""\bmemory\s*(?:\.\s*[`"']?|,\s*["'])(\w+)""")
"""A slug in an expression, where names may be quoted: memory.`2fa`, $lookup($context.memory, "2fa")."""

PartKind = Literal["app", "store", "definition", "memory_bank", "workflow"]
Action = Literal["create", "change", "reuse", "conflict"]


SIMPLE = ("function", "description", "idle_seconds", "end_conversations")
"""Settings that are exported if they are set."""


class AppFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exported app."""

    app: str = ""
    memwell: int = 1
    description: Description | None = None
    function: FunctionField | None = None
    max_stores: MaxStores = MAX_STORES
    max_files: MaxFiles = MAX_FILES
    idle_seconds: IdleTime | None = None
    end_conversations: EndConversations = False
    stores: dict[str, Any] = {}
    definitions: Annotated[dict[str, dict[str, Any]], Meta(max_length=MAX_PARTS)] = {}
    memory_banks: Annotated[dict[str, dict[str, Any]], Meta(max_length=MAX_PARTS)] = {}
    workflow: dict[str, Any] | None = None


class Part(Response, frozen=True, kw_only=True):
    """A part of an app: created, reused if it exists with the same settings, or in conflict if it exists with others. An
    existing app is changed if it lacks settings of the document; `reason` names them."""

    what: PartKind
    name: str
    action: Action
    reason: str | None = None


class ImportedApp(Response, frozen=True, kw_only=True):
    """The result of an import. `ids`: the new ids by those in the document."""

    app: str
    dry_run: bool
    parts: list[Part]
    ids: dict[str, str]


class DryRun(Exception):
    """Raised to roll back an import that was only tried."""

    def __init__(self, result: ImportedApp) -> None:
        super().__init__()
        self.result = result


class Importer:
    """An import of an app. The constructor makes all checks that need no database."""

    def __init__(self, call: Call, app: str, file: AppFile) -> None:
        self._app, self._file = app, file
        self._stores = parse_stores(file.stores) if file.stores else {}
        self._definitions = {
            key: normalize_definition(_convert(one, CreateDefinition, f"definitions.{key}"))
            for key, one in file.definitions.items()
        }
        self._requests = {
            key: _convert(one, CreateBank, f"memory_banks.{key}") for key, one in file.memory_banks.items()
        }
        self._banks: dict[str, Bank] = {}
        for key, request in self._requests.items():
            with _name_field(f"memory_banks.{key}"):
                self._banks[key] = build_bank(call, request)
        self._ids: dict[str, str] = {}
        self._parts: list[Part] = []
        if file.workflow is not None:
            parse_document(file.workflow)
            if file.function is not None:
                raise Invalid("Give either `workflow` or `function`, not both.", field="document")
        check_function(call, file.function)

    def run(self, space: Space) -> ImportedApp:
        self._compare(space)
        conflicts = [part for part in self._parts if part.action == "conflict"]
        if conflicts:
            shown = "; ".join(f"{part.what} {part.name!r}: {part.reason}" for part in conflicts[:5])
            raise Conflict(
                f"The app cannot be imported, and nothing was changed: {shown}.",
                conflicts=[structs.asdict(part) for part in conflicts],
            )
        self._create(space)
        return ImportedApp(app=self._app, dry_run=False, parts=self._parts, ids=self._ids)

    def try_run(self, space: Space) -> None:
        """Import and raise DryRun, which rolls the import back. Some conflicts show only on creation."""
        self._compare(space)
        ids = dict(self._ids)
        if not any(part.action == "conflict" for part in self._parts):
            try:
                self._create(space)
            except Conflict as error:
                self._note("app", self._app, "conflict", error.message)
        raise DryRun(ImportedApp(app=self._app, dry_run=True, parts=self._parts, ids=ids))

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _compare(self, space: Space) -> None:
        self._ids, self._parts = {}, []
        for name, new in self._stores.items():
            store = stores_of(self._app).find(space, name)
            stores_of(self._app).mention(space, name)
            others = [] if store is None else list_store_differences(store, new)
            reason = f"it exists with another {join_names(others)}" if others else None
            self._note_part("store", name, store is not None, reason)
        for key, definition in self._definitions.items():
            self._compare_definition(space, key, definition)
        for key, bank in self._banks.items():
            self._compare_bank(space, key, bank)
        self._compare_app(space)

    def _compare_definition(self, space: Space, key: str, new: CreateDefinition) -> None:
        slug = new.slug or ""
        found = find_definition_by_slug(space, slug)
        reason = None
        if found is not None:
            self._ids[key] = found.id
            DEFINITIONS.mention(space, found.id)
            others = list_differences(found, new)
            reason = f"the slug {slug!r} exists with another {join_names(others)}" if others else None
        elif is_name_taken(space, new.name):
            reason = "another definition has this name"
        self._note_part("definition", new.name, found is not None, reason)

    def _compare_bank(self, space: Space, key: str, bank: Bank) -> None:
        name = self._requests[key].name
        found = documents.list_by_name(space.tx, BANK, name)
        reason = "several banks have this name" if len(found) > 1 else None
        if len(found) == 1:
            self._ids[key] = found[0].id
            BANKS.mention(space, found[0].id)
            reason = None if BANKS.decode(found[0].body) == bank else "it exists with other settings"
        self._note_part("memory_bank", name, bool(found), reason)

    def _compare_app(self, space: Space) -> None:
        app, file = self._find_app(space), self._file
        APPS.mention(space, self._app)
        if app is None:
            self._note("app", self._app, "create")
        elif _has_other_answer(app, file):
            self._note("app", self._app, "conflict", "another workflow or function answers for it")
        elif changes := self._list_changes(app):
            self._note("app", self._app, "change", f"the import sets {', '.join(f'`{name}`' for name in changes)}")
        else:
            self._note("app", self._app, "reuse")
        if file.workflow is not None:
            workflow = None if app is None else app.workflow
            stored = None if workflow is None else documents.find(space.tx, WORKFLOW, workflow)
            if stored is not None:
                space.mention(WORKFLOW, stored.id)
            is_same = stored is not None and decode_document(stored.body) == _replace_ids(file.workflow, self._ids)
            reason = None if stored is None or is_same else "the app has another workflow"
            self._note_part("workflow", str(file.workflow.get("name", "")), stored is not None, reason)

    def _find_app(self, space: Space) -> App | None:
        item = APPS.find(space, self._app)
        return None if item is None else item.settings

    def _list_changes(self, app: App | None) -> dict[str, Any]:
        """Return the settings that the document has and the app lacks. Existing ones stay; only limits are raised."""
        file, old = self._file, App() if app is None else app
        limits = {name: getattr(file, name) for name in ("max_stores", "max_files")}
        changes = {name: limit for name, limit in limits.items() if app is None or limit > getattr(app, name)}
        missing = {name: getattr(file, name) for name in SIMPLE if getattr(file, name) and not getattr(old, name)}
        if old.workflow:  # it answers messages already
            missing.pop("function", None)
        return changes | missing

    def _note_part(self, what: PartKind, name: str, exists: bool, reason: str | None) -> None:
        self._note(what, name, "conflict" if reason else "reuse" if exists else "create", reason)

    def _note(self, what: PartKind, name: str, action: Action, reason: str | None = None) -> None:
        self._parts.append(Part(what=what, name=name, action=action, reason=reason))

    # -- creating ------------------------------------------------------------------------------------------------------

    def _create(self, space: Space) -> None:
        app = self._find_app(space)
        changes = self._list_changes(app)
        if app is None or changes:  # first, because it limits the number of stores
            configure_app(space, ConfigureApp(app=self._app, **changes))
        missing = {(part.what, part.name) for part in self._parts if part.action == "create"}
        for name, new in self._stores.items():
            if ("store", name) in missing:
                with _name_field(f"stores.{name}"):
                    add_store(space, self._app, name, new)
        for key, one in self._definitions.items():
            if ("definition", one.name) in missing:
                with _name_field(f"definitions.{key}"):
                    self._ids[key] = add_definition(space, one).id
        for key, request in self._requests.items():
            if ("memory_bank", request.name) in missing:
                self._ids[key] = add_bank(space, request.name, self._banks[key]).id
        if any(what == "workflow" for what, _ in missing):
            stored = add_workflow(space, read_document(_replace_ids(self._file.workflow, self._ids)))
            configure_app(space, ConfigureApp(app=self._app, workflow=stored.id))


def _replace_ids(value: Any, ids: Mapping[str, str], field: str = "") -> Any:
    """Replace the ids in a document. A document may use names instead. They are replaced only in fields that refer to a part,
    because any other text may happen to equal a name."""
    match value:
        case str() if field in REFERENCES or _ID.fullmatch(value):
            return ids.get(value, value)
        case dict():
            return {name: _replace_ids(one, ids, name) for name, one in value.items()}
        case list():
            return [_replace_ids(one, ids) for one in value]
    return value


def _has_other_answer(app: App, file: AppFile) -> bool:
    """Return True if a workflow or function answers for the app that the document does not name."""
    if file.function is not None:
        return bool(app.workflow) or app.function not in (None, "", file.function)
    return file.workflow is not None and bool(app.function)


def _convert(given: Mapping[str, Any], kind: Any, field: str) -> Any:
    try:
        return convert_request(given, kind)
    except msgspec.ValidationError as error:
        reason = explain_invalid(kind, str(error)[:300]).message
        raise Invalid(f"`{field[:MAX_SHOWN]}` cannot be read: {reason}", field=field[:MAX_SHOWN]) from None


@contextmanager
def _name_field(field: str) -> Iterator[None]:
    """Name the part of the document in errors about it."""
    try:
        yield
    except (Invalid, Conflict) as error:
        details = {**error.details, "field": field[:MAX_SHOWN]}
        raise type(error)(f"`{field[:MAX_SHOWN]}` cannot be created: {error.message}", **details) from None


Source = Annotated[
    str | dict[str, Any],
    Meta(description="An app that was exported: YAML or JSON as a text, or an object."),
]
DryRunField = Annotated[bool, Meta(description="Only report what would be created, and the conflicts.")]


class AppDocument(Response, frozen=True, kw_only=True):
    """An app as a document."""

    document: dict[str, Any]


@operation("apps.export", "GET /v1/apps/{app}/export", example=Example({"app": "shop"}, GIVEN))
def export(space: Space, request: OfApp) -> AppDocument:
    """Export an app as a document: its stores, its workflow, and the banks and definitions of the workflow, without content."""
    app = require_app(space, request.app).settings
    workflow = None if app.workflow is None else documents.find(space.tx, WORKFLOW, app.workflow)
    body = None if workflow is None else decode_document(workflow.body)
    found: dict[str, Any] = {"memwell": 1, "app": request.app, "max_stores": app.max_stores}
    found |= {} if app.max_files == MAX_FILES else {"max_files": app.max_files}
    found |= {name: value for name in SIMPLE if (value := getattr(app, name))}
    stores = stores_of(request.app).list(space)
    found["stores"] = {one.id: {"name": one.name, **_to_fields(one.settings)} for one in stores}
    found["definitions"] = _find_definitions(space, body)
    found["memory_banks"] = _find_banks(space, body)
    if body is not None:
        found["workflow"] = body
    return AppDocument(document=deepcopy(found))  # schemas are shared


class ImportApp(Request, frozen=True, kw_only=True):
    """A document to import as an app, perhaps under another name."""

    app: AppName
    document: Source
    dry_run: DryRunField = False


@operation(
    "apps.import",
    "POST /v1/apps/{app}/import",
    effect="write",
    role="admin",
    outside=True,
    example=Example({"app": "shop", "document": {"stores": {"cart": {"access": "session", "retention": "session"}}}}),
)
def import_app(call: Call, request: ImportApp) -> ImportedApp:
    """Create an app from a document, all or nothing. Parts that exist with the same settings are reused. If a part exists with
    other settings, the error names it and nothing is changed."""
    importer = Importer(call, request.app, _read_file(request.document))
    if not request.dry_run:
        return call.write(importer.run)
    try:
        call.engine.write(call.principal, importer.try_run)
    except DryRun as dry_run:
        return dry_run.result
    raise AssertionError("unreachable")


def _read_file(source: str | dict[str, Any]) -> AppFile:
    try:
        value = read_source(source).value
    except Invalid as error:
        reasons = "; ".join(str(one.get("reason")) for one in error.details.get("problems", [])) or error.message
        raise type(error)(f"The document cannot be read: {reasons}", field="document", **error.details) from None
    if isinstance(value, dict) and list(value) == ["document"]:  # the unchanged response of `apps.export`
        value = value["document"]
    try:
        file = typed.convert(value, AppFile)
    except msgspec.ValidationError as error:
        raise Invalid(f"This is not an exported app: {str(error)[:300]}.", field="document") from None
    if file.memwell != 1:
        raise Invalid(
            f"The document has version {file.memwell}, but this program reads only version 1.", field="document"
        )
    return file


def _find_definitions(space: Space, workflow: Any) -> dict[str, Any]:
    """Return the definitions that a workflow names: by slug in a template or an expression, or by id."""
    named: dict[str, Any] = {}
    for text in _list_strings(workflow):
        slugs = _IN_EXPRESSIONS if is_expression(text) else _IN_TEMPLATES
        for name in [text, *slugs.findall(text)]:
            item = find_definition(space, name) if len(name) <= 255 else None
            if item is not None:
                settings = _to_fields(item.settings, omit=("slug", "lasting_from", "former_ttls"))
                named[item.id] = {"name": item.name, "slug": item.settings.slug, **settings}
    return named


def _find_banks(space: Space, workflow: Any) -> dict[str, Any]:
    """Return the banks, by id, that a workflow names and does not create itself."""
    found: dict[str, Any] = {}
    if workflow is None:
        return found
    document = read_document(workflow).document
    for name in {name for name, _ in document.used_banks} - set(document.banks):
        by_id = documents.find(space.tx, BANK, name)
        for bank in [by_id] if by_id is not None else documents.list_by_name(space.tx, BANK, name):
            found[bank.id] = {"name": bank.name, **_to_fields(BANKS.decode(bank.body))}
    return found


def _list_strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            if isinstance(value.get("memory"), dict):  # a task names the memory that it updates by slug
                yield from value["memory"]
            for one in value.values():
                yield from _list_strings(one)
        case list():
            for one in value:
                yield from _list_strings(one)


def _to_fields(settings: Any, omit: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return settings as an import takes them. Null stands where it differs from the default."""
    defaults = {field.name: field.default for field in structs.fields(settings)}
    fields = structs.asdict(settings)
    return {
        name: value
        for name, value in fields.items()
        if name not in omit and (value is not None or defaults[name] is not None)
    }
