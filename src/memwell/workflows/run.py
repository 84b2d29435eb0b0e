"""A run under way, whatever kind of document it runs: it ends in a named state whatever its steps do.

What a step has written stays, and is not written again if the run is. Each step is tried, written down and told in one place.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import NamedTuple, TypeVar

from ..clock import SECOND
from ..context.memory_namespace import Scope
from ..core.dispatch import Call
from ..core.space import Space
from ..errors import MemwellError, ModelFailed, StorageError, Unavailable
from . import store
from .events import RESULTS, Live, RunEvent
from .run_memory import Reach as RunReach
from .steps import Output
from .store import LEASE, Begun, StepBody

MOST_SECONDS = 900.0
GRACE_S = 0.5
"""A model is told how long it may take, and says itself when that is over."""
AGAIN = (ModelFailed, Unavailable, StorageError)
"""What may go better when it is tried again."""
FOR_GOOD = ("unauthorised", "bad_request", "not_found", "not_installed", "refused", "budget", "tools")
"""Why a model fails now and would the next time."""
MOST_WARNINGS = 50
MAX_WARNING = 2000
FURTHER = "There are further warnings, which are left out."
T = TypeVar("T")


class Failed(Exception):
    """A step has failed, and with it the run."""

    def __init__(self, step: str, error: MemwellError) -> None:
        super().__init__(f"Step `{step}`: {error}")
        self.error = error


class Outcome(NamedTuple):
    """What came of a run."""

    run_id: str
    state: store.State
    output: str | None
    error: str | None


class Step(NamedTuple):
    """A step as it is told and written down."""

    id: str
    kind: str
    path: str
    number: int
    level: int = 0
    parent: str | None = None


class Tries(NamedTuple):
    """How often a step is tried, and how long it waits before the next time."""

    most: int = 1
    pause_s: float = 0.0
    factor: float = 1.0
    longest_s: float = 10.0
    jitter: float = 0.0

    def pause(self, attempts: int) -> float:
        """How long to wait after so many attempts."""
        wait = min(self.pause_s * self.factor ** (attempts - 1), self.longest_s)
        return wait * (1 + self.jitter * random.random())  # noqa: S311 -- nobody is kept out by it


class Attempt(ABC):
    """One step's work: what it was given, how it is done, and which addresses it knows something of."""

    given: str = ""
    tries: Tries = Tries()
    warnings: tuple[str, ...] = ()

    def warn(self, told: Iterable[str]) -> None:
        """Note what is not as it should be, each once."""
        known = tuple(dict.fromkeys((*self.warnings, *(one[:MAX_WARNING] for one in told))))
        self.warnings = known if len(known) <= MOST_WARNINGS else (*known[:MOST_WARNINGS], FURTHER)

    @abstractmethod
    def make(self) -> tuple[Output, store.StepState]:
        """Do it once."""

    @abstractmethod
    def touched(self, space: Space) -> Iterable[int]:
        """Inside the transaction in which it is written down."""

    @abstractmethod
    def noted(self, output: Output) -> None:
        """It is over, and about to be written down."""


