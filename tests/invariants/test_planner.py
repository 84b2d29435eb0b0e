"""The second wall between tenants: SQLite's own planner says that every query stays inside one.

A query is sound if each access to a table goes through a key that begins with the tenant, and if its text compares the
tenant with nothing but the one that the transaction binds. The lint itself is tried on queries that leak.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

import memwell
from memwell.storage import queries
from memwell.storage.copier import copy_queries
from memwell.storage.queries import Query
from memwell.storage.sqlite import connect
from memwell.storage.sqlite.file import upgrade

from ..cases import cases

pytestmark = pytest.mark.engines("sqlite")

TENANT_QUERIES = queries.load("sqlite")
SYSTEM_QUERIES = queries.load_system()
EVERY_QUERY = queries.load("postgres") | copy_queries() | TENANT_QUERIES | SYSTEM_QUERIES

# Accesses that touch no table of a tenant's: a row of constants, lists that came as a parameter, SQLite's own counters.
_HARMLESS = re.compile(r"SCAN CONSTANT ROW|SCAN json_each VIRTUAL TABLE|SCAN s$")
_ACCESS = re.compile(r"SCAN|SEARCH")
# An automatic index begins with the tenant too, but is built by reading everything.
_SOUND = re.compile(r"SEARCH \w+ USING (?!AUTOMATIC).*\(tenant=\?")
_WHOLE = re.compile(r"\(tenant=\?\)")

# What may be said of a tenant: that it is the bound one, that two rows share it, and that it is written down.
_ALLOWED = re.compile(r"(\w+\.)?\btenant = (:tenant|\w+\.tenant)\b|(?<=[(\s]):tenant,|(?<=\()tenant,")
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)", re.IGNORECASE)

# Queries that look at all rows of a tenant's table on purpose.
WHOLE_TABLE = {
    "add_event": "the last row of the key",
    "last_event": "the last row of the key",
    "first_event_after": "the first rows of the key: events stand in the order of their time",
    "next_idempotency_expiry": "the first row of the index",
    "job_backlog": "counts every job",
    "search_state": "the last row of the key",
    "delete_removals_below": "the last row of the key",
    "add_removal": "the last row of the key",
    "add_erasure": "the last row of the key",
    "add_events": "the last row of the key",
    "add_removals": "the last row of the key",
    "add_erasures": "the last row of the key",
    "list_models": "there are one or two",
    "add_model": "there are one or two",
    "delete_vectors": "the models, of which there are one or two",
    "content_lives": "looks for words anywhere, once per trace that an erasure found",
    "document_lives": "looks for words anywhere, once per trace that an erasure found",
    "run_lives": "looks for words anywhere, once per trace that an erasure found",
    "value_lives": "looks for words anywhere, once per trace that an erasure found",
    "file_lives": "looks for words anywhere, once per trace that an erasure found",
    "count_all_entries": "counts everything, for a backup",
}

# Queries that reach entries by their number, which is one tenant's because a file is; they name the tenant all the same.
BY_NUMBER = {
    "page_names": "entries above a number",
    "load_new": "entries above a number",
    "pending_entries": "entries above a number",
    "unsealed_entries": "entries above a number",
    "metadata_of": "entries that were found among the tenant's own",
    "texts_of": "entries that were found among the tenant's own",
    "facts_at": "entries that were found among the tenant's own",
    "hits": "entries that were found among the tenant's own",
    "content_lives": "all entries, one after the other",
    "kinds_of": "entries that were found among the tenant's own",
    "lives_of": "entries that were found among the tenant's own",
    "facts_same": "entries of facts that were found among the tenant's own",
    "facts_about": "entries of facts that were found among the tenant's own",
    "facts_ended_by": "entries of facts that were found among the tenant's own",
    "audit_facts": "entries of facts that were found among the tenant's own",
    "entries_written_for": "entries that ties of the tenant name",
    "summaries_down": "entries of summaries that were found among the tenant's own",
    "summaries_up": "entries of summaries that were found among the tenant's own",
    "unfold": "entries that were found among the tenant's own",
    "bank_folded": "entries that were found among the tenant's own",
    "sources_of_summary": "entries that were found among the tenant's own",
    "folds_of": "entries that were found among the tenant's own",
}
_BY_NUMBER = re.compile(r"SEARCH e(ntry)? USING INTEGER PRIMARY KEY|SCAN entry$")

# Tables that have no column for the tenant: the index of words, which is one file's, and SQLite's own counters.
NO_TENANT = {
    "add_words": "by the number of an entry that was just written",
    "delete_words": "by the numbers of entries that were found among the tenant's own",
    "words_of": "by the numbers of entries that were found among the tenant's own",
    "postings": "numbers, which are looked up among the tenant's own entries",
}

PLANNED_LEAKS = {
    "no tenant at all": "SELECT content FROM entry WHERE id = :id",
    "by another key": "SELECT content FROM entry WHERE docid = :id AND :tenant = :tenant",
    "in a join": """SELECT e.content FROM address a JOIN entry e ON e.address_id = a.id
        WHERE a.tenant = :tenant AND a.path = :path""",
    "in an outer join": """SELECT 1 FROM address a LEFT JOIN collection c ON c.id = a.collection_id
        WHERE a.tenant = :tenant""",
    "in a sub-select": """SELECT a.path, (SELECT COUNT(*) FROM entry e WHERE e.address_id = a.id)
        FROM address a WHERE a.tenant = :tenant""",
    "in a condition": "SELECT id FROM job WHERE tenant = :tenant AND address_id IN (SELECT address_id FROM entry)",
    "in half of a union": """SELECT id FROM job WHERE tenant = :tenant UNION ALL
        SELECT id FROM job WHERE state = :state""",
    "in a deletion": "DELETE FROM entry WHERE address_id = :address_id AND seq <= :seq",
    "in a deletion of everything": "DELETE FROM entry",
    "in an update": "UPDATE job SET state = 'ready' WHERE id IN (SELECT id FROM job WHERE tenant = :tenant)",
    "in an insertion": """INSERT INTO event (tenant, seq, at, operation, entries, actor)
        SELECT :tenant, MAX(seq) + 1, 0, '', 0, '' FROM event""",
    "LIKE": "SELECT content FROM entry WHERE tenant LIKE :tenant AND id = :id",
    "OR": "SELECT content FROM entry WHERE tenant = :tenant OR id = :id",
    "a range": "SELECT content FROM entry WHERE tenant >= :tenant",
    "shared but not bound": """SELECT e.content FROM entry e JOIN address a ON a.tenant = e.tenant
        AND a.id = e.address_id WHERE a.path = :path""",
}
WRITTEN_LEAKS = {
    "a list": "SELECT content FROM entry WHERE tenant IN (:tenant, 'other') AND id = :id",
    "somebody else's": "SELECT content FROM entry WHERE tenant = :owner AND id = :id",
    "somebody else's in a sub-select": """SELECT id FROM job WHERE tenant = :tenant AND address_id IN (
        SELECT address_id FROM entry WHERE tenant = :owner)""",
    "an insertion for somebody else": "INSERT INTO idempotency (tenant, key_hash, expires_at) VALUES (:owner, :key, 0)",
    "a row that changes hands": "UPDATE job SET tenant = :owner WHERE tenant = :tenant AND id = :id",
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("planner") / "fresh.db"
    upgrade(path, "sqlite", "full", None)
    connection = connect.open_writer(path, "full", None, create=False)
    yield connection
    connection.close()


@cases("query", TENANT_QUERIES.values(), ids=lambda query: query.name)
def test_every_query_stays_inside_its_tenant(db: apsw.Connection, query: Query) -> None:
    if query.name in NO_TENANT:
        return
    leaks = planned_leaks(db, query.sql)
    if query.name in BY_NUMBER:
        assert re.search(r"\b(e\.)?tenant = :tenant", query.sql)
        leaks = [step for step in leaks if not _BY_NUMBER.match(step)]
    assert leaks == []
    assert written_leaks(db, query.sql) == []


@cases("leak", PLANNED_LEAKS.values(), ids=PLANNED_LEAKS.keys())
def test_the_plan_gives_a_leak_away(db: apsw.Connection, leak: str) -> None:
    assert planned_leaks(db, leak) != []


@cases("leak", WRITTEN_LEAKS.values(), ids=WRITTEN_LEAKS.keys())
def test_the_text_gives_away_what_the_plan_does_not(db: apsw.Connection, leak: str) -> None:
    assert planned_leaks(db, leak) == []
    assert written_leaks(db, leak) != []


def test_what_has_no_tenant_touches_nothing_else(db: apsw.Connection) -> None:
    """The exceptions are no way around: they name the index of words or a counter, and no table of the tenant's."""
    for name in NO_TENANT:
        assert set(_TABLE.findall(TENANT_QUERIES[name].sql)) <= {"word", "json_each"}, name
    assert {
        name for name, query in TENANT_QUERIES.items() if _TABLE.search(query.sql) and ":tenant" not in query.sql
    } == set(NO_TENANT)


