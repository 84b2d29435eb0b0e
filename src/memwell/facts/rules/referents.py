"""Find out who "we" are, and whom "she", "he", "it" or "they" at the beginning of a sentence mean.

`find_group` chooses between the speaker's team and family by the words around "we"; if that is unclear, "we" is quoted.
`resolve_pronoun` replaces a pronoun by the only person of the sentence before that it fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ...text.word_sets import load_sections, word_set

_GROUPS = load_sections(__package__, "groups")
_GROUP_WORDS = [(group, frozenset(words)) for group, words in _GROUPS.items()]
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
PREFIX = 4
"""Minimum length of a word of the list that may be the beginning of a longer word."""


@lru_cache(maxsize=8192)
def _group_of(word: str) -> str | None:
    """Return `team`, `family` or `others` for a word that tells who "we" are."""
    beginnings = [word[:length] for length in range(PREFIX, len(word) + 1)]
    return next((group for group, words in _GROUP_WORDS if word in words or not words.isdisjoint(beginnings)), None)


class GroupCounts:
    """Counts the words that tell who "we" are in a conversation."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_GROUPS, 0)

    def add(self, text: str) -> None:
        for group in _list_groups(text):
            self._counts[group] += 1

    def find(self, text: str) -> str | None:
        """Return `team` or `family` for "we" in a sentence; None if unclear."""
        own = _list_groups(text)
        if "others" in own or (self._counts["others"] and not own):
            return None
        ranked = [(own.count(group), self._counts[group], group) for group in ("team", "family")]
        (near, all_, _), best = sorted(ranked)
        return best[2] if best[:2] > (near, all_) else None


def _list_groups(text: str) -> list[str]:
    return [group for word in _WORD.findall(text[:2000].lower()) if (group := _group_of(word))]


# -- pronouns

_HERS = (
    "mom|mother|mum|sister|daughter|wife|girlfriend|aunt|niece|grandma|grandmother|granddaughter|mother-in-law"
    "|sister-in-law|fiancée"
)
_HIS = "dad|father|brother|son|husband|boyfriend|uncle|nephew|grandpa|grandfather|grandson|father-in-law|brother-in-law|fiancé"
_ANYBODY = (
    "partner|cousin|boss|manager|colleague|coworker|roommate|flatmate|neighbou?r|doctor|dentist|therapist|teacher|coach|mentor|friend|"
    "best friend|physio|lawyer|landlord|landlady|tutor|supervisor|trainer|accountant|assistant|nanny|cleaner|fitter"
    "|caterer|electrician|plumber|painter|roofer|gardener|mechanic|builder|carpenter|photographer|florist|vet|driver|instructor"
    "|agent|nurse|surgeon|midwife|chef|baker|tailor|editor|architect|joiner|tiler|mover|guide|barber|hairdresser|secretary"
)
_PET = "dog|cat|puppy|kitten|horse|rabbit|parrot|hamster|tortoise"
_MANY = (
    "parents|kids|children|twins|brothers|sisters|sons|daughters|friends|colleagues|grandparents|neighbou?rs|dogs"
    "|cats|customers|users|clients"
)
_ONE = re.compile(
    rf"\b(?P<noun>(?:[Mm]y|[Oo]ur|[Tt]he(?= (?:{_ANYBODY})\b)) (?:[a-z-]+ )?(?:(?P<she>{_HERS})|(?P<he>{_HIS})"
    rf"|(?P<any>{_ANYBODY})|(?P<pet>{_PET})"
    rf"|(?P<many>{_MANY}))"
    rf"(?![\w-])(?:,? (?P<name>[A-Z][\w'’-]+))?)"
)
_NAMED = re.compile(
    r"(?:^|(?<=[a-z,] ))(?P<name>[A-Z][a-zà-ÿ]+(?: [A-Z][a-zà-ÿ]+)?)(?= (?:is|was|has|works|lives|said|wants|needs|joins"
    r"|takes|comes|can|will|does)\b)"
)
_THING = re.compile(
    r"^(?:(?P<det>[Mm]y|[Oo]ur|[Tt]he) )(?P<noun>(?:[a-z][\w-]* ){0,2}?[a-z][\w-]*|[A-Z]\w+)(?= (?:is|was|has|had|runs"
    r"|lives|leaks|starts|crashes|crashed|needs|works|uses|died|broke|arrived|keeps|shows|got|weighs|costs|holds|seats|closes|opens"
    r"|comes|goes|takes|arrives|ends|expires|belongs|stands|sits|makes|weighs)\b)"
)
_PRONOUN = re.compile(
    r"(?P<subject>she|he|they|it)(?P<short>'s|'re|'ll|'ve|'d)?\b|(?P<owner>her|his|their|its)\b(?=\s+[a-z])",
    re.IGNORECASE,
)
_SHORT = {"'s": "is", "'re": "are", "'ll": "will", "'ve": "has", "'d": "would"}
_GENDERS = {
    "she": "she",
    "her": "she",
    "he": "he",
    "his": "he",
    "they": "many",
    "their": "many",
    "it": "thing",
    "its": "thing",
}
_FITS = {
    "she": ("she", "any", "pet", "name"),
    "he": ("he", "any", "pet", "name"),
    "many": ("many",),
    "thing": ("thing", "pet"),
}
_NOT_NAMES = word_set(
    "I The This That These Those It He She They We You My Our Your His Her Their There Monday Tuesday Wednesday Thursday Friday "
    "Saturday Sunday"
)
_IMPERSONAL = re.compile(
    r"it(?:'s| is| was| has been| will be)? (?:rain|snow|cold|hot|warm|late|early|dark|\d|time|possible|important|hard"
    r"|easy|difficult|nice|great|fine|ok|okay|because|been|clear|our|my|an?\b)",
    re.IGNORECASE,
)


