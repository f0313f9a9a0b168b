# make help lists what there is to do. Everything works on a fresh clone; what
# is missing (programs, an engine, an image) is installed or started first.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 60s
SOAK     ?= 10m
# COMMANDS is how many shell commands make fuzz generates and runs.
COMMANDS ?= 100000
# PACKAGES are those that make mutate tests.
PACKAGES ?= internal/warden/wire internal/warden/outlog session/keys sandbox/boundary . policy/approval session policy internal/programs
# TESTFLAGS is for one's own use: make unit TESTFLAGS='-run Router -v'.
TESTFLAGS ?=
# MUTATEFLAGS are those of internal/test/mutate: make mutate MUTATEFLAGS='-match log.go'.
MUTATEFLAGS ?=

# Tools are kept in bin/tools under their package path and version.
STATICCHECK := bin/tools/honnef.co/go/tools/cmd/staticcheck@v0.8.2/staticcheck
GOLANGCI    := bin/tools/github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0/golangci-lint
GOVULNCHECK := bin/tools/golang.org/x/vuln/cmd/govulncheck@v1.8.0/govulncheck
ESBUILD     := bin/tools/github.com/evanw/esbuild/cmd/esbuild@v0.28.2/esbuild

ARCHS        := amd64 arm64
# WARDENS are as the sources are now; COMMITTED are those in git, which a fetched
# module has: built by WARDEN_GO, since another version makes other bytes.
WARDENS      := $(ARCHS:%=bin/wardens/corral-warden-%)
COMMITTED    := $(ARCHS:%=internal/warden/wardenbin/bin/corral-warden-%)
WARDEN_GO    := go1.26.8
MAX_WARDEN   := 4000000
CONFORMANCE  := $(CURDIR)/bin/conformance.txt
BUILD        := $(GO) build -buildvcs=false
WITH_ENGINE  := e2e/engine.sh run

ifeq ($(shell command -v $(GO)),)
  ifneq ($(MAKECMDGOALS),)
    $(error no $(GO) on PATH: install Go (see go.mod for the version), or say where: make GO=/usr/local/go/bin/go)
  endif
endif

# All that is built, tested or looked at is compiled in one way, and so once: also in another
# clone, since no path of this one is in it.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(shell $(GO) env GOFLAGS) -trimpath)
# With the race detector, which needs cgo, every process would sleep for a second when it exits.
export GORACE      := atexit_sleep_ms=0
RACE               := CGO_ENABLED=1 $(GO) test -race

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##### The two that matter

# One package more than there are processors is tested at a time, and so are tests of a
# package that may run side by side: with as many as processors, a third of their time went
# unused. What takes longest comes first. vet is part of check, whole.
ONE_MORE  = $(shell echo $$(($$(nproc) + 1)))
AT_ONCE   = -p $(ONE_MORE) -parallel $(ONE_MORE)
# No test reads the symbol table or DWARF, which take a fifth of the linker's time.
ALL_TESTS = -ldflags='-s -w' -count=1 -timeout 30m -tags e2e -vet=off $(AT_ONCE)
# Packages that drive programs and engines are built as the program is, without the race
# detector: it would watch the test, and take half of the processor's time. So are two that
# compute, in one goroutine: packages that use them at once have the detector.
DRIVERS     = ./e2e/escape ./e2e/crash ./e2e/console ./e2e/e2b ./e2e/clients ./e2e/sandbox/... ./e2e/chaos ./e2e/... ./internal/cli/... ./internal/warden/login ./policy ./tool/patch
LONGEST     = ./sandbox/... ./hostexec ./nodeexec/... ./internal/test/exectest ./client ./images
OTHERS      = $(LONGEST) $$($(GO) list -tags e2e ./... | grep -vxFf <($(GO) list -tags e2e $(DRIVERS)))

.PHONY: demo
demo: setup-demo build image ## Build, get an engine and an image if there is none, and run a short tour
	@$(WITH_ENGINE) bash e2e/demo.sh

.PHONY: test
test: setup-test build check console-check bin/testreport ## Run everything: checks, all tests (with -race, where that tells something), end-to-end tests on Docker
	@rm -f $(CONFORMANCE)
	@export REQUIRE_DOCKER=1 CORRAL_CONFORMANCE_OUT=$(CONFORMANCE); failed=0; { \
		$(WITH_ENGINE) $(GO) test -json $(ALL_TESTS) $(TESTFLAGS) $(DRIVERS) || failed=1; \
		$(WITH_ENGINE) env $(RACE) -json $(ALL_TESTS) $(TESTFLAGS) $(OTHERS) || failed=1; \
		exit $$failed; } | bin/testreport -conformance $(CONFORMANCE)

