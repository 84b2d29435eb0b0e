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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from ..facts.rules.passages import is_question
from ..text.word_sets import word_set
from .utterances import ASSISTANT, Utterance, Words, content_words, is_grave, is_tentative

MAX_POSTINGS = 12
"""The most earlier statements that are compared for each word of a later one, the newest."""
MAX_CANDIDATES = 40
"""The most earlier statements that are compared with a later one, the newest."""
MAX_TEXT = 400
"""Longer sentences are neither compared nor cut."""
MAX_CONTEXT = 6
"""A thing whose clause has more other words is only mentioned there."""

_MONTHS = word_set(
    """january february march april may june july august september october november december januar februar märz mai
    juni juli oktober dezember enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre
    diciembre janvier février mars avril juin juillet août septembre octobre novembre décembre gennaio febbraio
    aprile maggio giugno luglio settembre ottobre dicembre janeiro fevereiro março maio junho julho setembro
    outubro novembro dezembro januari februari maart augustus"""
)
_WEEKDAYS = word_set(
    """monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag
    sonntag lunes martes miércoles jueves viernes sábado domingo lundi mardi mercredi jeudi vendredi samedi
    dimanche lunedì martedì mercoledì giovedì venerdì sabato domenica segunda terça quarta quinta sexta maandag
    dinsdag woensdag donderdag vrijdag zaterdag zondag"""
)
_NUMBER_WORDS = word_set("""two three four five six seven eight nine ten eleven twelve""")
_ORDINALS = word_set(
    """first second third fourth fifth last erste zweite dritte premier première deuxième primera segunda"""
)
_MONTH = "|".join(sorted(_MONTHS))
_DATES = frozenset([*_MONTHS, *_WEEKDAYS, *(f"{day}s" for day in _WEEKDAYS)])
_NOT_UNITS = (
    "a|an|the|and|or|but|to|of|in|on|at|for|from|per|is|are|was|each|we|i|it|he|she|they|you|with|as|because|so|then|now|more|less|if|when|until|before|after|also|only|too|that|this"
    "|instead|not|please|every|by|und|oder|y|et|e|en|pro|por|par"
)
_VALUES = re.compile(
    rf"(?P<day>\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?: (?:to|and|bis|-|–) \d{{1,2}}(?:st|nd|rd|th|\.)?)? (?:of |de )?(?:{_MONTH})\b"
    rf"|\b(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{4}}-\d\d-\d\d\b|\b(?:in|of|by|until|since|end of|mid) (?:{_MONTH})\b)"
    rf"|(?P<weekday>\b(?:{'|'.join(sorted(_WEEKDAYS))})s?\b)"
    r"|(?P<time>\b\d{1,2}[:.]\d\d(?= ?(?:am|pm|uhr|h)\b)|\b\d{1,2}:\d\d\b"
    r"|\b(?:at|um) \d{1,2}\b(?![:.,]?\d| ?%| [^\W\d_]{3,})"
    r"|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b)"
    r"|(?P<money>[£$€] ?\d[\d,.]*k?"
    r"|\b\d[\d,.]*k? ?(?:euros?|pounds?|dollars?|francs?|kron(?:or|er)|bucks|quid|eur|usd|gbp|chf)\b)"
    r"|(?P<code>\+?\d[\d ]{6,}\d|\b\d+(?:[-/]\d+){1,}\b|\b\d{5,}\b)"
    r"|(?P<amount>\b(?:\d[\d,]*(?:\.\d+)?|"
    + "|".join(sorted(_NUMBER_WORDS))
    + rf") ?%?(?: ?(?!(?:{_NOT_UNITS})\b)[^\W\d_]+)?)"
    r"|(?P<ordinal>\b(?:" + "|".join(sorted(_ORDINALS)) + r") (?:half|week|floor|day|month|quarter|hälfte|woche)\b)",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_TIMES = frozenset(("day", "weekday", "time", "ordinal"))
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_NAME_PAIR = re.compile(r"[A-Z][^\W_]+ [A-Z][^\W_]+")
_TITLES = word_set("""dr mr mrs ms prof st señor señora herr frau""")
_NOT_NAMES = word_set(
    """i i'm i've i'll i'd ok no not yes oh hi we it he she they the a an and but so please my our his her your in on
    at for from with what who when where which how why is are do does can could would will shall done noted good
    great"""
)

_CUE = re.compile(
    r"\b(?:no longer|any ?more|from now on|instead|now|new|actually|correction|update|changed?|changes|moved?|moves|moving"
    r"|switch(?:ed|es|ing)?|move|only|allowed|limit\w*|postponed?|rescheduled?|slip(?:s|ped)|delayed|pushed|extended|reduced?|increased?|raised|lowered"
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
    r"|ditched|scrapped|replaced)|removed|cancelled|canceled|got rid of|stopped (?:using|taking)|moved off|moving off"
    r"|(?:don't|do not|won't|no longer) (?:need|use|want|take|go with|work with)|no longer at|statt|anstelle von|en lugar de"
    rf"|au lieu de|invece di|em vez de|in plaats van|kein\w* \w+ mehr)|(?P<plain>not|no|nicht|kein\w*|pas)) {_THE}{_THING}",
    re.IGNORECASE,
)
_GONE = (
    r"(?:is|are|was|were|has been|have been|'s|has|have|had|goes|went|got|fell|just) (?:\w+ly |now |also |just |all |been ){0,2}"
    r"(?:(?:out|off|gone|dead|leaving|over|history|broken|sick|ill|unavailable)\b(?! of\b| to\b| with\b| the\b)"
    r"|cancelled|canceled|closed|sold|discontinued|dropped|too (?:expensive|far|small|big|late|slow|heavy|risky|loud)"
    r"|not (?:\w+ ){1,3}enough)\b"
    r"|\b(?:quit|resigned|left|leaves|cancelled|canceled|retired|retires|died|broke|backed out"
    r"|dropped out|isn't coming|can't (?:come|make it|do)|raised|has to (?:work|leave|cancel)|won't (?:come|work))\b"
)
_SUBJECT_GONE = re.compile(
    rf"\A\W*(?:(?:and|but|so|also|sorry|ok(?:ay)?|well|unfortunately|bad news|oh|btw)\b\W*)*{_THE}"
    rf"(?P<thing>[^\W\d_][^\s,;:!?]*(?: [^\s,;:!?]+){{0,2}}?) (?:just |also |now )?(?P<how>{_GONE})",
    re.IGNORECASE,
)
_NO_MORE = re.compile(
    r"\A\W*(?:(?:and|so|but|ok(?:ay)?|oh|then)\b\W*)*no (?P<thing>[^\W\d_]\w+(?: [^\W\d_]\w+)?)(?=[,.;]|\Z| after all)",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"(?:problem|worries|idea|thanks|way|rush|hurry|need|doubt|one|matter|reply|answer|clue|big deal|pressure|sorry)s?\b",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"\b(?:out|off|gone|dead|cancelled|canceled|closed|discontinued|dropped|history|quit|resigned)\b", re.IGNORECASE
)
_BREAK = re.compile(
    r"(?:,|;|(?<=[a-z]{3})\.|(?<=\d\d)\.|\s[–—-])\s+(?:(?:and|or|but|so|und|y|et|e)\s+)?"
    r"|\s(?:and|or|but|und|oder|y|et|ou|e|en)\s|\s(?=(?:on|with|via|at|in) (?!(?:"
    rf"{'|'.join(sorted(_DATES))})\b)(?-i:[A-Z])[^\W_]*(?: (?-i:[A-Z])[^\W_]*)*(?:[,;.]|\Z|\s(?:and|or|but)\b))",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\b(?:between|from|entre|zwischen) \S+(?: \S+)?? (?:and|to|y|et|und) \S+", re.IGNORECASE)
_DEPENDENT = re.compile(
    r"(?:he|she|it|they|his|her|its|their|him|them|this|that|which|who|with|from|for|by|to|at|in|on|until|because|so|via|plus"
    r"|including|not|nor|half|each|both|all|too|one|two|three|four|five|six|\d+|er|sie|es|mit|von|für|con|de|avec|which|where|when|direct|due|valid|free|ready|max|starting|\w{3,}ed)\b",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\b(?P<head>[^\W\d_]+)(?: is| are|['’]s)(?: now| at| in)?(?: the)? (?=[A-Z])"
    r"|\b(?:changed|moved|updated|switched|set) (?:the|your|my|our) (?P<object>[^\W\d_]+) to (?=[A-Z])"
)
_LIVES = re.compile(
    r"\b(i|we|he|she|they)(?:['’](?:m|re|s))?(?: am| are| is)? (?:liv(?:e|es|ing)|based|wohnt?e?)\b", re.IGNORECASE
)
_MOVES = re.compile(
    r"\b(i|we|he|she|they)(?:['’](?:ve|s))?(?: have| has| just)* moved (?:in|to|into|back)\b", re.IGNORECASE
)
_PRONOUN = re.compile(r"(?:i|we|you|he|she|it|they|this|that|there|who|what|everyone|someone)\b", re.IGNORECASE)
_REFERS = re.compile(r"\b(?:it|them|him|there|one)\b", re.IGNORECASE)
_IS = re.compile(
    r"\b(?:is|are|costs?|starts?|begins?|opens?|closes?|leaves?|takes?|gets?|ist|sind|kostet|es|cuesta|est|coûte|è|é)\b|'s\b",
    re.IGNORECASE,
)
_ABOUT_TIME = content_words("date day time start deadline", "en")
_ABOUT_PLACE = content_words("place venue location address", "en")
_SLOTS = {"when": _ABOUT_TIME, "where": _ABOUT_PLACE}
_GENERIC = content_words(
    "new now old from last number change update move start time day date week month year name add go take need want have "
    "come get make say only please instead one thing",
    "en",
)
"""Words that say little about what a statement is about."""
_MEASURES = content_words(
    "days weeks months years hours minutes seconds percent euros pounds dollars km miles kg g mg ml metres half times nights",
    "en",
)
_ADVERBS = content_words("now new old again only please instead today tomorrow either", "en")

Values = Mapping[str, frozenset[str]]


class Clause(NamedTuple):
    """A part of a sentence with its words and its values by their kind."""

    start: int
    end: int
    words: Words
    values: Values
    topic: Words
    """Its words without those of its values."""
    numbers: Mapping[str, frozenset[str]]
    """The numbers among the values, by kind; all of them under `any`."""
    units: frozenset[str]
    """The units of its amounts: only what is counted in the same unit can change into each other."""
    names: frozenset[str]
    grave: bool
    head: Words
    """What gets a name: `vet` in `our vet is now Dr Lindqvist`."""
    lives: str
    """Who lives somewhere, and who moved."""
    moves: str


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
        self._described: dict[int, tuple[bool, bool, Words, frozenset[str]]] = {}
        self._echoes: dict[int, frozenset[str]] = {}
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
                if _LIVES.search(one.text):
                    self._postings["?lives"].append(one.number)
        texts = {number: self._cut(number) for number in self._stale}
        return Outdated(texts, self._replacing)

    # -- one later sentence ------------------------------------------------------------------------------------------

    def _compare(self, later: Utterance) -> None:
        text = later.text
        changes = _CUE.search(text) is not None
        removals = [*self._find_removals(later)]
        states = _IS.search(text) is not None and _VALUES.search(text) is not None
        if not (changes or removals or states) or is_tentative(text):
            return
        clauses = self._parse(later.number)
        if len(clauses) == 2 and not clauses[1].topic:
            clauses = [
                clauses[0],
                clauses[1]._replace(topic=clauses[0].topic),
            ]  # `the number has changed, it's 555 now`
        own_names = frozenset[str]().union(*(one.names for one in clauses))
        own_topic = frozenset[str]().union(*(one.topic for one in clauses))
        for number in self._candidates(later, removals):
            earlier = self._sentences[number]
            if not self._may_correct(later, earlier):
                continue
            grave, gone, context, names = self._describe(number)
            others = bool(names - own_names and own_names - names)
            talked = bool((self._words[number] & own_topic) - _GENERIC)
            over = gone or number in self._replacing
            parsed = self._parse(number)
            for nth, clause in enumerate(parsed):
                several = any(one is not clause and one.values.keys() & clause.values.keys() for one in parsed)
                known = clause.words | context if len(clause.topic) <= 3 else clause.words
                if not clause.topic and nth:
                    known |= parsed[nth - 1].words
                if (not over and any(self._is_removed(clause, known, one, later, grave) for one in removals)) or any(
                    self._is_changed(
                        clause, known, one, changes=changes, grave=grave, several=several, others=others, talked=talked
                    )
                    for one in clauses
                ):
                    self._mark(later, earlier, nth, clause)

    def _describe(self, number: int) -> tuple[bool, bool, Words, frozenset[str]]:
        """Return whether a sentence is grave, whether it says that something is over, the words of its question, and names."""
        if number not in self._described:
            one = self._sentences[number]
            gone = _SUBJECT_GONE.match(one.text) is not None
            names = frozenset[str]().union(*(clause.names for clause in self._parse(number)))
            self._described[number] = (is_grave(one.text), gone, self._question_words(one), names)
        return self._described[number]

    def _candidates(self, later: Utterance, removals: Sequence[Removal]) -> list[int]:
        words = self._words[later.number].union(*(one.words for one in removals))
        found: set[int] = set()
        for word in words:
            found.update(self._postings[word][-MAX_POSTINGS:] if word in self._postings else ())
        if _MOVES.search(later.text):
            found.update(self._postings.get("?lives", [])[-MAX_POSTINGS:])
        return sorted(found | self._slot_answers(words))[-MAX_CANDIDATES:]

    def _slot_answers(self, words: Words) -> set[int]:
        """Return the newest answers to "when" or "where", if a sentence is about the date or the place."""
        found: set[int] = set()
        for asks, slot in _SLOTS.items():
            if words & slot:
                for number in self._postings.get(f"?{asks}", [])[-2:]:
                    found.add(number)
        return found

    def _may_correct(self, later: Utterance, earlier: Utterance) -> bool:
        if later.label == ASSISTANT and not self._reports(later, earlier):
            return False
        if later.label == earlier.label:
            return True
        adjacent = all(one.label == later.label for one in self._sentences[earlier.number + 1 : later.number])
        return not adjacent and ASSISTANT in (later.label, earlier.label) and "" not in (later.label, earlier.label)

    def _reports(self, later: Utterance, earlier: Utterance) -> bool:
        """Return whether the assistant reports a change, or repeats a new value of the turn before."""
        if later.number not in self._echoes:
            values = _all_values(self._parse(later.number))
            before = self._last_turn(later) if values else []
            self._echoes[later.number] = values & _all_values(c for one in before for c in self._parse(one.number))
            if _SUBJECT_GONE.match(later.text):
                said = frozenset(
                    removal.words for one in self._last_turn(later) for removal in self._find_removals(one)
                )
                self._echoes[later.number] |= {
                    " ".join(one.words) for one in self._find_removals(later) if one.words in said
                }
        new = self._echoes[later.number] - _all_values(self._parse(earlier.number))
        return bool(new) or _ACTION.search(later.text) is not None

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
            about = (known & self._words[later.number]) - _GENERIC
            return one.numbers <= clause.numbers["any"] and bool(about or not clause.words)
        if not one.words or not one.words <= clause.words:
            return False
        others = clause.words - one.words
        shared = (others | known) & (self._words[later.number] - one.words)
        if clause.grave:  # that somebody left does not end an allergy
            return False
        if one.named:
            return bool(shared - _GENERIC) or one.firm or len(others) <= (2 if one.subject else 3)
        return one.firm and not grave and len(others) <= (3 if one.subject else MAX_CONTEXT)

    def _is_changed(
        self,
        clause: Clause,
        known: Words,
        later: Clause,
        *,
        changes: bool,
        grave: bool,
        several: bool,
        others: bool,
        talked: bool,
    ) -> bool:
        if changes and not grave:
            renamed = clause.names and later.names and not clause.names & later.names
            if renamed and later.head and later.head <= known:  # `our vet is now Dr Lindqvist`
                return True
            if clause.lives and clause.lives == later.moves:
                return True
        kinds = _changed_kinds(clause, later)
        own = later.topic
        shared = (known - (clause.words - clause.topic)) & own
        about = shared & (_ABOUT_TIME | _ABOUT_PLACE)
        if not kinds or (clause.names - later.names and later.names - clause.names):
            return False
        if not shared - _GENERIC and not about:
            # only what is counted is the same: "120 guests", "85 guests"
            counted = (clause.units & later.units) - _MEASURES - {""}
            return changes and not grave and bool(counted) and (not clause.topic or talked)
        same = bool(own - _GENERIC or about) and own <= known
        if changes:
            return same or not several
        alone = (
            clause.values.keys() == later.values.keys() == set(kinds) and not others and not clause.names - later.names
        )
        return same and alone and not grave and (len(kinds) == 1 or set(kinds) <= _TIMES)

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
        if (ended := _NO_MORE.match(one.text)) and not _PHRASE.match(ended["thing"]):
            yield from self._to_removal(ended["thing"], one.language, firm=True, subject=True)
        starts = [0, *(match.end() for match in re.finditer(r": ", one.text))]
        for gone in filter(None, (_SUBJECT_GONE.match(one.text[start:]) for start in starts[:3])):
            firm = _FINAL.search(gone["how"]) is not None
            yield from self._to_removal(gone["thing"], one.language, firm=firm, subject=True)

    def _to_removal(self, thing: str, language: str, *, firm: bool, subject: bool) -> Iterator[Removal]:
        found = _WORD.findall(thing)
        if not found or _PRONOUN.match(found[0]):
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
        elif firm and found[0].lower() not in (*_NUMBER_WORDS, "one") and not found[0].endswith("ing"):
            phrase = takewhile(lambda word: content_words(word, language) - _ADVERBS, found[:2])
            if words := content_words(" ".join(phrase), language):
                yield Removal(words, frozenset(), False, firm, subject)

    def _cut(self, number: int) -> str:
        """Return a sentence without its outdated clauses; empty if the rest cannot stand alone."""
        text, clauses, stale = self._sentences[number].text, self._parse(number), self._stale[number]
        if 0 in stale:
            first = next((nth for nth in range(len(clauses)) if nth not in stale), None)
            if first is None:
                return ""
            start = clauses[first].start
            if _DEPENDENT.match(text, start) or _REFERS.search(text, start) or len(text[start:].split()) < 3:
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
    """Return the words that are usually written with a capital letter, not only at the beginning of a sentence."""
    inside: Counter[str] = Counter()
    first: Counter[str] = Counter()
    small: Counter[str] = Counter()
    for one in sentences:
        text = one.text[:MAX_TEXT]
        for match in _WORD.finditer(text):
            word, start = match[0], match.start()
            if not word[0].isupper():
                small[word] += 1
            elif pair := _NAME_PAIR.match(text, start):
                inside.update(pair[0].casefold().split())
            else:
                begins = start == 0 or text[start - 2 : start] in (". ", "! ", "? ", ": ")
                (first if begins else inside)[word.casefold()] += 1
    names = {word for word, times in inside.items() if small[word] <= 2 * times}
    return frozenset((names | (first.keys() - small.keys())) - _NOT_NAMES - _TITLES)


def _parse_clauses(text: str, language: str, names: frozenset[str]) -> Iterator[Clause]:
    start = 0
    values = [match.span() for match in chain(_VALUES.finditer(text), _RANGE.finditer(text))]
    breaks = [match for match in _BREAK.finditer(text) if not any(at < match.start() < end for at, end in values)]
    for match in [*breaks, None]:
        end = match.start() if match else len(text)
        if text[start:end].strip():
            piece = text[start:end]
            found = _find_values(piece)
            own = frozenset(word.casefold() for word in _WORD.findall(piece) if word.casefold() in names)
            named = _HEAD.search(piece)
            head = content_words(named["head"] or named["object"], language) if named else frozenset[str]()
            lives, moves = _LIVES.search(piece), _MOVES.search(text)
            people = [match[1].lower() if match else "" for match in (lives, moves)]
            words, said = content_words(piece, language), " ".join(chain.from_iterable(found.values()))
            values_words = content_words(said, language) if found else frozenset[str]()
            topic = frozenset(word for word in words - values_words if not word[0].isdigit())
            numbers, units = _read_numbers(found), _read_units(found, language)
            yield Clause(start, end, words, found, topic, numbers, units, own - _DATES, is_grave(piece), head, *people)
        start = match.end() if match else end


def _find_values(text: str) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for match in _VALUES.finditer(text):
        kind = match.lastgroup or ""
        value = " ".join(match[0].lower().split())
        if kind == "weekday":
            value = value.removesuffix("s")
        elif kind == "time":
            value = value.removeprefix("at ").removeprefix("um ")
            value = f"{value}:00" if value.isdigit() else value
        elif kind == "day":
            value = re.sub(r"\A(?:in|of|by|until|since|end of|mid) ", "", value)
        found[kind].add(value)
    return {kind: frozenset(values) for kind, values in found.items()}


def _changed_kinds(clause: Clause, later: Clause) -> list[str]:
    """Return the kinds of values that differ. A number without a unit may be a sum of money."""
    kinds = [
        kind
        for kind in clause.values.keys() & later.values.keys()
        if not clause.values[kind] & later.values[kind] and (kind != "amount" or _is_same_unit(clause, later))
    ]
    if not kinds and "money" in clause.values and later.units == {""}:
        return [] if clause.numbers["any"] & later.numbers["any"] else ["money"]
    return kinds


def _is_same_unit(clause: Clause, later: Clause) -> bool:
    """Return whether two amounts count the same: `120 guests` and `85 guests`, or `reduced the guests to 85`."""
    if clause.numbers["amount"] & later.numbers["amount"]:
        return False
    return bool(clause.units & later.units) or ("" in later.units and not clause.units.isdisjoint(later.words))


def _read_units(values: Values, language: str) -> frozenset[str]:
    units = (re.sub(r"\A[\d,.]+ ?|\A[a-z]+ ?", "", value, count=1) for value in values.get("amount", ()))
    return frozenset(word for unit in units for word in (content_words(unit, language) or {""}))


def _read_numbers(values: Values) -> dict[str, frozenset[str]]:
    found = {kind: frozenset(chain.from_iterable(map(_DIGITS.findall, group))) for kind, group in values.items()}
    return {**found, "any": frozenset().union(*found.values())}


def _all_values(clauses: Iterable[Clause]) -> frozenset[str]:
    """Return the numbers, weekdays and other values of clauses."""
    found = ({*clause.numbers["any"], *chain.from_iterable(clause.values.values())} for clause in clauses)
    return frozenset().union(*found)
