# Every target works as the first command on a fresh checkout: it sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.set-up
PART ?= kills
SEED ?= 1
NAMES ?=

.PHONY: setup demo test tools lint bench soak sim clean
setup: $(SETUP)
$(SETUP): pyproject.toml setup.py $(wildcard src/ottla/wire/*.c src/ottla/wire/*.h)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable . --group dev
	touch $(SETUP)

demo: setup  ## the worked example: devices, technicians, nurses, billing
	$(BIN)/ottla homecare demo

TESTS ?=
LIMIT_S ?= 1500

test: setup  ## everything but the long runs; TESTS="tests/unit" for a part, LIMIT_S seconds for each folder
	$(BIN)/python -m tests.run --limit-s $(LIMIT_S) $(TESTS)

tools:  ## programs that tests use and pip cannot bring, as far as they can be installed
	tools/install

lint: setup  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## beside Apache Kafka; NAMES="start produce" for some of them
	$(BIN)/python -m bench.run --write $(NAMES)

soak: setup  ## a long run: make soak PART=kills
	$(BIN)/python -m tests.soak $(PART) --write

sim: setup  ## one seed of the simulated world: make sim SEED=7
	$(BIN)/python -m ottla.testing.world --seed $(SEED)

clean:
	rm -rf .venv build dist src/*.egg-info
