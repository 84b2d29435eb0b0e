"""Forged turns: roles, chat template marks, tool calls, and pictures whose address carries data away."""

from __future__ import annotations

import re
from typing import NamedTuple

_TAGS = (
    r"system|assistant|instructions?|tool_calls?|tool_results?|tool_response|function_calls?|function_results?"
    r"|invoke|human|sys"
)
_ROLES = r"system|assistant|human|user|developer|tool"
_DATA = (
    r"data|d|q|c|p|u|token|key|secret|msg|message|chat|history|user|info|prompt|conversation|payload"
    r"|leak|email|content|text"
)
_QUERY = rf"https?://[^\s)\"'>]{{1,200}}\?[^\s)\"'>]{{0,200}}?(?:[{{<\[$]|(?:^|[?&])?(?:{_DATA})=[^\s&)\"'>]{{0,80}})"
_ORDERS = (
    r"you\b|your\b|the (?:user|assistant|agent|ai)|ignore|always|never|new\b|tool|grant|from now|respond"
    r"|enable|disable|override"
    r"|memory|set\b|all\b|do not|reveal|unlock|answer|forget|obey|this user|access"
)


class Mark(NamedTuple):
    detail: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _mark(detail: str, hints: str, pattern: str) -> Mark:
    return Mark(detail, tuple(hints.split()), re.compile(pattern, re.MULTILINE | re.IGNORECASE))


MARKS: tuple[Mark, ...] = (
    _mark("forges a chat template", "<|", r"<\|[a-z_ ]{2,30}\|>"),
    _mark("forges a chat template", "inst] <<sys _of_turn> [tool_", r"\[/?inst\]|<</?sys>>|<(?:start"
        r"|end)_of_turn>|\[tool_(?:calls|results)\]"),
    _mark("forges a tag", "<", rf"<(?:{_TAGS})(?:\s[^<>]{{0,80}})?>(?=[^\s])|</(?:{_TAGS})>"),
    _mark("forges a tag", "<", rf"</(?:user|document|context|message|search_results?|page|email)>\s{{0,5}}<(?:{_ROLES})\b"),
    _mark("forges a memory", "memory token", r"</?memory token\s?="),
    _mark("forges a role", "system developer admin", rf"^[\s#*>\[(\-]{{0,8}}(?:system|developer|administrator)"
        rf"[\])*]{{0,3}}\s{{0,2}}[:：]\s{{0,3}}(?:{_ORDERS})"),
    _mark("forges a role", "system admin", r"\[\s?(?:system|admin|developer)(?:[ _-](?:message|note"
        r"|prompt|override|instruction|notice|update))\s?\]|^\W{0,4}(?:system|admin) (?:note|notice"
        r"|message|prompt|override|instruction)\s?:"),
    _mark("forges a role", "#", r"^\s{0,3}#{1,6}\s?(?:system|instructions?|response|human|assistant)\s?:\s{0,3}$"),
    _mark("forges a role", '"role"', r'"role"\s{0,3}:\s{0,3}"(?:system|assistant|developer|tool)"'),
    _mark("forges a call of a tool", '"', r'"(?:name|tool|function)"\s{0,3}:\s{0,3}"[\w.]{1,80}"\s{0,3},\s{0,3}"(?'
        r':arguments|args|parameters|input)"\s{0,3}:'),
    _mark("forges a call of a tool", "tool_calls tool_code", r'"tool_calls"\s{0,3}:|```tool_code'),
    _mark("forges a call of a tool", "memor functions. tools.", r"\bfunctions\.\w{1,60}\(|\btools\.\w{1,60}\("
        r"|\bmemory\.(?:add|update|write|save|set|delete)\(|\b(?:update|add|save|write|delete)_memor(?:y"
        r"|ies)\("),
    _mark("carries data away in a picture", "![", rf"!\[[^\]]{{0,120}}\]\(\s{{0,3}}{_QUERY}"),
    _mark("carries data away in a picture", "<img", rf"<img\s[^>]{{0,80}}src\s?=\s?[\"']?{_QUERY}"),
    _mark("carries data away in a link", "](", r"\]\(https?://[^\s)]{1,200}\?[^)\s]{0,100}=[<{\[][^)]{0,60}"),
)  # fmt: skip

_HINT = re.compile("|".join(re.escape(hint) for hint in {hint: None for mark in MARKS for hint in mark.hints}))
_ASSISTANT = re.compile(r"^\s{0,3}(?:assistant|ai|model)\s?:\s", re.MULTILINE | re.IGNORECASE)
_PERSON = re.compile(r"^\s{0,3}(?:human|user)\s?:\s", re.MULTILINE | re.IGNORECASE)


def find_forgery(text: str) -> str | None:
    """Describe what a text forges; None if nothing."""
    lowered = text.lower()
    for mark in MARKS if _HINT.search(lowered) else ():
        if any(hint in lowered for hint in mark.hints) and mark.pattern.search(text):
            return mark.detail
    both = ":" in text and "\n" in text and _ASSISTANT.search(text) and _PERSON.search(text)
    return "forges a conversation" if both else None
