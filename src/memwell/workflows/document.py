"""A workflow's document: a tree of steps, or tasks. All that is wrong with it is said at once, each with where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..text.yaml import Path, Place, spelled
from .fields import ALIASES, KINDS, LEAVES, Expressions, judged, literal
from .source import Problems, Reading, read, refuse, required, types
from .tasks.document import TaskDocument
from .tasks.reader import is_tasks, read_tasks

MAX_STEPS = 200
MAX_LEVELS = 30
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOP = ("name", "description", "steps", "memory_banks", "version")
_TREE = ("step_type", "steps", "child_steps")
_FIXED = ("id", "name", "purpose", "timeout_s", "retries", "cache_minutes")
"""Fields that say how a step runs, and are known before it does."""
_UNKNOWN = ""
"""The kind of a step that has none that there is."""


class Node(NamedTuple):
    """A step of the tree: what it is, its fields as they are written, and its children."""

    kind: str
    id: str
    path: str
    fields: dict[str, Any]
    children: tuple[Node, ...]
    at: Path = ()

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def bank(self) -> str | None:
        """The bank that it names, by id or name, if it does so before it runs."""
        return literal(self.fields.get("memory_bank_id"))

    @property
    def bank_at(self) -> Path:
        """Where it does so."""
        return (*self.at, "memory_bank_id")


class Document(NamedTuple):
    """A workflow as it runs."""

    name: str
    description: str | None
    steps: tuple[Node, ...]
    banks: dict[str, dict[str, Any]]
    """Banks that are made when they are first needed, by their names."""

    def walk(self) -> Iterator[Node]:
        for step in self.steps:
            yield from step.walk()

    @property
    def asks(self) -> bool:
        """Whether it cannot run without a language model."""
        return any(node.kind == "prompt_call" for node in self.walk())


Runnable = Document | TaskDocument
"""Whatever can run: a tree of steps, or tasks."""


class Look(NamedTuple):
    """A document with what is wrong with it, and as it is stored."""

    document: Runnable
    problems: Problems
    body: str
    place: Place | None = None


def look(given: str | dict[str, Any]) -> Look:
    """A document from YAML, JSON or a value, whatever is wrong with it. Raises only if it cannot be read at all."""
    source = read(given)
    problems = Problems(source.place)
    if is_tasks(source.value):
        return Look(read_tasks(source.value, problems), problems, source.body, source.place)
    return Look(_Reading(problems).document(source.value), problems, source.body, source.place)


def parse(given: str | dict[str, Any]) -> Runnable:
    """A document that can run. Raises with every problem that it has."""
    found = look(given)
    refuse(found.problems.found)
    return found.document


class _Reading(Reading):
    """A tree of steps being read, with what is wrong so far."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._expressions = Expressions(problems)
        self._banks: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, Path] = {}
        self._count = 0

    def document(self, value: Any) -> Document:
        if not isinstance(value, dict):
            self._wrong(
                (),
                "it is empty."
                if value is None
                else "it must be a mapping with `name` and `steps`, or with `defs` and `flow`.",
            )
            return Document("", None, (), {})
        self._unknown(value, _TOP, ())
        name, description = self._heading(value)
        self._banks = self._read_banks(value.get("memory_banks"))
        steps = self._top(value.get("steps"))
        self._expressions.check_steps(self._ids)
        return Document(name, description, steps, self._banks)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _top(self, value: Any) -> tuple[Node, ...]:
        if value is None or value == []:
            self._wrong(("steps",), "there must be at least one step.")
            return ()
        return self._steps(value, ("steps",), None, 1)

    def _steps(self, value: Any, path: Path, parent: str | None, level: int) -> tuple[Node, ...]:
        if not isinstance(value, list):
            self._wrong(path, "it must be a list of steps.")
            return ()
        if value and level > MAX_LEVELS:
            self._wrong(path, f"steps are nested deeper than {MAX_LEVELS} levels.")
            return ()
        found = []
        for number, one in enumerate(value):
            self._count += 1
            if self._count > MAX_STEPS:
                if self._count == MAX_STEPS + 1:
                    self._wrong((*path, number), f"there are more than {MAX_STEPS} steps.")
                break
            found.append(self._step(one, (*path, number), parent, level))
        return tuple(one for one in found if one is not None)

    def _step(self, value: Any, path: Path, parent: str | None, level: int) -> Node | None:
        if not isinstance(value, dict):
            self._wrong(path, "a step must be a mapping.")
            return None
        kind = self._kind(value.get("step_type"), path)
        fields = {name: one for name, one in value.items() if name not in _TREE}
        step_id = self._id(fields.get("id"), path)
        if kind != _UNKNOWN:
            self._fields(kind, fields, path)
        children = self._children(value, kind, path, level)
        self._place(kind, parent, path, bool(children))
        return None if kind == _UNKNOWN else Node(kind, step_id, spelled(path), fields, children, path)

    def _kind(self, given: Any, path: Path) -> str:
        kind = ALIASES.get(given, given) if isinstance(given, str) else None
        if kind in KINDS:
            return kind
        known = ", ".join([*KINDS, *ALIASES])
        said = "it is missing." if given is None else f"there is no step type {str(given)[:50]!r}."
        self._wrong((*path, "step_type"), f"{said} There are {known}.")
        return _UNKNOWN

    def _children(self, value: dict[str, Any], kind: str, path: Path, level: int) -> tuple[Node, ...]:
        if "steps" in value and "child_steps" in value:
            self._wrong(path, "give either `steps` or `child_steps`.")
        below = "child_steps" if "child_steps" in value else "steps"
        given = value.get(below)
        return () if given is None else self._steps(given, (*path, below), kind, level + 1)

    def _place(self, kind: str, parent: str | None, path: Path, has_children: bool) -> None:
        if kind in LEAVES and has_children:
            self._wrong(path, f"a {kind} has no steps of its own.")
        if kind == "streaming_result" and parent not in ("prompt_call", _UNKNOWN):
            self._wrong(path, "a streaming_result must stand directly under a prompt_call.")

    def _id(self, given: Any, path: Path) -> str:
        step_id = given if given not in (None, "") else _numbered(path)
        if not isinstance(step_id, str) or not _ID.fullmatch(step_id):
            if "{{" not in str(given):
                self._wrong((*path, "id"), "an id has 1 to 64 letters, digits, `_` or `-`.")
            return spelled(path)
        if step_id in self._ids:
            self._wrong((*path, "id"), f"the id {step_id!r} is that of {spelled(self._ids[step_id])}, too.")
        self._ids[step_id] = path
        return step_id

    # -- fields --------------------------------------------------------------------------------------------------------

    def _fields(self, kind: str, fields: dict[str, Any], path: Path) -> None:
        """Each field for itself: a template is checked as a template, everything else as what it must be."""
        known = types(KINDS[kind])
        self._unknown(fields, tuple(known), path)
        for name in known:
            if name in fields and self._is_plain(name, fields[name], (*path, name)):
                self._fits(fields[name], known[name], (*path, name))
        for name in required(KINDS[kind]):
            if name not in fields:
                self._wrong((*path, name), "it is missing.")
        for name, reason in judged(kind, fields, self._banks):
            self._wrong((*path, name) if name else path, reason)

    def _is_plain(self, name: str, value: Any, path: Path) -> bool:
        """Check the templates in a field; True if it has none."""
        if name not in _FIXED:
            return self._templates(value, path)
        if isinstance(value, str) and "{{" in value:
            self._wrong(path, "it cannot be a template.")
            return False
        return True

    def _templates(self, value: Any, path: Path) -> bool:
        match value:
            case str() if "{{" in value:
                self._expressions.check(value, path)
                return False
            case dict():
                found = [self._templates(one, (*path, name)) for name, one in value.items()]
                return all(found)
            case list():
                found = [self._templates(one, (*path, number)) for number, one in enumerate(value)]
                return all(found)
        return True


def _numbered(path: Path) -> str:
    """An id for a step that was given none: where it stands."""
    return "step-" + "-".join(str(number + 1) for number in path if isinstance(number, int))
