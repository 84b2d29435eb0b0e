"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from .. import sdk
from .transport import Transport
from .values import Handle, omit_none

POLL_S = 5.0

Source = str | Mapping[str, Any]
Input = str | Mapping[str, Any]
"""A message, or the fields of `$input`."""


class Workflows(Handle):
    """Workflows: trees of steps that write, search and load memory, and tasks that ask models with a working memory."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def validate(self, document: Source) -> sdk.Checked:
        """List the problems of a document, each with its path."""
        return self._transport.call("workflows.validate", {"document": _source(document)})

    def create(self, document: Source) -> sdk.Workflow:
        """Store a workflow."""
        return self._transport.call("workflows.create", {"document": _source(document)})

    def update(self, workflow: str, document: Source, *, expected_version: int | None = None) -> sdk.Workflow:
        """Store the next version of a workflow."""
        data = {"workflow": workflow, "document": _source(document), **omit_none(expected_version=expected_version)}
        return self._transport.call("workflows.update", data)

    def get(self, workflow: str, *, version: int | None = None) -> sdk.Workflow:
        """Return a workflow with its document."""
        return self._transport.call("workflows.get", {"workflow": workflow, **omit_none(version=version)})

    def list(self) -> builtins.list[sdk.Workflow]:
        """List the stored workflows by name."""
        return (self._transport.call("workflows.list", {})).workflows

    def delete(self, workflow: str) -> None:
        """Delete a workflow with all its versions."""
        self._transport.call("workflows.delete", {"workflow": workflow})

    def run(
        self, document: Source, input: Input = "", *, idempotency_key: str | None = None, **how: Unpack[sdk.Running]
    ) -> sdk.Run:
        """Run a stored workflow by its id (not its name), or a document, and wait for its end: `metadata`, `owner`, `thread`,
        `version`. A key makes it run once."""
        call = _call(document, {**_to_source(input), **how, "wait": False})
        return self._finish(self._transport.call(*call, key=idempotency_key))

    def stream(
        self,
        document: Source,
        input: Input = "",
        **how: Unpack[sdk.Running],
    ) -> Iterator[sdk.RunEvent]:
        """Run, and yield events as they happen: steps, pieces of the answer, results."""
        run: sdk.Run = self._transport.call(*_call(document, {**_to_source(input), **how, "wait": False}))
        for event in self.follow(run.id):
            yield event

    def follow(self, run_id: str, after: int = 0) -> Iterator[sdk.RunEvent]:
        """Yield the events of a run, from one event on."""
        while True:
            data = {"run": run_id, "after": after, "timeout_s": POLL_S}
            found: sdk.Happened = self._transport.call("runs.events", data)
            for event in found.events:
                yield event
                after = max(after, event.number)
            if found.over:
                return

    def _finish(self, run: sdk.Run) -> sdk.Run:
        """Return a run at its end. A server would not answer a request for as long as a run may take."""
        for _ in self.follow(run.id):
            pass
        return self.show(run.id)

    def runs(self, workflow: str | None = None, limit: int = 50) -> builtins.list[sdk.Run]:
        """List the runs, the newest first, without their steps."""
        data = {"limit": limit, **omit_none(workflow=workflow)}
        found: builtins.list[sdk.Run] = (self._transport.call("runs.list", data)).runs
        return found

    def show(self, run_id: str, *, model_calls: bool = False) -> sdk.Run:
        """Return a run with the results of its steps, and on request with what they have sent to models and what came back."""
        run: sdk.Run = self._transport.call("runs.get", {"run": run_id, "model_calls": model_calls})
        return run

    def repeat(self, run_id: str) -> sdk.Run:
        """Resume a run that was interrupted, was cancelled or has failed. Nothing is written twice."""
        run: sdk.Run = self._transport.call("runs.repeat", {"run": run_id})
        return self._finish(run) if run.status == "running" else run

    def cancel(self, run_id: str) -> sdk.Run:
        """Cancel a run. What it has written stays. A run that is over stays as it is."""
        return self._transport.call("runs.cancel", {"run": run_id})


def _to_source(given: Input) -> dict[str, Any]:
    return {"input": given} if isinstance(given, str) else {"inputs": dict(given)}


def _source(document: Source) -> str | dict[str, Any]:
    return document if isinstance(document, str) else dict(document)


def _call(document: Source, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Choose the operation: one line without a colon is the id of a stored workflow, anything else is a document."""
    if isinstance(document, str) and "\n" not in document and ":" not in document:
        return "runs.begin", {"workflow": document, **data}
    return "runs.begin_document", {"document": _source(document), **data}
