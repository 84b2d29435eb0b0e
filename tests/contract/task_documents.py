"""What the tests of workflows of tasks share: documents, a definition, and a function."""

from __future__ import annotations

from typing import Any

import pytest

from memwell import function
from memwell.workflows.run_operations import Run

from ..engines import Memory

PROFILE: dict[str, Any] = {
    "type": "object",
    "title": "Customer Profile",
    "additionalProperties": False,
    "properties": {
        "preferred_name": {"type": "string", "description": "Name the subscriber wants the assistant to use."},
        "language": {"type": "string", "description": "Preferred response language."},
        "interests": {"type": "array", "items": {"type": "string"}},
    },
}
GREET = """
name: greet
defs:
  greet_by_name:
    kind: task
    action: send_text_message
    inputs:
      text: "='Hello ' & ($context.memory.customer_profile.preferred_name
        ? $context.memory.customer_profile.preferred_name : 'there')"
flow:
  - do: greet_by_name
"""
SAVE = """
name: save
defs:
  customer_profile_memory:
    kind: memory
    settings:
      definition_id: {definition}
  save_customer_profile:
    kind: task
    action: update_memory
    inputs:
      memory:
        {slug}:
          preferred_name: "=$input.name"
          language: "=$input.language"
flow:
  - do: save_customer_profile
"""
ANSWER = """
name: support
defs:
  customer_profile_memory:
    kind: memory
    description: Profile facts remembered for this subscriber.
    settings:
      definition_id: {definition}
  primary_model:
    kind: model
    settings:
      provider: openai
      model_id: gpt-5.2
  answer_customer:
    kind: task
    action: {action}
    inputs:
      input_mode: history
      messages_limit: 6
      system: "You are a concise support assistant. Use memory when it is relevant."
    bindings:
      model: primary_model
      memory:
        - customer_profile_memory
flow:
  - do: answer_customer
"""
NAME = "=$context.memory.customer_profile.preferred_name"
SYSTEM = "You are a concise support assistant. Use memory when it is relevant."


def define(memory: Memory, name: str = "Customer Profile", **settings: Any) -> str:
    return memory.definitions.create(name, schema=settings.pop("schema", PROFILE), **settings).id


def values(memory: Memory, *slugs: str, owner: str = "u1", **where: Any) -> dict[str, Any]:
    return dict(memory.definitions.bind(slugs, owner=owner, **where).values)


def run(memory: Memory, document: Any, given: Any = "", **how: Any) -> Run:
    return memory.workflows.run(document, given, **{"owner": "u1", **how})


def done(memory: Memory, document: Any, given: Any = "", **how: Any) -> str:
    found = run(memory, document, given, **how)
    assert found.status == "done", found.error
    return found.output or ""


def tasks(flow: list[Any] | None = None, outputs: Any = None, **defs: Any) -> dict[str, Any]:
    """A document of tasks; each is an action with its inputs, or a definition as it stands."""
    made = {
        name: one if isinstance(one, dict) else {"kind": "task", "action": one[0], "inputs": one[1]}
        for name, one in defs.items()
    }
    flow = flow or [{"do": name} for name, one in made.items() if one["kind"] == "task"]
    return {"name": "test", "defs": made, "flow": flow, **({} if outputs is None else {"outputs": outputs})}


@pytest.fixture
def registered() -> list[Any]:
    """A function that notes what it was called with."""
    calls: list[Any] = []

    @function("lookup_order")
    def lookup_order(order: str, times: int = 1, memory: Any = None) -> Any:
        """Looks up an order by its number."""
        calls.append((order, times))
        return {"order": order, "state": "shipped" * times}

    return calls
