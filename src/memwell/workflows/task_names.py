"""The names in the expressions of a document of tasks: variables, outputs of tasks, and working memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ..context.expression import is_expression
from ..context.expression_child import WHY_NO_EVAL
from ..context.expression_names import FUNCTION, Variable, list_variables
from ..text.yaml import Path
from .source import list_texts

T = TypeVar("T")
MEMORY = "memory"
RUN_NAMES = ("memory", "metadata", "owner", "thread", "run", "workflow")
"""What every run has under `$context`."""
_ROOTS = ("input", "context", "output")
_SUBSTITUTION = re.compile(r"\{\{[^{}]+\}\}")
_BARE = re.compile(r"\$(?:input|context|output)\b(?:\.\w+)*")


def list_memory_names(value: Any) -> set[str]:
    """Return the names that the expressions in a part of a document read under `$context.memory`."""
    expressions = [text for text, _ in list_texts(value) if is_expression(text) and MEMORY in text]
    paths = [one.path for text in expressions for one in list_variables(text)]
    return {path[2] for path in paths if path[:2] == ("context", MEMORY) and len(path) > 2}


def find_substitution(source: str) -> str | None:
    """Return the problem of an expression that contains a substitution."""
    found = _SUBSTITUTION.search(source)
    if found is None:
        return None
    return (
        f"`{found[0][:100]}` is not replaced in an expression: use `$context.memory`, `$context.metadata` or `$input`."
    )


def find_bare_name(text: str) -> str | None:
    """Return the problem of a text that looks like an expression but would be sent as it is."""
    found = _BARE.search(text)
    if found is None:
        return None
    return f'`{found[0]}` is used as it is: for an expression, begin it with `=`, as in `="… " & {found[0]}`.'


class FlowOrder:
    """The tasks that may have run before each task and each condition of a flow, noted while its blocks are read in order."""

    def __init__(self) -> None:
        self._before: frozenset[str] = frozenset()
        self._known: dict[object, frozenset[str]] = {}

    def note(self, part: object) -> None:
        """Note what comes before a task or the path of a condition. A task may occur several times."""
        self._known[part] = self._known.get(part, frozenset()) | self._before

    def add(self, task: str) -> None:
        self._before |= {task}

    def read_apart(self, readers: Iterable[Callable[[], T]]) -> list[T]:
        """Read parts that do not see each other's outputs. What comes after them may see all."""
        before, after, found = self._before, self._before, []
        for read in readers:
            self._before = before
            found.append(read())
            after |= self._before
        self._before = after
        return found

    def find_problem(self, variable: Variable, path: Path) -> str | None:
        """Return the problem of an output that is empty there, because its task runs later."""
        if variable.path[:1] != ("output",) or len(variable.path) < 2 or variable.asked or path[0] == "outputs":
            return None
        part = path[1] if path[0] == "defs" and len(path) > 1 else path
        if variable.path[1] in self._known.get(part, frozenset()) or (path[0] != "context" and part not in self._known):
            return None
        return f"`{variable.path[1][:100]}` has not run yet at this place, so that it has no output."


class NameChecker:
    """Checks the variables of expressions. `outputs` has the fields of the output of each task in the flow; None for a function,
    whose result may be anything."""

    def __init__(
        self, outputs: Mapping[str, Collection[str] | None], idle: Collection[str], context: Collection[str]
    ) -> None:
        self._outputs, self._idle = outputs, idle
        self._context = (*RUN_NAMES, *context)

    def find_problem(self, variable: Variable) -> str | None:
        root, *names = variable.path
        if root == "eval":
            return WHY_NO_EVAL
        if root not in _ROOTS:
            known = "`$input`, `$context`, `$output`, the functions of JSONata, and what the expression binds itself"
            return None if FUNCTION.fullmatch(root) else f"there is no `${root[:100]}`. There are {known}."
        if variable.asked or not names or root == "input":
            return None
        if root == "context":
            known = ", ".join(f"`$context.{name}`" for name in self._context)
            return None if names[0] in self._context else f"there is no `$context.{names[0][:100]}`. There are {known}."
        return self._find_output_problem(*names)

    def _find_output_problem(self, task: str, field: str | None = None, *_: str) -> str | None:
        if task in self._idle:
            return f"the task `{task}` is not in the flow, so that it has no output."
        if task not in self._outputs:
            return f"there is no task `{task[:100]}`. The tasks are {', '.join(self._outputs)}."
        fields = self._outputs[task]
        if field is None or fields is None or field in fields:
            return None
        return f"there is no `{field[:100]}`: the output of `{task}` has {', '.join(f'`{one}`' for one in fields)}."
