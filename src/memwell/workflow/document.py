"""A workflow's document: a tree of steps. Everything that is wrong with it is said at once, each with its path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from ..clock import to_datetime
from ..context import template as templates
from ..context.moments import times
from ..errors import Invalid
from .fields import ALIASES, KINDS, LEAVES, Common
from .yaml_text import Parsed, read

MAX_STEPS = 200
MAX_LEVELS = 30
MAX_NAME = 255
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOP = ("name", "description", "steps", "memory_banks", "version")
_NAMESPACES = {"agent": ("input", "name", "id"), "organization": ("name",), "metadata": None, "step": None}
_BARE = ("input",)
_FIXED = ("id", "name", "purpose", "timeout_s", "retries", "cache_minutes")
"""Fields that say how a step runs, and are known before it does."""


class Problem(NamedTuple):
    """What is wrong, and where."""

    path: str
    reason: str
    line: int | None = None


class Node(NamedTuple):
    """A step of the tree: what it is, its fields as they are written, and its children."""

    kind: str
    id: str
    path: str
    fields: dict[str, Any]
    children: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


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


def parse(source: str | dict[str, Any]) -> Document:
    """A document from YAML, JSON or a value. Raises with every problem that it has."""
    parsed = read(source) if isinstance(source, str) else Parsed(source, {})
    reading = _Reading(parsed.lines)
    document = reading.document(parsed.value)
    if reading.problems:
        shown = "; ".join(f"{one.path or 'the document'}: {one.reason}" for one in reading.problems[:20])
        listed = [{"path": one.path, "reason": one.reason, "line": one.line} for one in reading.problems]
        raise Invalid(f"The workflow has {len(reading.problems)} problem(s): {shown}", problems=listed)
    return document


class _Reading:
    """A document being read, with what is wrong so far."""

    def __init__(self, lines: dict[str, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines
        self._ids: dict[str, str] = {}
        self._count = 0

    def document(self, value: Any) -> Document:
        if not isinstance(value, dict):
            self._wrong("", "it must be a mapping with `name` and `steps`.")
            return Document("", None, (), {})
        for key in value:
            if key not in _TOP:
                self._wrong(key, f"there is no such field. The fields are {', '.join(_TOP)}.")
        name = value.get("name", "workflow")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            self._wrong("name", f"it must be a text of 1 to {MAX_NAME} characters.")
            name = ""
        steps = self._steps(value.get("steps"), "steps", "", 1)
        if not steps and not self.problems:
            self._wrong("steps", "there must be at least one step.")
        self._references(steps)
        description = value.get("description")
        return Document(name, description if isinstance(description, str) else None, steps, self._banks(value))

    def _banks(self, value: dict[str, Any]) -> dict[str, dict[str, Any]]:
        found = value.get("memory_banks") or {}
        if not isinstance(found, dict) or not all(isinstance(one, dict | None) for one in found.values()):
            self._wrong("memory_banks", "it must give settings by the names of banks.")
            return {}
        return {name: settings or {} for name, settings in found.items()}

    def _steps(self, value: Any, path: str, parent: str, level: int) -> tuple[Node, ...]:
        if not isinstance(value, list):
            self._wrong(path, "it must be a list of steps.")
            return ()
        if level > MAX_LEVELS:
            self._wrong(path, f"steps are nested deeper than {MAX_LEVELS} levels.")
            return ()
        found = [self._step(one, f"{path}[{number}]", parent, level) for number, one in enumerate(value)]
        return tuple(one for one in found if one is not None)

    def _step(self, value: Any, path: str, parent: str, level: int) -> Node | None:
        self._count += 1
        if self._count > MAX_STEPS:
            if self._count == MAX_STEPS + 1:
                self._wrong(path, f"there are more than {MAX_STEPS} steps.")
            return None
        if not isinstance(value, dict):
            self._wrong(path, "a step must be a mapping.")
            return None
        given = value.get("step_type")
        kind = ALIASES.get(given, given) if isinstance(given, str) else None
        if kind not in KINDS:
            known = ", ".join([*KINDS, *ALIASES])
            self._wrong(f"{path}.step_type", f"there is no step type {given!r}. There are {known}.")
            return None
        if "steps" in value and "child_steps" in value:
            self._wrong(path, "give either `steps` or `child_steps`.")
        below = "child_steps" if "child_steps" in value else "steps"
        children = self._steps(value.get(below) or [], f"{path}.{below}", kind, level + 1)
        self._place(kind, parent, path, bool(children))
        fields = {name: one for name, one in value.items() if name not in ("step_type", "steps", "child_steps")}
        step_id = self._id(fields.get("id"), path)
        self._fields(kind, fields, path)
        return Node(kind, step_id, path, fields, children)

    def _place(self, kind: str, parent: str, path: str, has_children: bool) -> None:
        if kind in LEAVES and has_children:
            self._wrong(path, f"a {kind} has no steps of its own.")
        if kind == "streaming_result" and parent != "prompt_call":
            self._wrong(path, "a streaming_result must stand directly under a prompt_call.")

    def _id(self, given: Any, path: str) -> str:
        step_id = given if given not in (None, "") else _numbered(path)
        if not isinstance(step_id, str) or not _ID.fullmatch(step_id):
            self._wrong(f"{path}.id", "an id has 1 to 64 letters, digits, `_` or `-`.")
            return path
        if step_id in self._ids:
            self._wrong(f"{path}.id", f"the id {step_id!r} is that of {self._ids[step_id]}, too.")
        self._ids[step_id] = path
        return step_id

    def _fields(self, kind: str, fields: dict[str, Any], path: str) -> None:
        """Each field for itself: a template is checked as a template, everything else as what it must be."""
        for name in _FIXED:
            if isinstance(fields.get(name), str) and "{{" in fields[name]:
                self._wrong(f"{path}.{name}", "it cannot be a template.")
        plain = {name: value for name, value in fields.items() if self._templates(value, f"{path}.{name}")}
        for name, reason in _misfits(KINDS[kind], fields, plain):
            self._wrong(f"{path}.{name}" if name else path, reason)

    def _templates(self, value: Any, path: str) -> bool:
        """Check the templates in a value; True if it holds none."""
        match value:
            case str() if "{{" in value:
                self._template(value, path)
                return False
            case dict():
                found = [self._templates(one, f"{path}.{name}") for name, one in value.items()]
                return all(found)
            case list():
                found = [self._templates(one, f"{path}[{number}]") for number, one in enumerate(value)]
                return all(found)
        return True

    def _template(self, text: str, path: str) -> None:
        try:
            expressions = templates.names(templates.parse(text))
        except Invalid as error:
            self._wrong(path, str(error))
            return
        known = times(to_datetime(0))
        for one in expressions:
            if known(one.source) is None or (not one.namespace and one.source in _BARE):
                self._name(one, path)

    def _name(self, one: templates.Expression, path: str) -> None:
        inside = f"`{{{{{one.source}}}}}`"
        if not one.path:
            self._wrong(path, f"{inside} is neither a name nor a time.")
        elif not one.namespace:
            if one.path[0] not in _BARE:
                self._wrong(
                    path, f"{inside} is not known. Known are `input`, {_known()}, and times such as `1 week ago`."
                )
        elif one.namespace not in _NAMESPACES:
            self._wrong(path, f"{inside}: there is no `{one.namespace}`. Known are {_known()}.")
        else:
            allowed = _NAMESPACES[one.namespace]
            if allowed is not None and one.path[0] not in allowed:
                self._wrong(path, f"{inside} is not known: `{one.namespace}` has {', '.join(allowed)}.")

    def _references(self, steps: tuple[Node, ...]) -> None:
        """`{{step.<id>.output}}` must name a step that there is."""
        for top in steps:
            for node in top.walk():
                for text in _texts(node.fields):
                    for wanted in re.findall(r"\{\{\s*step\.([A-Za-z0-9_-]+)", text):
                        if wanted not in self._ids:
                            self._wrong(node.path, f"there is no step `{wanted}`.")

    def _wrong(self, path: str, reason: str) -> None:
        self.problems.append(Problem(path, reason, self._lines.get(path)))


def _numbered(path: str) -> str:
    """An id for a step that was given none: where it stands."""
    return "step-" + "-".join(str(int(number) + 1) for number in re.findall(r"[0-9]+", path))


def _known() -> str:
    return ", ".join(f"`{name}.…`" for name in _NAMESPACES)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)


def _misfits(kind: type[Common], fields: dict[str, Any], plain: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields that do not fit. Those that are templates are taken to be there, whatever they will be."""
    found: list[tuple[str, str]] = []
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, value in plain.items():
        if name not in known:
            continue
        try:
            msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            found.append((name, f"{str(error)[:1].lower()}{str(error)[1:]}."))
    unknown = f"there is no such field. The fields are {', '.join(known)}."
    found += [(name, unknown) for name in fields if name not in known]
    return found + [(name, "it is missing.") for name, field in known.items() if field.required and name not in fields]
