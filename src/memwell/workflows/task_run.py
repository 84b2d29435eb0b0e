"""Runs of tasks: blocks one after the other, in parallel, or under a condition.

Only expressions of the document's author are evaluated, and only once. Their results, the input and stored data never are.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any

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
from ..text.fence import encode_compact
from ..text.yaml import Path
from .function_call import build_tool, call_function
from .model_call import Agent, ModelCall, ToolUse
from .run import EventLog, Output, Retries, Step, WorkflowRun, run_within
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
    ModelSettings,
    Parallel,
    TaskDocument,
    build_input,
    check_input,
    find_missing_definitions,
    mentions,
)
from .task_memory import Conversation, Conversations, TaskMemory

MEMORY = "memory"
"""The name in expressions that use memory: `$context.memory`."""
SPAN = 1000
"""Distance between the numbers of tasks, which leaves numbers for their tool calls."""
STREAMING = ("ai_agent", "ai_generate_reply")
"""Actions whose answer is streamed."""
MAX_TOKENS = 1024


def check_run(call: Call, document: TaskDocument, given: Mapping[str, Any]) -> None:
    """Raise an error with all problems that prevent a run, in definitions, functions, models and the input."""
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


@dataclass
class State:
    """The state of a run that expressions see: `$output` and memory; and the last texts of the run."""

    outputs: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    last: str = ""
    answer: str | None = None
    """The last answer of a model."""
    sent: str | None = None
    """The last text message."""

    def copy(self) -> State:
        return replace(self, outputs=dict(self.outputs), memory=dict(self.memory))

    def merge(self, branch: State, before: State) -> None:
        """Take over the changes that a branch has made to the state `before`."""
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
        values, self._withheld = self.memory.load()
        state = State(memory=values)
        self._context = self.resolve(dict(self._document.context), state)
        for history in self._document.histories:
            conversation = self.conversations.find(history, self.resolve(asdict(history), state))
            self.found[history] = conversation
            text = self._input.get("text")
            self.conversations.record(conversation, "user", text if isinstance(text, str) else "", "input")
        try:
            self._run_blocks(self._document.flow, state)
        finally:
            while self._unfinished:  # a branch may add others
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
                    output = self._perform(TaskStep(self, block, state))
                    state.outputs[block.task.name], state.last = output.value, output.text
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
        """Run each branch on its own copy of the state. Merge all copies at the end, or only that of the first to succeed."""
        before = state.copy()
        states = [state.copy() for _ in block.blocks]
        works = [partial(self._run_blocks, (one,), own) for one, own in zip(block.blocks, states, strict=True)]
        futures = self._start_all(works)
        if block.first:
            state.merge(states[futures.index(self._wait_for_first(futures))], before)
            return
        wait(futures)
        for future, own in zip(futures, states, strict=True):
            future.result()
            state.merge(own, before)

    def _wait_for_first(self, futures: Sequence[Future[None]]) -> Future[None]:
        """Return the first branch that succeeds; raise only if all fail. The run waits for the others at its end."""
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
        """Evaluate the expressions in a template. Each tenant has its own lane, so that no tenant waits for another."""
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
        """Return warnings about memory that is withheld from the expressions of a task (C24).

        The first task also reports those for expressions outside the tasks, which have no step of their own.
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
    """A step that performs a task. The addresses that it reads are noted when it reads them."""

    def __init__(self, run: TaskRun, do: Do, state: State) -> None:
        super().__init__(do.id, do.task.action, do.path, do.number * SPAN)
        self.run, self.task, self.state = run, do.task, state
        retries = do.task.settings.retries
        if retries.enabled:
            pause, max_pause = retries.backoff_ms / 1000, retries.max_delay_ms / 1000
            self.retries = Retries(retries.max_attempts, pause, retries.multiplier, max_pause, retries.jitter)
        self.uses = 0

    def execute(self) -> tuple[Output, StepState]:
        run, task = self.run, self.task
        self.warn(run.list_withheld(task.inputs, self.state))
        template = {**task.inputs, "prompt": PROMPT} if task.asks and "prompt" not in task.inputs else task.inputs
        inputs = run.resolve(dict(template), self.state)
        self.input = msgspec.json.encode(inputs).decode()
        seconds = task.settings.timeout_ms / 1000 or None
        attempt = TaskAttempt(self, inputs, run.limit_time(seconds))
        output = run_within(seconds, attempt.run_action, attempt.abandoned.set)
        if task.action == SEND:
            run.speak(output.text, f"task/{self.id}")
        return output, "done"


