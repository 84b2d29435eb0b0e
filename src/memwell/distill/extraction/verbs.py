"""English verbs, as far as it takes to say of somebody what they said of themselves."""

from __future__ import annotations

from ..word_sets import word_set

IRREGULAR_PAST = word_set(
    """ate beat became began bent bet bit bled blew bought bound bred broke brought built burnt came caught chose clung
could cost crept cut dealt did dove drank dreamt drew drove dug dwelt fed fell felt fled flew flung forbade
forgave forgot fought found froze gave got grew ground had heard held hid hit hung hurt kept knelt knew laid lay
leapt learnt led left lent let lit lost made meant met might must ought paid put quit ran rang read rid rode
rose said sang sank sat saw sent set shook shone shot should shrank shut slept slid sold sought sped spent split
spoke sprang spread stole stood strove struck stuck stung swam swept swore swung taught thought threw told took
tore understood upset was went wept were woke won wore would wound wrote"""
)
BASE_IN_ED = word_set("""need feed speed breed bleed proceed succeed exceed embed shed wed heed seed weed""")
MODALS = word_set("can could will would shall should may might must cannot ought")
PARTICIPLES = word_set(
    """been gone done seen taken given made had got gotten become begun broken chosen come drawn driven eaten fallen
felt forgotten found grown heard held kept known left lost met paid put read run said sold spent spoken told
thought understood won worn written"""
)
PLAIN = word_set(
    """am are have do go get take make feel think hope try want need love like enjoy prefer hate keep see know live
work play run read write teach study own sing cook bake paint draw travel visit watch listen spend give find
look use help learn start stop plan wish wonder believe remember forget miss care mean say tell talk meet come
become stay eat drink sleep wear buy sell pay save swim hike ride drive speak train volunteer collect grow"""
)
"""Verbs that follow "and" or "you" more often than nouns written like them do."""

ADVERBS = word_set(
    """also always almost already actually again barely both certainly currently definitely even ever finally first
generally hardly honestly just kinda literally longer maybe mostly most much neither never no normally not now often once only
originally personally please possibly probably quite rarely rather really recently regularly seldom simply since
sometimes somewhat soon still super sure surely then totally truly typically usually very well sort kind of too
all"""
)

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
"""What may stand between "I" and its verb, beside single words."""

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


def expanded(word: str, following: str) -> str:
    """A contraction in full; "I'd" is "I had" before a participle and "I would" otherwise."""
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


def third(verb: str) -> str:
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


def plural(verb: str) -> str:
    """The form of a verb after "they"."""
    return {"am": "are", "was": "were"}.get(verb.lower(), verb)


_THIRD = {"am": "is", "are": "is", "were": "was", "was": "was", "have": "has", "do": "does", "is": "is", "has": "has"}
