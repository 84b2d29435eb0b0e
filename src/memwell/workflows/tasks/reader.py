"""What only a store can say about a workflow of tasks: whether the definitions, functions and models that it names are there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ... import typed
from ...context.expression import is_expression
from ...errors import MemwellError
from ...records.schema import Schema
from ...records.working_memory import TOOL
from ...text.yaml import Path
from ..source import DocumentReader, Problems, list_required, list_types
from .document import (
    AI_ACTIONS,
    INPUTS,
    KINDS,
    OBJECTS,
    SEND,
    UPDATE,
    Bindings,
    Block,
    Branch,
    Conditional,
    Do,
    Expressions,
    Memory,
    MemorySettings,
    Model,
    ModelSettings,
    Parallel,
    Settings,
    Task,
    TaskDocument,
    Tool,
)

MAX_TASKS = 200
MAX_LEVELS = 20
MAX_DEFS = 500
ACTIONS = (*AI_ACTIONS, UPDATE, SEND)
TOP = ("name", "description", "version", "inputs", "context", "defaults", "defs", "flow", "outputs", "memory_banks")
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_ACTION = re.compile(r"[A-Za-z_][\w.-]{0,199}")
_FIELDS = {
    "memory": ("kind", "description", "settings"),
    "model": ("kind", "description", "settings"),
    "tools": ("kind", "description", "action", "settings"),
    "task": ("kind", "description", "action", "inputs", "settings", "bindings"),
}
_BLOCKS = ("do", "parallel", "conditional")
_SCHEMA_KEYWORDS = {"$ref", "$defs", "allOf", "anyOf", "oneOf", "properties", "additionalProperties", "required"}
"""Keywords that tell a schema from a mapping of properties."""
_OWN = {"memory", "metadata", "owner", "thread", "run", "workflow"}
MAX_TOOL = 64
"""Characters in the name of a tool that every server accepts."""
S = TypeVar("S", bound=msgspec.Struct)


def is_task_document(value: Any) -> bool:
    """Tell a workflow of tasks from a tree of steps."""
    return isinstance(value, dict) and "steps" not in value and bool({"defs", "flow"} & value.keys())


def read_tasks(value: dict[str, Any], problems: Problems) -> TaskDocument:
    return _TaskReader(problems).document(value)


class _TaskReader(DocumentReader):
    """Tasks being read, with what is wrong so far."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._expressions = Expressions(problems)
        self._memories: dict[str, Memory] = {}
        self._models: dict[str, Model] = {}
        self._tools: dict[str, Tool] = {}
        self._tasks: dict[str, Task] = {}
        self._kinds: dict[str, str] = {}
        self._defaults: dict[str, Any] = {}
        self._done: dict[str, int] = {}
        self._count = 0

    def document(self, value: dict[str, Any]) -> TaskDocument:
        self._check_unknown(value, TOP, ())
        name, description = self._read_heading(value)
        schema = self._input_schema(value.get("inputs"))
        context = self._mapping(value, "context", ())
        self._expressions.note(context, ("context",))
        for name in _OWN & context.keys():
            self._add_problem(("context", name), "this is filled in by the run: choose another name.")
        defaults = self._mapping(value, "defaults", ())
        self._check_unknown(defaults, ("settings",), ("defaults",))
        self._defaults = self._mapping(defaults, "settings", ("defaults",))
        self._history(self._fit(self._defaults, Settings, ("defaults", "settings")), ("defaults", "settings"))
        banks = self._read_banks(value.get("memory_banks"))
        self._defs(self._mapping(value, "defs", ()))
        flow = self._flow(value.get("flow"))
        outputs = value.get("outputs")
        if not isinstance(outputs, dict | None):
            self._add_problem(("outputs",), "it must give expressions by the names of outputs.")
        self._expressions.note(outputs, ("outputs",))
        self._expressions.check()
        return TaskDocument(name, description, schema, context, self._memories, flow, outputs, banks)

    def _input_schema(self, value: Any) -> Mapping[str, Any] | None:
        """What the input is held to: a JSON Schema, or its properties alone."""
        if value is None:
            return None
        if not isinstance(value, dict):
            self._add_problem(("inputs",), "it must be a mapping with `schema`.")
            return None
        self._check_unknown(value, ("schema",), ("inputs",))
        given = self._mapping(value, "schema", ("inputs",))
        if not given:
            return None
        whole = (
            {"type": "object", **given} if _SCHEMA_KEYWORDS & given.keys() else {"type": "object", "properties": given}
        )
        return self._schema(whole, ("inputs", "schema"))

    # -- definitions ---------------------------------------------------------------------------------------------------

    def _defs(self, value: dict[str, Any]) -> None:
        if len(value) > MAX_DEFS:
            self._add_problem(("defs",), f"there are more than {MAX_DEFS} definitions.")
            return
        given = {name: one for name, one in value.items() if self._is_def(name, one, ("defs", name))}
        self._kinds = {name: one["kind"] for name, one in given.items()}
        for kind in ("memory", "model", "tools", "task"):
            for name, one in given.items():
                if one["kind"] == kind:
                    self._def(kind, name, one, ("defs", name))

    def _is_def(self, name: str, value: Any, path: Path) -> bool:
        if not _NAME.fullmatch(name):
            self._add_problem(path, "a name has lowercase letters, digits, and single underscores between them.")
        if not isinstance(value, dict):
            self._add_problem(path, "it must be a mapping with `kind`.")
            return False
        kind = value.get("kind")
        if kind not in KINDS:
            said = "it is missing." if kind is None else f"there is no kind {str(kind)[:50]!r}."
            self._add_problem((*path, "kind"), f"{said} There are {', '.join(KINDS)}.")
            return False
        self._check_unknown(value, _FIELDS[kind], path)
        self._text(value.get("description"), (*path, "description"))
        return True

    def _def(self, kind: str, name: str, value: dict[str, Any], path: Path) -> None:
        match kind:
            case "memory":
                found = self._fit(self._needed(value, "settings", path), MemorySettings, (*path, "settings"))
                if found is not None:
                    self._memories[name] = Memory(found.definition_id, (*path, "settings", "definition_id"))
            case "model":
                chosen = self._fit(self._needed(value, "settings", path), ModelSettings, (*path, "settings"))
                if chosen is not None:
                    self._models[name] = Model(**msgspec.structs.asdict(chosen), at=(*path, "settings"))
            case "tools":
                self._tool(name, value, path)
            case "task":
                self._task(name, value, path)

    def _tool(self, name: str, value: dict[str, Any], path: Path) -> None:
        action = self._action(value.get("action"), path)
        if TOOL in (name, action):
            self._add_problem(
                path, f"`{TOOL}` is the name of the tool by which a model updates memory: choose another."
            )
        elif action in ACTIONS:
            self._add_problem((*path, "action"), f"`{action}` cannot be a tool: name a registered function.")
        elif len(name) > MAX_TOOL:
            self._add_problem(path, f"the name of a tool has at most {MAX_TOOL} characters.")
        settings = self._mapping(value, "settings", path)
        self._tools[name] = Tool(name, action, value.get("description"), settings, path)

    def _task(self, name: str, value: dict[str, Any], path: Path) -> None:
        action = self._action(value.get("action"), path)
        inputs = self._mapping(value, "inputs", path)
        self._inputs(action, inputs, (*path, "inputs"))
        settings = self._settings(self._mapping(value, "settings", path), (*path, "settings"))
        bound = self._fit(self._mapping(value, "bindings", path), Bindings, (*path, "bindings")) or Bindings()
        self._bindings(bound, action, (*path, "bindings"))
        if action in OBJECTS:
            self._output_schema(settings, (*path, "settings"))
        self._tasks[name] = Task(
            name,
            action,
            inputs,
            settings,
            self._models.get(bound.model or ""),
            tuple(self._memories[one] for one in bound.memory if one in self._memories),
            tuple(self._tools[one] for one in bound.tools if one in self._tools),
            path,
        )

    def _action(self, action: Any, path: Path) -> str:
        if isinstance(action, str) and (action in ACTIONS or (_ACTION.fullmatch(action) and action[:3] != "ai_")):
            return action
        said = "it is missing." if action is None else f"there is no action {str(action)[:50]!r}."
        self._add_problem((*path, "action"), f"{said} There are {', '.join(ACTIONS)}, and registered functions.")
        return ""

    def _inputs(self, action: str, inputs: dict[str, Any], path: Path) -> None:
        """Each for itself: an expression is checked as one, everything else as what it must be."""
        self._expressions.note(inputs, path)
        kind = INPUTS.get(action)
        if kind is None:
            return
        known = list_types(kind)
        self._check_unknown(inputs, tuple(known), path)
        for name, one in known.items():
            if name in inputs and not _holds_expression(inputs[name]):
                self._check_value(inputs[name], one, (*path, name))
            elif name not in inputs and name in list_required(kind):
                self._add_problem((*path, name), "it is missing.")
        if is_expression(inputs.get("input_mode")):
            self._add_problem((*path, "input_mode"), "it is `prompt` or `history`, and no expression.")

    def _settings(self, given: dict[str, Any], path: Path) -> Settings:
        merged = {**self._defaults, **given}
        if isinstance(self._defaults.get("retries"), dict) and isinstance(given.get("retries"), dict):
            merged["retries"] = {**self._defaults["retries"], **given["retries"]}
        own = self._fit(given, Settings, path)
        self._history(own, path)
        try:
            return typed.convert(merged, Settings)
        except msgspec.ValidationError:
            return own or Settings()

    def _history(self, settings: Settings | None, path: Path) -> None:
        history = None if settings is None else settings.history
        if history is None:
            return
        if history.bank is not None and (history.flow is not None or history.session is not None):
            self._add_problem((*path, "history"), "give either `bank` and `key`, or `flow` and `session`.")
        elif history.bank is None and history.key is not None:
            self._add_problem((*path, "history", "key"), "a key is that of a `bank`, and none is given.")
        self._expressions.note(msgspec.structs.asdict(history), (*path, "history"))

    def _output_schema(self, settings: Settings, path: Path) -> None:
        if settings.output_schema is None:
            self._add_problem((*path, "output_schema"), "it is missing: the JSON Schema of the object that is wanted.")
        else:
            self._schema(settings.output_schema, (*path, "output_schema"))

    def _bindings(self, bound: Bindings, action: str, path: Path) -> None:
        if (bound.model or bound.memory or bound.tools) and action and action not in AI_ACTIONS:
            self._add_problem(
                path, f"a task `{action}` asks no model: only those of {', '.join(AI_ACTIONS)} take bindings."
            )
            return
        named = [("model", bound.model)] if bound.model is not None else []
        named += [("memory", one) for one in bound.memory] + [("tools", one) for one in bound.tools]
        for number, (kind, name) in enumerate(named):
            if name not in self._kinds:
                self._add_problem((*path, kind), f"there is no definition {name[:100]!r}.")
            elif self._kinds[name] != kind:
                self._add_problem((*path, kind), f"{name!r} is of kind `{self._kinds[name]}`, and not `{kind}`.")
            elif (kind, name) in named[:number]:
                self._add_problem((*path, kind), f"{name!r} is bound twice.")

    # -- flow ----------------------------------------------------------------------------------------------------------

    def _flow(self, value: Any) -> tuple[Block, ...]:
        if value is None or value == []:
            self._add_problem(("flow",), "there must be at least one block.")
            return ()
        return self._blocks(value, ("flow",), 1)

    def _blocks(self, value: Any, path: Path, level: int) -> tuple[Block, ...]:
        if not isinstance(value, list) or not value:
            self._add_problem(path, "it must be a list of blocks.")
            return ()
        if level > MAX_LEVELS:
            self._add_problem(path, f"blocks are nested deeper than {MAX_LEVELS} levels.")
            return ()
        found = [
            self._block(one, (*path, number), level) for number, one in enumerate(value) if not self._problems.is_full
        ]
        return tuple(one for one in found if one is not None)

    def _block(self, value: Any, path: Path, level: int) -> Block | None:
        named = [name for name in _BLOCKS if isinstance(value, dict) and name in value]
        if len(named) != 1 or len(value) > len(named) + ("description" in value):
            known = ", ".join(f"`{name}`" for name in _BLOCKS)
            looped = isinstance(value, dict) and "loop" in value
            self._add_problem(path, f"{'there are no loops: ' if looped else ''}a block is one of {known}.")
            return None
        inside, at = value[named[0]], (*path, named[0])
        if named[0] == "do":
            return self._do(inside, at)
        if not isinstance(inside, dict):
            self._add_problem(at, "it must be a mapping.")
            return None
        return self._parallel(inside, at, level) if named[0] == "parallel" else self._conditional(inside, at, level)

    def _do(self, name: Any, path: Path) -> Do | None:
        task = self._tasks.get(name) if isinstance(name, str) else None
        if task is None:
            kind = self._kinds.get(name) if isinstance(name, str) else None
            other = f" {name!r} is of kind `{kind}`." if kind not in (None, "task") else ""
            self._add_problem(path, f"there is no task {str(name)[:100]!r}.{other}")
            return None
        self._count += 1
        if self._count > MAX_TASKS:
            if self._count == MAX_TASKS + 1:
                self._add_problem(path, f"there are more than {MAX_TASKS} tasks to do.")
            return None
        times = self._done[name] = self._done.get(name, 0) + 1
        return Do(task, name if times == 1 else f"{name}-{times}", self._count - 1, path)

    def _parallel(self, value: dict[str, Any], path: Path, level: int) -> Parallel:
        self._check_unknown(value, ("strategy", "steps"), path)
        strategy = value.get("strategy", "wait_all")
        if strategy not in ("wait_all", "wait_any"):
            self._add_problem((*path, "strategy"), "it is `wait_all` or `wait_any`.")
        return Parallel(self._blocks(value.get("steps"), (*path, "steps"), level + 1), strategy == "wait_any")

    def _conditional(self, value: dict[str, Any], path: Path, level: int) -> Conditional:
        self._check_unknown(value, ("when",), path)
        given = value.get("when")
        if not isinstance(given, list) or not given:
            self._add_problem((*path, "when"), "it must be a list of branches.")
            return Conditional(())
        found = []
        for number, one in enumerate(given):
            found += self._branch(one, (*path, "when", number), level, last=number == len(given) - 1)
        return Conditional(tuple(found))

    def _branch(self, value: Any, path: Path, level: int, *, last: bool) -> list[Branch]:
        if not isinstance(value, dict) or ("condition" in value) == ("else" in value):
            self._add_problem(path, "a branch has either `condition` or `else`, and `steps`.")
            return []
        self._check_unknown(value, ("condition", "else", "steps"), path)
        condition = value.get("condition")
        if "else" in value:
            if not last:
                self._add_problem((*path, "else"), "it must be the last branch.")
            if value["else"] not in (True, None):
                self._add_problem((*path, "else"), "it is `true`.")
        elif not is_expression(condition):
            self._add_problem((*path, "condition"), "it must be an expression: a text that begins with `=`.")
            condition = "=false"
        self._expressions.note(condition, (*path, "condition"))
        return [Branch(condition, self._blocks(value.get("steps"), (*path, "steps"), level + 1))]

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _schema(self, source: dict[str, Any], path: Path) -> Mapping[str, Any] | None:
        try:
            Schema(source, strict=False)
        except MemwellError as error:
            self._add_problem(path, error.message)
            return None
        return source

    def _mapping(self, value: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
        found = value.get(name)
        if isinstance(found, dict):
            return found
        if found is not None:
            self._add_problem((*path, name), "it must be a mapping.")
        return {}

    def _needed(self, value: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
        if name not in value:
            self._add_problem((*path, name), "it is missing.")
        return self._mapping(value, name, path)

    def _text(self, value: Any, path: Path) -> str | None:
        if isinstance(value, str | None):
            return value
        self._add_problem(path, "it must be a text.")
        return None

    def _fit(self, value: dict[str, Any], kind: type[S], path: Path) -> S | None:
        """Each field for itself, so that everything that is wrong is said."""
        known = list_types(kind)
        self._check_unknown(value, tuple(known), path)
        fits = not set(value) - set(known)
        for name, one in known.items():
            if name in value:
                fits &= self._check_value(value[name], one, (*path, name))
            elif name in list_required(kind):
                fits = False
                if value or path[-1] != "settings":
                    self._add_problem((*path, name), "it is missing.")
        if not value and list_required(kind):
            self._add_problem(path, f"`{list_required(kind)[0]}` is missing.")
        return typed.convert(value, kind) if fits else None


def _holds_expression(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_holds_expression, value.values()))
        case list():
            return any(map(_holds_expression, value))
    return is_expression(value)
