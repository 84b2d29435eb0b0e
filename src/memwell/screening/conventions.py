"""Ordinary agreements that resemble planted rules: where somebody wants their post, and how a team works.

"Please use b@y.example from now on" and "All our models start with fct_" bind the future, as planted rules do. But they concern
an address, or files and meetings, and no rights, rules, money or secrets. Only what a user says is judged here: a page or a tool
has no agreement with anybody.
"""

from __future__ import annotations

import re

from ..text.word_sets import load_sections

_WORDS = {name: frozenset(words) for name, words in load_sections(__package__, "working_words").items()}
_LONGEST = 200
"""Characters of an agreement. A longer text says more than that."""
_MAIL = r"[\w.+-]{1,60}@[\w-]{1,40}(?:\.[\w-]{1,20}){1,4}"
_ADDRESS = re.compile(_MAIL)
_PHONE = r"\+?\d[\d ()/.-]{5,18}\d"
_STREET = (
    r"(?:\d{1,4} (?:[a-z'’]{1,20} ){1,3}|[a-zäöüß]{3,20}(?:straße|strasse|weg|platz|allee|gasse) \d{1,4}|p\.?o\.? box )"
)
_SOON = (
    r"(?:please|kindly|from (?:now|today|here) on|from today|as of \w{1,10}|going forward|in future|for now|also|only|just"
    r"|instead|always|henceforth|and|ok|okay|hi|hello|you can|could you|can you)"
)
_CHANGE = re.compile(
    rf"\W*(?:{_SOON}\b[, ]{{1,2}}){{0,4}}"
    rf"(?:(?:use|reply to|answer|respond to|send|e?-?mail|contact|reach|call|text|ring|address)\b|write(?: me| us)?\b"
    rf"|(?:the |our |my |all my |all our )?(?:[\w-]{{1,20}} ){{1,2}}(?:should |must |can |please |have to |need to )?(?:now )?"
    rf"(?:go|come|be sent|be addressed) (?:now )?to\b)"
    rf"[^.;\n]{{0,50}}?(?:{_MAIL}|{_PHONE}|{_STREET})"
)
_SITE = re.compile(
    r"https?:|www\.|\w\(|\b[\w-]{2,40}\.(?:com|net|org|io|example|ru|cn|info|biz|xyz|co|app|dev|shop|site)\b"
)
_FORWARDS = re.compile(r"\b(?:every|each|any|copy|copies|cc|bcc|forward|share|whole|contents?|conversations?|chats?)\b")
_AGENT = re.compile(r"\b(?:you|your|yours|yourself)\b")
_BEFORE_WORK = re.compile(
    r"\bask (?:me |us |first )?before you\b|\bbefore (?:you|we|i|every|each|a|the) (?:push|commit|merge|release|deploy)\b"
)
_OURS = re.compile(r"\W*(?:every|all|each|in|at|our|we|the|new)\b(?=.*\b(?:our|ours|we)\b)")
_SERVED = frozenset({"customer", "customers", "client", "clients", "user", "users"})
_ANSWERS = frozenset({"answer", "reply", "respond"})
_SHOWN = frozenset({"price", "prices", "fee", "fees", "answer", "answers", "reply", "replies"})
_FOR_ME = re.compile(
    r"^\W*(?:please |always |never |only |from now on,? ){0,3}(?:show|list|write|spell|print|sort|format|translate"
    r"|convert|explain)\b.*\bfor me\b"
)
_WORD = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")


def is_agreement(sentence: str) -> bool:
    """Return True for a sentence of a user that only says where to write or how a team works."""
    if len(sentence) > _LONGEST:
        return False
    lowered = sentence.lower()
    plain = _ADDRESS.sub(" ", lowered)
    words = frozenset(_WORD.findall(plain))
    grave = words & _WORDS["grave"]
    if grave <= _ANSWERS and _CHANGE.match(lowered):
        return _SITE.search(plain) is None and _FORWARDS.search(plain) is None
    if grave <= _SHOWN and _FOR_ME.search(plain):
        return _SITE.search(plain) is None
    if _SITE.search(plain):
        return False
    if grave:
        return grave <= _SERVED and _OURS.match(plain) is not None and _AGENT.search(plain) is None
    if _BEFORE_WORK.search(plain):
        return True
    return plain == lowered and not _WORDS["craft"].isdisjoint(words) and _AGENT.search(plain) is None
