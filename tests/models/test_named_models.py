"""Several language models in one server, which documents choose by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid

from ..cases import cases
from ..contract.conftest import Cli, cli
from ..contract.task_documents import done, run, tasks
from ..engines import Memory
from ..scripted import ScriptedServer

__all__ = ["cli"]

pytestmark = pytest.mark.engines("sqlite")


def ask(provider: str | None = None, model_id: str | None = None) -> dict[str, Any]:
    """A workflow with one task that asks a model."""
    settings = {name: one for name, one in {"provider": provider, "model_id": model_id}.items() if one is not None}
    task = {"kind": "task", "action": "ai_generate_text", "bindings": {"model": "chosen"}}
    return tasks(chosen={"kind": "model", "settings": settings}, answer=task)


class Servers:
    """Two servers of different protocols, named in the table, and a third as the default."""

    def __init__(self) -> None:
        self.default = ScriptedServer(["default"])
        self.openai = ScriptedServer(["openai"])
        self.claude = ScriptedServer(["claude"], protocol="anthropic")

    @property
    def table(self) -> str:
        return f"""
            [gemini]
            provider = "openai"
            address = "{self.openai.url}"
            key = "GEMINI_KEY"

            [fast]
            provider = "anthropic"
            model = "claude-fast"
            address = "{self.claude.url}"
            tokens_per_day = 100000
        """


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    found = Servers()
    with found.default, found.openai, found.claude:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:small@{found.default.url}")
        monkeypatch.setenv("MEMWELL_MODELS", found.table)
        monkeypatch.setenv("GEMINI_KEY", "sk-very-secret")
        yield found


@cases(
    ("provider", "model_id", "answer", "model"),
    [
        (None, None, "default", "small"),
        (None, "large", "default", "large"),
        ("openai", None, "default", "small"),
        ("openai", "gpt-5.2", "default", "gpt-5.2"),
        ("gemini", "gemini-3", "openai", "gemini-3"),
        ("fast", None, "claude", "claude-fast"),
        ("fast", "claude-slow", "claude", "claude-slow"),
        ("anthropic", None, "claude", "claude-fast"),
        ("anthropic", "fast", "claude", "claude-fast"),
        ("anthropic", "claude-other", "claude", "claude-other"),
        (None, "fast", "claude", "claude-fast"),
    ],
)
def test_documents_run_on_the_models_that_they_name(
    servers: Servers, tmp_path: Path, provider: str | None, model_id: str | None, answer: str, model: str
) -> None:
    """S3.20: as written, by the name of a line, or by its provider."""
    with Memory(tmp_path, worker=False) as memory:
        document = ask(provider, model_id)
        assert memory.workflows.validate(document).valid
        assert done(memory, document, "Hello") == answer
        server = {"default": servers.default, "openai": servers.openai, "claude": servers.claude}[answer]
        assert server.requests[-1].body["model"] == model
        step = {"step_type": "prompt_call", "provider": provider, "model_id": model_id}
        tree = {"steps": [{name: one for name, one in step.items() if one is not None}]}
        assert memory.workflows.run(tree, "Hello").output == answer
        assert server.requests[-1].body["model"] == model


def test_a_key_is_sent_to_its_own_server_alone(servers: Servers, tmp_path: Path, cli: Cli) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        assert done(memory, ask("gemini", "any"), "Hello") == "openai"
        assert done(memory, ask("fast"), "Hello") == "claude"
        found = run(memory, ask("gemini", "any"), "Hello")
        assert "sk-very-secret" not in str(
            (found, memory.workflows.get(memory.workflows.create(ask("gemini", "x")).id))
        )
    assert servers.openai.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in str(servers.claude.requests[0].headers)
    told = cli("doctor")
    assert "gemini: openai:… at 127.0.0.1" in told.out.replace("\n", " ")
    assert "key from GEMINI_KEY" in " ".join(told.out.split())
    assert "sk-very-secret" not in told.out + told.err


def test_a_provider_that_the_server_lacks_is_refused_before_anything_runs(servers: Servers, tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for document in (ask("mistral", "m"), {"steps": [{"step_type": "prompt_call", "provider": "mistral"}]}):
            with pytest.raises(Invalid, match=r"provider 'mistral', but the server has `default` \(openai\), `gemini`"):
                memory.workflows.run(document, "Hello")
        with pytest.raises(Invalid, match="has no model of its own: set `model_id`"):
            memory.workflows.run(ask("gemini"), "Hello")
        assert memory.workflows.runs() == []


def test_a_document_cannot_evade_the_budget(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of the configured model holds for the models without one of their own."""
    monkeypatch.setenv("MEMWELL_LLM", f"openai:small@{servers.default.url}?tokens_per_day=5")
    with Memory(tmp_path, worker=False) as memory:
        assert "budget" in (run(memory, ask("gemini", "any"), "Hello").error or "")
        assert done(memory, ask("fast"), "Hello") == "claude"


def test_the_configured_model_may_be_a_line_of_the_table(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_LLM", "fast")
    with Memory(tmp_path, worker=False) as memory:
        assert done(memory, ask(), "Hello") == "claude"


def test_a_named_model_needs_no_configured_one(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMWELL_LLM")
    with Memory(tmp_path, worker=False) as memory:
        assert done(memory, ask("fast"), "Hello") == "claude"
        with pytest.raises(Invalid, match=r"the server has none\. Set MEMWELL_LLM"):
            memory.workflows.run(ask(), "Hello")


def test_the_table_may_be_a_file(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models.toml").write_text(servers.table)
    monkeypatch.setenv("MEMWELL_MODELS", str(tmp_path / "models.toml"))
    with Memory(tmp_path / "home", worker=False) as memory:
        assert done(memory, ask("fast"), "Hello") == "claude"


@cases(
    ("table", "reason"),
    [
        ("fast = {", "cannot be read: Invalid"),
        ("missing.toml", "missing.toml cannot be read: No such file"),
        ("fast = 1", "`fast` must be a table with `provider`"),
        ('"a b" = {provider = "openai"}', "`a b` is not a name"),
        ("fast = {}", "`fast`: .*missing required field `provider`"),
        ('fast = {provider = "openia"}', "`provider` is `openai`, `anthropic` or an installed plugin, not 'openia'"),
        ('fast = {provider = "openai", adress = "x"}', "`fast`: .*unknown field `adress`"),
        ('fast = {provider = "openai", model = 5}', "`model`: expected `str`"),
        ('fast = {provider = "openai", timeout_s = 0}', "`timeout_s`: expected"),
        ('fast = {provider = "openai", address = "ftp://x"}', "`fast`: The model's address is not valid"),
        ('fast = {provider = "openai", key = "NOT_SET_KEY"}', "environment variable NOT_SET_KEY, which is not set"),
    ],
)
def test_a_bad_table_is_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, reason: str
) -> None:
    monkeypatch.setenv("MEMWELL_MODELS", table)
    with pytest.raises(Invalid, match=f"MEMWELL_MODELS: .*{reason}|MEMWELL_MODELS {reason}"):
        Memory(tmp_path / "home", worker=False).status()


def test_a_key_in_the_place_of_its_name_is_refused_and_never_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_MODELS", 'fast = {provider = "openai", key = "sk-very-secret"}')
    with pytest.raises(Invalid, match="`key` is the name of an environment variable") as caught:
        Memory(tmp_path / "home", worker=False).status()
    assert "sk-very-secret" not in str(caught.value)
