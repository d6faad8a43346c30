# Two commands do everything on a fresh machine with Rust, Go and make:
#
#   make demo   the whole life of volumes beside a real driver, told step by step
#   make test   every check and test
#
# `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# Tests and the programs that they run come from one compilation. These programs are static like the released ones, so that
# they run in an empty image. The target is named because cargo would otherwise link procedural macros statically, too, and fail.
export CARGO_BUILD_TARGET := $(HOST)
export CARGO_TARGET_$(shell tr a-z- A-Z_ <<<'$(HOST)')_RUSTFLAGS := -C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"
COMPILED := $(CARGO_TARGET_DIR)/$(HOST)/debug
# As long in every clone: how short git makes a commit depends on what else there is.
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)
# What is not released does not name its commit, or each commit would have every program compiled anew.
UNRELEASED := development
export CSI_SIDECARS_VERSION := $(UNRELEASED)

# A static program: runs in an empty root directory. getrandom would look for the device files
# there unless told to use the system call.
STATIC := -C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"
# Half a megabyte of each program is addresses that are adapted when it starts; packed they are next to
# nothing, and the C library can read them since 2.36.
LIBC := $(or $(lastword $(shell getconf GNU_LIBC_VERSION 2>/dev/null)),0)
ifeq ($(firstword $(shell printf '%s\n' 2.36 $(LIBC) | sort -V)),2.36)
STATIC += -C link-arg=-Wl,-z,pack-relative-relocs
endif
# Programs abort when they panic and never unwind a stack (docs/adr/0004); functions that are the same are kept once. The
# linker that Rust brings for this platform can do both. Not with FIPS=1, whose module checks its own code.
ifneq ($(if $(filter 1,$(FIPS)),,$(filter x86_64-%-linux-gnu,$(HOST))),)
STATIC += -C link-arg=-Wl,--icf=all -C link-arg=-Wl,--no-eh-frame-hdr -C link-arg=-Wl,-T,images/no-unwinding.ld
endif
# Messages of panics name files of crates: where cargo keeps them here must not be in a program, or
# no two machines would build the same.
CARGO_HOME ?= $(HOME)/.cargo
STATIC += --remap-path-prefix=$(CARGO_HOME)=/cargo
# FIPS=1: TLS from the module AWS-LC FIPS (docs/platforms.md); needs CMake, Go, Perl and a C compiler.
STATIC += $(if $(filter 1,$(FIPS)),--cfg fips)
release = CSI_SIDECARS_VERSION='$(VERSION)' CSI_SIDECARS_REVISION="$(REVISION)" RUSTFLAGS='$(STATIC)' cargo build --release --locked --target $(HOST)
RELEASED := $(CARGO_TARGET_DIR)/$(HOST)/release
# What is not shipped is built from one selection of packages and features, so that no dependency
# is compiled twice: `.ci/guards dependencies` compares the features with and without those of tests.
ALL := --locked --workspace --all-features
compile = cargo build $(ALL) --bin

# One way to compile Go for all that is made of Kubernetes' packages, helm too, whose module pins the
# same ones: three thousand packages are then compiled once. Nobody runs a debugger on them.
GO := CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -gcflags=all=-dwarf=false'

say = @printf '==> %s\n' '$(1)'

# A missing tool is named with the way to it, before a shell says no more than "not found".
need = @command -v $(1) >/dev/null || { echo 'make $@ needs $(2)' >&2; exit 1; }
need-rust = $(call need,cargo,Rust: https://rustup.rs)
need-go = $(call need,go,Go 1.26 or newer: https://go.dev/dl)

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- Programs ---------------------------------------------------------------------------------

# What cargo is told for each.
csi-node-driver-registrar := -p registrar
csi-plugin-manager := -p registrar --features registrar/plugin-manager
livenessprobe := -p livenessprobe
csi-attacher := -p attacher
csi-provisioner := -p provisioner
csi-resizer := -p resizer
csi-snapshot-metadata := -p snapshot-metadata
csi-snapshotter := -p snapshotter
snapshot-controller := -p snapshot-controller
csi-external-health-monitor-controller := -p health-monitor
csi-node-agent := -p node-agent
csi-node-sidecars := -p together
csi-sidecars := -p multicall
kubectl-csi := -p kubectl-csi
PROGRAMS ?= csi-node-driver-registrar csi-node-sidecars csi-plugin-manager csi-node-agent livenessprobe csi-attacher csi-provisioner csi-resizer \
            csi-snapshotter csi-snapshot-metadata snapshot-controller csi-external-health-monitor-controller kubectl-csi

# People run it, on their own machines: there is no image.
TOOLS := kubectl-csi

# To link it takes minutes: only for what measures it.
bench: PROGRAMS += csi-sidecars

# Linking takes most of the time and one processor: what has the same dependencies is linked side by side.
ALIKE := csi-attacher csi-provisioner csi-resizer csi-snapshotter csi-snapshot-metadata snapshot-controller csi-external-health-monitor-controller
KUBELETS := csi-plugin-manager csi-node-agent

define released
@$(release) $(foreach one,$(1),$($(one)) --bin $(one))
@install -C $(1:%=$(RELEASED)/%) bin/

endef

.PHONY: build
build: ## Every shipped program, released and static, into bin/ (needs Rust alone; PROGRAMS='csi-attacher ...': only these)
	$(need-rust)
	$(call say,build: released static programs (a few minutes the first time))
	@mkdir -p bin
	$(foreach one,$(filter-out $(ALIKE) $(KUBELETS),$(PROGRAMS)),$(call released,$(one)))
	$(foreach some,KUBELETS ALIKE,$(if $(filter $($(some)),$(PROGRAMS)),$(call released,$(filter $($(some)),$(PROGRAMS)))))
	@ls -l $(PROGRAMS:%=bin/%) | awk '{ sub("bin/", "", $$NF); printf "    %-38s %6.2f MB\n", $$NF, $$5 / 1e6 }'

# As tests run them: static, and they end at a panic like the released ones, but nothing is optimized between crates, which takes
# a minute for each program. SHIPPED=1 has what runs programs run those in bin/, as `make release-check` does.
TESTED := build/programs
export CSI_PROGRAMS := $(if $(filter 1,$(SHIPPED)),bin,$(TESTED))
ARCHIVES := $(if $(filter 1,$(SHIPPED)),build,$(TESTED))/images

.PHONY: programs
ifeq ($(SHIPPED),1)
programs: PROGRAMS += csi-sidecars
programs: build
else
programs: ## Every program as tests run it, into build/programs: like the released ones, but quick to compile (SHIPPED=1: bin/ instead)
	$(need-rust)
	$(call say,programs: static programs that are not optimized)
	@cargo build $(ALL) --bins
	@mkdir -p $(TESTED)
	@for one in $(PROGRAMS) csi-sidecars; do \
	    [ $(TESTED)/$$one -nt $(COMPILED)/$$one ] || strip -o $(TESTED)/$$one $(COMPILED)/$$one; \
	done
endif

# A tag v1.2.3 is version 1.2.3 of images and charts. Images carry the time of their source.
IMAGE_TAG ?= $(patsubst v%,%,$(VERSION))
# Names of images on this machine alone: who pushes them says where to.
IMAGE_REGISTRY ?= localhost/csi-sidecars
# What was built with changes is of no commit.
REVISION = $(if $(findstring -dirty,$(VERSION)),,$$(git rev-parse HEAD 2>/dev/null || true))
# URL for the label of that name, and for the charts' home; none leaves it out.
IMAGE_SOURCE ?=
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
# Not for compilers: what is compiled from C would be compiled anew for each commit, and everything above it.
unexport SOURCE_DATE_EPOCH

# As images name it.
PROCESSOR = $(patsubst aarch64-%,arm64,$(patsubst x86_64-%,amd64,$(HOST)))

# $(call archives,programs by name,their version): archives of programs in bin/, unless other options stand before the names.
archives = $(compile) images && \
    SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' $(COMPILED)/images --tag '$(IMAGE_TAG)' --target '$(HOST)' --registry '$(IMAGE_REGISTRY)' \
        --program-version '$(or $(2),$(VERSION))' --source '$(IMAGE_SOURCE)' --revision "$(REVISION)" $(1)
IMAGES ?= $(filter-out $(TOOLS),$(PROGRAMS)) csi-sidecars

.PHONY: images
images: $(if $(filter 1,$(FIPS)),fips-images) ## OCI archive and SBOM of every program and of one with all, into build/images (IMAGES='csi-attacher ...', IMAGE_TAG=, IMAGE_REGISTRY=)
	@$(MAKE) build PROGRAMS='$(IMAGES)'
	$(call say,images: archives and SBOMs)
	@$(call archives,$(IMAGES))

.PHONY: fips-images
fips-images:
	@echo 'FIPS=1: make builds programs with it, no images; see docs/platforms.md' >&2; exit 1

# What real nodes load: images of the programs that tests run.
.PHONY: archives
archives: $(if $(filter 1,$(FIPS)),fips-images) programs
	@$(call archives,--programs $(CSI_PROGRAMS) --out $(ARCHIVES) $(IMAGES),$(if $(filter 1,$(SHIPPED)),,$(UNRELEASED)))

.PHONY: reproduce
reproduce: images ## Builds the images again, elsewhere, and fails unless every byte is the same
	@SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' images/reproduce.sh $(IMAGES)

.PHONY: e2e-kind
e2e-kind: images helm ## csi-driver-host-path with our images on kind (needs docker, kind, kubectl, Go and the internet; never run yet)
	@e2e/kind/run.sh build/images '$(IMAGE_REGISTRY)' '$(IMAGE_TAG)'

.PHONY: chart-package
chart-package: helm ## The chart as a file that names the images of IMAGE_TAG in IMAGE_REGISTRY, into build/chart
	@charts/package.sh "$$PWD/bin/helm" '$(IMAGE_TAG)' '$(if $(filter file,$(origin IMAGE_REGISTRY)),,$(IMAGE_REGISTRY))' "$$PWD/build/chart" '$(IMAGE_SOURCE)'

.PHONY: bundle
bundle: images chart-package ## Images, SBOMs and chart as one file with checksums, into build/bundle (IMAGE_REGISTRY=, IMAGE_TAG=, IMAGES=)
	@SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' images/bundle.sh "$$PWD/bin/helm" build/images 'build/chart/csi-sidecars-$(IMAGE_TAG).tgz' \
	    '$(PROCESSOR)' build/bundle

.PHONY: cluster
cluster: ## The test cluster's program (needs Go), into bin/
	$(need-go)
	$(call say,cluster: etcd and Kubernetes from API server to kubelet in one program (minutes the first time))
	@mkdir -p bin
	@$(MAKE) -C e2e/cluster build

# Where they lie in the Go module cache is asked where there is no network.
.PHONY: snapshot-crds
snapshot-crds:
	$(need-go)
	@cd e2e/snapshot-crds && go mod download

.PHONY: smoke
smoke: cluster ## The test cluster's own tests: it starts, runs a pod and leaves nothing behind
	$(call say,smoke: the test cluster proves itself)
	@$(MAKE) -C e2e/cluster test smoke

.PHONY: model
model: cluster ## The model API server of the tests answers like the real one
	$(need-rust)
	$(call say,model: the same requests to the model API server and to the real one)
	@e2e/cluster/model bin/csi-cluster cargo test $(ALL) --test conformance -- --include-ignored

# What is measured beside the driver must not wait for it, as tests may.
driver-build := $(compile) csi-test-driver
driver-folder := $(COMPILED)
bench: driver-build := cargo build --locked -p csi-test-driver --profile tool
bench: driver-folder := $(CARGO_TARGET_DIR)/$(HOST)/tool

.PHONY: driver
driver: ## The CSI driver of the tests, into bin/
	$(need-rust)
	$(call say,driver: the CSI driver of the tests)
	@mkdir -p bin
	@$(driver-build)
	@install -C $(driver-folder)/csi-test-driver bin/

.PHONY: helm
helm: bin/helm ## helm, for the charts (needs Go), into bin/
bin/helm: e2e/helm/go.mod e2e/helm/go.sum
	$(need-go)
	$(call say,helm: compiling it takes minutes the first time)
	@mkdir -p bin
	@cd e2e/helm && $(GO) nice -n 15 ../go-build -ldflags '-s -w' \
	    -o ../../bin/helm helm.sh/helm/v4/cmd/helm
	@touch bin/helm

# Programs of one Go module each, which tests ask about libraries of others. $(call go-tool,target,folder in e2e,program,message)
define go-tool
build/$(3): $(addprefix e2e/$(2)/,main.go go.mod go.sum)
	$$(need-go)
	$$(call say,$(1): $(4))
	@mkdir -p build
	@$$(GO) nice -n 15 go build -C e2e/$(2) -ldflags '-s -w' -o ../../build/$(3) .
	@touch build/$(3)
endef
# Tests of the charts read alerts and dashboards with it.
.PHONY: promql
promql: build/promql
$(eval $(call go-tool,promql,promql,promql,the parser of Prometheus))
# Tests of the crate `migration` compare with it.
.PHONY: translator
translator: build/translate
$(eval $(call go-tool,translator,translate,translate,the library that translates in-tree volumes upstream))
# Tests of the crate `snapshot-metadata` are clients of ours with it.
.PHONY: iterator
iterator: build/iterate
$(eval $(call go-tool,iterator,iterator,iterate,the client library by which backup programs ask for changed blocks))

# --- The main job -----------------------------------------------------------------------------

# An existing cluster is used only when it is named on this command line; a KUBECONFIG that merely
# stands in the environment must not make a demo write into somebody's cluster.
DEMO_KUBECONFIG := $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))

