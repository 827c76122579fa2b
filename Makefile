# Everything runs in .venv, which is created from pinned and hashed requirements.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 30
# A Python that has transformers 5.23.0 and torch.
LIBRARY ?= python3
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# Environments of libraries: for make facts, facts-check and bench, for make sweep-position-ids, and
# for make adapters, where each library has one of its own.
FACTS := .cache/facts
POSITIONS_5 := .cache/positions-5
POSITIONS_4 := .cache/positions-4
ADAPTERS := .cache/adapters
LIBRARIES := $(basename $(notdir $(wildcard requirements/adapters/*.in)))
LIBRARY_PIP = $(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
  --require-hashes -r
# Random inputs of make matrix, and of each family in make sweep-position-ids; and their seed.
CASES ?= 300
SEED ?= 1

.PHONY: serve test test-full test-system test-page same sweep-text sweep-positions sweep-diffusers sweep-towers sweep-position-ids matrix check fuzz bench performance load starvation scaling explorer lock openapi docs conformance adapters facts facts-check pictures wheel format clean
.DELETE_ON_ERROR:

serve: $(VENV)/runtime.stamp ## Serve on port 8000, or as POSREF_* variables say
	$(BIN)/posref serve

test: $(VENV)/dev.stamp ## Run the quick tests: about a minute on two cores
	$(BIN)/python -m pytest -n auto -m "not system and not full" --hypothesis-profile=quick

test-full: $(VENV)/dev.stamp ## Run all tests that need no system package
	$(BIN)/python -m pytest -n auto -m "not system"

test-system: $(VENV)/explorer.stamp ## Run the tests with real servers, containers and other processors
	$(BIN)/python -m pytest -m system -p no:xdist --ignore=tests/system/explorer

test-page: $(VENV)/explorer.stamp ## Run the tests of the page in Chromium
	$(BIN)/python -m pytest -m system -p no:xdist tests/system/explorer

same: $(VENV)/dev.stamp ## Compare answers with the recorded ones in tests/data
	$(BIN)/python -m tests.same

check: $(VENV)/dev.stamp ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

sweep-text: $(VENV)/dev.stamp ## Compare the rotary settings of text and audio types with LIBRARY's
	mkdir -p .cache
	$(LIBRARY) tools/rotary_frequencies.py service/models/facts/transformers-5.23.0.json \
	  > .cache/rotary_frequencies.jsonl
	$(BIN)/python -m tests.models.sweep .cache/rotary_frequencies.jsonl

sweep-positions: $(VENV)/dev.stamp ## Compare positions that are not rotary with LIBRARY's
	mkdir -p .cache
	$(LIBRARY) tools/other_positions.py .cache/other_positions.npz
	$(BIN)/python -m tests.models.other_sweep .cache/other_positions.npz

sweep-diffusers: $(VENV)/dev.stamp ## Compare the classes of diffusers with LIBRARY's
	mkdir -p .cache
	$(LIBRARY) tools/library_diffusers.py .cache/library_diffusers.npz
	$(BIN)/python -m tests.models.diffusers_sweep .cache/library_diffusers.npz

sweep-towers: $(VENV)/dev.stamp ## Compare the rotary tables of vision towers with LIBRARY's
	mkdir -p .cache
	$(LIBRARY) tools/library_towers.py .cache/library_towers.npz
	$(BIN)/python -m tests.models.sweep_towers .cache/library_towers.npz

sweep-position-ids: $(VENV)/dev.stamp $(POSITIONS_5)/venv.stamp $(POSITIONS_4)/venv.stamp ## Compare positions, rotations and resizes with those of libraries
	for environment in $(POSITIONS_5) $(POSITIONS_4); do \
	  $$environment/bin/python tools/library_positions.py $$environment/cases $(CASES) $(SEED) && \
	  POSREF_POSITIONS_DIR=$$environment/cases \
	    $(BIN)/python -m pytest -n auto tests/parity/test_positions.py || exit 1; \
	done

matrix: $(VENV)/dev.stamp ## Judge diagnoses of CASES arrays, with and without mistakes, from SEED
	$(BIN)/python -m tests.analysis.matrix $(SEED) $(CASES) --check --jobs 2

fuzz: $(VENV)/fuzz.stamp ## Fuzz every parser, each for FUZZ_SECONDS (Linux, x86-64)
	for parser in $$($(BIN)/python -m tests.fuzz); do \
	  $(BIN)/python -m tests.fuzz $$parser .cache/fuzz/$$parser \
	    -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; \
	done

bench: $(VENV)/dev.stamp ## Measure beside peers, in one run on this machine
	-$(MAKE) $(FACTS)/venv.stamp
	$(BIN)/python -m benchmarks

performance: $(VENV)/dev.stamp $(FACTS)/venv.stamp ## Measure three times, and write docs/performance.md
	for run in 1 2 3; do $(BIN)/python -m benchmarks --save .cache/bench/$$run.json || exit 1; done
	$(BIN)/python -m benchmarks.page .cache/bench/[123].json

load: $(VENV)/dev.stamp ## Load a server with a thousand connections for five minutes
	$(BIN)/python -m benchmarks.load

starvation: $(VENV)/dev.stamp ## Show what costly requests do to others: latency, order, memory
	$(BIN)/python -m benchmarks.starvation

scaling: $(VENV)/dev.stamp ## Measure one core, an edge and two replicas; simulate many
	$(BIN)/python -m benchmarks.scaling

explorer: $(VENV)/explorer.stamp ## Measure the page in Chromium: bytes, first numbers, drawing, memory
	$(BIN)/python -m benchmarks.explorer

pictures: $(VENV)/explorer.stamp ## Draw the pictures of the documentation
	$(BIN)/python -m tests.data.draw_pictures
	$(BIN)/python -m tests.system.explorer.draw_views

wheel: $(VENV)/runtime.stamp ## Build the wheel in dist, with the same bytes each time
	rm -rf build
	SOURCE_DATE_EPOCH=315532800 $(BIN)/python -m pip --disable-pip-version-check wheel \
	  --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build

format: $(VENV)/dev.stamp ## Format, and apply the fixes of the linter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: $(VENV)/runtime.stamp ## Write openapi.json
	$(BIN)/posref openapi > openapi.json

docs: $(VENV)/dev.stamp ## Write docs/encodings.md and docs/model-types.md
	$(BIN)/python -m tests.data.encodings_page
	$(BIN)/python -m tests.data.model_types_page

conformance: $(VENV)/dev.stamp ## Write the vector files in service/conformance/vectors
	$(BIN)/python -m tests.data.vectors

adapters: $(VENV)/dev.stamp $(LIBRARIES:%=$(ADAPTERS)/%/venv.stamp) ## Run the conformance suite against libraries and languages, and write the matrix
	$(BIN)/python -m conformance.run $(ADAPTERS)

facts: $(FACTS)/venv.stamp ## Write service/models/facts from transformers and diffusers
	for library in transformers diffusers; do \
	  $(FACTS)/bin/python -m tools.facts $$library service/models/facts || exit 1; \
	done

facts-check: $(FACTS)/venv.stamp ## Compare service/models/facts with transformers and diffusers
	for library in transformers diffusers; do \
	  $(FACTS)/bin/python -m tools.facts $$library service/models/facts --check || exit 1; \
	done

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header --upgrade
lock: $(VENV)/uv.stamp ## Update the pinned requirements
	for set in "pyproject.toml -o requirements/runtime.txt" \
	  "pyproject.toml --extra dev -c requirements/runtime.txt -o requirements/dev.txt" \
	  "requirements/build.in -o requirements/build.txt" \
	  "requirements/explorer.in -o requirements/explorer.txt" \
  "requirements/fuzz.in -o requirements/fuzz.txt" \
	  "requirements/generators.in -o requirements/generators.txt" \
	  "requirements/uv.in -o requirements/uv.txt"; do \
	  $(COMPILE) $$set || exit 1; \
	done
	for library in $(LIBRARIES); do \
	  $(COMPILE) -c requirements/facts.txt --excludes requirements/adapters/excluded \
	    requirements/adapters/$$library.in -o requirements/adapters/$$library.txt || exit 1; \
	done

clean: ## Remove generated files
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
	  { echo "posref needs Python 3.11 to 3.14; name one: make PYTHON=python3.13 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.stamp: requirements/runtime.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements/build.txt
	$(PIP) --require-hashes -r requirements/runtime.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/explorer.stamp: requirements/explorer.txt $(VENV)/dev.stamp
	$(PIP) --require-hashes -r requirements/explorer.txt
	touch $@

$(VENV)/fuzz.stamp: requirements/fuzz.txt $(VENV)/dev.stamp
	$(PIP) --require-hashes -r requirements/fuzz.txt
	touch $@

$(FACTS)/venv.stamp: requirements/facts.txt
$(POSITIONS_5)/venv.stamp: requirements/facts.txt requirements/timm.txt
$(POSITIONS_4)/venv.stamp: requirements/transformers-4.txt

# The build of torch without CUDA where pip finds one; the registry's on Linux needs CUDA to import.
TORCH := requirements/facts-torch-cpu.txt requirements/facts-torch.txt
$(FACTS)/venv.stamp $(POSITIONS_5)/venv.stamp $(POSITIONS_4)/venv.stamp: $(TORCH)
	$(PYTHON) -m venv $(@D)
	for file in $(filter-out $(TORCH),$^); do $(LIBRARY_PIP) $$file || exit 1; done
	$(LIBRARY_PIP) requirements/facts-torch-cpu.txt || $(LIBRARY_PIP) requirements/facts-torch.txt
	touch $@

# pip collects wheels, as its settings say, and uv links their files into the environments: those that
# have torch share it on the disk.
WITH_TORCH := $(filter-out mlx numpy onnxruntime,$(LIBRARIES))
WHEELS := $(ADAPTERS)/wheels
LINKED = { $(BIN)/python -m pip --disable-pip-version-check download --quiet --no-deps \
    --require-hashes -d $(WHEELS) -r $(1) && \
  $(BIN)/uv pip install --quiet --offline --no-index --find-links $(WHEELS) --link-mode hardlink \
    --cache-dir $(ADAPTERS)/cache --no-deps --require-hashes --python $(@D) -r $(1); }
$(WITH_TORCH:%=$(ADAPTERS)/%/venv.stamp): $(TORCH)
$(LIBRARIES:%=$(ADAPTERS)/%/venv.stamp): $(ADAPTERS)/%/venv.stamp: requirements/adapters/%.txt $(VENV)/uv.stamp
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(call LINKED,$<)
	$(if $(filter $(TORCH),$^),$(call LINKED,$(firstword $(TORCH))) || $(call LINKED,$(lastword $(TORCH))))
	touch $@

$(VENV)/uv.stamp: requirements/uv.txt $(VENV)/dev.stamp
	$(PIP) --require-hashes -r requirements/uv.txt
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	$(PIP) --require-hashes -r requirements/dev.txt
	touch $@
