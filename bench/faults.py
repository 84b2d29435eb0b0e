"""A model that fails in every way: the waiting time of concurrent requests, and the duration of each job or run.

Jobs (or runs of a workflow) with a model that answers and with one that fails alternate; while one runs, other
requests append and search in the same memory. The server is a separate process, as models are.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple

from tests.scripted import ChatRequest, Fault, ScriptedServer, StreamFault

from memwell import Memory

from . import corpus
from .measure import median_ratio
from .sizes import QUICK, Sizes
from .table import Row, at_most, duration, verdict

AnyFault = Fault | StreamFault
MODES: tuple[AnyFault, ...] = (
    Fault.HANG,
    Fault.DRIP,
    Fault.ERROR,
    Fault.BUSY,
    Fault.RESET,
    Fault.CUT_JSON,
    Fault.WRONG_SCHEMA,
    Fault.HUGE,
    Fault.NAN,
    Fault.DEEP,
    Fault.REFUSAL,
    Fault.WRONG_IDS,
    Fault.DUPLICATES,
)
STREAMED: tuple[AnyFault, ...] = (
    Fault.HANG,
    Fault.DRIP,
    Fault.ERROR,
    Fault.RESET,
    Fault.HUGE,
    Fault.GARBAGE,
    *StreamFault,
)
JOBS, FEW_JOBS = 20, 3
CALL_S = 1.0
LIMIT_S = 4 * CALL_S + 1
"""Time limit of all calls for a session, plus a second."""
RUN_LIMIT_S = CALL_S + 1
"""Time limit of the one call of a run, plus a second."""
SLOWER = 1.5
FEWEST, MOST = 20, 200
"""Requests during one job."""
KNOWN = 2000
CHATBOT = {
    "name": "chatbot",
    "memory_banks": {"chats": {"type": "conversation"}},
    "steps": [
        {"step_type": "add_memory", "memory_bank_id": "chats", "key": "{{metadata.user_id}}", "speaker": "user"},
        {
            "step_type": "prompt_call",
            "use_step_input_as_messages": True,
            "steps": [
                {"step_type": "streaming_result"},
                {
                    "step_type": "add_memory",
                    "memory_bank_id": "chats",
                    "key": "{{metadata.user_id}}",
                    "speaker": "assistant",
                },
            ],
        },
    ],
}


class Beside(NamedTuple):
    """The time of a job or run, and the median of the requests during it."""

    job_s: float
    request_s: float


Pair = tuple[list[Beside], list[Beside]]


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    jobs = FEW_JOBS if sizes is QUICK else JOBS
    with _server() as server, _asking(folder / "store", server) as memory:
        _fill(memory)
        _beside_job(memory, "warm")
        by_job = {fault: _alternated(memory, server, fault, jobs, _beside_job) for fault in MODES}
        _beside_run(memory, "warm")
        by_run = {fault: _alternated(memory, server, fault, jobs, _beside_run) for fault in STREAMED}
    return [*_rows("jobs", by_job, LIMIT_S), *_rows("runs", by_run, RUN_LIMIT_S)]


def _rows(what: str, measured: Mapping[AnyFault, Pair], limit_s: float) -> list[Row]:
    worst = max(measured, key=lambda fault: _ratio(*measured[fault]))
    good = [one for quiet, _ in measured.values() for one in quiet]
    bad = [one for _, faulty in measured.values() for one in faulty]
    slowest = max(one.job_s for one in bad)
    title = f"{len(bad)} {what} with a model that fails in {len(measured)} ways"
    return [
        Row(title, f"slowest {duration(slowest)}", target=f"<= {limit_s:g} s", verdict=verdict(slowest <= limit_s)),
        at_most("  others' requests meanwhile", *_medians(good, bad), _ratio(good, bad), SLOWER),
        at_most(f"  at worst ({worst.value})", *_medians(*measured[worst]), _ratio(*measured[worst]), SLOWER),
    ]


def _medians(good: list[Beside], bad: list[Beside]) -> tuple[str, str]:
    return duration(median(one.request_s for one in bad)), duration(median(one.request_s for one in good))


def _ratio(good: list[Beside], bad: list[Beside]) -> float:
    return median_ratio([one.request_s for one in bad], [one.request_s for one in good])


def _alternated(
    memory: Memory, server: Connection, fault: AnyFault, jobs: int, beside: Callable[[Memory, str], Beside]
) -> Pair:
    good: list[Beside] = []
    bad: list[Beside] = []
    for number in range(jobs):
        for kept, wanted in ((good, None), (bad, fault)):
            server.send(wanted)
            server.recv()
            kept.append(beside(memory, f"{fault.value}-{wanted is None}-{number}"))
    return good, bad


def _beside_job(memory: Memory, session: str) -> Beside:
    place = memory.flow("support").session(session)
    place.history.append(role="user", name="Alice", content=f"I live in Lisbon, in house {session}. I have two cats.")
    job = place.end().job
    assert job is not None
    took: list[float] = []
    while (state := memory.jobs.show(job).state) in ("ready", "running") or len(took) < FEWEST:
        if len(took) < MOST:
            took += _requests(memory, len(took))
        else:
            sleep(0.005)
    found = memory.jobs.show(job)
    assert found.finished_at is not None, found.error
    assert state == "done", found.error
    return Beside((found.finished_at - found.created_at).total_seconds(), median(took))


def _beside_run(memory: Memory, name: str) -> Beside:
    """Measure a run of the chatbot in the same way. It may succeed or fail; the user message is stored in both cases."""
    asked = {"document": CHATBOT, "input": "Hello", "metadata": {"user_id": name}, "wait": False}
    run = memory.call("runs.begin_document", asked)
    took: list[float] = []
    while (found := memory.workflows.show(run.id)).status == "running" or len(took) < FEWEST:
        if len(took) < MOST:
            took += _requests(memory, len(took))
        else:
            sleep(0.005)
    assert found.ended_at is not None, found.error
    assert found.steps[0].status == "done", found.error
    return Beside((found.ended_at - found.started_at).total_seconds(), median(took))


def _requests(memory: Memory, number: int) -> list[float]:
    """Append and search. Return the sum, because both have different costs."""
    place = memory.flow("others")
    started = perf_counter()
    place.session("talk").history.append(role="user", content=f"Nice weather today, number {number}.")
    place.search("Who has a red car?")
    return [perf_counter() - started]


def _fill(memory: Memory) -> None:
    lines = [{"type": "memory", "content": fact.content} for fact in corpus.facts(KNOWN)]
    memory.flow("others").import_lines(lines)
    memory.flow("others").search("warm")


@contextmanager
def _asking(home: Path, server: Connection) -> Iterator[Memory]:
    os.environ["MEMWELL_LLM"] = f"openai:scripted@{server.recv()}?timeout_s={CALL_S}"
    try:
        with Memory(home, worker=True) as memory:
            yield memory
    finally:
        del os.environ["MEMWELL_LLM"]


@contextmanager
def _server() -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(10)
        process.kill()


def _serve(parent: Connection) -> None:
    """Answer as the parent requests, until the parent ends."""
    with ScriptedServer(_answer, drip_s=0.2) as server:
        parent.send(server.url)
        try:
            while True:
                server.fault = parent.recv()
                parent.send(None)
        except EOFError:
            return


def _answer(request: ChatRequest) -> dict[str, Any]:
    evidence = [{"turn": "t1", "quote": "I have two cats"}]
    made = {
        "text": "Alice has two cats.",
        "subject": "Alice",
        "kind": "possession",
        "importance": 0.5,
        "confidence": 0.9,
    }
    return {"facts": [made | {"evidence": evidence}]}
