"""Names: derived slugs, and the names of documents in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Conflict
from memwell.core import documents
from memwell.records.definitions import derive_slug

from ..cases import cases
from ..engines import Memory


@cases(
    ("name", "slug"),
    [
        ("Customer Profile", "customer_profile"),
        ("Café Preferences", "cafe_preferences"),
        ("Ünïcode Näme", "unicode_name"),
        ("Cafe\N{COMBINING ACUTE ACCENT}", "cafe"),
        ("Straße ½", "strasse_1_2"),
        ("İstanbul", "istanbul"),
        ("Profile of 日本", "profile_of"),
        ("日本", ""),
        ("ﬃ" * 255, "ffi" * 85),
    ],
)
def test_a_slug_leaves_accents_away(name: str, slug: str) -> None:
    assert derive_slug(name) == slug


def test_the_error_about_too_many_documents_uses_their_common_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 1)
    with Memory(tmp_path, worker=False) as memory:
        memory.definitions.create("First")
        with pytest.raises(Conflict, match="There are 1 definitions already: delete one first"):
            memory.definitions.create("Second")
        memory.app("shop").stores.create("cart")
        with pytest.raises(Conflict, match="There are 1 stores already"):
            memory.app("shop").stores.create("other")
