"""Runs of a tree of steps: a list is a sequence, and the children of a step run in parallel on its output (S1.15, C35).

Templates in the fields of a step are rendered before it runs (S1.16, S1.17, C17, C18). Steps with `cache_minutes` are
answered from a cache of this process.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from ..banks.banks import KIND as BANK
from ..banks.banks import check_key, find_key
from ..clock import to_datetime
from ..context import template as templates
from ..context.template import BARE, NAMESPACE
from ..core.dispatch import Call
from ..core.space import Space
from ..errors import Invalid, MemwellError
from ..storage.port import TenantStore, search_state
from ..text.moments import build_time_formatter
from . import store
from .document import Document, Node
from .model_call import ModelCall
from .run import EventLog, Output, Retries, Step, WorkflowRun, run_within
from .steps import StepContext, run_step
from .store import NewRun, StepState

MAX_CACHED = 1000
MAX_CACHED_CHARACTERS = 16 * 1024 * 1024
MAX_PARALLEL = 16
MAX_READS = 5
"""How often a step reads again because something was erased meanwhile."""
READING = ("search_memory", "load_memory", "retrieval")
PROMPTS = ("prompt_template", "system_template")
"""Fields that a model reads: stored values are put on one line there (C20)."""
_PLACES = ("memory_bank_id", "key", "flow", "user")


class Cache:
    """Outputs by the hash of what they depend on. The least recently used are dropped first."""

    def __init__(self) -> None:
        self._outputs: OrderedDict[bytes, tuple[float, Output]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: bytes) -> Output | None:
        with self._lock:
            found = self._outputs.get(key)
            if found is None:
                return None
            if found[0] < time.monotonic():
                self._drop(key)
                return None
            self._outputs.move_to_end(key)
            return found[1]

    def put(self, key: bytes, output: Output, seconds: float) -> None:
        with self._lock:
            if key in self._outputs:
                self._drop(key)
            self._outputs[key] = (time.monotonic() + seconds, output)
            self._size += len(output.text)
            while len(self._outputs) > MAX_CACHED or self._size > MAX_CACHED_CHARACTERS:
                self._drop(next(iter(self._outputs)))

    def clear(self) -> None:
        with self._lock:
            self._outputs.clear()
            self._size = 0

    def _drop(self, key: bytes) -> None:
        self._size -= len(self._outputs.pop(key)[1].text)


class Values(NamedTuple):
    """The values that the templates of a step can use."""

    input: str
    agent: Mapping[str, str]
    metadata: Mapping[str, Any]
    steps: Mapping[str, Mapping[str, str]]
    organization: Mapping[str, str]
    now: datetime
    memory: Mapping[str, Any] = {}

    def render(self, text: str, *, prompt: bool = False) -> str:
        if "{{" not in text:
            return text
        lookup: dict[str, Mapping[str, Any]] = {
            BARE: {"input": self.input},
            "agent": self.agent,
            "metadata": self.metadata,
            "step": self.steps,
            "organization": self.organization,
            NAMESPACE: self.memory,
        }
        on_one_line = (NAMESPACE,) if prompt else ()
        parsed = templates.parse(text)
        return templates.render(
            parsed, lookup, missing="empty", times=build_time_formatter(self.now), on_one_line=on_one_line
        ).text

    def render_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: self._render_value(value, name in PROMPTS) for name, value in fields.items()}
        key = fields.get("key")
        if isinstance(key, str):
            # No memory may end up under a key that others share because a part of it is empty (C17).
            for one in templates.list_expressions(templates.parse(key)):
                if not self.render("{{" + one.source + "}}").strip():
                    raise Invalid(f"The key {key!r} is incomplete: `{{{{{one.source}}}}}` is empty.", field="key")
            check_key(values["key"])
        return values

    def _render_value(self, value: Any, prompt: bool = False) -> Any:
        match value:
            case str():
                return self.render(value, prompt=prompt)
            case dict():
                return {name: self._render_value(one) for name, one in value.items()}
            case list():
                return [self._render_value(one) for one in value]
        return value


class TreeRun(WorkflowRun):
    def __init__(
        self,
        call: Call,
        document: Document,
        new: NewRun,
        cache: Cache,
        events: EventLog,
        banks: Mapping[str, str],
        run_id: str,
    ) -> None:
        super().__init__(call, document.name, new, events, run_id)
        self.document, self.cache, self.banks = document, cache, banks
        self.outputs: dict[str, dict[str, str]] = {}
        self._numbers = {node.id: number for number, node in enumerate(document.walk())}
        self._parents = {child.id: node.id for node in document.walk() for child in node.children}

    def _run_steps(self) -> str:
        output = Output(self.new.given.input)
        for node in self.document.steps:
            output = self._run_node(node, output, 0)
        result = self._last_result()
        return output.text if result is None else result

    def _run_node(self, node: Node, given: Output, level: int) -> Output:
        """Run a step and everything below it. Returns the step's own output."""
        output = self._perform(TreeStep(self, node, given, self._numbers[node.id], level, self._parents.get(node.id)))
        if len(node.children) == 1:
            self._run_node(node.children[0], output, level + 1)
        elif node.children:
            pool = ThreadPoolExecutor(min(len(node.children), MAX_PARALLEL), thread_name_prefix="memwell-step")
            with pool:  # all of them run to their ends, even if one fails
                futures = [pool.submit(self._run_node, child, output, level + 1) for child in node.children]
            for future in futures:
                future.result()
        return output


