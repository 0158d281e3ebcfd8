# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Both install by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install kafka test test-all simulate chaos lint format demo bench lock docs clean

help:
	@echo "make install   create $(VENV) with everything; the program is then $(BIN)/farshore"
	@echo "make test      lint and the tests that take minutes"
	@echo "make test-all  the slow tests too, and property tests with new examples"
	@echo "make simulate  the real code in simulated worlds; ARGS=\"--seeds 1000\" for more of them"
	@echo "make chaos     the whole product on real brokers, under faults from a seed; ARGS=\"--seed 17 --minutes 8\""
	@echo "make demo      two real clusters being mirrored"
	@echo "make bench     the benchmark against MirrorMaker 2"
	@echo "make lint      ruff, mypy, import-linter"
	@echo "make docs      write the generated pages of docs/ anew"
	@echo "make lock      pin the newest versions that fit into requirements.lock"

install: $(STAMP)

# uv if it is there, because it is fast; else pip. Both install exactly what the lock file says.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python 3.11 or newer is needed; $(PYTHON) is {v[0]}.{v[1]}. Name another one with make PYTHON=…")'
	@if command -v uv >/dev/null 2>&1; then \
	  set -e; [ -x $(BIN)/python ] || uv venv --quiet --python "$$(command -v $(PYTHON))" $(VENV); \
	  echo "installing into $(VENV) …"; \
	  uv pip install --python $(BIN)/python --require-hashes -r requirements.lock; \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
	  set -e; [ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV); \
	  echo "installing into $(VENV): half a gigabyte, most of it Spark …"; \
	  $(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@touch $(STAMP)

# Kafka itself, once. Where Java is missing or too old this ends with one sentence that says so.
kafka: $(STAMP)
	@$(BIN)/farshore local fetch --tools

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint kafka
	$(BIN)/pytest -m "not slow"

# New examples each time; the seed that is printed first draws the same ones again: make test-all SEED=…
test-all: SEED ?= $(shell date +%s)
test-all: lint kafka
	@echo "property tests explore with SEED=$(SEED)"
	HYPOTHESIS_PROFILE=explore $(BIN)/pytest --hypothesis-seed=$(SEED)

simulate: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m simulation $(ARGS)

chaos: kafka
	@PYTHONPATH=tests:tests/integration $(BIN)/python -m chaos $(ARGS)

demo: kafka
	@$(BIN)/farshore demo $(ARGS)

bench: kafka
	@$(BIN)/python -m bench $(ARGS)

docs: $(STAMP)
	FARSHORE_WRITE_DOCS=1 $(BIN)/pytest -q tests/unit/test_docs.py

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev --no-annotate --no-header pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
