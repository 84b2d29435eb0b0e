"""S2.35, S2.36: files of sessions, what `sessionMeta.artifacts` says of them, and where they can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest

from memwell import Conflict
from memwell.extract.kinds import KEPT, READ
from memwell.sdk._sync_apps import App, AppSession
from memwell.testing import FrozenClock

from ..engines import Memory
from ..files.samples import text_pdf, word
from ..live import live

TEXT = b"The warranty of the blender ends in March."
FIELDS = ["fileId", "type", "filename", "mimetype", "isActive", "downloadUrl", "size", "state"]


@pytest.fixture
def shop(memory: Memory) -> App:
    return memory.app("shop")


@pytest.fixture
def session(shop: App) -> AppSession:
    return shop.session("s1")


def artifacts(shop: App, session_id: str = "s1") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.scope(session_id=session_id).get_content("sessionMeta")["artifacts"]
    return found


def test_an_upload_leaves_its_metadata_in_the_session_meta(shop: App, session: AppSession, tmp_path: Path) -> None:
    """S2.35, B2.7, C26: the fields, in the order in which the files came; also in templates, by index (B2.6)."""
    (tmp_path / "warranty.txt").write_bytes(TEXT)
    first = session.files.upload(tmp_path / "warranty.txt")
    session.files.upload(b"\x89PNG\r\n\x1a\n...", "blender.png")
    found = artifacts(shop)
    assert [sorted(one) for one in found] == [sorted(FIELDS)] * 2
    assert [one["filename"] for one in found] == ["warranty.txt", "blender.png"]
    assert [one["mimetype"] for one in found] == ["text/plain", "image/png"]
    assert found[0] | {"downloadUrl": ""} == {
        "fileId": first.file_id,
        "type": "file",
        "filename": "warranty.txt",
        "mimetype": "text/plain",
        "isActive": True,
        "downloadUrl": "",
        "size": len(TEXT),
        "state": "extracted",
    }
    assert session.meta().artifacts == found == shop.sessions.list()[0].artifacts
    rendered = shop.scope(session_id="s1").render("See {{memory.sessionMeta.artifacts[1].downloadUrl}}.")
    assert rendered == f"See {found[1]['downloadUrl']}."
    assert shop.session("another").meta().artifacts == []


def test_files_begin_active_and_count_only_while_they_are(shop: App, session: AppSession) -> None:
    """S2.35, B2.7, B2.12: an inactive file is kept, and is no context."""
    file = session.files.upload(TEXT, "warranty.txt")
    assert (file.is_active, [hit.metadata for hit in session.search("blender warranty")]) == (
        True,
        [{"file_id": file.file_id, "filename": "warranty.txt"}],
    )
    session.files.deactivate(file.file_id)
    assert artifacts(shop)[0]["isActive"] is False
    assert len(session.search("blender warranty")) == 0
    assert session.files.read(file.file_id) == TEXT
    assert session.files.activate(file.file_id).state == "extracted"
    assert len(session.search("blender warranty")) == 1
    assert [artifact["isActive"] for artifact in artifacts(shop)] == [True]


SAMPLES = {
    "pdf": text_pdf([["The blender is blue."]]),
    "docx": word(b"<document><body><p><t>The blender is blue.</t></p></body></document>"),
}
SAMPLES |= {"txt": b"The blender is blue.", "json": b'{"blender": "blue"}'}
NO_TEXT = {"png": b"\x89PNG\r\n\x1a\n..", "jpg": b"\xff\xd8\xff\xe0..", "gif": b"GIF89a.."}


def test_text_is_extracted_from_four_types_and_a_link_exists_for_all(memory: Memory) -> None:
    """S2.36, B2.7: PDF, DOCX, TXT and JSON are searched; all others are kept and can be downloaded."""
    memory.app("shop").configure(max_files=50)
    session = memory.app("shop").session("s1")
    for suffix in (*READ, *KEPT):
        content = SAMPLES.get(suffix) or NO_TEXT.get(suffix) or f"blue blender as {suffix}".encode()
        file = session.files.upload(content, f"a.{suffix}")
        assert (file.state, file.reason) == ("extracted" if suffix in READ else "kept", None), suffix
        if (file.download_url or "").startswith("file:"):  # in a database there is no file to point at
            assert Path(url2pathname(urlsplit(file.download_url or "").path)).read_bytes() == content
    hits = session.search("blue blender", limit=50)
    assert sorted((hit.metadata or {})["filename"] for hit in hits) == sorted(f"a.{suffix}" for suffix in READ)


def test_a_link_needs_no_key_and_holds_for_thirty_days(tmp_path: Path) -> None:
    """S2.35: `downloadUrl` is temporary: thirty days at least, and the same all day long. T14: nothing acts in a browser."""
    clock = FrozenClock()
    with live(tmp_path, clock=clock, worker=False) as server, server.memory() as memory:
        session = memory.app("shop").session("s1")
        file = session.files.upload(b"<script>alert(1)</script>", "päge.html")
        url = file.download_url or ""
        clock.advance(seconds=1)
        assert session.meta().artifacts[0]["downloadUrl"] == url
        answer = httpx.get(url)
        assert (answer.status_code, answer.content) == (200, b"<script>alert(1)</script>")
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert "filename*=UTF-8''p%C3%A4ge.html" in answer.headers["content-disposition"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["cache-control"] == "private, no-store"
        assert answer.headers["content-type"] == "application/octet-stream"
        clock.advance(days=30)
        assert httpx.get(url).status_code == 200
        renewed = session.files.get(file.file_id).download_url or ""
        clock.advance(days=1, seconds=1)
        expired = httpx.get(url)
        assert renewed != url
        assert httpx.get(renewed).status_code == 200
        session.files.delete(file.file_id)
        wrong = [httpx.get(one) for one in (renewed, url + "A", url[:-1], url + "!", f"{url[:-2]}AA")]
        assert {(one.status_code, one.content) for one in (expired, *wrong)} == {(404, expired.content)}


def test_a_session_has_ten_files_unless_its_app_says_otherwise(shop: App, session: AppSession) -> None:
    """B2.8: at most ten files; the app may set another number."""
    for number in range(10):
        session.files.upload(b"%d" % number, f"{number}.txt")
    with pytest.raises(Conflict, match="max_files"):
        session.files.upload(b"one more", "11.txt")
    assert session.files.upload(b"3", "3.txt").file_id == session.files.list()[3].file_id  # the same is no other
    shop.configure(max_files=11)
    session.files.upload(b"one more", "11.txt")
    assert len(session.files.list()) == 11


def test_a_session_has_so_much_text_and_no_more(session: AppSession) -> None:
    """B2.8: 800,000 tokens together; what would be more is kept, and its state and reason say so."""
    session.files.upload(TEXT, "warranty.txt")
    large = session.files.upload(b"7 " * 800_000, "sevens.txt")
    assert large.state == "kept"
    assert "800,000 tokens" in (large.reason or "")
    assert {(hit.metadata or {})["filename"] for hit in session.search("7 blender")} == {"warranty.txt"}


def test_code_cannot_change_the_artifacts(shop: App, session: AppSession) -> None:
    """S2.35: what is written to a session leaves its files as they are."""
    session.files.upload(TEXT, "warranty.txt", metadata={"channel": "web"}, user_id="u1")
    before = artifacts(shop)
    shop.sessions.update("s1", {"artifacts": [], "channel": "app"}, mode="replace")
    assert artifacts(shop) == before
    meta = session.meta()
    assert meta.metadata == {"artifacts": [], "channel": "app"}
    assert meta.session_info["userId"] == "u1"
    with pytest.raises(Conflict):
        session.files.upload(b"x", "x.txt", user_id="u2")
