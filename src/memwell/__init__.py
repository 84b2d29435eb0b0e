"""Memwell: memory for AI agents."""

from .version import __version__

__all__ = ["__version__"]
