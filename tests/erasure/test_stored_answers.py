"""Stored answers are emptied with what they describe: a repeat of the request answers 410 (G9, C43)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memwell import Erased
from memwell.registry import OPERATIONS

from ..engines import Memory
from ..examples import filled, plain

MADE = sorted(name for name, one in OPERATIONS.items() if one.effect == "write" and one.repeatable)

WORK_ON_OTHERS = {
    "jobs.cancel": "a job, which has no text",
    "jobs.retry": "a job, which has no text",
    "tenants.configure": "settings, which go with the file of the tenant",
}
"""Operations whose answers describe nothing that can be deleted."""

BY_ROOM: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "users": [("users.forget", ("user",))],
    "flows": [("flows.delete", ("flow",))],
    "log": [("log.delete", ("session",))],
    "hooks": [("hooks.delete", ("id",))],
    "banks": [("banks.delete", ("bank",))],
    "apps": [("apps.delete", ("app",))],
    "stores": [("apps.delete", ("app",)), ("stores.delete", ("app", "store"))],
    "definitions": [("definitions.delete", ("definition",))],
    "workflows": [("workflows.delete", ("workflow",))],
    "runs": [("runs.delete", ("run",))],
}
"""The operations that delete what those of a room make, and their fields."""

ALIASES = {
    "bank": ("id", "memory_bank_id"),
    "workflow": ("id",),
    "run": ("id", "run_id"),
    "definition": ("slug", "name"),
    "store": ("technical_name", "name"),
    "id": ("id",),
}
"""Where an answer has what a deletion asks for."""


def list_deletions(name: str) -> list[tuple[str, tuple[str, ...]]]:
    return BY_ROOM[name.split(".")[0]]


def find_field(field: str, request: dict[str, Any], answer: Any, made: list[Any]) -> Any:
    """The value of a field of a deletion, from the request, the answer or what the request builds on."""
    if field in request:
        return request[field]
    parts = [part for name in ("stores", "parts") for part in answer.get(name, ())]
    candidates = [*parts, answer, *map(plain, made)]
    return next(one[name] for one in candidates for name in ALIASES[field] if name in one)


@pytest.mark.every_engine
@pytest.mark.parametrize(
    ("name", "deletion"),
    [(name, deletion) for name in MADE if name not in WORK_ON_OTHERS for deletion in range(len(list_deletions(name)))],
)
def test_a_repeat_after_the_deletion_is_told(tmp_path: Path, name: str, deletion: int) -> None:
    """G9: whatever an operation has made or changed, its stored answer goes with it."""
    operation = OPERATIONS[name]
    delete, fields = list_deletions(name)[deletion]
    with Memory(tmp_path / "home", worker=False) as memory:
        made: list[Any] = []
        for given, data in operation.example.given:
            made.append(memory.call(given, filled(data, made)))
        request = filled(operation.example.request, made)
        if "plan" not in name and "consolidate" not in name:
            request.pop("dry_run", None)  # it stores nothing
        answer = plain(memory.call(name, request, key="once"))
        assert plain(memory.call(name, request, key="once")) == answer, "a repeat before the deletion"
        known = {} if name == "runs.repeat" else request  # its answer is about a new run
        memory.call(delete, {field: find_field(field, known, answer, made) for field in fields})
        with pytest.raises(Erased):
            memory.call(name, request, key="once")
