"""Parse a turn: mask it, split it into sentences, drop sentences that are not statements, and parse the statements."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ...text.word_sets import load_words, word_set
from ..plan import DroppedSentence, Kind, Turn
from .keep_or_drop import Drop, drop_sarcasm, sentence_drop
from .passages import (
    MAX_SENTENCE,
    Sentence,
    blank_code,
    blank_pasted_lines,
    blank_quotes,
    blank_recalled_memory,
    find_blanks,
    is_english,
    is_question,
    may_be_mixed,
    split_brackets,
    split_clauses,
    split_sentences,
)
from .phrase import is_past, mentions

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its|there|here|both|such)(?:'[a-z]+)?\b", re.IGNORECASE
)
_THEN_ASKS = re.compile(
    r"[,;–—-]\s+(?:and |so |but )?"
    r"(?:can|could|do|does|did|is|are|what|what's|how|any|would|should|which|where|who|have|will)\b[^,;]*\?\W*\Z",
    re.IGNORECASE,
)
_OWN_OPENING = re.compile(r"(?:(?:so|and|well|ok|okay|hey|hi),?\s+)?(?:I|I'\w+|my|we|we'\w+)\s", re.IGNORECASE)
_EMPTY = load_words(__package__, "small_talk")
MAX_SENTENCES = 2000
"""Maximum number of sentences of a turn. The rest is dropped."""


class Statement(NamedTuple):
    """A sentence that states something."""

    at: int
    """The number of the sentence in its turn."""
    text: str
    verbatim: str
    start: int
    end: int
    kind: Kind
    content: frozenset[str]
    """Stems of its content words."""
    own: bool
    """The statement mentions its speaker ("I", "my")."""
    to_other: bool
    """The statement mentions the listener ("you")."""
    dangling: bool
    """The statement begins with a pronoun that refers to an earlier sentence."""
    urging: bool
    """The statement is advice, encouragement or a farewell: "Enjoy your trip"."""
    wanted: bool
    """The speaker asked to remember it."""
    english: bool


class ParsedTurn(NamedTuple):
    turn: Turn
    statements: tuple[Statement, ...]
    question: str
    """The last question, or empty."""
    questions: int
    only: Sentence | None
    """The sentence that is not a question, if the turn has exactly one."""
    attachments: tuple[Sentence, ...]
    """Descriptions of pictures and files in brackets: "[shares a photo of a dog]"."""
    words: frozenset[str]
    dropped: tuple[DroppedSentence, ...] = ()


def parse_turn(turn: Turn, names: Collection[str]) -> ParsedTurn:
    """Parse a turn. `names`: the names by which a speaker may be addressed, in lower case."""
    dropped: list[DroppedSentence] = []
    text, attachments = _mask(turn, dropped)
    pieces = split_sentences(text)
    pieces, too_many = pieces[:MAX_SENTENCES], pieces[MAX_SENTENCES:]
    dropped += [to_dropped(turn, one, Drop.TOO_LONG) for one in too_many]
    meant = drop_sarcasm(pieces)
    if len(meant) < len(pieces):
        dropped += [to_dropped(turn, one, Drop.SARCASM) for one in pieces if one not in meant]
    sentences = [clause for one in meant for part in _split_off_question(one) for clause in split_clauses(part)]
    english, mixed = is_english(text), may_be_mixed(text)
    questions: list[str] = []
    plain: list[Sentence] = []
    statements: list[Statement] = []
    for at, sentence in enumerate(sentences):
        last = at + 1 == len(sentences) if turn.note else None
        asks = is_question(sentence.text)
        if asks:
            questions.append(sentence.text)
        else:
            plain.append(sentence)
        reason = sentence_drop(sentence, asks, last)
        if reason is None:
            is_in_english = is_english(sentence.text, english) if mixed else english
            statement = _parse_statement(at, sentence, names, turn.note, is_in_english)
            if _WORD.search(statement.text):
                statements.append(statement)
                continue
            reason = Drop.NO_WORDS
        dropped.append(to_dropped(turn, sentence, reason))
    return ParsedTurn(
        turn,
        tuple(statements),
        question=questions[-1] if questions else "",
        questions=len(questions),
        only=plain[0] if len(plain) == 1 else None,
        attachments=tuple(attachments),
        words=_content_stems(text),
        dropped=tuple(dropped),
    )


def to_dropped(turn: Turn, sentence: Sentence | Statement, reason: Drop) -> DroppedSentence:
    return DroppedSentence(turn.id, sentence.start, sentence.end, reason)


def _mask(turn: Turn, dropped: list[DroppedSentence]) -> tuple[str, list[Sentence]]:
    """Blank text that the speaker does not state; return the text, and the attachments that brackets describe."""
    memory = blank_recalled_memory(turn.text)
    code = blank_code(memory)
    brackets, attachments = split_brackets(code)
    quotes = pasted = brackets
    if turn.role != "tool":
        quotes = blank_quotes(brackets, turn.speaker)
        pasted = blank_pasted_lines(quotes)
    texts = (turn.text, memory, code, brackets, quotes, pasted)
    for before, after, reason in zip(texts[:-1], texts[1:], _MASK_REASONS, strict=True):
        if before is not after:
            dropped += [DroppedSentence(turn.id, *span, reason) for span in find_blanks(before, after)]
    return pasted, attachments


_MASK_REASONS = (Drop.RECALLED_MEMORY, Drop.CODE, Drop.BRACKETS, Drop.QUOTE, Drop.CODE)


def _split_off_question(sentence: Sentence) -> list[Sentence]:
    """Split a sentence that ends with a question: "I'm off to Japan, any tips?"."""
    if not sentence.text.endswith("?") or len(sentence.text) > MAX_SENTENCE or not _OWN_OPENING.match(sentence.text):
        return [sentence]
    asks = _THEN_ASKS.search(sentence.text)
    if asks is None:
        return [sentence]
    middle = sentence.start + asks.start()
    question = asks[0][1:].strip()
    return [
        Sentence(sentence.text[: asks.start()], sentence.start, middle),
        Sentence(question, sentence.end - len(question), sentence.end),
    ]


def _parse_statement(at: int, sentence: Sentence, names: Collection[str], note: bool, english: bool) -> Statement:
    if not english:
        return Statement(
            at, sentence.text, sentence.text, sentence.start, sentence.end, kind="statement",
            content=_content_stems(sentence.text), own=True, to_other=False, dangling=False, urging=False, wanted=note,
            english=False,
        )  # fmt: skip
    bare = sentence.unsaid + strip_lead_ins(sentence.text.replace("’", "'"), names)
    request = _REMEMBER.match(bare)
    to_remember = bare[request.end() :] if request and request.end() < len(bare) else None
    text = add_subject(to_remember or bare)
    own, to_other = mentions(text)
    opening = _FIRST_WORDS.match(text)
    urging = opening is not None and opening["first"].lower() in _ADVICE_VERBS
    return Statement(
        at, text, sentence.text, sentence.start, sentence.end,
        kind=classify(text) if own else "statement", content=_content_stems(text),
        own=own, to_other=to_other, dangling=_OPENS_WITH_PRONOUN.match(text) is not None,
        urging=urging, wanted=note or to_remember is not None, english=True,
    )  # fmt: skip


def _content_stems(text: str) -> frozenset[str]:
    return frozenset(
        word[:6] for word in _WORD.findall(text.lower()) if word not in _EMPTY and (len(word) > 2 or word.isdigit())
    )


# -- lead-ins
#
# Words that only introduce a sentence are removed, and an omitted subject is added.


_LEAD = re.compile(
    r"""(?:(?:(?:(?:hi|hey|hello|dear)\ \w+(?=[,!])
    |oh|ah|aw+|wow|yeah|yep|yup|yes|ye+s+|sure|okay|ok|hey|hi|hello|hiya|well|so|and|but|plus|also
    |anyway|anyways|btw|by\ the\ way
    |honestly|actually|basically|alright|right|absolutely|definitely|totally|exactly|of\ course
    |for\ sure|haha+|hehe|lol|hmm+|um+|uh+
    |thanks(?:\ (?:so\ much|a\ lot|a\ bunch|again))?|thank\ you(?:\ so\ much)?|congrats|no\ worries|no\ problem|you\ know|i\ mean
    |to\ be\ honest|speaking\ of\ which|on\ another\ note|on\ a\ different\ note|as\ for\ me|in\ fact
    |guess\ what|listen|look|cool|nice|great|awesome
    |no|nope|sorry|wait|oops|correction|scratch\ that|never\ ?mind
    |(?:ignore|disregard|forget)\ (?:that|this|it|(?:my|the)\ (?:last|previous|first)\ (?:message|one|question|part|text)))
    \b[,!:.…\s-]*+)|[^\w"“'(\[$€£#+]++)""",
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_CLAUSE = re.compile(
    r"(?:I|I'\w+|my|we|we'\w+|our|it|it's|they|they're|he|she|the|there|this|that|that's)\b", re.IGNORECASE
)
_ONLY_BEFORE_COMMA = word_set(
    "so right sure look listen great nice cool awesome well like thanks no nope sorry wait oops correction"
)
"""Words that are lead-ins only before a comma or an exclamation mark, unlike in "So far" or "Great food"."""

_REMEMBER = re.compile(
    r"(?:please\s+)?(?:remember|note|keep\s+in\s+mind|bear\s+in\s+mind|don'?t\s+forget|do\s+not\s+forget|fyi|for\s+the\s+record|for\s+your\s+information"
    r"|please\s+know|just\s+so\s+you\s+know|save\s+this|memori[sz]e(?:\s+this)?)\b(?:\s+that\b|\s*[:,]|(?=\s+(?:i|my|we|our)\b))\s*",
    re.IGNORECASE,
)
_FEELINGS = word_set(
    """excited glad happy sorry proud thrilled stoked grateful thankful busy tired lucky hoping sad nervous sure"""
)
_WISHES = word_set("love loving hope wish miss enjoy hate prefer")
_AFTER_NOUNS = word_set("and or is was of can will has")
_DENIALS = word_set("can't cannot couldn't didn't won't haven't wouldn't")
_NOT_PAST = word_set("agreed could might must would should let set put read need cut hit ground left")
_AFTER_DOING = word_set("on to for about at in forward through up out into with from my some a an")
_NOT_DOING = word_set("according judging depending owing compared considering regarding including")
_FINITE = re.compile(
    r"'s\b|\b(?:is|are|was|were|has|have|had|can|will|would|does|did|made|gave|felt|\w{2,}(?:ngs|kes|lps|oks|els|ves|ans|ets|eps|ows|nds|ems|rns))\b",
    re.IGNORECASE,
)
_FIRST_WORDS = re.compile(
    r"(?P<lead>(?:just|really|also|super|so|still|already|please|always|never|definitely)\s+)?(?P<first>[A-Za-z']+)(?:\s+(?P<second>[A-Za-z']+))?",
    re.IGNORECASE,
)
_ADVICE_VERBS = load_words(__package__, "advice_verbs")
_TAG_PHRASE = re.compile(
    r",? (?:as )?you (?:know|see)(?=[,.!…]|$),?|, (?:right|huh|haha+|lol)(?=[.!…]|$)", re.IGNORECASE
)
MAX_LEADS = 6


def strip_lead_ins(sentence: str, names: Collection[str]) -> str:
    """Remove interjections, thanks, "you know", and the name of the listener from a sentence."""
    for _ in range(MAX_LEADS):
        shorter = _strip_name(_strip_interjection(sentence), names)
        if shorter == sentence:
            break
        sentence = shorter
    sentence = _TAG_PHRASE.sub("", sentence)
    body = sentence.rstrip(".!? ")
    before, comma, last = body.rpartition(",")
    if comma and before and last.strip().lower() in names:  # "I moved, Mel."
        return before + sentence[len(body) :].strip()
    return sentence


def add_subject(sentence: str) -> str:
    """Add an omitted "I" or "I am": "Went to Rome" becomes "I went to Rome"."""
    match = _FIRST_WORDS.match(sentence)
    if match is None:
        return sentence
    first, second = match["first"].lower(), (match["second"] or "").lower()
    rest = sentence[:1].lower() + sentence[1:]
    if first in _FEELINGS or first == "gonna" or (first, second) in (("going", "to"), ("looking", "forward")):
        return f"I am {rest}"
    if first == "been" and second not in ("a", "an", "the", "so", "too"):
        return f"I have {rest}"
    own_past = is_past(first) and first.isalpha() and first not in _NOT_PAST
    if (first in _WISHES and second not in _AFTER_NOUNS) or first in _DENIALS or own_past:
        return f"I {rest}"
    doing = first.endswith("ing") and first not in _NOT_DOING and second in _AFTER_DOING
    return f"I am {rest}" if doing and _FINITE.search(sentence) is None else sentence


def _strip_interjection(sentence: str) -> str:
    match = _LEAD.match(sentence)
    if match is None or match.end() == len(sentence):
        return sentence
    lead = match[0].rstrip()
    leads_up = lead.lower() in ("so", "no", "nope") and _BEFORE_CLAUSE.match(sentence, match.end())
    needs_comma = lead.lower() in _ONLY_BEFORE_COMMA and not leads_up
    runs_on = lead[-1:].isalpha() and match[0][-1:].isalpha()
    return sentence if needs_comma or runs_on else sentence[match.end() :]


def _strip_name(sentence: str, names: Collection[str]) -> str:
    first, comma, rest = sentence.partition(",")
    if comma and rest.strip() and first.strip().lower() in names:
        return rest.strip()
    word, _, rest = sentence.partition(" ")
    if word[-1:] in "!.," and word[:-1].lower() in names and rest:
        return rest.strip()
    return sentence


# -- kind, subject, importance, confidence


KIN = (
    "mom|mother|mum|dad|father|parents?|sisters?|brothers?|siblings?|sons?|daughters?|wife|husband|spouse|"
    "kids?|child|children|baby|partner|girlfriend|boyfriend|fianc[ée]e?|cousins?|aunt|uncle|niece|nephew|grand(?:ma|pa|mother|father|parents?|son|daughter)|"
    "friends?|best friend|boss|manager|colleagues?|coworkers?|roommate|neighbou?rs?|"
    "doctor|dentist|therapist|teacher|coach|mentor|dogs?|cats?|pets?"
)
_SELF = r"\b(?:I|I'm|I've|I'd|we|we're|we've)\b"
_MAYBE = r"(?:\s+(?:\w+ly|also|just|always|never|still|even|do|don't|have|now|so|not|currently|both|all|actually))*"
_AM = rf"(?:\bI'm|\bI am|\bI was|\bwe're|\bwe are){_MAYBE}"
_HOW_OFTEN = "always|never|usually|often|rarely|seldom|hardly(?: ever)?|barely|neither|no longer"
_NOT_HABITS = "know|think|mind|want|need|have|understand|see|even|really|get|believe|care|remember|mean"
_FORMS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (
        "decision",
        (rf"{_SELF}{_MAYBE} (?:decided|agreed|chose|chosen|settled on|picked|committed|resolved|made up my mind)\b",),
    ),
    (
        "attribute",
        (
            r"\bmy (?:\w+ )?(?:name|birthday|age|job|address|phone|number|email|title|nationality|hometown|pronouns|diet)\b",
            rf"{_AM} (?:an? (?!bit|little|lot|huge fan|big fan|fan)|\d|from |born|allergic|intolerant|vegan|vegetarian)",
            rf"{_AM} (?:married|single|divorced|engaged|pregnant|retired|unemployed|based in|gay|lesbian|bi|trans\w*)\b",
            rf"{_AM} (?:deaf|blind|diabetic|celiac|coeliac|left-handed|lactose)\b",
            rf"{_AM} (?:(?:afraid|scared|terrified) of|dating|learning|studying|training for|working (?:at|for|as|in))\b",
            rf"\bI{_MAYBE} (?:play|drive|teach|smoke|drink|eat|wear|collect|practi[sc]e|coach|volunteer|commute)\b",
            rf"{_SELF}{_MAYBE} (?:live|lived|work(?:ed)? (?:at|for|as|in)|study|studied|grew up|come from|speak)\b",
            rf"{_SELF}{_MAYBE} (?:turned \d+|suffer|was born|moved)\b",
            rf"\bI (?:{_HOW_OFTEN}|don't|do not) (?!{_NOT_HABITS})\w+",
        ),
    ),
    (
        "relation",
        (
            rf"\bmy (?:\w+ )?(?:{KIN})(?:,? [A-Z]\w+,?)?(?:'s| is| was| has| had| lives| works| likes| loves| got| moved)\b",
            rf"\bmy (?:\w+ )?(?:{KIN})'s? (?:name|birthday)",
            r"\bmarried to\b",
        ),
    ),
    (
        "preference",
        (
            rf"{_SELF}{_MAYBE} (?:love|like|enjoy|prefer|hate|dislike|adore|loathe|detest)\b",
            rf"{_AM} (?:(?:an? )?(?:huge|big|real)? ?fan|into|keen on|passionate about|fond of|obsessed with)",
            r"\bI'?d rather\b|\bcan'?t stand\b|\bmy (?:\w+ )?favou?rite\b|\bfavou?rite\b.+\bis\b",
        ),
    ),
    (
        "plan",
        (
            rf"{_AM} (?:going to|gonna|planning|thinking (?:of|about)|considering|about to|hoping to|looking forward|off to)",
            rf"{_SELF}{_MAYBE} (?:plan|intend|want|hope|wish|aim|need)s? to\b",
            r"\b(?:I|we)(?:'ll| will)\b|\bI'?d (?:like|love) to\b|\bcan'?t wait\b",
        ),
    ),
    (
        "possession",
        (
            rf"{_SELF}{_MAYBE} (?:have|own|got|bought|adopted|ordered) (?:an?|my|our|two|three|four|five|\d+|some|lots|many)\b",
        ),
    ),
    (
        "event",
        (
            rf"{_SELF}{_MAYBE} (?:(?!need\b)\w+ed|went|took|saw|made|got|had|found|felt|met|came|began|bought|ran)\b",
            rf"{_SELF}{_MAYBE} (?:won|lost|gave|wrote|read|did|was|were|been|spent|left|quit|broke)\b",
        ),
    ),
)
_KINDS = [(kind, re.compile("|".join(forms), re.IGNORECASE)) for kind, forms in _FORMS]
_OPENS_WITH_KIN = re.compile(
    rf"[Mm]y (?P<kin>(?:[a-z]+ )?(?:{KIN}))(?:,? (?P<name>[A-Z]\w+),?)?"
    r"(?:'s (?!\w+(?:'s| is| was)\b)| (?:is|was|has|had|lives|works|likes|loves|got|moved|plays|goes|went)\b)"
)
_HEDGED = re.compile(
    r"\b(?:I think|I guess|I suppose|maybe|perhaps|probably|might|not sure|possibly|I believe|seems?|kind of|kinda"
    r"|according to)\b",
    re.IGNORECASE,
)
_STRESSED = re.compile(
    r"\b(?:always|never|allerg\w+|important|must|cannot|can't stand|urgent|deadline|medication|diagnosed|emergency)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:need|want|like|looking for|wondering|hoping|trying)\b.*"
    r"\b(?:help|know|suggestions?|recommend\w*|advice|tips?|ideas?|find|understand|figure)\b",
    re.IGNORECASE,
)
_IMPORTANCE: dict[Kind, float] = {
    "instruction": 0.9, "correction": 0.8, "attribute": 0.8, "relation": 0.7, "preference": 0.6, "decision": 0.7,
    "possession": 0.6, "plan": 0.5, "event": 0.4, "statement": 0.3,
}  # fmt: skip


def classify(sentence: str) -> Kind:
    """Return the first kind whose pattern matches a sentence in the first person."""
    sentence = sentence.replace("’", "'")
    return next((kind for kind, pattern in _KINDS if pattern.search(sentence)), "statement")


def find_subject(sentence: str, speaker: str) -> str:
    """Return the person that a sentence is about: the speaker, or a relative at its beginning: "My sister Ana lives in Rome"."""
    match = _OPENS_WITH_KIN.match(sentence)
    if match is None:
        return speaker
    owner = f"{speaker}'" if speaker.endswith("s") else f"{speaker}'s"
    return f"{owner} {match['kin']}" + (f" {match['name']}" if match["name"] else "")


def importance(kind: Kind, sentence: str) -> float:
    """Return the importance of a statement. A request for help is less important."""
    stressed = 0.15 if _STRESSED.search(sentence) else 0.0
    request = 0.2 if _REQUEST.search(sentence) and kind != "instruction" else 0.0
    return round(min(1.0, max(0.1, _IMPORTANCE[kind] + stressed - request)), 2)


def confidence(kind: Kind, sentence: str, role: str) -> float:
    sure = 0.9 if kind in ("attribute", "relation", "instruction", "correction", "decision", "possession") else 0.8
    if _HEDGED.search(sentence):
        sure -= 0.3
    return round(sure * _ROLE_CONFIDENCE.get(role, 1.0), 2)


_ROLE_CONFIDENCE = {"assistant": 0.7, "tool": 0.5}