##### Building

.PHONY: build
build: bin/corral bin/corral-warden bin/corral-escape bin/corral-worker-claude size ## Build bin/corral (with the wardens inside) and its other programs

# The go command knows better than make what is up to date.
.PHONY: FORCE
FORCE:

# No version goes into a warden: the same sources make the same bytes, so that
# sandboxes need not be made anew for a warden that did not change.
$(WARDENS): bin/wardens/corral-warden-%: FORCE
	@GOOS=linux GOARCH=$* $(BUILD) -ldflags '-s -w' -o $@ ./cmd/corral-warden

# The overlay has the new wardens embedded in the place of those in git.
bin/corral: $(WARDENS) FORCE
	@printf '{"Replace":{%s}}\n' "$$(for a in $(ARCHS); do \
		printf '%s"%s/internal/warden/wardenbin/bin/corral-warden-%s":"%s/bin/wardens/corral-warden-%s"' "$${sep:-}" '$(CURDIR)' $$a '$(CURDIR)' $$a; sep=,; done)" >bin/wardens/overlay.json
	@$(BUILD) -overlay bin/wardens/overlay.json -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/corral

bin/corral-warden: $(WARDENS)
	@cp bin/wardens/corral-warden-$$($(GO) env GOARCH) $@

# It runs in sandboxes, so on Linux in any case.
bin/corral-escape: FORCE
	@GOOS=linux $(BUILD) -ldflags '-s -w' -o $@ ./cmd/corral-escape

bin/corral-worker-claude: FORCE
	@$(BUILD) -ldflags '-s -w' -o $@ ./cmd/corral-worker-claude

# What could make other bytes of the same sources is fixed here.
REPRODUCIBLY := env GOTOOLCHAIN=$(WARDEN_GO) GOFLAGS=-trimpath GOWORK=off GOEXPERIMENT= GOFIPS140=off GOAMD64=v1 GOARM64=v8.0

.PHONY: wardens
wardens: ## Build the wardens that are in git, after a change of what goes into them (make check says when)
	@for a in $(ARCHS); do \
		$(REPRODUCIBLY) GOOS=linux GOARCH=$$a $(BUILD) -ldflags '-s -w' -o internal/warden/wardenbin/bin/corral-warden-$$a ./cmd/corral-warden; \
	done

.PHONY: wardens-check
wardens-check: ## Check that the wardens in git are what the sources make (part of make check)
	@mkdir -p bin/wardens
	@for a in $(ARCHS); do \
		f=internal/warden/wardenbin/bin/corral-warden-$$a; \
		$(REPRODUCIBLY) GOOS=linux GOARCH=$$a $(BUILD) -ldflags '-s -w' -o bin/wardens/committed-$$a ./cmd/corral-warden || \
			{ echo "check: cannot build $$f with $(WARDEN_GO)" >&2; exit 1; }; \
		cmp -s bin/wardens/committed-$$a $$f || \
			{ echo "check: $$f is not what the sources make with $(WARDEN_GO): run make wardens, and commit what it makes" >&2; exit 1; }; \
	done

bin/testreport: FORCE
	@$(BUILD) -o $@ ./internal/test/testreport

.PHONY: size
size: $(WARDENS) ## Check that the warden is small: it is copied into every sandbox
	@for f in $(WARDENS) $(COMMITTED); do \
		n=$$(stat -c %s $$f); \
		((n <= $(MAX_WARDEN))) || { echo "size: $$f has $$n bytes, more than $(MAX_WARDEN)" >&2; exit 1; }; \
	done

.PHONY: image
image: setup-demo ## Build the sandbox image, if there is none
	@$(WITH_ENGINE) $(GO) run ./e2e/image

.PHONY: images
images: setup-test ## Build every image of Corral's own twice, on two engines, and check that they are the same (make test does it with the smallest)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_IMAGES_LONG=1 \
		$(GO) test -tags e2e -count=1 -timeout 60m -v -run TestReproducible $(TESTFLAGS) ./images

.PHONY: interpreter
interpreter: setup-test build ## Make the image of the code interpreter, which takes minutes, and run E2B's published one on it
	@$(WITH_ENGINE) bin/corral images ensure corral/code:bookworm
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_INTERPRETER=1 $(GO) test -tags e2e -count=1 -timeout 15m -v -run TestInterpreter $(TESTFLAGS) ./e2e/e2b

