"""Apps as documents: their contracts without any data, taken from one place to another (S2.39, B3.17)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from .. import documents, typed
from ..context.expression import is_expression
from ..dialects.apps import AppName, OfApp, existing
from ..dialects.definitions import find
from ..dialects.stores import GIVEN, every
from ..dispatch import Call
from ..errors import Invalid
from ..model.bank import KIND as BANK
from ..model.bank import decoded as decode_bank
from ..model.file import MAX_FILES
from ..operation import Example, Request, Response, operation
from ..space import Space
from .app_importing import AppFile, Imported, Importing, Undone
from .document import look
from .operations import KIND as WORKFLOW
from .operations import decoded
from .source import read as read_source

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
    _, app = existing(space, request.app)
    workflow = None if app.workflow is None else documents.find(space.tx, WORKFLOW, app.workflow)
    body = None if workflow is None else decoded(workflow.body)
    found: dict[str, Any] = {"memwell": 1, "app": request.app, "max_stores": app.max_stores}
    found |= {} if app.max_files == MAX_FILES else {"max_files": app.max_files}
    found |= {name: value for name in ("description", "function") if (value := getattr(app, name))}
    found["stores"] = {one.id: {"name": one.name, **_plain(store)} for one, store in every(space, request.app)}
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
            pair = find(space, name) if len(name) <= 255 else None
            if pair is not None:
                named[pair[0].id] = {
                    "name": pair[0].name,
                    "slug": pair[1].slug,
                    **_plain(pair[1], leave=("slug", "lasting_from", "former_ttls")),
                }
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


def _plain(contract: Any, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(contract).items() if name not in leave and value is not None}
