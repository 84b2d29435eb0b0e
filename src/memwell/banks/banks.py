"""A bank: a body of entries partitioned by keys, with its own embedding, compaction and retention."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, structs

from .. import typed
from ..clock import DAY, HOUR, to_datetime
from ..core import documents
from ..core.dispatch import Call
from ..core.documents import Document
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure.erase import erase_collection
from ..errors import Conflict, Invalid, NotFound
from ..jobs import queue
from ..model import check
from ..model.collection import Place, Policy
from ..model.fields import ID_PATTERN
from ..search.words import LANGUAGES
from ..timelines.sessions import Erasure, erase_addresses
from ..timelines.settings import UNSTEMMED

BankType = Literal["conversation", "general"]
Mode = Literal["fast_and_cheap", "balanced", "slow_and_thorough", "custom"]

KIND = "bank"
SUMMARY = "summary"
RETENTION_DAYS = 30
RESERVED = ("key", "speaker", "agent_id", "run_id")
"""Metadata that is stamped on every entry and cannot be given."""
CHARS_PER_TOKEN = 4
MAX_BANK_KEY = 512
MAX_NAME = 255
KEY_ADVICE = f"A key has 1 to {MAX_BANK_KEY} characters, no control characters, and is not blank, '.' or '..'."
NAME_ADVICE = f"A bank's name has 1 to {MAX_NAME} characters, no control characters, and is not blank."

CHUNKS: dict[str, tuple[int | None, int]] = {
    "fast_and_cheap": (None, 0),
    "balanced": (60, 10),
    "slow_and_thorough": (40, 15),
    "custom": (None, 0),
}
"""How many tokens a part has that is embedded for itself, and by how many parts overlap: finer ones find smaller details."""


class Bank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a bank is, as it is stored."""

    type: BankType = "conversation"
    mode: Mode = "fast_and_cheap"
    description: str | None = None
    compaction_prompt: str | None = None
    max_age_days: int | None = None
    max_turns: int | None = None
    max_size_tokens: int | None = None
    retention_days: int | None = RETENTION_DAYS
    embedding_model: str | None = None
    dimensions: int | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    language: str = "en"
    cross_key_search: bool = True

    @property
    def compacts(self) -> bool:
        """Whether it folds older entries into summaries."""
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
        )


def place(bank_id: str, policy: Policy | None = None) -> Place:
    return Place(KIND, bank_id, "timeline", policy or Policy())


def checked_key(key: str) -> str:
    """A key that can be one, or an error that says what is wrong with it: the same wherever a key is given."""
    wrong = f"cannot be {key!r}" if key in (".", "..") else _wrong(key, MAX_BANK_KEY)
    if wrong is not None:
        raise Invalid(f"`key` {wrong}. {KEY_ADVICE}", field="key")
    return key


def checked_name(name: str) -> str:
    """A bank's name that people can read, or an error that says why they cannot."""
    wrong = _wrong(name, MAX_NAME)
    if wrong is not None:
        raise Invalid(f"`name` {wrong}. {NAME_ADVICE}", field="name")
    return name


def _wrong(text: str, most: int) -> str | None:
    """What keeps a text from being a key or a name."""
    if len(text) > most:
        return f"is longer than {most} characters"
    if not re.fullmatch(ID_PATTERN, text):
        return "holds a control character"
    categories = set(map(unicodedata.category, text))
    if "Cs" in categories:
        return "is not valid Unicode: it holds half of a surrogate pair"
    return "is blank" if all(one[0] == "Z" or one == "Cf" for one in categories) else None


decoded = typed.decoder(Bank)


def encoded(bank: Bank) -> str:
    return msgspec.json.encode(bank).decode()


# -- Memory banks: bodies of entries partitioned by keys, for agents that are built from steps (system S1).


MAX_PROMPT = 20_000

