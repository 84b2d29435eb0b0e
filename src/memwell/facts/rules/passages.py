"""Find the passages that the speaker of a turn states: mask other text, split sentences and clauses, detect languages.

Masked text is replaced by blanks, so that offsets stay. All patterns run in linear time, because a turn can have a mebibyte.
Screening for planted instructions reads the text before it is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from ...search.words import STOP_WORDS
from ...text.fence import PREAMBLE
from ...text.word_sets import load_words, word_set
from .referents import resolve_pronoun

MAX_SENTENCE = 600
"""Maximum length of a sentence. Longer ones are treated as data."""


# The lookbehind lets a run of marks match only at its beginning; otherwise long runs would take quadratic time.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)*_]*+(?=\s|\Z)|[。！？؟।]++[”」』]*+|\n")
_EDGE = re.compile(r"(?:[-*•–#]+>?|\d{1,3}[.)])\s+")
_BEFORE_ORDINAL = re.compile(
    r"\b(?:am|ab|dem|den|der|die|das|zum|vom|bis|beim|im|des|jeden|seit|mein|meinem|ihr|unser)\s+\d+$", re.IGNORECASE
)
"""Words before a German ordinal number: "ab dem 20. bin ich da"."""
MAX_ORDINAL = 2
_ABBREVIATIONS = word_set("""mr mrs ms dr prof st vs jr sr e.g i.e approx dept inc ltd fig no vol a.m p.m u.s""")


class Sentence(NamedTuple):
    text: str
    start: int
    end: int
    unsaid: str = ""
    """The omitted subject, taken from the previous clause."""


def split_sentences(text: str) -> list[Sentence]:
    """Split a text into sentences, without surrounding blanks and list marks."""
    sentences, start = [], 0
    ends = [mark.end() for mark in _END.finditer(text) if not _is_abbreviation(text, mark)]
    for end in [*ends, len(text)]:
        piece = text[start:end]
        at = start + len(piece) - len(piece.lstrip())
        edge = _EDGE.match(text, at, end)
        at = edge.end() if edge else at
        words = text[at:end].strip()
        if words:
            sentences.append(Sentence(words, at, at + len(words)))
        start = end
    return sentences


def _is_abbreviation(text: str, mark: re.Match[str]) -> bool:
    if mark[0] != ".":
        return False
    before = (text[max(0, mark.start() - 8) : mark.start()].split() or [""])[-1]
    if (
        before.isdigit()
        and len(before) <= MAX_ORDINAL
        and _BEFORE_ORDINAL.search(text, max(0, mark.start() - 16), mark.start())
    ):
        return True
    if before.isdigit() and len(before) <= 3:
        line = mark.start() - len(before)
        return line == 0 or text[line - 1] == "\n"
    if before.lower() not in _ABBREVIATIONS:
        return len(before) == 1 and before.isupper() and before != "I"
    following = text[mark.end() : mark.end() + 2].strip()
    return not (before.lower() in ("a.m", "p.m", "no", "u.s") and following[:1].isupper())


# -- clauses
#
# A sentence with two statements about its speaker is split, because they may change at different times: "I'm vegetarian and I
# live in Lisbon". "I used to smoke but quit in 2019" is not split, because the object of "quit" is in the first clause.


_OWN = re.compile(r"(?:I|I['’]\w+|we|we['’]\w+)\s", re.IGNORECASE)
_JOINT = re.compile(
    r"(?:,|;)?\s+(?:and|but)\s+(?=(?:(?:also|now|recently|just|then)\s+)?([A-Za-z]+)(['’]\w+)?\s)|;\s+(?=(I|my|we)\b)"
)
_SUBJECTS = word_set("i my we")
_CHANGES = word_set(
    "moved live work started joined quit left became bought adopted married divorced graduated switched changed study own"
)
_NEED_OBJECTS = word_set("quit left started joined bought adopted own changed")
_NO_OBJECT = re.compile(
    r"\w+\s+(?:in|on|at|after|before|since|during|around|for|last|this|next|when|because|again|early|later|soon|it|them|there|"
    r"two|three|a\s+(?:few|couple|week|month|year)|\d)\b",
    re.IGNORECASE,
)
_BASE = word_set("live work study own")
_GOVERNED = re.compile(
    r"\b(?:to|not|never|no longer|will|would|could|can|cannot|should|might|may|must|let|if|wish|\w+n't)\b|'ll|'d\b",
    re.IGNORECASE,
)
"""Words that may govern a base verb: in "I want to live in Rome and work at home", the second half is not a fact."""
_MINE = re.compile(r"(?:my|our)\s", re.IGNORECASE)
_MANY_DO = re.compile(
    r"\w(?:s|ren|men|people)\s+(?:live|work|have|own|run|love|like|hate|play|speak|eat|drink|study|come)\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:says?|said|thinks?|thought|tells?|told|knows?|knew|believes?|believed|hopes?|wants?|wanted|asks?|asked|claims?|claimed"
    r"|insists?|means?|feels?|felt|if|when|because|since|while|that|who|which|before|after|until|both|between)\b",
    re.IGNORECASE,
)
"""Words that may govern both halves: "My doctor says I sleep too little and I eat too much"."""
MIN_WORDS = 2
MIN_OWNED_WORDS = 4
"""Minimum number of words of a clause that begins with "my": "and my dog" is not a statement."""


def split_clauses(sentence: Sentence) -> list[Sentence]:
    """Split a sentence into clauses that can stand alone."""
    text = sentence.text
    of_mine = _MINE.match(text) is not None
    if len(text) > MAX_SENTENCE or text.endswith("?") or not (of_mine or _OWN.match(text)):
        return [sentence]
    clauses, start, unsaid = list[Sentence](), 0, ""
    for joint in _JOINT.finditer(text):
        following = (joint[1] or joint[2] or "").lower()
        rest = len(text[joint.end() :].split())
        if of_mine and not start and not _are_apart(text[: joint.start()], text[joint.end() :]):
            continue
        subject = "" if following in _SUBJECTS or of_mine else _implied_subject(text, start, joint)
        whole = len(text[start : joint.start()].split()) >= MIN_WORDS and (following != "my" or rest >= MIN_OWNED_WORDS)
        if whole and (following in _SUBJECTS or (following in _CHANGES and subject)):
            end = joint.start()
            clauses.append(Sentence(text[start:end], sentence.start + start, sentence.start + end, unsaid))
            start, unsaid = joint.end(), subject
    return [*clauses, Sentence(text[start:], sentence.start + start, sentence.start + len(text), unsaid)]


def _are_apart(left: str, right: str) -> bool:
    """Return True if "My parents live in Lund" and "I live in Ystad" are statements of their own."""
    left = left.replace("’", "'")
    return (_FINITE.search(left) or _MANY_DO.search(left)) is not None and not (
        _TELLS.search(left) or _POINTS_BACK.search(right)
    )


def _implied_subject(text: str, start: int, joint: re.Match[str]) -> str:
    """Return the omitted subject of a verb after a conjunction; empty if the clause cannot stand alone."""
    verb = (joint[1] or "").lower()
    if verb in _NEED_OBJECTS and _NO_OBJECT.match(text, joint.start(1)):
        return ""
    if verb in _BASE and _GOVERNED.search(text[start : joint.start()].replace("’", "'")):
        return ""
    return "We " if text[:2].lower() == "we" else "I "


_THEN_ASKS = re.compile(
    r"[,;–—-]\s+(?:and |so |but )?"
    r"(?:can|could|do|does|did|is|are|what|what's|how|any|would|should|which|where|who|have|will)\b[^,;]*\?\W*\Z",
    re.IGNORECASE,
)
_OWN_OPENING = re.compile(r"(?:(?:so|and|well|ok|okay|hey|hi),?\s+)?(?:I|I'\w+|my|we|we'\w+)\s", re.IGNORECASE)


def split_off_question(sentence: Sentence, alone: bool = False) -> list[Sentence]:
    """Split a sentence that ends with a question: "I'm off to Japan, any tips?".

    `alone`: the speaker talks to an assistant, and may leave out the question mark: "I'm off to Japan, can you help".
    """
    if len(sentence.text) > MAX_SENTENCE:
        return [sentence]
    if alone:
        asks = _find_last_question(sentence.text)
    elif sentence.text.endswith("?") and _OWN_OPENING.match(sentence.text):
        asks = _THEN_ASKS.search(sentence.text)
    else:
        return [sentence]
    if asks is None or _SUPPOSES.match(sentence.text):
        return [sentence]
    asks = _THEN_SUPPOSES.search(sentence.text, 0, asks.start()) or asks
    middle = sentence.start + asks.start()
    question = sentence.text[asks.start() :].lstrip(" ,;–—-")
    return [
        Sentence(sentence.text[: asks.start()], sentence.start, middle),
        Sentence(question, sentence.end - len(question), sentence.end),
    ]


_OPENS_ASKING = (
    r"(?:can|could|would|will|do|does|did|have) (?:you|u|i|we|he|she|they|it)\b|(?:should|shall|may) (?:i|we)\b|(?:is|are"
    r"|was|were) (?:it|that|this|there|you|they|he|she)\b"
    r"|(?:what|how|where|when|who|why|which)(?:'s|s)? (?:is|are|was|were|do|does|did|can|could|should|will|would|much"
    r"|many|long|far|old|warm|late|often|about|if|kind|sort|time|the)\b"
    r"|what's\b|whats\b|how's\b|who's\b|where's\b|how come\b"
)
_CHAT_QUESTION = re.compile(
    rf"\W*(?:(?:so|and|ok|okay|but|also|hi|hey|btw|pls|please"
    rf"|quiz me:?)[\s,]+){{0,3}}(?:{_OPENS_ASKING})(?!.*\bif you (?:want|need)\b)",
    re.IGNORECASE,
)
_LAST_QUESTION = re.compile(rf"[,;–—-]\s+(?:and |so |but |or )?(?=(?:{_OPENS_ASKING})[^,;]*\Z)", re.IGNORECASE)
_MARKED_QUESTION = re.compile(
    r"[,;–—-]\s+(?:and |so |but )?(?=(?:any|is|are|ok|okay|can|could|do|does|did|what|how|would|should|which|where|who"
    r"|have|will|thoughts|ideas|possible)\b[^,;]*\?\W*\Z)",
    re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"[,;]\s*(?:right|correct|isn't it|aren't they|don't you|no|yes|is that right|is that correct)\s*\?\W*\Z",
    re.IGNORECASE,
)
MIN_BEFORE_QUESTION = 3
_SUPPOSES = re.compile(
    r"\W*(?:(?:and|but|so|ok|okay|well|hi|hey|also)\b[\s,]+){0,3}(?:if|unless|supposing|suppose|assuming|in case|provided|when"
    r"|whenever|as long as|should (?:i|we)|were (?:i|we)|had (?:i|we))\b",
    re.IGNORECASE,
)
"""The beginning of a condition. A question after it is about what is only supposed."""
_THEN_SUPPOSES = re.compile(
    r"(?:[,;–—-]\s*|\s)(?:and|but|so)\s+(?=(?:if|unless|supposing|in case|assuming)\b)", re.IGNORECASE
)


def is_chat_question(text: str) -> bool:
    """Return True for a question without its mark: "what's the weather tomorrow"."""
    return _CHAT_QUESTION.match(text.replace("’", "'")) is not None


def _find_last_question(text: str) -> re.Match[str] | None:
    """Return the joint before a question at the end of a sentence that states something first."""
    plain = text.replace("’", "'")
    if _CONFIRMS.search(plain) or is_chat_question(plain):
        return None
    joint = _MARKED_QUESTION.search(plain) if plain.endswith("?") else _LAST_QUESTION.search(plain)
    if joint is None or len(plain[: joint.start()].split()) < MIN_BEFORE_QUESTION:
        return None
    return joint


# -- remarks
#
# People who type fast join statements by commas: "budget is 18k, the fitter is Mr Oduya". They are split, because they may change
# at different times. A clause that needs the one before it ("…, she's Lebanese") stays.


_VERB = (
    r"(?:is|are|was|were|has|have|had|isn't|aren't|needs?|can|can't|cannot|must|will|won't|takes?|comes?|goes|starts?"
    r"|owns?|does|doesn't|lives?|works?|runs?|wants?|makes?|gives?|gets?|stays?|joins?|costs?|ends?|arrives?)"
)
_OWN_CLAUSE = (
    r"(?:I|I['’]m|I['’]ve|I['’]ll|I['’]d|im|ive|we|we['’]re|we['’]ve|we['’]ll)\s+(?!guess|think|mean|know"
    r"|suppose|hope|see\b)[A-Za-z]"
)
_NOUN_CLAUSE = rf"(?:(?:the|my|our|a third of|half of|most of|all) )(?:[\w'’-]+ ){{1,4}}?{_VERB}\b"
_NAME_CLAUSE = rf"(?-i:[A-Z][\w'’-]+)(?: (?:and|from|in) (?-i:[A-Z])\w+)? {_VERB}\b"
_NOT_LIKE = r"it['’]?s not (?:like|as if) (?:I|we)\b"
_BARE_CLAUSE = r"(?:[a-z][\w-]{2,} ){1,2}(?:is|are)\b"
_PRONOUN_CLAUSE = rf"(?:he|she)(?: (?:always|usually|only|also|never))? (?:{_VERB}|[a-z]{{3,}}s)\b"
_SPLICE = re.compile(
    rf"(?:,\s+|\s+[–—-]\s+|;\s+)(?:and\s+|but\s+|also\s+|plus\s+){{0,2}}(?={_OWN_CLAUSE}|{_NOUN_CLAUSE}|{_NAME_CLAUSE}|{_BARE_CLAUSE}|{_NOT_LIKE})"
    rf"|(?:,\s+(?:and\s+)?|\s+and\s+|;\s+)(?={_PRONOUN_CLAUSE})",
    re.IGNORECASE,
)
_FINITE = re.compile(
    rf"\b{_VERB}\b|'(?:s|m|re|ve|ll)\b|n't\b|\b(?:I|we|you|they|im|ive|i'm)\s+(?!and\b|or\b)[a-z]+|\b[a-z]{{2,}}(?:ed|kes|ves|sts|nds|lls|rks|lks|rts|ets)\b|\b(?:put|got|sit|bought|found|went|took|made|cut|set)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"\W*(?:and |but |so )?(?:if|when|whenever|because|since|while|after|before|although|though|unless|once|as|until"
    r"|whether|in case|given)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“”«»]|(?<!\w)['‘]")
MIN_REMARK = 3
_POINTS_BACK = re.compile(r"\b(?:it|them|him|her|there|one|ones|instead|too|then|either|both)\W*\Z", re.IGNORECASE)
_OPENS_WITH_PRONOUN = re.compile(r"(?:he|she)\b", re.IGNORECASE)
_DEPENDENT = re.compile(r"(?:all|most|half|a third|some|none|both) of (?:them|which|whom)\b", re.IGNORECASE)


def split_remarks(sentence: Sentence) -> list[Sentence]:
    """Split statements that are joined by commas, if each of them can stand alone."""
    text = sentence.text
    if (
        len(text) > MAX_SENTENCE
        or text.endswith("?")
        or not any(mark in text for mark in (",", " - ", "–", ";", "—", " and he ", " and she "))
    ):
        return [sentence]
    if _QUOTED.search(text):
        return [sentence]
    parts, start = list[Sentence](), 0
    plain = text.replace("’", "'")
    for joint in _SPLICE.finditer(plain):
        left, right = plain[start : joint.start()], plain[joint.end() :]
        if (
            _SUBORDINATE.match(left)
            or len(left.split()) < MIN_REMARK
            or len(right.split()) < MIN_REMARK
            or _DEPENDENT.match(right)
        ):
            continue
        if _OPENS_WITH_PRONOUN.match(right) and resolve_pronoun(right, [left]) is None:
            continue
        if _POINTS_BACK.search(right) or _FINITE.search(left) is None or left.count("(") != left.count(")"):
            continue
        parts.append(
            Sentence(
                text[start : joint.start()],
                sentence.start + start,
                sentence.start + joint.start(),
                sentence.unsaid if start == 0 else "",
            )
        )
        start = joint.end()
    return [
        *parts,
        Sentence(
            text[start:], sentence.start + start, sentence.start + len(text), sentence.unsaid if start == 0 else ""
        ),
    ]


_ITEMS = re.compile(r"\s*(?:,|;|\band\b|&)\s*")


def split_list(sentence: Sentence, adjectives: frozenset[str]) -> list[Sentence]:
    """Split a list of traits without verbs: "Allergic to nuts, vegetarian, no alcohol."."""
    text = sentence.text.rstrip(".! ")
    if len(text) > MAX_SENTENCE or text.split(" ", 1)[0].lower().rstrip(",") not in adjectives:
        return [sentence]
    items, start = list[Sentence](), 0
    for comma in [*re.finditer(r"\s*[,;]\s*", text), None]:
        end = comma.start() if comma else len(text)
        item = text[start:end]
        if not item or item.split(" ", 1)[0].lower() not in adjectives | {"no"} or _FINITE.search(item):
            return [sentence]
        unsaid = "I want " if item[:3].lower() == "no " else ""
        items.append(Sentence(item, sentence.start + start, sentence.start + end, unsaid))
        start = comma.end() if comma else end
    return items


# -- languages
#
# Sentences in other languages than English are quoted, because a wrong rewording is worse than none.


_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[a-zA-Z\u00c0-\u024f]")
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE = 2000
_CHAT_WORDS = word_set(
    """hi hey hello thanks thank please yes no okay love like live lives work works name go went got get want need
