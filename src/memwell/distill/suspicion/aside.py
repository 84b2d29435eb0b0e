"""What would be dropped unseen: words that nothing was learnt from, but that look planted.

Most commands to an agent state nothing, so that no fact comes of them. They are put aside all the same, as they were said:
whoever looks through what is held back sees that somebody has tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..extraction.rewording import quoted
from ..extraction.sentences import without_code, without_echoes
from ..values import Candidate, Said, Source
from ..word_sets import word_set
from .suspect import suspect

LONGEST = 4000
"""Characters of a turn that somebody may have typed. A longer one was pasted, and only what it states is judged."""
SHOWN = 500
IMPORTANCE, CONFIDENCE = 0.1, 0.5
_MACHINES = word_set("assistant tool system")


def put_aside(turns: Sequence[Said], found: Sequence[Candidate]) -> list[Candidate]:
    """What people have said in these turns beside what was found in them, as far as it looks planted."""
    taken: dict[str, list[Source]] = {}
    for candidate in found:
        taken.setdefault(candidate.sources[0].id, []).append(candidate.sources[0])
    people = (said for said in turns if said.role not in _MACHINES and len(said.text) <= LONGEST)
    return [one for said in people for one in _planted(said, taken.get(said.id, ()))]


def _planted(said: Said, taken: Sequence[Source]) -> Iterator[Candidate]:
    text = without_code(without_echoes(said.text))
    for start, end in _gaps(text, taken):
        words = text[start:end].strip()
        if words and suspect(words) is not None:
            shown = words if len(words) <= SHOWN else f"{words[:SHOWN]}…"
            subject, at = said.speaker if said.known else None, Source(said.id, start, end)
            yield Candidate(quoted(shown, said.speaker), subject, "instruction", (at,), IMPORTANCE, CONFIDENCE)


def _gaps(text: str, taken: Sequence[Source]) -> Iterator[tuple[int, int]]:
    """From where to where nothing was taken."""
    at = 0
    for source in sorted(taken, key=lambda source: source.start):
        if source.start > at:
            yield at, source.start
        at = max(at, source.end)
    if at < len(text):
        yield at, len(text)
