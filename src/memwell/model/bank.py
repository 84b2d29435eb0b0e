"""A bank: a body of entries partitioned by keys, with its own embedding, compaction and retention."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

import msgspec

from .. import typed
from ..clock import DAY
from ..errors import Invalid
from .collection import Place, Policy
from .fields import ID_PATTERN

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