really great good new day today tomorrow yesterday never always one two three every allergic favorite favourite"""
)
_GREETINGS = re.compile(
    r"""\W*(?:hallo|guten\s+(?:morgen|tag|abend)|servus|danke(?:\s+schön)?|vielen\s+dank|tsch[üu]ss|bis\s+(?:bald|dann|morgen)|bitte
    |bonjour|bonsoir|salut|merci(?:\s+beaucoup)?|au\s+revoir|hola|buen[oa]s\s+\w+|(?:muchas\s+)?gracias|adi[óo]s|ciao|buongiorno|grazie(?:\s+mille)?
    |ol[áa]|(?:bom|boa)\s+\w+|(?:muito\s+)?obrigad[oa]|tchau|hoi|dank\s+je(?:\s+wel)?|привет|здравствуйте|спасибо|пока
    |你好|您好|大家好|早上好|晚上好|早安|晚安|谢谢(?:你|您)?|謝謝(?:你|您)?|再见|再見|こんにちは|おはよう(?:ございます)?|ありがとう(?:ございます)?|안녕하세요|감사합니다
    |مرحبا|مرحباً|أهلا|أهلاً|السلام\s+عليكم|وعليكم\s+السلام|صباح\s+الخير|مساء\s+الخير|شكرا|شكراً|مع\s+السلامة)(?:[\s,،，]+[^\W\d_]+)?\W*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION_END = re.compile(r"[?？؟][\s\"'”»)]*\Z|[吗嗎呢][。]?\Z")
