"""Two tenants with the same names, keys and sessions: what one does never shows in the other (T3, T5, G13, G14)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from memwell import Forbidden, MemwellError, NotFound, Unauthenticated, config
from memwell.clock import SECOND
from memwell.core.access import Principal, Scope, create_key
from memwell.core.dispatch import dispatch
from memwell.core.engine import Engine
from memwell.core.operation import Operation
from memwell.registry import OPERATIONS, open_engine
from memwell.storage.port import Tx
from memwell.testing import FrozenClock

from ..cases import cases
from ..conformance.scene import outcome
from ..engines import DATABASES, Memory, located, remains, two_tenants
from ..examples import filled, plain
from ..live import live
from ..waiting import wait_until

T = TypeVar("T")

CANARY = {"alpha": "quoxalphine", "beta": "vexbetrine"}
ANY_MAY_ASK = {"flows.find", "jobs.show", "jobs.wait", "status.show"}
"""What every tied key may ask, and is answered of its own only."""
TENANT_OPERATIONS = [operation for operation in OPERATIONS.values() if operation.role != "operator"]


def admin(tenant: str) -> Principal:
    return Principal(tenant, "admin")


@pytest.fixture(scope="module")
def seeded(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both tenants in it. It is made once, and every test has a copy."""
    home = tmp_path_factory.mktemp("seeded") / "home"
    engine = open_at(home)
    for tenant in CANARY:
        engine.ensure_tenant(tenant)
        _seed(engine, tenant)
    engine.close()
    return home


