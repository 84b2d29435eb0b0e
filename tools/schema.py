"""Today's schema, as the migrations make it: one file to read instead of all of them."""

from __future__ import annotations

import apsw

from memwell.storage.sqlite import connect


def generate() -> str:
    parts = ["-- Today's schema, generated from the migrations by `make format`. A test proves the two equal."]
    for folder, title in (("sqlite", "a tenant's file"), ("control", "control.db")):
        db = apsw.Connection(":memory:")
        connect.migrate(db, folder)
        rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        parts += [f"-- {title}", *(f"{row[0]};" for row in rows)]
    return "\n\n".join(parts) + "\n"
