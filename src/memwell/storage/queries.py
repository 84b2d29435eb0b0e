"""Named SQL, read from `.sql` files.

A query begins with `-- name: <name>` and a line or more of description. `common.sql` holds what every engine runs
verbatim, `<engine>.sql` what each words differently under the same names, `system.sql` what stands above the tenants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    description: str
    sql: str
    parameters: frozenset[str]


@cache
def load(*files: str, bound: str = ":{}") -> dict[str, Query]:
    """All queries of some files; a name may occur once only. `bound` says how the engine writes a parameter."""
    queries: dict[str, Query] = {}
    for file in files:
        for query in parse(read(f"{file}.sql")):
            if query.name in queries:
                raise ValueError(f"query {query.name} is written twice")
            queries[query.name] = replace(query, sql=_PARAMETER.sub(lambda found: bound.format(found[1]), query.sql))
    return queries


def parse(text: str) -> list[Query]:
    parts = _HEAD.split(text)[1:]
    return [_query(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True)]


@cache
def migrations(folder: str) -> list[tuple[int, str, str]]:
    """Number, name and text of every migration in a folder, in order."""
    files = resources.files(__package__) / "sql" / "migrations" / folder
    found = sorted(file.name for file in files.iterdir() if file.name.endswith(".sql"))
    return [(int(name[:4]), name[5:-4], read(f"migrations/{folder}/{name}")) for name in found]


def statements(text: str) -> list[str]:
    """The statements of a migration: each ends with a semicolon at the end of a line."""
    bare = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE)
    return [statement.strip() for statement in re.split(r";\s*$", bare, flags=re.MULTILINE) if statement.strip()]


def read(path: str) -> str:
    return (resources.files(__package__) / "sql" / path).read_text(encoding="utf-8")


def _query(name: str, body: str) -> Query:
    lines = body.strip().splitlines()
    description = " ".join(line[3:] for line in lines if line.startswith("-- "))
    sql = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
    return Query(name, description, sql, frozenset(_PARAMETER.findall(sql)))
