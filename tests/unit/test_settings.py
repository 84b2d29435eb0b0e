"""Requests and responses from the settings of documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, structs

from memwell.core.operation import Request, Response
from memwell.core.settings import Clearable, Fixed, build_settings, create_request, response, update_request

Size = Annotated[int, Meta(ge=1)]


class Box(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    material: Literal["wood", "paper"]
    color: Fixed[str] = "brown"
    size: Size = 10
    depth: Fixed[Size] | None = None
    label: Clearable[Annotated[str, Meta(max_length=5)]] = None
    tags: dict[str, Any] = {}


@create_request(Box)
class CreateBox(Request, frozen=True, kw_only=True):
    """A new box."""

    name: str
    tags: dict[str, Any] | None = None


@update_request(Box, after="box")
class UpdateBox(Request, frozen=True, kw_only=True):
    box: str
    version: int | None = None


@response(Box)
class BoxInfo(Box, Response, frozen=True, kw_only=True):
    id: str
    name: str
    version: int
    warnings: list[str] | None = None


def list_defaults(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {one.name: "required" if one.required else one.default for one in structs.fields(struct)}


def test_a_request_to_create_has_the_defaults_of_the_settings() -> None:
    assert list_defaults(CreateBox) == {
        "name": "required",
        "material": "required",
        "color": "brown",
        "size": 10,
        "depth": None,
        "label": None,
        "tags": None,
    }
    assert CreateBox.__doc__ == "A new box."
    request = msgspec.convert({"name": "a", "material": "wood", "label": "x"}, CreateBox)
    assert build_settings(Box, request, tags={"a": 1}) == Box(material="wood", label="x", tags={"a": 1})
    with pytest.raises(msgspec.ValidationError, match="length <= 5"):
        msgspec.convert({"name": "a", "material": "wood", "label": "longer"}, CreateBox)


def test_a_request_to_update_has_no_fixed_settings_and_requires_none() -> None:
    expected = {"box": "required", "material": None, "size": None, "label": UNSET, "tags": None, "version": None}
    assert list_defaults(UpdateBox) == expected
    with pytest.raises(msgspec.ValidationError, match="unknown field `color`"):
        msgspec.convert({"box": "a", "color": "red"}, UpdateBox)


def test_a_response_has_all_settings_without_limits() -> None:
    required = ("id", "name", "material", "color", "size", "tags", "version")
    assert list_defaults(BoxInfo) == dict.fromkeys(required, "required") | {
        "depth": None,
        "label": None,
        "warnings": None,
    }
    properties = msgspec.json.schema(BoxInfo)["$defs"]["BoxInfo"]["properties"]
    assert properties["material"] == {"type": "string"}
    assert properties["label"]["anyOf"][0] == {"type": "string"}
