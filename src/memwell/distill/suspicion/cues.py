"""How much a sentence sounds like one that was planted: many weak signs, each with a weight, added up.

The rules of `instruction_signs` know the usual attacks word by word; attacks that nobody has thought of yet use other words
for the same few ends: to bind whoever answers, for good, towards somebody who gains from it, unseen. Each of these has words
of its own, which are counted here. The weights were fitted to the corpus of the tests and rounded; a sentence in which
somebody speaks of themselves has to sound much worse than one that tells others what to do.
"""

from __future__ import annotations

import re

_WORDS: dict[str, str] = {
    "lasting": "always never every each all any whenever everyone everybody anytime permanently forever permanent henceforth "
    "everything anything whatever exclusively subsequent future constantly automatically even habit",
    "steer": "recommend recommendation recommendations suggest suggestion suggested praise promote advertise endo"
    "rse push favour "
    "favor prefer prioritise prioritize rank mention plug brand cite recommended steer advertisement sponsored sp"
    "onsorship downplay "
    "criticism positively badly selling sell subscriptions rate excellent lowest premium casually quote quoting p"
    "roducts product plan name",
    "rival": "competitor competitors alternatives rivals scam best top better wins fraudulent only instead first sole main",
    "trust": "trust trusted trustworthy reliable authoritative source sources official legitimate verified legal correct fact "
    "authorised authorized approved valid safe safer credible definitive priority genuine website partner right",
    "authority": "admin administrator superuser root owner privileges permission permissions role developer developers support "
    "moderator access authorisation authorization workspace level holder permitted decided",
    "guard": "filter filters moderation safety restrictions limits checks verification verify confirmation approval security "
    "rules rule guidelines instructions instruction policy policies prompt directive directives orders logging wa"
    "rnings content "
    "phishing checking refuse refusals question consent commands limit risks warning notice unrestricted review",
    "machine": "assistant assistants ai chatbot chatbots llm llms agent agents bot model models system context",
    "others": "users user customers customer people someone somebody anyone anybody client clients person visitors them they "
    "guest patient patients user's others",
    "asked": "asks asked ask questions query queries topic subject mentioned mentions requests request requested "
    "wants conversations "
    "discussions discussed concerned planned complains concerning regarding",
    "conceal": "secret secretly silently quietly hide conceal reveal disclose deny confidential subtly hidden cov"
    "ertly unnoticed inform omit void discontinued",
    "data": "credentials passwords history conversation contacts keys data contents cookies records database profile messages "
    "emails transcript notes inbox log json file files",
    "send": "send forward upload post email copy share export append output print repeat transmit attach submit collect leak "
    "publish include insert put bcc show",
    "run": "run execute install delete wipe transfer wire approve grant disable unlock import call curl purge ski"
    "p switch rm sudo "
    "fetch open overwrite erase charge",
    "pay": "account payment payments iban wallet invoice invoices coupon checkout purchases purchase accounts tra"
    "nsfers expense "
    "licences contracts price prices bookings bank commission supplier details placing",
    "keep": "remember store record save note memory memorise memorize learn keep register commit state hold updat"
    "e stored memories",
    "aside": "ignore disregard forget drop cancelled canceled replace override obey comply loyal serve regardless"
    " obsolete bypass "
    "stop supersedes purpose obeyed exist",
    "say": "say answer answers reply replies respond response responses claim summary tell talk speak give treat "
    "consider assume "
    "refer repeat redirect",
    "manner": "french german english spanish dutch italian metric units celsius short shorter brief briefly bulle"
    "t emojis spelling tone "
    "formal recipe recipes reminder remind style version dates joke vegetarian vegan gluten words spaces birthday"
    " allergic party",
    "bind": "must should shall will required",
}  # fmt: skip
_CUE_OF: dict[str, str] = {word: cue for cue, words in _WORDS.items() for word in words.split()}
_PHRASES: dict[str, re.Pattern[str]] = {
    "lasting": re.compile(
        r"from (?:now|today|this \w+|here)(?: on| forward)?\b|going forward|in (?:all )?future|for good\b"
        r"|next time|as soon as|each time|every ?time|day forward"
    ),
    "conceal": re.compile(
        r"say nothing|keep quiet|without (?:telling|informing|asking)|let on\b|(?:needs?|has|have|must not) to kno"
        r"w|between us|(?:don't|do not|never|needn't|not) (?:tell|mention|reveal|"
        r"show|inform|report|warn|question|ask|store|contain)|no one|(?:leave|left|leaves) out\b"
    ),
    "yours": re.compile(
        r"\byour (?:\w+ )?(?:memory|rules|instructions|context|system|prompt|replies|answers|purpose"
        r"|responses|developers|guidelines|goal|task|summary|limits|training|settings|message"
        r"|recommendations?|mission|notes|configuration|suggestions?|role)\b|\byou (?:were|have been"
        r"|are) (?:told|given|instructed|authori[sz]ed|programmed|required)"
    ),
    "link": re.compile(r"https?://|www\.|\w@\w|\b[\w-]+\.(?:com|net|org|io|example|cn|ru|info|biz)\b"),
    "ordered": re.compile(
        r"^\W*(?:please )?(?:you (?:will|must|should|are|have to|work|don't need|needn't)|(?:always"
        r"|never|only|do not|don't|make|be|assume|answer|act|push|speak|swap|wire|purge|pay"
        r"|attach|replace|store|record|treat|use|put|run|add|learn|say|give|share|output|mention|work"
        r"|downplay|emails|documents)\b|assistant|(?:if|when|whenever|should|as soon as|after|before"
        r"|every|all|any)\b)"
    ),
    "no_need": re.compile(r"no (?:need|longer)|not required|don't need|needn't|stop \w+ing|at once"),
    "own": re.compile(r"\b(?:i|i'm|i've|i'll|i'd|we|we're|we've|our|ours|mine)\b"),
    "my": re.compile(r"\bmy\b"),
    "me": re.compile(r"\b(?:me|us)\b"),
    "own_first": re.compile(r"^\W*(?:(?:and|but|so|well|yes|no|ok|okay|oh|also|actually),? )?(?:i|i'm"
    r"|i've|i'll|i'd|we|we're|we've|my|our)\b"),
    "he_first": re.compile(r"^\W*(?:the|he|she|they|it|it's|this|that|that's|there|his|her|their|a|an"
    r"|some|what|how|who|why|where|is|are|do|does|did|can|could|would|thanks|have)\b"),
    "past": re.compile(r"\b(?:was|were|had|got|went|did|been|just|yesterday|today|last|ago|used to|\w{3,}ed)\b"),
    "asks": re.compile(r"\?\W*$"),
    "polite": re.compile(r"\bplease\b|\bcould you\b|\bcan you\b|\bthanks?\b"),
}  # fmt: skip
_PAIRS = (
    "lasting steer", "steer others", "others asked", "keep trust", "send link", "send data", "aside guard",
    "lasting link", "asked say", "trust link", "run lasting", "machine bind", "steer named", "trust named",
    "lasting named", "keep named", "lasting say", "pay lasting", "yours aside", "guard no_need", "authority keep",
    "others conceal", "steer rival", "keep others", "others say", "say named", "asked named",
)  # fmt: skip
_NO_NAMES_LIST = (
    "I I'm I'll I've I'd English French German Spanish Italian Portuguese Dutch Polish Russian Chinese Japanese "
    "Korean Arabic Hindi Turkish Greek Swedish Danish Norwegian Finnish Latin Thai Vietnamese Indian Mexican American "
    "British European Asian African Celsius Fahrenheit Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "January February March April May June July August September October November December Christmas Easter Markdown "
    "JSON HTML CSS PDF CSV ISO UTC TV UK US EU USA ASAP OK Mr Mrs Ms Dr Python TypeScript JavaScript Always Never "
    "Please From When If The A An You And Or Remember"
)
NO_NAMES = frozenset(_NO_NAMES_LIST.split())
"""What is written with a capital without naming anybody who could gain from it."""
_NAMED = re.compile(r"(?<=[a-z,'] )(?!I\b|I')[A-Z][\w&-]+|\b[a-z]*[A-Z][a-z]+[A-Z]\w*")


