"""PostgreSQL's own planner says that every query reaches its rows through a key that begins with the tenant.

The database holds some tenants and some thousand rows, so that the planner has a choice. Queries are planned as they are run:
once for all values, as the role that owns nothing, within a tenant, so under row-level security. The lint itself is tried on
queries that read too much. That their text holds each table to the tenant, `test_rules` shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import psycopg.sql
import pytest

from memwell.storage import queries
from memwell.storage.copier import TABLES, copy_queries
from memwell.storage.postgres.connect import ROLE, SCHEMA
from memwell.storage.queries import Query

from ..cases import cases
from ..engines import TEMPLATE
from .catalog import Db
from .databases import database

QUERIES = queries.load("postgres") | copy_queries()

# Queries that look at all rows of a tenant's table on purpose. "The last row" is found at the end of the key.
WHOLE = {
    "list_collections": "counts the sessions of every name",
    "content_lives": "looks for words anywhere, once per trace that an erasure found",
    "document_lives": "looks for words anywhere, once per trace that an erasure found",
    "run_lives": "looks for words anywhere, once per trace that an erasure found",
    "value_lives": "looks for words anywhere, once per trace that an erasure found",
    "file_lives": "looks for words anywhere, once per trace that an erasure found",
    "hold_tenant_row": "a tenant's only one",
    "residue": "looks for words anywhere, after an erasure",
    "next_expiry": "the first row of the index",
    "next_idempotency_expiry": "the first row of the index",
    "job_backlog": "counts every job",
    "delete_finished_jobs": "most jobs are finished",
    "add_event": "the last row",
    "last_event": "the last row",
    "first_event_after": "the first rows of the key: events stand in the order of their time",
    "delete_removals_below": "the last row",
    "add_removal": "the last row",
    "add_erasure": "the last row",
    "add_events": "the last row",
    "add_removals": "the last row",
    "add_erasures": "the last row",
    "search_state": "the last row, and a tenant's only one",
    "list_models": "there are one or two",
    "add_model": "there are one or two",
    "delete_vectors": "the models, of which there are one or two",
    "graph_sizes": "counts every vector, in a job",
    "count_all": "counts everything, when a tenant is moved",
    "count_all_entries": "counts everything, for a backup",
    **{f"end_of_{table}": "the last row" for table in TABLES},
}  # fmt: skip

TOO_MUCH = {
    "no key": "SELECT id FROM entry WHERE tenant = :tenant AND content = :content",
    "a key that is computed": "SELECT id FROM entry WHERE tenant = :tenant AND docid + 0 = :docid",
    "the words without their function": "SELECT docid FROM word WHERE tenant = :tenant AND tokens @@ CAST(:q AS TSQUERY)",
    "all tenants": "SELECT COUNT(*) FROM event",
}

# Pages of what there is much of: what is asked for besides the tenant and the moment, and how many rows a step may read for one
# that it gives.
PAGES: dict[str, dict[str, Any]] = {
    "record_sizes": {"dialect": "user", "name": "crowd", "after": "p3000", "until": "q", "limit": 16},
    "tied_sizes": {"tie": "crowd", "after": 1_003_000, "limit": 16},
    "tied_addresses": {"tie": "crowd", "after": 1_003_000, "limit": 16},
    "values_of": {"addresses": str([1_003_000 + number for number in range(16)])},
    "records_of": {"addresses": str([1_003_000 + number for number in range(16)])},
}
MOST_READ = 4
READS_ON = """SELECT a.id, r.value FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path > :after
    JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
    WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant AND c.dialect = :dialect AND c.name = :name
      AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now) AND a.path NOT LIKE '%@%'
    ORDER BY a.path LIMIT :limit"""
"""A page for which all that is behind it is sorted."""
CROWD = """
INSERT INTO collection VALUES ('t1', 1000000, 'user', 'crowd', 'record', 0, '{}', 0);
INSERT INTO address SELECT 't1', 1000000 + n, 1000000, 'p' || LPAD(n::text, 4, '0'), 1, n, n, NULL, 0, NULL, NULL
  FROM generate_series(1, 6000) n;
