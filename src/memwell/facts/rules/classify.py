"""Classify a statement: its kind, its subject, its importance, and the confidence of its speaker."""

from __future__ import annotations

import re

from ...text.word_sets import word_set
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
    """The person that a sentence is about: the speaker, or the relative with whom it begins: "My sister Ana lives in Rome"."""
    match = _OPENS_WITH_KIN.match(sentence)
    if match is None:
        return speaker
    owner = f"{speaker}'" if speaker.endswith("s") else f"{speaker}'s"
    return f"{owner} {match['kin']}" + (f" {match['name']}" if match["name"] else "")


def is_lasting(kind: Kind) -> bool:
    """Return True for kinds that stay true, and are kept however short."""
    return kind in _LASTING


def importance(kind: Kind, sentence: str) -> float:
    """The importance of a statement. A request of the moment matters less."""
    stressed = 0.15 if _STRESSED.search(sentence) else 0.0
    asked = 0.2 if _REQUEST.search(sentence) and kind != "instruction" else 0.0
    return round(min(1.0, max(0.1, _IMPORTANCE[kind] + stressed - asked)), 2)


def confidence(kind: Kind, sentence: str, role: str) -> float:
    sure = 0.9 if kind in ("attribute", "relation", "instruction", "correction", "decision", "possession") else 0.8
    if _HEDGED.search(sentence):
        sure -= 0.3
    return round(sure * _ROLE_CONFIDENCE.get(role, 1.0), 2)


_ROLE_CONFIDENCE = {"assistant": 0.7, "tool": 0.5}
