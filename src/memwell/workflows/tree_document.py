"""Documents of trees of steps: the kinds of steps, their fields, and the checks before a run.

Most fields may be templates; their values are checked when the step runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from ..banks.banks import RESERVED, check_key
from ..banks.reading import ContentType
from ..clock import to_datetime
from ..errors import Invalid
from ..model import filter as filters
from ..model.fields import encode_metadata
from ..text.moments import parse_moment
from ..text.yaml import Path, spell_path
from .source import DocumentReader, MaxTokens, Problems, Strict, Temperature, WantedModel, list_texts
from .substitutions import TemplateChecker, find_separators

TopN = Annotated[int, Meta(ge=1, le=100)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[float, Meta(gt=0, le=600)]
Minutes = Annotated[int, Meta(ge=0, le=1440)]


class Common(Strict, frozen=True, kw_only=True):
    """Fields of every step."""

    id: str = ""
    name: str | None = None
    purpose: str | None = None
    timeout_s: Seconds | None = None
    retries: Annotated[int, Meta(ge=0, le=5)] = 0
    cache_minutes: Minutes = 0
    condition: str | None = None
    skip_if_empty: bool = False


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

    provider: str | None = None
    model_id: str | None = None
    prompt_template: str | None = None
    system_template: str | None = None
    use_step_input_as_messages: bool = False
    input_is_messages: bool = False
    continues: bool = False
    """Let the model continue its own last message."""
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
    """Search a bank, the facts of a flow or a user, or the active files of the run's session."""

    memory_bank_id: str | None = None
    flow: str | None = None
    user: str | None = None
    files: bool = False
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
PROMPTS = ("prompt_template", "system_template")
"""Fields that a model reads. Stored values are put on one line in them (C20)."""
SOURCES = ("memory_bank_id", "flow", "user", "files")
"""The fields of a retrieval of which it needs one."""
ONE_SOURCE = "A retrieval needs one of `memory_bank_id`, `flow`, `user` or `files`."
FIRST: Path = ("steps", 0)
CONSTANT = (
    "it uses nothing of what the steps before have found: add `{{input}}`, or another substitution. Without a "
    "`prompt_template`, the input is the prompt."
)
"""The problem of a prompt that is always the same. At the first step there is nothing before."""
LEAVES = ("streaming_result", "display_result")
"""Steps that have no children."""
ANSWERS = ("prompt_call", "insight", "text", "function")
"""Steps whose output may be the answer of a run that has no result."""
MAX_STEPS = 200
MAX_LEVELS = 30
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOP = ("name", "description", "steps", "memory_banks", "version")
_TREE = ("step_type", "steps", "child_steps")
_FIXED = tuple(name for name in Common.__struct_fields__ if name != "condition")
"""Fields that cannot be templates."""
_UNKNOWN = ""
"""Stands for an unknown kind of step."""


class Node(NamedTuple):
    """A step of the tree, with its fields before templates are rendered."""

    kind: str
    id: str
    number: int
    at: Path
    fields: dict[str, Any]
    children: tuple[Node, ...]

    @property
    def answers(self) -> bool:
        """True if it or a step below it may give the answer of a run."""
        return any(node.kind in ANSWERS for node in self.walk())

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


class TreeDocument(NamedTuple):
    """A workflow that is a tree of steps."""

    name: str
    description: str | None
    steps: tuple[Node, ...]
    banks: dict[str, dict[str, Any]]
    """Settings of the banks that are created by the first run, by their names."""
    recalled: Mapping[str, Path]
    """The names of memory in its templates, and where each is used first."""

    def walk(self) -> Iterator[Node]:
        for step in self.steps:
            yield from step.walk()

    @property
    def chain(self) -> list[Node]:
        """The steps that lead to the answer of a run without results: the list at the top, and what is below its last step.

        Where several steps are side by side, the chain ends, unless nothing has answered yet and one of them alone does.
        """
        chain = list(self.steps)
        while chain[-1].children:
            below = chain[-1].children
            if len(below) > 1:
                below = tuple(child for child in below if child.answers)
                if len(below) != 1 or any(node.kind in ANSWERS for node in chain):
                    break
            chain += below
        return chain

    @property
    def asks(self) -> bool:
        """True if it needs a language model."""
        return any(node.kind == "prompt_call" for node in self.walk())

    @property
    def models(self) -> list[WantedModel]:
        """The models that its steps ask, except for those that are templates."""
        asking = [node for node in self.walk() if node.kind == "prompt_call"]
        named = [(node.fields.get("provider"), node.fields.get("model_id"), node.at) for node in asking]
        return [WantedModel(*one) for one in named if all(name is None or find_literal(name) for name in one[:2])]

    @property
    def used_banks(self) -> list[tuple[str, Path]]:
        """The ids or names of banks, except for those that are templates, and where they are named."""
        found = [
            (find_literal(node.fields.get("memory_bank_id")), (*node.at, "memory_bank_id")) for node in self.walk()
        ]
        return [(bank, path) for bank, path in found if bank is not None]


