"""`{{memory_context}}`: the log of one session as lines, the newest of them within a budget (C19)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from ..clock import to_datetime
from ..core import documents
from ..core.operation import Example, Request, Response, operation
from ..core.owners import AGENT_LOG
from ..core.space import Space
from ..errors import Ambiguous, NotFound
from ..model import check
from ..model.collection import Address, Entry
from ..model.fields import SessionId
from ..records.apps import AppName
from .hook_rules import KIND, Asked, Candidate, Rules, asked, fits, matching, winner
from .hooks import (
    GIVEN,
    OF_HOOK,
    HookId,
    MarkdownTemplate,
    RulesField,
    RulesYaml,
    SelectorKey,
    candidate,
    checked,
    prompt,
    rules_of,
)
from .memory_namespace import Scope, recalled
from .template import Recalled

PAGE = 20
"""How many entries are read at once, so that hardly any is read in vain."""

_BREAKS = {char: char.encode("unicode_escape").decode() for char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_SPELLED_OUT = str.maketrans(_BREAKS)


class Budget(NamedTuple):
    """How much of a log to show: lines, and characters of these."""

    entries: int
    chars: int


def memory_context(space: Space, session_id: str | None, budget: Budget) -> str:
    """The entries in the order they were recorded, and before them how many were left out. Nothing without entries."""
    address = None if session_id is None else space.address(AGENT_LOG, session_id)
    if address is None:
        return ""
    lines, left_out = _newest(space, address, budget)
    note = [f"[… {left_out} earlier {'entry' if left_out == 1 else 'entries'} left out]"] if left_out else []
    return "\n".join([*note, *reversed(lines)])


def _newest(space: Space, address: Address, budget: Budget) -> tuple[list[str], int]:
    """The lines that fit, the newest first, and how many entries are before them: their numbers have no gaps."""
    lines: list[str] = []
    room = budget.chars
    before = address.last_seq + 1
    while page := space.last(address, min(PAGE, budget.entries - len(lines)), before):
        for entry in reversed(page):
            line = _line(entry) if lines else _cut(_line(entry), room)
            if len(line) > room:
                return lines, before - 1
            lines.append(line)
            room -= len(line) + 1
            before = entry.seq
        if before == 1 or len(lines) == budget.entries:
            break
    return lines, before - 1


def _line(entry: Entry) -> str:
    """One entry, whatever it holds: a line break inside it cannot begin another."""
    at = to_datetime(entry.recorded_at).isoformat().replace("+00:00", "Z")
    return f"[{at}] {entry.kind}: {entry.content.translate(_SPELLED_OUT)}"


def _cut(line: str, room: int) -> str:
    """The newest entry is always shown, if need be only its beginning."""
    if len(line) <= room:
        return line
    mark = f" [… {len(line)} characters in all]"
    return line[: max(room - len(mark), 0)] + mark


# -- Resolving prompt hooks: which one, and the prompt that it gives for this request (B4.5, B4.9).


TOLD = 20
"""How many of the hooks that matched an event names."""

Reason = Literal["explicit_hook_id", "explicit_selector_key", "priority_match"]
ContextField = Annotated[
    dict[str, Any],
    Meta(
        description='What the request says of itself, such as {"user_id": "u1", "tool_name": "query", "headers": '
        '{"X-Region": "eu"}, "grants": ["read"]}; at most 64 KiB.'
    ),
]
MaxEntries = Annotated[
    int, Meta(ge=1, le=10_000, description="How many entries of the log are shown at most: the newest, 1 to 10,000.")
]
MaxChars = Annotated[
    int,
    Meta(
        ge=100,
        le=1_000_000,
        description="How many characters of the log are shown at most: the newest, 100 to 1,000,000.",
    ),
]

AppField = Annotated[
    AppName, Meta(description="The app whose stores {{memory.…}} shows, of the context's user and session.")
]

_LOGGED = ("log.append", {"session": "abc-123", "entry_type": "observation", "content": "The report looked right."})
_ASKED = {"session_id": "abc-123", "context": {"user_id": "alice", "tool_name": "query"}}


class Resolution(Response, frozen=True, kw_only=True):
    """The hook that was chosen and its prompt; null if none was. `warnings`: what is withheld from it, and why."""

    selected_hook_id: str | None
    selected_hook_name: str | None
    rendered_prompt: str | None
    selection_reason: Reason | None
    matched_hook_ids: list[str]
    variables: dict[str, str]
    warnings: list[str] | None = None


class Preview(Response, frozen=True, kw_only=True):
    """What a hook would do. `warnings`: what is withheld from its prompt, and why."""

    matches_context: bool
    rendered_prompt: str
    variables: dict[str, str]
    parsed_rules: Rules
    warnings: list[str] | None = None


class _Asking(Request, frozen=True, kw_only=True):
    """The request that a prompt is for. With a session, its log is there as {{memory_context}}."""

    session_id: SessionId | None = None
    context: ContextField | None = None
    max_entries: MaxEntries = 1000
    max_chars: MaxChars = 100_000
    app: AppField | None = None


class PreviewHook(_Asking, frozen=True, kw_only=True):
    """A hook that is not saved, and a request to try it on."""

    markdown_template: MarkdownTemplate
    matching_rules: RulesField | None = None
    matching_rules_yaml: RulesYaml | None = None


@operation(
    "hooks.preview",
    "POST /api/prompt-hooks/preview",
    envelope=True,
    example=Example({"markdown_template": "You help {{user_id}}.\n{{memory_context}}", **_ASKED}, (_LOGGED,)),
)
def preview(space: Space, request: PreviewHook) -> Preview:
    """Try a template and rules on a request, without saving them."""
    rules, _ = rules_of(request) or (Rules(), None)
    parsed = checked(request.markdown_template)
    about = asked(request.context, request.session_id)
    made = prompt(parsed, about, lambda: _memory(space, request, about), _recalled(space, request, about))
    return Preview(
        matches_context=fits(rules, about),
        rendered_prompt=made.text,
        variables=made.variables,
        parsed_rules=rules,
        warnings=made.warnings or None,
    )


class ResolveHook(_Asking, frozen=True, kw_only=True):
    """Which hook, and the request that its prompt is for."""

    id: HookId


class ResolveAny(_Asking, frozen=True, kw_only=True):
    """The request that a prompt is for. A hook may be named by its id, or else by its selector key."""

    hook_id: HookId | None = None
    selector_key: SelectorKey | None = None


def _told(made: Resolution) -> dict[str, Any]:
    """What an event says of it: which hook and why, never the prompt or what it was made from (B4.10)."""
    return {
        "hook_id": made.selected_hook_id,
        "hook_name": made.selected_hook_name,
        "reason": made.selection_reason,
        "matched_hook_ids": made.matched_hook_ids[:TOLD],
    }


@operation(
    "hooks.resolve",
    "POST /api/prompt-hooks/{id}/resolve",
    envelope=True,
    tells=_told,
    example=Example({**OF_HOOK, **_ASKED}, (*GIVEN, _LOGGED)),
)
def resolve(space: Space, request: ResolveHook) -> Resolution:
    """The prompt of one hook for a request. The log of its session is fetched and can be shown by the template."""
    about = asked(request.context, request.session_id)
    return _resolution(space, request, about, _by_id(space, request.id), "explicit_hook_id")


@operation(
    "hooks.resolve_any",
    "POST /api/prompt-hooks/resolve",
    envelope=True,
    tells=_told,
    example=Example(_ASKED, (*GIVEN, _LOGGED)),
)
def resolve_any(space: Space, request: ResolveAny) -> Resolution:
    """The prompt for a request: of the hook that it names by id or selector key, else of the one whose rules fit best."""
    about = asked(request.context, request.session_id)
    if request.hook_id is not None:
        check.identifier(request.hook_id, "hook_id")
        return _resolution(space, request, about, _by_id(space, request.hook_id), "explicit_hook_id")
    hooks = [candidate(one) for one in documents.every(space.tx, KIND)]
    if request.selector_key is not None:
        return _resolution(space, request, about, _by_key(hooks, request.selector_key), "explicit_selector_key")
    matches = matching(hooks, about)
    chosen = winner(matches)
    if chosen is None:
        return _nothing(about)
    return _resolution(space, request, about, chosen, "priority_match", [one.id for one in matches])


def _by_id(space: Space, hook_id: str) -> Candidate:
    return _enabled(candidate(documents.existing(space.tx, KIND, hook_id)))


def _by_key(hooks: list[Candidate], key: str) -> Candidate:
    found = [one for one in hooks if one.hook.selector_key == key]
    if not found:
        raise NotFound("There is no hook with that selector key.")
    if len(found) > 1:
        raise Ambiguous("Several hooks have that selector key.", hook_ids=[one.id for one in found])
    return _enabled(found[0])


def _enabled(found: Candidate) -> Candidate:
    if not found.hook.enabled:
        raise NotFound(f"The hook {found.name!r} is disabled, so it is never chosen: enable it first.")
    return found


def _resolution(
    space: Space, request: _Asking, about: Asked, chosen: Candidate, reason: Reason, matched: list[str] | None = None
) -> Resolution:
    parsed = checked(chosen.hook.markdown_template)
    made = prompt(parsed, about, lambda: _memory(space, request, about), _recalled(space, request, about))
    return Resolution(
        selected_hook_id=chosen.id,
        selected_hook_name=chosen.name,
        rendered_prompt=made.text,
        selection_reason=reason,
        matched_hook_ids=[chosen.id] if matched is None else matched,
        variables=made.variables,
        warnings=made.warnings or None,
    )


def _nothing(about: Asked) -> Resolution:
    return Resolution(
        selected_hook_id=None,
        selected_hook_name=None,
        rendered_prompt=None,
        selection_reason=None,
        matched_hook_ids=[],
        variables=about.variables(),
    )


def _recalled(space: Space, request: _Asking, about: Asked) -> Recalled:
    """What {{memory.…}} stands for: of the user and the session that the context names."""
    return recalled(space, Scope(request.app, about.plain.get("user_id") or None, about.session_id))


def _memory(space: Space, request: _Asking, about: Asked) -> str:
    return memory_context(space, about.session_id, Budget(request.max_entries, request.max_chars))