_SELF_WORDS = {
    "de": "wohne lebe arbeite heiße liebe mag möchte gehe esse trinke meinem meinen meiner nehme rauche trage "
    "schlafe fahre brauche "
    "vertrage immer nie niemals selten",
    "fr": "habite travaille aime veux suis ai vais mange bois prends fume utilise dors conduis toujours jamais souvent rarement",
    "es": "vivo trabajo gusta quiero soy tengo voy encanta uso bebo fumo llevo tomo duermo conduzco ceno nunca jamás siempre",
    "it": "vivo abito lavoro amo voglio ho piace vado uso bevo mangio fumo prendo dormo guido sempre raramente",
    "pt": "moro vivo trabalho gosto quero sou tenho vou adoro uso bebo fumo durmo tomo levo dirijo conduzo nunca jamais sempre",
    "nl": "woon werk hou wil ga eet slaap neem gebruik fiets draag altijd nooit zelden",
}
"""Words for statements about oneself. A short sentence may have no other words of its language."""


def is_question(sentence: str) -> bool:
    return _QUESTION_END.search(sentence) is not None


def is_foreign_greeting(sentence: str) -> bool:
    return _GREETINGS.match(sentence) is not None


def is_english(text: str, otherwise: bool = True) -> bool:
    """Return True if script and common words indicate English; `otherwise` if they are inconclusive."""
    text = text[:_SAMPLE]
    if not text.isascii() and len(_LATIN.findall(text)) * 2 < len(_LETTER.findall(text)):
        return False
    english, others, _ = _language_words()
    words = {word.lower() for word in _WORD.findall(text)}
    if any(len(words & theirs) > len(words & ours) for theirs, ours in others):
        return False
    return True if words & english else otherwise


