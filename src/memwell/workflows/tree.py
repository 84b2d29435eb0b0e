"""What steps gave lately, for those that may be answered from memory. It is this process's alone, and bounded."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

import msgspec

from ..clock import to_datetime
from ..context.template import MemoryValues
from ..core.dispatch import Call
from ..core.space import Space
from ..errors import Invalid
from ..storage.port import TenantStore, search_state
from . import store
from .banks import touched_by
from .document import Document, Node
from .events import Live
from .model_call import Asking
from .run import Attempt, Step, Tries, UnderWay, within
from .run_memory import Reach as RunReach
from .run_memory import Warn
from .steps import Doing, Output, do
from .store import Begun, StepState
from .values import Values, filled

MOST = 1000
MOST_BYTES = 16 * 1024 * 1024

Answer = tuple[str, str, tuple[str, ...]]
"""A text, what it is, and the entries that it is made of."""


class Cache:
    """Outputs by what they were made from, the least used going first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: bytes) -> Answer | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found[0] < time.monotonic():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return found[1]

    def put(self, key: bytes, answer: Answer, seconds: float) -> None:
        with self._lock:
            if key in self._kept:
                self._drop(key)
            self._kept[key] = (time.monotonic() + seconds, answer)
            self._size += len(answer[0])
            while len(self._kept) > MOST or self._size > MOST_BYTES:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything: something was erased."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _drop(self, key: bytes) -> None:
        _, answer = self._kept.pop(key)
        self._size -= len(answer[0])


def cache_key(owner: str, kind: str, fields: Mapping[str, Any], given: str) -> bytes:
    made_of = msgspec.json.encode([owner, kind, fields, given], order="deterministic")
    return hashlib.blake2b(made_of, digest_size=20).digest()


# -- Running a tree of steps: a list is a sequence, the children of a step run side by side on its output (S1.15, C35).


SIDE_BY_SIDE = 16
LOOKS = 5
"""How often a step reads again because something was erased meanwhile."""
READING = ("search_memory", "load_memory", "retrieval")
"""Steps that know of keys what they have read there."""


