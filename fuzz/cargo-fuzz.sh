# How fuzz/run and fuzz/corpus-pack call cargo-fuzz. Sourced in fuzz/.

# Where scripts/setup puts it. One that was installed otherwise does as well.
PATH=${XDG_CACHE_HOME:-$HOME/.cache}/atrest/cargo-fuzz-0.13.2/bin:$PATH
command -v cargo-fuzz > /dev/null || { echo "cargo-fuzz is missing: scripts/setup fuzz" >&2; exit 1; }

# A directory and a profile of its own: with the sanitizer all is built anew, and optimising across crates takes minutes.
fuzz() { # TARGET ARGUMENT...: of `cargo fuzz run`
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo +nightly fuzz run --fuzz-dir . --target-dir target --features libfuzzer "$@"
}
