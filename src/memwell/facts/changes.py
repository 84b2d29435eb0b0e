"""Changes: what a statement says to be over, and what takes its place.

`split_clauses` cuts a statement into parts, because a change is often told beside other things: "Rome is off, we go to Oslo".
`find_changes` finds the changes of a part by the patterns of `data/changes.toml`, and `ends` compares a change with a known fact.
`find_swap` compares two statements that differ in one place only: "uses Evernote for notes", "uses Obsidian for notes now".
Everything is for English; statements in other languages end nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from ..text.word_sets import load_tables, word_set
from .meaning import Meaning, list_words
from .wording import KIN, SEVERAL, TIMES, ParsedStatement, stems

_TABLES = load_tables(__package__, "changes")
Cue = Literal["", "weak", "strong"]
"""A sign that a statement corrects an earlier one."""


class Change(NamedTuple):
    """A change that a part of a statement tells. All words are stems."""

    kind: str
    """`lost`, `stopped`, `died`, `replaced` or `to`."""
    over: tuple[str, ...]
    new: tuple[str, ...]
    new_text: str
    theme: frozenset[str]
    owner: frozenset[str] = frozenset()
    """The relative to whom it happened."""


# -- reading a statement

MAX_CLAUSES = 8
_VERBS = _TABLES["verbs"].split()
_BREAK = re.compile(
    r"[,;:.!?]+(?: (?:and|but|so|then|or))? +|\s+(?:and|but|so)\s+(?=(?:@|they|he|she|it|now|(?:"
    + "|".join(_VERBS)
    + r")\b))|\s+-+\s+|\s*[–—]\s*",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"^(?:they|he|she)(?:'s| (?:are|is|was|were))?\b", re.IGNORECASE)
_BARE = re.compile(r"^(?:just |finally |recently )?(?:" + "|".join(_VERBS) + r")\b", re.IGNORECASE)
_NO_LONGER = re.compile(r"no longer (?!any)|not [\w ]+ (?:any ?more|any longer)$", re.IGNORECASE)
_FILLER = re.compile(r"^(?:and|but|so|then|or|well|yeah|yes|oh|ok|okay|sorry|actually|now)\b[ ,]*", re.IGNORECASE)
_SCOPE = re.compile(r"\W*(?:if|when|unless|before|after|as|while)\b", re.IGNORECASE)
"""The beginning of a condition or a time that the whole sentence depends on."""
_NOT_STATED = word_set(_TABLES["not_stated"])


def split_clauses(marked: str) -> list[str]:
    """Return the parts of a statement, each with `@` as its subject if it had none; nothing if there is only one part."""
    parts = [part for part in _BREAK.split(marked) if part and part.strip()][:MAX_CLAUSES]
    return [] if len(parts) < 2 or _SCOPE.match(parts[0]) else [clause for clause in map(_complete, parts) if clause]


def _complete(part: str) -> str:
    part = _FILLER.sub("", part.strip(" .!?"))
    first = part.split(" ", 1)[0].lower()
    if first in _NOT_STATED or " " not in part:
        return ""
    if _BARE.match(part):
        return f"@ {part[0].lower()}{part[1:]}"
    if first in ("no", "not") and _NO_LONGER.match(part):
        return f"@ is {part}"
    return _PRONOUN.sub(lambda match: "@ is" if " " in match[0] or "'" in match[0] else "@", part)


def find_cue(text: str) -> Cue:
    """Return the sign that a text corrects what was said before; empty if there is none."""
    return "strong" if _load_cue("strong").search(text) else "weak" if _load_cue("weak").search(text) else ""


@cache
def _load_cue(name: str) -> re.Pattern[str]:
    return re.compile(_TABLES[name].replace("\n", ""), re.IGNORECASE)


_PARTS: dict[str, str] = _TABLES["parts"]
_KINDS = ("lost", "stopped", "died", "replaced", "to")


@cache
def _load_patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(_expand(source), re.IGNORECASE)) for kind in _KINDS for source in _TABLES[kind]]


def _expand(source: str) -> str:
    return re.sub("|".join(_PARTS), lambda match: _PARTS[match[0]], source)


_TELLING = re.compile(rf"\b(?:{_TABLES['telling']}|{_PARTS['CHANGED']})\b", re.IGNORECASE)
_GROUP = re.compile(
    rf"^@'s (?:team|family|group) (?=(?:(?:has|have|is|also|just|finally|now|recently|already)\b|(?:{'|'.join(_VERBS)})\b))",
    re.IGNORECASE,
)
"""What the team or the family of the person gave up is over for the person too."""
_FOR_A_TIME = re.compile(_TABLES["for_a_time"], re.IGNORECASE)


def find_changes(part: ParsedStatement) -> list[Change]:
    """Return the changes that a part of a statement tells."""
    clause = _GROUP.sub("@ ", part.wording.marked)
    if not _TELLING.search(clause):
        return []
    changes: list[Change] = []
    seen: set[str] = set()
    for kind, pattern in _load_patterns():
        if kind in seen or (kind == "to" and "replaced" in seen):
            continue
        match = pattern.search(clause)
        if match is None or (kind == "stopped" and _FOR_A_TIME.search(clause)):
            continue
        groups = match.groupdict()
        if kind == "died" and not _may_die(groups["over"]):
            continue
        seen.add(kind)
        owner = frozenset(stems(part.wording.whose)) & KIN
        new = groups.get("new") or ""
        theme = frozenset(stems(groups.get("theme") or ""))
        over = tuple(stems(groups.get("over") or ""))
        changes.append(Change(kind, over, tuple(stems(new)), new, theme, owner - {*over}))
    return changes


def _may_die(over: str) -> bool:
    return over[:1].isupper() or not (KIN | SEVERAL).isdisjoint(stems(over))


# -- comparing with a known fact

_ATTITUDES = word_set(_TABLES["attitudes"])
_POSSESSION = word_set(_TABLES["possession"])
_DECISIONS = word_set(_TABLES["decisions"])
"""Verbs of decisions, which are past in form, but true until they are taken back."""
_TIERS = word_set(_TABLES["tiers"])
_TIER_NAMES = word_set(_TABLES["tier_names"])
_OF_KIND = {name: number for number, line in enumerate(_TABLES["kinds"]) for name in line.split()}
_AFTER_OBJECT = word_set(
    "in on at for with to from since of is was has had called named who which that during by near as every each twice once until "
    "and now right next again"
)
_LOOSE_WORD = re.compile(r"[^\s,;:!?\"()]+|[,;:!?]")


def ends(change: Change, old: ParsedStatement) -> bool:
    """Return True if a fact is over because of a change."""
    wording = old.wording
    if wording.polarity != "is" or wording.moods - {"will"} or _is_of_other_person(change, old):
        return False
    decided = change.kind in ("lost", "stopped", "replaced") and _is_decision(old)
    if (wording.past and not decided) or _ATTITUDES & _verbs(old):
        return False
    if change.over:
        return _names_object(change, old)
    return bool(change.new) and _has_value_for(change, old)


def _verbs(old: ParsedStatement) -> frozenset[str]:
    """Return the words of a statement that can be its verb: the first two after the person."""
    words = old.meaning.words
    at = words.index("@") + 1 if "@" in words else 0
    return frozenset(word.removesuffix("<") for word in words[at : at + 2])


def _is_decision(old: ParsedStatement) -> bool:
    verbs = _verbs(old)
    if "go" in verbs:  # "went with the oak floor"
        return not verbs.isdisjoint(("with", "for"))
    picked_up = "up" in verbs and "sign" not in verbs
    return not _DECISIONS.isdisjoint(verbs) and not picked_up


def _is_of_other_person(change: Change, old: ParsedStatement) -> bool:
    """Return True if the fact is about another person than the change."""
    whose = frozenset(stems(old.wording.whose)) & KIN
    named = whose & {*change.over, *change.theme}
    return not named and whose != change.owner


def _names_object(change: Change, old: ParsedStatement) -> bool:
    """Return True if the fact is about the thing itself: "a car", not "a car insurance"."""
    if change.kind == "lost" and not (_POSSESSION & _verbs(old) or old.wording.whose != "@" or _is_decision(old)):
        return False
    if not set(change.over) <= set(stems(old.wording.plain)):
        return False
    if old.wording.whose != "@" and set(change.over) <= set(stems(old.wording.whose)):
        return True
    listed = _SUBJECTS.sub("", old.wording.plain)
    if " and " in listed or " or " in listed:
        return False
    return names_thing(change.over[-1], old.wording.plain, as_name=change.kind == "died")


_SUBJECTS = re.compile(r"^(?:@ and [^\W\d_]+|[^\W\d_]+ and @)")


def names_thing(stem: str, plain: str, as_name: bool = False) -> bool:
    """Return True if a statement has a word as its verb, or as a noun before no other noun: not "car" in "car insurance".

    `as_name`: a name is enough, whatever follows: "Piet lives in Delft".
    """
    words = _LOOSE_WORD.findall(plain.rstrip(".!"))
    for number, word in enumerate(words):
        if stem not in stems(word):
            continue
        following = words[number + 1] if number + 1 < len(words) else ""
        if (number and words[number - 1] == "@") or (as_name and word[0].isupper()):
            return True
        if not following[:1].isalpha() or following.lower() in _AFTER_OBJECT or following[0].isupper():
            return True
    return False


def _has_value_for(change: Change, old: ParsedStatement) -> bool:
    """Return True if the fact has a value of the same type for what a change is about, or shares a word with the new value."""
    words, new = set(stems(old.wording.plain)), set(change.new)
    theme = change.theme - new
    if new <= words:
        return False
    if theme and not theme <= words:
        return False
    if {_OF_KIND.get(word) for word in _plain_words(change.new_text)} & {
        _OF_KIND.get(word) for word in _plain_words(old.wording.plain)
    } - {None}:
        return True
    if _TIER_NAMES & set(_plain_words(change.new_text)) and _TIER_NAMES & set(_plain_words(old.wording.plain)):
        return bool(theme) or bool(new & words) or bool(_TIERS & set(_plain_words(old.wording.plain)))
    kind = value_type(change.new_text)
    if not theme:
        return bool(new & words - TIMES) and kind == value_type(old.wording.plain, new & words)
    return kind in _value_types(old, theme)


def _value_types(old: ParsedStatement, theme: frozenset[str]) -> set[str]:
    words = _LOOSE_WORD.findall(old.wording.plain)
    types = {
        value_type(word)
        for word in words[1:]
        if not set(stems(word)) & theme and word != "@" and not word.startswith("@")
    }
    return types - {"word"}


def value_type(text: str, besides: frozenset[str] | set[str] = frozenset()) -> str:
    """Return the type of a value: `time`, `number`, `name` or `word`."""
    words = [word for word in _LOOSE_WORD.findall(text) if not set(stems(word)) & set(besides)]
    found = set()
    for word in words:
        if set(stems(word)) & TIMES or re.fullmatch(r"\d{1,2}[:.]\d\d\W*|noon|midnight", word.lower()):
            found.add("time")
        elif any(sign.isdigit() for sign in word) or any(stem.isdigit() for stem in stems(word)):
            found.add("number")
        elif word[:1].isupper():
            found.add("name")
    return next((kind for kind in ("time", "number", "name") if kind in found), "word")


def _plain_words(text: str) -> Iterator[str]:
    return (word.strip(".,!?\"'").lower().removesuffix("'s") for word in text.split())


# -- the same frame with another value


class Swap(NamedTuple):
    """Two statements that differ in one place only."""

    frame: tuple[str, ...]
    """The words before and after that place."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    new: tuple[str, ...]
    old: tuple[str, ...]


