"""Documents of workflows: a tree of steps, or tasks. All problems are reported at once, each with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..text.yaml import Path, Place, spell_path
from .fields import ALIASES, KINDS, LEAVES, Expressions, find_field_problems, find_literal
from .source import DocumentReader, Problems, list_required, list_types, read_source, refuse
from .tasks.document import TaskDocument
from .tasks.reader import is_task_document, read_tasks

MAX_STEPS = 200
MAX_LEVELS = 30
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOP = ("name", "description", "steps", "memory_banks", "version")
_TREE = ("step_type", "steps", "child_steps")
_FIXED = ("id", "name", "purpose", "timeout_s", "retries", "cache_minutes")
"""Fields that cannot be templates."""
_UNKNOWN = ""
"""The kind of a step with an unknown type."""


class Node(NamedTuple):
    """A step of the tree, with its fields before templates are rendered."""

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
        """The id or name of its bank, unless that is a template."""
        return find_literal(self.fields.get("memory_bank_id"))

    @property
    def bank_at(self) -> Path:
        return (*self.at, "memory_bank_id")


class Document(NamedTuple):
    """A workflow that is a tree of steps."""

    name: str
    description: str | None
    steps: tuple[Node, ...]
    banks: dict[str, dict[str, Any]]
    """Settings of the banks that are created by the first run, by their names."""

    def walk(self) -> Iterator[Node]:
        for step in self.steps:
            yield from step.walk()

    @property
    def asks(self) -> bool:
        """Tell if it needs a language model."""
        return any(node.kind == "prompt_call" for node in self.walk())


Runnable = Document | TaskDocument


class ReadDocument(NamedTuple):
    """A document with its problems, and its JSON."""

    document: Runnable
    problems: Problems
    body: str
    place: Place | None = None


def read_document(given: str | dict[str, Any]) -> ReadDocument:
    """Read YAML, JSON or an object. Raises only if it cannot be parsed; other problems are in the result."""
    source = read_source(given)
    problems = Problems(source.place)
    if is_task_document(source.value):
        return ReadDocument(read_tasks(source.value, problems), problems, source.body, source.place)
    return ReadDocument(_TreeReader(problems).document(source.value), problems, source.body, source.place)


def parse_document(given: str | dict[str, Any]) -> Runnable:
    """A document that can run. Raises an error with all its problems."""
    found = read_document(given)
    refuse(found.problems.found)
    return found.document


class _TreeReader(DocumentReader):
    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._expressions = Expressions(problems)
        self._banks: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, Path] = {}
        self._count = 0

    def document(self, value: Any) -> Document:
        if not isinstance(value, dict):
            self._add_problem(
                (),
                "it is empty."
                if value is None
                else "it must be a mapping with `name` and `steps`, or with `defs` and `flow`.",
            )
            return Document("", None, (), {})
        self._check_unknown(value, _TOP, ())
        name, description = self._read_heading(value)
        self._banks = self._read_banks(value.get("memory_banks"))
        steps: tuple[Node, ...] = ()
        if value.get("steps") in (None, []):
            self._add_problem(("steps",), "there must be at least one step.")
        else:
            steps = self._read_steps(value["steps"], ("steps",), None, 1)
        self._expressions.check_steps(self._ids)
        return Document(name, description, steps, self._banks)

    def _read_steps(self, value: Any, path: Path, parent: str | None, level: int) -> tuple[Node, ...]:
        if not isinstance(value, list):
            self._add_problem(path, "it must be a list of steps.")
            return ()
        if value and level > MAX_LEVELS:
            self._add_problem(path, f"steps are nested deeper than {MAX_LEVELS} levels.")
            return ()
        found = []
        for number, one in enumerate(value):
            self._count += 1
            if self._count > MAX_STEPS:
                if self._count == MAX_STEPS + 1:
                    self._add_problem((*path, number), f"there are more than {MAX_STEPS} steps.")
                break
            found.append(self._read_step(one, (*path, number), parent, level))
        return tuple(one for one in found if one is not None)

    def _read_step(self, value: Any, path: Path, parent: str | None, level: int) -> Node | None:
        if not isinstance(value, dict):
            self._add_problem(path, "a step must be a mapping.")
            return None
        kind = self._read_kind(value.get("step_type"), path)
        fields = {name: one for name, one in value.items() if name not in _TREE}
        step_id = self._read_id(fields.get("id"), path)
        if kind != _UNKNOWN:
            self._check_fields(kind, fields, path)
        children = self._read_children(value, kind, path, level)
        self._check_place(kind, parent, path, bool(children))
        return None if kind == _UNKNOWN else Node(kind, step_id, spell_path(path), fields, children, path)

    def _read_kind(self, given: Any, path: Path) -> str:
        kind = ALIASES.get(given, given) if isinstance(given, str) else None
        if kind in KINDS:
            return kind
        known = ", ".join([*KINDS, *ALIASES])
        problem = "it is missing." if given is None else f"there is no step type {str(given)[:50]!r}."
        self._add_problem((*path, "step_type"), f"{problem} There are {known}.")
        return _UNKNOWN

    def _read_children(self, value: dict[str, Any], kind: str, path: Path, level: int) -> tuple[Node, ...]:
        if "steps" in value and "child_steps" in value:
            self._add_problem(path, "give either `steps` or `child_steps`.")
        below = "child_steps" if "child_steps" in value else "steps"
        given = value.get(below)
        return () if given is None else self._read_steps(given, (*path, below), kind, level + 1)

    def _check_place(self, kind: str, parent: str | None, path: Path, has_children: bool) -> None:
        if kind in LEAVES and has_children:
            self._add_problem(path, f"a {kind} has no steps of its own.")
        if kind == "streaming_result" and parent not in ("prompt_call", _UNKNOWN):
            self._add_problem(path, "a streaming_result must stand directly under a prompt_call.")

    def _read_id(self, given: Any, path: Path) -> str:
        step_id = given if given not in (None, "") else _number_step(path)
        if not isinstance(step_id, str) or not _ID.fullmatch(step_id):
            if "{{" not in str(given):
                self._add_problem((*path, "id"), "an id has 1 to 64 letters, digits, `_` or `-`.")
            return spell_path(path)
        if step_id in self._ids:
            self._add_problem((*path, "id"), f"{spell_path(self._ids[step_id])} has the id {step_id!r}, too.")
        self._ids[step_id] = path
        return step_id

    def _check_fields(self, kind: str, fields: dict[str, Any], path: Path) -> None:
        """Check the syntax of templates, and the types of other values."""
        known = list_types(KINDS[kind])
        self._check_unknown(fields, tuple(known), path)
        for name in known:
            if name in fields and self._is_literal(name, fields[name], (*path, name)):
                self._check_value(fields[name], known[name], (*path, name))
        for name in list_required(KINDS[kind]):
            if name not in fields:
                self._add_problem((*path, name), "it is missing.")
        for name, reason in find_field_problems(kind, fields, self._banks):
            self._add_problem((*path, name) if name else path, reason)

    def _is_literal(self, name: str, value: Any, path: Path) -> bool:
        """Check the templates in a field; True if it has none."""
        if name not in _FIXED:
            return self._check_templates(value, path)
        if isinstance(value, str) and "{{" in value:
            self._add_problem(path, "it cannot be a template.")
            return False
        return True

    def _check_templates(self, value: Any, path: Path) -> bool:
        match value:
            case str() if "{{" in value:
                self._expressions.check(value, path)
                return False
            case dict():
                found = [self._check_templates(one, (*path, name)) for name, one in value.items()]
                return all(found)
            case list():
                found = [self._check_templates(one, (*path, number)) for number, one in enumerate(value)]
                return all(found)
        return True


def _number_step(path: Path) -> str:
    """The id of a step without one: its position."""
    return "step-" + "-".join(str(number + 1) for number in path if isinstance(number, int))
