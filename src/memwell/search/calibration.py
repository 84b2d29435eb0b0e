"""Scores as estimates: a score is the probability that an entry answers a query, measured on entries that people judged.

`docs/search.md` says what was measured. An estimate is a logistic function of the evidence: of the similarity in meaning,
corrected by how similar everything in the scope is to the query, of the words, and of the person that is asked about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .vector_space import Array

USUAL = 0.1
"""The similarity of a query to unrelated statements, before a scope has shown its own."""
USUAL_ENTRIES = 20
"""The number of entries that this prior weighs as much as."""


class Evidence(NamedTuple):
    """The weights of what speaks for an entry, and the logistic function that makes a probability of it."""

    words: float
    """The weight of the share of the query's words that an entry covers."""
    opaque: float
    """The weight of the share that an entry covers of those words that models read badly, such as numbers of tickets."""
    named: float
    """What an entry gains if it names the person whom the query asks about."""
    other: float
    """What an entry loses if it does not name that person."""
    usual: float
    """The weight of the mean similarity of the scope, which is subtracted."""
    middle: float
    """The evidence at which half of the entries are right."""
    width: float

    def estimate(self, evidence: Array) -> Array:
        found: Array = 1.0 / (1.0 + np.exp(np.clip((self.middle - evidence) / self.width, -60.0, 60.0)))
        return found


SENTENCE_MODEL = Evidence(words=0.05, opaque=0.25, named=0.07, other=0.25, usual=0.5, middle=0.353, width=0.045)
LIGHT_MODEL = Evidence(words=0.2, opaque=0.25, named=0.07, other=0.25, usual=0.5, middle=0.318, width=0.057)

TURN = Evidence(words=0.0, opaque=0.0, named=0.0, other=0.0, usual=0.0, middle=0.845, width=0.148)
"""Turns add up the contributions of their arms, see `score`; the sum is the evidence."""
CUTOFF = 0.01
"""Searches leave out hits that are less likely to be right than this, unless they say otherwise."""


def estimate_turns(evidence: Array) -> Array:
    """Return the estimates of turns. Without any evidence, an estimate is 0."""
    least = TURN.estimate(np.zeros(1))[0]
    found: Array = np.clip((TURN.estimate(evidence) - least) / (1.0 - least), 0.0, 1.0)
    return found


EXPECTED = 1.5
"""The number of statements that answer a question, as a rule. If more look right, each of them is less likely to be."""
RIVALS = 100


def weigh_rivals(estimates: Array) -> float:
    """Return the factor by which the estimates of statements shrink because they compete with each other."""
    if len(estimates) > RIVALS:
        estimates = np.partition(estimates, -RIVALS)[-RIVALS:]
    return min(1.0, EXPECTED / max(float(estimates.sum()), EXPECTED))


def find_usual_similarity(total: float, count: int) -> float:
    """Return the mean similarity of a query to the entries of a scope. A few entries say little, so they count with a prior."""
    return (total + USUAL_ENTRIES * USUAL) / (count + USUAL_ENTRIES)
