"""Compare a candidate with known facts, and decide whether to add it, merge it, let it supersede facts, or skip it.

The comparison goes by the same words, then by the same slot (see `wording.py`), then by similarity. Short texts about the same
subject matter have similar vectors, so similarity alone never decides: the content words must be nearly the same, and
numbers, names, denial and mood must agree. In doubt the statement is added: a duplicate costs one row, but a wrong merge loses
a fact. Facts about different subjects are never compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

from .datatypes import Action, Candidate, KnownFact, ReasonCode
from .wording import ParsedStatement, Topic, Wording, is_country, parse_statement, subject_person

MIN_SIMILARITY = 0.6
"""Minimum similarity of two statements if one has all words of the other and few more."""
MIN_SHARED = 0.6
"""Minimum share of their content words that two such statements have in common."""
HIGH_SIMILARITY = 0.8
"""Minimum similarity of two statements that differ in one word, if both words have the same root."""
FORM_PREFIX = 5
"""Number of first letters that two words with the same root share."""
MAX_EXTRA_WORDS = 2
"""Maximum number of words that one of two statements with the same value for a slot may add and still be the same."""
MAX_TAIL_WORDS = 5
"""Maximum number of words that it may also add as a reason or consequence."""
MIN_CORRECTION_OVERLAP = 0.5
"""Minimum share of a correction's words that the corrected fact contains."""
USE_VERBS = frozenset({"drive", "play", "take", "use", "wear", "work", "read", "eat", "drink"})
"""Verbs that a statement need not repeat when it replaces their object: "tea instead of coffee"."""
DATE_SLOTS = frozenset({"birthday", "day", "hour", "trip"})
"""Slots that hold a time. A year in such a statement is part of the value, not the period in which it is true."""
MEASURED_SLOTS = DATE_SLOTS | {"age", "amount"}
"""Slots whose value can be replaced even if a statement sounds temporary ("today")."""
UNREAL_MOODS = frozenset({"if", "maybe", "report"})
"""Moods in which a statement cannot end a fact."""
OPPOSITES = {"like": "hate", "hate": "like"}
CONFIRMATION_WEIGHT = 0.5
"""Share of a statement's confidence that counts when it confirms a fact."""
MAX_CONFIDENCE = 0.99


class Reason(ReasonCode):
    """The reason for a decision. Some are followed by a colon and the slot ("home"); none has words of the candidate."""

    NEW = "new", "No current fact says the same, and it ends none."
    SAME_WORDS = "same_words", "A fact has the same words; with `skip`, a step of the same plan has them."
    SAME_VALUE = "same_value_of", "A fact says the same about a slot, such as `home`."
    SAME_MEANING = "same_meaning", "A fact has nearly the same words."
    LATER = (
        "later_statement_about",
        "It ends facts about the same slot, its `opposite`, or what it `replaced` or corrects.",
    )
    OLDER = "older_than_known", "A fact that was stated later ends it: it is added as a past fact."
    ECHO = "echo", "An assistant or a tool repeats a fact, or would end it."
    SAYS_NOTHING = "says_nothing", "It has no words with a meaning of their own."
    MODEL = "model", "The language model dropped it; its reason follows the colon."


class Decision(NamedTuple):
    """The decision about a candidate."""

    do: Action
    reason: str
    targets: tuple[str, ...] = ()
    """The fact to merge into, or the facts to supersede."""
    past: bool = False
    """Add it as a fact that is no longer true, because a known fact was stated later."""
    fuller: bool = False
    """Merge it, and keep its wording, because it says more than the fact."""


class _Neighbour(NamedTuple):
    known: KnownFact
    parsed: ParsedStatement


def reconcile(
    candidate: Candidate,
    neighbours: Sequence[KnownFact],
    day: date,
    *,
    repeats: bool = False,
    parse: Callable[[str, str | None], ParsedStatement] = parse_statement,
) -> Decision:
    """Decide about a candidate that was stated on `day`, given the current facts about the same subject.

    `repeats`: an assistant or a tool stated it. Assistants are shown known facts, so such a statement can be new, but it neither
    confirms nor ends a fact.
    `parse`: `parse_statement`, or a version with a cache if many candidates have the same neighbours.
    """
    new = parse(candidate.text, candidate.subject)
    if not new.wording.words | new.wording.numbers | new.wording.tail:
        return Decision("skip", Reason.SAYS_NOTHING)
    others = [
        _Neighbour(known, parse(known.text, known.subject))
        for known in neighbours
        if _is_same_subject(known, candidate)
    ]
    others = [other for other in others if _is_related(new, other.parsed)]
    same = _find_same(new, others)
    if same:
        return Decision("skip", Reason.ECHO) if repeats else same
    if candidate.subject is None:
        return Decision("add", Reason.NEW)
    retired = _find_superseded(candidate, new, others)
    if repeats and retired:
        return Decision("skip", Reason.ECHO)
    later = [(other.known.id, reason) for other, reason in retired if other.known.day > day]
    if later:
        return Decision("add", f"{Reason.OLDER}:{later[0][1]}", tuple(known for known, _ in later), past=True)
    if retired:
        targets = tuple(other.known.id for other, _ in retired)
        return Decision("supersede", f"{Reason.LATER}:{retired[0][1]}", targets)
    return Decision("add", Reason.NEW)


def combine_confidence(confidence: float, more: float) -> float:
    """Return the confidence in a fact after another statement confirmed it. Each repetition adds less; the sum stays below 1."""
    return max(confidence, min(MAX_CONFIDENCE, confidence + (1 - confidence) * more * CONFIRMATION_WEIGHT))