def find_literal(value: Any) -> str | None:
    """Return the value if it is a text and not a template, else None."""
    return value if isinstance(value, str) and "{{" not in value else None


def parse_time(text: str | None, field: str, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """Parse an ISO 8601 time, or an expression such as `1 week ago`. Return None if it is blank."""
    if text is None or not text.strip():
        return None
    found = parse_moment(text, now, zone)
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
        self._templates = TemplateChecker(problems, steps=True)
        self._steps: dict[str, tuple[Path, str]] = {}
        """The steps that templates name; they are checked at the end, when all steps are read."""

    def read(self, value: Any) -> TreeDocument:
        if not isinstance(value, dict):
            expected = "it must be a mapping with `name` and `steps`, or with `defs` and `flow`."
            self._add_problem((), "it is empty." if value is None else expected)
            return TreeDocument("", None, (), {}, {})
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
        return TreeDocument(name, description, steps, self._banks, self._templates.recalled)

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
        kind, number = self._read_kind(value.get("step_type"), path), self._count
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
        return None if kind == _UNKNOWN else Node(kind, step_id, number, path, fields, children)

    def _read_kind(self, given: Any, path: Path) -> str:
        kind = ALIASES.get(given, given) if isinstance(given, str) else None
        if kind in KINDS:
            return kind
        self._add_unknown((*path, "step_type"), given, "step type", (*KINDS, *ALIASES))
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
        if find_literal(fields.get("condition")) is not None:
            self._add_problem((*path, "condition"), "it is always the same: use a template, such as `{{input}}`.")
        key = find_literal(fields.get("key"))
        if key is not None and kind in ("add_memory", "search_memory", "load_memory"):
            self._attempt((*path, "key"), partial(check_key, key))
        elif str(fields.get("key")).count("{{") > 1:
            self._attempt((*path, "key"), partial(find_separators, str(fields["key"]), "key"))
        match kind:
            case "add_memory":
                self._check_entry(fields, path)
            case "search_memory" | "retrieval":
                self._check_search(kind, fields, path)
            case "prompt_call":
                for name in PROMPTS:
                    if isinstance(fields.get(name), str):
                        self._templates.check_braces(fields[name], (*path, name))
                text = find_literal(fields.get("prompt_template"))
                messages = fields.get("use_step_input_as_messages") or fields.get("input_is_messages")
                if text is not None and not text.strip() and not messages:
                    self._add_problem((*path, "prompt_template"), "the prompt is empty.")
                elif (
                    text is not None
                    and not messages
                    and path != FIRST
                    and "{{" not in str(fields.get("system_template"))
                ):
                    self._add_problem((*path, "prompt_template"), CONSTANT)
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
            self._attempt(path, partial(encode_metadata, metadata, "entry_metadata"))
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
            given = [fields[name] for name in SOURCES if fields.get(name)]
            literals = [one for one in given if one is True or find_literal(one) is not None]
            if not given or len(literals) > 1:  # a template may be empty, and then does not count
                self._add_problem(path, ONE_SOURCE)

    # -- templates -----------------------------------------------------------------------------------------------------

    def _is_literal(self, value: Any, path: Path) -> bool:
        """Check the templates in a field. Return True if it has none."""
        found = [(text, inner) for text, inner in list_texts(value, path) if "{{" in text]
        for text, inner in found:
            if path[-1] in _FIXED:
                self._add_problem(inner, "it cannot be a template.")
            else:
                self._check_template(text, inner)
        return not found

    def _check_template(self, text: str, path: Path) -> None:
        for one in self._templates.check(text, path):
            if one.namespace == "step":
                self._steps.setdefault(str(one.path[0]), (path, one.source))
