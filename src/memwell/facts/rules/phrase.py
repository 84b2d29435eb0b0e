"""The words of a fact: in the third person where that is safe, in quotation marks where it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from ...text.word_sets import word_set
from .dates import DatedText, render_day, resolve_dates
from .parse import Statement
from .wording import Speaker, inside_sentence, quote_speaker, strip_quotation_marks, third_person

_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its)(?:'[a-z]+)?\b", re.IGNORECASE
)
MAX_QUESTION_WORDS = 12


class Phrase(NamedTuple):
    text: str
    since: date | None = None
    answers: bool = False
    """Whether it quotes the question that it answers."""


class Scene(NamedTuple):
    """Where something was said."""

    who: Speaker
    today: date
    asked: str = ""
    """The question that it answers, if it does."""
    impersonal: bool = False
    """Whether it does not matter who says it."""


def phrase_group(group: Sequence[Statement], scene: Scene) -> Phrase:
    """One sentence for statements that belong together."""
    who, today = scene.who, scene.today
    if not all(one.english for one in group):
        return Phrase(quote_speaker(" ".join(one.text for one in group), who.name))
    told = [resolve_dates(_strip_end(one.text), today) for one in group]
    since = next((one.since for one in told if one.since), None)
    said = any(one.own for one in group) or scene.impersonal or _has_relative_date(group, told)
    if not said or not _is_safe(group, who):
        return Phrase(_quote_group(group, told, scene), since, bool(_render_question(group, scene)))
    text = third_person("".join([told[0].text, *(_join_next(one.text) for one in told[1:])]), who)
    if not any(one.own for one in group) and not scene.impersonal:
        text = f"According to {inside_sentence(who.name)}: {_capitalize(text)}"
    return Phrase(_end_sentence(text), since)


def phrase_attachment(what: str, who: Speaker) -> str:
    """`Caroline shared a photo of a dog.`"""
    return _end_sentence(f"{who.name} shared {what}")


def _is_safe(group: Sequence[Statement], who: Speaker) -> bool:
    """Whether the sentence can be reworded: it says whom or what it is about, and "you" is somebody."""
    if _OPENS_WITH_PRONOUN.match(group[0].text):
        return False
    if not any(one.to_other for one in group):
        return True
    return who.addressee is not None and all(one.own for one in group if one.to_other)


def _quote_group(group: Sequence[Statement], told: Sequence[DatedText], scene: Scene) -> str:
    """The words as they were said; if they tell a day relative to the day they were said on, with that day."""
    name = scene.who.name
    context = [f"on {render_day(scene.today)}"] if _has_relative_date(group, told) else []
    context += [_render_question(group, scene)] if _render_question(group, scene) else []
    text = " ".join(_capitalize(one.text) for one in group)
    return quote_speaker(text, _capitalize(", ".join([*context, inside_sentence(name)])) if context else name)


def _render_question(group: Sequence[Statement], scene: Scene) -> str:
    """The question that a statement answers, if it takes one to understand what it points to."""
    if not scene.asked or not group[0].dangling or len(scene.asked.split()) > MAX_QUESTION_WORDS:
        return ""
    return f'asked "{strip_quotation_marks(scene.asked)}"'


def _has_relative_date(group: Sequence[Statement], told: Sequence[DatedText]) -> bool:
    return any(one.text != _strip_end(statement.text) for one, statement in zip(told, group, strict=True))


def _strip_end(text: str) -> str:
    return text.strip().rstrip(".!… ")


def _join_next(text: str) -> str:
    """What goes on after a semicolon, or after a full stop if it may begin with a name."""
    if text.startswith(("I ", "I'")) or _uncapitalize(text) != text or text[:1].islower():
        return f"; {_uncapitalize(text)}"
    return f". {text}"


def _uncapitalize(text: str) -> str:
    """With a small letter, unless the first word is a name or an abbreviation; of names only the pronouns are known not to be."""
    first = re.match(r"[A-Z][a-z']*(?=\s)", text)
    return text[:1].lower() + text[1:] if first and first[0].lower() in _SMALL else text


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _end_sentence(text: str) -> str:
    text = _capitalize(" ".join(text.split()).strip(" ,;-–—"))
    return text if text.endswith((".", "!", "?", '."', '!"', '?"')) else text + "."


_SMALL = word_set(
    """a an the it it's its that that's this these those they they're he she his her their there here when while if as
at in on for from to by with and but so some all every each no not yes since after before because most many both
our my your being having getting seeing taking going making"""
)
