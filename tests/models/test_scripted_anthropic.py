"""The scripted server speaks Anthropic's protocol as Anthropic's own package understands it."""

from __future__ import annotations

from typing import Any

import pytest

from memwell.models.completer import estimate_tokens
from memwell.testing import ToolCall, ToolCalls

from ..cases import cases
from ..scripted import Fault, ScriptedServer, TextReply

pytestmark = pytest.mark.engines()

anthropic: Any = pytest.importorskip("anthropic")
MARK = {"type": "ephemeral"}
HELLO = [{"role": "user", "content": "What is the weather in Porto?"}]
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def serve(script: Any = (), **options: Any) -> ScriptedServer:
    return ScriptedServer(script, protocol="anthropic", **options)


def client(server: ScriptedServer, **options: Any) -> Any:
    return anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0, **{"timeout": 10, **options})


def create(server: ScriptedServer, **options: Any) -> Any:
    with client(server, timeout=options.pop("timeout", 10)) as model:
        return model.messages.create(model="m", max_tokens=50, messages=HELLO, **options)


def test_the_package_understands_words() -> None:
    with serve(["Sunny.", TextReply("Rain.", tokens_in=5, tokens_out=2)]) as server:
        first, second = create(server, system="Be brief."), create(server)
    assert (first.content[0].text, first.stop_reason, first.id, first.model) == ("Sunny.", "end_turn", "msg_1", "m")
    assert first.usage.input_tokens > 0
    assert (second.usage.input_tokens, second.usage.output_tokens) == (5, 2)
    assert server.requests[0].prompt == "Be brief.\nWhat is the weather in Porto?"


def test_the_package_understands_a_stream() -> None:
    text = "Sunny, with clouds in the afternoon. ☁️"
    asked = {"model": "m", "max_tokens": 50, "messages": HELLO}
    with serve([text]) as server, client(server) as model, model.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        whole = stream.get_final_message()
    assert len(pieces) > 2
    assert "".join(pieces) == whole.content[0].text == text
    assert whole.usage.output_tokens == estimate_tokens(text)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_package_understands_tools(streamed: bool) -> None:
    calls = (ToolCall("weather", {"city": "Porto"}), ToolCall("weather", {"city": "Lisbon"}))
    with serve([ToolCalls(calls)]) as server, client(server) as model:
        asked = {"model": "m", "max_tokens": 50, "messages": HELLO, "tools": [WEATHER]}
        if streamed:
            with model.messages.stream(**asked) as stream:
                answer = stream.get_final_message()
        else:
            answer = model.messages.create(**asked)
    assert answer.stop_reason == "tool_use"
    assert [(each.name, each.input) for each in answer.content] == [(call.name, call.arguments) for call in calls]


def test_the_package_finds_what_was_marked_in_the_cache() -> None:
    marked = [{"type": "text", "text": "You know about ships.", "cache_control": MARK}]
    with serve(["here"]) as server:
        first, second = create(server, system=marked).usage, create(server, system=marked).usage
    assert (first.cache_read_input_tokens, second.cache_creation_input_tokens) == (0, 0)
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens > 0
    assert first.input_tokens == second.input_tokens > 0


def test_a_refusal_is_one() -> None:
    with serve(fault=Fault.REFUSAL) as server:
        answer = create(server)
    assert (answer.stop_reason, answer.content) == ("refusal", [])


def test_the_models_are_listed() -> None:
    with serve(model="parrot") as server, client(server) as model:
        assert [found.id for found in model.models.list()] == ["parrot"]


ERRORS: dict[Fault, str] = {
    Fault.ERROR: "InternalServerError",
    Fault.BUSY: "RateLimitError",
    Fault.UNAUTHORISED: "AuthenticationError",
    Fault.RESET: "APIConnectionError",
    Fault.HANG: "APITimeoutError",
    Fault.DRIP_HEADERS: "APITimeoutError",
}


@cases("fault", ERRORS, ids=lambda fault: fault.value)
def test_faults_are_what_the_package_takes_them_for(fault: Fault) -> None:
    limit_s = 0.3 if ERRORS[fault] == "APITimeoutError" else 10
    with serve(fault=fault, drip_s=1.0) as server, pytest.raises(anthropic.AnthropicError) as error:
        create(server, timeout=limit_s)
    assert type(error.value).__name__ == ERRORS[fault]
