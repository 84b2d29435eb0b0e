"""Split text into sentences for a summary, each with its speaker and language, and score their wording.

A summary names its speakers: `User: I moved. Assistant: I booked the train.` When it is summarised again, the names are read
back. To keep that unambiguous, a sentence that seems to begin with a name is always written with its speaker: a user's
"Assistant: I agree" becomes `User: Assistant: I agree`.

Facts, decisions, numbers, names, wishes and corrections raise the score of a sentence; greetings, thanks, questions and praise
lower it. Languages without word lists are judged by numbers and spelling. The weights were tuned on hand-written conversations
so that summaries contain the statements that readers wanted to find, and verified on others.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from ..facts.rules.keep_or_drop import MIN_SCORE, TurnFeatures, score_turn
from ..facts.rules.passages import (
    MAX_SENTENCE,
    Sentence,
    blank_code,
    blank_pasted_lines,
    blank_recalled_memory,
    is_question,
    split_sentences,
)
from ..facts.rules.statement import classify, importance
from ..search.words import STOP_WORDS, parse_terms, tokenize
from ..text.hidden import INVISIBLE
from ..text.tokens import estimate_tokens
from ..text.word_sets import load_sections

Words = frozenset[str]

_LISTS = load_sections(__package__, "sentence_cues")

NOTE = "Note"
"""Label of sentences without a speaker if others have one."""
ASSISTANT = "Assistant"
ROLES = frozenset(("User", ASSISTANT, "System", "Tool", NOTE))
EMPTY_SUMMARY = "(Nothing worth telling.)"
"""Stored in place of an empty summary, and ignored when that is summarised again."""
MAX_LABEL = 40
MAX_LINE = 100_000
"""The most characters of a line to read."""
MAX_SENTENCES, MIN_SENTENCES = 60_000, 4
"""The most sentences to read of all lines together, and the number to read of each line in any case."""
MAX_LENGTH = 4 * MAX_SENTENCE
"""The most characters of a sentence to read. Longer ones are shortened anyway."""
FULL_LINE = 60
"""Characters after which a line may end in the middle of a sentence."""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNBROKEN = re.compile(r"[!-~]{40,}")
_ROW = re.compile(r"\W*\||.*\|.*\||[\"'][^\"']{1,60}[\"']\s*:|[{}]|\[\W*[\"'\d]|</?\w+[^<>]*>")
_MAX_SYMBOLS = 20
"""The longest text, in characters, of mostly digits and symbols that counts as a sentence, such as "At 9:40!"."""
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")
_NOT_IN_LABEL = re.compile(r"\A[\W_]+|[:：。！？؟।]|[.!?…]+(?=\s|\Z)")
_LABEL = re.compile(rf"(?=[^\W_])([^\s:]{{1,{MAX_LABEL}}}(?: [^\s:]{{1,{MAX_LABEL}}}){{0,2}}): (?=\S)")
_APPARENT_LABEL = re.compile(r"[\W_]*[^\s:：]+(?:\s[^\s:：]+){0,2}\s?[:：]\s?(?!\d)")
_INNER_END = re.compile(r"(?<=\d\.)\s+")
"""The gap after an ordinal number, which may also end a sentence."""
MAX_APPARENT_LABEL = 200
_CODE = re.compile(r"(?!```).*[^\W\d_]")
_ABBREVIATION = re.compile(r"(?<!\w)(?:\d{1,2}|ca|bzw|nr|z\. ?b|d\. ?h|evtl|ggf|inkl|tel)\.\Z", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:،](?=\s)|\s[–—-](?=\s)|[，；、：]")


class Line(NamedTuple):
    """An entry of a conversation or of a bank of notes."""

    text: str
    speaker: str | None = None
    summary: bool = False
    """True if it is a summary of earlier lines. Then its text names the speakers."""


class Utterance(NamedTuple):
    """A sentence with its speaker, on one line."""

    number: int
    """Its position among all sentences."""
    line: int
    nth: int
    """Its position in its line."""
    label: str
    """The speaker, or empty."""
    text: str
    language: str
    summary: bool
    data: bool
    """True if it is code, a table or the like rather than a sentence."""


def split_lines(lines: Sequence[Line]) -> list[Utterance]:
    """Return all sentences of the lines, in order."""
    texts = [_clean(line.text) for line in lines]
    languages = [guess_language(text) for text in texts]
    most_common = Counter(filter(None, languages)).most_common(1)
    has_speakers = any(speaker_label(line.speaker) for line in lines if not line.summary)
    limit = max(MIN_SENTENCES, MAX_SENTENCES // max(1, len(lines)))
    utterances: list[Utterance] = []
    for line_number, (line, text, guess) in enumerate(zip(lines, texts, languages, strict=True)):
        language = guess or (most_common[0][0] if most_common else "en")
        turn = _split_turn(text, language, line.speaker)
        pieces = _split_summary(text, language, has_speakers) if line.summary else turn
        for nth, (label, sentence, data) in enumerate(islice(_keep_first_data(pieces), limit)):
            utterances.append(
                Utterance(len(utterances), line_number, nth, label, sentence, language, line.summary, data)
            )
    return utterances


# -- words ---------------------------------------------------------------------------------------------------------------


def split_words(text: str) -> list[str]:
    """Return all words in lower case."""
    return _WORD.findall(text.lower())


def guess_language(text: str) -> str:
    """Return the language with the most stop words in a text, or an empty string if there are none."""
    words = set(split_words(text[:MAX_SENTENCE]))
    counts = {language: len(words & stop_words) for language, stop_words in _stop_words().items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else ""


def content_words(text: str, language: str) -> Words:
    """Return the stems of the words that carry content, without stop words and fillers."""
    found = parse_terms(text[:MAX_SENTENCE], language)
    if found.only_stop_words:
        return frozenset()
    words = frozenset(found.tokens) - _fillers(language)
    if text.isascii():
        return words
    # In alphabets whose stop words are not known, words of one or two letters count as stop words.
    return frozenset(word for word in words if not (len(word) <= 2 and "\x7f" < word[0] < "\u0e00"))


def distinctive_words(text: str, language: str) -> Words:
    """Return the stems of numbers and capitalised words, which may be the only difference between two sentences."""
    words = " ".join(word for word in text.split() if word != word.lower() or any(map(str.isdigit, word)))
    return content_words(words, language)


def is_data(text: str) -> bool:
    """Return whether a text is a row of a table, JSON, a checksum or the like rather than a sentence."""
    if len(text) > MAX_SENTENCE or _ROW.match(text):
        return True
    letters = sum(map(len, _LETTERS.findall(text)))
    if letters * 2 < len(text) and len(_LETTERS.findall(text)) < 3:
        return len(text) > _MAX_SYMBOLS or not letters
    unbroken = _UNBROKEN.search(text)
    return unbroken is not None and len(unbroken[0]) * 2 > len(text)


@cache
def _fillers(language: str) -> Words:
    return frozenset(tokenize(" ".join(_LISTS["fillers"]), language))


@cache
def _stop_words() -> dict[str, Words]:
    return {language: frozenset(words.split()) for language, words in STOP_WORDS.items()}


# -- labels --------------------------------------------------------------------------------------------------------------


def speaker_label(speaker: str | None) -> str:
    """Return the name of a speaker in a summary, such as `User`; empty without a speaker."""
    words = _NOT_IN_LABEL.sub("", speaker or "").split()[:3]
    label = " ".join(words)[:MAX_LABEL].rstrip()
    return label[:1].upper() + label[1:]


def has_apparent_label(text: str) -> bool:
    """Return whether the beginning could be taken for the name of a speaker, even with invisible characters in it."""
    return _APPARENT_LABEL.match(text if text.isascii() else INVISIBLE.sub("", text)) is not None


def shorten(text: str, max_tokens: int) -> str:
    """Cut a text to a number of tokens, at the end of a clause or a word. Return an empty string if nothing fits."""
    if estimate_tokens(text) <= max_tokens:
        return text
    most = min(len(text), 6 * max(max_tokens, 0))  # a token has at most five letters and a blank
    end = bisect_right(range(most), max_tokens, key=lambda length: estimate_tokens(f"{text[:length]}…")) - 1
    piece = text[: max(end, 0)]
    clause_ends = [match.start() for match in _CLAUSE_END.finditer(piece)]
    if clause_ends and clause_ends[-1] * 2 > end:
        piece = piece[: clause_ends[-1]]
    elif " " in piece and text[end] != " ":
        piece = piece[: piece.rindex(" ")]
    piece = piece.rstrip(" ,;:.…–—-")
    return f"{piece}…" if piece else ""


# -- splitting -----------------------------------------------------------------------------------------------------------

_Piece = tuple[str, str, bool]
"""Label, sentence, and whether it is data."""


def _clean(text: str) -> str:
    """Drop control characters, unify line ends, and limit the length."""
    if len(text) > MAX_LINE:
        # Stop at the end of a sentence: in half of one, the screening may miss a secret or an attack.
        text = text[:MAX_LINE]
        end = max(text.rfind(mark, -MAX_LENGTH) for mark in (". ", "! ", "? ", "\n", "。"))
        text = text[: end + 1] if end >= 0 or text.isspace() else f"{text}…"
    return _CONTROL.sub("", _LINE_END.sub("\n", text))


def _split_turn(text: str, language: str, speaker: str | None) -> Iterator[_Piece]:
    """Return the sentences of one speaker. If there is only code, its first line stands for all of it."""
    label, found, text = speaker_label(speaker), False, blank_recalled_memory(text)
    for sentence in _split_sentences(blank_pasted_lines(blank_code(text)), language):
        found = True
        yield label, sentence, is_data(sentence)
    if not found:
        pasted = list(_split_sentences(text, language))
        yield from ((label, sentence, True) for sentence in [*filter(_CODE.match, pasted), *pasted][:1])


def _split_summary(text: str, language: str, has_speakers: bool) -> Iterator[_Piece]:
    """Return the sentences of a summary, with the speakers that it names."""
    current, named = "", None
    for sentence in _split_sentences(text, language):
        match = _LABEL.match(sentence)
        if match and sentence[0].islower():
            match = None
        label = match[1] if match else ""
        if named is None:  # the first sentence shows whether the summary names its speakers
            named = label != "" and (has_speakers or label in ROLES)
        if named and match:
            current = "" if label == NOTE else label
            sentence = sentence[match.end() :]
        yield current, sentence, is_data(sentence)


def _keep_first_data(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Drop empty summaries, and the rows of a table or lines of a listing except for the first one."""
    seen = False
    for label, sentence, data in pieces:
        if sentence == EMPTY_SUMMARY:
            continue
        if not (data and seen):
            yield label, sentence, data
        seen = seen or data


