"""Python functions that apps and workflows may call by name: those that the process itself has registered, and no others."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, overload

from ..errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[\w.-]{1,200}")
_registered: dict[str, Callable[..., Any]] = {}
_loaded: set[str] = set()
_lock = Lock()


@overload
def function(given: F) -> F: ...


@overload
def function(given: str) -> Callable[[F], F]: ...


def function(given: Any) -> Any:
    """Register a function under its own name, or under another: `@function` or `@function("reply")`.

    It is called with the message, and with `memory` if it has a parameter of that name: `get_content`, `set_content` and
    `delete_content`, bound to the app, the user and the session of the run. One that is `async` awaits them.
    """
    if isinstance(given, str):
        return lambda made: register(given, made)
    return register(given.__name__, given)


def register(name: str, made: F) -> F:
    """Register a function; the same name again takes its place."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:100]!r} cannot name a function: use letters, digits, '_', '-' and '.'.")
    with _lock:
        _registered[name] = made
    return made


def unregister(name: str) -> None:
    with _lock:
        _registered.pop(name, None)


def load_modules(modules: str) -> None:
    """Import modules that register functions, with commas between their names, each once."""
    for module in filter(None, map(str.strip, modules.split(","))):
        if module in _loaded:
            continue
        try:
            importlib.import_module(module)
        except Exception as error:
            raise Invalid(
                f"The module {module!r} of MEMWELL_FUNCTIONS cannot be imported: {type(error).__name__}: {error}."
            ) from error
        _loaded.add(module)


def require_function(name: str, modules: str = "") -> Callable[..., Any]:
    """A registered function. The modules, with commas between, are imported first: what they register counts as well."""
    load_modules(modules)
    found = _registered.get(name)
    if found is None:
        known = ", ".join(sorted(_registered)[:20]) or "none"
        raise Invalid(
            f"There is no registered function {name[:100]!r} in this process (there are: {known}). Register it with "
            "`@memwell.function`, and name its module in MEMWELL_FUNCTIONS where a server is to know it."
        )
    return found
