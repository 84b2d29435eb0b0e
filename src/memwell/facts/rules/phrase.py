"""Phrase facts: in the third person if that is safe, otherwise as a quotation, with absolute dates for "yesterday".

The file begins with English grammar (verb forms, contractions, "I have a dog" as "Caroline has a dog"). Facts and dates follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ...text.word_sets import load_words, word_set
from ..wording import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from .statement import Statement

IRREGULAR_PAST = load_words(__package__, "irregular_past")
BASE_IN_ED = word_set("""need feed speed breed bleed proceed succeed exceed embed shed wed heed seed weed""")
MODALS = word_set("can could will would shall should may might must cannot ought")
PARTICIPLES = load_words(__package__, "participles")
PLAIN = load_words(__package__, "base_verbs")

ADVERBS = load_words(__package__, "adverbs")

ADVERB_PHRASES = (
    "by no means",
    "in no way",
    "at least",
    "at times",
    "at most",
    "once in a while",
    "from time to time",
    "every now and then",
)
"""Phrases that may stand between "I" and its verb."""

_BASE_IN_ING = word_set("bring sing ring swing cling fling sting spring")

_EXPANDED = {
    "i'm": "I am", "i've": "I have", "i'll": "I will", "we're": "we are", "we've": "we have", "we'll": "we will",
    "you're": "you are", "you've": "you have", "you'll": "you will", "don't": "do not", "doesn't": "does not",
    "didn't": "did not", "can't": "cannot", "couldn't": "could not", "won't": "will not", "wouldn't": "would not",
    "shouldn't": "should not", "isn't": "is not", "aren't": "are not", "wasn't": "was not", "weren't": "were not",
    "haven't": "have not", "hasn't": "has not", "hadn't": "had not", "mustn't": "must not", "ain't": "am not",
    "gonna": "going to", "wanna": "want to", "gotta": "have got to", "kinda": "kind of", "im": "I am", "ive": "I have",
    "dont": "do not", "cant": "cannot", "i'ma": "I am going to", "imma": "I am going to",
}  # fmt: skip
_HAD = ("i'd", "we'd", "you'd")


def _expand_contraction(word: str, following: str) -> str:
    """Expand a contraction; "I'd" is "I had" before a participle and "I would" otherwise."""
    low = word.lower()
    if low in _HAD:
        return f"{word[:-2]} {'had' if following in PARTICIPLES or following in ('better', 'never') else 'would'}"
    full = _EXPANDED.get(low)
    if full is None:
        return word
    return full[:1].upper() + full[1:] if word[:1].isupper() else full


def is_past(verb: str) -> bool:
    return verb in IRREGULAR_PAST or (verb.endswith("ed") and verb not in BASE_IN_ED)


def is_adverb(word: str) -> bool:
    return word in ADVERBS or (
        word.endswith("ly") and len(word) > 4 and word not in ("rely", "apply", "reply", "supply")
    )


def third_person_verb(verb: str) -> str:
    """Return the form of a verb after a name: have → has, was → was, play → plays."""
    low = verb.lower()
    verb = low if verb.isupper() else verb
    if low in _THIRD:
        return _THIRD[low]
    if low in MODALS or is_past(low) or (low.endswith("ing") and low not in _BASE_IN_ING):
        return verb
    if low.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


_PLURAL = {"am": "are", "was": "were"}
_THIRD = {"am": "is", "are": "is", "were": "was", "was": "was", "have": "has", "do": "does", "is": "is", "has": "has"}


# -- the third person
#
# The first mention of the speaker becomes the name, later ones become "they", "them" or "their". Quotations stay unchanged.


_VERBATIM = re.compile(
    r"""("[^"]*"|“[^”]*”
    |(?<![\w'])'(?!(?:em|til|till|cause|bout|n|\d0s)\b)(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){1,300}(?<!\s)'(?!\w)
    |(?<!\S)(?:https?://|www\.|~?/(?=\w))\S+|(?<!\w)[^\W_]+_\w+|(?<!\S)[a-z]\s?=(?=\s?\w))""",
    re.VERBOSE,
)
"""Text that stays unchanged: quotations, addresses, paths and names of variables."""
_MAY_BE_VERBATIM = re.compile(r"[\"“_/=]|(?<!\w)['’]")
_WORD = re.compile(r"([^\W_]+(?:['-][^\W_]+)*)")
_FIRST = re.compile(r"\b(?:I|I'[a-z]+|me|my|mine|we|we'[a-z]+|us|our|ours|im|ive)\b", re.IGNORECASE)
_SECOND = re.compile(r"\b(?:you|you'[a-z]+|your|yours|yourself|yourselves|ya|u|ur)\b", re.IGNORECASE)
_PRONOUNS = word_set("i me my mine myself we us our ours ourselves you your yours yourself yourselves")
_LATER_PRONOUNS = {
    "i": "they", "we": "they", "me": "them", "us": "them", "my": "their", "our": "their", "mine": "theirs",
    "ours": "theirs", "myself": "themselves", "ourselves": "themselves",
}  # fmt: skip


class _Word(NamedTuple):
    text: str
    after: str
    """The characters up to the next word."""


class Speaker(NamedTuple):
    """The speaker, and the listener if known."""

    name: str
    addressee: str | None = None
    group: str | None = None
    """Who "we" are: `team`, `family`, or empty for the speaker alone; None if unknown."""


def third_person(text: str, who: Speaker) -> str:
    """Rewrite a text in the third person: "I" becomes the speaker, and "you" the listener."""
    rewriter = _Rewriter(who)
    text = text.replace("’", "'")
    parts = _VERBATIM.split(text) if _MAY_BE_VERBATIM.search(text) else [text]
    return "".join(part if n % 2 else rewriter.rewrite(part) for n, part in enumerate(parts))


def mentions(text: str) -> tuple[bool, bool]:
    """Return (mentions the speaker, mentions the listener)."""
    text = text.replace("’", "'")
    own_words = _VERBATIM.sub("", text) if _MAY_BE_VERBATIM.search(text) else text
    return _FIRST.search(own_words) is not None, _SECOND.search(own_words) is not None


def opens_with_we(text: str) -> bool:
    """Return True if the first word for the speaker is "we" or "us"."""
    first = _FIRST.search(_VERBATIM.sub("", text.replace("’", "'")))
    return first is not None and first[0].lower().split("'")[0] in ("we", "us")


def quote_speaker(text: str, name: str) -> str:
    """Return `Caroline said: "…"`."""
    inner = strip_quotation_marks(text)
    return f'{name} said: "{inner if inner[-1:] in ".!?。！？؟…" else inner + "."}"'


def strip_quotation_marks(text: str) -> str:
    """Replace double quotation marks by single ones, so that the text can be quoted."""
    return text.replace('"', "'").replace("“", "'").replace("”", "'").strip()


def possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def inside_sentence(name: str) -> str:
    """Return the form of a name inside a sentence: "the user" for "The user"."""
    return name[:1].lower() + name[1:] if name.startswith("The ") else name


class _Rewriter:
    """Rewrites a sentence in one pass, and remembers if the speaker has been named."""

    def __init__(self, who: Speaker) -> None:
        self._who = who
        self._named = False

    def rewrite(self, text: str) -> str:
        lead, words = _split_words(text)
        out: list[str] = [lead]
        form, spread, adverbs = "", False, 0
        for n, word in enumerate(words):
            low, written = word.text.lower(), word.text
            adverbs = max(adverbs - 1, _phrase_length(words, n) if form else 0)
            if low in _PRONOUNS:
                written, form = self._mention(low, words, n)
                spread = form == "third"
            elif form and low[0].isalpha() and not adverbs and not is_adverb(low):
                written = third_person_verb(written) if form == "third" else _PLURAL.get(low, written)
                form = ""
                spread = spread and low not in _HELPING
            elif spread and low in PLAIN and words[n - 1].text.lower() in ("and", "but", "nor"):
                written = third_person_verb(written)  # "and play" in "I sing and play"
            if low == "to" or _ends_clause(word.after):
                spread = False
            out += [written, word.after]
        return "".join(out)

    def _mention(self, pronoun: str, words: list[_Word], n: int) -> tuple[str, str]:
        """Return the replacement of a pronoun, and the form of a verb that follows it: `third`, `plural` or empty."""
        if pronoun.startswith("you"):
            return self._addressee(pronoun, words, n)
        if pronoun in ("myself", "ourselves"):
            return "themselves", ""
        joined = pronoun == "i" and _is_joined(words, n)
        if self._named and not joined:
            return _LATER_PRONOUNS[pronoun], "plural" if pronoun in ("i", "we") else ""
        # after "according to my boss", "they" would mean the boss
        self._named = pronoun not in ("my", "our") or words[0].text.lower() != "according"
        name = self._who.name if n == 0 else inside_sentence(self._who.name)
        if pronoun in ("my", "our", "mine", "ours"):
            return possessive(name), ""
        if pronoun in ("we", "us"):
            group = f"{possessive(name)} {self._who.group or 'group'}" if self._who.group != "" else name
            return group, "third" if pronoun == "we" else ""
        return name, "third" if pronoun == "i" and not joined else ""

    def _addressee(self, pronoun: str, words: list[_Word], n: int) -> tuple[str, str]:
        if pronoun in ("yourself", "yourselves"):
            return "oneself", ""
        name = inside_sentence(self._who.addressee or "the listener")
        if pronoun in ("your", "yours"):
            return possessive(name), ""
        following = next((word.text.lower() for word in words[n + 1 : n + 3] if not is_adverb(word.text.lower())), "")
        verb = following in PLAIN or following == "were" or is_past(following)
        before = words[n - 1].text.lower() if n else ""
        is_object = before in _BEFORE_OBJECTS or before in PARTICIPLES or before.endswith("ing")
        return name, "third" if verb and not is_object else ""


def _split_words(text: str) -> tuple[str, list[_Word]]:
    """Return the characters before the first word, and the words with contractions expanded."""
    pieces = _WORD.split(text)
    words: list[_Word] = []
    for n in range(1, len(pieces), 2):
        following = pieces[n + 2].lower() if n + 2 < len(pieces) else ""
        *first, last = _expand_contraction(pieces[n], following).split(" ")
        words += [_Word(one, " ") for one in first]
        words.append(_Word(last, pieces[n + 1]))
    return pieces[0], words


def _is_joined(words: list[_Word], n: int) -> bool:
    """Return True for the "I" of "my sister and I", which takes a plural verb."""
    if n < 2 or words[n - 1].text.lower() != "and":
        return False
    following = words[n + 1].text.lower() if n + 1 < len(words) else ""
    first = next((at + 1 for at in range(n - 2, max(-1, n - 8), -1) if _ends_clause(words[at].after)), max(0, n - 7))
    before = [word.text.lower() for word in words[first : n - 1]]
    return following != "am" and not any(is_past(word) or word in _CLAUSE for word in before)


def _phrase_length(words: list[_Word], n: int) -> int:
    """Return the number of words of an adverb phrase that begins at word `n`, or 0."""
    if words[n].text.lower() not in _PHRASE_OPENINGS:
        return 0
    text = " ".join(word.text.lower() for word in words[n : n + _PHRASE_WORDS]) + " "
    return next((phrase.count(" ") + 1 for phrase in ADVERB_PHRASES if text.startswith(f"{phrase} ")), 0)


def _ends_clause(after: str) -> bool:
    return after != " " and not _CLAUSE_ENDS.isdisjoint(after)


_BEFORE_OBJECTS = word_set("to for with of at about from like by see let make help")
_CLAUSE_ENDS = frozenset(",;:.!?–—(")
_HELPING = MODALS | {"do", "did"}
_PHRASE_OPENINGS = frozenset(phrase.split()[0] for phrase in ADVERB_PHRASES)
_PHRASE_WORDS = max(len(phrase.split()) for phrase in ADVERB_PHRASES)
_CLAUSE = PLAIN | {"is", "has", "it's", "that's", "can", "will", "would"}


# -- facts


_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its)(?:'[a-z]+)?\b", re.IGNORECASE
)
MAX_QUESTION_WORDS = 12


class Phrase(NamedTuple):
    text: str
    since: date | None = None
    answers: bool = False
    """The phrase quotes the question that it answers."""


class Scene(NamedTuple):
    """The situation of a statement."""

    who: Speaker
    today: date
    asked: str = ""
    """The question that the statement answers, or empty."""
    impersonal: bool = False
    """Use the third person even if the statement does not mention the speaker."""
    attributed: bool = False
    """Write "According to Caroline: …" instead of a quotation if a statement does not mention the speaker."""
    before: str = ""
    """The sentence before, for a quotation whose pronoun refers to it."""


def phrase_group(group: Sequence[Statement], scene: Scene) -> Phrase:
    """Phrase a group of statements as one fact."""
    who, today = scene.who, scene.today
    if not all(one.english for one in group):
        return Phrase(quote_speaker(" ".join(_capitalize(one.text) for one in group), who.name))
    dated = [resolve_dates(_strip_end(one.text), today) for one in group]
    since = next((one.since for one in dated if one.since), None)
    own = any(one.own for one in group) or scene.impersonal
    relative = any(one.text != _strip_end(each.text) for one, each in zip(dated, group, strict=True))
    if not (own or relative or scene.attributed) or not _is_safe(group, who):
        question = _render_question(group, scene)
        context = [f"on {render_day(today)}"] if relative else []
        context += [question] if question else []
        name = _capitalize(", ".join([*context, inside_sentence(who.name)])) if context else who.name
        texts = [*([scene.before] if scene.before and not question else []), *(one.text for one in group)]
        return Phrase(quote_speaker(" ".join(map(_capitalize, texts)), name), since, bool(question))
    text = third_person("".join([dated[0].text, *(_join_next(one.text) for one in dated[1:])]), who)
    if not own:
        text = f"According to {inside_sentence(who.name)}: {_capitalize(text)}"
    return Phrase(_end_sentence(text), since)


def phrase_attachment(description: str, who: Speaker) -> str:
    """Return `Caroline shared a photo of a dog.`."""
    return _end_sentence(f"{who.name} shared {description}")


def _is_safe(group: Sequence[Statement], who: Speaker) -> bool:
    """Return True if the third person is safe: the sentence does not open with a pronoun, and "you" is a known person."""
    if _OPENS_WITH_PRONOUN.match(group[0].text) or not all(one.sincere for one in group):
        return False
    if who.group is None and opens_with_we(" ".join(one.text for one in group)):
        return False
    if not any(one.to_other for one in group):
        return True
    return who.addressee is not None and all(one.own for one in group if one.to_other)


def _render_question(group: Sequence[Statement], scene: Scene) -> str:
    """Return the question that a statement answers, if its pronoun refers to the question; otherwise empty."""
    if not scene.asked or not group[0].dangling or len(scene.asked.split()) > MAX_QUESTION_WORDS:
        return ""
    return f'asked "{strip_quotation_marks(scene.asked)}"'


_POLITE_END = re.compile(r"[\s,]+(?:please|pls|plz)\W*\Z", re.IGNORECASE)


def _strip_end(text: str) -> str:
    return _POLITE_END.sub("", text.strip()).rstrip(".!… ")


def _join_next(text: str) -> str:
    """Join the next sentence with a semicolon, or with a full stop if it may begin with a name."""
    if text.startswith(("I ", "I'")) or _uncapitalize(text) != text or text[:1].islower():
        return f"; {_uncapitalize(text)}"
    return f". {text}"


def _uncapitalize(text: str) -> str:
    """Lower the first letter if the first word is certainly not a name."""
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


# -- dates


_WEEKDAY = "|".join(WEEKDAYS)
_NUMBER = r"\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a\ couple\ of|a\ few|several"
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
           "nine": 9, "ten": 10}  # fmt: skip
