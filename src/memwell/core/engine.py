"""The engine: a store, a clock and a worker. It opens transactions for principals; `space` has the verbs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from ..clock import DAY, Clock, SystemClock
from ..config import Config
from ..errors import MemwellError
from ..jobs.queue import Handler, JobKind, ensure_slot
from ..jobs.worker import Worker
from ..storage import open_store
from ..storage.port import Store, TenantStore
from . import functions
from .access import Principal
from .file_links import Links
from .space import Space

if TYPE_CHECKING:
    from ..model.filter import Query
    from ..models.completer import Completer, LLMConfig
    from ..models.providers import Models
    from ..search.search_engine import Gate, SearchEngine, SearchResult

T = TypeVar("T")
Given = TypeVarTuple("Given")

FINISH_S = 5.0


class Engine:
    def __init__(self, store: Store, clock: Clock, config: Config, jobs: Collection[JobKind] = ()) -> None:
        self.store = store
        self.clock = clock
        self._config = config
        self.zone = config.zone
        self.embeds = config.embedder != "none"
        self._recall: SearchEngine | None = None
        self._models: Models | None = None
        self._lock = Lock()
        self.links = Links(store)
        self.forgets: list[Callable[[], None]] = []
        """Callbacks that drop other caches after an erasure."""
        self.ends: list[Callable[[], None]] = []
        """Callbacks that stop other work before the engine closes."""
        self.handlers: dict[str, Handler] = {kind.name: partial(kind.run, self) for kind in jobs}
        self._patient = [kind.name for kind in jobs if kind.patient]
        self.worker = Worker(store, clock, self.handlers, slow=[kind.name for kind in jobs if kind.slow])

    @classmethod
    def open(cls, config: Config, clock: Clock | None = None, jobs: Collection[JobKind] = ()) -> Engine:
        """Open a data directory or a database, and create it if it is new. `registry.open_engine` adds the jobs of all rooms."""
        if config.models:  # its mistakes are reported before anything is opened
            from ..models.providers import parse_models

            parse_models(config)
        clock = clock or SystemClock()
        store = open_store(config, clock.now)
        engine = cls(store, clock, config, jobs)
        store.on_due = engine._on_due
        return engine

    def read(self, principal: Principal, work: Callable[[Space, *Given], T], *given: *Given, sole: bool = False) -> T:
        """Run work on a snapshot of the principal's tenant. `sole` work usually runs one statement."""
        clock, links = self.clock, self.links
        return self.store.read(
            principal.tenant, lambda tx: work(Space(tx, principal, clock, clock.now(), links), *given), sole
        )

    def write(self, principal: Principal, work: Callable[[Space, *Given], T], *given: *Given) -> T:
        """Run work in one transaction of the principal's tenant. It is durable when this returns."""
        clock = self.clock
        return self.store.write(
            principal.tenant,
            lambda tx: work(Space(tx, principal, clock, clock.now(), self.links, self.embeds), *given),
        )

    @property
    def recall(self) -> SearchEngine:
        """The search engine. It is loaded at the first use, because other operations need little of its code."""
        if self._recall is None:
            from ..models.embedder import open_embedder
            from ..search.search_engine import SearchEngine

            with self._lock:
                if self._recall is None:
                    config = self._config
                    self._recall = SearchEngine(lambda: open_embedder(config), self.clock, config.index_memory)
        return self._recall

    def search(self, principal: Principal, query: Query) -> SearchResult:
        """Search the principal's tenant."""
        return self.recall.search(TenantStore(self.store, principal.tenant), query)

    def why_not(self, principal: Principal, query: Query, entry_id: str) -> Gate:
        """Return the reason why an entry is not among the hits of a query."""
        return self.recall.why_not(TenantStore(self.store, principal.tenant), query, entry_id)

    def function(self, name: str) -> Callable[..., Any]:
        """A Python function that this process has registered."""
        return functions.require_function(name, self._config.functions)

    def ensure_tenant(self, tenant: str) -> bool:
        """Create a tenant unless it exists. Return True if it was created."""
        is_new = self.store.create(tenant)
        if is_new:
            now = self.clock.now()
            self.store.write(tenant, lambda tx: ensure_slot(tx, "expire", now + DAY, now))
        return is_new

    def help_out(self, tenant: str) -> None:
        """If no worker runs in this process, run the tenant's due jobs now, except those that may take long."""
        if not self.worker.running:
            self.worker.run_due(tenant, without=self._patient)

    def finish(self, tenant: str) -> None:
        """Run the erasures that are due, for some seconds at most, so that deleted data is gone when the process ends."""
        with suppress(MemwellError):  # the next process that opens the store continues
            self.worker.run_some("erase", tenant, FINISH_S)

    def drop_caches(self, tenant: str) -> None:
        """Drop the caches of this process after an erasure in a tenant."""
        if self._recall is not None:
            self._recall.forget(tenant)
        for forget in self.forgets:
            forget()

    def close(self) -> None:
        for end in self.ends:
            end()
        self.worker.stop()
        if self._recall is not None:
            self._recall.meaning.close()
        if self._models is not None:
            self._models.close()
        self.store.close()

    @property
    def models(self) -> Models:
        """The language models of this server. They are read at the first use, and opened when they are asked."""
        from ..models.providers import Models

        with self._lock:
            if self._models is None:
                self._models = Models(self._config)
            return self._models

    @property
    def completer(self) -> tuple[Completer, LLMConfig] | None:
        """The configured language model, if any."""
        return self.models.default

    def _on_due(self, at: int) -> None:
        if at <= self.clock.now():
            self.worker.wake()
