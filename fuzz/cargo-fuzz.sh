# How fuzz/run and fuzz/corpus-pack call cargo-fuzz. Sourced in fuzz/.

command -v cargo-fuzz > /dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz --locked" >&2; exit 1; }

# A directory and a profile of its own: with the sanitizer all is built anew, and optimising across crates takes minutes.
fuzz() { # TARGET ARGUMENT...: of `cargo fuzz run`
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo +nightly fuzz run --fuzz-dir . --target-dir target --features libfuzzer "$@"
}
