"""Python functions that apps and workflows may call by name. The process must have registered them."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[\w.-]{1,200}")
_registered: dict[str, Callable[..., Any]] = {}
_loaded: set[str] = set()


@overload
def function(given: F) -> F: ...


@overload
def function(given: str) -> Callable[[F], F]: ...


def function(given: Any) -> Any:
    """Register a function under its own name, or under another: `@function` or `@function("reply")`.

    It gets the message, and `memory` if it has a parameter of that name: `get_content`, `set_content`, `delete_content`, `search`
    and `files`, bound to the app, the user and the session of the run. An `async` function awaits them.
    """
    if isinstance(given, str):
        return lambda body: register(given, body)
    return register(given.__name__, given)


def register(name: str, body: F) -> F:
    """Register a function, or replace the one of that name."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:100]!r} cannot name a function: use letters, digits, '_', '-' and '.'.")
    _registered[name] = body
    return body


def load_modules(modules: str) -> None:
    """Import modules that register functions, each once. Their names are separated by commas. They may be in the current folder,
    which comes last, so that its files replace no installed module."""
    for module in filter(None, map(str.strip, modules.split(","))):
        if module in _loaded:
            continue
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(module)
        except Exception as error:
            raise Invalid(
                f"The module {module!r} of MEMWELL_FUNCTIONS cannot be imported: {type(error).__name__}: {error}."
            ) from error
        _loaded.add(module)


def require_function(name: str, modules: str = "") -> Callable[..., Any]:
    """Return a registered function, or raise. The modules, separated by commas, are imported first."""
    load_modules(modules)
    found = _registered.get(name)
    if found is None:
        known = ", ".join(sorted(_registered)[:20]) or "none"
        raise Invalid(
            f"There is no registered function {name[:100]!r} in this process (there are: {known}). Register it with "
            "`@memwell.function`, and for a server add its module to MEMWELL_FUNCTIONS."
        )
    return found
