# The front door: make is what people type, CMake does the work. See README.md.
SHELL := /bin/sh
.DEFAULT_GOAL := build
.PHONY: build-dir build run test test-full bench fuzz deb format docs clean

build-dir:
	@mkdir -p build

build: build-dir
	@packaging/set-up build
	@cmake --preset release -DCORE_TESTS=OFF -DCORE_LTO=ON >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@ninja -C build/release corehttpd

run: build
	@packaging/set-up run
	@conf/quickstart/run

test: build-dir
	@packaging/set-up test
	@tests/run

test-full: build-dir
	@packaging/set-up test
	@packaging/set-up fuzz
	@packaging/set-up full
	@tests/run-full

fuzz: build-dir
	@packaging/set-up fuzz
	@tests/fuzz/run $(or $(SECONDS),60)

bench: build-dir
	@packaging/set-up bench
	@bench/run

# For this machine's Debian, or make deb SUITE="bookworm trixie" (another release is built in a throw-away root, made by root).
deb: build-dir
	@packaging/set-up deb
	@packaging/build-deb $(SUITE)

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

# The reference, the manual pages and the completion are made from the tables; they are committed, and a test fails when
# they are out of date.
docs: build
	@mkdir -p docs/reference docs/man packaging/completion
	@build/release/corehttpd --reference docs/reference
	@build/release/corehttpd --man docs/man
	@build/release/corehttpd --completion >packaging/completion/corehttpd

clean:
	@rm -rf build
