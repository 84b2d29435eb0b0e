"""The SDK over HTTP: it retries what may be retried, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from memwell import Invalid, Unauthenticated, Unavailable, Unsupported
from memwell.sdk import http
from memwell.sdk.http import HttpTransport

from ..cases import cases
from ..engines import Memory

TURN = (
    b'{"id":"1","seq":1,"session":"s","role":"user","content":"x",'
    b'"created_at":"2026-01-01T00:00:00Z","occurred_at":"2026-01-01T00:00:00Z"}'
)


def transport(answer: Callable[[httpx.Request], httpx.Response]) -> HttpTransport:
    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x")
    return HttpTransport("http://x", "mw_x", client)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_retry_delay", lambda attempt, retry_after: 0.0)


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


def test_what_cannot_be_repeated_safely_is_not() -> None:
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


def test_targets_are_told_apart(tmp_path: object) -> None:
    with pytest.raises(Invalid, match="comes from the API key"):
        Memory("http://127.0.0.1:1", tenant="acme")
    with pytest.raises(Unsupported, match="redis"):
        Memory("redis://x")
    with pytest.raises(Invalid, match="lower-case"):
        Memory(str(tmp_path), tenant="No Such Name")
