"""Files of sessions: failed uploads, access, and the remains of interrupted ones."""

from __future__ import annotations

import base64
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from memwell import Conflict, Corrupted, Forbidden, Invalid, MemwellError, NotFound, TooLarge, function
from memwell.clock import HOUR
from memwell.core.access import Principal, Scope
from memwell.core.dispatch import dispatch
from memwell.core.file_links import FileRef, sign_link, verify_link
from memwell.core.space import Space
from memwell.files.session_files import MAX_PASSAGE, split_passages
from memwell.model.fields import MAX_FILE
from memwell.registry import require_operation
from memwell.sdk._sync_apps import AppSession
from memwell.sdk.transport import LocalTransport
from memwell.storage.blobs import FolderBlobs, TableBlobs
from memwell.surfaces.cli.main import app
from memwell.surfaces.rest.file_transfer import MAX_PARTS, MAX_TENANT_DOWNLOADS, MAX_TENANT_UPLOADS, parse_form
from memwell.testing import FrozenClock

from ..cases import cases
from ..contract.task_documents import done, tasks
from ..engines import Memory, located, remains, two_tenants
from ..live import Live, live
from ..unit.test_kinds import HOSTILE
from ..waiting import wait_until
from .bombs import BOMBS

TEXT = b"The warranty of the blender ends in March."
FILES = "/v1/apps/shop/sessions/s1/files"


@pytest.fixture
def session(memory: Memory) -> AppSession:
    return memory.app("shop").session("s1")


@pytest.fixture(scope="module")
def server(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("files"), worker=False, max_body=1024 * 1024) as server:
        yield server


@pytest.fixture
def client(server: Live) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
        client.post(f"{FILES.removesuffix('/files')}/end")


def local(memory: Memory) -> LocalTransport:
    assert isinstance(memory._transport, LocalTransport)
    return memory._transport


def stored(memory: Memory) -> list[str]:
    """The digests that are there."""
    transport = local(memory)
    return [digest for digest, _ in transport.engine.store.blobs(transport.principal.tenant).list()]


# -- what is uploaded ------------------------------------------------------------------------------------------------------

NAMES = {
    "../../etc/passwd": "passwd",
    "..\\..\\boot.ini": "boot.ini",
    "a\x00b.txt": "ab.txt",
    "..": "file",
    "%2e%2e%2fx.txt": "%2e%2e%2fx.txt",
    "x" * 4000 + ".txt": "x" * 251 + ".txt",
    "\u202egpj.exe": "gpj.exe",
}


def test_a_name_is_something_to_look_at_and_nothing_else(session: AppSession, memory: Memory, tmp_path: Path) -> None:
    """T13: whatever a file is called, its bytes lie under their digest."""
    for number, name in enumerate(NAMES):
        session.files.upload(b"%d" % number, name)
    assert [one.filename for one in session.files.list()] == list(NAMES.values())
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.parent.parent.name == "default"]
    assert sorted(path.name for path in files) == (sorted(stored(memory)) if files else [])


def test_the_same_file_again_is_the_one_that_is_there(session: AppSession, memory: Memory) -> None:
    first = session.files.upload(TEXT, "a.txt")
    assert session.files.upload(TEXT, "a.txt").file_id == first.file_id
    assert session.files.upload(TEXT, "b.txt").file_id != first.file_id
    assert session.files.upload(TEXT + b"!", "a.txt").file_id != first.file_id
    assert (len(session.files.list()), len(stored(memory))) == (3, 2)
    for file in session.files.list()[:1]:
        session.files.delete(file.file_id)
    memory.jobs.wait(session.files.delete(session.files.list()[1].file_id).job)
    assert [session.files.read(one.file_id) for one in session.files.list()] == [TEXT]  # another has the same bytes


