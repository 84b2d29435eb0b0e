"""What kind of statement it is, how much it matters, and how sure whoever said it was."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ...text.word_sets import load_sections, word_set
from ..plan import Kind

KIN = (
    "mom|mother|mum|dad|father|parents?|sisters?|brothers?|siblings?|sons?|daughters?|wife|husband|spouse|"
    "kids?|child|children|baby|partner|girlfriend|boyfriend|fianc[ée]e?|cousins?|aunt|uncle|niece|nephew|grand(?:ma|pa|mother|father|parents?|son|daughter)|"
    "friends?|best friend|boss|manager|colleagues?|coworkers?|roommate|neighbou?rs?|"
    "doctor|dentist|therapist|teacher|coach|mentor|dogs?|cats?|pets?"
)
_SELF = r"\b(?:I|I'm|I've|I'd|we|we're|we've)\b"
_MAYBE = r"(?:\s+(?:\w+ly|also|just|always|never|still|even|do|don't|have|now|so|not|currently|both|all|actually))*"
_AM = rf"(?:\bI'm|\bI am|\bI was|\bwe're|\bwe are){_MAYBE}"
_HOW_OFTEN = "always|never|usually|often|rarely|seldom|hardly(?: ever)?|barely|neither|no longer"
_NOT_HABITS = "know|think|mind|want|need|have|understand|see|even|really|get|believe|care|remember|mean"
_FORMS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (
        "decision",
        (rf"{_SELF}{_MAYBE} (?:decided|agreed|chose|chosen|settled on|picked|committed|resolved|made up my mind)\b",),
    ),
    (
        "attribute",
        (
            r"\bmy (?:\w+ )?(?:name|birthday|age|job|address|phone|number|email|title|nationality|hometown|pronouns|diet)\b",
            rf"{_AM} (?:an? (?!bit|little|lot|huge fan|big fan|fan)|\d|from |born|allergic|intolerant|vegan|vegetarian)",
            rf"{_AM} (?:married|single|divorced|engaged|pregnant|retired|unemployed|based in|gay|lesbian|bi|trans\w*)\b",
            rf"{_AM} (?:deaf|blind|diabetic|celiac|coeliac|left-handed|lactose)\b",
            rf"{_AM} (?:(?:afraid|scared|terrified) of|dating|learning|studying|training for|working (?:at|for|as|in))\b",
            rf"\bI{_MAYBE} (?:play|drive|teach|smoke|drink|eat|wear|collect|practi[sc]e|coach|volunteer|commute)\b",
            rf"{_SELF}{_MAYBE} (?:live|lived|work(?:ed)? (?:at|for|as|in)|study|studied|grew up|come from|speak)\b",
            rf"{_SELF}{_MAYBE} (?:turned \d+|suffer|was born|moved)\b",
            rf"\bI (?:{_HOW_OFTEN}|don't|do not) (?!{_NOT_HABITS})\w+",
        ),
    ),
    (
        "relation",
        (
            rf"\bmy (?:\w+ )?(?:{KIN})(?:,? [A-Z]\w+,?)?(?:'s| is| was| has| had| lives| works| likes| loves| got| moved)\b",
            rf"\bmy (?:\w+ )?(?:{KIN})'s? (?:name|birthday)",
            r"\bmarried to\b",
        ),
    ),
    (
        "preference",
        (
            rf"{_SELF}{_MAYBE} (?:love|like|enjoy|prefer|hate|dislike|adore|loathe|detest)\b",
            rf"{_AM} (?:(?:an? )?(?:huge|big|real)? ?fan|into|keen on|passionate about|fond of|obsessed with)",
            r"\bI'?d rather\b|\bcan'?t stand\b|\bmy (?:\w+ )?favou?rite\b|\bfavou?rite\b.+\bis\b",
        ),
    ),
    (
        "plan",
        (
            rf"{_AM} (?:going to|gonna|planning|thinking (?:of|about)|considering|about to|hoping to|looking forward|off to)",
            rf"{_SELF}{_MAYBE} (?:plan|intend|want|hope|wish|aim|need)s? to\b",
            r"\b(?:I|we)(?:'ll| will)\b|\bI'?d (?:like|love) to\b|\bcan'?t wait\b",
        ),
    ),
    (
        "possession",
        (
            rf"{_SELF}{_MAYBE} (?:have|own|got|bought|adopted|ordered) (?:an?|my|our|two|three|four|five|\d+|some|lots|many)\b",
        ),
    ),
    (
        "event",
        (
            rf"{_SELF}{_MAYBE} (?:(?!need\b)\w+ed|went|took|saw|made|got|had|found|felt|met|came|began|bought|ran)\b",
            rf"{_SELF}{_MAYBE} (?:won|lost|gave|wrote|read|did|was|were|been|spent|left|quit|broke)\b",
        ),
    ),
)
_KINDS = [(kind, re.compile("|".join(forms), re.IGNORECASE)) for kind, forms in _FORMS]
_OPENS_WITH_KIN = re.compile(
    rf"[Mm]y (?P<kin>(?:[a-z]+ )?(?:{KIN}))(?:,? (?P<name>[A-Z]\w+),?)?"
    r"(?:'s (?!\w+(?:'s| is| was)\b)| (?:is|was|has|had|lives|works|likes|loves|got|moved|plays|goes|went)\b)"
)
_LASTING = word_set("attribute relation possession decision preference")
_HEDGED = re.compile(
    r"\b(?:I think|I guess|I suppose|maybe|perhaps|probably|might|not sure|possibly|I believe|seems?|kind of|kinda"
    r"|according to)\b",
    re.IGNORECASE,
)
_STRESSED = re.compile(
    r"\b(?:always|never|allerg\w+|important|must|cannot|can't stand|urgent|deadline|medication|diagnosed|emergency)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:need|want|like|looking for|wondering|hoping|trying)\b.*"
    r"\b(?:help|know|suggestions?|recommend\w*|advice|tips?|ideas?|find|understand|figure)\b",
    re.IGNORECASE,
)
_IMPORTANCE: dict[Kind, float] = {
    "instruction": 0.9, "correction": 0.8, "attribute": 0.8, "relation": 0.7, "preference": 0.6, "decision": 0.7,
    "possession": 0.6, "plan": 0.5, "event": 0.4, "statement": 0.3,
}  # fmt: skip


def classify(sentence: str) -> Kind:
    """The first kind whose form a sentence in the first person has."""
    sentence = sentence.replace("’", "'")
    return next((kind for kind, pattern in _KINDS if pattern.search(sentence)), "statement")


def find_subject(sentence: str, speaker: str) -> str:
    """Whom a sentence is about: its speaker, or whoever it begins with: "My sister Ana lives in Rome"."""
    match = _OPENS_WITH_KIN.match(sentence)
    if match is None:
        return speaker
    owner = f"{speaker}'" if speaker.endswith("s") else f"{speaker}'s"
    return f"{owner} {match['kin']}" + (f" {match['name']}" if match["name"] else "")


def is_lasting(kind: Kind) -> bool:
    """Whether a statement of this kind is likely to stay true, and so is worth keeping however briefly it was made."""
    return kind in _LASTING


def importance(kind: Kind, sentence: str) -> float:
    """How much it matters. What somebody just then asks for matters little later."""
    stressed = 0.15 if _STRESSED.search(sentence) else 0.0
    asked = 0.2 if _REQUEST.search(sentence) and kind != "instruction" else 0.0
    return round(min(1.0, max(0.1, _IMPORTANCE[kind] + stressed - asked)), 2)


def confidence(kind: Kind, sentence: str, role: str) -> float:
    sure = 0.9 if kind in ("attribute", "relation", "instruction", "correction", "decision", "possession") else 0.8
    if _HEDGED.search(sentence):
        sure -= 0.3
    return round(sure * _ROLE_CONFIDENCE.get(role, 1.0), 2)


_ROLE_CONFIDENCE = {"assistant": 0.7, "tool": 0.5}


# -- How likely a turn tells something that is worth keeping.
#
# A turn is described by a few general features of its statements: who they are about, in which tense, what sort of words they
# are made of, how much of it is new, whether it answers a question. Their weights stand in a table; they were fitted to
# conversations in which people marked the turns that tell a fact. Nothing here knows what a conversation is about.


MIN_SCORE = 0.26
"""From which worth on something of a turn is kept."""
RICH_SCORE = 0.70
"""From which worth on all that a turn states is kept, each statement for itself."""

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*|\d+")


class TurnFeatures(NamedTuple):
    """What is known of a turn before it is judged."""

    statements: Sequence[str]
    questions: int
    answers: bool
    """Whether the turn before asked something."""
    shows: bool
    fresh: int
    """How many of its content words nobody has said before."""


def score_turn(told: TurnFeatures) -> float:
    """How likely it is worth keeping, from 0 to 1."""
    score = sum(WEIGHTS.get(name, 0.0) * value for name, value in features(told).items())
    return 1 / (1 + math.exp(-score))


def features(told: TurnFeatures) -> dict[str, float]:
    text = " ".join(told.statements)
    words = _WORD.findall(text.lower().replace("’", "'"))
    found = {"always": 1.0, **_form_features(told, text, words)}
    counts = Counter(name for word in words if word in _CLASSES_OF for name in _CLASSES_OF[word])
    return found | {name: math.sqrt(count) for name, count in counts.items()}


def _form_features(told: TurnFeatures, text: str, words: list[str]) -> dict[str, float]:
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


CLASSES = {name: frozenset(words) for name, words in load_sections(__package__, "score_words").items()}
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