BankId = Annotated[str, Meta(max_length=64, description="The bank's id, a UUID.")]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=ID_PATTERN, description=NAME_ADVICE)]
Description = Annotated[str, Meta(max_length=1000, description="What the bank is for: at most 1,000 characters.")]
Prompt = Annotated[
    str,
    Meta(
        max_length=MAX_PROMPT,
        description="What a language model is told to do with older entries. Without a model they are summarised by rules.",
    ),
]
Days = Annotated[int, Meta(ge=0, le=36_500, description="A number of days, more than 0; in a change, 0 clears it.")]
Count = Annotated[int, Meta(ge=0, le=10_000_000, description="A number, more than 0; in a change, 0 clears it.")]
Chunk = Annotated[int, Meta(ge=0, le=2000, description="Tokens per part that is embedded; in a change, 0 clears it.")]
Type = Annotated[BankType, Meta(description="`conversation`: every entry has a speaker; `general`: none has.")]
ModeField = Annotated[
    Mode,
    Meta(description="How finely texts are embedded: `fast_and_cheap`, `balanced`, `slow_and_thorough` or `custom`."),
]
CrossKey = Annotated[bool, Meta(description="Whether a search may leave the key away and look at all keys.")]
LanguageField = Annotated[str, Meta(max_length=16, description="The language of the entries, such as `en` or `de`.")]
Page = Annotated[int, Meta(ge=1, le=1_000_000, description="Which page, from 1 on.")]
PerPage = Annotated[int, Meta(ge=1, le=100, description="How many on a page, from 1 to 100.")]

_NEW = {"name": "chats", "type": "conversation"}
_GIVEN = (("banks.create", _NEW),)
_OF = {"bank": "$0.id"}
_LEFT_AWAY: Any = UNSET
"""What a field of a change is if it was not given: unlike null, which clears it."""
_CUSTOM = ("embedding_model", "dimensions", "chunk_size", "chunk_overlap")
_CLEARED = ("description", "compaction_prompt", "max_age_days", "max_turns", "max_size_tokens", "retention_days")


class BankInfo(Response, frozen=True, kw_only=True):
    """A bank. No `retention_days`: entries stay for good. Thresholds are for each key."""

    id: str
    name: str
    type: str
    mode: str
    language: str
    cross_key_search: bool
    version: int
    created_at: datetime
    updated_at: datetime
    source_connection_id: str
    description: str | None = None
    compaction_prompt: str | None = None
    max_age_days: int | None = None
    max_turns: int | None = None
    max_size_tokens: int | None = None
    retention_days: int | None = None
    embedding_model: str | None = None
    dimensions: int | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None


class BankList(Response, frozen=True, kw_only=True):
    """A page of banks, and how many there are in all."""

    memory_banks: list[BankInfo]
    page: int
    limit: int
    total: int

    def __iter__(self) -> Iterator[BankInfo]:
        return iter(self.memory_banks)

    def __len__(self) -> int:
        return len(self.memory_banks)


class CreateBank(Request, frozen=True, kw_only=True):
    """A bank to make. Only its name is needed."""

    name: Name
    type: Type = "conversation"
    mode: ModeField = "fast_and_cheap"
    description: Description | None = None
    compaction_prompt: Prompt | None = None
    max_age_days: Days | None = None
    max_turns: Count | None = None
    max_size_tokens: Count | None = None
    retention_days: Days | None = RETENTION_DAYS
    embedding_model: (
        Annotated[
            str, Meta(max_length=200, description="The model of its embeddings: the one that MEMWELL_EMBEDDER names.")
        ]
        | None
    ) = None
    dimensions: Count | None = None
    chunk_size: Chunk | None = None
    chunk_overlap: Chunk | None = None
    language: LanguageField = "en"
    cross_key_search: CrossKey = True


@operation("banks.create", "POST /v1/memory_banks", effect="write", status=201, outside=True, example=Example(_NEW))
def create(call: Call, request: CreateBank) -> BankInfo:
    """Make a memory bank. It can be written to at once; there is nothing else to set up."""
    bank = settled(call, request)
    return call.write(lambda space: created(space, request, bank))


def settled(call: Call, request: CreateBank) -> Bank:
    """The settings of a bank that is to be made, if they can be."""
    checked_name(request.name)
    given = {name: getattr(request, name) for name in Bank.__struct_fields__}
    bank = Bank(**given)
    _check(bank)
    for name in ("max_age_days", "max_turns", "max_size_tokens", "retention_days", "dimensions", "chunk_size"):
        if given[name] == 0:
            raise Invalid(f"`{name}` must be more than 0. Leave it away for no limit.", field=name)
    _check_model(call, bank)
    return bank


def created(space: Space, request: CreateBank, bank: Bank) -> BankInfo:
    """Make a bank of settings that were checked."""
    document = Document(str(uuid.uuid4()), request.name, 1, encoded(bank), space.now, space.now)
    documents.add(space.tx, KIND, document)
    space.collection(place(document.id, bank.policy()))
    _watch(space, bank)
    return _info(document, bank)


