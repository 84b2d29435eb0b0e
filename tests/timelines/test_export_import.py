"""Export and import: everything comes over, in order, once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memwell import Invalid
from memwell.testing import FrozenClock
from memwell.timelines.transfer import Line

from ..cases import cases
from ..engines import Memory, two_tenants

pytestmark = pytest.mark.every_engine


def fill(memory: Memory) -> None:
    flow = memory.flow("support")
    for session in ("b", "a", "ä/ö"):
        history = flow.session(session).history
        history.extend([{"role": "user", "content": f"{session} {number}", "name": "Ann"} for number in range(7)])
        history.append(role="assistant", tool_calls=[{"id": "1"}], metadata={"deep": {"er": [1, None]}})
        history.append(
            role="tool", content="x", tool_name="t", tool_call_id="1", occurred_at=datetime(2020, 1, 1, tzinfo=UTC)
        )
    flow.session("a").write("of the session", 0.9)
    flow.update(flow.write("of the flow"), content="of the flow, changed")
    flow.session("b").end()


def without(lines: list[Line], *fields: str) -> list[dict[str, object]]:
    import msgspec

    return [{k: v for k, v in msgspec.structs.asdict(line).items() if k not in fields} for line in lines]


def test_an_export_imported_elsewhere_is_the_same(tmp_path: Path) -> None:
    with two_tenants(tmp_path) as (source, target):
        fill(source)
        lines = list(source.flow("support").export())
        done = target.flow("copy").import_lines(lines)
        assert (done.added, done.skipped) == (len([line for line in lines if line.type != "session"]), 0)
        again = list(target.flow("copy").export())
        assert without(again, "created_at") == without(lines, "created_at")
        created = [[line.created_at for line in found if line.type == "memory"] for found in (again, lines)]
        assert created[0] == created[1]
        turns = [line for line in again if line.type == "turn" and line.session == "b"]
        assert [line.content for line in turns][:3] == ["b 0", "b 1", "b 2"]


def test_importing_twice_adds_nothing_even_beside_the_original(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        fill(memory)
        lines = list(memory.flow("support").export())
        assert memory.flow("support").import_lines(lines).added == 0
        first = memory.flow("copy").import_lines(lines)
        second = memory.flow("copy").import_lines(lines)
        assert (first.added, second.added, second.skipped) == (29, 0, 29)
        assert len(memory.flow("copy").session("a").history.last(100)) == 9


def test_what_is_being_erased_does_not_keep_its_copy_out(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.flow("a").session("s").history.append(role="user", content="hello")
        lines = list(memory.flow("a").export())
        memory.flow("b").import_lines(lines)
        memory.call("flows.delete_session", {"flow": "b", "session": "s"})
        assert memory.flow("b").import_lines(lines).added == 1
        assert [turn.content for turn in memory.flow("b").session("s").history.last(5)] == ["hello"]


def test_pages_of_any_size_give_the_same_lines(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        fill(memory)
        whole = list(memory.flow("support").export())
        for size in (1, 2, 5, 9, 10, 1000):
            lines: list[Line] = []
            cursor = None
            while True:
                data = {"flow": "support", "limit": size} | ({"cursor": cursor} if cursor else {})
                page = memory.call("flows.export", data)
                lines += page.lines
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert lines == whole


def test_expired_turns_are_not_exported(tmp_path: Path) -> None:
    """G8: an export is a read like any other."""
    clock = FrozenClock()
    with Memory(tmp_path, worker=False, clock=clock) as memory:
        memory.flow("f").session("s").history.append(role="user", content="old")
        memory.flow("f").write("stays")
        clock.advance(days=91)
        assert [line.type for line in memory.flow("f").export()] == ["memory"]


def test_a_bad_line_is_named_and_its_batch_is_not_imported(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        good = {"type": "turn", "session": "s", "role": "user", "content": "fine"}
        for bad in (
            {"type": "turn", "session": "s", "content": "x"},
            {"type": "memory"},
            {"type": "dream"},
            {"type": "turn", "role": "user"},
        ):
            with pytest.raises(Invalid, match="lines"):
                memory.flow("f").import_lines([good, bad])
        assert list(memory.flow("f").export()) == []


def said(memory: Memory, session: str, text: str) -> None:
    memory.flow("copy").session(session).history.append(role="user", name="Alice", content=text)
    memory.flow("copy").consolidate(session)


def test_an_imported_fact_is_confirmed_and_superseded_like_any_other(tmp_path: Path) -> None:
    """Whom it is about comes along, and what it is found again by is made anew."""
    clock = FrozenClock()
    with Memory(tmp_path, worker=False, clock=clock) as memory:
        memory.flow("f").session("s").history.append(role="user", name="Alice", content="I live in Lisbon.")
        memory.flow("f").consolidate("s")
        lines = [line for line in memory.flow("f").export() if line.type == "memory"]
        clock.advance(days=1)
        flow = memory.flow("copy")
        flow.import_lines(lines)
        (fact,) = flow.memories()
        assert (fact.subject, fact.origin, fact.valid_from) == ("Alice", "user", lines[0].valid_from)
        said(memory, "again", "I live in Lisbon.")
        (confirmed,) = flow.memories()
        assert confirmed.id == fact.id
        assert confirmed.confidence > fact.confidence
        clock.advance(days=1)
        said(memory, "later", "I moved to Porto.")
        assert [found.content for found in flow.memories()] == ["Alice moved to Porto."]
        assert flow.get(fact.id).valid_to is not None


def test_an_imported_statement_without_a_subject_is_like_a_written_one(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for flow in (memory.flow("first"), memory.flow("copy")):
            flow.session("s").history.append(role="user", content="I live in Lisbon.")
            lines = [line for line in memory.flow("first").export() if line.type == "memory"]
            flow.import_lines({"type": "memory", "content": line.content} for line in lines)
            plan = flow.consolidate("s")
            assert plan is not None
            assert [step.do for step in plan.steps] == (["merge"] if lines else ["add"])
        (fact,) = memory.flow("copy").memories()
        assert (fact.subject, fact.origin) == (None, "system")
        assert memory.flow("copy").audit().facts == 1


def test_an_import_does_not_raise_trust(tmp_path: Path) -> None:
    with two_tenants(tmp_path) as (source, target):
        source.flow("f").import_lines([{"type": "memory", "content": "The customer lives in Faro.", "origin": "tool"}])
        target.flow("copy").import_lines(source.flow("f").export())
        assert len(target.flow("copy").search("Faro")) == 1
        assert len(target.flow("copy").search("Faro", min_trust="user")) == 0


@cases("field", ["valid_from", "valid_to", "occurred_at"])
def test_a_time_out_of_range_is_named(tmp_path: Path, field: str) -> None:
    with Memory(tmp_path, worker=False) as memory, pytest.raises(Invalid, match=field):
        memory.flow("f").import_lines([{"type": "memory", "content": "x", field: "0001-01-01T00:00:00Z"}])


def test_what_is_imported_rests_on_the_turns_that_came_with_it(tmp_path: Path) -> None:
    """In another memory, and beside the flow that it came from, where ids are taken."""
    with Memory(tmp_path / "from", worker=False) as memory, Memory(tmp_path / "to", worker=False) as other:
        flow = memory.flow("support")
        flow.session("s").history.append(role="user", name="Alice", content="Hi! I live in Lisbon.")
        flow.consolidate("s")
        lines = list(flow.export())
        for copy in (other.flow("support"), memory.flow("copy")):
            copy.import_lines(lines)
            (fact,) = copy.memories()
            assert [one.words for one in copy.memory_history(fact.id).evidence] == ["I live in Lisbon."]
            assert copy.revoke(session="s").withdrawn == [fact.id]
            assert copy.memories() == []
        assert len(flow.memories()) == 1


def test_what_was_passed_on_stays_so(tmp_path: Path) -> None:
    """A document that somebody hands over is neither theirs nor trusted as they are, in an export either."""
    with Memory(tmp_path / "from", worker=False) as memory, Memory(tmp_path / "to", worker=False) as other:
        session = memory.flow("support").session("s")
        turn = session.history.append(role="user", name="Ann", content="The lease ends in May.", origin="document")
        assert turn.origin == "document"
        assert session.history.append(role="user", content="Thanks").origin is None
        other.flow("support").import_lines(list(memory.flow("support").export()))
        copied = other.flow("support").session("s")
        assert [one.origin for one in copied.history.last()] == ["document", None]
        other.flow("support").consolidate("s")
        (fact,) = other.flow("support").memories()
        assert (fact.content, fact.origin, fact.subject) == ("The lease ends in May.", "document", None)
        assert 'origin="document"' in copied.context("lease").messages[0]["content"]
