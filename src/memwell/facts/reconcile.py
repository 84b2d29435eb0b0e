"""Decide what becomes of a candidate beside known facts: it is added, confirms a fact, supersedes some, or is left out.

The order is: the same words, then the same slot (see `statement`), then similarity. Vectors of short texts are near each other
whenever their subject matter is, so similarity alone never decides: the content words have to be nearly the same, and
numbers, names, denial and mood have to agree. To keep two facts apart that are one costs a line; to merge two that differ
loses one of them: in doubt a statement is added. Nothing is ever decided across subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

from .plan import Action, Candidate, KnownFact
from .statement import ParsedStatement, Topic, Wording, is_country, parse_statement, subject_person

MIN_SIMILARITY = 0.6
"""Similarity of two statements of which one says all that the other says and little more."""
MIN_SHARED = 0.6
"""Share of all their content words that they have in common then."""
HIGH_SIMILARITY = 0.8
"""Similarity of two statements that each have a word of their own, which are but forms of each other."""
FORM_PREFIX = 5
"""Letters at the beginning that make two words forms of each other."""
MAX_EXTRA_WORDS = 2
"""Words that a statement about the same slot with the same value may add and say the same."""
MAX_TAIL_WORDS = 5
"""Words of reason or consequence that it may add besides."""
MIN_CORRECTION_OVERLAP = 0.5
"""Share of a correction's words that are in what it corrects."""
USE_VERBS = frozenset({"drive", "play", "take", "use", "wear", "work", "read", "eat", "drink"})
"""Verbs of having something in use, which need not be repeated to say that it was replaced."""
DATE_SLOTS = frozenset({"birthday", "day", "hour", "trip"})
"""Slots whose values are times: that a time is given says nothing about how long it is so."""
MEASURED_SLOTS = DATE_SLOTS | {"age", "amount"}
"""Slots whose value today is the value."""
UNREAL_MOODS = frozenset({"if", "maybe", "report"})
"""Moods in which nothing is said that could end something."""
OPPOSITES = {"like": "hate", "hate": "like"}
CONFIRMATION_WEIGHT = 0.5
"""Share of its confidence that another statement adds to the same one."""
MAX_CONFIDENCE = 0.99


class Decision(NamedTuple):
    """The decision about a candidate. The reason is a code without any of its words."""

    do: Action
    reason: str
    targets: tuple[str, ...] = ()
    """The fact that it is merged into, or those that it supersedes."""
    past: bool = False
    """It is added as something that was true once: what is known about it was said later."""
    fuller: bool = False
    """It is merged, and says more than the fact does, so that its wording is the better one."""


class _Neighbour(NamedTuple):
    known: KnownFact
    read: ParsedStatement


def reconcile(
    candidate: Candidate,
    neighbours: Sequence[KnownFact],
    day: date,
    *,
    repeats: bool = False,
    parse: Callable[[str, str | None], ParsedStatement] = parse_statement,
) -> Decision:
    """Decide about a candidate that was said on a day, by what is known of the same subject and is current.

    `repeats`: an assistant said it, which is shown what is known. That can be new, but neither confirms nor retires anything.
    `parse`: `parse_statement` with a cache, for many candidates with the same neighbours.
    """
    new = parse(candidate.text, candidate.subject)
    if not new.wording.words | new.wording.numbers | new.wording.tail:
        return Decision("skip", "says_nothing")
    others = [
        _Neighbour(known, parse(known.text, known.subject))
        for known in neighbours
        if _is_same_subject(known, candidate)
    ]
    others = [other for other in others if _is_related(new, other.read)]
    same = _find_same(new, others)
    if same:
        return Decision("skip", "echo") if repeats else same
    if candidate.subject is None:
        return Decision("add", "new")
    retired = _find_superseded(candidate, new, others)
    if repeats and retired:
        return Decision("skip", "echo")
    later = [(other.known.id, reason) for other, reason in retired if other.known.day > day]
    if later:
        return Decision("add", f"older_than_known:{later[0][1]}", tuple(known for known, _ in later), past=True)
    if retired:
        targets = tuple(other.known.id for other, _ in retired)
        return Decision("supersede", f"later_statement_about:{retired[0][1]}", targets)
    return Decision("add", "new")


def combine_confidence(confidence: float, more: float) -> float:
    """The confidence in what has been said once more. Each time adds less; nothing becomes certain by repetition."""
    return max(confidence, min(MAX_CONFIDENCE, confidence + (1 - confidence) * more * CONFIRMATION_WEIGHT))


