"""Both protocols of language models, and the end of what a test opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .chats import KINDS, OPENED, Kind


@pytest.fixture(autouse=True)
def _closed_chats() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind
