# Two commands do everything on a fresh machine with Rust, Go and make:
#
#   make demo   a real driver, registered with real kubelet code through our registrar
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
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
export CSI_SIDECARS_VERSION := $(VERSION)

# A static program: runs in an empty root directory. getrandom would look for the device files
# there unless told to use the system call.
STATIC := -C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"
release = RUSTFLAGS='$(STATIC)' cargo build --release --locked --target $(HOST)
RELEASED := $(CARGO_TARGET_DIR)/$(HOST)/release

say = @printf '==> %s\n' '$(1)'

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- Programs ---------------------------------------------------------------------------------

.PHONY: build
build: ## Every shipped program, released and static, into bin/ (needs Rust alone)
	$(call say,build: released static programs (a few minutes the first time))
	@mkdir -p bin
	@$(release) -p registrar --bin csi-node-driver-registrar
	@install -C $(RELEASED)/csi-node-driver-registrar bin/
	@$(release) -p registrar --features plugin-manager --bin csi-plugin-manager
	@install -C $(RELEASED)/csi-plugin-manager bin/
	@$(release) -p livenessprobe
	@install -C $(RELEASED)/livenessprobe bin/
	@$(release) -p attacher --bin csi-attacher
	@install -C $(RELEASED)/csi-attacher bin/
	@$(release) -p provisioner --bin csi-provisioner
	@install -C $(RELEASED)/csi-provisioner bin/
	@ls -l bin | awk 'NR > 1 { printf "    %-28s %6.2f MB\n", $$NF, $$5 / 1e6 }'

.PHONY: cluster
cluster: ## The test cluster's program (needs Go), into bin/
	$(call say,cluster: etcd, kube-apiserver, controllers, scheduler and kubelet in one program (minutes the first time))
	@mkdir -p bin
	@$(MAKE) -C e2e/cluster build

.PHONY: smoke
smoke: cluster ## The test cluster's own tests: it starts, runs a pod and leaves nothing behind
	$(call say,smoke: the test cluster proves itself)
	@$(MAKE) -C e2e/cluster test smoke

.PHONY: driver
driver: ## The CSI driver of the tests, into bin/
	$(call say,driver: the CSI driver of the tests)
	@mkdir -p bin
	@cargo build --profile tool --locked -p csi-test-driver
	@install -C $(CARGO_TARGET_DIR)/tool/csi-test-driver bin/

# --- The main job -----------------------------------------------------------------------------

# An existing cluster is used only when it is named on this command line; a KUBECONFIG that merely
# stands in the environment must not make a demo write into somebody's cluster.
DEMO_KUBECONFIG := $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))

.PHONY: demo
demo: build cluster driver ## Registers a real driver with a real kubelet and mounts a volume (KUBECONFIG=file: use that cluster)
	$(call say,demo)
	@cargo build -q --profile tool --locked -p e2e --bin demo
	@$(CARGO_TARGET_DIR)/tool/demo $(if $(DEMO_KUBECONFIG),--kubeconfig '$(DEMO_KUBECONFIG)')

# --- Checks -----------------------------------------------------------------------------------

.PHONY: test
test: ## Every check and test
	@.ci/stages lint unit build cluster smoke driver sanity e2e

.PHONY: lint
lint: ## Format, clippy, rustdoc, dependency guards
	@.ci/lint

.PHONY: unit
unit: ## Unit, property, crash-simulation, component and process tests
	$(call say,unit: cargo test)
	@cargo test --locked --workspace --exclude e2e --all-features

.PHONY: sanity
sanity: driver ## csi-sanity against the test driver, mount and block
	$(call say,sanity: csi-sanity against the test driver)
	@e2e/sanity/run.sh bin/csi-test-driver

.PHONY: e2e
e2e: ## Scenarios on the test cluster (ONLY=name runs one, ATTACHER=path or PROVISIONER=path another one)
	$(call say,e2e: scenarios on a real control plane)
	@$(if $(ATTACHER),ATTACHER='$(ATTACHER)') $(if $(PROVISIONER),PROVISIONER='$(PROVISIONER)') \
	    cargo test --locked -p e2e $(if $(ONLY),-- $(ONLY))

# Variables that name another binary to measure beside ours.
OTHERS := REGISTRAR LIVENESSPROBE ATTACHER PROVISIONER
bench = $(foreach one,$(OTHERS),$(if $($(one)),$(one)='$($(one))')) cargo bench -q --locked --profile tool

.PHONY: bench
bench: build cluster driver ## Figures of all programs (REGISTRAR=, ATTACHER=, ...: path of another binary; BENCH='csi-attacher cycle': only that)
	$(call say,bench)
	@$(if $(BENCH),,$(bench) -p registrar --bench startup)
	@$(if $(BENCH),,$(bench) -p livenessprobe --bench startup)
	@$(bench) -p e2e --bench controller -- $(or $(BENCH),csi-attacher)

.PHONY: fuzz
fuzz: ## Long fuzzing of the parsers that read untrusted bytes (FUZZ_SECONDS=60)
	$(call say,fuzz)
	@.ci/fuzz

.PHONY: generate
generate: ## Rewrites csi-proto's generated code
	@cargo run -q --locked -p csi-codegen

.PHONY: clean
clean: ## Removes what the targets above built
	@rm -rf bin build $(CARGO_TARGET_DIR)
