"""Compare the public interface with `tests/golden/interface.json`, or accept it with `--write`.

The file holds what callers rely on: operations with their routes, flags and schemas, errors, MCP tools, commands with their
options, settings, and the names and signatures of the Python API. Descriptions are omitted, so wording may change. Types are
written out where they are used, so the names of request and response classes may change, too.
"""

from __future__ import annotations

import difflib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import typer

import memwell
from memwell.config import PREFIX, SETTINGS
from memwell.core.operation import Operation, build_schemas
from memwell.errors import tree
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.main import app
from memwell.surfaces.mcp.tools import build_tools

GOLDEN = Path(__file__).resolve().parent.parent / "tests/golden/interface.json"
FLAGS = ("effect", "role", "owner", "status", "envelope", "any_scope", "repeatable", "patient", "carries")
REFERENCE = "#/components/{name}"
MAX_LINES = 200


def build_interface() -> dict[str, Any]:
    """The public interface as plain data."""
    return {
        "operations": {name: describe_operation(operation) for name, operation in sorted(OPERATIONS.items())},
        "errors": {e.__name__: {"code": e.code, "status": e.status, "exit_code": e.exit_code} for e in tree()},
        "mcp": {
            selection: {name: describe_tool(tool) for name, tool in sorted(build_tools(selection).items())}
            for selection in ("default", "all")
        },
        "commands": dict(sorted(list_commands("memwell", typer.main.get_command(app)))),
        "settings": {PREFIX + setting.name.upper(): str(setting.default) for setting in SETTINGS},
        "python": {name: describe_object(getattr(memwell, name)) for name in sorted(memwell.__all__)},
    }


def describe_operation(operation: Operation) -> dict[str, Any]:
    (request, response), types = build_schemas((operation.request, operation.response), REFERENCE)
    return {
        "route": f"{operation.method} {operation.path}",
        **{flag: getattr(operation, flag) for flag in FLAGS},
        "request": flatten(expand(request, types)),
        "response": flatten(expand(response, types)),
    }


def flatten(schema: dict[str, Any]) -> Any:
    """A line of JSON for each property of an object, so that a difference names it."""
    if "properties" not in schema:
        return json.dumps(schema)
    required = schema.get("required", ())
    return {
        name + ("" if name in required else "?"): json.dumps(value)
        for name, value in sorted(schema["properties"].items())
    }


def describe_tool(tool: Any) -> dict[str, Any]:
    """A tool of `--tools all` repeats the schema of its operation, so only the names of its fields are kept."""
    return {
        "fields": sorted(tool.input_schema.get("properties", {})),
        "required": sorted(tool.input_schema.get("required", ())),
        "operations": [route.operation for route in tool.routes],
        "hints": [tool.read_only, tool.destructive, tool.idempotent],
    }


def expand(schema: Any, types: dict[str, Any], above: tuple[str, ...] = ()) -> Any:
    """A schema without wording, with the types that it refers to written out. A type inside itself is `...`."""
    if isinstance(schema, list):
        return [expand(item, types, above) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "..." if name in above else expand(types[name], types, (*above, name))
    return {
        key: {name: expand(value, types, above) for name, value in item.items()}
        if key == "properties"
        else expand(item, types, above)
        for key, item in sorted(schema.items())
        if key not in ("title", "description", "examples")
    }


def list_commands(name: str, command: Any) -> list[tuple[str, list[str]]]:
    children = getattr(command, "commands", None)
    if not children:
        return [(name, [describe_parameter(p) for p in command.params if p.name != "help"])]
    return [item for child in children for item in list_commands(f"{name} {child}", children[child])]


def describe_parameter(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    default = parameter.default if isinstance(parameter.default, str | int | float) else None
    kind = getattr(parameter.type_descriptor.annotation, "__name__", str(parameter.type_descriptor.annotation))
    parts = [names, kind, parameter.required and "required", parameter.multiple and "multiple"]
    return " ".join(str(part) for part in (*parts, default is not None and f"= {default!r}") if part)


def describe_object(value: Any) -> Any:
    """The public members of a class, with the classes of its properties; the signature of a function."""
    if not isinstance(value, type):
        return describe_signature(value) if callable(value) else type(value).__name__
    if issubclass(value, Exception):
        return [base.__name__ for base in value.__mro__ if base.__module__.startswith("memwell")]
    members = {name: getattr(value, name, None) for name in dir(value) if not name.startswith("_")}
    description = {name: describe_member(member) for name, member in members.items()}
    description |= {name: describe_object(kind) for name, kind in list_handles(value).items()}
    if "__init__" in vars(value):
        description["__init__"] = describe_signature(value.__init__)
    return description


def describe_member(member: Any) -> str:
    if isinstance(member, property):
        return (
            f"-> {inspect.signature(member.fget).return_annotation}".replace("sdk.", "") if member.fget else "property"
        )
    return describe_signature(member) if callable(member) else "attribute"


def describe_signature(function: Any) -> str:
    return str(inspect.signature(function)).replace("sdk.", "")


def list_handles(value: type) -> dict[str, type]:
    """The classes of a client and of its results, such as `AsyncFlow`, found by the module that defines them."""
    if value not in (memwell.Memory, memwell.AsyncMemory):
        return {}
    handles: dict[str, type] = {}
    prefix = value.__module__
    for name, module in sorted(sys.modules.items()):
        if name == prefix or name.startswith(f"{prefix}_"):
            handles |= {n: k for n, k in vars(module).items() if isinstance(k, type) and k.__module__ == name}
    handles = {name: kind for name, kind in handles.items() if not name.startswith("_")}
    handles.pop(value.__name__, None)
    return handles


def sort_keys(text: str) -> str:
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False, sort_keys=True)


def main() -> int:
    present = json.dumps(build_interface(), indent=1, ensure_ascii=False, default=str) + "\n"
    if "--write" in sys.argv:
        GOLDEN.write_text(present, encoding="utf-8")
        return 0
    accepted, present = sort_keys(GOLDEN.read_text(encoding="utf-8")), sort_keys(present)
    changes = list(
        difflib.unified_diff(accepted.splitlines(), present.splitlines(), "accepted", "present", lineterm="", n=4)
    )
    for line in changes[:MAX_LINES]:
        print(line)
    if changes:
        print(f"\nThe public interface has changed ({len(changes)} lines). If that is on purpose, run `make golden`.")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
