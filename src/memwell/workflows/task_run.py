"""Runs of tasks: blocks one after the other, in parallel, or under a condition.

Only expressions of the document's author are evaluated, and only once. Their results, the input and stored data never are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import asdict

from .. import typed
from ..banks.reading import JSON
from ..clock import SECOND, to_datetime
from ..context.expression import is_expression, resolve
from ..context.template import NAMESPACE
from ..core.dispatch import Call
from ..core.operation import reword_error
from ..errors import Invalid
from ..models.completer import Message
from ..records.working_memory import TOOL
from ..text.fence import encode_compact
from ..text.yaml import spell_path
from .function_call import build_tool, call_function
from .model_call import Agent, ModelCall, ToolUse, render_own, split_own
from .run import Attempt, EventLog, RunCall, Step, WorkflowRun
from .run_rows import NewRun, Output, StepState
from .source import list_texts
from .substitutions import Values, build_values
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
    History,
    ModelSettings,
    Parallel,
    TaskDocument,
    mentions,
)
from .task_memory import Conversation, Conversations, TaskMemory
from .task_names import MEMORY, list_memory_names

SPAN = 1000
"""Distance between the numbers of tasks, which leaves numbers for their tool calls."""
STREAMING = ("ai_agent", "ai_generate_reply")
"""Actions whose answer is streamed."""
MAX_TOKENS = 1024


@dataclass
class State:
    """The state of a run that expressions see: `$output` and memory; and the last texts of the run."""

    outputs: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    last: str = ""
    answer: TaskStep | None = None
    """The step with the last answer of a model after the last reply."""
    reply: str | None = None
    """The last reply."""

    def copy(self) -> State:
        return replace(self, outputs=dict(self.outputs), memory=dict(self.memory))

    def merge(self, branch: State, before: State) -> None:
        """Take over the changes that a branch has made to the state `before`."""
        self.outputs |= branch.outputs
        self.memory |= {slug: value for slug, value in branch.memory.items() if before.memory.get(slug) != value}
        self.last = branch.last
        self.answer = self.answer if branch.answer is before.answer else branch.answer
        self.reply = self.reply if branch.reply is before.reply else branch.reply


class TaskRun(WorkflowRun):
    def __init__(
        self, call: Call, document: TaskDocument, new: NewRun, events: EventLog, banks: Mapping[str, str], run_id: str
    ) -> None:
        super().__init__(call, document.name, new, events, run_id)
        self.memory = TaskMemory(self.call, list(document.memories.values()))
        self.conversations = Conversations(self.call, new, banks)
        self.found: dict[Any, Conversation] = {}
        self.replies = document.replies
        self._document = document
        self._input = new.given.fields
        self._context: dict[str, Any] = {}
        self._unfinished: list[Future[None]] = []
        self._withheld: dict[str, str] = {}
        self._early: list[str] = []
        """Warnings about texts outside the tasks, for the first task."""
        self._warn_next = mentions(document.around, MEMORY)

    def _run_steps(self) -> str:
        values, self._withheld = self.memory.load()
        state = State(memory=values)
        self._recall_around()
        self._context = self.resolve(dict(self._document.context), state)
        for history in self._document.histories:
            conversation = self.conversations.find(history, self._resolve_history(history, state))
            self.found[history] = conversation
            text = self._input.get("text")
            self.conversations.record(conversation, "user", text if isinstance(text, str) else "", "input")
        try:
            self._run_blocks(self._document.flow, state)
        finally:
            while self._unfinished:  # a branch may add others
                wait([self._unfinished.pop()])
        if state.answer is not None and state.answer.body is not None:
            answer = state.answer.body.output
            self.speak(answer, "output")
            self._hand_out(state.answer, answer)
            state.reply = answer if state.reply is not None else None
        if self._document.outputs is not None:
            return msgspec.json.encode(self.resolve(self._document.outputs, state)).decode()
        return state.last if state.reply is None else state.reply

    def _run_blocks(self, blocks: Sequence[Block], state: State) -> None:
        for block in blocks:
            match block:
                case Do():
                    step = TaskStep(self, block, state)
                    output = self._perform(step)
                    state.outputs[block.task.name], state.last = output.value, output.text
                    if step.is_reply:
                        state.reply, state.answer = output.text, None
                    elif block.task.action in SPEAKING:
                        state.answer = step
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

    def resolve(
        self, template: Any, state: State, warn: Callable[[Sequence[str]], None] | None = None, *, prompt: bool = False
    ) -> Any:
        """Evaluate the expressions in a template, and render its other texts. Each tenant has its own lane, so that no tenant
        waits for another."""
        call = self.call if warn is None else self.call.with_warn(warn)
        given = self.new.given
        own = {
            "owner": given.owner,
            "thread": self.call.scope.thread,
            "run": self.run_id,
            "workflow": self.new.workflow_id,
        }
        context = {
            **self._context,
            **{name: value for name, value in own.items() if value is not None},
            "metadata": given.metadata,
            "memory": state.memory | call.recall_of_app(list_memory_names(template)),
        }
        scope = {"input": self._input, "context": context, "output": state.outputs}
        render = partial(self._build_values(call).render, prompt=prompt)
        return resolve(template, scope, lane=call.principal.tenant, now=call.engine.clock.now(), render=render)

    def _build_values(self, call: RunCall) -> Values:
        given, now = self.new.given, to_datetime(call.engine.clock.now())
        return build_values(call, given, self.agent, given.text, now, **{NAMESPACE: call.recall()})

    def _recall_around(self) -> None:
        """Collect warnings about stores that are withheld from texts outside the tasks."""
        around = self._document.around
        texts = [text for text, _ in list_texts(around) if "{{" in text]
        names = {one for one in self._document.recalled if any(f"{MEMORY}.{one}" in text for text in texts)}
        self.call.with_warn(self._early.extend).recall_of_app(names | list_memory_names(around))

    def _resolve_history(self, history: History, state: State) -> dict[str, Any]:
        values, fields = self._build_values(self.call), asdict(history)
        texts = {name: one for name, one in fields.items() if isinstance(one, str) and not is_expression(one)}
        found = self.resolve({name: one for name, one in fields.items() if name not in texts}, state)
        return {**found, **{name: values.render_address(one, name) for name, one in texts.items()}}

    def list_withheld(self, inputs: Mapping[str, Any], state: State) -> list[str]:
        """Return warnings about memory that is withheld from the expressions of a task (C24).

        The first task also reports those for expressions outside the tasks, which have no step of their own.
        """
        with self.lock:
            first, self._warn_next = self._warn_next, False
            early, self._early = self._early, []
        if not first and not mentions(inputs, MEMORY):
            return early
        return early + [warning for slug, warning in self._withheld.items() if slug not in state.memory]

    def store_tool_use(self, step: TaskStep, use: ToolUse) -> None:
        """Store a call of a tool as a step below its task."""
        step.uses += 1
        number = step.number + min(step.uses, SPAN - 1)
        below = Step(f"{step.id}.{step.uses}", use.name[:200], f"{step.path}.{step.uses}", number, step)
        below.input = use.arguments
        error = use.result if use.failed else None
        state: StepState = "failed" if use.failed else "done"
        started_at = self.call.engine.clock.now() - round(use.seconds * SECOND)
        self.store_step(below, state, Output(use.result), error, started_at=started_at, seconds=use.seconds)

    def speak(self, text: str, mark: str) -> None:
        """Record an answer in the conversations of the run."""
        for conversation in self.found.values():
            self.conversations.record(conversation, "assistant", text, mark)


class TaskStep(Step):
    """A step that performs a task. The addresses that it reads are noted when it reads them."""

    def __init__(self, run: TaskRun, do: Do, state: State) -> None:
        super().__init__(do.id, do.task.action, spell_path(do.at), do.number * SPAN)
        self.run, self.task, self.state = run, do.task, state
        self.retries = do.task.settings.retries
        self.is_reply = do.task.name in run.replies
        self.uses = 0

    def execute(self) -> tuple[Output, StepState]:
        run, task = self.run, self.task
        self.warn(run.list_withheld(task.inputs, self.state))
        template = {**task.inputs, "prompt": PROMPT} if task.asks and "prompt" not in task.inputs else task.inputs
        inputs = run.resolve(dict(template), self.state, self.warn, prompt=task.asks)
        self.input = msgspec.json.encode(inputs).decode()
        attempt = TaskAttempt(self, inputs)
        output = attempt.perform(attempt.run_action)
        if self.is_reply:
            run.speak(output.text, f"task/{self.id}")
        return output, "done"


class TaskAttempt(Attempt):
    """One attempt at a task whose expressions are evaluated."""

    def __init__(self, step: TaskStep, inputs: dict[str, Any]) -> None:
        super().__init__(step.run, step, step.task.settings.timeout_ms / 1000 or None)
        self._step, self._run, self._task, self._inputs = step, step.run, step.task, inputs

    def run_action(self) -> Output:
        action, inputs = self._task.action, self._inputs
        kind = INPUTS.get(action)
        if kind is None:
            output = call_function(self.call, action, inputs, self._run.new.given.text, only_if_required=True)
            return output._replace(
                value=msgspec.json.decode(output.text) if output.content_type == JSON else output.text
            )
        texts = {name: _to_text(inputs[name]) for name in ("prompt", "system", "text") if name in inputs}
        try:
            converted: Any = typed.convert(inputs | texts, kind)
        except msgspec.ValidationError as error:
            raise Invalid(f"The inputs do not fit: {reword_error(kind, str(error))}.") from None
        if action == SEND:
            return Output(converted.text, value={"text": converted.text})
        if action == UPDATE:
            new, given = converted.memory, self._task.inputs.get("memory")
            empty = [slug for slug, value in new.items() if value == {} and isinstance(given, dict) and given.get(slug)]
            self.call.warn([f"`{slug}`: none of its expressions has a value, so that it is empty" for slug in empty])
            memory: dict[str, Any] = {"memory": self._update_memory(new, "task", mode=converted.mode)[0] if new else {}}
            return Output(encode_compact(memory), JSON, value=memory)
        return self._ask_model(converted)

    def _ask_model(self, inputs: AiInputs) -> Output:
        run, step, task, engine = self._run, self._step, self._task, self.call.engine
        settings, model = task.settings, ModelSettings() if task.model is None else task.model.settings
        memory = run.memory.show(task.memory, settings.memory_budget)
        self.call.warn(memory.warnings)
        functions = {one.name: build_tool(one, engine.function(one.action)) for one in task.tools}

        def call_tool(name: str, arguments: Mapping[str, Any], number: int) -> str:
            self.check_time()
            if name != TOOL:
                return functions[name].call(arguments, self.call)
            values = arguments.get("memory")
            if not isinstance(values, Mapping) or len(arguments) != 1:
                raise Invalid(f'`{TOOL}` takes one object: {{"memory": {{"<slug>": {{…}}}}}}.')
            digest = hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()
            updated, warnings = self._update_memory(values, f"{number}/{digest}", bound=task.memory)
            return encode_compact({"memory": updated, **({"warnings": warnings} if warnings else {})})

        tools = [*([] if memory.tool is None else [memory.tool]), *(one.to_tool() for one in functions.values())]
        streams = task.action in STREAMING
        stream: Callable[[str], None] = partial(run.stream, step.id) if streams else lambda piece: None
        found = engine.models.open(model.provider, model.model_id)
        ask = partial(  # the task's settings take precedence over its model's
            ModelCall(self, stream, found).ask,
            max_tokens=settings.max_tokens or model.max_tokens or MAX_TOKENS,
            temperature=model.temperature if settings.temperature is None else settings.temperature,
        )
        agent = Agent(ask, tools, call_tool, partial(run.store_tool_use, step), settings.max_steps)
        messages = self._build_messages(inputs, memory.prompt)
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

    def _build_messages(self, inputs: AiInputs, memory: str) -> list[Message]:
        """Return the instructions, and the conversation or the prompt. Messages of the model after the last one of the user are
        part of the instructions, unless the author lets the model continue them, or a prompt of the task follows them."""
        run, task = self._run, self._task
        history, own, prompt = list[Message](), list[Message](), Message("user", inputs.prompt)
        is_asked = bool(inputs.prompt.strip())
        if task.history is not None:
            history = self.call.note(run.conversations.list_messages, run.found[task.history], inputs.messages_limit)
            is_last = "prompt" in task.inputs or not task.history.record  # else the input is in the history
            if history and history[-1].role == "assistant" and is_asked and is_last:
                history.append(prompt)
            if not task.history.continues:
                history, own = split_own(history, prompt if is_asked else None)
        if not history and not is_asked:
            advice = "give `prompt`, or run the workflow with an input that has `text`"
            if "prompt" in task.inputs:
                advice = "`prompt` is empty. Check that the input has what it uses"
            raise Invalid(f"There is nothing to answer: {advice}.")
        parts = (inputs.system, memory, render_own(own))
        return [Message("system", "\n\n".join(part for part in parts if part)), *(history or [prompt])]

    def _update_memory(self, memory: Mapping[str, Any], mark: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the new values, and the warnings about them, which the step gets, too."""
        self.check_time()
        updated = self._run.memory.update(memory, mark=f"{self._step.id}/{mark}", **options)
        self._step.state.memory.update(updated.memory)
        warnings = [one.render(slug) for slug, found in (updated.warnings or {}).items() for one in found]
        self.call.warn(warnings)
        return updated.memory, warnings


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_compact(value)


def _is_true(value: Any) -> bool:
    """Return the truth of a condition as in JSONata, where an array is true if one of its items is."""
    return any(map(_is_true, value)) if isinstance(value, list) else bool(value)
