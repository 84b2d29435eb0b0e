"""Anthropic's own protocol: what is asked and kept for the next time, what goes wrong, and a server of it for tests."""

from __future__ import annotations

import json
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, ModelFailed, config
from memwell.models.anthropic_chat import AnthropicChat, build_layout
from memwell.models.completer import (
    TIMEOUT_S,
    Completion,
    LLMConfig,
    Message,
    estimate_tokens,
    get_reason,
    open_completer,
    parse_llm,
)
from memwell.registry import open_engine
from memwell.testing import ToolCall, ToolCalls

from ..cases import cases
from ..engines import located
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer, TextReply

pytestmark = pytest.mark.engines()

anthropic: Any = pytest.importorskip("anthropic")
KEY = "sk-ant-never-to-be-seen"
SECRET = "the parrot's name is Coco"
ASKED = [Message("system", "Answer."), Message("user", SECRET)]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
MARK = {"type": "ephemeral"}
LIMIT_S = 0.6
"""For what never ends by itself."""

TOLD = {
    Fault.HANG: "timeout",
    Fault.DRIP: "timeout",
    Fault.DRIP_HEADERS: "timeout",
    Fault.ERROR: "server_error",
    Fault.BUSY: "rate_limited",
    Fault.UNAUTHORISED: "unauthorised",
    Fault.RESET: "cut",
    Fault.HALF: "cut",
    Fault.LENGTH: "cut",
    Fault.HUGE: "too_large",
    Fault.NAN: "invalid_answer",
    Fault.REFUSAL: "refused",
    Fault.NO_CHOICES: "invalid_answer",
    Fault.GARBAGE: "invalid_answer",
}
OPENED: list[AnthropicChat] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def serving(script: Any = ({"facts": []},), **options: Any) -> ScriptedServer:
    return ScriptedServer(script, protocol="anthropic", **options)


def chat(url: str, key: str = "") -> AnthropicChat:
    """A model that is closed when the test is over."""
    OPENED.append(AnthropicChat("m", url, key))
    return OPENED[-1]


def ask(model: AnthropicChat, schema: dict[str, Any] | None = SCHEMA, timeout_s: float = 30.0) -> Completion:
    return model.complete(ASKED, schema=schema, max_tokens=100, timeout_s=timeout_s)


def failure(model: AnthropicChat, timeout_s: float = 30.0) -> ModelFailed:
    with pytest.raises(ModelFailed) as error:
        ask(model, timeout_s=timeout_s)
    return error.value


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


# -- what is sent --------------------------------------------------------------------------------------------------------


def test_an_answer_comes_with_what_it_took() -> None:
    with serving([TextReply("In Porto.", tokens_in=11, tokens_out=7)]) as server:
        assert ask(chat(server.url, KEY), None) == Completion("In Porto.", 11, 7)
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Answer.", "cache_control": MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": SECRET}]}],
    }


@cases("end", ["", "/", "/v1", "/v1/"])
def test_the_address_may_end_as_those_of_other_servers_do(end: str) -> None:
    with serving(["here"]) as server:
        assert ask(chat(server.url + end), None).text == "here"


def test_nothing_is_sent_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-token")
    monkeypatch.setenv("ANTHROPIC_PROFILE", "somebody")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "x-surprise: yes\nanthropic-version: 1999-01-01\nanthropic-beta: all"
    )
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving() as server:
        ask(chat(server.url), None)
    (request,) = server.requests
    ours = {"host", "connection", "accept", "accept-encoding", "content-type", "content-length", "user-agent"}
    assert set(request.headers) == ours | {"anthropic-version"}
    assert request.headers["user-agent"].startswith("memwell/")
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert request.headers["accept-encoding"] == "identity"


def test_anthropics_own_server_is_sent_no_temperature_since_it_refuses_all() -> None:
    for url, sent in (("https://api.anthropic.com", None), ("http://127.0.0.1:9", 0.5)):
        assert chat(url).adjust_temperature(0.5) == sent


# -- what it is laid out as ----------------------------------------------------------------------------------------------