DEMO := $(if $(DEMO_KUBECONFIG),guest,whole)

.PHONY: demo-needs
demo-needs:
	@e2e/needs.sh $(DEMO)
	@[ -x $(TESTED)/csi-sidecars ] && [ -x bin/csi-cluster ] && echo '==> demo: compiles what has changed, then tells its story in a minute' || \
	    echo '==> demo: the first run compiles the sidecars, a Kubernetes control plane and helm: some eight minutes on two processors; later runs take a minute'

# Compilers wait for each other at the end of a program, so Rust and Go are compiled side by side.
.PHONY: demo-rust demo-go
demo-rust:
	$(need-rust)
	@$(MAKE) programs
	@$(MAKE) driver
demo-go:
	@$(MAKE) cluster
	@$(MAKE) helm

.PHONY: demo
demo: demo-needs ## The whole life of volumes, step by step (SIDECARS=separate, together or both; TRACES=1: the trace of a claim; KUBECONFIG=file: a driver's registration on that cluster)
	@$(MAKE) -j2 demo-rust $(if $(DEMO_KUBECONFIG),,demo-go)
	$(call say,demo)
	@$(others) $(if $(TRACES),TRACES='$(TRACES)') $(COMPILED)/demo $(if $(DEMO_KUBECONFIG),--kubeconfig '$(DEMO_KUBECONFIG)')

