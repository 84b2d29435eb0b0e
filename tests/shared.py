"""What takes long to make and never changes is made once in a process instead of once in a test.

Only how often it is made differs: the vocabulary of the default model takes 80 ms to read, which every memory does that
embeds something, the commands take 100 ms to put together, which typer's runner does for each that it runs, and the
authorities that a client of HTTP trusts take 40 ms to read, although none here speaks to anybody but 127.0.0.1.
"""

from __future__ import annotations

import copy
import os
import ssl
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import httpx._transports.default
import httpx2._transports.default
import pytest
import typer.main
import typer.testing

from memwell.models import wordllama
from memwell.models.wordllama import CACHE_SIZE, BytePairTokenizer


def share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wordllama, "BytePairTokenizer", _open_tokenizer)
    patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
    for transports in (httpx._transports.default, httpx2._transports.default):
        patch.setattr(transports, "create_ssl_context", _once(transports.create_ssl_context))


def _open_tokenizer(path: Path) -> BytePairTokenizer:
    """The default vocabulary with a cache of its own; a vocabulary from elsewhere is read as ever."""
    if path != wordllama.DATA / wordllama.TOKENIZER:
        return BytePairTokenizer(path)
    tokenizer = copy.copy(_read(path))
    tokenizer._cached_cut = lru_cache(CACHE_SIZE)(tokenizer._cut)
    return tokenizer


_read = cache(BytePairTokenizer)


def _once(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    """One context for all clients that ask for nothing of their own."""

    @cache
    def usual(trust_env: bool, *_: str | None) -> ssl.SSLContext:
        return create(trust_env=trust_env)

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        return usual(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    return context
