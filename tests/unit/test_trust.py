"""Trust of origins; a derived fact has the trust of its least trusted evidence."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

from memwell.model.collection import Origin
from memwell.screening.screen import ORDER, is_trusted, lowest_trust

from ..cases import cases


def test_every_origin_has_its_place() -> None:
    assert set(ORDER) == set(get_args(Origin))


def test_users_are_trusted_more_than_assistants_tools_and_documents() -> None:
    assert list(ORDER) == ["document", "tool", "assistant", "user", "system"]
    assert [origin for origin in ORDER if is_trusted(origin)] == ["user", "system"]


@cases("count", [1, 2, 3, 5])
def test_what_rests_on_several_is_trusted_as_the_least_of_them(count: int) -> None:
    for origins in combinations(ORDER, count):
        assert lowest_trust(reversed(origins)) == origins[0]


def test_what_rests_on_nothing_or_on_something_unknown_is_trusted_least() -> None:
    assert lowest_trust([]) == "document"
    assert lowest_trust(["user", "oracle"]) == "document"
    assert not is_trusted("oracle")
