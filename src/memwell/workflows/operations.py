"""Operations that check, store, read and delete workflows and their versions (system S1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .. import typed
from ..banks.banks import OfBank, require_bank
from ..clock import to_datetime
from ..core import documents
from ..core.dispatch import Call
from ..core.documents import Document as Stored
from ..core.operation import Example, NoFields, Request, Response, operation
from ..core.space import Space
from ..errors import Invalid, NotFound, Stale
from ..ids import new_id
from ..records.records import delete_tied
from .document_checks import Runnable, check_document, check_memory
from .source import KIND, NO_MODEL, Problems, read_source
from .task_document import TaskReader, is_task_document
from .tree_document import TreeReader

VERSION = "workflow_version"
Source = Annotated[
    str | dict[str, Any],
    Meta(description="The workflow: YAML or JSON as a text, or an object with its fields."),
]
WorkflowId = Annotated[str, Meta(max_length=64, description="The workflow's id.")]
VersionField = Annotated[int, Meta(ge=1, description="The version; by default the newest.")]


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
    warnings: list[str] = msgspec.field(default_factory=list)
    """Reasons why this server cannot run it as it is configured now."""


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
    document, problems = found.document, found.problems
    needs = check_document(call, document, problems)
    used = dict.fromkeys(name for name, _ in document.used_banks)
    return Checked(
        valid=not problems.found,
        problems=problems.to_details(),
        name=document.name or None,
        steps=sum(1 for _ in document.walk()),
        needs_model=document.asks,
        unresolved_banks=[name for name in used if name not in needs.banks],
        warnings=[NO_MODEL] if needs.models else [],
    )


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
    stored = documents.change(space, KIND, old, found.document.name, found.body)
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


class DeletedWorkflow(Response, frozen=True, kw_only=True):
    """The id of the deleted workflow."""

    id: str


@operation("workflows.delete", "DELETE /v1/workflows/{workflow}", effect="erase", example=Example(_OF, _GIVEN))
def delete_workflow(space: Space, request: DeleteWorkflow) -> DeletedWorkflow:
    """Delete a workflow with all its versions and the memory that belongs to it alone. Its runs stay readable until they are a
    month old."""
    old = require_workflow(space, request.workflow)
    for version in range(1, old.version + 1):
        documents.erase(space, VERSION, _to_version_id(old.id, version))
    delete_tied(space, f"workflow/{old.id}")
    documents.erase(space, KIND, old.id)
    return DeletedWorkflow(id=old.id)


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
        if {bank.id, bank.name} & {name for name, _ in document.used_banks}:
            found.append(AgentOfBank(agent_id=stored.id, agent_name=stored.name))
    return found


def add_workflow(space: Space, found: ReadDocument) -> Workflow:
    """Store a document that has no problems."""
    _check(space, found)
    stored = Stored(new_id(), found.document.name, 1, found.body, space.now, space.now)
    documents.add(space, KIND, stored)
    return _store_version(space, stored)


def _check(space: Space, found: ReadDocument) -> None:
    found.problems.refuse()
    check_memory(space, found.document, found.problems)
    found.problems.refuse()


def require_workflow(space: Space, workflow_id: str, version: int | None = None) -> Stored:
    """Return a workflow in one of its versions; by default the newest."""
    newest = documents.find(space.tx, KIND, workflow_id)
    if newest is None:
        raise documents.explain_missing(space.tx, KIND, workflow_id)
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
