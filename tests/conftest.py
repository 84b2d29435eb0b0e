"""Options that all tests share, and the engine that they run on."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import typer.main
import typer.testing
from hatch_build import fetch_models

from memwell.testing import FrozenClock

from .engines import DATABASES, Memory, engines_of
from .postgres_server import base

CHAOS = 200
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds", type=int, default=20, help=f"How often the crash tests kill a process; `make chaos`: {CHAOS}."
    )
    parser.addoption(
        "--all-engines",
        action="store_true",
        help="Run every test that stores something on every engine: `make test-all`.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried on the same examples every time, so that a run speaks of the change; chaos looks further.

    Directories of tests lie in memory where there is room. No test waits for a disk to prove something: a process that is
    killed leaves its files as they are, and a loss of power is played by `conformance/disks.py`.
    """
    if not hasattr(config, "workerinput"):
        fetch_models()  # a checkout that was never installed has no default model yet
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(base(durable=False)))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background, where all that tests start would, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A client of HTTP takes long to read all authorities that it trusts, and none here speaks to anybody but 127.0.0.1.
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("fixtures") / "authority.pem")
    # Typer's runner puts the commands together again for each that it runs.
    vars(typer.testing)["_get_command"] = cache(typer.main.get_command)
    # Few tests are about meaning, and many start processes, which the light model does not delay.
    os.environ.setdefault("MEMWELL_EMBEDDER", "wordllama")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start hundreds of processes: each would compile everything
    hypothesis.settings.register_profile("steady", derandomize=True)
    hypothesis.settings.load_profile("steady" if config.getoption("--rounds") < CHAOS else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark what `make chaos` runs: the folder `chaos`, which takes long, and all that tries more with more rounds."""
    for item in items:
        folder = item.nodeid.split("/")[1]
        if folder == "chaos":
            item.add_marker("long")
        if folder == "chaos" or "rounds" in item.fixturenames or hasattr(item.function, "hypothesis"):
            item.add_marker("chaos")


@pytest.hookimpl(optionalhook=True)
def pytest_collection_finish() -> None:
    """Take what was collected out of the sight of the garbage collector, whose pauses grow with it."""
    gc.collect()
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: there is always one that waits, for another process or a time to pass."""
    return (os.cpu_count() or 1) + 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder = metafunc.module.__name__.split(".")[1]
    directory = not {"tmp_path", "tmp_path_factory"}.isdisjoint(metafunc.fixturenames)
    engines = engines_of(metafunc.definition, folder, directory, metafunc.config.getoption("--all-engines"))
    if engines:
        metafunc.parametrize("engine_name", engines, indirect=True, scope="session")


def pytest_sessionfinish() -> None:
    DATABASES.close()


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--rounds"))


@pytest.fixture(scope="session", autouse=True)
def engine_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine that a test runs on. What lives longer than a test asks for it, so that there is one for each engine."""
    name: str = getattr(request, "param", "sqlite")
    DATABASES.engine = name
    yield name
    DATABASES.engine = "sqlite"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def _databases(engine_name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop the databases of a test once everything in it is closed, and its directory too if there is nothing to see."""
    tmp_path: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if tmp_path is None:
        return
    if engine_name != "sqlite":
        DATABASES.drop(tmp_path)
    if not request.node.stash.get(FAILED, False):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that stands still until it is told otherwise."""
    return FrozenClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Iterator[Memory]:
    """An embedded memory on that clock, whose jobs run when a test says so."""
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        yield memory
