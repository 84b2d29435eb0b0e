"""Every setting: its name, default and meaning. This is the only file that reads the environment.

Policy (how long to keep, how to group) is data in the store, not configuration.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .errors import Invalid

PREFIX = "MEMWELL_"
_ALSO = {"openai_api_key": "OPENAI_API_KEY"}
_KEYS = {"anthropic_api_key": "ANTHROPIC_API_KEY"}
"""Settings without the prefix: these keys have customary names."""


class Setting(NamedTuple):
    """The declaration of a setting."""

    name: str
    kind: type
    default: Any
    help: str


SETTINGS = (
    Setting("home", str, "~/.memwell", "The data directory, or the address of a database: `postgresql://…`."),
    Setting("tenant", str, "default", "The tenant that an embedded memory opens."),
    Setting("url", str, "", "The server that the command line and `Memory()` talk to; empty: the data directory."),
    Setting("api_key", str, "", "The key for that server."),
    Setting("host", str, "127.0.0.1", "The address that the server binds."),
    Setting("port", int, 8420, "The port that the server binds."),
    Setting("durability", str, "full", "`full`: an acknowledged write survives power loss. `relaxed`: only a crash."),
    Setting("worker", bool, True, "Run background jobs in this process (embedded memory and server)."),
    Setting("open_tenants", int, 64, "Tenants whose files stay open at once."),
    Setting("connections", int, 16, "Largest number of connections to PostgreSQL per process."),
    Setting("max_body", int, 16 * 1024 * 1024, "The largest request body that the server reads, in bytes."),
    Setting("request_timeout_s", float, 30.0, "Seconds until the server gives up on a request."),
    Setting("rate_limit", int, 500, "Requests per second and key that the server allows; 0: no limit."),
    Setting(
        "time_zone",
        str,
        "UTC",
        "The time zone of days such as `2026-04-19` or `yesterday`, and of times without one: a name such as `Europe/Lisbon`.",
    ),
    Setting("log_level", str, "info", "`debug`, `info`, `warning` or `error`. Logs never hold content."),
    Setting(
        "embedder",
        str,
        "minilm",
        "The embedding model of search: `minilm`, or `wordllama` which is lighter and faster (both offline), `none`, "
        "`onnx:DIRECTORY`, `openai:MODEL`, "
        "`fastembed:MODEL`, or a plugin's name.",
    ),
    Setting("embedder_url", str, "https://api.openai.com/v1", "The OpenAI-compatible server of `openai:MODEL`."),
    Setting("openai_api_key", str, "", "The key for that server; also OPENAI_API_KEY."),
    Setting(
        "llm",
        str,
        "none",
        "The language model that reviews facts: `none`, `openai:MODEL`, `openai:MODEL@URL`, `anthropic:MODEL`, "
        "`anthropic:MODEL@URL` (perhaps with `?timeout_s=60&tokens_per_day=100000` after it), or a plugin's name. Its key "
        "is `openai_api_key`, or for Anthropic ANTHROPIC_API_KEY. It may also be a name in `models`.",
    ),
    Setting(
        "models",
        str,
        "",
        "More language models, which workflows choose by name: a TOML table, or the path of a file with one (`….toml`). Each "
        "line has a `provider`, and perhaps `model`, `address`, `key` (the name of an environment variable), `timeout_s` and "
        "`tokens_per_day`.",
    ),
    Setting("index_memory", int, 1024**3, "Bytes of memory for the vectors of search."),
    Setting(
        "functions",
        str,
        "",
        "Python modules that register functions for apps and workflows, separated by commas; they are imported when one is "
        "first called.",
    ),
    Setting(
        "profile",
        str,
        "",
        "File in which `memwell login` keeps the address and key of the server. Default: `memwell/login.json` in "
        "XDG_CONFIG_HOME, or in `~/.config`.",
    ),
)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings, read once."""

    home: str
    tenant: str
    url: str
    api_key: str = field(repr=False)
    host: str
    port: int
    durability: Literal["full", "relaxed"]
    worker: bool
    open_tenants: int
    connections: int
    max_body: int
    request_timeout_s: float
    rate_limit: int
    time_zone: str
    log_level: str
    embedder: str
    embedder_url: str
    openai_api_key: str = field(repr=False)
    llm: str
    models: str
    index_memory: int
    functions: str
    profile: str
    anthropic_api_key: str = field(default="", repr=False)

    @property
    def on_postgres(self) -> bool:
        """True if the memory is in a database, not in a directory."""
        return self.home.startswith(("postgresql://", "postgres://"))

    @property
    def home_without_password(self) -> str:
        """The data directory, or the address of the database without its password."""
        if not self.on_postgres:
            return str(self.home_path)
        bare, _, _ = self.home.partition("?")
        if "@" in self.home and "@" not in bare:  # a question mark in a password: its end is unknown
            return "postgresql://…"
        return "postgresql://" + bare.rpartition("@")[2].rpartition("://")[2]

    def llm_key(self, kind: str) -> str:
        """The key for a language model of this kind."""
        return self.anthropic_api_key if kind == "anthropic" else self.openai_api_key

    def read_key(self, variable: str) -> str:
        """Read a key from the environment variable that the table of models names."""
        return os.environ.get(variable, "")

    @property
    def zone(self) -> tzinfo:
        """The time zone of days. Raise Invalid if it is not known."""
        if self.time_zone.upper() in ("UTC", "Z"):
            return UTC
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(self.time_zone)
        except (OSError, ValueError, KeyError):
            raise Invalid(
                f"MEMWELL_TIME_ZONE={self.time_zone[:100]!r} is not a time zone: give a name such as `Europe/Lisbon`, or `UTC`."
            ) from None

    @property
    def home_path(self) -> Path:
        return Path(self.home).expanduser()

    @property
    def profile_path(self) -> Path:
        return Path(self.profile).expanduser() if self.profile else _config_folder() / "memwell" / "login.json"


def _config_folder() -> Path:
    """The directory of a person's settings. As its specification says, a relative XDG_CONFIG_HOME is ignored."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return folder if folder.is_absolute() else Path("~/.config").expanduser()


def is_set(name: str) -> bool:
    """Return True if the environment has this setting."""
    return bool(os.environ.get(PREFIX + name.upper()))


def load(**given: Any) -> Config:
    """Read the settings from the environment; arguments take precedence."""
    values = {setting.name: _value(setting, given.get(setting.name)) for setting in SETTINGS}
    values |= {name: given.get(name) or os.environ.get(variable, "") for name, variable in _KEYS.items()}
    if values["durability"] not in ("full", "relaxed"):
        raise Invalid("MEMWELL_DURABILITY is either `full` or `relaxed`.")
    if values["log_level"] not in ("debug", "info", "warning", "error"):
        raise Invalid("MEMWELL_LOG_LEVEL is `debug`, `info`, `warning` or `error`.")
    if not 0 < values["port"] < 65536:
        raise Invalid(f"{values['port']} is not a port: choose one from 1 to 65535.")
    return Config(**values)


def _value(setting: Setting, given: Any) -> Any:
    if given is not None:
        return given
    name = PREFIX + setting.name.upper()
    text = os.environ.get(name) or os.environ.get(_ALSO.get(setting.name, ""))
    if text is None or text == "":
        return setting.default
    try:
        return _switch(text) if setting.kind is bool else setting.kind(text)
    except ValueError:
        raise Invalid(f"{name}={text!r} is not valid. {setting.help}") from None


def _switch(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)
