# Every target works on a fresh clone: the first one that runs makes the virtual environment.
PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python -m

.PHONY: setup demo train-demo test test-slow lint types imports proto proto-check format clean bench-learner
setup: .setup-stamp

.setup-stamp: pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) scripts/setup
	touch $@

demo: setup
	$(BIN)/prover demo

train-demo: setup
	$(BIN)/prover train configs/train-demo.toml --report out/train-demo.json

test: setup
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not docker and not vllm and not gpu"

test-slow: setup
	$(BIN)/pytest -m "slow and not docker and not vllm and not gpu" --timeout 900

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup
	scripts/generate-proto

proto-check: setup
	scripts/generate-proto --check

bench-%: setup
	$(BIN)/prover bench $*

# TRL, which this one measures against, has an environment of its own: nothing else needs it.
bench-learner: .prover/yardstick/.stamp
	.prover/yardstick/bin/prover bench learner

.prover/yardstick/.stamp: pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) scripts/setup .prover/yardstick learner,yardstick
	touch $@

clean:
	rm -rf .venv .setup-stamp out .prover
