"""The engine: a store, a clock and a worker. It opens transactions for principals; `space` has the verbs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from ..clock import DAY, Clock, SystemClock
from ..config import Config
from ..errors import Invalid, MemwellError
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
    from ..search.search_engine import Gate, SearchEngine, SearchResult

T = TypeVar("T")
Given = TypeVarTuple("Given")

FINISH_S = 5.0
MOST_MODELS = 32
"""Largest number of open language models of workflows, besides the configured one."""


class Engine:
    def __init__(self, store: Store, clock: Clock, config: Config, jobs: Collection[JobKind] = ()) -> None:
        self.store = store
        self.clock = clock
        self._config = config
        self.embeds = config.embedder != "none"
        self._recall: SearchEngine | None = None
        self._completer: tuple[tuple[Completer, LLMConfig] | None] | None = None
        self._models: OrderedDict[str, Completer] = OrderedDict()
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
        own = [] if self._completer is None or self._completer[0] is None else [self._completer[0][0]]
        for completer in [*own, *self._models.values()]:
            _hang_up(completer)
        self.store.close()

    @property
    def completer(self) -> tuple[Completer, LLMConfig] | None:
        """The configured language model, if any. It is opened at the first use."""
        from ..models.completer import open_completer, parse_llm

        with self._lock:
            if self._completer is None:
                wanted = parse_llm(self._config.llm, self._config.embedder_url)
                key = self._config.llm_key(wanted.kind if wanted else "")
                self._completer = (None if wanted is None else (open_completer(wanted, key), wanted),)
            return self._completer[0]

    def require_provider(self, provider: str | None) -> None:
        """Reject a provider other than the configured one. A workflow may choose the model, but not the server."""
        from ..models.completer import BUILT_IN

        found = self.completer
        if found is None or found[1].kind not in BUILT_IN or provider in (None, found[1].kind):
            return
        raise Invalid(
            f"This workflow needs the provider {provider!r}, but the server uses `{found[1].kind}:{found[1].model}`. Set "
            "MEMWELL_LLM, or change `provider` in the document."
        )

    def model(self, provider: str | None, model_id: str | None) -> tuple[Completer, LLMConfig] | None:
        """The language model that a workflow names. A plugin is one model and ignores the name."""
        from ..models.completer import BUILT_IN, open_completer

        self.require_provider(provider)
        found = self.completer
        if found is None or found[1].kind not in BUILT_IN or model_id in (None, found[1].model):
            return found
        named = found[1]._replace(model=model_id or "")
        with self._lock:
            other = self._models.get(named.model)
            if other is None:
                other = self._models[named.model] = open_completer(named, self._config.llm_key(named.kind))
            self._models.move_to_end(named.model)
            evicted = self._models.popitem(last=False)[1] if len(self._models) > MOST_MODELS else None
        if evicted is not None:
            _hang_up(evicted)
        return other, named

    def _on_due(self, tenant: str, at: int) -> None:
        if at <= self.clock.now():
            self.worker.wake()


def _hang_up(completer: Completer) -> None:
    """Close the connections of a model after its running calls."""
    close: Callable[[], None] = getattr(completer, "close", lambda: None)
    close()
