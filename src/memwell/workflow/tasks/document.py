"""A workflow of tasks, as it runs: definitions by name, and blocks that are done one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import asdict

from ...context.expression import is_expression
from ...model.yaml import Path, spelled
from .fields import AI_ACTIONS, History, Settings


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
        return spelled(self.at)

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
