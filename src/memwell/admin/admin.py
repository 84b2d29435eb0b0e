"""Operations on tenants, API keys and events, and the status of the server."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from ..clock import SECOND, optional_datetime, to_datetime
from ..core import access
from ..core.access import Scope
from ..core.dispatch import Call
from ..core.events import Event, to_event
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.space import Space
from ..errors import Conflict, Forbidden, Invalid, NotFound
from ..model.field_readers import lifetime_limits
from ..model.fields import After, AnyId, Cursor, Flow, Label, Limit, TenantId, User, cut, from_cursor, to_cursor
from ..version import __version__

KeyRole = Annotated[
    Literal["reader", "agent", "admin", "operator"],
    Meta(description="`reader` reads, `agent` also writes, `admin` also manages, `operator` also manages tenants."),
]

Rate = Annotated[
    int,
    Meta(ge=0, le=1_000_000, description="Requests per second; 0 for no limit. Omit it for the limit of the server."),
]
ExpiresIn = Annotated[
    int, lifetime_limits("second", 3_650 * 86_400, "Lifetime of the key; omit it for a key for good.")
]


class Tenant(Response, frozen=True, kw_only=True):
    """A tenant."""

    tenant: str
    created_at: datetime


class Tenants(Response, frozen=True, kw_only=True):
    """Tenants by name."""

    tenants: list[Tenant]
    next_cursor: str | None = None


class NamedTenant(Request, frozen=True, kw_only=True):
    """Selects a tenant."""

    tenant: TenantId


class ListTenants(Request, frozen=True, kw_only=True):
    """Selects a page of tenants."""

    limit: Limit = 50
    cursor: Cursor | None = None


_ACME = {"tenant": "acme"}


@operation(
    "tenants.create",
    "POST /v1/tenants",
    effect="write",
    role="operator",
    outside=True,
    repeatable=False,
    status=201,
    example=Example(_ACME),
)
def create_tenant(call: Call, request: NamedTenant) -> Tenant:
    """Create a tenant."""
    if not call.engine.ensure_tenant(request.tenant):
        raise Conflict("A tenant of that name exists already.")
    call.record()
    return _require_tenant(call, request.tenant)


@operation(
    "tenants.list", "GET /v1/tenants", role="operator", outside=True, example=Example({}, (("tenants.create", _ACME),))
)
def list_tenants(call: Call, request: ListTenants) -> Tenants:
    """List the tenants by name."""
    (after,) = from_cursor("tenants", request.cursor, "")
    rows = call.engine.store.control.rows("list_tenants", after=after, limit=request.limit + 1)
    page, further = cut(rows, request.limit, lambda row: to_cursor("tenants", row[0]))
    return Tenants(tenants=[_to_tenant(*row) for row in page], next_cursor=further)


@operation(
    "tenants.delete",
    "DELETE /v1/tenants/{tenant}",
    effect="erase",
    role="operator",
    outside=True,
    repeatable=False,
    example=Example(_ACME, (("tenants.create", _ACME),)),
)
def delete_tenant(call: Call, request: NamedTenant) -> Tenant:
    """Erase a tenant with all its memory and keys, permanently."""
    if request.tenant == call.principal.tenant:
        raise Conflict("Your key belongs to this tenant: delete it with an operator key of another tenant.")
    tenant = _require_tenant(call, request.tenant)
    call.engine.store.drop(request.tenant)
    call.record()
    return tenant


class Key(Response, frozen=True, kw_only=True):
    """An API key, without its secret."""

    id: str
    tenant: str
    name: str
    role: str
    created_at: datetime
    flow: str | None = None
    user: str | None = None
    rate_limit: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class NewKey(Key, frozen=True, kw_only=True):
    """A new API key. `secret` is shown this once and stored nowhere."""

    secret: str


class Keys(Response, frozen=True, kw_only=True):
    """Keys in the order of their creation."""

    keys: list[Key]
    next_cursor: str | None = None


class CreateKey(Request, frozen=True, kw_only=True):
    """The name, role, scope and limits of a new key."""

    name: Label = "key"
    role: KeyRole = "agent"
    flow: Flow | None = None
    user: User | None = None
    tenant: TenantId | None = None
    rate_limit: Rate | None = None
    expires_in_s: ExpiresIn | None = None


_KEY = {"name": "chatbot", "role": "agent", "flow": "support"}


@operation(
    "keys.create",
    "POST /v1/keys",
    effect="write",
    role="admin",
    outside=True,
    repeatable=False,
    status=201,
    example=Example(_KEY),
)
def create_key(call: Call, request: CreateKey) -> NewKey:
    """Create an API key, optionally limited to one flow or one user. Its secret is shown once."""
    tenant = request.tenant or call.principal.tenant
    if (tenant != call.principal.tenant or request.role == "operator") and not call.principal.may("operator"):
        raise Forbidden("Only an operator can create keys for other tenants or with the role `operator`.")
    if request.flow is not None and request.user is not None:
        raise Invalid("A key can be limited to one flow or one user, not to both.", field="flow")
    _require_tenant(call, tenant)
    scope = Scope("flow", request.flow) if request.flow is not None else None
    if request.user is not None:
        scope = Scope("user", request.user)
    now = call.engine.clock.now()
    expires_at = None if request.expires_in_s is None else now + request.expires_in_s * SECOND
    key_id, secret = access.create_key(
        call.engine.store.control, tenant, request.name, request.role, scope, request.rate_limit, now, expires_at
    )
    call.record()
    return NewKey(secret=secret, **structs.asdict(_require_key(call, tenant, key_id)))


class ListKeys(Request, frozen=True, kw_only=True):
    """Selects a page of keys."""

    limit: Limit = 50
    cursor: Cursor | None = None


@operation("keys.list", "GET /v1/keys", role="admin", outside=True, example=Example({}, (("keys.create", _KEY),)))
def list_keys(call: Call, request: ListKeys) -> Keys:
    """List the tenant's API keys, without their secrets."""
    (after,) = from_cursor("keys", request.cursor, "")
    rows = call.engine.store.control.rows(
        "list_keys", tenant=call.principal.tenant, after=after, limit=request.limit + 1
    )
    page, further = cut(rows, request.limit, lambda row: to_cursor("keys", row[0]))
    return Keys(keys=[_to_key(access.StoredKey(*row)) for row in page], next_cursor=further)


