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


class SmallModel(ScriptedModel):
    """A language model that reviews drafts of facts as badly as small models do: `habit` is one of `HABITS`, and `mixed` is
    another one in each call.

    `answer` returns what it writes about the messages of one call, for a server that behaves the same.
    """

    HABITS = (
        "empty", "list", "glued", "small_talk", "wrong_numbers", "cut", "prose", "repeats", "drops", "excuses", "inverted",
        "echo", "old_form",
    )  # fmt: skip

    def __init__(self, habit: str = "mixed") -> None:
        super().__init__(lambda call: self.answer([message.content for message in call.messages]), id=f"small-{habit}")
        self.habit = habit
        self._count = 0

    def answer(self, contents: Sequence[str]) -> str:
        with self._lock:
            habit = self.HABITS[self._count % len(self.HABITS)] if self.habit == "mixed" else self.habit
            self._count += 1
        found = [json.loads(line) for text in contents for line in text.splitlines() if line.startswith('{"turn":"t')]
        drafts = [json.loads(line) for text in contents for line in text.splitlines() if _is_draft(line)]
        return str(getattr(self, f"_{habit}")(found, drafts))

    def _empty(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        return ""

    def _list(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        return "[]"

    def _glued(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Each draft is joined with the next one."""
        pairs = zip(drafts, [*drafts[1:], *drafts[:1]], strict=True)
        texts = {one["n"]: f"{one['text'].rstrip('.')} and {other['text']}" for one, other in pairs}
        return _lines({"n": number, "do": "reword", "text": text} for number, text in texts.items())

    def _small_talk(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Facts about the talk itself, one for each turn."""
        texts = ("asked the assistant how it was going", "said hello", "thanked the assistant")
        return _lines(
            {"do": "add", "turn": turn["turn"], "quote": turn["text"], "text": f"{turn['speaker']} {texts[at % 3]}."}
            for at, turn in enumerate(turns)
        )

    def _wrong_numbers(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Drafts and turns that do not exist, and quotes that nobody said."""
        wrong: list[Mapping[str, Any]] = [{"n": 90 + at, "do": "drop", "why": "small_talk"} for at in range(4)]
        wrong += [{"do": "add", "turn": "t77", "quote": "I own a yacht", "text": "Alex owns a yacht."}]
        wrong += [{"do": "add", "turn": "t1", "quote": "I own a yacht", "text": "Alex owns a yacht."}]
        return _lines(wrong)

    def _cut(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """The answer ends within its first line."""
        return '{"n":1,"do":"reword","text":"The'

    def _prose(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        kept = _lines({"n": one["n"], "do": "keep"} for one in drafts)
        return (
            f"Sure! Here is the JSON you asked for:\n```json\n{kept}\n```\nLet me know if you need {{anything}} else."
        )

    def _repeats(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """The same line until it is stopped."""
        return '{"n":1,"do":"keep"}\n' * 200

    def _drops(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Everything is dropped without a reason."""
        return _lines({"n": one["n"], "do": "drop"} for one in drafts)

    def _excuses(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Everything is dropped, with reasons that are not true."""
        reasons = ("small_talk", "repeated", "joke", "quoted", "hypothetical", "retracted")
        cited = turns[-1] if turns else {"turn": "t1", "text": ""}
        return _lines(
            {
                "n": one["n"],
                "do": "drop",
                "why": reasons[at % 6],
                "of": 1,
                "turn": cited["turn"],
                "quote": cited["text"],
            }
            for at, one in enumerate(drafts)
        )

    def _inverted(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Denials are lost and made up, and numbers are others."""
        swaps = {
            " not ": " ",
            "n't ": " ",
            " never ": " always ",
            " is ": " is not ",
            " has ": " has no ",
            "2": "3",
            "two": "six",
        }
        return _lines({"n": one["n"], "do": "reword", "text": _swap(one["text"], swaps)} for one in drafts)

    def _echo(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        """Every turn is a fact."""
        return _lines({"do": "add", "turn": one["turn"], "quote": one["text"], "text": one["text"]} for one in turns)

    def _old_form(self, turns: Sequence[Mapping[str, Any]], drafts: Sequence[Mapping[str, Any]]) -> str:
        return json.dumps(
            {"facts": [{"text": one["text"], "evidence": [{"turn": one["turn"]}]} for one in drafts]}, indent=2
        )


def _is_draft(line: str) -> bool:
    return line.startswith('{"n":') and '"turn":' in line and '"do":' not in line


def _lines(objects: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in objects)


def _swap(text: str, swaps: Mapping[str, str]) -> str:
    """Return a text with the first of the words that it has replaced."""
    for word, other in swaps.items():
        if word in text:
            return text.replace(word, other, 1)
    return text.replace(" ", " never ", 1)


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
