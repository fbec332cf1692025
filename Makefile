# make help lists the targets. Everything goes into .venv (and .venv-ref, .venv-arena, .venv-hub, .venv-plugins, .venv-trackers, ...);
# nothing else on the machine is changed, but for the system libraries of headless rendering, which
# scripts/system_libraries.py installs where it is root on Debian or Ubuntu.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The first interpreter that is new enough; `make PYTHON=...` says another.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PYTEST := $(BIN)/pytest
# Bytecode is kept also where PYTHONDONTWRITEBYTECODE is set: else each of some thousand processes compiles all that it
# imports anew, and each worker rewrites the assertions of all test modules (20 s of processor time).
unexport PYTHONDONTWRITEBYTECODE
# Tests wait for processes of their own for half of their time: one worker more than processors, and no fewer than two.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
# For what has an environment of its own: there, a test that is skipped fails.
NO_SKIPS := -m pytest -p tests.support.no_skips

# What is not in .venv is fetched without bytecode, which is made as it is imported: a test imports a small part.
PIP := $(BIN)/python -m pip --disable-pip-version-check
ADD := install -qq --no-compile --no-warn-script-location

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: setup
setup: $(STAMP) ## .venv with the pinned packages, and the system libraries of headless rendering

$(STAMP): pyproject.toml constraints.txt scripts/system_libraries.py
	@test -n "$(PYTHON)" || { echo "pytest-vla needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "no virtual environment can be made: apt-get install python3-venv" >&2; exit 1; }
	$(PIP) install -qq --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python scripts/system_libraries.py
	@touch $@

.PHONY: test
test: lint compiled ## lint, types, and every test that is not slow
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow"

.PHONY: compiled
# Hundreds of processes begin: none compiles Python again. Machine code lies in the checkout, as in a wheel: many tests have
# a cache of their own.
compiled: setup
	$(BIN)/python -m compileall -q pytest_vla suites fixtures reports
	$(BIN)/python -c 'import pathlib as p, pytest_vla.commands.cache as c; c.ship_code(p.Path("pytest_vla/compiled"))'

.PHONY: slow
slow: setup reference arena .simulators/.installed ## slow tests, upstream live among them, and property tests with all examples
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "(slow or hypothesis) and not study" --hypothesis-profile=full

.PHONY: studies
studies: setup reference arena .venv-lerobot/.installed ## what takes minutes each, and is no part of CI: before a release, or where it is about what changed (two hours)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m study --hypothesis-profile=full
	.venv-lerobot/bin/python $(NO_SKIPS) -m study tests/policies/tiny/test_training.py

.PHONY: evaluators
evaluators: setup reference ## published evaluators' loops beside ours, with pictures (half an hour)
	$(PYTEST) tests/parity/test_evaluators_live.py

.PHONY: hub
hub: setup .venv-hub/.installed ## the tests of `pytest-vla fetch`, with the hub's client itself
	PYTHONPATH=$(CURDIR)/.venv-hub $(BIN)/python $(NO_SKIPS) tests/commands/test_fetch.py tests/commands/test_fetch_hub.py

# The other versions of MuJoCo that are supported, each in a folder that goes before .venv's and .venv-ref's own.
.simulators/.installed: pytest_vla/versions.py scripts/simulators.py constraints.txt | $(STAMP)
	$(BIN)/python scripts/simulators.py
	@mkdir -p $(@D) && touch $@

# The hub's client and vla-eval, apart from .venv: what they bring slows every start of pytest down.
.venv-hub/.installed: pyproject.toml constraints.txt | $(STAMP)
	$(PIP) $(ADD) -c constraints.txt --target .venv-hub --upgrade huggingface-hub
	@touch $@

.PHONY: plugins
plugins: setup .venv-plugins/.installed ## what counts, with pytest-rerunfailures and pytest-repeat themselves
	PYTHONPATH=$(CURDIR)/.venv-plugins $(BIN)/python $(NO_SKIPS) tests/plugin/test_counting.py

# Apart from .venv: installed there they would take part in every start of pytest.
.venv-plugins/.installed: constraints.txt | $(STAMP)
	$(PIP) $(ADD) -c constraints.txt --no-deps --target .venv-plugins --upgrade pytest-rerunfailures pytest-repeat
	@touch $@

.PHONY: trackers
trackers: setup .venv-trackers/.installed ## the tests of MLflow, TensorBoard, Weights & Biases and Allure, with these themselves (0.3 GB)
	PYTHONPATH=$(CURDIR)/.venv-trackers $(BIN)/python $(NO_SKIPS) tests/plugin/test_trackers.py tests/plugin/test_allure.py

.venv-trackers/.installed: trackers.txt | $(STAMP)
	$(PIP) $(ADD) --no-deps --target .venv-trackers --upgrade -r trackers.txt
	@touch $@

.PHONY: vla-eval
vla-eval: setup .venv-vla-eval/.installed ## the tests of others' servers, with vla-eval, pyzmq and json-numpy themselves (0.3 GB)
	PYTHONPATH=$(CURDIR)/.venv-vla-eval $(BIN)/python $(NO_SKIPS) tests/policies/test_vla_eval.py \
		tests/policies/test_policy_servers.py \
		tests/plugin/test_remote.py::test_a_model_server_of_vla_eval_serves_workers

.venv-vla-eval/.installed: pyproject.toml constraints.txt | $(STAMP)
	$(PIP) $(ADD) -c constraints.txt --target .venv-vla-eval --upgrade vla-eval pyzmq json-numpy
	@touch $@

.PHONY: ray
ray: setup .venv-ray/.installed ## the tests of --vla-ray, with Ray itself and clusters of several nodes on this machine (0.3 GB)
	PYTHONPATH=$(CURDIR)/.venv-ray $(BIN)/python $(NO_SKIPS) tests/plugin/test_ray.py

# Apart from .venv: what it brings nothing else needs.
.venv-ray/.installed: pyproject.toml constraints.txt | $(STAMP)
	$(PIP) $(ADD) -c constraints.txt --target .venv-ray --upgrade ray
	@touch $@

# What .venv-lerobot, .venv-language and .venv-ref have in common, and each alone would take a gigabyte for.
.venv-torch/.installed: constraints.txt | $(STAMP)
	$(PIP) $(ADD) -c constraints.txt --target .venv-torch --upgrade torch
	@touch $@

PYTHON312 ?= $(firstword $(shell command -v python3.12 2>/dev/null; ls -d $$HOME/.pyenv/versions/3.12*/bin/python 2>/dev/null))

.PHONY: lerobot-latest
lerobot-latest: setup reference .venv-lerobot-latest/.installed ## lerobot's policies and its LIBERO environment, with lerobot 0.6 and Python 3.12 (5 GB)
	PYTHONPATH=$(CURDIR) .venv-lerobot-latest/bin/python $(NO_SKIPS) tests/policies/test_lerobot.py \
		tests/policies/test_lerobot_policy.py tests/policies/test_lerobot_inputs.py tests/policies/test_lerobot_files.py
	$(PYTEST) "tests/parity/test_evaluators_live.py::test_episodes_are_the_evaluators_own[lerobot]"

.venv-lerobot-latest/.installed: lerobot-latest.txt | $(STAMP)
	@test -n "$(PYTHON312)" || { echo "lerobot 0.6 needs Python 3.12: install it, or say make PYTHON312=/path/to/python" >&2; exit 1; }
	@test -x .venv-lerobot-latest/bin/python || $(PYTHON312) -m venv .venv-lerobot-latest
	.venv-lerobot-latest/bin/python -m pip --disable-pip-version-check $(ADD) -r lerobot-latest.txt
	.venv-lerobot-latest/bin/python -m pip --disable-pip-version-check $(ADD) --no-deps lerobot==0.6.0 hf-libero==0.1.4
	@touch $@

.PHONY: lerobot
lerobot: .venv-lerobot/.installed ## the tests of lerobot's policies and data sets, with lerobot itself, and of tiny's training, with torch (3 GB)
	.venv-lerobot/bin/python $(NO_SKIPS) -m "not study" tests/policies/test_lerobot.py tests/policies/test_lerobot_policy.py \
		tests/policies/test_lerobot_runs.py tests/policies/test_lerobot_training.py tests/reports/dataset/test_lerobot_loads.py \
		tests/policies/tiny/test_network.py tests/policies/tiny/test_fit.py tests/policies/tiny/test_training.py \
		tests/doctor/test_action_tables.py

.PHONY: doctor
doctor: setup ## the doctor on tiny, and on the ACT of `make act`, behind each wrong wiring (an hour on one core for each)
	$(PYTEST) tests/quality/test_doctor_planted.py
	[ ! -d .vla/act/policy ] || .venv-lerobot/bin/python -m pytest -k lerobot tests/quality/test_doctor_planted.py

.PHONY: act
act: setup .venv-lerobot/.installed ## a small ACT of lerobot in .vla/act/policy, trained on the expert's episodes of one task (half an hour on one core)
	rm -rf .vla/act
	$(PYTEST) -n $(WORKERS) --vla-suite=tabletop --vla-tasks=put_the_bowl_on_the_plate --vla-model=expert --vla-seeds=0-49 \
		--vla-results=.vla/act/results
	$(BIN)/pytest-vla export last --results=.vla/act/results --format=lerobot --pictures=image --only=success -o .vla/act/demonstrations
	.venv-lerobot/bin/python -m tests.support.act_training .vla/act/demonstrations .vla/act/policy

.venv-lerobot/.installed: lerobot.txt .venv-torch/.installed | $(STAMP)
	$(BIN)/python scripts/side_environment.py .venv-lerobot
	$(PIP) --python .venv-lerobot $(ADD) -r lerobot.txt
	$(PIP) --python .venv-lerobot $(ADD) --no-deps lerobot==0.4.4
	@# draccus 0.10.0 installs a package named tests, which hides ours.
	rm -rf .venv-lerobot/lib/python3*/site-packages/tests
	@touch $@

.PHONY: language
language: .venv-language/.installed ## the tests of parsers and embeddings, with spaCy and sentence-transformers (3 GB)
	@# What nltk needs beside itself is in no package index: its tests are left to those who have it.
	.venv-language/bin/python $(NO_SKIPS) tests/language/test_backends.py tests/language/test_embeddings.py \
		tests/language/test_pipeline.py tests/language/test_similarity.py tests/language/test_small_parser.py \
		tests/language/test_trees.py tests/metrics/test_dtw.py tests/metrics/test_failure_types.py \
		tests/metrics/test_pride.py tests/commands/test_pride.py

.venv-language/.installed: language.txt constraints.txt .venv-torch/.installed | $(STAMP)
	$(BIN)/python scripts/side_environment.py .venv-language
	$(PIP) --python .venv-language $(ADD) -c constraints.txt -r language.txt
	@touch $@

.PHONY: reference
reference: .venv-ref/.installed ## .venv-ref with upstream's LIBERO, for the slow tests

.venv-ref/.installed: reference.txt constraints.txt .venv-torch/.installed | $(STAMP)
	$(BIN)/python scripts/side_environment.py .venv-ref
	$(PIP) --python .venv-ref $(ADD) -c constraints.txt -r reference.txt
	$(PIP) --python .venv-ref $(ADD) --no-deps hf-libero==0.1.4 openpi-client==0.1.2 vla-eval==0.8.0
	@touch $@

.PHONY: arena
arena: .venv-arena/.installed ## .venv-arena with upstream's VLA-Arena, for the slow tests

.venv-arena/.installed: arena.txt constraints.txt | $(STAMP)
	$(BIN)/python scripts/side_environment.py .venv-arena
	$(PIP) --python .venv-arena $(ADD) -c constraints.txt -r arena.txt
	$(PIP) --python .venv-arena $(ADD) --no-deps robosuite==1.5.1 vla-arena==0.0.1
	@touch $@

.PHONY: lint
lint: setup ## ruff, mypy --strict, and that imports go down the rooms
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy -p pytest_vla -p scripts -m tests.support.attack
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache

.PHONY: docs
docs: setup .venv-docs/.installed ## the pages of docs/ as a site in site/, with reference pages made from the code
	$(BIN)/python scripts/reference_pages.py docs/reference
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict

.venv-docs/.installed: docs.txt | $(STAMP)
	$(BIN)/python -m venv --without-pip .venv-docs
	$(PIP) --python .venv-docs $(ADD) -r docs.txt
	@touch $@

# In the order in which CI needs them.
ENVIRONMENTS := .venv-docs .venv-torch .venv-lerobot .venv-ray .venv-trackers .venv-language .venv-vla-eval .venv-plugins .venv-hub \
	.venv-ref .venv-arena .simulators

.PHONY: environments
environments: setup $(ENVIRONMENTS:=/.installed) ## all that other targets install apart from .venv

.PHONY: environment-names
environment-names:
	@echo $(ENVIRONMENTS)

.PHONY: bench
bench: setup reference ## the time of a step, a reset and an episode, as ratios to bare MuJoCo and to upstream; workers; pictures; intervals
	$(BIN)/python benchmarks/physics.py
	$(BIN)/python benchmarks/physics.py --profiles
	$(BIN)/python benchmarks/physics.py --control
	$(BIN)/python benchmarks/movers.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/episode.py
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/pictures.py
	$(BIN)/python benchmarks/drawing.py
	$(BIN)/python benchmarks/device.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/intervals.py
	$(BIN)/python benchmarks/cost_intervals.py

.PHONY: attack
attack: setup ## hostile files, stores and frames by the thousand, as a table of what became of each (ATTACK=--scale=0.1)
	PYTHONPATH=$(CURDIR) $(BIN)/python -m tests.support.attack $(ATTACK)

.PHONY: demo
demo: setup ## the suite tabletop with an expert, learned and at random: reports, a picture sheet, a video (4 minutes)
	@$(BIN)/python scripts/demo.py

.PHONY: clean
clean: ## removes the environments, caches and build results
	rm -rf $(VENV) .venv-torch .venv-ref .venv-arena .simulators .venv-hub .venv-plugins .venv-trackers .venv-vla-eval .venv-lerobot .venv-lerobot-latest .venv-language .venv-ray .venv-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis .vla pytest_vla/compiled build dist site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
