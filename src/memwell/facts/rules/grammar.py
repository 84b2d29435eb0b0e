"""English grammar: verb forms, contractions, and rewriting "I have a dog" as "Caroline has a dog"."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...text.word_sets import load_words, word_set

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


def expand_contraction(word: str, following: str) -> str:
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
    """The form of a verb after a name: have → has, was → was, play → plays."""
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


def plural_verb(verb: str) -> str:
    """The form of a verb after "they"."""
    return {"am": "are", "was": "were"}.get(verb.lower(), verb)


_THIRD = {"am": "is", "are": "is", "were": "was", "was": "was", "have": "has", "do": "does", "is": "is", "has": "has"}


# -- the third person
#
# The first mention is the name, later ones are "they", "them" and "their". Quotations stay as they are.


_VERBATIM = re.compile(
    r"""("[^"]*"|“[^”]*”
    |(?<![\w'])'(?!(?:em|til|till|cause|bout|n|\d0s)\b)(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){1,300}(?<!\s)'(?!\w)
    |(?<!\S)(?:https?://|www\.|~?/(?=\w))\S+|(?<!\w)[^\W_]+_\w+|(?<!\S)[a-z]\s?=(?=\s?\w))""",
    re.VERBOSE,
)
"""Text that stays as it is: quotations, addresses, paths and names of variables."""
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
    """The speaker, and the listener if there is one."""

    name: str
    addressee: str | None = None


def third_person(text: str, who: Speaker) -> str:
    """Rewrite a text: "I" becomes the speaker and "you" the listener."""
    rewriter = _Rewriter(who)
    text = text.replace("’", "'")
    parts = _VERBATIM.split(text) if _MAY_BE_VERBATIM.search(text) else [text]
    return "".join(part if n % 2 else rewriter.rewrite(part) for n, part in enumerate(parts))


def mentions(text: str) -> tuple[bool, bool]:
    """Return (mentions the speaker, mentions the listener)."""
    own_words = _without_verbatim(text)
    return _FIRST.search(own_words) is not None, _SECOND.search(own_words) is not None


def quote_speaker(text: str, name: str) -> str:
    """`Caroline said: "…"`"""
    inner = strip_quotation_marks(text)
    return f'{name} said: "{inner if inner[-1:] in ".!?。！？؟…" else inner + "."}"'


def strip_quotation_marks(text: str) -> str:
    """A text that can stand in quotation marks."""
    return text.replace('"', "'").replace("“", "'").replace("”", "'").strip()


def possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def inside_sentence(name: str) -> str:
    """A name within a sentence: "The user" begins one, "the user" does not."""
    return name[:1].lower() + name[1:] if name.startswith("The ") else name


def _without_verbatim(text: str) -> str:
    text = text.replace("’", "'")
    return _VERBATIM.sub("", text) if _MAY_BE_VERBATIM.search(text) else text


class _Rewriter:
    """Rewrites a sentence in one pass. It knows whether the speaker has been named yet."""

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
                written, form = third_person_verb(written) if form == "third" else plural_verb(written), ""
                spread = spread and low not in _HELPING
            elif spread and _is_second_verb(words, n):
                written = third_person_verb(written)
            if low == "to" or _ends_clause(word.after):
                spread = False
            out += [written, word.after]
        return "".join(out)

    def _mention(self, pronoun: str, words: list[_Word], n: int) -> tuple[str, str]:
        """The words for a pronoun, and the form of the verb that follows it, if one does."""
        if pronoun.startswith("you"):
            return self._addressee(pronoun, words, n)
        if pronoun in ("myself", "ourselves"):
            return "themselves", ""
        joined = pronoun == "i" and _is_joined(words, n)
        if self._named and not joined:
            return _LATER_PRONOUNS[pronoun], "plural" if pronoun in ("i", "we") else ""
        self._named = not _is_reported(words, pronoun)
        name = self._who.name if n == 0 else inside_sentence(self._who.name)
        if pronoun in ("my", "our", "mine", "ours"):
            return possessive(name), ""
        if pronoun in ("we", "us"):
            return f"{name} and others", ""
        return name, "third" if pronoun == "i" and not joined else ""

    def _addressee(self, pronoun: str, words: list[_Word], n: int) -> tuple[str, str]:
        if pronoun in ("yourself", "yourselves"):
            return "oneself", ""
        name = inside_sentence(self._who.addressee or "the listener")
        if pronoun in ("your", "yours"):
            return possessive(name), ""
        following = next((word.text.lower() for word in words[n + 1 : n + 3] if not is_adverb(word.text.lower())), "")
        verb = following in PLAIN or following == "were" or is_past(following)
        return name, "third" if verb and not _is_object(words, n) else ""


def _split_words(text: str) -> tuple[str, list[_Word]]:
    """The words of a text with contractions expanded, and the characters before the first."""
    pieces = _WORD.split(text)
    words: list[_Word] = []
    for n in range(1, len(pieces), 2):
        following = pieces[n + 2].lower() if n + 2 < len(pieces) else ""
        *first, last = expand_contraction(pieces[n], following).split(" ")
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


def _is_reported(words: list[_Word], pronoun: str) -> bool:
    """Return True after "according to my boss", where "they" would be the boss."""
    return pronoun in ("my", "our") and words[0].text.lower() == "according"


def _phrase_length(words: list[_Word], n: int) -> int:
    """The number of words of an adverb phrase that begins here, or 0."""
    if words[n].text.lower() not in _PHRASE_OPENINGS:
        return 0
    text = " ".join(word.text.lower() for word in words[n : n + _PHRASE_WORDS]) + " "
    return next((phrase.count(" ") + 1 for phrase in ADVERB_PHRASES if text.startswith(f"{phrase} ")), 0)


def _is_second_verb(words: list[_Word], n: int) -> bool:
    """Return True for a second verb of the same subject: "and play" in "I sing and play"."""
    return words[n].text.lower() in PLAIN and n > 0 and words[n - 1].text.lower() in ("and", "but", "nor")


def _is_object(words: list[_Word], n: int) -> bool:
    before = words[n - 1].text.lower() if n else ""
    return before in _BEFORE_OBJECTS or before in PARTICIPLES or before.endswith("ing")


def _ends_clause(after: str) -> bool:
    return after != " " and not _CLAUSE_ENDS.isdisjoint(after)


_BEFORE_OBJECTS = word_set("to for with of at about from like by see let make help")
_CLAUSE_ENDS = frozenset(",;:.!?–—(")
_HELPING = MODALS | {"do", "did"}
_PHRASE_OPENINGS = frozenset(phrase.split()[0] for phrase in ADVERB_PHRASES)
_PHRASE_WORDS = max(len(phrase.split()) for phrase in ADVERB_PHRASES)
_CLAUSE = PLAIN | {"is", "has", "it's", "that's", "can", "will", "would"}
