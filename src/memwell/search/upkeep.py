"""Updates of the search tables, inside the transaction that writes or deletes entries."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.collection import Entry
from ..storage.port import Row, Tx, encode_numbers
from . import words
from .people import find_people

HELD = "held"
"""The kind of quarantined facts."""
STATEMENTS = ("fact", "past", HELD, "note", "summary")
"""The kinds of entries that stand for themselves. All others are turns of a conversation."""


def add_entry(tx: Tx, docid: int, address_id: int, collection_id: int, entry: Entry, language: str) -> None:
    """Index the words of a new entry. Its vectors are computed later, by a search or in the background."""
    text = build_entry_tokens(address_id, collection_id, entry.kind, entry.name, entry.content, language)
    tx.send("add_words", docid=docid, tokens=text)


def build_entry_tokens(
    address_id: int, collection_id: int, kind: str, name: str | None, content: str, language: str
) -> str:
    """Tokens of the place of an entry, its speaker and its text, and of the people that a statement is about."""
    tokens = dict.fromkeys(words.tokenize(f"{name} {content}" if name else content, language))
    if kind in STATEMENTS:
        people = words.tokenize(" ".join(find_people(content)), language)
        tokens |= dict.fromkeys(f"{words.PERSON}{token}" for token in people)
    return " ".join([words.build_place_tokens(address_id, collection_id), *tokens])


def remove_entries(tx: Tx, rows: Sequence[Row], *, noted: bool = True) -> None:
    """Remove entries from search, by their numbers. Entries that no reader can find any more need not be noted."""
    docids = [int(row[0]) for row in rows]
    if not docids:
        return
    for table in ("words", "vectors", "facts", "folds", "summaries"):
        tx.send(f"delete_{table}", docids=encode_numbers(docids))
    tx.send("delete_ties_of", addresses=encode_numbers(-docid for docid in docids))
    if noted:
        mark_changed(tx, rows)


def mark_changed(tx: Tx, rows: Sequence[Row]) -> None:
    """Make every index in memory check some entries again, by their numbers. The words of retired versions stay in the tables,
    for searches in the past."""
    for row in rows:
        tx.send("add_removal", docid=int(row[0]), address_id=None)


def remove_addresses(tx: Tx, addresses: Sequence[int]) -> None:
    """Remove addresses from every index in memory. Their words and vectors are deleted with their entries."""
    tx.send("add_removals", addresses=encode_numbers(addresses))
