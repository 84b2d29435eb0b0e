"""Screen text for secrets and planted instructions (`find_suspicion`), and compare the trust in origins.

No filter finds them all: this one decides what is quarantined for people to look at. The protection is the origin: what is
derived from several origins is trusted as little as the least of them. `system` (the application) is above the user; an
assistant is below, since it repeats or makes things up; a tool was called on purpose, while a document says what its author
likes. All checks take linear time, and what they report about a secret never contains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..model.collection import TRUST, Origin
from ..text.hidden import has_hidden_text, list_disguises, normalise
from .foreign import find_foreign_injection, has_foreign_cue
from .forged_turns import find_forgery
from .injection import COMMANDS, NO_NAMES, STATEMENTS, URL, VERBS, Command, Rule, find_commands, score_sentence
from .secrets import SHAPES, find_spoken_secret

ORDER: tuple[Origin, ...] = tuple(sorted(get_args(Origin), key=TRUST.__getitem__))
"""From the least trusted to the most."""


def lowest_trust(origins: Iterable[str]) -> Origin:
    """The trust in what rests on all of these; in what rests on nothing, or on something unknown, it is the least."""
    return ORDER[min(map(_rank, origins), default=0)]


def is_trusted_as(origin: str, min_trust: str) -> bool:
    """Return True if an origin is trusted at least as much as `min_trust`. An unknown origin never is."""
    return origin in TRUST and _rank(origin) >= TRUST.get(min_trust, len(ORDER))


def is_trusted(origin: str) -> bool:
    """Return True if text of this origin may be stated as a fact, and not only as somebody's claim."""
    return is_trusted_as(origin, "user")


def _rank(origin: str) -> int:
    return TRUST.get(origin, 0)


# -- screening


_LONGEST = 600
"""Characters of a sentence that are looked at together; longer ones are cut into pieces that overlap."""
_OVERLAP = 100
_SHORTEST_TOKEN = 14
"""Characters without a space; what is shorter is a secret only if it is called one."""

_SENTENCE_END = re.compile("(?<=[.!?])[\\s\"')\\]]+|\\n+|(?<=[\u3002\uff01\uff1f])")
_DATA = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=]+")
_HARMLESS_QUESTIONS = frozenset(
    {"steer", "say", "buy", "use", "keep", "praise", "make", "do", "trust", "inform", "persuade", "tool"}
)
"""Kinds of command that are harmless as a question: "Can you recommend …?"."""
_WORD = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")
_NAME = re.compile(r"(?<![.:!?*(]\s)(?<![.:!?*(\w])([A-Z][\w&'-]*|\w*[a-z][A-Z]\w*)")
_URL = re.compile(URL)


def _statements_by_word() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, one in enumerate(STATEMENTS):
        for word in one.words:
            found.setdefault(word, []).append(n)
    return found


_STATED = _statements_by_word()
"""Which statements each word may belong to."""


class Suspicion(NamedTuple):
    """The reason for a quarantine."""

    reason: Literal["secret", "instruction"]
    detail: str
    """What it looks like, never what it says."""


def find_suspicion(text: str, origin: Origin = "user") -> Suspicion | None:
    """Return why a text should be quarantined; None if nothing is wrong with it.

    Of an assistant, whose advice is full of commands, only certain signs count. The application may instruct the agent.
    """
    if (kind := find_secret(text)) is not None:
        return Suspicion("secret", kind)
    if origin == "system":
        return None
    if has_hidden_text(text):
        return Suspicion("instruction", "hides text")
    kind = _find_injection(normalise(text), advice=origin == "assistant")
    return Suspicion("instruction", kind) if kind else None


def _find_injection(shown: str, advice: bool) -> str | None:
    """Describe what looks planted in a text, or in what it says under a disguise."""
    if kind := find_forgery(shown) or _find_planted(shown, advice):
        return kind
    return next((kind for said in list_disguises(shown) if (kind := _find_planted(said, advice=True))), None)


def find_secret(text: str) -> str | None:
    text = _DATA.sub(" ", text) if ";base64," in text else text
    if any(len(word) >= _SHORTEST_TOKEN for word in text.split()):
        for shape in SHAPES:
            if any(hint in text for hint in shape.hints) and shape.pattern.search(text):
                return shape.name
    return find_spoken_secret(text)


def _find_planted(text: str, advice: bool) -> str | None:
    return next((kind for sentence in _split_sentences(text) if (kind := _judge_sentence(sentence, advice))), None)


def _split_sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(text):
        for start in range(0, max(1, len(sentence) - _OVERLAP), _LONGEST - _OVERLAP):
            yield sentence[start : start + _LONGEST]


def _judge_sentence(sentence: str, advice: bool = False) -> str | None:
    """Describe what looks planted in a sentence."""
    lowered = sentence.lower()
    words = frozenset(_WORD.findall(lowered))
    if not VERBS.isdisjoint(words) and (kind := _find_command(sentence, lowered)):
        return kind
    if kind := _find_statement(words, lowered) or (None if advice else score_sentence(sentence, lowered, words)):
        return kind
    return find_foreign_injection(lowered) if has_foreign_cue(words, lowered) else None


def _find_command(sentence: str, lowered: str) -> str | None:
    asks = lowered.rstrip("\"') ").endswith("?")
    for command in find_commands(lowered):
        for rule in COMMANDS:
            if (
                rule.kind in command.kinds
                and not (asks and rule.kind in _HARMLESS_QUESTIONS)
                and _applies(rule, command, sentence, lowered)
            ):
                return rule.detail
    return None


def _find_statement(words: frozenset[str], lowered: str) -> str | None:
    for n in sorted({n for word in words & _STATED.keys() for n in _STATED[word]}):
        one = STATEMENTS[n]
        if one.pattern.search(lowered) and (one.unless is None or one.unless.search(lowered) is None):
            return one.detail
    return None


def _applies(rule: Rule, command: Command, sentence: str, lowered: str) -> bool:
    if rule.negated not in (None, command.negated):
        return False
    rest = lowered[command.end :]
    if rule.what is not None and rule.what.search(rest) is None:
        return False
    if rule.along is not None and rule.along.search(lowered) is None:
        return False
    if rule.unless is not None and rule.unless.search(lowered) is not None:
        return False
    return not rule.named or _names_somebody(sentence, command)


def _names_somebody(sentence: str, command: Command) -> bool:
    """Return True if a brand, a person or a site is named behind the verb."""
    rest = sentence[command.end :]
    if _URL.search(rest.lower()):
        return True
    return any(match[1] not in NO_NAMES for match in _NAME.finditer(rest))