def test_no_query_reads_a_whole_table_by_accident(db: apsw.Connection) -> None:
    """In a file of one tenant, a search by the tenant alone is a scan."""
    whole = {name for name, query in TENANT_QUERIES.items() if any(map(_WHOLE.search, plan(db, query.sql)))}
    assert sorted(whole - WHOLE_TABLE.keys()) == []


@cases("query", [*TENANT_QUERIES.values(), *SYSTEM_QUERIES.values()], ids=lambda query: query.name)
def test_every_query_is_described(query: Query) -> None:
    assert query.description.endswith(".")
    assert query.sql


@cases("query", TENANT_QUERIES.values(), ids=lambda query: query.name)
def test_a_query_binds_what_it_declares(db: apsw.Connection, query: Query) -> None:
    assert set(apsw.ext.query_info(db, query.sql).bindings_names) == query.parameters


def test_a_query_is_written_once() -> None:
    with pytest.raises(ValueError, match="written twice"):
        queries.parse("-- name: a\nSELECT 1;\n\n-- name: a\nSELECT 2;\n", "sqlite")


def test_callers_pass_what_a_query_binds_and_nothing_else() -> None:
    """SQLite would ignore a parameter that no query uses: a filter that filters nothing."""
    wrong = [call for path in sorted(_sources()) for call in _wrong_calls(path)]
    assert wrong == []


