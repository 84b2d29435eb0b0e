"""A language model without a model: it answers what it was told to answer, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event, Lock
from typing import Any, NamedTuple

from ..models import completer
from ..models.completer import Completion, Message, Tool, estimated_tokens, failed
from .replies import ToolCalls

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
