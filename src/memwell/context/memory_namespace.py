"""What `{{memory.<name>…}}` stands for: a store of the app, `sessionMeta`, or a memory definition (S2.18, S3.23)."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid
from ..records import records
from ..records.app_sessions import (
    SESSION_META,
    UserId,
    check_session_owner,
    find_session_user,
    read_session_meta,
    to_thread,
)
from ..records.app_sessions import find_app_session as find_session
from ..records.apps import AppName
from ..records.contents import GetContent, locate_content
from ..records.definitions import build_definition_contract, find_definition_by_slug
from ..records.stores import GIVEN, Store, stores_of
from ..records.validation import build_misfit_error, fill_defaults, list_misfits
from ..records.working_memory import MemoryScope, load_memory, render_withheld
from . import template as templates
from .template import NAMESPACE, Recalled

MAX_TEMPLATE = 256 * 1024

TemplateField = Annotated[
    str,
    Meta(
        max_length=MAX_TEMPLATE, description="Text with `{{memory.<store>.<path>}}` in it, at most 256 Ki characters."
    ),
]


class Scope(NamedTuple):
    """For whom and for what something is recalled."""

    app: str | None = None
    user: str | None = None
    session: str | None = None
    workflow: str | None = None
    run: str | None = None

    @property
    def thread(self) -> str | None:
        """The conversation. That of an app is its session, and no other app's of that name."""
        return self.session if self.app is None or self.session is None else to_thread(self.app, self.session)


class Found(NamedTuple):
    """A value, and the address that it was read from; nothing of both if there is none. `files`: whether it tells of files.
    `warning`: that it does not fit any more, or why it is withheld."""

    value: Any = None
    address_id: int | None = None
    files: bool = False
    warning: str | None = None

    @property
    def told(self) -> tuple[Any, str | None]:
        """The value, and the warning if there is one."""
        return self.value, self.warning


def recall(space: Space, name: str, scope: Scope) -> Found:
    """What is known under a name, for a model to read. One that there is not is an error; one without a record is nothing (C18);
    what does not fit any more is withheld, and a warning says so (C24)."""
    if scope.app is not None:
        if name == SESSION_META:
            return session_meta(space, scope.app, scope)
        store = stores_of(scope.app).find(space, name)
        if store is not None:
            found = content_of(space, name, scope, store.settings)
            return found if found.warning is None else _withheld(name, found.warning, found.address_id)
    known = find_definition_by_slug(space, name)
    if known is None:
        what = f"memory store of the app {scope.app!r}, nor a memory definition" if scope.app else "memory definition"
        raise Invalid(f"`{{{{{NAMESPACE}.{name[:100]}…}}}}`: {name[:100]!r} is no {what}.")
    if scope.user is None:
        return Found()
    space.principal.speaks_for(scope.user)
    whose = MemoryScope(owner=scope.user, workflow=scope.workflow, thread=scope.thread, run=scope.run)
    there = load_memory(space, known, whose)
    if there.warning is not None:
        return _withheld(name, there.warning, there.address_id)
    if there.record is None:
        return Found()
    return Found(
        fill_defaults(there.record.value, build_definition_contract(known.id, known.settings)), there.address_id
    )


def recalled(space: Space, scope: Scope) -> Recalled:
    return Recalled(lambda name: recall(space, name, scope).told)


class RenderTemplate(Request, frozen=True, kw_only=True):
    """A template, and for whom."""

    app: AppName
    template: TemplateField
    user_id: UserId | None = None
    session_id: Annotated[str, Meta(max_length=256, description="The session.")] | None = None


class RenderedText(Response, frozen=True, kw_only=True):
    """A template with the values in it, the names that had none, and what is withheld since it does not fit its schema any
    more."""

    text: str
    missing: list[str]
    warnings: list[str] | None = None


@operation(
    "apps.render",
    "POST /v1/apps/{app}/render",
    any_tie=True,
    example=Example(
        {"app": "shop", "template": "You speak {{memory.userPrefs.preferences.language}}.", "user_id": "u1"},
        (
            *GIVEN,
            (
                "stores.set_content",
                {
                    "app": "shop",
                    "store": "userPrefs",
                    "user_id": "u1",
                    "data": {"preferences": {"language": "Portuguese"}},
                },
            ),
        ),
    ),
)
def render(space: Space, request: RenderTemplate) -> RenderedText:
    """A prompt with what is remembered in it. Stored values are data: braces in them stay as they are, and what spans lines is
    quoted."""
    user = request.user_id or find_session_user(space, request.app, request.session_id) or space.principal.user
    known = recalled(space, Scope(request.app, user, request.session_id))
    made = templates.render(
        templates.parse(request.template), {NAMESPACE: known}, missing="empty", on_one_line=(NAMESPACE,)
    )
    missing = [one.source for one in made.missing]
    return RenderedText(text=made.text, missing=missing, warnings=list(known.warnings) or None)


def session_meta(space: Space, app: str, scope: Scope) -> Found:
    """The meta of the session, if there is one. It is not shown to another user than its own."""
    if scope.session is None:
        return Found()
    check_session_owner(space, app, scope.session, scope.user)
    meta = read_session_meta(space, app, scope.session)
    record = find_session(space, app, scope.session)
    return Found(meta, None if record is None else record.address_id, bool(meta["artifacts"]))


def content_of(space: Space, name: str, scope: Scope, store: Store) -> Found:
    """The content of a store, as code reads it: also if it does not fit any more, for whoever is not shown what is there would
    write over it. Whoever is not known has none."""
    if store.access == "session" and scope.session is None:
        return Found()
    if (
        store.access == "user"
        and scope.user is None
        and find_session_user(space, scope.app or "", scope.session) is None
    ):
        return Found()
    whose = GetContent(app=scope.app or "", store=name, user_id=scope.user, session_id=scope.session)
    where = locate_content(space, name, whose, store)
    record = records.find_record(space, where.place, where.path)
    if record is None:
        return Found()
    problems = list_misfits(record.value, where.held, space) if where.held.strict else []
    warning = build_misfit_error(problems, "The stored value").message if problems else None
    return Found(fill_defaults(record.value, where.held), record.address_id, warning=warning)


def _withheld(name: str, reason: str, address_id: int | None) -> Found:
    """Nothing, but what is said of it comes from an address."""
    return Found(None, address_id, warning=render_withheld(name, reason))
