"""Rows of documents: banks, hooks, apps, stores, definitions, workflows. `catalog` adds their types."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..erasure import log
from ..errors import Conflict, Stale
from ..storage.port import Tx

PAGE = 500
MAX_DOCUMENTS = 2000
"""Largest number of documents of one kind per tenant."""


class Document(NamedTuple):
    """A stored document. Columns in the order of `find_document`."""

    id: str
    name: str
    version: int
    body: str
    created_at: int
    updated_at: int


def find(tx: Tx, kind: str, document_id: str) -> Document | None:
    row = tx.row("find_document", kind=kind, id=document_id)
    return None if row is None else Document(*row)


def list_by_name(tx: Tx, kind: str, name: str) -> list[Document]:
    return [Document(*row) for row in tx.rows("named_documents", kind=kind, name=name)]


def list_documents(tx: Tx, kind: str) -> list[Document]:
    """Return all documents of a kind, by id; there are at most `MAX_DOCUMENTS`."""
    found: list[Document] = []
    after = ""
    while rows := tx.rows("list_documents", kind=kind, after=after, limit=PAGE):
        found += [Document(*row) for row in rows]
        after = found[-1].id
    return found


def add(tx: Tx, kind: str, document: Document) -> None:
    row = tx.row("count_documents", kind=kind)
    if row is not None and row[0] >= MAX_DOCUMENTS:
        raise Conflict(f"There are {MAX_DOCUMENTS:,} {_noun(kind)}s already: delete one first.")
    tx.send(
        "add_document",
        kind=kind,
        id=document.id,
        name=document.name,
        version=document.version,
        body=document.body,
        now=document.created_at,
    )


def change(tx: Tx, kind: str, old: Document, name: str, body: str, now: int) -> Document:
    """Store the next version of a document, if it is still the one that was read."""
    changed = {"name": name, "body": body, "now": now, "seen": old.version}
    if not tx.run("set_document", kind=kind, id=old.id, **changed):
        raise Stale("It was changed in the meantime: read it again and repeat the change.")
    return old._replace(name=name, version=old.version + 1, body=body, updated_at=now)


def erase(tx: Tx, kind: str, document_id: str, now: int) -> bool:
    """Delete a document and log the erasure, so that a backup that is restored later deletes it too."""
    found = find(tx, kind, document_id)
    if found is None:
        return False
    log.note(tx, "document", log.document_mark(kind, document_id, found.created_at), now)
    return remove(tx, kind, document_id)


def remove(tx: Tx, kind: str, document_id: str) -> bool:
    return bool(tx.run("delete_document", kind=kind, id=document_id))


def _noun(kind: str) -> str:
    """Return the noun of a kind, such as `definition_slug` or `store:shop`."""
    return re.split("[_:]", kind, maxsplit=1)[0]