MAX_VALUE = 5
_EMPTY_FRAME = word_set("@ @s has have was will not")
_MANY, _SINGLE = word_set(_TABLES["many"]), word_set(_TABLES["single"])
_LEVEL = re.compile(r"[a-c][12]|[+-]?\d+(?:[.,]\d+)*k?")
_FIXED = KIN - word_set("kid child son daughter")
"""Relatives whose number does not change, so that another number is about other people."""
_COUNTED = word_set("has have need weigh cost pay earn sleep take own employ measur")


def find_swap(new: Meaning, old: Meaning) -> Swap | None:
    """Return the place in which two statements differ; None if they differ in more than one, or in none."""
    one, two = new.words, old.words
    if one[:2] == ("@s", "new") and SEVERAL.isdisjoint(one[2:3]):
        one = ("@s", *one[2:])
    if ("@s" in one[:1]) != ("@s" in two[:1]):  # "The standup is at nine" can be about "my standup"
        one, two = ("@s", *(word for word in one if word != "@s")), ("@s", *(word for word in two if word != "@s"))
    start, end = 0, 0
    while start < min(len(one), len(two)) and one[start] == two[start]:
        start += 1
    while end < min(len(one), len(two)) - start and one[-1 - end] == two[-1 - end]:
        end += 1
    mine, theirs = one[start : len(one) - end], two[start : len(two) - end]
    if not mine or not theirs or max(len(mine), len(theirs)) > MAX_VALUE or not (new.english and old.english):
        return None
    if not {"@", "@s"}.isdisjoint((*mine, *theirs)):
        return None
    before, after = one[:start], one[len(one) - end :]
    return Swap((*before, *after), before, after, mine, theirs)


