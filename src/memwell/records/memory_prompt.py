"""Working memory: the values of memory definitions as a model reads them, and the tool by which it changes them (S3.29–S3.37).

What is stored is data: a value that spans lines, or a name that does, is written as a JSON string, so that it can forge
neither a heading nor a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..text.fence import encode_compact, is_loud, render_line
from .schema_tree import ROOT, map_schema

HEADING = "# Working Memory"
TOOL = "update_memory"
TOOL_DESCRIPTION = (
    "Save stable facts and preferences to working memory. Give only the memories that change. {how} Do not store secrets, "
    "payment details or one-time message content."
)
_HOW = {
    "replace": "The value you give for a memory becomes its new value: include the fields to keep.",
    "merge": "Omitted fields stay as they are.",
    "both": "For {merged}, omitted fields stay as they are; for the others, the value you give becomes the new value.",
}
REFERENCE = "$ref"


class Section(NamedTuple):
    """The value of one definition."""

    slug: str
    name: str
    schema: Mapping[str, Any]
    value: Mapping[str, Any] | None
    merges: bool = False


def render_memory(sections: Iterable[Section]) -> str:
    """Return the values under their headings; an empty text if there are none."""
    told = [_render_section(one) for one in sections if one.value]
    return "\n".join([HEADING, "\n\n".join(told)]) if told else ""


def append_memory(system: str | None, memory: str) -> str:
    """Return system instructions followed by the working memory."""
    return "\n\n".join(part for part in (system, memory) if part)


def build_tool_schema(sections: Sequence[Section], schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of the tool: a value for each of these definitions (S3.32, S3.34)."""
    values = {
        one.slug: _nest_schema(schemas[one.slug], f"#/properties/memory/properties/{one.slug}") for one in sections
    }
    memory = {"type": "object", "properties": values, "additionalProperties": False}
    return {"type": "object", "properties": {"memory": memory}, "required": ["memory"], "additionalProperties": False}


def render_tool_description(sections: Sequence[Section]) -> str:
    merged = [one.slug for one in sections if one.merges]
    if merged and len(merged) < len(sections):
        return TOOL_DESCRIPTION.format(how=_HOW["both"].format(merged=", ".join(merged)))
    return TOOL_DESCRIPTION.format(how=_HOW["merge" if merged else "replace"])


def to_label(name: str) -> str:
    """Convert a name to a label: `preferred_name` to `Preferred name` (C20)."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:] if words else name


def _render_section(one: Section) -> str:
    properties = one.schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    value = one.value or {}
    order = [name for name in known if name in value] + [name for name in value if name not in known]
    lines = [f"- {_label(name, known.get(name))}: {render_line(value[name])}" for name in order]
    return "\n".join([f"## {render_line(one.name)}", *lines])


def _label(name: str, schema: Any) -> str:
    title = schema.get("title") if isinstance(schema, Mapping) else None
    label = render_line(title if isinstance(title, str) and title.strip() else to_label(name))
    return encode_compact(label) if is_loud(label) else label


def _nest_schema(schema: Mapping[str, Any], place: str) -> Any:
    """Return a schema as a part of another one, with its references adjusted."""
    return map_schema(dict(schema), lambda one: _move_reference(one, place))


def _move_reference(one: dict[str, Any], place: str) -> dict[str, Any]:
    reference = one.get(REFERENCE)
    return {**one, REFERENCE: place + reference.removeprefix(ROOT)} if isinstance(reference, str) else one