# --- Checks -----------------------------------------------------------------------------------

.PHONY: test
test: ## Every check and test
	@.ci/stages 'nice go-programs &' checks test-programs programs driver wait cluster \
	    'units +' 'nice simulations + lint &' 'outside-controllers + &' 'outside-others +' 'wait outside-controllers' \
	    'nice chart real-node + smoke sanity model conformance-quick &' 'e2e-1 + &' 'e2e-2 +' wait

.PHONY: go-programs
go-programs: cluster helm snapshot-crds storage-suite translator promql iterator

# What ends within seconds comes first, so that whoever forgot it need not wait for a compiler.
.PHONY: checks
checks: ## Format and guards: the part of lint that compiles nothing
	$(need-rust)
	@.ci/lint checks

.PHONY: lint
lint: ## Format, guards, clippy, rustdoc, licences
	$(need-rust)
	@.ci/lint

# Compiling it takes minutes: whoever has none is told that it was not asked.
CARGO_DENY := 0.20.2
.PHONY: cargo-deny
cargo-deny: build/tools/bin/cargo-deny ## cargo-deny for `make lint`, into build/tools (compiling it takes minutes)
build/tools/bin/cargo-deny:
	$(need-rust)
	@CARGO_TARGET_DIR=build/tools/target cargo install --quiet --locked --root build/tools cargo-deny --version $(CARGO_DENY)
	@rm -rf build/tools/target

