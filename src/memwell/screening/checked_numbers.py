"""Numbers with check digits that identify an account or a person, or open something: bank accounts, cards, tax numbers, wallets.

The check digits tell them from order numbers: one of 97 random numbers looks like a bank account, one of ten like a card. So
cards must also be grouped as on a card, and must not be called something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import NamedTuple

from ..text.word_sets import load_sections
from .found_secret import FoundSecret, iterate_matches

_TWO_DIGITS = re.compile(r"\d[ .-]?\d")
"""A text without two digits together holds none of these numbers."""


def iterate_numbers(text: str) -> Iterator[FoundSecret]:
    """Yield the numbers in a text whose check digits are right."""
    if not _TWO_DIGITS.search(text):
        return
    for kind in _KINDS:
        for match in iterate_matches(kind.pattern, text):
            if end := kind.check(match):
                yield FoundSecret(kind.name, match.start(), end)


# -- bank accounts

_LENGTHS = dict(line.split() for line in load_sections(__package__, "bank_accounts")["iban"])
_SEPARATORS = " -\u00a0\u202f"
_MIN_DIGITS = 8
"""An account has more digits than words with the right check digits."""


def _check_iban(match: re.Match[str]) -> int | None:
    """Return the end of a bank account number, which may be written in groups."""
    text, at, number = match.string, match.start(), ""
    length = int(_LENGTHS.get(match[0][:2].upper(), 0))
    while at < len(text) and len(number) < length:
        if text[at].isascii() and text[at].isalnum():
            number += text[at].upper()
        elif text[at] not in _SEPARATORS or not text[at - 1].isalnum():
            return None
        at += 1
    if not length or len(number) < length or text[at : at + 1].isalnum():
        return None
    digits = "".join(str(int(one, 36)) for one in number[4:] + number[:4])
    return at if sum(map(str.isdigit, number)) >= _MIN_DIGITS and int(digits) % 97 == 1 else None


# -- cards

_CARD_START = re.compile(r"4|5[1-5]|2[2-7]|3[0-9]|6(?:011|4|5|2)")
_CARD_GROUPS = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}")
_OTHER_NUMBER = re.compile(
    r"order|track|isbn|invoice|imei|serial|parcel|shipment|booking|reference|ticket|barcode|ean|phone", re.IGNORECASE
)


def _check_card(match: re.Match[str]) -> int | None:
    number = match[0]
    digits = [int(digit) for digit in number if digit.isdigit()]
    before = match.string[max(0, match.start() - 40) : match.start()]
    if not _CARD_GROUPS.fullmatch(number) or not _CARD_START.match(number) or len(set(digits)) < 2:
        return None
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]  # the checksum of Luhn
    is_card = (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 and not _OTHER_NUMBER.search(before)
    return match.end() if is_card else None


# -- people

_NATIONAL_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_ODD_VALUES = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _check_cpf(match: re.Match[str]) -> int | None:
    """Check a Brazilian tax number: two digits, each a weighted sum of those before."""
    digits = [int(one) for one in match[0] if one.isdigit()]
    for length in (9, 10):
        rest = sum(digit * (length + 1 - place) for place, digit in enumerate(digits[:length])) * 10 % 11 % 10
        if rest != digits[length]:
            return None
    return match.end() if len(set(digits)) > 1 else None


def _check_national_id(match: re.Match[str]) -> int | None:
    """Check a Spanish identity number: its letter is the rest of a division by 23."""
    number = match["number"].upper().replace(".", "").replace("-", "").replace(" ", "")
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return match.end() if _NATIONAL_LETTERS[int(digits) % 23] == number[-1] else None


def _check_fiscal_code(match: re.Match[str]) -> int | None:
    """Check an Italian tax code: its last letter is a sum of values, which differ for odd places."""
    total = 0
    for place, one in enumerate(match[0][:15].upper()):
        value = int(one) if one.isdigit() else ord(one) - ord("A")
        total += value if place % 2 else _ODD_VALUES[value]
    return match.end() if chr(ord("A") + total % 26) == match[0][15].upper() else None


# -- recovery keys and wallets

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _check_recovery_key(match: re.Match[str]) -> int | None:
    """Check a key of BitLocker: eight groups, each of 16 bits times eleven."""
    groups = [int(group) for group in re.split(r"\D", match[0])]
    fits = all(group % 11 == 0 and group < 11 << 16 for group in groups)
    return match.end() if fits and len(set(groups)) > 1 else None


def _check_wallet_key(match: re.Match[str]) -> int | None:
    """Check the private key of a Bitcoin wallet: its last four bytes are a hash of the others."""
    number = 0
    for one in match[0]:
        number = 58 * number + _BASE58.index(one)
    data = number.to_bytes(40, "big").lstrip(b"\0")
    body, check = data[:-4], data[-4:]
    return match.end() if sha256(sha256(body).digest()).digest()[:4] == check else None


class _Kind(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    check: Callable[[re.Match[str]], int | None]
    """Return the end of the number, or None if its check digits are wrong."""


_KINDS = (
    _Kind("a card number", re.compile(r"(?<![\w.+/-])\d(?:[ -]?\d){12,18}(?![\w-])", re.ASCII), _check_card),
    _Kind("a bank account", re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?=[ \u00a0\u202f-]?\w)", re.ASCII), _check_iban),
    _Kind("a tax number", re.compile(r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d\d(?![\w-])", re.ASCII), _check_cpf),
    _Kind(
        "an identity number",
        re.compile(r"\b(?:dni|nie|nif)\b[^\w\n]{0,3}(?:\w{1,10}\s){0,2}(?P<number>(?:\d{2}\.?\d{3}\.?\d{3}|[xyz][- ]?\d{7})"
                   r"[- ]?[a-z])\b", re.ASCII | re.IGNORECASE),
        _check_national_id,
    ),
    _Kind(
        "a tax number",
        re.compile(r"\b[a-z]{6}\d\d[abcdehlmprst]\d\d[a-z]\d{3}[a-z]\b", re.ASCII | re.IGNORECASE),
        _check_fiscal_code,
    ),
    _Kind("a recovery key", re.compile(r"(?<![\w-])\d{6}(?:[- ]\d{6}){7}(?![\w-])", re.ASCII), _check_recovery_key),
    _Kind(
        "the key of a wallet",
        re.compile(r"(?<![A-Za-z0-9])[5KLc9][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])"),
        _check_wallet_key,
    ),
)  # fmt: skip
