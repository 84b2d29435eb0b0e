"""`python -m bench.jsonata SUITE FOLDER`: the conformance and speed of the Python ports of JSONata.

SUITE is a file of conformance cases. FOLDER holds one folder for each port, made with `pip install --target FOLDER/NAME NAME`:
several of them use the same module name, so each is measured in its own process, which may crash or hang.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from statistics import median
from threading import Thread
from typing import IO, Any

LONGEST_S = 10.0
UNDEFINED = object()
Run = Callable[[str, Any, dict[str, Any]], Any]

SMALL = {
    "a path": "$input.customer.name",
    "a greeting": "'Hello ' & ($input.customer.name ? $input.customer.name : 'there')",
    "a sum": "$sum($input.lines.(price * quantity))",
}
SCOPE = {"input": {"customer": {"name": "Ada"}, "lines": [{"price": n, "quantity": 2} for n in range(10)]}}


def jsonata_python() -> Run:
    module = importlib.import_module("jsonata")
    nulls = module.Utils.convert_nulls

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        compiled = module.Jsonata(source)
        compiled.set_output_convert_nulls(False)
        found = compiled.evaluate(None if data is UNDEFINED else data, bindings)
        return UNDEFINED if found is None else nulls(found)

    return run


def jsonata_rs() -> Run:
    module = importlib.import_module("jsonata")

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        compiled = module.Jsonata(source)
        compiled.set_output_convert_nulls(False)
        found = compiled.evaluate(*(() if data is UNDEFINED else (data,)), bindings=bindings)
        return UNDEFINED if found is module.UNDEFINED else found

    return run


def jsonatapy() -> Run:
    module = importlib.import_module("jsonatapy")

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        text = None if data is UNDEFINED else json.dumps(data)
        found = module.compile(source).evaluate_json_or_none(text, bindings)
        return UNDEFINED if found is None else json.loads(found)

    return run


def jsonata2py() -> Run:
    module = importlib.import_module("jsonata2py")

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        bound = module.JsonataBindings()
        for name, value in bindings.items():
            bound.bind_value(name, value)
        found = module.compile(source).evaluate(module.MISSING if data is UNDEFINED else data, bound)
        return UNDEFINED if found is module.MISSING else found

    return run


def zopyx() -> Run:
    module = importlib.import_module("zopyx.pyjsonata")

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        found = module.evaluate(source, module.UNDEFINED if data is UNDEFINED else data, bindings)
        return UNDEFINED if found is module.UNDEFINED else found

    return run


def jsonata_wrapper() -> Run:
    context = importlib.import_module("jsonata").Context()

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        try:
            return context(_with(source, bindings), None if data is UNDEFINED else data)
        except KeyError:
            return UNDEFINED

    return run


def jsonatago() -> Run:
    module = importlib.import_module("jsonatago")

    def run(source: str, data: Any, bindings: dict[str, Any]) -> Any:
        found = module.jeval(None if data is UNDEFINED else data, _with(source, bindings), raw=True)
        return UNDEFINED if found is None else json.loads(found)

    return run


PORTS: dict[str, Callable[[], Run]] = {
    "jsonata-python": jsonata_python,
    "jsonata-rs": jsonata_rs,
    "jsonatapy": jsonatapy,
    "jsonata2py": jsonata2py,
    "zopyx.pyjsonata": zopyx,
    "jsonata": jsonata_wrapper,
    "jsonatago": jsonatago,
}


def _with(source: str, bindings: dict[str, Any]) -> str:
    """For ports without bindings."""
    given = "".join(f"${name} := {json.dumps(value)}; " for name, value in bindings.items())
    return f"({given}{source})" if given else source


def judged(run: Run, case: dict[str, Any], datasets: dict[str, Any]) -> str:
    """Return `right`, `code` (the expected failure with another code), `wrong`, `missed` (no failure) or `raised`."""
    named = case.get("dataset")
    data = datasets[named] if named is not None else case.get("data", UNDEFINED)
    fails = "code" in case or "error" in case
    try:
        found = run(case["expr"], data, case.get("bindings") or {})
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 -- panics of native ports are no Exceptions
        if not fails:
            return "raised"
        wanted = case.get("code") or case["error"].get("code", "")
        return "right" if wanted in f"{error} {vars(error) if hasattr(error, '__dict__') else ''}" else "code"
    if fails:
        return "missed"
    if case.get("undefinedResult"):
        return "right" if found is UNDEFINED else "wrong"
    wanted = case["result"]
    if case.get("unordered") and isinstance(found, list):
        found, wanted = sorted(found, key=json.dumps), sorted(wanted, key=json.dumps)
    return "right" if alike(found, wanted) else "wrong"


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=1e-12)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    return bool(left == right)


def child(suite: Path, name: str, first: int) -> None:
    """Judge each case, then measure the small ones. This runs in the port's process."""
    cases, datasets = _read(suite)
    with os.fdopen(os.dup(1), "w") as told, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # some ports print
        run = PORTS[name]()
        for case in cases[first:]:
            print(judged(run, case, datasets), file=told, flush=True)
        for what, source in SMALL.items():
            print(f"{what}: {_took_us(run, source):.0f} us", file=told, flush=True)


