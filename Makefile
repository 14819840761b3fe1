# Every goal does its own set-up (bootstrap.sh): a checkout, Python >= 3.11 with venv (Debian: python3-venv), git, make
# and bash are enough.
#
#   SCALE=tiny|quick|paper  OUT=folder  SEED=number  JOBS=number       of `make figures`
#   PYTHON=python3.12             the interpreter to build .venv with
#   SYSTEM_PACKAGES=no            never install Debian packages, even as root
#   PULSAR=yes                    of `make live` and `make test`: Apache Pulsar too (245 MB to download)

SHELL := bash
SCALE ?= quick
OUT ?= out
UV ?= $(shell command -v uv || echo .venv/bin/uv)

# Modules stay compiled, whatever the user's shell says: else each of the many processes compiles pandas anew.
export PYTHONDONTWRITEBYTECODE :=

# bootstrap.sh leaves the Java that Spark shall use in .java.
bin := JAVA_HOME="$(CURDIR)/.java" .venv/bin
compile = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

# Live tests mostly wait.  Who may make namespaces runs so many at a time, each worker with a network of its own.
apart = $(shell tests/apart.sh true 2>/dev/null && \
	echo "--dist loadscope --no-loadscope-reorder --tx '$(1)*popen//python=tests/apart.sh .venv/bin/python'")

# So many at a time they may be late on a busy machine.  What failed runs once more, with the machine to itself, and is
# then what it says; anything else than failed tests (code 1) stays what it was.
again = || { [ $$? = 1 ] && echo "once more, alone: what failed" && \
	$(bin)/python -m pytest -m live --last-failed --last-failed-no-failures none; }

# `claims` ends with 1 for a claim that does not hold, too: what counts is that the record is new.
record = touch "$(OUT)/recording" && { $(bin)/ratebed claims --record $(1) --out "$(OUT)" || true; } && \
	[ $(firstword $(1)) -nt "$(OUT)/recording" ]

LIVE_FIGURES = srtm-timestamps srtm-gc crdt-wan redis-wan serf-model epulsar-overhead epulsar-profile
DEPLOYED_FIGURES = deployed deployed-seconds deployed-staleness deployed-failures deployed-minute
SMOKE_FIGURES = srtm-fig4 crdt-fig4.1 dst-table3 epulsar-fig2 drl-shift limiters-partition placement-other-matrices \
	deployed-staleness
SMOKE_POINT = --system centralised --workload requests --topology full-mesh --set topology.nodes=2 \
	--set study.duration=3s --set study.drain=2s

.DEFAULT_GOAL := help
.PHONY: help setup live figures readings reference reference-live reference-deployed smoke smoke-mininet test test-live test-long test-night test-soak test-mutations test-fuzz test-vm fuzz lint format bench lock clean distclean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup: ## .venv and Java, nothing else
	@./bootstrap.sh

live: ## and what live testbeds need: Mininet, Redis, a JDK, Maven … (as root on Debian), Go, the broker, ratelimit, Bucket4j
	@./bootstrap.sh live

figures: setup ## every figure and claim at SCALE=quick, and the report
	@$(bin)/ratebed figures --all --scale "$(SCALE)" --out "$(OUT)" $(if $(SEED),--seed "$(SEED)") $(if $(JOBS),--jobs "$(JOBS)")

readings: setup ## the claims under every other reading of their sources, beside those of record in the report
	@$(bin)/ratebed readings --scale "$(SCALE)" --out "$(OUT)" $(if $(SEED),--seed "$(SEED)") $(if $(JOBS),--jobs "$(JOBS)")

reference: figures readings ## renew results/claims-quick.json (SCALE=paper: claims-paper.json), on purpose
	@$(call record,results/claims-$(SCALE).json)

reference-live: live ## renew results/claims-live.json: the claims that take real processes, as root, 70 minutes
	@$(bin)/ratebed run $(LIVE_FIGURES) --testbed mininet --scale small --out "$(OUT)" $(if $(SEED),--seed "$(SEED)")
	@$(call record,results/claims-live.json --add)

reference-deployed: live ## renew what it has of deployed limiters, as root, two hours
	@$(bin)/ratebed run $(DEPLOYED_FIGURES) --testbed mininet --scale small --out "$(OUT)" $(if $(SEED),--seed "$(SEED)")
	@$(call record,results/claims-live.json --add)

