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


def user_records(user: str) -> Place:
    """All that is set of a person, whatever has set it: who forgets the person forgets it."""
    return Place("user", user, "record")


def app_records(app: str) -> Place:
    """What is set for an app as a whole, and for its sessions."""
    return Place("app", app, "record")


def flow_timeline(flow: str) -> Place:
    return Place("flow", flow, "timeline", Policy(retention_us=TURN_RETENTION))


def flow_facts(flow: str) -> Place:
    return Place("flow", flow, "facts")
