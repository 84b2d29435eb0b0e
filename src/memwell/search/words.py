"""Text analysis for search: the tokens that a text is found by, and the chunks that are embedded.

Words are lower-cased, stemmed and stripped of accents. The stemmer is that of the word's script, and for Latin script that
of the collection's language. Scripts without spaces between words are cut into single characters and pairs of them. Stored
texts and queries are analysed by the same function; only single characters and stop words are handled differently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import Stemmer

from ..errors import Invalid

STOP_WORDS = {
    "en": """a about after again against ain't all also am an and any are aren't as at be because been before being between both
but by can can't could did didn't do does doesn't doing don't during each else few for from further had has have having he her
here hers herself him himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just may me might mine more
most must my myself no nor not now of off on once only or other our ours ourselves out over own same shall she should so some
such than that that's the their theirs them themselves then there these they this those through to too under until us very
was wasn't we were what what's when where which while who whom whose why will with would you you're your yours yourself""",
    "de": """aber als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des dich die dies
diese dieser dieses dir doch dort du durch ein eine einem einen einer eines er es euch euer für hab habe haben hat hatte ich
ihm ihn ihr ihre im in ist ja jede jeder jedes kann kein keine können man mein meine mich mir mit nach nein nicht noch nun
nur ob oder ohne sein seine sich sie sind so über um und uns unser unter vom von vor war waren was weil wenn wer wie wir wird
wo zu zum zur""",
    "fr": """à au aux avec ce ces cette dans de des du elle elles en est et eu il ils j je l la le les leur leurs lui m ma mais
me même mes moi mon n ne nos notre nous on ou par pas pour qu que qui s sa se ses son sont sur t ta te tes toi ton tu un une
vos votre vous c d""",
    "es": """a al algo como con cual cuando de del desde donde dos el ella ellas ellos en era es esa ese eso esta este esto
está están fue ha han hay la las le les lo los me mi mis muy más no nos o para pero por porque que quien se ser si sin sobre
son su sus también te ti tiene todo tu tus un una uno y ya yo él""",
    "it": """a ad ai al alla alle anche che chi ci come con cui da dal dalla degli dei del della delle di dove e ed era gli ha
ho i il in io l la le lei lo loro lui ma mi mia mio nei nel nella noi non o per perché più quando quello questa questo se si
sono su sua suo ti tra tu un una uno vi voi è""",
    "pt": """a ao aos as com como da das de dela dele do dos e ela elas ele eles em era essa esse esta este eu foi há isso isto
já lhe lo mais mas me meu meus minha minhas muito na nas nem no nos nossa nosso não o os ou para pela pelo por qual quando que
quem se sem ser seu seus sua suas são também te tem tu um uma você vocês é à""",
    "nl": """aan al als bij dan dat de der deze die dit door een en er geen had heb hebben heeft het hij hoe hun ik in is ja je
kan maar me met mij mijn naar niet nog nu of om omdat onder ons ook op over te tot uit van veel voor waar was wat we wel wie
wij wordt ze zich zij zijn zo zou""",
}

LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
UNSTEMMED = ("he", "ja", "ko", "th", "vi", "zh")
"""Languages whose words are not stemmed; some are cut into pairs of characters."""


def check_language(language: str) -> None:
    if language not in LANGUAGES and language not in UNSTEMMED:
        known = ", ".join(sorted([*LANGUAGES, *UNSTEMMED]))
        raise Invalid(f"The language {language!r} is not supported. Choose one of: {known}.", field="language")


MAX_TOKEN = 64
MAX_TERMS = 64
MIN_CODE = 3
"""The length of the shortest name of a thing. A number has more digits than that, because small ones count things."""
MAX_WHOLE = 400
"""The length of the longest text that is not cut into chunks."""
CHUNK = 300
FINE_CHUNK = 120
"""The size of the chunks of facts and notes: a sentence or two, so that a vector means one thing."""
MAX_CHUNKS = 64
MAX_FINE_CHUNKS = 256

ADDRESS, COLLECTION, PERSON = "\ue000", "\ue001", "\ue002"
"""The beginnings of tokens that name an entry's place, or a person that it is about. These private characters do not occur in
tokens of texts."""

