"""Named SQL, read from the `.sql` file of each room.

A query begins with `-- name: <name>` and a description. Its text is the same for every engine, or is written once per
engine below a line `-- engine: <engine>`. Conventions:

- `:tenant` is bound by the transaction, never by a caller; in PostgreSQL also `:next_docid`. The queries of
  `system.sql` are above the tenants and loaded separately.
- `x IN NUMBERS(:list)` and `x IN TEXTS(:list)` compare with a list that is bound as JSON text. Each engine has its own SQL
  for that.
- An optional parameter is tested by `CAST(:x AS BIGINT) IS NULL`, because PostgreSQL needs its type.
- Where PostgreSQL gets rows by their numbers, each is looked up by a lateral sub-select: a plan that was made while the
  tables were small would otherwise read all rows of a tenant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from ..errors import Unsupported

Engine = Literal["sqlite", "postgres"]

ROOMS = ("core", "timelines", "facts", "records", "banks", "runs", "files", "jobs", "search", "erasure")

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_ENGINE = re.compile(r"^-- engine: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
_LIST = re.compile(r"IN (NUMBERS|TEXTS)\((:\w+)\)")
_LISTS: dict[str, dict[str, str]] = {
    "sqlite": dict.fromkeys(("NUMBERS", "TEXTS"), "IN (SELECT value FROM json_each({}))"),
    "postgres": {
        "NUMBERS": "= ANY(CAST(STRING_TO_ARRAY(BTRIM({}, '[]'), ',') AS BIGINT[]))",
        "TEXTS": "= ANY(ARRAY(SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST({} AS JSON))))",
    },
}


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    description: str
    sql: str
    parameters: frozenset[str]


@cache
def load(engine: Engine) -> dict[str, Query]:
    """The queries inside a tenant."""
    return parse("\n".join(read(f"{room}.sql") for room in ROOMS), engine)


@cache
def load_system() -> dict[str, Query]:
    """The queries above the tenants, which are the same for every engine."""
    return parse(read("system.sql"), "sqlite")


def parse(text: str, engine: Engine) -> dict[str, Query]:
    """Parse the queries for an engine. A name may occur only once."""
    queries: dict[str, Query] = {}
    parts = _HEAD.split(text)[1:]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"query {name} is written twice")
        shared, *variants = _ENGINE.split(body)
        texts = dict(zip(variants[::2], variants[1::2], strict=True))
        if texts and engine not in texts:
            continue
        description = " ".join(line[3:] for line in shared.splitlines() if line.startswith("-- "))
        lines = (shared + texts.get(engine, "")).splitlines()
        sql = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
        sql = _LIST.sub(lambda found: _LISTS[engine][found[1]].format(found[2]), sql)
        queries[name] = Query(name, description, sql, frozenset(_PARAMETER.findall(sql)))
    return queries


@cache
def migrations(folder: str) -> list[tuple[int, str, str]]:
    """Number, name and text of every migration in a folder, in order."""
    files = resources.files(__package__) / "sql" / "migrations" / folder
    names = sorted(file.name for file in files.iterdir() if file.name.endswith(".sql"))
    return [(int(name[:4]), name[5:-4], read(f"migrations/{folder}/{name}")) for name in names]


def newest(folder: str) -> int:
    return migrations(folder)[-1][0]


def require_supported(version: int, folder: str, subject: str) -> None:
    """Refuse a schema that this program cannot upgrade. The first migration is the baseline, and 0 is an empty database."""
    baseline = migrations(folder)[0][0]
    if version > newest(folder):
        raise Unsupported(f"{subject} was written by a newer version of Memwell: upgrade this program.")
    if 0 < version < baseline:
        raise Unsupported(
            f"{subject} has schema {version}, from a development version before release 0.1.0. This program needs schema "
            f"{baseline}: open it once with commit 47fc93f of Memwell, which upgrades it."
        )


def statements(text: str) -> list[str]:
    """The statements of a migration. Each ends with a semicolon at the end of a line."""
    bare = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE)
    return [statement.strip() for statement in re.split(r";\s*$", bare, flags=re.MULTILINE) if statement.strip()]


def read(path: str) -> str:
    return (resources.files(__package__) / "sql" / path).read_text(encoding="utf-8")
