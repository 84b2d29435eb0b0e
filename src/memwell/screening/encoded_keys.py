"""Private keys in text, as people paste them: indented, quoted, after `>`, in JSON with `\\n`, on one line, cut off at an end.

Encoded data is a block of long runs of letters and digits with nothing between them but line breaks and the marks that editors
and mails put around lines. A block is a key if a mark such as `BEGIN … PRIVATE KEY` stands beside it, or if no mark tells
what it is: the mark may have been cut off. A certificate or a public key is no secret.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .found_secret import FoundSecret, iterate_matches

KEY = "a private key"
PART_OF_KEY = "encoded data that may be a key"

_ESCAPED_BREAK = re.compile(r"\\{1,4}(?:r\\{1,4})?n|\\u000a|<br ?/?>|&#10;|%0A")
"""A line break as it is written in JSON, code, HTML and addresses."""
_MARK = re.compile(
    r"(?:(?P<at>BEGIN|END)[ A-Z0-9]{1,40}|[A-Z]{1,4} )?PRIVATE KEY(?: BLOCK)?(?=[ \t]{0,2}[-–—])"
    r"|(?P<bare>BEGIN|END)[ A-Z0-9]{1,40}PRIVATE KEY(?: BLOCK)?"
    r"|PuTTY-User-Key-File-[23]:"
)
_PUBLIC = re.compile(r"(?:BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}(?:CERTIFICATE|PUBLIC|MESSAGE|SIGNATURE|PARAMETERS|CRL)")
_RUN = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_TAIL = re.compile(
    r"[^A-Za-z0-9+/=\n]{0,24}\n[^A-Za-z0-9+/=\n]{0,24}=?[A-Za-z0-9+/]{1,76}={0,2}(?=[^A-Za-z0-9\n]{0,24}(?:\n|\Z))"
)
"""A last line, which may be short."""
_HEAD = re.compile(
    r"(?:\A|\n)[^A-Za-z0-9\n]{0,24}(?=[A-Za-z+/]{0,23}+[0-9+/]|[A-Z]{0,23}+[a-z]{1,23}+[A-Z])(?P<line>[A-Za-z0-9+/]{2,40})"
    r"[^A-Za-z0-9+/\n]{0,24}\n[^A-Za-z0-9\n]{0,24}\Z"
)
"""The rest of a first line that was cut."""
_LINES = re.compile(
    r"(?:[^A-Za-z0-9]{1,40}+(?:[A-Z][A-Za-z-]{2,14}: [^\n]{0,80}+|(?=[A-Za-z+/]{0,23}+[0-9+/=]"
    r"|[A-Z]{0,23}+[a-z]{1,23}+[A-Z])[A-Za-z0-9+/]{3,76}+={0,2}))*+"
)
"""Lines after a mark: data in lines that may be short, and headers such as `Proc-Type: 4,ENCRYPTED`."""
MAX_GAP = 80
"""Characters between two lines of a block."""
MAX_HEADERS = 400
"""Characters between the mark of a key and its data."""
MIN_RUN, MIN_RUNS = 32, 2
"""Length and number of random runs that make a block a key without a mark."""
MIN_LINE = 48
"""Length of a random run that alone looks like a line of a key."""
RANDOM = 3.9
"""Bits per character of a random run; words and paths have fewer."""


class Block(NamedTuple):
    """Encoded data over one or more lines."""

    start: int
    end: int
    runs: tuple[str, ...]


def iterate_keys(text: str) -> Iterator[FoundSecret]:
    """Yield the private keys in a text."""
    if "\\" in text or "<" in text or "&" in text or "%" in text:
        text = _ESCAPED_BREAK.sub(lambda one: f"{' ' * (len(one[0]) - 1)}\n", text)
    blocks = _list_blocks(text)
    marks = list(iterate_matches(_MARK, text)) if "PRIVATE KEY" in text or "PuTTY" in text else []
    if not blocks and not marks:
        return
    taken: list[tuple[int, int]] = []
    for mark, following in zip(marks, [*marks[1:], None], strict=False):
        if taken and mark.start() < taken[-1][1]:
            continue
        taken.append(_find_span(text, blocks, mark, following))
    yield from (FoundSecret(KEY, *span) for span in taken)
    for block in blocks:
        if not _is_inside(taken, block) and _is_random(block) and not _is_public(text, block):
            yield FoundSecret(PART_OF_KEY, _start_head(text, block.start), _end_tail(text, block.end))


def has_encoded_line(text: str) -> bool:
    """Return True if a text holds a run that is as long and as random as a line of a key."""
    return any(len(run[0]) >= MIN_LINE and is_random_run(run[0]) for run in _RUN.finditer(text))


def _list_blocks(text: str) -> list[Block]:
    """List runs of encoded data, and join those between which no word stands."""
    blocks: list[Block] = []
    start, end, runs = 0, -1, list[str]()
    for run in _RUN.finditer(text):
        if runs and (run.start() - end > MAX_GAP or any(map(str.isalpha, text[end : run.start()]))):
            blocks.append(Block(start, end, tuple(runs)))
            runs = []
        start = start if runs else run.start()
        runs.append(run[0])
        end = run.end()
    return [*blocks, Block(start, end, tuple(runs))] if runs else blocks


def _find_span(text: str, blocks: list[Block], mark: re.Match[str], following: re.Match[str] | None) -> tuple[int, int]:
    """Return the span of the key at a mark: up to the mark of its end, or as far as its data goes."""
    place = mark["at"] or mark["bare"]
    start, end = mark.span()
    while start and text[start - 1] in "-–— \t":
        start -= 1
    after = bisect_left(blocks, end, key=lambda block: block.start)
    before = bisect_right(blocks, start, key=lambda block: block.end) - 1
    if place != "BEGIN" and before >= 0 and _is_tail(text[blocks[before].end : start]):
        return _start_head(text, blocks[before].start), end
    if place == "END":
        return start, end
    if following is not None and "END" in (following["at"], following["bare"]):
        return start, following.end()
    gap = MAX_HEADERS
    while after < len(blocks) and blocks[after].start - end < gap:
        end, after, gap = blocks[after].end, after + 1, MAX_GAP
    lines = _LINES.match(text, end)
    return start, _end_tail(text, lines.end() if lines else end)


def _is_tail(gap: str) -> bool:
    """Return True for what may stand between a block and the mark of its end: a short last line, a checksum."""
    return len(gap) <= MAX_GAP and len(re.findall(r"[A-Za-z0-9+/=]+", gap)) <= 2


def _start_head(text: str, start: int) -> int:
    offset = max(0, start - MAX_GAP)
    head = _HEAD.search(text[offset:start])
    return offset + head.start("line") if head else start


def _end_tail(text: str, end: int) -> int:
    tail = _TAIL.match(text, end)
    return tail.end() if tail else end


def _is_inside(spans: list[tuple[int, int]], block: Block) -> bool:
    at = bisect_right(spans, block.start, key=lambda span: span[0]) - 1
    return at >= 0 and block.start < spans[at][1]


def _is_random(block: Block) -> bool:
    """Return True if the runs of a block look like encoded data, rather than like paths or long names."""
    return sum(map(is_random_run, block.runs)) >= MIN_RUNS


def is_random_run(run: str) -> bool:
    """Return True for a long run of letters and digits that looks random, unlike words and paths."""
    size = len(run)
    if size < MIN_RUN or run.count("/") > 2 + size // 32:
        return False
    counts = Counter(run)
    kinds = any(map(str.isupper, counts)), any(map(str.islower, counts)), any(map(str.isdigit, counts))
    return all(kinds) and -sum(n / size * math.log2(n / size) for n in counts.values()) >= RANDOM


def _is_public(text: str, block: Block) -> bool:
    """Return True if a mark beside a block says that it is a certificate, a public key or a message."""
    before, after = text[max(0, block.start - 200) : block.start], text[block.end : block.end + 200]
    return _PUBLIC.search(before) is not None or _PUBLIC.search(after) is not None
