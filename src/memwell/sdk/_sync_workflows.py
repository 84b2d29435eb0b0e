"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from .values import omit_none

if TYPE_CHECKING:
    from ..workflows.operations import Checked, Workflow
    from ..workflows.run import RunEvent
    from ..workflows.run_operations import Happened, Run
    from .transport import Transport
    from .types import Running

POLL_S = 5.0

Source = str | Mapping[str, Any]
Input = str | Mapping[str, Any]
"""A message, or the fields of `$input`."""


class Workflows:
    """Workflows: trees of steps that write, search and load memory, and tasks that ask models with a working memory."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def validate(self, document: Source) -> Checked:
        """List the problems of a document, each with its path."""
        return self._transport.call("workflows.validate", {"document": _source(document)})

    def create(self, document: Source) -> Workflow:
        """Store a workflow."""
        return self._transport.call("workflows.create", {"document": _source(document)})

    def update(self, workflow: str, document: Source, *, expected_version: int | None = None) -> Workflow:
        """Store the next version of a workflow."""
        data = {"workflow": workflow, "document": _source(document), **omit_none(expected_version=expected_version)}
        return self._transport.call("workflows.update", data)

    def get(self, workflow: str, *, version: int | None = None) -> Workflow:
        """Return a workflow with its document."""
        return self._transport.call("workflows.get", {"workflow": workflow, **omit_none(version=version)})

    def list(self) -> builtins.list[Workflow]:
        """List the stored workflows by name."""
        return (self._transport.call("workflows.list", {})).workflows

    def delete(self, workflow: str) -> None:
        """Delete a workflow with all its versions."""
        self._transport.call("workflows.delete", {"workflow": workflow})

    def run(self, document: Source, input: Input = "", **how: Unpack[Running]) -> Run:
        """Run a stored workflow by its id, or a document, and wait for its end: `metadata`, `owner`, `thread`, `version`."""
        begun: Run = self._transport.call(*_call(document, {**_to_source(input), **how, "wait": False}))
        for _ in self.follow(begun.id):
            pass  # a server would not answer a request for as long as a run may take
        return self.show(begun.id)

    def stream(
        self,
        document: Source,
        input: Input = "",
        **how: Unpack[Running],
    ) -> Iterator[RunEvent]:
        """Run, and yield events as they happen: steps, pieces of the answer, results."""
        run: Run = self._transport.call(*_call(document, {**_to_source(input), **how, "wait": False}))
        for event in self.follow(run.id):
            yield event

    def follow(self, run_id: str, after: int = 0) -> Iterator[RunEvent]:
        """Yield the events of a run, from one event on."""
        while True:
            data = {"run": run_id, "after": after, "timeout_s": POLL_S}
            found: Happened = self._transport.call("runs.events", data)
            for event in found.events:
                yield event
                after = max(after, event.number)
            if found.over:
                return

    def runs(self, workflow: str | None = None, limit: int = 50) -> builtins.list[Run]:
        """List the runs, the newest first, without their steps."""
        data = {"limit": limit, **omit_none(workflow=workflow)}
        found: builtins.list[Run] = (self._transport.call("runs.list", data)).runs
        return found

    def show(self, run_id: str) -> Run:
        """Return a run with the results of its steps."""
        run: Run = self._transport.call("runs.get", {"run": run_id})
        return run

    def repeat(self, run_id: str) -> Run:
        """Resume a run that was interrupted or has failed. Nothing is written twice."""
        return self._transport.call("runs.repeat", {"run": run_id})


def _to_source(given: Input) -> dict[str, Any]:
    return {"input": given} if isinstance(given, str) else {"inputs": dict(given)}


def _source(document: Source) -> str | dict[str, Any]:
    return document if isinstance(document, str) else dict(document)


def _call(document: Source, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Choose the operation: one line without a colon is the id of a stored workflow, anything else is a document."""
    if isinstance(document, str) and "\n" not in document and ":" not in document:
        return "runs.begin", {"workflow": document, **data}
    return "runs.begin_document", {"document": _source(document), **data}
