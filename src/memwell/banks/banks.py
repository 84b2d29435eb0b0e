"""Memory banks: bodies of entries, partitioned by keys, each with its own embedding, compaction and retention."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from ..clock import DAY, HOUR
from ..core import documents
from ..core.catalog import Catalog, Item, Order, PageNumber, PageSize, Sort, Version, list_page, to_response
from ..core.dispatch import Call
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.settings import Clearable, Fixed, build_settings, create_request, response, update_request
from ..core.space import Erasure, Space
from ..erasure.erase import erase_collection
from ..errors import Invalid
from ..jobs import queue
from ..model.collection import Address, Place, Policy
from ..model.field_readers import lifetime_limits
from ..model.fields import ID_PATTERN, check_content, id_limits
from ..search.words import check_language

BankType = Literal["conversation", "general"]
Mode = Literal["fast_and_cheap", "balanced", "slow_and_thorough", "custom"]

KIND = "bank"
SUMMARY = "summary"
"""The kind of entries that are summaries."""
RETENTION_DAYS = 30
RESERVED = ("key", "speaker", "agent_id", "run_id")
"""Metadata that the bank sets on every entry. Requests cannot set it."""
CHARS_PER_TOKEN = 4
MAX_BANK_KEY = 512
MAX_NAME = 255
MAX_PROMPT = 20_000
KEY_ADVICE = f"A key has 1 to {MAX_BANK_KEY} characters, no control characters, and is not blank, '.' or '..'."
NAME_ADVICE = f"A bank's name has 1 to {MAX_NAME} characters, no control characters, and is not blank."

CHUNKS: dict[str, tuple[int | None, int]] = {
    "fast_and_cheap": (None, 0),
    "balanced": (60, 10),
    "slow_and_thorough": (40, 15),
    "custom": (None, 0),
}
"""Size and overlap, in tokens, of the chunks that are embedded. Smaller chunks find smaller details."""

BankId = Annotated[str, Meta(max_length=64, description="The bank's id, a UUID.")]
Key = Annotated[str, id_limits(MAX_BANK_KEY, f"Partitions a bank, for example a user's id. {KEY_ADVICE}")]
Name = Annotated[str, id_limits(MAX_NAME, NAME_ADVICE)]
Description = Annotated[str, Meta(max_length=1000, description="The purpose of the bank: at most 1,000 characters.")]
Prompt = Annotated[
    str,
    Meta(
        max_length=MAX_PROMPT,
        description="Instructions for the language model that summarises older entries. Without a model, rules do it.",
    ),
]
MAX_DAYS = 36_500
Retention = Annotated[int, lifetime_limits("day", MAX_DAYS, "Lifetime of an entry.")]
Age = Annotated[int, lifetime_limits("day", MAX_DAYS, "Age from which entries are compacted.", "no limit")]
Count = Annotated[int, Meta(ge=0, le=10_000_000, description="A number; 0: no limit.")]
Chunk = Annotated[int, Meta(ge=0, le=2000, description="Tokens per embedded chunk; 0: the default.")]
Type = Annotated[
    BankType, Meta(description="`conversation`: every entry has a speaker; `general`: entries have no speaker.")
]
ModeField = Annotated[
    Mode,
    Meta(description="How finely texts are embedded: `fast_and_cheap`, `balanced`, `slow_and_thorough` or `custom`."),
]
CrossKey = Annotated[bool, Meta(description="True if a search may omit the key and search all keys.")]
KeyIsUser = Annotated[
    bool, Meta(description="True if each key is the name of a user: forgetting the user erases the key.")
]
LanguageField = Annotated[str, Meta(max_length=16, description="The language of the entries, such as `en` or `de`.")]
EmbeddingModel = Annotated[
    str, Meta(max_length=200, description="The embedding model; must be the one that MEMWELL_EMBEDDER names.")
]

_NEW = {"name": "chats", "type": "conversation"}
_GIVEN = (("banks.create", _NEW),)
_OF = {"bank": "$0.id"}
_CUSTOM = ("embedding_model", "dimensions", "chunk_size", "chunk_overlap")
_ZERO_IS_NONE = ("max_turns", "max_size_tokens", "dimensions", "chunk_size")


class BankSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a bank."""

    type: Fixed[Type] = "conversation"
    mode: Fixed[ModeField] = "fast_and_cheap"
    description: Clearable[Description] = None
    compaction_prompt: Clearable[Prompt] = None
    max_age_days: Clearable[Age] = None
    max_turns: Clearable[Count] = None
    max_size_tokens: Clearable[Count] = None
    retention_days: Clearable[Retention] = RETENTION_DAYS
    embedding_model: Fixed[EmbeddingModel] | None = None
    dimensions: Fixed[Count] | None = None
    chunk_size: Fixed[Chunk] | None = None
    chunk_overlap: Fixed[Chunk] | None = None
    language: Fixed[LanguageField] = "en"
    cross_key_search: CrossKey = True
    key_is_user: KeyIsUser = False


