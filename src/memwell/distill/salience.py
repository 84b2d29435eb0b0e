"""What speaks for a sentence and against it, whatever the whole is about: facts, decisions, numbers, names, wishes and
corrections on the one hand, greetings, thanks, questions and data on the other.

Signs are words of several languages; a language that has none here is judged by its numbers and by how it is written.
"""

from __future__ import annotations

import re
from functools import cache

from ..recall.analyse import terms, tokens
from ..recall.stop_words import STOP_WORDS
from .extraction.kinds import importance, kind_of
from .extraction.languages import is_question
from .extraction.sentences import MAX_SENTENCE
from .extraction.worth import KEPT, worth
from .extraction.worth import Told as Telling
from .pleasantries import without_pleasantries
from .word_sets import word_set

ORDINARY = 0.3
"""How important any statement is."""
WORTH = 0.7
CORRECTION = 0.3
DENIAL = 0.1
NUMBER = 0.15
NAME = 0.1
MOST = 1.0
"""What speaks for a sentence, at the most: a long one has a bit of everything."""
PRAISE = -0.2
QUESTION = -1.0
HEADING = -0.5
FILLER = -1.4
SHORT = -0.3
FEW_WORDS = 2
UNSPACED = 0.4
_SIGNS = (
    (0.65, word_set(  # what harms
        """allergic allergy allergies intolerant diabetic diabetes diagnosed medication pregnant epilepsy asthma celiac coeliac
        allergisch allergie unverträglichkeit diabetes diabetiker schwanger medikament medikamente alérgico alérgica alergia
        embarazada diabético medicamento allergique enceinte diabétique médicament allergico allergica incinta diabetico
        grávida zwanger аллергия беременна диабет"""
    )),
    (0.35, word_set(  # what was decided or done
        """decided decision agreed chose chosen settled picked booked ordered scheduled confirmed cancelled canceled fixed
        solved deployed merged released signed bought paid moved changed updated renamed registered switched reserved
        beschlossen entschieden entscheidung vereinbart gebucht bestellt beauftragt reserviert bezahlt gekauft geändert
        decidí decidido decidimos acordamos reservé compré pagué cambié décidé réservé acheté payé choisi deciso prenotato
        comprato pagato decidi comprei reservei besloten geboekt besteld gekocht"""
    )),
    (0.4, word_set(  # what somebody likes and bears
        """prefer prefers preferred favourite favorite love loves hate hates dislike dislikes rather vegan vegetarian bevorzuge lieber liebe hasse mag möchte vegetarisch
        prefiero odio encanta gusta préfère déteste adore aime preferisco amo prefiro adoro gosto liever"""
    )),
    (0.25, word_set(  # what somebody is
        """name named called born birthday married lives lived works worked owns address phone email
        wohne wohnt lebe arbeite arbeitet heiße heißt adresse geburtstag ziehe ziehen umziehen vivo vive trabajo trabaja
        llamo dirección cumpleaños habite travaille appelle anniversaire abito lavoro chiamo moro trabalho chamo woon werk
        heet adres"""
    )),
    (0.2, word_set(  # what must be
        """must never always only important urgent deadline required need needs cannot can't remember avoid
        muss müssen soll sollen darf immer nie niemals wichtig dringend frist debe siempre nunca importante urgente
        necesito puedo doit toujours jamais faut deve sempre mai preciso moet altijd nooit belangrijk"""
    )),
    (0.2, word_set(  # what is wrong
        """fails failed failing failure error broken breaks crashes crashed bug wrong missing lost delayed late kaputt fehler
        defekt verloren fehlt roto falla perdido falta erreur cassé perdu manque rotto errore quebrado kapot fout"""
    )),
    (0.15, word_set(  # why, and since when
        """because cause caused causes reason due since weil grund ursache wegen porque causa parce raison perché motivo omdat
        january february march april june july august september october november december monday tuesday wednesday thursday
        friday saturday sunday tomorrow yesterday tonight januar februar märz juni juli oktober dezember montag dienstag
        mittwoch donnerstag freitag samstag sonntag morgen gestern enero febrero marzo abril mayo junio julio agosto
        septiembre octubre noviembre diciembre lunes martes miércoles jueves viernes sábado domingo mañana ayer janvier
        février mars avril juin juillet août septembre octobre novembre décembre lundi mardi mercredi jeudi vendredi samedi
        dimanche demain hier"""
    )),
)  # fmt: skip
_PRAISE = word_set(
    """great good nice cool awesome amazing wonderful lovely fun fine perfect beautiful exciting fantastic excellent toll schön super
    spannend bueno bonito genial bon beau bello ótimo mooi"""
)
_SIGN_OF = {word: weight for weight, words in reversed(_SIGNS) for word in words}
_SIGN_WORDS = frozenset(_SIGN_OF)
_UNSPACED_SIGNS = re.compile(
    "喜欢|喜歡|过敏|過敏|讨厌|討厭|最爱|決定|决定|预订|预约|订了|确认|住在|搬到|我叫|名字|生日|地址|工作|必须|必須|不能|需要|重要|截止|不要"
    "|好き|嫌い|アレルギー|予約|住んで|名前|働いて|좋아|싫어|알레르기|결정|예약|이름|살고"
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_DIGIT = re.compile(r"\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_NAMED = re.compile(r"(?<=[\w,;] )(?!I\b)[A-Z]\w|\b[A-Z]{2}")
_OWN = re.compile(r"\b(?:I|I'\w+|[Mm]y|[Ww]e|[Ww]e'\w+)\b")
_SUBJECT = re.compile(r"(?:I|we|it|he|she|they|the|my|our|there)\b(?:'\w+)?(?: \S+){2}", re.IGNORECASE)
_OFFERS = re.compile(r"(?:can|could|would|will|shall|should|may) (?:you|we|i)\b|do you want|soll(?:en)? (?:ich|wir)", re.IGNORECASE)
_UNBROKEN = re.compile(r"[!-~]{40,}")
_ROW = re.compile(r"\W*\||.*\|.*\||[\"'][^\"']{1,60}[\"']\s*:|[{}]|\[\W*[\"'\d]|</?\w+[^<>]*>")
_DENIES = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|without|cannot|neither|nor|nicht|keine?[mnrs]?|nie|niemals|ohne|nada|nunca|sin|ne|pas"
    r"|jamais|sans|non|mai|senza|não|nem|sem|niet|geen|nooit|zonder|не|нет|без|никогда|لا|لم|لن|ليس)\b|n['’]t\b"
    "|[不没沒无無未别別]|ない|ません|않|못|안 ",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"\b(?:actually|correction|instead|no longer|anymore|i meant|scratch that|turn(?:s|ed) out|mistake"
    r"|eigentlich|korrektur|stattdessen|doch (?:nicht|kein|lieber|erst)|(?:nicht|kein\w*) mehr|en realidad|corrección|ya no"
    r"|mejor dicho|en fait|finalement|plutôt|in realtà|correzione|anzi|na verdade|aliás|eigenlijk|toch niet|на самом деле)\b"
    r"|, (?:and )?(?:not|nicht|no|pas|non|não|niet)\b|其实|其實|改成|改为|改為|更正|而不是|不再|実は|訂正|사실은|في الواقع",
    re.IGNORECASE,
)


def language_of(text: str) -> str:
    """The language with the most stop words in a text; empty if it has none of any."""
    words = set(_WORD.findall(text[:MAX_SENTENCE].lower()))
    found = {language: len(words & stop) for language, stop in _stop_words().items()}
    best = max(found, key=found.__getitem__)
    return best if found[best] else ""


def content(text: str, language: str) -> frozenset[str]:
    """The stems of the words that say something."""
    found = terms(text[:MAX_SENTENCE], language)
    if found.only_stop_words:
        return frozenset()
    said = frozenset(found.tokens) - _filler(language)
    return said if text.isascii() else frozenset(word for word in said if not _is_small(word))


def _is_small(word: str) -> bool:
    """Whether it says little by itself, in a script whose words are longer as a rule. Its stop words are not known."""
    return len(word) <= 2 and "\u007f" < word[0] < "\u0e00"


def marks(text: str, language: str) -> frozenset[str]:
    """The stems of numbers and of words with a capital, by which sentences differ that otherwise say the same."""
    words = " ".join(word for word in text.split() if word != word.lower() or any(map(str.isdigit, word)))
    return content(words, language)


def denials(text: str) -> int:
    """How often it says that something is not so."""
    return len(_DENIES.findall(text))


def needs_question(answer: str, question: str) -> bool:
    """Whether a short answer says something, and only together with its question. To agree to an offer says nothing."""
    if not question or answer.endswith(":") or _SUBJECT.match(answer):
        return False
    return without_pleasantries(answer) != "" or _OFFERS.match(question) is None


def corrects(text: str) -> bool:
    """Whether it says that something else was wrong or has changed."""
    return _CORRECTS.search(text) is not None


def is_data(text: str) -> bool:
    """Whether it is a row of a table, a piece of JSON, a checksum or the like rather than a sentence."""
    if len(text) > MAX_SENTENCE or _ROW.match(text):
        return True
    if sum(map(len, _LETTERS.findall(text))) * 2 < len(text):
        return len(text) > 20 or _LETTERS.search(text) is None
    unbroken = _UNBROKEN.search(text)
    return unbroken is not None and len(unbroken[0]) * 2 > len(text)


def glance(text: str) -> float:
    """What seems to speak for a sentence, by a look at its words."""
    return _sign(text) + _number(text)


def merits(text: str, language: str) -> float:
    """What speaks for a sentence."""
    text = text.replace("’", "'")
    kind = importance(kind_of(text), text) - ORDINARY if language == "en" and _OWN.search(text) else 0.0
    unspaced = UNSPACED if not text.isascii() and _UNSPACED_SIGNS.search(text) else 0.0
    name = NAME if language != "de" and _NAMED.search(text) else 0.0
    told = WORTH * (_worth(text) - KEPT) if language_of(text) == "en" else 0.0
    against = CORRECTION if corrects(text) else DENIAL if _DENIES.search(text) else 0.0
    return told + min(MOST, max(_sign(text), kind, unspaced) + _number(text) + name + against)


def demerits(text: str, language: str) -> float:
    """What speaks against a sentence."""
    said = without_pleasantries(text)
    words = len(content(said, language))
    found = QUESTION if is_question(text) else HEADING if text.endswith((":", "：")) else 0.0
    if words < FEW_WORDS or (len(said) < len(text) and words <= FEW_WORDS):
        return found + (SHORT if merits(said, language) else FILLER)
    praises = not _PRAISE.isdisjoint(_WORD.findall(text.lower()))
    return found + (PRAISE if praises or text.endswith(("!", "！")) else 0.0)


def _worth(text: str) -> float:
    """How likely people would mark it as telling a fact, from 0 to 1."""
    return worth(Telling((text,), questions=0, answers=False, shows=False, fresh=len(content(text, "en"))))


def _sign(text: str) -> float:
    return max(map(_SIGN_OF.__getitem__, _SIGN_WORDS.intersection(_WORD.findall(text.lower()))), default=0.0)


def _number(text: str) -> float:
    return NUMBER if _DIGIT.search(text) else 0.0


@cache
def _filler(language: str) -> frozenset[str]:
    """Words that stress or soften what others say."""
    return frozenset(tokens(_SOFT, language))


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in STOP_WORDS.items()}


_SOFT = """really very quite pretty much lot lots actually basically honestly please maybe perhaps probably also still yet anyway
sorry okay ok yes yeah thing things stuff kind sort just even wirklich sehr eigentlich vielleicht bitte ganz mal halt eben
realmente quizás muy vraiment peut-être très davvero forse realmente talvez echt misschien"""
