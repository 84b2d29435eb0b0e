"""Documents of tasks: definitions by name, blocks that run one after the other, and the syntax of expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from ...context.expression import find_problems, is_expression
from ...errors import Invalid
from ...records.schema import Schema
from ...text.yaml import Path, spell_path
from ..source import Problems


def build_input(text: str, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """`$input`: the input as its `text`, and the fields of `inputs`. A text is never parsed, because users write it."""
    return {**({"text": text} if text or inputs is None else {}), **(inputs or {})}


def find_text(given: Mapping[str, Any]) -> str:
    text = given.get("text")
    return text if isinstance(text, str) else ""


def check_input(schema: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    if schema is None:
        return
    problems = Schema(schema, strict=False).problems(dict(given))
    if problems:
        reasons = "; ".join(f"{one.path or 'the input'}: {one.reason}" for one in problems[:5])
        raise Invalid(f"The input does not fit the schema of the workflow: {reasons}", field="input")


# -- A workflow of tasks, as it runs: definitions by name, and blocks that are done one after the other.


class Memory(NamedTuple):
    """`kind: memory`: a memory definition, by its id or slug."""

    definition: str
    at: Path


class Model(NamedTuple):
    """`kind: model`: which model is asked, on the server that is set."""

    provider: str | None
    model_id: str | None
    temperature: float | None
    max_tokens: int | None
    at: Path


class Tool(NamedTuple):
    """`kind: tools`: a registered function that a model may call. What `settings` give, the model does not."""

    name: str
    action: str
    description: str | None
    settings: Mapping[str, Any]
    at: Path


class Task(NamedTuple):
    """`kind: task`: an action with its inputs as they are written, and what is bound to it."""

    name: str
    action: str
    inputs: Mapping[str, Any]
    settings: Settings
    model: Model | None
    memory: tuple[Memory, ...]
    tools: tuple[Tool, ...]
    at: Path

    @property
    def asks(self) -> bool:
        return self.action in AI_ACTIONS

    @property
    def history(self) -> History | None:
        """Where the conversation is that it goes on with, if it does."""
        if not self.asks or self.inputs.get("input_mode") != "history":
            return None
        return self.settings.history or History()


class Do(NamedTuple):
    """A task that is done here."""

    task: Task
    id: str
    number: int
    at: Path

    @property
    def path(self) -> str:
        return spell_path(self.at)

    @property
    def bank(self) -> str | None:
        """The bank that it reads a conversation from, if it is known before it runs."""
        history = self.task.history
        bank = None if history is None else history.bank
        return None if bank is None or is_expression(bank) else bank

    @property
    def bank_at(self) -> Path:
        """Where it says so."""
        return (*self.task.at, "settings", "history", "bank")


class Parallel(NamedTuple):
    """Blocks side by side. `first`: it goes on as soon as one of them is done."""

    blocks: tuple[Block, ...]
    first: bool


class Branch(NamedTuple):
    """What is done under a condition; without one, if no other was true."""

    condition: str | None
    blocks: tuple[Block, ...]


class Conditional(NamedTuple):
    """The first branch whose condition is true is done."""

    branches: tuple[Branch, ...]


Block = Do | Parallel | Conditional


class TaskDocument(NamedTuple):
    """A workflow of tasks."""

    name: str
    description: str | None
    schema: Mapping[str, Any] | None
    """What the input is held to."""
    context: Mapping[str, Any]
    memories: Mapping[str, Memory]
    flow: tuple[Block, ...]
    outputs: Any
    banks: dict[str, dict[str, Any]]
    """Banks that are made when they are first needed, by their names."""

    def walk(self) -> Iterator[Do]:
        yield from _walk(self.flow)

    @property
    def around(self) -> list[Any]:
        """What is evaluated beside its tasks: the context, conditions, whose conversations they are, the outputs."""
        return [self.context, self.outputs, *_conditions(self.flow), *map(asdict, self.histories)]

    @property
    def asks(self) -> bool:
        """Whether it cannot run without a language model."""
        return any(one.task.asks for one in self.walk())

    @property
    def histories(self) -> list[History]:
        """The conversations that it goes on with, each once."""
        found = [one.task.history for one in self.walk()]
        return list(dict.fromkeys(one for one in found if one is not None))


def _walk(blocks: tuple[Block, ...]) -> Iterator[Do]:
    for block in blocks:
        match block:
            case Do():
                yield block
            case Parallel():
                yield from _walk(block.blocks)
            case Conditional():
                for branch in block.branches:
                    yield from _walk(branch.blocks)


def _conditions(blocks: tuple[Block, ...]) -> Iterator[str | None]:
    for block in blocks:
        match block:
            case Parallel():
                yield from _conditions(block.blocks)
            case Conditional():
                for branch in block.branches:
                    yield branch.condition
                    yield from _conditions(branch.blocks)


# -- What definitions, settings and inputs of tasks may hold. An input may be an expression: then it must fit when it runs.


AI_ACTIONS = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")
OBJECTS = ("ai_generate_object", "ai_infer_object")
SEND = "send_text_message"
UPDATE = "update_memory"
SPEAKING = ("ai_agent", "ai_generate_reply", "ai_generate_text")
"""Whose answer is what the run says, if nothing is sent."""
PROMPT = "=$input.text"
"""What a model is asked if nothing is said."""
KINDS = ("memory", "model", "task", "tools")

Milliseconds = Annotated[int, Meta(ge=0, le=900_000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=1024 * 1024)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing but the fields that there are."""


