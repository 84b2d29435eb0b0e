"""Data erased after a backup stays erased when the backup is restored, and the erasure log reveals nothing (G9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict
from memwell.backup import back_up, check, erasures, restore
from memwell.clock import SystemClock
from memwell.core.access import Authenticator
from memwell.core.operation import Operation
from memwell.erasure import log
from memwell.errors import Corrupted, Invalid, Unauthenticated, Unsupported
from memwell.registry import OPERATIONS

from ..engines import Memory, located, remains
from ..erasure.test_erasure import traces
from ..examples import run_example
from .test_backup import digest, reseal, say, stored, tenants

Erase = Callable[[], Any]
CANARY = "zyxoqwv"


@pytest.fixture
def home(tmp_path: Path) -> str:
    return located(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def word(number: int) -> str:
    """A word of its own for each thing, that stands nowhere else."""
    return CANARY + "abcdefghijklmnopqrstuvwxyz"[number] * 3


def everything(memory: Memory) -> dict[str, Erase]:
    """One thing of each kind that somebody may want to be gone, by its word, and how it goes."""
    made: dict[str, Erase] = {}

    def add(make: Callable[[str], Erase]) -> None:
        one = word(len(made))
        made[one] = make(one)

    for make in (_user, _session, _distilled, _memory, _log, _entry, _key, _wiped, _bank, _record, _content, _app):
        add(lambda text, make=make: make(memory, text))  # type: ignore[misc]
    for make in (_definition, _held, _hook, _workflow, _run, _file, _unread, _ended, _imported):
        add(lambda text, make=make: make(memory, text))  # type: ignore[misc]
    return made


def _user(memory: Memory, text: str) -> Erase:
    memory.user(f"u-{text}").add(f"My word is {text}, remember it.", key=text)
    memory.user(f"u-{text}").records["profile"] = {"word": text}
    memory.keys.create("tied", user=f"u-{text}")
    return memory.user(f"u-{text}").forget


def _session(memory: Memory, text: str) -> Erase:
    session = memory.flow("f").session(f"s-{text}")
    session.history.append(role="user", content=f"They said {text}.", name=text, metadata={"m": text}, key="k1")
    session.write(f"Known: {text}.")
    return session.delete


def _distilled(memory: Memory, text: str) -> Erase:
    """What two sessions say becomes one fact; it is told in the words of the one that is left."""
    for name, said in (("one", f"I live in Porto, {text}."), ("two", "I live in Porto.")):
        session = memory.flow("d").session(name)
        session.history.append(role="user", content=said, name="Ann")
        session.end(wait_s=20)
    return memory.flow("d").session("one").delete


def _memory(memory: Memory, text: str) -> Erase:
    first = memory.flow("f").write(f"A memory of {text}.")
    memory.flow("f").update(first, content=f"Another memory of {text}.")
    return lambda: memory.flow("f").delete_memory(first)


def _log(memory: Memory, text: str) -> Erase:
    memory.log(f"l-{text}").append(entry_type="observation", content=text)
    return memory.log(f"l-{text}").delete


def _entry(memory: Memory, text: str) -> Erase:
    bank = memory.banks.create(name="notes", type="general")
    entry = bank.add(key="k", content=f"An entry of {text}.").id
    bank.add(key="k", content="An entry that stays.")
    return lambda: bank.delete_entry(entry)


def _key(memory: Memory, text: str) -> Erase:
    bank = memory.banks.create(name="keys", type="general")
    bank.add(key=f"k-{text}", content="An entry under a key.")
    return lambda: bank.delete_entries(key=f"k-{text}")


def _wiped(memory: Memory, text: str) -> Erase:
    bank = memory.banks.create(name="wiped", type="conversation")
    bank.add(key="k", content=text, speaker="user")
    return bank.wipe


def _bank(memory: Memory, text: str) -> Erase:
    bank = memory.banks.create(name=f"bank {text}", type="general")
    bank.add(key="k", content="An entry of a bank.")
    return bank.delete


def _record(memory: Memory, text: str) -> Erase:
    memory.user("bystander").records["secret"] = {"word": text}
    memory.user("bystander").records["stays"] = {"word": "stays"}
    return lambda: memory.call("users.delete_record", {"user": "bystander", "record": "secret"})


def _content(memory: Memory, text: str) -> Erase:
    memory.app("shop").stores.create("prefs", access="user")
    scope = memory.app("shop").scope(user_id="bystander")
    scope.set_content("prefs", {"word": text})
    return lambda: scope.delete_content("prefs")


def _app(memory: Memory, text: str) -> Erase:
    memory.app(f"app-{text}").stores.create("prefs", access="user")
    return lambda: memory.call("apps.delete", {"app": f"app-{text}"})


def _definition(memory: Memory, text: str) -> Erase:
    made = memory.definitions.create(f"Named {text}", schema={"type": "object"})

    def delete() -> None:
        memory.call("definitions.update", {"definition": made.id, "name": f"Renamed {text}"})
        memory.call("definitions.delete", {"definition": made.id})

    return delete


def _held(memory: Memory, text: str) -> Erase:
    memory.definitions.create("Profile", schema={"type": "object", "properties": {"name": {"type": "string"}}})
    bound = memory.definitions.bind(["profile"], owner="bystander")
    bound.update({"profile": {"name": text}})
    return lambda: bound.delete("profile")


def _hook(memory: Memory, text: str) -> Erase:
    hook = memory.hooks.create("hook", f"Say {text}.")
    return lambda: memory.hooks.delete(hook.id)


def _workflow(memory: Memory, text: str) -> Erase:
    made = memory.workflows.create({**_document(memory), "name": f"w {text}"})
    memory.workflows.update(made.id, {**_document(memory), "name": f"w2 {text}"})
    return lambda: memory.workflows.delete(made.id)


def _run(memory: Memory, text: str) -> Erase:
    run = memory.workflows.run(_document(memory), f"Given {text}.")
    assert run.status == "done", run
    return lambda: memory.call("runs.delete", {"run": run.id})


def _document(memory: Memory) -> dict[str, Any]:
    return {
        "name": "w",
        "memory_banks": {"runs": {"type": "general"}},
        "steps": [{"step_type": "add_memory", "memory_bank_id": "runs", "key": "k", "content": "It ran."}],
    }


def _file(memory: Memory, text: str) -> Erase:
    files = memory.app("files").session("s1").files
    file = files.upload(f"The file says {text}.".encode(), f"{text}.txt")
    return lambda: files.delete(file.file_id)


def _unread(memory: Memory, text: str) -> Erase:
    """A file that is kept and not used any more: its text goes, its bytes stay. Here they are in no plain form."""
    files = memory.app("files").session("s2").files
    file = files.upload(f"The text says {text}.".encode("utf-16"), "kept.txt")
    return lambda: files.deactivate(file.file_id)


def _ended(memory: Memory, text: str) -> Erase:
    memory.app("shop").sessions.update(f"s-{text}", {"word": text}, user_id="bystander")
    return lambda: memory.app("shop").sessions.end(f"s-{text}")


def _imported(memory: Memory, text: str) -> Erase:
    memory.flow("i").import_lines([{"type": "memory", "id": f"id-{text}", "content": "An imported memory."}])
    return lambda: memory.flow("i").delete_memory(f"id-{text}")


def found(folder: Path, words: dict[str, Erase]) -> list[str]:
    return sorted({line.split(" ")[0] for line in traces(folder, *words)})


def test_data_erased_after_the_backup_stays_erased(home: str, folder: Path, tmp_path: Path) -> None:
    """G9: 0 hits after restoring yesterday's backup, of every kind of thing, and what nobody has erased is there."""
    with Memory(home, worker=False) as memory:
        words = everything(memory)
        memory.user("bystander").add("I stay.")
        made = back_up(home, folder)
        for erase in words.values():
            erase()
        memory.call("jobs.list", {})
        noted = back_up(home, folder, erasures_only=True)
    assert found(tmp_path / "home", words) == []
    assert found(noted.path, words) == [], "what tells of erasures does not tell what was erased"
    assert found(made.path, words) == sorted(words), "the backup itself is as it was"
    place = located(tmp_path / "new")
    done = restore(made.path, place)
    assert found(tmp_path / "new", words) == []
    assert (done.tenants[0].residual, done.told_by) == (0, [noted.path.name])
    with Memory(place, worker=False) as memory:
        assert [turn.content for turn in memory.user("bystander").history()] == ["I stay."]
        assert dict(memory.user("bystander").records) == {"stays": {"word": "stays"}}
        assert [fact.content for fact in memory.flow("d").memories()] == ["Ann lives in Porto."]
        (bank,) = (one for one in memory.banks.list().memory_banks if one.name == "notes")
        assert [entry.content for entry in memory.banks.open(bank.id).entries(key="k")] == ["An entry that stays."]
        assert [file.is_active for file in memory.app("files").session("s2").files.list()] == [False]
        memory.definitions.create(f"Named {word(12)}", schema={"type": "object"})  # its name is free
        again = back_up(place, folder)
    assert again.manifest.tenants[0].erasures == noted.manifest.tenants[0].erasures
    assert restore(again.path, located(tmp_path / "third")).tenants[0].erased == 0, "nothing is erased twice"


