"""Parse a sentence into a statement: its text without lead-ins, its kind, subject, importance and confidence."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ...text.word_sets import load_sections, load_words, word_set
from ..datatypes import Kind
from .irony import HEARSAY_CONFIDENCE, MAX_UNSURE_IMPORTANCE, UNSURE_CONFIDENCE, Tone
from .passages import Sentence
from .phrase import is_past, mentions

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its|there|here|both|such)(?:'[a-z]+)?\b", re.IGNORECASE
)
_EMPTY = load_words(__package__, "small_talk")


class Statement(NamedTuple):
    """A sentence that states something."""

    at: int
    """The number of the sentence in its turn."""
    text: str
    verbatim: str
    start: int
    end: int
    kind: Kind
    content: frozenset[str]
    """Stems of its content words."""
    own: bool
    """The statement mentions its speaker ("I", "my")."""
    to_other: bool
    """The statement mentions the listener ("you")."""
    dangling: bool
    """The statement begins with a pronoun that refers to an earlier sentence."""
    urging: bool
    """The statement is advice, encouragement or a farewell: "Enjoy your trip"."""
    wanted: bool
    """The speaker asked to remember it."""
    english: bool
    tone: Tone = Tone.SINCERE

    @property
    def sincere(self) -> bool:
        """False if it may be irony, a joke, or the words of another."""
        return self.tone is not Tone.UNSURE


def parse_sentence(
    at: int,
    sentence: Sentence,
    names: Collection[str],
    note: bool,
    english: bool,
    tone: Tone = Tone.SINCERE,
    alone: bool = False,
) -> Statement:
    """Parse the sentence number `at` of a turn. `names`: the names by which a speaker may be addressed, in lower case."""
    if not english:
        return Statement(
            at, sentence.text, sentence.text, sentence.start, sentence.end, kind="statement",
            content=content_stems(sentence.text), own=True, to_other=False, dangling=False, urging=False, wanted=note,
            english=False, tone=tone,
        )  # fmt: skip
    words = strip_chat(sentence.text) if alone else sentence.text
    bare = sentence.unsaid + strip_lead_ins(words.replace("’", "'"), names)
    request = _REMEMBER.match(bare)
    to_remember = bare[request.end() :] if request and request.end() < len(bare) else None
    text = add_subject(to_remember or bare)
    own, to_other = mentions(text)
    opening = _FIRST_WORDS.match(text)
    urging = opening is not None and opening["first"].lower() in _ADVICE_VERBS
    return Statement(
        at, text, sentence.text, sentence.start, sentence.end,
        kind=classify(text) if own else "statement", content=content_stems(text),
        own=own, to_other=to_other, dangling=_OPENS_WITH_PRONOUN.match(text) is not None,
        urging=urging, wanted=note or to_remember is not None, english=True, tone=tone,
    )  # fmt: skip


def content_stems(text: str) -> frozenset[str]:
    return frozenset(
        word[:6] for word in _WORD.findall(text.lower()) if word not in _EMPTY and (len(word) > 2 or word.isdigit())
    )


_CHAT = re.compile(
    r"""\W*(?:(?:ok|okay|k|kk|fine|good|great|perfect|brilliant|agreed|done|yes|yep|yup|yeah|no|nope|nah|lol|haha+|ugh|phew|hm+|mhm|aha|right|sure|also|oh|btw|fyi
    |oh\ wow|hi\ again|hey\ again|me\ again|hello\ again|good\ question|good\ idea|good\ point|(?:a\ )?(?:little|small
    |quick|short)\ (?:update|question|thing)|update
    |change\ of\ plans?|last\ thing|one\ (?:more\ |last\ )?thing|one\ more|another\ thing|by\ the\ way|and\ yes|and|so
    |well|anyway|correct|exactly|true
    |(?:(?:oh|ah)\ )?(?:sorry,?\ )?(?:i\ )?(?:should(?:\ have|'?ve)|forgot\ to)\ (?:said|say|mentioned?|told?\ you
    |tell\ you|added|add)
    |can'?t|cannot|dunno|thanks|thank\ you|ty|thx|cheers|great\ news|bad\ news|good\ news|sounds\ good|works\ for\ me
    |will\ do|got\ it|makes\ sense|no\ problem|no\ worries|super)\s*[,!.:;–—-]+\s*
    |(?:btw|fyi|ok|okay|lol|haha+|ugh|hm+|hi|hey|yo|oh|ah|also|and|oh\ and|ps|hiya|nah|yep|yeah|good\ but|ok\ but
    |yes\ but|no\ but)\s+(?=(?:im|i|my|we|our|the|a|an|no|not|one|there|it|its|use|don['’]?t|please|pls)\b|I\b
    |[A-Z]\w+\s|\w+\s(?:is|are|was|were|has|needs|goes|comes)\b))
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CHAT_END = re.compile(
    r"[\s,]+(?:lol|haha+|hehe+|btw|thx|thanks|ty|tho|though|ugh|huh|ok|okay)(?=\W*\Z)|\s+[:;]-?[)(DP](?=\W*\Z)",
    re.IGNORECASE,
)
_CHAT_PLEASE = re.compile(r"\s+(?:pls|plz)(?=,)", re.IGNORECASE)
MAX_CHAT_LEADS = 5


def strip_chat(text: str) -> str:
    """Remove what only links messages of a chat: "ok great.", "btw", "lol"."""
    for _ in range(MAX_CHAT_LEADS):
        lead = _CHAT.match(text)
        if lead is None or lead.end() == len(text):
            break
        text = text[lead.end() :]
    return _CHAT_PLEASE.sub("", _CHAT_END.sub("", text)) or text


def is_only_chat(text: str) -> bool:
    """Return True for "Little update." and "ok great!"."""
    rest = strip_chat(text).rstrip(" .!…") + ","
    lead = _CHAT.match(rest)
    return lead is not None and lead.end() == len(rest)


# -- lead-ins
#
# Words that only introduce a sentence are removed, and an omitted subject is added.


_LEAD = re.compile(
    r"""(?:(?:(?:(?:hi|hey|hello|dear)\ \w+(?=[,!])
    |oh|ah|aw+|wow|yeah|yep|yup|yes|ye+s+|sure|okay|ok|hey|hi|hello|hiya|well|so|and|but|plus|also
    |anyway|anyways|btw|by\ the\ way
    |honestly|actually|basically|alright|right|absolutely|definitely|totally|exactly|of\ course
    |for\ sure|haha+|hehe|lol|hmm+|um+|uh+
    |thanks(?:\ (?:so\ much|a\ lot|a\ bunch|again))?|thank\ you(?:\ so\ much)?|congrats|no\ worries|no\ problem|you\ know|i\ mean
    |to\ be\ honest|speaking\ of\ which|on\ another\ note|on\ a\ different\ note|as\ for\ me|in\ fact
    |guess\ what|listen|look|cool|nice|great|awesome
    |no|nope|sorry|wait|oops|correction|scratch\ that|never\ ?mind
    |(?:ignore|disregard|forget)\ (?:that|this|it|(?:my|the)\ (?:last|previous|first)\ (?:message|one|question|part|text)))
    \b[,!:.…\s-]*+)|[^\w"“'(\[$€£#+]++)""",
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_CLAUSE = re.compile(
    r"(?:I|I'\w+|my|we|we'\w+|our|it|it's|they|they're|he|she|the|there|this|that|that's)\b", re.IGNORECASE
)
_ONLY_BEFORE_COMMA = word_set(
    "so right sure look listen great nice cool awesome well like thanks no nope sorry wait oops correction"
)
"""Words that are lead-ins only before a comma or an exclamation mark, unlike in "So far" or "Great food"."""

_REMEMBER = re.compile(
    r"(?:please\s+)?(?:remember|note|keep\s+in\s+mind|bear\s+in\s+mind|don'?t\s+forget|do\s+not\s+forget|fyi|for\s+the\s+record|for\s+your\s+information"
    r"|please\s+know|just\s+so\s+you\s+know|save\s+this|memori[sz]e(?:\s+this)?)\b(?:\s+that\b|\s*[:,]|(?=\s+(?:i|my|we|our)\b))\s*",
    re.IGNORECASE,
)
_FEELINGS = word_set(
    """excited glad happy sorry proud thrilled stoked grateful thankful busy tired lucky hoping sad nervous sure"""
)
_WISHES = word_set("love loving hope wish miss enjoy hate prefer")
_AFTER_NOUNS = word_set("and or is was of can will has")
_DENIALS = word_set("can't cannot couldn't didn't won't haven't wouldn't")
_NOT_PAST = word_set("agreed could might must would should let set put read need cut hit ground left")
_AFTER_DOING = word_set("on to for about at in forward through up out into with from my some a an")
_UNDERTAKINGS = word_set(
    "planning preparing learning training building writing studying travelling traveling flying staying renovating "
    "organising organizing expecting"
)
"""Verbs of what a person undertakes: "Planning 9 days in Iceland"."""
_NOT_DOING = word_set("according judging depending owing compared considering regarding including")
_FINITE = re.compile(
    r"'s\b|\b(?:is|are|was|were|has|have|had|can|will|would|does|did|made|gave|felt|\w{2,}(?:ngs|kes|lps|oks|els|ves|ans|ets|eps|ows|nds|ems|rns))\b",
    re.IGNORECASE,
)
_FIRST_WORDS = re.compile(
    r"(?P<lead>(?:just|really|also|super|so|still|already|please|always|never|definitely)\s+)?(?P<first>[A-Za-z']+)(?:\s+(?P<second>[A-Za-z']+))?",
    re.IGNORECASE,
)
_ADVICE_VERBS = load_words(__package__, "advice_verbs")
_TAG_PHRASE = re.compile(
    r",? (?:as )?you (?:know|see)(?=[,.!…]|$),?|, (?:right|huh|haha+|lol)(?=[.!…]|$)", re.IGNORECASE
)
MAX_LEADS = 6
TRAITS = word_set(
    "allergic intolerant vegetarian vegan pescatarian pregnant diabetic celiac coeliac asthmatic epileptic deaf blind "
    "colourblind colorblind "
    "married single divorced widowed engaged retired unemployed left-handed lactose gluten-free teetotal"
)
"""Adjectives that describe a person, so that "Allergic to nuts" means the speaker."""
_NOT_A_TRAIT = word_set(
    "people person women woman men man food meals options menu dishes restaurants is are was has have sign room bed ticket "
    "and rooms line"
)
_NOT_OWN_TRAITS = frozenset({"gluten-free bread", "gluten-free pasta", "lactose free", "blind spot", "vegan cheese"})


_FORGOTTEN = re.compile(
    r"(?:i )?(?:should(?: have|'ve| of)(?: already)? (?:said|mentioned|added|told you)|forgot to (?:say|mention|add|tell you)"
    r"|should (?:also )?(?:add|mention|say)|(?:need|have|want) to add|haven't (?:said|mentioned))"
    r"(?: (?:that|before|earlier|already|this))*\s*[,:–-]*\s*(?=(?:i|i'\w+|my|we|we'\w+|our|the|there)\b)",
    re.IGNORECASE,
)
"""Words before something that the speaker forgot to say."""


def _strip_forgotten(sentence: str) -> str:
    forgotten = _FORGOTTEN.match(sentence)
    return sentence[forgotten.end() :] if forgotten else sentence


def strip_lead_ins(sentence: str, names: Collection[str]) -> str:
    """Remove interjections, thanks, "you know", "I forgot to say", and the name of the listener from a sentence."""
    for _ in range(MAX_LEADS):
        shorter = _strip_forgotten(_strip_name(_strip_interjection(sentence), names))
        if shorter == sentence:
            break
        sentence = shorter
    sentence = _TAG_PHRASE.sub("", sentence)
    body = sentence.rstrip(".!? ")
    before, comma, last = body.rpartition(",")
    if comma and before and last.strip().lower() in names:  # "I moved, Mel."
        return before + sentence[len(body) :].strip()
    return sentence


_NEW_VALUE = re.compile(
    r"(?:here(?:'s| is) )?(?:(?:my|our|the) )?(?P<new>new )?(?P<noun>[a-z-]+(?: [a-z-]+){0,2}?)\s*(?::|="
    r"|\s[–-])\s+(?P<value>[^\s:].*)",
    re.IGNORECASE,
)
_IS_CLAUSE = re.compile(r"(?:I|we|my|our|it|that|this|there|he|she|they)\b", re.IGNORECASE)
_OWN_DATA = word_set(
    "email e-mail mail phone number telephone mobile cell address postcode zip iban username handle birthday title diet allergies"
)
_DOWN_TO = re.compile(r"(?:now |back )?(?:down|up) to (?=\w*\d|[a-z]+ [a-z]+)", re.IGNORECASE)


def add_subject(sentence: str) -> str:
    """Add an omitted "I", "I am" or "my": "Went to Rome" becomes "I went to Rome", and "New email: …" "My new email is …"."""
    stated = _NEW_VALUE.fullmatch(sentence)
    if (
        stated
        and _IS_CLAUSE.match(stated["value"]) is None
        and (stated["new"] or stated["noun"].lower().split()[-1] in _OWN_DATA)
    ):
        return f"My {(stated['new'] or '').lower()}{stated['noun'].lower()} is {stated['value']}"
    if _DOWN_TO.match(sentence):
        return f"I am {sentence[:1].lower()}{sentence[1:]}"
    match = _FIRST_WORDS.match(sentence)
    if match is None:
        return sentence
    first, second = match["first"].lower(), (match["second"] or "").lower()
    rest = sentence[:1].lower() + sentence[1:]
    if first in TRAITS and second not in _NOT_A_TRAIT and first + " " + second not in _NOT_OWN_TRAITS:
        return f"I am {rest}"
    if first in _FEELINGS or first == "gonna" or (first, second) in (("going", "to"), ("looking", "forward")):
        return f"I am {rest}"
    if first == "been" and second not in ("a", "an", "the", "so", "too"):
        return f"I have {rest}"
    own_past = is_past(first) and first.isalpha() and first not in _NOT_PAST
    if (first in _WISHES and second not in _AFTER_NOUNS) or first in _DENIALS or own_past:
        return f"I {rest}"
    if first in _UNDERTAKINGS and _FINITE.search(sentence.partition(",")[0]) is None:
        return f"I am {rest}"
    doing = first.endswith("ing") and first not in _NOT_DOING and second in _AFTER_DOING
    return f"I am {rest}" if doing and _FINITE.search(sentence) is None else sentence


def _strip_interjection(sentence: str) -> str:
    match = _LEAD.match(sentence)
    if match is None or match.end() == len(sentence):
        return sentence
    lead = match[0].rstrip()
    leads_up = lead.lower() in ("so", "no", "nope") and _BEFORE_CLAUSE.match(sentence, match.end())
    needs_comma = lead.lower() in _ONLY_BEFORE_COMMA and not leads_up
    runs_on = lead[-1:].isalpha() and match[0][-1:].isalpha()
    return sentence if needs_comma or runs_on else sentence[match.end() :]


def _strip_name(sentence: str, names: Collection[str]) -> str:
    first, comma, rest = sentence.partition(",")
    if comma and rest.strip() and first.strip().lower() in names:
        return rest.strip()
    word, _, rest = sentence.partition(" ")
    if word[-1:] in "!.," and word[:-1].lower() in names and rest:
        return rest.strip()
    return sentence


# -- kind, subject, importance, confidence


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
            (
                rf"{_AM} (?:deaf|blind|diabetic|asthmatic|epileptic|dyslexic|autistic|an(?:a)?emic|bipolar|hypertensive"
                r"|colou?r-?blind|teetotal|widowed|celiac|coeliac|left-handed|lactose)\b"
            ),
            rf"{_AM} (?:(?:afraid|scared|terrified) of|dating|learning|studying|training for|working (?:at|for|as|in))\b",
            (
                rf"\bI{_MAYBE} take (?!(?:it|that|this|them|care|note|your|the|an?|my|up|over|back|part|time|pictures"
                r"|photos)\b)[a-z]"
            ),
            rf"{_AM} with (?-i:[A-Z])\w",
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
_HEDGED = re.compile(
    r"\b(?:I think|I guess|I suppose|maybe|perhaps|probably|might|not sure|possibly|I believe|seems?|kind of|kinda"
    r"|according to)\b",
    re.IGNORECASE,
)
_STRESSED = re.compile(
    r"\b(?:allerg\w+|important|must|cannot|can't stand|urgent|deadline|medication|diagnosed|emergency)\b",
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
    """Return the first kind whose pattern matches a sentence in the first person."""
    sentence = sentence.replace("’", "'")
    return next((kind for kind, pattern in _KINDS if pattern.search(sentence)), "statement")


def find_subject(sentence: str, speaker: str) -> str:
    """Return the person that a sentence is about: the speaker, or a relative at its beginning: "My sister Ana lives in Rome"."""
    match = _OPENS_WITH_KIN.match(sentence)
    if match is None:
        return speaker
    owner = f"{speaker}'" if speaker.endswith("s") else f"{speaker}'s"
    return f"{owner} {match['kin']}" + (f" {match['name']}" if match["name"] else "")


_ABOUT = {
    name: re.compile("|".join(rf"(?<!\w)(?:{pattern})(?!\w)" for pattern in patterns), re.IGNORECASE)
    for name, patterns in load_sections(__package__, "importance").items()
}
_IN_QUOTES = re.compile(r"\"[^\"]{1,400}\"|“[^”]{1,400}”")
VITAL = 0.95
LEAST = {"constraint": 0.75, "contact": 0.7, "need": 0.55}
"""Minimum importance of statements about a subject."""
MAX_PASSING = 0.45
_SUBJECT_SAMPLE = 600


def importance(kind: Kind, sentence: str, tone: Tone = Tone.SINCERE) -> float:
    """Return the importance of a statement by what it is about and by its kind. Health comes first."""
    sample = _IN_QUOTES.sub("", sentence[:_SUBJECT_SAMPLE])
    about = {name for name, pattern in _ABOUT.items() if pattern.search(sample)}
    stressed = 0.15 if _STRESSED.search(sentence) else 0.0
    request = 0.2 if _REQUEST.search(sentence) and kind != "instruction" else 0.0
    value = min(1.0, max(0.1, _IMPORTANCE[kind] + stressed - request))
    if "vital" in about:
        value = max(value, VITAL)
    elif kind not in ("instruction", "correction") and "passing" in about:
        value = min(value, MAX_PASSING)
    else:
        value = max([value, *(least for name, least in LEAST.items() if name in about)])
    return round(min(value, MAX_UNSURE_IMPORTANCE) if tone is Tone.UNSURE else value, 2)


def confidence(kind: Kind, sentence: str, role: str, tone: Tone = Tone.SINCERE) -> float:
    sure = 0.9 if kind in ("attribute", "relation", "instruction", "correction", "decision", "possession") else 0.8
    if _HEDGED.search(sentence):
        sure -= 0.3
    if tone is Tone.UNSURE:
        sure = min(sure, UNSURE_CONFIDENCE)
    elif tone is Tone.HEARSAY:
        sure = min(sure, HEARSAY_CONFIDENCE)
    return round(sure * _ROLE_CONFIDENCE.get(role, 1.0), 2)


_ROLE_CONFIDENCE = {"assistant": 0.7, "tool": 0.5}
