"""Runs of tasks: blocks one after the other, in parallel, or under a condition.

Expressions are text of the author, evaluated once. Their results, the input and stored data are never evaluated.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from .. import typed
from ..banks.reading import JSON
from ..clock import SECOND
from ..context.expression import resolve
from ..core.dispatch import Call
from ..errors import Invalid, Unavailable
from ..models.completer import Message
from ..records.working_memory import TOOL
from ..storage.port import TenantStore
from ..text.fence import encode_compact
from ..text.yaml import Path
from .function_call import build_tool, call_function, wants_message
from .model_call import Agent, Answer, Limits, ModelCall, ToolUse
from .run import EventLog, Output, Retries, RunCall, Step, WorkflowRun, run_within
from .run_rows import NewRun, StepBody, StepState
from .source import Problems
from .task_document import (
    INPUTS,
    OBJECTS,
    PROMPT,
    SEND,
    SPEAKING,
    UPDATE,
    AiInputs,
    Block,
    Conditional,
    Do,
    Parallel,
    Task,
    TaskDocument,
    build_input,
    check_input,
    find_missing_definitions,
    mentions,
)
from .task_memory import Conversation, Conversations, TaskMemory

MAX_PARALLEL = 16
MEMORY = "memory"
"""The name in expressions that use memory: `$context.memory`."""
SPAN = 1000
"""Distance between the numbers of tasks; the calls of tools are between them."""
STREAMING = ("ai_agent", "ai_generate_reply")
"""Actions whose answer is streamed."""
MAX_TOKENS = 1024
_TEXTS = ("prompt", "system", "text")


class TaskContext(NamedTuple):
    """Everything that a task needs besides its inputs."""

    call: RunCall
    memory: TaskMemory
    step: str
    message: str
    timeout_s: float
    stream: Callable[[str], None]
    store_use: Callable[[ToolUse], None]
    remember: Callable[[Mapping[str, Any]], None]
    """Called with the new values of memory."""
    check_time: Callable[[], None]
    """Raises when the task was abandoned."""
    history: Callable[[int], list[Message]] | None

    def update_memory(self, memory: Mapping[str, Any], mark: str, **options: Any) -> dict[str, Any]:
        self.check_time()
        values = self.memory.update(memory, mark=f"{self.step}/{mark}", **options)
        self.remember(values)
        return values


class Result(NamedTuple):
    """The result of a task: as text, and as expressions see it."""

    text: str
    value: Any
    content_type: str = "text/plain"


def run_task(task: Task, given: dict[str, Any], context: TaskContext) -> Result:
    """Run a task whose expressions are evaluated."""
    kind = INPUTS.get(task.action)
    if kind is None:
        function = context.call.engine.function(task.action)
        message = context.message if wants_message(function, given) else None
        text, content_type = call_function(function, task.action, message, given, context.call)
        return Result(text, msgspec.json.decode(text) if content_type == JSON else text, content_type)
    texts = {name: _to_text(given[name]) for name in _TEXTS if name in given}
    try:
        inputs: Any = typed.convert({**given, **texts}, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"The inputs do not fit: {error}.") from None
    if task.action == SEND:
        return Result(inputs.text, {"text": inputs.text})
    if task.action == UPDATE:
        memory = context.update_memory(inputs.memory, "task", mode=inputs.mode) if inputs.memory else {}
        return Result(encode_compact({"memory": memory}), {"memory": memory}, JSON)
    return _ask_model(task, inputs, context)


def _ask_model(task: Task, inputs: AiInputs, context: TaskContext) -> Result:
    memory = context.memory.show(task.memory)
    context.call.warn(memory.warnings)
    engine, model, settings = context.call.engine, task.model, task.settings
    functions = {one.name: build_tool(one, engine.function(one.action)) for one in task.tools}

    def call_tool(name: str, arguments: Mapping[str, Any], number: int) -> str:
        context.check_time()
        if name != TOOL:
            return functions[name].call(arguments, context.call)
        values = arguments.get("memory")
        if not isinstance(values, Mapping) or len(arguments) != 1:
            raise Invalid(f'`{TOOL}` takes one object: {{"memory": {{"<slug>": {{…}}}}}}.')
        digest = hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()
        return encode_compact({"memory": context.update_memory(values, f"{number}/{digest}", bound=task.memory)})

    tools = [*([] if memory.tool is None else [memory.tool]), *(one.to_tool() for one in functions.values())]
    temperature = settings.temperature  # the task's settings take precedence over its model's
    if temperature is None and model is not None:
        temperature = model.settings.temperature
    max_tokens = settings.max_tokens or (None if model is None else model.settings.max_tokens) or MAX_TOKENS
    model_call = ModelCall(
        engine,
        TenantStore(engine.store, context.call.principal.tenant),
        context.timeout_s,
        context.stream if task.action in STREAMING else None,
        engine.model(model.settings.provider, model.settings.model_id) if model is not None else engine.completer,
        context.check_time,
    )
    agent = Agent(model_call, tools, Limits(settings.max_steps, max_tokens, temperature), call_tool, context.store_use)
    history = None if context.history is None else context.history(inputs.messages_limit)
    if not history and not inputs.prompt.strip():
        raise Invalid("There is nothing to answer: give `prompt`, or run the workflow with an input that has `text`.")
    messages = [
        Message("system", "\n\n".join(part for part in (inputs.system, memory.prompt) if part)),
        *(history or [Message("user", inputs.prompt)]),
    ]
    if task.action in OBJECTS:
        value, answer = agent.ask_json(messages, settings.output_schema or {})
        return Result(encode_compact(value), {"object": value, **_to_value(answer)}, JSON)
    answer = agent.ask(messages)
    if tools and task.action in STREAMING and answer.text:
        context.stream(answer.text)
    return Result(answer.text, _to_value(answer))


def _to_value(answer: Answer) -> dict[str, Any]:
    uses = [{"name": use.name, "arguments": use.arguments, "result": use.result} for use in answer.uses]
    return {"text": answer.text, "tool_calls": uses}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_compact(value)


def check_run(call: Call, document: TaskDocument, given: Mapping[str, Any]) -> None:
    """Raise an error with all problems that prevent a run: definitions, functions, models and the input."""
    problems, engine = Problems(), call.engine

    def check(path: Path, work: Callable[[], object]) -> None:
        try:
            work()
        except Invalid as error:
            problems.add(path, error.message)

    problems.extend(call.read(lambda space: list(find_missing_definitions(space, document))))
    for task in {do.task.name: do.task for do in document.walk()}.values():
        if task.action not in INPUTS:
            check((*task.at, "action"), partial(engine.function, task.action))
        for tool in task.tools:
            check((*tool.at, "action"), lambda tool=tool: build_tool(tool, engine.function(tool.action)))  # type: ignore[misc]
        if task.model is not None and task.asks:
            check(task.model.at, partial(engine.require_provider, task.model.settings.provider))
    problems.refuse()
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
            text = self._input.get("text")
            self.conversations.record(conversation, "user", text if isinstance(text, str) else "", "input")
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
