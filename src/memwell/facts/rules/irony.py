"""Find sentences that are not meant as they are said: irony, jokes, counterfactuals, and what others say.

`find_tone` judges a sentence and the one after it. What is certainly not meant is dropped; in doubt it is kept as a quotation of
low confidence and importance.
"""

from __future__ import annotations

import re
from enum import Enum


class Tone(Enum):
    """How a sentence is meant."""

    SINCERE = "sincere"
    IRONIC = "ironic"
    UNREAL = "unreal"
    """It supposes what is not so: "If I had more money, …"."""
    UNSURE = "unsure"
    """It may be irony, a joke, or the words of another."""
    HEARSAY = "hearsay"
    """Somebody else says so."""


UNSURE_CONFIDENCE = 0.4
HEARSAY_CONFIDENCE = 0.5
MAX_UNSURE_IMPORTANCE = 0.3
_SAMPLE = 600

_IRONIC = re.compile(
    r"""\byeah,?\ right\b|(?:^|\s)/s\b|\#(?:sarcasm|irony|not)\b|🙄|\bsaid\ no\ one\ ever\b|\bas\ if\W*$|\bthanks\ for\ nothing\b
    |\bjust\ what\ (?:i|we)\ (?:needed|always\ wanted)\b|\bnobel\ prize\b|\bslow\ clap\b|\bgive\ (?:\w+\ ){1,2}a\ medal\b
    |\bmother\ of\ the\ year\b|\bwhat\ could\ (?:possibly\ )?go\ wrong\b|\bbecause\ that\ (?:always\ )?(?:works|worked
    |went)\ so\ well\b
    |\bover\ my\ dead\ body\b|\b(?:i'd|i\ would)\ (?:rather|sooner)\ (?:die|eat\ (?:my|glass|nails)|gouge|stick)\b
    |\b(?:just|so|absolutely|simply|really|totally)\s+(?:ador|lov|enjoy)(?:e|es|ed|ing)?\s+(?:it\ when|how|being
    |getting|waiting|paying|sitting|standing|staring
       |having\ to|spending\ (?:hours|my)|listening\ to\ (?:your|the|that)\ (?:hold|same)|talking\ to\ (?:bots|robots
       |machines)|explaining)\b
    |\b(?:ador|lov|enjoy)(?:e|es|ed|ing)?\s+(?:being|getting)\s+(?:put\ on\ hold|ignored|charged|ghosted|overcharged
    |woken|yelled|lied|transferred|hung\ up)
    |\b(?:highlight|joy)\ of\ my\ (?:day|week|year|life)\b|\b(?:what|such)\ a\ (?:joy|treat|surprise|shocker|miracle)\b
    |^\W*(?:oh\s)?(?:wow,?\s)?a\ miracle\b
    |\b(?:truly|really|so)\ (?:world[- ]class|state[- ]of[- ]the[- ]art)\ (?:service|support)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Wordings that are hardly ever meant as they are said."""
_PRAISE_OPENING = re.compile(
    r"""\W*(?:oh\s+|wow,?\s+|well,?\s+|how\s+|just\s+|absolutely\s+)*(?:fantastic|great|wonderful|lovely|brilliant|perfect|marvellous|marvelous|splendid
    |awesome|excellent|terrific|congratulations|bravo|amazing|nice|superb)\b[\s,!.:–—-]+(?P<rest>.+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_COMPLAINT = re.compile(
    r"""\b(?:another|yet\ another|again|still\ (?:no|not|broken|down|waiting)|for\ the\ (?:\w+)\ time
    |crash(?:ed|es)?|died|dies|dead|leak(?:s|ed|ing)?|stopped\ working|broke(?:n)?|fail(?:s|ed|ure)?|bug|late|delayed
    |lost|refused|cancelled|canceled|ignored|exactly\ as\ (?:promised|advertised|expected)|on\ hold|error|outage|down
    |useless|wrong|nobody|no\ one|twice|hours)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_TAKEN_BACK = re.compile(
    r"\W*(?:by which i mean\b|(?:just )?(?:kidding|joking)\b|jk\b|j/k\b|not!|not\W*$|nah,? (?:just )?kidding"
    r"|i'm (?:just )?(?:kidding|joking)|"
    r"(?:that|this) was (?:a joke|sarcasm|ironic|irony|sarcastic)|/s\b|as if\b)",
    re.IGNORECASE,
)
"""A sentence that takes back the one before it."""
_JOKE_INSIDE = re.compile(r"\b(?:just kidding|only joking|jk|j/k)\b|\bNOT\W*$|😜|😏")
_UNREAL = re.compile(
    r"""\W*(?:(?:hm+|well|so|and|but|oh|man|honestly|lol)[\s,]+)*
    (?:if\s+(?:only\s+)?(?:i|we|he|she|they|there|you|it|my|our|the)\b.{0,80}?\b(?:had|were|was|could|didn't|weren't|wasn't|hadn't|knew|lived|won|owned|got)\b.{0,120}?(?:\bwould\b|'d\b|\bcould\b|\bmight\b)
    |(?:i|we)(?:'d|\ would)\b.{1,120}?\bif\s+(?:only\s+)?(?:i|we|he|she|they|there|it|you|my|the)\b.{0,60}?\b(?:had
    |were|was|could|didn't|weren't|knew)\b
    |(?:i|we)\ wish\b|if\ only\b|in\ my\ dreams\b|one\ can\ dream\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_WISHED_STATE = re.compile(r"\W*(?:i|we) wish (?:to|you|him|her|them|everyone)\b", re.IGNORECASE)
_LAUGH = r"(?:lol|lmao|rofl|haha+|hehe+|xd|😂|🤣|😅|:d|;\)|:p)"
_JOKING = re.compile(r"^\W*(?:lol|lmao|rofl)\b|(?:\b(?:lol|lmao|rofl|xd)|😂|🤣)\W*$", re.IGNORECASE)
_NOT_LIKE = re.compile(
    r"\b(?:it's|its|it is)\ not\ (?:like|as\ if|as\ though)\ (?:i|we|my|our)\b|^\W*(?:as\ if|like)\ (?:i|we)\ (?:ha|care"
    r"|need|own|run|live)",
    re.IGNORECASE | re.VERBOSE,
)
_SPEECH = re.compile(
    r"\b(?:said|says|goes|wrote|writes|texted|yelled|shouted|replied|answered|was like|is like|were like|told me"
    r"|told us)\s*[:,]\s*['“\"]?(?:I|we|my|our)\b",
    re.IGNORECASE,
)
_LYRICS = re.compile(
    r"\b(?:as the song goes|lyrics?|the song|quote|movie line|in the (?:film|movie|book|novel)|character)\b",
    re.IGNORECASE,
)
_WHOLE_QUOTE = re.compile(r"\W*[\"“«„][^\"”»“]{3,400}[\"”»“](?:\s*[,–—-]+\s*[^.!?\n]{2,60})?\W*\Z")
_HEARSAY = re.compile(
    r"\b(?:apparently|supposedly|allegedly|reportedly|rumou?r has it|(?:i|we) (?:heard|read|was told"
    r"|were told)(?: somewhere)? (?:that )?(?!back\b)|they say|people say|"
    r"someone (?:told|said)|(?:he|she|they) (?:claims?|claimed)|word is)\b",
    re.IGNORECASE,
)


_DELIGHT = re.compile(
    r"\b(?:over the moon|thrilled|delighted|couldn't be happier|so happy|overjoyed|ecstatic|(?:just|so|really|absolutely"
    r"|simply) (?:love|adore|enjoy)(?:s|d)?"
    r"|the best\b|love it|made my day|world[- ]class|outstanding|impressive)",
    re.IGNORECASE,
)
_BURDEN = (
    "waiting|paying|carrying|cleaning|scrubbing|repeating|explaining|calling|queu(?:e)?ing|standing|sitting|staring|debugging|refreshing|restarting|rebooting|filling|arguing|"
    "begging|chasing|getting|being|having to|resetting|re-?entering|typing|losing|missing|sweating|freezing"
)
_LOVES_BURDEN = re.compile(
    rf"\b(?:just|so|simply|absolutely)\s+(?:love|adore|enjoy)(?:s|d)?\s+(?:{_BURDEN})\b", re.IGNORECASE
)
_WOULD = re.compile(r"\bwould\b|'d\b", re.IGNORECASE)


_AGREES = (
    r"\W*(?:(?:oh|ah|well|ha)[\s,]+)?(?:(?:sure|right|yeah|yep|yes|yup|of course|totally|absolutely)[\s,.!–—-]+){1,2}"
)
_AND_I = re.compile(rf"{_AGREES}and (?P<rest>.+)", re.IGNORECASE | re.DOTALL)
_OF_COURSE = re.compile(r"[,\s–—-](?:obviously|clearly|naturally|of course|duh)\W*\Z", re.IGNORECASE)
_ABSURD = re.compile(
    r"\b(?:i am|i'm|im|my name is) (?:the |a )?(?:king|queen|pope|emperor|president|tooth fairy|santa|easter bunny"
    r"|dalai lama|batman"
    r"|superman|prime minister|sultan|tsar|prince|princess|unicorn|martian|millionaire|billionaire)\b"
    r"|\b(?:pigs|cows|elephants) (?:can |could |might )?fly|\bmoon is made of\b|\bhell (?:has|just)? ?fr(?:oze|ozen|eezes)\b",
    re.IGNORECASE,
)
_FALSE_DELIGHT = re.compile(
    r"\W*(?:(?:oh|ah|well)[\s,]+)?(?:yeah|yes|sure|right|great|joy|wonderful|fantastic|brilliant|perfect|lovely|goody)[\s,.!–—-]+"
    r"(?:i|we)(?:'m| am| are| do)? (?:(?:simply|just|absolutely|totally|really|so|truly)\s+)+"
    r"(?:can't wait|can not wait|cannot wait|can hardly wait|love|adore|enjoy)\b(?P<rest>.+)",
    re.IGNORECASE | re.DOTALL,
)
_UNPLEASANT = re.compile(
    rf"\b(?:{_BURDEN}|again|another|yet|wet|rain|mud|cold|heat|dark|traffic|hours?|[\w-]+-hours?|overtime|queue|squeez\w+|pull\w*|scrub\w*"
    r"|dentist|taxes|paperwork|meetings?|noise|sweat\w*|delays?|weeds|bugs|mosquitoes|the next)\b",
    re.IGNORECASE,
)
_PLEASANT = re.compile(r"\b(?:see|meet|visit|hug|go back|come back|return|hear from|be with|hold)\b", re.IGNORECASE)


def _is_false_agreement(text: str) -> bool:
    """Return True for "Sure, and I'm the Pope" and "Oh yeah, I just can't wait to queue again"."""
    agreed = _AND_I.fullmatch(text)
    if agreed and (_OF_COURSE.search(agreed["rest"]) or _ABSURD.match(agreed["rest"])):
        return True
    delight = _FALSE_DELIGHT.fullmatch(text)
    return bool(delight and _UNPLEASANT.search(delight["rest"]) and not _PLEASANT.search(delight["rest"]))


def is_praise_of_trouble(text: str) -> bool:
    """Return True for "Great, another crash", which may be meant as it is said or not."""
    praise = _PRAISE_OPENING.fullmatch(text[:_SAMPLE].replace("’", "'"))
    return praise is not None and _COMPLAINT.search(praise["rest"]) is not None


def find_tone(text: str, following: str = "", ironic: bool = False) -> Tone:
    """Return how a sentence is meant. `following`: the next sentence, which may take it back.

    `ironic`: the speaker was ironic before.
    """
    text = text[:_SAMPLE].replace("’", "'")
    if _TAKEN_BACK.match(following.replace("’", "'")):
        return Tone.IRONIC
    if (
        _IRONIC.search(text)
        or _TAKEN_BACK.match(text)
        or _LOVES_BURDEN.search(text)
        or _is_false_agreement(text)
        or (ironic and _DELIGHT.search(text))
    ):
        return Tone.IRONIC
    if _JOKING.search(text) and _WOULD.search(text):
        return Tone.UNREAL
    if _UNREAL.match(text) and not _WISHED_STATE.match(text):
        return Tone.UNREAL
    if is_praise_of_trouble(text):
        return Tone.UNSURE
    if any(pattern.search(text) for pattern in (_JOKING, _NOT_LIKE, _SPEECH, _JOKE_INSIDE)) or _WHOLE_QUOTE.match(text):
        return Tone.UNSURE
    return Tone.HEARSAY if _HEARSAY.search(text) else Tone.SINCERE
