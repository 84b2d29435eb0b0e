"""What reading every kind of document has in common: its name, its banks, and fields that there are not or that do not fit."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from .. import typed
from ..dialects.banks import CreateBank
from ..model.yaml import Path
from .problems import Problems

MAX_NAME = 255
MAX_BANKS = 200


class Reading:
    """A document being read, with what is wrong so far."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def _heading(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """The name and the description; a name that cannot be is none."""
        name, description = value.get("name", "workflow"), value.get("description")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            self._wrong(("name",), f"it must be a text of 1 to {MAX_NAME} characters.")
            name = ""
        if not isinstance(description, str | None):
            self._wrong(("description",), "it must be a text.")
            description = None
        return name, description

    def _read_banks(self, value: Any) -> dict[str, dict[str, Any]]:
        """The banks that are made when they are first needed, by their names."""
        found: dict[str, dict[str, Any]] = {}
        if not isinstance(value, dict | None):
            self._wrong(("memory_banks",), "it must give settings by the names of banks.")
            return found
        if len(value or {}) > MAX_BANKS:
            self._wrong(("memory_banks",), f"there are more than {MAX_BANKS} banks.")
            return found
        for name, settings in (value or {}).items():
            path = ("memory_banks", name)
            if isinstance(settings, dict | None):
                found[name] = settings or {}
                self._bank(name, settings or {}, path)
            else:
                self._wrong(path, "it must be settings of a bank.")
        return found

    def _bank(self, name: str, settings: dict[str, Any], path: Path) -> None:
        """The settings are those of `banks.create`; the name is the one that they stand under."""
        known = {field: kind for field, kind in types(CreateBank).items() if field != "name"}
        self._unknown(settings, tuple(known), path)
        self._fits(name, types(CreateBank)["name"], path)
        for field, kind in known.items():
            if field in settings:
                self._fits(settings[field], kind, (*path, field))

    def _fits(self, value: Any, kind: Any, path: Path) -> bool:
        """Whether a value is what it must be; otherwise it is noted."""
        try:
            typed.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            self._wrong(path, f"{reason[:1].lower()}{reason[1:]}.")
            return False
        return True

    def _unknown(self, given: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
        for name in given:
            if name not in known and not self._problems.full:
                self._wrong((*path, name), f"there is no such field. The fields are {', '.join(known)}.")

    def _wrong(self, path: Path, reason: str) -> None:
        self._problems.add(path, reason)


@cache
def types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@cache
def required(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