def _is_same_subject(known: KnownFact, candidate: Candidate) -> bool:
    """Return True if both have the same subject, or neither has one."""
    if known.subject is None or candidate.subject is None:
        return known.subject is candidate.subject
    return subject_person(known.subject) == subject_person(candidate.subject)


def _is_related(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if the statements can be compared: they share a word, or both have topics."""
    one, two = new.wording, old.wording
    mine, theirs = one.words | one.numbers | one.tail | one.instead, two.words | two.numbers | two.tail
    return bool(new.topics and old.topics) or not mine.isdisjoint(theirs)


# -- the same statement


def _find_same(new: ParsedStatement, others: Sequence[_Neighbour]) -> Decision | None:
    """Return a decision to merge if a fact says the same as the candidate."""
    ranked = sorted(others, key=lambda other: -other.known.similarity)
    for other in ranked:
        if other.parsed.key == new.key:
            return Decision("merge", Reason.SAME_WORDS, (other.known.id,))
    for other in ranked:
        reason = _same_meaning_reason(new, other.parsed, other.known.similarity)
        if reason:
            one, two = new.wording, other.parsed.wording
            mine, theirs = one.words | one.tail | one.numbers, two.words | two.tail | two.numbers
            fuller = mine > theirs or len(one.tail) > len(two.tail)
            return Decision("merge", reason, (other.known.id,), fuller=fuller)
    return None


def _same_meaning_reason(new: ParsedStatement, old: ParsedStatement, similarity: float) -> str | None:
    if _has_same_topics(new, old):
        return f"{Reason.SAME_VALUE}:{new.topics[0].name}"
    one, two = new.wording, old.wording
    if not _has_same_marks(one, two) or any(_has_other_value(a, b) for a in new.topics for b in old.topics):
        return None
    return Reason.SAME_MEANING if _has_enough_overlap(one, two, similarity) else None


def _has_same_topics(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if both give the same slots the same values and have few other words."""
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
    # one of two dates may omit the year
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
    """Return True if each side has one word, and both words have the same root: biology, biologist."""
    if len(left) != 1 or len(right) != 1:
        return False
    (one,), (two,) = left, right
    return len(one) >= FORM_PREFIX and one[:FORM_PREFIX] == two[:FORM_PREFIX]


# -- superseded facts


def _find_superseded(
    candidate: Candidate, new: ParsedStatement, others: Sequence[_Neighbour]
) -> list[tuple[_Neighbour, str]]:
    """Return the facts that are not true any more if the candidate is true, each with the reason."""
    if new.wording.moods & UNREAL_MOODS:
        return []
    found = [(other, reason) for other in others if (reason := _contradiction_reason(new, other))]
    if candidate.kind == "correction" and not found:
        near = max(others, key=lambda other: (_correction_overlap(new, other.parsed), other.known.day), default=None)
        if near and _correction_overlap(new, near.parsed) >= MIN_CORRECTION_OVERLAP:
            return [(near, "correction")]
    return found


def _contradiction_reason(new: ParsedStatement, other: _Neighbour) -> str | None:
    old = other.parsed
    # a statement about a year before the other statement was made does not end it
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
    ended = one.polarity != "is" and two.polarity == "is" and one.value <= two.value and not narrower
    again = one.polarity == "is" and two.polarity != "is" and one.value == two.value
    return ended or again


def _is_change(one: Topic, two: Topic, new: Wording) -> bool:
    """Return True if the new value replaces the old one. Otherwise both can be true."""
    if new.instead and not is_country(new.instead) and not new.instead & two.value:
        return False
    wider = one.name == "home" and is_country(one.value) != is_country(two.value)
    same = (one.alone and two.alone) or (new.changed and one.named == two.named)
    return same and (new.changed or not wider)


def _has_other_value(one: Topic, two: Topic) -> bool:
    """Return True if both fill the same slot, and neither value contains the other."""
    single = "many" not in (one.fills, two.fills)
    return single and _is_same_slot(one, two) and not (one.value <= two.value or two.value <= one.value)


def _is_same_slot(one: Topic, two: Topic) -> bool:
    """Return True if both fill the same slot of the same person.

    "Sister" matches "sister Ana", and "Ana" matches "sister Ana". "Sister Ana" does not match "sister Eva", nor "mother"
    "mother-in-law", nor "friend" "best friend".
    """
    if (one.name, one.which) != (two.name, two.which) or bool(one.whose) != bool(two.whose):
        return False
    if one.kin != two.kin:
        return not (one.kin and two.kin) and one.named == two.named
    return one.named <= two.named or two.named <= one.named


def _is_opposite(one: Wording, two: Wording) -> bool:
    """Return True if one statement affirms what the other denies. "No longer" may repeat only some of the words that it ends."""
    if (one.moods | two.moods) & UNREAL_MOODS or one.suffered != two.suffered or one.whose != two.whose:
        return False
    mine, theirs = one.words | one.numbers, two.words | two.numbers
    if one.polarity == "was" and two.polarity == "is":
        ended = one.moods == two.moods or (one.called_off and one.moods < two.moods)
        happened = two.past or (one.passing and not two.passing)  # past events stay true
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
    rest = theirs - one.instead
    return bool((one.words | one.numbers) & rest - one.names) or (rest <= USE_VERBS and not two.past)


def _correction_overlap(new: ParsedStatement, old: ParsedStatement) -> float:
    """Return the share of a correction's words that an old statement contains."""
    one, two = new.wording, old.wording
    return len(one.words & two.words) / max(1, len(one.words))
