"""The words of a fact: in the third person where that is safe, in quotation marks where it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from ...text.word_sets import word_set
from .dates import Dated, dated, spoken
from .parse import Statement
from .wording import Speaker, inside, plain, quoted, third_person

_OPENS_UNCLEAR = re.compile(
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


def phrased(group: Sequence[Statement], scene: Scene) -> Phrase:
    """One sentence for statements that belong together."""
    who, today = scene.who, scene.today
    if not all(one.english for one in group):
        return Phrase(quoted(" ".join(one.text for one in group), who.name))
    told = [dated(_bare(one.text), today) for one in group]
    since = next((one.since for one in told if one.since), None)
    said = any(one.own for one in group) or scene.impersonal or _are_dated(group, told)
    if not said or not _is_safe(group, who):
        return Phrase(_quoted(group, told, scene), since, bool(_context(group, scene)))
    text = third_person("".join([told[0].text, *(_continued(one.text) for one in told[1:])]), who)
    if not any(one.own for one in group) and not scene.impersonal:
        text = f"According to {inside(who.name)}: {_capitalised(text)}"
    return Phrase(_closed(text), since)


def shown(what: str, who: Speaker) -> str:
    """`Caroline shared a photo of a dog.`"""
    return _closed(f"{who.name} shared {what}")


def _is_safe(group: Sequence[Statement], who: Speaker) -> bool:
    """Whether the sentence can be reworded: it says whom or what it is about, and "you" is somebody."""
    if _OPENS_UNCLEAR.match(group[0].text):
        return False
    if not any(one.to_other for one in group):
        return True
    return who.addressee is not None and all(one.own for one in group if one.to_other)


def _quoted(group: Sequence[Statement], told: Sequence[Dated], scene: Scene) -> str:
    """The words as they were said; if they tell a day relative to the day they were said on, with that day."""
    name = scene.who.name
    context = [f"on {spoken(scene.today)}"] if _are_dated(group, told) else []
    context += [_context(group, scene)] if _context(group, scene) else []
    text = " ".join(_capitalised(one.text) for one in group)
    return quoted(text, _capitalised(", ".join([*context, inside(name)])) if context else name)


def _context(group: Sequence[Statement], scene: Scene) -> str:
    """The question that a statement answers, if it takes one to understand what it points to."""
    if not scene.asked or not group[0].dangling or len(scene.asked.split()) > MAX_QUESTION_WORDS:
        return ""
    return f'asked "{plain(scene.asked)}"'


def _are_dated(group: Sequence[Statement], told: Sequence[Dated]) -> bool:
    return any(one.text != _bare(statement.text) for one, statement in zip(told, group, strict=True))


def _bare(text: str) -> str:
    return text.strip().rstrip(".!… ")


def _continued(text: str) -> str:
    """What goes on after a semicolon, or after a full stop if it may begin with a name."""
    if text.startswith(("I ", "I'")) or _uncapitalised(text) != text or text[:1].islower():
        return f"; {_uncapitalised(text)}"
    return f". {text}"


def _uncapitalised(text: str) -> str:
    """With a small letter, unless the first word is a name or an abbreviation; of names only the pronouns are known not to be."""
    first = re.match(r"[A-Z][a-z']*(?=\s)", text)
    return text[:1].lower() + text[1:] if first and first[0].lower() in _SMALL else text


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _closed(text: str) -> str:
    text = _capitalised(" ".join(text.split()).strip(" ,;-–—"))
    return text if text.endswith((".", "!", "?", '."', '!"', '?"')) else text + "."


_SMALL = word_set(
    """a an the it it's its that that's this these those they they're he she his her their there here when while if as
at in on for from to by with and but so some all every each no not yes since after before because most many both
our my your being having getting seeing taking going making"""
)
