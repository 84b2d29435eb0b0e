"""Running a workflow to its end, whichever kind of document it is."""

from __future__ import annotations

from collections.abc import Callable

from ..dispatch import Call
from ..errors import Invalid
from . import stored
from .asking import NO_MODEL
from .banks import provide
from .cache import Cache
from .document import Document
from .live import Live
from .stored import Begun
from .tree import TreeRun
from .under_way import Heartbeat, Outcome, UnderWay


def run(call: Call, document: Document, begun: Begun, cache: Cache, listen: Callable[[str], Live]) -> Outcome:
    """Run a document to its end."""
    if document.asks and call.engine.completer is None:
        raise Invalid(NO_MODEL)
    banks = provide(call, document)
    run_id = call.write(lambda space: stored.begin(space, begun))
    live = listen(run_id)
    running: UnderWay = TreeRun(call, document, begun, cache, live, banks, run_id)
    with Heartbeat(call, run_id):
        return running.go()