_STEPS = {"last": -1, "this past": -1, "this": 0, "next": 1, "this coming": 1}
_MONTH = "|".join(MONTHS)
_UNIT = "week(?:end)?|month|year|summer|winter|spring|fall|autumn"
_PREPOSITION = re.compile(
    r"\b(?:from|since|until|till|by|for|of|before|after|than|on|in|during|over)\s+\Z", re.IGNORECASE
)
_AS_A_NOUN = ("'s", " was", " is", " has", " will")
_RELATIVE = re.compile(
    rf"""\b(?P<before_yesterday>the\ day\ before\ yesterday)\b
    |\b(?P<after_tomorrow>the\ day\ after\ tomorrow)\b
    |\b(?P<yesterday>yesterday)(?:\ (?P<part>morning|afternoon|evening|night))?\b
    |\b(?P<tomorrow>tomorrow)(?:\ (?P<tomorrow_part>morning|afternoon|evening|night))?\b
    |\b(?P<last_night>last\ night)\b
    |\b(?P<tonight>tonight)\b
    |\b(?P<today>(?:earlier\ )?today|this\ (?:morning|afternoon|evening))\b
    |\b(?:(?P<day_way>last|this\ past|next|this|on|this\ coming)\ )(?P<weekday>{_WEEKDAY})\b(?!\s+the\b)
    |(?<!\bthe\ )\b(?P<way>last|this\ past|next|this\ coming|this)\ (?P<unit>{_UNIT})\b
    |\b(?P<way_month>last|next|this\ past)\ (?P<month>{_MONTH})\b
    |\b(?P<count>{_NUMBER})\ (?P<ago_unit>day|week|weekend|month|year)s?\ ago\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HINT = re.compile(r"\b(?:yesterday|tomorrow|tonight|today|last|past|next|this|ago|on)\b", re.IGNORECASE)
_SINCE = re.compile(rf"\bsince (?:({_MONTH}),? )?((?:19|20)\d\d)\b", re.IGNORECASE)


class DatedText(NamedTuple):
    """A text with absolute dates, and the day since which it is true, if the text says so."""

    text: str
    since: date | None


class _Day(NamedTuple):
    words: str
    first: date | None = None


def resolve_dates(text: str, today: date) -> DatedText:
    """Replace relative dates such as "yesterday" by absolute dates."""
    match = _SINCE.search(text)
    since = date(int(match[2]), MONTHS.index(match[1].lower()) + 1 if match[1] else 1, 1) if match else None
    if _HINT.search(text) is None:
        return DatedText(text, since)
    days: list[date] = []

    def render(match: re.Match[str]) -> str:
        try:
            day = _RULES[next(group for group in _RULES if match[group])](match, today)
        except (OverflowError, ValueError):  # outside the years that `date` supports
            day = _Day(match[0])
        if day.first and day.first <= today:
            days.append(day.first)
        return _fit_preposition(match, day.words)

    return DatedText(_RELATIVE.sub(render, text), since or next(iter(days), None))


def render_day(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1].capitalize()} {day.year}"


def _days_from_today(days: int, part: str = "") -> Callable[[re.Match[str], date], _Day]:
    def rule(match: re.Match[str], today: date) -> _Day:
        day = today + timedelta(days)
        of_day = (match[part] if part in match.groupdict() else part) or ""
        return _Day(f"on the {of_day.lower()} of {render_day(day)}" if of_day else f"on {render_day(day)}", day)

    return rule


def _resolve_weekday(match: re.Match[str], today: date) -> _Day:
    wanted, way = WEEKDAYS.index(match["weekday"].lower()), match["day_way"].lower()
    back = (today.weekday() - wanted) % 7 or 7
    if way == "on":  # it is unclear if the day is past or future
        return _Day(match[0])
    day = today - timedelta(back) if way in ("last", "this past") else today + timedelta(7 - back % 7)
    return _Day(f"on {match['weekday'].capitalize()}, {render_day(day)}", day)


def _resolve_span(match: re.Match[str], today: date) -> _Day:
    unit, step = match["unit"].lower(), _STEPS[match["way"].lower()]
    if unit == "year":
        return _Day(f"in {today.year + step}")
    if unit == "month":
        return _Day(_to_month(_add_months(today, step)).words)
    if unit not in ("week", "weekend") and step == 0:
        return _Day(f"in {unit} {today.year}")
    relation = ("before", "of", "after")[step + 1]
    return _Day(f"{'on' if unit == 'weekend' else 'in'} the {unit} {relation} {render_day(today)}")


def _resolve_month(match: re.Match[str], today: date) -> _Day:
    month, forward = MONTHS.index(match["month"].lower()) + 1, match["way_month"].lower() == "next"
    year = today.year + (month <= today.month if forward else -(month >= today.month))
    return _to_month(date(year, month, 1))


def _resolve_ago(match: re.Match[str], today: date) -> _Day:
    number, unit = match["count"].lower(), match["ago_unit"].lower()
    count = int(number) if number.isdigit() else _COUNTS.get(number)
    if count is None or unit == "weekend":
        many = "s" if count != 1 else ""
        return _Day(f"{match['count']} {unit}{many} before {render_day(today)}")
    if unit == "day":
        day = today - timedelta(count)
        return _Day(f"on {render_day(day)}", day)
    if unit == "week":
        return _Day(
            f"{match['count']} week{'s' if count != 1 else ''} before {render_day(today)}", today - timedelta(7 * count)
        )
    return _to_month(_add_months(today, -count)) if unit == "month" else _Day(f"in {today.year - count}")


def _to_month(day: date) -> _Day:
    first = day.replace(day=1)
    return _Day(f"in {MONTHS[first.month - 1].capitalize()} {first.year}", first)


def _add_months(day: date, months: int) -> date:
    number = day.year * 12 + day.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def _fit_preposition(match: re.Match[str], words: str) -> str:
    """Remove "on" or "in" from a date if the context has no room for it: "since yesterday", "yesterday's"."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    if _PREPOSITION.search(before) or match.string.startswith(_AS_A_NOUN, match.end()):
        words = re.sub(r"^(?:on|in) ", "", words)
    return words[:1].upper() + words[1:] if match[0][:1].isupper() else words


_RULES: dict[str, Callable[[re.Match[str], date], _Day]] = {
    "before_yesterday": _days_from_today(-2),
    "after_tomorrow": _days_from_today(2),
    "yesterday": _days_from_today(-1, "part"),
    "tomorrow": _days_from_today(1, "tomorrow_part"),
    "last_night": _days_from_today(-1, "night"),
    "tonight": _days_from_today(0, "evening"),
    "today": _days_from_today(0),
    "weekday": _resolve_weekday,
    "unit": _resolve_span,
    "month": _resolve_month,
    "count": _resolve_ago,
}
