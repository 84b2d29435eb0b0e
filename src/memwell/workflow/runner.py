"""Running a workflow: a list is a sequence, the children of a step run side by side on its output (S1.15, C35).

A run ends in a named state whatever its steps do. What a step has written stays, and is not written again if the run is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Lock, Thread
from typing import NamedTuple

from ..clock import SECOND, to_datetime
from ..context.recalled import Recalled
from ..dialects.recalling import Scope
from ..dispatch import Call
from ..errors import Invalid, MemwellError, ModelFailed, StorageError, Unavailable
from ..space import Space
from ..storage.port import Reach
from . import stored
from .asking import NO_MODEL, Asking
from .banks import provide, touched_by
from .cache import Cache, cache_key
from .document import Document, Node
from .live import Live, RunEvent
from .looking_back import RESULTS
from .run_memory import Reach as RunReach
from .steps import Doing, Output, do
from .stored import LEASE, Begun, StepBody
from .substitute import Values, filled

MOST_SECONDS = 900.0
SIDE_BY_SIDE = 16
GRACE_S = 0.5
"""A model is told how long it may take, and says itself when that is over."""
AGAIN = (ModelFailed, Unavailable, StorageError)
"""What may go better when it is tried again."""
FOR_GOOD = ("unauthorised", "bad_request", "not_found", "not_installed", "refused", "budget")
"""Why a model fails now and would the next time."""
LOOKS = 5
"""How often a step reads again because something was erased meanwhile."""
READING = ("search_memory", "load_memory", "retrieval")
"""Steps that know of keys what they have read there."""


class Failed(Exception):
    """A step has failed, and with it the run."""

    def __init__(self, step: str, error: MemwellError) -> None:
        super().__init__(f"Step `{step}`: {error}")
        self.error = error


class Outcome(NamedTuple):
    """What came of a run."""

    run_id: str
    state: stored.State
    output: str | None
    error: str | None


def run(call: Call, document: Document, begun: Begun, cache: Cache, listen: Callable[[str], Live]) -> Outcome:
    """Run a document to its end."""
    if document.asks and call.engine.completer is None:
        raise Invalid(NO_MODEL)
    banks = provide(call, document)
    run_id = call.write(lambda space: stored.begin(space, begun))
    live = listen(run_id)
    running = _Running(call, document, begun, cache, live, banks, run_id)
    with _Heartbeat(call, run_id):
        outcome = running.go()
    return outcome


class _Running:
    """A run under way."""

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
        self._call, self._document, self._begun = call, document, begun
        self._cache, self._live, self._banks, self._run_id = cache, live, banks, run_id
        self._numbers = {node.id: number for number, node in enumerate(document.walk())}
        self._parents = {child.id: node.id for node in document.walk() for child in node.children}
        self._done: dict[str, dict[str, str]] = {}
        self._results: dict[int, str] = {}
        self._lock = Lock()
        self._until = time.monotonic() + MOST_SECONDS
        self._agent_id = begun.workflow_id or document.name
        asked = begun.asked
        scope = Scope(asked.app, asked.owner, asked.thread, begun.workflow_id, run_id)
        self._memory = RunReach(call, run_id, scope)
        self._recalled: dict[str, Recalled] = {}

    def go(self) -> Outcome:
        self._live.tell(RunEvent(kind="run", run=self._run_id, state="running", text=self._document.name))
        state: stored.State = "failed"
        output = error = None
        try:
            last = self._sequence(self._document.steps, Output(self._begun.asked.input))
            output = self._results[max(self._results)] if self._results else last.text
            state = "done"
        except Failed as failure:
            error = str(failure)
        finally:
            self._note(lambda space: stored.end(space, self._run_id, state, output, error))
            self._hush_if_emptied()
            self._live.tell(RunEvent(kind="run", run=self._run_id, state=state, text=output, error=error))
            self._live.end()
        return Outcome(self._run_id, state, output, error)

    def _sequence(self, nodes: Sequence[Node], given: Output) -> Output:
        """The top of a document: each step receives what the one before has handed on."""
        for node in nodes:
            given = self._tree(node, given, 0)
        return given

    def _tree(self, node: Node, given: Output, level: int) -> Output:
        """A step and everything below it. Returns the step's own output."""
        output = self._step(node, given, level)
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

    def _step(self, node: Node, given: Output, level: int) -> Output:
        started, clock = self._call.engine.clock.now(), time.perf_counter()
        self._tell(node, level, state="running")
        attempts, error, output, state = 0, None, Output(""), "done"
        tries = 1 + int(node.fields.get("retries") or 0)
        while attempts < tries:
            attempts += 1
            if attempts > 1:
                self._tell(node, level, state="retrying")
            try:
                output, state = self._attempt(node, given)
                error = None
                break
            except MemwellError as problem:
                error = problem
                if not _may_go_better(problem) or time.monotonic() > self._until:
                    break
        body = StepBody(
            id=node.id,
            step_type=node.kind,
            path=node.path,
            level=level,
            state="failed" if error else state,  # type: ignore[arg-type]
            input=given.text,
            output=output.text,
            output_content_type=output.content_type,
            started_at=started,
            ended_at=self._call.engine.clock.now(),
            attempts=attempts,
            error=None if error is None else str(error),
        )
        self._keep(node, body)
        self._tell(node, level, state=body.state, error=body.error, seconds=round(time.perf_counter() - clock, 4))
        if error is not None:
            raise Failed(node.id, error)
        self._hand_out(node, output)
        return output

    def _attempt(self, node: Node, given: Output) -> tuple[Output, str]:
        if time.monotonic() > self._until:
            raise Unavailable(f"The run has taken longer than {MOST_SECONDS:.0f} seconds.")
        recalled = self._recalled[node.id] = self._memory.recalled()
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
            output = Output(*known) if known is not None else self._done_by(node, fields, given)
            if node.kind not in READING or self._is_noted(node, given, erased):
                break
        else:  # something is always taken away here: what is noted before it is read is emptied, too
            known, key = None, None
            self._note(partial(self._touch, node, given))
            output = self._done_by(node, fields, given)
        if key is not None and known is None and node.kind != "add_memory":
            self._cache.put(key, (output.text, output.content_type, output.loaded), minutes * 60)
        return output, "done" if known is None else "cached"

    def _done_by(self, node: Node, fields: Mapping[str, object], given: Output) -> Output:
        return _within(_seconds(fields), lambda: do(node.kind, fields, self._doing(node, given, fields)))

    def _cache_key(self, node: Node, made_of: Mapping[str, object], given: Output) -> bytes:
        """By what a step is known that gives the same: also by what has been erased so far, by whatever process."""
        return cache_key(self._call.principal.tenant, node.kind, made_of, given.text)

    def _is_noted(self, node: Node, given: Output, erased: int) -> bool:
        """Note which keys a step has read, so that the run is emptied when one is erased; False if that may have happened
        while it read, for then nobody knew of it yet."""

        def note(space: Space) -> bool:
            if _erased(space) != erased:
                return False
            self._touch(node, given, space)
            return True

        return self._call.engine.write(self._call.principal, note)

    def _touch(self, node: Node, given: Output, space: Space) -> None:
        stored.touch(space, self._run_id, touched_by(space, node, self._values(node, given.text), self._banks))

    def _doing(self, node: Node, given: Output, fields: Mapping[str, object]) -> Doing:
        streams = any(child.kind == "streaming_result" for child in node.children)
        seconds = _seconds(fields)
        left = max(1.0, self._until - time.monotonic())
        asking = Asking(
            self._call.engine,
            Reach(self._call.engine.store, self._call.principal.tenant),
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
            self._memory,
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

    def _keep(self, node: Node, body: StepBody) -> None:
        """Write down what a step did, and which keys it knows something of."""

        def write(space: Space) -> None:
            touched = touched_by(space, node, self._values(node, body.input), self._banks)
            stored.keep_step(space, self._run_id, self._numbers[node.id], body, touched)

        with self._lock:
            self._done[node.id] = {"input": body.input, "output": body.output}
        self._note(write)
        self._hush_if_emptied()

    def _hush_if_emptied(self) -> None:
        """Nothing of a run that was emptied is told any more, to whoever looks on."""
        if self._call.read(lambda space: stored.is_emptied(space.tx, self._run_id)):
            self._live.hush()

    def _note(self, work: Callable[[Space], None]) -> None:
        """Write something down about the run itself, which is no event of its own."""
        self._call.engine.write(self._call.principal, work)

    def _hand_out(self, node: Node, output: Output) -> None:
        if node.kind in RESULTS:
            with self._lock:
                self._results[self._numbers[node.id]] = output.text
            self._live.tell(RunEvent(kind="result", run=self._run_id, step=node.id, text=output.text))

    def _say(self, step: str, piece: str) -> None:
        self._live.tell(RunEvent(kind="text", run=self._run_id, step=step, text=piece))

    def _tell(
        self, node: Node, level: int, *, state: str, error: str | None = None, seconds: float | None = None
    ) -> None:
        told = {"state": state, "error": error, "seconds": seconds, "parent": self._parents.get(node.id)}
        self._live.tell(RunEvent(kind="step", run=self._run_id, step=node.id, step_type=node.kind, level=level, **told))  # type: ignore[arg-type]


def _erased(space: Space) -> int:
    """A number that grows whenever something is taken away in this tenant, by whatever process."""
    from ..storage.block import search_state  # here, since what it stands beside takes a while to load

    return search_state(space.tx)[1]


def _may_go_better(problem: MemwellError) -> bool:
    """Whether there is any use in trying again."""
    return isinstance(problem, AGAIN) and problem.details.get("reason") not in FOR_GOOD


def _seconds(fields: Mapping[str, object]) -> float | None:
    """How long a step may take, if it says so."""
    try:
        return float(str(fields["timeout_s"])) if fields.get("timeout_s") else None
    except ValueError:
        raise Invalid(f"`timeout_s` is not a number: {fields['timeout_s']!r}.", field="timeout_s") from None


def _within(seconds: float | None, work: Callable[[], Output]) -> Output:
    """Work that is waited for only so long. What it writes later, it writes once, as it would have in time."""
    if seconds is None:
        return work()
    pool = ThreadPoolExecutor(1, thread_name_prefix="memwell-step")
    try:
        return pool.submit(work).result(seconds + GRACE_S)
    except TimeoutError:
        raise Unavailable(f"The step has taken longer than {seconds:g} seconds (timeout).") from None
    finally:
        pool.shutdown(wait=False)


class _Heartbeat:
    """Says now and then that a run goes on."""

    def __init__(self, call: Call, run_id: str) -> None:
        self._call, self._run_id = call, run_id
        self._stopped = Event()
        self._thread = Thread(target=self._beat, name="memwell-run-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stopped.wait(LEASE / SECOND / 3):
            try:
                self._call.engine.write(self._call.principal, self._renew)
            except MemwellError:
                continue  # the next one may be in time

    def _renew(self, space: Space) -> None:
        space.tx.run("beat_run", id=self._run_id, lease_until=space.now + LEASE)
