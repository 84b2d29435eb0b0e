"""People whom statements are about.

A name tells whose statement it is and nothing about what it says. Sentence models let a name outweigh the rest, so a query is
embedded with `someone` in the place of names, and statements that do not name the person lose a part of their score instead.
"""

from __future__ import annotations

import re

MAX_PEOPLE = 8
MAX_TEXT = 4000
SOMEONE = "someone"
SHORTEST_REST = 8

_NAME = r"[A-Z][^\W\d_]+(?:-[A-Z][^\W\d_]+)?"
_START = re.compile(
    rf"(?:^|(?<=[.!?]\s))(?P<name>{_NAME})(?P<family>(?:\s{_NAME}){{0,2}})(?P<own>['’]s)?"
    rf"(?:\sand\s(?P<other>{_NAME}))?\s+(?P<next>[^\W\d_]+(?:['’]\w+)?)(?:\s+(?P<after>[^\W\d_]+))?"
)
_USER = re.compile(r"^[Tt]he user(?:['’]s)?\s+(?=\w)")


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS = _list_words(
    """is was has had can can't cannot could will won't would does doesn't did didn't isn't wasn't hasn't must should used also
always never often only now no still currently recently just really"""
)
_PERSONAL_VERBS = _list_words(
    """lives works likes loves hates dislikes prefers wants needs plays speaks drinks eats teaches studies moved married said says
told thinks believes wears drives enjoys avoids met got went grew joined quit bought sold visited adopted"""
)
_PLURAL_VERBS = _list_words(
    """is are was were do have must should can could will would may might of apply arrive become begin belong bring carry come
contain depend exist expire fail follow get give go grow happen include keep live lose meet need provide receive remain
require run send stay take weigh"""
)
"""Verbs after a plural, as in `Access tokens live for an hour`."""
_NO_NAMES = _list_words(
    """the this that these those there here it he she they we you i my our your his her their its all some many most every each no
never always please what who when where why how if after before since while today tomorrow yesterday one two three new old
good bad and but or so then now also only both either neither such same other another monday tuesday wednesday thursday
friday saturday sunday january february march april may june july august september october november december user users
customer customers client clients team project product production everyone everybody someone nobody nothing everything
something anyone dinner lunch breakfast work home"""
)
_NOUN_ENDINGS = ("ing", "ly", "tion", "ment", "ness", "ture", "ity", "ive", "al", "ic", "ed", "er")


def find_people(text: str) -> list[str]:
    """Return the words of the names of people that sentences of an English text are about, as far as the grammar shows it."""
    found: dict[str, None] = {}
    for match in _START.finditer(text[:MAX_TEXT]):
        if _is_person(match):
            found.update(dict.fromkeys([match["name"], *match["family"].split(), *filter(None, [match["other"]])]))
        if len(found) >= MAX_PEOPLE:
            break
    return list(found)[:MAX_PEOPLE]


def remove_subject(text: str) -> str:
    """Return a statement without its subject, if that is the user or a person; otherwise the text."""
    user = _USER.match(text)
    if user is not None:
        rest = text[user.end() :]
    else:
        match = _START.match(text)
        rest = text[match.start("next") :] if match is not None and _is_person(match) else text
    return rest if len(rest) >= SHORTEST_REST else text


def _is_person(match: re.Match[str]) -> bool:
    """Tell `Bob plays` from `Feature flags`: a verb follows the name, or something that the person has."""
    name, following, after = match["name"].lower(), match["next"].lower(), (match["after"] or "").lower()
    if name in _NO_NAMES:
        return False
    if following in _PERSONAL_VERBS:
        return True
    if name.endswith(_NOUN_ENDINGS):
        return False
    if match["own"] or following in _VERBS:
        return True
    return following.endswith("s") and not following.endswith("ss") and after not in _PLURAL_VERBS
