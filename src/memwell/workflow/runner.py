"""Running a workflow to its end, whichever kind of document it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..dispatch import Call
from ..errors import Invalid
from . import stored
from .asking import NO_MODEL
from .banks import provide
from .cache import Cache
from .document import Runnable
from .live import Live
from .stored import Begun
from .tasks.checks import require
from .tasks.document import TaskDocument
from .tasks.inputs import input_of
from .tasks.run import TaskRun
from .tree import TreeRun
from .under_way import Heartbeat, Outcome, UnderWay


def run(call: Call, document: Runnable, begun: Begun, cache: Cache, listen: Callable[[str], Live]) -> Outcome:
    """Run a document to its end."""
    if document.asks and call.engine.completer is None:
        raise Invalid(NO_MODEL)
    if isinstance(document, TaskDocument):
        require(call, document, input_of(begun.asked.input, begun.asked.inputs))
    banks = provide(call, document)
    run_id = call.write(lambda space: stored.begin(space, begun))
    live = listen(run_id)
    with Heartbeat(call, run_id):
        return _running(call, document, begun, cache, live, banks, run_id).go()


def _running(
    call: Call, document: Runnable, begun: Begun, cache: Cache, live: Live, banks: Mapping[str, str], run_id: str
) -> UnderWay:
    if isinstance(document, TaskDocument):
        return TaskRun(call, document, begun, live, banks, run_id)
    return TreeRun(call, document, begun, cache, live, banks, run_id)
