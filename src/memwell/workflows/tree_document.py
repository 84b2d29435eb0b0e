"""Documents of trees of steps: the kinds of steps, their fields, and the checks before a run.

Most fields may be templates; their values are checked when the step runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ..banks.banks import RESERVED, check_key
from ..banks.reading import ContentType
from ..clock import to_datetime
from ..context import template as templates
from ..context.template import Expression
from ..errors import Invalid
from ..model import filter as filters
from ..model.fields import to_json
from ..text.moments import build_time_formatter, parse_moment
from ..text.yaml import Path, spell_path
from .source import DocumentReader, Problems

TopN = Annotated[int, Meta(ge=1, le=100)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000)]
Seconds = Annotated[float, Meta(gt=0, le=600)]
Retries = Annotated[int, Meta(ge=0, le=5)]
Minutes = Annotated[int, Meta(ge=0, le=1440)]


class Common(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of every step."""

    id: str = ""
    name: str | None = None
    purpose: str | None = None
    timeout_s: Seconds | None = None
    retries: Retries = 0
    cache_minutes: Minutes = 0


class AddMemory(Common, frozen=True, kw_only=True):
    """Write an entry (S1.18–S1.33)."""

    memory_bank_id: str
    key: str
    speaker: str | None = None
    content: str | None = None
    entry_metadata: dict[str, Any] | None = None
    output: Literal["content", "input"] = "content"
    compacts: Literal["input"] | None = None


class SearchMemory(Common, frozen=True, kw_only=True):
    """Search a bank (S1.34–S1.47)."""

    memory_bank_id: str
    key: str | None = None
    query: str | None = None
    top_n: TopN = 10
    added_after: str | None = None
    added_before: str | None = None
    filter: dict[str, Any] | None = None
    content_type: ContentType = "application/json"


class LoadMemory(Common, frozen=True, kw_only=True):
    """Load a key in order (S1.48–S1.60)."""

    memory_bank_id: str
    key: str
    order: Literal["newest_first", "oldest_first"] = "newest_first"
    limit: Limit = 100
    content_type: ContentType = "application/json"
    shape: Literal["entries", "array"] = "entries"
    include_compacted: bool = False


class PromptCall(Common, frozen=True, kw_only=True):
    """Ask a language model."""

    prompt_template: str | None = None
    system_template: str | None = None
    use_step_input_as_messages: bool = False
    input_is_messages: bool = False
    temperature: Temperature | None = None
    max_tokens: MaxTokens = 1024

    @property
    def messages(self) -> bool:
        return self.use_step_input_as_messages or self.input_is_messages


class Insight(Common, frozen=True, kw_only=True):
    """Extract facts or preferences, by a language model or by rules."""

    extract: Literal["facts", "preferences"] = "facts"
    prompt_template: str | None = None
    content: str | None = None
    output: Literal["text", "json"] = "text"
    max_tokens: MaxTokens = 1024


class Retrieval(Common, frozen=True, kw_only=True):
    """Search a bank, or the facts of a flow or a user."""

    memory_bank_id: str | None = None
    flow: str | None = None
    user: str | None = None
    query: str | None = None
    top_n: TopN = 20
    filter: dict[str, Any] | None = None
    content_type: ContentType = "application/json"


class Text(Common, frozen=True, kw_only=True):
    """Render a text."""

    template: str


class Function(Common, frozen=True, kw_only=True):
    """Call a Python function that is registered in this process, with the memory of the run (S2.16)."""

    function: str
    arguments: dict[str, Any] | None = None


class StreamingResult(Common, frozen=True, kw_only=True):
    """Return the answer of the prompt above as a result, while it is generated."""


class DisplayResult(Common, frozen=True, kw_only=True):
    """Return the input as a result."""


