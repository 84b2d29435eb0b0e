"""Check that a text of a language model says what its source says: nothing lost, added or inverted.

The checks are strict, because a refused text costs nothing: the candidate of the rules stands. They know English only. A text in
another language is never taken from a model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..text.word_sets import load_sections, word_set
from .rules.passages import is_english
from .wording import NUMBERS, Wording, parse_wording, stems

MIN_KEPT = 0.6
"""Share of the content words of a source that its rewording keeps."""
REACH = 3
"""Words before a part of a statement that may deny or limit it: "does not really like"."""
MAX_WORDS = 60
_MARKS = load_sections(__package__, "marks")
_DENIALS, _LIMITS = (word_set(" ".join(_MARKS[name])) for name in ("denials", "limits"))
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_JOINT = re.compile(r"\bbut\b|;")
"""Between clauses of which each has its own denial."""
_QUOTED = re.compile(r'"[^"]*"')
_CAPITAL = re.compile(r"(?<=[\w,;:'’\"] )[\"']?([A-Z][\w'’-]*)")


class Marks(NamedTuple):
    """The words of a text that its meaning hangs on."""

    denials: int
    limits: frozenset[str]
    numbers: frozenset[str]


def find_marks(words: Iterable[str]) -> Marks:
    lowered = [word.lower().replace("’", "'") for word in words]
    return Marks(
        denials=sum(word in _DENIALS or word.endswith("n't") for word in lowered),
        limits=frozenset(word for word in lowered if word in _LIMITS),
        numbers=frozenset(NUMBERS.get(word, word) for word in lowered if word in NUMBERS or word[0].isdigit()),
    )


def list_words(text: str) -> list[str]:
    return _WORD.findall(text)


def find_names(text: str) -> frozenset[str]:
    """Return the capitalised words after the first word, in lower case and without a possessive ending.

    Words such as "She", which begin a quoted sentence, are no names.
    """
    return frozenset(_strip_possessive(name.lower()) for name in _CAPITAL.findall(text) if stems(name.lower()))


def _strip_possessive(word: str) -> str:
    return re.sub(r"['’]s?$", "", word)


def rewords(text: str, source: str, speaker: str, names: Collection[str] = ()) -> bool:
    """Return True if a text says the same as its source, in words of the source.

    `names`: other names that the text may have, because a pronoun of the source may mean them.
    """
    said, words = list_words(source), list_words(text)
    if not _can_compare(text, source) or len(words) > len(said) + REACH or find_marks(words) != find_marks(said):
        return False
    new, old = parse_wording(text, speaker), parse_wording(source, speaker)
    if not _has_same_form(new, old) or not find_names(source) - _words_of(speaker) <= _words_of(text):
        return False
    mine, theirs = _content(text, speaker), _content(source, speaker)
    supported = mine - theirs <= _stems_of(names) and len(mine & theirs) >= MIN_KEPT * len(theirs)
    return supported and _keeps_order(text, source, speaker)


def splits(texts: Collection[str], source: str, speaker: str) -> bool:
    """Return True if texts are the parts of a source: each says what its words say there, and together they say all of it."""
    whole, names = find_marks(list_words(source)), find_names(source) - _words_of(speaker)
    if parse_wording(source, speaker).moods or not all(_can_compare(text, source) for text in texts):
        return False
    if (whole.denials or whole.limits) and not _JOINT.search(source):
        return False  # "does not drink and smoke": the denial may be of both parts
    marks = [find_marks(list_words(text)) for text in texts]
    sums = Marks(
        sum(one.denials for one in marks),
        frozenset[str]().union(*(one.limits for one in marks)),
        frozenset[str]().union(*(one.numbers for one in marks)),
    )
    contents = [_content(text, speaker) for text in texts]
    theirs, mine = _content(source, speaker), frozenset[str]().union(*contents)
    complete = mine <= theirs and len(mine) >= MIN_KEPT * len(theirs) and names <= _words_of(" ".join(texts))
    return sums == whole and complete and all(_is_part(text, source, speaker) for text in texts)


def covers(text: str, other: str, speaker: str) -> bool:
    """Return True if a text says all that another text says."""
    one, two = find_marks(list_words(text)), find_marks(list_words(other))
    same = (one.denials, one.limits) == (two.denials, two.limits) and two.numbers <= one.numbers
    new, old = parse_wording(text, speaker), parse_wording(other, speaker)
    return same and _has_same_form(new, old) and _content(other, speaker) <= _content(text, speaker)


def _can_compare(text: str, source: str) -> bool:
    """Return True if both texts are English, and the text is one short sentence in the third person."""
    words = list_words(text)
    if not words or len(words) > MAX_WORDS or not is_english(text) or not is_english(source):
        return False
    return _FIRST_PERSON.search(_QUOTED.sub("", text)) is None


def _has_same_form(new: Wording, old: Wording) -> bool:
    """Return True if polarity, moods, tense and roles agree. The source may have a pronoun where the text has a name."""
    same = (new.polarity, new.moods, new.past, new.suffered) == (old.polarity, old.moods, old.past, old.suffered)
    compared = [{word for word in one.words if word.startswith(">")} | one.instead for one in (new, old)]
    return same and compared[0] == compared[1] and (new.whose == old.whose or not old.whose)


def _is_part(text: str, source: str, speaker: str) -> bool:
    """Return True if the words of a text stand close together in its source, with the same denials and limits before them."""
    words = list_words(source)
    wanted = _content(text, speaker)
    found = [(number, hit) for number, word in enumerate(words) if (hit := _content(word, speaker) & wanted)]
    spans = []
    for at, (start, _) in enumerate(found):
        seen: frozenset[str] = frozenset()
        for end, hit in found[at:]:
            seen |= hit
            if seen == wanted:
                spans.append((end - start, start, end))
                break
    if not spans:
        return False
    _, start, end = min(spans)
    reach = max(0, start - REACH)
    while "but" in words[reach:start]:
        reach += 1
    same = find_marks(words[reach : end + 1])[:2] == find_marks(list_words(text))[:2]
    return same and _keeps_order(text, source, speaker)


def _keeps_order(text: str, source: str, speaker: str) -> bool:
    """Return True if the words of a text come in the order of its source, so that "Ana hired Tom" is not "Tom hired Ana"."""
    own = _stems_of([speaker])
    known = [stem for stem in stems(source) if stem not in own]
    rest = iter(known)
    return all(any(stem == other for other in rest) for stem in stems(text) if stem in known)


def _content(text: str, speaker: str) -> frozenset[str]:
    """Return the stems of the content words, without the speaker's name and words for reporting."""
    return frozenset(stems(text)) - _stems_of([speaker]) - _REPORTING


def _stems_of(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(stems(" ".join(texts)))


def _words_of(text: str) -> frozenset[str]:
    return frozenset(_strip_possessive(word.lower()) for word in list_words(text))


_REPORTING = frozenset(stems("said says wrote asked user"))
