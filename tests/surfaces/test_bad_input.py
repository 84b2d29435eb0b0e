"""Bad input: every surface answers with the same code and a sentence that says what to do, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from memwell import MemwellError
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.generated import NOUNS, list_positional
from memwell.surfaces.cli.main import app
from memwell.surfaces.rest.openapi import build_document

from ..cases import cases
from ..engines import Memory, located
from ..live import Live, live

TURN = {"flow": "f", "session": "s", "role": "user", "content": "x"}
FACT = {"flow": "f", "content": "x"}
DEEP: Any = []
for _ in range(20):
    DEEP = [DEEP]


@dataclass
class Case:
    """A request, the code of its error, and a word that the sentence must hold."""

    name: str
    operation: str
    data: dict[str, Any]
    code: str
    word: str
    only: set[str] = field(default_factory=lambda: {"sdk", "http", "rest", "cli"})


CASES = [
    Case("unknown role", "flows.append", {**TURN, "role": "human"}, "invalid", "'assistant'"),
    Case("importance above 1", "flows.write", {**FACT, "importance": 1.5}, "invalid", "from 0 to 1"),
    Case("importance below 0", "flows.write", {**FACT, "importance": -0.1}, "invalid", "from 0 to 1"),
    Case(
        "importance NaN", "flows.write", {**FACT, "importance": float("nan")}, "invalid", "importance", {"sdk", "cli"}
    ),
    Case(
        "importance as text",
        "flows.write",
        {**FACT, "importance": "high"},
        "invalid",
        "importance",
        {"sdk", "http", "rest"},
    ),
    Case("empty content", "flows.append", {**TURN, "content": ""}, "invalid", "at least one character"),
    Case("empty fact", "flows.write", {**FACT, "content": ""}, "invalid", "at least one character"),
    Case("content over 1 MiB", "flows.append", {**TURN, "content": "x" * (1024 * 1024 + 1)}, "too_large", "1 MiB"),
    Case("content over 1 MiB in UTF-8", "flows.append", {**TURN, "content": "é" * 600_000}, "too_large", "1 MiB"),
    Case("NUL in content", "flows.append", {**TURN, "content": "a\x00b"}, "invalid", "NUL"),
    Case("half a surrogate pair", "flows.append", {**TURN, "content": "\ud800"}, "invalid", "Unicode", {"sdk"}),
    Case("limit 0", "flows.last", {"flow": "f", "session": "s", "limit": 0}, "invalid", "1 to 1000"),
    Case("limit 1001", "flows.last", {"flow": "f", "session": "s", "limit": 1001}, "invalid", "1 to 1000"),
    Case("limit negative", "flows.sessions", {"flow": "f", "limit": -5}, "invalid", "1 to 1000"),
    Case("control character in an id", "flows.append", {**TURN, "session": "a\nb"}, "invalid", "control characters"),
    Case("escape in a flow", "flows.append", {**TURN, "flow": "a\x1bb"}, "invalid", "control characters"),
    Case("too long an id", "flows.append", {**TURN, "session": "x" * 257}, "invalid", "1 to 256"),
    Case("a dotted id", "flows.append", {**TURN, "session": ".."}, "invalid", "'..'", {"sdk", "cli"}),
    Case("unknown session", "flows.show", {"flow": "f", "session": "nobody"}, "not_found", "no such session"),
    Case("unknown memory", "flows.memory", {"flow": "f", "id": "0" * 26}, "not_found", "no such memory"),
    Case("unknown job", "jobs.show", {"id": "0" * 26}, "not_found", "no such job"),
    Case("unknown user", "users.forget", {"user": "nobody"}, "not_found", "There is no memory"),
    Case(
        "unknown field",
        "flows.write",
        {**FACT, "importence": 1},
        "invalid",
        "no field `importence`",
        {"sdk", "http", "rest"},
    ),
    Case(
        "missing field",
        "flows.append",
        {"flow": "f", "session": "s", "content": "x"},
        "invalid",
        "role",
        {"sdk", "http", "rest"},
    ),
    Case("cursor of another list", "flows.sessions", {"flow": "f", "cursor": "WyJqb2JzIiwieCJd"}, "invalid", "cursor"),
    Case("garbage cursor", "users.list", {"cursor": "%%%"}, "invalid", "cursor"),
    Case(
        "metadata too deep",
        "users.add",
        {"user": "u", "content": "x", "metadata": {"a": DEEP}},
        "invalid",
        "16 levels",
    ),
    Case(
        "metadata too large",
        "users.add",
        {"user": "u", "content": "x", "metadata": {"a": "y" * 70_000}},
        "too_large",
        "64 KiB",
    ),
    Case("neither text nor messages", "users.add", {"user": "u"}, "invalid", "(a list of turns)"),
    Case("a bad time", "users.add", {"user": "u", "content": "x", "occurred_at": "yesterday"}, "invalid", "RFC 3339"),
    Case(
        "too many turns",
        "flows.extend",
        {"flow": "f", "session": "s", "turns": [{"role": "user", "content": "x"}] * 1001},
        "invalid",
        "1 to 1000",
    ),
    Case("a tenant with capitals", "tenants.create", {"tenant": "Acme/.."}, "invalid", "lower-case"),
    Case("a key for two things", "keys.create", {"flow": "f", "user": "u"}, "invalid", "not to both"),
    Case("an unknown role of a key", "keys.create", {"role": "god"}, "invalid", "`reader` reads"),
    Case(
        "import without a session",
        "flows.import",
        {"flow": "f", "lines": [{"type": "turn", "role": "user", "content": "x"}]},
        "invalid",
        "lines[0].session",
    ),
]


@pytest.fixture(scope="module")
def server(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server"), auth=False, worker=False) as server:
        yield server


@pytest.fixture(scope="module")
def home(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which nothing is ever written, so that all may share it."""
    return tmp_path_factory.mktemp("home")