def replaces(swap: Swap, new: ParsedStatement, old: ParsedStatement, cue: Cue) -> bool:
    """Return True if the value of the new statement takes the place of the old one."""
    frame = [word for word in swap.frame if word not in _EMPTY_FRAME]
    if not frame or {"not", "never"} & {*swap.new, *swap.old} or _is_of_other_time(swap):
        return False
    if cue == "strong":
        return True
    if ("@s" in new.meaning.words[:1]) != ("@s" in old.meaning.words[:1]):
        return False
    if any(word.endswith("<") or word == "was" for word in (*swap.frame, *swap.new, *swap.old)):
        return False
    if _LEVEL.fullmatch(swap.new[0]) and _LEVEL.fullmatch(swap.old[0]) and len(swap.new) == len(swap.old) == 1:
        return _is_measure(swap) or cue == "weak" or new.wording.changed
    if swap.after and swap.after[0] in _TIERS and {*swap.new, *swap.old} & _TIER_NAMES:
        return True
    if not (cue or new.wording.changed):
        return False
    if swap.before[:1] == ("@s",):
        named = (
            value_type(" ".join(_original(new, swap.new))) == value_type(" ".join(_original(old, swap.old))) != "word"
        )
        return len(swap.before) > 1 and (named or len(frame) > 1 or bool({*swap.new} & {*swap.old}))
    verb = swap.before[1] if swap.before[:1] == ("@",) and len(swap.before) > 1 else ""
    if cue == "weak" and swap.after:
        return True
    if verb in _MANY or not verb:
        return False
    if cue == "weak":
        return True
    kinds = [{_OF_KIND.get(word) for word in words} - {None} for words in (swap.new, swap.old)]
    if verb == "use" and not swap.after:
        return bool(kinds[0] & kinds[1]) or bool({*swap.new[1:]} & {*swap.old[1:]})
    return verb in _SINGLE or len(frame) > 1