@pytest.mark.parametrize(
    "call", ["tx.rows('first_seq')", "tx.run('delete_entry', id=1, session=2)", "tx.row('last_event', now=1)"]
)
def test_a_wrong_call_is_noticed(tmp_path: Path, call: str) -> None:
    source = tmp_path / "source.py"
    source.write_text(f"tx.{call}")
    assert len(list(_wrong_calls(source))) == 1


def plan(db: apsw.Connection, sql: str) -> list[str]:
    given = dict.fromkeys(map(str, apsw.ext.query_info(db, sql).bindings_names))
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", given)]


def planned_leaks(db: apsw.Connection, sql: str) -> list[str]:
    """The accesses that do not go through a key beginning with the tenant."""
    accesses = [step for step in plan(db, sql) if _ACCESS.match(step) and not _HARMLESS.match(step)]
    return [step for step in accesses if not _SOUND.match(step)]


def written_leaks(db: apsw.Connection, sql: str) -> list[str]:
    """What a query says about tenants that it must not say, or fails to say."""
    found = []
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables & set(_TABLE.findall(sql)) and not re.search(r":tenant\b", sql):
        found.append("no tenant is bound")
    if re.search(r"\btenant\b", _ALLOWED.sub("", sql)):
        found.append("a tenant is used in another way than being the bound one")
    if re.search(r"\bINTO\b", sql) and not re.search(r"\(tenant, .*?\)\s*(VALUES \(|SELECT ):tenant,", sql, re.DOTALL):
        found.append("a row is written for another tenant than the bound one")
    return found


def _sources() -> Iterator[Path]:
    yield from Path(memwell.__file__).parent.rglob("*.py")


def _wrong_calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=whose, attr="rows" | "row" | "run" | "hint"),
                args=[ast.Constant(value=str(name)), *more],
            ):
                given = {keyword.arg for keyword in node.keywords if keyword.arg}
                if more and getattr(whose, "attr", "") != "tx":
                    # `Space.rows` adds these for the collection that it is given; a transaction is given a filter there
                    given |= {"dialect", "name", "kind", "now"}
                open_ended = any(keyword.arg is None for keyword in node.keywords)
                needed = _needed(name)
                if given - needed or (needed - given and not open_ended):
                    yield f"{path.name}:{node.lineno} {name}: {sorted(needed ^ given)}"


def _needed(name: str) -> frozenset[str]:
    return EVERY_QUERY[name].parameters - (frozenset() if name in SYSTEM_QUERIES else {"tenant"})
