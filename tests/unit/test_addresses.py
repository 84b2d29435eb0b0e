"""Addresses that are made of parts: different parts never make the same address, in any dialect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import hypothesis
import pytest
from hypothesis import strategies as st

from memwell import Invalid
from memwell.context.memory_namespace import Scope
from memwell.core.owners import app_records, flow_timeline, user_records
from memwell.model.collection import join_parts
from memwell.records import apps, stores
from memwell.records.definitions import Definition, definition_tie
from memwell.records.working_memory import MemoryScope, find_path
from memwell.workflows.run_rows import run_tie
from memwell.workflows.substitutions import Values

from ..properties import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IDS = st.one_of(
    st.sampled_from(
        ["a", "b", "a/b", "b/a", "/", "%2F", "a%2Fb", "a/thread=b", "session", "a/session=b", "owner", "app"]
    ),
    st.text(st.sampled_from("ab/%=@2F"), min_size=1, max_size=8),
)
THREADS = st.one_of(IDS, st.sampled_from(["owner=a/thread=b", "app=a/session=b", "thread=a", "a/t"]))
NAMES = st.sampled_from(["a", "b", "ab", "sessionMeta", "thread"])
"""Names of apps and stores, and slugs: their patterns allow neither `/` nor `@`."""


class Drawn(NamedTuple):
    """Parts of which an address is made, and the function that makes it."""

    kind: str
    make: Callable[..., Any]
    parts: tuple[str | None, ...]


def converse(flow: str, owner: str | None, thread: str) -> Any:
    apps.check_thread(thread)
    return flow_timeline(flow), Scope(None, owner, thread).conversation


def converse_in_app(flow: str, owner: str | None, app: str, session: str) -> Any:
    return flow_timeline(flow), Scope(app, owner, session).conversation


def remember(owner: str, slug: str, scope: str | None, part: str) -> Any:
    if scope == "thread":
        apps.check_thread(part)
    where = MemoryScope(owner) if scope is None else MemoryScope(owner, **{scope: part})
    return user_records(owner), find_path(Definition(slug=slug, scope=scope or "global"), where)  # type: ignore[arg-type]


def remember_in_app(owner: str, slug: str, app: str, session: str) -> Any:
    thread = Scope(app, owner, session).thread
    return user_records(owner), find_path(Definition(slug=slug, scope="thread"), MemoryScope(owner, thread=thread))


def tie_thread(thread: str) -> str:
    return apps.thread_tie(apps.check_thread(thread))


def tie_thread_of_app(app: str, session: str) -> str:
    return apps.thread_tie(apps.to_thread(app, session))


def store_for_user(app: str, store: str, user: str) -> Any:
    return user_records(user), f"{store}@app/{app}"


def store_for_session(app: str, store: str, session: str) -> Any:
    return app_records(app), f"{store}@session/{session}"


MAKERS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (converse, (IDS, st.none() | IDS, THREADS)),
    (converse_in_app, (IDS, st.none() | IDS, NAMES, IDS)),
    (remember, (IDS, NAMES, st.sampled_from(["workflow", "thread", "run"]), THREADS)),
    (remember_in_app, (IDS, NAMES, NAMES, IDS)),
    (store_for_user, (NAMES, NAMES, IDS)),
    (store_for_session, (NAMES, NAMES, IDS)),
    (tie_thread, (THREADS,)),
    (tie_thread_of_app, (NAMES, IDS)),
    (apps.session_tie, (NAMES, IDS)),
    (apps.in_session_tie, (NAMES, IDS)),
    (apps.user_tie, (IDS,)),
    (stores.store_tie, (NAMES, NAMES)),
    (definition_tie, (IDS,)),
    (run_tie, (IDS,)),
]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    make, parts = draw(st.sampled_from(MAKERS))
    return Drawn(make.__name__, make, tuple(draw(part) for part in parts))


def address_of(one: Drawn) -> Any:
    try:
        return one.make(*one.parts)
    except Invalid:
        hypothesis.reject()


@hypothesis.given(st.lists(drawn(), min_size=2, max_size=12, unique_by=lambda one: (one.kind, one.parts)))
@hypothesis.settings(max_examples=examples(1500, 100_000), suppress_health_check=list(hypothesis.HealthCheck))
def test_different_parts_never_share_an_address(some: list[Drawn]) -> None:
    """S0.23, S3.14, S3.22: neither owners, threads, apps and sessions of one dialect nor those of two."""
    addresses: dict[Any, Drawn] = {}
    for one in some:
        address = address_of(one)
        assert address not in addresses, f"{addresses[address]} and {one} share {address}"
        addresses[address] = one


@hypothesis.given(st.lists(IDS, min_size=2, max_size=2), st.lists(IDS, min_size=2, max_size=2))
def test_parts_can_be_told_apart(one: list[str], other: list[str]) -> None:
    first, second = (join_parts(owner=parts[0], thread=parts[1]) for parts in (one, other))
    assert (first == second) == (one == other)


PARTS = st.text(st.sampled_from("ab/-:%_ é2F"), min_size=1, max_size=6).filter(str.strip)


@hypothesis.given(st.lists(st.sampled_from(["/", "-", "and-", "%/", " é:", ":a"]), min_size=1, max_size=3), st.data())
def test_a_template_makes_another_address_of_other_values(separators: list[str], data: st.DataObject) -> None:
    """C17: of any number of parts, with anything between them."""
    count = len(separators) + 1
    text = "".join(f"{{{{metadata.p{number}}}}}{end}" for number, end in enumerate([*separators, ""]))
    one, other = (data.draw(st.lists(PARTS, min_size=count, max_size=count)) for _ in range(2))
    first, second = (
        Values({"metadata": {f"p{number}": part for number, part in enumerate(parts)}}, NOW, UTC)
        for parts in (one, other)
    )
    same = first.render_address(text, "key") == second.render_address(text, "key")
    assert same == (one == other)


@pytest.mark.parametrize("thread", ["owner=a/thread=b", "owner=", "app=shop/session=s1"])
def test_a_thread_cannot_have_the_name_of_a_conversation_of_somebody(thread: str) -> None:
    with pytest.raises(Invalid, match="kept for the conversation of an owner"):
        apps.check_thread(thread)
