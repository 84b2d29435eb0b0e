"""Parse statements so that they can be compared: the plain wording with polarity and moods, and the topics.

The first part has the rules that rewrite a statement into a plain form (also `data/wording.toml`). The second part parses the
wording with these rules. The third part finds the topics: slots of `data/slots.txt` with their values. A slot is a property of a
person by which statements can be compared, such as home, age or allergy. "Alice lives in Lisbon." and "Alice moved to Porto."
fill one slot with two values.

For speed, each rule and slot has cues: its pattern runs only on texts with one of these words. Patterns are compiled when they
are first used.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal, NamedTuple, cast

from ..search.words import list_stop_tokens, tokenize
from ..text.word_sets import load_sections, load_tables
from .datatypes import is_unnamed
from .meaning import Meaning, list_words, read_meaning

THESAURUS = load_sections(__package__, "thesaurus")
MONTHS, WEEKDAYS = THESAURUS["months"], THESAURUS["weekdays"]
NUMBERS = dict(line.split() for line in THESAURUS["numbers"])
"""The digits of number words. "One" is missing, because it is mostly a pronoun."""

Polarity = Literal["is", "not", "was"]
"""`is`: affirmed; `not`: denied; `was`: no longer true ("no longer", "used to", "quit")."""
Mood = Literal["if", "maybe", "will", "report", "without"]


@dataclass(frozen=True)
class Rule:
    """A pattern and its replacement. The pattern is compiled when it is first used."""

    cues: frozenset[str]
    source: str
    plain: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source, re.IGNORECASE)

    def apply(self, text: str, words: frozenset[str]) -> str:
        return text if self.cues.isdisjoint(words) else self.pattern.sub(self.plain, text)

    def finds(self, text: str, words: frozenset[str]) -> re.Match[str] | None:
        return None if self.cues.isdisjoint(words) else self.pattern.search(text)


def rule(cues: str, pattern: str, plain: str = "") -> Rule:
    return Rule(frozenset(cues.split()), pattern, plain)


def cue_words(text: str) -> frozenset[str]:
    """Return the words by which rules are chosen; `@` for the person is one of them."""
    return frozenset(_WORDS.findall(text.lower()))


_WORDS = re.compile(r"@|'?[a-z]+")
_TABLES = load_tables(__package__, "wording")

REWRITES = [rule(*row) for row in _TABLES["rewrites"]]
_REPORT_VERBS = (
    "think thinks thought believe believes believed claim claims claimed say says said tell tells told assume assumes assumed "
    "guess guesses guessed suspect suspects suspected insist insists insisted hear hears heard reckon reckons swear swears "
    "pretend pretends pretended dreamed dreamt joked lied shows lists reports reported suggests writes wrote states feared"
)
_HEARSAY = "supposedly allegedly reportedly apparently hypothetically hearsay kidding"
_TASKS = "translate summarize summarise rewrite rephrase paraphrase proofread repeat spell classify sentence phrase"

MOODS: dict[Mood, Rule] = {
    "if": rule(
        "if unless would could wish wishes wished imagine imagines imagining suppose",
        r"\b(?:if|unless|would|could|wish(?:es|ed)?|imagin\w+|suppose)\b",
    ),
    "maybe": rule(
        "might maybe perhaps possibly probably considering considers consider thinking thinks think sure almost nearly",
        r"\b(?:might|maybe|perhaps|possibly|probably|consider\w*|think(?:s|ing)? (?:of|about)|not sure|almost|nearly)\b",
    ),
    "will": rule(
        "will shall plan plans planning intends intending intend hope hopes hoping want wants wanted dream dreams dreaming "
        "dreamed about going try tries trying looking next",
        r"\b(?:will|shall|plans?|planning|intends?|intending|hop(?:es?|ing)|wants? to|wanted to|dream(?:s|ed|ing)? (?:of|about)|"
        r"about to|going to (?-i:(?!the |a )[a-z]+)|tr(?:ies|ying) to|looking (?:to|for|forward)|next (?:week|month|year))\b",
    ),
    "report": rule(
        f"{_REPORT_VERBS} {_HEARSAY} {_TASKS} let according rumor rumour rumors rumours example instance story novel book film "
        "movie dream game song joke scenario seems appears this following",
        rf"\b(?:{_REPORT_VERBS.replace(' ', '|')})(?: \w+)?(?: that)? (?:@|(?-i:[A-Z])\w*)"
        r"(?='s | \w+s\b| \w+ed\b| (?:no|now|is|are|has|live)\b)"
        r"|\blet(?:'s| @) \w+ |^(?:please )?(?:pretend|assume|say)\b|\b(?:it|@) (?:seems|appears)\b"
        r"|\baccording to\b|\brumou?rs?\b|\bfor (?:example|instance)\b"
        r"|\bin (?:a|the|this|that|his|her|their|@'s) (?:story|novel|book|film|movie|dream|game|song|joke|scenario|example)\b"
        rf"|\b(?:{_HEARSAY.replace(' ', '|')})\b|\b(?:{_TASKS.replace(' ', '|')})\b[^.!?]*[:\"]"
        r"|\b(?:this|following)(?: \w+)?:|\bsay \"",
    ),
    "without": rule("without", r"\bwithout\b"),
}

POLARITIES: list[tuple[Polarity, Rule]] = [(polarity, rule(*row)) for polarity, *row in _TABLES["polarities"]]
CHANGED = rule(
    "now nowadays longer anymore recently new newly instead moved relocated emigrated switched changed became becomes turned "
    "started joined promoted rescheduled postponed pushed transferred went currently again replaced",
    "",
).cues
CALLED_OFF = rule("cancel cancelled canceled called dropped gave given giving quit stopped sell sold rid", "").cues
"""Words that can end a plan, not only a state."""
CHANGES = rule(
    "moved relocated emigrated left quit stopped started began joined switched changed became turned got broke split retired "
    "promoted resigned fired lost",
    "",
).cues
"""Words for events whose effect lasts: "She moved this summer"."""
_SEASONS = "summers?|winters?|spring|autumn|fall|holidays|season|semester|term"
_WEEKLY = "|".join(f"{day}s" for day in WEEKDAYS)
TEMPORARY = rule(
    "temporarily also too well for weekends sometimes occasionally until till ago child kid teenager student boy girl when every "
    "youth childhood then half part on before after in",
    r"\b(?:temporarily|also|too(?=[.,;!?]|$)|as well(?! as)|sometimes|occasionally|on and off|until|till|years ago|back then"
    rf"|(?:on|at) weekends|on (?:{_WEEKLY})|every (?:weekend|{_SEASONS})|(?:half|part of) the (?:year|week|time)"
    r"|as a (?:child|kid|teenager|student|boy|girl)|when (?:@|he|she|they) (?:was|were)"
    r"|in (?:@'s|his|her|their) (?:youth|childhood)|in the (?:\w+ties|\d\d(?:\d\d)?s)|before \w+ing"
    r"|after (?:high |@'s )?(?:school|university|college|studies))\b"
    r"|^(?!.*\b(?:has|have) (?!moved|left|relocated)).*\bfor "
    r"(?:now|(?:(?:a|an|the|this|some|several|two|three|four|five|six|\d+) )?(?:\w+ )?"
    rf"(?:trip|while|visit|break|bit|days?|weeks?|weekend|months?|nights?|vacation|{_SEASONS}))\b",
)
"""Words for a state that is temporary, occasional, additional, or from another time of life. It does not end a fact."""
AT_ONE_TIME = rule(
    "today tonight tomorrow this in during over weekend week on",
    r"\b(?:today|tonight|tomorrow"
    rf"|(?:this|at the|on the|over the) (?:morning|afternoon|evening|week|weekend|month|{_SEASONS})"
    rf"|(?:in|during|over) (?:the )?(?:week|month|{_SEASONS})|on \d{{4}}-\d\d-\d\d)\b",
)
"""Words for one time. A state at that time is temporary; a change at that time (`CHANGES`) is not."""
YEARS = re.compile(
    r"\b(?:in|until|till|from|between|by|of|on|around|during|early|late|\d{1,2},|" + "|".join(MONTHS) + r") "
    r"((?:19|20)\d\d)\b(?: (?:to|and|until|till) ((?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
ADVERBS = rule(
    "now currently still just recently really actually already finally also too always days nowadays moment present basically "
    "definitely absolutely as you very truly anymore once far right",
    r"\b(?:now|currently|still|just|recently|really|actually|already|finally|also|too|always|these days|nowadays|at the moment|"
    r"at present|basically|definitely|absolutely|as (?:you|@) (?:know|said)|you know|very|truly|anymore|once more|for now|so far|"
    r"right now)\b",
    " ",
)
CONTRAST = rule(
    "not instead rather from",
    r"(?:, not| \(not|,? instead of|,? rather than) (?P<other>[^,.;!?()]+)\)?(?=[.!?]*$)"
    r"|(?<=ed) from (?P<former>[^,.;!?]+?)(?= to )",
)
TAIL = re.compile(
    r"(?:, so|,? (?:because|but|although|though|which|even though|as well as|whereas)) (?!far\b|that\b|much\b)"
    r"|, (?=(?:@(?:'s)?|they|she|he|it|their|his|her)[ '])|, by the way\b",
    re.IGNORECASE,
)
"""The beginning of a reason, a consequence, an objection or another sentence. A denial there does not deny the statement."""
REMARK = re.compile(
    r",? because |, so (?!far\b|that\b|much\b)|,? (?:right |very )?(?:close to|near|next to|opposite|overlooking) ",
    re.IGNORECASE,
)
"""The beginning of a reason, a consequence or a closer place, which leaves the statement before it as it is."""
COMPARED = rule(
    "than over prefer prefers preferred",
    r"(?<= )(?:more |better |rather )?than\b|(?<=\w )over (?=\w+[.!]?$)"
    r"|(?<=prefers )([\w-]+) to (?=\w)|(?<=prefer )([\w-]+) to (?=\w)",
    r"\1\2" + "\n",
)
"""Words before the second part of a comparison: "than coffee"."""
PAST_TENSE = re.compile(
    r"@ (?:has (?:been )?|have (?:been )?)?(?!(?:married|divorced|based|named|called|retired|engaged)\b)(?:\w+ed|"
    + "|".join(THESAURUS["past"])
    + r")\b",
    re.IGNORECASE,
)
RECEIVING_END = re.compile(
    r"(?<=\w )@(?=$|[.,;!?]| (?:a|an|the|his|her|their|some|in|on|at|to|with|for|about|from|by|that|@'s|\d+)\b)",
    re.IGNORECASE,
)


# -- parsing a statement
#
# `@` stands for the person that a fact is about: "Alice lives in Lisbon." about Alice and `Alice said: "I live in Lisbon."` both
# become "@ lives in Lisbon". Words of denial are removed and kept as polarity, so that "is no longer vegetarian"
# can be compared with "is vegetarian". The rules are for English. In other languages the words are compared unchanged.


class Wording(NamedTuple):
    """The parts of a statement. Two statements are the same only if these parts agree; the order of words does not matter."""

    plain: str
    """The affirmative statement about `@`, without asides."""
    words: frozenset[str]
    """Stems of the content words. Words after "than" have the prefix `>`."""
    numbers: frozenset[str]
    """Numbers, months and weekdays."""
    names: frozenset[str]
    """Stems of capitalised words and of words for relatives."""
    polarity: Polarity
    moods: frozenset[Mood]
    """The ways in which the statement is not plain: hypothetical, possible, intended, reported, or with "without"."""
    past: bool
    """The statement is about an event, not a state."""
    suffered: bool
    """The person is the object: "Tom called @"."""
    tail: frozenset[str]
    """Stems of an added remark: "…, so long shifts are fine". They are not in `words`."""
    changed: bool
    """The statement says that something is new: "now", "moved", "switched to"."""
    instead: frozenset[str]
    """Stems of the words that the statement replaces: "not June 14", "instead of Greece"."""
    called_off: bool = False
    """The statement can end a plan: "cancelled"."""
    passing: bool = False
    """The statement is additional or temporary: "also", "today", "in the summer"."""
    year: int | None = None
    """The latest year in the statement; None for "since 2019", because that state continues."""
    whose: str = ""
    """The grammatical subject: `@`, or someone or something of theirs ("@'s sister")."""
    marked: str = ""
    """The whole statement about `@`."""


MAX_STATEMENT = 1_000
"""Maximum length of a statement. A longer text is not parsed, but compared by all of its words."""


def parse_wording(text: str, subject: str | None) -> Wording:
    none: frozenset[str] = frozenset()
    if len(text) > MAX_STATEMENT:
        return Wording(
            text, frozenset(stems(text)), none, none, "is", frozenset(), False, False, none, False, none, marked=text
        )
    text = marked = mark_person(text, subject)
    words = cue_words(text)
    moods = frozenset(mood for mood, rule in MOODS.items() if rule.finds(text, words))
    at_a_time = CHANGES.isdisjoint(words) and AT_ONE_TIME.finds(text, words)
    passing, year = bool(at_a_time or TEMPORARY.finds(text, words)), _find_year(text, words)
    head, _, tail = TAIL.sub("\n", text, count=1).partition("\n")
    if "@" in head and stems(head):  # "Lately" in "Lately, she …" is not a statement
        text = head
    else:
        tail = ""
    instead = none
    if contrast := CONTRAST.finds(text, words):
        instead = frozenset(stems(contrast["other"] or contrast["former"]))
        text = text[: contrast.start()] + text[contrast.end() :]
    polarity, text = _split_polarity(text, words)
    plain = squeeze(ADVERBS.apply(text, words))
    content = _content_words(plain, words)
    numbers = frozenset(word for word in content if _is_number(word))
    names = [*stems(" ".join(_CAPITALS.findall(plain))), *(word for word in content if word in KIN)]
    return Wording(
        plain=plain,
        words=frozenset(content) - numbers,
        numbers=numbers,
        names=frozenset(names) - numbers,
        polarity=polarity,
        moods=moods,
        past=PAST_TENSE.search(plain) is not None,
        suffered=RECEIVING_END.search(plain) is not None,
        tail=frozenset(stems(tail)) if tail else none,
        changed=not CHANGED.isdisjoint(words) or words >= {"these", "days"},
        instead=instead,
        called_off=not CALLED_OFF.isdisjoint(words),
        passing=passing,
        year=year,
        whose=match[0] if (match := _OWNER.search(plain)) else "",
        marked=marked,
    )


def mark_person(text: str, subject: str | None) -> str:
    """Replace the person by `@`; remove contractions, quotation marks and phrases such as "she said that"."""
    text = text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"').replace("\n", " ").strip()
    lowered, person = text.lower(), subject_person(subject) if subject else ""
    names = {name for name in (person, *person.split()[:1]) if len(name) > 1 and not is_unnamed(person)}
    for name in [*sorted(names, key=len, reverse=True), "the user"]:
        if name in lowered:
            text = re.sub(rf"(?<![\w@.]){re.escape(name)}(?![\w@]|\.\w)", "@", text, flags=re.IGNORECASE)
    words = cue_words(text)
    for rule in () if _REWRITTEN.isdisjoint(words) else REWRITES:
        if not rule.cues.isdisjoint(words):
            changed = rule.pattern.sub(rule.plain, text)
            text, words = (text, words) if changed == text else (changed, cue_words(changed))
    return squeeze(text)


def squeeze(text: str) -> str:
    return _LOOSE.sub(r"\1", _SPACE.sub(" ", text)).strip(" ,;")


@lru_cache(1024)
def subject_person(subject: str) -> str:
    """Return the person of a subject: `quinn` for "Quinn's brother"."""
    if is_unnamed(subject):
        return subject.lower()
    match = _POSSESSIVE.match(subject) if "'" in subject or "\u2019" in subject else None
    return (match[1] if match else subject).strip().lower()


def _find_year(text: str, words: frozenset[str]) -> int | None:
    if "since" in words or not _DIGIT.search(text):
        return None
    years = [year for found in YEARS.findall(text) for year in found if year]
    return max(map(int, years), default=None)


def _split_polarity(text: str, words: frozenset[str]) -> tuple[Polarity, str]:
    """Return the polarity of a statement, and the statement without the words of denial."""
    for polarity, rule in POLARITIES:
        changed = rule.apply(text, words)
        if changed != text:
            return polarity, squeeze(changed)
    return "is", text


def _content_words(plain: str, words: frozenset[str]) -> list[str]:
    if COMPARED.cues.isdisjoint(words):
        return stems(plain)
    head, _, tail = COMPARED.pattern.sub(COMPARED.plain, plain, count=1).partition("\n")
    return [*stems(head), *(word if _is_number(word) else ">" + word for word in stems(tail))]


def stems(text: str) -> list[str]:
    """Return the stems of the content words of a text. Synonyms have the same stem."""
    text = _MAY.sub(" ", text.replace("@'s", " "))
    if _DIGIT.search(text):
        text = _ORDINAL.sub("", _DATE.sub(_spell_date, text))
        text = _PHONE.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return [_CANON.get(word, word) for word in tokenize(text) if word not in _EMPTY]


def _spell_date(match: re.Match[str]) -> str:
    """Spell a date in words: 2025-06-03 becomes "3 June 2025"."""
    month = int(match[2])
    return f"{int(match[3])} {MONTHS[month - 1].title()} {match[1]}" if 0 < month <= 12 else match[0]


def _is_number(word: str) -> bool:
    return word[0].isdigit() or word in TIMES


_CANON = (
    {stem: tokenize(line)[0] for line in THESAURUS["synonyms"] for stem in tokenize(line)}
    | {tokenize(word)[0]: digits for word, digits in NUMBERS.items()}
    | {word[:3]: tokenize(word)[0] for word in MONTHS if word not in ("march", "may")}
)
_REWRITTEN = frozenset[str]().union(*(rule.cues for rule in REWRITES))
TIMES = frozenset(tokenize(" ".join([*MONTHS, *WEEKDAYS])))
_EMPTY = list_stop_tokens("en") - set(tokenize("may")) | frozenset(tokenize(" ".join(THESAURUS["fillers"])))
KIN = frozenset(_CANON.get(word, word) for word in tokenize(" ".join(THESAURUS["kin"])))
ONE_EACH = frozenset(_CANON.get(word, word) for word in tokenize(" ".join(THESAURUS["one_each"])))
SEVERAL = (KIN | frozenset(tokenize(" ".join(THESAURUS["others"])))) - ONE_EACH
"""People and animals of whom a person can have several."""
_POSSESSIVE = re.compile(r"(.+?)['\u2019]s? ")
_OWNER = re.compile(r"@(?:'s [\w'-]+)?")
_SPACE = re.compile(r"\s+")
_LOOSE = re.compile(r" ([,.;!?])")
_CAPITALS = re.compile(r"(?<=[\w,@'] )[A-Z][\w'-]*")
"""Capitalised words after the first word."""
_DIGIT = re.compile(r"\d")
_MAY = re.compile(r"(?<!\d )\bmay\b(?! \d)")
"""The verb "may", not the month."""
_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_PHONE = re.compile(r"(?<![\w-])\+?\(?\d(?:[\s().-]{0,2}\d){6,}\b")


# -- slots


Fills = Literal["one", "if_changed", "many"]
"""The number of values that a slot holds at a time: one, one if the statement is about a change, or any number."""

_LISTS = {
    "PROFESSIONS": THESAURUS["professions"],
    "LANGUAGES": THESAURUS["languages"],
    "MONTHS": [*MONTHS, *(month[:3] for month in MONTHS)],
    "WEEKDAYS": WEEKDAYS,
    "NUMBERS": list(NUMBERS),
    "COUNTRIES": THESAURUS["countries"],
    "CITIES": THESAURUS["cities"],
}


class Slot(NamedTuple):
    """A wording that fills a slot. Several wordings can have the same name."""

    name: str
    fills: Fills
    pattern: str
    value: str
    """The value, if the matching words do not contain it."""


@cache
def _load_slots() -> tuple[list[Slot], dict[str, list[int]]]:
    """Return all slots, and the indexes of the slots for each cue."""
    sections = load_sections(__package__, "slots")
    slots: list[Slot] = []
    for row in sections["SLOTS"]:
        name, fills, rest = row.split(" ", 2)
        pattern, _, value = rest.partition(" => ")
        slots.append(Slot(name, cast("Fills", fills), pattern, value))
    by_cue: dict[str, list[int]] = {}
    for row in sections["CUES"]:
        name, *cues = row.split()
        numbers = [number for number, slot in enumerate(slots) if slot.name == name]
        for cue in cues:
            for word in _LISTS.get(cue, [cue]):
                by_cue.setdefault(word, []).extend(numbers)
    return slots, by_cue


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(_expand(pattern), re.IGNORECASE)


@cache
def _load_parts() -> dict[str, str]:
    parts = {name: "|".join(words) for name, words in _LISTS.items()}
    return parts | dict(row.split(" ", 1) for row in load_sections(__package__, "slots")["PARTS"])


def _expand(pattern: str) -> str:
    """Replace the names of parts in a pattern. The space before END is only there for readability."""
    parts = _load_parts()
    names = "|".join(sorted(parts, key=len, reverse=True))
    expanded = re.sub(rf" ?\b(?=END)|(?:{names})", lambda match: parts.get(match[0], ""), pattern)
    return expanded if expanded == pattern else _expand(expanded)


# -- topics and keys


_COUNTRIES = frozenset(stems(" ".join(THESAURUS["countries"])))
_NAME = re.compile(r"(?<![\w'-])[A-Z]\w+")
_VALUES = ("value", "firm", "known")
"""Names of groups that hold a value. There are several, because a pattern cannot use a group name twice."""
_CLOCK = re.compile(r"^\d{1,2}(?::\d\d)?\W*(?:[ap]\.?m\.?|o'clock)?\W*$|^noon|^midnight", re.IGNORECASE)


class Topic(NamedTuple):
    """A slot and the value that a statement gives it."""

    name: str
    """The name of the slot: "home". It never contains words of the statement."""
    slot: str
    """The slot with the other person and the choice: "home", "sister/employer", "favourite:band"."""
    whose: frozenset[str]
    """The words for the other person that the value belongs to: "sister Ana"."""
    named: frozenset[str]
    """The names in `whose`."""
    which: frozenset[str]
    value: frozenset[str]
    polarity: Polarity
    fills: Fills
    span: tuple[int, int]
    """The span of the matching words in the plain statement."""

    @property
    def kin(self) -> frozenset[str]:
        """The words for the other person, without names: "sister", "mother-in-law"."""
        return self.whose - self.named

    @property
    def alone(self) -> bool:
        """The words can mean only one person."""
        return bool(self.named) or self.kin <= ONE_EACH


class ParsedStatement(NamedTuple):
    wording: Wording
    key: str
    """Equal for statements with the same words that count, and different for most others."""
    topics: tuple[Topic, ...]
    rest: frozenset[str]
    """The content words outside the topics."""
    meaning: Meaning
    head: Meaning | None = None
    """The meaning without a reason, a consequence or a closer place, if the statement has one."""

    @property
    def topic(self) -> Topic | None:
        """The first topic whose slot holds one value at a time."""
        return next((topic for topic in self.topics if topic.fills != "many"), None)


def parse_statement(text: str, subject: str | None) -> ParsedStatement:
    wording = parse_wording(text, subject)
    meaning = read_meaning(wording.marked, text)
    key = meaning.key
    remark = REMARK.search(wording.marked) if meaning.english else None
    head = read_meaning(wording.marked[: remark.start()], "") if remark else None
    if wording.moods or len(wording.plain) > MAX_STATEMENT:
        return ParsedStatement(wording, key, (), wording.words, meaning, head)
    slots, by_cue = _load_slots()
    words = cue_words(wording.plain) | ({"#"} if wording.numbers else frozenset())
    topics: dict[str, Topic] = {}
    for number in sorted({number for word in words for number in by_cue.get(word, ())}):
        match = _compile(slots[number].pattern).search(wording.plain)
        topic = _build_topic(slots[number], match, wording) if match else None
        if topic:
            topics.setdefault(topic.slot, topic)
    outside = _words_outside(wording, topics.values())
    return ParsedStatement(wording, key, tuple(topics.values()), outside, meaning, head)


def lookup_keys(parsed: ParsedStatement, subject: str | None) -> tuple[str, str | None]:
    """Return the keys to look up a statement: one for its words, and one for its topic if it has one.

    Statements of users without a name have one key for the same words in all sessions.
    """
    person = "" if subject is None else subject_person(subject)
    topic_key = None if parsed.topic is None else f"{person}\x1f{parsed.topic.slot}"
    return f"{'' if is_unnamed(person) else person}\x1f{parsed.key}", topic_key


@cache
def list_frame_words(name: str) -> frozenset[str]:
    """Return the words by which the wordings of a slot differ: "lives" and "based". Quantities and degrees are not among them."""
    parts = {part: _load_parts()[part] for part in _FRAME_PARTS}
    slots = [slot for slot in _load_slots()[0] if slot.name == name]
    text = " ".join(re.sub("|".join(parts), lambda match: parts[match[0]], slot.pattern) for slot in slots)
    literal = re.sub(r"\(\?P<\w+>|\(\?[<!=]+|\\.", " ", text)
    words = frozenset(
        list_words(" ".join(re.findall(r"(?<![A-Z\w'])[a-z]{2,}(?![A-Z\w])", literal.replace("'s ", " "))))
    )
    return words - frozenset(list_words(" ".join(THESAURUS["degrees"]))) | {"@", "@s", "was", "have"}


_FRAME_PARTS = ("STAYS", "MOVED", "HAVE", "IS", "DET")


def topic_words(wording: Wording, topic: Topic) -> frozenset[str]:
    """Return the words that count in the part of a statement that fills a slot."""
    return frozenset(list_words(wording.plain[slice(*topic.span)])) | list_frame_words(topic.name)


def _build_topic(slot: Slot, match: re.Match[str], wording: Wording) -> Topic | None:
    groups = match.groupdict()
    words = slot.value or next((groups[name] for name in _VALUES if groups.get(name)), "")
    value = frozenset(stems(f"{words} {groups.get('whom') or ''}"))
    if not value:
        return None
    name, which = slot.name, frozenset(stems(groups.get("which") or ""))
    if name == "when":
        name = "hour" if _CLOCK.match(groups.get("value") or "") else "day"
    who = (groups.get("who") or "").replace("@'s", " ").replace("@", " ")
    whose = frozenset(stems(who))
    is_past = groups.get("then") and not re.search(r"\b(?:has|have)\b", match[0])
    is_over = wording.polarity == "is" and (is_past or groups.get("ended"))
    return Topic(
        name=name,
        slot="/".join([*sorted(whose), name]) + "".join(f":{word}" for word in sorted(which)),
        whose=whose,
        named=frozenset(stems(" ".join(_NAME.findall(who)))),
        which=which,
        value=value,
        polarity="was" if is_over else wording.polarity,
        fills="one" if slot.fills == "if_changed" and wording.changed else slot.fills,
        span=(match.start(), match.end() if groups.get("how") is None else match.start("how")),
    )


def _words_outside(wording: Wording, topics: Collection[Topic]) -> frozenset[str]:
    """Return the content words outside all topics."""
    if not topics:
        return wording.words
    left, at = [], 0
    for start, end in sorted(topic.span for topic in topics):
        left.append(wording.plain[at : max(start, at)])
        at = max(at, end)
    return frozenset(stems(" ".join([*left, wording.plain[at:]]))) - wording.numbers


def is_country(value: frozenset[str]) -> bool:
    return bool(value & _COUNTRIES)