IDLE = {
    "banks.delete_entries": "its example is a dry run; another test has it delete something",
    "definitions.end": "its example finds nothing; it deletes records as others do",
}


def _erasing() -> list[Operation]:
    return [one for one in OPERATIONS.values() if one.effect == "erase" and one.name not in IDLE]


@pytest.mark.engines("sqlite")  # the ledger is the same on every engine
@pytest.mark.parametrize("operation", _erasing(), ids=lambda operation: operation.name)
def test_operations_that_erase_write_to_the_erasure_log(operation: Operation, tmp_path: Path) -> None:
    """Who adds an operation that erases notes it in the ledger, or a restored backup brings it back."""
    with Memory(tmp_path / "home", worker=False) as memory:
        run_example(operation, lambda name, data: memory.call(name, data))
    store = stored(tmp_path / "home")
    noted = store.read("default", lambda tx: log.list_lines(tx))
    dropped = store.control.rows("list_dropped", after="", limit=10)
    store.close()
    assert noted or dropped


def test_erasures_are_known_from_where_one_is_told_to_look(home: str, folder: Path, tmp_path: Path) -> None:
    """A backup that stands alone knows of nothing later; a data directory, a backup or a folder of them may tell it."""
    with Memory(home, worker=False) as memory:
        memory.user("alice").add(f"My word is {CANARY}.")
        memory.user("bob").add("I stay.")
        made = back_up(home, folder)
        memory.user("alice").forget()
        told = back_up(home, tmp_path / "elsewhere", erasures_only=True)
    alone = located(tmp_path / "alone")
    assert restore(made.path, alone).tenants[0].erased == 0
    assert found(tmp_path / "alone", {CANARY: print}) == [CANARY]
    sources: list[str | Path] = [home, told.path, told.path.parent]
    for number, source in enumerate(sources):
        place = tmp_path / f"told{number}"
        (one,) = restore(made.path, located(place), erasures=[source]).tenants
        assert one.erased > 0
        assert found(place, {CANARY: print}) == []
    with pytest.raises(Invalid, match="neither a backup"):
        restore(made.path, located(tmp_path / "x"), erasures=[tmp_path / "nothing"])
    (one,) = restore(made.path, home, replace=True).tenants
    assert (one.replaced, one.erased > 0, found(tmp_path / "home", {CANARY: print})) == (True, True, [])


