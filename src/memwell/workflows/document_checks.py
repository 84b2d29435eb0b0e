"""Checks of a document against the data of its tenant and the server that is to run it. Validating and running share them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ..banks.banks import Bank, CreateBank, build_bank, find_bank_id, list_differences, require_bank
from ..context.expression import is_expression
from ..core.catalog import Item
from ..core.dispatch import Call
from ..core.space import Space
from ..errors import Invalid
from ..model.field_readers import convert_request
from ..records.apps import APPS, SESSION_META
from ..records.definitions import (
    SLUG_ADVICE,
    SLUG_PATTERN,
    Definition,
    build_definition_contract,
    find_definition,
    find_definition_by_slug,
)
from ..records.schema import Schema
from ..records.schema_tree import ADDITIONAL, Problem
from ..records.stores import stores_of
from ..records.validation import build_misfit_error, get_schema
from ..records.working_memory import list_bound
from ..text.yaml import Path, spell_path
from .function_call import build_tool, check_arguments
from .source import Problems, WantedModel, list_texts
from .task_document import INPUTS, UPDATE, TaskDocument, find_missing_definitions
from .tree_document import TreeDocument, find_literal

Runnable = TreeDocument | TaskDocument


class Needs(NamedTuple):
    """What a document needs that is no problem of the document itself: the ids of the banks that it names, None for those that it
    declares and no run has created; and where it asks for the model of a server that has none."""

    banks: dict[str, str | None]
    models: list[Path]


def check_document(call: Call, document: Runnable, problems: Problems, apps: Sequence[str] | None = None) -> Needs:
    """Add all problems of a document that can be known before it runs: under these apps, or any if they are None."""
    _check_declared_banks(call, document, problems)
    banks = call.read(find_banks, document, problems)
    call.read(check_memory, document, problems)
    call.read(_check_names, document, problems, apps)
    _check_functions(call, document, problems)
    return Needs(banks, _find_missing_models(call, document, problems))


# -- memory --------------------------------------------------------------------------------------------------------------


def check_memory(space: Space, document: Runnable, problems: Problems) -> None:
    """Add a problem for each definition that does not exist, and for each literal value that does not fit its schema."""
    missing = list(find_missing_definitions(space, document)) if isinstance(document, TaskDocument) else []
    problems.extend(missing)
    if missing or not isinstance(document, TaskDocument):
        return
    loaded = _list_loaded(space, document)
    for task in {do.task.name: do.task for do in document.walk()}.values():
        memory = task.inputs.get("memory")
        if task.action == UPDATE and isinstance(memory, dict):
            for slug, value in memory.items():
                work = partial(_check_update, space, loaded, slug, value, task.inputs.get("mode"))
                problems.attempt((*task.at, "inputs", "memory", slug), work)


def _check_names(space: Space, document: Runnable, problems: Problems, apps: Sequence[str] | None) -> None:
    """Add a problem for each name in templates and expressions that is no memory under these apps."""
    for name, path in document.recalled.items():
        problems.attempt(path, partial(_require_name, space, name, apps))
    if isinstance(document, TaskDocument) and not any(find_missing_definitions(space, document)):
        loaded = _list_loaded(space, document)
        for name, path in document.read.items():
            if name not in loaded:
                problems.attempt(path, partial(_require_name, space, name, apps, declared=True))


def _list_loaded(space: Space, document: TaskDocument) -> dict[str, Item[Definition]]:
    """Return the definitions that a run loads, by slug: all global ones, and those that the document declares."""
    declared = [find_definition(space, one.definition) for one in document.memories.values()]
    items = [*(one for one in declared if one is not None), *list_bound(space, None)]
    return {item.settings.slug: item for item in items}


def _require_name(space: Space, name: str, apps: Sequence[str] | None, *, declared: bool = False) -> None:
    """Raise an error if there is no memory of this name. With `declared`, a definition of another scope than `global` must be
    declared in the document."""
    found = find_definition_by_slug(space, name)
    if found is not None and (not declared or found.settings.scope == "global"):
        return
    if _is_of_app(space, name, apps):
        return
    if found is not None:
        raise Invalid(f"The definition {name[:100]!r} is not global: declare it in `defs` as `kind: memory`.")
    if apps is not None and not apps and _is_of_app(space, name, None):
        raise Invalid(f"{name[:100]!r} belongs to an app: run this workflow by `apps.execute`.")
    raise Invalid(f"{name[:100]!r} is neither a memory definition nor a store of {'the' if apps else 'an'} app.")


def _is_of_app(space: Space, name: str, apps: Sequence[str] | None) -> bool:
    if name == SESSION_META:
        return apps is None or bool(apps)
    ids = [item.id for item in APPS.list(space)] if apps is None else apps
    return any(stores_of(app).find(space, name) is not None for app in ids)


def _check_update(space: Space, loaded: Mapping[str, Item[Definition]], slug: str, value: Any, mode: Any) -> None:
    """Check the slug and the literal parts of a value that a task writes."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Invalid(f"{SLUG_ADVICE}: {slug[:100]!r}.")
    if slug not in loaded:
        other = find_definition_by_slug(space, slug) is not None
        advice = " here: it is not global, so declare it in `defs` as `kind: memory`" if other else ""
        raise Invalid(f'Unknown memory definition "{slug[:100]}"{advice}.')
    if isinstance(value, str) and _is_open(value):
        return
    if not isinstance(value, dict):
        raise Invalid(f"The value of `{slug}` must be an object.")
    item = loaded[slug]
    schema = get_schema(build_definition_contract(item.id, item.settings))
    if (mode or item.settings.update_mode) != "replace":
        schema = Schema(schema.relax(), strict=False)
    certain = _list_certain(schema, value)
    if certain:
        raise build_misfit_error(certain)


