# One door for every task. `make help` lists them.
SHELL := /bin/bash
CARGO ?= cargo
PREFIX ?= /usr/local
OUT ?= out/demo

.DEFAULT_GOAL := help
.PHONY: drivers test-conformance test-kills setup-java
.PHONY: help setup-demo setup-test setup-bench build demo demo-quick test test-long loom lint fmt bench-shim bench-files bench-locks bench-chains bench-lock bench-pool bench-tad bench-nbd bench-store bench-target bench-fuse bench-jitter record-bpf man install clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup-demo:
	@scripts/setup demo

# Tests under a JVM run where there is a JDK; what else they need is fetched then.
setup-test:
	@scripts/setup test
	@if command -v javac >/dev/null && command -v mvn >/dev/null; then scripts/setup java || echo "tests under a JVM are skipped: nothing can be fetched"; fi

setup-bench: ## Install what most of `headworks bench run` needs beyond the demo: PostgreSQL, PgBouncer, Redis, WiredTiger, QEMU (MongoDB's protocol: setup-java)
	@scripts/setup bench
	@scripts/setup guest || echo "split-qemu needs a kernel for its guests: HEADWORKS_GUEST_KERNEL=PATH names one"

setup-java: ## Fetch what the tests under a JVM need: a server of MongoDB's protocol, drivers for Java and Node, HBase and HDFS
	@scripts/setup java

build: ## Build the programs and the preloaded library (target/release)
	$(CARGO) build --release --workspace

demo: setup-demo build ## Three scenes on real databases, as they are and behind Headworks (3 minutes after the build)
	target/release/headworks bench run demo --out $(OUT) $(ARGS)

demo-quick: setup-demo build ## The same in a minute: shows that it works, measures nothing well
	target/release/headworks bench run demo --quick --out $(OUT)

test: setup-test ## Every test: policy, protocol, region, victims, real MariaDB
	$(CARGO) build --workspace
	@CARGO="$(CARGO)" scripts/test

test-long: setup-test ## The same with many more random cases and seeds
	$(CARGO) build --workspace
	PROPTEST_CASES=20000 $(CARGO) test --release -p headworks-policy -p headworks-hooks -p headworks-tad
	PROPTEST_CASES=20000 $(CARGO) test --release -p headworks-volume --lib nbd
	HEADWORKS_VOLUME_OPERATIONS=1000000 $(CARGO) test --release -p headworks-volume --test engine
	HEADWORKS_VOLUME_CUTS=25 $(CARGO) test --release -p headworks --test volume -- databases:: cut::
	HEADWORKS_STORE_KILLS=1000 HEADWORKS_STORE_CONNECTS=10000 HEADWORKS_STORE_CUT_S=30 HEADWORKS_STORE_PAUSE_S=45 \
	    HEADWORKS_STORE_CASES=20000 HEADWORKS_STORE_ROUNDS=5000 $(CARGO) test -p headworks-store --test served
	HEADWORKS_STORE_PAUSE_S=20 $(CARGO) test -p headworks --test volume store::
	HEADWORKS_LOCK_KILLS=10000 $(CARGO) test -p headworks --test victims torture -- --nocapture
	HEADWORKS_CUTS=100 $(CARGO) test --release -p headworks-engine --test workloads
	for seed in $$(seq 1 20); do HEADWORKS_SEED=$$seed $(CARGO) test -q --release -p headworks-bufferpool --test stress || exit 1; done
	for seed in $$(seq 1 200); do HEADWORKS_SEED=$$seed $(CARGO) test -q --release -p headworks-region --test hostile || exit 1; done
	$(CARGO) test --workspace
	$(CARGO) test -p headworks-experiments --lib recorder::hbase -- --ignored --nocapture
	scripts/setup hbase 2.5.13-hadoop3 && HEADWORKS_HBASE=2.5.13-hadoop3 scripts/test-hbase -Dtest=StagesTest -Dsurefire.failIfNoSpecifiedTests=false
	scripts/test-hbase -Dtest=Replication -Dsurefire.failIfNoSpecifiedTests=false
	scripts/test-hbase -Dtest=Page -Dsurefire.failIfNoSpecifiedTests=false
	HEADWORKS_FAULTS_S=180 scripts/test-hbase -Dtest=Faults -Dsurefire.failIfNoSpecifiedTests=false

# Drivers that are not Debian's, from their registries, beside the build.
DRIVERS := $(or $(CARGO_TARGET_DIR),target)/conformance
drivers:
	@scripts/setup conformance
	@mkdir -p $(DRIVERS)/java $(DRIVERS)/node
	@[ -e $(DRIVERS)/java/postgresql.jar ] || mvn -q -B -f crates/conformance/clients/java/pom.xml dependency:copy-dependencies \
		-Dmdep.stripVersion=true -DoutputDirectory=$(abspath $(DRIVERS))/java || echo "no JDBC drivers: their behaviours are skipped"
	@scripts/setup java || echo "no server of MongoDB's protocol: its behaviours are skipped"
	@cmp -s crates/conformance/clients/node/package-lock.json $(DRIVERS)/node/package-lock.json || rm -rf $(DRIVERS)/node/node_modules
	@cp crates/conformance/clients/node/package*.json $(DRIVERS)/node/
	@[ -d $(DRIVERS)/node/node_modules/pg ] || (cd $(DRIVERS)/node && npm ci --no-audit --no-fund --silent) || echo "no Node drivers: their behaviours are skipped"