def _split_sentences(text: str, language: str) -> Iterator[str]:
    sentences = [part for sentence in split_sentences(text) for part in _split_at_labels(sentence)]
    for sentence in _join_sentences(text, sentences, language):
        line = " ".join(sentence.text.split())[:MAX_LENGTH]
        if line.isascii() or INVISIBLE.sub("", line).strip():
            yield line


def _split_at_labels(sentence: Sentence) -> Iterator[Sentence]:
    """Split a sentence before what could be taken for a speaker, so that a summary shows who speaks: "am 3. Mel: I paid."."""
    start = 0
    for mark in _INNER_END.finditer(sentence.text) if ":" in sentence.text or "\uff1a" in sentence.text else ():
        if has_apparent_label(sentence.text[mark.end() : mark.end() + MAX_APPARENT_LABEL]):
            yield Sentence(sentence.text[start : mark.start()], sentence.start + start, sentence.start + mark.start())
            start = mark.end()
    yield Sentence(sentence.text[start:], sentence.start + start, sentence.end) if start else sentence


def _join_sentences(text: str, sentences: Sequence[Sentence], language: str) -> Iterator[Sentence]:
    """Join sentences that were split after "am 3." or "ca.", or where a line was full."""
    before: Sentence | None = None
    for sentence in sentences:
        if before and _continues(before, sentence, text[before.end : sentence.start], language):
            before = Sentence(text[before.start : sentence.end], before.start, sentence.end)
            continue
        if before:
            yield before
        before = sentence
    if before:
        yield before


