# Each target works on a bare checkout: the first one to run makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
# Where nothing compiled may be kept, each start of the tests compiles the tools again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help check check-types check-rest test test-long test-all test-lowest dist coverage mcp-servers conformance docs demo eval bench bench-all bench-peers format clean

help:
	@echo "make demo    run nine short demos, without a key"
	@echo "make test    run the tests, generated ones in a short form (about seven minutes on two cores)"
	@echo "make test-long   run the generated tests at full length"
	@echo "make test-all    run every test at full length"
	@echo "make test-lowest   run the library's tests with the oldest versions of its dependencies that are allowed"
	@echo "make dist    build sdist, wheel, bill of materials and licences in dist/"
	@echo "make coverage    measure the branches that the tests take, and fail below 95 %"
	@echo "make mcp-servers   install the MCP servers that the tests use where they are there (about 300 MB below .venv)"
	@echo "make conformance   run the official MCP conformance suite for clients and servers, for both protocol versions"
	@echo "make docs    build the documentation site into build/site, and check its links"
	@echo "make check   lint, types and import layers"
	@echo "make eval MODEL=NAME   let a model try the 20 tasks in evals/, and say how many it solves (REPEATS=3)"
	@echo "make bench   measure the promises about speed, and in a short form the peers that are there (under 15 minutes)"
	@echo "make bench-all   measure everything beside every peer at full length, and write bench/RESULTS.md (over an hour)"
	@echo "make bench-peers   set up the peers (about 1.5 GB below bench/.peers)"
	@echo "make format  let ruff format and fix what it can"
	@echo "make clean   remove .venv and what tools left behind"

.venv/.ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) sh scripts/setup dev
	@touch $@

# The demo needs no development tools; where they are installed already, that will do.
.venv/.runs: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) sh scripts/setup run
	@touch $@

# The site needs Zensical beside Outrider; where the development tools are installed already, that will do.
.venv/.docs: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) sh scripts/setup docs
	@touch $@

# mypy takes as long as all the others: they run beside it.
check: .venv/.ready
	@$(MAKE) --no-print-directory -j2 check-types check-rest

check-types:
	$(BIN)/mypy

check-rest:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check-types
	$(BIN)/lint-imports
	$(BIN)/python scripts/check-api
	$(BIN)/python scripts/api-page --check
	$(BIN)/python scripts/price-table --check

test: .venv/.ready
	sh scripts/in-memory $(BIN)/pytest --workers 5 -m "not long"

# A time-out ends the worker: an exception inside hypothesis would only begin the example again.
test-long: .venv/.ready
	sh scripts/in-memory $(BIN)/pytest --workers 4 -m "long or hypothesis" --hypothesis-profile=long --timeout 600 --timeout-method thread

test-all: .venv/.ready
	sh scripts/in-memory $(BIN)/pytest --workers 3 --hypothesis-profile=long --timeout 600

test-lowest: .venv/.ready
	$(BIN)/python scripts/lowest-versions

dist: .venv/.ready
	$(BIN)/python scripts/release

coverage: .venv/.ready
	$(BIN)/python scripts/coverage

mcp-servers: .venv/.ready
	$(BIN)/python scripts/mcp-servers --chromium

conformance: .venv/.ready
	-@$(BIN)/python scripts/mcp-servers
	$(BIN)/python scripts/conformance

docs: $(if $(wildcard .venv/.ready),.venv/.ready,.venv/.docs)
	@$(BIN)/python -m docsite

demo: $(if $(wildcard .venv/.ready),.venv/.ready,.venv/.runs)
	@$(BIN)/outrider demo

# A model may be that of a local server: MODEL=http://localhost:8080/v1#name. An eval that was stopped goes on.
# scripts/install-small-model installs a small one; a server with one slot has one worker: WORKERS=1.
REPEATS ?= 3
WORKERS ?= 2
eval: .venv/.ready
	@test -n "$(MODEL)" || { echo 'name a model, as in: make eval MODEL=anthropic/fast'; exit 2; }
	@mkdir -p build
	$(BIN)/outrider eval evals/tasks -o "build/eval-$(subst /,-,$(MODEL)).jsonl" --model "$(MODEL)" --repeats $(REPEATS) --workers $(WORKERS) --resume

bench: .venv/.ready
	$(BIN)/python -m bench.frameworks --quick

bench-all: bench-peers
	$(BIN)/python -m bench.frameworks

bench-peers: .venv/.ready
	$(BIN)/python -m bench.peers.setup

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage build dist