def _list_certain(schema: Schema, value: dict[str, Any]) -> list[Problem]:
    """Return the problems that a value has whatever its expressions and substitutions become: those that are the same without
    them, and names that the schema does not have."""
    problems, without = schema.problems(value), set(schema.problems(_drop_open(value)))
    opened = {spell_path(path) for text, path in list_texts(value) if _is_open(text)}
    return [one for one in problems if one.path not in opened and (one in without or one.reason.startswith(ADDITIONAL))]


def _is_open(text: str) -> bool:
    return is_expression(text) or "{{" in text


def _drop_open(value: Any) -> Any:
    """Return a value without the fields whose texts are evaluated. The items of lists stay, because they have positions."""
    if isinstance(value, dict):
        return {name: _drop_open(one) for name, one in value.items() if not (isinstance(one, str) and _is_open(one))}
    return [_drop_open(one) for one in value] if isinstance(value, list) else value


# -- banks ---------------------------------------------------------------------------------------------------------------


def _check_declared_banks(call: Call, document: Runnable, problems: Problems) -> None:
    """Add the problems of declared banks that depend on several settings, or on this server."""
    for name, settings in document.banks.items():
        try:
            request = to_bank_request(name, settings)
        except (msgspec.ValidationError, Invalid):
            continue  # each field was checked by itself
        try:
            build_bank(call, request)
        except Invalid as error:
            field = error.details.get("field")
            path: Path = ("memory_banks", name) if field in (None, "name") else ("memory_banks", name, field)
            problems.add(path, error.message)


def to_bank_request(name: str, settings: Mapping[str, Any]) -> CreateBank:
    """Return the request that creates a bank that a document declares."""
    request: CreateBank = convert_request({**settings, "name": name}, CreateBank)
    return request


def build_declared_bank(call: Call, name: str, settings: Mapping[str, Any]) -> Bank:
    return build_bank(call, to_bank_request(name, settings))


def find_banks(space: Space, document: Runnable, problems: Problems) -> dict[str, str | None]:
    """Return the ids of the banks that a document names, by their names; None for one that it declares and no run has created.
    Add a problem for each use of a bank that does not exist or has an ambiguous name, and for each setting that differs from
    that of the existing bank."""
    ids: dict[str, str | None] = {}

    def find(name: str) -> None:
        if name not in ids:
            bank_id = find_bank_id(space, name)
            if bank_id is None and name not in document.banks:
                raise Invalid(f"There is no memory bank {name[:100]!r}.")
            ids[name] = bank_id

    for name, path in document.used_banks:
        problems.attempt(path, partial(find, name))
    for name, settings in document.banks.items():
        bank_id = ids.get(name)
        if bank_id is not None:
            _compare_bank(space, bank_id, name, settings, problems)
    return ids


def _compare_bank(space: Space, bank_id: str, name: str, settings: Mapping[str, Any], problems: Problems) -> None:
    try:
        request = to_bank_request(name, settings)
    except (msgspec.ValidationError, Invalid):
        return  # each field was checked by itself
    names = [one for one in settings if one != "description"]
    for field, wanted, existing in list_differences(require_bank(space, bank_id).settings, request, names):
        problems.add(
            ("memory_banks", name, field),
            f"the bank exists, and there it is {_render(existing)}, not {_render(wanted)}. Change the document or the bank, or "
            "choose another name.",
        )


def _render(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:100]


# -- models and functions ------------------------------------------------------------------------------------------------


def _find_missing_models(call: Call, document: Runnable, problems: Problems) -> list[Path]:
    """Add a problem for each model that the server does not have. Return where it has none at all."""
    missing: list[Path] = []

    def find(wanted: WantedModel) -> None:
        if call.engine.models.find(wanted.provider, wanted.model_id) is None:
            missing.append(wanted.at)

    for one in document.models:
        problems.attempt(one.at, partial(find, one))
    return missing


def _check_functions(call: Call, document: Runnable, problems: Problems) -> None:
    """Add a problem for each function that is not registered, and for its arguments."""
    engine = call.engine

    def check(name: str, arguments: Mapping[str, Any]) -> None:
        check_arguments(name, engine.function(name), arguments)

    if isinstance(document, TreeDocument):
        for node in document.walk():
            name, arguments = find_literal(node.fields.get("function")), node.fields.get("arguments")
            if node.kind == "function" and name is not None:
                given = arguments if isinstance(arguments, dict) else {}
                problems.attempt((*node.at, "function"), partial(check, name, given))
        return
    for task in {do.task.name: do.task for do in document.walk()}.values():
        if task.action and task.action not in INPUTS:
            problems.attempt((*task.at, "action"), partial(check, task.action, task.inputs))
        for tool in [one for one in task.tools if one.action]:
            problems.attempt((*tool.at, "action"), lambda tool=tool: build_tool(tool, engine.function(tool.action)))  # type: ignore[misc]
