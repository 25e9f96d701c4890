# SPDX-License-Identifier: Apache-2.0
#
# Each target installs what it needs (as root; otherwise it says what is missing), builds, runs.
#
#     make demo ARGS='--outages 3,7'        make test ARGS='-p holdfast-core'

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
HOLDFAST := $(TARGET_DIR)/release/holdfast
ARGS ?=
KERNEL ?=

.PHONY: help demo test recordings paper same fuzz coverage faults mutants slurm-test lint bench build install package package-test board-test board-view clean

help: ## this list
	@awk -F ': *## *' '/^[a-z-]+:.*##/ { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## downloads and uploads over a link with outages, without and with Holdfast, side by side
	@scripts/packages.sh demo
	@$(MAKE) --no-print-directory build
	@$(HOLDFAST) demo $(ARGS)

test: ## every test; ARGS go to cargo test; KERNEL=6.12 runs those of the kernel on another one, in QEMU
	@$(if $(KERNEL),scripts/kernel_tests.sh -k $(KERNEL) $(ARGS),scripts/test.sh $(ARGS))

recordings: ## with and without `auto` on recordings of real links, in HOLDFAST_TRACES; ARGS='draw 40 7' for others
	@scripts/packages.sh recordings
	@$(MAKE) --no-print-directory build
	@HOLDFAST=$(HOLDFAST) docs/recordings/bench.py $(or $(ARGS),core)

paper: ## all figures of the pages that a stage makes, again: target/paper/index.html; may be stopped; docs/reproduce.md
	@scripts/packages.sh paper
	@$(MAKE) --no-print-directory build
	@$(HOLDFAST) lab setup
	@HOLDFAST=$(HOLDFAST) scripts/paper.py run target/paper $(ARGS)

same: ## the packets of every run on the model, compared with a committed file: some minutes
	@scripts/packages.sh build
	@scripts/toolchain.sh
	@cargo build --locked --workspace --example same
	@$(TARGET_DIR)/debug/examples/same $(ARGS)

fuzz: ## hostile input for what reads from outside, a minute a target; ARGS='-s 600 engine stations'
	@scripts/fuzz.sh $(ARGS)

coverage: ## lines and branches that the tests reach, a table of crates and of weak files; an hour
	@scripts/coverage.sh

faults: ## breaks what fails open, one property at a time: its test must fail; ARGS name some of scripts/faults
	@scripts/faults.sh $(ARGS)

mutants: ## changes the engine's code, one operator or result at a time: its tests must fail; hours; ARGS='-n 40'
	@scripts/mutants.py $(ARGS)

slurm-test: ## a sweep on Debian's Slurm, two nodes on loopback: workers, the command and a node are killed
	@scripts/packages.sh slurm-test
	@$(MAKE) --no-print-directory build
	@scripts/slurm_test.sh $(HOLDFAST)

lint: ## formatting, clippy, purity, and the rules of CONTRIBUTING.md
	@scripts/lint.sh

bench: ## the published measurements; ARGS name some of them: link cost wake uplink packets speed outages
	@scripts/packages.sh bench
	@$(MAKE) --no-print-directory build
	@scripts/bench.sh $(HOLDFAST) $(ARGS)

build: ## the program, for use: target/release/holdfast
	@scripts/packages.sh build
	@scripts/toolchain.sh
	@cargo build --locked --release --package holdfast

install: ## the program and all that goes with it, below DESTDIR; after make build
	@scripts/install.sh $(or $(DESTDIR),/) $(HOLDFAST)

package: ## .deb, .rpm and static tarballs, SBOM and checksums: target/package/; ARGS=x86_64 for one processor
	@scripts/package.sh $(ARGS)

package-test: ## those packages in clean Debian systems: install, upgrade in mid-transfer, remove; ARGS=trixie
	@scripts/package_test.sh $(ARGS)

board-test: ## the Grafana board's queries and the alert rules, with a real Prometheus
	@scripts/packages.sh board-test
	@$(MAKE) --no-print-directory build
	@scripts/board_test.py $(HOLDFAST)

board-view: ## the same, and the board as the components of Perses show it: target/board.png
	@scripts/packages.sh board-view
	@$(MAKE) --no-print-directory build
	@scripts/board_view/build.sh $(TARGET_DIR)/board-view
	@scripts/board_test.py $(HOLDFAST) $(TARGET_DIR)/board-view/page $(TARGET_DIR)/board.png

clean: ## what was built
	@cargo clean