ACTIONLINT := 1.7.12
.PHONY: actionlint
actionlint: build/tools/bin/actionlint ## actionlint, which `make lint` asks about workflows, into build/tools (needs Go)
build/tools/bin/actionlint:
	$(need-go)
	@GOBIN="$$PWD/build/tools/bin" GOFLAGS= go install github.com/rhysd/actionlint/cmd/actionlint@v$(ACTIONLINT)

.PHONY: advisories
advisories: cargo-deny ## Dependencies against the advisories of RustSec (needs the internet)
	@build/tools/bin/cargo-deny --all-features --locked check --hide-inclusion-graph advisories

# Compiled before anything waits: then nothing compiles while tests do, and these can have company.
.PHONY: test-programs
test-programs:
	$(need-rust)
	$(call say,test-programs: all tests are compiled)
	@cargo test $(ALL) --no-run

.PHONY: unit
unit: units simulations outside ## Unit, property, crash-simulation, component and process tests

# Some of these are watched by deadlines of less than a second: nothing runs beside them.
.PHONY: units
units:
	$(need-rust)
	$(call say,units: unit tests)
	@$(threads) cargo test $(ALL) --exclude e2e --lib --bins -- $(addprefix --skip ,$(COMPUTE))
	@cargo test -q $(ALL) --bin chaos
	@cargo test -q $(ALL) --exclude e2e --doc

# Names of tests that compute and do not look at the time: they may have to wait for a processor.
COMPUTE := sim:: differential:: mutants:: properties::

.PHONY: simulations
simulations:
	$(need-rust)
	$(call say,simulations: crash simulations and property tests)
	@[ -x build/translate ] || { mkdir -p build; tee -a build/undone; } \
	    <<<'translations of in-tree volumes were not compared with upstream: no build/translate; make translator builds it with Go'
	@$(threads) cargo test $(ALL) --exclude e2e --lib -- $(COMPUTE)

# Most of these wait for time to pass, not for a processor. Cargo runs one test program after the other and waits for the longest
# test of each, so `make test` runs two lanes at a time.
outside = $(threads) cargo test $(ALL) --exclude e2e --test
.PHONY: outside outside-controllers outside-others
outside:
	$(need-rust)
	$(call say,outside: programs as they are run)
	@$(outside) '*'

