"""What is said when PostgreSQL cannot be used, and what a connection that is cut anywhere leaves behind: one effect or none.

Whatever stops the server, or a process, is in `test_postgres_restarts`.
"""

from __future__ import annotations

import re
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any, NamedTuple, cast

import psycopg
import pytest
from psycopg import errors as pg
from typer.testing import CliRunner

from memwell.errors import Corrupted, Invalid, MemwellError, StorageError, StorageFull, Unavailable, Unsupported
from memwell.storage.group_commit import GroupCommit
from memwell.storage.port import Tx
from memwell.storage.postgres import PostgresStore, connect, migrate, store
from memwell.storage.postgres.statements import Connection
from memwell.storage.postgres.tx import PostgresSession
from memwell.surfaces.cli.main import app

from ..cases import cases
from ..conformance.scene import TENANT, FrozenClock, at_once, note, notes, outcome, run_python
from ..engines import Memory
from ..live import live
from ..postgres_server import Proxy, Server, address, rewrite
from ..processes import free_port
from ..waiting import wait_until

SECRET = "s3cret-w0rd"
TEMPLATE = "memwell"
SOON_S = 30.0
"""A time-out, not a promise: what has not happened by then never will."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of our own: what is done to it and to its roles must not meet other tests."""
    with Server() as server:
        yield server


@pytest.fixture
def dsn(server: Server) -> Iterator[str]:
    """A database that holds the tables."""
    server.template(TEMPLATE, lambda dsn: Memory(dsn, worker=False).close())
    dsn = server.database(TEMPLATE)
    yield dsn
    server.drop(dsn)


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(*address(dsn)) as proxy:
        yield proxy


@contextmanager
def opened(dsn: str, **settings: Any) -> Iterator[PostgresStore]:
    """A store with a tenant in it."""
    store = PostgresStore(dsn, clock=FrozenClock().now, **settings)
    try:
        store.create(TENANT)
        yield store
    finally:
        store.close()


def refused(dsn: str) -> MemwellError:
    """The error with which an address is refused. Neither it nor anything that led to it tells the password."""
    with pytest.raises(MemwellError) as caught:
        Memory(dsn, worker=False).close()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


def append(memory: Memory, content: str, key: str | None = None, session: str = "s") -> Any:
    return memory.flow("f").session(session).history.append(role="user", content=content, key=key)


def said(memory: Memory, session: str = "s") -> list[str]:
    return [turn.content for turn in memory.flow("f").session(session).history.all()]


# -- addresses -----------------------------------------------------------------------------------------------------------


