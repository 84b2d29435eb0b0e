"""What may be told again: neither a secret nor what looks planted, lest a summary lend it the voice of the agent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ...context.tokens import estimate
from ..extraction.sentences import Sentence, split
from ..suspicion.suspect import suspect
from .told import Told
from .words import is_data


def is_trusted(one: Told, before: str = "") -> bool:
    """Whether a sentence may be told again, which stands after another one. Only what is certain counts, whoever said it: a
    wish that is taken for a plant would be lost to whoever reads the summary."""
    if suspect(one.text, "assistant") is not None:
        return False
    return not (before and _leads_to_secret(before, one.text))


def trimmed(text: str, max_tokens: int) -> str:
    """The sentences of a text that hold no secret, as many from its beginning on as there is room for."""
    pieces = list(_pieces(text, split(text), max_tokens))
    sizes = list(accumulate(map(estimate, pieces)))
    return "".join(pieces[: bisect_right(sizes, max_tokens)]).strip()


def _pieces(text: str, sentences: Sequence[Sentence], max_tokens: int) -> Iterator[str]:
    """Each sentence with the gap before it, without those that hold a secret or are too long in themselves."""
    before, end, hidden = "", 0, False
    for one in sentences:
        hidden = _goes_on(one.text) if hidden else False
        hidden = hidden or _is_secret(one.text) or _leads_to_secret(before, one.text)
        if not hidden and estimate(one.text) <= max_tokens:
            yield text[end : one.end]
        before, end = "" if hidden else one.text, one.end


def _is_secret(text: str) -> bool:
    found = suspect(text, "system")
    return found is not None and found.reason == "secret"


def _leads_to_secret(before: str, text: str) -> bool:
    """Whether two sentences are a secret together: `The password is:` and what it is."""
    return any(_is_secret(f"{lead} {text}") for lead in {before, before.rstrip(":：= ")})


def _goes_on(text: str) -> bool:
    """Whether a line may belong to the secret above it, as those of a private key do."""
    return is_data(text) or " " not in text
