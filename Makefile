# make demo    the bundled corpus from ingest to verify, results in demo-output/
# make test    the default tests (pytest -m slow runs further ones);  make check: linters and types, then all tests
# make soak    500 processes killed at random in materialize, measure, recognize, withdraw (KILLS=100 SEED=3 make soak); an hour
# make bench   the first table of docs/benchmarks.md: nbaudio against other ways, on this machine; less than half an hour
# make lab     JupyterLab on the notebooks
# make lock    requirements.lock and docs/requirements.txt, on those of Python 3.11, 3.12 and 3.13 that are installed
# make docs    the documentation site, site/index.html, by its own environment in .venv-docs
# Everything runs in .venv, which is made once from requirements.lock. PYTHON=python3.12 picks another interpreter.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST_COMMAND ?= $(BIN)/pytest

.PHONY: demo test soak bench check lint lab docs wheel lock ci clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/nbaudio demo --out demo-output $(DEMO_OPTIONS)
	@echo 'Open demo-output/html/index.html in a browser; make lab opens the notebooks themselves in JupyterLab.'

test: $(READY)
	$(TEST_COMMAND) -n 3 --dist loadfile

soak: $(READY)
	$(BIN)/python -m pip install --quiet s3fs==2026.9.0 'moto[server]==5.2.5'  # an object store, as in .ci/run
	NBAUDIO_KILLS=$(or $(KILLS),500) NBAUDIO_SEED=$(or $(SEED),7) $(BIN)/pytest -n 0 tests/heavy/test_faults.py -k killed_anywhere -s

# Where a package does not install, its rows are not run.
bench: $(READY)
	-$(BIN)/python -m pip install --quiet -c constraints.txt torch lhotse==1.33.0
	$(BIN)/python benchmarks/bench.py

check: lint test

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lab: $(READY)
	$(BIN)/jupyter lab notebooks

docs: .venv-docs/.ready
	PYTHONPATH=. .venv-docs/bin/python docs/build_pages.py
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo 'Open site/index.html in a browser; it needs no server and no network.'

wheel: $(READY)
	$(BIN)/python -m hatchling build -t wheel -t sdist

lock:
	$(PYTHON) .ci/lock.py 3.11 3.12 3.13

ci:
	.ci/run

clean:
	rm -rf .venv .venv-docs site dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

# uv is taken where it is installed and reaches an index; pip and venv do the same, slower.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "nbaudio needs Python 3.11, 3.12 or 3.13, $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12"; exit 1; }
	@if command -v uv >/dev/null && uv venv --quiet --seed --allow-existing --python $(PYTHON) .venv \
	  && uv pip install --quiet --python $(BIN)/python -r requirements.lock; then :; else \
	  $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet -r requirements.lock; fi
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q nbaudio  # once, not in each process where PYTHONDONTWRITEBYTECODE is set
	@touch $@

# Without Jupyter and audio: pages are generated from the source, the command line and the table schemas.
.venv-docs/.ready: docs/requirements.txt
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install --quiet -r docs/requirements.txt
	@touch $@
