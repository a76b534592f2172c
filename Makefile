# The tasks of the project. Each works by itself on a machine with Python >= 3.11 and make.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DATA   ?= $(or $(INFRASCOPE_DATA),data)

export DAGSTER_DISABLE_TELEMETRY := yes

.PHONY: demo test check dev bench bench-fleet evaluate docs notebook picture snapshot format hooks clean help

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("InfraScope needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "Installing pinned dependencies into $(VENV) (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)   ## install, materialize everything for the sample runs through Dagster, and show what it found
	@INFRASCOPE_DATA=$(abspath $(DATA)) $(BIN)/python -m infrascope_dagster.dev demo

test: $(READY)   ## ruff, mypy and pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

check: $(READY)  ## everything that `make test` does, and the long suite (a real daemon, the benchmarks' smoke run)
	$(MAKE) test
	@# these wait for a daemon most of the time
	$(BIN)/pytest -q -m slow -n 4 --dist load

dev: $(READY)    ## the Dagster UI on localhost, on what `make demo` made
	@INFRASCOPE_DATA=$(abspath $(DATA)) $(BIN)/python -m infrascope_dagster.dev dev

bench: $(READY)  ## ratios against peers, measured side by side in one run
	$(BIN)/python -m benchmarks

bench-fleet: $(READY) ## what a data set of 98 GB costs: a file, the lake, memory, fits; OUT=FILE keeps the figures as JSON
	$(BIN)/python -m benchmarks.at_size $(if $(OUT),--out $(OUT))

evaluate: $(READY) ## faults found and missed, beside peers: writes docs/evaluation.md and docs/patterns.md; REAL=DIR adds real data sets
	$(BIN)/python -m benchmarks.evaluation $(if $(REAL),--real $(REAL))
	$(BIN)/python -m benchmarks.evaluation.patterns $(if $(REAL),--real $(REAL))

docs: $(READY)   ## write the generated pages of docs/: tables, architecture, settings, decisions, the reports' schema
	@$(BIN)/python -m infrascope_core.documentation docs

notebook: $(READY) ## run docs/notebooks/infrascope.ipynb on the sample and keep its outputs in it
	@$(BIN)/python -m benchmarks.notebook

picture: $(READY) ## draw the picture of a page that README shows (needs chromium)
	@$(BIN)/python -m benchmarks.screenshot

snapshot: $(READY) ## write the snapshot of all Dagster specs anew, after a change on purpose
	$(BIN)/pytest -q tests/dagster/test_graph.py --snapshot-update

format: $(READY) ## format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: $(READY)  ## run ruff and mypy before every commit (needs pre-commit on the path)
	pre-commit install

clean:           ## remove what the project made (not the run files)
	rm -rf $(VENV) .dagster data/lake data/models data/reports data/warehouse.duckdb data/settings.json data/pictures data/.locks .pytest_cache .mypy_cache .ruff_cache
