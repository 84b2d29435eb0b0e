"""What a context is put together from, and what comes out."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, NamedTuple

What = Literal["turn", "fact", "record"]
Reason = Literal["budget", "older", "low_score"]
Role = Literal["system", "user", "assistant"]


class RecentTurn(NamedTuple):
    """A turn of the conversation that goes on."""

    role: str
    name: str | None
    text: str
    at: datetime
    id: str = ""
    """Under which it is named where it was left out."""


class RelevantFact(NamedTuple):
    """A fact that recall has found."""

    id: str
    text: str
    score: float
    origin: str
    """The least trusted of what it rests on."""
    valid_from: date | None
    day: date
    """When it was first recorded."""


class RecordText(NamedTuple):
    """A record as text."""

    name: str
    text: str


class LeftOut(NamedTuple):
    """What did not make it: `budget`, it is too large; `older`, later turns took the room; `low_score`, better facts did."""

    what: What
    id: str
    reason: Reason


class Message(NamedTuple):
    """A message to a chat model."""

    role: Role
    content: str

    def as_dict(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


class Context(NamedTuple):
    """What a model is given to read, in both forms; neither takes more than the budget."""

    query: str
    messages: list[dict[str, str]]
    """The memory as one system message, then the turns."""
    text: str
    """The same as one text."""
    tokens: int
    """What the larger form takes, as estimated."""
    left_out: list[LeftOut]
    facts: list[str]
    """The ids of the facts that are in it."""
