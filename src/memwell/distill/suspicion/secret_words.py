"""Secrets that are told in words: "my password is …", "token: …", a PIN, a card, the words that open a wallet.

What follows such a word is judged by how it looks: "the password is wrong" tells nothing, and a commit, a UUID or an order
number is no secret unless somebody calls it one.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_CALLED = (
    r"pass(?:word|code|phrase|wd)|pwd|passwort|kennwort|mot de passe|contrase[nñ]a|senha|wachtwoord|has[lł]o|пароль"
)
_KEY = (
    r"(?:api|access|secret|private|encryption|signing|master|account|licen[cs]e|webhook|recovery|backup)[ _-]?(?:key|code)s?"
    r"|(?:secret|shared|access|auth(?:entication|orization)?|refresh|api|bearer|session|id|personal access)[ _-]?tokens?"
    r"|client[ _-]?secret|secret|token|bearer|credentials?|api[ _-]?schl(?:ü|ue)ssel|clave|cl[eé]"
)
_CODE = r"cvv2?|cvc2?|otp|(?:one[- ]time|verification|security|2fa|login|sms)[ -](?:code|password|pin)"
_FOR = (
    r"(?:\s(?:for|of|to|on|at|für|de|para|pour)\s(?:my|our|the|his|her|their|your|this|that|meine?n?"
    r"|mi|mon)(?:\s[\w'.-]{1,30}){1,4}?)?"
)
_IS = (
    r"(?:\s{0,3}(?:=>|->|[:=：])\s{0,3}|\s{1,3}(?:is|was|will be|to|ist|lautet|est|es|é|это)\s{1,3}(?:now\s"
    r"|still\s|also\s)?:?\s{0,3})"
)
_OPEN = r"[\"'“”‘’`«]?"
_VALUE = r"([^\s\"'“”’`«»]{4,200})"

_TOLD_PASSWORD = re.compile(
    rf"(?<![\w-])(?:\w{{1,20}}_)?(?:{_CALLED}){_FOR}[\"']?({_IS}){_OPEN}{_VALUE}", re.IGNORECASE
)
_TOLD_KEY = re.compile(
    rf"(?<!\w)(?:\w{{1,30}}_)?({_KEY}){_FOR}[\"']?(?:{_IS}|\s{{1,3}}){_OPEN}([\w+/=.~-]{{12,400}})", re.IGNORECASE
)
_TOLD_CODE = re.compile(rf"(?<!\w)(?:{_CODE}){_FOR}(?:{_IS}|\s{{1,2}})\d{{3,8}}(?!\d)", re.IGNORECASE)
_TOLD_PIN = re.compile(rf"(?<!\w)(?:pin|PIN)(?: number)?{_FOR}(?:{_IS}|\s)\d{{4}}(?![\d.,]?\d| ?(?:mm|cm))")
_NEAR_PASSWORD = re.compile(rf"(?<![\w-])(?:{_CALLED})\s{_OPEN}{_VALUE}", re.IGNORECASE)
_WORDS_OF_WALLET = re.compile(
    r"(?:seed|recovery|mnemonic|backup|wallet)\s(?:phrase|words|seed)\W{0,3}(?:is|are)?\W{0,3}"
    r"(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}\b",
    re.IGNORECASE,
)
_SOCIAL_SECURITY = re.compile(
    r"\b(?:ssn|social security (?:number|no\.?))\D{0,15}\d{3}[- ]?\d{2}[- ]?\d{4}\b", re.IGNORECASE
)
_CARD = re.compile(r"(?<![\w.+/-])\d(?:[ -]?\d){12,18}(?![\w-])")
_CARD_START = re.compile(r"4|5[1-5]|2[2-7]|3[0-9]|6(?:011|4|5|2)")
_CARD_GROUPS = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}")
_OTHER_NUMBER = re.compile(
    r"order|track|isbn|invoice|imei|serial|parcel|shipment|booking|reference|ticket|barcode|ean|phone", re.IGNORECASE
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"x+|.?\*+|\.+|[<$%{\[(].*|.*(?:your|example|placeholder|redacted|changeme|envir[o]n|process\.env|getenv).*"
    r"|(?:none|null|nil|true|false|undefined|string|str)\b.*|.*[(\[{].*|https?:.*",
    re.IGNORECASE,
)
_SAYS_SOMETHING = re.compile(
    r"[a-zäöüßéè'-]*(?:ed|ing|ly|able|ible|ive|ent|ant|ary|ory|ous|ful|less|wn|ong|ort|ure|ise|ize|tten|ken|den|len)",
)
_NO_VALUES_LIST = (
    "about above again all almost already also always another any anything available back bad because been being "
    "below both case clear common correct dead different done down each easy either empty enough ever every "
    "everything exactly fine five free from gone good great hard have here hers higher horrible important incorrect "
    "inside invalid just kept known last later less like long longer lost mandatory maybe mine missing more most much "
    "must necessary never next none nothing obvious offline okay only optional other ours over private public quite "
    "really right safe same secret secure sensitive short simple simply some something somewhere still stale strict "
    "strong such sure that their them then there these they this those three through time tired today tomorrow true "
    "unique unknown unsafe until useless usually valid very visible weak well what when where which with within "
    "without wrong yours your four eight twelve managers manager reset resets protected falsch richtig nicht noch "
    "immer incorrecta incorrecte faux nécessaire"
)
_NO_VALUES = frozenset(_NO_VALUES_LIST.split())
_ORDINARY = re.compile(r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]*|\d{1,4}[a-z]{0,2}|v?\d+")
"""A part of a name with hyphens: a word, a number, a version."""
_NAMES_LIST = (
    "pass pwd kenn contras senha wacht haslo hasło пароль key token secret bearer credential code schl clave clé otp "
    "cvv cvc pin phrase words seed ssn social"
)
_NAMES = _NAMES_LIST.split()
"""What the words for secrets hold. Where none of these occurs, nothing is called a secret."""
_RANDOM = 2.8
"""Bits per character from which letters and digits look random; words with a number at their end have less."""


def told(text: str) -> str | None:
    """What kind of secret a text tells in words, if it does."""
    lowered = text.lower()
    if any(word in lowered for word in _NAMES) and (found := _called(text, lowered)):
        return found
    return "a card number" if any(map(_is_card, _CARD.finditer(text))) else None


def _called(text: str, lowered: str) -> str | None:
    """What is called a secret, and looks like one."""
    if any(map(_tells_password, _TOLD_PASSWORD.finditer(text))) or any(map(_mixed, _NEAR_PASSWORD.finditer(text))):
        return "a password"
    if any(map(_tells_key, _TOLD_KEY.finditer(text))):
        return "a key or token"
    if _TOLD_CODE.search(text) or ("pin" in lowered and _TOLD_PIN.search(text)):
        return "a PIN or code"
    if _WORDS_OF_WALLET.search(text):
        return "the words of a wallet"
    return "a social security number" if _SOCIAL_SECURITY.search(text) else None


def _tells_password(match: re.Match[str]) -> bool:
    """Anything odd is taken for a password, and a plain word only where nothing follows that it could belong to."""
    value = match[2].rstrip(".,;:!?)")
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or value.lower() in _NO_VALUES:
        return False
    if not value.isalpha() or any(map(str.isupper, value[1:])):
        return not _compound(value)
    if match[1].strip() in ("=", ":"):
        return match[1] in ("=", ":") or _ends(match)
    return _ends(match) and _SAYS_SOMETHING.fullmatch(value.lower()) is None


def _compound(value: str) -> bool:
    """Whether it is but words: "eight-character", "8-12", "and/or", "it's"."""
    parts = re.split(r"[-/'’]", value)
    return (
        len(parts) > 1
        and len(parts) < 4
        and all((part.isalpha() and part.islower()) or part.isdigit() for part in parts)
    )


def _ends(match: re.Match[str]) -> bool:
    """Whether a clause ends here."""
    text, end = match.string, match.end()
    return match[2][-1] in ".,;!?)" or text[end : end + 1] in ("", "\n", '"', "'", "”", "’", "`", "»")


def _mixed(match: re.Match[str]) -> bool:
    """Whether a word right behind "password" has letters, digits and enough of them to be one."""
    value = match[1].rstrip(".,;:!?)")
    kinds = (any(map(str.isalpha, value)), any(map(str.isdigit, value)))
    return len(value) >= 6 and all(kinds) and not _PLACEHOLDER.fullmatch(value) and not value[0].isdigit()


def _tells_key(match: re.Match[str]) -> bool:
    value = match[2].rstrip(".-")
    if len(value) < 12 or _PLACEHOLDER.fullmatch(value):
        return False
    if _UUID.fullmatch(value):
        return match[1].lower() not in ("session token", "id token", "token", "bearer")
    return looks_random(value)


def looks_random(value: str) -> bool:
    """Whether letters and digits are mixed as in a token, and not as in a name with a version."""
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    if not letters or digits < 2:
        return False
    parts = re.split(r"[^A-Za-z0-9]+", value)
    if len(parts) > 1 and all(map(_ORDINARY.fullmatch, parts)):
        return False
    return _entropy(value) >= _RANDOM


def _entropy(value: str) -> float:
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def _is_card(match: re.Match[str]) -> bool:
    shown = match[0]
    digits = [int(digit) for digit in shown if digit.isdigit()]
    before = match.string[max(0, match.start() - 40) : match.start()]
    if not _CARD_GROUPS.fullmatch(shown) or not _CARD_START.match(shown) or len(set(digits)) < 2:
        return False
    return _luhn(digits) and not _OTHER_NUMBER.search(before)


def _luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
