"""Which collections the dialects use, and what these are when they are first written to."""

from __future__ import annotations

from ..clock import MINUTE
from ..model.collection import TURN_RETENTION, Place, Policy

IDLE = 30 * MINUTE
"""What comes within this time is one conversation of a user's."""

AGENT_LOG = Place("log", "agent", "timeline", sealed=True)


def user_timeline(user: str) -> Place:
    return Place("user", user, "timeline", Policy(retention_us=TURN_RETENTION, idle_us=IDLE))


def user_facts(user: str) -> Place:
    return Place("user", user, "facts")


def flow_timeline(flow: str) -> Place:
    return Place("flow", flow, "timeline", Policy(retention_us=TURN_RETENTION))


def flow_facts(flow: str) -> Place:
    return Place("flow", flow, "facts")
