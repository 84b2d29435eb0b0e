"""The settings of a tenant."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ..core.catalog import Catalog
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.space import Space

_ID = "settings"
RecordModelCalls = Annotated[
    bool,
    Meta(description="Store with each run what its steps have sent to language models, and what came back."),
]


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a tenant."""

    record_model_calls: bool = True


class TenantSettingsInfo(Response, frozen=True, kw_only=True):
    """The settings of the tenant."""

    tenant: str
    record_model_calls: bool


class ConfigureTenant(Request, frozen=True, kw_only=True):
    """Settings to change. Those that are omitted stay as they are."""

    record_model_calls: RecordModelCalls | None = None


_CATALOG = Catalog("tenant_settings", TenantSettings)


@operation("tenants.settings", "GET /v1/settings", example=Example())
def get_settings(space: Space, request: NoFields) -> TenantSettingsInfo:
    """Return the settings of the tenant."""
    return _to_response(space, load_settings(space))


@operation(
    "tenants.configure",
    "PATCH /v1/settings",
    effect="write",
    role="admin",
    example=Example({"record_model_calls": False}),
)
def configure_tenant(space: Space, request: ConfigureTenant) -> TenantSettingsInfo:
    """Change the settings of the tenant. Runs that have begun keep theirs."""
    item = _CATALOG.find(space, _ID)
    settings = TenantSettings() if item is None else item.settings
    settings = msgspec.structs.replace(settings, **_CATALOG.changes(request))
    if item is None:
        _CATALOG.add(space, settings, name=_ID, item_id=_ID)
    else:
        _CATALOG.update(space, item, settings)
    return _to_response(space, settings)


def load_settings(space: Space) -> TenantSettings:
    item = _CATALOG.find(space, _ID)
    return TenantSettings() if item is None else item.settings


def _to_response(space: Space, settings: TenantSettings) -> TenantSettingsInfo:
    return TenantSettingsInfo(tenant=space.principal.tenant, record_model_calls=settings.record_model_calls)
