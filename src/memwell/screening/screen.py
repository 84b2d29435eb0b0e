"""How far an origin can be trusted. What is derived from several is trusted as little as the least of them.

What the application itself writes (`system`) stands above the user: whoever runs it vouches for it, and it could write as
anybody anyway. The assistant stands below the user, since it repeats what it was told or has made up; a tool was at least
called on purpose, while a document says whatever its author likes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..model.collection import TRUST, Origin
from ..text.hidden import disguised, hides, visible
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
    """Whether something of this origin is trusted as much as is asked for. An unknown origin never is."""
    return origin in TRUST and _rank(origin) >= TRUST.get(min_trust, len(ORDER))


def is_trusted(origin: str) -> bool:
    """Whether it may be told as a fact, and not only as what somebody else has said."""
    return is_trusted_as(origin, "user")


def _rank(origin: str) -> int:
    return TRUST.get(origin, 0)


# -- What must not become a fact unseen: secrets, and statements planted to be obeyed or believed.
#
# No filter finds them all, so this one only decides what is put aside to be looked at; what protects is where a statement
# comes from (`trust`). It reads whole turns as well as single sentences, in time linear in their length. What it says about
# a secret never holds the secret.


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
    """Why a statement is put aside."""

    reason: Literal["secret", "instruction"]
    detail: str
    """What it looks like, never what it says."""


def find_suspicion(text: str, origin: Origin = "user") -> Suspicion | None:
    """Why a text should not become a fact before somebody has looked at it; None: nothing is wrong with it.

    An assistant's advice is full of commands to the user, so that only what is certain counts there. What the application
    itself says may instruct the agent.
    """
    if (kind := find_secret(text)) is not None:
        return Suspicion("secret", kind)
    if origin == "system":
        return None
    if hides(text):
        return Suspicion("instruction", "hides text")
    kind = _find_injection(visible(text), advice=origin == "assistant")
    return Suspicion("instruction", kind) if kind else None


def _find_injection(shown: str, advice: bool) -> str | None:
    """What looks planted about a text, or about what it says under a disguise."""
    if kind := find_forgery(shown) or _find_planted(shown, advice):
        return kind
    return next((kind for said in disguised(shown) if (kind := _find_planted(said, advice=True))), None)


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
    """What looks planted about a sentence."""
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
    """Whether a brand, a person or a site is named behind the verb, other than by the first word of a clause."""
    rest = sentence[command.end :]
    if _URL.search(rest.lower()):
        return True
    return any(match[1] not in NO_NAMES for match in _NAME.finditer(rest))
