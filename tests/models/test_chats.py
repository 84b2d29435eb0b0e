"""Language models over HTTP, in both protocols: whatever the server does, a call ends in time; a failure has one reason."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from memwell import Invalid, ModelFailed
from memwell.models.chat import TimedStream, parse_retry_after
from memwell.models.completer import (
    LOCAL_TIMEOUT_S,
    SENTENCES,
    TIMEOUT_S,
    Completion,
    LLMConfig,
    estimate_tokens,
    explain_failure,
    get_reason,
    model_error,
    open_completer,
    parse_llm,
)
from memwell.testing import ScriptedModel

from ..cases import cases
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer
from ..waiting import wait_until
from .chats import (
    ASKED,
    KEY,
    REASONS,
    SCHEMA,
    SECRET,
    Kind,
    ask,
    failure,
    limit_s,
    no_call_is_open,
    open_chat,
    render_chain,
)

pytestmark = pytest.mark.engines()


def test_connections_are_used_again_until_the_model_is_closed(kind: Kind) -> None:
    with ScriptedServer(protocol=kind) as server:
        model = open_chat(kind, server.url)
        for _ in range(5):
            ask(model)
        assert server.connections == 1
        model.close()
        wait_until(lambda: server.connections == 0)


# -- failures ------------------------------------------------------------------------------------------------------------


@cases("fault", REASONS, ids=lambda fault: fault.value)
def test_every_fault_ends_in_time_with_its_name(kind: Kind, fault: Fault) -> None:
    with ScriptedServer(fault=fault, drip_s=0.1, protocol=kind) as server:
        error = failure(open_chat(kind, server.url, KEY), limit_s(REASONS[fault]))
        assert get_reason(error) == REASONS[fault]
        assert f"({REASONS[fault]})." in str(error)
        assert len(server.requests) == 1, "whether to try again is not decided here"
        wait_until(no_call_is_open)


def test_a_call_that_times_out_ends_no_other(kind: Kind) -> None:
    timed_out = threading.Event()

    def reply(request: ChatRequest) -> Reply:
        if request.body["max_tokens"] == 1:
            return Fault.HANG
        timed_out.wait(30)
        return "here"

    with ScriptedServer(reply, protocol=kind) as server, ThreadPoolExecutor() as pool:
        model = open_chat(kind, server.url)
        other = pool.submit(ask, model, None)
        with pytest.raises(ModelFailed):
            model.complete(ASKED, schema=None, max_tokens=1, timeout_s=0.2)
        timed_out.set()
        assert other.result().text == "here"


STATUSES = {
    204: "invalid_answer",
    302: "invalid_answer",
    404: "not_found",
    413: "bad_request",
    503: "server_error",
    529: "server_error",
}


@cases(("status", "reason"), STATUSES.items())
def test_other_statuses_have_reasons_too(kind: Kind, status: int, reason: str) -> None:
    with ScriptedServer([Raw(status, b"", {"location": "http://127.0.0.1:9/v1"})], protocol=kind) as server:
        assert get_reason(failure(open_chat(kind, server.url, KEY), schema=None)) == reason
        assert len(server.requests) == 1, "no redirect is followed"


def test_a_compressed_answer_cannot_grow(kind: Kind) -> None:
    body = gzip.compress(b"x" * 50_000_000)
    with ScriptedServer([Raw(200, body, {"content-encoding": "gzip"})], protocol=kind) as server:
        assert get_reason(failure(open_chat(kind, server.url))) == "invalid_answer"
        assert server.requests[0].headers["accept-encoding"] == "identity"


def test_an_error_page_without_an_end_is_not_read(kind: Kind) -> None:
    with ScriptedServer([Raw(500, b"x" * 50_000_000)], protocol=kind) as server:
        assert get_reason(failure(open_chat(kind, server.url))) == "server_error"


@cases(
    ("body", "said"),
    [
        (
            {"error": {"message": "The context is too long:\n9000 tokens.", "code": 1}},
            "The context is too long: 9000 tokens.",
        ),
        ({"type": "error", "error": {"type": "x", "message": "prompt is too long"}}, "prompt is too long"),
        ({"error": "model not loaded"}, "model not loaded"),
        ({"detail": "no such template"}, "no such template"),
        ({"message": f"the key {KEY} is \x1b[31mbad"}, "the key [key] is [31mbad"),
        ({"message": "x" * 10_000}, "x" * 500 + "…"),
        ({"detail": [{"loc": []}]}, None),
        ({}, None),
    ],
)
def test_an_error_has_what_the_server_says(kind: Kind, body: dict[str, Any], said: str | None) -> None:
    """The details have the server's own sentence, without the key; the message has only the reason."""
    with ScriptedServer([Raw(400, json.dumps(body).encode())], protocol=kind) as server:
        error = failure(open_chat(kind, server.url, KEY), schema=None)
    assert error.details.get("said") == said
    assert error.message == "The model's server does not accept the request (bad_request)."
    assert explain_failure(error) == f"{error.message} The server says: {said}" if said else error.message


def test_what_a_server_says_about_a_key_is_not_shown(kind: Kind) -> None:
    with ScriptedServer(
        [Raw(401, b'{"error": {"message": "Incorrect API key provided: sk-1***9"}}')], protocol=kind
    ) as server:
        assert failure(open_chat(kind, server.url, KEY)).details == {"reason": "unauthorised"}


@cases(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1e9"}, 3600.0),
        ({"retry-after": "Thu, 19 Nov 2026 10:00:30 GMT", "date": "Thu, 19 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"retry-after": "Thu, 19 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_an_error_has_the_time_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers) == seconds


def test_a_server_that_is_gone_is_unreachable(kind: Kind) -> None:
    with ScriptedServer(protocol=kind) as server:
        url = server.url
    assert get_reason(failure(open_chat(kind, url))) == "unreachable"


# -- keys ----------------------------------------------------------------------------------------------------------------


@cases("fault", [None, *REASONS], ids=lambda fault: fault.value if fault else "none")
def test_neither_keys_nor_words_are_shown(kind: Kind, fault: Fault | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), ScriptedServer([SECRET], fault=fault, drip_s=0.1, protocol=kind) as server:
        model = open_chat(kind, server.url, KEY)
        shown = repr(model) + str(model)
        try:
            ask(model, timeout_s=0.4)
        except ModelFailed as error:
            shown += render_chain(error)
    assert KEY not in shown + caplog.text
    assert SECRET not in shown + caplog.text


@cases("key", ["sk-ключ", "sk\nx", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(kind: Kind, key: str) -> None:
    with pytest.raises(Invalid) as error:
        open_chat(kind, "http://127.0.0.1:9/v1", key)
    assert key not in str(error.value)


@cases(
    "url",
    ["", "nowhere", "ftp://x/v1", "http://", "http://u:p@x/v1", "http://x/v1?key=1", "http://x:port/v1", "http://[x"],
)
def test_an_invalid_address_or_one_with_a_secret_is_refused(kind: Kind, url: str) -> None:
    with pytest.raises(Invalid) as error:
        open_chat(kind, url)
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
            LLMConfig("openai", "qwen3:8b", "http://127.0.0.1:11434/v1", LOCAL_TIMEOUT_S),
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
def test_an_invalid_setting_is_refused(text: str) -> None:
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


def test_work_whose_reader_is_gone_is_given_up() -> None:
    gone = threading.Event()
    stream = TimedStream(30, lambda: slow(gone), gone.set)
    assert next(stream) == 1
    assert not gone.is_set()
    assert not stream.finish()
    assert gone.is_set()


def test_work_that_ended_in_time_is_read_in_full_even_late() -> None:
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
