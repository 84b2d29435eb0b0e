"""Search with the default sentence model in a scope of 1,000 facts, compared with the light model; embedding in the background.

The light model's search in the same scope is what a search takes without a sentence model.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

from memwell import Memory

from .sizes import Sizes
from .table import Row, at_most, duration, verdict

FACTS, QUERIES, APPENDS, TURNS = 1000, 60, 200, 10_000
QUERY_LIMIT_S, WITHOUT_MODEL_S, APPEND_LIMIT, IDLE_S = 0.012, 0.0012, 1.2, 360.0
MEANWHILE = 3
"""Blocks of appends while turns are embedded."""
_THINGS = (
    "order parcel refund invoice bicycle garden piano doctor ticket flight hotel dinner coffee shoes laptop printer battery "
    "meeting contract paint window kitchen school teacher train museum"
)
_PEOPLE = "Alice Bob Carmen Deepak Erika Frank"


def rows(folder: Path, _: Sizes) -> list[Row]:
    times: dict[str, list[float]] = {}
    appends: dict[str, float] = {}
    for model in ("wordllama", "minilm"):
        with _use(model), Memory(folder / model, worker=False) as memory:
            times[model] = _search(memory)
            appends[model] = _append(memory)
    asked, again = (median(times["minilm"][half::2]) for half in (0, 1))
    light = median(times["wordllama"])
    with _use("minilm"):
        background = _embed_turns(folder / "turns")
    return [
        Row("query of words not asked before", duration(asked), duration(light), f"{asked / light:.2f} x", "<= 12 ms",
            verdict(asked <= QUERY_LIMIT_S)),
        Row("... all but the model", duration(again), duration(light), f"{again / light:.2f} x", "<= 1.2 ms",
            verdict(again <= WITHOUT_MODEL_S)),
        at_most("append with the sentence model", duration(appends["minilm"]), duration(appends["wordllama"]),
                appends["minilm"] / appends["wordllama"], APPEND_LIMIT),
        *background,
    ]  # fmt: skip


@contextmanager
def _use(model: str) -> Iterator[None]:
    before = os.environ["MEMWELL_EMBEDDER"]
    os.environ["MEMWELL_EMBEDDER"] = model
    try:
        yield
    finally:
        os.environ["MEMWELL_EMBEDDER"] = before


def _search(memory: Memory) -> list[float]:
    """Return the processor times of searches: of each query when it is new, and when its vector is cached."""
    chance, people, things = random.Random(1), _PEOPLE.split(), _THINGS.split()
    flow = memory.flow("facts")
    for number in range(0, FACTS, 100):
        flow.import_lines([
            {"type": "memory", "content": f"{chance.choice(people)} needs the {chance.choice(things)} near the "
             f"{chance.choice(things)} and the {chance.choice(things)} {number + one}."} for one in range(100)
        ])  # fmt: skip
        flow.search("what does she need")  # embeds them
    found = []
    for number in range(QUERIES):
        query = f"where is {chance.choice(people)}'s {chance.choice(things)} {chance.choice(things)} {number}"
        for _ in range(2):
            started = process_time()
            flow.search(query)
            found.append(process_time() - started)
    return found


def _append(memory: Memory) -> float:
    session, found = memory.flow("facts").session("s"), []
    for number in range(APPENDS):
        started = perf_counter()
        session.history.append(role="user", content=f"The parcel {number} is late.")
        found.append(perf_counter() - started)
    return median(found)


def _embed_turns(home: Path) -> list[Row]:
    """Embed a store of short turns in the background, while somebody appends."""
    chance, things, at = random.Random(2), _THINGS.split(), datetime(2026, 1, 1, tzinfo=UTC)
    with Memory(home, worker=False) as memory:
        quiet = _append(memory)
        for number in range(0, TURNS, 500):
            memory.flow("f").session(str(number)).history.extend([
                {"role": "user", "content": f"I left the {chance.choice(things)} at the {chance.choice(things)} on day {one}.",
                 "occurred_at": at + timedelta(minutes=number + one)} for one in range(500)
            ])  # fmt: skip
    started = perf_counter()
    beside: list[float] = []
    with Memory(home) as memory:
        memory.flow("f").search("museum", include=["turns"])
        while perf_counter() - started < IDLE_S:
            if len(beside) < MEANWHILE:
                beside.append(_append(memory))
            jobs = memory.call("jobs.list", {"kind": "embed"})
            if all(job.state == "done" for job in jobs.jobs):
                break
            sleep(0.5)
        took = perf_counter() - started
    return [
        Row(f"{TURNS:,} turns embedded", duration(took), "-", "-", "<= 360 s", verdict(took < IDLE_S)),
        at_most("append meanwhile", duration(median(beside)), duration(quiet), median(beside) / quiet, APPEND_LIMIT),
    ]
