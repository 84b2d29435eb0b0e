"""Screen text for secrets and planted instructions (`find_suspicion`), and compare the trust in origins.

No filter finds all of them. This one only decides which texts are quarantined for review. The real protection is the origin:
a text with several origins is trusted as little as the least trusted of them. `system` (the application) is above the user. An
assistant is below, because it repeats or invents things. A tool was called on purpose, while a document says what its author
likes. All checks take linear time, and a report about a secret never contains the secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..model.collection import TRUST, Origin
from ..text.hidden import has_hidden_text, list_disguises, normalise
from .conventions import is_agreement
from .injection import find_injection
from .outside import find_foreign_voice
from .secrets import find_secret

ORDER: tuple[Origin, ...] = tuple(sorted(get_args(Origin), key=TRUST.__getitem__))
"""All origins, the least trusted first."""


def lowest_trust(origins: Iterable[str]) -> Origin:
    """The least trusted of these origins. It is `document` if the list is empty or holds an unknown origin."""
    return ORDER[min((TRUST.get(origin, 0) for origin in origins), default=0)]


def is_trusted(origin: str) -> bool:
    """Return True if a text of this origin may be stated as a fact, and not only as a claim."""
    return TRUST.get(origin, 0) >= TRUST["user"]


# -- screening


_LONGEST = 600
"""Characters of a sentence that are checked together. A longer sentence is cut into pieces that overlap."""
_OVERLAP = 100
_SENTENCE_END = re.compile("(?<=[.!?])[\\s\"')\\]]+|\\n+|(?<=[\u3002\uff01\uff1f])")


class Suspicion(NamedTuple):
    """The reason for a quarantine."""

    reason: Literal["secret", "instruction"]
    detail: str
    """A description that does not repeat the text."""


def find_suspicion(text: str, origin: Origin = "user") -> Suspicion | None:
    """Return the reason to quarantine a text; None if it is harmless.

    In a text of the assistant, weak cues do not count, because its advice is full of commands. Tools and documents must not
    speak for the user nor to the agent, while a user may say where to write and how a team works. The application may instruct
    the agent, so its texts are only checked for secrets.
    """
    if (kind := find_secret(text)) is not None:
        return Suspicion("secret", kind)
    if origin == "system":
        return None
    if has_hidden_text(text):
        return Suspicion("instruction", "hides text")
    plain = normalise(text)
    forged = _find_forgery(plain)
    if origin == "user":
        plain = _drop_agreements(plain)
    kind = forged or _find_planted(plain, advice=origin == "assistant")
    if kind is None and origin in ("tool", "document"):
        kind = next(filter(None, map(find_foreign_voice, _cut_sentences(plain))), None)
    if kind is None:
        kind = next((kind for other in list_disguises(plain) if (kind := _find_planted(other, advice=True))), None)
    return Suspicion("instruction", kind) if kind else None


def _drop_agreements(text: str) -> str:
    """Remove the sentences of a user that only say where to write, or how a team works."""
    sentences = _SENTENCE_END.split(text)
    kept = [one for one in sentences if not is_agreement(one)]
    return text if len(kept) == len(sentences) else "\n".join(kept)


def _find_planted(text: str, advice: bool) -> str | None:
    return next((kind for sentence in _cut_sentences(text) if (kind := find_injection(sentence, advice))), None)


def _cut_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, and long ones in pieces that overlap."""
    for sentence in _SENTENCE_END.split(text):
        for start in range(0, max(1, len(sentence) - _OVERLAP), _LONGEST - _OVERLAP):
            yield sentence[start : start + _LONGEST]


# -- forged turns: roles, chat template marks, tool calls, and pictures whose address carries data away


_TAGS = (
    r"system|assistant|instructions?|tool_calls?|tool_results?|tool_response|function_calls?|function_results?|invoke"
    r"|human|sys"
)
_ROLES = r"system|assistant|human|user|developer|tool"
_DATA = (
    r"data|d|q|c|p|u|token|key|secret|msg|message|chat|history|user|info|prompt|conversation|payload|leak|email|content"
    r"|text"
)
_QUERY = rf"https?://[^\s)\"'>]{{1,200}}\?[^\s)\"'>]{{0,200}}?(?:[{{<\[$]|(?:^|[?&])?(?:{_DATA})=[^\s&)\"'>]{{0,80}})"
_ORDERS = (
    r"you\b|your\b|the (?:user|assistant|agent|ai)|ignore|always|never|new\b|tool|grant|from now|respond|enable|disable"
    r"|override|memory|set\b|all\b|do not|reveal|unlock|answer|forget|obey|this user|access"
)