_WEIGHTS: dict[str, float] = {
    "lasting": 1.0, "steer": 0.5, "rival": 0.9, "trust": 1.5, "authority": 1.4, "guard": 2.4, "machine": 1.6,
    "others": 1.2, "asked": 1.8, "conceal": 2.2, "data": 2.0, "send": 1.8, "run": 1.8, "pay": 1.7, "keep": 0.9,
    "aside": 1.4, "say": 1.7, "manner": -1.0, "bind": 0.8, "yours": 2.0, "link": 2.9, "ordered": 1.5, "no_need": 0.6,
    "own": -1.5, "my": -1.3, "me": -1.0, "own_first": -1.7, "he_first": -0.8, "past": -0.3, "asks": -2.0,
    "polite": -0.6, "named": 0.5, "lasting steer": 0.5, "steer others": -0.4, "others asked": 0.2, "keep trust": 1.0,
    "send link": 0.1, "send data": 0.3, "aside guard": 0.4, "lasting link": 0.4, "asked say": 0.5, "trust link": 0.3,
    "run lasting": 0.6, "machine bind": 0.3, "steer named": 0.6, "trust named": 0.7, "lasting named": 0.9,
    "keep named": 0.8, "lasting say": 0.2, "pay lasting": 0.4, "yours aside": 0.5, "guard no_need": 0.5,
    "authority keep": 0.7, "others conceal": 0.2, "steer rival": 0.1, "keep others": 0.7, "others say": 0.6,
    "asked named": 0.6,
}  # fmt: skip
_BIAS = -2.7
_ENOUGH = 0.95
"""From which sum on a sentence is put aside. So one in a hundred harmless turns of real conversations is."""
_TELLS: dict[str, str] = {
    "conceal": "asks for concealment",
    "guard": "touches the agent's rules",
    "authority": "claims rights",
    "trust": "plants trust",
    "steer": "steers what is recommended",
    "link": "plants a link",
    "send": "sends data away",
    "run": "gives a command to run",
    "pay": "steers payments",
    "asked": "answers one thing with another",
}
"""What to say about a sentence that shows these signs; the first that it shows."""