class OneKey(Request, frozen=True, kw_only=True):
    """Selects a key."""

    id: AnyId


@operation(
    "keys.revoke",
    "DELETE /v1/keys/{id}",
    effect="write",
    role="admin",
    outside=True,
    repeatable=False,
    example=Example({"id": "$0.id"}, (("keys.create", _KEY),)),
)
def revoke_key(call: Call, request: OneKey) -> Key:
    """Revoke an API key. It stops working within a second."""
    tenant = call.principal.tenant
    _require_key(call, tenant, request.id)
    call.engine.store.control.write(
        ("revoke_key", {"tenant": tenant, "id": request.id, "now": call.engine.clock.now()})
    )
    call.engine.store.control.scrub()
    call.record()
    return _require_key(call, tenant, request.id)


class ListEvents(Request, frozen=True, kw_only=True):
    """Selects events after a sequence number."""

    after: After = 0
    limit: Limit = 100


class Events(Response, frozen=True, kw_only=True):
    """Write events in order."""

    events: list[Event]


@operation("events.list", "GET /v1/events/log", example=Example({"limit": 10}))
def list_events(space: Space, request: ListEvents) -> Events:
    """List write events in order. `GET /v1/events` streams them live, together with read events."""
    rows = space.tx.rows("list_events", after=request.after, limit=request.limit)
    return Events(events=[to_event(row) for row in rows])


class Backlog(Response, frozen=True, kw_only=True):
    """Jobs of one kind and state. `oldest_at` is the due time of the first of them."""

    kind: str
    state: str
    count: int
    oldest_at: datetime


class Status(Response, frozen=True, kw_only=True):
    """The version, the identity of the key, the storage, and the backlog of jobs."""

    version: str
    tenant: str
    role: str
    storage: dict[str, Any]
    backlog: list[Backlog]
    worker: bool
    flow: str | None = None
    user: str | None = None


@operation("status.show", "GET /v1/status", outside=True, any_scope=True, example=Example())
def show_status(call: Call, request: NoFields) -> Status:
    """Show the tenant, role and scope of the key, the storage, and the backlog of jobs."""
    scope = call.principal.scope
    rows = call.read(lambda space: space.tx.rows("job_backlog")) if scope is None else []
    backlog = [
        Backlog(kind=kind, state=state, count=count, oldest_at=to_datetime(at)) for kind, state, count, at in rows
    ]
    return Status(
        version=__version__,
        tenant=call.principal.tenant,
        role=call.principal.role,
        storage=call.engine.store.describe(),
        backlog=backlog,
        worker=call.engine.worker.running,
        **({scope.kind: scope.name} if scope else {}),
    )


def _require_tenant(call: Call, tenant: str) -> Tenant:
    rows = call.engine.store.control.rows("find_tenant", id=tenant)
    if not rows:
        raise NotFound("There is no such tenant.")
    return _to_tenant(*rows[0])


def _to_tenant(name: str, created_at: int) -> Tenant:
    return Tenant(tenant=name, created_at=to_datetime(created_at))


def _require_key(call: Call, tenant: str, key_id: str) -> Key:
    rows = call.engine.store.control.rows("find_key", tenant=tenant, id=key_id)
    if not rows:
        raise NotFound("There is no such key.")
    return _to_key(access.StoredKey(*rows[0]))


def _to_key(key: access.StoredKey) -> Key:
    return Key(
        id=key.id,
        tenant=key.tenant,
        name=key.name,
        role=key.role,
        created_at=to_datetime(key.created_at),
        flow=key.tie_name if key.tie_kind == "flow" else None,
        user=key.tie_name if key.tie_kind == "user" else None,
        rate_limit=key.rate,
        expires_at=optional_datetime(key.expires_at),
        revoked_at=optional_datetime(key.revoked_at),
    )
