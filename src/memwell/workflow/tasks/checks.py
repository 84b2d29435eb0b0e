"""What only a store can say about a workflow of tasks: whether the definitions, functions and models that it names are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...dialects.definitions import find
from ...dispatch import Call
from ...errors import Invalid
from ...model.yaml import Path
from ...space import Space
from ..problems import Problems, refuse
from .document import TaskDocument
from .fields import INPUTS
from .inputs import held_to
from .tools import tool_of


def missing_definitions(space: Space, document: TaskDocument) -> Iterator[tuple[Path, str]]:
    """The memory definitions that there are not, in this tenant (S3.28, B3.4)."""
    for memory in document.memories.values():
        if find(space, memory.definition) is None:
            yield memory.at, f"Unable to find memory definition(s): {memory.definition[:100]}."


def require(call: Call, document: TaskDocument, given: Mapping[str, Any]) -> None:
    """Refuse to begin a run that cannot be done. Raises with every problem."""
    problems = Problems()
    for path, reason in call.read(lambda space: list(missing_definitions(space, document))):
        problems.add(path, reason)
    for path, reason in _missing_here(call, document):
        problems.add(path, reason)
    refuse(problems.found)
    held_to(document.schema, given)


def _missing_here(call: Call, document: TaskDocument) -> Iterator[tuple[Path, str]]:
    tasks = {do.task.name: do.task for do in document.walk()}.values()
    for task in tasks:
        if task.action not in INPUTS:
            yield from _said((*task.at, "action"), lambda action=task.action: call.engine.function(action))  # type: ignore[misc]
        for tool in task.tools:
            yield from _said((*tool.at, "action"), lambda tool=tool: tool_of(tool, call.engine.function(tool.action)))  # type: ignore[misc]
        model = task.model
        if model is not None and task.asks:
            yield from _said(model.at, lambda model=model: call.engine.require_provider(model.provider))  # type: ignore[misc]


def _said(path: Path, work: Callable[[], object]) -> Iterator[tuple[Path, str]]:
    try:
        work()
    except Invalid as error:
        yield path, error.message
