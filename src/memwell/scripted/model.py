"""What a scripted server may be told to answer, in whatever protocol it speaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from threading import Event, Lock
from typing import Any, NamedTuple

from ..models import completer
from ..models.completer import Completion, Message, Tool, estimated_tokens, failed

HUGE = 50 * 1024 * 1024
LEVELS = 100_000


class Fault(Enum):
    """Every way in which a model, or its server, was seen to fail."""

    HANG = "hang"
    """It takes the request and never answers."""
    DRIP = "drip"
    """It answers one byte in each `drip_s`, for ever."""
    DRIP_HEADERS = "drip_headers"
    """The same, before the body begins."""
    ERROR = "error"
    """500, with an HTML page."""
    BUSY = "busy"
    """429, with Retry-After."""
    UNAUTHORISED = "unauthorised"
    """401."""
    RESET = "reset"
    """The connection is reset."""
    HALF = "half"
    """The connection ends in the middle of the answer."""
    CUT_JSON = "cut_json"
    """The model's JSON ends in the middle, as if that were all."""
    LENGTH = "length"
    """The same, and the server says so: `finish_reason` is `length`."""
    WRONG_SCHEMA = "wrong_schema"
    HUGE = "huge"
    """50 MB."""
    NAN = "nan"
    DEEP = "deep"
    """100,000 levels of lists."""
    REFUSAL = "refusal"
    WRONG_IDS = "wrong_ids"
    """A statement about a turn that nobody gave it."""
    DUPLICATES = "duplicates"
    """The same statement, five times."""
    NO_CHOICES = "no_choices"
    GARBAGE = "garbage"
    """200, with an HTML page."""


class StreamFault(Enum):
    """Every way in which a stream was seen to fail in its middle. An answer that is not streamed fails likewise."""

    GARBAGE = "stream_garbage"
    """Something that is no event, and then the rest."""
    CUT = "stream_cut"
    """The connection ends."""
    HANG = "stream_hang"
    """Nothing more comes."""
    DRIP = "stream_drip"
    """One byte comes in each `drip_s`, for ever."""
    ERROR = "stream_error"
    """The server tells that it failed."""


class ToolCall(NamedTuple):
    """A tool that the model wants called."""

    name: str
    arguments: Mapping[str, Any]


class ToolCalls(NamedTuple):
    """An answer that is calls of tools."""

    calls: tuple[ToolCall, ...]


class Worded(NamedTuple):
    """An answer in every detail."""

    text: str | None
    tokens_in: int | None = None
    tokens_out: int | None = None
    finish_reason: str = "stop"
    refusal: str | None = None


class Raw(NamedTuple):
    """Any status and body at all."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


Reply = str | Mapping[str, Any] | ToolCalls | Worded | Raw | Fault | StreamFault


def fact(**changes: Any) -> dict[str, Any]:
    """A statement in the form that Memwell asks for, about the first turn."""
    made = {"text": "Something was said.", "evidence": [{"turn": "t1", "quote": ""}], "subject": None}
    return made | {"kind": "statement", "importance": 0.5, "confidence": 0.9, "since": None} | changes


def worded(reply: str | Mapping[str, Any] | Worded | Fault) -> Worded:
    """What the model says, for all replies that are words."""
    if isinstance(reply, Worded):
        return reply
    if isinstance(reply, Fault):
        return _FAULTY[reply]
    return Worded(reply if isinstance(reply, str) else json.dumps(reply))


def _json(*facts: Any) -> str:
    return json.dumps({"facts": list(facts)})


_FAULTY = {
    Fault.CUT_JSON: Worded(_json(fact())[:60]),
    Fault.LENGTH: Worded(_json(fact())[:60], finish_reason="length"),
    Fault.WRONG_SCHEMA: Worded('{"memories": "none"}'),
    Fault.NAN: Worded(_json(fact(importance=float("nan")))),
    Fault.DEEP: Worded("[" * LEVELS + "]" * LEVELS),
    Fault.REFUSAL: Worded(None, refusal="I cannot help with that."),
    Fault.WRONG_IDS: Worded(_json(fact(evidence=[{"turn": "t999999", "quote": ""}]))),
    Fault.DUPLICATES: Worded(_json(*[fact()] * 5)),
}


# -- A language model without a model: it answers what it was told to answer, and remembers what it was asked.


PATIENCE_S = 60.0


class Asked(NamedTuple):
    """One call."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int
    timeout_s: float
    tools: tuple[Tool, ...] = ()


Answer = str | Mapping[str, Any] | ToolCalls | Completion | Exception
Answers = Iterable[Answer] | Callable[[Asked], Answer]


class ScriptedModel:
    """A `Completer` that answers from a list, the last one for ever, or by a function that is given the call.

    An answer is a text, a mapping (sent as JSON), `ToolCalls`, a `Completion` with its own counts, or an error to raise. `hang`
    makes it wait until `heal`, but never longer than the caller allows: then it fails with `timeout`, as a real one must.
    """

    def __init__(self, answers: Answers = ({"facts": []},), *, id: str = "scripted") -> None:  # noqa: A002
        self.id = id
        self.calls: list[Asked] = []
        self._function = answers if callable(answers) else None
        self._list = [] if callable(answers) else list(answers)
        self._lock = Lock()
        self._asked = Event()
        self._open = Event()
        self._open.set()

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion:
        return self._answered(Asked(tuple(messages), schema, max_tokens, timeout_s))

    def call(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        return self._answered(Asked(tuple(messages), None, max_tokens, timeout_s, tuple(tools)))

    def hang(self) -> None:
        """Do not answer until `heal`."""
        self._asked.clear()
        self._open.clear()

    def wait_until_asked(self) -> None:
        """Wait until somebody asks."""
        if not self._asked.wait(PATIENCE_S):
            raise TimeoutError("nobody asked the model")

    def heal(self) -> None:
        """Answer again."""
        self._open.set()

    def _answered(self, asked: Asked) -> Completion:
        with self._lock:
            self.calls.append(asked)
        self._asked.set()
        if not self._open.wait(min(asked.timeout_s, PATIENCE_S)):
            raise failed("timeout")
        return _completion(self._answer(asked), asked)

    def _answer(self, asked: Asked) -> Answer:
        if self._function is not None:
            return self._function(asked)
        with self._lock:
            if not self._list:
                raise failed("failed")
            return self._list.pop(0) if len(self._list) > 1 else self._list[0]


def _completion(answer: Answer, asked: Asked) -> Completion:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, Completion):
        return answer
    came = sum(estimated_tokens(message.content) for message in asked.messages)
    if isinstance(answer, ToolCalls):
        given = [(call.name, json.dumps(call.arguments)) for call in answer.calls]
        calls = [completer.ToolCall(f"call_{number}", *one) for number, one in enumerate(given, 1)]
        return Completion("", came, sum(estimated_tokens(one) for _, one in given), calls=tuple(calls))
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Completion(text, came, estimated_tokens(text))
