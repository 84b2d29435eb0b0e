"""Parts for tests: a frozen clock, two isolated tenants, and a scripted embedder and language model."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from .clock import SECOND, to_micros
from .errors import ModelFailed
from .models import completer
from .models.completer import Completion, Message, Tool, estimate_tokens, model_error
from .sdk._sync import Memory

if TYPE_CHECKING:
    from .models.embedder import Vectors

START = datetime(2026, 4, 19, 10, 0, tzinfo=UTC)
PATIENCE_S = 60.0
"""A model that hangs gives up after this time, so that a test which never calls `heal` ends."""


class FrozenClock:
    """A clock that only moves by `advance`."""

    def __init__(self, start: datetime = START) -> None:
        self._now = to_micros(start)

    def now(self) -> int:
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move forward, or back by negative numbers."""
        total = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        self._now += round(total * SECOND)


@contextmanager
def two_tenants(home: str | Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories in one directory that share nothing but the disk."""
    with Memory(home, tenant="alpha", worker=False) as alpha, Memory(home, tenant="beta", worker=False) as beta:
        yield alpha, beta


class ScriptedEmbedder:
    """An embedder without a model: texts are as close as the words that they share. `seen` lists the texts it was given.

    Every argument has a default, so an entry point can name the class itself.
    """

    floor = 0.0
    ceiling = 1.0

    def __init__(self, id: str = "scripted", dimensions: int = 64, quick: int = 1000) -> None:  # noqa: A002
        self.id = id
        self.dimensions = dimensions
        self.quick = quick
        self.seen: list[str] = []
        self._failure: str | None = None
        self._asked = Event()
        self._open = Event()
        self._open.set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        self.seen.extend(texts)
        self._asked.set()
        if not self._open.wait(PATIENCE_S) or self._failure is not None:
            raise ModelFailed(self._failure or "The scripted model hung and was never healed.")
        rows = [word_vector(text, self.dimensions) for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), self.dimensions)

    def fail(self, reason: str = "The scripted model fails.") -> None:
        """Fail from now on, with this reason."""
        self._failure = reason

    def hang(self) -> None:
        """Do not answer until `heal`."""
        self._asked.clear()
        self._open.clear()

    def wait_until_asked(self) -> None:
        """Wait for the first request after `hang`."""
        if not self._asked.wait(PATIENCE_S):
            raise TimeoutError("nobody asked the model")

    def heal(self) -> None:
        """Answer again."""
        self._failure = None
        self._open.set()


def word_vector(text: str, dimensions: int) -> list[float]:
    """A unit vector, the sum of the hashes of the words of a text; zeros for a text without words."""
    sums = [0.0] * dimensions
    for word in text.lower().split():
        digest = hashlib.blake2b(word.strip(".,;:!?").encode(errors="replace"), digest_size=16).digest()
        for place in struct.unpack("<4I", digest):
            sums[place % dimensions] += 1.0 if place & 1 << 31 else -1.0
    length = sum(number * number for number in sums) ** 0.5
    return [number / length for number in sums] if length else sums


class ToolCall(NamedTuple):
    """A tool that the model wants to call."""

    name: str
    arguments: Mapping[str, Any]


class ToolCalls(NamedTuple):
    """An answer that consists of tool calls."""

    calls: tuple[ToolCall, ...]


class ModelCall(NamedTuple):
    """The arguments of one call of a scripted model."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int
    timeout_s: float
    tools: tuple[Tool, ...] = ()


Answer = str | Mapping[str, Any] | ToolCalls | Completion | Exception
Answers = Iterable[Answer] | Callable[[ModelCall], Answer]


class ScriptedModel:
    """A `Completer` that answers from a list, whose last answer it repeats, or by a function of the call.

    An answer is a text, a mapping (sent as JSON), `ToolCalls`, a `Completion` with its own counts, or an error to raise. After
    `hang` it waits for `heal`, and fails with `timeout` when the caller's time is over.
    """

    def __init__(self, answers: Answers = ({"facts": []},), *, id: str = "scripted") -> None:  # noqa: A002
        self.id = id
        self.calls: list[ModelCall] = []
        self._function = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self._lock = Lock()
        self._asked = Event()
        self._open = Event()
        self._open.set()

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> Completion:
        return self._answer(ModelCall(tuple(messages), schema, max_tokens, timeout_s))

    def call(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        max_tokens: int,
        timeout_s: float,
        temperature: float | None = None,
    ) -> Completion:
        return self._answer(ModelCall(tuple(messages), None, max_tokens, timeout_s, tuple(tools)))

    def hang(self) -> None:
        """Do not answer until `heal`."""
        self._asked.clear()
        self._open.clear()

    def wait_until_asked(self) -> None:
        """Wait for the first call after `hang`."""
        if not self._asked.wait(PATIENCE_S):
            raise TimeoutError("nobody asked the model")

    def heal(self) -> None:
        """Answer again."""
        self._open.set()

    def _answer(self, call: ModelCall) -> Completion:
        with self._lock:
            self.calls.append(call)
        self._asked.set()
        if not self._open.wait(min(call.timeout_s, PATIENCE_S)):
            raise model_error("timeout")
        return _to_completion(self._next_answer(call), call)

    def _next_answer(self, call: ModelCall) -> Answer:
        if self._function is not None:
            return self._function(call)
        with self._lock:
            if not self._answers:
                raise model_error("failed")
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def _to_completion(answer: Answer, call: ModelCall) -> Completion:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, Completion):
        return answer
    tokens_in = sum(estimate_tokens(message.content) for message in call.messages)
    if isinstance(answer, ToolCalls):
        pairs = [(one.name, json.dumps(one.arguments)) for one in answer.calls]
        calls = [completer.ToolCall(f"call_{number}", *pair) for number, pair in enumerate(pairs, 1)]
        return Completion("", tokens_in, sum(estimate_tokens(text) for _, text in pairs), calls=tuple(calls))
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Completion(text, tokens_in, estimate_tokens(text))