def may_be_mixed(text: str) -> bool:
    """Return True if parts of a text may be in another language than the rest."""
    if len(text) > _SAMPLE or not text.isascii():
        return True
    _, _, foreign = _language_words()
    return not foreign.isdisjoint(word.lower() for word in _WORD.findall(text))


@cache
def _language_words() -> tuple[frozenset[str], list[tuple[frozenset[str], frozenset[str]]], frozenset[str]]:
    """Return English words; for each other language, words that only it or only English has; and all foreign words."""
    english = word_set(STOP_WORDS["en"]) | _CHAT_WORDS
    other_languages = [
        word_set(f"{words} {_SELF_WORDS.get(language, '')}")
        for language, words in STOP_WORDS.items()
        if language != "en"
    ]
    others = [(words - english, english - words) for words in other_languages]
    return english, others, frozenset[str]().union(*(theirs for theirs, _ in others))


# -- masks: recalled memory, code, and brackets

MEMORY_FENCE = re.compile(r"<(/?)memory\b[^<>]*>", re.IGNORECASE)
"""The marks of a fence around recalled memory, with any attributes."""

_CODE = re.compile(r"^[ \t]*```", re.MULTILINE)
_BRACKETS = re.compile(r"\[([^\[\]]{1,400})\](?!\()")
_ATTACHMENT = re.compile(
    r"(?:(?:shares?|sharing|shared|sends?|sending|sent|shows?|attache[sd]|posts?|posted)\b|(?=(?:an?|the)?\s*(?:photo|image|picture|screenshot)\b))"
    r":?\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
_STAGE_WORDS = 2


def blank(text: str, spans: list[tuple[int, int]]) -> str:
    """Replace spans of a text by blanks. Line breaks stay."""
    if not spans:
        return text
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def find_blanks(before: str, after: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of `before` that are blank in `after`."""
    for run in re.finditer(r"\s+", after):
        text = before[run.start() : run.end()]
        if (words := text.strip()) and text != run[0]:
            start = run.start() + text.index(words)
            yield start, start + len(words)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def blank_recalled_memory(text: str) -> str:
    """Blank the text between marks of recalled memory. A mark without an end belongs to the speaker's own text."""
    text = text.replace(PREAMBLE, " " * len(PREAMBLE))
    depth, opened, blanks = 0, 0, []
    for mark in MEMORY_FENCE.finditer(text):
        if not mark[1]:
            opened = mark.start() if depth == 0 else opened
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                blanks.append((opened, mark.end()))
    return blank(text, blanks)


def blank_code(text: str) -> str:
    """Blank fenced code. A fence without an end runs to the end of the text."""
    if "```" not in text:
        return text
    fences = [mark.start() for mark in _CODE.finditer(text)]
    ends = [_line_end(text, at) for at in fences[1::2]]
    if len(fences) % 2:
        ends.append(len(text))
    return blank(text, list(zip(fences[::2], ends, strict=True)))


def split_brackets(text: str) -> tuple[str, list[Sentence]]:
    """Blank short remarks in brackets; also return the attachments that they describe: `[shares a photo of a dog]`."""
    attachments, blanks = [], []
    for match in _BRACKETS.finditer(text):
        attachment = _ATTACHMENT.fullmatch(match[1].strip())
        if attachment:
            attachments.append(Sentence(attachment[1].strip().rstrip("."), match.start(), match.end()))
        if attachment or len(match[1].split()) <= _STAGE_WORDS:
            blanks.append(match.span())
    return blank(text, blanks), attachments


# -- quotations: text from other people


_QUOTED_LINE = re.compile(r"^[ \t]{0,8}>", re.MULTILINE)
_ATTRIBUTION = re.compile(
    r"^[ \t]{0,8}(?:On|Am|Le|El) [^\n]{1,200} (?:wrote|schrieb[^\n:]{0,60}|a écrit|escribió) ?:[ \t]*$", re.MULTILINE
)
_FORWARDED = re.compile(
    r"^[ \t]{0,8}(?:[-_*]{2,40} ?(?:forwarded|original|weitergeleitete|ursprüngliche) (?:message|mail|e-mail|nachricht)"
    r"|begin forwarded message:)",
    re.MULTILINE | re.IGNORECASE,
)
_FIELDS = "from|to|date|sent|subject|cc|bcc|reply-to|von|an|gesendet|datum|betreff|de|para|asunto|objet|envoyé|enviado"
_HEADERS = re.compile(
    rf"^(?:[ \t*]{{0,8}}(?:{_FIELDS})\*{{0,2}} ?:[^\n]{{0,400}}(?:\n|\Z)){{1,8}}", re.MULTILINE | re.IGNORECASE
)
_SENDER = re.compile(r"^[ \t*]*(?:from|von|de)\b", re.MULTILINE | re.IGNORECASE)
_OF_MAIL = re.compile(
    r"^[ \t*]*(?:subject|sent|cc|bcc|reply-to|betreff|gesendet|asunto|objet)\b|@", re.MULTILINE | re.IGNORECASE
)

_TEXTS = (
    "e-?mails?|texts?|letters?|messages?|paragraphs?|essays?|articles?|sentences?|posts?|cv|r[eé]sum[eé]s?|poems?|story|bio|drafts?|"
    "transcripts?|passages?|abstracts?|reviews?|tweets?|captions?|reports?|speech|threads?|conversations?|chats?|documents?|contracts?|"
    "introductions?|statements?|descriptions?|blogs?|notes?|lyrics|grammar|spelling|writing|wording"
)
_ON_TEXTS = "translate|proof-?read|summari[sz]e|paraphrase|re-?write|rephrase|reword|transcribe"
_ON_ANYTHING = (
    "fix|edit|correct|check|improve|polish|review|shorten|analy[sz]e|read|look at|format|grade|simplify|explain|continue|"
    "finish|reply to|respond to|answer"
)
_ASKED = (
    r"(?:(?:hi|hey|please|now|also|and|so|kindly|(?:can|could|would|will) you|help me(?: to)?|i (?:need|want) you to)\b"
    r",?\s{1,2}){0,5}"
)
_REST, _FEW = r"[^.:?!\n]{0,80}", r"(?: [\w-]{1,20}){0,3}?"
_TASKS = (
    rf"(?:{_ON_TEXTS})\b{_REST}:(?!\S)",
    rf"(?:{_ON_TEXTS}) (?:this|these|the following)\b{_REST}[.?!\n]",
    rf"(?:{_ON_TEXTS}|{_ON_ANYTHING}) (?:this|these|the following){_FEW} (?:{_TEXTS})\b{_REST}[.:?!\n]",
    rf"(?:{_ON_TEXTS}|{_ON_ANYTHING}) (?:my|our|the|his|her|their|an?){_FEW} (?:{_TEXTS})\b{_REST}(?::|[.?!]?[ \t]{{0,8}}\n)",
    rf"(?:{_ON_ANYTHING}) (?:this|the following|it)(?: for me)? ?:",
    rf"here(?:['’]s| is) (?:my|the|an?){_FEW} (?:essays?|letter|draft|article|poem|paragraph|transcript)\b{_REST}:",
)
_MAY_BE_TASK = re.compile(r"[:\n]|\b[Tt]h(?:is|ese|e following)\b")
_TASK = re.compile(rf"(?:^|(?<=[.!?,]\s))[ \t]{{0,8}}{_ASKED}(?:{'|'.join(_TASKS)})", re.MULTILINE | re.IGNORECASE)
_CLOSING_MARK = {'"': '"', "“": "”", "«": "»", "„": "“"}

_SALUTATION = re.compile(
    r"^[ \t]{0,8}(?:dear|to whom it may concern)\b[^\n,:!]{0,60}[,:!]", re.MULTILINE | re.IGNORECASE
)
_SERVICE = re.compile(r"\b(?:support|team|service|assistant|ai|bot|chatgpt|claude)\b", re.IGNORECASE)
"""Recipients of letters that their author wrote for this conversation, such as "Dear support"."""
_CLOSING = re.compile(
    r"(?:^|(?<=[.!?]\s))[ \t]{0,8}(?:(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?|respectfully(?: yours)?"
    r"|(?:(?:with )?(?:kind|kindest|best|warm|warmest|many) )?regards|best wishes|all the best|best|yours|cheers|love),"
    r"\s{0,4}(?P<signed>(?-i:[A-Z][\w.'’-]{0,30}(?: [A-Z][\w.'’-]{0,30}){0,2}))[ \t]{0,8}$",
    re.MULTILINE | re.IGNORECASE,
)

_LABEL = re.compile(
    r"(?:^[ \t]{0,80}(?:[-*•] )?(?:[(\[]?\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?[)\]]?[ ,-]{1,3})?|(?<=[.!?…\"”] ))"
    r"(?P<who>[A-Z][\w'’-]{0,24}(?: [A-Z][\w'’.-]{0,24})?)(?: ?\([^()\n]{1,24}\))?(?P<colon>:) {1,4}(?=\S)"
    r"(?P<first>(?i:I|I['’][a-z]{1,3}|my|we|we['’][a-z]{1,3})\b)?",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(r"\n[ \t]{0,80}\n")
_OWN_LABELS = word_set("me myself i")
_HEADINGS = load_words(__package__, "headings")


def blank_quotes(text: str, speaker: str) -> str:
    """Blank text from other people, and texts that the assistant is asked to work on."""
    text = _blank_mail(text)
    if ">" in text:
        text = blank(text, [(line.start(), _line_end(text, line.start())) for line in _QUOTED_LINE.finditer(text)])
    text = _blank_letter(text, speaker)
    text = _blank_task_text(text)
    return _blank_other_speakers(text, speaker)


def _blank_mail(text: str) -> str:
    """Blank a forwarded mail, from its first mark or header to the end."""
    if "\n" not in text:
        return text
    headers = (block for block in _HEADERS.finditer(text) if _SENDER.search(block[0]) and _OF_MAIL.search(block[0]))
    starts = [mark.start() for mark in (_FORWARDED.search(text), next(headers, None)) if mark]
    attributed = _ATTRIBUTION.search(text)
    if attributed:
        quoted = text[attributed.end() :].lstrip().startswith(">")
        text = blank(text, [attributed.span()]) if quoted else text
        starts += [] if quoted else [attributed.start()]
    return blank(text, [(min(starts), len(text))]) if starts else text


def _blank_letter(text: str, speaker: str) -> str:
    """Blank a letter signed by another person. In the speaker's own letter, blank only the salutation and the signature."""
    if "," not in text:
        return text
    opening = _SALUTATION.search(text)
    closing = _CLOSING.search(text, opening.end() if opening else 0)
    if opening is None or closing is None:
        return blank(text, [part.span() for part in (opening, closing) if part])
    if _SERVICE.search(opening[0]) or _is_first_name_of(speaker, closing["signed"]):
        return blank(text, [opening.span(), closing.span()])
    return blank(text, [(opening.start(), closing.end())])


def _blank_task_text(text: str) -> str:
    """Blank a request to work on a text, and the text itself, up to its closing quotation mark or the end of the turn."""
    task = _TASK.search(text) if _MAY_BE_TASK.search(text) else None
    if task is None:
        return text
    rest = text[task.end() :].lstrip()
    start, end = len(text) - len(rest), len(text)
    if rest[:1] in _CLOSING_MARK and rest:
        end = text.find(_CLOSING_MARK[rest[0]], start + 1) + 1 or end
    return blank(text, [(start if "?" in task[0] else task.start(), end)])


def _blank_other_speakers(text: str, speaker: str) -> str:
    """Blank lines of other speakers in a transcript. In the speaker's own lines, blank only the name."""
    if ": " not in text:
        return text
    labels = [one for one in _LABEL.finditer(text) if one["who"].lower().split()[-1] not in _HEADINGS]
    names = [label["who"].lower() for label in labels]
    own = [name in _OWN_LABELS or _is_first_name_of(speaker, name) for name in names]
    transcript = len(labels) > 1 and (any(own) or len(set(names)) < len(names))
    spans = []
    for n, label in enumerate(labels):
        if own[n]:
            spans.append((label.start("who"), label.end("colon")))
        elif transcript or label["first"]:
            following = labels[n + 1].start() if n + 1 < len(labels) else len(text)
            gap = _PARAGRAPH.search(text, label.end(), following)
            spans.append((label.start("who"), gap.start() if gap else following))
    return blank(text, spans)


def _is_first_name_of(speaker: str, name: str) -> bool:
    return name.lower().split()[:1] == speaker.lower().split()[:1]


# -- code, tracebacks and logs


MAX_CODE_LINE = 2000
"""Maximum length of a line to check. Longer lines are not statements anyway."""
_HINT = re.compile(r"[=;{}$_()\[]|\b(?:import|Traceback|Error|Exception|ERROR|FATAL|WARN|WARNING)\b")
"""A text without any of these has no lines of code."""
_KEYWORDS = (
    "def|class|func|fn|function|public|private|static|const|let|var|int|void|return|elif|else|if|for|while|with|switch|try|"
    "except|catch"
)
_STAMP = r"[\d:.,TZ/+-]+\s"
_FORMS = (
    r"(?:SELECT\b.*\bFROM|INSERT\s+INTO|UPDATE\s.*\bSET|DELETE\s+FROM|(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX|VIEW|DATABASE))\b.*",
    rf"(?:{_KEYWORDS})\b(?=.*(?:[={{}}]|\w\(|\w_\w|;\Z)).*[:;{{}})\]\w]",
    r"from\s+[\w.]+\s+import\b.*|import\s+[\w.]+(?:\s+as\s+\w+)?;?|#include\b.*|using\s+[\w.]+;",
    r"\w[\w.\[\]]*\s*(?:[-+*/|&]?=|:=)\s*[^\s=].*[;)\]}]",
    r"(?=.*(?:[={}]|\w\()).*[;{]|[{}()\[\];,]+",
    r"(?=[^:,]*[:,])[{\[].*[}\]][,;]?",
    r"\$\s[a-z].*|>>>.*",
    rf"(?:{_STAMP}){{0,3}}\[?(?:ERROR|FATAL|WARN|WARNING)\]?[:\s].*|(?:{_STAMP}){{1,2}}\[?(?:INFO|DEBUG|TRACE)\]?[:\s].*",
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b:.*|at\s[\w.$<>]+\(.*|File\s\".*\",\sline\s\d+.*|Traceback\s\(most\srecent.*",
)
_PASTED_LINE = re.compile("|".join(f"(?:{form})" for form in _FORMS))
_TRACEBACK = "Traceback (most recent call last):"


def blank_pasted_lines(text: str) -> str:
    """Blank lines of code and logs, and tracebacks."""
    if _HINT.search(text) is None:
        return text
    spans, at, traced = [], 0, False
    for line in text.split("\n"):
        words = line.strip()
        traced = words == _TRACEBACK or (traced and line[:1] in " \t" and bool(words))
        if traced or (words and len(words) <= MAX_CODE_LINE and _PASTED_LINE.fullmatch(words)):
            spans.append((at, at + len(line)))
        at += len(line) + 1
    return blank(text, spans)
