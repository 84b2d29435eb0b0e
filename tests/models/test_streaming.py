"""Streamed answers: pieces arrive at once, streams end in time whatever the server does, and closing one ends its call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from memwell import ModelFailed
from memwell.models.chat import Fallbacks, RequestOptions, list_options, parse_events
from memwell.models.completer import (
    Completion,
    Message,
    Streamer,
    estimate_tokens,
    get_reason,
    model_error,
    stream_completion,
)
from memwell.testing import ScriptedModel

from ..cases import cases
from ..scripted import ChatRequest, Fault, Raw, Reply, ScriptedServer, StreamFault, TextReply
from ..waiting import wait_until
from .chats import ASKED, KEY, SECRET, STREAM_REASONS, Chat, Kind, limit_s, no_call_is_open, open_chat, render_chain

pytestmark = pytest.mark.engines()

TEXT = "She moved to Porto in spring, and likes it there. ☀️"


def streamed(model: Streamer, timeout_s: float = 5.0, **wish: float) -> list[str | Completion]:
    return list(model.stream(ASKED, max_tokens=100, timeout_s=timeout_s, **wish))


def failing(model: Streamer, timeout_s: float = 5.0) -> tuple[list[str | Completion], ModelFailed]:
    """What came before it failed, and how it failed."""
    came: list[str | Completion] = []
    with pytest.raises(ModelFailed) as error:
        came.extend(model.stream(ASKED, max_tokens=100, timeout_s=timeout_s))
    return came, error.value


def sse(*data: str) -> Raw:
    return Raw(200, "".join(f"data: {each}\n\n" for each in data).encode(), {"content-type": "text/event-stream"})


# -- pieces --------------------------------------------------------------------------------------------------------------


def test_pieces_come_first_and_the_whole_last(kind: Kind) -> None:
    with ScriptedServer([TextReply(TEXT, tokens_in=11, tokens_out=7)], protocol=kind) as server:
        *pieces, whole = streamed(open_chat(kind, server.url))
    assert whole == Completion(TEXT, 11, 7)
    assert len(pieces) > 2
    assert "".join(map(str, pieces)) == TEXT


def test_pieces_are_not_kept_back_until_the_end(kind: Kind) -> None:
    with (
        ScriptedServer(fault=StreamFault.HANG, protocol=kind) as server,
        closing(open_chat(kind, server.url).stream(ASKED, max_tokens=100, timeout_s=60)) as stream,
    ):
        assert isinstance(next(stream), str)


def test_an_answer_without_words_is_only_a_whole(kind: Kind) -> None:
    with ScriptedServer([TextReply("", 3, 1)], protocol=kind) as server:
        expected = [Completion("", 3, 1)]
        assert streamed(open_chat(kind, server.url)) == expected


def test_nothing_is_sent_before_the_first_piece_is_asked_for(kind: Kind) -> None:
    with ScriptedServer(["here"], protocol=kind) as server:
        stream = open_chat(kind, server.url).stream(ASKED, max_tokens=100, timeout_s=5)
        assert server.requests == []
        assert next(stream) == "here"
        stream.close()


def test_connections_are_used_again(kind: Kind) -> None:
    with ScriptedServer([TEXT], protocol=kind) as server:
        model = open_chat(kind, server.url)
        for _ in range(3):
            streamed(model)
            model.complete(ASKED, schema=None, max_tokens=100, timeout_s=5)
        wait_until(lambda: server.connections == 1)
        model.close()
        wait_until(lambda: server.connections == 0)


def test_several_threads_may_listen_at_once(kind: Kind) -> None:
    found: list[str | Completion] = []

    def echo(request: ChatRequest) -> Reply:
        return f"number {request.body['max_tokens']} has its own answer"

    def listen(model: Chat, number: int) -> None:
        found.append(list(model.stream(ASKED, max_tokens=number, timeout_s=30))[-1])

    with ScriptedServer(echo, protocol=kind) as server:
        model = open_chat(kind, server.url)
        listeners = [threading.Thread(target=listen, args=(model, number)) for number in range(1, 9)]
        for listener in listeners:
            listener.start()
        for listener in listeners:
            listener.join(60)
    texts = {answer.text for answer in found if isinstance(answer, Completion)}
    assert texts == {f"number {number} has its own answer" for number in range(1, 9)}


# -- what is sent --------------------------------------------------------------------------------------------------------


def test_an_openai_server_is_asked_to_count() -> None:
    with ScriptedServer(["here"]) as server:
        streamed(open_chat("openai", server.url))
    (request,) = server.requests
    assert request.body["stream"] is True
    assert request.body["stream_options"] == {"include_usage": True}
    assert "response_format" not in request.body


def test_a_server_that_cannot_count_is_asked_without_from_then_on() -> None:
    def picky(request: ChatRequest) -> Reply:
        return Raw(400, b"{}") if "stream_options" in request.body else "four words of text"

    with ScriptedServer(picky) as server:
        model = open_chat("openai", server.url)
        expected = sum(estimate_tokens(message.content) for message in ASKED)
        assert streamed(model)[-1] == streamed(model)[-1] == Completion("four words of text", expected, 5)
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


def test_a_temperature_is_sent_if_it_is_given(kind: Kind) -> None:
    with ScriptedServer(["here"], protocol=kind) as server:
        model = open_chat(kind, server.url)
        streamed(model, temperature=0.7)
        model.complete(ASKED, schema=None, max_tokens=100, timeout_s=5, temperature=0.4)
        streamed(model)
    assert [request.body.get("temperature") for request in server.requests[:2]] == [0.7, 0.4]
    assert server.requests[2].body.get("temperature") == (0 if kind == "openai" else None)


def test_a_server_that_takes_no_temperature_is_asked_without_from_then_on(kind: Kind) -> None:
    def picky(request: ChatRequest) -> Reply:
        return Raw(400, b"{}") if request.body.get("temperature") else "here"

    with ScriptedServer(picky, protocol=kind) as server:
        model = open_chat(kind, server.url)
        assert streamed(model, temperature=0.7)[0] == streamed(model, temperature=0.9)[0] == "here"
    assert [bool(request.body.get("temperature")) for request in server.requests] == [True, False, False]


def test_ways_go_from_the_best_to_the_plainest() -> None:
    assert list_options(("text",), None) == (RequestOptions(),)
    assert list_options(("json", "text"), 0.5, (True, False)) == (
        RequestOptions("json", counts=True, temperature=True),
        RequestOptions("json", counts=True),
        RequestOptions("json", temperature=True),
        RequestOptions("json"),
        RequestOptions("text", counts=True, temperature=True),
        RequestOptions("text", counts=True),
        RequestOptions("text", temperature=True),
        RequestOptions("text"),
    )


def test_only_a_request_that_is_refused_is_sent_in_another_way() -> None:
    tried: list[str] = []

    def ask(options: RequestOptions) -> None:
        tried.append(options.format)
        raise model_error("server_error" if options.format == "b" else "bad_request")

    with pytest.raises(ModelFailed, match="server_error"):
        Fallbacks().ask(list_options(("a", "b", "c"), None), ask)
    assert tried == ["a", "b"]


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@cases("fault", STREAM_REASONS, ids=lambda fault: fault.value)
def test_every_fault_ends_in_time_with_its_name(kind: Kind, fault: Fault | StreamFault) -> None:
    with ScriptedServer(fault=fault, drip_s=0.1, protocol=kind) as server:
        came, error = failing(open_chat(kind, server.url, KEY), limit_s(STREAM_REASONS[fault]))
        assert get_reason(error) == STREAM_REASONS[fault]
        assert f"({STREAM_REASONS[fault]})." in str(error)
        assert all(isinstance(piece, str) for piece in came), "what fails is never a whole"
        assert bool(came) == (isinstance(fault, StreamFault) or fault is Fault.LENGTH)
        assert len(server.requests) == 1, "whether to try again is not decided here"
        wait_until(no_call_is_open), "the call has ended on this side too"


@cases("fault", StreamFault, ids=lambda fault: fault.value)
def test_an_answer_that_is_not_streamed_fails_likewise(kind: Kind, fault: StreamFault) -> None:
    with ScriptedServer(fault=fault, drip_s=0.1, protocol=kind) as server, pytest.raises(ModelFailed) as error:
        open_chat(kind, server.url).complete(
            ASKED, schema=None, max_tokens=100, timeout_s=limit_s(STREAM_REASONS[fault])
        )
    assert get_reason(error.value) == STREAM_REASONS[fault]


@cases("fault", [Fault.REFUSAL, Fault.LENGTH], ids=lambda fault: fault.value)
def test_tokens_spent_on_a_failure_are_counted(kind: Kind, fault: Fault) -> None:
    with ScriptedServer(fault=fault, protocol=kind) as server:
        _, error = failing(open_chat(kind, server.url))
    assert error.details["tokens_in"] > 0
    assert error.details["tokens_out"] >= 0


@cases("status", [302, 404, 503])
def test_statuses_have_names(kind: Kind, status: int) -> None:
    reasons = {302: "invalid_answer", 404: "not_found", 503: "server_error"}
    with ScriptedServer([Raw(status, b"", {"location": "http://127.0.0.1:9/v1"})], protocol=kind) as server:
        assert get_reason(failing(open_chat(kind, server.url))[1]) == reasons[status]
        assert len(server.requests) == 1, "no redirect is followed"


def test_an_unreachable_server_is_reported(kind: Kind) -> None:
    with ScriptedServer(protocol=kind) as server:
        pass
    assert get_reason(failing(open_chat(kind, server.url))[1]) == "unreachable"


SAID = '{"choices": [{"delta": {"content": "hi"}, "finish_reason": null}]}'
ENDED = '{"choices": [{"delta": {}, "finish_reason": "stop"}]}'
BEGUN = '{"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}'
SPOKEN = '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}'
OVER = '{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}'
STOP = '{"type": "message_stop"}'
DEEP = '{"choices": ' + "[" * 100_000 + "]" * 100_000 + "}"


@cases(
    ("kind", "data", "reason"),
    [
        ("openai", [SAID], "cut"),
        ("openai", ["[DONE]"], "invalid_answer"),
        ("openai", ['{"choices": []}', "[DONE]"], "invalid_answer"),
        ("openai", [SAID, "<html>", ENDED], "invalid_answer"),
        ("openai", [SAID, '{"choices": NaN}'], "invalid_answer"),
        ("openai", [SAID, DEEP], "invalid_answer"),
        ("openai", ['{"choices": [{"delta": {"content": 5}}]}'], "invalid_answer"),
        ("openai", [SAID, '{"error": {"message": "no"}}'], "server_error"),
        ("openai", [SAID, ENDED.replace("stop", "content_filter")], "refused"),
        ("openai", ["x" * (2 * 1024 * 1024)], "too_large"),
        ("openai", [SAID.replace("hi", "x" * 900_000)] * 20, "too_large"),
        ("anthropic", [BEGUN, SPOKEN], "cut"),
        ("anthropic", [BEGUN, SPOKEN, STOP], "cut"),
        ("anthropic", [STOP], "invalid_answer"),
        ("anthropic", [BEGUN, "<html>", OVER, STOP], "invalid_answer"),
        ("anthropic", [BEGUN, DEEP], "invalid_answer"),
        ("anthropic", [BEGUN, '{"delta": {"text": "typeless"}}'], "invalid_answer"),
        ("anthropic", [BEGUN, SPOKEN, '{"type": "error", "error": {"type": "overloaded_error"}}'], "server_error"),
        ("anthropic", ['{"type": "error", "error": {"type": "rate_limit_error"}}'], "rate_limited"),
        ("anthropic", [BEGUN, '{"type": "error"}'], "server_error"),
        ("anthropic", [BEGUN, SPOKEN, OVER.replace("end_turn", "refusal"), STOP], "refused"),
        ("anthropic", [BEGUN, SPOKEN, OVER.replace("end_turn", "max_tokens"), STOP], "cut"),
        ("anthropic", [SPOKEN.replace("hi", "x" * 900_000)] * 20, "too_large"),
    ],
)
def test_an_invalid_stream_is_reported(kind: Kind, data: list[str], reason: str) -> None:
    with ScriptedServer([sse(*data)], protocol=kind) as server:
        assert get_reason(failing(open_chat(kind, server.url))[1]) == reason


@cases(
    ("kind", "data", "tokens"),
    [
        ("openai", [SAID, ENDED], None),
        ("openai", [SAID, "[DONE]", "whatever"], None),
        ("openai", [SAID, ENDED, '{"choices": null, "usage": {"prompt_tokens": 4, "completion_tokens": 2}}'], (4, 2)),
        ("anthropic", [BEGUN, SPOKEN, OVER, STOP, "whatever"], (3, 2)),
        ("anthropic", [BEGUN, SPOKEN, OVER], (3, 2)),
        ("anthropic", [BEGUN.replace('{"input_tokens": 3, "output_tokens": 1}', '"many"'), SPOKEN, OVER], None),
        ("anthropic", [BEGUN, '{"type": "news", "delta": {"type": "new"}}', SPOKEN, OVER, STOP], (3, 2)),
    ],
)
def test_a_stream_that_is_a_little_different_is_understood(
    kind: Kind, data: list[str], tokens: tuple[int, int] | None
) -> None:
    with ScriptedServer([sse(*data)], protocol=kind) as server:
        piece, whole = streamed(open_chat(kind, server.url))
    assert piece == "hi"
    estimate = (sum(estimate_tokens(message.content) for message in ASKED), 1)
    assert whole == Completion("hi", *(tokens or estimate))


# -- nobody listens any more ---------------------------------------------------------------------------------------------


def test_closing_early_ends_the_call_and_its_connection(kind: Kind) -> None:
    with ScriptedServer(fault=StreamFault.DRIP, drip_s=0.05, protocol=kind) as server:
        stream = open_chat(kind, server.url).stream(ASKED, max_tokens=100, timeout_s=60)
        assert isinstance(next(stream), str)
        assert server.connections == 1
        stream.close()
        wait_until(no_call_is_open)
        wait_until(lambda: server.connections == 0)


def test_closing_early_also_ends_a_call_in_which_nothing_comes(kind: Kind) -> None:
    with ScriptedServer(fault=StreamFault.HANG, protocol=kind) as server:
        stream = open_chat(kind, server.url).stream(ASKED, max_tokens=100, timeout_s=60)
        assert isinstance(next(stream), str)
        stream.close()
        wait_until(no_call_is_open), "whoever reads has noticed"


def test_closing_one_stream_ends_no_other(kind: Kind) -> None:
    with ScriptedServer([StreamFault.HANG, TEXT], protocol=kind) as server:
        model = open_chat(kind, server.url)
        given_up = model.stream(ASKED, max_tokens=100, timeout_s=60)
        next(given_up)
        other = model.stream(ASKED, max_tokens=100, timeout_s=60)
        next(other)
        given_up.close()
        *_, whole = list(other)
        assert isinstance(whole, Completion)
        assert streamed(model)[-1] == whole


def test_a_stream_that_is_forgotten_ends_too(kind: Kind) -> None:
    with ScriptedServer(fault=StreamFault.DRIP, drip_s=0.05, protocol=kind) as server:
        next(open_chat(kind, server.url).stream(ASKED, max_tokens=100, timeout_s=60))
        wait_until(no_call_is_open)


# -- keys and words ------------------------------------------------------------------------------------------------------


@cases("fault", [None, *STREAM_REASONS], ids=lambda fault: fault.value if fault else "none")
def test_neither_keys_nor_words_are_shown(
    kind: Kind, fault: Fault | StreamFault | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), ScriptedServer([SECRET], fault=fault, drip_s=0.1, protocol=kind) as server:
        model = open_chat(kind, server.url, KEY)
        told = repr(model) + str(model)
        try:
            streamed(model, timeout_s=0.4)
        except ModelFailed as error:
            told += render_chain(error)
    assert KEY not in told + caplog.text
    assert SECRET not in told + caplog.text


# -- any model -----------------------------------------------------------------------------------------------------------


class Older:
    """A plugin from before there were temperatures and streams."""

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion:
        return Completion(f"{messages[-1].content} {max_tokens} {timeout_s}", 1, 2)


class Newer(Older):
    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        return Completion(str(temperature), 1, 2)


class Streaming:
    def __init__(self) -> None:
        self.closed = False

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, timeout_s: float, temperature: float | None = None
    ) -> Iterator[str | Completion]:
        try:
            yield "a"
            yield f"{temperature}"
            yield Completion(f"a{temperature}", 1, 2)
        finally:
            self.closed = True


def test_a_model_that_cannot_stream_answers_in_one_piece() -> None:
    for wish in (None, 0.5):
        got = list(stream_completion(Older(), ASKED, max_tokens=7, timeout_s=3.0, temperature=wish))
        assert got == [f"{SECRET} 7 3.0", Completion(f"{SECRET} 7 3.0", 1, 2)]
    assert next(stream_completion(Newer(), ASKED, max_tokens=7, timeout_s=3.0, temperature=0.5)) == "0.5"
    assert next(stream_completion(Newer(), ASKED, max_tokens=7, timeout_s=3.0)) == "None"
    model = ScriptedModel([Completion("", 1, 0), model_error("refused")])
    empty = [Completion("", 1, 0)]
    assert list(stream_completion(model, ASKED, max_tokens=7, timeout_s=3.0, temperature=1.0)) == empty
    with pytest.raises(ModelFailed, match="refused"):
        list(stream_completion(model, ASKED, max_tokens=7, timeout_s=3.0))


def test_a_model_that_streams_is_passed_through_and_closed() -> None:
    model = Streaming()
    got = list(stream_completion(model, ASKED, max_tokens=7, timeout_s=3.0, temperature=0.5))
    assert got == ["a", "0.5", Completion("a0.5", 1, 2)]
    model = Streaming()
    stream = stream_completion(model, ASKED, max_tokens=7, timeout_s=3.0)
    assert next(stream) == "a"
    assert not model.closed
    stream.close()
    assert model.closed


def test_both_kinds_stream(kind: Kind) -> None:
    with ScriptedServer([TEXT], protocol=kind) as server:
        model = open_chat(kind, server.url)
        assert isinstance(model, Streamer)
        *pieces, whole = stream_completion(model, ASKED, max_tokens=100, timeout_s=5)
    assert isinstance(whole, Completion)
    assert "".join(map(str, pieces)) == whole.text == TEXT


# -- events --------------------------------------------------------------------------------------------------------------

WIRE = b': hello\n\nevent: x\ndata: {"a": 1}\r\n\r\ndata:b\ndata:  c\nid: 7\nretry: 5\n\n\n\ndata\n\ndata: \xe2\x98\x80\n\n'
DATA = [b'{"a": 1}', b"b\n c", b"", b"\xe2\x98\x80"]


@cases("size", [1, 2, 3, 7, 1000])
def test_events_are_read_however_they_are_cut(size: int) -> None:
    parts = [WIRE[at : at + size] for at in range(0, len(WIRE), size)]
    assert list(parse_events(parts, 1000)) == DATA


@cases("end", [b"data: x", b"data: x\n", b"", b"\n\n"])
def test_an_incomplete_event_is_ignored(end: bytes) -> None:
    assert list(parse_events([b"data: whole\n\n" + end], 1000)) == [b"whole"]


@pytest.mark.parametrize(
    ("wire", "reason"),
    [(b"<html>\n\n", "invalid_answer"), (b'{"a": 1}\n', "invalid_answer"), (b"x" * 2000, "too_large")],
)
def test_an_invalid_event_is_reported(wire: bytes, reason: str) -> None:
    with pytest.raises(ModelFailed) as error:
        list(parse_events([wire], 1000))
    assert get_reason(error.value) == reason
