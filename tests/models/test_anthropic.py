"""Anthropic's protocol: what is sent, what its cache finds again, and what is made of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, config
from memwell.models.anthropic_chat import OPENING, build_layout
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

from ..cases import cases
from ..engines import located
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer, TextReply
from .chats import ASKED, KEY, REASONS, SCHEMA, SECRET, Chat, ask, failure, open_chat

pytestmark = pytest.mark.engines()

MARK = {"type": "ephemeral"}


def serving(script: Any = ({"facts": []},), **options: Any) -> ScriptedServer:
    return ScriptedServer(script, protocol="anthropic", **options)


def chat(url: str, key: str = "") -> Chat:
    return open_chat("anthropic", url, key)


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


def test_environment_variables_of_vendors_do_not_change_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
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


@cases(
    "fault",
    [fault for fault in Fault if fault not in REASONS and fault is not Fault.NAN],
    ids=lambda fault: fault.value,
)
def test_wrong_answers_in_valid_responses_are_returned(fault: Fault) -> None:
    with serving(fault=fault) as server:
        assert ask(chat(server.url)).text


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
def test_an_invalid_completion_is_reported(body: bytes) -> None:
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
def test_an_invalid_setting_is_refused(text: str) -> None:
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


def test_turns_that_begin_with_the_assistant_get_a_first_message() -> None:
    """C42: windows of a conversation and summaries may begin so, and the protocol refuses it. Nothing of them is lost."""
    given = [Message("system", "Be brief."), Message("assistant", "[Summary]"), Message("user", "And now?")]
    _, turns = build_layout(given)
    texts = [(turn["role"], [block["text"] for block in turn["content"]]) for turn in turns]
    assert texts == [("user", [OPENING]), ("assistant", ["[Summary]"]), ("user", ["And now?"])]
    _, turns = build_layout([Message("assistant", "[Summary]")])
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
