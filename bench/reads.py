"""Reading the end of a long session inside a large store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from memwell import Memory
from memwell.clock import SystemClock
from memwell.storage import queries
from memwell.storage.sqlite import connect

from .bare import TENANT
from .measure import alternate, median_ratio
from .sizes import LAST, SESSIONS, Sizes
from .table import Row, at_most, spread
from .texts import FLOW, TURN

LIMIT = 4.0

# Interleave the sessions, as in practice, so that the turns of one session are scattered over the file.
_FILL = """
WITH RECURSIVE turn (seq) AS (SELECT 2 UNION ALL SELECT seq + 1 FROM turn WHERE seq < :turns)
INSERT INTO entry (tenant, id, version, address_id, seq, kind, role, content, origin,
  occurred_at, recorded_at, expires_at)
SELECT a.tenant, printf('%010x%016x', turn.seq, a.id), 1, a.id, turn.seq, 'turn', 'user', :content, 'user',
  a.last_seen_at + turn.seq, a.last_seen_at + turn.seq, a.expires_at + turn.seq
FROM turn CROSS JOIN address a
"""


def last(folder: Path, sizes: Sizes) -> Row:
    """`last(20)` through the SDK, compared with one plain SELECT of the same rows and columns."""
    home = folder / "reads"
    fill(home, sizes.stored_turns // SESSIONS)
    reader = connect.open_reader(_file(home), None)
    select, parameters = _bare_select(reader)
    with Memory(home) as memory:
        history = memory.flow(FLOW).session(_session(0)).history
        assert [turn.seq for turn in history.last(LAST)] == [row[2] for row in reader.execute(select, parameters)][::-1]
        ours, limit = alternate(
            sizes.reads,
            lambda: history.last(LAST),
            lambda: reader.execute(select, parameters).fetchall(),
        )
    reader.close()
    what = f"last({LAST}) of {sizes.stored_turns // SESSIONS:,} turns in {sizes.stored_turns:,}"
    return at_most(what, spread(ours), spread(limit), median_ratio(ours.blocks, limit.blocks), LIMIT)


def fill(home: Path, turns: int) -> None:
    """Fill a store with many sessions. The SDK creates each of them, and plain SQL writes the rest."""
    with Memory(home, worker=False) as memory:
        for number in range(SESSIONS):
            memory.flow(FLOW).session(_session(number)).history.append(role="user", content=TURN)
    db = connect.open_writer(_file(home), "relaxed", None, create=False)
    db.pragma("cache_size", -256 * 1024)
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    with db:
        db.execute(_FILL, {"turns": turns, "content": TURN})
        db.execute("UPDATE address SET last_seq = :turns, last_seen_at = last_seen_at + :turns", {"turns": turns})
    db.pragma("journal_mode", "wal")
    db.close()


def _bare_select(reader: apsw.Connection) -> tuple[str, dict[str, Any]]:
    ((address_id,),) = reader.execute("SELECT id FROM address WHERE path = ?", (_session(0),)).fetchall()
    parameters = {"address_id": address_id, "before": 2**62, "now": SystemClock().now(), "limit": LAST}
    return queries.load("sqlite")["last_entries"].sql, {"tenant": TENANT, **parameters}


def _file(home: Path) -> Path:
    return home / "tenants" / f"{TENANT}.db"


def _session(number: int) -> str:
    return f"session-{number}"
