# make demo          the life of one worker container in ten seconds, seen from all sides
# make picture       the picture of a shutdown in docs/lifecycle.md, from a new run
# make release       the static binary, at $(BINARY)
# make test          everything; sets up what it needs (Debian's packages, the Rust target)
# make trials        shutdowns put together by chance and judged from outside: COUNT=5000; ARGS='--seed S --only N' again
# make broken-builds each build of tests/trials/broken has to be caught by the trials
# make conformance   the same behaviours of ojs-init, tini, dumb-init and catatonit, side by side, and their figures
# make lint          format, boundaries, clippy; of the development server as well
# make deny          licences, sources and banned crates (needs cargo-deny)

TARGET := x86_64-unknown-linux-musl
OUT := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(OUT)/$(TARGET)/release/ojs-init
STATIC_ENV := BINARY_UNDER_TEST=$(abspath $(BINARY))

.PHONY: demo picture release test trials broken-builds lint conformance deny setup

release:
	@scripts/setup.sh build
	cargo build --locked --release --package ojs-init --target $(TARGET)
	@ls -l $(BINARY)

demo: release
	@scripts/setup.sh demo
	cargo build --locked --profile test --package ojs-devserver
	@python3 examples/demo/demo.py --init $(BINARY) --devserver $(OUT)/debug/ojs-devserver

picture: release
	@scripts/setup.sh demo
	cargo build --locked --profile test --package ojs-devserver
	@python3 examples/picture/shutdown.py --init $(BINARY) --devserver $(OUT)/debug/ojs-devserver

setup:
	@scripts/setup.sh test

lint:
	cargo fmt --all --check
	cargo check --locked --lib --no-default-features
	cargo clippy --locked --workspace --all-targets -- -D warnings

test: setup lint release
	$(STATIC_ENV) CONFORMANCE=table cargo test --locked --workspace
	$(MAKE) demo

trials: setup release
	$(STATIC_ENV) cargo test --locked --test trials -- --count $(or $(COUNT),300) $(ARGS)

broken-builds: setup
	@scripts/broken-builds.sh

conformance: setup release
	$(STATIC_ENV) cargo test --locked --test conformance -- --table

deny:
	cargo deny --locked check