def _is_same_subject(known: KnownFact, candidate: Candidate) -> bool:
    """Return True if both are about the same subject, or both about none."""
    if known.subject is None or candidate.subject is None:
        return known.subject is candidate.subject
    return subject_person(known.subject) == subject_person(candidate.subject)


def _is_related(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if there is anything to compare: a word in common, or two topics."""
    one, two = new.wording, old.wording
    mine, theirs = one.words | one.numbers | one.tail | one.instead, two.words | two.numbers | two.tail
    return bool(new.topics and old.topics) or not mine.isdisjoint(theirs)


# -- the same


def _find_same(new: ParsedStatement, others: Sequence[_Neighbour]) -> Decision | None:
    """The fact that says the same, if there is one."""
    ranked = sorted(others, key=lambda other: -other.known.similarity)
    for other in ranked:
        if other.read.key == new.key:
            return Decision("merge", "same_words", (other.known.id,))
    for other in ranked:
        reason = _same_meaning_reason(new, other.read, other.known.similarity)
        if reason:
            one, two = new.wording, other.read.wording
            mine, theirs = one.words | one.tail | one.numbers, two.words | two.tail | two.numbers
            fuller = mine > theirs or len(one.tail) > len(two.tail)
            return Decision("merge", reason, (other.known.id,), fuller=fuller)
    return None


def _same_meaning_reason(new: ParsedStatement, old: ParsedStatement, similarity: float) -> str | None:
    if _has_same_topics(new, old):
        return f"same_value_of:{new.topics[0].name}"
    one, two = new.wording, old.wording
    if not _has_same_marks(one, two) or any(_has_other_value(a, b) for a in new.topics for b in old.topics):
        return None
    return "same_meaning" if _has_enough_overlap(one, two, similarity) else None


def _has_same_topics(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if both give the same slots the same values and say little else."""
    few, many = sorted((new.topics, old.topics), key=len)
    one, two = new.wording, old.wording
    if not few or not all(any(_is_same_topic(a, b) for b in many) for a in few):
        return False
    if not (one.numbers <= two.numbers or two.numbers <= one.numbers) or one.moods != two.moods:
        return False
    inner, outer = sorted((new.rest, old.rest), key=len)
    if not inner <= outer or len(outer) - len(inner) > MAX_EXTRA_WORDS or (one.names | two.names) & (inner ^ outer):
        return False
    remarks = one.tail ^ two.tail
    has_digits = any(word[0].isdigit() for word in remarks)
    return len(remarks) <= MAX_TAIL_WORDS and not has_digits and not (one.tail and two.tail and remarks)


def _is_same_topic(one: Topic, two: Topic) -> bool:
    return _is_same_slot(one, two) and one.polarity == two.polarity and one.value == two.value


def _has_same_marks(one: Wording, two: Wording) -> bool:
    """Return True if polarity, mood, tense, numbers and names agree."""
    if (one.polarity, one.moods, one.past, one.suffered) != (two.polarity, two.moods, two.past, two.suffered):
        return False
    # a year may be left out where the rest of a date is given
    apart = one.numbers ^ two.numbers
    same_numbers = not apart or (len(apart) == 1 and bool(one.numbers & two.numbers) and all(map(_is_year, apart)))
    return same_numbers and one.names <= two.words and two.names <= one.words


def _is_year(number: str) -> bool:
    return len(number) == 4 and number.isdigit() and number[:2] in ("19", "20")


def _has_enough_overlap(one: Wording, two: Wording, similarity: float) -> bool:
    mine, theirs = one.words | one.tail, two.words | two.tail
    shared, left, right = mine & theirs, mine - theirs, theirs - mine
    if not shared or len(shared) < MIN_SHARED * len(mine | theirs):
        return len(shared) > 1 and _is_same_root(left, right) and similarity >= HIGH_SIMILARITY
    return similarity >= MIN_SIMILARITY and (not left or not right or _is_same_root(left, right))


def _is_same_root(left: frozenset[str], right: frozenset[str]) -> bool:
    """Return True if each has one word of its own, and they are forms of one word: biology, biologist."""
    if len(left) != 1 or len(right) != 1:
        return False
    (one,), (two,) = left, right
    return len(one) >= FORM_PREFIX and one[:FORM_PREFIX] == two[:FORM_PREFIX]


# -- what it retires


def _find_superseded(
    candidate: Candidate, new: ParsedStatement, others: Sequence[_Neighbour]
) -> list[tuple[_Neighbour, str]]:
    """The facts that cannot be true any more if the candidate is, each with the topic."""
    if new.wording.moods & UNREAL_MOODS:
        return []
    found = [(other, reason) for other in others if (reason := _contradiction_reason(new, other))]
    if candidate.kind == "correction" and not found:
        near = max(others, key=lambda other: (_correction_overlap(new, other.read), other.known.day), default=None)
        if near and _correction_overlap(new, near.read) >= MIN_CORRECTION_OVERLAP:
            return [(near, "correction")]
    return found


def _contradiction_reason(new: ParsedStatement, other: _Neighbour) -> str | None:
    old = other.read
    # a statement about a year that was over when the other was said ends nothing
    year = new.wording.year
    history = year is not None and year < other.known.day.year and year != old.wording.year
    for one in new.topics:
        for two in old.topics:
            lasting = one.name in DATE_SLOTS or not history
            if lasting and _is_same_slot(one, two) and _is_replaced(one, two, new, old):
                return one.name
    if not history and _is_opposite(new.wording, old.wording):
        return "opposite"
    return "replaced" if _is_named_as_replaced(new.wording, old.wording) else None


def _is_replaced(one: Topic, two: Topic, new: ParsedStatement, old: ParsedStatement) -> bool:
    measured = one.name in MEASURED_SLOTS
    if new.wording.passing and not measured:
        return False
    if one.polarity == two.polarity == "is":
        beside = old.wording.passing and not measured
        return not beside and one.fills == "one" and _has_other_value(one, two) and _is_change(one, two, new.wording)
    narrower = new.rest & new.wording.names - old.wording.words  # "no longer plays tennis with Tom"
    over = one.polarity != "is" and two.polarity == "is" and one.value <= two.value and not narrower
    again = one.polarity == "is" and two.polarity != "is" and one.value == two.value
    return over or again


def _is_change(one: Topic, two: Topic, new: Wording) -> bool:
    """Return True if the later value replaces the other, rather than being true besides."""
    if new.instead and not is_country(new.instead) and not new.instead & two.value:
        return False
    wider = one.name == "home" and is_country(one.value) != is_country(two.value)
    same = (one.alone and two.alone) or (new.changed and one.named == two.named)
    return same and (new.changed or not wider)


def _has_other_value(one: Topic, two: Topic) -> bool:
    """Return True if they give one slot two values, neither of which contains the other."""
    single = "many" not in (one.fills, two.fills)
    return single and _is_same_slot(one, two) and not (one.value <= two.value or two.value <= one.value)


def _is_same_slot(one: Topic, two: Topic) -> bool:
    """The same slot of the same person: "sister" and "sister Ana" may be the same, "sister Ana" and "sister Eva" not.

    "Sister Ana" may be called Ana; a mother is not a mother-in-law, nor a friend the best friend.
    """
    if (one.name, one.which) != (two.name, two.which) or bool(one.whose) != bool(two.whose):
        return False
    if one.kin != two.kin:
        return not (one.kin and two.kin) and one.named == two.named
    return one.named <= two.named or two.named <= one.named


def _is_opposite(one: Wording, two: Wording) -> bool:
    """The same statement, affirmed here and denied there. What is over may be said in fewer words than it was."""
    if (one.moods | two.moods) & UNREAL_MOODS or one.suffered != two.suffered or one.whose != two.whose:
        return False
    mine, theirs = one.words | one.numbers, two.words | two.numbers
    if one.polarity == "was" and two.polarity == "is":
        ended = one.moods == two.moods or (one.called_off and one.moods < two.moods)
        happened = two.past or (one.passing and not two.passing)  # what happened stays true
        return ended and not happened and bool(one.words) and mine <= theirs
    if (one.moods, one.passing) != (two.moods, two.passing):
        return False
    denied = one.polarity != two.polarity and "is" in (one.polarity, two.polarity)
    if denied and mine == theirs:
        return True
    if one.polarity != "is" or two.polarity != "is" or one.past or two.past or one.numbers != two.numbers:
        return False
    liked, hated = one.words - two.words, two.words - one.words
    return len(liked) == 1 and {OPPOSITES.get(word, "") for word in liked} == hated


def _is_named_as_replaced(one: Wording, two: Wording) -> bool:
    """Return True if the new statement names the old one as replaced: "instead of Greece"."""
    theirs = two.words | two.numbers
    if not one.instead or not one.instead <= theirs or two.polarity != "is" or two.moods & UNREAL_MOODS:
        return False
    if one.whose and two.whose and one.whose != two.whose:
        return False
    left = theirs - one.instead
    return bool((one.words | one.numbers) & left - one.names) or (left <= USE_VERBS and not two.past)


def _correction_overlap(new: ParsedStatement, old: ParsedStatement) -> float:
    """The share of a correction's words that the statement contains."""
    one, two = new.wording, old.wording
    return len(one.words & two.words) / max(1, len(one.words))
