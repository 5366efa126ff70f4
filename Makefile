# make run and make test are all a newcomer needs.

GO       ?= go
FUZZTIME ?= 10m

# What a build is called, and the flags that make it the same everywhere.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
RELEASE  = -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION)'
BIN     ?= bin
DIST    ?= dist

# The tests of hostile that take an amount of something.
FAULTS = ^Test(EmptyPops|OneUnread|IdleQueues|ManyBusy|IdlePartitions|RetentionOfAHot|ABrokerThatStarts|AConsumerAmong|TenTimes)

# How long linear, stress and the load of crash run, and from which seed; empty is one from the clock.
LINEAR_TIME ?= 10m
LINEAR_SEED ?=
STRESS_TIME ?= 10m
STRESS_SEED ?=
CRASH_TIME  ?= 5m
CRASH_SEED  ?=

.PHONY: help build release run test lint fuzz conformance faults linear stress deps crash crash-short bench-tool bench-real crash-real bench-ratio clean deps-bench bench bench-quick bench-soak bench-page

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: ## build bin/queend
	CGO_ENABLED=0 $(GO) build $(RELEASE) -o $(BIN)/queend ./cmd/queend

release: ## build dist: a static binary, an archive and an SBOM for amd64 and arm64, checksums
	GO="$(GO)" ./packaging/release "$(DIST)" "$(VERSION)" "$(RELEASE)"

run: build ## build and start the broker on ./queen-data
	./bin/queend

test: deps ## run the whole test suite, that of the broker under the race detector
	$(GO) test -race -p 1 -count=1 -timeout 30m ./...
	cd bench && $(GO) test -p 1 -count=1 -timeout 30m ./... # its peers take minutes to build with -race

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	cd bench && $(GO) vet ./... && $(GO) tool staticcheck ./...

fuzz: ## run every fuzz target for FUZZTIME each (a duration, or a number of runs: 1000x)
	@set -e; for module in . bench; do for pkg in $$($(GO) -C $$module list ./...); do \
	  for target in $$($(GO) -C $$module test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; \
	    $(GO) -C $$module test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -parallel 2 $$pkg; \
	  done; done; done

conformance: ## run the black-box suite and print rule by rule what passes
	$(GO) test -count=1 -timeout 10m -v ./conformance

faults: deps ## do the amounts of the table of faults in full: 10 million messages, 100,000 partitions (half an hour)
	QUEEND_FAULTS=1 $(GO) test -count=1 -timeout 2h -parallel 1 -v -run '$(FAULTS)' ./hostile

crash: ## cut the power behind every step of a broker, then under load for CRASH_TIME (root and /dev/fuse)
	QUEEND_CRASH=1 CRASH_TIME=$(CRASH_TIME) CRASH_SEED=$(CRASH_SEED) $(GO) test -count=1 -timeout 0 -v ./crash

crash-short: ## the same behind some steps, in about a minute
	QUEEND_CRASH=1 CRASH_TIME=15s CRASH_SEED=$(CRASH_SEED) $(GO) test -short -count=1 -timeout 15m -v ./crash

linear: ## look for an order that explains concurrent histories, for LINEAR_TIME
	LINEAR_TIME=$(LINEAR_TIME) LINEAR_SEED=$(LINEAR_SEED) $(GO) test -count=1 -timeout 0 -run '^TestLinear$$' -v ./linear

stress: ## run everything at once under the race detector, for STRESS_TIME
	STRESS_TIME=$(STRESS_TIME) STRESS_SEED=$(STRESS_SEED) $(GO) test -race -count=1 -timeout 0 -run '^TestStress$$' -v ./linear

deps: ## install the real records that tests push, strace and promtool
	@test -d /usr/share/iso-codes/json || { apt-get update -qq && apt-get install -y -qq iso-codes; } || \
	  echo "iso-codes is missing: the tests that push its records are skipped"
	@command -v strace >/dev/null || { apt-get update -qq && apt-get install -y -qq strace; } || \
	  echo "strace is missing: the tests that read system calls are skipped"
	@command -v promtool >/dev/null || { cd $$(mktemp -d) && apt-get update -qq && apt-get download -qq -o APT::Sandbox::User=root prometheus && \
	  dpkg-deb -x prometheus_*.deb . && install usr/bin/promtool /usr/local/bin/ && rm -rf "$$PWD"; } || \
	  echo "promtool is missing: the test that has it check the alerts is skipped"

bench-tool: ## build bin/bench, a module of its own
	CGO_ENABLED=0 $(GO) build -C bench -trimpath -o ../bin/bench .

deps-bench: ## install the peers that bench compares with
	@command -v redis-server >/dev/null && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server postgresql; } || \
	  echo "redis-server or postgresql is missing: the report says so"

bench: deps-bench build bench-tool ## measure every row of docs/benchmarks.md but the soak, in bench-report
	./bin/bench run -out bench-report -limit 1h

bench-quick: deps-bench build bench-tool ## the same with small loads: does it work
	./bin/bench run -quick -out bench-report

bench-soak: build bench-tool ## half an hour at 60 % of the ceiling, in bench-report/soak
	./bin/bench run -rows 13 -out bench-report/soak -limit 1h

comma := ,
bench-page: bench-tool ## write what bench and bench-soak have measured into docs/benchmarks.md
	./bin/bench report -in bench-report/results.jsonl$(addprefix $(comma),$(wildcard bench-report/soak/results.jsonl)) \
	  -page docs/benchmarks.md -plots docs/benchmarks

bench-real: deps build bench-tool ## push, consume, dead-letter and replay 13,000 real records
	./bin/bench real

crash-real: deps build bench-tool ## the same with kill -9 at random moments
	./bin/bench crash -kills 200

bench-ratio: build bench-tool ## compare pushes with what this machine can do
	./bin/bench ratio

clean: ## remove what was built
	rm -rf bin bench-report dist