# What has a folder tests/process is in the first lane, but for that of multicall, which takes as long as half of the others.
LANE := $(filter-out multicall,$(patsubst %/tests/process,%,$(wildcard */tests/process)))
# Their tests that would run in neither lane.
UNCLAIMED = $(filter-out %/tests/process,$(foreach one,$(LANE),$(wildcard $(one)/tests/*)))
outside-controllers:
	$(call say,outside-controllers: the programs of controllers as they are run)
	@$(if $(UNCLAIMED),echo 'make test runs tests/process alone of $(LANE): it would leave out $(UNCLAIMED)' >&2; exit 1)
	@$(outside) process --exclude multicall --exclude kubectl-csi

outside-others:
	$(call say,outside-others: all other programs as they are run)
	@$(outside) '*' $(LANE:%=--exclude %)

# Tests about what one process of several does otherwise, and has tests of its own for, fail here: help and how a bad start
# ends, who holds a lease, what the loss of it or another driver ends, what the driver is asked first.
.PHONY: process-together
process-together: ## Process tests of the single controllers, with csi-sidecars --controllers=... in their place
	$(need-rust)
	$(call say,process-together: csi-sidecars does what each single program does)
	@$(compile) csi-sidecars
	@for one in ATTACHER PROVISIONER RESIZER SNAPSHOTTER HEALTH_MONITOR; do export CSI_$${one}_BINARY="$(abspath $(COMPILED))/csi-sidecars"; done; \
	    $(threads) cargo test $(ALL) --no-fail-fast --exclude e2e --exclude multicall --exclude snapshot-controller --test process

threads = RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((3 * $$(nproc)))}

.PHONY: sanity
sanity: driver ## csi-sanity against the test driver, mount and block
	$(call say,sanity: csi-sanity against the test driver)
	@e2e/sanity/run.sh bin/csi-test-driver

.PHONY: chart
chart: helm promql ## The charts: lint, rendering, wrong values, dry run, permissions (ONLY=name; UPDATE=1 rewrites docs/rbac-mutations.md)
	$(call say,chart: rendered by helm and held to what they promise)
	@cargo test -q $(ALL) --test chart $(if $(ONLY),-- $(ONLY))

.PHONY: driver-charts
driver-charts: helm ## Drivers' own charts below CHARTS=folder, with ours included and with our images, on a real API server and scheduler
	$(call say,driver-charts: rendered by helm and applied to a real control plane)
	@[ -d '$(CHARTS)' ] || { echo 'CHARTS=folder: a folder with clones of drivers, or with their charts' >&2; exit 1; }
	@DRIVER_CHARTS='$(abspath $(CHARTS))' cargo test -q $(ALL) --test chart

.PHONY: manifests
manifests: helm ## Rewrites the plain manifests in deploy/ from the charts
	@UPDATE=1 cargo test -q $(ALL) --test chart -- plain_manifests_are

.PHONY: alerts
alerts: build/tools/bin/promtool ## docs/alerts.yaml judged by Prometheus' own tool: each alert fires where it should (compiling it takes minutes)
	$(call say,alerts: each fires where it should and nowhere else)
	@build/tools/bin/promtool test rules e2e/promtool/alerts.yaml
build/tools/bin/promtool: e2e/promtool/go.mod e2e/promtool/go.sum
	$(need-go)
	@mkdir -p $(@D)
	@cd e2e/promtool && $(GO) nice -n 15 ../go-build -ldflags '-s -w' -o ../../$@ github.com/prometheus/prometheus/cmd/promtool
	@touch $@

# e2e-1 and e2e-2 are halves of it, which `make test` runs at the same time, each on a cluster of its own.
.PHONY: e2e e2e-1 e2e-2
e2e e2e-1 e2e-2: helm snapshot-crds
e2e: ## Scenarios on the test cluster (ONLY=name runs one, ATTACHER=path, SNAPSHOTTER=path, ... another one, UPSTREAM=folder: upstream's)
	$(call scenarios,$(ONLY))
e2e-1 e2e-2:
	$(call scenarios,--part=$(@:e2e-%=%)/2)
define scenarios
$(call say,$@: scenarios on a real control plane)
@$(others) \
    $(if $(UPSTREAM),UPSTREAM='$(UPSTREAM)') cargo test $(ALL) --test scenarios $(if $(1),-- $(1))
endef

.PHONY: upstream
upstream: programs cluster driver helm snapshot-crds ## What differs from outside between two folders of upstream's programs (OLD=folder, NEW=folder, ONLY=name); docs/upstream.md
	@$(compile) upstream
	@e2e/upstream.sh $(if $(OLD),'$(OLD)') $(if $(NEW),'$(NEW)') $(if $(ONLY),'$(ONLY)')

# A cluster of each version is 140 MB and minutes of compilation.
OLDER ?= 1.34 1.35 1.36
.PHONY: versions
versions: programs driver helm snapshot-crds ## Scenarios on clusters of older Kubernetes versions (OLDER='1.34 1.35 1.36', ONLY=name)
	$(need-go)
	@for version in $(OLDER); do \
	    [ -f e2e/cluster/go-$$version.mod ] || { echo "OLDER: there is no e2e/cluster/go-$$version.mod; versions are $(patsubst e2e/cluster/go-%.mod,%,$(wildcard e2e/cluster/go-*.mod))" >&2; exit 1; }; \
	done
	@for version in $(OLDER); do \
	    printf '==> %s\n' "versions: Kubernetes $$version" && \
	    $(MAKE) -C e2e/cluster build OLDER=$$version OUT=../../bin/csi-cluster-$$version && \
	    CSI_CLUSTER="$$PWD/bin/csi-cluster-$$version" cargo test $(ALL) --test scenarios $(if $(ONLY),-- $(ONLY)) || exit 1; \
	done
	@printf '==> versions: the scenarios passed with Kubernetes %s\n' '$(OLDER)'

.PHONY: long-outages
long-outages: ## Processes of several whose driver stays away for ten minutes, at the start and later (AWAY_MINUTES=)
	$(need-rust)
	$(call say,long-outages: the driver stays away)
	@AWAY_MINUTES=$${AWAY_MINUTES:-10} cargo test $(ALL) --exclude e2e --test process --test node -- a_101_a_driver_that_comes a_52_a_driver_that_stays

.PHONY: clones
clones: programs cluster driver helm ## Claims and clones at once, ten times a thousand (CLAIMS=, ROUNDS=, PROVISIONER=path)
	$(call say,clones: claims and clones at once)
	@$(if $(PROVISIONER),PROVISIONER='$(PROVISIONER)') CLAIMS=$${CLAIMS:-1000} ROUNDS=$${ROUNDS:-10} \
	    cargo test $(ALL) --test scenarios -- provisioner_clones

.PHONY: real-node
real-node: archives cluster driver helm snapshot-crds iterator ## Scenarios on a node that runs containers (ONLY=name): manifests of upstream, the chart
	$(call say,real-node: scenarios on a node that runs containers)
	@$(compile) real-node
	@$(others) e2e/runtime/enclosed.sh $(COMPILED)/real-node $(ONLY)

# Kubernetes' own storage suite and what its specs run, from the pinned Kubernetes.
SUITE := $(GO) go build -C e2e/cluster -ldflags '-s -w' -o ../../build/
.PHONY: storage-suite
storage-suite:
	$(need-go)
	@mkdir -p build
	@$(SUITE)ginkgo github.com/onsi/ginkgo/v2/ginkgo
	@$(SUITE)agnhost k8s.io/kubernetes/test/images/agnhost
	@$(GO) go test -C e2e/cluster -vet=off -tags storagesuite -ldflags '-s -w' \
	    -c -o ../../build/storage.test ./storagesuite

CONFORMANCE = programs cluster driver helm snapshot-crds storage-suite
conformance = $(compile) conformance && \
    $(others) e2e/runtime/enclosed.sh $(COMPILED)/conformance

.PHONY: conformance
conformance: $(CONFORMANCE) ## Kubernetes' own storage suite on a real node (FOCUS=regex, SIDECARS=together, PROVISIONER=path, DRIVER=folder, ...)
	$(call say,conformance: the storage suite of Kubernetes on a real node)
	@$(conformance) $(if $(FOCUS),--focus '$(FOCUS)')

.PHONY: conformance-quick
conformance-quick: $(CONFORMANCE)
	$(call say,conformance: what says most about sidecars in the storage suite of Kubernetes)
	@$(conformance) --quick

.PHONY: conformance-mock
conformance-mock: $(CONFORMANCE) archives ## Its specs about the driver that it brings along and starts beside our images (FOCUS=regex)
	$(call say,conformance: the mock driver of Kubernetes with our images)
	@$(conformance) --mock $(if $(FOCUS),'$(FOCUS)')

# Variables that name another binary to measure beside ours.
OTHERS := REGISTRAR LIVENESSPROBE ATTACHER PROVISIONER RESIZER SNAPSHOTTER SNAPSHOT_CONTROLLER SNAPSHOT_METADATA HEALTH_MONITOR CSI_SIDECARS SIDECARS
others = $(foreach one,$(OTHERS),$(if $($(one)),$(one)='$($(one))'))
bench = $(others) cargo bench -q --locked --profile tool

# What a record of results says they come from, with no folder of this machine in it.
named = $(foreach one,$(OTHERS),$(if $($(one)), $(one)=$(if $(filter SIDECARS,$(one)),$($(one)),/path/to/$(notdir $($(one))))))
bench: export FIGURES_COMMAND = $(strip make bench$(if $(BENCH), BENCH='$(BENCH)')$(if $(SCALE), SCALE=$(SCALE))$(if $(RELISTS), RELISTS=$(RELISTS))$(named))
chaos: export FIGURES_COMMAND = $(strip make chaos$(foreach one,SEED MINUTES CLAIMS,$(if $($(one)), $(one)=$($(one))))$(if $(SCHEDULE), SCHEDULE=$(notdir $(SCHEDULE)))$(if $(filter 1,$(SHIPPED)), SHIPPED=1)$(named))
recording: export FIGURES_COMMAND = $(strip make demo$(named))

# Benchmarks run the released programs.
bench: export CSI_PROGRAMS := bin
.PHONY: bench
bench: build cluster driver helm ## Figures of all programs, kept for `make figures` (SCALE=0.1: a smaller cluster; RELISTS=0: no relists of it; REGISTRAR=, ATTACHER=, ...: path of another binary; BENCH='csi-attacher cycle': only that, BENCH=startup: the node's programs)
	$(call say,bench)
	@$(if $(filter startup,$(or $(BENCH),startup)),$(bench) -p registrar --bench startup)
	@$(if $(filter startup,$(or $(BENCH),startup)),$(bench) -p livenessprobe --bench startup)
	@$(if $(filter-out startup,$(or $(BENCH),all)),$(bench) -p e2e --bench controller -- $(filter-out startup,$(BENCH)))

.PHONY: chaos
chaos: programs cluster driver helm ## Claims while everything fails, then an audit (SEED=, MINUTES=, CLAIMS=, SCHEDULE=file, SIDECARS=together, PROVISIONER=path, ...)
	$(call say,chaos: claims come and go while everything around the controllers fails)
	@$(compile) chaos
	@$(others) $(COMPILED)/chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
	    $(if $(CLAIMS),--claims $(CLAIMS)) $(if $(SCHEDULE),--schedule '$(SCHEDULE)') $(if $(BREAK),--break $(BREAK)) $(if $(QUIET),--quiet $(QUIET))

.PHONY: figures
figures: ## Draws what benchmarks, chaos and the recording have kept in docs/figures, and nothing else
	$(need-rust)
	@$(compile) figures
	@$(COMPILED)/figures

.PHONY: recording
recording: demo-needs programs driver cluster helm ## Records `make demo` and draws the recording: docs/figures/demo.cast, demo.svg
	@$(compile) demo && $(compile) figures
	@$(others) $(COMPILED)/demo | $(COMPILED)/figures capture
	@$(COMPILED)/figures

# Scenarios by a part of their names, one of each program.
SHIPPED_SCENARIOS := kubelet_registers dead_driver attacher_pod provisioner_immediate resizer_file_system_grows_under snapshots_data \
    node_agent_takes plugin_manager_registers health_monitor_h_20 a_37_

.PHONY: release-check
release-check: cluster driver helm snapshot-crds ## What ships, before a release: file sizes, the smoke test, a scenario of each program, images on a real node, figures of this code
	@$(MAKE) build PROGRAMS='$(IMAGES)'
	$(call say,release-check: the released programs)
	@.ci/sizes bin
	@$(MAKE) smoke
	@for one in $(SHIPPED_SCENARIOS); do $(MAKE) e2e SHIPPED=1 ONLY=$$one || exit 1; done
	@$(MAKE) real-node SHIPPED=1
	@.ci/guards figures
	@printf '==> %s\n' 'release-check: PASSED'

# In the gate each simulation runs a fixed number of interleavings.
.PHONY: simulate
simulate: ## Many more interleavings of the crash simulations than in a test (SIMULATION_RUNS=100000)
	$(need-rust)
	$(call say,simulate: crash simulations of the controllers)
	@SIMULATION_RUNS=$${SIMULATION_RUNS:-100000} cargo test $(ALL) --exclude e2e --lib -- sim::

.PHONY: translate
translate: translator ## In-tree volumes beside upstream's library, many more than in a test (TRANSLATIONS=1000000, SEED=1)
	$(need-rust)
	$(call say,translate: random objects through both translators)
	@TRANSLATIONS=$${TRANSLATIONS:-1000000} CI=true cargo test --locked -p migration --lib -- --nocapture tests::differential

.PHONY: fuzz
fuzz: ## Long fuzzing of the parsers that read untrusted bytes (FUZZ_SECONDS=60)
	$(call say,fuzz)
	@.ci/fuzz

.PHONY: lines
lines: ## Counts code by what it is for: docs/figures/lines.md
	@.ci/lines

.PHONY: generate
generate: ## Rewrites csi-proto's generated code
	@cargo run -q --locked -p csi-codegen

.PHONY: crds
crds: ## Rewrites the snapshot API's definitions in the chart from their types
	@$(compile) snapshot-crds
	@$(COMPILED)/snapshot-crds charts/snapshot-controller/definitions

.PHONY: clean
clean: ## Removes what the targets above built
	@rm -rf bin build $(CARGO_TARGET_DIR)