def block(text: str, *, marked: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": text} | ({"cache_control": MARK} if marked else {})


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


@cases(
    ("messages", "system", "turns"),
    [
        ([("user", "a")], [], [turn("user", block("a"))]),
        ([("system", "s"), ("user", "a")], [block("s", marked=True)], [turn("user", block("a"))]),
        (
            [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c")],
            [block("s", marked=True)],
            [turn("user", block("a")), turn("assistant", block("b", marked=True)), turn("user", block("c"))],
        ),
        (
            [("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"), ("user", "e")],
            [],
            [
                turn("user", block("a"), block("b")),
                turn("assistant", block("c")),
                turn("user", block("d", marked=True), block("e")),
            ],
        ),
        (
            [("system", "s"), ("user", "a"), ("system", "t"), ("system", "u"), ("user", "b")],
            [block("s", marked=True), block("t"), block("u", marked=True)],
            [turn("user", block("a", marked=True), block("b"))],
        ),
        ([("system", " "), ("user", "a"), ("user", "")], [], [turn("user", block("a"))]),
        ([("system", "s"), ("system", "t")], [], [turn("user", block("s", marked=True), block("t"))]),
        ([], [], []),
    ],
    ids=["one", "instructions", "a conversation", "joined", "later instructions", "empty", "only instructions", "none"],
)
def test_messages_are_laid_out_as_the_protocol_wants(
    messages: list[Any], system: list[dict[str, Any]], turns: list[dict[str, Any]]
) -> None:
    assert build_layout([Message(*message) for message in messages]) == (system, turns)


def test_each_turn_of_a_conversation_finds_the_turns_before_it() -> None:
    messages = [Message("system", "You know about ships. " * 20), Message("user", "Which is the fastest?")]
    cached: list[int] = []
    with serving(lambda request: f"The one of turn {len(request.body['messages'])}.") as server:
        model = chat(server.url)
        for number in range(4):
            answer = model.complete(messages, schema=None, max_tokens=100, timeout_s=30)
            cached.append(answer.tokens_cached)
            messages += [Message("assistant", answer.text), Message("user", f"And number {number}?")]
    assert cached[0] == 0
    assert cached[1] >= estimate_tokens(messages[0].content)
    assert cached == sorted(set(cached)), "each finds more than the one before it"
    for request in server.requests:
        marked = [each for each in request.body["system"] if "cache_control" in each]
        marked += [each for sent in request.body["messages"] for each in sent["content"] if "cache_control" in each]
        assert len(marked) <= 4


def test_the_same_request_finds_all_that_it_marked() -> None:
    with serving(["here"]) as server:
        model = chat(server.url)
        first, second = ask(model, None), ask(model, None)
        *_, third = list(model.stream(ASKED, max_tokens=100, timeout_s=30))
    assert first.tokens_cached == 0
    assert isinstance(third, Completion)
    assert 0 < second.tokens_cached == third.tokens_cached < second.tokens_in == third.tokens_in == first.tokens_in


# -- JSON ----------------------------------------------------------------------------------------------------------------


def shape(request: ChatRequest) -> str:
    return "tool" if "tool_choice" in request.body else "format" if "output_config" in request.body else "text"


def test_json_is_the_input_of_a_tool_that_must_be_called() -> None:
    with serving([{"ok": True}]) as server:
        assert json.loads(ask(chat(server.url)).text) == {"ok": True}
    (request,) = server.requests
    (tool,) = request.body["tools"]
    assert tool["input_schema"] == SCHEMA
    assert request.body["tool_choice"] == {"type": "tool", "name": tool["name"], "disable_parallel_tool_use": True}


def test_a_model_that_says_something_instead_is_heard() -> None:
    with serving(["I'd rather not call that."]) as server:
        assert ask(chat(server.url)).text == "I'd rather not call that."


@pytest.mark.parametrize(("refused", "expected"), [({"tool"}, "format"), ({"tool", "format"}, "text")])
def test_a_model_that_must_not_be_forced_is_asked_in_other_ways(refused: set[str], expected: str) -> None:
    def picky(request: ChatRequest) -> Reply:
        return Raw(400, b"{}") if shape(request) in refused else {"ok": True}

    with serving(picky) as server:
        model = chat(server.url)
        assert ask(model).text == ask(model).text == '{"ok": true}'
        ask(model, None)
    *tried, again, last = map(shape, server.requests)
    assert tried == [*sorted(refused, reverse=True), expected]
    assert (again, last) == (expected, "text"), "what works is remembered"


def test_a_request_that_is_refused_in_every_form_is_given_up() -> None:
    with serving([Raw(400, b"{}")]) as server:
        assert get_reason(failure(chat(server.url))) == "bad_request"
    assert [shape(request) for request in server.requests] == ["tool", "format", "text"]


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@cases("fault", TOLD, ids=lambda fault: fault.value)
def test_every_fault_ends_in_time_with_its_name(fault: Fault) -> None:
    with serving(fault=fault, drip_s=0.1) as server:
        error = failure(chat(server.url, KEY), LIMIT_S if TOLD[fault] == "timeout" else 30)
        assert get_reason(error) == TOLD[fault]
        assert f"({TOLD[fault]})." in str(error)
        assert len(server.requests) == 1, "whether to try again is not decided here"
        assert wait_for(lambda: not any(thread.name == "memwell-model" for thread in threading.enumerate()))


@cases("fault", [fault for fault in Fault if fault not in TOLD], ids=lambda fault: fault.value)
def test_what_a_model_says_wrong_is_left_to_whoever_asked(fault: Fault) -> None:
    with serving(fault=fault) as server:
        assert ask(chat(server.url)).text


@cases(("status", "reason"), [(302, "invalid_answer"), (404, "not_found"), (413, "bad_request"), (529, "server_error")])
def test_other_statuses_have_names_too(status: int, reason: str) -> None:
    with serving([Raw(status, b"", {"location": "http://127.0.0.1:9"})]) as server:
        with pytest.raises(ModelFailed) as error:
            ask(chat(server.url, KEY), None)
        assert get_reason(error.value) == reason
        assert len(server.requests) == 1, "no redirect is followed"


@cases(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b'{"content": null}',
        b'{"content": [5]}',
        b'{"content": [{"type": "text", "text": 5}]}',
        b'{"content": [{"type": "text", "text": "\xff"}]}',
        b'{"content": [{"type": "tool_use", "input": {"a": "\xff"}}]}',
        b'{"content": [{"type": "tool_use", "input": {"a": NaN}}]}',
        b'{"content": [{"type": "tool_use", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"x": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_completion_is_told(body: bytes) -> None:
    with serving([Raw(200, body)]) as server:
        assert get_reason(failure(chat(server.url))) == "invalid_answer"


@cases("usage", [b"null", b"{}", b'{"input_tokens": -5, "output_tokens": 1}', b'"many"'])
def test_tokens_are_estimated_where_a_server_cannot_count(usage: bytes) -> None:
    body = b'{"content": [{"type": "text", "text": "four words of text"}], "usage": ' + usage + b"}"
    with serving([Raw(200, body)]) as server:
        answer = ask(chat(server.url))
    assert answer == Completion("four words of text", sum(estimate_tokens(each.content) for each in ASKED), 5)


def test_thoughts_are_not_part_of_what_is_said() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "Porto"}]
    body = json.dumps({"content": blocks, "stop_reason": "end_turn"}).encode()
    with serving([Raw(200, body)]) as server:
        assert ask(chat(server.url), None).text == "Porto"


@pytest.mark.parametrize("ending", ["max_tokens", "model_context_window_exceeded"])
def test_an_answer_that_had_to_end_is_cut(ending: str) -> None:
    with serving([TextReply("half of", 5, 9, finish_reason=ending)]) as server:
        error = failure(chat(server.url))
    assert get_reason(error) == "cut"
    assert (error.details["tokens_in"], error.details["tokens_out"]) == (5, 9)


# -- keys ----------------------------------------------------------------------------------------------------------------


def shown(error: BaseException | None) -> str:
    """All that an error, and what hangs on it, could show."""
    found = ""
    while error is not None:
        found += repr(error) + str(vars(error)) + "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__
    return found


@cases("fault", [None, *TOLD], ids=lambda fault: fault.value if fault else "none")
def test_neither_keys_nor_words_are_shown(fault: Fault | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), serving([SECRET], fault=fault, drip_s=0.1) as server:
        model = chat(server.url, KEY)
        told = repr(model) + str(model)
        try:
            ask(model, timeout_s=0.4)
        except ModelFailed as error:
            told += shown(error)
    assert KEY not in told + caplog.text
    assert SECRET not in told + caplog.text


@pytest.mark.parametrize("key", ["sk-ключ", "sk\nx", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(Invalid) as error:
        chat("http://127.0.0.1:9", key)
    assert key not in str(error.value)


@cases("url", ["", "nowhere", "ftp://x", "http://u:p@x", "http://x?key=1", "http://[x"])
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as error:
        chat(url)
    assert "u:p" not in str(error.value)


# -- the setting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("anthropic:claude-x", LLMConfig("anthropic", "claude-x", "https://api.anthropic.com", TIMEOUT_S)),
        (
            "anthropic:m@http://127.0.0.1:8000?timeout_s=5&tokens_per_day=9",
            LLMConfig("anthropic", "m", "http://127.0.0.1:8000", 5.0, 9),
        ),
    ],
)
def test_the_setting_names_model_address_and_time(text: str, wanted: LLMConfig) -> None:
    assert parse_llm(text, "https://elsewhere/v1") == wanted


@cases("text", ["anthropic", "anthropic:", "anthropic:@http://x", "anthropic:m?x=1"])
def test_a_setting_that_makes_no_sense_is_told(text: str) -> None:
    with pytest.raises(Invalid, match="MEMWELL_LLM is"):
        parse_llm(text, "https://elsewhere/v1")


def test_the_key_is_read_under_the_name_that_everybody_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    settings = config.load()
    assert settings.llm_key("anthropic") == KEY
    assert settings.llm_key("openai") == "sk-openai"
    assert KEY not in repr(settings)
    assert "sk-openai" not in repr(settings)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert config.load().llm_key("anthropic") == ""
    assert config.load(anthropic_api_key="given").llm_key("anthropic") == "given"


def test_the_setting_opens_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_completer(LLMConfig("anthropic", "m", "http://127.0.0.1:9", 5.0), KEY)
    assert repr(opened) == "AnthropicChat('anthropic:m@127.0.0.1:9')"
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    with serving(["here"]) as server:
        engine = open_engine(config.load(home=located(tmp_path), llm=f"anthropic:m@{server.url}?timeout_s=5"))
        try:
            assert engine.completer is not None
            completer, wanted = engine.completer
            completer.complete(ASKED, schema=None, max_tokens=9, timeout_s=wanted.timeout_s)
        finally:
            engine.close()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


# -- the server for tests ------------------------------------------------------------------------------------------------

HELLO = [{"role": "user", "content": "What is the weather in Porto?"}]
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def client(server: ScriptedServer, **options: Any) -> Any:
    return anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0, **{"timeout": 10, **options})


