"""Workflows that are stored and versioned (system S1): made, changed, checked, and what they name."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .. import documents
from ..clock import to_datetime
from ..dialects.banks import OfBank, find_bank
from ..documents import Document as Stored
from ..errors import Invalid, NotFound, Stale
from ..ids import new_id
from ..operation import Example, Request, Response, operation
from ..space import Space
from .banks import named, unresolved
from .document import Document, parse

KIND = "workflow"
VERSION = "workflow_version"

Source = Annotated[
    str | dict[str, Any],
    Meta(
        description="The workflow: YAML or JSON as a text (on the command line also `@FILE`), or an object with its fields."
    ),
]
WorkflowId = Annotated[str, Meta(max_length=64, description="The workflow's id.")]
VersionField = Annotated[int, Meta(ge=1, description="Which version; the newest if it is left away.")]

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
    """A workflow, and how often it was changed."""

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
    """Whether a document can run: everything that is wrong with it, each with its path, and the banks that are missing."""

    valid: bool
    problems: list[dict[str, Any]]
    name: str | None = None
    steps: int = 0
    needs_model: bool = False
    unresolved_banks: list[str] = msgspec.field(default_factory=list)


class CheckWorkflow(Request, frozen=True, kw_only=True):
    """A document to check."""

    document: Source


@operation("workflows.validate", "POST /v1/workflows/validate", example=Example({"document": HELLO}))
def validate(space: Space, request: CheckWorkflow) -> Checked:
    """Check a workflow without storing or running it."""
    try:
        document = parse(request.document)
    except Invalid as error:
        found = error.details.get("problems") or [{"path": "", "reason": str(error)}]
        return Checked(valid=False, problems=found)
    missing = unresolved(space, document)
    return Checked(
        valid=not missing,
        problems=[{"path": path, "reason": f"there is no memory bank {name!r}."} for name, path in missing],
        name=document.name,
        steps=sum(1 for _ in document.walk()),
        needs_model=document.asks,
        unresolved_banks=[name for name, _ in missing],
    )


class CreateWorkflow(Request, frozen=True, kw_only=True):
    """A workflow to store."""

    document: Source


@operation("workflows.create", "POST /v1/workflows", effect="write", status=201, example=Example({"document": HELLO}))
def create(space: Space, request: CreateWorkflow) -> Workflow:
    """Store a workflow. It is checked first; every problem is named with its path."""
    document, body = read(request.document)
    stored = Stored(new_id(), document.name, 1, body, space.now, space.now)
    documents.add(space.tx, KIND, stored)
    _keep_version(space, stored)
    return _shown(stored, document)


class UpdateWorkflow(Request, frozen=True, kw_only=True):
    """What a workflow is to be from now on."""

    workflow: WorkflowId
    document: Source
    expected_version: (
        Annotated[int, Meta(ge=1, description="The version that was read: refused if it has changed.")] | None
    ) = None


@operation(
    "workflows.update",
    "PUT /v1/workflows/{workflow}",
    effect="write",
    example=Example({**_OF, "document": HELLO, "expected_version": 1}, _GIVEN),
)
def update(space: Space, request: UpdateWorkflow) -> Workflow:
    """Store the next version of a workflow. Earlier ones stay, and runs say which one they ran."""
    old = _existing(space, request.workflow)
    if request.expected_version not in (None, old.version):
        raise Stale(f"The current version is {old.version}: read it again and repeat the change.", version=old.version)
    document, body = read(request.document)
    stored = documents.change(space.tx, KIND, old, document.name, body, space.now)
    _keep_version(space, stored)
    return _shown(stored, document)


class NoFields(Request, frozen=True, kw_only=True):
    """Nothing."""


@operation("workflows.list", "GET /v1/workflows", example=Example({}, _GIVEN))
def list_workflows(space: Space, request: NoFields) -> Workflows:
    """The stored workflows, by name."""
    found = sorted(documents.every(space.tx, KIND), key=lambda one: (one.name, one.id))
    return Workflows(workflows=[_shown(one) for one in found])


class OfWorkflow(Request, frozen=True, kw_only=True):
    """Which workflow, and which version of it."""

    workflow: WorkflowId
    version: VersionField | None = None


@operation("workflows.get", "GET /v1/workflows/{workflow}", example=Example(_OF, _GIVEN))
def get(space: Space, request: OfWorkflow) -> Workflow:
    """A workflow with its document, the newest version or an earlier one."""
    stored = find(space, request.workflow, request.version)
    return _shown(stored, parse(decoded(stored.body)))


class DeleteWorkflow(Request, frozen=True, kw_only=True):
    """Which workflow."""

    workflow: WorkflowId


class Deleted(Response, frozen=True, kw_only=True):
    """What was deleted."""

    id: str


@operation("workflows.delete", "DELETE /v1/workflows/{workflow}", effect="erase", example=Example(_OF, _GIVEN))
def delete(space: Space, request: DeleteWorkflow) -> Deleted:
    """Delete a workflow with all its versions. Its runs stay readable until they are a month old."""
    old = _existing(space, request.workflow)
    for version in range(1, old.version + 1):
        documents.remove(space.tx, VERSION, _version_id(old.id, version))
    documents.remove(space.tx, KIND, old.id)
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
def agents(space: Space, request: OfBank) -> list[AgentOfBank]:
    """The stored workflows that name a bank, by its id or its name."""
    bank, _ = find_bank(space, request.bank)
    found = [one for one in documents.every(space.tx, KIND) if {bank.id, bank.name} & named(parse(decoded(one.body)))]
    return [AgentOfBank(agent_id=one.id, agent_name=one.name) for one in found]


OPERATIONS = (validate, create, list_workflows, get, update, delete, agents)


# -- what others use -----------------------------------------------------------------------------------------------------


def read(source: str | dict[str, Any]) -> tuple[Document, str]:
    """A document that was given, and as it is stored."""
    from .yaml_text import read as read_text

    value = read_text(source).value if isinstance(source, str) else source
    return parse(source), msgspec.json.encode(value).decode()


def find(space: Space, workflow_id: str, version: int | None) -> Stored:
    """A workflow in one of its versions."""
    newest = _existing(space, workflow_id)
    if version in (None, newest.version):
        return newest
    found = documents.find(space.tx, VERSION, _version_id(workflow_id, version or 0))
    if found is None:
        raise NotFound(f"There is no version {version} of this workflow: the newest is {newest.version}.")
    return newest._replace(version=version or 0, name=found.name, body=found.body, updated_at=found.created_at)


def decoded(body: str) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])


def _existing(space: Space, workflow_id: str) -> Stored:
    found = documents.find(space.tx, KIND, workflow_id)
    if found is None:
        raise NotFound("There is no such workflow.")
    return found


def _keep_version(space: Space, stored: Stored) -> None:
    kept = Stored(_version_id(stored.id, stored.version), stored.name, 1, stored.body, space.now, space.now)
    space.tx.send("add_document", kind=VERSION, id=kept.id, name=kept.name, version=1, body=kept.body, now=space.now)


def _version_id(workflow_id: str, version: int) -> str:
    return f"{workflow_id}@{version}"


def _shown(stored: Stored, document: Document | None = None) -> Workflow:
    body = decoded(stored.body)
    return Workflow(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        created_at=to_datetime(stored.created_at),
        updated_at=to_datetime(stored.updated_at),
        description=body.get("description"),
        document=body if document is not None else None,
    )
