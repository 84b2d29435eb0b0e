"""Rows of documents: banks, hooks, apps, stores, definitions, workflows. `catalog` adds their types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..erasure import erase as erasure
from ..erasure import log
from ..errors import Conflict, NotFound, Stale
from ..storage.port import Tx

if TYPE_CHECKING:
    from .space import Space

PAGE = 500
MAX_NAMED = 3
"""The most ids that an error names."""
MAX_SHOWN = 100
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


def explain_missing(tx: Tx, kind: str, document_id: str) -> NotFound:
    """Return the error for an unknown id. If it is the name of documents, the error says their ids."""
    named = list_by_name(tx, kind, document_id) if document_id.isprintable() else []
    advice = f" Give an id instead of the name: {', '.join(one.id for one in named[:MAX_NAMED])}." if named else ""
    return NotFound(f"There is no {_noun(kind)} {document_id[:MAX_SHOWN]!r}.{advice}")


def list_documents(tx: Tx, kind: str) -> list[Document]:
    """Return all documents of a kind, by id; there are at most `MAX_DOCUMENTS`."""
    found: list[Document] = []
    after = ""
    while rows := tx.rows("list_documents", kind=kind, after=after, limit=PAGE):
        found += [Document(*row) for row in rows]
        after = found[-1].id
    return found


def count(tx: Tx, kind: str) -> int:
    row = tx.row("count_documents", kind=kind)
    return 0 if row is None else int(row[0])


def add(space: Space, kind: str, document: Document) -> None:
    if count(space.tx, kind) >= MAX_DOCUMENTS:
        raise Conflict(f"There are {MAX_DOCUMENTS:,} {_noun(kind)}s already: delete one first.")
    space.mention(kind, document.id)
    space.tx.send(
        "add_document",
        kind=kind,
        id=document.id,
        name=document.name,
        version=document.version,
        body=document.body,
        now=document.created_at,
    )


def change(space: Space, kind: str, old: Document, name: str, body: str) -> Document:
    """Store the next version of a document, if it is still the one that was read."""
    space.mention(kind, old.id)
    changed = {"name": name, "body": body, "now": space.now, "seen": old.version}
    if not space.tx.run("set_document", kind=kind, id=old.id, **changed):
        raise Stale("It was changed in the meantime: read it again and repeat the change.")
    return old._replace(name=name, version=old.version + 1, body=body, updated_at=space.now)


def erase(space: Space, kind: str, document_id: str) -> bool:
    """Delete a document with the stored answers that describe it, and soon its last traces. Log the erasure, so that a backup
    that is restored later deletes it too."""
    found = find(space.tx, kind, document_id)
    if found is None:
        return False
    log.note(space.tx, "document", log.document_mark(kind, document_id, found.created_at), space.now)
    erasure.forget_thing(space.tx, kind, document_id, space.now)
    return remove(space.tx, kind, document_id)


def remove(tx: Tx, kind: str, document_id: str) -> bool:
    return bool(tx.run("delete_document", kind=kind, id=document_id))


def _noun(kind: str) -> str:
    """Return the noun of a kind, such as `definition_slug` or `store:shop`."""
    return re.split("[_:]", kind, maxsplit=1)[0]