@cases(
    ("dsn", "told"),
    [
        pytest.param(f"postgresql://u:{SECRET}@[::1/db", "not an address", id="bracket"),
        pytest.param(f"postgresql://u:{SECRET}%zz@h/db", "percent-encoded", id="percent"),
        pytest.param(f"postgresql://u:{SECRET}%00@h/db", "percent-encoded", id="zero"),
        pytest.param(f"postgresql://u:{SECRET}/x@127.0.0.1/db", "%2F", id="slash"),
        pytest.param(f"postgresql://u:12/{SECRET}@127.0.0.1/db", "%2F", id="slash after a number"),
        pytest.param(f"postgresql://u:{SECRET}@h:port/db", "port is not a number", id="port"),
        pytest.param(f"postgresql://u:{SECRET}@127.0.0.1:99999999/db", "invalid port number", id="high port"),
        pytest.param(f"postgresql://u:{SECRET}@h/db?sslmod=require", "query parameter", id="parameter"),
        pytest.param(f"postgresql://u:{SECRET}@127.0.0.1/db?sslmode=perhaps", "sslmode", id="value"),
        pytest.param(f"postgresql://u:{SECRET}@127.0.0.1/db?connect_timeout=soon", "connect_timeout", id="time-out"),
        pytest.param(f"postgresql://u:{SECRET}@{'h' * 70}/db", "name of the host", id="host"),
        pytest.param(f"postgresql://u\udcff:{SECRET}@h/db", "Unicode", id="surrogate"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_repeating_it(dsn: str, told: str) -> None:
    error = refused(dsn)
    assert type(error) is Invalid
    assert told in error.message


@cases(
    ("dsn", "shown"),
    [
        ("postgresql://u:p@h:1/db", "postgresql://u@h:1/db"),
        ("postgresql://u:p?x#y@h/db?sslmode=require&password=p", "postgresql://u@h/db"),
        ("postgresql://u:p%2Fx%40y@h1:1,h2:2/db", "postgresql://u@h1,h2:1,2/db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql:///db?host=/run/pg&password=p", "postgresql:///run/pg/db"),
        ("host=h dbname=db user=u password=p", "postgresql://u@h/db"),
    ],
)
def test_an_address_is_shown_without_its_password(dsn: str, shown: str) -> None:
    assert connect.without_password(dsn) == shown


@pytest.fixture(params=["password", "no password", "user", "database", "parameter", "port", "host", "silence"])
def unusable(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[str, type[MemwellError], str]]:
    """An address that leads nowhere, what is raised, and what it says."""
    good = rewrite(server.dsn(), password=SECRET)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield {
            "password": (good, StorageError, "refused the user or the password.*correct the address"),
            "no password": (rewrite(good, password=""), StorageError, "refused the user or the password"),
            "user": (rewrite(good, user="nobody-here"), StorageError, "refused the user or the password"),
            "database": (rewrite(server.dsn(), dbname="nowhere"), StorageError, "does not exist.*createdb"),
            "parameter": (rewrite(server.dsn(), options="-c nonsense=1"), Invalid, "nonsense"),
            "port": (rewrite(good, port="1"), Unavailable, "cannot be reached.*tries again"),
            "host": (rewrite(good, host="parole.invalid"), Unavailable, "cannot be reached"),
            "silence": (
                rewrite(good, port=str(silent.getsockname()[1]), connect_timeout="2"),
                Unavailable,
                "cannot be reached",
            ),
        }[request.param]


def test_an_address_that_leads_nowhere_is_a_named_error_and_one_line(
    unusable: tuple[str, type[MemwellError], str],
) -> None:
    dsn, kind, told = unusable
    error = refused(dsn)
    assert type(error) is kind
    assert re.search(told, error.message)
    if "connect_timeout" in dsn:
        return  # which takes two seconds each time
    result = CliRunner().invoke(app, ["--home", dsn, "ls"])
    assert (result.exit_code, result.stdout) == (kind.exit_code, "")
    assert result.stderr == f"Error: {error.message}\n"
    assert "\n" not in error.message


@cases("command", [["migrate"], ["worker"], ["watch"], ["job", "list"]])
def test_every_command_says_in_one_line_that_there_is_no_server(command: list[str]) -> None:
    result = CliRunner().invoke(app, ["--home", f"postgresql://u:{SECRET}@127.0.0.1:1/db", *command])
    assert (result.exit_code, result.stdout) == (Unavailable.exit_code, "")
    assert re.fullmatch(r"Error: PostgreSQL cannot be reached at postgresql://u@127.0.0.1:1/db: .*\n", result.stderr)


def test_a_server_that_finds_no_database_prints_one_line() -> None:
    """A process of its own: nothing that logs or warns adds to it."""
    code = """
        import contextlib, sys
        from memwell.surfaces.cli.main import app
        with contextlib.redirect_stderr(sys.stdout):
            app(["--home", sys.argv[1], "serve", "--port", sys.argv[2]])
    """
    out = run_python(code, f"postgresql://u:{SECRET}@127.0.0.1:1/db", free_port(), code_expected=75)
    assert re.fullmatch(r"Error: PostgreSQL cannot be reached at postgresql://u@127.0.0.1:1/db: .*\n", out)


# -- servers that are not what is needed ---------------------------------------------------------------------------------


class Town(NamedTuple):
    """A database of an ordinary deployment: its owner may log in, and has no rights beyond it."""

    server: Server
    name: str

    def dsn(self, user: str = "owner") -> str:
        return rewrite(self.server.dsn(self.name), user=user, password=SECRET)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.server.run_sql(statement, self.name)


@pytest.fixture(scope="module")
def bare_server() -> Iterator[Server]:
    """A server on which nobody has opened a memory yet, so that it has no role of ours."""
    with Server() as server:
        for user in ("owner", "guest"):
            server.run_sql(f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}'")
        yield server


@pytest.fixture
def town(bare_server: Server) -> Iterator[Town]:
    bare_server.run_sql("CREATE DATABASE town OWNER owner")
    yield Town(bare_server, "town")
    bare_server.run_sql("DROP DATABASE town WITH (FORCE)")
    bare_server.run_sql("DROP ROLE IF EXISTS memwell_app")


def test_an_ordinary_owner_gets_along_with_what_the_errors_tell_an_administrator_to_do(town: Town) -> None:
    """Neither the extension nor the role is there at first: each error names the very statement that helps."""
    for kind in ("extension pgvector", "role memwell_app"):
        error = refused(town.dsn())
        assert type(error) is StorageError
        assert kind in error.message
        town.run(*re.findall(r"`([^`]+)`", error.message))
    with Memory(town.dsn(), worker=False) as memory:
        append(memory, "Porto in spring", key="k")
        assert append(memory, "Porto in spring", key="k").seq == 1
        memory.user("alice").add("I live in Porto.")
        assert [hit.content for hit in memory.user("alice").search("Porto")] == ["I live in Porto."]
        assert memory.flow("f").session("s").delete().residual == 0
        memory.call("tenants.create", {"tenant": "other"})
        memory.call("tenants.delete", {"tenant": "other"})


def test_a_user_who_owns_nothing_gets_along_once_the_tables_are_there(town: Town) -> None:
    town.run("CREATE EXTENSION vector", "CREATE ROLE memwell_app", "GRANT memwell_app TO owner, guest")
    with Memory(town.dsn(), worker=False) as memory:
        append(memory, "first")
    with Memory(town.dsn("guest"), worker=False) as memory:
        append(memory, "second")
        assert said(memory) == ["first", "second"]


def test_a_database_user_without_the_right_to_create_schemas_is_an_error(town: Town) -> None:
    town.run("CREATE EXTENSION vector", "CREATE ROLE memwell_app", "GRANT memwell_app TO guest")
    error = refused(town.dsn("guest"))
    assert type(error) is StorageError
    assert re.search(r"at postgresql://guest@.* does not allow it: permission denied .*administrator", error.message)


def test_a_database_user_without_access_is_an_error(town: Town) -> None:
    town.run("REVOKE CONNECT ON DATABASE town FROM PUBLIC")
    error = refused(town.dsn("guest"))
    assert type(error) is StorageError
    assert "refused the user" in error.message


def test_a_server_without_pgvector_is_an_error(town: Town) -> None:
    """A path on which there are no extensions stands for one that nobody has installed any on."""
    town.run("ALTER DATABASE town SET extension_control_path = '/nowhere'")
    error = refused(rewrite(town.server.dsn(), dbname="town"))
    assert type(error) is Unsupported
    assert re.search("pgvector.*installed on the server", error.message)


def test_an_old_server_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 990_000)
    error = refused(dsn)
    assert type(error) is Unsupported
    assert re.search("PostgreSQL 18 is too old", error.message)


def test_tables_of_a_newer_version_are_left_alone(server: Server, dsn: str) -> None:
    server.run_sql("INSERT INTO memwell.migration VALUES (999, 'of the future')", database_of(dsn))
    error = refused(dsn)
    assert type(error) is Unsupported
    assert re.search("newer version of Memwell: upgrade", error.message)


def test_tables_that_somebody_dropped_are_a_named_error(server: Server, dsn: str) -> None:
    with Memory(dsn, worker=False) as memory:
        append(memory, "here")
        server.run_sql("DROP TABLE memwell.event CASCADE", database_of(dsn))
        with pytest.raises(Unsupported, match="memwell migrate"):
            append(memory, "gone")


def test_a_role_that_somebody_dropped_is_a_named_error(town: Town) -> None:
    with Memory(rewrite(town.server.dsn(), dbname="town"), worker=False) as memory:
        append(memory, "here")
        town.run("DROP OWNED BY memwell_app", "DROP ROLE memwell_app")
        with pytest.raises(StorageError, match="no role memwell_app"):
            said(memory)


def test_a_server_that_can_only_be_read_is_read(dsn: str) -> None:
    with Memory(dsn, worker=False) as memory:
        append(memory, "before")
    with Memory(rewrite(dsn, options="-c default_transaction_read_only=on"), worker=False) as memory:
        assert said(memory) == ["before"]
        with pytest.raises(StorageFull, match="is read-only"):
            append(memory, "not now")
        assert said(memory) == ["before"]


def test_a_password_that_is_changed_and_changed_back_needs_no_new_start(
    server: Server, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run_sql(f"CREATE ROLE changing SUPERUSER LOGIN PASSWORD '{SECRET}'")
    with Memory(rewrite(dsn, user="changing", password=SECRET), worker=False) as memory:
        append(memory, "before")
        server.run_sql("ALTER ROLE changing PASSWORD 'another'")
        end_connections(server, dsn)
        with monkeypatch.context() as patched:
            patched.setattr(store, "PAUSES_S", (0.0, 3600.0))  # it is not tried again
            with pytest.raises(StorageError, match="refused the user or the password") as caught:
                append(memory, "refused")
        assert type(caught.value) is StorageError
        server.run_sql(f"ALTER ROLE changing PASSWORD '{SECRET}'")
        append(memory, "after")
        assert said(memory) == ["before", "after"]
    server.run_sql("DROP ROLE changing")


@cases(
    ("state", "kind", "again"),
    [
        ("57P01", Unavailable, True),  # shut down
        ("57P02", Unavailable, True),  # crashed
        ("57P03", Unavailable, True),  # starting up
        ("57P05", Unavailable, True),  # idle for too long
        ("25P03", Unavailable, True),  # idle for too long in a transaction
        ("08006", Unavailable, True),  # a pooler lost its server
        ("40001", Unavailable, True),  # not serializable
        ("40P01", Unavailable, True),  # deadlock
        ("55P03", Unavailable, False),  # lock time-out
        ("57014", Unavailable, False),  # statement time-out
        ("53300", Unavailable, False),  # too many connections
        ("53200", Unavailable, False),  # out of memory
        ("53100", StorageFull, False),  # disk full
        ("25006", StorageFull, False),  # read only
        ("42P01", Unsupported, False),  # no such table
        ("XX001", Corrupted, False),  # damage
        ("42501", StorageError, False),  # not allowed
        ("23505", StorageError, False),  # a rule is broken
    ],
)
def test_errors_of_postgresql_are_reported_in_our_words(state: str, kind: type[MemwellError], again: bool) -> None:
    error = pg.lookup(state)("something. And so on\nDETAIL: nobody's business")
    told = connect.to_error(error)
    assert type(told) is kind
    assert connect.is_lost(error) is again
    assert "DETAIL" not in told.message
    assert told.message.endswith(".")


# -- connections ---------------------------------------------------------------------------------------------------------


def test_what_an_address_sets_is_added_to_what_is_usual(dsn: str) -> None:
    """Whoever sets something else must not wait for a tenant for ever."""
    with connect.use_connection(
        rewrite(dsn, options="-c work_mem=5MB -c lock_timeout=700ms", application_name="mine")
    ) as db:
        shown = {name: db.execute(f"SHOW {name}".encode()).fetchone() for name in ("work_mem", "lock_timeout", "jit")}
        assert shown == {"work_mem": ("5MB",), "lock_timeout": ("700ms",), "jit": ("off",)}
        assert db.execute("SHOW application_name").fetchone() == ("mine",)
        with socket.socket(fileno=socket.dup(db.pgconn.socket)) as wire:
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == connect.UNANSWERED_MS


@pytest.mark.parametrize("connections", [0, -1])
def test_no_connections_at_all_are_refused(dsn: str, connections: int) -> None:
    with pytest.raises(Invalid, match="MEMWELL_CONNECTIONS"):
        PostgresStore(dsn, clock=lambda: 0, connections=connections)


def test_a_closed_store_says_that_it_is_closed(dsn: str) -> None:
    with opened(dsn) as store:
        store.write(TENANT, note)
    for work in (lambda: store.read(TENANT, notes), lambda: store.write(TENANT, note), store.control.scrub):
        assert isinstance(outcome(work), StorageError | bool)
    with pytest.raises(StorageError, match="The store is closed: open it again"):
        store.read(TENANT, notes)
    store.close()


@pytest.mark.parametrize("connections", [1, 2])
def test_a_caller_that_finds_all_connections_in_use_is_asked_to_retry(
    dsn: str, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "WAIT_S", 0.2)
    with opened(dsn, connections=connections) as store:
        with held(store, connections):
            for work in (lambda: store.read(TENANT, notes), lambda: store.write(TENANT, note)):
                error = outcome(work)
                assert type(error) is Unavailable
                assert re.search(f"All {connections} connections .* MEMWELL_CONNECTIONS", error.message)
            assert store.notifier.is_watched is False
        store.write(TENANT, note)
        assert store.read(TENANT, notes) == ["noted"]


def test_over_http_that_is_a_503_with_a_time_to_try_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "WAIT_S", 0.2)
    with live(cast(Path, dsn), connections=2, worker=False) as server, server.client() as client:
        assert client.get("/v1/flows").status_code == 200
        with held(server.engine.store, 2, "default"):
            for answer in (
                client.get("/v1/flows"),
                client.post("/v1/flows/f/sessions/s/turns", json={"role": "user", "content": "x"}),
                client.get("/ready"),
            ):
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
                assert int(answer.headers["retry-after"]) >= 1
            assert client.get("/health").status_code == 200
        assert client.get("/v1/flows").status_code == 200
        assert client.get("/ready").status_code == 200


def test_a_stream_whose_key_cannot_be_looked_up_ends_in_good_order(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client comes back; until then nobody is shown anything with a key that may have been revoked."""

    def rows(query: str, **_: Any) -> Any:
        raise Unavailable

    with live(cast(Path, dsn), worker=False) as server, server.client() as client:
        with client.stream("GET", "/v1/events", timeout=SOON_S) as stream:
            lines = stream.iter_raw()
            next(lines)
            with monkeypatch.context() as patch:
                patch.setattr(server.engine.store.control, "rows", rows)
                assert b"".join(lines).strip(b":\n ") == b""
        assert client.get("/v1/flows").status_code == 200
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_one_connection_is_enough_for_everything(dsn: str) -> None:
    """Nobody who has one waits for a second."""
    with live(cast(Path, dsn), connections=1) as server, server.memory() as memory:
        at_once(lambda n: append(memory, f"spring {n}", key=str(n)), range(24), threads=8)
        assert sorted(said(memory)) == sorted(f"spring {n}" for n in range(24))
        memory.user("alice").add("I live in Porto.")
        assert [hit.content[-14:] for hit in memory.user("alice").search("Porto")] in (
            ["live in Porto."],
            ["ives in Porto."],
        )
        assert memory.flow("f").session("s").delete().residual == 0


def test_connections_are_used_again_and_no_more_than_allowed(server: Server, dsn: str) -> None:
    with opened(dsn, connections=3) as store:
        for _ in range(20):
            store.write(TENANT, note)
        assert len(connections(server, dsn)) == 1
        at_once(lambda _: store.read(TENANT, notes), range(200), threads=12)
        assert 1 <= len(connections(server, dsn)) <= 3
    wait_until(lambda: not connections(server, dsn))


def test_idle_connections_are_closed(server: Server, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(dsn) as store:
        with held(store, 4):
            assert len(connections(server, dsn)) >= 4
        monkeypatch.setattr(connect, "IDLE_S", 0.05)
        time.sleep(0.1)
        store.read(TENANT, notes)
        wait_until(lambda: len(connections(server, dsn)) == 1)


def test_a_connection_with_an_open_transaction_is_not_reused(dsn: str) -> None:
    with opened(dsn, connections=1) as store:
        for ending in ("BEGIN", "BEGIN; SELECT 1 / 0"):
            connection = store._pool.take()
            with suppress(pg.DivisionByZero):
                connection.execute(ending.encode())
            store._pool.give_back(connection)
            store.write(TENANT, note)
        assert store.read(TENANT, notes) == ["noted"] * 2


def test_what_is_done_outside_transactions_leaves_prepared_statements_alone(dsn: str) -> None:
    """psycopg would take back all of them when something is dropped or altered, if it had prepared one itself."""

    def look_and_drop(db: Connection) -> bool:
        for _ in range(10):
            db.execute("SELECT 1")
        db.execute("DROP TABLE IF EXISTS nowhere")
        return True

    with opened(dsn, connections=1) as store:
        for _ in range(2):
            store.write(TENANT, note)
            store.use_pooled(look_and_drop)
        assert store.read(TENANT, notes) == ["noted"] * 2


def test_connections_that_the_server_has_ended_are_not_used(server: Server, dsn: str) -> None:
    with opened(dsn) as store:
        with held(store, 6):
            pass
        for _ in range(3):
            end_connections(server, dsn)
            store.write(TENANT, note)
        end_connections(server, dsn)
        assert store.read(TENANT, notes) == ["noted"] * 3


def test_a_server_that_ends_idle_connections_is_no_trouble(server: Server, dsn: str) -> None:
    with opened(rewrite(dsn, options="-c idle_session_timeout=50ms")) as store:
        for _ in range(3):
            store.write(TENANT, note)
            wait_until(lambda: not connections(server, dsn))
        assert store.read(TENANT, notes) == ["noted"] * 3


def test_too_many_connections_on_the_server_are_reported_as_such(server: Server, dsn: str) -> None:
    server.run_sql(f'ALTER DATABASE "{database_of(dsn)}" CONNECTION LIMIT 1')
    server.run_sql(f"CREATE ROLE many LOGIN PASSWORD '{SECRET}'")
    server.run_sql("GRANT memwell_app TO many")
    crowded = rewrite(dsn, user="many", password=SECRET)
    with Memory(crowded, worker=False) as memory:
        assert memory.flows() == []
        error = refused(crowded)
        assert type(error) is Unavailable
        assert "too many connections" in error.message
    server.run_sql("DROP OWNED BY many")
    server.run_sql("DROP ROLE many")


def test_a_listener_that_loses_its_connection_is_told_to_watch_again(proxy: Proxy, dsn: str) -> None:
    with opened(proxy.dsn(dsn)) as store:
        with pytest.raises(Unavailable, match="watch again"), store.notifier.listen() as messages:  # noqa: PT012
            assert store.notifier.is_watched
            proxy.break_all()
            next(messages)
        store.write(TENANT, note)
        with store.notifier.listen() as messages:
            wait_until(lambda: store.notifier.is_watched)
            store.notifier.publish(b"back")
            assert b"back" in [next(messages) for _ in range(4)]


# -- a cut at every message ----------------------------------------------------------------------------------------------

COUNTED = ("entry", "word", "event", "idempotency", "idempotency_touch")


class Cut:
    """A connection that is cut at its n-th message from now, and what the server was told by then."""

    def __init__(self, proxy: Proxy, n: int, after: bool) -> None:
        self._proxy, self._n = proxy, n
        self.messages: list[bytes] = []
        self.done = proxy.cut(self._is_here, after)

    def _is_here(self, message: bytes) -> bool:
        self.messages.append(message)
        return len(self.messages) == self._n

    def __enter__(self) -> Cut:
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.disarm()

    @property
    def at_commit(self) -> bool:
        """Whether it hit the end of a transaction that writes."""
        told = self.messages[: self._n]
        begun = [message for message in told if b"BEGIN" in message]
        return b"COMMIT" in told[-1] and b"FOR UPDATE" in begun[-1]


@pytest.fixture
def counted(dsn: str) -> Iterator[Callable[[], list[int]]]:
    """How many rows there are, told by somebody whom nothing is hidden from."""
    sql = ", ".join(f"(SELECT COUNT(*) FROM memwell.{table})" for table in COUNTED)
    with psycopg.connect(dsn, autocommit=True) as db:

        def count() -> list[int]:
            return list(db.execute(f"SELECT {sql}".encode()).fetchone() or ())

        yield count


@pytest.mark.parametrize("anew", [False, True], ids=["a connection in use", "a new connection"])
@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_an_append_that_is_cut_anywhere_has_one_effect(
    proxy: Proxy, dsn: str, counted: Callable[[], list[int]], after: bool, anew: bool
) -> None:
    """Before the commit it is repeated unasked; in the commit nobody can know, and nobody claims to."""
    unknown: list[bool] = []
    with Memory(proxy.dsn(dsn), worker=False) as memory:
        append(memory, "first")
        for n in range(1, 100):
            if anew:
                proxy.break_all()
            before = counted()
            with Cut(proxy, n, after) as cut:
                answer = outcome(lambda n=n: append(memory, f"turn {n}", key=f"key {n}"))  # type: ignore[misc]
            grown = [new - old for new, old in zip(counted(), before, strict=True)]
            assert grown in ([0] * 5, [1] * 5), f"a part of it was written: {cut.messages[-1][:80]!r}"
            if cut.done.is_set() and cut.at_commit:
                assert type(answer) is Unavailable
                assert "not known whether this was stored" in answer.message
                unknown.append(grown[0] == 1)
            else:
                assert (answer.content, grown[0]) == (f"turn {n}", 1), cut.messages[-1][:80]
            again = append(memory, f"turn {n}", key=f"key {n}")
            assert isinstance(answer, Unavailable) or again == answer
            assert [new - old for new, old in zip(counted(), before, strict=True)] == [1] * 5
            if not cut.done.is_set():
                break
        kept = list(memory.flow("f").session("s").history.all())
    assert [turn.seq for turn in kept] == list(range(1, n + 2))
    assert [turn.content for turn in kept[1:]] == [f"turn {done}" for done in range(1, n + 1)]
    assert n > 20, "hardly anything was cut"
    assert unknown == [after], "the one COMMIT is kept if it arrived"


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_a_read_that_is_cut_anywhere_is_repeated(proxy: Proxy, dsn: str, after: bool) -> None:
    with Memory(proxy.dsn(dsn), worker=False) as memory:
        for number in range(3):
            append(memory, f"spring {number}")
        memory.user("alice").add("I live in Porto.")
        reads: list[Callable[[], Any]] = [
            lambda: said(memory),
            lambda: [info.session for info in memory.flow("f").sessions()],
            lambda: [hit.content for hit in memory.user("alice").search("Porto")],
        ]
        for read in reads:
            right = read()
            assert len(right) in (1, 3)
            assert cut_at_each(proxy, read, after, at_least=6) == [right]


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_an_opening_that_is_cut_anywhere_is_a_named_error(proxy: Proxy, dsn: str, after: bool) -> None:
    def work() -> Any:
        with Memory(proxy.dsn(dsn), worker=False) as memory:
            return memory.flows()

    Memory(dsn, worker=False).flows()
    found = cut_at_each(proxy, work, after, at_least=10)
    assert [] in found
    assert {type(each) for each in found} == {list, Unavailable}


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_what_stands_above_the_tenants_is_not_written_twice(proxy: Proxy, dsn: str, after: bool) -> None:
    """A key that is made when the connection is cut is there or not there, and never there twice."""
    with Memory(proxy.dsn(dsn), worker=False) as memory:
        names: list[str] = []

        def create() -> str:
            names.append(f"key {len(names)}")
            made: str = memory.call("keys.create", {"name": names[-1], "role": "reader"}).id
            return made

        found = cut_at_each(proxy, create, after, at_least=10)
        kept = {key.id: key.name for key in memory.call("keys.list", {}).keys}
    made = [each for each in found if isinstance(each, str)]
    assert set(made) <= set(kept)
    assert len(set(kept.values())) == len(kept)
    unknown = [each for each in found if not isinstance(each, str)]
    assert {type(each) for each in unknown} == {Unavailable}
    assert all("not known" in error.message for error in unknown)
    assert len(made) <= len(kept) <= len(found)


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_a_tenant_is_made_whole(proxy: Proxy, dsn: str, after: bool) -> None:
    with opened(proxy.dsn(dsn)) as store:

        def there() -> bool:
            """Whether it can be used, which is the same as whether it is known. It is gone afterwards."""
            known = bool(store.control.rows("find_tenant", id="other"))
            assert (outcome(lambda: store.write("other", note)) is None) == known
            assert store.drop("other") == known
            return known

        seen: set[bool] = set()
        found = cut_at_each(
            proxy, lambda: store.create("other"), after, at_least=40, step=3, then=lambda: seen.add(there())
        )
        assert (found, seen) == ([True], {True})
        with cut_at_commit(proxy, after), pytest.raises(Unavailable, match="not known"):
            store.create("other")
        assert there() == after


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_a_tenant_is_dropped_whole(proxy: Proxy, dsn: str, after: bool) -> None:
    with opened(proxy.dsn(dsn)) as store:

        def there() -> bool:
            """Whether it can be used, which is the same as whether it is known. It is made anew afterwards."""
            known = bool(store.control.rows("find_tenant", id=TENANT))
            assert (outcome(lambda: store.write(TENANT, note)) is None) == known
            assert store.create(TENANT) != known
            return known

        seen: set[bool] = set()
        found = cut_at_each(
            proxy, lambda: store.drop(TENANT), after, at_least=40, step=4, then=lambda: seen.add(there())
        )
        unknown = [one for one in found if one is not True]  # cut at the commit: nobody can tell, and both may be
        assert all(isinstance(one, Unavailable) and "during the commit" in one.message for one in unknown)
        assert len(unknown) <= 1
        assert True in found
        assert False in seen
        with cut_at_commit(proxy, after), pytest.raises(Unavailable, match="not known"):
            store.drop(TENANT)
        assert there() != after


@contextmanager
def cut_at_commit(proxy: Proxy, after: bool) -> Iterator[None]:
    """Cut the end of the first transaction in which a tenant's rows are deleted."""
    deleted: list[bytes] = []

    def here(message: bytes) -> bool:
        if b"DELETE FROM writer" in message:
            deleted.append(message)
        return bool(deleted) and b"COMMIT" in message

    event = proxy.cut(here, after)
    yield
    assert event.is_set()


def cut_at_each(
    proxy: Proxy,
    work: Callable[[], Any],
    after: bool,
    at_least: int,
    step: int = 1,
    then: Callable[[], None] = lambda: None,
) -> list[Any]:
    """The different results of work that is cut at its first, second, … last message."""
    found: list[Any] = []
    for n in range(1, 300, step):
        event = proxy.cut_next(n, after)
        result = outcome(work)
        proxy.disarm()
        then()
        if result not in found:
            found.append(result)
        if not event.is_set():
            assert n > at_least, "hardly anything was cut"
            return found
    raise AssertionError("there is no end to it")


# -- many writers, one transaction ---------------------------------------------------------------------------------------


class Failed(Exception):
    """What a work of these tests raises."""


class Batch:
    """A store whose writers queue up, so that they share a transaction."""

    def __init__(self, server: Server, store: PostgresStore) -> None:
        self._server = server
        self.store = store
        self.session: PostgresSession
        self.group: GroupCommit
        self.session, self.group = store._group(TENANT)

    def together(self, *works: Callable[[Tx], Any]) -> list[Any]:
        """What becomes of works that queue up in this order while somebody else is writing."""
        holding, queued = Event(), Event()
        outcomes: dict[int, Any] = {}

        def follow(n: int) -> None:
            outcomes[n] = caught(lambda: self.store.write(TENANT, works[n]))

        def hold() -> None:
            holding.set()
            assert queued.wait(SOON_S)

        threads = [Thread(target=self.group.alone, args=(hold,))]
        threads += [Thread(target=follow, args=(n,)) for n in range(len(works))]
        for place, thread in enumerate(threads):
            thread.start()
            assert holding.wait(SOON_S)
            wait_until(lambda place=place: len(self.group._waiting) == place)  # type: ignore[misc]
        queued.set()
        for thread in threads:
            thread.join(SOON_S)
        assert not any(thread.is_alive() for thread in threads), "a writer hangs"
        return [outcomes[n] for n in range(len(works))]

    def noted(self) -> list[str]:
        return self.store.read(TENANT, notes)

    def transaction(self) -> int:
        row = self.session.batch.connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def lose(self, tx: Tx) -> None:
        """Have the server end the connection, and find out."""
        self._server.run_sql(f"SELECT pg_terminate_backend({self.session.batch.connection.info.backend_pid}, 5000)")
        notes(tx)


@pytest.fixture
def batch(server: Server, dsn: str) -> Iterator[Batch]:
    with opened(dsn, connections=4) as store:
        yield Batch(server, store)


def noting(name: object, then: Callable[[Tx], Any] = lambda tx: None) -> Callable[[Tx], str]:
    """Write down a name, and do something else."""

    def work(tx: Tx) -> str:
        note(tx, str(name))
        then(tx)
        return str(name)

    return work


def fail(tx: Tx) -> None:
    raise Failed


def break_a_rule(tx: Tx) -> None:
    tx.run("add_event", at=0, operation=None, collection_id=None, address_id=None, entries=0, actor="test")


def break_a_rule_later(tx: Tx) -> None:
    tx.send("add_event", at=0, operation=None, collection_id=None, address_id=None, entries=0, actor="test")


def hush(tx: Tx) -> None:
    with suppress(psycopg.Error):
        break_a_rule(tx)


def interrupt(tx: Tx) -> None:
    raise KeyboardInterrupt


def once(action: Callable[[Tx], Any]) -> Callable[[Tx], None]:
    """Act the first time only: a work may be run more than once."""
    actions = iter([action])
    return lambda tx: next(actions, lambda tx: None)(tx)


def nth(n: int, action: Callable[[Tx], Any]) -> Callable[[Tx], None]:
    actions = iter([*[lambda tx: None] * (n - 1), action])
    return lambda tx: next(actions, lambda tx: None)(tx)


def test_queued_writers_share_one_transaction(batch: Batch) -> None:
    seen: list[int] = []
    works = [noting(n, lambda tx: seen.append(batch.transaction())) for n in range(8)]
    assert batch.together(*works) == list("01234567") == batch.noted()
    assert len(seen) == 8
    assert len(set(seen)) == 1


@pytest.mark.parametrize("failing", [0, 3, 7])
@pytest.mark.parametrize(
    ("action", "kind"),
    [(fail, Failed), (break_a_rule, StorageError), (break_a_rule_later, StorageError), (hush, StorageError)],
    ids=["an error", "a statement", "a statement nobody waits for", "an error that is swallowed"],
)
def test_a_failure_costs_only_its_author(
    batch: Batch, failing: int, action: Callable[[Tx], Any], kind: type[Exception]
) -> None:
    outcomes = batch.together(*[noting(n, action if n == failing else lambda tx: None) for n in range(8)])
    assert type(outcomes.pop(failing)) is kind
    assert outcomes == [str(n) for n in range(8) if n != failing] == batch.noted()
    assert batch.together(noting("next")) == ["next"]


def look(tx: Tx) -> object:
    return tx.row("find_collection", dialect="flow", name="shared", kind="facts")


def make(tx: Tx) -> None:
    named = {"dialect": "flow", "name": "shared", "kind": "facts"}
    tx.send("add_collection", id=1, sealed=0, policy="{}", now=0, **named)


def test_what_one_of_a_group_makes_the_next_one_sees(batch: Batch) -> None:
    """What was looked up is remembered for the group, until one of them writes there."""

    def look_and_make(tx: Tx) -> list[object]:
        before = look(tx)
        make(tx)
        return [before, look(tx)]

    assert batch.together(look, look_and_make, look) == [None, [None, (1, "{}")], (1, "{}")]


def test_lookups_of_a_failed_write_are_forgotten(batch: Batch) -> None:
    def make_and_fail(tx: Tx) -> None:
        make(tx)
        look(tx)
        fail(tx)

    failed, after = batch.together(make_and_fail, look)
    assert type(failed) is Failed
    assert after is None


def test_each_writer_gets_its_own_error(batch: Batch) -> None:
    works = [noting(0, fail), noting(1, hush), noting(2), noting(3, break_a_rule), noting(4, fail)]
    assert [type(each) for each in batch.together(*works)] == [Failed, StorageError, str, StorageError, Failed]
    assert batch.noted() == ["2"]


@pytest.mark.parametrize("losing", [0, 2, 3])
def test_a_connection_lost_by_a_whole_group_loses_no_write(batch: Batch, losing: int) -> None:
    lose = once(batch.lose)
    works = [noting(n, lose if n == losing else lambda tx: None) for n in range(4)]
    assert batch.together(*works) == list("0123")
    assert sorted(batch.noted()) == list("0123")


@pytest.mark.parametrize("losing", [0, 1, 3])
def test_a_connection_lost_during_single_attempts_loses_no_write(batch: Batch, losing: int) -> None:
    lose = nth(2, batch.lose)
    works = [noting(n, lose if n == losing else lambda tx: None) for n in range(4)]
    outcomes = batch.together(*works[:2], noting("bad", fail), *works[2:])
    assert type(outcomes.pop(2)) is Failed
    assert outcomes == list("0123")
    assert sorted(batch.noted()) == list("0123")


@pytest.mark.parametrize("statement", ["SAVEPOINT", "ROLLBACK TO", "RELEASE"])
def test_a_connection_lost_at_a_savepoint_loses_no_write(
    server: Server, proxy: Proxy, dsn: str, statement: str
) -> None:
    with opened(proxy.dsn(dsn)) as store:
        batch = Batch(server, store)
        event = proxy.cut(lambda message: message[:1] == b"Q" and message[5:].startswith(statement.encode()), True)
        outcomes = batch.together(noting(0), noting("bad", fail), noting(2))
        assert event.is_set()
        assert [outcomes[0], type(outcomes[1]), outcomes[2]] == ["0", Failed, "2"]
        assert sorted(batch.noted()) == ["0", "2"]


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "before its answer"])
def test_an_interrupted_commit_is_acknowledged_to_no_caller(
    server: Server, proxy: Proxy, dsn: str, after: bool
) -> None:
    with opened(proxy.dsn(dsn)) as store:
        batch = Batch(server, store)
        event = proxy.cut(lambda message: b"COMMIT" in message, after)
        outcomes = batch.together(*[noting(n) for n in range(4)])
        assert event.is_set()
        assert {type(each) for each in outcomes} == {Unavailable}
        assert all("not known whether this was stored" in each.message for each in outcomes)
        assert batch.noted() == (list("0123") if after else [])
        assert batch.together(noting("next")) == ["next"]


@pytest.mark.parametrize("interrupted", [0, 2, 3])
def test_an_interrupted_work_acknowledges_nothing_falsely(batch: Batch, interrupted: int) -> None:
    works = [noting(n, interrupt if n == interrupted else lambda tx: None) for n in range(4)]
    outcomes = batch.together(*works)
    assert type(outcomes[0]) is KeyboardInterrupt
    assert sorted(each for each in outcomes if isinstance(each, str)) == sorted(batch.noted())
    assert {type(each) for each in outcomes[1:]} <= {str, Unavailable}
    assert batch.together(noting("next")) == ["next"]


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_in_the_commit_acknowledges_nothing_falsely(
    batch: Batch, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Whether the server got that far cannot be told."""
    commit = "memwell.storage.postgres.tx.commit"

    def interrupted(connection: Connection, last: str) -> None:
        monkeypatch.setattr(commit, connect.commit)
        if kept:
            connect.commit(connection, last)
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, interrupted)
    outcomes = batch.together(*[noting(n) for n in range(4)])
    assert type(outcomes[0]) is KeyboardInterrupt
    assert {type(each) for each in outcomes[1:]} == {Unavailable}
    assert all("not known whether this was stored" in each.message for each in outcomes[1:])
    assert batch.noted() == (list("0123") if kept else [])
    assert batch.together(noting("next")) == ["next"]


def test_no_connection_is_lost_by_failures(batch: Batch) -> None:
    """More failures than there are connections, of every kind."""
    for _ in range(3):
        batch.together(noting(0, fail), noting(1, hush), noting(2, interrupt), noting(3, batch.lose))
        outcome(lambda: batch.store.read(TENANT, fail))
        outcome(lambda: batch.store.read("nobody", notes))
        outcome(lambda: batch.store.write("nobody", note))
        outcome(lambda: batch.store.control.write(("no such query", {})))
    with held(batch.store, 3):
        batch.store.read(TENANT, notes)


def test_a_statement_that_failed_when_it_was_new_does_not_spoil_its_connection(dsn: str) -> None:
    """What was prepared together with it is there, and what came after it is not."""

    def work(tx: Tx) -> None:
        tx.send("add_event", at=0, operation="first", collection_id=None, address_id=None, entries=0, actor="test")
        break_a_rule_later(tx)
        tx.send("delete_words", docids="[]")

    with opened(dsn, connections=1) as store:
        for _ in range(2):
            with pytest.raises(StorageError, match="null value"):
                store.write(TENANT, work)
        store.write(TENANT, noting("noted", lambda tx: tx.send("delete_words", docids="[]")))
        assert store.read(TENANT, notes) == ["noted"]


def test_more_than_fits_into_a_buffer_is_sent(dsn: str) -> None:
    def work(tx: Tx) -> None:
        for _ in range(24):
            tx.send(
                "add_event", at=0, operation="x" * 1_000_000, collection_id=None, address_id=None, entries=0, actor=""
            )

    with opened(dsn) as store:
        thread = Thread(target=store.write, args=(TENANT, work), daemon=True)
        thread.start()
        thread.join(SOON_S)
        assert not thread.is_alive(), "it hangs"
        assert [len(each) for each in store.read(TENANT, notes)] == [1_000_000] * 24


def test_a_process_with_thousands_of_files_can_write(dsn: str) -> None:
    run_python(THOUSANDS_OF_FILES, dsn)


THOUSANDS_OF_FILES = """
import os, resource, sys
from memwell import Memory

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
assert limit == resource.RLIM_INFINITY or limit > 1200
resource.setrlimit(resource.RLIMIT_NOFILE, (1200, limit))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
with Memory(sys.argv[1], worker=False) as memory:
    memory.flow("f").session("s").history.append(role="user", content="hello", key="k")
    assert len(list(memory.flow("f").session("s").history.all())) == 1
"""


# -- errors that somebody swallowed --------------------------------------------------------------------------------------


def test_a_write_with_an_error_that_was_swallowed_is_not_kept(batch: Batch) -> None:
    with pytest.raises(StorageError, match="A statement failed"):
        batch.store.write(TENANT, noting("lost", hush))
    assert batch.noted() == []


def test_statements_after_an_error_that_was_swallowed_are_not_kept(batch: Batch) -> None:
    def work(tx: Tx) -> None:
        note(tx)
        hush(tx)
        with suppress(psycopg.Error):
            note(tx)

    with pytest.raises(StorageError, match="A statement failed"):
        batch.store.write(TENANT, work)
    assert batch.noted() == []


def test_a_read_with_an_error_that_was_swallowed_is_not_believed(batch: Batch) -> None:
    with pytest.raises(StorageError):
        batch.store.read(TENANT, hush)
    assert batch.noted() == []


def test_an_error_that_was_swallowed_above_the_tenants_keeps_nothing(batch: Batch) -> None:
    def work(db: Connection) -> None:
        db.execute("INSERT INTO tenant (id, created_at) VALUES ('ghost', 0)")
        with suppress(pg.UndefinedTable):
            db.execute("SELECT 1 FROM nowhere")

    with pytest.raises(StorageError, match="nothing was stored"):
        batch.store.run_above(work, True)
    assert not batch.store.control.rows("find_tenant", id="ghost")


# -- small words ---------------------------------------------------------------------------------------------------------


def database_of(dsn: str) -> str:
    return dsn.rpartition("/")[2].partition("?")[0]


def connections(server: Server, dsn: str) -> list[tuple[Any, ...]]:
    return server.run_sql(
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{database_of(dsn)}' AND application_name = 'memwell'"
    )


def end_connections(server: Server, dsn: str) -> None:
    server.run_sql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE datname = '{database_of(dsn)}' AND application_name = 'memwell'"
    )


@contextmanager
def held(store: Any, count: int, tenant: str = TENANT) -> Iterator[None]:
    """So many connections in use by readers that do not end."""
    holding, enough = Barrier(count + 1, timeout=SOON_S), Event()

    def hold(tx: Tx) -> None:
        holding.wait()
        assert enough.wait(SOON_S)

    threads = [Thread(target=store.read, args=(tenant, hold)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        holding.wait()
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads)


def caught(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 -- interrupts are what some tests are about
        return error
