"""The scripted server speaks the protocol as OpenAI's own package understands it, fails on request, and leaves no thread."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from memwell.testing import ToolCall, ToolCalls

from ..cases import cases
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer, TextReply
from ..waiting import wait_until

pytestmark = pytest.mark.engines()

openai: Any = pytest.importorskip("openai")
ASKED = [{"role": "user", "content": "What is the weather in Porto?"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def client(server: ScriptedServer, **options: Any) -> Any:
    return openai.OpenAI(api_key="k", base_url=server.url, max_retries=0, timeout=options.get("timeout", 5))


def create(server: ScriptedServer, **options: Any) -> Any:
    with client(server, **options) as model:
        return model.chat.completions.create(model="m", messages=ASKED, **options)


def test_words_are_answered_whole() -> None:
    with ScriptedServer(["Sunny.", TextReply("Rain.", tokens_in=5, tokens_out=2)]) as server:
        first, second = create(server), create(server)
    assert (first.choices[0].message.content, first.choices[0].finish_reason) == ("Sunny.", "stop")
    assert (first.id, first.model, first.object) == ("chatcmpl-1", "m", "chat.completion")
    assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens > 0
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (5, 2)


def test_words_are_streamed() -> None:
    text = "Sunny, with clouds in the afternoon. ☁️"
    with ScriptedServer([text]) as server, client(server) as model:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        parts = list(model.chat.completions.create(model="m", messages=ASKED, **options))
    words = [part.choices[0].delta.content or "" for part in parts if part.choices]
    assert "".join(words) == text
    assert len(words) > 3
    assert parts[-2].choices[0].finish_reason == "stop"
    assert parts[-1].usage.completion_tokens > 0


@pytest.mark.parametrize("streamed", [False, True])
def test_tools_are_called(streamed: bool) -> None:
    reply = ToolCalls((ToolCall("weather", {"city": "Porto"}), ToolCall("weather", {"city": "Lisbon"})))
    with ScriptedServer([reply]) as server, client(server) as model:
        answer = model.chat.completions.create(model="m", messages=ASKED, tools=[WEATHER], stream=streamed)
        calls = joined(answer) if streamed else called(answer)
    assert calls == [("weather", {"city": "Porto"}), ("weather", {"city": "Lisbon"})]
    assert server.requests[0].body["tools"] == [WEATHER]


def called(answer: Any) -> list[tuple[str, Any]]:
    assert answer.choices[0].finish_reason == "tool_calls"
    return [(call.function.name, json.loads(call.function.arguments)) for call in answer.choices[0].message.tool_calls]


def joined(parts: Any) -> list[tuple[str, Any]]:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for call in (call for part in parts for call in part.choices[0].delta.tool_calls or []):
        names[call.index] = call.function.name or names[call.index]
        arguments[call.index] = arguments.get(call.index, "") + call.function.arguments
    return [(names[index], json.loads(arguments[index])) for index in names]


def test_json_is_answered_in_json_mode() -> None:
    def script(request: ChatRequest) -> Reply:
        return {"ok": True} if request.body["response_format"]["type"] == "json_object" else "Say JSON."

    with ScriptedServer(script) as server:
        answer = create(server, response_format={"type": "json_object"})
    assert json.loads(answer.choices[0].message.content) == {"ok": True}


def test_a_refusal_is_one() -> None:
    with ScriptedServer(fault=Fault.REFUSAL) as server:
        message = create(server).choices[0].message
    assert message.content is None
    assert message.refusal


def test_the_models_are_listed() -> None:
    with ScriptedServer(model="parrot") as server, client(server) as model:
        assert [found.id for found in model.models.list()] == ["parrot"]


ERRORS: dict[Fault, tuple[str, ...]] = {
    Fault.ERROR: ("InternalServerError",),
    Fault.BUSY: ("RateLimitError",),
    Fault.UNAUTHORISED: ("AuthenticationError",),
    Fault.RESET: ("APIConnectionError",),
    Fault.HANG: ("APITimeoutError",),
    Fault.DRIP_HEADERS: ("APITimeoutError",),
}


@cases("fault", ERRORS, ids=lambda fault: fault.value)
def test_faults_are_what_the_package_takes_them_for(fault: Fault) -> None:
    with ScriptedServer(fault=fault, drip_s=1.0) as server, pytest.raises(openai.OpenAIError) as error:
        create(server, timeout=0.3)
    assert type(error.value).__name__ in ERRORS[fault]
    if fault is Fault.BUSY:
        assert error.value.response.headers["retry-after"] == "20"


def test_it_answers_again_without_the_fault() -> None:
    with ScriptedServer(["fine"], fault=Fault.ERROR) as server:
        with pytest.raises(openai.InternalServerError):
            create(server)
        server.fault = None
        assert create(server).choices[0].message.content == "fine"


@cases(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("POST", "/v1/embeddings", b"{}", 404),
        ("POST", "/v1/chat/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b"[" * 100_000, 400),
        ("POST", "/v1/chat/completions", b'{"model": "m"}', 400),
        ("POST", "/v1/chat/completions", b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}', 200),
    ],
)
def test_invalid_requests_get_an_error(method: str, path: str, body: bytes | None, status: int) -> None:
    with ScriptedServer() as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        connection = http.client.HTTPConnection(host, timeout=5)
        connection.request(method, path, body)
        answer = connection.getresponse()
        assert answer.status == status
        assert "error" in json.loads(answer.read()) or status == 200
        connection.close()


def test_a_body_without_bound_is_not_read() -> None:
    with ScriptedServer() as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://").removesuffix("/v1"), timeout=5)
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("content-length", str(10**12))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()
    assert server.requests == []


def test_an_empty_script_says_so_and_any_answer_can_be_given() -> None:
    with ScriptedServer([]) as server, pytest.raises(openai.InternalServerError, match="script is empty"):
        create(server)
    with ScriptedServer([Raw(418, b"{}", {"x-tea": "yes"})]) as server, pytest.raises(openai.APIStatusError) as error:
        create(server)
    assert error.value.response.headers["x-tea"] == "yes"


@cases("fault", [None, Fault.HANG, Fault.DRIP, Fault.HUGE], ids=str)
def test_nothing_of_it_is_left(fault: Fault | None) -> None:
    """Also while clients wait, or keep a connection, or do not read what they are sent."""
    before = set(threading.enumerate())
    with ScriptedServer(fault=fault) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        connections = [http.client.HTTPConnection(host, timeout=5) for _ in range(5)]
        for connection in connections:
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": ASKED}))
        wait_until(lambda: len(server.requests) == 5)
    assert server.connections == 0
    assert set(threading.enumerate()) <= before
    for connection in connections:
        connection.close()