smoke: setup ## what a CI machine runs on every push, in a minute: a figure a family, a limiter on sockets, claims, report
	@$(bin)/ratebed figures $(SMOKE_FIGURES) --scale tiny --repetitions 1 --out out/smoke
	@$(bin)/ratebed run $(SMOKE_POINT) --testbed local --out out/smoke
	@$(MAKE) --no-print-directory smoke-mininet

smoke-mininet:
	@if lacking=$$($(bin)/python -m testbed mininet); then \
		$(bin)/ratebed run $(SMOKE_POINT) --testbed mininet --out out/smoke; \
	elif [ "$$lacking" ]; then echo "no run on mininet, for want of $$lacking"; \
	else exit 1; fi

test: lint ## formatter, linter, type checker, then the tests of up to a minute, the fast ones first
	@./bootstrap.sh test
	@$(bin)/python -m pytest -m "not live and not long" --numprocesses 2 --dist loadscope
	@$(MAKE) --no-print-directory test-live

# `make test-live again=` is strict.
test-live:
	@$(bin)/python -m pytest -m "live and not long" $(call apart,6) $(again)

test-long: setup ## the tests that take minutes: every figure at tiny scale, whole live figures, soak, mutations, fuzzing
	@./bootstrap.sh test
	@$(bin)/python -m pytest -m "long and not live and not night" --numprocesses 2 --dist loadscope
	@$(bin)/python -m pytest -m "long and live and not night" $(call apart,2) $(again)
	@$(MAKE) --no-print-directory --jobs=2 test-fuzz test-mutations test-soak

test-night: setup ## long tests of what others test for the greater part: advice in full, figures with options, Pulsar's faults
	@./bootstrap.sh test
	@$(bin)/python -m pytest -m "night and not live" --numprocesses 2 --dist loadscope
	@$(bin)/python -m pytest -m "night and live" $(again)

# None of the three keeps more than one core busy.
test-soak:
	@$(bin)/ratebed soak --first 1 --count 2000 --jobs 1

test-mutations:
	@$(bin)/python -m tests.mutations

# In CI the same inputs every time, as hypothesis has it there; `make fuzz` tries new ones.
test-fuzz:
	@$(bin)/python -m tests.fuzz --seconds 300 $(if $(CI),--seed 1) --ledger "$(OUT)/fuzz.json"

fuzz: setup ## parsers and brokerd for SECONDS=3600 of processor time; adds to results/fuzz.json
	@./bootstrap.sh test
	@$(bin)/python -m tests.fuzz --seconds "$(or $(SECONDS),3600)"

test-vm: setup ## a virtual machine from nothing: box, vagrant up, netem inside, runs over SSH; as root, without KVM
	@./bootstrap.sh vm
	@OUT="$(OUT)" $(bin)/python -m testbed.hosts.vm.trial

lint: setup ## formatter (check only), linter, type checker
	@$(bin)/ruff format --check .
	@$(bin)/ruff check .
	@$(bin)/mypy

format: setup ## rewrite the code as `make lint` wants it
	@$(bin)/ruff format .
	@$(bin)/ruff check --fix .

bench: setup ## how fast we are, beside peers (benchmarks/)
	@./bootstrap.sh bench
	@$(bin)/python -m benchmarks

lock: setup ## pin the newest packages anew, for all platforms
	@command -v $(UV) >/dev/null || .venv/bin/pip install --quiet uv
	@$(compile) --upgrade --extra dev --output-file requirements.lock pyproject.toml
	@$(compile) --upgrade --group build --output-file requirements-build.lock
	@$(compile) --upgrade --group java --output-file requirements-java.lock
	@$(compile) --upgrade --group go --output-file requirements-go.lock
	@$(compile) --upgrade --no-deps --group peers --output-file requirements-peers.lock
	@$(compile) --upgrade --group pulsar --output-file requirements-pulsar.lock
	@$(compile) --upgrade --no-deps --group axe --output-file requirements-axe.lock

clean: ## remove results (out/) and caches
	rm -rf out .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## and the environment (.venv, .java, .go, .axe, .peers, .brokerd, .bucket4j, .ratelimit, .pulsar, .hadoop, .s3, .erlang, .numba)
	rm -rf .venv .java .java.partial .go .go.partial .axe .peers .brokerd .bucket4j .ratelimit .pulsar .hadoop .s3 .erlang .numba