test-conformance: drivers ## Real clients, also by TLS, against each database as it is and behind the gate: the same answers
	$(CARGO) build --workspace
	$(CARGO) run -q -p headworks-conformance -- run
	$(CARGO) run -q -p headworks-conformance -- cut
	$(CARGO) run -q -p headworks-conformance -- kills --rounds 60

test-kills: setup-test ## 1,000 kills of daemons, backends and clients under load on each database, and 10,000 connections
	$(CARGO) build --workspace
	$(CARGO) run -q -p headworks-conformance -- kills --rounds 1000
	$(CARGO) run -q -p headworks-conformance -- many

loom: ## The two-mutex LRU list, and hits beside evictions, under the interleavings of a few threads
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),target)/loom $(CARGO) test --release -p headworks-bufferpool --lib loom_tests

lint: ## Formatting and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all

bench-shim: build ## What an intercepted call costs, and how many admissions a second
	$(CARGO) bench -p headworks --bench shim

bench-files: build ## What a hooked file call costs, governed and not, beside the plain one
	$(CARGO) bench -p headworks --bench files -- $(ARGS)

bench-locks: build ## What a lock that is free costs through the preloaded library, without and with `rcp`
	$(CARGO) bench -p headworks --bench locks

bench-chains: build ## How long a client waits for a chain of locks whose last holder does I/O, by `rcp` (as root)
	scripts/bench-chains $(ARGS)

bench-lock: ## How long the region's lock is held, up to P 1,024 with 10,000 sessions
	$(CARGO) test --release -p headworks-region --lib -- --ignored --nocapture how_long_the_lock_is_held

bench-pool: ## The buffer pool: what a hit costs, and TPC-C with 64 threads on a modelled SSD, by strategy
	$(CARGO) bench -p headworks-bufferpool --bench hits
	$(CARGO) run --release -p headworks-engine --example strategies -- $(ARGS)

# The reference runs in an environment of its own: nothing else needs Python.
SIMPY := $(or $(CARGO_TARGET_DIR),target)/simpy
bench-tad: ## The simulator of thread architectures: speed, and the same results as a reference in simpy
	@if [ ! -x $(SIMPY)/bin/python ]; then python3 -m venv $(SIMPY) || true; fi
	@if $(SIMPY)/bin/python -m pip install --quiet --disable-pip-version-check -r crates/tad/reference/requirements.txt; then \
		$(CARGO) bench -p headworks-tad --bench sim -- --simpy $(abspath $(SIMPY))/bin/python $(ARGS); \
	else \
		echo "skipped the comparison: simpy is not installed and cannot be fetched (no network?)"; \
		$(CARGO) bench -p headworks-tad --bench sim -- $(ARGS); \
	fi

bench-nbd: ## The NBD server over memory beside nbdkit's memory plugin, by fio
	@scripts/setup bench-nbd
	scripts/bench-nbd $(ARGS)

bench-store: ## The storage server beside nbdkit and qemu-storage-daemon, by fio
	@scripts/setup bench-store
	$(CARGO) build --quiet --release -p headworks-store
	scripts/bench-store $(ARGS)

bench-target: ## Does a target hold on a real device? PostgreSQL on a volume of the store, beside fio (as root)
	@scripts/setup bench-target
	$(CARGO) build --quiet --release -p headworks-store -p headworks
	scripts/bench-target $(ARGS)

bench-fuse: ## Volumes as block devices beside a libfuse passthrough and a loop device alone (as root)
	@scripts/setup bench-fuse
	scripts/bench-fuse $(ARGS)

bench-jitter: ## How exactly volumes keep their model's time, through FUSE and loop and over NBD (as root)
	@scripts/setup bench-fuse
	scripts/bench-jitter $(ARGS)

record-bpf: ## Compile the recorder's side in the kernel anew, after a change of crates/record/bpf
	@scripts/setup bpf
	crates/record/bpf/build

man: build ## Write the manual pages to target/man
	target/release/headworks man target/man

install: build man ## Install below PREFIX (default /usr/local)
	for program in headworks headworks-bench headworks-controller headworks-hbase headworks-store headworks-tad headworks-record; do install -Dm755 target/release/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit 1; done
	install -Dm755 target/release/libheadworks.so $(DESTDIR)$(PREFIX)/lib/headworks/libheadworks.so
	install -Dm644 include/headworks.h $(DESTDIR)$(PREFIX)/include/headworks.h
	for file in headworks store; do install -Dm644 config/$$file.toml $(DESTDIR)$(PREFIX)/share/doc/headworks/$$file.toml || exit 1; done
	for page in target/man/*.1; do install -Dm644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/$$(basename $$page); done

clean: ## Remove everything built or measured
	$(CARGO) clean
	rm -rf out