class TaskAttempt:
    """One attempt at a task whose expressions are evaluated."""

    def __init__(self, step: TaskStep, inputs: dict[str, Any], timeout_s: float) -> None:
        self._step, self._run, self._task = step, step.run, step.task
        self._inputs, self._timeout_s = inputs, timeout_s
        self._call = step.run.call.with_warn(step.warn)
        self.abandoned = Event()

    def run_action(self) -> Output:
        action, inputs = self._task.action, self._inputs
        kind = INPUTS.get(action)
        if kind is None:
            output = call_function(self._call, action, inputs, self._run.new.given.input, only_if_required=True)
            return output._replace(
                value=msgspec.json.decode(output.text) if output.content_type == JSON else output.text
            )
        texts = {name: _to_text(inputs[name]) for name in ("prompt", "system", "text") if name in inputs}
        try:
            converted: Any = typed.convert(inputs | texts, kind)
        except msgspec.ValidationError as error:
            raise Invalid(f"The inputs do not fit: {error}.") from None
        if action == SEND:
            return Output(converted.text, value={"text": converted.text})
        if action == UPDATE:
            new = converted.memory
            memory: dict[str, Any] = {"memory": self._update_memory(new, "task", mode=converted.mode) if new else {}}
            return Output(encode_compact(memory), JSON, value=memory)
        return self._ask_model(converted)

    def _ask_model(self, inputs: AiInputs) -> Output:
        run, step, task, engine = self._run, self._step, self._task, self._call.engine
        settings, model = task.settings, ModelSettings() if task.model is None else task.model.settings
        memory = run.memory.show(task.memory)
        self._call.warn(memory.warnings)
        functions = {one.name: build_tool(one, engine.function(one.action)) for one in task.tools}

        def call_tool(name: str, arguments: Mapping[str, Any], number: int) -> str:
            self._check_time()
            if name != TOOL:
                return functions[name].call(arguments, self._call)
            values = arguments.get("memory")
            if not isinstance(values, Mapping) or len(arguments) != 1:
                raise Invalid(f'`{TOOL}` takes one object: {{"memory": {{"<slug>": {{…}}}}}}.')
            digest = hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()
            return encode_compact({"memory": self._update_memory(values, f"{number}/{digest}", bound=task.memory)})

        tools = [*([] if memory.tool is None else [memory.tool]), *(one.to_tool() for one in functions.values())]
        streams = task.action in STREAMING
        stream: Callable[[str], None] = partial(run.stream, step.id) if streams else lambda piece: None
        found = None if task.model is None else engine.model(model.provider, model.model_id)
        agent = Agent(
            ModelCall(self._call, self._timeout_s, stream, found, self._check_time),
            tools,
            call_tool,
            partial(run.store_tool_use, step),
            rounds=settings.max_steps,  # the task's settings take precedence over its model's
            max_tokens=settings.max_tokens or model.max_tokens or MAX_TOKENS,
            temperature=model.temperature if settings.temperature is None else settings.temperature,
        )
        history: list[Message] = []
        if task.history is not None:
            history = run.conversations.list_messages(run.found[task.history], inputs.messages_limit)
        if not history and not inputs.prompt.strip():
            raise Invalid(
                "There is nothing to answer: give `prompt`, or run the workflow with an input that has `text`."
            )
        system = Message("system", "\n\n".join(part for part in (inputs.system, memory.prompt) if part))
        messages = [system, *(history or [Message("user", inputs.prompt)])]
        result: dict[str, Any] = {}
        if task.action in OBJECTS:
            result["object"], text = agent.ask_json(messages, settings.output_schema or {})
        else:
            text = agent.ask(messages)
            if tools and text:
                stream(text)
        uses = [{"name": use.name, "arguments": use.arguments, "result": use.result} for use in agent.uses]
        value = {**result, "text": text, "tool_calls": uses}
        return Output(encode_compact(result["object"]), JSON, value=value) if result else Output(text, value=value)

    def _update_memory(self, memory: Mapping[str, Any], mark: str, **options: Any) -> dict[str, Any]:
        self._check_time()
        values = self._run.memory.update(memory, mark=f"{self._step.id}/{mark}", **options)
        self._step.state.memory.update(values)
        return values

    def _check_time(self) -> None:
        """Raise an error if the attempt was abandoned, so that it neither writes nor asks a model any more."""
        if self.abandoned.is_set() or time.monotonic() > self._run.deadline:
            raise Unavailable("The time of the task is over (timeout).")


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_compact(value)


def _is_true(value: Any) -> bool:
    """Return the truth of a condition as in JSONata, where an array is true if one of its items is."""
    return any(map(_is_true, value)) if isinstance(value, list) else bool(value)
