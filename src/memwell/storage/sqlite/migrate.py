"""Bringing a file up to the present schema, one numbered step at a time.

A step and its number are committed together, so a process killed half-way leaves the step before it and the next opening
goes on from there. Steps only go forward.
"""

from __future__ import annotations

import apsw

from ...errors import Corrupted, Unsupported
from .. import queries

APPLICATION_ID = 0x4D656D77  # "Memw"


def newest(folder: str) -> int:
    return max(number for number, _, _ in queries.migrations(folder))


def is_current(db: apsw.Connection, folder: str, file: str) -> bool:
    """Whether nothing is to be done; refuses files that are not ours or were written by a newer program."""
    version = int(db.pragma("user_version"))
    if version > newest(folder):
        raise Unsupported(f"{file} was written by a newer version of Memwell: upgrade this program.")
    if version and db.pragma("application_id") != APPLICATION_ID:
        raise Corrupted(f"{file} is not a Memwell file.")
    if not version and _holds_tables(db):
        raise Corrupted(f"{file} is not a Memwell file.")
    return version == newest(folder)


def _holds_tables(db: apsw.Connection) -> bool:
    try:
        return bool(db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall())
    except (apsw.NotADBError, apsw.CorruptError):  # a creation that a power loss tore: the writer rolls it back
        return False


def migrate(db: apsw.Connection, folder: str) -> None:
    for number, _, text in queries.migrations(folder):
        db.execute("BEGIN IMMEDIATE")
        try:
            if int(db.pragma("user_version")) < number:
                _step(db, number, text)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise


def _step(db: apsw.Connection, number: int, text: str) -> None:
    for statement in queries.statements(text):
        db.execute(statement)
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", number)