def test_an_erasure_that_comes_while_a_tenant_is_replaced_is_not_lost(home: str, folder: Path, tmp_path: Path) -> None:
    with Memory(home, worker=False) as memory:
        memory.user("alice").add(f"My word is {CANARY}.")
        memory.user("bob").add("I stay.")
        files = memory.app("files").session("s1").files
        file = files.upload(f"The file says {CANARY}.".encode(), "a.txt").file_id
        made = back_up(home, folder)
        later = files.upload(f"A later file says {CANARY}.".encode(), "b.txt").file_id

        def meanwhile(what: str) -> None:
            if what.startswith("restoring"):  # what is to be restored is prepared by now
                memory.user("alice").forget()
                files.delete(file)
                files.delete(later)  # its bytes are still there: nobody has done what is left to do

        (one,) = restore(made.path, home, replace=True, progress=meanwhile).tenants
        assert one.erased > 0
        assert [turn.content for turn in memory.user("bob").history()] == ["I stay."]
        assert memory.user("alice").history() == []
    assert found(tmp_path / "home", {CANARY: print}) == [], "bytes of files included, and at once"


def test_data_stored_again_before_the_backup_stays(
    home: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who was forgotten by mistake and was brought back is not erased by what knew of that, nor is a tenant."""
    say(home, "default", "acme")
    first = back_up(home, tmp_path / "alone").path
    with Memory(home, worker=False) as memory:
        memory.user("alice").forget()
        memory.tenants.delete("acme")
    older = back_up(home, folder).path
    again = located(tmp_path / "again")
    restore(first, again)
    made = back_up(again, folder).path
    done = restore(made, located(tmp_path / "new"))
    assert [(one.tenant, one.erased) for one in done.tenants] == [("acme", 0), ("default", 0)], older
    assert (done.told_by, done.dropped) == ([], [])
    monkeypatch.setattr(erasures, "SLACK", 0)  # long after
    done = restore(made, located(tmp_path / "told"), erasures=[home])
    assert [one.erased for one in done.tenants] == [0, 0]
    one = restore(made, home, replace=True)
    assert [(each.replaced, each.erased) for each in one.tenants] == [(False, 0), (True, 0)]
    made = back_up(home, tmp_path / "marked").path
    assert restore(made, home, replace=True).dropped == [], "it is marked as deleted there, and is there"
    with Memory(again, worker=False) as memory:
        memory.user("alice").forget()
    assert [each.erased > 0 for each in restore(made, again, replace=True).tenants] == [False, True], "what came later"


def test_a_home_that_was_lost_keeps_its_backups_and_what_tells_them(home: str, folder: Path, tmp_path: Path) -> None:
    """One that was made anew in the same place, or that has forgotten what was erased, takes the place of none."""
    with Memory(home, worker=False) as memory:
        memory.user("alice").add(f"My word is {CANARY}.")
        memory.user("bob").add("I stay.")
        made = back_up(home, folder, keep=1)
        memory.user("alice").forget()
        noted = back_up(home, folder, erasures_only=True, keep=1)
    store = stored(home)
    lines = store.read("default", lambda tx: log.list_lines(tx))
    store.write("default", lambda tx: tx.send("delete_erasures_after", after=0))
    assert back_up(home, folder, erasures_only=True, keep=1).removed == [], "it knows what the newer one does not"
    store.control.write(("set_tenant_made", {"id": "default", "created_at": 1}))
    assert back_up(home, folder, erasures_only=True, keep=1).removed == []
    lost = back_up(home, folder, keep=1)
    assert lost.removed == []
    done = restore(made.path, home, replace=True)
    assert done.told_by[0] == noted.path.name
    assert store.read("default", lambda tx: log.list_lines(tx)) == lines
    store.close()
    assert found(tmp_path / "home", {CANARY: print}) == []
    assert back_up(home, folder, keep=1).removed == [made.path.name], "it is the one that was lost again"
    assert lost.path.exists()


def test_keys_do_not_come_back(home: str, folder: Path, tmp_path: Path) -> None:
    """A key that was revoked since is revoked, and one that was held to somebody who is forgotten is gone."""
    with Memory(home, worker=False) as memory:
        memory.user("alice").add("hi")
        kept, revoked = memory.keys.create("kept"), memory.keys.create("revoked")
        memory.keys.create("tied", user=f"alice-{CANARY}")
        memory.user(f"alice-{CANARY}").add("hi")
        made = back_up(home, folder)
        memory.keys.revoke(revoked.id)
        memory.user(f"alice-{CANARY}").forget()
        back_up(home, folder, erasures_only=True)
    place = located(tmp_path / "new")
    assert restore(made.path, place).tenants[0].keys == 2
    with Memory(place, worker=False) as memory:
        assert {key.id: key.revoked_at is not None for key in memory.keys.list()} == {kept.id: False, revoked.id: True}
    assert found(tmp_path / "new", {CANARY: print}) == []
    alone = made.path.rename(tmp_path / "alone")
    place = located(tmp_path / "untold")
    server = stored(place)  # that goes on all the time
    doorman = Authenticator(server.control, SystemClock())
    server.control.secret  # noqa: B018 -- it has one of its own
    restore(alone, place)
    assert doorman.admit(revoked.secret).tenant == "default", "the secret that came along is used by all"
    with Memory(place, worker=False) as memory:
        own = memory.keys.create("own")
    restore(alone, place, replace=True, erasures=[folder])
    with Memory(place, worker=False) as memory:
        now = {key.id: key.revoked_at is not None for key in memory.keys.list()}
    assert now == {kept.id: False, revoked.id: True, own.id: False}
    assert doorman.admit(own.secret).tenant == "default"
    with pytest.raises(Unauthenticated):
        Authenticator(server.control, SystemClock()).admit(revoked.secret)
    server.close()
    assert found(tmp_path / "untold", {CANARY: print}) == []


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_lines_that_cannot_be_are_refused(home: str, folder: Path, tmp_path: Path) -> None:
    say(home)
    made, noted = back_up(home, folder).path, back_up(home, folder, erasures_only=True).path
    for line in (
        '["address","abc",1]', '["address","99999999999999999999",1]', '["collection","-1",1]', '["address","٣",1]',
        '["entry","x",99999999999999999999999]', '["entry","x",-5]', '["file","\\u0000",1]', '["run","",1]',
        f'["run","{"9" * 5000}",1]', '["A b","x",1]', '["entry","x",true]', "[" * 900,
    ):  # fmt: skip
        (noted / "erasures" / "default.jsonl").write_bytes(line.encode() + b"\n")
        reseal(noted)
        with pytest.raises(Corrupted, match=r"default.jsonl is damaged"):
            check(noted)
        with pytest.raises(Corrupted, match="may have later erasures"):
            restore(made, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_tenant_that_was_deleted_stays_deleted(home: str, folder: Path, tmp_path: Path) -> None:
    say(home, "default", "acme")
    made = back_up(home, folder)
    with Memory(home, worker=False) as memory:
        memory.tenants.delete("acme")
    back_up(home, folder)
    for place in (home, located(tmp_path / "new")):
        with pytest.raises(Conflict, match="acme was deleted after this backup"):
            restore(made.path, place, tenants=["acme"])
    done = restore(made.path, located(tmp_path / "new"))
    assert ([one.tenant for one in done.tenants], done.dropped) == (["default"], ["acme"])
    say(home, "acme")
    assert restore(back_up(home, folder).path, located(tmp_path / "later")).dropped == [], "another of the same name"
    assert tenants(located(tmp_path / "later")) == ["acme", "default"]


@pytest.mark.engines("sqlite")  # a backup is a directory, whatever it is of
def test_a_newer_backup_that_cannot_be_read_might_know_of_an_erasure(home: str, folder: Path, tmp_path: Path) -> None:
    say(home)
    first, second = back_up(home, folder), back_up(home, folder)
    (second.path / "erasures" / "default.jsonl").write_text("{}\n")
    with pytest.raises(Corrupted, match="may have later erasures"):
        restore(first.path, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (second.path / "erasures" / "default.jsonl").write_text('["dream","1",9000000000000000]\n')
    reseal(second.path)
    with pytest.raises(Unsupported, match="newer version"):
        restore(first.path, tmp_path / "new")
    assert tenants(tmp_path / "new") == []
    (second.path / "erasures" / "default.jsonl").write_text("")
    reseal(second.path)
    (first.path / "manifest.json").write_text("{")
    assert restore(second.path, tmp_path / "new").told_by == [], "an older one has nothing to say"


def test_what_was_being_erased_when_the_backup_was_made_is_not_restored(
    home: str, folder: Path, tmp_path: Path
) -> None:
    """It was out of sight, and its bytes were to go."""
    with Memory(home, worker=False) as memory:
        memory.flow("f").session("s").history.append(role="user", content=f"They said {CANARY}.")
        memory.call("flows.delete_session", {"flow": "f", "session": "s"})
        made = back_up(home, folder)
    assert found(made.path, {CANARY: print}) == [CANARY]
    restore(made.path, located(tmp_path / "new"))
    assert found(tmp_path / "new", {CANARY: print}) == []


def test_the_same_thing_may_be_there_again(home: str, folder: Path, tmp_path: Path) -> None:
    """What was erased, and then made again under the same id or name before the backup, is in it by right."""
    line = {"type": "memory", "id": "1", "content": "Ships to the EU only"}
    with Memory(home, worker=False) as memory:
        for _ in range(2):
            memory.flow("f").import_lines([line])
            memory.app("shop").stores.create("prefs", access="user")
            made = back_up(home, folder)
            memory.flow("f").delete_memory("1")
            memory.app("shop").stores.delete("prefs")
    alone = tmp_path / "alone"
    made.path.rename(alone)
    restore(alone, located(tmp_path / "new"))
    with Memory(located(tmp_path / "new"), worker=False) as memory:
        assert [fact.content for fact in memory.flow("f").memories()] == ["Ships to the EU only"]
        assert [one.technical_name for one in memory.app("shop").stores.list()] == ["prefs"]
    assert remains(tmp_path / "new")
    (one,) = restore(alone, located(tmp_path / "told"), erasures=[home]).tenants
    assert (one.erased, digest(located(tmp_path / "told")).rows["entry"]) == (2, 0)
