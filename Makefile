# Every target works as the first command on a fresh checkout: it sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.set-up
PART ?= kills
SEED ?= 1
WORLD ?= scripted
NAMES ?=

.PHONY: help setup demo test test-kerberos coverage tools lint site messages bench soak sim clean
.DEFAULT_GOAL := setup

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(SETUP)  ## the environment in .venv, with everything that development needs
$(SETUP): pyproject.toml setup.py $(wildcard src/ottla/wire/*.c src/ottla/wire/*.h src/ottla/pipelines/state/*.c)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable . --group dev
	touch $(SETUP)

demo: setup  ## the worked example: devices, technicians, nurses, billing
	$(BIN)/ottla homecare demo

TESTS ?=
LIMIT_S ?= 3000

test: setup  ## everything but the long runs; TESTS="tests/unit" for a part, LIMIT_S seconds for each folder
	$(BIN)/python -m tests.run --limit-s $(LIMIT_S) $(TESTS)

test-kerberos: setup  ## logins with tickets of a real KDC; installs the KDC and compiles the extra `kerberos`
	tools/install krb5kdc kadmin.local kinit krb5-config
	$(BIN)/pip install --quiet "gssapi>=1.8"
	$(BIN)/python -m pytest -q -ra tests/kerberos tests/unit/security/test_gssapi.py

coverage: setup  ## which lines the unit and property tests reach: build/coverage/index.html
	$(BIN)/coverage run -m pytest -q tests/unit tests/property
	$(BIN)/coverage html --quiet --directory build/coverage
	$(BIN)/coverage report | tail -1

tools:  ## programs that tests use and pip cannot bring, as far as they can be installed
	tools/install

lint: setup  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

site: setup  ## the documentation as a site: build/site/index.html
	$(BIN)/mkdocs build --strict --quiet

messages: setup  ## write the generated code and docs/protocol.md: messages, errors, the table of APIs
	$(BIN)/python tools/messages.py
	$(BIN)/python tools/errors.py
	$(BIN)/python tools/protocol_table.py
	$(BIN)/python tools/metrics_table.py

bench: setup  ## beside Apache Kafka; NAMES="start produce" for some of them
	$(BIN)/python -m bench.run --write $(NAMES)

soak: setup  ## a long run: make soak PART=kills
	$(BIN)/python -m tests.soak $(PART) --write

sim: setup  ## one seed of the simulated world: make sim SEED=7; WORLD=client has our own client in it
	$(BIN)/python -m ottla.testing.world --world $(WORLD) --seed $(SEED)

clean:  ## remove the environment and what was built
	rm -rf .venv build dist src/*.egg-info
