# GlobalFS: `make run` mounts it, `make test` tests all of it. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MOUNT ?= $(HOME)/globalfs
ARGS ?=
DESTDIR ?=
PREFIX ?= /usr/local
SEEDS ?= 100000
SOAK ?= 5m
FUZZ ?= 1m
CHAOS ?= 30m
CHAOS_SHORT ?= 2m
# The protocol that orders the partitions of a region in `make chaos`: primcast or tram.
CHAOS_ORDER ?= primcast
# The tests that were skipped; `make test` prints them at its end. With SKIPPED=fail they are failures.
export SKIPS ?= $(CURDIR)/bin/skipped
export SKIPPED ?= print
GOTEST := go run ./test/gotest
# `make test` runs these targets beside the tests in real time, with the processor time that those leave.
BESIDE ?= arch sim

GOLANGCI := v2.15.0
GOVULNCHECK := v1.8.0
NFPM := v2.45.2
GORELEASER := v2.15.0
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/globalfs/tools

# What has goroutines of its own is also tested with the race detector: those first that take the longest.
CONCURRENT := $(addprefix ./internal/,dev registry block/region mount daemon block/disk transport block/objects fsck wal block/diskcache block client collector driver mover server) ./pkg/fabric/soft ./pkg/fabric/shm ./pkg/rdmaconn ./pkg/multicast/tram ./test/bubble ./test/wan
# Of these the ones that have no more to test without it, and take seconds.
RACED := daemon|dev|mount|registry|block/disk|block/diskcache|block/objects|fsck|transport|wal

##@ Use

.PHONY: run
run: build ## mount an embedded cluster of three regions (MOUNT=dir, ARGS="--wan ...")
	@deploy/deps.sh run
	bin/globalfs dev --mount '$(MOUNT)' $(ARGS)

.PHONY: build
build: ## bin/globalfs, static
	@deploy/deps.sh go
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/globalfs ./cmd/globalfs

.PHONY: install
install: build ## install the program, units, man pages and completions (DESTDIR=, PREFIX=/usr/local)
	deploy/install.sh bin/globalfs '$(DESTDIR)' '$(PREFIX)'

VERSION ?= 0.0.0~$(shell date -u +%Y%m%d)
.PHONY: packages
packages: $(TOOLS)/nfpm@$(NFPM) ## bin/packages: .deb and .rpm for amd64 and arm64 (VERSION=0.0.0~DATE)
	@deploy/deps.sh go
	NFPM='$<' deploy/packages/make.sh '$(VERSION)'

.PHONY: package-check
package-check: $(TOOLS)/nfpm@$(NFPM) ## install, upgrade, remove and purge the .deb in a copy of this machine's Debian
	@deploy/deps.sh go
	NFPM='$<' deploy/packages/check.sh

.PHONY: release
release: $(TOOLS)/goreleaser@$(GORELEASER) ## bin/release: the files of a release without publishing them (goreleaser takes minutes to build)
	$< check --config deploy/goreleaser.yaml
	$< release --config deploy/goreleaser.yaml --snapshot --clean $(ARGS)

.PHONY: lab
lab: build ## bin/globalfs-lab: protocols beside each other, real processes, a wide-area network
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/globalfs-lab ./cmd/globalfs-lab

.PHONY: bench
bench: lab ## three server processes and a mount beside loopback FUSE and the disk (ARGS="-- --measures create ...")
	@deploy/deps.sh run
	bin/globalfs-lab mount $(ARGS)

##@ Development

.PHONY: test
test: none-skipped deps vet ## everything: on a bare machine it first installs what is missing
	@failed=0; $(MAKE) beside & $(MAKE) in-real-time || failed=1; wait $$! || failed=1; exit $$failed
	@$(GOTEST) -report

IN_TURN = for target in $(1); do start=$$SECONDS; $(2) $(MAKE) $$target; \
	echo "=== make $$target: ok in $$((SECONDS - start)) s"; done

.PHONY: beside in-real-time
beside:
	@$(call IN_TURN,$(BESIDE),nice -n 19)
in-real-time:
	@$(call IN_TURN,unit race wan processes rdma cluster)

.PHONY: none-skipped
none-skipped:
	@rm -f '$(SKIPS)'

.PHONY: deps
deps: ## install what the tests need: FUSE, a C compiler, pjdfstest, fsx, an S3 server, etcd
	@deploy/deps.sh test

.PHONY: vet
vet:
	go vet ./...

# -count=1: the result depends on files that the test cache does not know of.
.PHONY: arch
arch: ## the import rules, the documentation rules, the dependency lists, and that mutants apply
	$(GOTEST) -count=1 ./test/arch ./test/mutants ./test/gotest

.PHONY: unit
unit: ## all packages but the simulator, and those that `make race` runs as well as this would
	$(GOTEST) -vet=off -timeout 20m $$(go list ./... | grep -v /test/ | grep -vE '/internal/(sim|$(RACED))$$')
	$(GOTEST) -count=1 -timeout 5m ./internal/dev -run TestLatencyBetweenRegions

.PHONY: sim
sim: ## the cores and the whole file system in the simulator
	$(GOTEST) -vet=off -timeout 40m ./internal/sim

.PHONY: race
race: ## the concurrent packages with the race detector
	@if command -v cc >/dev/null; then $(GOTEST) -vet=off -race -short -timeout 20m $(CONCURRENT); else \
		echo 'without the race detector, which needs a C compiler: sudo apt-get install -y gcc libc6-dev'; \
		mkdir -p bin; echo 'make race: no C compiler' >>'$(SKIPS)'; \
		$(GOTEST) -timeout 10m $(CONCURRENT); fi