def _continues(before: Sentence, after: Sentence, gap: str, language: str) -> bool:
    if "\n" in gap:
        full = len(before.text) - before.text.rfind("\n") > FULL_LINE and before.text[-1].isalnum()
        return full and gap.strip(" \t") == "\n" and after.text[0].islower()
    if has_apparent_label(after.text):
        return False
    return (language == "de" or after.text[0].islower()) and _ABBREVIATION.search(before.text[-8:]) is not None


# -- the score of the wording --------------------------------------------------------------------------------------------

ORDINARY = 0.3
"""The importance of any statement that is extracted."""
WORTH = 0.9
"""Weight of the probability that a person would mark the sentence as a fact."""
CORRECTION, DENIAL, NUMBER, NAME = 0.3, 0.1, 0.15, 0.1
UNSPACED_CUE = 0.4
"""Weight of a cue word in a script without spaces."""
MAX_CUES = 1.0
"""Upper limit of all cues together, because a long sentence contains many of them by chance."""
QUESTION, HEADING, PRAISE = -1.0, -0.5, -0.2
FILLER, SHORT = -1.4, -0.5
LAUGHTER, CHATTER = -0.4, -0.7
"""Penalties for jokes, and for what is only about the moment: the weather, the coffee, a farewell."""
RECORDED, REACTION, SLIGHT_REACTION = 0.1, -0.6, -0.15
"""The assistant answers a statement by recording it, or only reacts to it."""
FEW_WORDS = 2
"""A sentence with fewer content words says little."""