.PHONY: clients
clients: ## Build the archives of the Python and the TypeScript client into bin/clients (needs python3 and npm)
	@mkdir -p bin/clients
	@python3 clients/python/build_backend.py bin/clients
	@cd clients/ts && npm ci --silent --no-audit --no-fund && npm run --silent build && \
		npm pack --silent --pack-destination ../../bin/clients

# BUNDLE writes the console's bundle into the directory $1. Of the same sources and
# packages it makes the same bytes.
define BUNDLE
	@cd console && npm ci --silent --no-audit --no-fund --ignore-scripts
	@rm -rf $1 && mkdir -p $1
	@$(ESBUILD) console/src/main.jsx --bundle --splitting --format=esm --target=es2022 --minify --legal-comments=none --charset=utf8 \
		--jsx=automatic --jsx-import-source=preact --entry-names=app --chunk-names=[name]-[hash] --log-level=warning --outdir=$1
	@$(ESBUILD) console/src/app.css --bundle --minify --legal-comments=none --log-level=warning --outfile=$1/app.css
	@cp console/src/icon.svg $1/
	@cd console/node_modules && for p in preact uplot @xterm/xterm @xterm/addon-fit @xterm/addon-search; do echo "$$p"; cat $$p/LICENSE; done >$(CURDIR)/$1/licenses.txt
endef

.PHONY: console console-check
console: $(ESBUILD) ## Bundle the console's pages into console/dist, after a change of console/src (needs npm)
	$(call BUNDLE,console/dist)

console-check: $(ESBUILD) ## Check that the bundle in git is what the sources make (needs npm)
	$(call BUNDLE,bin/console)
	@diff -rq bin/console console/dist || { echo "check: console/dist is not what console/src makes: run make console, and commit what it makes" >&2; exit 1; }

.PHONY: screenshots
screenshots: setup-test ## Make pictures of every screen of the console in bin/screenshots, and those of docs (as root, in /srv/corral)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_SCREENSHOTS=$(CURDIR)/bin/screenshots \
		unshare --uts sh -c 'hostname gateway && exec "$$@"' - $(GO) test -tags e2e -count=1 -timeout 10m -run 'Screens' $(TESTFLAGS) ./e2e/console
	@mkdir -p docs/how-to/console
	@cp bin/screenshots/*-wide.png bin/screenshots/*-dark.png bin/screenshots/*-phone.png docs/how-to/console/
	@rm -f docs/how-to/console/*-phone-dark.png

.PHONY: cross
cross: ## Build and vet for the other platforms
	@for p in linux/arm64 darwin/arm64 windows/amd64; do \
		echo "cross: $$p"; \
		export GOOS=$${p%/*} GOARCH=$${p#*/}; \
		$(GO) build ./...; \
		$(GO) vet ./...; \
	done

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin

##### Testing, in parts

.PHONY: unit
unit: ## Run the tests that need no engine (fast)
	@$(GO) test $(AT_ONCE) $(TESTFLAGS) $(LONGEST) ./...

.PHONY: race
race: setup-test ## Run all tests with the race detector, also those that drive programs (takes twice as long as make test)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 $(RACE) $(ALL_TESTS) $(TESTFLAGS) $(LONGEST) ./...

.PHONY: e2e
e2e: setup-test build ## Run the end-to-end tests as well, with an engine
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 $(GO) test -tags e2e $(TESTFLAGS) ./...

.PHONY: chaos
chaos: setup-test ## Kill gateways under load, break what is under them and cut them off from nodes: 120 kills, 60 sessions at a time, a minute (make test does less; sets the clock)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_CHAOS_KILLS=120 CORRAL_CHAOS_SESSIONS=60 CORRAL_CHAOS_CUT=60 \
		$(GO) test -tags e2e,chaos -count=1 -timeout 30m -v $(TESTFLAGS) ./e2e/chaos

.PHONY: soak
soak: setup-test ## Four keys of two tenants for SOAK (10m), one of which asks for more than it may (make test does some seconds)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_SOAK=$(SOAK) $(GO) test -tags e2e -count=1 -timeout 0 -v -run TestTenants $(TESTFLAGS) ./e2e/clients

.PHONY: soak-e2b
soak-e2b: SOAK = 1h
soak-e2b: setup-test ## Use the E2B wire through E2B's SDK for SOAK (1h), and look at what the gateway has (make test does some seconds)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_SOAK=$(SOAK) $(GO) test -tags e2e -count=1 -timeout 0 -v -run TestSoak $(TESTFLAGS) ./e2e/e2b

