"""What PostgreSQL's catalog says about our tables: the schema as text, and whether it keeps the rules of sharing.

The text is SQL that makes the same schema, in an order that does not depend on how it came about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg

from memwell.storage.postgres.connect import SCHEMA
from memwell.storage.postgres.migrate import SHARED, SYSTEM_TABLES, TENANT_TABLES, UNFORCED

Db = psycopg.Connection[tuple[Any, ...]]

WITHIN = "(tenant = current_setting('memwell.tenant'::text, true))"
ABOVE = "(current_setting('memwell.system'::text, true) = 'on'::text)"
INSIDE = frozenset({"writer", *TENANT_TABLES})

# Indexes that do not begin with the tenant.
ACROSS = {
    r"word_tokens": "of words and of opaque places, each of one tenant; only the function `postings` uses it",
    r"vector_graph_\d+": "of the vectors of large collections; what it finds is looked up within the tenant",
}

_TABLES = """
SELECT c.relname, COALESCE(' WITH (' || ARRAY_TO_STRING(c.reloptions, ', ') || ')', ''), c.relrowsecurity,
  c.relforcerowsecurity
FROM pg_class c WHERE c.relnamespace = TO_REGNAMESPACE(%(schema)s) AND c.relkind IN ('r', 'p') ORDER BY c.relname COLLATE "C"
"""
_COLUMNS = """
SELECT c.relname, a.attname, FORMAT_TYPE(a.atttypid, a.atttypmod),
  CASE WHEN a.attcollation <> t.typcollation THEN l.collname END, a.attnotnull, PG_GET_EXPR(d.adbin, d.adrelid),
  a.attidentity::text || a.attgenerated::text,
  CASE WHEN a.attstorage <> t.typstorage
    THEN CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = TO_REGNAMESPACE(%(schema)s) AND c.relkind IN ('r', 'p') ORDER BY c.relname COLLATE "C", a.attnum
"""
_CONSTRAINTS = """
SELECT c.relname, k.conname, k.contype::text, PG_GET_CONSTRAINTDEF(k.oid, TRUE), r.relname,
  (SELECT attname FROM pg_attribute WHERE attrelid = k.conrelid AND attnum = k.conkey[1]),
  (SELECT attname FROM pg_attribute WHERE attrelid = k.confrelid AND attnum = k.confkey[1])
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid LEFT JOIN pg_class r ON r.oid = k.confrelid
WHERE k.connamespace = TO_REGNAMESPACE(%(schema)s) AND k.contype <> 'n' ORDER BY c.relname COLLATE "C", k.conname COLLATE "C"
"""
_INDEXES = """
SELECT c.relname, i.relname, x.indisunique, PG_GET_INDEXDEF(x.indexrelid, 0, TRUE),
  ARRAY(SELECT COALESCE(a.attname::text, '(an expression)') FROM UNNEST(x.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND k.number > 0 ORDER BY k.place),
  PG_GET_EXPR(x.indpred, x.indrelid, TRUE), EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.oid AND k.contype <> 'f')
FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
WHERE c.relnamespace = TO_REGNAMESPACE(%(schema)s) ORDER BY c.relname COLLATE "C", i.relname COLLATE "C"
"""
_POLICIES = """
SELECT tablename, policyname, permissive, ARRAY_TO_STRING(roles, ', '), cmd, qual, with_check
FROM pg_policies WHERE schemaname = %(schema)s ORDER BY tablename COLLATE "C", policyname COLLATE "C"
"""
_FUNCTIONS = """
SELECT p.proname, PG_GET_FUNCTIONDEF(p.oid), p.oid::regprocedure::text FROM pg_proc p
WHERE p.pronamespace = TO_REGNAMESPACE(%(schema)s)
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY 1, 3
"""
_GRANTS = """
SELECT what.name, STRING_AGG(g.privilege_type, ', ' ORDER BY g.privilege_type), COALESCE(r.rolname, 'PUBLIC')
FROM (
  SELECT 'SCHEMA ' || nspname AS name, nspacl AS acl, nspowner AS owner, 'n' AS kind
  FROM pg_namespace WHERE nspname = %(schema)s
  UNION ALL SELECT 'TABLE ' || relname, relacl, relowner, 'r'
  FROM pg_class WHERE relnamespace = TO_REGNAMESPACE(%(schema)s) AND relkind IN ('r', 'p', 'v', 'm')
  UNION ALL SELECT 'FUNCTION ' || oid::regprocedure, proacl, proowner, 'f'
  FROM pg_proc WHERE pronamespace = TO_REGNAMESPACE(%(schema)s)
) AS what
CROSS JOIN ACLEXPLODE(COALESCE(what.acl, ACLDEFAULT(what.kind::"char", what.owner))) AS g
LEFT JOIN pg_roles r ON r.oid = g.grantee
WHERE g.grantee <> what.owner GROUP BY what.name, r.rolname ORDER BY what.name COLLATE "C", 3
"""
_OTHERS = """
SELECT CASE relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' ELSE 'relation' END, relname
FROM pg_class WHERE relnamespace = TO_REGNAMESPACE(%(schema)s) AND relkind NOT IN ('r', 'p', 'i', 'I', 't')
UNION ALL SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = TO_REGNAMESPACE(%(schema)s) AND NOT t.tgisinternal
UNION ALL SELECT 'rule', w.rulename FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class
WHERE c.relnamespace = TO_REGNAMESPACE(%(schema)s) AND c.relkind <> 'v'
ORDER BY 1, 2
"""


def ask(db: Db, query: str) -> list[tuple[Any, ...]]:
    return db.execute(query.encode(), {"schema": SCHEMA}).fetchall()


def tables(db: Db) -> list[str]:
    return [row[0] for row in ask(db, _TABLES)]


def columns(db: Db) -> dict[str, dict[str, tuple[str, bool]]]:
    """For each table, the type of each column, and whether it must hold something."""
    found: dict[str, dict[str, tuple[str, bool]]] = {table: {} for table in tables(db)}
    for table, name, kind, _, filled, *_ in ask(db, _COLUMNS):
        found[table][name] = kind, filled
    return found


def indexes(db: Db) -> dict[str, tuple[str, bool, list[str], bool]]:
    """For each index its table, whether it is unique, its columns, and whether it leaves out rows."""
    return {row[1]: (row[0], row[2], row[4], row[5] is not None) for row in ask(db, _INDEXES)}


def collations(db: Db) -> dict[tuple[str, str], str | None]:
    """The collation of each column of text; None is the database's."""
    return {(row[0], row[1]): row[3] for row in ask(db, _COLUMNS) if row[2] == "text"}


def fill(db: Db, tenant: str, number: int, only: str | None = None) -> None:
    """One row of a tenant in each table, or in one; those that are referred to come first."""
    there = columns(db)
    for table in ("tenant", *(name for name in SYSTEM_TABLES if name != "tenant"), "writer", *reversed(TENANT_TABLES)):
        if only in (None, table):
            names = list(there[table])
            values = [_value(table, name, there[table][name][0], tenant, number) for name in names]
            places = ", ".join(["%s"] * len(names))
            db.execute(f"INSERT INTO {SCHEMA}.{table} ({', '.join(names)}) VALUES ({places})".encode(), values)


def _value(table: str, name: str, kind: str, tenant: str, number: int) -> Any:
    if name == "tenant" or (table, name) == ("tenant", "id"):
        return tenant
    text = f"{tenant}-{number}"
    known = {"text": text, "bytea": text.encode(), "bigint": number, "boolean": False, "double precision": 0.5}
    return known.get(kind, "[1,2]" if kind == "halfvec" else f"'{text}'")


# -- the schema as text --------------------------------------------------------------------------------------------------


def schema_text(db: Db) -> str:
    """Everything that migrations make, as SQL."""
    with db.transaction():
        db.execute(f"SET LOCAL search_path = {SCHEMA}, public")
        return "\n\n".join(["\n".join(part) for part in _parts(db) if part])


def _parts(db: Db) -> Iterator[list[str]]:
    defined, constraints, made = ask(db, _COLUMNS), ask(db, _CONSTRAINTS), ask(db, _INDEXES)
    policies = ask(db, _POLICIES)
    for table, options, enabled, forced in ask(db, _TABLES):
        lines = [_column(*row[1:7]) for row in defined if row[0] == table]
        lines += [f"CONSTRAINT {row[1]} {row[3]}" for row in constraints if row[0] == table and row[2] != "f"]
        yield [f"CREATE TABLE {table} (\n  " + ",\n  ".join(lines) + f"\n){options};"]
        stored = [row for row in defined if row[0] == table and row[7]]
        yield [f"ALTER TABLE {table} ALTER COLUMN {row[1]} SET STORAGE {row[7]};" for row in stored]
        yield [f"{row[3]};" for row in made if row[0] == table and not row[6]]
        words = ["ENABLE"] * enabled + ["FORCE"] * forced
        secured = ", ".join(f"{word} ROW LEVEL SECURITY" for word in words)
        yield [f"ALTER TABLE {table} {secured};"] * bool(words) + [_policy(*row) for row in policies if row[0] == table]
    for _, text, name in ask(db, _FUNCTIONS):
        yield [text.strip() + ";", f"REVOKE ALL ON FUNCTION {name} FROM PUBLIC;"]
    yield [f"ALTER TABLE {row[0]} ADD CONSTRAINT {row[1]} {row[3]};" for row in constraints if row[2] == "f"]
    yield [f"GRANT {rights} ON {what} TO {role};" for what, rights, role in ask(db, _GRANTS)]
    yield [f"-- there is a {kind} {name}" for kind, name in ask(db, _OTHERS)]