class Referent(NamedTuple):
    noun: str
    sort: str
    """`she`, `he`, `any`, `pet`, `many`, `name` or `thing`."""


def list_referents(text: str) -> list[Referent]:
    """Return the people and things of a sentence that a pronoun of the next one may mean."""
    text = text[:600]
    found = [Referent(_uncapitalize(_add_name(match, text)), _find_sort(match)) for match in _ONE.finditer(text)]
    covered = " ".join(one.noun for one in found)
    names = [match["name"] for match in _NAMED.finditer(text)]
    found += [Referent(name, "name") for name in names if name.split()[0] not in _NOT_NAMES and name not in covered]
    if not found and (match := _THING.match(text)):
        found.append(Referent(f"{match['det'].lower()} {match['noun']}", "thing"))
    return found


_IS_NAMED = re.compile(
    r" is (?:(?:called|named) (?P<called>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)|(?P<titled>(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof"
    r"|Don|Doña|Frau|Herr|Señor|Señora"
    r"|Madame)\.? )[A-Z][\w'’-]+|[A-Z][\w'’-]+ [A-Z][\w'’-]+))(?=[,.;!]|\Z| and\b)"
)


def _add_name(match: re.Match[str], text: str) -> str:
    """Return "my caterer Doña Petra" for "my caterer is Doña Petra"."""
    named = None if match["name"] else _IS_NAMED.match(text, match.end("noun"))
    return f"{match['noun']} {named['called'] or named['titled']}" if named else match["noun"]


def _find_sort(match: re.Match[str]) -> str:
    return next(name for name in ("she", "he", "any", "pet", "many") if match[name])


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]


def resolve_pronoun(text: str, before: Iterable[str]) -> str | None:
    """Replace the pronoun that opens a sentence by what it means; None if that is unclear.

    `before`: the nearest sentence first.
    """
    match = _PRONOUN.match(text)
    if match is None or _IMPERSONAL.match(text):
        return None
    low = (match["subject"] or match["owner"]).lower()
    fitting = _FITS[_GENDERS[low]]
    for sentence in before:
        fit = list(dict.fromkeys(one for one in list_referents(sentence) if one.sort in fitting))
        if len(fit) > 1:
            return None
        if fit:
            noun = fit[0].noun
            rest = text[match.end() :]
            if match["owner"]:
                return f"{_capitalize(noun)}'{'' if noun.endswith('s') else 's'}{rest}"
            return f"{_capitalize(noun)}{' ' + _expand(match['short'], rest) if match['short'] else ''}{rest}"
    return None


def _expand(short: str, rest: str) -> str:
    """Return the verb of "she's": "has" before "got" or "been", otherwise "is"."""
    if short.lower() == "'s" and re.match(r"\s+(?:got|been|had|lived|worked)\b", rest):
        return "has"
    return _SHORT[short.lower()]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


_OBJECT = re.compile(r"\b(?:it|them)\b", re.IGNORECASE)
_MENTIONED = re.compile(
    r"\b(?P<det>the|your|an?) (?P<noun>(?:[\w-]+ )?[\w-]+)(?= (?:was|is|were|are|has|had|have|seems|looks|failed|needs)\b)",
    re.IGNORECASE,
)


def resolve_object(text: str, before: str) -> str | None:
    """Replace "it" in what an assistant did by what its sentence before is about; None if that is unclear."""
    found = _OBJECT.search(text)
    named = list(_MENTIONED.finditer(before[:600])) if found else []
    if found is None or len(named) != 1:
        return None
    det = "your" if named[0]["det"].lower() == "your" else "the"
    return f"{text[: found.start()]}{det} {named[0]['noun']}{text[found.end() :]}"
