"""Running tasks: blocks one after the other, side by side, or under a condition.

Expressions are what the author wrote, evaluated once. What they give, what a user says and what is stored are data.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any

import msgspec
from msgspec.structs import asdict

from ...clock import SECOND
from ...context.expression import resolve
from ...core.dispatch import Call
from ...core.space import Space
from ...errors import Unavailable
from ..events import Live
from ..run import Attempt, Step, Tries, UnderWay, within
from ..steps import Output
from ..store import Begun, StepBody, StepState
from .actions import Acting, Told, act
from .agent import Use
from .document import (
    PROMPT,
    SEND,
    SPEAKING,
    Block,
    Conditional,
    Do,
    Parallel,
    Task,
    TaskDocument,
    input_of,
    mentions,
    said_in,
)
from .history import Conversation, Conversations
from .memory import TaskMemory

SIDE_BY_SIDE = 16
MEMORY = "memory"
"""What expressions that see what is remembered have in them: `$context.memory`."""
SPAN = 1000
"""How far apart the numbers of tasks are: the calls of tools are between them."""


class Done:
    """What tasks have given so far: `$output`, the last of it as text, what was said and sent, and what is remembered by now."""

    def __init__(self, before: Done | None = None) -> None:
        self.values: dict[str, Any] = {} if before is None else dict(before.values)
        self.known: dict[str, Any] = {} if before is None else dict(before.known)
        self.last: str = "" if before is None else before.last
        self.said: str | None = None if before is None else before.said
        self.sent: str | None = None if before is None else before.sent

    def remember(self, values: Mapping[str, Any]) -> None:
        self.known |= values

    def take(self, other: Done, before: Done) -> None:
        """Take over what has come of a branch that began with what was before."""
        self.values |= other.values
        self.known |= {slug: value for slug, value in other.known.items() if before.known.get(slug) != value}
        self.last = other.last
        self.said = self.said if other.said is before.said else other.said
        self.sent = self.sent if other.sent is before.sent else other.sent


class TaskRun(UnderWay):
    """A run of tasks."""

    def __init__(
        self, call: Call, document: TaskDocument, begun: Begun, live: Live, banks: Mapping[str, str], run_id: str
    ) -> None:
        super().__init__(call, document.name, begun, live, run_id)
        self._document = document
        self._input = input_of(begun.asked.input, begun.asked.inputs)
        self._remembered = TaskMemory(self._memory, list(document.memories.values()))
        self._conversations = Conversations(self._memory, document.name, banks)
        self._found: dict[Any, Conversation] = {}
        self._context: dict[str, Any] = {}
        self._left_behind: list[Future[None]] = []
        self._withheld: dict[str, str] = {}
        self._untold = mentions(document.around, MEMORY)

    def _whole(self) -> str:
        done = Done()
        known = self._remembered.known()
        self._withheld = known.withheld
        done.remember(known.values)
        self._context = self._resolve(dict(self._document.context), self.scope(done))
        self._hear(done)
        try:
            self._blocks(self._document.flow, done)
        finally:
            while self._left_behind:  # they may leave others behind
                wait([self._left_behind.pop()])
        return self._outcome(done)

    def _outcome(self, done: Done) -> str:
        """What the outputs say; else what was sent; else what the last task gave. What a model said is a part of the
        conversation, if nothing was sent."""
        if done.sent is None and done.said is not None:
            self._speak(done.said, "output")
        if self._document.outputs is not None:
            return msgspec.json.encode(self._resolve(self._document.outputs, self.scope(done))).decode()
        return done.last if done.sent is None else done.sent

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _blocks(self, blocks: Sequence[Block], done: Done) -> None:
        for block in blocks:
            match block:
                case Do():
                    self._do(block, done)
                case Parallel():
                    self._side_by_side(block, done)
                case Conditional():
                    self._chosen(block, done)

    def _do(self, do: Do, done: Done) -> None:
        attempt = _TaskAttempt(self, do, done)
        output = self._perform(Step(do.id, do.task.action, do.path, do.number * SPAN), attempt)
        done.values[do.task.name], done.last = attempt.value, output.text
        if do.task.action == SEND:
            done.sent = output.text
        elif do.task.action in SPEAKING:
            done.said = output.text

    def _chosen(self, block: Conditional, done: Done) -> None:
        """The first branch whose condition holds. Conditions behind it are not looked at."""
        for branch in block.branches:
            if branch.condition is None or _holds(self._resolve(branch.condition, self.scope(done))):
                self._blocks(branch.blocks, done)
                return

    def _side_by_side(self, block: Parallel, done: Done) -> None:
        """Each on what was there before. None sees the others until all are done, or the first is, if that is enough."""
        before = Done(done)
        branches = [Done(done) for _ in block.blocks]
        pool = ThreadPoolExecutor(min(len(branches), SIDE_BY_SIDE), thread_name_prefix="memwell-step")
        futures = [pool.submit(self._blocks, (one,), mine) for one, mine in zip(block.blocks, branches, strict=True)]
        pool.shutdown(wait=False)
        if block.first:
            done.take(branches[futures.index(self._first(futures))], before)
            return
        wait(futures)
        for future, mine in zip(futures, branches, strict=True):
            future.result()
            done.take(mine, before)

    def _first(self, futures: Sequence[Future[None]]) -> Future[None]:
        """The first that is done; a failure counts only if all of them fail. The others go on, and the run waits for them."""
        waiting = set(futures)
        while waiting:
            over, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            good = [future for future in over if future.exception() is None]
            if good:
                self._left_behind += waiting
                return good[0]
        futures[0].result()
        raise AssertionError("unreachable")

    # -- what tasks know -------------------------------------------------------------------------------------------------

    def scope(self, done: Done) -> dict[str, Any]:
        """What expressions see."""
        asked = self._begun.asked
        own = {"owner": asked.owner, "thread": asked.thread, "run": self._run_id, "workflow": self._begun.workflow_id}
        context = {
            **self._context,
            **{name: value for name, value in own.items() if value is not None},
            "metadata": asked.metadata,
            "memory": done.known,
        }
        return {"input": self._input, "context": context, "output": done.values}

    def _resolve(self, template: Any, scope: Mapping[str, Any]) -> Any:
        """What an author wrote, evaluated. A tenant's expressions wait for each other, and nobody else does for them."""
        now = self._call.engine.clock.now()
        return resolve(template, scope, lane=self._call.principal.tenant, now=now)

    def attempted(self, do: Do, done: Done, attempt: _TaskAttempt) -> Told:
        """Do a task once. If its time is over, it writes and asks nothing any more, whatever it was about to do."""
        task, over = do.task, Event()
        attempt.warn(self._missed(task, done))
        given = self._resolve(_inputs(task), self.scope(done))
        attempt.given = msgspec.json.encode(given).decode()
        seconds = task.settings.timeout_ms / 1000 or None
        left = max(1.0, self._until - time.monotonic())
        acting = Acting(
            call=self._call,
            reach=self._memory._replace(warn=attempt.warn),
            memory=self._remembered,
            step=do.id,
            message=self._begun.asked.input,
            timeout_s=left if seconds is None else min(seconds, left),
            say=partial(self._say, do.id),
            keep=partial(self._keep_use, do, attempt),
            wrote=done.remember,
            warn=attempt.warn,
            go_on=partial(self._go_on, over),
            history=self._history(task),
        )
        told = within(seconds, lambda: act(task, given, acting), over.set)
        if task.action == SEND:
            self._speak(told.text, f"task/{do.id}")
        return told

    def _missed(self, task: Task, done: Done) -> list[str]:
        """What the expressions of a task do not see, since it is withheld (C24). What those around the tasks do not see is told
        by the first one: they have no place of their own to say it."""
        with self._lock:
            first, self._untold = self._untold, False
        if not first and not mentions(task.inputs, MEMORY):
            return []
        return [told for slug, told in self._withheld.items() if slug not in done.known]

    def _go_on(self, over: Event) -> None:
        if over.is_set() or time.monotonic() > self._until:
            raise Unavailable("The time of the task is over (timeout).")

    def _keep_use(self, do: Do, attempt: _TaskAttempt, use: Use) -> None:
        """Write down what a model had a tool do: it is a step below its task."""
        attempt.uses += 1
        number = do.number * SPAN + min(attempt.uses, SPAN - 1)
        step = Step(f"{do.id}.{attempt.uses}", use.name[:200], f"{do.path}.{attempt.uses}", number, 1, do.id)
        now = self._call.engine.clock.now()
        body = StepBody(
            id=step.id,
            step_type=step.kind,
            path=step.path,
            level=1,
            state="failed" if use.failed else "done",
            input=use.arguments,
            output=use.result,
            started_at=now - round(use.seconds * SECOND),
            ended_at=now,
            error=use.result if use.failed else None,
        )
        self._write_down(step, body, round(use.seconds, 4))

    # -- conversations -------------------------------------------------------------------------------------------------

    def _hear(self, done: Done) -> None:
        """What the run was told is a part of the conversations that it goes on with."""
        scope = self.scope(done)
        for history in self._document.histories:
            found = self._found[history] = self._conversations.find(history, self._resolve(asdict(history), scope))
            self._conversations.record(found, "user", said_in(self._input), "input")

    def _speak(self, text: str, mark: str) -> None:
        """What the run says is one, too."""
        for found in self._found.values():
            self._conversations.record(found, "assistant", text, mark)

    def _history(self, task: Task) -> Any:
        if task.history is None:
            return None
        return partial(self._conversations.messages, self._found[task.history])


class _TaskAttempt(Attempt):
    """A task, on what was done before it."""

    def __init__(self, run: TaskRun, do: Do, done: Done) -> None:
        self._run, self._do, self._done = run, do, done
        retries = do.task.settings.retries
        if retries.enabled:
            pause, longest = retries.backoff_ms / 1000, retries.max_delay_ms / 1000
            self.tries = Tries(retries.max_attempts, pause, retries.multiplier, longest, retries.jitter)
        self.value: Any = None
        self.uses = 0

    def make(self) -> tuple[Output, StepState]:
        told = self._run.attempted(self._do, self._done, self)
        self.value = told.value
        return Output(told.text, told.content_type), "done"

    def touched(self, space: Space) -> Iterable[int]:
        return ()  # what it has read and written was noted then

    def noted(self, output: Output) -> None:
        pass


def _inputs(task: Task) -> dict[str, Any]:
    if task.asks and "prompt" not in task.inputs:
        return {**task.inputs, "prompt": PROMPT}
    return dict(task.inputs)


def _holds(value: Any) -> bool:
    """Whether a condition is true, as JSONata has it: an array is if something in it is, and what is missing never is."""
    return any(map(_holds, value)) if isinstance(value, list) else bool(value)
