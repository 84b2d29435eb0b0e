"""Find the statements of a conversation that a later one replaces, in whole or in part.

Three kinds of later statements replace an earlier one: those that say that something is over (`no CockroachDB`, `Joel quit`,
`not 25`), those that change a value (`the cut-off moves to 16:30`), and those that give the only value of a thing again (`the
ceremony is at 15:00`). Only the clause that is out of date is cut: of `Dmitri does the app, Aisha does the backend` the first
half stays when Aisha leaves.

Words decide which statements are about the same thing. In doubt both stay. People correct themselves and the assistant. The
assistant corrects a person only by reporting an action (`I moved the start to 17 March`) or by repeating that person's new value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..facts.rules.passages import is_question
from .utterances import ASSISTANT, Utterance, Words, content_words, is_grave, is_tentative

MAX_POSTINGS = 24
"""The most earlier statements that are compared for each word of a later one, the newest."""
MAX_TEXT = 400
"""Longer sentences are neither compared nor cut."""
MAX_CONTEXT = 6
"""A thing whose clause has more other words is only mentioned there."""

_MONTHS = (
    "january february march april may june july august september october november december januar februar märz mai juni juli "
    "oktober dezember enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre janvier février "
    "mars avril juin juillet août septembre octobre novembre décembre gennaio febbraio aprile maggio giugno luglio settembre "
    "ottobre dicembre janeiro fevereiro março maio junho julho setembro outubro novembro dezembro januari februari maart "
    "augustus"
).split()
_WEEKDAYS = (
    "monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag lunes "
    "martes miércoles jueves viernes sábado domingo lundi mardi mercredi jeudi vendredi samedi dimanche lunedì martedì mercoledì "
    "giovedì venerdì sabato domenica segunda terça quarta quinta sexta maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"
).split()
_NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve".split()
_ORDINALS = "first second third fourth fifth last erste zweite dritte premier première deuxième primera segunda".split()
_MONTH = "|".join(_MONTHS)
_VALUES = re.compile(
    rf"(?P<day>\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?: (?:to|and|bis|-|–) \d{{1,2}}(?:st|nd|rd|th|\.)?)? (?:of |de )?(?:{_MONTH})\b"
    rf"|\b(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{4}}-\d\d-\d\d\b|\b(?:in|of|by|until|since|end of|mid) (?:{_MONTH})\b)"
    rf"|(?P<weekday>\b(?:{'|'.join(_WEEKDAYS)})s?\b)"
    r"|(?P<time>\b\d{1,2}[:.]\d\d(?= ?(?:am|pm|uhr|h)\b)|\b\d{1,2}:\d\d\b|\b(?:at|um) \d{1,2}\b(?! ?[\d,.%]\d| (?:euros|percent))"
    r"|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b)"
    r"|(?P<money>[£$€] ?\d[\d,.]*k?|\b\d[\d,.]*k? ?(?:euros?|pounds?|dollars?|francs?|kron(?:or|er)|bucks|quid|eur|usd|gbp|chf)\b)"
    r"|(?P<code>\+?\d[\d ]{6,}\d|\b\d+(?:[-/]\d+){1,}\b|\b\d{5,}\b)"
    r"|(?P<amount>\b(?:\d[\d,]*(?:\.\d+)?|" + "|".join(_NUMBER_WORDS) + r") ?%?(?: ?[^\W\d_]+)?)"
    r"|(?P<ordinal>\b(?:" + "|".join(_ORDINALS) + r") (?:half|week|floor|day|month|quarter|hälfte|woche)\b)",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_SINGLE = frozenset(("day", "weekday", "time", "money", "code", "amount", "ordinal"))
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_NAME = re.compile(r"[A-ZÄÖÜÉÀÁÅØŁŚČŠŽ][^\W_]*(?:[-.'][^\W_]+)*")
_TITLES = frozenset("dr mr mrs ms prof st señor señora herr frau".split())
_NOT_NAMES = frozenset(
    "i i'm i've i'll i'd ok no not yes oh hi we it he she they the a an and but so please my our his her your in on at for from "
    "with what who when where which how why is are do does can could would will shall done noted good great".split()
)

_CUE = re.compile(
    r"\b(?:no longer|any ?more|from now on|instead|now|new|actually|correction|update|changed?|changes|moved?|moves|moving"
    r"|switch(?:ed|es|ing)?|postponed|rescheduled|slip(?:s|ped)|delayed|pushed|extended|reduced?|increased?|raised|lowered"
    r"|doubled|halved|cut(?:ting)?|replac(?:ed|es)|tak(?:es|ing) over|took over|goes (?:up|down|to)|went (?:up|down)|can only"
    r"|mak(?:e|ing) (?:it|that)|turns? out|corrected|renamed|upgraded|downgraded|became|has become|jetzt|nun|neu\w*"
    r"|stattdessen|verschoben|geändert|ab sofort|ahora|nuev[oa]s?|cambi(?:ado|ó|a)|en lugar|maintenant|désormais|nouve(?:au|lle)"
    r"|changé|reporté|ora|adesso|nuov[oa]|spostat[oa]|cambiat[oa]|agora|nov[oa]|mudou|nu|voortaan|nieuwe?|verplaatst|gewijzigd)\b",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\bi(?: have|['’]ve)? (?:now )?(?:changed|moved|updated|switched|replaced|reduced|increased|raised|set|corrected|cancelled"
    r"|canceled|removed|rescheduled|postponed|swapped|upgraded|lowered)\b",
    re.IGNORECASE,
)
_THING = r"(?P<thing>(?:[^\W\d_][^\s,;:.!?]*|\d[^\s,;!?]*)(?: [^\s,;:.!?]+){0,2})"
_THE = r"(?:(?:the|a|an|any|our|my|his|her|their|its|on|in|at|with|using|taking|den|die|das|el|la|los|le|les) ){0,2}"
_REMOVED = re.compile(
    rf"\b(?:(?P<firm>no more|instead of|rather than|(?:i(?:'ve)?|we(?:'ve)?) (?:have )?(?:cancelled|canceled|removed|dropped"
    r"|ditched|scrapped|replaced)|removed|cancelled|canceled|got rid of|stopped (?:using|taking)|moved off|moving off|away from"
    r"|(?:don't|do not|won't|no longer) (?:need|use|want|have|take|go with|work with)|no longer at|statt|anstelle von|en lugar de"
    rf"|au lieu de|invece di|em vez de|in plaats van|kein\w* \w+ mehr)|(?P<plain>not|no|nicht|kein\w*|pas)) {_THE}{_THING}",
    re.IGNORECASE,
)
_GONE = (
    r"(?:is|are|was|were|has|have|had|'s|goes|went|got|fell)\b.{0,30}?\b(?:out|off|gone|dead|cancelled|canceled|leaving|closed"
    r"|sold|discontinued|dropped|over|history|too (?:expensive|far|small|big|late|slow|heavy|risky|loud)|not \w+ enough"
    r"|broken|sick|ill|unavailable)\b|\b(?:quit|resigned|left|leaves|cancelled|canceled|retired|retires|died|broke|backed out"
    r"|dropped out|isn't coming|can't (?:come|make it|do)|raised|has to (?:work|leave|cancel)|won't (?:come|work))\b"
)
_SUBJECT_GONE = re.compile(
    rf"\A\W*(?:(?:and|but|so|also|sorry|ok(?:ay)?|well|unfortunately|bad news|oh|btw)\b\W*)*{_THE}"
    rf"(?P<thing>[^\W\d_][^\s,;:!?]*(?: [^\s,;:!?]+){{0,2}}?) (?:just |also |now )?(?P<how>{_GONE})",
    re.IGNORECASE,
)
_FINAL = re.compile(r"\b(?:out|off|gone|dead|cancelled|canceled|closed|discontinued|dropped|history|quit|resigned)\b", re.IGNORECASE)
_BREAK = re.compile(r"(?:,|;|\s[–—-])\s+(?:(?:and|or|but|so|und|y|et|e)\s+)?|\s(?:and|or|but|und|oder|y|et|ou|e|en)\s", re.IGNORECASE)
_DEPENDENT = re.compile(
    r"(?:he|she|it|they|his|her|its|their|him|them|this|that|which|who|with|from|for|by|to|at|in|on|until|because|so|via|plus"
    r"|including|er|sie|es|mit|von|für|con|de|avec|which|where|when|direct)\b",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|are|costs?|starts?|begins?|opens?|closes?|leaves?|takes?|gets?|ist|sind|kostet|es|cuesta|est|coûte|è|é)\b|'s\b", re.IGNORECASE)
_ABOUT_TIME = frozenset("date day time start deadline".split())
_ABOUT_PLACE = frozenset("place venue location address".split())
_SLOTS = {"when": _ABOUT_TIME, "where": _ABOUT_PLACE}
_GENERIC = content_words(
    "new now old from last number change update move start time day date week month year plan name add go take need want have "
    "come get make say only please instead",
    "en",
)
"""Words that say little about what a statement is about."""

Values = Mapping[str, frozenset[str]]


class Clause(NamedTuple):
    """A part of a sentence with its words and its values by their kind."""

    start: int
    end: int
    words: Words
    values: Values
    names: frozenset[str]


class Removal(NamedTuple):
    """A thing that a statement says is over. `firm`: it says so in words that have no other meaning."""

    words: Words
    numbers: frozenset[str]
    named: bool
    firm: bool
    subject: bool


class Outdated(NamedTuple):
    """The new text of each outdated sentence, which is empty if nothing remains, and the sentences that replace others."""

    texts: dict[int, str]
    replacing: set[int]


def find_outdated(sentences: Sequence[Utterance], words: Sequence[Words]) -> Outdated:
    """Find the outdated sentences by their numbers. `words`: the content words of each sentence."""
    return _Search(sentences, words).run()


class _Search:
    """The sentences so far by their words, and the clauses that are out of date."""

    def __init__(self, sentences: Sequence[Utterance], words: Sequence[Words]) -> None:
        self._sentences, self._words = sentences, words
        self._names = _find_names(sentences)
        self._postings: defaultdict[str, list[int]] = defaultdict(list)
        self._clauses: dict[int, list[Clause]] = {}
        self._stale: defaultdict[int, set[int]] = defaultdict(set)
        self._replacing: set[int] = set()

    def run(self) -> Outdated:
        for one in self._sentences:
            if not one.data and len(one.text) <= MAX_TEXT:
                if not is_question(one.text):
                    self._compare(one)
                for word in self._words[one.number]:
                    self._postings[word].append(one.number)
                self._note_answer(one)
        texts = {number: self._cut(number) for number in self._stale}
        return Outdated(texts, self._replacing)

    # -- one later sentence ------------------------------------------------------------------------------------------

    def _compare(self, later: Utterance) -> None:
        text = later.text
        changes = _CUE.search(text) is not None
        removals = [*self._find_removals(later)]
        states = _IS.search(text) is not None and any(map(str.isdigit, text))
        if not (changes or removals or states) or is_tentative(text):
            return
        clauses = self._parse(later.number)
        for number in self._candidates(later, removals):
            earlier = self._sentences[number]
            if not self._may_correct(later, earlier):
                continue
            grave = is_grave(earlier.text)
            context = self._question_words(earlier)
            for nth, clause in enumerate(self._parse(number)):
                known = clause.words | context if len(clause.words) <= 3 else clause.words
                if any(self._is_removed(clause, known, one, later, grave) for one in removals) or any(
                    self._is_changed(clause, known, one, changes=changes, grave=grave) for one in clauses
                ):
                    self._mark(later, earlier, nth, clause)

    def _candidates(self, later: Utterance, removals: Sequence[Removal]) -> list[int]:
        words = self._words[later.number].union(*(one.words for one in removals))
        found: set[int] = set()
        for word in words:
            found.update(self._postings[word][-MAX_POSTINGS:] if word in self._postings else ())
        asked = self._slot_answers(words)
        return sorted(found | asked)

    def _slot_answers(self, words: Words) -> set[int]:
        """Return the newest answers to "when" or "where", if a sentence is about the date or the place."""
        found: set[int] = set()
        for asks, slot in _SLOTS.items():
            if words & slot:
                for number in self._postings.get(f"?{asks}", [])[-2:]:
                    found.add(number)
        return found

    def _may_correct(self, later: Utterance, earlier: Utterance) -> bool:
        if later.label == earlier.label:
            return True
        adjacent = all(one.label == later.label for one in self._sentences[earlier.number + 1 : later.number])
        if adjacent or ASSISTANT not in (later.label, earlier.label) or not (later.label and earlier.label):
            return False
        return earlier.label == ASSISTANT or self._reports(later)

    def _reports(self, later: Utterance) -> bool:
        """Return whether the assistant reports a change, or repeats the values of the turn before."""
        if _ACTION.search(later.text):
            return True
        values = _all_values(self._parse(later.number))
        before = self._last_turn(later)
        return bool(values) and values <= _all_values(clause for one in before for clause in self._parse(one.number))

    def _last_turn(self, later: Utterance) -> list[Utterance]:
        """Return the last sentences of another speaker before a sentence."""
        at = later.number
        while at > 0 and self._sentences[at - 1].label == later.label and later.number - at < MAX_CONTEXT:
            at -= 1
        return [one for one in self._sentences[max(0, at - 3) : at] if one.label != later.label]

    def _question_words(self, answer: Utterance) -> Words:
        """Return the words of the question that a sentence answers."""
        if answer.number == 0:
            return frozenset()
        question = self._sentences[answer.number - 1]
        if question.label == answer.label or not is_question(question.text):
            return frozenset()
        asked = question.text.lower()
        slots = [slot for asks, slot in _SLOTS.items() if re.search(rf"\b{asks}\b", asked)]
        return self._words[question.number].union(*slots)

    def _note_answer(self, answer: Utterance) -> None:
        context = self._question_words(answer)
        for asks, slot in _SLOTS.items():
            if slot <= context:
                self._postings[f"?{asks}"].append(answer.number)

    def _mark(self, later: Utterance, earlier: Utterance, nth: int, clause: Clause) -> None:
        """Note that a clause is out of date, and so is its echo by the assistant."""
        self._stale[earlier.number].add(nth)
        self._replacing.add(later.number)
        marks = frozenset().union(*clause.values.values(), clause.names)
        if earlier.label == ASSISTANT or not marks:
            return
        for one in self._sentences[earlier.number + 1 : min(earlier.number + 4, later.number)]:
            if one.label == ASSISTANT and not is_question(one.text) and len(one.text) <= MAX_TEXT:
                for place, echo in enumerate(self._parse(one.number)):
                    said = frozenset().union(*echo.values.values(), echo.names)
                    if said and said <= marks:
                        self._stale[one.number].add(place)

    # -- the three kinds ---------------------------------------------------------------------------------------------

    def _is_removed(self, clause: Clause, known: Words, one: Removal, later: Utterance, grave: bool) -> bool:
        if one.numbers:
            return one.numbers <= _numbers(clause.values) and bool((known & self._words[later.number]) - _GENERIC or not clause.words)
        if not one.words or not one.words <= clause.words:
            return False
        others = clause.words - one.words
        shared = (others | known) & (self._words[later.number] - one.words)
        if one.named:
            return bool(shared - _GENERIC) or one.firm or len(others) <= 2
        return one.firm and not one.subject and not grave and len(others) <= MAX_CONTEXT

    def _is_changed(self, clause: Clause, known: Words, later: Clause, *, changes: bool, grave: bool) -> bool:
        kinds = [
            kind
            for kind in clause.values.keys() & later.values.keys()
            if not clause.values[kind] & later.values[kind] and _units(clause, kind) & _units(later, kind)
        ]
        own = later.words - _value_words(later)
        shared = (known - _value_words(clause)) & own
        if not shared - _GENERIC and not shared & (_ABOUT_TIME | _ABOUT_PLACE):
            return False
        if not kinds:
            # another name in the same place: "our vet is now Dr Lindqvist"
            if not changes or grave or not (clause.names and later.names) or clause.names & later.names:
                return False
            heads = own - later.names
            return bool(heads) and heads <= known and bool(heads - _GENERIC or heads & _ABOUT_PLACE)
        if clause.names - later.names and later.names - clause.names:
            return False
        if changes:
            return not grave or bool(shared - _GENERIC)
        alone = len(clause.values) == len(later.values) == 1 and not clause.names - later.names
        return alone and not grave and bool(own) and own <= known

    # -- parsing -----------------------------------------------------------------------------------------------------

    def _parse(self, number: int) -> list[Clause]:
        if number not in self._clauses:
            one = self._sentences[number]
            self._clauses[number] = [*_parse_clauses(one.text, one.language, self._names)]
        return self._clauses[number]

    def _find_removals(self, one: Utterance) -> Iterator[Removal]:
        for match in _REMOVED.finditer(one.text):
            if re.match(r"\s*(?:there|from the)\b", one.text[match.end() :]) or is_question(one.text):
                continue
            yield from self._to_removal(match["thing"], one.language, firm=match["firm"] is not None, subject=False)
        if match := _SUBJECT_GONE.match(one.text):
            firm = _FINAL.search(match["how"]) is not None
            yield from self._to_removal(match["thing"], one.language, firm=firm, subject=True)

    def _to_removal(self, thing: str, language: str, *, firm: bool, subject: bool) -> Iterator[Removal]:
        found = _WORD.findall(thing)
        if not found:
            return
        if found[0][0].isdigit():
            numbers = frozenset(_DIGITS.findall(found[0]))
            if numbers:
                yield Removal(frozenset(), numbers, named=True, firm=firm, subject=subject)
            return
        named: list[str] = []
        for word in found:
            if word.casefold() not in self._names:
                break
            named.append(word)
        if named:
            yield Removal(content_words(" ".join(named), language), frozenset(), True, firm, subject)
        elif words := content_words(found[0], language):
            yield Removal(words, frozenset(), False, firm, subject)

    def _cut(self, number: int) -> str:
        """Return a sentence without its outdated clauses; empty if the rest cannot stand alone."""
        text, clauses, stale = self._sentences[number].text, self._parse(number), self._stale[number]
        if 0 in stale:
            first = next((nth for nth in range(len(clauses)) if nth not in stale), None)
            if first is None:
                return ""
            start = clauses[first].start
            if _DEPENDENT.match(text, start) or len(text[start:].split()) < 3:
                return ""
        parts: list[str] = []
        for nth, clause in enumerate(clauses):
            piece = text[clause.start : clause.end]
            if nth in stale or (nth - 1 in stale and _DEPENDENT.match(piece)):
                if parts and not parts[-1].endswith("…"):
                    parts[-1] = parts[-1].rstrip(" ,;:") + "…"
                if nth not in stale:
                    stale.add(nth)
            elif parts and not parts[-1].endswith("…"):
                parts[-1] += text[clauses[nth - 1].end : clause.end]
            else:
                parts.append(piece)
        rest = " ".join(parts)
        return rest if content_words(rest, self._sentences[number].language) else ""


def _find_names(sentences: Sequence[Utterance]) -> frozenset[str]:
    """Return the words that begin with a capital letter inside a sentence, or that no sentence writes without one."""
    inside: set[str] = set()
    first: set[str] = set()
    small: set[str] = set()
    for one in sentences:
        text = one.text[:MAX_TEXT]
        if text.islower():
            small.update(text.split())
            continue
        for match in _WORD.finditer(text):
            word = match[0]
            if not word[0].isupper():
                small.add(word)
            elif match.start() and text[match.start() - 2 : match.start()] not in (". ", "! ", "? ", ": "):
                inside.add(word.casefold())
            else:
                first.add(word.casefold())
    return frozenset((inside | (first - small)) - _NOT_NAMES - _TITLES)


def _parse_clauses(text: str, language: str, names: frozenset[str]) -> Iterator[Clause]:
    start = 0
    values = [(match.start(), match.end()) for match in _VALUES.finditer(text)]
    breaks = [match for match in _BREAK.finditer(text) if not any(at < match.start() < end for at, end in values)]
    for match in [*breaks, None]:
        end = match.start() if match else len(text)
        if text[start:end].strip():
            piece = text[start:end]
            found = _find_values(piece)
            own = frozenset(word.casefold() for word in _WORD.findall(piece) if word.casefold() in names)
            dates = frozenset(_MONTHS) | frozenset(_WEEKDAYS)
            yield Clause(start, end, content_words(piece, language), found, own - dates)
        start = match.end() if match else end


def _find_values(text: str) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for match in _VALUES.finditer(text):
        kind = match.lastgroup or ""
        value = " ".join(match[0].lower().split())
        if kind == "weekday":
            value = value.removesuffix("s")
        elif kind == "day":
            value = re.sub(r"\A(?:in|of|by|until|since|end of|mid) ", "", value)
        found[kind].add(value)
    return {kind: frozenset(values) for kind, values in found.items()}


def _units(clause: Clause, kind: str) -> frozenset[str]:
    """Return the units of amounts: only what is counted in the same unit can change into each other."""
    if kind != "amount":
        return frozenset((kind,))
    units = (re.sub(r"\A[\d,.]+ ?|\A[a-z]+ ", "", value) for value in clause.values[kind])
    return frozenset(unit.removesuffix("s").removesuffix("e") for unit in units)


def _value_words(clause: Clause) -> Words:
    said = " ".join(value for kind, values in clause.values.items() if kind != "amount" for value in values)
    digits = frozenset(word for word in clause.words if word[0].isdigit())
    return frozenset(content_words(said, "en")) | digits


def _numbers(values: Values) -> frozenset[str]:
    return frozenset(number for group in values.values() for value in group for number in _DIGITS.findall(value))


def _all_values(clauses: Iterable[Clause]) -> frozenset[str]:
    return frozenset(value for clause in clauses for group in clause.values.values() for value in group)