class ListBanks(Request, frozen=True, kw_only=True):
    """Which page of banks, in which order."""

    page: Page = 1
    limit: PerPage = 20
    sort: Annotated[Literal["created_at", "updated_at", "name"], Meta(description="By what to sort.")] = "created_at"
    order: Annotated[Literal["asc", "desc"], Meta(description="`asc` or `desc`.")] = "desc"
    type: Type | None = None


@operation("banks.list", "GET /v1/memory_banks", example=Example({}, _GIVEN))
def list_banks(space: Space, request: ListBanks) -> BankList:
    """The memory banks, page by page."""
    found = [(one, decoded(one.body)) for one in documents.every(space.tx, KIND)]
    chosen = [pair for pair in found if request.type in (None, pair[1].type)]
    chosen.sort(key=lambda pair: (getattr(pair[0], request.sort), pair[0].id), reverse=request.order == "desc")
    first = (request.page - 1) * request.limit
    shown = [_info(*pair) for pair in chosen[first : first + request.limit]]
    return BankList(memory_banks=shown, page=request.page, limit=request.limit, total=len(chosen))


class OfBank(Request, frozen=True, kw_only=True):
    """Which bank."""

    bank: BankId


@operation("banks.get", "GET /v1/memory_banks/{bank}", example=Example(_OF, _GIVEN))
def get(space: Space, request: OfBank) -> BankInfo:
    """A memory bank and its settings."""
    return _info(*find_bank(space, request.bank))


class UpdateBank(Request, frozen=True, kw_only=True):
    """What to change of a bank. What is left away stays; null, 0 or an empty text clears a setting."""

    bank: BankId
    name: Name | None = None
    description: Description | None = _LEFT_AWAY
    compaction_prompt: Prompt | None = _LEFT_AWAY
    max_age_days: Days | None = _LEFT_AWAY
    max_turns: Count | None = _LEFT_AWAY
    max_size_tokens: Count | None = _LEFT_AWAY
    retention_days: Days | None = _LEFT_AWAY
    cross_key_search: CrossKey | None = None
    mode: ModeField | None = None
    type: Type | None = None
    version: (
        Annotated[int, Meta(ge=1, description="The version that was read, to be told of changes since.")] | None
    ) = None


@operation(
    "banks.update",
    "PUT /v1/memory_banks/{bank}",
    effect="write",
    example=Example({**_OF, "max_turns": 200}, _GIVEN),
)
def update(space: Space, request: UpdateBank) -> BankInfo:
    """Change a bank's settings. Its type and mode stay as they are. A changed retention holds for what is stored, too."""
    document, bank = find_bank(space, request.bank)
    for fixed in ("type", "mode"):
        if getattr(request, fixed) not in (None, getattr(bank, fixed)):
            raise Conflict(f"The {fixed} of a bank cannot be changed: make another bank.")
    if request.version not in (None, document.version):
        raise Conflict(f"The current version is {document.version}: read it again and repeat the change.")
    changed = structs.replace(bank, **_changes(request))
    _check(changed)
    if changed.retention_us != bank.retention_us:
        _retain(space, document.id, changed)
    name = document.name if request.name is None else checked_name(request.name)
    following = documents.change(space.tx, KIND, document, name, encoded(changed), space.now)
    _watch(space, changed)
    return _info(following, changed)


def _changes(request: UpdateBank) -> dict[str, Any]:
    """The settings that were given, those that are cleared as None."""
    given = {name: getattr(request, name) for name in _CLEARED}
    changes = {name: value or None for name, value in given.items() if value is not UNSET}
    own = {} if request.cross_key_search is None else {"cross_key_search": request.cross_key_search}
    return changes | own


@operation("banks.delete", "DELETE /v1/memory_banks/{bank}", effect="erase", status=202, example=Example(_OF, _GIVEN))
def delete(space: Space, request: OfBank) -> Erasure:
    """Erase a bank with all its entries, for good."""
    find_bank(space, request.bank)
    documents.erase(space.tx, KIND, request.bank, space.now)
    return _erase_entries(space, request.bank)


@operation(
    "banks.wipe", "DELETE /v1/memory_banks/{bank}/source", effect="erase", status=202, example=Example(_OF, _GIVEN)
)
def wipe(space: Space, request: OfBank) -> Erasure:
    """Erase all entries of a bank, for good. The bank stays and can be written to again."""
    _, bank = find_bank(space, request.bank)
    erasure = _erase_entries(space, request.bank)
    space.collection(place(request.bank, bank.policy()))
    return erasure


class NoFields(Request, frozen=True, kw_only=True):
    """Nothing."""


class BankTemplate(Response, frozen=True, kw_only=True):
    """Settings that fit a purpose; give `settings` to `banks.create`."""

    name: str
    purpose: str
    settings: dict[str, Any]


