"""Apps: owners of memory stores and sessions, with the workflow or function that answers a message (system S2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, structs

from ..clock import to_datetime
from ..core import documents
from ..core.catalog import OMITTED, Catalog, Item
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound
from ..model.fields import ID_PATTERN
from .file_rows import MAX_FILES, MOST_FILES

MAX_STORES = 15
MAX_APP_STORES = 200
APP_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)"

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

NEW_APP = {"app": "shop", "description": "An online shop"}


class App(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an app."""

    description: str | None = None
    workflow: str | None = None
    function: str | None = None
    max_stores: int = MAX_STORES
    max_files: int = MAX_FILES


APPS = Catalog("app", App, clearable=("description", "workflow", "function"))


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
    """Settings of an app. Fields that are omitted stay; null clears them."""

    app: AppName
    description: Description | None = OMITTED
    workflow: WorkflowField | None = OMITTED
    function: FunctionField | None = OMITTED
    max_stores: MaxStores | None = None
    max_files: MaxFiles | None = None


@operation("apps.configure", "PUT /v1/apps/{app}", effect="write", role="admin", example=Example(NEW_APP))
def configure(space: Space, request: ConfigureApp) -> AppInfo:
    """Make an app or change it: what answers a message, how many stores it may have, and how many files a session."""
    item = require_or_add_app(space, request.app)
    changes = APPS.changes(request)
    for one, other in (("workflow", "function"), ("function", "workflow")):
        if changes.get(one) is not None and other not in changes:  # it replaces the other one
            changes[other] = None
    app = structs.replace(item.settings, **changes)
    if app.workflow is not None and app.function is not None:
        raise Invalid("Give either `workflow` or `function`: one of them answers.", field="function")
    stores = _count_stores(space, request.app)
    if app.max_stores < stores:
        raise Invalid(f"The app has {stores} stores already: `max_stores` cannot be less.", field="max_stores")
    if app.workflow is not None and documents.find(space.tx, "workflow", app.workflow) is None:
        raise Invalid(f"There is no workflow {app.workflow!r}: store it first.", field="workflow")
    return _to_app_info(space, APPS.update(space, item, app))


class NoFields(Request, frozen=True, kw_only=True):
    """Nothing."""


@operation("apps.list", "GET /v1/apps", example=Example({}, (("apps.configure", NEW_APP),)))
def list_apps(space: Space, request: NoFields) -> Apps:
    """The apps, by name."""
    return Apps(apps=[_to_app_info(space, item) for item in APPS.list(space)])


class OfApp(Request, frozen=True, kw_only=True):
    """An app."""

    app: AppName


@operation("apps.get", "GET /v1/apps/{app}", example=Example({"app": "shop"}, (("apps.configure", NEW_APP),)))
def get_app(space: Space, request: OfApp) -> AppInfo:
    """An app."""
    return _to_app_info(space, require_app(space, request.app))


def require_app(space: Space, name: str) -> Item[App]:
    found = APPS.find(space, name)
    if found is None:
        raise NotFound(f"There is no app {name!r}.")
    return found


def find_app_settings(space: Space, name: str) -> App:
    """Return the settings of an app, or those that it would have."""
    found = APPS.find(space, name)
    return App() if found is None else found.settings


def require_or_add_app(space: Space, name: str) -> Item[App]:
    return APPS.find(space, name) or APPS.add(space, App(), name=name, item_id=name)


def _count_stores(space: Space, app: str) -> int:
    row = space.tx.row("count_documents", kind=f"store:{app}")
    return 0 if row is None else int(row[0])


def _to_app_info(space: Space, item: Item[App]) -> AppInfo:
    return AppInfo(
        app=item.id,
        stores=_count_stores(space, item.id),
        max_stores=item.settings.max_stores,
        max_files=item.settings.max_files,
        created_at=to_datetime(item.created_at),
        updated_at=to_datetime(item.updated_at),
        description=item.settings.description,
        workflow=item.settings.workflow,
        function=item.settings.function,
    )
