"""Documents of tasks: definitions by name, blocks that run one after the other, and the syntax of expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from .. import typed
from ..context.expression import find_problems, is_expression
from ..context.expression_names import list_variables
from ..core.space import Space
from ..errors import Invalid
from ..records.definitions import find_definition
from ..records.schema import Schema
from ..records.working_memory import BUDGET, TOOL, PromptBudget
from ..text.yaml import Path
from .source import DocumentReader, MaxTokens, Problems, Retries, Strict, Temperature, WantedModel, list_texts
from .substitutions import TemplateChecker, find_separators
from .task_names import MEMORY, RUN_NAMES, FlowOrder, NameChecker, find_bare_name, find_substitution

AI_ACTIONS = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")
OBJECTS = ("ai_generate_object", "ai_infer_object")
SPEAKING = ("ai_agent", "ai_generate_reply", "ai_generate_text")
"""Actions whose answer is a reply if it is the last one and nothing is sent after it."""
REPLY = "ai_generate_reply"
"""The action whose answer is always a reply, like a text that is sent."""
SEND = "send_text_message"
UPDATE = "update_memory"
ACTIONS = (*AI_ACTIONS, UPDATE, SEND)
PROMPT = "=$input.text"
"""The default prompt."""

Milliseconds = Annotated[int, Meta(ge=0, le=900_000)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=1024 * 1024)]


class History(Strict, frozen=True, kw_only=True):
    """A conversation: a session of a flow (by default the one with the workflow's name), or a key of a conversation bank. Without
    a session or key it belongs to the run's owner and thread. If `record` is true, messages of the run are written to it. If
    `continues` is true, it may end with a message of the model, which goes on from there."""

    flow: Name | None = None
    session: Name | None = None
    bank: Name | None = None
    key: Name | None = None
    record: bool = True
    continues: bool = False


class Settings(Strict, frozen=True, kw_only=True):
    """Settings of a task."""

    timeout_ms: Milliseconds = 0
    retries: Retries = Retries()
    history: History | None = None
    max_steps: Annotated[int, Meta(ge=1, le=20)] = 8
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None
    memory_budget: PromptBudget = BUDGET
    output_schema: dict[str, Any] | None = None


class ModelSettings(Strict, frozen=True, kw_only=True):
    """Settings of a model."""

    provider: Name | None = None
    model_id: Name | None = None
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None


class MemorySettings(Strict, frozen=True, kw_only=True):
    """A memory definition, by its id or slug."""

    definition_id: Name


class Bindings(Strict, frozen=True, kw_only=True):
    """The definitions that a task uses, by name."""

    model: Name | None = None
    memory: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()
    tools: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()


class AiInputs(Strict, frozen=True, kw_only=True):
    """Inputs of a task that asks a model (S3.22, B3.23)."""

    input_mode: Literal["prompt", "history"] = "prompt"
    prompt: Text = ""
    messages_limit: Annotated[int, Meta(ge=1, le=200)] = 4
    system: Text = "You are a helpful assistant."


class SendInputs(Strict, frozen=True, kw_only=True):
    """The text to send."""

    text: Text


class UpdateInputs(Strict, frozen=True, kw_only=True):
    """The memory to write (S3.38)."""

    memory: dict[str, Any]
    mode: Literal["replace", "merge"] | None = None


INPUTS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(AI_ACTIONS, AiInputs),
    SEND: SendInputs,
    UPDATE: UpdateInputs,
}
"""The inputs of each built-in action. All other actions are registered functions."""
OUTPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(AI_ACTIONS, ("text", "tool_calls")),
    **dict.fromkeys(OBJECTS, ("object", "text", "tool_calls")),
    SEND: ("text",),
    UPDATE: ("memory",),
}
"""The fields of the output of each built-in action."""


class Memory(NamedTuple):
    """`kind: memory`: a memory definition, by its id or slug."""

    definition: str
    at: Path


class Model(NamedTuple):
    """`kind: model`: a language model."""

    settings: ModelSettings
    at: Path


class Tool(NamedTuple):
    """`kind: tools`: a registered function that a model may call. The model does not choose the arguments in `settings`."""

    name: str
    action: str
    description: str | None
    settings: Mapping[str, Any]
    at: Path


class Task(NamedTuple):
    """`kind: task`: an action with its inputs before expressions are evaluated, and the definitions that it uses."""

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
        """The conversation that the task continues, or None."""
        if not self.asks or self.inputs.get("input_mode") != "history":
            return None
        return self.settings.history or History()


class Do(NamedTuple):
    """A block that runs a task."""

    task: Task
    id: str
    number: int
    at: Path


class Parallel(NamedTuple):
    """Blocks in parallel. If `first` is true, the run goes on as soon as one of them is done."""

    blocks: tuple[Block, ...]
    first: bool


class Branch(NamedTuple):
    """Blocks under a condition. A branch without a condition runs if no other condition is true."""

    condition: str | None
    blocks: tuple[Block, ...]


class Conditional(NamedTuple):
    """Branches; only the first one with a true condition runs."""

    branches: tuple[Branch, ...]


Block = Do | Parallel | Conditional


class TaskDocument(NamedTuple):
    """A workflow of tasks."""

    name: str
    description: str | None
    schema: Mapping[str, Any] | None
    """The schema of the input."""
    context: Mapping[str, Any]
    memories: Mapping[str, Memory]
    flow: tuple[Block, ...]
    outputs: Any
    banks: dict[str, dict[str, Any]]
    """Settings of the banks that are created by the first run, by their names."""
    recalled: Mapping[str, Path]
    """The names of memory in its templates, and where each is used first."""
    read: Mapping[str, Path]
    """The names of memory in its expressions."""

    def walk(self) -> Iterator[Do]:
        return (one for one in _walk(self.flow) if isinstance(one, Do))

    @property
    def around(self) -> list[Any]:
        """The parts with expressions outside the tasks: the context, conditions, conversations and outputs."""
        conditions = [one.condition for one in _walk(self.flow) if isinstance(one, Branch)]
        return [self.context, self.outputs, *conditions, *map(asdict, self.histories)]

    @property
    def asks(self) -> bool:
        """True if it needs a language model."""
        return any(one.task.asks for one in self.walk())

    @property
    def models(self) -> list[WantedModel]:
        """The models that its tasks ask."""
        tasks = {one.task.name: one.task for one in self.walk() if one.task.asks}.values()
        named = [(task.model or Model(ModelSettings(), task.at)) for task in tasks]
        return [WantedModel(one.settings.provider, one.settings.model_id, one.at) for one in dict.fromkeys(named)]

    @property
    def used_banks(self) -> list[tuple[str, Path]]:
        """The banks of conversations, except for those that are expressions, and where they are named."""
        tasks = [one.task for one in self.walk() if one.task.history is not None]
        found = [(task.settings.history, (*task.at, "settings", "history", "bank")) for task in tasks]
        banks = [(one.bank, path) for one, path in found if one is not None and one.bank]
        return [(bank, path) for bank, path in banks if not is_expression(bank) and "{{" not in bank]

    @property
    def replies(self) -> set[str]:
        """The names of the tasks whose text is a reply whenever it comes: those that send, and those that generate a reply of
        which no later text is made."""
        tasks = {one.task.name: one.task for one in self.walk()}
        texts = [one for one in tasks.values() if one.action in (SEND, *SPEAKING)]
        parts: set[str] = set()
        while texts:
            found = find_used(texts.pop().inputs, tasks.keys() - parts)
            parts |= found
            texts += [tasks[name] for name in found]
        return {
            one.name for one in tasks.values() if one.action == SEND or (one.action == REPLY and one.name not in parts)
        }

    @property
    def histories(self) -> list[History]:
        """The conversations that it continues, without duplicates."""
        found = [one.task.history for one in self.walk()]
        return list(dict.fromkeys(one for one in found if one is not None))


def _walk(blocks: tuple[Block, ...]) -> Iterator[Do | Branch]:
    for block in blocks:
        match block:
            case Do():
                yield block
            case Parallel():
                yield from _walk(block.blocks)
            case Conditional():
                for branch in block.branches:
                    yield branch
                    yield from _walk(branch.blocks)


def check_input(schema: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    if schema is None:
        return
    problems = Schema(schema, strict=False).problems(dict(given))
    if problems:
        reasons = "; ".join(f"{one.path or 'the input'}: {one.reason}" for one in problems[:5])
        raise Invalid(f"The input does not fit the schema of the workflow: {reasons}", field="input")


def find_missing_definitions(space: Space, document: TaskDocument) -> Iterator[tuple[Path, str]]:
    """Return a problem for each memory definition that does not exist in this tenant (S3.28, B3.4)."""
    for memory in document.memories.values():
        if find_definition(space, memory.definition) is None:
            yield memory.at, f"Unable to find memory definition(s): {memory.definition[:100]}."


def list_expressions(value: Any, path: Path = ()) -> list[tuple[str, Path]]:
    """Return the expressions in a part of a document."""
    return [found for found in list_texts(value, path) if is_expression(found[0])]


def mentions(value: Any, word: str) -> bool:
    """Return True if an expression in a part of a document contains a word."""
    return any(word in expression for expression, _ in list_expressions(value))


def find_used(value: Any, names: Iterable[str]) -> set[str]:
    """Return the names of the tasks whose outputs the expressions in a part of a document use."""
    words = {word for text, _ in list_expressions(value) if "$output" in text for word in re.findall(r"\w+", text)}
    return words.intersection(names)


MAX_TASKS = 200
MAX_LEVELS = 20
MAX_DEFS = 500
MAX_EXPRESSIONS = 2_000
MAX_TOOL = 64
"""The longest name of a tool, in characters, that every server accepts."""
TOP = ("name", "description", "version", "inputs", "context", "defaults", "defs", "flow", "outputs", "memory_banks")
FIELDS = {
    "memory": ("kind", "description", "settings"),
    "model": ("kind", "description", "settings"),
    "task": ("kind", "description", "action", "inputs", "settings", "bindings"),
    "tools": ("kind", "description", "action", "settings"),
}
"""The fields of definitions by their kinds."""
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_ACTION = re.compile(r"[A-Za-z_][\w.-]{0,199}")
_BLOCKS = ("do", "parallel", "conditional")
_SCHEMA_KEYWORDS = {"$ref", "$defs", "allOf", "anyOf", "oneOf", "properties", "additionalProperties", "required"}
"""Keywords that distinguish a schema from a mapping of properties."""
S = TypeVar("S", bound=msgspec.Struct)


def is_task_document(value: Any) -> bool:
    """Return True for a workflow of tasks, False for a tree of steps."""
    return isinstance(value, dict) and "steps" not in value and bool({"defs", "flow"} & value.keys())


class TaskReader(DocumentReader):
    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._expressions: list[tuple[str, Path]] = []
        self._memories: dict[str, Memory] = {}
        self._models: dict[str, Model] = {}
        self._tools: dict[str, Tool] = {}
        self._tasks: dict[str, Task] = {}
        self._kinds: dict[str, str] = {}
        self._defaults: dict[str, Any] = {}
        self._uses: dict[str, int] = {}
        self._order = FlowOrder()
        self._templates = TemplateChecker(problems, steps=False)
        self._read: dict[str, Path] = {}
        self._count = 0

    def read(self, value: dict[str, Any]) -> TaskDocument:
        self._check_unknown(value, TOP, ())
        name, description = self._read_heading(value)
        schema = self._read_input_schema(value.get("inputs"))
        context = self._read_mapping(value, "context", ())
        self._note_texts(context, ("context",))
        for own in set(RUN_NAMES) & context.keys():
            self._add_problem(("context", own), "the run sets this itself: choose another name.")
        defaults = self._read_mapping(value, "defaults", ())
        self._check_unknown(defaults, ("settings",), ("defaults",))
        self._defaults = self._read_mapping(defaults, "settings", ("defaults",))
        path = ("defaults", "settings")
        self._check_history(self._read_struct(self._defaults, Settings, path), path)
        banks = self._read_banks(value.get("memory_banks"))
        self._read_definitions(self._read_mapping(value, "defs", ()))
        flow: tuple[Block, ...] = ()
        if value.get("flow") in (None, []):
            self._add_problem(("flow",), "there must be at least one block.")
        else:
            flow = self._read_blocks(value["flow"], ("flow",), 1)
        outputs = value.get("outputs")
        if not isinstance(outputs, dict | None):
            self._add_problem(("outputs",), "it must map names of outputs to expressions.")
        self._note_texts(outputs, ("outputs",))
        self._check_expressions(context)
        recalled = self._templates.recalled
        return TaskDocument(
            name, description, schema, context, self._memories, flow, outputs, banks, recalled, self._read
        )

    def _read_input_schema(self, value: Any) -> Mapping[str, Any] | None:
        """Return the JSON Schema of the input. The document may give only its properties."""
        if value is None:
            return None
        if not isinstance(value, dict):
            self._add_problem(("inputs",), "it must be a mapping with `schema`.")
            return None
        self._check_unknown(value, ("schema",), ("inputs",))
        given = self._read_mapping(value, "schema", ("inputs",))
        if not given:
            return None
        fields = given if _SCHEMA_KEYWORDS & given.keys() else {"properties": given}
        schema = {"type": "object", **fields}
        return schema if self._attempt(("inputs", "schema"), partial(Schema, schema, strict=False)) else None

    # -- definitions ---------------------------------------------------------------------------------------------------

    def _read_definitions(self, given: dict[str, Any]) -> None:
        if len(given) > MAX_DEFS:
            self._add_problem(("defs",), f"there are more than {MAX_DEFS} definitions.")
            return
        self._kinds = {name: one["kind"] for name, one in given.items() if self._is_definition(name, one)}
        readers = {
            "memory": self._read_memory,
            "model": self._read_model,
            "tools": self._read_tool,
            "task": self._read_task,
        }
        for kind, read in readers.items():  # tasks last, because they name the others
            for name in [name for name, one in self._kinds.items() if one == kind]:
                read(name, given[name], ("defs", name))

    def _is_definition(self, name: str, value: Any) -> bool:
        path = ("defs", name)
        if not _NAME.fullmatch(name):
            self._add_problem(
                path, "a name may have only lowercase letters, digits, and single underscores between them."
            )
        if not isinstance(value, dict):
            self._add_problem(path, "it must be a mapping with `kind`.")
            return False
        kind = value.get("kind")
        if kind not in tuple(FIELDS):  # it may be a list, which has no hash
            self._add_unknown((*path, "kind"), kind, "kind", FIELDS)
            return False
        self._check_unknown(value, FIELDS[kind], path)
        if not isinstance(value.get("description"), str | None):
            self._add_problem((*path, "description"), "it must be a text.")
        return True

    def _read_memory(self, name: str, value: dict[str, Any], path: Path) -> None:
        settings = self._read_settings(value, MemorySettings, path)
        if settings is not None:
            self._memories[name] = Memory(settings.definition_id, (*path, "settings", "definition_id"))

    def _read_model(self, name: str, value: dict[str, Any], path: Path) -> None:
        settings = self._read_settings(value, ModelSettings, path)
        if settings is not None:
            self._models[name] = Model(settings, (*path, "settings"))

    def _read_tool(self, name: str, value: dict[str, Any], path: Path) -> None:
        action = self._read_action(value.get("action"), path)
        if TOOL in (name, action):
            self._add_problem(path, f"`{TOOL}` is the name of the tool that updates memory: choose another.")
        elif action in ACTIONS:
            self._add_problem((*path, "action"), f"`{action}` cannot be a tool: name a registered function.")
        elif len(name) > MAX_TOOL:
            self._add_problem(path, f"the name of a tool has at most {MAX_TOOL} characters.")
        settings = self._read_mapping(value, "settings", path)
        for text, inner in list_texts({"settings": settings, "description": value.get("description")}, path):
            if "{{" in text or is_expression(text):
                self._add_problem(inner, "it is used as it is: expressions and substitutions have no effect here.")
        self._tools[name] = Tool(name, action, value.get("description"), settings, path)

    def _read_task(self, name: str, value: dict[str, Any], path: Path) -> None:
        action = self._read_action(value.get("action"), path)
        inputs = self._read_mapping(value, "inputs", path)
        self._check_inputs(action, inputs, (*path, "inputs"))
        settings = self._read_task_settings(self._read_mapping(value, "settings", path), (*path, "settings"))
        bindings = self._read_mapping(value, "bindings", path)
        bound = self._read_struct(bindings, Bindings, (*path, "bindings")) or Bindings()
        self._check_bindings(bound, action, (*path, "bindings"))
        if action in OBJECTS:
            schema, schema_path = settings.output_schema, (*path, "settings", "output_schema")
            if schema is None:
                self._add_problem(schema_path, "it is missing: give the JSON Schema of the object.")
            else:
                self._attempt(schema_path, partial(Schema, schema, strict=False))
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

    def _read_action(self, action: Any, path: Path) -> str:
        if isinstance(action, str) and (action in ACTIONS or (_ACTION.fullmatch(action) and action[:3] != "ai_")):
            return action
        self._add_unknown((*path, "action"), action, "action", (*ACTIONS, "registered functions"))
        return ""

    def _check_inputs(self, action: str, inputs: dict[str, Any], path: Path) -> None:
        """Check the syntax of expressions and templates, and the types of other values."""
        self._note_texts(inputs, path)
        if action in INPUTS:
            for text, inner in list_texts(inputs, path) if action in AI_ACTIONS else ():
                self._templates.check_braces(text, inner)
            self._check_fields(inputs, INPUTS[action], path, lambda value, _: not list_expressions(value))
            if is_expression(inputs.get("input_mode")):
                self._add_problem((*path, "input_mode"), "it must be `prompt` or `history`, not an expression.")

    def _read_task_settings(self, given: dict[str, Any], path: Path) -> Settings:
        merged = {**self._defaults, **given}
        if isinstance(self._defaults.get("retries"), dict) and isinstance(given.get("retries"), dict):
            merged["retries"] = {**self._defaults["retries"], **given["retries"]}
        own = self._read_struct(given, Settings, path)
        self._check_history(own, path)
        return _convert(merged, Settings) or own or Settings()

    def _check_history(self, settings: Settings | None, path: Path) -> None:
        history = None if settings is None else settings.history
        if history is None:
            return
        if history.bank is not None and (history.flow is not None or history.session is not None):
            self._add_problem((*path, "history"), "give either `bank` and `key`, or `flow` and `session`.")
        elif history.bank is None and history.key is not None:
            self._add_problem((*path, "history", "key"), "`key` needs a `bank`.")
        self._note_texts(asdict(history), (*path, "history"))
        for text, inner in list_texts(asdict(history), (*path, "history")):
            if text.count("{{") > 1 and not is_expression(text):
                self._attempt(inner, partial(find_separators, text, str(inner[-1])))

    def _check_bindings(self, bound: Bindings, action: str, path: Path) -> None:
        if (bound.model or bound.memory or bound.tools) and action and action not in AI_ACTIONS:
            self._add_problem(path, f"`{action}` does not ask a model: only {', '.join(AI_ACTIONS)} have bindings.")
            return
        named = [("model", bound.model)] if bound.model is not None else []
        named += [("memory", one) for one in bound.memory] + [("tools", one) for one in bound.tools]
        for number, (kind, name) in enumerate(named):
            if name not in self._kinds:
                self._add_problem((*path, kind), f"there is no definition {name[:100]!r}.")
            elif self._kinds[name] != kind:
                self._add_problem((*path, kind), f"{name!r} is of kind `{self._kinds[name]}`, not `{kind}`.")
            elif (kind, name) in named[:number]:
                self._add_problem((*path, kind), f"{name!r} is bound twice.")

    # -- flow ----------------------------------------------------------------------------------------------------------

    def _read_blocks(self, value: Any, path: Path, level: int) -> tuple[Block, ...]:
        if not isinstance(value, list) or not value:
            self._add_problem(path, "it must be a list of blocks.")
            return ()
        if level > MAX_LEVELS:
            self._add_problem(path, f"blocks are nested deeper than {MAX_LEVELS} levels.")
            return ()
        readers = [partial(self._read_block, one, (*path, number), level) for number, one in enumerate(value)]
        found = self._order.read_apart(readers) if "parallel" in path[-2:] else [read() for read in readers]
        return tuple(one for one in found if one is not None)

    def _read_block(self, value: Any, path: Path, level: int) -> Block | None:
        if self._problems.is_full:
            return None
        kinds = [name for name in _BLOCKS if isinstance(value, dict) and name in value]
        if len(kinds) != 1 or len(value) > len(kinds) + ("description" in value):
            known = ", ".join(f"`{name}`" for name in _BLOCKS)
            has_loop = isinstance(value, dict) and "loop" in value
            self._add_problem(path, f"{'there are no loops: ' if has_loop else ''}a block must be one of {known}.")
            return None
        (kind,) = kinds
        inside, at = value[kind], (*path, kind)
        if kind == "do":
            return self._read_do(inside, at)
        if not isinstance(inside, dict):
            self._add_problem(at, "it must be a mapping.")
            return None
        return self._read_parallel(inside, at, level) if kind == "parallel" else self._read_when(inside, at, level)

    def _read_do(self, name: Any, path: Path) -> Do | None:
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
        self._order.note(name)
        self._order.add(name)
        times = self._uses[name] = self._uses.get(name, 0) + 1
        return Do(task, name if times == 1 else f"{name}-{times}", self._count - 1, path)

    def _read_parallel(self, value: dict[str, Any], path: Path, level: int) -> Parallel:
        self._check_unknown(value, ("strategy", "steps"), path)
        strategy = value.get("strategy", "wait_all")
        if strategy not in ("wait_all", "wait_any"):
            self._add_problem((*path, "strategy"), "it must be `wait_all` or `wait_any`.")
        return Parallel(self._read_blocks(value.get("steps"), (*path, "steps"), level + 1), strategy == "wait_any")

    def _read_when(self, value: dict[str, Any], path: Path, level: int) -> Conditional:
        self._check_unknown(value, ("when",), path)
        given, path = value.get("when"), (*path, "when")
        if not isinstance(given, list) or not given:
            self._add_problem(path, "it must be a list of branches.")
            return Conditional(())
        last = len(given) - 1
        found = self._order.read_apart(
            partial(self._read_branch, one, (*path, at), level, is_last=at == last) for at, one in enumerate(given)
        )
        return Conditional(tuple(one for one in found if one is not None))

    def _read_branch(self, value: Any, path: Path, level: int, *, is_last: bool) -> Branch | None:
        if not isinstance(value, dict) or ("condition" in value) == ("else" in value):
            self._add_problem(path, "a branch must have `steps`, and either `condition` or `else`.")
            return None
        self._check_unknown(value, ("condition", "else", "steps"), path)
        condition = value.get("condition")
        if "else" in value:
            if not is_last:
                self._add_problem((*path, "else"), "it must be the last branch.")
            if value["else"] not in (True, None):
                self._add_problem((*path, "else"), "it must be `true`.")
        elif not is_expression(condition):
            self._add_problem((*path, "condition"), "it must be an expression: a text that begins with `=`.")
            condition = "=false"
        self._note_texts(condition, (*path, "condition"))
        self._order.note((*path, "condition"))
        return Branch(condition, self._read_blocks(value.get("steps"), (*path, "steps"), level + 1))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _read_mapping(self, value: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
        found = value.get(name)
        if isinstance(found, dict):
            return found
        if found is not None:
            self._add_problem((*path, name), "it must be a mapping.")
        return {}

    def _read_settings(self, value: dict[str, Any], kind: type[S], path: Path) -> S | None:
        """Read the settings of a definition that must have settings."""
        if "settings" not in value:
            self._add_problem((*path, "settings"), "it is missing.")
        return self._read_struct(self._read_mapping(value, "settings", path), kind, (*path, "settings"))

    def _read_struct(self, value: dict[str, Any], kind: type[S], path: Path) -> S | None:
        self._check_fields(value, kind, path)
        return _convert(value, kind)

    def _note_texts(self, value: Any, path: Path) -> None:
        """Note expressions, and check templates and other texts."""
        for text, inner in list_texts(value, path):
            if is_expression(text):
                self._expressions.append((text, inner))
            elif (reason := find_bare_name(text)) is not None:
                self._add_problem(inner, reason)
            elif "{{" in text:
                self._templates.check(text, inner)

    def _check_expressions(self, context: Mapping[str, Any]) -> None:
        """Check the syntax of all expressions, and their names. Equal ones are parsed once."""
        if len(self._expressions) > MAX_EXPRESSIONS:
            self._add_problem(
                self._expressions[MAX_EXPRESSIONS][1], f"there are more than {MAX_EXPRESSIONS} expressions."
            )
            return
        sources = list(dict.fromkeys(source for source, _ in self._expressions))
        known = dict(zip(sources, find_problems(sources), strict=True))
        for source, path in self._expressions:
            problem = known[source]
            if problem is not None:
                where = "" if problem.column is None else f" (at character {problem.column + 1})"
                self._add_problem(path, f"the expression cannot be read{where}: {problem.message}")
            elif (reason := find_substitution(source)) is not None:
                self._add_problem(path, reason)
        names = NameChecker(self._list_outputs(), self._tasks.keys() - self._uses.keys(), context)
        readable = [(source, path) for source, path in self._expressions if known[source] is None]
        for one, path in [(one, path) for source, path in readable for one in list_variables(source)]:
            reason = names.find_problem(one) or self._order.find_problem(one, path)
            if reason is not None:
                self._add_problem(path, f"{reason} (at character {one.column + 1})" if one.column else reason)
            elif one.path[:2] == ("context", MEMORY) and len(one.path) > 2 and not one.asked:
                self._read.setdefault(one.path[2], path)

    def _list_outputs(self) -> dict[str, tuple[str, ...] | None]:
        """Return the fields of the output of each task in the flow; None for a function."""
        return {name: OUTPUTS.get(self._tasks[name].action) for name in self._uses}


def _convert(value: dict[str, Any], kind: type[S]) -> S | None:
    """Return None if the value does not fit."""
    try:
        return typed.convert(value, kind)
    except msgspec.ValidationError:
        return None
