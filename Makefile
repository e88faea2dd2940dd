# The commands of the project. Each installs first what it needs and nothing else (scripts/setup); a second run finds it installed.

.PHONY: all setup build install uninstall deb static release demo test test-full semver coverage site bench bench-embedded bench-trees bench-sealed-s3 fuzz mutants lint doc clean

all: build

setup:
	scripts/setup

build:
	scripts/setup build
	scripts/trimmed cargo build --locked --release --package atrest-cli

# What `make build` made, with manual pages, completions and documents. PREFIX and DESTDIR as everywhere; as root, where that is needed.
install:
	scripts/install --prefix "$(or $(PREFIX),/usr/local)" --destdir "$(DESTDIR)"

uninstall:
	scripts/install --uninstall --prefix "$(or $(PREFIX),/usr/local)" --destdir "$(DESTDIR)"

musl := $(shell uname -m)-unknown-linux-musl

# Two Debian packages in target/debian: the program, and what unlocks at boot.
deb: build
	scripts/setup static
	scripts/trimmed scripts/static $(musl)
	scripts/deb --init target/$(musl)/static/atrest-init

# The program that unlocks at boot, for four architectures, without a library of the system: checked, and tried in an emulator.
static:
	scripts/setup static
	scripts/static
	scripts/static --whole

# Static tarballs for four architectures, with checksums and bills of materials, in target/release-files.
release:
	scripts/setup release
	scripts/release

# Whether the crates keep what the version before promised, or say by their version that they do not.
semver: setup
	scripts/semver

# A volume, a file system in it, files in and out again: the whole main path in one minute.
demo: setup build
	scripts/demo

# Everything, with seeded samples of the long campaigns. Ends with "N passed, N failed".
test: setup
	scripts/check

# The same with the whole campaigns: the interoperability matrix, 200 kills, all kernel volumes.
test-full:
	scripts/setup full
	ATREST_CAMPAIGN=full scripts/check
	scripts/static --whole
	scripts/cryptsetup-suite --program target/x86_64-unknown-linux-musl/small/atrest-cryptsetup
	scripts/trimmed cargo build --locked --release --package atrest-cli
	scripts/foreign-images
	scripts/cryptroot
	scripts/setup site
	scripts/site
	scripts/trimmed scripts/static x86_64-unknown-linux-musl
	scripts/boot-guests
	scripts/try-packages
	scripts/reproducible
	scripts/semver

# Which lines the tests of each crate run, and the functions that none of them does. COVERAGE names crates.
coverage:
	scripts/setup coverage
	scripts/coverage $(COVERAGE)

# The documentation as a book, in target/book. Every link in it is checked.
site:
	scripts/setup site
	scripts/site

# Writes the ratios to BENCHMARKS.md, losses too.
bench: setup
	cargo run --locked --release --manifest-path bench/Cargo.toml

# Encrypted directories through FUSE: against gocryptfs, and against the same server without encryption. As root.
bench-trees: setup build
	bench/trees

# A sealed volume on S3, by fio over NBD: against s3backer, nbdkit's S3 plugin, and a plain file. As root.
bench-sealed-s3: setup build
	cargo build --locked --release --package atrest-testkit --example s3_proxy
	bench/sealed-s3

# Counts instructions, code, RAM and stack on microcontrollers, and writes docs/EMBEDDED.md, tables of docs/FLASH.md and docs/FIRMWARE.md, and
# the figures that tests hold.
bench-embedded: setup
	ATREST_BLESS=1 cargo test --locked --package atrest-testkit --test it embedded::
	ATREST_BLESS=1 cargo test --locked --package atrest-flash --test it firmware_card::unlocking
	ATREST_BLESS=1 cargo test --locked --package atrest-flash --test it firmware_smallest
	ATREST_BLESS=1 cargo test --locked --package atrest-cli --test it tools::bench_computes
	ATREST_BLESS=1 cargo test --locked --package atrest-capi --test it library

# Ten minutes per target, one after the other; FUZZ_SECONDS sets another time, FUZZ_TARGETS names some. What is found worth
# keeping goes into the sample of `make test` by fuzz/corpus-pack.
fuzz:
	scripts/setup fuzz
	fuzz/run $(or $(FUZZ_SECONDS),600) $(FUZZ_TARGETS)

# Changes the source in small ways and names the changes that no test notices. MUTANTS sets other options: mutants/README.md.
mutants: setup
	nice cargo run --locked --release --quiet --manifest-path mutants/Cargo.toml --target-dir target/mutants/tool --bin atrest-mutants \
		-- $(or $(MUTANTS),--sample 200 --minutes 60)

lint: setup
	scripts/check fmt clippy

doc: setup
	scripts/check doc

clean:
	cargo clean
	rm -rf fuzz/target bench/target
