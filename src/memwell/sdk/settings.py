"""What banks, hooks and runs may be given beside what they must be, so that an editor knows the names and the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

BankType = Literal["conversation", "general"]


class BankChanges(TypedDict, total=False):
    """Settings of a bank that can be changed."""

    description: str | None
    compaction_prompt: str | None
    max_age_days: int | None
    max_turns: int | None
    max_size_tokens: int | None
    retention_days: int | None
    cross_key_search: bool


class BankUpdate(BankChanges, total=False):
    """What to change of a bank; `version` is the one that was read, to be told of changes since."""

    name: str
    version: int


class BankSettings(BankChanges, total=False):
    """Settings of a bank; the type, and how it is searched, are decided when it is made."""

    type: BankType
    mode: Literal["fast_and_cheap", "balanced", "slow_and_thorough", "custom"]
    embedding_model: str | None
    dimensions: int | None
    chunk_size: int | None
    chunk_overlap: int | None
    language: str


class BankPage(TypedDict, total=False):
    """Which banks are listed, and in which order."""

    page: int
    limit: int
    sort: Literal["created_at", "updated_at", "name"]
    order: Literal["asc", "desc"]
    type: BankType


class Loading(TypedDict, total=False):
    """Which entries of a key are loaded, and in which form."""

    order: Literal["newest_first", "oldest_first"]
    limit: int
    content_type: str
    shape: Literal["entries", "array"]
    include_compacted: bool


class Days(TypedDict, total=False):
    """The days that are counted: the last so many, or between two."""

    days: int
    start_date: datetime
    end_date: datetime


class Sampled(TypedDict, total=False):
    """What a compaction is tried with."""

    key: str
    sample_entries: Sequence[Mapping[str, Any]]
    generate_direction: str
    entry_count: int
    compaction_prompt: str


class HookSettings(TypedDict, total=False):
    """Settings of a hook beside its name and template."""

    description: str
    enabled: bool
    priority: int
    selector_key: str
    matching_rules: Mapping[str, Any]
    matching_rules_yaml: str


class HookChanges(HookSettings, total=False):
    """What to change of a hook; `version` is the one that was read, to be told of changes since."""

    name: str
    markdown_template: str
    version: int


class Running(TypedDict, total=False):
    """What a run is given beside its input."""

    inputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    owner: str
    thread: str
    version: int


class AppSettings(TypedDict, total=False):
    """What an app is: what answers a message, how many stores it may have, and how many files a session."""

    description: str | None
    workflow: str | None
    function: str | None
    max_stores: int
    max_files: int


class FileSettings(TypedDict, total=False):
    """What a file is, and what to pass along with the session if it begins with it."""

    mimetype: str
    user_id: str
    metadata: Mapping[str, Any]


class FileConditions(TypedDict, total=False):
    """What a search in files may be given beside its query."""

    filter: Mapping[str, Any]
    min_score: float
    explain: bool
    recipe: str


class Executing(TypedDict, total=False):
    """Whose message it is, beside its session."""

    user_id: str
    user_reference: str
    session_reference: str
    wait: bool


class SessionChanges(TypedDict, total=False):
    """Whose session it is, and how metadata is set."""

    user_id: str
    user_reference: str
    session_reference: str
    mode: Literal["merge", "replace"]


class StoreSettings(TypedDict, total=False):
    """Settings of a store beside its technical name."""

    name: str
    description: str | None
    schema: Mapping[str, Any]
    access: Literal["user", "application", "session"]
    retention: str
    strict: bool


class ContentChange(TypedDict, total=False):
    """How content is written: merged (as it is by default) or replaced, without some fields, and only on top of one version."""

    mode: Literal["merge", "replace"]
    unset: str | Sequence[str]
    if_match: str | None


class StoreChanges(TypedDict, total=False):
    """What to change of a store; `version` is the one that was read, to be told of changes since."""

    name: str
    description: str | None
    schema: Mapping[str, Any]
    retention: str
    strict: bool
    accept_breaking: bool
    version: int


class DefinitionSettings(TypedDict, total=False):
    """Settings of a definition beside its name."""

    schema: Mapping[str, Any]
    slug: str
    scope: Literal["global", "workflow", "thread", "run"]
    ttl_seconds: int | None
    update_mode: Literal["merge", "replace"]
    secrets: Literal["warn", "reject"]
    description: str | None


class DefinitionChanges(TypedDict, total=False):
    """What to change of a definition; `version` is the one that was read, to be told of changes since."""

    name: str
    schema: Mapping[str, Any]
    ttl_seconds: int | None
    update_mode: Literal["merge", "replace"]
    secrets: Literal["warn", "reject"]
    description: str | None
    accept_breaking: bool
    version: int


class DefinitionPage(TypedDict, total=False):
    """Which definitions are listed, and in which order."""

    search: str
    name: str
    slug: str
    scope: Literal["global", "workflow", "thread", "run"]
    ttl_seconds: int
    sort: Literal["created_at", "updated_at", "name"]
    order: Literal["asc", "desc"]
    page: int
    limit: int


class Binding(TypedDict, total=False):
    """What working memory belongs to beside its owner."""

    workflow: str
    thread: str
    run: str
    strict: bool
