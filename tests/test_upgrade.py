"""What an older version wrote is found by this one."""

from __future__ import annotations

from pathlib import Path

from memwell.sdk.transport import LocalTransport
from memwell.storage import queries
from memwell.storage.sqlite import connect
from memwell.storage.sqlite.connect import APPLICATION_ID

from .engines import Memory

ENTRY = """INSERT INTO entry (tenant, id, version, address_id, seq, kind, content, origin, occurred_at, recorded_at)
VALUES ('default', :id, 1, 2, :seq, 'fact', :content, 'system', 0, 0)"""


def older_file(home: Path, contents: list[str]) -> None:
    """A directory whose tenant's file has the first schema, with one flow of written statements."""
    with Memory(home, worker=False) as memory:
        memory.status()
    path = home / "tenants" / "default.db"
    path.unlink()
    db = connect.open_writer(path, "full", None, create=True)
    for statement in queries.statements(queries.migrations("sqlite")[0][2]):
        db.execute(statement)
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", 1)
    db.execute("INSERT INTO collection VALUES ('default', 1, 'flow', 'support', 'facts', 0, '{}', 0)")
    db.execute(
        "INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq)"
        " VALUES ('default', 2, 1, '', :n, 0, 0, 0)",
        {"n": len(contents)},
    )
    for seq, content in enumerate(contents, 1):
        db.execute(ENTRY, {"id": f"{seq:026d}", "seq": seq, "content": content})
    db.close()


def test_an_older_file_is_brought_up_to_date_and_searched(tmp_path: Path) -> None:
    older_file(tmp_path, ["Ships to the EU only", "Closes at six on Fridays"])
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("support")
        assert [found.content for found in flow.memories()] == ["Ships to the EU only", "Closes at six on Fridays"]
        assert flow.search("fridays", recipe="words").hits == [], "its words are not known yet"
        assert flow.search("closes on fridays")[0].content == "Closes at six on Fridays", "but its meaning is"
        transport = memory._transport
        assert isinstance(transport, LocalTransport)
        assert transport.engine.worker.run_due("default") >= 1
        assert flow.search("fridays", recipe="words")[0].content == "Closes at six on Fridays"


def test_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    older_file(tmp_path, ["one", "two", "three"])
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("support")
        flow.write("four")
        assert [found.content for found in flow.memories()] == ["one", "two", "three", "four"]
        assert flow.search("four", recipe="words")[0].content == "four"
