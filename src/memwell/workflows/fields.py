"""The kinds of steps and their fields, and the checks of fields and templates before a run.

In a document any field may be a template; its value is checked when the step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

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
from ..text.yaml import Path
from .source import Problems

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

FieldProblem = tuple[str, str]
"""The name of a field, and the reason."""
SPEAKERS = ("user", "assistant")
_PLACES = ("memory_bank_id", "flow", "user")
_TIMES = ("added_after", "added_before")


def find_field_problems(
    kind: str, fields: Mapping[str, Any], banks: Mapping[str, Mapping[str, Any]]
) -> Iterator[FieldProblem]:
    """The problems of the literal values of a step. `banks` are the settings of the banks that the document creates."""
    if kind in ("add_memory", "search_memory", "load_memory") and (key := find_literal(fields.get("key"))) is not None:
        yield from _try_check("key", lambda: check_key(key))
    match kind:
        case "add_memory":
            yield from _find_entry_problems(fields, banks)
        case "search_memory" | "retrieval":
            yield from _find_search_problems(fields)
        case "prompt_call":
            yield from _find_prompt_problems(fields)
        case "function":
            if fields.get("cache_minutes"):
                yield "cache_minutes", "a function cannot be cached, because its result depends on more than its input."
    if kind == "retrieval":
        yield from _find_place_problems(fields)


def parse_time(text: str | None, field: str, now: datetime) -> datetime | None:
    """An ISO 8601 time, or an expression such as `1 week ago`; None if it is blank."""
    if text is None or not text.strip():
        return None
    found = parse_moment(text, now)
    if found is None:
        raise Invalid(
            f"`{field}` is not a time: {text[:50]!r}. Give an ISO 8601 time, or `{{{{1 week ago}}}}`.", field=field
        )
    return found


def find_literal(value: Any) -> str | None:
    """The value, if it is a text and not a template."""
    return value if isinstance(value, str) and "{{" not in value else None


def _find_entry_problems(fields: Mapping[str, Any], banks: Mapping[str, Mapping[str, Any]]) -> Iterator[FieldProblem]:
    bank = banks.get(find_literal(fields.get("memory_bank_id")) or "")
    if bank is not None and bank.get("type") == "conversation":
        speaker = fields.get("speaker")
        if speaker is None:
            yield "speaker", "it is missing: a conversation bank needs one, `user` or `assistant`."
        elif (literal := find_literal(speaker)) is not None and literal not in SPEAKERS:
            yield "speaker", f"it must be `user` or `assistant`, not {literal[:50]!r}."
    metadata = fields.get("entry_metadata")
    if isinstance(metadata, dict):
        yield from _try_check("entry_metadata", lambda: to_json(metadata, "entry_metadata"))
        for name in RESERVED:
            if name in metadata:
                yield "entry_metadata", f"`{name}` is set by the bank itself: use another name."


def _find_search_problems(fields: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """A filter can be checked with its templates, since they become texts."""
    conditions = fields.get("filter")
    if isinstance(conditions, dict):
        yield from _try_check("filter", lambda: filters.parse(conditions))
    for name in _TIMES:
        if (text := find_literal(fields.get(name))) is not None:
            yield from _try_check(name, lambda: parse_time(text, name, to_datetime(0)))  # noqa: B023 -- run at once


def _find_prompt_problems(fields: Mapping[str, Any]) -> Iterator[FieldProblem]:
    text = find_literal(fields.get("prompt_template"))
    messages = fields.get("use_step_input_as_messages") or fields.get("input_is_messages")
    if text is not None and not text.strip() and not messages:
        yield "prompt_template", "the prompt is empty."


def _find_place_problems(fields: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """A retrieval has one place. A template may be empty, and does not count then."""
    given = [fields[name] for name in _PLACES if fields.get(name)]
    literals = [one for one in given if find_literal(one) is not None]
    if not given or len(literals) > 1:
        yield "", "a retrieval needs one of `memory_bank_id`, `flow` or `user`."


def _try_check(name: str, check: Callable[[], object]) -> Iterator[FieldProblem]:
    try:
        check()
    except Invalid as error:
        yield name, error.message


MAX_EXPRESSIONS = 20_000
"""In all templates of a document."""
_NAMES = {"agent": ("input", "name", "id"), "organization": ("name",), "step": ("input", "output")}
"""Texts under each name. Metadata may contain anything."""
_KNOWN = "`input`, `agent.…`, `organization.…`, `metadata.…`, `memory.…`, `step.…`, and times such as `1 week ago`"
_TIME_NAMES = build_time_formatter(to_datetime(0))


class Expressions:
    """Checks the templates of one document. The names of steps are checked after all of it was read."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._left = MAX_EXPRESSIONS
        self._reasons: dict[str, str | None] = {}
        self._steps: dict[str, tuple[Path, str]] = {}

    def check(self, text: str, path: Path) -> None:
        self._left -= text.count("{{")
        if self._left < 0:
            self._problems.add(path, f"there are more than {MAX_EXPRESSIONS} substitutions in the document.")
            return
        try:
            found = templates.list_expressions(templates.parse(text))
        except Invalid as error:
            self._problems.add(path, error.message)
            return
        for one in {expression.source: expression for expression in found}.values():
            if one.source not in self._reasons:
                self._reasons[one.source] = _find_expression_problem(one)
            reason = self._reasons[one.source]
            if reason is not None:
                self._problems.add(path, f"`{{{{{one.source}}}}}` {reason}")
            elif one.namespace == "step":
                self._steps.setdefault(str(one.path[0]), (path, one.source))

    def check_steps(self, known: Container[str]) -> None:
        for name, (path, source) in self._steps.items():
            if name not in known:
                self._problems.add(path, f"`{{{{{source}}}}}`: there is no step `{name}`.")


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
    return _find_path_problem(one)


def _find_path_problem(one: Expression) -> str | None:
    if one.namespace in ("metadata", "memory"):
        return None
    if one.namespace not in _NAMES:
        return f"is not known: there is no `{one.namespace}`. Known are {_KNOWN}."
    names, path = _NAMES[one.namespace], one.path[1:] if one.namespace == "step" else one.path
    if not path or path[0] not in names:
        owner = "a step" if one.namespace == "step" else f"`{one.namespace}`"
        return f"is not known: {owner} has {', '.join(f'`{name}`' for name in names)}."
    return None if len(path) == 1 else f"does not exist: `{path[0]}` is a text without fields."
