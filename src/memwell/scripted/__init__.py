"""Language models that say what they are told: one to hand to code, one behind HTTP. Public as `memwell.testing`."""

from .model import Asked, Fault, Raw, Reply, ScriptedModel, StreamFault, ToolCall, ToolCalls, Worded
from .server import ChatRequest, ScriptedServer

__all__ = [
    "Asked",
    "ChatRequest",
    "Fault",
    "Raw",
    "Reply",
    "ScriptedModel",
    "ScriptedServer",
    "StreamFault",
    "ToolCall",
    "ToolCalls",
    "Worded",
]