class UnderWay(ABC):
    """A run under way."""

    def __init__(self, call: Call, name: str, begun: Begun, live: Live, run_id: str) -> None:
        self._call, self._begun, self._live, self._run_id = call, begun, live, run_id
        self._name = name
        self._results: dict[int, str] = {}
        self._lock = Lock()
        self._until = time.monotonic() + MOST_SECONDS
        self._agent_id = begun.workflow_id or name
        asked = begun.asked
        self._scope = Scope(asked.app, asked.owner, asked.thread, begun.workflow_id, run_id)
        self._memory = RunReach(call, run_id, self._scope)

    @abstractmethod
    def _whole(self) -> str:
        """Run all of it, and return what comes of it if no step hands something out."""

    def go(self) -> Outcome:
        self._live.tell(RunEvent(kind="run", run=self._run_id, state="running", text=self._name))
        state: store.State = "failed"
        output = error = None
        try:
            output = self._whole()
            state = "done"
        except Failed as failure:
            error = str(failure)
        except MemwellError as failure:
            error = failure.message
        except Exception as failure:
            error = f"Something went wrong inside of Memwell ({type(failure).__name__}): please report it."
            raise
        finally:
            self._note(lambda space: store.end(space, self._run_id, state, output, error))
            self._hush_if_emptied()
            self._live.tell(RunEvent(kind="run", run=self._run_id, state=state, text=output, error=error))
            self._live.end()
        return Outcome(self._run_id, state, output, error)

    # -- one step ------------------------------------------------------------------------------------------------------

    def _perform(self, step: Step, attempt: Attempt) -> Output:
        """Try a step, write down what came of it, and tell. Raises `Failed`."""
        started, clock = self._call.engine.clock.now(), time.perf_counter()
        self._tell(step, state="running")
        attempts, error, output, state = self._tried(step, attempt)
        attempt.noted(output)
        body = StepBody(
            id=step.id,
            step_type=step.kind,
            path=step.path,
            level=step.level,
            state="failed" if error else state,
            input=attempt.given,
            output=output.text,
            output_content_type=output.content_type,
            started_at=started,
            ended_at=self._call.engine.clock.now(),
            attempts=attempts,
            error=None if error is None else str(error),
            warnings=attempt.warnings,
        )
        self._note(lambda space: store.keep_step(space, self._run_id, step.number, body, attempt.touched(space)))
        self._hush_if_emptied()
        self._tell(step, state=body.state, error=body.error, seconds=round(time.perf_counter() - clock, 4))
        if error is not None:
            raise Failed(step.id, error)
        self._hand_out(step, output)
        return output

    def _tried(self, step: Step, attempt: Attempt) -> tuple[int, MemwellError | None, Output, store.StepState]:
        attempts, error = 0, None
        while attempts < attempt.tries.most:
            attempts += 1
            if attempts > 1:
                time.sleep(attempt.tries.pause(attempts - 1))
                self._tell(step, state="retrying")
            try:
                if time.monotonic() > self._until:
                    raise Unavailable(f"The run has taken longer than {MOST_SECONDS:.0f} seconds.")
                output, state = attempt.make()
            except MemwellError as problem:
                error = problem
                if not _may_go_better(problem) or time.monotonic() > self._until:
                    break
            else:
                return attempts, None, output, state
        return attempts, error, Output(""), "done"

    def _write_down(self, step: Step, body: StepBody, seconds: float) -> None:
        """Write down and tell what happened inside of a step."""
        self._note(lambda space: store.keep_step(space, self._run_id, step.number, body, ()))
        self._hush_if_emptied()
        self._tell(step, state=body.state, error=body.error, seconds=seconds)

    def _hush_if_emptied(self) -> None:
        """Nothing of a run that was emptied is told any more, to whoever looks on."""
        if self._call.read(lambda space: store.is_emptied(space.tx, self._run_id)):
            self._live.hush()

    def _note(self, work: Callable[[Space], T]) -> T:
        """Write something down about the run itself, which is no event of its own."""
        return self._call.engine.write(self._call.principal, work)

    def _hand_out(self, step: Step, output: Output) -> None:
        if step.kind in RESULTS:
            with self._lock:
                self._results[step.number] = output.text
            self._live.tell(RunEvent(kind="result", run=self._run_id, step=step.id, text=output.text))

    def _last_result(self) -> str | None:
        """What was handed out last, as the steps are written down."""
        return self._results[max(self._results)] if self._results else None

    def _say(self, step: str, piece: str) -> None:
        self._live.tell(RunEvent(kind="text", run=self._run_id, step=step, text=piece))

    def _tell(self, step: Step, *, state: str, error: str | None = None, seconds: float | None = None) -> None:
        told = {"state": state, "error": error, "seconds": seconds, "parent": step.parent}
        self._live.tell(
            RunEvent(kind="step", run=self._run_id, step=step.id, step_type=step.kind, level=step.level, **told)  # type: ignore[arg-type]
        )


def within(seconds: float | None, work: Callable[[], T], on_timeout: Callable[[], None] = lambda: None) -> T:
    """Work that is waited for only so long; then it is told, and nobody waits for it, not even the end of the process."""
    if seconds is None:
        return work()
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 -- it is told to whoever waits
            done.set_exception(error)

    Thread(target=run, name="memwell-step", daemon=True).start()
    try:
        return done.result(seconds + GRACE_S)
    except TimeoutError:
        on_timeout()
        raise Unavailable(f"The step has taken longer than {seconds:g} seconds (timeout).") from None


def _may_go_better(problem: MemwellError) -> bool:
    """Whether there is any use in trying again."""
    return isinstance(problem, AGAIN) and problem.details.get("reason") not in FOR_GOOD


class Heartbeat:
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
