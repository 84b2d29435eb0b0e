"""Many cases in one test: all of them run, and all that fail are listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

MOST = 20


def cases(names: str | Iterable[str], values: Iterable[Any], ids: Any = None) -> Callable[[Callable[..., None]], Any]:
    """Run a test for every case, like `pytest.mark.parametrize`, but as one test.

    For cases that share nothing: fixtures are made once for all of them. `ids` names a case in the list of failures.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    listed = [_values(case, len(arguments)) for case in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for values in listed:
                try:
                    test(**fixtures, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 -- the other cases run all the same
                    label = ids(values[0]) if callable(ids) else ", ".join(repr(value)[:80] for value in values)
                    failures.append(f"{label}: {type(error).__name__}: {str(error)[:400]}")
            if failures:
                shown = "\n".join(failures[:MOST])
                pytest.fail(f"{len(failures)} of {len(listed)} cases failed:\n{shown}", pytrace=False)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if hasattr(case, "values") and hasattr(case, "marks"):  # pytest.param
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)
