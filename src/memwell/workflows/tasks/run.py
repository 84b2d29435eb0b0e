"""Runs of tasks: blocks one after the other, in parallel, or under a condition.

Expressions are text of the author, evaluated once. Their results, the input and stored data are never evaluated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ...errors import Invalid, Unavailable
from ...records.definitions import find_definition
from ...text.yaml import Path
from ..run import EventLog, Output, Retries, Step, WorkflowRun, run_within
from ..source import Problems, refuse
from ..store import NewRun, StepBody, StepState
from .actions import Result, TaskContext, ToolUse, build_tool, run_task
from .document import (
    INPUTS,
    PROMPT,
    SEND,
    SPEAKING,
    Block,
    Conditional,
    Do,
    Parallel,
    TaskDocument,
    build_input,
    check_input,
    find_text,
    mentions,
)
from .memory import Conversation, Conversations, TaskMemory

MAX_PARALLEL = 16
MEMORY = "memory"
"""The name in expressions that use memory: `$context.memory`."""
SPAN = 1000
"""Distance between the numbers of tasks; the calls of tools are between them."""


def find_missing_definitions(space: Space, document: TaskDocument) -> Iterator[tuple[Path, str]]:
    """The memory definitions that do not exist in this tenant (S3.28, B3.4)."""
    for memory in document.memories.values():
        if find_definition(space, memory.definition) is None:
            yield memory.at, f"Unable to find memory definition(s): {memory.definition[:100]}."


def check_run(call: Call, document: TaskDocument, given: Mapping[str, Any]) -> None:
    """Raise an error with all problems that prevent a run: definitions, functions, models and the input."""
    problems, engine = Problems(), call.engine

    def check(path: Path, work: Callable[[], object]) -> None:
        try:
            work()
        except Invalid as error:
            problems.add(path, error.message)

    for path, reason in call.read(lambda space: list(find_missing_definitions(space, document))):
        problems.add(path, reason)
    for task in {do.task.name: do.task for do in document.walk()}.values():
        if task.action not in INPUTS:
            check((*task.at, "action"), partial(engine.function, task.action))
        for tool in task.tools:
            check((*tool.at, "action"), lambda tool=tool: build_tool(tool, engine.function(tool.action)))  # type: ignore[misc]
        if task.model is not None and task.asks:
            check(task.model.at, partial(engine.require_provider, task.model.provider))
    refuse(problems.found)
    check_input(document.schema, given)


class State:
    """The state of a run that expressions see: `$output` and memory; and the last texts of the run."""

    def __init__(self, before: State | None = None) -> None:
        self.outputs: dict[str, Any] = {} if before is None else dict(before.outputs)
        self.memory: dict[str, Any] = {} if before is None else dict(before.memory)
        self.last: str = "" if before is None else before.last
        self.answer: str | None = None if before is None else before.answer
        """The last answer of a model."""
        self.sent: str | None = None if before is None else before.sent
        """The last text message."""

    def merge(self, branch: State, before: State) -> None:
        """Take over the changes of a branch that began with the state before."""
        self.outputs |= branch.outputs
        self.memory |= {slug: value for slug, value in branch.memory.items() if before.memory.get(slug) != value}
        self.last = branch.last
        self.answer = self.answer if branch.answer is before.answer else branch.answer
        self.sent = self.sent if branch.sent is before.sent else branch.sent


class TaskRun(WorkflowRun):
    def __init__(
        self, call: Call, document: TaskDocument, new: NewRun, events: EventLog, banks: Mapping[str, str], run_id: str
    ) -> None:
        super().__init__(call, document.name, new, events, run_id)
        self.memory = TaskMemory(self.call, list(document.memories.values()))
        self.conversations = Conversations(self.call, document.name, banks)
        self.found: dict[Any, Conversation] = {}
        self._document = document
        self._input = build_input(new.given.input, new.given.inputs)
        self._context: dict[str, Any] = {}
        self._unfinished: list[Future[None]] = []
        self._withheld: dict[str, str] = {}
        self._warn_next = mentions(document.around, MEMORY)

    def _run_steps(self) -> str:
        state = State()
        memory = self.memory.load()
        self._withheld = memory.withheld
        state.memory |= memory.values
        self._context = self.resolve(dict(self._document.context), state)
        for history in self._document.histories:
            conversation = self.conversations.find(history, self.resolve(asdict(history), state))
            self.found[history] = conversation
            self.conversations.record(conversation, "user", find_text(self._input), "input")
        try:
            self._run_blocks(self._document.flow, state)
        finally:
            while self._unfinished:  # they may leave others behind
                wait([self._unfinished.pop()])
        if state.sent is None and state.answer is not None:
            self.speak(state.answer, "output")
        if self._document.outputs is not None:
            return msgspec.json.encode(self.resolve(self._document.outputs, state)).decode()
        return state.last if state.sent is None else state.sent

    def _run_blocks(self, blocks: Sequence[Block], state: State) -> None:
        for block in blocks:
            match block:
                case Do():
                    step = TaskStep(self, block, state)
                    output = self._perform(step)
                    state.outputs[block.task.name], state.last = step.value, output.text
                    if block.task.action == SEND:
                        state.sent = output.text
                    elif block.task.action in SPEAKING:
                        state.answer = output.text
                case Parallel():
                    self._run_parallel(block, state)
                case Conditional():
                    for branch in block.branches:  # the first whose condition is true
                        if branch.condition is None or _is_true(self.resolve(branch.condition, state)):
                            self._run_blocks(branch.blocks, state)
                            break

    def _run_parallel(self, block: Parallel, state: State) -> None:
        """Run each branch on the state before. None sees the others until all are done, or the first if that is enough."""
        before = State(state)
        states = [State(state) for _ in block.blocks]
        pool = ThreadPoolExecutor(min(len(states), MAX_PARALLEL), thread_name_prefix="memwell-step")
        futures = [pool.submit(self._run_blocks, (one,), own) for one, own in zip(block.blocks, states, strict=True)]
        pool.shutdown(wait=False)
        if block.first:
            state.merge(states[futures.index(self._wait_for_first(futures))], before)
            return
        wait(futures)
        for future, own in zip(futures, states, strict=True):
            future.result()
            state.merge(own, before)

    def _wait_for_first(self, futures: Sequence[Future[None]]) -> Future[None]:
        """The first that is done; a failure counts only if all fail. The run waits for the others at its end."""
        waiting = set(futures)
        while waiting:
            over, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            good = [future for future in over if future.exception() is None]
            if good:
                self._unfinished += waiting
                return good[0]
        futures[0].result()
        raise AssertionError("unreachable")

    def resolve(self, template: Any, state: State) -> Any:
        """Evaluate the expressions in a template. Expressions of one tenant wait for each other, not for other tenants'."""
        given = self.new.given
        own = {"owner": given.owner, "thread": given.thread, "run": self.run_id, "workflow": self.new.workflow_id}
        context = {
            **self._context,
            **{name: value for name, value in own.items() if value is not None},
            "metadata": given.metadata,
            "memory": state.memory,
        }
        scope = {"input": self._input, "context": context, "output": state.outputs}
        return resolve(template, scope, lane=self.call.principal.tenant, now=self.call.engine.clock.now())

    def list_withheld(self, inputs: Mapping[str, Any], state: State) -> list[str]:
        """Warnings about memory that the expressions of a task do not see (C24).

        The first task also reports those of expressions around the tasks, which have no step of their own.
        """
        with self.lock:
            first, self._warn_next = self._warn_next, False
        if not first and not mentions(inputs, MEMORY):
            return []
        return [warning for slug, warning in self._withheld.items() if slug not in state.memory]

    def store_tool_use(self, step: TaskStep, use: ToolUse) -> None:
        """Store a call of a tool as a step below its task."""
        step.uses += 1
        number = step.number + min(step.uses, SPAN - 1)
        below = Step(f"{step.id}.{step.uses}", use.name[:200], f"{step.path}.{step.uses}", number, 1, step.id)
        now = self.call.engine.clock.now()
        body = StepBody(
            id=below.id,
            step_type=below.kind,
            path=below.path,
            level=1,
            state="failed" if use.failed else "done",
            input=use.arguments,
            output=use.result,
            started_at=now - round(use.seconds * SECOND),
            ended_at=now,
            error=use.result if use.failed else None,
        )
        self._store_step(below, body, round(use.seconds, 4))

    def speak(self, text: str, mark: str) -> None:
        """Record an answer in the conversations of the run."""
        for conversation in self.found.values():
            self.conversations.record(conversation, "assistant", text, mark)