class Bank(BankSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a bank, as they are stored."""

    @property
    def compacts(self) -> bool:
        """True if it has a threshold for compaction."""
        return any(limit is not None for limit in (self.max_age_days, self.max_turns, self.max_size_tokens))

    @property
    def retention_us(self) -> int | None:
        return None if self.retention_days is None else self.retention_days * DAY

    def policy(self) -> Policy:
        size, overlap = CHUNKS[self.mode]
        size = self.chunk_size or size
        overlap = overlap if self.chunk_overlap is None else self.chunk_overlap
        chars = None if size is None else size * CHARS_PER_TOKEN
        return Policy(
            retention_us=self.retention_us,
            language=self.language,
            chunk_chars=chars,
            overlap_chars=0 if chars is None else overlap * CHARS_PER_TOKEN,
            paths_are_users=self.key_is_user,
        )


BANKS = Catalog(KIND, Bank, plain_conflicts=True)


def bank_place(bank_id: str, policy: Policy | None = None) -> Place:
    return Place(KIND, bank_id, "timeline", policy or Policy())


def require_bank(space: Space, bank_id: str) -> Item[Bank]:
    found = BANKS.find(space, bank_id) if bank_id.isascii() and bank_id.isprintable() else None
    if found is None:
        raise documents.explain_missing(space.tx, KIND, bank_id)
    return found


def find_key(space: Space, bank_id: str, key: str) -> Address | None:
    """Return the address of a key, or None if nothing was written to it."""
    return space.address(bank_place(bank_id), key)


def check_key(key: str) -> str:
    """Return the key if it is valid, or raise `Invalid`."""
    fault = f"cannot be {key!r}" if key in (".", "..") else _find_fault(key, MAX_BANK_KEY)
    if fault is not None:
        raise Invalid(f"`key` {fault}. {KEY_ADVICE}", field="key")
    return key


def check_name(name: str) -> str:
    """Return the name of a bank if it is readable, or raise `Invalid`."""
    fault = _find_fault(name, MAX_NAME)
    if fault is not None:
        raise Invalid(f"`name` {fault}. {NAME_ADVICE}", field="name")
    return name


def _find_fault(text: str, max_length: int) -> str | None:
    if len(text) > max_length:
        return f"is longer than {max_length} characters"
    if not re.fullmatch(ID_PATTERN, text):
        return "contains a control character"
    categories = set(map(unicodedata.category, text))
    if "Cs" in categories:
        return "is not valid Unicode: it contains half of a surrogate pair"
    return "is blank" if all(one[0] == "Z" or one == "Cf" for one in categories) else None


# -- operations ----------------------------------------------------------------------------------------------------------


@response(BankSettings)
class BankInfo(BankSettings, Response, frozen=True, kw_only=True):
    """A bank. Without `retention_days`, entries never expire. Thresholds apply to each key."""

    id: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    source_connection_id: str


class BankList(Response, frozen=True, kw_only=True):
    """A page of banks, and the total number of banks."""

    memory_banks: list[BankInfo]
    page: int
    limit: int
    total: int

    def __iter__(self) -> Iterator[BankInfo]:
        return iter(self.memory_banks)

    def __len__(self) -> int:
        return len(self.memory_banks)


@create_request(BankSettings)
class CreateBank(Request, frozen=True, kw_only=True):
    """The settings of a new bank. Only `name` is required."""

    name: Name


@operation("banks.create", "POST /v1/memory_banks", effect="write", status=201, outside=True, example=Example(_NEW))
def create_bank(call: Call, request: CreateBank) -> BankInfo:
    """Create a memory bank."""
    bank = build_bank(call, request)
    return call.write(lambda space: add_bank(space, request.name, bank))


def build_bank(call: Call, request: CreateBank) -> Bank:
    """Check a request and return the settings of the new bank."""
    check_name(request.name)
    bank = _to_settings(request)
    _check_settings(bank)
    _check_embedding(call, bank)
    return bank


def _to_settings(request: CreateBank) -> Bank:
    bank = build_settings(Bank, request)
    return structs.replace(bank, **{name: getattr(bank, name) or None for name in _ZERO_IS_NONE})


def list_differences(bank: Bank, request: CreateBank, names: Iterable[str]) -> list[tuple[str, Any, Any]]:
    """Return the settings of these names that a request would create otherwise than a bank has them: the name, the value of the
    request, and that of the bank."""
    wanted = _to_settings(request)
    pairs = [(name, getattr(wanted, name), getattr(bank, name)) for name in names]
    return [one for one in pairs if one[1] != one[2]]


def add_bank(space: Space, name: str, bank: Bank) -> BankInfo:
    """Store a bank with checked settings."""
    item = BANKS.add(space, bank, name=name)
    space.collection(bank_place(item.id, bank.policy()))
    _schedule_compaction(space, bank)
    return _to_response(item)


class ListBanks(Request, frozen=True, kw_only=True):
    """A page of banks, and their order. `type` and `name` select some of them."""

    page: PageNumber = 1
    limit: PageSize = 20
    sort: Sort = "created_at"
    order: Order = "desc"
    type: Type | None = None
    name: Name | None = None


@operation("banks.list", "GET /v1/memory_banks", example=Example({}, _GIVEN))
def list_banks(space: Space, request: ListBanks) -> BankList:
    """List the memory banks, page by page."""
    banks = [
        one
        for one in BANKS.list(space)
        if request.type in (None, one.settings.type) and request.name in (None, one.name)
    ]
    page, total = list_page(banks, request)
    return BankList(memory_banks=list(map(_to_response, page)), page=request.page, limit=request.limit, total=total)


class OfBank(Request, frozen=True, kw_only=True):
    """A bank."""

    bank: BankId


@operation("banks.get", "GET /v1/memory_banks/{bank}", example=Example(_OF, _GIVEN))
def get_bank(space: Space, request: OfBank) -> BankInfo:
    """Return a memory bank and its settings."""
    return _to_response(require_bank(space, request.bank))


@update_request(BankSettings)
class UpdateBank(Request, frozen=True, kw_only=True):
    """The settings to change. Omitted ones stay; null, 0 or an empty text clears a setting."""

    bank: BankId
    name: Name | None = None
    mode: ModeField | None = None
    type: Type | None = None
    version: Version | None = None


@operation(
    "banks.update", "PUT /v1/memory_banks/{bank}", effect="write", example=Example({**_OF, "max_turns": 200}, _GIVEN)
)
def update_bank(space: Space, request: UpdateBank) -> BankInfo:
    """Change a bank's settings, except for its type and mode. A new retention also applies to stored entries."""
    item = require_bank(space, request.bank)
    BANKS.check_request(request, item)
    changes = BANKS.changes(request)
    changes |= {name: changes[name] or None for name in BANKS.clearable if name in changes}  # 0 and "" clear, too
    bank = structs.replace(item.settings, **changes)
    _check_settings(bank)
    if bank.policy() != item.settings.policy():
        collection_id, _ = space.collection(bank_place(item.id))
        space.tx.send("set_policy", id=collection_id, policy=msgspec.json.encode(bank.policy()).decode())
    if bank.retention_us != item.settings.retention_us:
        collection_id, _ = space.collection(bank_place(item.id))
        for query in ("lengthen_entries", "lengthen_addresses"):
            space.tx.send(query, collection_id=collection_id, lifetime=bank.retention_us, now=space.now)
        queue.ensure_slot(space.tx, "expire", space.now, space.now)
    name = None if request.name is None else check_name(request.name)
    item = BANKS.update(space, item, bank, name=name)
    _schedule_compaction(space, bank)
    return _to_response(item)


@operation("banks.delete", "DELETE /v1/memory_banks/{bank}", effect="erase", status=202, example=Example(_OF, _GIVEN))
def delete_bank(space: Space, request: OfBank) -> Erasure:
    """Erase a bank with all its entries."""
    require_bank(space, request.bank)
    BANKS.delete(space, request.bank)
    return _erase_entries(space, request.bank)


@operation(
    "banks.wipe", "DELETE /v1/memory_banks/{bank}/source", effect="erase", status=202, example=Example(_OF, _GIVEN)
)
def wipe_bank(space: Space, request: OfBank) -> Erasure:
    """Erase all entries of a bank. The bank itself stays."""
    bank = require_bank(space, request.bank).settings
    erasure = _erase_entries(space, request.bank)
    space.collection(bank_place(request.bank, bank.policy()))
    return erasure


class BankTemplate(Response, frozen=True, kw_only=True):
    """Settings for a purpose. Pass `settings` to `banks.create`."""

    name: str
    purpose: str
    settings: dict[str, Any]


@operation("banks.templates", "GET /v1/memory_banks/templates")
def list_templates(space: Space, request: NoFields) -> list[BankTemplate]:
    """List settings for common purposes."""
    return [BankTemplate(name=name, purpose=purpose, settings=settings) for name, purpose, settings in _TEMPLATES]


_TEMPLATES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "chat",
        "A chatbot's conversations: the last turns word for word, older ones as a summary.",
        {"type": "conversation", "max_turns": 200, "max_size_tokens": 20_000, "retention_days": 90},
    ),
    (
        "preferences",
        "Preferences of each user, without expiry.",
        {"type": "general", "mode": "balanced", "retention_days": None},
    ),
    (
        "project",
        "Facts and decisions of a project, compacted when they are older than half a year.",
        {"type": "general", "max_age_days": 180, "retention_days": 730},
    ),
]


