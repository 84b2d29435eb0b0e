"""The tables of a tenant, read from the schema, and the queries that copy their rows from one store to another."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from . import queries
from .queries import Query

TABLES = (
    "collection", "address", "model", "entry", "fact", "evidence", "plan", "document", "summary", "folded", "run",
    "run_step", "run_touch", "record", "record_version", "record_tie", "file", "spending", "idempotency", "idempotency_touch",
    "job", "event", "removal", "erasure",
)  # fmt: skip
"""The tables that every engine has in the same form, in the order of copying: a table comes after those it refers to.
Words, vectors and the bytes of files are stored differently by each engine."""

_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)", re.DOTALL)
_COLUMN = re.compile(r"^\s*(\w+) (INTEGER|TEXT|REAL|BLOB)\b(.*)$", re.MULTILINE)
_KEY = re.compile(r"^\s*PRIMARY KEY \(tenant, (.+?)\)", re.MULTILINE)
_ADDITION = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")
_LOWEST: dict[str, Any] = {"INTEGER": -1, "TEXT": "", "BLOB": b""}
_AFTER = ("after", "after_too")
_COUNT = "(SELECT COUNT(*) FROM {} WHERE tenant = :tenant)"
_TEMPLATE = """
-- name: page_{name}
-- The rows of `{name}` behind a key.
SELECT {columns} FROM {name} WHERE tenant = :tenant AND {behind} ORDER BY {key} LIMIT :limit;

-- name: end_of_{name}
-- The last key of `{name}`.
SELECT {key} FROM {name} WHERE tenant = :tenant ORDER BY {descending} LIMIT 1;

-- name: put_{name}
-- Add a row of `{name}` with all its columns.
INSERT INTO {name} (tenant, {columns}) VALUES (:tenant, {values});
"""


class Table(NamedTuple):
    """A table without its column `tenant`. `lowest` is a key below every other."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    lowest: tuple[Any, ...]

    def key_of(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[self.columns.index(name)] for name in self.key)

    def after(self, key: tuple[Any, ...]) -> dict[str, Any]:
        """The parameters of `page_<table>` for the rows behind a key."""
        return dict(zip(_AFTER, key, strict=False))


@cache
def load_tables() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for _, _, text in queries.migrations("sqlite"):
        for statement in queries.statements(text):
            if found := _TABLE.match(statement):
                tables[found[1]] = _parse_table(found[1], found[2])
            elif found := _ADDITION.match(statement):
                table = tables[found[1]]
                tables[found[1]] = table._replace(columns=(*table.columns, found[2]))
    return {name: tables[name] for name in TABLES}


def _parse_table(name: str, body: str) -> Table:
    columns = _COLUMN.findall(body)
    types = {column: kind for column, kind, _ in columns}
    key = _KEY.search(body)
    single = [column for column, _, more in columns if "PRIMARY KEY" in more]
    names = tuple(key[1].split(", ") if key else single)
    lowest = tuple(_LOWEST[types[column]] for column in names)
    return Table(name, tuple(column for column in types if column != "tenant"), names, lowest)


@cache
def copy_queries() -> dict[str, Query]:
    """For each table `page_<table>` (the rows behind a key), `end_of_<table>` (the last key) and `put_<table>` (one row),
    and `count_all`. Every engine runs them as they stand."""
    text = ""
    for name, columns, key, _ in load_tables().values():
        ordered = ", ".join(key)
        after = ", ".join(f":{parameter}" for parameter, _ in zip(_AFTER, key, strict=False))
        text += _TEMPLATE.format(
            name=name,
            columns=", ".join(columns),
            values=", ".join(f":{column}" for column in columns),
            behind=f"({ordered}) > ({after})" if len(key) > 1 else f"{ordered} > {after}",
            key=ordered,
            descending=", ".join(f"{column} DESC" for column in key),
        )
    counts = " + ".join(_COUNT.format(name) for name in TABLES)
    text += f"-- name: count_all\n-- The number of rows of a tenant.\nSELECT {counts};\n"
    return queries.parse(text, "sqlite")