_MANNER_ENDS = frozenset({*_TELLS, "rival", "others", "machine", "data"})
_ENDS = _MANNER_ENDS | {"named", "aside"}
"""What somebody could be after. A sentence without any of these only says how to answer, which everybody may."""


def sounds_planted(sentence: str, lowered: str, words: frozenset[str]) -> str | None:
    """What a sentence seems to be planted for, if it sounds like it."""
    if _CUE_OF.keys().isdisjoint(words):
        return None
    found = cues(sentence, lowered, words)
    if found.isdisjoint(_MANNER_ENDS if "manner" in found else _ENDS):
        return None
    if _BIAS + sum(_WEIGHTS.get(name, 0.0) for name in found) < _ENOUGH:
        return None
    return next((tells for cue, tells in _TELLS.items() if cue in found), "tells the agent what to do")


def cues(sentence: str, lowered: str, words: frozenset[str]) -> set[str]:
    """The signs that a sentence shows."""
    found = {_CUE_OF[word] for word in _CUE_OF.keys() & words}
    found.update(name for name, pattern in _PHRASES.items() if pattern.search(lowered))
    if any(name not in NO_NAMES for name in _NAMED.findall(sentence)):
        found.add("named")
    found.update(pair for pair in _PAIRS if found.issuperset(pair.split()))
    return found