def _to_response(item: Item[Bank]) -> BankInfo:
    return to_response(BankInfo, item, source_connection_id=item.id)


def _check_settings(bank: Bank) -> None:
    """Make the checks that the types of single fields cannot express."""
    check_language(bank.language)
    for name in ("description", "compaction_prompt"):
        check_content(getattr(bank, name) or "", may_be_empty=True, field=name)
    custom = [name for name in _CUSTOM if getattr(bank, name) is not None]
    if custom and bank.mode != "custom":
        raise Invalid(f"`{custom[0]}` requires `mode` `custom`.", field=custom[0])
    if bank.chunk_overlap and bank.chunk_overlap * 2 > (bank.chunk_size or 0):
        raise Invalid("`chunk_overlap` can be at most half of `chunk_size`.", field="chunk_overlap")


def _check_embedding(call: Call, bank: Bank) -> None:
    """Check that the bank uses the engine's only embedder."""
    if bank.embedding_model is None and bank.dimensions is None:
        return
    embedder = call.engine.recall.meaning.embedder()
    here = "none" if embedder is None else embedder.id
    if bank.embedding_model not in (None, here):
        raise Invalid(
            f"The embedding model {bank.embedding_model!r} is not available. MEMWELL_EMBEDDER names {here!r}.",
            field="embedding_model",
        )
    if bank.dimensions is not None and (embedder is None or bank.dimensions != embedder.dimensions):
        width = 0 if embedder is None else embedder.dimensions
        raise Invalid(f"The model {here!r} has {width} dimensions, not {bank.dimensions}.", field="dimensions")


def _schedule_compaction(space: Space, bank: Bank) -> None:
    """Start the hourly check for entries that are too old, if the bank needs it."""
    if bank.compacts:
        queue.ensure_slot(space.tx, "compact", space.now + HOUR, space.now)


def _erase_entries(space: Space, bank_id: str) -> Erasure:
    collections = space.tx.rows("collections_of_name", dialect=KIND, name=bank_id)
    erasure = space.bury(space.tx.rows("addresses_of_name", dialect=KIND, name=bank_id))
    for (collection_id,) in collections:
        erase_collection(space.tx, collection_id, space.now)
    return erasure


def find_bank_id(space: Space, name: str) -> str | None:
    """Return the id of a bank, by its id or its name; None if there is no such bank."""
    if documents.find(space.tx, KIND, name) is not None:
        return name
    banks = documents.list_by_name(space.tx, KIND, name)
    if len(banks) > 1:
        raise Invalid(f"There are {len(banks)} memory banks called {name[:100]!r}: give an id.")
    return banks[0].id if banks else None