def bad_inputs(surface: str) -> Callable[[Callable[..., None]], Any]:
    found = [case for case in CASES if surface in case.only]
    return cases("case", found, ids=lambda case: case.name)


@bad_inputs("sdk")
def test_embedded(case: Case, home: Path) -> None:
    with Memory(home, worker=False) as memory:
        with pytest.raises(MemwellError) as raised:
            memory.call(case.operation, case.data)
        assert raised.value.code == case.code
        assert case.word in raised.value.message
        assert (memory.flows(), memory.users()) == ([], [])


@bad_inputs("http")
def test_over_http(case: Case, server: Live) -> None:
    with server.memory() as memory:
        with pytest.raises(MemwellError) as raised:
            memory.call(case.operation, case.data)
        assert raised.value.code == case.code
        assert case.word in raised.value.message
        assert (memory.flows(), memory.users()) == ([], [])


@bad_inputs("rest")
def test_rest(case: Case, server: Live) -> None:
    operation = OPERATIONS[case.operation]
    rest = {name: value for name, value in case.data.items() if name not in operation.path_fields}
    path = operation.path
    for name in operation.path_fields:
        path = path.replace(
            "{" + name + "}",
            httpx.URL("http://x", params={"v": str(case.data[name])}).query.decode()[2:].replace("+", "%20"),
        )
    in_query = operation.method in ("GET", "DELETE")
    with httpx.Client(base_url=server.url) as client:
        content = None if in_query else msgspec.json.encode(rest)
        response = client.request(operation.method, path, params=rest if in_query else None, content=content)
    error = response.json()["error"]
    assert response.status_code in (400, 404, 413)
    assert (error["code"], case.word in error["message"]) == (case.code, True), error


@bad_inputs("cli")
def test_command_line(case: Case, home: Path) -> None:
    operation = OPERATIONS[case.operation]
    arguments = [str(case.data[name]) for name in list_positional(operation) if name in case.data]
    for name, value in case.data.items():
        if name not in list_positional(operation):
            text = (
                value
                if isinstance(value, str)
                else str(value)
                if isinstance(value, float)
                else msgspec.json.encode(value).decode()
            )
            arguments += [f"--{name.replace('_', '-')}={text}"]
    arguments += ["--yes"] if operation.effect == "erase" else []
    group = NOUNS[operation.group][0]
    result = CliRunner().invoke(app, ["--home", located(home), group, operation.command, *arguments])
    expected = {"invalid": 2, "too_large": 2, "not_found": 4}[case.code]
    assert result.exit_code == expected, result.output
    assert case.word in " ".join(result.stderr.split())