_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)*")
_SCRIPTS = (
    (0x0370, 0x03FF, "greek"), (0x0400, 0x052F, "russian"), (0x0530, 0x058F, "armenian"), (0x0590, 0x05FF, ""),
    (0x0600, 0x077F, "arabic"), (0x08A0, 0x08FF, "arabic"), (0x0900, 0x097F, "hindi"), (0x0B80, 0x0BFF, "tamil"),
)  # fmt: skip
# Thai to Myanmar, Khmer, Hangul, kana, Han and its extensions: scripts that are searched by pairs of characters.
_UNSPACED = (
    "\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_PICTURE = "\u2600-\u27bf\U0001f000-\U0001faff"
_SENTENCE = re.compile(r"(?<=[.!?。！？؟])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bProf\.)\s+|\n+")
_QUESTION = ("?", "？", "؟")


class Terms(NamedTuple):
    """The tokens that a query looks for."""

    tokens: tuple[str, ...]
    only_stop_words: bool


def tokenize(text: str, language: str = "en") -> list[str]:
    """Every token of a text that is stored, in order."""
    return _tokenize(text, language, stored=True)


def parse_terms(text: str, language: str = "en") -> Terms:
    """The distinct tokens of a query. Stop words are left out, unless there are no other words."""
    found = list(dict.fromkeys(_tokenize(text, language, stored=False)))
    stop = list_stop_tokens(language)
    wanted = [token for token in found if token not in stop]
    return Terms(tuple((wanted or found)[:MAX_TERMS]), not wanted)


def is_opaque(token: str) -> bool:
    """Tell tokens that models read badly: names of things such as `4711` or `b12x`, and words of other scripts than Latin."""
    if token.isalpha() and token.isascii():
        return False
    digits = sum(sign.isdigit() for sign in token)
    if digits:
        return len(token) >= MIN_CODE and (digits < len(token) or digits > MIN_CODE)
    return not any("a" <= sign <= "z" for sign in token)


def build_place_tokens(address_id: int, collection_id: int) -> str:
    return f"{ADDRESS}{address_id:x} {COLLECTION}{collection_id:x}"


def clear_caches() -> None:
    """Clear the cached words with their stems."""
    _stem.cache_clear()
    _latin_stemmer.cache_clear()
    _load_stemmer.cache_clear()


@cache
def list_stop_tokens(language: str) -> frozenset[str]:
    """The stop words of a language as they come out of the analyser."""
    words = STOP_WORDS.get(language, "")
    return frozenset(_tokenize(words, language, stored=False))


def _tokenize(text: str, language: str, *, stored: bool) -> list[str]:
    if text.isascii():
        stem = _latin_stemmer(language)
        return [stem(word) for word in _ASCII_WORD.findall(text.lower())]
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    found: list[str] = []
    for match in _build_pattern().finditer(folded):
        run = match[0]
        if match.lastgroup == "unspaced":
            pairs = [run[n : n + 2] for n in range(len(run) - 1)]
            # A stored text can be found by a single character too.
            found += [*run, *pairs] if stored else pairs or [run]
        else:
            found.append(_stem(run, language) if match.lastgroup == "word" else run)
    return [token for token in found if token]


@lru_cache(64 * 1024)
def _stem(word: str, language: str) -> str:
    """The stem of a word in any script, without accents and other marks."""
    if any("a" <= sign <= "z" or "\u00df" <= sign <= "\u024f" for sign in word) or word.isdecimal():
        stemmed = _latin_stemmer(language)(word)
    else:
        code = ord(word[0])
        script = next((name for low, high, name in _SCRIPTS if low <= code <= high), "")
        stemmed = _load_stemmer(script)(word)
    if stemmed.isascii():
        return stemmed
    return "".join(sign for sign in unicodedata.normalize("NFKD", stemmed) if not unicodedata.combining(sign))


@cache
def _latin_stemmer(language: str) -> Callable[[str], str]:
    return _load_stemmer(LANGUAGES.get(language, ""))


@cache
def _load_stemmer(name: str) -> Callable[[str], str]:
    stemmer = Stemmer.Stemmer(name) if name else None

    @lru_cache(64 * 1024)
    def stem(word: str) -> str:
        word = word[:MAX_TOKEN]
        return (stemmer.stemWord(word) if stemmer else word).replace("'", "")

    return stem


@cache
def _build_pattern() -> re.Pattern[str]:
    """Matches words with their combining marks, runs of unspaced scripts, and single pictures."""
    marks = "".join(chr(code) for code in range(0x300, 0x3400) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    letter = rf"(?:(?![{_UNSPACED}])[^\W_]|[{marks}])"
    return re.compile(
        rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>{letter}+(?:'{letter}+)*)|(?P<picture>[{_PICTURE}])", re.UNICODE
    )


# -- Chunks. Each is embedded separately, so that a detail of a long text has its own vector.


def split_chunks(text: str, wanted: int | None = None, overlap: int = 0, *, fine: bool = False) -> list[str]:
    """Return the text and, if it is long, also chunks of about `wanted` characters in whole sentences, or `fine` ones. Each
    chunk begins with the last `overlap` characters of the one before."""
    if len(text) <= (MAX_WHOLE if wanted is None else wanted):
        return [text]
    most = MAX_FINE_CHUNKS if fine else MAX_CHUNKS
    size = max(wanted or (FINE_CHUNK if fine else CHUNK), len(text) // most + 1)
    parts: list[str] = []
    piece = ""
    for sentence in _SENTENCE.split(text):
        for cut in (sentence[at : at + 2 * size] for at in range(0, len(sentence), 2 * size)):
            if piece and len(piece) + len(cut) > size:
                parts.append(piece)
                piece = piece[len(piece) - overlap :].partition(" ")[2] if overlap else ""
            piece = f"{piece} {cut}".strip()
    return [text, *parts, piece] if parts else [text]


def measure_questions(text: str) -> float:
    """The share of a text that is questions, from 0 to 1."""
    if not any(sign in text for sign in _QUESTION):
        return 0.0
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence]
    questions = sum(len(sentence) for sentence in sentences if sentence.rstrip("\"')").endswith(_QUESTION))
    return questions / (sum(map(len, sentences)) or 1)