.PHONY: posix
posix: ## pjdfstest, fsx, a compiler, crashes: the real binary on a real mount
	$(GOTEST) -count=1 -timeout 15m ./test/posix

.PHONY: storage
storage: ## a region's storage servers as processes, killed, paused, with damaged and full disks
	$(GOTEST) -count=1 -timeout 15m ./test/storage

.PHONY: processes
processes: ## posix, storage and loss of power beside each other: they mostly wait
	$(GOTEST) -count=1 -timeout 15m ./test/posix ./test/storage ./test/power/...

.PHONY: wan
wan: ## the WAN laboratory: hosts as network namespaces, with delays, loss and cuts (root)
	$(GOTEST) -count=1 -timeout 5m ./test/wan

.PHONY: rdma
rdma: ## RDMA: on a device of this machine, or with RDMA_VM=1 in a virtual machine with soft-RoCE (rdma-vm in PATH)
	$(GOTEST) -count=1 -timeout 60m ./test/rdma

.PHONY: chaos
chaos: deps ## nine servers in a WAN laboratory for CHAOS=30m (CHAOS_ORDER=tram), with all that goes wrong in one (also steps this machine's clock)
	go test -count=1 -v -timeout 0 ./test/chaos -chaos.duration $(CHAOS) -chaos.order $(CHAOS_ORDER) -chaos.clock -chaos.figures $(CURDIR)/bin/chaos

.PHONY: flood
flood: ## how much a hostile machine with a narrow certificate slows a mount, for two minutes (a quiet machine)
	go test -tags flood -count=1 -v -timeout 20m ./test/cluster -run '^TestAFlood$$'

.PHONY: durability
durability: ## durability sync beside os: on three emulated disks (tmpfs, 0.5 ms a sync), then on this machine's disk
	go build -tags slowdisk -o bin/globalfs-slow ./cmd/globalfs
	go run ./cmd/globalfs-lab geo --settings loopback,loopback-sync --regions west --datacenters 3 --duration 700ms --globalfs bin/globalfs-slow --data-dir /dev/shm
	go run ./cmd/globalfs-lab geo --settings loopback,loopback-sync --regions west --datacenters 3 --duration 700ms --globalfs bin/globalfs

.PHONY: cluster
cluster: ## the real commands on a cluster of processes; chaos for CHAOS_SHORT=2m, and a region that dies
	$(GOTEST) -count=1 -timeout 20m -parallel 3 ./test/cluster
	$(GOTEST) -count=1 -timeout 20m ./test/chaos -chaos.duration $(CHAOS_SHORT) -chaos.within 20s # CI machines are shared

.PHONY: soak
soak: deps fuzz ## the random tests for long (SEEDS=100000 simulations, SOAK=5m a race of two mounts)
	go test -count=1 -timeout 0 ./internal/sim -sim.seeds=$(SEEDS)
	go test -count=1 -timeout 0 ./internal/block/region -run 'RegionHeals' -block.seeds=$$(($(SEEDS) / 100))
	go test -count=1 -timeout 0 ./test/storage -storage.rounds=50
	go test -count=1 -timeout 0 ./internal/dev -run Race -race.duration=$(SOAK)
	go test -count=1 -timeout 0 ./test/posix -posix.ops=100000

.PHONY: mutants
mutants: ## code with a line broken: the simulator or a directed test finds each
	go test -count=1 -v -parallel 2 -timeout 30m ./test/mutants -mutants | grep -v '^==='

.PHONY: fuzz
fuzz: ## every fuzz target (FUZZ=1m each)
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' bench cmd internal pkg test | xargs -n1 dirname | sort -u); do \
		for target in $$(go test -list '^Fuzz' ./$$dir | grep '^Fuzz'); do \
			echo "$$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ) ./$$dir; \
		done; \
	done

.PHONY: lint
lint: vet $(TOOLS)/golangci-lint@$(GOLANGCI) ## gofmt, vet, golangci-lint (with staticcheck), sizes
	@unformatted="$$(gofmt -l cmd internal pkg test $(wildcard bench))"; \
		if [ -n "$$unformatted" ]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	$(TOOLS)/golangci-lint@$(GOLANGCI) run
	@go test -count=1 -v -run TestSizes ./test/arch

.PHONY: docs
docs: ## bin/site: the pages as a static site; a broken link is an error
	@deploy/deps.sh python '$(TOOLS)/mkdocs' deploy/docs/requirements.txt
	deploy/docs/build.sh '$(TOOLS)/mkdocs/bin/mkdocs'

.PHONY: vulncheck
vulncheck: $(TOOLS)/govulncheck@$(GOVULNCHECK) ## known vulnerabilities in what the binaries link (asks vuln.go.dev)
	$(TOOLS)/govulncheck@$(GOVULNCHECK) ./...

$(TOOLS)/nfpm@$(NFPM):
	@deploy/deps.sh tool $@ github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM)

$(TOOLS)/goreleaser@$(GORELEASER):
	@deploy/deps.sh tool $@ github.com/goreleaser/goreleaser/v2@$(GORELEASER)

$(TOOLS)/govulncheck@$(GOVULNCHECK):
	@deploy/deps.sh tool $@ golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)

$(TOOLS)/golangci-lint@$(GOLANGCI):
	@deploy/deps.sh tool $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

.PHONY: help
help:
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