def _took_us(run: Run, source: str) -> float:
    """Parse and evaluate. No text is repeated, because some ports cache parsed expressions."""
    took = []
    for number in range(300):
        text = f"/* {number} */ {source}"
        started = time.perf_counter()
        found = run(text, UNDEFINED, SCOPE)
        took.append(time.perf_counter() - started)
        assert found is not UNDEFINED
    return median(took) * 1e6


def verdicts(suite: Path, folder: Path, name: str, count: int) -> Iterator[str]:
    """Return the results of the child for each case and for the small expressions. Restart a child that crashes or hangs."""
    first = 0
    while first < count:
        for said in _said(suite, folder, name, first):
            yield said
            first += 1


def _said(suite: Path, folder: Path, name: str, first: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.jsonata", str(suite), str(folder), "--port", name, "--first", str(first)]
    environment = {**os.environ, "PYTHONPATH": str(folder / name)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines: Queue[str] = Queue()
        Thread(target=_read_lines, args=(process.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=LONGEST_S)
            except Empty:
                process.kill()
                yield "hung"
                return
            if not line:
                break
            yield line.strip()
    if process.returncode:
        yield "crashed"


def _read_lines(stream: IO[str], lines: Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def measured(suite: Path, folder: Path, name: str) -> str:
    cases, _ = _read(suite)
    said = list(verdicts(suite, folder, name, len(cases)))
    for case, verdict in zip(cases, said, strict=False):
        if verdict not in ("right", "code"):
            print(f"  {name}: {verdict}: {case['case']}: {case['expr'][:100]!r}", file=sys.stderr)
    tally = Counter(said[: len(cases)])
    parts = [f"{tally.pop(kind)} {kind}" for kind in ("right", "code") if kind in tally]
    parts += [f"{number} {kind}" for kind, number in sorted(tally.items())]
    size = sum(file.stat().st_size for file in (folder / name).rglob("*") if file.suffix != ".pyc") / 1e6
    parts += [*said[len(cases) :], f"import {_import_ms(folder, name):.0f} ms", f"{size:.1f} MB"]
    return f"{name}: {', '.join(parts)}"


def _import_ms(folder: Path, name: str) -> float:
    module = {"jsonata-python": "jsonata", "jsonata-rs": "jsonata"}.get(name, name)
    took = []
    for imported in ("sys", module) * 5:
        started = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(folder / name)}
        subprocess.run([sys.executable, "-c", f"import {imported}"], env=environment, check=True)
        took.append(time.perf_counter() - started)
    return (median(took[1::2]) - median(took[::2])) * 1e3


def _read(suite: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return all cases except those about limits of time and depth, which belong to the host and not to the language."""
    found = json.loads(suite.read_text(encoding="utf-8"))
    return [case for case in found["cases"] if not ("timelimit" in case and "code" in case)], found["datasets"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jsonata", description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", choices=sorted(PORTS))
    parser.add_argument("--first", type=int)
    given = parser.parse_args()
    if given.first is not None:
        child(given.suite, given.port, given.first)
        return
    for name in [given.port] if given.port else PORTS:
        if (given.folder / name).is_dir():
            print(measured(given.suite, given.folder, name), flush=True)


if __name__ == "__main__":
    main()