@pytest.mark.every_engine
@cases(
    ("given", "error", "said"),
    [
        ({"content": b""}, Invalid, "at least one byte"),
        ({"content": b"x" * (MAX_FILE + 1)}, TooLarge, "25 MiB"),
        ({"content": "no base64!"}, Invalid, "Base64"),
        ({"filename": ""}, Invalid, "filename"),
        ({"session_id": ".."}, Invalid, "session_id"),
        ({"mimetype": "x" * 300}, Invalid, "mimetype"),
        ({"metadata": {"userId": []}}, Invalid, "userId"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_nothing(
    memory: Memory, given: dict[str, Any], error: type[MemwellError], said: str
) -> None:
    data = {"app": "shop", "session_id": "s1", "filename": "a.txt", "content": TEXT, **given}
    with pytest.raises(error, match=said):
        memory.call("apps.files.upload", data)
    assert memory.app("shop").sessions.list() == []
    assert memory.app("shop").session("s1").files.list() == []


def test_a_wrong_type_or_a_damaged_file_is_kept_with_the_reason(session: AppSession) -> None:
    """S2.36: a bad file is no error: it can be downloaded as it is."""
    damaged = session.files.upload(b"%PDF-1.7 and nothing else", "a.pdf")
    assert (damaged.state, damaged.mimetype) == ("failed", "application/pdf")
    assert (damaged.reason or "").startswith("The file ")
    claimed = session.files.upload(b"MZ\x00\x01\x02 a program", "report.pdf", mimetype="application/pdf")
    assert (claimed.state, claimed.mimetype) == ("kept", "application/octet-stream")
    assert session.files.read(damaged.file_id) == b"%PDF-1.7 and nothing else"
    assert len(session.search("nothing else")) == 0


def test_unknown_files_and_sessions_are_not_found(session: AppSession, memory: Memory) -> None:
    file = session.files.upload(TEXT, "a.txt")
    elsewhere = memory.app("shop").session("s2")
    elsewhere.files.upload(TEXT, "b.txt")
    assert memory.app("shop").session("never").files.list() == []
    for files, file_id in ((session.files, "0" * 26), (elsewhere.files, file.file_id)):
        for work in (files.get, files.read, files.activate, files.deactivate, files.delete):
            with pytest.raises(NotFound):
                work(file_id)
    with pytest.raises(Invalid, match="cannot be read"):
        session.files.upload(Path("/no/such/file"))
    with pytest.raises(Invalid, match="filename"):
        session.files.upload(TEXT)


# -- whose it is -----------------------------------------------------------------------------------------------------------


def test_a_file_is_its_sessions_its_users_and_its_tenants(tmp_path: Path) -> None:
    """T3, T5: hits come from one session; another user, another tenant and a link of theirs find nothing."""
    with two_tenants(tmp_path / "home") as (alpha, beta):
        session = alpha.app("shop").session("s1")
        file = session.files.upload(TEXT, "a.txt", user_id="u1")
        for other in (alpha.app("shop").session("s2"), alpha.app("spa").session("s1"), beta.app("shop").session("s1")):
            other.files.upload(b"Nothing about kitchens.", "b.txt")
            assert [(hit.metadata or {})["filename"] for hit in other.search("blender warranty kitchens")] == ["b.txt"]
        for found in (alpha.user("u1").search("blender", include=["turns"]), alpha.flow("shop").search("blender")):
            assert len(found) == 0
        with pytest.raises(NotFound):
            beta.app("shop").session("s1").files.read(file.file_id)
        for tie, allowed in ((Scope("user", "u1"), True), (Scope("user", "u2"), False), (Scope("flow", "f"), False)):
            asked = {"app": "shop", "session_id": "s1"}
            assert _may(alpha, tie, "apps.files.list", asked) is allowed
            assert _may(alpha, tie, "apps.sessions.search", {**asked, "query": "blender"}) is allowed
            assert _may(alpha, tie, "apps.files.delete", {**asked, "file_id": file.file_id}) is allowed


def _may(memory: Memory, tie: Scope, name: str, data: dict[str, Any]) -> bool:
    principal = Principal("alpha", "agent", "k", tie)
    try:
        dispatch(local(memory).engine, principal, require_operation(name), data)
    except (Forbidden, Conflict):
        return False
    return True


def test_a_link_is_one_files_and_cannot_be_made_up() -> None:
    """T13: who changes a letter of it has nothing."""
    secret, named = b"s" * 32, FileRef("acme", "01abc")
    token = sign_link(secret, named, 20_000)
    assert verify_link(secret, token, 19_999) == named
    assert verify_link(secret, token, 20_000) is None
    assert verify_link(b"t" * 32, token, 19_999) is None
    changed = {token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token))}
    odd = ["", "=", token + "=", token + "\n", "é", "A" * 5000, base64.urlsafe_b64encode(b"\xff" * 40).decode()]
    assert [verify_link(secret, one, 19_999) for one in (*changed, *odd)] == [None] * (len(changed) + len(odd))


# -- over HTTP ----------------------------------------------------------------------------------------------------------


def test_a_form_the_file_itself_and_json_are_the_same_upload(client: httpx.Client, server: Live) -> None:
    """A file that is larger than other requests may be is taken in each of the three ways."""
    large = TEXT + b" " * 2_000_000
    form = client.post(FILES, files={"file": ("ä.txt", large, "text/plain")}, data={"metadata": '{"a": 1}'})
    assert (form.status_code, form.json()["filename"], form.json()["state"]) == (201, "ä.txt", "extracted")
    raw = client.post(
        FILES, content=large, headers={"content-type": "application/octet-stream", "x-filename": "%C3%A4.txt"}
    )
    as_json = client.post(FILES, json={"filename": "ä.txt", "content": base64.b64encode(large).decode()})
    named = client.post(f"{FILES}?filename=%C3%A4.txt", content=large, headers={"content-type": "text/plain"})
    assert {one.json()["file_id"] for one in (raw, as_json, named)} == {form.json()["file_id"]}
    meta = client.get(FILES.removesuffix("/files")).json()
    assert (meta["metadata"], len(meta["artifacts"])) == ({"a": 1}, 1)
    assert meta["artifacts"][0]["download_url"].startswith(f"{server.url}/v1/files/")
    assert client.get(f"{FILES}/{form.json()['file_id']}/content").json()["size"] == len(large)


def _form(*parts: bytes, end: bytes = b"--x--\r\n") -> bytes:
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + end


FILE = b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello'
FIELD = b'Content-Disposition: form-data; name="user_id"\r\n\r\nu1'
BAD_FORMS = {
    "without a file": (_form(FIELD), "no files"),
    "two files": (_form(FILE, FILE), "2 files"),
    "an empty choice": (_form(b'Content-Disposition: form-data; name="file"; filename=""\r\n\r\n'), "no files"),
    "cut off": (_form(FILE)[:-8], "cut off"),
    "another boundary": (_form(FILE).replace(b"--x", b"--y"), "cut off"),
    "nothing": (b"", "cut off"),
    "no header": (_form(b"hello"), "no header"),
    "a huge heading": (_form(b"A: " + b"x" * 9000 + b"\r\n" + FILE), "no header"),
    "no name": (_form(FILE, b"A: b\r\n\r\nc"), "no name"),
    "too many parts": (_form(*[FIELD] * (MAX_PARTS + 1)), "parts"),
    "a huge field": (_form(FILE, FIELD + b"u" * 70_000), "64 KiB"),
    "metadata that is no JSON": (_form(FILE, FIELD.replace(b"user_id", b"metadata")), "JSON"),
    "an unknown field": (_form(FILE, FIELD.replace(b"user_id", b"color")), "no field"),
    "a field that is not UTF-8": (_form(FILE, FIELD + b"\xff"), "UTF-8"),
}


def test_bad_forms_are_refused_and_store_nothing(client: httpx.Client) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for what, (body, said) in BAD_FORMS.items():
        answer = client.post(FILES, content=body, headers=headers)
        assert answer.status_code in (400, 413), what
        assert said in answer.json()["error"]["message"], what
    for kind in ("multipart/form-data", f"multipart/form-data; boundary={'x' * 71}"):
        assert client.post(FILES, content=_form(FILE), headers={"content-type": kind}).status_code == 400
    no_name = client.post(FILES, content=TEXT, headers={"content-type": "application/octet-stream"})
    assert (no_name.status_code, "filename" in no_name.text) == (400, True)
    assert client.get(FILES).json() == {"files": []}
    odd = _form(
        b'Content-Type: text/plain\r\ncontent-disposition: form-data; name=f; FILENAME="a\\"b.txt"\r\n\r\n--\n--x'
    )
    assert [(part.filename, part.content) for part in parse_form(b"preamble\r\n" + odd, b"x")] == [
        ('a"b.txt', b"--\n--x")
    ]


def test_a_file_that_is_too_large_is_refused_whatever_its_header_says(client: httpx.Client) -> None:
    """The bytes that come are counted. 25 MiB pass."""
    headers = {"content-type": "application/octet-stream", "x-filename": "a.bin"}

    def pieces(count: int) -> Iterator[bytes]:
        return (b"\x00" * 1024**2 for _ in range(count))

    assert client.post(FILES, content=pieces(25), headers=headers).status_code == 201
    for count in (26, 27):
        answer = client.post(FILES, content=pieces(count), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert len(client.get(FILES).json()["files"]) == 1


def test_an_upload_that_is_cut_in_the_middle_stores_nothing(client: httpx.Client, server: Live) -> None:
    before = list(server.engine.store.blobs("default").list())
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as line:
        head = f"POST {FILES}?filename=a.txt HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n"
        line.sendall(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\n".encode() + TEXT)
    assert client.get(FILES).json() == {"files": []}
    assert list(server.engine.store.blobs("default").list()) == before


def test_many_uploads_at_once_keep_their_order_and_their_limit(server: Live) -> None:
    answers: list[int] = []

    def upload(number: int) -> None:
        with server.client() as client:
            sent = client.post("/v1/apps/shop/sessions/busy/files", files={"f": (f"{number}.txt", b"%d" % number)})
            answers.append(sent.status_code)

    threads = [Thread(target=upload, args=(number,)) for number in range(14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] * 10 + [409] * 4
    with server.memory() as memory:
        files = memory.app("shop").session("busy").files
        assert sorted(files.read(one.file_id) for one in files.list()) == sorted(
            one.filename.removesuffix(".txt").encode() for one in files.list()
        )


# -- on the command line -------------------------------------------------------------------------------------------------


def test_files_go_up_and_come_down_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "warranty.txt").write_bytes(TEXT)
    where = ["--home", located(tmp_path / "home"), "app"]

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, [*where, *arguments])

    told = run("upload", "shop", "s1", str(tmp_path / "warranty.txt"))
    name, file_id, state = told.output.split()
    assert (name, state) == ("warranty.txt", "extracted")
    assert run("download", "shop", "s1", file_id, "-o", str(tmp_path / "copy.txt")).exit_code == 0
    assert (tmp_path / "copy.txt").read_bytes() == TEXT
    assert run("download", "shop", "s1", file_id, "-o", str(tmp_path / "copy.txt")).exit_code == 2
    again = run("files-upload", "shop", "s1", f"@{tmp_path / 'warranty.txt'}", "--json")
    assert file_id in again.output


# -- what is read, and what is left -----------------------------------------------------------------------------------------


def test_passages_are_whole_paragraphs_or_sentences_and_lose_nothing() -> None:
    paragraphs = [f"Paragraph {number}. " + "It goes on. " * (number * 20) for number in range(12)]
    text = "\n\n".join(paragraphs) + "\n\n" + "x" * 5000
    found = split_passages(text)
    assert max(map(len, found)) <= MAX_PASSAGE
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(one.endswith((".", "x")) for one in found)
    assert split_passages("") == []
    assert split_passages(" \n\n \n ") == []
    long = split_passages("7 " * 400_000)  # one sentence, and never cut anew from its beginning
    assert ("".join(long).replace(" ", ""), max(map(len, long)) <= MAX_PASSAGE) == ("7" * 400_000, True)
    assert split_passages("a" + " " * 5000 + "b. " + "c" * 2000) == ["a\n\nb.", "c" * 1200, "c" * 800]


def test_reading_that_was_cut_off_goes_on_where_it_was(
    memory: Memory, session: AppSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies between two batches leaves no passage twice, and none out."""
    monkeypatch.setattr("memwell.files.session_files.BATCH", 2)
    monkeypatch.setattr("memwell.files.session_files.READ_S", 0.0)  # nobody waits for what fails
    text = "\n\n".join(f"Chapter {number}. " + "Something is told here. " * 40 for number in range(9))
    written: list[Any] = []
    original = Space.append

    def dies(self: Space, *given: Any) -> Any:
        written.append(given)
        if len(written) == 3:
            raise RuntimeError("killed")
        return original(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Space, "append", dies)
        file = session.files.upload(text.encode(), "book.txt")
    assert (file.state, len(session.search("chapter"))) == ("pending", 0)
    clock = local(memory).engine.clock
    assert isinstance(clock, FrozenClock)
    clock.advance(minutes=5)
    found = session.search("chapter something", limit=50)
    assert session.files.get(file.file_id).state == "extracted"
    assert len({hit.content for hit in found}) == len(found) == len(split_passages(text))


def test_unreferenced_blobs_are_swept(memory: Memory, session: AppSession, clock: FrozenClock) -> None:
    """A process that was killed between the bytes and their row."""
    kept = session.files.upload(TEXT, "a.txt")
    transport = local(memory)
    blobs = transport.engine.store.blobs(transport.principal.tenant)
    orphan = blobs.put(b"never named")
    transport.engine.help_out(transport.principal.tenant)
    assert blobs.has(orphan)
    for _ in range(2):
        clock.advance(hours=2, seconds=1)
        young = blobs.put(b"under way")
        transport.engine.help_out(transport.principal.tenant)
    assert not blobs.has(orphan)
    assert blobs.has(young)
    clock._now += 2 * HOUR
    transport.engine.help_out(transport.principal.tenant)
    assert stored(memory) == [blobs.put(TEXT)]
    assert session.files.read(kept.file_id) == TEXT


@pytest.mark.engines("sqlite")  # its files
def test_the_doctor_finds_a_file_that_has_lost_its_bytes(memory: Memory, session: AppSession, tmp_path: Path) -> None:
    file = session.files.upload(TEXT, "a.txt")
    (path,) = (tmp_path / "home" / "blobs" / "default").rglob(stored(memory)[0])
    path.write_bytes(b"other bytes")
    with pytest.raises(Corrupted, match="damaged"):
        session.files.read(file.file_id)
    session.files.deactivate(file.file_id)
    again = session.files.activate(file.file_id)
    assert (again.state, "damaged" in (again.reason or "")) == ("failed", True)
    told = CliRunner().invoke(app, ["--home", located(tmp_path / "home"), "doctor"])
    assert (told.exit_code, file.file_id in told.output) == (1, True)


def test_bytes_that_an_erasure_took_away_in_between_are_stored_again(
    memory: Memory, session: AppSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes are erased with another session, after they were stored and before they are named."""
    memory.app("shop").session("s0").files.upload(TEXT, "theirs.txt")
    ended: list[str] = []
    for kind in (FolderBlobs, TableBlobs):
        put = kind.put

        def and_erase(self: Any, content: bytes, put: Any = put) -> str:
            digest: str = put(self, content)
            if not ended:
                ended.append(memory.app("shop").session("s0").end().job or "")
                assert memory.jobs.wait(ended[0]).state == "done"
                assert not self.has(digest)
            return digest

        monkeypatch.setattr(kind, "put", and_erase)
    file = session.files.upload(TEXT, "mine.txt")
    assert (len(ended), session.files.read(file.file_id), file.state) == (1, TEXT, "extracted")


# -- what others may do with it ----------------------------------------------------------------------------------------------


def test_a_user_key_takes_over_nothing(memory: Memory, session: AppSession) -> None:
    """T3: what is nobody's does not become the user's because that user writes something there; nor what is left of it."""
    shop, transport = memory.app("shop"), local(memory)
    shop.stores.create("notes", access="session", retention="1_week")
    shop.stores.create("cart", access="user", retention="session_only")
    file = session.files.upload(b"private words of somebody", "secret.txt")
    shop.scope(session_id="left").set_content("notes", {"word": "private"})
    shop.sessions.end("left")
    held = Principal(transport.principal.tenant, "agent", "k", Scope("user", "u1"))

    def tried(name: str, **data: Any) -> Any:
        return dispatch(transport.engine, held, require_operation(name), {"app": "shop", **data})

    new = {"filename": "x.txt", "content": b"x"}
    for session_id in ("s1", "left"):
        at = {"session_id": session_id}
        for name, more in (
            ("apps.files.upload", new),
            ("stores.set_content", {"store": "notes", "data": {}}),
            ("stores.get_content", {"store": "notes"}),
            ("stores.set_content", {"store": "cart", "data": {}, "user_id": "u1"}),
        ):
            if (session_id, more.get("store")) != (
                "left",
                "cart",
            ):  # there is no session any more that it would go with
                with pytest.raises(Forbidden):
                    tried(name, **at, **more)
    assert tried("stores.get_content", session_id="s1", store="cart", user_id="u1").content is None, (
        "one's own can be read anywhere"
    )
    assert session.meta().session_info.user_id is None
    with pytest.raises(Forbidden):
        tried("apps.files.read", session_id="s1", file_id=file.file_id)
    tried("apps.files.upload", session_id="mine", **new)
    assert [one.filename for one in tried("apps.files.list", session_id="mine").files] == ["x.txt"]
    with pytest.raises(NotFound, match="no app"):
        dispatch(
            transport.engine, held, require_operation("apps.files.upload"), {"app": "other", "session_id": "s", **new}
        )


@pytest.mark.every_engine
@pytest.mark.parametrize("how", ["delete", "end"])
def test_runs_that_read_files_are_emptied_with_them(
    memory: Memory, session: AppSession, tmp_path: Path, how: str
) -> None:
    """G9, C13: a run that has seen what they are called and where they are; what others have said stays."""

    @function
    def peek(message: str, memory: Any) -> str:
        return str(memory.get_content("sessionMeta")["artifacts"]) if message == "look" else "nothing"

    shop = memory.app("shop")
    shop.configure(function="peek")
    early = shop.execute("look", "s1")
    file = session.files.upload(b"The wvcanarytextword is here.", "qzcanaryfilename.txt")
    saw, other = shop.execute("look", "s1"), shop.execute("hello", "s1")
    memory.jobs.wait(session.files.deactivate(file.file_id).job or "")
    assert "qzcanaryfilename" in str(memory.workflows.show(saw.run_id).output)
    job = session.files.delete(file.file_id).job if how == "delete" else session.end().job
    receipt = memory.jobs.wait(job or "").result or {}
    assert (receipt["layers"]["runs"], receipt["residual"]) == (1, 0)
    outputs = [memory.workflows.show(one.run_id).output for one in (early, saw, other)]
    assert outputs == ["[]", None, "nothing"]
    assert not [name for name, data in remains(tmp_path).items() if b"qzcanary" in data or b"wvcanary" in data]


def test_a_file_that_could_not_be_read_is_read_once_it_can(
    memory: Memory, session: AppSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2.8: as its reason advises: deactivate others, then activate it again."""
    monkeypatch.setattr("memwell.files.session_files.MAX_TOKENS", 12)
    first, second = session.files.upload(TEXT, "a.txt"), session.files.upload(TEXT, "b.txt")
    assert (first.state, second.state, "then activate it" in (second.reason or "")) == ("extracted", "kept", True)
    assert session.files.activate(second.file_id).state == "kept"
    session.files.deactivate(first.file_id)
    again = session.files.activate(second.file_id)
    assert (again.state, again.reason, len(session.search("blender"))) == ("extracted", None, 1)
    assert session.files.activate(second.file_id).job is None
    repeated = session.files.upload(TEXT, "a.txt")
    assert (repeated.is_active, "activate it" in (repeated.reason or "")) == (False, True)


@pytest.mark.every_engine
def test_a_file_whose_reading_was_cancelled_has_failed_and_can_be_read_again(
    memory: Memory, session: AppSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G7: nothing waits for ever."""
    with monkeypatch.context() as patch:
        patch.setattr("memwell.files.session_files._await_text", lambda request, file: None)
        files = [session.files.upload(TEXT + b"%d" % number, "a.txt") for number in range(2)]
    for file in files:
        memory.jobs.cancel(file.job or "")
    assert session.search("blender").warning is None
    shown = session.files.get(files[0].file_id)
    assert (shown.state, "cancelled" in (shown.reason or "")) == ("failed", True)
    assert [one.state for one in session.meta().artifacts] == ["failed"] * 2
    assert session.files.activate(files[0].file_id).state == "extracted"
    memory.jobs.retry(files[1].job or "")
    assert memory.jobs.wait(files[1].job or "").state == "done"
    assert len(session.search("blender")) == 2


@pytest.mark.every_engine
def test_what_is_stored_while_the_sweep_looks_is_swept_up_later(
    memory: Memory, session: AppSession, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1: an upload that is killed then has asked nobody to look again."""
    session.files.upload(TEXT, "a.txt")
    transport = local(memory)
    blobs = transport.engine.store.blobs(transport.principal.tenant)
    orphans: list[str] = []
    with monkeypatch.context() as patch:
        for kind in (FolderBlobs, TableBlobs):
            original = kind.list

            def and_then(self: Any, original: Any = original) -> Iterator[tuple[str, int]]:
                yield from original(self)
                orphans.append(blobs.put(b"killed before its row"))

            patch.setattr(kind, "list", and_then)
        clock.advance(hours=2, seconds=1)
        transport.engine.help_out(transport.principal.tenant)
    assert blobs.has(orphans[0])
    clock.advance(days=1, seconds=1)
    transport.engine.help_out(transport.principal.tenant)
    assert not blobs.has(orphans[0])
    assert len(stored(memory)) == 1


@pytest.mark.engines("sqlite")  # its files
@pytest.mark.parametrize("killed_in", ["drop", "rmtree"])
def test_a_tenant_whose_removal_was_killed_is_gone_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    """G9: its name is not known any more, so nobody could ask for it again."""

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with two_tenants(tmp_path) as (alpha, beta):
        beta.app("shop").session("s1").files.upload(b"BETACANARY words", "a.txt")
        alpha.app("shop").session("s1").files.upload(TEXT, "a.txt")
        with monkeypatch.context() as patch:
            place: Any = FolderBlobs if killed_in == "drop" else shutil
            patch.setattr(place, killed_in, killed)
            with pytest.raises(KeyboardInterrupt):
                local(alpha).engine.store.drop("beta")
    assert any(b"BETACANARY" in data for data in remains(tmp_path).values())
    with Memory(tmp_path, tenant="alpha", worker=False) as memory:
        assert memory.app("shop").session("s1").files.list()[0].size == len(TEXT)
    assert not [name for name, data in remains(tmp_path).items() if b"BETACANARY" in data]
    assert not list(tmp_path.rglob("*.removed"))


# -- how it is sent and taken ------------------------------------------------------------------------------------------------


def test_a_body_with_a_name_beside_it_is_the_file_whatever_its_type(client: httpx.Client) -> None:
    """What `curl --data-binary` says of it, and JSON files; and nothing else can take the place of the file."""
    kinds = ("application/x-www-form-urlencoded", "application/json", "text/plain")
    for number, kind in enumerate(kinds):
        content = b'{"filename": "b.txt", "number": %d}' % number
        told = {"content-type": kind} | ({"x-filename": f"{number}.json"} if number else {})
        named = "" if number else "?filename=0.json"
        sent = client.post(FILES + named, content=content, headers=told).json()
        assert (sent["filename"], sent["mimetype"], sent["state"]) == (
            f"{number}.json",
            "application/json",
            "extracted",
        )
        assert client.get(f"{FILES}/{sent['file_id']}/content").json()["content"] == base64.b64encode(content).decode()
    twice = [
        client.post(f"{FILES}?filename=q.txt&content=aGVsbG8=", content=b"x", headers={"content-type": "text/plain"}),
        client.post(FILES, files={"file": ("q.txt", b"x")}, data={"content": "aGVsbG8="}),
    ]
    assert [(one.status_code, "omit the field" in one.text) for one in twice] == [(400, True)] * 2
    assert len(client.get(FILES).json()["files"]) == 3


DISPOSITION = b'content-disposition: form-data; name="f"; '
NAMED = {
    DISPOSITION + b"filename*=UTF-8'en'a%20b.txt": "a b.txt",
    DISPOSITION + b"filename*=iso-8859-1''%E4.txt": "ä.txt",
    DISPOSITION + b"filename=my file.txt": "my file.txt",
    DISPOSITION.replace(b"; n", b";\r\n n") + b'filename="a.txt"': "a.txt",
}


@pytest.mark.every_engine
def test_forms_are_read_as_programs_write_them(client: httpx.Client) -> None:
    for head, name in NAMED.items():
        assert [one.filename for one in parse_form(_form(head + b"\r\n\r\nx"), b"x")] == [name]
    for head in (
        DISPOSITION + b"filename*=utf-7''a.txt",
        DISPOSITION + b"filename*=UTF-8''%ff.txt",
        DISPOSITION + b'filename="a.txt"\r\nContent-Transfer-Encoding: base64',
    ):
        with pytest.raises(Invalid):
            parse_form(_form(head + b"\r\n\r\nx"), b"x")
    files: dict[str, Any] = {"f": ("a.txt", TEXT), "metadata": ("m.json", b'{"a": 1}', "application/json")}
    assert client.post(FILES, files=files, data={"_charset_": "utf-8"}).status_code == 201
    assert client.get(FILES.removesuffix("/files")).json()["metadata"] == {"a": 1}


def test_only_files_are_read_from_a_disk_and_no_more_than_may_be_sent(session: AppSession, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(Invalid, match="not a file"):
            session.files.upload(path)


def _line(server: Live, head: str, **sizes: int) -> socket.socket:
    """A request whose answer nobody reads, or whose body does not come."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, sizes.get("buffer", 65536))
    line.settimeout(30)
    line.connect(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    line.sendall(f"{head}\r\n\r\n".encode())
    return line


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[tuple[Live, str]]:
    """A server with two tenants, and the key of the other one."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.call("tenants.create", {"tenant": "other"})
        yield server, memory.call("keys.create", {"name": "k", "role": "agent", "tenant": "other"}).secret


@pytest.mark.every_engine
def test_slow_downloads_keep_no_other_tenant_waiting(tight: tuple[Live, str]) -> None:
    """T14: a link is read piece by piece; a tenant's share of them is limited, and others have theirs."""
    server, key = tight
    large = os.urandom(20 * 1024**2)
    with server.memory() as memory, server.memory(key) as other:
        url = memory.app("shop").session("s1").files.upload(large, "a.bin").download_url or ""
        theirs = other.app("shop").session("s1").files.upload(TEXT, "a.txt").download_url or ""
        assert httpx.get(url).content == large
        head = f"GET {url.removeprefix(server.url)} HTTP/1.1\r\nHost: x"
        with ExitStack() as opened:
            for _ in range(MAX_TENANT_DOWNLOADS):
                assert opened.enter_context(_line(server, head, buffer=4096)).recv(12) == b"HTTP/1.1 200"
            refused = httpx.get(url)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert httpx.get(theirs).content == TEXT
        wait_until(lambda: httpx.get(url).content == large)


@pytest.mark.every_engine
def test_slow_uploads_keep_no_other_tenant_waiting(tight: tuple[Live, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """T14: a tenant's share of uploads is limited, and so is the time that nothing may come."""
    server, key = tight
    head = f"POST {FILES}?filename=a.txt HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\nContent-Length: 9"
    with ExitStack() as opened, server.client(key) as other:
        line, *_ = [opened.enter_context(_line(server, head)) for _ in range(MAX_TENANT_UPLOADS)]
        assert other.post(f"{FILES}?filename=a.txt", content=TEXT).status_code == 201
        line.sendall(b"a warrant")
        assert line.recv(12) == b"HTTP/1.1 201"
        monkeypatch.setattr("memwell.surfaces.rest.file_transfer.GRACE_S", 0.1)
        line.recv(65536)
        line.sendall(f"{head}\r\n\r\na".encode())
        assert line.recv(12) == b"HTTP/1.1 503"


def test_a_reader_is_refused_before_its_file_is_read(server: Live) -> None:
    with server.memory() as memory:
        key = memory.keys.create("r", "reader").secret
    head = f"POST {FILES}?filename=a.txt HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 9999999"
    with _line(server, head) as line:
        assert line.recv(12) == b"HTTP/1.1 403"


# -- what is in it ------------------------------------------------------------------------------------------------------------


def test_a_bomb_is_kept_and_given_back_as_it_is(session: AppSession) -> None:
    """T13: reading it ends in time; its bytes are somebody's file all the same."""
    mimetype, make = BOMBS["elements in elements"]
    bomb = make()
    file = session.files.upload(bomb, "bomb.docx", mimetype=mimetype)
    assert (file.state, (file.reason or "")[:9]) == ("failed", "The file ")
    assert session.files.read(file.file_id) == bomb
    assert session.meta().artifacts[0].size == len(bomb)


@pytest.mark.every_engine
def test_what_is_in_a_file_or_its_name_is_only_ever_text(memory: Memory, session: AppSession) -> None:
    """T12, S3.24: neither a template nor an expression, wherever it is shown."""
    evil = "=$context.metadata {{memory.sessionMeta.metadata.secret}} {{7*7}}"
    session.files.upload(evil.encode(), f"{evil}.txt", metadata={"secret": "hush"})
    shop = memory.app("shop")
    rendered = shop.scope(session_id="s1").render("{{memory.sessionMeta.artifacts[0].filename}}")
    (hit,) = session.search("memory context metadata secret")
    assert (hit.content, rendered) == (evil, f"{evil}.txt")
    echo = tasks(say=("send_text_message", {"text": "=$input.text & '|' & $input.name"}))
    assert done(memory, echo, {"text": hit.content, "name": rendered}) == f"{evil}|{evil}.txt"


@pytest.mark.engines("sqlite")  # its files
def test_no_name_leads_out_of_the_directory_of_blobs(tmp_path: Path) -> None:
    """T13: what a file is called is shown, and never a path, whatever it looks like."""
    home = tmp_path / "deep" / "inside" / "home"
    with Memory(home, worker=False) as memory:
        shop = memory.app("shop")
        shop.configure(max_files=100)
        before = set(tmp_path.rglob("*"))
        refused = 0
        for number, name in enumerate(HOSTILE):
            try:
                file = shop.session(f"s{number // 100}").files.upload(b"\x00\x01 %d" % number, name)
            except Invalid:  # empty, or too long to be a name
                refused += 1
            else:
                assert not {"/", "\\", "\x00"} & set(file.filename)
        made = [path for path in set(tmp_path.rglob("*")) - before if path.is_file() and path.parent.name != "tenants"]
    assert len(made) == len(HOSTILE) - refused > 500
    blobs = home.resolve() / "blobs" / "default"
    assert all(path.resolve().parent.parent == blobs and len(path.name) == 64 for path in made)
