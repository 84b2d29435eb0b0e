"""The steps that there are, and their fields. In a document any field may be a template; at run time it must fit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..context.outputs import ContentType

TopN = Annotated[int, Meta(ge=1, le=100)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000)]
Seconds = Annotated[float, Meta(gt=0, le=600)]
Retries = Annotated[int, Meta(ge=0, le=5)]
Minutes = Annotated[int, Meta(ge=0, le=1440)]


class Common(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every step may have."""

    id: str = ""
    name: str | None = None
    purpose: str | None = None
    timeout_s: Seconds | None = None
    retries: Retries = 0
    cache_minutes: Minutes = 0


class AddMemory(Common, frozen=True, kw_only=True):
    """Write an entry (S1.18–S1.33)."""

    memory_bank_id: str
    key: str
    speaker: str | None = None
    content: str | None = None
    entry_metadata: dict[str, Any] | None = None
    output: Literal["content", "input"] = "content"
    compacts: Literal["input"] | None = None


class SearchMemory(Common, frozen=True, kw_only=True):
    """Search a bank (S1.34–S1.47)."""

    memory_bank_id: str
    key: str | None = None
    query: str | None = None
    top_n: TopN = 10
    added_after: str | None = None
    added_before: str | None = None
    filter: dict[str, Any] | None = None
    content_type: ContentType = "application/json"


class LoadMemory(Common, frozen=True, kw_only=True):
    """Load a key in order (S1.48–S1.60)."""

    memory_bank_id: str
    key: str
    order: Literal["newest_first", "oldest_first"] = "newest_first"
    limit: Limit = 100
    content_type: ContentType = "application/json"
    shape: Literal["entries", "array"] = "entries"
    include_compacted: bool = False


class PromptCall(Common, frozen=True, kw_only=True):
    """Ask a language model."""

    prompt_template: str | None = None
    system_template: str | None = None
    use_step_input_as_messages: bool = False
    input_is_messages: bool = False
    temperature: Temperature | None = None
    max_tokens: MaxTokens = 1024

    @property
    def messages(self) -> bool:
        return self.use_step_input_as_messages or self.input_is_messages


class Insight(Common, frozen=True, kw_only=True):
    """Extract facts or preferences, by a language model or by rules."""

    extract: Literal["facts", "preferences"] = "facts"
    prompt_template: str | None = None
    content: str | None = None
    output: Literal["text", "json"] = "text"
    max_tokens: MaxTokens = 1024


class Retrieval(Common, frozen=True, kw_only=True):
    """Search a bank, or what a flow or a user remembers."""

    memory_bank_id: str | None = None
    flow: str | None = None
    user: str | None = None
    query: str | None = None
    top_n: TopN = 20
    filter: dict[str, Any] | None = None
    content_type: ContentType = "application/json"


class Text(Common, frozen=True, kw_only=True):
    """A text with what is known put in."""

    template: str


class Function(Common, frozen=True, kw_only=True):
    """Call a Python function that is registered in this process, with the memory of the run (S2.16)."""

    function: str
    arguments: dict[str, Any] | None = None


class StreamingResult(Common, frozen=True, kw_only=True):
    """Hand the answer of the prompt above to whoever waits, as it comes."""


class DisplayResult(Common, frozen=True, kw_only=True):
    """Hand the input to whoever waits."""


KINDS: dict[str, type[Common]] = {
    "add_memory": AddMemory,
    "search_memory": SearchMemory,
    "load_memory": LoadMemory,
    "prompt_call": PromptCall,
    "insight": Insight,
    "retrieval": Retrieval,
    "text": Text,
    "function": Function,
    "streaming_result": StreamingResult,
    "display_result": DisplayResult,
}
ALIASES = {"add_chat_turn": "add_memory", "load_chat_history": "load_memory"}
LEAVES = ("streaming_result", "display_result")
"""Steps that have no children."""