def create(server: ScriptedServer, **options: Any) -> Any:
    with client(server, timeout=options.pop("timeout", 10)) as model:
        return model.messages.create(model="m", max_tokens=50, messages=HELLO, **options)


def test_the_package_understands_words() -> None:
    with serving(["Sunny.", TextReply("Rain.", tokens_in=5, tokens_out=2)]) as server:
        first, second = create(server, system="Be brief."), create(server)
    assert (first.content[0].text, first.stop_reason, first.id, first.model) == ("Sunny.", "end_turn", "msg_1", "m")
    assert first.usage.input_tokens > 0
    assert (second.usage.input_tokens, second.usage.output_tokens) == (5, 2)
    assert server.requests[0].prompt == "Be brief.\nWhat is the weather in Porto?"


def test_the_package_understands_a_stream() -> None:
    text = "Sunny, with clouds in the afternoon. ☁️"
    asked = {"model": "m", "max_tokens": 50, "messages": HELLO}
    with serving([text]) as server, client(server) as model, model.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        whole = stream.get_final_message()
    assert len(pieces) > 2
    assert "".join(pieces) == whole.content[0].text == text
    assert whole.usage.output_tokens == estimate_tokens(text)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_package_understands_tools(streamed: bool) -> None:
    calls = (ToolCall("weather", {"city": "Porto"}), ToolCall("weather", {"city": "Lisbon"}))
    with serving([ToolCalls(calls)]) as server, client(server) as model:
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
    with serving(["here"]) as server:
        first, second = create(server, system=marked).usage, create(server, system=marked).usage
    assert (first.cache_read_input_tokens, second.cache_creation_input_tokens) == (0, 0)
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens > 0
    assert first.input_tokens == second.input_tokens > 0


def test_a_refusal_is_one() -> None:
    with serving(fault=Fault.REFUSAL) as server:
        answer = create(server)
    assert (answer.stop_reason, answer.content) == ("refusal", [])


def test_the_models_are_listed() -> None:
    with serving(model="parrot") as server, client(server) as model:
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
    with serving(fault=fault, drip_s=1.0) as server, pytest.raises(anthropic.AnthropicError) as error:
        create(server, timeout=limit_s)
    assert type(error.value).__name__ == ERRORS[fault]
