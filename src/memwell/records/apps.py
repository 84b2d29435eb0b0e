"""Apps: what memory stores and sessions belong to, and what answers a message (system S2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, structs

from .. import typed
from ..clock import to_datetime
from ..core import documents
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound
from ..model.fields import ID_PATTERN
from .contract import APP_PATTERN, MAX_STORES
from .file_rows import MAX_FILES, MOST_FILES

KIND = "app"
MAX_APP_STORES = 200

AppName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=APP_PATTERN,
        description="The app: 1 to 100 letters, digits or '_.-', beginning with a letter or digit.",
    ),
]
Description = Annotated[str, Meta(max_length=1000, description="What it is for: at most 1,000 characters.")]
WorkflowField = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=ID_PATTERN,
        description="The id of the stored workflow that answers a message; null: none does.",
    ),
]
FunctionField = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=ID_PATTERN,
        description="The name of the registered Python function that answers a message; null: none does.",
    ),
]
MaxStores = Annotated[int, Meta(ge=1, le=MAX_APP_STORES, description="How many stores it may have at most.")]
MaxFiles = Annotated[int, Meta(ge=1, le=MOST_FILES, description="How many files a session of it may have at most.")]

_LEFT_AWAY: Any = UNSET
NEW_APP = {"app": "shop", "description": "An online shop"}


class App(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An app, as it is stored."""

    description: str | None = None
    workflow: str | None = None
    function: str | None = None
    max_stores: int = MAX_STORES
    max_files: int = MAX_FILES


class AppInfo(Response, frozen=True, kw_only=True):
    """An app, and what answers a message to it: a workflow or a function."""

    app: str
    stores: int
    max_stores: int
    max_files: int
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    workflow: str | None = None
    function: str | None = None


class Apps(Response, frozen=True, kw_only=True):
    """Apps by name."""

    apps: list[AppInfo]


class ConfigureApp(Request, frozen=True, kw_only=True):
    """What an app is to be. What is left away stays; null clears it."""

    app: AppName
    description: Description | None = _LEFT_AWAY
    workflow: WorkflowField | None = _LEFT_AWAY
    function: FunctionField | None = _LEFT_AWAY
    max_stores: MaxStores | None = None
    max_files: MaxFiles | None = None


@operation("apps.configure", "PUT /v1/apps/{app}", effect="write", role="admin", example=Example(NEW_APP))
def configure(space: Space, request: ConfigureApp) -> AppInfo:
    """Make an app or change it: what answers a message, how many stores it may have, and how many files a session."""
    document, app = settled(space, request.app)
    given = {name: getattr(request, name) for name in ("description", "workflow", "function")}
    changes = {name: value for name, value in given.items() if value is not UNSET}
    limits = {name: getattr(request, name) for name in ("max_stores", "max_files")}
    changes |= {name: value for name, value in limits.items() if value is not None}
    changed = structs.replace(app, **_instead(changes))
    if changed.workflow is not None and changed.function is not None:
        raise Invalid("Give either `workflow` or `function`: one of them answers.", field="function")
    stores = space.tx.row("count_documents", kind=f"store:{request.app}")
    if stores is not None and changed.max_stores < stores[0]:
        raise Invalid(f"The app has {stores[0]} stores already: `max_stores` cannot be less.", field="max_stores")
    if changed.workflow is not None and documents.find(space.tx, "workflow", changed.workflow) is None:
        raise Invalid(f"There is no workflow {changed.workflow!r}: store it first.", field="workflow")
    return _info(space, _saved(space, document, changed), changed)


class NoFields(Request, frozen=True, kw_only=True):
    """Nothing."""


@operation("apps.list", "GET /v1/apps", example=Example({}, (("apps.configure", NEW_APP),)))
def list_apps(space: Space, request: NoFields) -> Apps:
    """The apps, by name."""
    return Apps(apps=[_info(space, one, decode(one.body)) for one in documents.every(space.tx, KIND)])


class OfApp(Request, frozen=True, kw_only=True):
    """Which app."""

    app: AppName


@operation("apps.get", "GET /v1/apps/{app}", example=Example({"app": "shop"}, (("apps.configure", NEW_APP),)))
def get(space: Space, request: OfApp) -> AppInfo:
    """An app."""
    return _info(space, *existing(space, request.app))


# -- what others use -----------------------------------------------------------------------------------------------------

decode = typed.decoder(App)


def existing(space: Space, name: str) -> tuple[Document, App]:
    found = documents.find(space.tx, KIND, name)
    if found is None:
        raise NotFound(f"There is no app {name!r}.")
    return found, decode(found.body)


def settings_of(space: Space, name: str) -> App:
    """What an app is; one that is not there yet is as it would be made."""
    found = documents.find(space.tx, KIND, name)
    return App() if found is None else decode(found.body)


def settled(space: Space, name: str) -> tuple[Document, App]:
    """An app, made if it is not there."""
    found = documents.find(space.tx, KIND, name)
    if found is not None:
        return found, decode(found.body)
    app = App()
    document = Document(name, name, 1, msgspec.json.encode(app).decode(), space.now, space.now)
    documents.add(space.tx, KIND, document)
    return document, app


def _instead(changes: dict[str, Any]) -> dict[str, Any]:
    """What is set to answer takes the place of what has answered before, of whichever kind."""
    for one, other in (("workflow", "function"), ("function", "workflow")):
        if changes.get(one) is not None and other not in changes:
            return {**changes, other: None}
    return changes


def _saved(space: Space, document: Document, app: App) -> Document:
    return documents.change(space.tx, KIND, document, document.name, msgspec.json.encode(app).decode(), space.now)


def _info(space: Space, document: Document, app: App) -> AppInfo:
    count = space.tx.row("count_documents", kind=f"store:{document.id}")
    return AppInfo(
        app=document.id,
        stores=0 if count is None else count[0],
        max_stores=app.max_stores,
        max_files=app.max_files,
        created_at=to_datetime(document.created_at),
        updated_at=to_datetime(document.updated_at),
        description=app.description,
        workflow=app.workflow,
        function=app.function,
    )