class TreeStep(Step):
    """A node of the tree with the output of the one above it."""

    def __init__(self, run: TreeRun, node: Node, given: Output, number: int, level: int, parent: str | None) -> None:
        super().__init__(node.id, node.kind, node.path, number, level, parent)
        self._run, self._node, self._given = run, node, given
        self._memory: Mapping[str, Any] = {}
        self.input = given.text
        self.retries = Retries(1 + int(node.fields.get("retries") or 0))

    def execute(self) -> tuple[Output, StepState]:
        call = self._run.call.with_warn(self.warn)
        memory = self._memory = call.recall()
        try:
            # Times are cut to minutes where the output is cached, so that the same question has the same key.
            fields = self._values(to_the_minute=bool(self._node.fields.get("cache_minutes"))).render_fields(
                self._node.fields
            )
        finally:
            memory.close()
        minutes = 0.0 if self.kind == "function" else float(fields.get("cache_minutes") or 0)
        for _ in range(MAX_READS):
            erasures = call.read(lambda space: count_erasures(space))
            key = self._hash({**fields, "erased": erasures}) if minutes else None
            cached = self._run.cache.get(key) if key is not None else None
            output = cached if cached is not None else self._run_once(fields)
            if self.kind not in READING or call.note(partial(self._touch_if_unchanged, erasures=erasures)):
                break
        else:  # erasures never stop: note the addresses before reading, so that the run is emptied with them
            cached, key = None, None
            call.note(lambda space: store.touch(space, call.run_id, self.list_addresses(space)))
            output = self._run_once(fields)
        if key is not None and cached is None and self.kind != "add_memory":
            self._run.cache.put(key, output, minutes * 60)
        return output, "done" if cached is None else "cached"

    def finish(self, output: Output) -> None:
        with self._run.lock:
            self._run.outputs[self.id] = {"input": self._given.text, "output": output.text}

    def list_addresses(self, space: Space) -> Iterable[int]:
        values = self._values()
        try:
            name, key, *others = (values.render(str(self._node.fields.get(one) or "")) for one in _PLACES)
        except MemwellError:
            return []
        if name:
            bank_id = self._run.banks.get(name, name)
            if key:
                address = find_key(space, bank_id, key)
                return [] if address is None else [address.id]
            places = [(BANK, bank_id)]
        else:
            places = [place for place in zip(("flow", "user"), others, strict=True) if place[1]]
        rows = [space.tx.rows("addresses_of_name", dialect=kind, name=one) for kind, one in places]
        return [row[0] for some in rows for row in some]

    def _touch_if_unchanged(self, space: Space, erasures: int) -> bool:
        """Note the addresses that the step has read; False if one may have been erased since."""
        if count_erasures(space) != erasures:
            return False
        store.touch(space, self._run.run_id, self.list_addresses(space))
        return True

    def _hash(self, fields: Mapping[str, object]) -> bytes:
        parts = [self._run.call.principal.tenant, self.kind, fields, self._given.text]
        return hashlib.blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=20).digest()

    def _run_once(self, fields: Mapping[str, object]) -> Output:
        run, given = self._run, self._given
        try:
            seconds = float(str(fields["timeout_s"])) if fields.get("timeout_s") else None
        except ValueError:
            raise Invalid(f"`timeout_s` is not a number: {fields['timeout_s']!r}.", field="timeout_s") from None
        left = max(1.0, run.deadline - time.monotonic())
        streams = any(child.kind == "streaming_result" for child in self._node.children)
        call = run.call.with_warn(self.warn)
        model = ModelCall(
            call.engine,
            TenantStore(call.engine.store, call.principal.tenant),
            min(seconds, left) if seconds else left,
            partial(run.stream, self.id) if streams else None,
        )
        now = to_datetime(call.engine.clock.now())
        context = StepContext(call, model, given.text, self.id, run.agent_id, now, run.banks, given.loaded)
        return run_within(seconds, lambda: run_step(self.kind, fields, context))

    def _values(self, *, to_the_minute: bool = False) -> Values:
        run, given = self._run, self._run.new.given
        owner = {"owner": given.owner, "thread": given.thread}  # these cannot be overridden by metadata
        now = to_datetime(run.call.engine.clock.now())
        return Values(
            input=self._given.text,
            agent={"input": given.input, "name": run.document.name, "id": run.agent_id},
            metadata={**given.metadata, **{name: value for name, value in owner.items() if value is not None}},
            steps=run.outputs,
            organization={"name": run.call.principal.tenant},
            now=now.replace(second=0, microsecond=0) if to_the_minute else now,
            memory=self._memory,
        )


def count_erasures(space: Space) -> int:
    """A number that grows with every erasure in this tenant, by any process."""
    return search_state(space.tx)[1]
