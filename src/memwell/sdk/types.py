"""Keyword arguments of SDK methods. Generated from the requests by `tools/sdk_types.py`: run `make format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from .values import Lifetime, Moment


class Conditions(TypedDict, total=False):
    """Conditions of a search beside its query."""

    as_of: Moment
    valid_at: Moment
    include: Sequence[str]
    filter: Mapping[str, Any]
    after: Moment
    before: Moment
    min_score: float
    min_trust: str
    explain: bool
    recipe: str


class BankSettings(TypedDict, total=False):
    """Settings of a new bank."""

    type: Literal["conversation", "general"]
    mode: Literal["fast_and_cheap", "balanced", "slow_and_thorough", "custom"]
    description: str | None
    compaction_prompt: str | None
    max_age_days: Lifetime
    max_turns: int | None
    max_size_tokens: int | None
    retention_days: Lifetime
    embedding_model: str | None
    dimensions: int | None
    chunk_size: int | None
    chunk_overlap: int | None
    language: str
    cross_key_search: bool
    key_is_user: bool


class BankUpdate(TypedDict, total=False):
    """Changes of a bank; `version` is the one that was read."""

    name: str
    description: str | None
    compaction_prompt: str | None
    max_age_days: Lifetime
    max_turns: int | None
    max_size_tokens: int | None
    retention_days: Lifetime
    cross_key_search: bool
    key_is_user: bool
    version: int


class BankPage(TypedDict, total=False):
    """Page, order and filter of a list of banks."""

    page: int
    limit: int
    sort: Literal["created_at", "updated_at", "name"]
    order: Literal["asc", "desc"]
    type: Literal["conversation", "general"]
    name: str


class Loading(TypedDict, total=False):
    """Selection and form of the entries of a key."""

    order: Literal["newest_first", "oldest_first"]
    limit: int
    content_type: Literal["application/json", "text/plain", "text/html", "application/xml"]
    shape: Literal["entries", "array"]
    include_compacted: bool


class Days(TypedDict, total=False):
    """The days to count: the last ones, or between two dates."""

    days: int
    start_date: Moment
    end_date: Moment


class Sampled(TypedDict, total=False):
    """Entries and prompt of a trial compaction."""

    key: str
    sample_entries: Sequence[Mapping[str, Any]]
    generate_direction: str
    entry_count: int
    compaction_prompt: str


class HookSettings(TypedDict, total=False):
    """Settings of a hook beside its name and template."""

    description: str | None
    enabled: bool
    priority: int
    selector_key: str | None
    matching_rules: Mapping[str, Any] | None
    matching_rules_yaml: str | None


class HookChanges(TypedDict, total=False):
    """Changes of a hook; `version` is the one that was read."""

    name: str
    markdown_template: str
    description: str
    enabled: bool
    priority: int
    selector_key: str
    matching_rules: Mapping[str, Any]
    matching_rules_yaml: str
    version: int


class Running(TypedDict, total=False):
    """Options of a run beside its input."""

    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    owner: str
    thread: str
    version: int


class AppSettings(TypedDict, total=False):
    """Settings of an app."""

    description: str | None
    workflow: str | None
    function: str | None
    max_stores: int
    max_files: int
    idle_seconds: Lifetime
    end_conversations: bool


class FileSettings(TypedDict, total=False):
    """Options of an upload."""

    mimetype: str
    user_id: str
    metadata: Mapping[str, Any]


class FileConditions(TypedDict, total=False):
    """Conditions of a search in files."""

    filter: Mapping[str, Any]
    min_score: float
    explain: bool
    recipe: str


class Executing(TypedDict, total=False):
    """Options of a message to an app."""

    user_id: str
    user_reference: str
    session_reference: str
    wait: bool


class SessionChanges(TypedDict, total=False):
    """Options of a change of a session."""

    mode: Literal["merge", "replace"]
    user_id: str
    user_reference: str
    session_reference: str


class StoreSettings(TypedDict, total=False):
    """Settings of a store beside its technical name."""

    name: str | None
    description: str | None
    schema: Mapping[str, Any] | None
    access: Literal["user", "application", "session"]
    retention: Lifetime
    strict: bool


class StoreChanges(TypedDict, total=False):
    """Changes of a store; `version` is the one that was read."""

    name: str
    description: str | None
    schema: Mapping[str, Any]
    retention: Lifetime
    strict: bool
    accept_breaking: bool
    version: int


class ContentChange(TypedDict, total=False):
    """Mode and expected version of a write."""

    mode: Literal["merge", "replace"]
    if_match: str | None
    unset: str | Sequence[str]


class DefinitionSettings(TypedDict, total=False):
    """Settings of a definition beside its name."""

    schema: Mapping[str, Any] | None
    slug: str | None
    scope: Literal["global", "workflow", "thread", "run"]
    ttl_seconds: Lifetime
    update_mode: Literal["merge", "replace"]
    secrets: Literal["warn", "reject"]
    description: str | None


class DefinitionChanges(TypedDict, total=False):
    """Changes of a definition; `version` is the one that was read."""

    name: str
    schema: Mapping[str, Any]
    ttl_seconds: Lifetime
    update_mode: Literal["merge", "replace"]
    secrets: Literal["warn", "reject"]
    description: str | None
    accept_breaking: bool
    version: int


class DefinitionPage(TypedDict, total=False):
    """Page, order and filter of a list of definitions."""

    search: str
    name: str
    slug: str
    scope: Literal["global", "workflow", "thread", "run"]
    ttl_seconds: Lifetime
    sort: Literal["created_at", "updated_at", "name"]
    order: Literal["asc", "desc"]
    page: int
    limit: int


class Binding(TypedDict, total=False):
    """Scope of a working memory beside its owner."""

    workflow: str
    thread: str
    run: str
    strict: bool
    budget: int
