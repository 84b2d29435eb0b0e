"""How likely a turn tells something that is worth keeping.

A turn is described by a few general features of its statements: who they are about, in which tense, what sort of words they
are made of, how much of it is new, whether it answers a question. Their weights stand in a table; they were fitted to
conversations in which people marked the turns that tell a fact. Nothing here knows what a conversation is about.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..word_sets import word_set

KEPT = 0.26
"""From which worth on something of a turn is kept."""
RICH = 0.70
"""From which worth on all that a turn states is kept, each statement for itself."""

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*|\d+")


class Told(NamedTuple):
    """What is known of a turn before it is judged."""

    statements: Sequence[str]
    questions: int
    answers: bool
    """Whether the turn before asked something."""
    shows: bool
    fresh: int
    """How many of its content words nobody has said before."""


def worth(told: Told) -> float:
    """How likely it is worth keeping, from 0 to 1."""
    score = sum(WEIGHTS.get(name, 0.0) * value for name, value in features(told).items())
    return 1 / (1 + math.exp(-score))


def features(told: Told) -> dict[str, float]:
    text = " ".join(told.statements)
    words = _WORD.findall(text.lower().replace("’", "'"))
    found = {"always": 1.0, **_form(told, text, words)}
    counts = Counter(name for word in words if word in _CLASSES_OF for name in _CLASSES_OF[word])
    return found | {name: math.sqrt(count) for name, count in counts.items()}


def _form(told: Told, text: str, words: list[str]) -> dict[str, float]:
    """What it is like, whatever it says."""
    count = len(told.statements)
    return {
        "length": math.log1p(len(words)),
        "fresh": math.log1p(told.fresh),
        "statements": float(min(count, 8)),
        "questions": float(min(told.questions, 3)),
        "answers": float(told.answers),
        "shows": float(told.shows),
        "exclaims": sum(one.rstrip().endswith("!") for one in told.statements) / (1 + count),
        "quotes": float('"' in text or "“" in text),
        "opens_with_I": math.sqrt(sum(_OPENS_WITH_I.match(one) is not None for one in told.statements)),
        "opens_with_you": math.sqrt(sum(_OPENS_WITH_YOU.match(one) is not None for one in told.statements)),
        "opens_with_it": math.sqrt(sum(_OPENS_WITH_IT.match(one) is not None for one in told.statements)),
    }


_OPENS_WITH_I = re.compile(r"(?:I|I'\w+|My|We|We'\w+|Our)\b")
_OPENS_WITH_YOU = re.compile(r"(?:You|You'\w+|Your)\b")
_OPENS_WITH_IT = re.compile(r"(?:It|It's|That|That's|This|They|These|Those)\b")


CLASSES = {
    "i_am": word_set("i'm im"),
    "i_will": word_set("i'll i'd"),
    "me": word_set("me myself"),
    "my": word_set("my mine"),
    "you": word_set("you you're you've you'll you'd ya u yourself"),
    "your": word_set("your yours"),
    "they": word_set("they them their they're he she him her his"),
    "it": word_set("it it's its that that's this these those"),
    "be": word_set("is are was were be"),
    "perfect": word_set("been have has had having"),
    "modal": word_set("can could would should might may must"),
    "article": word_set("a an"),
    "place": word_set("at in near from to"),
    "for": word_set("for with about"),
    "cause": word_set("because since so why reason after before when while"),
    "time": word_set(
        "yesterday today tomorrow tonight last next ago week weeks weekend month months year years day days morning "
        "recently lately soon since summer winter spring fall monday tuesday wednesday thursday friday saturday sunday"
    ),
    "like": word_set(
        "love loved loves like liked enjoy enjoyed prefer hate favorite favourite fan passion passionate "
        "interested keen into"
    ),
    "plan": word_set(
        "gonna going plan planning plans planned want wants wanna hope hoping will thinking considering "
        "looking decided goal goals"
    ),
    "do": word_set(
        "started starting start working work working learning teaching training making writing joined signed "
        "trying practicing doing taking"
    ),
    "praise": word_set(
        "great awesome amazing cool nice good wonderful fantastic incredible beautiful "
        "gorgeous lovely cute sweet perfect impressive best super fun special inspiring"
    ),
    "reaction": word_set(
        "wow congrats congratulations glad thanks thank appreciate sounds looks yeah yep absolutely totally "
        "exactly sure"
    ),
    "degree": word_set("so such really very too much lot totally super pretty"),
}  # fmt: skip
"""Sorts of words, by what they tell about a statement rather than about the world."""
_CLASSES_OF = {
    word: tuple(name for name, members in CLASSES.items() if word in members)
    for word in frozenset().union(*CLASSES.values())
}

WEIGHTS: dict[str, float] = {
    "always": -3.73,
    "length": 0.48,
    "fresh": 0.92,
    "statements": -0.04,
    "questions": -0.25,
    "answers": 0.53,
    "shows": -0.07,
    "exclaims": -0.38,
    "quotes": 0.37,
    "opens_with_I": 0.48,
    "opens_with_you": 0.29,
    "opens_with_it": 0.13,
    "i_am": 0.21,
    "i_will": 0.1,
    "me": 0.13,
    "my": 0.46,
    "you": -0.25,
    "your": -0.26,
    "they": -0.3,
    "it": -0.09,
    "be": -0.12,
    "perfect": 0.19,
    "modal": -0.29,
    "article": 0.23,
    "place": 0.14,
    "for": 0.19,
    "cause": 0.13,
    "time": 0.44,
    "like": -0.02,
    "plan": -0.18,
    "do": 0.12,
    "praise": -0.22,
    "reaction": -0.05,
    "degree": -0.19,
}
