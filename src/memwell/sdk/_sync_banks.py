"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

from .. import sdk
from ..errors import Invalid
from ._sync_jobs import erase, pages
from .transport import Transport
from .values import Handle, Message, Moment, Receipt, omit_none, to_list

Added: TypeAlias = "sdk.AddedEntries"


class Banks(Handle):
    """Memory banks: entries partitioned by keys, for agents that are built from steps."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, **settings: Unpack[sdk.BankSettings]) -> Bank:
        """Create a bank: `type` is `conversation` or `general`; `max_turns` and the like have it compact itself; with
        `retention_days=None` entries stay for good."""
        info: sdk.BankInfo = self._transport.call("banks.create", {"name": name, **settings})
        return Bank(self._transport, info.id)

    def open(self, bank_id: str) -> Bank:
        """Return a bank by its id, which `list(name=…)` finds."""
        return Bank(self._transport, bank_id)

    def list(self, **conditions: Unpack[sdk.BankPage]) -> sdk.BankList:
        """Return a page of banks: `page`, `limit`, `sort`, `order`, `type`, `name`."""
        found: sdk.BankList = self._transport.call("banks.list", {**conditions})
        return found


class Bank(Handle):
    """One memory bank."""

    def __init__(self, transport: Transport, bank_id: str) -> None:
        self._transport = transport
        self.id = bank_id

    def info(self) -> sdk.BankInfo:
        """Return its settings."""
        found: sdk.BankInfo = self._transport.call("banks.get", {"bank": self.id})
        return found

    def update(self, **changes: Unpack[sdk.BankUpdate]) -> sdk.BankInfo:
        """Change settings; None, 0 or an empty text clears one."""
        info: sdk.BankInfo = self._transport.call("banks.update", {"bank": self.id, **changes})
        return info

    def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the bank with all its entries."""
        return erase(self._transport, "banks.delete", {"bank": self.id}, timeout_s)

    def wipe(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase all entries. The bank stays."""
        return erase(self._transport, "banks.wipe", {"bank": self.id}, timeout_s)

    def add(
        self,
        content: str,
        *,
        key: str,
        speaker: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        compacts: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Added:
        """Write an entry. A conversation bank returns its messages, ready for a model."""
        data = omit_none(speaker=speaker, metadata=metadata, compacts=None if compacts is None else to_list(compacts))
        data |= {"bank": self.id, "key": key, "content": content}
        return self._transport.call("banks.add", data, key=idempotency_key)

    def search(
        self,
        query: str,
        *,
        key: str | None = None,
        top_n: int = 10,
        filter: Mapping[str, Any] | None = None,
        added_after: Moment | None = None,
        added_before: Moment | None = None,
        min_score: float | None = None,
        content_type: str | None = None,
        include_compacted: bool | None = None,
    ) -> sdk.Matches:
        """Search the entries of one key, or of all keys; with `include_compacted` also those that summaries have replaced."""
        data = omit_none(key=key, filter=filter, added_after=added_after, added_before=added_before)
        data |= omit_none(min_score=min_score, content_type=content_type, include_compacted=include_compacted)
        data |= {"bank": self.id, "query": query, "top_n": top_n}
        return self._transport.call("banks.search", data)

    def load(self, key: str, **conditions: Unpack[sdk.Loading]) -> sdk.Loaded:
        """Load the entries of a key in order: `order`, `limit`, `content_type`, `shape`, `include_compacted`."""
        return self._transport.call("banks.load", {"bank": self.id, "key": key, **conditions})

    def messages(self, key: str, limit: int = 100) -> list[Message]:
        """Return the messages of a conversation bank, the oldest first."""
        loaded = self.load(key, order="newest_first", limit=limit)
        if loaded.messages is None:
            raise Invalid("A general bank has no messages: `load` gives its entries.")
        return [*reversed(loaded.messages)]

    def entries(
        self,
        *,
        key: str | None = None,
        filter: Mapping[str, Any] | None = None,
        include_compacted: bool = False,
        summary: str | None = None,
    ) -> Iterator[sdk.BankEntry]:
        """Yield all entries, by key and in the order of writing; with `include_compacted` also those behind summaries,
        too, and with a `summary` (an id) exactly what that was made of."""
        data: dict[str, Any] = {"bank": self.id, "include_compacted": include_compacted}
        data |= omit_none(key=key, filter=filter, summary=summary)
        for entry in pages(self._transport, "banks.entries", "entries", data):
            yield entry

    def entry(self, entry_id: str) -> sdk.BankEntry:
        """Return one entry, also one behind a summary. `entries(summary=…)` lists the entries of a summary."""
        return self._transport.call("banks.entry", {"bank": self.id, "id": entry_id})

    def delete_entry(self, entry_id: str) -> sdk.DeletedEntries:
        """Erase one entry."""
        return self._transport.call("banks.delete_entry", {"bank": self.id, "id": entry_id})

    def delete_entries(
        self,
        *,
        key: str | None = None,
        filter: Mapping[str, Any] | None = None,
        maximum: int = 1000,
        dry_run: bool = False,
    ) -> sdk.DeletedEntries:
        """Erase entries by key and metadata, or with a dry run only list them."""
        data = {"bank": self.id, "maximum": maximum, "dry_run": dry_run, **omit_none(key=key, filter=filter)}
        return self._transport.call("banks.delete_entries", data)

    def stats(self, **conditions: Unpack[sdk.Days]) -> sdk.BankStats:
        """Return statistics of the last `days` (before `end_date`, if given), or from `start_date` on."""
        return self._transport.call("banks.stats", {"bank": self.id, **conditions})

    def keys(self) -> list[sdk.Counted]:
        """List the keys with their numbers of entries."""
        return self._transport.call("banks.keys", {"bank": self.id})

    def compact(self, *, key: str | None = None) -> sdk.Compacting:
        """Fold the entries beyond the thresholds into summaries now. The `job` reports the end."""
        data = {"bank": self.id, **omit_none(key=key)}
        return self._transport.call("banks.compact", data)

    def test_compaction(self, **how: Unpack[sdk.Sampled]) -> sdk.Trial:
        """Try a compaction, for a `key` or for `sample_entries`. Nothing is changed."""
        return self._transport.call("banks.test_compaction", {"bank": self.id, **how})