.PHONY: cycles
cycles: setup-test ## Make, use and kill sandboxes a thousand times, and look for anything that is left (make test does it 20 times)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_CYCLES=1000 $(GO) test -tags e2e -count=1 -timeout 60m -v -run 'TestCycles|TestKilledAtEachStep' $(TESTFLAGS) ./sandbox

.PHONY: escape
escape: setup-test ## Try to get out of sandboxes on every engine, and let bombs go off beside a neighbour, whose commands are measured (make test does it in short)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 CORRAL_ESCAPE_LONG=1 \
		$(GO) test -tags e2e -count=1 -timeout 30m -v $(TESTFLAGS) ./e2e/escape

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (60s), and COMMANDS (100000) shell commands past the policy
	@GO=$(GO) FUZZTIME=$(FUZZTIME) e2e/fuzz.sh
	@CORRAL_COMMANDS=$(COMMANDS) CORRAL_SEED=$$(date +%s) $(GO) test -run TestDifferential -count=1 -timeout 60m -v ./policy

.PHONY: mutate
mutate: ## Change one operator at a time in PACKAGES, and see whether tests notice (all: an hour)
	@$(GO) run ./internal/test/mutate $(MUTATEFLAGS) $(PACKAGES)

.PHONY: bench
bench: setup-bench build image ## Measure: JSON and a table
	@$(WITH_ENGINE) env CORRAL_WARDEN=$(CURDIR)/bin/corral-warden $(GO) run ./e2e/bench -containerd "$$(e2e/engine.sh containerd)"

.PHONY: bench-scale
bench-scale: ## Measure how costs grow with the numbers of sessions, sandboxes and followers
	@$(GO) test -run '^$$' -bench Scale -benchtime 2s $(TESTFLAGS) ./session ./sandbox | grep -E 'Scale|FAIL|^ok'

.PHONY: bench-e2b
bench-e2b: setup-bench build image ## Measure the E2B wire through E2B's SDK, in turns with E2B's daemon (of the directory CORRAL_E2B_SUITE)
	@$(WITH_ENGINE) env REQUIRE_DOCKER=1 $(GO) test -tags e2e -run '^$$' -bench SDK -benchtime 1x -count=1 $(TESTFLAGS) ./e2e/e2b

##### Checking

.PHONY: check
check: $(STATICCHECK) wardens-check ## gofmt, go vet, staticcheck, and the wardens in git (part of make test)
	@files=$$($$($(GO) env GOROOT)/bin/gofmt -l .); \
		[[ -z $$files ]] || { echo "check: not gofmted:" $$files >&2; exit 1; }
	@$(GO) vet -tags e2e,chaos ./...
	@$(STATICCHECK) -tags e2e,chaos ./...

.PHONY: lint
lint: check tidy-check vuln $(GOLANGCI) ## All linters; slow the first time, when they are built
	@$(GOLANGCI) run
	@if command -v shellcheck >/dev/null; then shellcheck .ci/run $$(git ls-files '*.sh'); \
		else echo 'lint: shellcheck is not installed; scripts not checked' >&2; fi

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are tidy
	@$(GO) mod tidy -diff

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Check for known vulnerabilities that are reached
	@out=$$($(GOVULNCHECK) ./... 2>&1) || { \
		case $$out in \
		*'fetching vulnerabilities'*) echo 'vuln: NOT CHECKED, the vulnerability database cannot be reached' >&2 ;; \
		*) echo "$$out" >&2; exit 1 ;; \
		esac; }

BUF           := bin/tools/github.com/bufbuild/buf/cmd/buf@v1.57.2/buf
PROTOC_GEN_GO := bin/tools/google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12/protoc-gen-go

.PHONY: proto
proto: $(BUF) $(PROTOC_GEN_GO) ## Generate the messages of E2B's clients, after a change of a .proto file
	@cd gateway/e2b/envdpb && PATH="$(CURDIR)/$(dir $(PROTOC_GEN_GO)):$$PATH" $(CURDIR)/$(BUF) generate

$(STATICCHECK) $(GOLANGCI) $(GOVULNCHECK) $(BUF) $(PROTOC_GEN_GO) $(ESBUILD): bin/tools/%:
	@GOBIN=$(CURDIR)/$(@D) $(GO) install $(patsubst %/,%,$(dir $*))

##### The machine

.PHONY: setup-demo setup-test setup-bench
setup-demo setup-test setup-bench: setup-%:
	@e2e/setup.sh $*
	@e2e/engine.sh start >/dev/null

.PHONY: engine-stop
engine-stop: ## Stop the engines that this Makefile started (others are left alone)
	@e2e/engine.sh stop
