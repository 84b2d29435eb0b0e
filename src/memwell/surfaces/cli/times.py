"""Times as people write them on a command line."""

from __future__ import annotations

from datetime import UTC, datetime

from ...errors import Invalid


def moment(name: str, text: str) -> datetime:
    """A day or a time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name} is a day or a time (RFC 3339), such as 2026-04-19 or 2026-04-19T10:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
