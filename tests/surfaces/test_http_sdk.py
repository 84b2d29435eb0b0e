"""The SDK over HTTP: it retries what may be retried, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path

import httpx
import pytest

import memwell
from memwell import Invalid, Unauthenticated, Unavailable, Unsupported, sdk
from memwell.sdk.http import HttpTransport
from memwell.sdk.values import Handle

from ..cases import cases
from ..engines import Memory

TURN = (
    b'{"id":"1","seq":1,"session":"s","role":"user","content":"x",'
    b'"created_at":"2026-01-01T00:00:00Z","occurred_at":"2026-01-01T00:00:00Z"}'
)


def transport(answer: Callable[[httpx.Request], httpx.Response]) -> HttpTransport:
    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x")
    return HttpTransport("http://x", "mw_x", client)


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ReadError("cut")
        return httpx.Response(503 if len(keys) == 2 else 201, content=TURN)

    data = {"flow": "f", "session": "s", "role": "user", "content": "x"}
    assert transport(answer).call("flows.append", data).id == "1"
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_unsafe_requests_are_not_repeated() -> None:
    tries: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(1)
        raise httpx.ReadError("cut")

    with pytest.raises(Unavailable):
        transport(answer).call("keys.create", {})
    assert len(tries) == 1


def test_a_server_that_stays_away_is_named() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Unavailable, match="memwell serve"):
        transport(answer).call("flows.list", {})


@cases(("status", "body"), [(200, b"<html>"), (502, b"bad gateway"), (200, b'{"other": 1}'), (404, b"{}")])
def test_an_answer_that_is_not_ours_is_said_to_be_so(status: int, body: bytes) -> None:
    with pytest.raises(Unavailable, match="not from a Memwell server"):
        transport(lambda request: httpx.Response(status, content=body)).call("flows.list", {})


def test_a_plain_401_of_a_proxy_is_understood() -> None:
    with pytest.raises(Unauthenticated):
        transport(lambda request: httpx.Response(401, content=b"no")).call("flows.list", {})


def test_targets_are_distinguished(tmp_path: object) -> None:
    with pytest.raises(Invalid, match="comes from the API key"):
        Memory("http://127.0.0.1:1", tenant="acme")
    with pytest.raises(Unsupported, match="redis"):
        Memory("redis://x")
    with pytest.raises(Invalid, match="lower-case"):
        Memory(str(tmp_path), tenant="No Such Name")


def test_objects_say_what_they_are(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        place = memory._transport.place
        shown = {
            f"User(user='alice', memory={place!r})": memory.user("alice"),
            f"Session(flow='support', session='s', memory={place!r})": memory.flow("support").session("s"),
            f"Bank(id='b', memory={place!r})": memory.banks.open("b"),
            f"Banks(memory={place!r})": memory.banks,
            f"Scope(app='shop', user_id='u1', memory={place!r})": memory.app("shop").scope(user_id="u1"),
            f"AppSession(app='shop', session_id='s', memory={place!r})": memory.app("shop").session("s"),
        }
        assert {text: repr(one) for text, one in shown.items()} == {text: text for text in shown}
    with memwell.Memory("http://me:secret@127.0.0.1:1", api_key="mw_secret") as remote:
        assert repr(remote) == "Memory('http://127.0.0.1:1')"
        assert "secret" not in repr(remote.flow("f"))
    with memwell.Memory(str(tmp_path / "home"), tenant="acme", worker=False) as local:
        assert repr(local) == f"Memory('{tmp_path / 'home'}, tenant acme')"


def test_every_class_of_the_sdk_says_what_it_is() -> None:
    modules = [import_module(f"memwell.sdk.{part.stem}") for part in Path(sdk.__file__).parent.glob("_*sync*.py")]
    classes = {one for module in modules for _, one in getmembers(module, isclass) if one.__module__ == module.__name__}
    assert len(classes) > 40
    assert [one for one in classes if not issubclass(one, Handle)] == []
