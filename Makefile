# Every target works as the first command on a fresh checkout: it sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.set-up

.PHONY: setup demo test lint bench soak sim clean
setup: $(SETUP)
$(SETUP): pyproject.toml $(wildcard src/ottla/wire/*.c setup.py)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable . --group dev
	touch $(SETUP)

test: setup
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
