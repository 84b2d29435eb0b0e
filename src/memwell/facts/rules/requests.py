"""Recognise and phrase requests to the agent: "Use tabs, not spaces", "short answers please", "no messages after 9 pm".

A request is kept if it is meant to last. A command for once ("Run the tests") is not.
"""

from __future__ import annotations

import re

from ...text.word_sets import load_sections, word_set
from .phrase import PLAIN, Scene, Speaker, resolve_dates, strip_quotation_marks, third_person

_WORDS = load_sections(__package__, "requests")
VERBS = frozenset(_WORDS["verbs"])
"""Verbs of what an agent can do for somebody, in their base form."""
_STYLE = "|".join(_WORDS["style"])
_PLEASE = r"(?:please|pls|plz|kindly)"
_POLITE = re.compile(rf"\b{_PLEASE}\b", re.IGNORECASE)
_STRIPPED = re.compile(
    rf"^(?:(?:{_PLEASE}|and|also|but|just|so|then|ok|okay|next time|for next time)\b[\s,:]*)+|[\s,]*\b(?:{_PLEASE}|thanks"
    rf"|thank you|ok)(?=\W*$)"
    rf"|(?<=\w)[\s,]+{_PLEASE}\b(?=[\s,])",
    re.IGNORECASE,
)
_OLD_FORMS = re.compile(
    r"""(?:please,?\s+|and\s+)?(?:(?:from\s+now\s+on|going\s+forward|in\s+(?:the\s+)?future)\b.+
    |(?:always|never(?!\s+mind))\s+[a-z]+\s.+|(?:whenever|every\s+time|each\s+time)\s+(?:i|you)\b.+
    |(?:call|address)\s+me\s+(?!back|later|when|if|tomorrow|tonight).+
    |(?:answer|reply|respond|speak|talk)\b.{0,30}?\b(?:in|with|like|as|only|briefly|shortly|concisely)\b.*
    |keep\s+(?:your|the|all|it)\b.*\b(?:short|brief|concise|simple|answers?|replies|responses|formal|informal)\b.*
    |use\s+(?:only\s+)?(?:metric|imperial|celsius|fahrenheit|british|american|emojis?|markdown|bullet|plain|simple|formal|informal|my)\b.*
    |remember\s+to\s.+|be\s+(?:more\s+|less\s+)?(?:brief|concise|formal|informal|direct|polite|honest|specific)\b.*
    |i(?:\s+want|\s+need|'d\s+like|\s+would\s+like|\s+prefer)\s+you\s+to\s+(?:always|never|only|not|stop|call|answer|use|keep|be|speak|remember)\b.*
    |you\s+(?:should|must|can)\s+(?:always|never|only)\b.+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_DENIED = re.compile(
    r"(?P<no>don't|dont|do not|never|stop|avoid)\s+(?:ever\s+)?(?P<rest>(?P<verb>[a-z-]+)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_NOT_DENIED = word_set(
    "worry mind know think forget care get bother be matter have want need like understand remember see"
)
_LASTING = re.compile(
    r"\b(?:always|never|only|every|everywhere|anywhere|each|when|whenever|if|unless|instead of|rather than|by default"
    r"|any ?more|until|after|before|from now on|"
    r"going forward|at (?:night|weekends)|on (?:mon|tues|wednes|thurs|fri|satur|sun)days?|the \d{1,2}(?:st|nd|rd|th))\b"
    r"|, not\b|\bnot \S+$",
    re.IGNORECASE,
)
_OPENS_WITH_NO = re.compile(r"(?:no|zero)\s+(?:more\s+)?[a-z]", re.IGNORECASE)
_LIMITED = re.compile(
    r"\b(?:anywhere|ever|at all|on (?:week|mon|tues|wednes|thurs|fri|satur|sun)\w*|at (?:night|weekends)|(?:after|before"
    r"|until|between) (?:\d|noon|midnight)"
    r"|in (?:your|the) (?:answers?|replies|suggestions|responses|code|messages|commits?|text|output))\b",
    re.IGNORECASE,
)
_NEVER_ELSE = re.compile(r"^[^,;]{1,60}(?:,| and) (?:never|not) [^,;]{1,40}(?:[,;]|$)", re.IGNORECASE)
_STYLE_NOUN = re.compile(rf"\b(?:{_STYLE})\b", re.IGNORECASE)
_IS = re.compile(
    r"^\w+\s+(?:(?!when\b|if\b|what|that\b|which|until\b|before\b|after\b|where)\S+\s+){0,3}(?:is|are|was|were|has|have|isn't|aren't|hasn't|had|will|can|cannot|can't)\b",
    re.IGNORECASE,
)
_FIRST = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
_YOU = re.compile(r"\byou\b|\byou'", re.IGNORECASE)
_YOUR = re.compile(r"\byour\b", re.IGNORECASE)
_SUBJECT = re.compile(
    r"^(?:I|we|he|she|it|they|you|this|that|there|my|our|his|her|their)\b(?!\s+(?:want|need|would like|prefer) you\b)",
    re.IGNORECASE,
)
_OPENS_WITH_TIME = re.compile(r"(?:from now on|going forward|in (?:the )?future)\b[\s,:]*", re.IGNORECASE)
MAX_REQUEST = 300
MIN_NOUN_WORDS = 2
MAX_NOUN_WORDS = 12


def is_request(text: str) -> bool:
    """Return True if a sentence asks the agent for something that is to last."""
    text = text.strip().replace("’", "'")
    if len(text) > MAX_REQUEST:
        return False
    if _OLD_FORMS.fullmatch(text):
        return True
    polite = _POLITE.search(text) is not None
    words = _strip(text)
    if not words or _SUBJECT.match(words):
        return False
    denied = _DENIED.fullmatch(words)
    if denied:
        if denied["no"].lower() in ("stop", "avoid"):
            return _is_doing(denied["verb"].lower())
        return denied["verb"].lower() not in _NOT_DENIED and (
            denied["no"].lower() != "never" or _is_verb(denied["verb"])
        )
    if _OPENS_WITH_NO.match(words):
        return polite or (_LIMITED.search(words) is not None and _IS.match(words) is None)
    first = _FIRST.match(words)
    if first is None:
        return False
    if first[0].lower() in VERBS and not _IS.match(words):
        return _LASTING.search(words) is not None or (
            _STYLE_NOUN.search(words) is not None and first[0].lower() in _OF_STYLE
        )
    if _IS.match(words) or first[0].lower() in VERBS:
        return False
    short = MIN_NOUN_WORDS <= len(words.split()) <= MAX_NOUN_WORDS
    if short and _STYLE_NOUN.search(words) and (polite or re.search(r"\bonly\b", words, re.IGNORECASE)):
        return True
    return (
        _NEVER_ELSE.match(words) is not None
        and re.search(r"\b(?:everywhere|always|never)\b", words, re.IGNORECASE) is not None
    )


def is_command(text: str) -> bool:
    """Return True if a sentence asks the agent to do something once: "Please cancel my order"."""
    words = _strip(text.strip().replace("’", "'")[:MAX_REQUEST])
    first = _FIRST.match(words)
    if first is None or _SUBJECT.match(words) or _IS.match(words):
        return False
    return first[0].lower() in VERBS or first[0].lower() in _ONCE


_ONCE = word_set(
    "cancel delete remove fix find get help look bring draft create generate build quiz try play pull push commit deploy "
    "merge reopen rename refund"
)
_OF_STYLE = word_set("use keep answer reply write format give show speak talk respond explain make send")


def _strip(text: str) -> str:
    """Remove "please" and words that only introduce a request."""
    return _STRIPPED.sub("", text.strip().rstrip(".!… ")).strip(" ,")


def _is_doing(word: str) -> bool:
    """Return True for "using" and "calling"."""
    stem = word.removesuffix("ing")
    return stem != word and not VERBS.isdisjoint((stem, f"{stem}e", stem[:-1]))


def _is_verb(word: str) -> bool:
    return word.lower() in VERBS or word.lower() in PLAIN


def phrase_request(text: str, scene: Scene) -> str:
    """Return `Ana wants the assistant to use tabs, not spaces.`, or a quotation if that is not safe."""
    who = Speaker(scene.who.name, "the assistant")
    text = text.replace("’", "'")
    words = _strip(text)
    opening = _OPENS_WITH_TIME.match(words)
    wish = _to_wish(words[opening.end() :] if opening else words)
    if wish and wish.startswith("I want the assistant"):
        wish = _YOUR.sub("its", wish)
    if wish is None or _YOU.search(wish.replace("I want you", "")):
        words = strip_quotation_marks(text)
        return f'{who.name} wants: "{words[:1].upper()}{words[1:].rstrip("!. ")}."'
    return third_person(resolve_dates(wish, scene.today).text, who) + "."


def _to_wish(words: str) -> str | None:
    """Return a request as a sentence of its speaker: "I want the assistant to …"; None if its form is unknown."""
    denied = _DENIED.fullmatch(words)
    if denied and denied["no"].lower() in ("stop", "avoid"):
        return (
            f"I want the assistant to {denied['no'].lower()} {denied['rest']}"
            if denied["verb"].endswith("ing")
            else f"I want no {denied['rest']}"
        )
    if denied:
        never = "never" if denied["no"].lower() == "never" else "not"
        return f"I want the assistant {never} to {_uncapitalize(denied['rest'])}"
    first, _, rest = words.partition(" ")
    low = first.lower()
    if low == "always" and _is_verb(rest.split(" ")[0]):
        return f"I want the assistant always to {rest}"
    if low in VERBS or low in ("remember", "be", "keep"):
        return f"I want the assistant to {_uncapitalize(words)}"
    if low in ("whenever", "every", "each", "you", "i", "never", "if", "when"):
        return None
    return f"I want {_uncapitalize(words) if low in ('no', 'only', 'short', 'zero') else words}"


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]
