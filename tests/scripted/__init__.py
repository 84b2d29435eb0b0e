"""Servers that play a language model or an embedder, and fail in every known way."""

from .embeddings import EmbeddingServer
from .replies import Fault, Raw, Reply, StreamFault, TextReply
from .server import ChatRequest, ScriptedServer

__all__ = ["ChatRequest", "EmbeddingServer", "Fault", "Raw", "Reply", "ScriptedServer", "StreamFault", "TextReply"]
