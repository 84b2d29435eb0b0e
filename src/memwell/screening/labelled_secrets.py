"""Values that a text calls a password, a PIN or a key, in any order: "the wifi password at home is …", "… is my PIN".

The pattern of all languages is the same: a name (`data/secret_names.txt`), perhaps what it is for, a link such as `is` or `:`,
and a value. The value decides: "the password is wrong" holds no secret. A value that mixes letters, digits and marks needs
less context than a plain word. A commit, a UUID or an order number is a secret only if the text calls it one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..text.word_sets import load_sections, load_words, word_set
from .encoded_keys import is_random_run
from .found_secret import FoundSecret, iterate_matches

PASSWORD, KEY, CODE = "a password", "a key or token", "a PIN or code"
_SECTIONS = load_sections(__package__, "secret_names")


def _join(lines: Iterable[str]) -> str:
    return "|".join(line.replace(" ", "[ _-]") for line in lines)


def _words_of(section: str) -> str:
    return "|".join(" ".join(_SECTIONS[section]).split())


# -- parts of patterns

_NAMES = _join(_SECTIONS["passwords"])
_KEYS = (
    r"(?:api|access|secret|private|encryption|signing|master|account|licen[cs]e|webhook|recovery|backup|shared|storage|service)"
    r"[ _-]?(?:access[ _-]?)?(?:key|code)s?"
    r"|(?:secret|shared|access|auth(?:entication|orization)?|refresh|api|bearer|session|id|personal access|bot"
    r"|deploy)[ _-]?tokens?"
    r"|client[ _-]?secret|secret|token|bearer|credentials?|preshared[ _-]?key|psk|api[ _-]?schl(?:ü|ue)ssel|clave|cl[eé]"
)
_NO_OTHER_THING = rf"(?![ _-](?:{_words_of('other things')})\b)"
_OF = (
    r"(?:[ _-](?:number|again))?"
    r"(?:,?\s(?:for|of|to|on|at|in|from|with|behind|used|i|we|the|that|he|she|they|für|von|im|zum|zu|beim|bei|auf|de|en|em|na|w|chez|au|à|op|bij|på|hos|в|на|del|da|do|para|pour|du|della|per"
    r"|van|voor|vom|des|der|meine[rs]?|zur|till|til|you|which|needed|för|til|от|для|dla)\s(?:[\w'’.&/@-]{1,30}\s){0,9}?[\w'’.&/@-]{0,29}[\w@])?(?:\s\([^()\n]{1,40}\)|,\s[^,.;:!?\n]{1,40},(?=\s))?"
)
"""What the secret is for: "at home", "for my router", "I use at work"."""
_CHANGED = r"(?:set|changed|reset|updated|switched|renamed|turned)"
_IS = (
    r"(?:is|are|was|were|be|will\sbe|should\sbe|ist|lautet|war|heißt|est|c['’]est|es|era|é|è|jest|to\sjest|to(?=\s\S*\d)|είναι|это|är|er|on)"
    r"(?:\s(?:now|still|also|just|simply|always|currently|actually|both|only|jetzt|immer|noch|ahora|maintenant)){0,2}"
)
_LINK = (
    r"(?:\s{0,3}[\"'*`]{0,3}(?P<sign>=>|->|→|:=|[:=：])\s{0,3}"
    rf"|\s{{1,3}}{_IS}(?:\s(?:been\s)?{_CHANGED}\s(?:back\s)?to)?\s{{0,3}}:?\s{{1,3}}"
    rf"|\s(?:(?:has|have|had|got|gets|was|is)\s)?(?:(?:now|just|since|recently)\s)?(?:been\s)?{_CHANGED}\s(?:back\s)?to\s)"
)
_NAME = rf"(?<![\w-])(?:\w{{1,20}}[_-])?(?:{_NAMES})s?(?!\w){_NO_OTHER_THING}"
_ITS = (
    r"(?:['’]s\s|[,;]?\s(?:it|that)['’]s\s"
    r"|\?\s{1,3}(?:(?:[\w'’]{1,12}[,.:]?\s){0,2}?(?:(?:it|that)['’]?s|it is|es ist|ist)\s)?)"
)
_PASSWORD = re.compile(
    rf"{_NAME}(?:{_OF}{_LINK}|(?P<its>{_ITS}|{_OF}(?:\?\s{{1,3}}(?:it['’]?s\s)?|\s[–—-]\s)))", re.IGNORECASE
)
_CHANGE = re.compile(
    rf"\b(?P<verb>{_CHANGED})\b[^.!?\n]{{0,40}}\b(?:{_NAMES}|(?P<weak>log-?in))(?:{_OF}\s(?:back\s)?|{_OF}\sfrom\s\S{{4,40}}\s)to\s",
    re.IGNORECASE,
)
_WEAK_NAME = rf"(?<!\w)(?P<weak>{_join(_SECTIONS['weak'])})(?!\w){_NO_OTHER_THING}"
_WEAK = re.compile(rf"{_WEAK_NAME}{_OF}{_LINK}", re.IGNORECASE)
_NEAR = re.compile(rf"(?:{_NAME}|{_WEAK_NAME})", re.IGNORECASE)
_ANOTHER = re.compile(
    rf"[\s.,;!]{{1,3}}(?:and|but|und|y|et|e)(?:\sthe\s(?:one|other))?{_OF}(?:{_LINK}|\s(?:it|that)['’]s\s)",
    re.IGNORECASE,
)
_UNSPACED = re.compile(
    rf"(?:{_join(_SECTIONS['passwords without blanks'])})\s?(?:[是为為はがは:：=]|는|은|이|가|คือ)\s?", re.IGNORECASE
)
_VALUE_FIRST = re.compile(
    rf"(?<!\S)[\"'“‘`(]?(?P<value>[^\s\"“”`]{{6,60}})[\"'”’`)]?,?\s(?:[–—-]\s)?(?:is|was|as|for|are|=|ist|est|es|é|è|(?:that|it)['’]s)\s"
    rf"(?:(?:my|our|the|his|her|their|your|a|its|mein|unser|das|le|mon|la|mi|il|minha)\s)?(?:[\w'’-]{{1,20}}\s){{0,3}}?(?:{_NAMES})\b"
    rf"{_NO_OTHER_THING}",
    re.IGNORECASE,
)
_VALUE = r"[\"'“‘`(]?(?P<value>[^\s\"“”`]{5,59}[\w*#$%&+=/~^@-])"
_KEY_FIRST = re.compile(
    rf"(?<!\S)[\"'“‘`(]?(?P<value>[\w+/=.~-]{{12,400}})[\"'”’`)]?,?\s[(–—-]{{0,2}}\s?"
    rf"(?:is|was|as|for|are|=|(?:that|it|this)['’]s|this is)\s"
    rf"(?:(?:my|our|the|his|her|their|your|a|its)\s)?(?:[\w'’-]{{1,20}}\s){{0,3}}?(?P<name>{_KEYS})(?!\w)",
    re.IGNORECASE,
)
_LOG_IN = r"(?:log(?:ged|ging|s)?|sign(?:ed|ing|s)?)[ -]?(?:in|on|into)|authenticat(?:e|es|ed|ing)"
_LOGIN_VALUE = re.compile(
    rf"(?<!\w)(?:{_LOG_IN})(?:\s[\w'’.&-]{{1,30}}){{0,6}}?\s(?:with|using|by (?:typing|entering)"
    rf"|(?:i|we|you)\s(?:type|enter|use|put\sin)|,?\s(?:type|enter))\s(?:[a-z]{{1,9}}\s){{0,2}}?{_VALUE}",
    re.IGNORECASE,
)
_UNLOCKS = r"(?:unlocks?|opens?|decrypts?|access(?:es)?)"
_NETWORK = r"(?:wi-?fi|wlan|wireless|hotspot|router|guest\snetwork|home\snetwork|vpn)"
_SECURED = (
    rf"(?:{_NETWORK}|laptop|computer|pc|mac|tablet|phone|account|portal|login|pdf|zip|archive|file|folder|drive|disk|vault|safe|nas|server"
    r"|mailbox|inbox|keychain|wallet|spreadsheet)"
)
_VALUE_OF_THING = re.compile(
    rf"(?<!\w)(?:for\s(?:the|my|our|his|her|their)\s(?:[\w'’-]{{1,20}}\s){{0,2}}?{_SECURED},?\s(?:(?:just|simply|i|we|you|please)\s){{0,2}}"
    rf"(?:type|enter|put\sin|use)|{_NETWORK}(?:\s[\w'’-]{{1,20}}){{0,5}}?\s(?:uses|wants|needs|takes|expects|is\s(?:protected|secured)\s(?:by|with)))"
    rf"\s(?:[a-z]{{1,9}}\s){{0,2}}?{_VALUE}",
    re.IGNORECASE,
)
_LOGIN_AND_VALUE = re.compile(
    rf"\b(?:account|login|user\s?name|user)\b[^\n@]{{0,40}}?[\s:][\w.+-]{{1,60}}@[\w.-]{{1,60}}\w\s?(?:,|/|\||and|with|\+)\s{{1,3}}{_VALUE}",
    re.IGNORECASE,
)
_TYPED_VALUE = re.compile(
    rf"(?<!\S){_VALUE}[\"'”’`)]?,?\s(?:(?:is|was|(?:that|it)['’]s)\s(?:what|the one)\s(?:i|we|you)\s(?:(?:need|have)\sto\s)?"
    rf"(?:type|enter|{_LOG_IN})|(?:to|lets me)\s(?:{_LOG_IN})"
    r"|(?:gets|lets|got)\s[\w'’-]{1,20}\s(?:in(?:to)?|on(?:to)?)(?!\w)"
    rf"|(?:to|which|that)?\s?{_UNLOCKS}\s(?:(?:my|our|the|his|her|their|your|this)\s)?(?:[\w'’-]{{1,20}}\s){{0,2}}?{_SECURED})(?!\w)",
    re.IGNORECASE,
)
_NETWORK_KEY = re.compile(
    r"(?<!\w)(?:wi-?fi|wlan|wireless|network|ssid|router|hotspot|réseau|red|rede|rete|netzwerk)(?!\w)[^.!?\n]{0,60}?[\s,;/(]"
    rf"(?:key|schlüssel|clave|clé|chave|chiave)(?:{_LINK}|\s){_VALUE}",
    re.IGNORECASE,
)
_LABELLED_KEY = re.compile(
    rf"(?<!\w)(?:\w{{1,30}}_)?(?P<name>{_KEYS}){_OF}[\"']?(?:{_LINK}|\s{{1,3}})[\"'“”‘’`«*(]{{0,3}}(?P<value>[\w+/=.~-]{{12,400}})",
    re.IGNORECASE,
)
_CODE_VALUE = (
    r"(?P<value>\d{3,6}[A-Z*#](?!\w)|[*#]?\d{3,10}[*#]?(?:[ -]\d{2,4}){0,3}"
    r"|\d{1,2}(?:-\d{1,2}){2,3}|[A-Z]\d{3,6}|\d\d\s\d\d)"
)
_NO_MORE = r"(?![\d.,]?\d|\s?(?:mm|cm|km|m|kg|g|%|€|\$|euros?|dollars?|percent|times|years?|rpm|am|pm|people|of|or)\b)"
_CODE_LINK = rf"(?:{_LINK}|['’]s\s|[\s?(,–—-]{{1,4}})[\"'“‘`(*]{{0,3}}"
_LABELLED_CODE = re.compile(
    rf"(?<![\w-])(?:{_join(_SECTIONS['numbers'])})s?{_OF}{_CODE_LINK}{_CODE_VALUE}{_NO_MORE}", re.IGNORECASE
)
_CODE_OF_THING = re.compile(
    rf"(?<![\w-])(?:code|combination|combo|pin|number)\s(?:for|to|of|on|at|in|de|du|del|von|für|zu[mr]|para|per)"
    rf"\s(?:[\w'’-]{{1,20}}\s){{0,3}}?"
    rf"(?:{_words_of('lockable')})(?:\s(?:at|of|in|on)\s[\w'’-]{{1,20}}(?:\s[\w'’-]{{1,20}})?)?{_CODE_LINK}{_CODE_VALUE}{_NO_MORE}",
    re.IGNORECASE,
)
_OPENS = r"(?:get\sin(?:to|side)?|enter|open|unlock|disarm|access|log\sin)"
_TYPES = r"(?:type|enter|press|dial|use|punch\sin|key\sin|tap\sin)"
_CODE_TO_OPEN = re.compile(
    rf"(?<!\w)(?:(?:code|pin|combination|number)\sto\s{_OPENS}(?:\s[\w'’-]{{1,20}}){{0,4}}?{_CODE_LINK}"
    rf"|to\s{_OPENS}\s(?:[\w'’-]{{1,20}}\s){{0,2}}?(?:{_words_of('lockable')}),?\s(?:(?:you|we|i|just|simply|please|one)\s){{0,2}}{_TYPES}\s"
    rf"(?:[a-z]{{1,9}}\s){{0,2}}?|(?:combination|combo)\s(?=\d{{1,2}}-\d{{1,2}}-)){_CODE_VALUE}{_NO_MORE}",
    re.IGNORECASE,
)
_OPENED = r"(?:opens?|unlocks?|disarms?|deactivates?|turns?\soff)"
_IS_OPENED = r"(?:(?:is|gets|can\sbe)\s(?:opened|unlocked|(?:dis)?armed|deactivated|turned\soff)|(?:opens|unlocks))"
_ENTERED = rf"(?:with|by|using|(?:when|if|once|after|as\ssoon\sas)\s(?:you|we|i)\s{_TYPES})(?:\s[a-z]{{1,9}}){{0,2}}?\s"
_THING = rf"(?:(?:my|our|the|his|her|their|your)\s)?(?:[\w'’-]{{1,20}}\s){{0,2}}?(?:{_words_of('lockable')})"
_CLAUSE_ENDS = r"(?=[\"'”’)*]{0,2}(?:[.,;:!?)\n]|\s*\Z|\s(?:and|but|then|or|so|now|at|since)\b))"
_CODE_OPENS = re.compile(
    rf"(?<!\w)(?:(?:{_words_of('lockable')})\s{_IS_OPENED}|{_OPENED}\s{_THING})\s{_ENTERED}{_CODE_VALUE}{_NO_MORE}{_CLAUSE_ENDS}",
    re.IGNORECASE,
)
_CODE_FIRST = re.compile(
    rf"(?:(?<!\w){_TYPES}\s(?:[a-z]{{1,9}}\s){{0,2}}?|\A\s{{0,9}}|(?<=[.!?:\n])\s?){_CODE_VALUE}\s(?:to|lets\sme|will)?\s?{_OPENED}"
    rf"\s{_THING}(?!\w)",
    re.IGNORECASE,
)
_PIN_CODE = re.compile(r"pin[ _-]?code", re.IGNORECASE)
POSTAL_CODE = 6
_OTHER_CODES = word_set(_words_of("other codes").replace("|", " "))
_BACKUP_CODES = re.compile(
    rf"(?<!\w)(?:backup|recovery|rescue|emergency|scratch)[ -]codes?{_OF}(?:{_LINK}|\s)"
    r"(?P<value>(?=[\w -]{0,12}\d)[a-z0-9]{4,6}[- ]?[a-z0-9]{4,6}(?:[\s,;]{1,3}[a-z0-9]{4,6}-?[a-z0-9]{4,6}){0,19})(?!\w)",
    re.IGNORECASE,
)
_WORDS_OF_WALLET = re.compile(
    r"(?:seed|recovery|mnemonic|backup|wallet)\s(?:phrase|words|seed)\W{0,3}(?:is|are)?\W{0,3}"
    r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b",
    re.IGNORECASE,
)
_SOCIAL_SECURITY = re.compile(
    r"\b(?:ssn|social security (?:number|no\.?))\D{0,15}(?P<value>\d{3}[- ]?\d{2}[- ]?\d{4})\b", re.IGNORECASE
)
_SOCIAL = re.compile(r"\bsocial(?: security)?\W{1,3}(?:is\W{1,3})?(?P<value>\d{3}[- ]\d{2}[- ]\d{4})\b", re.IGNORECASE)
_KEY_BELOW = re.compile(
    rf"(?<!\w)(?P<before>[\w'’-]{{0,20}}\s)?(?P<name>{_KEYS}|key|{_NAMES})(?!\w)[^\n]{{0,60}}\n\s{{0,8}}[\"'`]{{0,3}}"
    r"(?P<value>[\w+/=.~-]{16,400})[\"'`]{0,3}[ \t]{0,3}(?=\n|\Z)",
    re.IGNORECASE,
)
_CLIENT_OPTION = re.compile(
    r"\b(?:(?:mysql\w{0,8}|mariadb\w{0,8})\b[^\n|;]{0,80}?\s-p|sshpass\s-p\s?|redis-cli\b[^\n|;]{0,80}?\s-a\s?"
    r"|\blogin\b[^\n|;]{0,80}?\s-p\s)[\"']?(?P<value>[^\s\"'$<{-][^\s\"']{4,120})"
)
_DIGITS_OF_CARD = re.compile(
    r"\b(?:the|my|our)\s(?:(?:three|four|six|3|4|6)\s)?(?:secret\s|security\s)?digits\s(?:for|of|on|to|behind|at)\s(?:[\w'’-]{1,20}\s){0,6}?"
    r"(?:card|debit|credit|visa|mastercard|phone|alarm|door|safe|locker)(?:\s[\w'’-]{1,20}){0,3}?\s(?:are|is|were)\s"
    r"(?P<value>\d{3,6})(?![\d.,]?\d)",
    re.IGNORECASE,
)
_CODE_OF_LOCK = re.compile(
    r"\b(?:key\s?box|key\s?safe|lock\s?box|key\s?pad|padlock|(?:suitcase|bike|bicycle|luggage|number|combination|locker|door|gate)\slock"
    r"|(?:house|burglar)\salarm)\b(?:\s(?:at|of|on|in|by)\s(?:[\w'’-]{1,20}\s?){1,4}?)?"
    r"(?:\s?[:=]\s?|\s(?:is|wants|takes|needs|expects)\s)"
    rf"{_CODE_VALUE}{_NO_MORE}{_CLAUSE_ENDS}",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?<!\S)(?:-u|--user)[ =][\"']?[^\s:\"'$]{1,60}:(?P<value>[^\s\"'$<{][^\s\"']{2,120})")

_ANY_NAME = re.compile(
    rf"(?:\w{{1,20}}[_-])?(?:{_NAMES}|{_join(_SECTIONS['weak'])}|{_join(_SECTIONS['numbers'])}|{_KEYS}|pin|code|key|combination)s?",
    re.IGNORECASE,
)

# -- values

_PLACEHOLDER = re.compile(
    r"x+|[\ue000]+|.?\*+|\.+|[<$%{\[(].*|.*(?:your|example|placeholder|redacted|changeme|envir[o]n|process\.env|getenv).*"
    r"|(?:none|null|nil|true|false|undefined|string|str)\b.*|.*[(\[{].*|https?:.*",
    re.IGNORECASE,
)
_ORDINARY_ENDING = re.compile(
    r"[a-zäöüßéè'-]*(?:ed|ing|ly|able|ible|ive|ent|ant|ary|ory|ous|ful|less|wn|ong|ort|ure|ise|ize|tten|ken|den|len|ence|ance|ness|tion|sion|ment|ity)"
)
_NO_VALUES = load_words(__package__, "not_secrets")
_ORDINARY = re.compile(r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]*|[A-Z]{2,}\d{0,7}|\d{1,4}[a-z]{0,2}|v?\d+")
"""A part of a name with hyphens: a word, a number, a version."""
_PRODUCT = re.compile(r"\d?[A-Za-z]?(?:[A-Z]?[a-z]*|[A-Z]*)\d{0,4}(?:[._/-](?:[A-Z]?[a-z]*|[A-Z]*)\d{0,4})?")
_NO_PASSWORD = re.compile(
    r"[A-Za-z]+[-_ ]?v?\d+(?:\.\d+)+\w*\Z|(?:ctrl|alt|shift|cmd|strg|command|option)[+-]", re.IGNORECASE
)
"""A name with its version, or keys that are pressed together."""
_IDENTIFIER = re.compile(r"(?:[A-Z]?[a-z]{2,}+|[A-Z]{2,}+|\d{1,4}+|[\W_])++")
_HEX = re.compile("[0-9a-f]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PRODUCT_KEY = re.compile(r"[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3,5}")
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "`": "`", "«": "»", "„": "“"}
_OPENING = re.compile(r"(?:(?i:it|that)(?:['’]s|\sis)\s)?[\"'“”‘’`«»„*(\[]{0,3}")
_TOKEN = re.compile(r"[^\s\"“”`«»<]{1,200}")
_ENDING = ".,;:)]}'’*"
_CLAUSE = re.compile(r"[^.,;!?\n\"”]{0,80}(?=[.,;!?\n\"”]|\Z)")
_RANDOM = 2.8
"""Bits per character from which on letters and digits look random. Words with a number at the end have fewer."""
_NEAR_WORDS, _NEAR_LENGTH = 8, 120
"""How far from a name a value without a link may stand."""
_PHRASE_WORDS = range(3, 9)
_FUNCTION_WORDS = word_set(
    """a an and any are as at be been but by can could did do does for from had has have he her his how i if in is it its me my no
    not of on or our out she should so than that the their them then there they this to too up us was we were what when where
    which who will with would you your"""
)
_PASSWORD_HINTS = word_set(
    """pass pwd pw psw kenn contras senha palavra parola wacht haslo hasło lösen adgang salasana heslo jelsz sifre şifre пароль
    κωδ סיסמה 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호 รหัส mdp login credential creds schl p/w"""
) | {"log in", "safe w", "safeword"}
_KEY_HINTS = word_set("key token secret bearer credential code schl clave clé cle psk")
_CODE_HINTS = word_set("code pin puk otp cvv cvc combination combo number código")


_LOGIN_HINTS = word_set("log sign authenticat type enter gets lets got unlock open decrypt access")
_OPEN_HINTS = word_set("open unlock disarm arme deactivat turn")
_SECURED_HINTS = word_set("type enter put in use wants needs takes expects protected secured")
_NO_KEYS = word_set(
    "commit sha hash checksum digest order tracking ssh-rsa id uuid guid idempotency cache partition s3 object"
)
_OTHER_KEYS = word_set("license licence product public primary foreign serial")


class _Rule(NamedTuple):
    """A pattern, and pieces of text of which one stands in each text that it matches."""

    kind: str
    hints: frozenset[str]
    pattern: re.Pattern[str]
    accept: Callable[[re.Match[str]], bool] = bool


def _list_rules() -> tuple[_Rule, ...]:
    return (
        _Rule(KEY, _KEY_HINTS, _LABELLED_KEY, _is_key),
        _Rule(KEY, _KEY_HINTS, _KEY_FIRST, _is_key_first),
        _Rule(PASSWORD, _LOGIN_HINTS, _LOGIN_VALUE, _is_typed),
        _Rule(PASSWORD, _LOGIN_HINTS, _TYPED_VALUE, _is_typed),
        _Rule(PASSWORD, word_set("account login user"), _LOGIN_AND_VALUE, lambda one: _is_mixed(one["value"])),
        _Rule(PASSWORD, _SECURED_HINTS, _VALUE_OF_THING, _is_typed),
        _Rule(KEY, _KEY_HINTS, _KEY_BELOW, _is_key_below),
        _Rule(PASSWORD, word_set("-p -a"), _CLIENT_OPTION, _is_option),
        _Rule(CODE, word_set("digit"), _DIGITS_OF_CARD),
        _Rule(CODE, word_set("lock keypad box safe alarm"), _CODE_OF_LOCK),
        _Rule("a social security number", word_set("social"), _SOCIAL),
        _Rule(PASSWORD, _KEY_HINTS | word_set("chave chiave"), _NETWORK_KEY, _is_network_key),
        _Rule(CODE, _OPEN_HINTS, _CODE_OPENS),
        _Rule(CODE, _OPEN_HINTS, _CODE_FIRST),
        _Rule(CODE, _CODE_HINTS, _LABELLED_CODE, _is_code),
        _Rule(CODE, word_set("code"), _BACKUP_CODES),
        _Rule(CODE, _CODE_HINTS, _CODE_OF_THING, _is_code_of_thing),
        _Rule(CODE, _CODE_HINTS | word_set("unlock open"), _CODE_TO_OPEN),
        _Rule("the words of a wallet", word_set("seed phrase words"), _WORDS_OF_WALLET),
        _Rule("a social security number", word_set("ssn social"), _SOCIAL_SECURITY),
        _Rule(PASSWORD, word_set("-u --user"), _OPTION),
    )


def is_name_of_secret(word: str) -> bool:
    """Return True for a word that names a secret, such as `password`."""
    return _ANY_NAME.fullmatch(word) is not None


def iterate_labelled(text: str) -> Iterator[FoundSecret]:
    """Yield the values in a text that it calls a secret and that look like one."""
    lowered = text.lower()
    if any(hint in lowered for hint in _PASSWORD_HINTS) or "key" in lowered:
        yield from _iterate_passwords(text)
    for kind, hints, pattern, accept in _RULES:
        if any(hint in lowered for hint in hints):
            yield from (FoundSecret(kind, *one.span("value")) for one in iterate_matches(pattern, text) if accept(one))


_SINCE = re.compile(r"\b(?:from|since|in|until|around|about|before|after|by)\s\Z")


def _is_code(match: re.Match[str]) -> bool:
    """Return True unless it may be a postal code, which is called a PIN code in India."""
    is_postal = len(match["value"]) == POSTAL_CODE and _PIN_CODE.match(match[0])
    return not is_postal and not _SINCE.search(match.string, match.start(), match.start("value"))


def _is_code_of_thing(match: re.Match[str]) -> bool:
    """Return True unless the word before `code` makes another thing of it, such as `postal`."""
    words = match.string[max(0, match.start() - 30) : match.start()].lower().split()
    return not words or words[-1] not in _OTHER_CODES


_QUALIFIES = re.compile(r"\s(?:for|of|to|from|in|on|at)\s|[,.;:!)\n]")


def _is_key_below(match: re.Match[str]) -> bool:
    """Return True for a key that fills the line below its name, unless the name is that of another thing."""
    others = _OTHER_KEYS | _NO_KEYS
    line = match.string.rfind("\n", max(0, match.start() - 80), match.start()) + 1
    words = match.string[max(line, match.start() - 80) : match.start("value")].lower().split()
    is_key = is_random_run(match["value"].rstrip("=")) or _is_key(match)
    return is_key and others.isdisjoint(word.strip(".,:;()") for word in words)


def _is_option(match: re.Match[str]) -> bool:
    return not _PLACEHOLDER.fullmatch(match["value"]) and not match["value"].isdigit()


def _is_key_first(match: re.Match[str]) -> bool:
    """Return True for a key before its name, unless it is a path, a name in code, or a commit that is about tokens."""
    value, name = match["value"], match["name"].lower()
    qualified = _QUALIFIES.match(match.string, match.end())  # "… is the token refactoring"
    is_commit = (
        _HEX.fullmatch(value) and not qualified and name.rstrip("s") in ("secret", "token", "bearer", "credential")
    )
    return _is_key(match) and not is_commit and not _IDENTIFIER.fullmatch(value)


def _is_typed(match: re.Match[str]) -> bool:
    """Return True for a value that mixes letters and digits, and is no product or version such as `iPhone15`."""
    value = match["value"].rstrip(f"{_ENDING}!?")
    return (
        _is_mixed(value)
        and not _is_compound_word(value)
        and not _PRODUCT.fullmatch(value)
        and not _NO_PASSWORD.match(value)
    )


def _is_network_key(match: re.Match[str]) -> bool:
    """Return True unless the word before `key` makes another thing of it, such as `product`."""
    words = match.string[match.start() : match.start("value")].lower().split()
    return _is_typed(match) and _OTHER_KEYS.isdisjoint(words)


def _iterate_passwords(text: str) -> Iterator[FoundSecret]:
    for match in iterate_matches(_PASSWORD, text):
        span = _find_value(text, match.end(), is_joined=bool(match["sign"]) and match[0][-1] in "=:")
        while span and not (match["its"] and _is_doubtful(text, match, span)):
            yield FoundSecret(PASSWORD, *span)
            another = _ANOTHER.match(text, span[1])  # "… and for the bank it's …"
            span = _find_value(text, another.end(), is_joined=False) if another else None
    for match in iterate_matches(_WEAK, text):
        if match["weak"].lower()[0] != "l" and (span := _find_near(text, match.end(), is_linked=True)):
            yield FoundSecret(PASSWORD, *span)
    for match in iterate_matches(_CHANGE, text):
        span = _find_value(text, match.end(), is_joined=False)
        if span is None or (match["weak"] and not _is_mixed(text[slice(*span)])):  # "changed my login to Google"
            continue
        if not (match["verb"].lower().endswith("set") and text[slice(*span)].isalpha()):  # "reset it to continue"
            yield FoundSecret(PASSWORD, *span)
    for match in iterate_matches(_NEAR, text):
        if span := _find_near(text, match.end()):
            yield FoundSecret(PASSWORD, *span)
    for match in iterate_matches(_VALUE_FIRST, text):
        if _is_mixed(match["value"]) and not _is_compound_word(match["value"]):
            yield FoundSecret(PASSWORD, *match.span("value"))
    for match in iterate_matches(_UNSPACED, text):
        if (value := _UNSPACED_VALUE.match(text, match.end())) and not _PLACEHOLDER.fullmatch(value[0]):
            yield FoundSecret(PASSWORD, *value.span())


def _is_doubtful(text: str, match: re.Match[str], span: tuple[int, int]) -> bool:
    """Return True for a plain word after a weak link, unless it is all that answers a question."""
    is_answer = "?\n" in match[0] and not text[span[1] :].strip(" .!\n")
    return match["its"].strip() not in ("'s", "’s") and text[slice(*span)].isalpha() and not is_answer


_UNSPACED_VALUE = re.compile(r"[!-~]{4,64}|(?=[^\s，。、；！？]{0,20}[0-9])[^\s，。、；！？]{4,64}")


def _find_value(text: str, at: int, *, is_joined: bool) -> tuple[int, int] | None:
    """Return the span of the password after a link; None if none follows. `is_joined`: nothing stands between them."""
    opening = _OPENING.match(text, at)
    start = opening.end() if opening else at
    if start > at and (closing := _QUOTES.get(text[start - 1])):
        end = text.find(closing, start, start + 80)
        if end - start >= 4 and " " in text[start:end]:
            return None if _is_sentence(text[start:end]) else (start, end)
    token = _TOKEN.match(text, start)
    if token is None:
        return None
    value = token[0].rstrip(f"{_ENDING}!?")
    end = start + len(value)  # marks after it may end a sentence
    if phrase := _find_phrase(text, start):
        return phrase
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or value.lower() in _NO_VALUES:
        return None
    if not value.isalpha() or any(map(str.isupper, value[1:])):
        is_signed = text[max(0, at - 4) : at].rstrip()[-1:] in ("=", ":")
        return (start, end) if not _is_compound_word(value) or (is_signed and _ends(text, token)) else None
    if not _ends(text, token):
        return (start, end) if is_joined else None
    return (start, end) if text[at - 1 : at] in ":=" or not _ORDINARY_ENDING.fullmatch(value.lower()) else None


def _ends(text: str, token: re.Match[str]) -> bool:
    """Return True if a clause ends after a word."""
    return token[0][-1] in ".,;!?)" or text[token.end() : token.end() + 1] in ("", "\n", *"\"'”’`»*<")


def _find_phrase(text: str, start: int) -> tuple[int, int] | None:
    """Return the span of a passphrase: several words up to the end of the clause that make no sentence."""
    clause = _CLAUSE.match(text, start)
    if clause is None:
        return None
    words = clause[0].split()
    if len(words) not in _PHRASE_WORDS or not all(word.isalpha() and word.islower() for word in words):
        return None
    odd = sum(word in _NO_VALUES or _ORDINARY_ENDING.fullmatch(word) is not None for word in words)
    return None if _is_sentence(clause[0]) or 3 * odd > len(words) else (start, start + len(clause[0].rstrip()))


def _is_sentence(words: str) -> bool:
    return not _FUNCTION_WORDS.isdisjoint(words.lower().split())


def _find_near(text: str, at: int, *, is_linked: bool = False) -> tuple[int, int] | None:
    """Return the span of a value that stands near a name, and that no ordinary word looks like unless there is a link or a
    slash before it."""
    before = ""
    for count, token in enumerate(_TOKEN.finditer(text, at, at + _NEAR_LENGTH)):
        value = token[0].strip(f"{_ENDING}([!?")
        near = is_linked or not count or before in ("/", "|")
        if _is_mixed(value) and not (value[0].isdigit() if near else _is_name(value)):
            start = token.start() + token[0].index(value)
            return start, start + len(value)
        if count == _NEAR_WORDS or token[0][-1] in ".;!" or "\n\n" in text[token.end() : token.end() + 2]:
            return None
        before = token[0]
    return None


def _is_mixed(value: str) -> bool:
    """Return True for a value of letters and digits, or of letters and marks inside."""
    if (
        len(value) < 6
        or value.isalpha()
        or _PLACEHOLDER.fullmatch(value)
        or "@" in value[1:-1]
        or "://" in value
        or value[0] in "/~-"
    ):
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return letters and digits


def _is_name(value: str) -> bool:
    """Return True if all parts of a value are words, numbers and versions: "WPA2-Personal", "iPhone15"."""
    return all(map(_ORDINARY.fullmatch, re.split(r"[^A-Za-z0-9]+", value))) or value[0].isdigit()


def _is_compound_word(value: str) -> bool:
    """Return True for compounds of words: "eight-character", "8-12", "and/or", "it's", but not for "horse-42"."""
    parts = re.split(r"[-/'’]", value)
    if not 1 < len(parts) < 4 or not all((part.isalpha() and part.islower()) or part.isdigit() for part in parts):
        return False
    return not (parts[0].isalpha() and parts[-1].isdigit())


def _is_key(match: re.Match[str]) -> bool:
    name, value = match["name"].lower(), match["value"].rstrip(".-")
    prefix = match.string[match.start() : match.start("name")].strip().rstrip("_").lower()
    if is_random_run(value):
        return True
    if len(value) < 12 or _PLACEHOLDER.fullmatch(value):
        return False
    if _UUID.fullmatch(value):
        return name not in ("session token", "id token", "token", "bearer") or prefix in (
            "api",
            "access",
            "secret",
            "auth",
        )
    if name.startswith("licen") and _PRODUCT_KEY.fullmatch(value):
        return False
    # letters and digits are mixed as in a token, unlike a name with a version
    if not any(map(str.isalpha, value)) or sum(map(str.isdigit, value)) < 2:
        return False
    parts = re.split(r"[^A-Za-z0-9]+", value)
    if len(parts) > 1 and all(map(_ORDINARY.fullmatch, parts)):
        return False
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) >= _RANDOM


_RULES = _list_rules()
