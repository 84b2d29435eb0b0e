"""Language models behind HTTP: whatever their server does, a call ends in time, with one word for what went wrong."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from memwell import Invalid, ModelFailed
from memwell.models.chat import TimedStream
from memwell.models.completer import (
    SENTENCES,
    TIMEOUT_S,
    Completion,
    LLMConfig,
    Message,
    estimate_tokens,
    get_reason,
    model_error,
    open_completer,
    parse_llm,
)
from memwell.models.openai_chat import OpenAIChat
from memwell.testing import ScriptedModel

from ..cases import cases
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer, TextReply

pytestmark = pytest.mark.engines()

KEY = "sk-never-to-be-seen"
SECRET = "the parrot's name is Coco"
ASKED = [Message("system", "Answer."), Message("user", SECRET)]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
LIMIT_S = 0.6

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
    Fault.REFUSAL: "refused",
    Fault.NO_CHOICES: "invalid_answer",
    Fault.GARBAGE: "invalid_answer",
}


OPENED: list[OpenAIChat] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def chat(url: str, key: str = "") -> OpenAIChat:
    """A model that is closed when the test is over."""
    OPENED.append(OpenAIChat("m", url, key))
    return OPENED[-1]


def ask(model: Any, schema: dict[str, Any] | None = SCHEMA, timeout_s: float = 5.0) -> Completion:
    answer: Completion = model.complete(ASKED, schema=schema, max_tokens=100, timeout_s=timeout_s)
    return answer


def failure(model: Any, timeout_s: float = 5.0) -> ModelFailed:
    with pytest.raises(ModelFailed) as error:
        ask(model, timeout_s=timeout_s)
    return error.value


def threads() -> int:
    return sum(thread.name == "memwell-model" for thread in threading.enumerate())


def wait_for(condition: Callable[[], bool], seconds: float = 3.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


# -- what is sent --------------------------------------------------------------------------------------------------------


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


def test_nothing_is_sent_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_connections_are_used_again() -> None:
    with ScriptedServer() as server:
        model = chat(server.url)
        for _ in range(5):
            ask(model)
        assert server.connections == 1
        model.close()
        assert wait_for(lambda: server.connections == 0)


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
def test_what_was_found_in_a_cache_is_told(details: bytes, cached: int) -> None:
    usage = b'{"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": ' + details + b"}"
    body = b'{"choices": [{"message": {"content": "hi"}}], "usage": ' + usage + b"}"
    with ScriptedServer([Raw(200, body)]) as server:
        assert ask(chat(server.url)) == Completion("hi", 9, 1, cached)


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@cases("fault", TOLD, ids=lambda fault: fault.value)
def test_every_fault_ends_in_time_with_its_name(fault: Fault) -> None:
    with ScriptedServer(fault=fault, drip_s=0.1) as server:
        model = chat(server.url, KEY)
        error = failure(model, LIMIT_S)
        assert get_reason(error) == TOLD[fault]
        assert f"({TOLD[fault]})." in str(error)
        assert len(server.requests) == 1, "whether to try again is not decided here"
        assert wait_for(lambda: threads() == 0), "the call has ended on this side too"


def test_one_byte_a_second_does_not_keep_a_call_alive() -> None:
    with ScriptedServer(fault=Fault.DRIP) as server:
        assert get_reason(failure(chat(server.url), 1.5)) == "timeout"


def test_a_call_that_is_given_up_ends_no_other_one() -> None:
    def slow_for_one(request: ChatRequest) -> Reply:
        if request.body["max_tokens"] == 1:
            return Fault.HANG
        time.sleep(0.6)
        return "here"

    found: list[Completion] = []
    with ScriptedServer(slow_for_one) as server:
        model = chat(server.url)
        other = threading.Thread(target=lambda: found.append(ask(model)))
        other.start()
        with pytest.raises(ModelFailed):
            model.complete(ASKED, schema=None, max_tokens=1, timeout_s=0.2)
        other.join(10)
    assert [answer.text for answer in found] == ["here"]


@cases(
    ("status", "reason"), [(302, "invalid_answer"), (204, "invalid_answer"), (404, "not_found"), (503, "server_error")]
)
def test_other_statuses_have_names_too(status: int, reason: str) -> None:
    with ScriptedServer([Raw(status, b"", {"location": "http://127.0.0.1:9/v1"})]) as server:
        assert get_reason(failure(chat(server.url, KEY))) == reason
        assert len(server.requests) == 1, "no redirect is followed"


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
def test_what_is_no_completion_is_told(body: bytes) -> None:
    with ScriptedServer([Raw(200, body)]) as server:
        assert get_reason(failure(chat(server.url))) == "invalid_answer"


def test_a_compressed_answer_cannot_grow() -> None:
    import gzip

    body = gzip.compress(b"x" * 50_000_000)
    with ScriptedServer([Raw(200, body, {"content-encoding": "gzip"})]) as server:
        assert get_reason(failure(chat(server.url))) == "invalid_answer"
        assert server.requests[0].headers["accept-encoding"] == "identity"


def test_an_error_page_without_an_end_is_not_read() -> None:
    with ScriptedServer([Raw(500, b"x" * 50_000_000)]) as server:
        assert get_reason(failure(chat(server.url))) == "server_error"


def test_nobody_there_is_told() -> None:
    with ScriptedServer() as server:
        url = server.url
    assert get_reason(failure(chat(url))) == "unreachable"


# -- keys ----------------------------------------------------------------------------------------------------------------


def shown(error: BaseException) -> str:
    """All that an error, and what hangs on it, could show."""
    found, seen = "", error
    while seen is not None:
        found += repr(seen) + str(vars(seen)) + "".join(traceback.format_exception(seen))
        following = seen.__cause__ or seen.__context__
        if following is None:
            break
        seen = following
    return found


@cases("fault", [None, *TOLD], ids=lambda fault: fault.value if fault else "none")
def test_neither_keys_nor_words_are_shown(fault: Fault | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), ScriptedServer([SECRET], fault=fault, drip_s=0.1) as server:
        model = chat(server.url, KEY)
        told = repr(model) + str(model)
        try:
            ask(model, timeout_s=0.3)
        except ModelFailed as error:
            told += shown(error)
    assert KEY not in told + caplog.text
    assert SECRET not in told + caplog.text


@pytest.mark.parametrize("key", ["sk-ключ", "sk\nx", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(Invalid) as error:
        OpenAIChat("m", "http://127.0.0.1:9/v1", key)
    assert key not in str(error.value)


@cases(
    "url",
    ["", "nowhere", "ftp://x/v1", "http://", "http://u:p@x/v1", "http://x/v1?key=1", "http://x:port/v1", "http://[x"],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as error:
        chat(url)
    assert "u:p" not in str(error.value)


# -- the setting ---------------------------------------------------------------------------------------------------------

HERE = "https://api.openai.com/v1"


@cases(
    ("text", "wanted"),
    [
        ("", None),
        ("none", None),
        ("openai:gpt-5-mini", LLMConfig("openai", "gpt-5-mini", HERE, TIMEOUT_S)),
        (
            "openai:qwen3:8b@http://127.0.0.1:11434/v1",
            LLMConfig("openai", "qwen3:8b", "http://127.0.0.1:11434/v1", TIMEOUT_S),
        ),
        ("openai:@cf/meta/llama@https://x/v1?timeout_s=5", LLMConfig("openai", "@cf/meta/llama", "https://x/v1", 5.0)),
        ("mine:model", LLMConfig("mine", "model", HERE, TIMEOUT_S)),
    ],
)
def test_the_setting_names_model_address_and_time(text: str, wanted: LLMConfig | None) -> None:
    assert parse_llm(text, HERE) == wanted


@cases(
    "text",
    ["openai", "openai:", "openai:m?timeout_s=0", "openai:m?timeout_s=nan", "openai:m?x=1", "openai:m?timeout_s"],
)
def test_a_setting_that_makes_no_sense_is_told(text: str) -> None:
    with pytest.raises(Invalid, match="MEMWELL_LLM is"):
        parse_llm(text, HERE)


def test_the_setting_opens_a_model() -> None:
    assert (
        repr(open_completer(LLMConfig("openai", "m", "http://127.0.0.1:9/v1", 5.0), KEY))
        == "OpenAIChat('openai:m@127.0.0.1:9')"
    )
    with pytest.raises(Invalid):
        open_completer(LLMConfig("nobody", "m", HERE, 5.0), KEY)


# -- small parts ---------------------------------------------------------------------------------------------------------


def slow(gone: threading.Event) -> Iterator[int]:
    yield 1
    gone.wait(30)


def test_work_that_takes_too_long_is_given_up() -> None:
    gone = threading.Event()
    stream = TimedStream(0.3, lambda: slow(gone), gone.set)
    assert next(stream) == 1
    with pytest.raises(TimeoutError):
        next(stream)
    assert gone.is_set()
    assert not stream.finish()


def test_work_that_nobody_waits_for_is_given_up() -> None:
    gone = threading.Event()
    stream = TimedStream(30, lambda: slow(gone), gone.set)
    assert next(stream) == 1
    assert not gone.is_set()
    assert not stream.finish()
    assert gone.is_set()


def test_work_that_ends_by_itself_is_told_in_full_even_late() -> None:
    gone = threading.Event()
    stream = TimedStream(0.2, lambda: range(3), gone.set)
    time.sleep(0.3)
    assert list(stream) == [0, 1, 2]
    assert stream.finish()
    with pytest.raises(ZeroDivisionError):
        next(TimedStream(5, lambda: [1 // 0], gone.set))
    assert not gone.is_set()


def test_every_reason_has_a_sentence_and_travels() -> None:
    for reason in SENTENCES:
        error = model_error(reason, tokens_in=3)
        assert str(error).endswith(f"({reason}).")
        assert get_reason(error) == reason
    assert get_reason(ModelFailed("A plugin's own words.")) == "failed"
    assert estimate_tokens("") == 0
    assert estimate_tokens("天気がいい\ud800") == 4


def test_the_scripted_model_answers_in_turn_and_remembers() -> None:
    model = ScriptedModel(["one", {"two": 2}, Completion("three", 1, 2)])
    assert [ask(model).text for _ in range(4)] == ["one", '{"two": 2}', "three", "three"]
    assert model.calls[0].messages == tuple(ASKED)
    assert model.calls[0].schema == SCHEMA
    assert ask(ScriptedModel(lambda asked: asked.messages[-1].content)).text == SECRET
    assert get_reason(failure(ScriptedModel([model_error("refused")]))) == "refused"
    assert get_reason(failure(ScriptedModel([]))) == "failed"
    assert msgspec.json.decode(ask(ScriptedModel()).text) == {"facts": []}


def test_the_scripted_model_hangs_as_long_as_it_may() -> None:
    model = ScriptedModel(["here"])
    model.hang()
    assert get_reason(failure(model, 0.1)) == "timeout"
    waiting = threading.Thread(target=lambda: ask(model))
    waiting.start()
    model.wait_until_asked()
    model.heal()
    waiting.join(5)
    assert not waiting.is_alive()