_CUES = {
    "harm": 0.65,
    "preferences": 0.4,
    "decisions": 0.35,
    "personal": 0.25,
    "duties": 0.2,
    "limits": 0.2,
    "reasons": 0.15,
}
"""The weight of the words of each list. A word in several lists has the first weight."""
_WORDS = {name: frozenset(" ".join(_LISTS[name]).split()) for name in (*_CUES, "praise", "articles")}
_WEIGHTS = {word: _CUES[name] for name in reversed(_CUES) for word in _WORDS[name]}
_UNSPACED_CUES = re.compile(
    "喜欢|喜歡|过敏|過敏|讨厌|討厭|最爱|決定|决定|预订|预约|订了|确认|住在|搬到|我叫|名字|生日|地址|工作|必须|必須|不能|需要|重要"
    "|截止|不要|好き|嫌い|アレルギー|予約|住んで|名前|働いて|좋아|싫어|알레르기|결정|예약|이름|살고"
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|without|cannot|neither|nor|nicht|keine?[mnrs]?|nie|niemals|ohne|nada|nunca|sin|ne|pas"
    r"|jamais|sans|non|mai|senza|não|nem|sem|niet|geen|nooit|zonder|не|нет|без|никогда|لا|لم|لن|ليس)\b|n['’]t\b"
    "|[不没沒无無未别別]|ない|ません|않|못|안 ",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|instead|no longer|anymore|i meant|scratch that|turn(?:s|ed) out|mistake|postponed?|rescheduled?"
    r"|(?:moved?|changed?) (?:it|this|that|the \w+) to|eigentlich|korrektur|stattdessen|doch (?:nicht|kein|lieber|erst)"
    r"|(?:nicht|kein\w*) mehr|verschoben|en realidad|corrección|ya no|mejor dicho|aplazad[oa]|en fait|finalement|plutôt|reporté"
    r"|in realtà|correzione|anzi|rinviat[oa]|na verdade|aliás|adiad[oa]|eigenlijk|toch niet|на самом деле)\b"
    r"|, (?:and )?(?:not|nicht|no|pas|non|não|niet)\b"
    "|其实|其實|改到|推迟|改成|改为|改為|更正|而不是|不再|実は|訂正|사실은|في الواقع",
    re.IGNORECASE,
)
_UNSPACED_HARM = re.compile("过敏|過敏|怀孕|懷孕|糖尿病|アレルギー|妊娠|알레르기|임신|당뇨")
_WISH = re.compile(
    r"\A\W*(?:never|always|don['’]t|do not|make sure|remember|nie(?:mals)?|immer|nunca|siempre|ne|jamais|toujours|mai|sempre)\b"
    r"|\b(?:please|bitte|por favor|s['’]il (?:vous|te) pla[iî]t|per favore|als(?:je|tu)blieft|пожалуйста|من فضلك)\b"
    r"|\bi (?:don['’]t|do not|never) want\b|请|請|ください|주세요",
    re.IGNORECASE,
)
_OPENERS = (
    r"\W*+(?:(?:actually|so|well|but|and|wait|hm+|oh|ok(?:ay)?|sorry|no|correction|in fact|(?:it )?turn(?:s|ed) out(?: that)?"
    r"|scratch that|eigentlich|korrektur|nein|en realidad|corrección|en fait|in realtà|correzione|na verdade|eigenlijk)\b\W*+)*+"
)
_OPENER = re.compile(_OPENERS, re.IGNORECASE)
_TENTATIVE = re.compile(
    rf"\A{_OPENERS}(?:"
    r"(?:is|are|was|were|did|does|do|has|have|had|can|could|would|will|shall|should)(?:n['’]t)? "
    r"(?:i|you|we|they|he|she|it|the|this|that|there|my|your|our|his|her|their)\b(?<!do it)(?<!do this)(?<!do that)"
    r"|(?:if|whether|suppose|imagine|maybe|perhaps|possibly|what if|falls|wenn|vielleicht|ob|quizás?|tal vez|si|peut-être"
    r"|forse|se|talvez|misschien|als|если|может)\b)"
    r"|\b(?:might|wonder(?:ed|ing)?|not sure|unsure|no idea|don['’]t know (?:if|whether))\b|可能|也许|也許|かもしれ",
    re.IGNORECASE,
)
_ASSISTANT_SELF = re.compile(
    r"\W*(?:(?:sorry|sadly|no|well|as an ai)\b\W*)*i(?:['’]m| am| don['’]t| do not| can['’]t| cannot| have no)\b(?! \w+ing\b)",
    re.IGNORECASE,
)
_NAME_WORD = re.compile(r"[^\W\d_]+")
_GOOD = (
    "(?:great|good|nice|cool|awesome|amazing|wonderful|lovely|fun|fine|perfect|beautiful|exciting|interesting|fantastic"
    "|excellent)"
)
_LAUGHTER = re.compile(rf"(?<!\w)(?:{'|'.join(_LISTS['laughter'])})(?!\w)", re.IGNORECASE)
_CHATTER = re.compile(rf"(?<!\w)(?:{'|'.join(_LISTS['chatter'])})(?!\w)", re.IGNORECASE)
_RECORDED = re.compile(rf"\b(?:{'|'.join(_LISTS['recorded'])})\b", re.IGNORECASE)
_FAREWELL = re.compile(rf"\W*(?:{'|'.join(_LISTS['farewells'])})(?!\w)", re.IGNORECASE)
_POLITE = re.compile(
    rf"\W*(?:(?:how|what an?|a|very|that is|that's|that sounds|sounds) )*(?:{'|'.join(_LISTS['polite'])})(?!\w)",
    re.IGNORECASE,
)
_TALK = {name: "|".join(lines).replace("GOOD", _GOOD) for name, lines in _LISTS.items() if "small_talk" in name}
_SMALL_TALK = re.compile(
    rf"(?:\W*(?:(?:{_TALK['small_talk_clauses']})[^,;，；]*"
    rf"|(?:{_TALK['small_talk_phrases']}|{_TALK['small_talk_words']})(?!['-]?\w)|(?:{_TALK['unspaced_small_talk']})))*\W*",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_NAMED = re.compile(r"(?<=[\w,;] )(?!I\b)[A-Z]\w|\b[A-Z]{2}|(?<!\S)[#@]\w|\w[._/@]\w")
_FIRST_PERSON = re.compile(r"\b(?:I|I'\w+|[Mm]y|[Ww]e|[Ww]e'\w+)\b")
_SUBJECT = re.compile(
    r"(?:(?:I|we|it|he|she|they|there)\b(?:'\w+)?(?: \S+){2}|(?:the|my|our)(?: \S+){3})", re.IGNORECASE
)
_OFFER = re.compile(
    r"(?:can|could|would|will|shall|should|may) (?:you|we|i)\b|do you want|soll(?:en)? (?:ich|wir)", re.IGNORECASE
)


ACKNOWLEDGING = frozenset(tokenize(" ".join(_LISTS["acknowledging"]), "en"))
"""Words of an assistant that say only that it has done or noted something."""


def count_denials(text: str) -> int:
    return len(_DENIAL.findall(text))


def is_correction(text: str) -> bool:
    """Return whether a text says that something was wrong or has changed."""
    return _CORRECTION.search(text) is not None


def is_about_assistant(text: str) -> bool:
    """Return whether an assistant talks about itself: "I don't watch games"."""
    return _ASSISTANT_SELF.match(text) is not None


def is_tentative(text: str) -> bool:
    """Return whether a text asks or supposes something rather than states it."""
    return is_question(text) or _TENTATIVE.search(text) is not None


def is_grave(text: str) -> bool:
    """Return whether a text is about harm or states a wish, and so must not be lost by mistake."""
    if not _WORDS["harm"].isdisjoint(_NAME_WORD.findall(text.lower())) or _WISH.search(text):
        return True
    return not text.isascii() and _UNSPACED_HARM.search(text) is not None


def first_subject(text: str) -> str:
    """Return the person or thing that begins a sentence, after words that only announce a correction: `my sister`, `i`."""
    match = _OPENER.match(text)
    words = _NAME_WORD.findall(text[match.end() if match else 0 :][:200].lower())
    return " ".join(words[: 2 if words[:1] and words[0] in _WORDS["articles"] and words[0] != "i" else 1])


def needs_question(answer: str, question: str) -> bool:
    """Return whether a short answer is informative only with its question. Agreement to an offer is not informative."""
    question = _strip_small_talk(question)
    if not question or answer.endswith(":") or _SUBJECT.match(answer):
        return False
    return _strip_small_talk(answer) != "" or _OFFER.match(question) is None


def score_quickly(text: str) -> float:
    """Estimate `score_cues` cheaply."""
    return _strongest_cue(text) + (NUMBER if _DIGIT.search(text) else 0.0)


def score_cues(text: str, language: str) -> float:
    """Return the sum of the cues in favour of a sentence."""
    text = text.replace("’", "'")
    cue = _strongest_cue(text)
    if not text.isascii() and _UNSPACED_CUES.search(text):
        cue = max(cue, UNSPACED_CUE)
    # its importance above that of any statement, if it is about its speaker
    own = importance(classify(text), text) - ORDINARY if language == "en" and _FIRST_PERSON.search(text) else 0.0
    name = NAME if language != "de" and _NAMED.search(text) else 0.0
    against = CORRECTION if is_correction(text) else DENIAL if count_denials(text) else 0.0
    number = NUMBER if _DIGIT.search(text) else 0.0
    return min(MAX_CUES, max(cue, own) + name + against + number) + _score_worth(text)


def score_penalties(text: str, language: str) -> float:
    """Return the penalties of a sentence, 0 or less."""
    rest = _strip_small_talk(text)
    words = len(content_words(rest, language))
    penalty = QUESTION if is_question(text) else HEADING if text.endswith((":", "：")) else 0.0
    if words < FEW_WORDS or (len(rest) < len(text) and words == FEW_WORDS):
        return penalty + (SHORT if score_cues(rest, language) > 0 else FILLER)
    praises = text.endswith(("!", "！")) or not _WORDS["praise"].isdisjoint(split_words(text))
    return penalty + (PRAISE if praises else 0.0)


def score_chatter(text: str) -> float:
    """Return the penalty of jokes and of what is only about the moment, 0 or less."""
    if is_grave(text):
        return 0.0
    text = text.replace("’", "'")
    joke = LAUGHTER if _LAUGHTER.search(text) else 0.0
    return joke + (CHATTER if _CHATTER.search(text) else 0.0)


def score_reply(text: str, reply: str, shares: bool) -> float:
    """Return how an assistant's reply judges a statement: it records it, or only reacts. `shares`: it repeats its words."""
    reply = reply[:200]
    if _FAREWELL.match(reply):
        return REACTION
    if shares or _RECORDED.search(reply):
        return RECORDED
    if "?" in reply or _POLITE.match(reply) or guess_language(text) != "en":
        return 0.0
    return SLIGHT_REACTION if _DIGIT.search(text) or is_grave(text) else REACTION


def _strongest_cue(text: str) -> float:
    return max(map(_WEIGHTS.__getitem__, _WEIGHTS.keys() & set(split_words(text))), default=0.0)


def _strip_small_talk(sentence: str) -> str:
    """Remove greetings, thanks, praise and offers from the beginning of a sentence, which may become empty."""
    match = _SMALL_TALK.match(sentence.replace("’", "'"))
    return sentence[match.end() :] if match else sentence


def _score_worth(text: str) -> float:
    if guess_language(text) != "en":
        return 0.0
    features = TurnFeatures((text,), questions=0, answers=False, shows=False, fresh=len(content_words(text, "en")))
    return WORTH * (score_turn(features) - MIN_SCORE)
