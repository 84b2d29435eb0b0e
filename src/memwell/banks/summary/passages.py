"""What may be told again: neither a secret nor what looks planted, lest a summary lend it the voice of the agent."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate, chain, islice
from typing import NamedTuple

from ...facts.rules.languages import is_question
from ...facts.rules.sentences import Sentence, split_sentences
from ...screening.screen import find_suspicion
from ...text.tokens import estimate
from .cues import asks, corrects, demerits, denials, glance, is_grave, merits, needs_question, opening
from .sentences import ASSISTANT, NOTE, Told, Words, content, cut, is_data, marks


def is_trusted(one: Told, before: str = "") -> bool:
    """Whether a sentence may be told again, which stands after another one. Only what is certain counts, whoever said it: a
    wish that is taken for a plant would be lost to whoever reads the summary."""
    if find_suspicion(one.text, "assistant") is not None:
        return False
    return not (before and _leads_to_secret(before, one.text))


def trimmed(text: str, max_tokens: int) -> str:
    """The sentences of a text that hold no secret, as many from its beginning on as there is room for."""
    pieces = list(_pieces(text, split_sentences(text), max_tokens))
    sizes = list(accumulate(map(estimate, pieces)))
    return "".join(pieces[: bisect_right(sizes, max_tokens)]).strip()


def _pieces(text: str, sentences: Sequence[Sentence], max_tokens: int) -> Iterator[str]:
    """Each sentence with the gap before it, without those that hold a secret or are too long in themselves."""
    before, end, hidden = "", 0, False
    for one in sentences:
        hidden = _goes_on(one.text) if hidden else False
        hidden = hidden or _is_secret(one.text) or _leads_to_secret(before, one.text)
        if not hidden and estimate(one.text) <= max_tokens:
            yield text[end : one.end]
        before, end = "" if hidden else one.text, one.end


def _is_secret(text: str) -> bool:
    found = find_suspicion(text, "system")
    return found is not None and found.reason == "secret"


def _leads_to_secret(before: str, text: str) -> bool:
    """Whether two sentences are a secret together: `The password is:` and what it is."""
    return any(_is_secret(f"{lead} {text}") for lead in {before, before.rstrip(":：= ")})


def _goes_on(text: str) -> bool:
    """Whether a line may belong to the secret above it, as those of a private key do."""
    return is_data(text) or " " not in text


# -- Which sentences take the place of others: those by which the same speaker corrects them, and those that say the same.
#
# Nobody loses a word by what somebody else asks, doubts or repeats: then both are kept.


SAID = 0.75
"""From which part of its words on a sentence has been said before."""
CORRECTED = 0.6
"""From which part of its words on a sentence is what a later one corrects."""
OPPOSITE = 0.75
"""From which part of all their words on two sentences of which one denies something are about the same."""


def is_corrected(earlier: Passage, later: Passage) -> bool:
    """Whether a later sentence of the same speaker says that it was wrong or has changed."""
    if later.asks or later.label != earlier.label:
        return False
    both = len(later.words & earlier.words)
    flips = later.denies != earlier.denies and both >= OPPOSITE * len(later.words | earlier.words)
    if not both or not (later.corrects or flips):
        return False
    if earlier.grave:
        return _restates(later, earlier)
    return flips or (both >= 2 and both >= CORRECTED * len(earlier.words))


def is_said(passage: Passage, chosen: Passage) -> bool:
    """Whether another one says the same, in as many words and numbers. An assistant repeats what others say; anybody else
    speaks for themselves."""
    if chosen.asks > passage.asks or passage.label not in (chosen.label, ASSISTANT):
        return False
    if passage.grave and passage.label == chosen.label and opening(passage.text) != opening(chosen.text):
        return False  # "my sister is allergic, too"
    same = passage.denies == chosen.denies and passage.marks <= chosen.words
    return same and overlap(passage, chosen) >= SAID


def overlap(passage: Passage, chosen: Passage) -> float:
    """How much of a passage another one says."""
    return len(passage.words & chosen.words) / len(passage.words) if passage.words else 0.0


def _restates(later: Passage, earlier: Passage) -> bool:
    """Whether it is plainly about the same: of the same person or thing, with all its words but for numbers and denials."""
    missing = earlier.words - later.words
    return all(map(_may_change, missing)) and opening(later.text) == opening(earlier.text)


def _may_change(word: str) -> bool:
    return not word.isalpha() or denials(word) > 0


# -- What can be said or left out by itself, and how much it matters in the whole.
#
# All sentences are weighed by their words; only the heaviest are looked at closely, so that a long story takes little time.
# Secrets and what looks planted are left out there, and the next heaviest take their place.


LIST = 1000
"""How many passages are looked at closely."""
POOL = 500
"""How many of them are weighed against each other."""
ALIKE = 5
"""How many of them may differ by their numbers only, as the lines of a log do."""
LONGEST, LONGEST_DATA = 100, 30
"""Tokens of a sentence, and of what is none."""
CENTRAL = 2.0
"""How much it counts that words are frequent; everything else is counted in the same measure."""
HEAD_START = 0.3
"""Of what an earlier summary found worth saying."""
ANSWERED = 0.1
"""Of a question with its answer."""
DATA = -1.5
CUT, DENIAL_CUT = -0.3, -0.8
"""Of a sentence whose end is cut off, and of one that loses a denial by that."""
DEPTH, DEEPEST = 0.015, 20
"""A line that goes on and on is read with less and less care."""
SMOOTH = 8
"""So many words without weight are added to every sentence, lest the shortest be the most central."""
ANSWER = 10
"""Tokens of an answer that says nothing without its question."""


class Draft(NamedTuple):
    """What may become a passage."""

    told: tuple[Told, ...]
    words: Words
    central: float
    """How much it matters, as far as its words tell."""

    @property
    def text(self) -> str:
        return " ".join(one.text for one in self.told)


class Passage(NamedTuple):
    """A sentence, or a question with its short answer, as it would be written."""

    told: tuple[Told, ...]
    words: Words
    marks: Words
    denies: bool
    corrects: bool
    asks: bool
    """Whether there is a question in it, or a guess: it mentions things rather than states them."""
    grave: bool
    """Whether it is about harm, or a wish."""
    score: float
    part: float
    """Which part of the summary it would fill."""

    @property
    def label(self) -> str:
        """Who says it; of a question with its answer, who answers."""
        return self.told[-1].label

    @property
    def text(self) -> str:
        return self.told[-1].text


def passages(sentences: Sequence[Told], max_tokens: int) -> list[Passage]:
    """Those that matter most."""
    words = [frozenset[str]() if one.data else content(one.text, one.language) for one in sentences]
    shares = _shares(sentences, words)
    drafts = (_draft(group, words, shares) for group in _groups(sentences))
    named = any(one.label for one in sentences)
    found = [
        _passage(draft, named, max_tokens) or _passage(draft._replace(told=draft.told[-1:]), named, max_tokens)
        for draft in islice(_shortlist(drafts, sentences), LIST)
    ]
    return nlargest(POOL, (one for one in found if one), key=lambda one: one.score)


def _groups(sentences: Sequence[Told]) -> Iterator[tuple[Told, ...]]:
    """Every sentence by itself, except for a question and its short answer."""
    held: Told | None = None
    for one in sentences:
        if held and _answers(one, held):
            yield (held, one)
            held = None
            continue
        if held:
            yield (held,)
        held = one
    if held:
        yield (held,)


def _answers(one: Told, question: Told) -> bool:
    """Whether it is a short answer of somebody else, right after the question."""
    follows = one.line == question.line if one.summary else one.nth == 0
    if not follows or one.label == question.label or one.data or not is_question(question.text):
        return False
    return not is_question(one.text) and estimate(one.text) <= ANSWER and needs_question(one.text, question.text)


def _shares(sentences: Sequence[Told], words: Sequence[Words]) -> defaultdict[str, float]:
    """How frequent each word is, from 0 to 1. What is only repeated counts little, and so does each sentence of many."""
    sizes = Counter(one.line for one in sentences)
    forms: defaultdict[Words, float] = defaultdict(float)
    for one in sentences:
        forms[_form(words[one.at])] += 1 / math.sqrt(sizes[one.line])
    counts = _counts(forms)
    most = math.log1p(max(counts.values(), default=1.0))
    return defaultdict(float, {word: math.log1p(count) / most for word, count in counts.items()})


def _counts(forms: Mapping[Words, float]) -> Mapping[str, float]:
    """How often each word is said, where every form of a sentence has its own number of times."""
    same: defaultdict[float, list[Words]] = defaultdict(list)
    for form, times in forms.items():
        same[round(math.log1p(times), 1)].append(form)
    counts: defaultdict[str, float] = defaultdict(float)
    for weight, group in same.items():
        for word, count in Counter(chain.from_iterable(group)).items():
            counts[word] += weight * count
    return counts


def _form(words: Words) -> Words:
    """The words without numbers."""
    return frozenset(filter(str.isalpha, words))


def _draft(group: tuple[Told, ...], words: Sequence[Words], shares: defaultdict[str, float]) -> Draft:
    own = words[group[0].at] if len(group) == 1 else frozenset(chain.from_iterable(words[one.at] for one in group))
    central = CENTRAL * math.fsum(map(shares.__getitem__, own)) / (len(own) + SMOOTH)
    last = group[-1]
    before = HEAD_START if last.summary else 0.0
    return Draft(group, own, central + before - DEPTH * min(last.nth, DEEPEST))


def _shortlist(drafts: Iterable[Draft], sentences: Sequence[Told]) -> Iterator[Draft]:
    """The most promising of those that can be trusted, each text once and few that are alike."""
    texts: set[str] = set()
    forms: Counter[Words] = Counter()
    for draft in sorted(drafts, key=_promise):
        text, form = draft.text.casefold(), _form(draft.words)
        if text in texts or forms[form] == ALIKE:
            continue
        texts.add(text)
        if all(is_trusted(one, _before(one, sentences)) for one in draft.told):
            forms[form] += 1
            yield draft


def _before(one: Told, sentences: Sequence[Told]) -> str:
    """What stands right before a sentence in its line, if that leads to it: `The code is:`, or the head of a private key."""
    before = sentences[one.at - 1]
    return before.text if one.nth and (one.data or before.text.endswith((":", "：", "="))) else ""


def _promise(draft: Draft) -> tuple[float, int]:
    return -draft.central - glance(draft.told[-1].text), draft.told[0].at


def _passage(draft: Draft, named: bool, max_tokens: int) -> Passage | None:
    """A passage cut to its length; None if nothing is left of it."""
    count = len(draft.told)
    written = [_written(one, named, (max_tokens - count + 1) // count) for one in draft.told]
    if not all(one.text for one in written):
        return None
    text = " ".join(one.text for one in written)
    missing = DENIAL_CUT if denials(draft.text) > denials(text) else CUT if text != draft.text else 0.0
    return Passage(
        told=tuple(written),
        words=draft.words,
        marks=frozenset[str]().union(*(marks(one.text, one.language) for one in written)),
        denies=denials(text) > 0,
        corrects=corrects(text),
        asks=any(asks(one.text) for one in written),
        grave=is_grave(text),
        score=draft.central + _merits(draft.told) + missing,
        part=min(1.0, estimate(text) / max_tokens),
    )


def _merits(group: tuple[Told, ...]) -> float:
    """What is said for it and against it, whatever the whole is about."""
    found = merits(" ".join(one.text for one in group), group[0].language)
    if len(group) > 1:
        return found + ANSWERED
    (one,) = group
    return DATA if one.data else found + demerits(one.text, one.language)


def _written(one: Told, named: bool, max_tokens: int) -> Told:
    label = one.label or (NOTE if named else "")
    most = min(LONGEST_DATA if one.data else LONGEST, max_tokens - (estimate(f"{label}:") if label else 0))
    return one._replace(label=label, text=cut(one.text, most))