INSERT INTO record SELECT 't1', 1000000 + n, 1, '{}', n, n, NULL FROM generate_series(1, 6000) n;
INSERT INTO record_tie SELECT 't1', 'crowd', 1000000 + n FROM generate_series(1, 6000) n;
ANALYZE address, record, record_tie, collection
"""

# One tenant in forty is large, and there are many who have hardly begun.
FILL = """
CREATE TEMP TABLE of AS SELECT 't' || t AS tenant, t, n FROM generate_series(1, 40) t,
  LATERAL generate_series(1, CASE t WHEN 1 THEN 6000 ELSE 300 END) n;
INSERT INTO writer SELECT 't' || t, 6000 FROM generate_series(1, 3000) t;
INSERT INTO model SELECT 't' || t, n, 'm' || n, 4, 0, 0 FROM generate_series(1, 3000) t, generate_series(1, 2) n;
INSERT INTO graph SELECT 't' || t, 1, n, 4, 'ready' FROM generate_series(1, 300) t, generate_series(1, 3) n;
INSERT INTO collection SELECT tenant, n, 'flow', 'n' || n, 'facts', 0, '{}', 0 FROM of WHERE n <= 60;
INSERT INTO address SELECT tenant, n, 1 + n % 20, 'p' || n, 10, n, n, NULL, 0, CASE WHEN n % 9 = 0 THEN n END, NULL
  FROM of WHERE n <= 200;
INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, content, origin, occurred_at, recorded_at,
  expires_at, retired_at)
  SELECT tenant, n, LPAD(n::text, 26, '0'), 1, 1 + n % 200, n, 'turn', REPEAT('word ' || n, 10), 'user', n, n,
  CASE WHEN n % 9 = 0 THEN n END, CASE WHEN n % 9 = 1 THEN n END FROM of;
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, lease_until, fence, created_at,
  finished_at, address_id)
  SELECT tenant, LPAD(n::text, 26, '0'), 'embed', CASE WHEN n % 9 = 0 THEN 's' || n END,
  CASE n % 90 WHEN 0 THEN 'ready' WHEN 1 THEN 'running' WHEN 2 THEN 'dead' ELSE 'done' END, '{}', 0, 5, n, n, 0, n, n,
  CASE WHEN n % 2 = 0 THEN 1 + n % 200 END FROM of;
INSERT INTO event SELECT tenant, n, n, 'add', 1, 1 + n % 200, 1, 'somebody' FROM of;
INSERT INTO idempotency SELECT tenant, SHA256(n::text::bytea), 'h', 'r', n FROM of;
INSERT INTO idempotency_touch SELECT tenant, 1 + n % 200, n::text, SHA256(n::text::bytea) FROM of;
INSERT INTO removal SELECT tenant, n, n, NULL FROM of;
INSERT INTO fact SELECT tenant, n, 1 + n % 20, 's', 'w' || n % 500, CASE WHEN n % 3 = 0 THEN 't' || n % 99 END, n, NULL, 'p', NULL
  FROM of;
INSERT INTO evidence SELECT tenant, n, 'f' || n % 999, 'e' || n, 1 + n % 200, 0, 9, 'user', n, 'p' || n % 200 FROM of;
INSERT INTO plan SELECT tenant, 'p' || n, 1 + n % 20, 1 + n % 200, 'applied', 'rules', NULL, n, 1, 9, '{}', n, n, NULL FROM of;
INSERT INTO spending SELECT tenant, n, 1, 1, 1 FROM of;
INSERT INTO document SELECT tenant, 'k' || n % 4, 'd' || n, 'n' || n, 1, '{}', n, n FROM of;
INSERT INTO summary SELECT tenant, n, LPAD(n::text, 26, '0'), 1 + n % 200, n, 9 FROM of WHERE n % 3 = 0;
INSERT INTO folded SELECT tenant, n, 1 + n % 200, 's' || n % 99 FROM of;
INSERT INTO run SELECT tenant, 'r' || n, 'w' || n % 20, 1, 'name', CASE n % 90 WHEN 0 THEN 'running' ELSE 'done' END, '{}', NULL,
  NULL, n, n, n FROM of;
