"""From the setting `MEMWELL_LLM` to a language model."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import NamedTuple
from urllib.parse import parse_qs

from ..errors import Invalid, MemwellError, ModelFailed
from .completer import Completer
from .endpoint import ANTHROPIC

GROUP = "memwell.completers"
TIMEOUT_S = 30.0
BUILT_IN = ("openai", "anthropic")
HOW = (
    "MEMWELL_LLM is `none`, `openai:MODEL`, `openai:MODEL@http://HOST:PORT/v1`, `anthropic:MODEL`, "
    "`anthropic:MODEL@http://HOST:PORT` (with `?timeout_s=30&tokens_per_day=100000` after it, if you like), or the name of "
    "an installed plugin."
)


class Wanted(NamedTuple):
    """Which model, where it is, how long one call to it may take, and how many tokens a tenant may spend on it in a day."""

    kind: str
    model: str
    url: str
    timeout_s: float
    tokens_per_day: int | None = None


def parse_llm(text: str, default_url: str) -> Wanted | None:
    """What the setting says; None: no model. A model's name may hold `@` and `:` itself, but never `@http`.

    The default address is for all that have none of their own.
    """
    kind, _, rest = text.strip().partition(":")
    if kind in ("", "none"):
        return None
    rest, _, options = rest.partition("?")
    name, found, address = rest.rpartition("@http")
    default = ANTHROPIC if kind == "anthropic" else default_url
    wanted = Wanted(kind, name if found else rest, "http" + address if found else default, *_options(options))
    if kind in BUILT_IN and not wanted.model:
        raise Invalid(HOW)
    return wanted


def open_completer(wanted: Wanted, key: str) -> Completer:
    """The model that is wanted. Nothing is sent yet, but importing its package takes half a second."""
    if wanted.kind == "openai":
        from .openai_chat import OpenAIChat

        return OpenAIChat(wanted.model, wanted.url, key)
    if wanted.kind == "anthropic":
        from .anthropic_chat import AnthropicChat

        return AnthropicChat(wanted.model, wanted.url, key)
    return _plugin(wanted)


def _options(options: str) -> tuple[float, int | None]:
    try:
        given = parse_qs(options, strict_parsing=True) if options else {}
        (seconds,) = given.pop("timeout_s", [str(TIMEOUT_S)])
        (tokens,) = given.pop("tokens_per_day", [""])
        timeout_s, per_day = float(seconds), int(tokens) if tokens else None
    except ValueError:
        raise Invalid(HOW) from None
    if given or not 0 < timeout_s <= 600 or (per_day is not None and per_day < 0):
        raise Invalid(HOW)
    return timeout_s, per_day


def _plugin(wanted: Wanted) -> Completer:
    """A factory that another package has registered; it is given the model's name."""
    for found in entry_points(group=GROUP, name=wanted.kind):
        try:
            completer: Completer = found.load()(wanted.model)
        except MemwellError:
            raise
        except Exception as error:  # noqa: BLE001 -- somebody else's code, whose words may hold a key
            raise ModelFailed(f"The plugin {wanted.kind!r} cannot be loaded ({type(error).__name__}).") from None
        return completer
    raise Invalid(HOW)
