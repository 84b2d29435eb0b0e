"""The rules under which one schema and one text of SQL serve a server and a cluster that is distributed by tenant.

They are those of `rules.py` for statements and of `catalog.py` for tables. Both are tried on what breaks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import memwell
from memwell.storage import queries
from memwell.storage.copier import copy_queries
from memwell.storage.postgres import migrate
from memwell.storage.queries import Query

from ..cases import cases
from ..engines import DATABASES, TEMPLATE
from . import catalog
from .catalog import INSIDE, Db
from .sql_rules import faults, literals, unnamed

HERE = [(query, "postgres") for query in (queries.load("postgres") | copy_queries()).values()]
IN_FILES = [(query, "sqlite") for query in (queries.load("sqlite") | copy_queries()).values()]
# What is inside a tenant in a file; the index of words knows no tenant there, and `test_planner` looks after it.
FILE_TABLES = INSIDE - {"word", "writer", "graph", "blob"}
# Pieces of SQL in Python that ask across tenants.
ACROSS = {
    "SELECT 1 FROM graph WHERE dimensions = %s LIMIT 1": "whether any tenant needs a graph, asked from above",
}

BAD = {
    "no tenant at all": ("SELECT content FROM entry WHERE id = :id", "entry is not held"),
    "another's tenant": ("SELECT content FROM entry WHERE tenant = :owner AND id = :id", "entry is not held"),
    "somebody's by name": ("SELECT content FROM entry WHERE tenant = 'acme'", "entry is not held"),
    "or": ("SELECT content FROM entry WHERE tenant = :tenant OR id = :id", "entry is not held"),
    "not": ("SELECT content FROM entry WHERE NOT tenant = :tenant", "entry is not held"),
    "a list": ("SELECT content FROM entry WHERE tenant IN (:tenant, 'b')", "entry is not held"),
    "a pattern": ("SELECT content FROM entry WHERE tenant LIKE :tenant", "used in another way"),
    "a range": ("SELECT content FROM entry WHERE tenant >= :tenant", "used in another way"),
    "shared by a join but not bound": (
        """SELECT e.content FROM entry e JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
        WHERE e.tenant = :tenant""",
        "address is not held",
    ),
    "not even shared by a join": (
        "SELECT e.content FROM address a JOIN entry e ON e.address_id = a.id WHERE a.tenant = :tenant",
        "entry is not held",
    ),
    "a tenant of neither table": (
        "SELECT 1 FROM entry e, address a WHERE tenant = :tenant AND a.id = e.address_id",
        "entry is not held",
    ),
    "an outer join that restricts the wrong side": (
        "SELECT 1 FROM entry e LEFT JOIN address a ON e.tenant = :tenant AND a.tenant = :tenant",
        "entry is not held",
    ),
    "a right join": (
        "SELECT 1 FROM entry e RIGHT JOIN address a ON a.tenant = :tenant WHERE e.tenant = :tenant",
        "address is not held",
    ),
    "a sub-select": (
        """SELECT a.path, (SELECT COUNT(*) FROM entry e WHERE e.address_id = a.id) FROM address a
        WHERE a.tenant = :tenant""",
        "entry is not held",
    ),
    "a sub-select that holds the outer table once more": (
        """SELECT a.path FROM address a WHERE a.tenant = :tenant
        AND EXISTS (SELECT 1 FROM entry e WHERE a.tenant = :tenant AND e.address_id = a.id)""",
        "entry is not held",
    ),
    "a condition": (
        "SELECT id FROM job WHERE tenant = :tenant AND address_id IN (SELECT address_id FROM entry)",
        "entry is not held",
    ),
    "a common table": (
        "WITH found AS (SELECT id FROM entry) SELECT id FROM found JOIN job USING (id) WHERE job.tenant = :tenant",
        "entry is not held",
    ),
    "a table in FROM that is put together": (
        "SELECT found.id FROM (SELECT id, tenant FROM entry) AS found WHERE found.tenant = :tenant",
        "entry is not held",
    ),
    "half of a union": ("SELECT id FROM job WHERE tenant = :tenant UNION ALL SELECT id FROM job", "job is not held"),
    "an update": ("UPDATE job SET state = 'ready' WHERE id = :id", "job is not held"),
    "an update by another table": (
        "UPDATE job SET state = 'ready' FROM entry e WHERE job.tenant = :tenant AND e.id = job.id",
        "entry is not held",
    ),
    "a deletion": ("DELETE FROM entry", "entry is not held"),
    "a deletion by another table": (
        "DELETE FROM entry USING address a WHERE entry.tenant = :tenant AND a.id = entry.address_id",
        "address is not held",
    ),
    "an insertion without a tenant": ("INSERT INTO event (seq, at) VALUES (:seq, :at)", "without naming the tenant"),
    "an insertion without columns": ("INSERT INTO event VALUES (:tenant, :seq)", "without naming the tenant"),
    "an insertion for another": ("INSERT INTO event (tenant, seq) VALUES (:owner, :seq)", "for another tenant"),
    "one row of an insertion for another": (
        "INSERT INTO event (tenant, seq) VALUES (:tenant, 1), (:owner, 1)",
        "for another tenant",
    ),
    "an insertion for whoever": (
        "INSERT INTO event (tenant, seq) SELECT e.tenant, 1 FROM event e WHERE e.tenant = :tenant",
        "for another tenant",
    ),
    "an insertion of what is everybody's": (
        "INSERT INTO event (tenant, seq) SELECT :tenant, MAX(seq) + 1 FROM event",
        "event is not held",
    ),
    "a row that changes hands": (
        "UPDATE job SET tenant = :owner WHERE tenant = :tenant AND id = :id",
        "a row changes hands",
    ),
    "a conflict without the tenant": (
        "INSERT INTO model (tenant, id) VALUES (:tenant, :id) ON CONFLICT (id) DO NOTHING",
        "ON CONFLICT does not name the tenant",
    ),
    "any conflict": (
        "INSERT INTO model (tenant, id) VALUES (:tenant, :id) ON CONFLICT DO NOTHING",
        "ON CONFLICT does not name the tenant",
    ),
    "MERGE": (
        "MERGE INTO model m USING model o ON o.tenant = m.tenant WHEN MATCHED THEN DO NOTHING",
        "not a query: MERGE",
    ),
    "FULL JOIN USING": (
        "SELECT id FROM job j FULL JOIN model m USING (id) WHERE j.tenant = :tenant AND m.tenant = :tenant",
        "a full join with USING",
    ),
    "a natural join": (
        "SELECT id FROM job j NATURAL JOIN model m WHERE j.tenant = :tenant AND m.tenant = :tenant",
        "a natural join",
    ),
    "now()": ("UPDATE job SET run_at = EXTRACT(EPOCH FROM NOW()) WHERE tenant = :tenant", "calls current_timestamp"),
    "CURRENT_TIMESTAMP": ("SELECT CURRENT_TIMESTAMP", "calls current_timestamp"),
    "clock_timestamp()": ("SELECT CLOCK_TIMESTAMP()", "calls clock_timestamp"),
    "random()": ("SELECT id FROM job WHERE tenant = :tenant ORDER BY RANDOM()", "calls rand"),
    "gen_random_uuid()": ("SELECT GEN_RANDOM_UUID()", "calls uuid"),
    "a sequence's next": ("SELECT NEXTVAL('numbers')", "calls nextval"),
    "a lock of the session": ("SELECT PG_ADVISORY_LOCK(1)", "calls pg_advisory_lock"),
    "a lock that is tried": ("SELECT pg_try_advisory_xact_lock(1)", "calls pg_try_advisory_xact_lock"),
    "set_config()": ("SELECT set_config('memwell.tenant', :tenant, TRUE)", "calls set_config"),
    "a temporary table": ("CREATE TEMP TABLE found (id BIGINT)", "not a query: CREATE"),
    "a temporary table from a query": ("SELECT id INTO TEMP found FROM job WHERE tenant = :tenant", "makes a table"),
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON entry EXECUTE FUNCTION f()", "not a query"),
    "a rule": ("CREATE RULE r AS ON INSERT TO entry DO NOTHING", "not a query"),
    "a sequence": ("CREATE SEQUENCE numbers", "not a query: CREATE"),
    "LISTEN": ("LISTEN memwell", "not a query"),
    "a second statement": ("SELECT 1; DELETE FROM entry", "entry is not held"),
}

GOOD = {
    "a constant": "SELECT content FROM entry WHERE tenant = :tenant AND id = :id",
    "the other way round": "SELECT content FROM entry WHERE :tenant = tenant",
    "in brackets": "SELECT content FROM entry WHERE ((id = :id) AND ((tenant = :tenant)))",
    "each table of a join": """SELECT 1 FROM entry e JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
        WHERE e.tenant = :tenant AND a.tenant = :tenant""",
    "by an inner join": "SELECT 1 FROM entry e JOIN address a ON a.tenant = :tenant AND e.tenant = :tenant",
    "by an outer join": "SELECT 1 FROM entry e LEFT JOIN address a ON a.tenant = :tenant WHERE e.tenant = :tenant",
    "with what is no table": "SELECT 1 FROM entry e CROSS JOIN UNNEST(:ids) AS i (id) WHERE e.tenant = :tenant",
    "in a common table": """WITH found AS MATERIALIZED (SELECT id FROM job WHERE tenant = :tenant FOR UPDATE SKIP LOCKED)
        UPDATE job SET state = 'running' WHERE tenant = :tenant AND id IN (SELECT id FROM found)""",
    "a conflict": """INSERT INTO model (tenant, id) VALUES (:tenant, :id) ON CONFLICT (tenant, id)
        DO UPDATE SET id = excluded.id""",
    "what is everybody's": "SELECT id FROM tenant",
}


@cases(("query", "dialect"), HERE + IN_FILES, ids=lambda one: getattr(one, "name", one))
def test_every_query_keeps_the_rules(query: Query, dialect: str) -> None:
    assert faults(_written(query), INSIDE if dialect == "postgres" else FILE_TABLES, dialect) == []


@cases("query", queries.load_system().values(), ids=lambda query: query.name)
def test_what_stands_above_the_tenants_touches_no_table_of_theirs(query: Query) -> None:
    assert not INSIDE & {table.lower() for table in re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)", query.sql)}
    assert [fault for fault in faults(query.sql, frozenset()) if "used in another way" not in fault] == []


def test_every_engine_has_every_query() -> None:
    """Some only this one needs, because it searches and erases in another way."""
    here, there = ({query.name for query, _ in side} for side in (HERE, IN_FILES))
    assert there <= here
    assert here - there == {
        "residue", "graph_sizes", "add_graph", "finish_graph", "delete_graph", "mark_vectors", "nearest", "nearest_of",
        "put_blob", "find_blob", "piece_of_blob", "has_blob", "delete_blob", "list_blobs", "hold_tenant_row",
    }  # fmt: skip
    parameters = {query.name: query.parameters for query, _ in HERE}
    assert {
        query.name: sorted(query.parameters ^ parameters[query.name])
        for query, _ in IN_FILES
        if query.parameters != parameters[query.name]
    } == {
        "add_entry": ["next_docid"],
        "add_words": ["tenant"],
        "delete_words": ["tenant"],
        "postings": ["most", "tenant"],
        "words_of": ["tenant"],
    }


@cases(("sql", "why"), BAD.values(), ids=BAD.keys())
def test_what_breaks_a_rule_is_noticed(sql: str, why: str) -> None:
    found = faults(sql, INSIDE)
    assert any(why in fault for fault in found), found


@cases("sql", GOOD.values(), ids=GOOD.keys())
def test_what_keeps_the_rules_is_let_through(sql: str) -> None:
    assert faults(sql, INSIDE) == []


# -- SQL between Python ----------------------------------------------------------------------------------------------


def test_sql_between_python_names_the_tenant() -> None:
    found = [line for source in _sources() for line in unnamed(source, INSIDE)]
    assert [line for line in found if line.partition(" ")[2] not in ACROSS] == []


def test_sql_that_does_not_name_the_tenant_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text('''"""SELECT 1 FROM entry"""
a = "SELECT 1 FROM entry"
b = f"DELETE FROM {table}"
c = f"UPDATE {SCHEMA}.job SET state = {state}"
d = "INSERT INTO event (seq) VALUES (1)"
e = "SELECT id FROM tenant JOIN writer"
f = f"DELETE FROM {table} WHERE tenant = %s"
g = "INSERT INTO writer (tenant, docid) VALUES (%s, %s)"
h = "SELECT 1 FROM pg_class"
''')
    assert [int(line.split(":")[1].split(" ")[0]) for line in unnamed(source, INSIDE)] == [2, 3, 4, 5, 6]


def test_no_lock_or_table_of_a_session_is_used_between_python() -> None:
    """LISTEN needs a connection of its own, and the lock of a migration is its transaction's."""
    words = re.compile(
        r"\b(pg_(?:try_)?advisory_lock\w*|CREATE TEMP\w*|LISTEN|set_config|NEXTVAL|CREATE TRIGGER)\b", re.I
    )
    found = {
        (source.stem, word) for source in _sources() for _, text in literals(source) for word in words.findall(text)
    }
    assert found == {("control", "LISTEN")}


