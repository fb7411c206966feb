# `make bench` installs what a bench needs, `make test`, `make test-all`, `make lint` and `make docs` all that developers need besides.
# `make docs` redraws tables and plots from results/, and the worklog from what the kernels do on the emulator.
# PYTHON names the interpreter that the virtual environment is made with: 3.10 or newer.

PYTHON ?= python3
BIN := .venv/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check
# cuBLAS is only of use with a GPU.
GPU := $(wildcard /dev/nvidiactl /dev/dxg)

.PHONY: bench test test-all lint docs clean

bench: .venv/installed
	$(BIN)/tilewright bench

test: .venv/installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not further' $(if $(GPU),,--ignore tests/gpu)

# What `make test` leaves out: further configs, architectures, sizes, libraries' own tests and records.
test-all: .venv/installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m further

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: .venv/installed-dev
	$(BIN)/python -m studies.worklog write
	$(BIN)/python -m studies.performance write
	$(BIN)/python -m studies.tuning write
	$(BIN)/python -m studies.frameworks write
	$(BIN)/python -m studies.scaling write

.venv/installed: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tilewright needs Python 3.10 or newer, $(PYTHON) is older: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	@echo 'Installing tilewright into .venv: NumPy, the CUDA compiler and headers (100 MB)$(if $(GPU), and cuBLAS (420 MB)).'
	@echo 'Then its C++ parts are compiled, if there is a C++ compiler.'
	$(PIP) --editable '.$(if $(GPU),[cublas])'
	touch $@

.venv/installed-dev: .venv/installed
	@echo 'Installing what tests, linters and docs need (250 MB), and PyTorch for the CPU if it is offered (200 MB).'
	$(PIP) 'tilewright[dev]'
	@# The usual build of PyTorch brings gigabytes of CUDA, so only a build for the CPU is installed, if one is offered.
	@build=$$($(BIN)/python -m pip index versions torch 2>/dev/null | grep -o '[0-9][0-9.]*+cpu' | head -n 1); \
	if [ -n "$$build" ]; then \
	    $(PIP) "torch==$$build" 'tilewright[torch]'; \
	else \
	    echo 'no CPU build of PyTorch is offered: tests that need PyTorch are skipped'; \
	fi
	touch $@

clean:
	rm -rf .venv
