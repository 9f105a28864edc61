# make demo: set up and run the main job.      make test: set up, lint and run the tests.
# make test-slow: types, and the few long tests. make test-thorough: the longest tests.
# make docs: run every example in the documentation.
# make mutants: do the tests notice changed code?
# make chaos: does a run survive being killed and damaged?
# make fuzz: does any file break a reader?     make bench: speed against other libraries.
# make study: all methods on real data, see results/README.md.
# make loc: count the code by folder.          make simulate: how often are verdicts wrong?
PYTHON ?= python3
BIN := .venv/bin
# One thread a process and no spinning: two OpenMP threads that spin collapse when anything else uses the cores.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE

# One more than there are cores: some tests wait for processes of their own.
WORKERS := $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

.PHONY: study study-quick study-tables demo test test-slow test-thorough docs lint types pytest pytest-slow mutants chaos fuzz loc bench simulate clean
.DEFAULT_GOAL := test

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

$(BIN)/python:
	$(PYTHON) -m venv .venv

# Only what training and a report need: a minute instead of four.
.venv/demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[train]"
	touch $@

.venv/dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[dev]"
	touch $@ .venv/demo

.venv/bench: .venv/dev
	$(INSTALL) -e ".[bench]"
	touch $@

demo: .venv/demo
	$(BIN)/socrates quickstart

test: lint pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/pyright

# Compiled once for all processes, and for the next target, even where the environment is against it.
pytest pytest-slow test-thorough: export PYTHONDONTWRITEBYTECODE :=

pytest: .venv/dev
	scripts/install-chromium
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# The types are checked beside the tests: that takes one core for three quarters of a minute.
test-slow:
	$(MAKE) -j 2 types pytest-slow

# Only the files that have such tests: each process would import all others too.
pytest-slow: .venv/dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist load -m slow $$(grep -l mark.slow tests/test_*.py)

test-thorough: .venv/dev
	$(BIN)/python -m pytest -n auto --dist load -m thorough $$(grep -l mark.thorough tests/test_*.py)

mutants: .venv/dev
	$(BIN)/python tests/tools/mutants.py

chaos: .venv/dev
	$(BIN)/python tests/tools/chaos.py

fuzz: .venv/dev
	nice $(BIN)/python tests/tools/fuzz.py --write

docs: .venv/dev
	$(BIN)/python -m pytest README.md docs tests/test_documentation.py

loc:
	$(PYTHON) scripts/count_code.py

bench: .venv/bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/report.py

# The verdicts of reports and audits, and fits of the read-out, on simulated data: the tables of
# docs/statistics.md, docs/audit.md and docs/scalers.md, in some minutes; the scalers take longer.
simulate: .venv/dev
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/simulate_audits.py --write
	$(BIN)/python benchmarks/simulate_readout.py --fits 1000 --first-seed 30000 --write
	$(BIN)/python benchmarks/simulate_scalers.py --write

# Resumable, in parts of an hour: start it again to go on. FEATURES is what studies/embed.py wrote.
FEATURES ?= features
study: .venv/dev
	$(BIN)/python studies/study.py --features $(FEATURES) --dry-run
	$(BIN)/python studies/study.py --features $(FEATURES) --minutes 60
	$(BIN)/python studies/tables.py

# Ten minutes, without any downloaded data.
study-quick: .venv/dev
	$(BIN)/python studies/study.py --parts digits-noise-20 digits --seeds 2 --minutes 10 --results runs/study
	$(BIN)/python studies/tables.py --results runs/study --out runs/study/README.md

study-tables: .venv/dev
	$(BIN)/python studies/tables.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