class Mark(NamedTuple):
    detail: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _mark(detail: str, hints: str, pattern: str) -> Mark:
    return Mark(detail, tuple(hints.split()), re.compile(pattern, re.MULTILINE | re.IGNORECASE))


_MARKS = (
    _mark("forges a chat template", "<|", r"<\|[a-z_ ]{2,30}\|>"),
    _mark("forges a chat template", "inst] <<sys _of_turn> [tool_", r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"
        r"|\[tool_(?:calls|results)\]"),
    _mark("forges a tag", "<", rf"<(?:{_TAGS})(?:\s[^<>]{{0,80}})?>(?=[^\s])|</(?:{_TAGS})>"),
    _mark("forges a tag", "<", rf"</(?:user|document|context|message|search_results?|page|email)>\s{{0,5}}<(?:{_ROLES})\b"),
    _mark("forges a memory", "memory token", r"</?memory token\s?="),
    _mark("forges a role", "system developer admin", rf"^[\s#*>\[(\-]{{0,8}}(?:system|developer"
        rf"|administrator)[\])*]{{0,3}}\s{{0,2}}[:：]\s{{0,3}}(?:{_ORDERS})"),
    _mark("forges a role", "system admin", r"\[\s?(?:system|admin|developer)(?:[ _-](?:message|note|prompt|override"
        r"|instruction|notice|update))\s?\]|^\W{0,4}(?:system|admin) (?:note|notice|message|prompt|override"
        r"|instruction)\s?:"),
    _mark("forges a role", "#", r"^\s{0,3}#{1,6}\s?(?:system|instructions?|response|human|assistant)\s?:\s{0,3}$"),
    _mark("forges a role", '"role"', r'"role"\s{0,3}:\s{0,3}"(?:system|assistant|developer|tool)"'),
    _mark("forges a call of a tool", '"', r'"(?:name|tool|function)"\s{0,3}:\s{0,3}"[\w.]{1,80}"\s{0,3},\s{0,3}"'
        r'(?:arguments|args|parameters|input)"\s{0,3}:'),
    _mark("forges a call of a tool", "tool_calls tool_code", r'"tool_calls"\s{0,3}:|```tool_code'),
    _mark("forges a call of a tool", "memor functions. tools.", r"\bfunctions\.\w{1,60}\(|\btools\.\w{1,60}\("
        r"|\bmemory\.(?:add|update|write|save|set|delete)\(|\b(?:update|add|save|write|delete)_memor(?:y|ies)\("),
    _mark("carries data away in a picture", "![", rf"!\[[^\]]{{0,120}}\]\(\s{{0,3}}{_QUERY}"),
    _mark("carries data away in a picture", "<img", rf"<img\s[^>]{{0,80}}src\s?=\s?[\"']?{_QUERY}"),
    _mark("carries data away in a link", "](", r"\]\(https?://[^\s)]{1,200}\?[^)\s]{0,100}=[<{\[][^)]{0,60}"),
)  # fmt: skip

_HINT = re.compile("|".join(re.escape(hint) for hint in {hint: None for mark in _MARKS for hint in mark.hints}))
_ASSISTANT = re.compile(r"^\s{0,3}(?:assistant|ai|model)\s?:\s", re.MULTILINE | re.IGNORECASE)
_PERSON = re.compile(r"^\s{0,3}(?:human|user)\s?:\s", re.MULTILINE | re.IGNORECASE)


def _find_forgery(text: str) -> str | None:
    """Return the verdict on a forgery in a text; None if there is none."""
    lowered = text.lower()
    for mark in _MARKS if _HINT.search(lowered) else ():
        if any(hint in lowered for hint in mark.hints) and mark.pattern.search(text):
            return mark.detail
    both = ":" in text and "\n" in text and _ASSISTANT.search(text) and _PERSON.search(text)
    return "forges a conversation" if both else None
