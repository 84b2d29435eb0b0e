"""Compare a candidate with known facts, and decide whether to add it, merge it, let it supersede facts, or skip it.

The comparison goes by the same words, then by the same slot (see `wording.py`), then by similarity. Short texts about the same
subject matter have similar vectors, so similarity alone never decides: the content words must be nearly the same, and
numbers, names, denial and mood must agree. In doubt the statement is added: a duplicate costs one row, but a wrong merge loses
a fact. Facts about different subjects are never compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

from .changes import Change, Cue, ends, find_changes, find_cue, find_swap, names_thing, replaces, split_clauses
from .datatypes import Action, Candidate, KnownFact, ReasonCode, is_unnamed
from .meaning import difference, is_same
from .outcomes import Outcome, concludes, find_outcomes
from .wording import (
    ParsedStatement,
    Topic,
    Wording,
    is_country,
    list_frame_words,
    parse_statement,
    stems,
    subject_person,
    topic_words,
)

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
    cue: Cue = "",
    parse: Callable[[str, str | None], ParsedStatement] = parse_statement,
) -> Decision:
    """Decide about a candidate that was stated on `day`, given the current facts about the same subject.

    `repeats`: an assistant or a tool stated it. Assistants are shown known facts, so such a statement can be new, but it neither
    confirms nor ends a fact.
    `cue`: a sign beside the statement that it corrects an earlier one, such as "scratch that".
    `parse`: `parse_statement`, or a version with a cache if many candidates have the same neighbours.
    """
    new = parse(candidate.text, candidate.subject)
    if not new.wording.words | new.wording.numbers | new.wording.tail:
        return Decision("skip", Reason.SAYS_NOTHING)
    others = [
        _Neighbour(known, parse(known.text, candidate.subject if known.written else known.subject))
        for known in neighbours
    ]
    confirmable = [one for one in others if _is_related(new, one.parsed) and _may_confirm(candidate, new, one)]
    same = _find_same(new, confirmable)
    if same and not _is_of_other_session(candidate, same, others):
        return Decision("skip", Reason.ECHO) if repeats else same
    if candidate.subject is None:
        return Decision("add", Reason.NEW)
    clauses = [parse(clause, candidate.subject) for clause in split_clauses(new.wording.marked)]
    others = [other for other in others if _may_end(candidate, new, other)]
    retired = _find_superseded(candidate, new, clauses, others, cue or find_cue(candidate.text))
    if repeats and (retired or same):
        return Decision("skip", Reason.ECHO)
    later = [(other.known.id, reason) for other, reason in retired if other.known.day > day]
    if later:
        return Decision("add", f"{Reason.OLDER}:{later[0][1]}", tuple(known for known, _ in later), past=True)
    if same and not retired:
        return same
    if retired:
        targets = tuple(other.known.id for other, _ in retired)
        return Decision("supersede", f"{Reason.LATER}:{retired[0][1]}", targets)
    return Decision("add", Reason.NEW)


def combine_confidence(confidence: float, more: float) -> float:
    """Return the confidence in a fact after another statement confirmed it. Each repetition adds less; the sum stays below 1."""
    return max(confidence, min(MAX_CONFIDENCE, confidence + (1 - confidence) * more * CONFIRMATION_WEIGHT))


def _may_confirm(candidate: Candidate, new: ParsedStatement, other: _Neighbour) -> bool:
    """Return True if both have the same subject, or neither has one, or nobody knows whom both are about.

    The application need not give a subject to a fact that it writes: its text says whom it is about.
    """
    known = other.known
    if known.written and candidate.subject is not None:
        return _is_about_person(new) == _is_about_person(other.parsed) and _names_same(candidate, other)
    if candidate.subject is None or known.subject is None:
        return known.subject is candidate.subject
    one, two = subject_person(known.subject), subject_person(candidate.subject)
    return one == two or (is_unnamed(one) and is_unnamed(two))


def _is_of_other_session(candidate: Candidate, same: Decision, others: Sequence[_Neighbour]) -> bool:
    """Return True if an unnamed user of another session said the same. That is confirmed, unless the candidate ends a fact."""
    found = next(other.known for other in others if other.known.id == same.targets[0])
    if candidate.subject is None or found.subject is None:
        return False
    return subject_person(found.subject) != subject_person(candidate.subject)


def _may_end(candidate: Candidate, new: ParsedStatement, other: _Neighbour) -> bool:
    """Return True if the fact is about the candidate's subject. What was written about nobody stays: it may be a rule."""
    known = other.known
    if candidate.subject is None:
        return False
    if known.written:
        return _is_about_person(new) and _is_about_person(other.parsed) and _names_same(candidate, other)
    return known.subject is not None and subject_person(known.subject) == subject_person(candidate.subject)