KINDS: dict[str, type[Common]] = {
    "add_memory": AddMemory,
    "search_memory": SearchMemory,
    "load_memory": LoadMemory,
    "prompt_call": PromptCall,
    "insight": Insight,
    "retrieval": Retrieval,
    "text": Text,
    "function": Function,
    "streaming_result": StreamingResult,
    "display_result": DisplayResult,
}
ALIASES = {"add_chat_turn": "add_memory", "load_chat_history": "load_memory"}
LEAVES = ("streaming_result", "display_result")
"""Steps that have no children."""
MAX_STEPS = 200
MAX_LEVELS = 30
MAX_EXPRESSIONS = 20_000
"""The most expressions in all templates of a document."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOP = ("name", "description", "steps", "memory_banks", "version")
_TREE = ("step_type", "steps", "child_steps")
_FIXED = ("id", "name", "purpose", "timeout_s", "retries", "cache_minutes")
"""Fields that cannot be templates."""
_UNKNOWN = ""
"""Stands for an unknown kind of step."""
_NAMES = {"agent": ("input", "name", "id"), "organization": ("name",), "step": ("input", "output")}
"""The texts under each namespace. Metadata may contain any name."""
_KNOWN = "`input`, `agent.…`, `organization.…`, `metadata.…`, `memory.…`, `step.…`, and times such as `1 week ago`"
_TIME_NAMES = build_time_formatter(to_datetime(0))


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
        """The id or name of its bank, or None if that is a template."""
        return find_literal(self.fields.get("memory_bank_id"))

    @property
    def bank_at(self) -> Path:
        return (*self.at, "memory_bank_id")


class TreeDocument(NamedTuple):
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
        """True if it needs a language model."""
        return any(node.kind == "prompt_call" for node in self.walk())


def find_literal(value: Any) -> str | None:
    """Return the value if it is a text and not a template, else None."""
    return value if isinstance(value, str) and "{{" not in value else None


def parse_time(text: str | None, field: str, now: datetime) -> datetime | None:
    """Parse an ISO 8601 time, or an expression such as `1 week ago`. Return None if it is blank."""
    if text is None or not text.strip():
        return None
    found = parse_moment(text, now)
    if found is None:
        raise Invalid(
            f"`{field}` is not a time: {text[:50]!r}. Give an ISO 8601 time, or `{{{{1 week ago}}}}`.", field=field
        )
    return found


class TreeReader(DocumentReader):
    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self._banks: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, Path] = {}
        self._count = 0
        self._expressions_left = MAX_EXPRESSIONS
        self._expression_problems: dict[str, str | None] = {}
        self._steps: dict[str, tuple[Path, str]] = {}
        """The steps that templates name; they are checked at the end, when all steps are read."""

    def read(self, value: Any) -> TreeDocument:
        if not isinstance(value, dict):
            expected = "it must be a mapping with `name` and `steps`, or with `defs` and `flow`."
            self._add_problem((), "it is empty." if value is None else expected)
            return TreeDocument("", None, (), {})
        self._check_unknown(value, _TOP, ())
        name, description = self._read_heading(value)
        self._banks = self._read_banks(value.get("memory_banks"))
        steps: tuple[Node, ...] = ()
        if value.get("steps") in (None, []):
            self._add_problem(("steps",), "there must be at least one step.")
        else:
            steps = self._read_steps(value["steps"], ("steps",), None, 1)
        for step, (path, source) in self._steps.items():
            if step not in self._ids:
                self._add_problem(path, f"`{{{{{source}}}}}`: there is no step `{step}`.")
        return TreeDocument(name, description, steps, self._banks)

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
            self._check_step(kind, fields, path)
        if "steps" in value and "child_steps" in value:
            self._add_problem(path, "give either `steps` or `child_steps`.")
        below = "child_steps" if "child_steps" in value else "steps"
        given = value.get(below)
        children = () if given is None else self._read_steps(given, (*path, below), kind, level + 1)
        if kind in LEAVES and children:
            self._add_problem(path, f"a {kind} cannot have steps of its own.")
        if kind == "streaming_result" and parent not in ("prompt_call", _UNKNOWN):
            self._add_problem(path, "a streaming_result must be directly under a prompt_call.")
        return None if kind == _UNKNOWN else Node(kind, step_id, spell_path(path), fields, children, path)

    def _read_kind(self, given: Any, path: Path) -> str:
        kind = ALIASES.get(given, given) if isinstance(given, str) else None
        if kind in KINDS:
            return kind
        known = ", ".join([*KINDS, *ALIASES])
        problem = "it is missing." if given is None else f"there is no step type {str(given)[:50]!r}."
        self._add_problem((*path, "step_type"), f"{problem} The types are {known}.")
        return _UNKNOWN

    def _read_id(self, given: Any, path: Path) -> str:
        """Return the id of a step, or its position if it has no id."""
        position = "step-" + "-".join(str(number + 1) for number in path if isinstance(number, int))
        step_id = given if given not in (None, "") else position
        if not isinstance(step_id, str) or not _ID.fullmatch(step_id):
            if "{{" not in str(given):
                self._add_problem((*path, "id"), "an id has 1 to 64 letters, digits, `_` or `-`.")
            return spell_path(path)
        if step_id in self._ids:
            self._add_problem((*path, "id"), f"{spell_path(self._ids[step_id])} has the id {step_id!r}, too.")
        self._ids[step_id] = path
        return step_id

    # -- fields --------------------------------------------------------------------------------------------------------

    def _check_step(self, kind: str, fields: dict[str, Any], path: Path) -> None:
        """Check the syntax of templates, and the other values."""
        self._check_fields(fields, KINDS[kind], path, self._is_literal)
        key = find_literal(fields.get("key"))
        if key is not None and kind in ("add_memory", "search_memory", "load_memory"):
            self._attempt((*path, "key"), partial(check_key, key))
        match kind:
            case "add_memory":
                self._check_entry(fields, path)
            case "search_memory" | "retrieval":
                self._check_search(kind, fields, path)
            case "prompt_call":
                text = find_literal(fields.get("prompt_template"))
                messages = fields.get("use_step_input_as_messages") or fields.get("input_is_messages")
                if text is not None and not text.strip() and not messages:
                    self._add_problem((*path, "prompt_template"), "the prompt is empty.")
            case "function" if fields.get("cache_minutes"):
                reason = "a function cannot be cached, because its result depends on more than its input."
                self._add_problem((*path, "cache_minutes"), reason)

    def _check_entry(self, fields: Mapping[str, Any], path: Path) -> None:
        bank = self._banks.get(find_literal(fields.get("memory_bank_id")) or "")
        if bank is not None and bank.get("type") == "conversation":
            speaker = fields.get("speaker")
            if speaker is None:
                reason = "it is missing: a conversation bank needs one, `user` or `assistant`."
                self._add_problem((*path, "speaker"), reason)
            elif (literal := find_literal(speaker)) not in (None, "user", "assistant"):
                self._add_problem((*path, "speaker"), f"it must be `user` or `assistant`, not {str(literal)[:50]!r}.")
        metadata = fields.get("entry_metadata")
        if isinstance(metadata, dict):
            path = (*path, "entry_metadata")
            self._attempt(path, partial(to_json, metadata, "entry_metadata"))
            for name in RESERVED:
                if name in metadata:
                    self._add_problem(path, f"`{name}` is set by the bank: use another name.")

    def _check_search(self, kind: str, fields: Mapping[str, Any], path: Path) -> None:
        conditions = fields.get("filter")
        if isinstance(conditions, dict):  # templates in it become texts
            self._attempt((*path, "filter"), partial(filters.parse, conditions))
        for name in ("added_after", "added_before"):
            if (text := find_literal(fields.get(name))) is not None:
                self._attempt((*path, name), partial(parse_time, text, name, to_datetime(0)))
        if kind == "retrieval":
            given = [fields[name] for name in ("memory_bank_id", "flow", "user") if fields.get(name)]
            literals = [one for one in given if find_literal(one) is not None]
            if not given or len(literals) > 1:  # a template may be empty, and then does not count
                self._add_problem(path, "a retrieval needs one of `memory_bank_id`, `flow` or `user`.")

    def _attempt(self, path: Path, work: Callable[[], object]) -> None:
        try:
            work()
        except Invalid as error:
            self._add_problem(path, error.message)

    # -- templates -----------------------------------------------------------------------------------------------------

    def _is_literal(self, value: Any, path: Path) -> bool:
        """Check the templates in a field. Return True if it has none."""
        if path[-1] not in _FIXED:
            return self._check_templates(value, path)
        if isinstance(value, str) and "{{" in value:
            self._add_problem(path, "it cannot be a template.")
            return False
        return True

    def _check_templates(self, value: Any, path: Path) -> bool:
        match value:
            case str() if "{{" in value:
                self._check_template(value, path)
                return False
            case dict():
                found = [self._check_templates(one, (*path, name)) for name, one in value.items()]
                return all(found)
            case list():
                found = [self._check_templates(one, (*path, number)) for number, one in enumerate(value)]
                return all(found)
        return True

    def _check_template(self, text: str, path: Path) -> None:
        self._expressions_left -= text.count("{{")
        if self._expressions_left < 0:
            self._add_problem(path, f"there are more than {MAX_EXPRESSIONS} substitutions in the document.")
            return
        try:
            found = templates.list_expressions(templates.parse(text))
        except Invalid as error:
            self._add_problem(path, error.message)
            return
        for one in {expression.source: expression for expression in found}.values():
            if one.source not in self._expression_problems:
                self._expression_problems[one.source] = _find_expression_problem(one)
            reason = self._expression_problems[one.source]
            if reason is not None:
                self._add_problem(path, f"`{{{{{one.source}}}}}` {reason}")
            elif one.namespace == "step":
                self._steps.setdefault(str(one.path[0]), (path, one.source))


def _find_expression_problem(one: Expression) -> str | None:
    if one.namespace == "" and one.path == ("input",):
        return None
    try:
        if _TIME_NAMES(one.source) is not None:
            return None
    except Invalid as error:
        return f"is not a time: {error.message}"
    if not one.path:
        return f"is neither a name nor a time. Known are {_KNOWN}."
    if one.namespace == "input" or (one.namespace == "" and one.path[0] == "input"):
        return "does not exist: the input is a text without fields."
    if not one.namespace:
        return f"is not known. Known are {_KNOWN}."
    if one.namespace in ("metadata", "memory"):
        return None
    if one.namespace not in _NAMES:
        return f"is not known: there is no `{one.namespace}`. Known are {_KNOWN}."
    names, path = _NAMES[one.namespace], one.path[1:] if one.namespace == "step" else one.path
    if not path or path[0] not in names:
        owner = "a step" if one.namespace == "step" else f"`{one.namespace}`"
        return f"is not known: {owner} has {', '.join(f'`{name}`' for name in names)}."
    return None if len(path) == 1 else f"does not exist: `{path[0]}` is a text without fields."
