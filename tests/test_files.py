"""Files of sessions: what can go wrong with an upload, who may see them, and what is left of one that was cut off."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from memwell import Conflict, Corrupted, Forbidden, Invalid, Memory, MemwellError, NotFound, TooLarge
from memwell.clock import HOUR
from memwell.dispatch import dispatch
from memwell.files.links import Named, sign, verify
from memwell.files.passages import LONGEST, passages
from memwell.model.file import MAX_FILE
from memwell.model.principal import Principal, Tie
from memwell.registry import find
from memwell.sdk._sync_files import AppSession
from memwell.sdk.transport import LocalTransport
from memwell.space import Space
from memwell.storage.blobs import FolderBlobs, TableBlobs
from memwell.surfaces.cli.main import app
from memwell.surfaces.rest.uploads import MAX_PARTS, parse
from memwell.testing import FrozenClock, two_tenants

from .engines import located
from .live import Live, live

TEXT = b"The warranty of the blender ends in March."
FILES = "/v1/apps/shop/sessions/s1/files"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Iterator[Memory]:
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        yield memory


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


@pytest.mark.parametrize(
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
        for tie, allowed in ((Tie("user", "u1"), True), (Tie("user", "u2"), False), (Tie("flow", "f"), False)):
            asked = {"app": "shop", "session_id": "s1"}
            assert _may(alpha, tie, "apps.files.list", asked) is allowed
            assert _may(alpha, tie, "apps.sessions.search", {**asked, "query": "blender"}) is allowed
            assert _may(alpha, tie, "apps.files.delete", {**asked, "file_id": file.file_id}) is allowed


def _may(memory: Memory, tie: Tie, name: str, data: dict[str, Any]) -> bool:
    principal = Principal("alpha", "agent", "k", tie)
    try:
        dispatch(local(memory).engine, principal, find(name), data)
    except (Forbidden, Conflict):
        return False
    return True


def test_a_link_is_one_files_and_cannot_be_made_up() -> None:
    """T13: who changes a letter of it has nothing."""
    secret, named = b"s" * 32, Named("acme", "01abc")
    token = sign(secret, named, 20_000)
    assert verify(secret, token, 19_999) == named
    assert verify(secret, token, 20_000) is None
    assert verify(b"t" * 32, token, 19_999) is None
    changed = {token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token))}
    odd = ["", "=", token + "=", token + "\n", "é", "A" * 5000, base64.urlsafe_b64encode(b"\xff" * 40).decode()]
    assert [verify(secret, one, 19_999) for one in (*changed, *odd)] == [None] * (len(changed) + len(odd))


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
    assert meta["artifacts"][0]["downloadUrl"].startswith(f"{server.url}/v1/files/")
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
    "no heading": (_form(b"hello"), "no heading"),
    "a huge heading": (_form(b"A: " + b"x" * 9000 + b"\r\n" + FILE), "no heading"),
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
    assert [(part.filename, part.content) for part in parse(b"preamble\r\n" + odd, b"x")] == [('a"b.txt', b"--\n--x")]


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
    again = run("files-upload", "shop", "s1", f"@{tmp_path / 'warranty.txt'}", "--filename", "warranty.txt", "--json")
    assert file_id in again.output


# -- what is read, and what is left -----------------------------------------------------------------------------------------


def test_passages_are_whole_paragraphs_or_sentences_and_lose_nothing() -> None:
    paragraphs = [f"Paragraph {number}. " + "It goes on. " * (number * 20) for number in range(12)]
    text = "\n\n".join(paragraphs) + "\n\n" + "x" * 5000
    found = passages(text)
    assert max(map(len, found)) <= LONGEST
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(one.endswith((".", "x")) for one in found)
    assert passages("") == []
    assert passages(" \n\n \n ") == []


def test_reading_that_was_cut_off_goes_on_where_it_was(
    memory: Memory, session: AppSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies between two batches leaves no passage twice, and none out."""
    monkeypatch.setattr("memwell.files.reading.AT_ONCE", 2)
    monkeypatch.setattr("memwell.dialects.files.READ_S", 0.0)  # nobody waits for what fails
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
    assert len({hit.content for hit in found}) == len(found) == len(passages(text))


def test_what_was_stored_and_never_named_is_swept_up(memory: Memory, session: AppSession, clock: FrozenClock) -> None:
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


@pytest.mark.sqlite("its files")
def test_the_doctor_finds_a_file_that_has_lost_its_bytes(memory: Memory, session: AppSession, tmp_path: Path) -> None:
    file = session.files.upload(TEXT, "a.txt")
    (path,) = (tmp_path / "home" / "blobs" / "default").rglob(stored(memory)[0])
    path.write_bytes(b"other bytes")
    with pytest.raises(Corrupted, match="damaged"):
        session.files.read(file.file_id)
    session.files.deactivate(file.file_id)
    again = session.files.activate(file.file_id)
    assert (again.state, "damaged" in (again.reason or "")) == ("failed", True)
    told = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "doctor"])
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
