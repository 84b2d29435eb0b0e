"""The language models of a server: the one that `MEMWELL_LLM` chooses, and those that the table `MEMWELL_MODELS` names.

A document chooses a provider and a model by their names. Addresses and keys are those of the server, never of a document.
"""

from __future__ import annotations

import re
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .. import typed
from ..config import Config
from ..errors import Invalid
from .chat import check_url, get_host
from .completer import ANTHROPIC_URL, BUILT_IN, GROUP, Completer, LLMConfig, default_timeout, open_completer, parse_llm

MAX_NAMED = 100
MAX_OPEN = 32
"""Largest number of open models besides the configured one."""
OPENAI_URL = "https://api.openai.com/v1"
_SETTING = "MEMWELL_MODELS"
_NAME = re.compile(r"[\w.:-]{1,256}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USAGE = (
    'It is a TOML table, or the path of a file with one (`….toml`). A line is such as `local = {provider = "openai", '
    'model = "qwen3:8b", address = "http://127.0.0.1:11434/v1", key = "LOCAL_API_KEY"}`.'
)


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the table."""

    provider: str
    model: str = ""
    address: str = ""
    key: str = ""
    timeout_s: Annotated[float, Meta(gt=0, le=600)] | None = None
    tokens_per_day: Annotated[int, Meta(ge=0)] | None = None


class Source(NamedTuple):
    """A model, perhaps without its name, and the environment variable that has its key; empty for the customary one."""

    config: LLMConfig
    variable: str | None = None

    @property
    def is_complete(self) -> bool:
        """True if it has a model. A plugin is one model, which needs no name."""
        return self.config.kind not in BUILT_IN or bool(self.config.model)

    def describe(self) -> str:
        config = self.config
        where = f" at {get_host(config.url)}" if config.kind in BUILT_IN else ""
        key = f", key from {self.variable}" if self.variable else ""
        return f"{config.kind}:{config.model or '…'}{where}{key}"


def parse_models(config: Config) -> dict[str, Source]:
    """Parse the table. Every mistake is an error that names its line."""
    found: dict[str, Source] = {}
    for name, line in _read_table(config.models).items():
        where = f"{_SETTING}: `{name[:100]}`"
        if not _NAME.fullmatch(name):
            raise Invalid(f"{where} is not a name: use letters, digits, `_`, `-`, `.` and `:`.")
        if not isinstance(line, dict):
            raise Invalid(f"{where} must be a table with `provider`. {_USAGE}")
        try:
            found[name] = _to_source(typed.convert(line, _Line), config)
        except msgspec.ValidationError as error:
            reason, _, field = str(error).partition(" - at `$.")  # which ends with a backtick
            raise Invalid(f"{where}: {field and f'`{field}: '}{reason[:1].lower()}{reason[1:]}. {_USAGE}") from None
        except Invalid as error:
            raise Invalid(f"{where}: {error.message}") from None
    return found


def _read_table(text: str) -> Mapping[str, Any]:
    where = _SETTING
    if text.endswith(".toml") and "\n" not in text:
        where = f"{_SETTING}: {text}"
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
            raise Invalid(f"{where} cannot be read: {reason}.") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{where} cannot be read: {error}. {_USAGE}") from None
    if len(table) > MAX_NAMED:
        raise Invalid(f"{where} has more than {MAX_NAMED} models.")
    return table


def _to_source(line: _Line, config: Config) -> Source:
    if not _is_kind(line.provider):
        raise Invalid(f"`provider` is `openai`, `anthropic` or an installed plugin, not {line.provider[:100]!r}.")
    if line.key and not _VARIABLE.fullmatch(line.key):  # it may be a key: never repeat it
        raise Invalid("`key` is the name of an environment variable, such as OPENAI_API_KEY, and not the key itself.")
    if line.key and not config.read_key(line.key):
        raise Invalid(f"`key` names the environment variable {line.key}, which is not set.")
    url = check_url(line.address) if line.address else ANTHROPIC_URL if line.provider == "anthropic" else OPENAI_URL
    variable = line.key or ("" if line.address else None)
    return Source(
        LLMConfig(line.provider, line.model, url, line.timeout_s or default_timeout(url), line.tokens_per_day), variable
    )


def _is_kind(provider: str) -> bool:
    """Return True for a protocol that this program speaks, or an installed plugin."""
    return provider in BUILT_IN or bool(entry_points(group=GROUP, name=provider))


class Models:
    """Opens models at their first use. Each is opened once, and the one that was not used for longest is closed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.named = parse_models(config)
        self._open: OrderedDict[Source, Completer] = OrderedDict()
        self._lock = Lock()
        self._default: Source | None = self.named.get(config.llm)
        if self._default is None and (wanted := parse_llm(config.llm, config.embedder_url)) is not None:
            self._default = Source(wanted)
        if self._default is not None and not self._default.is_complete:
            raise Invalid(f"MEMWELL_LLM is {config.llm!r}, which has no `model` in {_SETTING}.")

    @property
    def default(self) -> tuple[Completer, LLMConfig] | None:
        """The configured model, if any."""
        return None if self._default is None else self._require(self._default)

    @property
    def sources(self) -> dict[str, Source]:
        """All models by name; the configured one is called `default`."""
        return {**({} if self._default is None else {"default": self._default}), **self.named}

    def find(self, provider: str | None, model_id: str | None) -> Source | None:
        """Return the model that a document names; None if it names none and the server has none. Raise an error if the server
        does not have it."""
        source = self._find_named(provider, model_id) or self._find_of_kind(provider)
        if source is None:
            if provider is None or (not self.sources and _is_kind(provider)):
                return None
            raise Invalid(self._explain_missing(provider))
        config = source.config
        if model_id is not None and config.kind in BUILT_IN and self.named.get(model_id) != source:
            config = config._replace(model=model_id)
        if config.tokens_per_day is None and self._default is not None:  # so that no document evades the budget
            config = config._replace(tokens_per_day=self._default.config.tokens_per_day)
        source = source._replace(config=config)
        if not source.is_complete:
            raise Invalid(f"The provider {provider!r} has no model of its own: set `model_id` in the document.")
        return source

    def open(self, provider: str | None, model_id: str | None) -> tuple[Completer, LLMConfig] | None:
        """Open the model that a document names; None if there is none."""
        source = self.find(provider, model_id)
        return None if source is None else self._require(source)

    def close(self) -> None:
        for completer in self._open.values():
            _hang_up(completer)

    def _find_named(self, provider: str | None, model_id: str | None) -> Source | None:
        """Return a model of the table: by its name, or by its provider together with its own name or its model's."""
        if provider in self.named:
            return self.named[provider]
        for name, source in self.named.items():
            if provider == source.config.kind and model_id in (name, source.config.model):
                return source
        return self.named.get(model_id or "") if provider is None else None

    def _find_of_kind(self, provider: str | None) -> Source | None:
        """Return the configured model if it is of this kind, or the only one of the table that is. A plugin is one model,
        whatever the document asks for."""
        default = self._default
        if default is not None and (default.config.kind not in BUILT_IN or provider in (None, default.config.kind)):
            return default
        found = [source for source in self.named.values() if source.config.kind == provider]
        if len(found) > 1:
            raise Invalid(
                f"Several models of the server are of the provider {provider!r}: {self._list_names()}. Name one."
            )
        return found[0] if found else None

    def _explain_missing(self, provider: str) -> str:
        known = f"the server has {self._list_names()}" if self.sources else "there is none of this name"
        return (
            f"This workflow needs the provider {provider[:100]!r}, but {known}. Add it to {_SETTING}, or change `provider` in "
            "the document."
        )

    def _list_names(self) -> str:
        return ", ".join(f"`{name}` ({source.config.kind})" for name, source in self.sources.items())

    def _require(self, source: Source) -> tuple[Completer, LLMConfig]:
        with self._lock:
            completer = self._open.get(source)
            if completer is None:
                completer = self._open[source] = open_completer(source.config, self._find_key(source))
            self._open.move_to_end(source)
            others = [one for one in self._open if one not in (self._default, source)]
            evicted = self._open.pop(others[0]) if len(others) >= MAX_OPEN else None
        if evicted is not None:
            _hang_up(evicted)
        return completer, source.config

    def _find_key(self, source: Source) -> str:
        if source.variable is None:
            return self._config.llm_key(source.config.kind)
        return self._config.read_key(source.variable) if source.variable else ""


def _hang_up(completer: Completer) -> None:
    """Close the connections of a model after its running calls."""
    close: Any = getattr(completer, "close", lambda: None)
    close()
