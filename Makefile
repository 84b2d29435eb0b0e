# Everything a developer or CI runs. `make serve` and `make test` set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
INSTALL := python -m pip install --quiet --disable-pip-version-check
PEERS := .venv-peers
AUDIT := .venv-audit

.PHONY: help setup serve test test-all check format golden bench bench-peers chaos trials audit sbom wheel lock clean

help:  ## Show what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/' | expand -t 13

$(RUNTIME): requirements-runtime.lock pyproject.toml hatch_build.py hatch_minilm.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(INSTALL) --require-hashes -r requirements-runtime.lock
	$(BIN)/$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMP): requirements.lock $(RUNTIME)
	$(BIN)/$(INSTALL) --require-hashes -r requirements.lock
	@touch $@

setup: $(STAMP)  ## Make the virtual environment for development.

serve: $(RUNTIME)  ## Start a server on 127.0.0.1:8420.
	$(BIN)/memwell serve

test: setup  ## Run the tests: on SQLite, and every area of the contract on PostgreSQL too.
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 -m "not long"

test-all: setup  ## Run every test on every engine, and the long trials.
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --all-engines

check: setup  ## Lint, types, and everything that is generated.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/generate.py --check
	$(BIN)/python tools/golden.py

golden: setup  ## Accept the public interface as it is now.
	$(BIN)/python tools/golden.py --write

format: setup  ## Format the code and regenerate what is generated.
	$(BIN)/python tools/generate.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## Measure, each figure beside its bare limit.
	$(BIN)/python -m bench

$(PEERS)/.installed: requirements.lock bench/peers.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/$(INSTALL) --require-hashes -r requirements.lock
	$(PEERS)/bin/$(INSTALL) -r bench/peers.txt
	$(PEERS)/bin/$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

bench-peers: $(PEERS)/.installed  ## Measure the same searches in LangGraph and Chroma.
	$(PEERS)/bin/python -m bench.peers

chaos: setup  ## The tests of crashes, faults and properties, ten times as long: 200 rounds.
	$(BIN)/python -m pytest -m chaos --rounds 200

trials: setup  ## 100,000 requests of schemathesis to a server with two tenants. Takes half an hour.
	$(BIN)/python -m tests.fuzzing --requests 100000

audit: setup  ## Ask for known vulnerabilities of what is locked. It needs the network.
	$(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/$(INSTALL) pip-audit
	$(AUDIT)/bin/pip-audit --require-hashes --disable-pip -r requirements-runtime.lock

sbom: setup  ## Write the bill of materials of a server into dist/.
	@mkdir -p dist
	$(BIN)/python tools/sbom.py > dist/sbom.json

wheel: setup  ## Build the wheel into dist/.
	$(BIN)/python -m hatchling build -t wheel

lock: setup  ## Pin the newest versions that fit, with hashes and no index address.
	$(BIN)/python tools/lock.py --upgrade

clean:  ## Remove what was built.
	rm -rf $(VENV) $(AUDIT) dist build src/memwell/models/data .mypy_cache .ruff_cache .hypothesis