# -- the tables ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def db() -> Iterator[Db]:
    server = DATABASES.server
    dsn = server.database(TEMPLATE)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = memwell, public")
        yield connection
    server.drop(dsn)


OTHER = "DROP TABLE writer; CREATE TABLE writer (docid BIGINT PRIMARY KEY, tenant"


def test_the_tables_keep_the_rules(db: Db) -> None:
    assert catalog.broken_rules(db) == []


@cases(
    ("planted", "why"),
    [
        ("CREATE TABLE planted (tenant TEXT)", "planted: neither a tenant's nor the system's"),
        (f'{OTHER} VARCHAR COLLATE "C" NOT NULL)', "writer.tenant: not text that is always there"),
        (f"{OTHER} TEXT NOT NULL)", "writer.tenant: not text that is always there"),
        (f'{OTHER} TEXT COLLATE "C")', "writer.tenant: not text that is always there"),
        ("ALTER TABLE removal DROP CONSTRAINT removal_pkey", "removal: no primary key"),
        (
            "ALTER TABLE removal DROP CONSTRAINT removal_pkey; ALTER TABLE removal ADD PRIMARY KEY (seq, tenant)",
            "removal: index removal_pkey does not begin with the tenant",
        ),
        ("CREATE UNIQUE INDEX planted ON event (seq)", "event: index planted does not begin with the tenant"),
        ("CREATE UNIQUE INDEX planted ON event ((seq + 1))", "event: index planted does not begin with the tenant"),
        ("CREATE INDEX planted ON event (at)", "event: index planted does not begin with the tenant"),
        (
            """CREATE UNIQUE INDEX planted ON address (id, tenant);
            ALTER TABLE event ADD CONSTRAINT planted FOREIGN KEY (address_id, tenant) REFERENCES address (id, tenant)""",
            "event: planted does not begin with the tenant",
        ),
        (
            "ALTER TABLE hint ADD CONSTRAINT planted FOREIGN KEY (tenant) REFERENCES writer (tenant)",
            "hint: planted refers to a tenant's table",
        ),
        (
            "ALTER TABLE event ADD COLUMN planted BIGINT GENERATED ALWAYS AS IDENTITY",
            "event.planted: made by the server",
        ),
        ("ALTER TABLE event ADD COLUMN planted BIGSERIAL", "event.planted: a default that is computed"),
        ("ALTER TABLE event ADD COLUMN planted TIMESTAMPTZ DEFAULT NOW()", "event.planted: a default that is computed"),
        ("CREATE SEQUENCE planted", "a sequence: planted"),
        (
            "ALTER TABLE event ADD CONSTRAINT planted EXCLUDE (at WITH =)",
            "event: constraint planted cannot be distributed",
        ),
        ("CREATE RULE planted AS ON DELETE TO event DO NOTHING", "a rule: planted"),
        (
            """CREATE FUNCTION f() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
            CREATE TRIGGER planted BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION f()""",
            "a trigger: planted",
        ),
    ],
)
def test_a_table_that_breaks_a_rule_is_noticed(db: Db, planted: str, why: str) -> None:
    with db.transaction(force_rollback=True):
        db.execute(planted.encode())
        assert why in catalog.broken_rules(db)


def test_the_migrations_add_references_last() -> None:
    """So that the tables can be distributed in between (rule 4); what stands above the tenants may refer to itself."""
    for _, _, text in queries.migrations("postgres"):
        for statement in queries.statements(text):
            made = re.match(r"CREATE TABLE (\w+)", statement)
            assert made is None or made[1] in migrate.SYSTEM_TABLES or "REFERENCES" not in statement


def _written(query: Query) -> str:
    return query.sql.replace("/*dimensions*/", "8")


def _sources() -> list[Path]:
    storage = Path(memwell.__file__).parent / "storage"
    return [*sorted((storage / "postgres").glob("*.py")), storage / "copier.py"]