@pytest.fixture
def engine(seeded: Path, tmp_path: Path) -> Iterator[Engine]:
    DATABASES.copy(seeded, tmp_path / "home")
    engine = open_at(tmp_path / "home")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def untouched(seeded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One copy for all tests in which everything is refused; each sees to it that nothing has changed."""
    home = tmp_path_factory.mktemp("untouched") / "home"
    DATABASES.copy(seeded, home)
    engine = open_at(home)
    yield engine
    engine.close()


def open_at(home: Path) -> Engine:
    return open_engine(config.load(home=located(home)), FrozenClock())


def _seed(engine: Engine, tenant: str) -> None:
    """The same addresses in both tenants, with a word in each that the other must never see."""
    word = CANARY[tenant]
    _do(engine, tenant, "users.add", {"user": "alice", "content": f"alice says {word}"})
    _do(engine, tenant, "users.add", {"user": "alice", "content": word, "session": f"user-{word}"})
    turn = {"flow": "support", "session": "alice-42", "role": "user", "content": word}
    _do(engine, tenant, "flows.append", turn)
    _do(engine, tenant, "flows.append", {**turn, "session": f"session-{word}"})
    _do(engine, tenant, "flows.append", {**turn, "flow": f"flow-{word}"})
    _do(engine, tenant, "flows.write", {"flow": "support", "content": f"a fact about {word}"})
    _do(engine, tenant, "flows.end", {"flow": "support", "session": "alice-42"})
    _do(engine, tenant, "log.append", {"session": "abc-123", "entry_type": "observation", "content": word})
    _do(engine, tenant, "log.append", {"session": f"log-{word}", "entry_type": "decision", "content": word})
    _do(engine, tenant, "keys.create", {"name": f"key-{word}"})


def _do(engine: Engine, tenant: str, name: str, data: dict[str, Any]) -> Any:
    return dispatch(engine, admin(tenant), OPERATIONS[name], data)


def dump(engine: Engine, tenant: str) -> bytes:
    """Everything that a tenant can see of itself, except what its own events say."""
    views: list[tuple[str, dict[str, Any]]] = [
        ("users.list", {}),
        ("users.history", {"user": "alice", "limit": 1000}),
        ("flows.list", {}),
        ("flows.export", {"flow": "support"}),
        ("flows.memories", {"flow": "support"}),
        ("log.sessions", {"status": "all"}),
        ("log.entries", {"session": "abc-123"}),
        ("jobs.list", {}),
        ("keys.list", {}),
        ("events.list", {}),
    ]
    return b"\n".join(msgspec.json.encode(_do(engine, tenant, name, data)) for name, data in views)


def leaks(engine: Engine, operation: Operation) -> list[str]:
    """What beta can see or change of alpha's by this operation: with its own ids, and with alpha's."""
    found: list[str] = []
    before = dump(engine, "alpha")
    for owner in ("beta", "alpha"):  # whose ids beta uses
        results: list[Any] = []
        for name, data in operation.example.given:
            results.append(plain(_do(engine, owner, name, filled(data, results))))
        if owner == "alpha":
            before = dump(engine, "alpha")
        try:
            answer = plain(_do(engine, "beta", operation.name, filled(operation.example.request, results)))
        except MemwellError as error:
            answer = {"error": error.message, "details": error.details}
            if owner == "alpha" and "$" in str(operation.example.request) and not isinstance(error, NotFound):
                found.append(f"a foreign id is told apart from an unknown one: {error!r}")
        else:
            if owner == "alpha" and "$" in str(operation.example.request):
                found.append("a foreign id was accepted")
        if CANARY["alpha"] in str(answer):
            found.append("the answer shows a foreign word")
        if dump(engine, "alpha") != before:
            found.append("the other tenant has changed")
    if CANARY["alpha"] in dump(engine, "beta").decode():
        found.append("a foreign word has moved in")
    return found


@pytest.mark.parametrize("operation", TENANT_OPERATIONS, ids=lambda operation: operation.name)
def test_no_operation_crosses_tenants(operation: Operation, engine: Engine) -> None:
    assert leaks(engine, operation) == []


class _Leaky:
    """A store with a planted leak, to see that the check above finds it."""

    def __init__(self, inner: Any, leak: str) -> None:
        self._inner, self._leak = inner, leak

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        return self._inner.read("alpha" if self._leak == "read" else tenant, work, sole)  # type: ignore[no-any-return]

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        return self._inner.write("alpha" if self._leak == "write" else tenant, work)  # type: ignore[no-any-return]


@pytest.mark.every_engine
@pytest.mark.parametrize(
    ("leak", "name"),
    [
        ("read", "flows.last"),
        ("read", "users.history"),
        ("read", "flows.memory"),
        ("read", "log.entries"),
        ("read", "jobs.show"),
        ("read", "users.record"),
        ("write", "flows.append"),
        ("write", "flows.delete_session"),
        ("write", "users.forget"),
        ("write", "flows.update_memory"),
    ],
)
def test_the_check_finds_planted_leaks(leak: str, name: str, engine: Engine) -> None:
    store = engine.store

    class Mixed(Engine):
        """Leaks for beta only while the operation itself runs."""

    engine.__class__ = Mixed
    original = Engine.read, Engine.write

    def read(self: Engine, principal: Principal, work: Any, *given: Any, sole: bool = False) -> Any:
        self.store = _Leaky(store, leak if principal.tenant == "beta" else "")
        try:
            return original[0](self, principal, work, *given, sole=sole)
        finally:
            self.store = store

    def write(self: Engine, principal: Principal, work: Any, *given: Any) -> Any:
        self.store = _Leaky(store, leak if principal.tenant == "beta" else "")
        try:
            return original[1](self, principal, work, *given)
        finally:
            self.store = store

    Mixed.read, Mixed.write = read, write  # type: ignore[method-assign, assignment]
    assert leaks(engine, OPERATIONS[name])


@pytest.mark.every_engine
def test_what_alice_said_never_reaches_bob(tmp_path: Path) -> None:
    with two_tenants(tmp_path) as (memory, other):
        memory.user("alice").add("my secret is quoxalphine", session="s1")
        memory.user("alice").add([{"role": "assistant", "content": "noted, quoxalphine"}])
        bob = memory.user("bob")
        assert bob.history(1000) == []
        assert bob.sessions() == []
        assert bob.history(10, session="s1") == []
        bob.add("hello", session="s1")
        assert [turn.content for turn in bob.history(1000)] == ["hello"]
        assert other.user("alice").history(1000) == []
        bob.forget()
        assert len(memory.user("alice").history(1000)) == 2


@pytest.mark.every_engine
def test_a_foreign_id_answers_byte_for_byte_like_an_unknown_one(tmp_path: Path) -> None:
    """T5: nobody can find out by trying whether another tenant has something."""
    with live(tmp_path) as server:
        server.engine.ensure_tenant("other")
        control, now = server.engine.store.control, server.engine.clock.now()
        _, foreign = create_key(control, "other", "k", "admin", None, None, now)
        with server.memory(foreign) as other:
            memory_id = other.flow("support").write("theirs")
            job = other.flow("support").session("x")
            job.history.append(role="user", content="hi")
            job_id = job.end().job
        unknown = "0" * 26
        with server.client() as client:
            for path, mine in ((f"/v1/flows/support/memories/{memory_id}", memory_id), (f"/v1/jobs/{job_id}", job_id)):
                theirs = client.get(path)
                nobodys = client.get(path.replace(str(mine), unknown))
                assert (theirs.status_code, theirs.content) == (nobodys.status_code, nobodys.content)
                assert theirs.status_code == 404


@pytest.mark.every_engine
def test_a_scoped_key_sees_its_own_jobs_only(tmp_path: Path) -> None:
    """T5: those about its user or flow, and those that an answer has named to it. The others answer like unknown ones."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        jobs: dict[str, list[str]] = {}
        for name in ("alice", "bob"):
            key = memory.keys.create(name, "agent", flow=name)
            session = memory.flow(name).session("s")
            session.history.append(role="user", content="I live in Porto.")
            ended = session.end().job
            with server.memory(key.secret) as mine:
                fact = mine.flow(name).write("to be deleted")
                jobs[key.secret] = [str(ended), mine.call("flows.delete_memory", {"flow": name, "id": fact}).job]
        jobs[memory.keys.create("carol", "agent", user="alice").secret] = []
        foreign = [one for some in jobs.values() for one in some]
        foreign += [job.id for job in memory.jobs.list() if job.id not in foreign]
        for secret, own in jobs.items():
            with server.client(secret) as client:
                unknown = [client.get(f"/v1/jobs/{'0' * 26}{rest}") for rest in ("", "/wait?timeout_s=0")]
                for job in foreign:
                    found = [client.get(f"/v1/jobs/{job}{rest}") for rest in ("", "/wait?timeout_s=0")]
                    if job in own:
                        assert [one.json()["id"] for one in found] == [job, job]
                    else:
                        assert [one.content for one in found] == [one.content for one in unknown], job
        with server.memory(memory.keys.create("dave", "admin", user="dave").secret) as dave:
            dave.user("dave").add("I live in Faro.")
            assert dave.user("dave").forget().residual == 0


@cases("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_roles_and_ties_are_enforced_for_every_operation(operation: Operation, untouched: Engine) -> None:
    """G14, embedded: a role below the needed one, and a key held to something else, are refused before anything is done."""
    engine = untouched
    roles = ["reader", "agent", "admin", "operator"]
    request = filled(
        {key: "x" if str(value).startswith("$") else value for key, value in operation.example.request.items()}, []
    )
    before = dump(engine, "alpha")
    for role in roles[: roles.index(operation.role)]:
        with pytest.raises(Forbidden):
            dispatch(engine, Principal("alpha", role), operation, request)  # type: ignore[arg-type]
    for tie in () if operation.any_scope else (Scope("flow", "another"), Scope("user", "another")):
        with pytest.raises(Forbidden):
            dispatch(engine, Principal("alpha", "operator", "k", tie), operation, request)
    assert dump(engine, "alpha") == before


def test_no_operation_of_a_scoped_key_shows_data_of_others(engine: Engine) -> None:
    """The few operations that any tied key may ask: a session of another flow, the tenant's backlog."""
    assert {name for name, operation in OPERATIONS.items() if operation.any_scope} >= ANY_MAY_ASK
    tied = Principal("alpha", "reader", "k", Scope("flow", "billing"))
    assert dispatch(engine, tied, OPERATIONS["flows.find"], {"session": "alice-42"}).flows == []
    assert dispatch(engine, tied, OPERATIONS["status.show"], {}).backlog == []
    own = Principal("alpha", "reader", "k", Scope("flow", "support"))
    assert dispatch(engine, own, OPERATIONS["flows.find"], {"session": "alice-42"}).flows == ["support"]


@pytest.mark.every_engine
def test_operations_that_see_to_their_ties_themselves_refuse_every_other(engine: Engine) -> None:
    """G14: what is asked for an owner, a user or an app: whoever is held to somebody else or to a flow is refused."""
    found = {name for name, operation in OPERATIONS.items() if operation.any_scope} - ANY_MAY_ASK
    assert found
    for number, name in enumerate(sorted(found)):
        tenant = f"tied-{number}"
        results: list[Any] = []
        engine.ensure_tenant(tenant)
        for earlier, data in OPERATIONS[name].example.given:
            results.append(plain(_do(engine, tenant, earlier, filled(data, results))))
        before, request = dump(engine, tenant), filled(OPERATIONS[name].example.request, results)
        for tie in (Scope("user", "another"), Scope("flow", "another")):
            with pytest.raises(Forbidden):
                dispatch(engine, Principal(tenant, "operator", "k", tie), OPERATIONS[name], request)
        assert dump(engine, tenant) == before, name


def test_tied_keys_can_erase_what_is_theirs_and_get_the_receipt(tmp_path: Path) -> None:
    with live(tmp_path) as server, server.memory() as memory:
        memory.flow("support").session("s").history.append(role="user", content="x")
        memory.user("alice").add("hello")
        with server.memory(memory.keys.create("f", "agent", flow="support").secret) as bot:
            assert bot.flow("support").session("s").delete().residual == 0
        with server.memory(memory.keys.create("u", "agent", user="alice").secret) as alice:
            assert alice.status().user == "alice"
            assert alice.user("alice").forget().residual == 0
        assert [key.name for key in memory.keys.list()] == ["first key", "f"]


@pytest.mark.every_engine
def test_every_route_refuses_bad_credentials(tmp_path: Path) -> None:
    """G14, over HTTP: every route × {none, garbage, revoked, expired, reader, wrong tie} is never 2xx and never 5xx."""
    clock = FrozenClock()
    with live(tmp_path, clock=clock, worker=False) as server:
        control = server.engine.store.control
        now = clock.now()
        expired = create_key(control, "default", "old", "operator", None, None, now, now + SECOND)[1]
        revoked_id, revoked = create_key(control, "default", "gone", "operator", None, None, now)
        reader = create_key(control, "default", "reads", "reader", None, None, now)[1]
        tied = create_key(control, "default", "tied", "operator", Scope("user", "nobody"), None, now)[1]
        with server.memory() as memory:
            memory.keys.revoke(revoked_id)
        clock.advance(seconds=2)
        with server.client() as client:
            for operation in OPERATIONS.values():
                path = operation.path.replace("{", "").replace("}", "")
                bad: list[tuple[str, int]] = [
                    ("", 401),
                    ("mw_garbage", 401),
                    ("not-a-key", 401),
                    (revoked, 401),
                    (expired, 401),
                ]
                bad += [] if operation.any_scope else [(tied, 403)]
                bad += [(reader, 403)] if operation.role != "reader" else []
                for key, status in bad:
                    headers = {"authorization": f"Bearer {key}" if key else "Basic none"}
                    data = {k: v for k, v in operation.example.request.items() if k not in operation.path_fields}
                    in_query = operation.method in ("GET", "DELETE")
                    sent = client.request(
                        operation.method,
                        path,
                        headers=headers,
                        params={k: v if isinstance(v, str) else json.dumps(v) for k, v in data.items()}
                        if in_query
                        else None,
                        content=None if in_query else msgspec.json.encode(data),
                    )
                    assert sent.status_code == status, (operation.name, key, sent.text)


@pytest.mark.every_engine
def test_routes_without_a_key_are_the_listed_ones(tmp_path: Path) -> None:
    """T6: a page that needs no key is on the list; anything else is refused."""
    public, signed = {"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs"}, "/v1/files/{token}"
    with live(tmp_path, worker=False) as server, server.client(key="none") as client:
        paths = {route.path for route in server.server._pages.routes}  # type: ignore[attr-defined]
        assert paths - {*public, signed} == {"/v1/events", "/v1/runs/{run}/stream", "/mcp"}
        assert client.get("/v1/events").status_code == 401
        assert client.get("/v1/runs/any/stream").status_code == 401
        assert client.get(signed).status_code == 404
        for path in public:
            assert client.get(path, follow_redirects=True).status_code == 200


@pytest.mark.every_engine
def test_keys_are_stored_as_hashes_only_and_revoked_at_once(tmp_path: Path) -> None:
    """T19: no file holds a key."""
    with live(tmp_path, worker=False) as server:
        with server.memory() as memory:
            key = memory.keys.create("bot", "agent", flow="support")
            with server.memory(key.secret) as bot:
                bot.flow("support").session("s").history.append(role="user", content="hi")
                with pytest.raises(Forbidden):
                    bot.flow("billing").session("s").history.last(5)
                with pytest.raises(Forbidden):
                    bot.user("alice").history()
            memory.keys.revoke(key.id)
        with server.memory(key.secret) as bot:
            while not isinstance(outcome(lambda: bot.flow("support").session("s").history.last(5)), Unauthenticated):
                pass
        for data in remains(tmp_path).values():
            assert key.secret.encode() not in data
            assert server.key.encode() not in data


def test_an_expired_key_stays_invalid_if_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = FrozenClock()
    with live(tmp_path, clock=clock, worker=False) as server:
        with server.memory() as memory:
            key = memory.keys.create("short", "reader", expires_in_s=60)
        with server.client(key.secret) as client:
            assert client.get("/v1/users").status_code == 200
            clock.advance(seconds=61)
            assert client.get("/v1/users").status_code == 401
            clock.advance(seconds=-61)
            wait_until(lambda: client.get("/v1/users").status_code == 401)  # it is looked up again within a second
            assert client.get("/v1/users").status_code == 401


@pytest.mark.every_engine
def test_the_name_of_a_revoked_key_is_deleted(engine_name: str, tmp_path: Path) -> None:
    with Memory(tmp_path / "home") as memory:
        key = memory.keys.create("Alice's phone")
        assert memory.keys.revoke(key.id).name == ""
        assert [one.name for one in memory.keys.list() if one.id == key.id] == [""]