@cases(
    "path",
    [
        "/v1/flows/%7B%7D/sessions",
        "/v1/flows/{}/sessions",
        "/v1/events/log?after=99999999999999999999999",
        "/api/agent-memory/x?after=99999999999999999999999",
        "/v1/users/%FF/turns",
        "/v1/users/a/turns?session=%FF",
        "/v1/users/a/turns?limit=" + "9" * 5000,
        "/v1//users",
        "/v1/users/%00/turns",
        "/v1/users/..%2F..%2Fx/turns",
    ],
)
def test_no_address_makes_the_server_stumble(server: Live, path: str) -> None:
    assert httpx.get(server.url + path).status_code in (200, 400, 404)


def test_a_time_at_the_edge_of_the_calendar_is_refused(server: Live) -> None:
    body = {"content": "x", "occurred_at": "0001-01-01T00:00:00+14:00"}
    assert httpx.post(f"{server.url}/v1/users/a/turns", json=body).status_code == 400


@cases(
    ("call", "word"),
    [
        (lambda memory: memory.flow("f").session("..").delete(), "cannot be"),
        (lambda memory: memory.flow("f").delete_memory(".."), "cannot be"),
        (lambda memory: memory.user("").history(), "1 to 256"),
        (lambda memory: memory.user(123).history(), "user"),
        (lambda memory: memory.user("a").add("x", metadata={"a": {1}}), "not JSON"),
        (lambda memory: memory.user("a").add("x", metadata={1: "a"}), "must be text|not text"),
        (lambda memory: memory.user("a").add("x", metadata={"a": float("nan")}), "JSON"),
        (lambda memory: memory.user("a").add("x", metadata={"a": object()}), "not JSON"),
        (lambda memory: memory.user("a").add("\ud800"), "Unicode"),
        (lambda memory: memory.user("\ud800").add("x"), "Unicode"),
        (lambda memory: memory.flow("f").session("s").history.last("5"), "limit"),
        (lambda memory: memory.user("a").add("x", key=""), "Idempotency-Key"),
        (lambda memory: memory.user("a").add("x", key="ключ"), "Idempotency-Key"),
        (lambda memory: memory.user("a").add("x", key="a\nb"), "Idempotency-Key"),
    ],
)
def test_the_sdk_refuses_the_same_here_and_over_http(
    server: Live, tmp_path: Path, call: Callable[[Any], Any], word: str
) -> None:
    """What a URL or a header would bend on its way is refused before it is sent."""
    with Memory(tmp_path, worker=False) as here, server.memory() as there:
        there.flow("f").write("precious")
        for memory in (here, there):
            with pytest.raises(MemwellError, match=word) as raised:
                call(memory)
            assert raised.value.code == "invalid"
        assert [flow.flow for flow in there.flows()] == ["f"]
        there.flow("f").delete()


@cases(
    ("body", "word"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "JSON object"),
        (b'"text"', "JSON object"),
        (b'{"role":"user","content":"\xff"}', "not valid JSON"),
        (b'{"role":"user","content":NaN}', "not valid JSON"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (b'{"role":"user","content":"\\ud800"}', "not valid JSON"),
    ],
    ids=["cut off", "a list", "a string", "not UTF-8", "NaN", "very deep", "half a surrogate"],
)
def test_a_bad_body_is_refused(server: Live, body: bytes, word: str) -> None:
    answer = httpx.post(f"{server.url}/v1/flows/f/sessions/s/turns", content=body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]


def test_unknown_pages_and_methods_answer_in_the_same_form(server: Live) -> None:
    assert httpx.get(f"{server.url}/nowhere").json()["error"]["code"] == "not_found"
    refused = httpx.put(f"{server.url}/v1/users")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


def test_every_documented_status_is_declared() -> None:
    """A case that no operation of the registry has would not be found: every operation is in the document."""
    described = build_document(OPERATIONS.values())
    found = {method["operationId"] for path in described["paths"].values() for method in path.values()}
    assert found == set(OPERATIONS)