class Retries(_Strict, frozen=True, kw_only=True):
    """How often a task is tried again, and how long it waits (B3.21)."""

    enabled: bool = False
    max_attempts: Annotated[int, Meta(ge=1, le=6)] = 3
    backoff_ms: Annotated[int, Meta(ge=0, le=60_000)] = 25
    max_delay_ms: Annotated[int, Meta(ge=0, le=60_000)] = 10_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0
    multiplier: Annotated[float, Meta(ge=1, le=10)] = 1.0


class History(_Strict, frozen=True, kw_only=True):
    """A conversation: a session of a flow (that of the workflow's name, if none is said), or a key of a conversation bank. If no
    session or key is said, it is that of the run's owner and thread. `record`: what is said in the run is written there."""

    flow: Name | None = None
    session: Name | None = None
    bank: Name | None = None
    key: Name | None = None
    record: bool = True


class Settings(_Strict, frozen=True, kw_only=True):
    """How a task is done."""

    timeout_ms: Milliseconds = 0
    retries: Retries = Retries()
    history: History | None = None
    max_steps: Annotated[int, Meta(ge=1, le=20)] = 8
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None
    output_schema: dict[str, Any] | None = None


class ModelSettings(_Strict, frozen=True, kw_only=True):
    """Which model is asked."""

    provider: Name | None = None
    model_id: Name | None = None
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None


class MemorySettings(_Strict, frozen=True, kw_only=True):
    """Which memory definition is bound, by its id or slug."""

    definition_id: Name


class Bindings(_Strict, frozen=True, kw_only=True):
    """What is bound to a task, by the names of definitions."""

    model: Name | None = None
    memory: Annotated[list[Name], Meta(max_length=50)] = []
    tools: Annotated[list[Name], Meta(max_length=50)] = []


class AiInputs(_Strict, frozen=True, kw_only=True):
    """What a model is asked (S3.22, B3.23)."""

    input_mode: Literal["prompt", "history"] = "prompt"
    prompt: Text = ""
    messages_limit: Annotated[int, Meta(ge=1, le=200)] = 4
    system: Text = "You are a helpful assistant."


class SendInputs(_Strict, frozen=True, kw_only=True):
    """What is sent."""

    text: Text


class UpdateInputs(_Strict, frozen=True, kw_only=True):
    """What is remembered (S3.38)."""

    memory: dict[str, Any]
    mode: Literal["replace", "merge"] | None = None


INPUTS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(AI_ACTIONS, AiInputs),
    SEND: SendInputs,
    UPDATE: UpdateInputs,
}
"""Of the actions that there are; everything else is a registered function, and takes what that takes."""


# -- The expressions of a document, checked before anything runs.


MAX_EXPRESSIONS = 2_000


class Expressions:
    """What an author wrote that begins with `=`. Each is looked at once, however often it stands there."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._found: list[tuple[str, Path]] = []

    def note(self, value: Any, path: Path) -> None:
        """Note the expressions in a part of the document."""
        match value:
            case dict():
                for name, one in value.items():
                    self.note(one, (*path, name))
            case list():
                for number, one in enumerate(value):
                    self.note(one, (*path, number))
            case str() if is_expression(value):
                self._found.append((value, path))

    def check(self) -> None:
        """Say what is wrong with them."""
        if len(self._found) > MAX_EXPRESSIONS:
            self._problems.add(self._found[MAX_EXPRESSIONS][1], f"there are more than {MAX_EXPRESSIONS} expressions.")
            return
        sources = list(dict.fromkeys(source for source, _ in self._found))
        known = dict(zip(sources, find_problems(sources), strict=True))
        for source, path in self._found:
            problem = known[source]
            if problem is not None:
                where = "" if problem.column is None else f" (at character {problem.column + 1})"
                self._problems.add(path, f"the expression cannot be read{where}: {problem.message}")


def mentions(value: Any, word: str) -> bool:
    """Whether a word is in one of the expressions in a part of a document."""
    match value:
        case Mapping():
            return any(mentions(one, word) for one in value.values())
        case list():
            return any(mentions(one, word) for one in value)
    return is_expression(value) and word in value