class TreeRun(UnderWay):
    """A run of a tree."""

    def __init__(
        self,
        call: Call,
        document: Document,
        begun: Begun,
        cache: Cache,
        live: Live,
        banks: Mapping[str, str],
        run_id: str,
    ) -> None:
        super().__init__(call, document.name, begun, live, run_id)
        self._document, self._cache, self._banks = document, cache, banks
        self._numbers = {node.id: number for number, node in enumerate(document.walk())}
        self._parents = {child.id: node.id for node in document.walk() for child in node.children}
        self._done: dict[str, dict[str, str]] = {}
        self._recalled: dict[str, MemoryValues] = {}

    def _whole(self) -> str:
        last = self._sequence(self._document.steps, Output(self._begun.asked.input))
        handed_out = self._last_result()
        return last.text if handed_out is None else handed_out

    def _sequence(self, nodes: Sequence[Node], given: Output) -> Output:
        """The top of a document: each step receives what the one before has handed on."""
        for node in nodes:
            given = self._tree(node, given, 0)
        return given

    def _tree(self, node: Node, given: Output, level: int) -> Output:
        """A step and everything below it. Returns the step's own output."""
        step = Step(node.id, node.kind, node.path, self._numbers[node.id], level, self._parents.get(node.id))
        output = self._perform(step, _StepOfTree(self, node, given))
        if len(node.children) == 1:
            self._tree(node.children[0], output, level + 1)
        elif node.children:
            self._side_by_side(node.children, output, level + 1)
        return output

    def _side_by_side(self, nodes: Sequence[Node], given: Output, level: int) -> None:
        """All of them run to their ends, even if one fails."""
        with ThreadPoolExecutor(min(len(nodes), SIDE_BY_SIDE), thread_name_prefix="memwell-step") as pool:
            waiting = [pool.submit(self._tree, node, given, level) for node in nodes]
        for one in waiting:
            one.result()

    # -- one step ------------------------------------------------------------------------------------------------------

    def attempted(self, node: Node, given: Output, warn: Warn) -> tuple[Output, StepState]:
        reach = self._memory._replace(warn=warn)
        recalled = self._recalled[node.id] = reach.recalled()
        try:
            to_the_minute = bool(node.fields.get("cache_minutes"))
            fields = filled(node.fields, self._values(node, given.text, to_the_minute=to_the_minute))
        finally:
            recalled.close()
        minutes = 0.0 if node.kind == "function" else float(fields.get("cache_minutes") or 0)
        for _ in range(LOOKS):
            erased = self._call.read(lambda space: _erased(space))
            key = self._cache_key(node, {**fields, "erased": erased}, given) if minutes else None
            known = self._cache.get(key) if key is not None else None
            output = Output(*known) if known is not None else self._done_by(node, fields, given, reach)
            if node.kind not in READING or self._is_noted(node, given, erased):
                break
        else:  # something is always taken away here: what is noted before it is read is emptied, too
            known, key = None, None
            self._note(partial(self.touch, node, given))
            output = self._done_by(node, fields, given, reach)
        if key is not None and known is None and node.kind != "add_memory":
            self._cache.put(key, (output.text, output.content_type, output.loaded), minutes * 60)
        return output, "done" if known is None else "cached"

    def _done_by(self, node: Node, fields: Mapping[str, object], given: Output, reach: RunReach) -> Output:
        return within(_seconds(fields), lambda: do(node.kind, fields, self._doing(node, given, fields, reach)))

    def _cache_key(self, node: Node, made_of: Mapping[str, object], given: Output) -> bytes:
        """By what a step is known that gives the same: also by what has been erased so far, by whatever process."""
        return cache_key(self._call.principal.tenant, node.kind, made_of, given.text)

    def _is_noted(self, node: Node, given: Output, erased: int) -> bool:
        """Note which keys a step has read, so that the run is emptied when one is erased; False if that may have happened
        while it read, for then nobody knew of it yet."""

        def note(space: Space) -> bool:
            if _erased(space) != erased:
                return False
            self.touch(node, given, space)
            return True

        return self._call.engine.write(self._call.principal, note)

    def touch(self, node: Node, given: Output, space: Space) -> None:
        store.touch(space, self._run_id, self.touched(node, given, space))

    def touched(self, node: Node, given: Output, space: Space) -> list[int]:
        return touched_by(space, node, self._values(node, given.text), self._banks)

    def noted(self, node: Node, given: Output, output: Output) -> None:
        with self._lock:
            self._done[node.id] = {"input": given.text, "output": output.text}

    def _doing(self, node: Node, given: Output, fields: Mapping[str, object], reach: RunReach) -> Doing:
        streams = any(child.kind == "streaming_result" for child in node.children)
        seconds = _seconds(fields)
        left = max(1.0, self._until - time.monotonic())
        asking = Asking(
            self._call.engine,
            TenantStore(self._call.engine.store, self._call.principal.tenant),
            min(seconds, left) if seconds else left,
            partial(self._say, node.id) if streams else None,
        )
        now = to_datetime(self._call.engine.clock.now())
        return Doing(
            self._call,
            asking,
            given.text,
            node.id,
            self._run_id,
            self._agent_id,
            now,
            self._banks,
            given.loaded,
            reach,
        )

    def _values(self, node: Node, given: str, *, to_the_minute: bool = False) -> Values:
        """What templates may name. Whose run it is, metadata cannot say otherwise. `to_the_minute`: times are cut to it, so
        that what is asked for twice is the same."""
        asked = self._begun.asked
        own = {"owner": asked.owner, "thread": asked.thread}
        extra = {name: value for name, value in own.items() if value is not None}
        now = to_datetime(self._call.engine.clock.now())
        return Values(
            input=given,
            agent={"input": asked.input, "name": self._document.name, "id": self._agent_id},
            metadata={**asked.metadata, **extra},
            steps=self._done,
            organization={"name": self._call.principal.tenant},
            now=now.replace(second=0, microsecond=0) if to_the_minute else now,
            memory=self._recalled.get(node.id, {}),
        )


class _StepOfTree(Attempt):
    """A node on the output of the one above it."""

    def __init__(self, run: TreeRun, node: Node, given: Output) -> None:
        self._run, self._node, self._on = run, node, given
        self.given = given.text
        self.tries = Tries(1 + int(node.fields.get("retries") or 0))

    def make(self) -> tuple[Output, StepState]:
        return self._run.attempted(self._node, self._on, self.warn)

    def touched(self, space: Space) -> Iterable[int]:
        return self._run.touched(self._node, self._on, space)

    def noted(self, output: Output) -> None:
        self._run.noted(self._node, self._on, output)


def _erased(space: Space) -> int:
    """A number that grows whenever something is taken away in this tenant, by whatever process."""
    return search_state(space.tx)[1]


def _seconds(fields: Mapping[str, object]) -> float | None:
    """How long a step may take, if it says so."""
    try:
        return float(str(fields["timeout_s"])) if fields.get("timeout_s") else None
    except ValueError:
        raise Invalid(f"`timeout_s` is not a number: {fields['timeout_s']!r}.", field="timeout_s") from None