_FIRST_PERSON = re.compile(r"\b(?:i|my|me)\b")


def _names_same(candidate: Candidate, other: _Neighbour) -> bool:
    """Return True if a written fact speaks of the person as the candidate does: by name, or as "the user"."""
    text, said = other.known.text.lower(), candidate.text.lower()
    person = subject_person(candidate.subject or "")
    named = [] if is_unnamed(person) else [word for word in person.split()[:1] if word in said]
    if "@" not in other.parsed.wording.marked:
        return True
    return all(word in text for word in named) if named else "the user" in text or bool(_FIRST_PERSON.search(text))


def _is_about_person(parsed: ParsedStatement) -> bool:
    return "@" in parsed.wording.marked


def _is_related(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if the statements can be compared: they share a word, or both have topics."""
    one, two = new.wording, old.wording
    mine, theirs = one.words | one.numbers | one.tail | one.instead, two.words | two.numbers | two.tail
    return bool(new.topics and old.topics) or new.key == old.key or not mine.isdisjoint(theirs)


# -- the same statement


def _find_same(new: ParsedStatement, others: Sequence[_Neighbour]) -> Decision | None:
    """Return a decision to merge if a fact says the same as the candidate."""
    ranked = sorted(others, key=lambda other: -other.known.similarity)
    for other in ranked:
        if is_same(new.meaning, other.parsed.meaning):
            return Decision("merge", Reason.SAME_WORDS, (other.known.id,))
    for other in ranked:
        if _has_same_head(new, other.parsed):
            fuller = len(new.meaning.words) > len(other.parsed.meaning.words)
            return Decision("merge", Reason.SAME_WORDS, (other.known.id,), fuller=fuller)
    for other in ranked:
        if _has_same_topics(new, other.parsed):
            reason = f"{Reason.SAME_VALUE}:{new.topics[0].name}"
            fuller = len(new.meaning.words) > len(other.parsed.meaning.words)
            return Decision("merge", reason, (other.known.id,), fuller=fuller)
    return None


def _has_same_head(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if the statements are the same, but one of them adds a reason, a consequence or a closer place."""
    return (new.head is None) != (old.head is None) and is_same(new.head or new.meaning, old.head or old.meaning)


def _has_same_topics(new: ParsedStatement, old: ParsedStatement) -> bool:
    """Return True if both give the same slots the same values, and all other words are the same too.

    Only one of them may say more: with further slots, as "a nurse at Acme" does.
    """
    few, many = sorted((new, old), key=lambda one: (len(one.topics), len(one.meaning.words)))
    if not few.topics or not all(any(_is_same_topic(a, b) for b in many.topics) for a in few.topics):
        return False
    if not (few.meaning.english and many.meaning.english) or few.wording.polarity != many.wording.polarity:
        return False
    known = {topic.slot for topic in few.topics}
    frame = frozenset[str]().union(*(list_frame_words(topic.name) for topic in few.topics))
    further = [topic for topic in many.topics if topic.slot not in known and topic.polarity == "is"]
    added = frame.union(*(topic_words(many.wording, topic) for topic in further))
    values = frozenset[str]().union(*(topic.value for topic in few.topics))
    one, two = few.meaning, many.meaning
    if (few.head is None) != (many.head is None):
        one, two = few.head or one, many.head or two
    lacking, more = difference(one, two), difference(two, one)
    number = one.plurals ^ two.plurals
    return frame.issuperset(lacking) and added.issuperset(more) and number <= values | frame | added


def _is_same_topic(one: Topic, two: Topic) -> bool:
    return _is_same_slot(one, two) and one.polarity == two.polarity and one.value == two.value


# -- superseded facts


def _find_superseded(
    candidate: Candidate,
    new: ParsedStatement,
    clauses: Sequence[ParsedStatement],
    others: Sequence[_Neighbour],
    cue: Cue,
) -> list[tuple[_Neighbour, str]]:
    """Return the facts that are not true any more if the candidate is true, each with the reason."""
    if new.wording.moods & UNREAL_MOODS or not others:
        return []
    parts = [part for part in (new, *clauses) if not part.wording.moods & UNREAL_MOODS]
    changes = [change for part in parts for change in find_changes(part)]
    cue = "strong" if candidate.kind == "correction" else cue
    outcomes = [outcome for part in parts for outcome in find_outcomes(part, changed=cue == "strong")]
    found = []
    for other in others:
        reasons = (_contradiction_reason(part, other) for part in parts)
        reason = next(filter(None, reasons), None) or _change_reason(new, changes, outcomes, other)
        if reason:
            found.append((other, reason))
    found = _drop_ambiguous(found)
    if not found:
        swapped = [other for other in others if any(_is_swapped(part, other, cue) for part in parts)]
        newest = max(swapped, key=lambda other: (other.known.day, other.known.similarity), default=None)
        found = [(newest, "correction" if cue else "value")] if newest else []
    if candidate.kind == "correction" and not found:
        near = max(others, key=lambda other: (_correction_overlap(new, other.parsed), other.known.day), default=None)
        if near and _correction_overlap(new, near.parsed) >= MIN_CORRECTION_OVERLAP:
            return [(near, "correction")]
    return found


def _change_reason(
    new: ParsedStatement, changes: Sequence[Change], outcomes: Sequence[Outcome], other: _Neighbour
) -> str | None:
    if _is_history(new, other):
        return None
    changed = (f"change_{change.kind}" for change in changes if ends(change, other.parsed))
    settled = (f"outcome_{one.kind}" for one in outcomes if concludes(one, other.parsed, other.known.text))
    return next(changed, None) or next(settled, None)


def _drop_ambiguous(found: list[tuple[_Neighbour, str]]) -> list[tuple[_Neighbour, str]]:
    """Drop facts that end because of a measure alone, if there are several: it is unclear which one it is."""
    measured = [reason for _, reason in found if reason == "outcome_level"]
    return [one for one in found if one[1] != "outcome_level"] if len(measured) > 1 else found


def _is_swapped(part: ParsedStatement, other: _Neighbour, cue: Cue) -> bool:
    """Return True if a part of the statement says the same as a fact with another value in the place of the known one."""
    old = other.parsed
    if part.wording.passing != old.wording.passing or _is_history(part, other):
        return False
    if part.wording.passing and not (cue or part.wording.changed):
        return False
    if old.wording.moods & UNREAL_MOODS or old.wording.polarity != "is" or part.wording.polarity != "is":
        return False
    swap = find_swap(part.meaning, old.meaning)
    return swap is not None and replaces(swap, part, old, cue)


def _is_history(new: ParsedStatement, other: _Neighbour) -> bool:
    """Return True for a statement about a year before the other statement was made. It does not end it."""
    year = new.wording.year
    return year is not None and year < other.known.day.year and year != other.parsed.wording.year


def _contradiction_reason(new: ParsedStatement, other: _Neighbour) -> str | None:
    old = other.parsed
    history = _is_history(new, other)
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
        return (
            ended and not happened and bool(one.words) and (mine == theirs or (mine <= theirs and _is_whole(one, two)))
        )
    if (one.moods, one.passing) != (two.moods, two.passing):
        return False
    denied = one.polarity != two.polarity and "is" in (one.polarity, two.polarity)
    if denied and mine == theirs:
        return True
    if one.polarity != "is" or two.polarity != "is" or one.past or two.past or one.numbers != two.numbers:
        return False
    liked, hated = one.words - two.words, two.words - one.words
    return len(liked) == 1 and {OPPOSITES.get(word, "") for word in liked} == hated


def _is_whole(one: Wording, two: Wording) -> bool:
    """Return True if the last word of what is over stands for itself in the other statement: not "car" in "car insurance"."""
    words = stems(one.plain)
    return bool(words) and names_thing(words[-1], two.plain)


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
