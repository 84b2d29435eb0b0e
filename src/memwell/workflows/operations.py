"""Operations that check, store, read and delete workflows and their versions (system S1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .. import typed
from ..banks.banks import KIND as BANK
from ..banks.banks import CreateBank, OfBank, build_bank, require_bank
from ..clock import to_datetime
from ..core import documents
from ..core.dispatch import Call
from ..core.documents import Document as Stored
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound, Stale
from ..ids import new_id
from ..records.records import delete_tied
from ..text.yaml import Path
from .source import Problems, read_source
from .task_document import TaskDocument, TaskReader, find_missing_definitions, is_task_document
from .tree_document import TreeDocument, TreeReader

KIND = "workflow"
VERSION = "workflow_version"
Source = Annotated[
    str | dict[str, Any],
    Meta(
        description="The workflow: YAML or JSON as a text (on the command line also `@FILE`), or an object with its fields."
    ),
]
WorkflowId = Annotated[str, Meta(max_length=64, description="The workflow's id.")]
VersionField = Annotated[int, Meta(ge=1, description="The version; by default the newest.")]
Runnable = TreeDocument | TaskDocument


class ReadDocument(NamedTuple):
    """A document with its problems, and its JSON."""

    document: Runnable
    problems: Problems
    body: str


def read_document(given: str | dict[str, Any]) -> ReadDocument:
    """Read YAML, JSON or an object. Raise an error only if it cannot be parsed; the result contains all other problems."""
    source = read_source(given)
    problems = Problems(source.place)
    reader = TaskReader(problems) if is_task_document(source.value) else TreeReader(problems)
    return ReadDocument(reader.read(source.value), problems, source.body)


def parse_document(given: str | dict[str, Any]) -> Runnable:
    """Return a document that can run, or raise an error with all its problems."""
    found = read_document(given)
    found.problems.refuse()
    return found.document


HELLO: dict[str, Any] = {
    "name": "hello",
    "memory_banks": {"greetings": {"type": "general"}},
    "steps": [
        {"step_type": "text", "template": "Hello {{agent.input}}"},
        {"step_type": "add_memory", "memory_bank_id": "greetings", "key": "{{metadata.user_id}}"},
        {"step_type": "display_result"},
    ],
}
_GIVEN = (("workflows.create", {"document": HELLO}),)
_OF = {"workflow": "$0.id"}


class Workflow(Response, frozen=True, kw_only=True):
    """A workflow in one of its versions."""

    id: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    document: dict[str, Any] | None = None


class Workflows(Response, frozen=True, kw_only=True):
    """Workflows by name."""

    workflows: list[Workflow]


class Checked(Response, frozen=True, kw_only=True):
    """The problems of a document, each with `path`, `line`, `column` and `reason`."""

    valid: bool
    problems: list[dict[str, Any]]
    name: str | None = None
    steps: int = 0
    needs_model: bool = False
    unresolved_banks: list[str] = msgspec.field(default_factory=list)


class CheckWorkflow(Request, frozen=True, kw_only=True):
    """A document to check."""

    document: Source


@operation("workflows.validate", "POST /v1/workflows/validate", outside=True, example=Example({"document": HELLO}))
def validate_workflow(call: Call, request: CheckWorkflow) -> Checked:
    """Check a workflow without storing or running it."""
    try:
        found = read_document(request.document)
    except Invalid as error:
        return Checked(valid=False, problems=error.details["problems"])
    _check_settings(call, found)
    unresolved = call.read(_check_banks, found)
    found.problems.extend(call.read(_find_missing_definitions, found))
    return Checked(
        valid=not found.problems.found,
        problems=found.problems.to_details(),
        name=found.document.name or None,
        steps=sum(1 for _ in found.document.walk()),
        needs_model=found.document.asks,
        unresolved_banks=unresolved,
    )


def _check_settings(call: Call, found: ReadDocument) -> None:
    """Add the problems of declared banks that depend on several settings, or on this server."""
    for name, settings in found.document.banks.items():
        try:
            build_bank(call, typed.convert({**settings, "name": name}, CreateBank))
        except msgspec.ValidationError:
            continue  # each field was checked by itself
        except Invalid as error:
            field = error.details.get("field")
            path: Path = ("memory_banks", name) if field in (None, "name") else ("memory_banks", name, field)
            found.problems.add(path, error.message)


def _check_banks(space: Space, found: ReadDocument) -> list[str]:
    """Add a problem for each bank that does not exist or has an ambiguous name. Return the names of these banks."""
    reasons: dict[str, str] = {}
    for node in found.document.walk():
        name = node.bank
        if name is not None:
            if name not in reasons:
                reasons[name] = _find_bank_problem(space, name, name in found.document.banks)
            if reasons[name]:
                found.problems.add(node.bank_at, reasons[name])
    return [name for name, reason in reasons.items() if reason]


def _find_missing_definitions(space: Space, found: ReadDocument) -> list[tuple[Path, str]]:
    return list(find_missing_definitions(space, found.document)) if isinstance(found.document, TaskDocument) else []


def _find_bank_problem(space: Space, name: str, is_declared: bool) -> str:
    if documents.find(space.tx, BANK, name) is not None:
        return ""
    several = len(documents.list_by_name(space.tx, BANK, name))
    if several > 1:
        return f"there are {several} memory banks called {name[:100]!r}: give an id."
    return "" if several or is_declared else f"there is no memory bank {name[:100]!r}."


class CreateWorkflow(Request, frozen=True, kw_only=True):
    """A workflow to store."""

    document: Source


@operation(
    "workflows.create",
    "POST /v1/workflows",
    effect="write",
    outside=True,
    status=201,
    example=Example({"document": HELLO}),
)
def create_workflow(call: Call, request: CreateWorkflow) -> Workflow:
    """Store a workflow. It is checked first; every problem is reported with its path, line and column."""
    found = read_document(request.document)
    return call.write(add_workflow, found)


class UpdateWorkflow(Request, frozen=True, kw_only=True):
    """The next version of a workflow."""

    workflow: WorkflowId
    document: Source
    expected_version: (
        Annotated[int, Meta(ge=1, description="The version that was read; a newer one is not replaced.")] | None
    ) = None


@operation(
    "workflows.update",
    "PUT /v1/workflows/{workflow}",
    effect="write",
    outside=True,
    example=Example({**_OF, "document": HELLO, "expected_version": 1}, _GIVEN),
)
def update_workflow(call: Call, request: UpdateWorkflow) -> Workflow:
    """Store the next version of a workflow. Earlier versions stay, and each run names its version."""
    found = read_document(request.document)
    return call.write(_update, request, found)


def _update(space: Space, request: UpdateWorkflow, found: ReadDocument) -> Workflow:
    old = require_workflow(space, request.workflow)
    if request.expected_version not in (None, old.version):
        raise Stale(f"The current version is {old.version}: read it again and repeat the change.", version=old.version)
    _check(space, found)
    stored = documents.change(space.tx, KIND, old, found.document.name, found.body, space.now)
    return _store_version(space, stored)


@operation("workflows.list", "GET /v1/workflows", example=Example({}, _GIVEN))
def list_workflows(space: Space, request: NoFields) -> Workflows:
    """List the stored workflows by name."""
    found = sorted(documents.list_documents(space.tx, KIND), key=lambda one: (one.name, one.id))
    return Workflows(workflows=[_to_response(one) for one in found])


class OfWorkflow(Request, frozen=True, kw_only=True):
    """A workflow, and one of its versions."""

    workflow: WorkflowId
    version: VersionField | None = None


@operation("workflows.get", "GET /v1/workflows/{workflow}", example=Example(_OF, _GIVEN))
def get_workflow(space: Space, request: OfWorkflow) -> Workflow:
    """Read a workflow with its document, in its newest version or an earlier one."""
    stored = require_workflow(space, request.workflow, request.version)
    return _to_response(stored, whole=True)


class DeleteWorkflow(Request, frozen=True, kw_only=True):
    """A workflow to delete."""

    workflow: WorkflowId


class Deleted(Response, frozen=True, kw_only=True):
    """The id of the deleted workflow."""

    id: str


@operation("workflows.delete", "DELETE /v1/workflows/{workflow}", effect="erase", example=Example(_OF, _GIVEN))
def delete_workflow(space: Space, request: DeleteWorkflow) -> Deleted:
    """Delete a workflow with all its versions and the memory that belongs to it alone. Its runs stay readable until they are a
    month old."""
    old = require_workflow(space, request.workflow)
    for version in range(1, old.version + 1):
        documents.erase(space.tx, VERSION, _to_version_id(old.id, version), space.now)
    delete_tied(space, f"workflow/{old.id}")
    documents.erase(space.tx, KIND, old.id, space.now)
    return Deleted(id=old.id)


class AgentOfBank(Response, frozen=True, kw_only=True):
    """A workflow that uses a bank."""

    agent_id: str
    agent_name: str


@operation(
    "banks.agents",
    "GET /v1/memory_banks/{bank}/agents",
    example=Example({"bank": "$0.id"}, (("banks.create", {"name": "greetings", "type": "general"}), *_GIVEN)),
)
def list_agents(space: Space, request: OfBank) -> list[AgentOfBank]:
    """List the stored workflows that name a bank, by its id or its name."""
    bank = require_bank(space, request.bank)
    found = []
    for stored in documents.list_documents(space.tx, KIND):
        # A stored document may have become invalid since: its problems are ignored.
        document = read_document(decode_document(stored.body)).document
        if {bank.id, bank.name} & {node.bank for node in document.walk()}:
            found.append(AgentOfBank(agent_id=stored.id, agent_name=stored.name))
    return found


def add_workflow(space: Space, found: ReadDocument) -> Workflow:
    """Store a document that has no problems."""
    _check(space, found)
    stored = Stored(new_id(), found.document.name, 1, found.body, space.now, space.now)
    documents.add(space.tx, KIND, stored)
    return _store_version(space, stored)


def _check(space: Space, found: ReadDocument) -> None:
    found.problems.refuse()
    found.problems.extend(_find_missing_definitions(space, found))
    found.problems.refuse()


def require_workflow(space: Space, workflow_id: str, version: int | None = None) -> Stored:
    """Return a workflow in one of its versions; by default the newest."""
    newest = documents.find(space.tx, KIND, workflow_id)
    if newest is None:
        raise NotFound("There is no such workflow.")
    if version is None or version == newest.version:
        return newest
    found = documents.find(space.tx, VERSION, _to_version_id(workflow_id, version))
    if found is None:
        raise NotFound(f"There is no version {version} of this workflow: the newest is {newest.version}.")
    return newest._replace(version=version, name=found.name, body=found.body, updated_at=found.created_at)


def decode_document(body: str) -> dict[str, Any]:
    return typed.decode(body, dict[str, Any])


def _store_version(space: Space, stored: Stored) -> Workflow:
    new = {"id": _to_version_id(stored.id, stored.version), "name": stored.name, "body": stored.body}
    space.tx.send("add_document", kind=VERSION, version=1, now=space.now, **new)
    return _to_response(stored, whole=True)


def _to_version_id(workflow_id: str, version: int) -> str:
    return f"{workflow_id}@{version}"


def _to_response(stored: Stored, *, whole: bool = False) -> Workflow:
    body = decode_document(stored.body)
    return Workflow(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        created_at=to_datetime(stored.created_at),
        updated_at=to_datetime(stored.updated_at),
        description=body.get("description"),
        document=body if whole else None,
    )