INSERT INTO run_step SELECT tenant, 'r' || n, 1, '{}' FROM of;
INSERT INTO run_touch SELECT tenant, 1 + n % 200, 'r' || n FROM of;
INSERT INTO record SELECT tenant, n, 1, '{}', n, n, CASE WHEN n % 9 = 0 THEN n END FROM of WHERE n <= 200;
INSERT INTO record_version SELECT tenant, 1 + n % 200, n, 'merge', '{}', 'somebody', n, NULL FROM of;
INSERT INTO record_tie SELECT tenant, 't' || n % 50, 1 + n % 200 FROM of ON CONFLICT DO NOTHING;
INSERT INTO file SELECT tenant, 'f' || n, 1 + n % 200, n, n, 'd' || n, 'name', 'text/plain', 1, 1, 'kept', NULL, 0, n FROM of;
INSERT INTO erasure SELECT tenant, n, 'address', n::text, n FROM of;
INSERT INTO blob SELECT tenant, 'd' || n, 'b', n FROM of;
INSERT INTO word SELECT tenant, n, 0, ARRAY_TO_TSVECTOR(ARRAY['a' || t || 'x' || n % 200, 'c' || t || 'x' || n % 20,
  'w' || n % 97, 'v' || n % 7]) FROM of;
INSERT INTO vector SELECT tenant, 1, n, 0, 1 + n % 20, 4, FALSE, '[1,2,3,4]' FROM of;
ANALYZE
"""


class Scan(NamedTuple):
    """How a plan reaches the rows of a table."""

    table: str
    by: str | None
    condition: str

    @property
    def is_whole(self) -> bool:
        return " AND " not in self.condition


@pytest.fixture(scope="module")
def db() -> Iterator[Db]:
    with database(TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        connection.execute(FILL)
        yield connection


@pytest.fixture
def within(db: Db) -> Iterator[Db]:
    """A transaction within a tenant."""
    with db.transaction(force_rollback=True):
        db.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        db.execute(f"SET LOCAL ROLE {ROLE}; SET LOCAL memwell.tenant = 't1'")
        yield db


@pytest.fixture
def crowd(db: Db) -> Iterator[Db]:
    """The same, where many records go with one thing and are at one place."""
    with db.transaction(force_rollback=True):
        db.execute(CROWD)
        db.execute(f"SET LOCAL ROLE {ROLE}; SET LOCAL memwell.tenant = 't1'; SET LOCAL enable_seqscan = off")
        yield db


@cases("query", QUERIES.values(), ids=lambda query: query.name)
def test_every_query_goes_through_a_key_that_begins_with_the_tenant(within: Db, query: Query) -> None:
    found = scans(within, query.sql)
    assert [scan for scan in found if scan.by is None or "tenant = " not in scan.condition] == []
    if query.name not in WHOLE:
        assert [scan for scan in found if scan.is_whole] == []


@cases("sql", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_statements_that_read_too_much_are_noticed(within: Db, sql: str) -> None:
    assert [scan for scan in scans(within, sql) if scan.by is None or scan.is_whole]


def test_what_may_read_all_of_a_tenant_is_there() -> None:
    assert WHOLE.keys() <= QUERIES.keys()


@cases("mode", ["force_generic_plan", "force_custom_plan"])
@cases("name", PAGES)
def test_a_page_takes_as_long_as_it_is(crowd: Db, name: str, mode: str) -> None:
    """Whoever reads all pages would else read everything as often as there are pages."""
    crowd.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
    found = given_by(crowd, name, QUERIES[name].sql, PAGES[name])
    assert found[0] == 16
    assert max(found) <= 16 * MOST_READ


def test_a_page_that_reads_what_it_does_not_give_is_noticed(crowd: Db) -> None:
    assert max(given_by(crowd, "reads_on", READS_ON, PAGES["record_sizes"])) > 16 * MOST_READ


@cases("wanted", ["c1x3 & w5", "c1x3 & v5", "a1x33 & w33", "c1x3 & nowhere"])
def test_words_of_a_large_tenant_are_found_by_their_index(db: Db, wanted: str) -> None:
    assert [scan.by for scan in _of_postings(db, "t1", wanted, 0)] == ["word_tokens"]


def test_what_was_just_written_is_found_by_its_number(db: Db) -> None:
    """A word that many entries hold is not looked up for the sake of a few new ones."""
    assert [scan.by for scan in _of_postings(db, "t1", "c1x3 & v5", 5995)] == ["word_pkey"]


@pytest.mark.parametrize("wanted", ["c2x3 & w5", "c2x3 & v5"])
def test_words_of_a_small_tenant_are_found_by_some_index(db: Db, wanted: str) -> None:
    assert {scan.by for scan in _of_postings(db, "t2", wanted, 0)} <= {"word_tokens", "word_pkey"}


# -- plans -----------------------------------------------------------------------------------------------------------


def scans(db: Db, sql: str) -> list[Scan]:
    """The accesses of a query to tables, planned without knowing any value."""
    numbers: dict[str, int] = {}
    text = sql.replace("/*dimensions*/", "4")
    text = re.sub(r"(?<!:):([a-z_]\w*)", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", text)
    values = "(" + ", ".join(["NULL"] * len(numbers)) + ")" if numbers else ""
    db.execute(f"PREPARE planned AS {text}".encode())
    try:
        (plans,) = db.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}".encode()).fetchone() or ([],)
    finally:
        db.execute("DEALLOCATE planned")
    return [scan for plan in plans for scan in _scans(plan["Plan"], "")]


def given_by(db: Db, name: str, sql: str, asked: dict[str, Any]) -> list[int]:
    """How many rows each step of a query gives or leaves out when it is run, that of the whole first."""
    given = {"tenant": "t1", "now": 1_000_000, **asked}
    numbers: dict[str, int] = {}
    text = re.sub(r"(?<!:):([a-z_]\w*)", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", sql)
    values = ", ".join(psycopg.sql.Literal(given[one]).as_string(db) for one in numbers)
    db.execute(f"PREPARE {name} AS {text}".encode())
    try:
        said = db.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE {name}({values})".encode()).fetchone()
    finally:
        db.execute(f"DEALLOCATE {name}".encode())
    return [count for plan in (said or ([],))[0] for count in _given(plan["Plan"])]


def _given(node: dict[str, Any]) -> Iterator[int]:
    left_out = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
    yield round((node["Actual Rows"] + left_out) * node["Actual Loops"])
    for inner in node.get("Plans", []):
        yield from _given(inner)


def _scans(node: dict[str, Any], table: str) -> Iterator[Scan]:
    table = node.get("Relation Name", table)
    match node["Node Type"]:
        case "Seq Scan" | "Sample Scan" | "Tid Scan":
            yield Scan(table, None, "")
        case "Index Scan" | "Index Only Scan" | "Bitmap Index Scan":
            yield Scan(table, node["Index Name"], node.get("Index Cond", ""))
    for inner in node.get("Plans", []):
        yield from _scans(inner, table)


def _of_postings(db: Db, tenant: str, wanted: str, above: int) -> list[Scan]:
    """How the function for words reaches them, as the server itself reports it while it runs."""
    reports: list[str] = []

    def note(report: psycopg.errors.Diagnostic) -> None:
        reports.append(report.message_primary or "")

    with db.transaction(force_rollback=True):
        db.execute("LOAD 'auto_explain'; SET LOCAL auto_explain.log_min_duration = 0")
        db.execute("SET LOCAL auto_explain.log_nested_statements = on; SET LOCAL auto_explain.log_format = json")
        db.execute(f"SET LOCAL client_min_messages = log; SET LOCAL ROLE {ROLE}; SET LOCAL memwell.tenant = '{tenant}'")
        db.add_notice_handler(note)
        db.execute("SELECT postings(%s, CAST(%s AS TSQUERY), %s)", (tenant, wanted, above))
        db.remove_notice_handler(note)
    plans = [json.loads(report.partition("plan:")[2]) for report in reports if "plan:" in report]
    return [scan for plan in plans for scan in _scans(plan["Plan"], "")]
