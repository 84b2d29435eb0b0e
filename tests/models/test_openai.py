"""OpenAI's protocol: what is sent, and what is made of the answers."""

from __future__ import annotations

import pytest

from memwell.models.completer import Completion, estimate_tokens, get_reason

from ..cases import cases
from ..scripted import ChatRequest, Raw, Reply, ScriptedServer, TextReply
from .chats import ASKED, KEY, SCHEMA, Chat, ask, failure, open_chat

pytestmark = pytest.mark.engines()


def chat(url: str, key: str = "") -> Chat:
    return open_chat("openai", url, key)


def test_an_answer_comes_with_what_it_took() -> None:
    with ScriptedServer([TextReply('{"ok": true}', tokens_in=11, tokens_out=7)]) as server:
        assert ask(chat(server.url, KEY)) == Completion('{"ok": true}', 11, 7)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "m"
    assert request.body["messages"] == [{"role": message.role, "content": message.content} for message in ASKED]
    assert request.body["max_tokens"] == 100
    assert request.body["response_format"]["json_schema"]["schema"] == SCHEMA


def test_environment_variables_of_vendors_do_not_change_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-surprise: yes\nauthorization: Bearer surprise")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with ScriptedServer() as server:
        ask(chat(server.url), None)
    (request,) = server.requests
    ours = {"host", "connection", "accept", "accept-encoding", "content-type", "content-length", "user-agent"}
    assert set(request.headers) == ours
    assert request.headers["user-agent"].startswith("memwell/")
    assert "response_format" not in request.body


def test_a_server_that_knows_no_schemas_is_asked_in_other_ways() -> None:
    def picky(request: ChatRequest) -> Reply:
        shape = request.body.get("response_format", {}).get("type")
        return Raw(400, b"{}") if shape == "json_schema" else {"ok": True}

    with ScriptedServer(picky) as server:
        model = chat(server.url)
        assert ask(model).text == ask(model).text == '{"ok": true}'
    shapes = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert shapes == ["json_schema", "json_object", "json_object"], "what works is remembered"


def test_a_request_that_is_refused_in_every_form_is_given_up_and_tried_in_full_the_next_time() -> None:
    with ScriptedServer([Raw(400, b"{}")]) as server:
        model = chat(server.url)
        assert get_reason(failure(model)) == "bad_request"
        assert get_reason(failure(model)) == "bad_request"
    assert len(server.requests) == 6


@cases("usage", [b"null", b"{}", b'{"prompt_tokens": -5, "completion_tokens": 1}', b'"many"'])
def test_tokens_are_estimated_where_a_server_cannot_count(usage: bytes) -> None:
    body = b'{"choices": [{"message": {"content": "four words of text"}}], "usage": ' + usage + b"}"
    with ScriptedServer([Raw(200, body)]) as server:
        answer = ask(chat(server.url))
    expected = sum(estimate_tokens(message.content) for message in ASKED)
    assert answer == Completion("four words of text", expected, 5)


@cases(("details", "cached"), [(b'{"cached_tokens": 6}', 6), (b"null", 0), (b'"some"', 0), (b"{}", 0)])
def test_cached_tokens_are_counted(details: bytes, cached: int) -> None:
    usage = b'{"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": ' + details + b"}"
    body = b'{"choices": [{"message": {"content": "hi"}}], "usage": ' + usage + b"}"
    with ScriptedServer([Raw(200, body)]) as server:
        assert ask(chat(server.url)) == Completion("hi", 9, 1, cached)


@cases(
    "body",
    [
        b"",
        b"null",
        b'{"choices": [{}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": NaN}',
        b'{"choices": [{"message": {"content": "\xff"}}]}',
        b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x": ' + b"[" * 100_000,
    ],
    ids=["empty", "null", "no message", "a number", "nan", "not text", "deep", "deep and unknown"],
)
def test_an_invalid_completion_is_reported(body: bytes) -> None:
    with ScriptedServer([Raw(200, body)]) as server:
        assert get_reason(failure(chat(server.url))) == "invalid_answer"
