"""The `{{memory.<name>…}}` namespace: stores of an app, `sessionMeta`, and memory definitions (S2.18, S3.23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta

from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid
from ..files.session_files import read_active_text
from ..model.fields import ID_PATTERN
from ..records import records
from ..records.apps import (
    SESSION_META,
    AppName,
    UserId,
    check_session_owner,
    check_thread,
    find_session_user,
    read_session_meta,
    to_conversation,
    to_thread,
)
from ..records.apps import find_app_session as find_session
from ..records.contents import GetContent, locate_content
from ..records.definitions import find_definition_by_slug
from ..records.stores import GIVEN, Store, stores_of
from ..records.validation import build_misfit_error, fill_defaults, list_misfits
from ..records.working_memory import MemoryScope, load_memory, render_withheld
from . import template as templates
from .template import FILES, NAMESPACE, STORED, MemoryValues, build_file_values

MAX_TEMPLATE = 256 * 1024

TemplateField = Annotated[
    str, Meta(max_length=MAX_TEMPLATE, description="Text with `{{memory.<store>.<path>}}`, at most 256 Ki characters.")
]


class Scope(NamedTuple):
    """The app, user, session, workflow and run whose memory is recalled."""

    app: str | None = None
    user: str | None = None
    session: str | None = None
    workflow: str | None = None
    run: str | None = None

    @property
    def thread(self) -> str | None:
        """The conversation: the session, or the session of the app."""
        return self.session if self.app is None or self.session is None else to_thread(self.app, self.session)

    @property
    def conversation(self) -> str | None:
        """The session or key of the conversation that belongs to the owner and the thread."""
        return None if not self.session else to_conversation(self.app, self.user, self.session)

    def check_key(self, key: str) -> None:
        """Refuse a computed key that is kept for the conversation of another owner or session."""
        if key not in (self.thread, self.conversation):
            check_thread(key, "key")


class MemoryValue(NamedTuple):
    """A value and the address that it was read from, or neither. `files` is true if it refers to files. `warning` is set if the
    value no longer fits its schema, or is withheld."""

    value: Any = None
    address_id: int | None = None
    files: bool = False
    warning: str | None = None


def recall_memory(space: Space, name: str, scope: Scope) -> MemoryValue:
    """Return the value of a name for a model. An unknown name is an error; a name without a record has no value (C18). A value
    that no longer fits its schema is withheld with a warning (C24)."""
    if scope.app is not None:
        if name == SESSION_META:
            return recall_session_meta(space, scope.app, scope)
        store = stores_of(scope.app).find(space, name)
        if store is not None:
            found = recall_content(space, name, scope, store.settings)
            return found if found.warning is None else _withhold(name, found.warning, found.address_id)
    known = find_definition_by_slug(space, name)
    if known is None:
        what = f"memory store of the app {scope.app!r}, nor a memory definition" if scope.app else "memory definition"
        raise Invalid(f"`{{{{{NAMESPACE}.{name[:100]}…}}}}`: {name[:100]!r} is no {what}.")
    if scope.user is None:
        return MemoryValue()
    space.principal.require_user(scope.user)
    whose = MemoryScope(owner=scope.user, workflow=scope.workflow, thread=scope.thread, run=scope.run)
    there = load_memory(space, known, whose)
    if there.warning is not None:
        return _withhold(name, there.warning, there.address_id)
    return MemoryValue() if there.value is None else MemoryValue(there.value, there.address_id)


Fetch: TypeAlias = Callable[[str], tuple[Any, str | None]]


def build_memory_values(space: Space, scope: Scope) -> MemoryValues:
    def fetch(name: str) -> tuple[Any, str | None]:
        found = recall_memory(space, name, scope)
        return found.value, found.warning

    return MemoryValues(fetch)


def recall_files(space: Space, name: str, scope: Scope) -> MemoryValue:
    """Return the files of the session as in `sessionMeta.artifacts` (S2.35), or the text of the active ones."""
    if scope.app is None or scope.session is None:
        return MemoryValue()
    meta = recall_session_meta(space, scope.app, scope)
    if name == FILES:
        return meta._replace(value=meta.value["artifacts"])
    text, warning = read_active_text(space, scope.app, scope.session)
    return meta._replace(value=text or None, warning=warning)


class RenderTemplate(Request, frozen=True, kw_only=True):
    """A template, and the user and session whose memory it shows."""

    app: AppName
    template: TemplateField
    user_id: UserId | None = None
    session_id: (
        Annotated[str, Meta(max_length=256, description="The session.", extra_json_schema={"pattern": ID_PATTERN})]
        | None
    ) = None


class RenderedText(Response, frozen=True, kw_only=True):
    """The rendered template, the names without a value, and warnings on values that are withheld because they no longer fit
    their schema."""

    text: str
    missing: list[str]
    warnings: list[str] | None = None


_PREFERENCES = {"preferences": {"language": "Portuguese"}}
_STORED = ("stores.set_content", {"app": "shop", "store": "userPrefs", "user_id": "u1", "data": _PREFERENCES})


@operation(
    "apps.render",
    "POST /v1/apps/{app}/render",
    any_scope=True,
    example=Example(
        {"app": "shop", "template": "You speak {{memory.userPrefs.preferences.language}}.", "user_id": "u1"},
        (*GIVEN, _STORED),
    ),
)
def render_template(space: Space, request: RenderTemplate) -> RenderedText:
    """Render a prompt with stored values. Values are data: braces in them stay as they are, and values with several lines are
    quoted."""
    space.principal.refuse_flow()
    user = request.user_id or find_session_user(space, request.app, request.session_id) or space.principal.user
    scope = Scope(request.app, user, request.session_id)

    def fetch(name: str) -> tuple[Any, str | None]:
        found = recall_files(space, name, scope)
        return found.value, found.warning

    known = {NAMESPACE: build_memory_values(space, scope), **build_file_values(fetch, {})}
    made = templates.render(templates.parse(request.template), known, missing="empty", on_one_line=STORED)
    missing = [one.source for one in made.missing]
    warnings = [warning for values in known.values() for warning in values.warnings]
    return RenderedText(text=made.text, missing=missing, warnings=warnings or None)


def recall_session_meta(space: Space, app: str, scope: Scope) -> MemoryValue:
    """Return the metadata of the session, if there is one. Only the session's user may read it."""
    if scope.session is None:
        return MemoryValue()
    check_session_owner(space, app, scope.session, scope.user)
    meta = read_session_meta(space, app, scope.session)
    if scope.run is not None:  # another run of the session may have begun since
        meta["sessionInfo"]["runId"] = scope.run
    record = find_session(space, app, scope.session)
    return MemoryValue(meta, None if record is None else record.address_id, bool(meta["artifacts"]))


def recall_content(space: Space, name: str, scope: Scope, store: Store) -> MemoryValue:
    """Return the content of a store for code; without a user or session there is none. A value that no longer fits its schema
    is returned too, because code that gets None would overwrite it."""
    if store.access == "session" and scope.session is None:
        return MemoryValue()
    if (
        store.access == "user"
        and scope.user is None
        and find_session_user(space, scope.app or "", scope.session) is None
    ):
        return MemoryValue()
    whose = GetContent(app=scope.app or "", store=name, user_id=scope.user, session_id=scope.session)
    where = locate_content(space, name, whose, store)
    record = records.find_record(space, where.place, where.path)
    if record is None:
        return MemoryValue()
    problems = list_misfits(record.value, where.contract, space) if where.contract.strict else []
    warning = build_misfit_error(problems, "The stored value").message if problems else None
    return MemoryValue(fill_defaults(record.value, where.contract), record.address_id, warning=warning)


def _withhold(name: str, reason: str, address_id: int | None) -> MemoryValue:
    """Return a warning about an address instead of a value."""
    return MemoryValue(None, address_id, warning=render_withheld(name, reason))