def _column(name: str, kind: str, collation: str | None, filled: bool, default: str | None, special: str) -> str:
    parts = [name, kind, f'COLLATE "{collation}"' if collation else "", "NOT NULL" if filled else ""]
    parts += [f"DEFAULT {default}" if default is not None else "", f"-- special: {special}" if special.strip() else ""]
    return " ".join(filter(None, parts))


def _policy(table: str, name: str, permissive: str, roles: str, command: str, rule: str, check: str | None) -> str:
    parts = [f"CREATE POLICY {name} ON {table} AS {permissive} FOR {command} TO {roles}", f"USING ({rule})"]
    return "\n  ".join(parts + ([f"WITH CHECK ({check})"] if check else [])) + ";"


# -- the rules -----------------------------------------------------------------------------------------------------------


def unprotected(db: Db) -> list[str]:
    """Tables that show rows to whoever has not said which tenant, or what stands beside the tables."""
    policies: dict[str, list[tuple[Any, ...]]] = {}
    for table, *rest in ask(db, _POLICIES):
        policies.setdefault(table, []).append(tuple(rest))
    found = [f"{kind} {name}" for kind, name in ask(db, _OTHERS) if kind not in ("trigger", "rule")]
    for table, _, enabled, forced in ask(db, _TABLES):
        rule = WITHIN if table in INSIDE else ABOVE
        if not enabled:
            found.append(f"{table}: row-level security is off")
        if not forced and table != UNFORCED:
            found.append(f"{table}: its owner is not held to it")
        known = [("known", "PERMISSIVE", "public", "SELECT", ABOVE, None)] if table == SHARED else []
        if policies.get(table) != [("its_own", "PERMISSIVE", "public", "ALL", rule, rule), *known]:
            found.append(f"{table}: other policies than the one")
    return found


def broken_rules(db: Db) -> list[str]:
    """What keeps the tables from being distributed by tenant (rules 1, 3, 5 and 7)."""
    found = [f"a {kind}: {name}" for kind, name in ask(db, _OTHERS)]
    found += [f"{table}: neither a tenant's nor the system's" for table in set(tables(db)) - INSIDE - {*SYSTEM_TABLES}]
    return sorted([*found, *_of_columns(db), *_of_keys(db), *_of_indexes(db), *_of_references(db)])


def _of_columns(db: Db) -> Iterator[str]:
    for table, name, kind, collation, filled, default, special, _ in ask(db, _COLUMNS):
        if special.strip():
            yield f"{table}.{name}: made by the server"
        if default is not None and re.search(r"\(", default):
            yield f"{table}.{name}: a default that is computed"
        if table in INSIDE and name == "tenant" and (kind, collation, filled) != ("text", "C", True):
            yield f"{table}.tenant: not text that is always there"


def _of_keys(db: Db) -> Iterator[str]:
    constraints = ask(db, _CONSTRAINTS)
    for table in set(tables(db)) & INSIDE:
        if (table, "p") not in {(row[0], row[2]) for row in constraints}:
            yield f"{table}: no primary key"
    for table, name, kind, *_ in constraints:
        if kind in "xt":
            yield f"{table}: constraint {name} cannot be distributed"


def _of_indexes(db: Db) -> Iterator[str]:
    for name, (table, unique, on, _) in indexes(db).items():
        if table in INSIDE and on[0] != "tenant" and (unique or not re.fullmatch("|".join(ACROSS), name)):
            yield f"{table}: index {name} does not begin with the tenant"


def _of_references(db: Db) -> Iterator[str]:
    for table, name, kind, _, other, first, first_there in ask(db, _CONSTRAINTS):
        if kind != "f":
            continue
        if other in INSIDE and table not in INSIDE:
            yield f"{table}: {name} refers to a tenant's table"
        if other in INSIDE and table in INSIDE and (first, first_there) != ("tenant", "tenant"):
            yield f"{table}: {name} does not begin with the tenant"