class TaskStep(Step):
    """A task on the state before it. The addresses that it reads are noted when it reads them."""

    def __init__(self, run: TaskRun, do: Do, state: State) -> None:
        super().__init__(do.id, do.task.action, do.path, do.number * SPAN)
        self._run, self._task, self._state = run, do.task, state
        retries = do.task.settings.retries
        if retries.enabled:
            pause, max_pause = retries.backoff_ms / 1000, retries.max_delay_ms / 1000
            self.retries = Retries(retries.max_attempts, pause, retries.multiplier, max_pause, retries.jitter)
        self.value: Any = None
        self.uses = 0

    def execute(self) -> tuple[Output, StepState]:
        run, task, abandoned = self._run, self._task, Event()

        def check_time() -> None:
            """So that an abandoned task does not write or ask any more."""
            if abandoned.is_set() or time.monotonic() > run.deadline:
                raise Unavailable("The time of the task is over (timeout).")

        self.warn(run.list_withheld(task.inputs, self._state))
        template = {**task.inputs, "prompt": PROMPT} if task.asks and "prompt" not in task.inputs else task.inputs
        inputs = run.resolve(dict(template), self._state)
        self.input = msgspec.json.encode(inputs).decode()
        seconds = task.settings.timeout_ms / 1000 or None
        left = max(1.0, run.deadline - time.monotonic())
        history = None
        if task.history is not None:
            history = partial(run.conversations.list_messages, run.found[task.history])
        context = TaskContext(
            call=run.call.with_warn(self.warn),
            memory=run.memory,
            step=self.id,
            message=run.new.given.input,
            timeout_s=left if seconds is None else min(seconds, left),
            stream=partial(run.stream, self.id),
            store_use=partial(run.store_tool_use, self),
            remember=self._state.memory.update,
            check_time=check_time,
            history=history,
        )
        result: Result = run_within(seconds, lambda: run_task(task, inputs, context), abandoned.set)
        if task.action == SEND:
            run.speak(result.text, f"task/{self.id}")
        self.value = result.value
        return Output(result.text, result.content_type), "done"


def _is_true(value: Any) -> bool:
    """The truth of a condition in JSONata: that of an array is the truth of any of its items."""
    return any(map(_is_true, value)) if isinstance(value, list) else bool(value)