@operation("banks.templates", "GET /v1/memory_banks/templates")
def templates(space: Space, request: NoFields) -> list[BankTemplate]:
    """Ready settings for common purposes."""
    return [BankTemplate(name=name, purpose=purpose, settings=settings) for name, purpose, settings in _TEMPLATES]


_TEMPLATES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "chat",
        "A chatbot's conversations: the last turns word for word, older ones as a summary.",
        {"type": "conversation", "max_turns": 200, "max_size_tokens": 20_000, "retention_days": 90},
    ),
    (
        "preferences",
        "What is known of each user, for good.",
        {"type": "general", "mode": "balanced", "retention_days": None},
    ),
    (
        "project",
        "Facts and decisions of a project, folded when they are older than half a year.",
        {"type": "general", "max_age_days": 180, "retention_days": 730},
    ),
]


# -- what others use -----------------------------------------------------------------------------------------------------


def find_bank(space: Space, bank_id: str) -> tuple[Document, Bank]:
    """A bank of this tenant; another's is not found."""
    found = documents.find(space.tx, KIND, bank_id) if bank_id.isascii() and bank_id.isprintable() else None
    if found is None:
        raise NotFound(f"There is no memory bank {bank_id!r}.")
    return found, decoded(found.body)


def _info(document: Document, bank: Bank) -> BankInfo:
    return BankInfo(
        id=document.id,
        name=document.name,
        created_at=to_datetime(document.created_at),
        updated_at=to_datetime(document.updated_at),
        source_connection_id=document.id,
        version=document.version,
        **{name: getattr(bank, name) for name in Bank.__struct_fields__},
    )


def _check(bank: Bank) -> None:
    """What the types of single fields cannot say."""
    if bank.language not in LANGUAGES and bank.language not in UNSTEMMED:
        known = ", ".join(sorted([*LANGUAGES, *UNSTEMMED]))
        raise Invalid(f"There is no language {bank.language!r} here. These are known: {known}.", field="language")
    for name in ("description", "compaction_prompt"):
        check.content(getattr(bank, name) or "", may_be_empty=True, field=name)
    given = [name for name in _CUSTOM if getattr(bank, name) is not None]
    if given and bank.mode != "custom":
        raise Invalid(f"`{given[0]}` can be given with `mode` `custom` only.", field=given[0])
    if bank.chunk_overlap and bank.chunk_overlap * 2 > (bank.chunk_size or 0):
        raise Invalid("`chunk_overlap` can be at most half of `chunk_size`.", field="chunk_overlap")


def _check_model(call: Call, bank: Bank) -> None:
    """One embedder serves a store: a bank may insist on it, not bring another."""
    if bank.embedding_model is None and bank.dimensions is None:
        return
    embedder = call.engine.recall.meaning.embedder()
    here = "none" if embedder is None else embedder.id
    if bank.embedding_model not in (None, here):
        raise Invalid(
            f"There is no embedding model {bank.embedding_model!r} here, but {here!r}: MEMWELL_EMBEDDER says which.",
            field="embedding_model",
        )
    if bank.dimensions is not None and (embedder is None or bank.dimensions != embedder.dimensions):
        width = 0 if embedder is None else embedder.dimensions
        raise Invalid(f"The model {here!r} has {width} dimensions, not {bank.dimensions}.", field="dimensions")


def _watch(space: Space, bank: Bank) -> None:
    """Have somebody look every hour whether entries have become too old, once there is a bank that asks for it."""
    if bank.compacts:
        queue.ensure_slot(space.tx, "compact", space.now + HOUR, space.now)


def _retain(space: Space, bank_id: str, bank: Bank) -> None:
    collection_id, _ = space.collection(place(bank_id))
    text = msgspec.json.encode(bank.policy()).decode()
    space.tx.send("set_policy", id=collection_id, policy=text)
    for what in ("entries", "addresses"):
        held = {"collection_id": collection_id, "lifetime": bank.retention_us, "now": space.now}
        space.tx.send(f"lengthen_{what}", **held)
    queue.ensure_slot(space.tx, "expire", space.now, space.now)


def _erase_entries(space: Space, bank_id: str) -> Erasure:
    collections = space.tx.rows("collections_of_name", dialect=KIND, name=bank_id)
    erasure = erase_addresses(space, space.tx.rows("addresses_of_name", dialect=KIND, name=bank_id))
    for (collection_id,) in collections:
        erase_collection(space.tx, collection_id, space.now)
    return erasure