def _is_of_other_time(swap: Swap) -> bool:
    """Return True if number and day differ, but not what is counted, or only one number is narrowed: "6 vegan guests"."""
    new, old = {*swap.new}, {*swap.old}
    counted = {word for word in new & old if not word[0].isdigit()} - TIMES
    if counted and (new ^ old) & TIMES and any(word[0].isdigit() for word in new ^ old):
        return True
    numbers = [[word[0].isdigit() for word in words] for words in (swap.new, swap.old)]
    return bool(swap.after) and numbers[0][0] and numbers[1] == [True] and len(numbers[0]) > 1 and not numbers[0][-1]


def _is_measure(swap: Swap) -> bool:
    """Return True if a number counts or measures something that has one value at a time."""
    if swap.before[:1] == ("@s",):
        return len(swap.before) > 1 and not SEVERAL & {*swap.before}
    verb = next((word for word in swap.before if word not in ("@", "was")), "")
    return bool(swap.after) and swap.after[0] not in _FIXED and (verb in _COUNTED or swap.before == ("@",))


def _original(parsed: ParsedStatement, words: tuple[str, ...]) -> list[str]:
    """Return the words of the text from which words that count were read."""
    return [word for word in _LOOSE_WORD.findall(parsed.wording.marked) if set(list_words(word)) & {*words}]
