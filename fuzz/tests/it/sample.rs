//! Every target over its seeds and a seeded sample of mutations. `FUZZ_ROUNDS` sets how many there are per target.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use atrest_fuzz::random::{Random, mutate};
use atrest_fuzz::{TARGETS, mutate_json};

use crate::corpus::corpus;

/// Longest that one input may take. Generous: builds without optimisation and busy machines are slow.
const LIMIT: Duration = Duration::from_secs(20);

fn rounds(default: u64) -> u64 {
    std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

/// Inputs kept for a target: seeds, and what campaigns have found worth keeping.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    for directory in ["seeds", "regressions"] {
        let Ok(entries) = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(name))
        else {
            continue;
        };
        paths.extend(entries.map(|entry| entry.expect("readable").path()));
    }
    paths.sort();
    assert!(!paths.is_empty(), "no seeds for {name}; run `cargo run -p atrest-fuzz --bin make-seeds`");
    let kept = paths.into_iter().map(|path| fs::read(path).expect("readable"));
    kept.chain(corpus(name)).collect()
}

fn sample(name: &str, default_rounds: u64) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    let inputs = inputs(name);
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut run = |data: &[u8], what: &str| {
        let started = Instant::now();
        let result = std::panic::catch_unwind(|| target(data));
        if result.is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&kept, data).expect("writable");
            panic!("{name} panics on {what}, which now lies in {}", kept.display());
        }
        slowest = slowest.max(started.elapsed());
        assert!(started.elapsed() < LIMIT, "{name} takes {:?} for {what}", started.elapsed());
    };
    for (i, input) in inputs.iter().enumerate() {
        run(input, &format!("input {i}"));
    }
    let rounds = rounds(default_rounds);
    for seed in 0..rounds {
        let mut random = Random(seed);
        let number = random.below(inputs.len());
        let mut data = inputs[number].clone();
        match mutate_json(&data, seed) {
            Some(text) if seed % 2 == 0 => data = text,
            _ => mutate(&mut data, &mut random),
        }
        run(&data, &format!("mutation {seed} (of input {number})"));
    }
    println!(
        "{name}: {} inputs, {rounds} mutations, {:?}, slowest {slowest:?}",
        inputs.len(),
        begun.elapsed()
    );
}

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    let manifest = include_str!("../../Cargo.toml");
    for (name, _) in TARGETS {
        let path = format!("fuzz_targets/{name}.rs");
        let entry = format!("[[bin]]\nname = \"{name}\"\npath = \"{path}\"\nrequired-features");
        assert!(manifest.contains(&entry), "{name} is missing in fuzz/Cargo.toml");
        let program = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
        let program = program.unwrap_or_else(|error| panic!("fuzz_targets/{name}.rs: {error}"));
        assert!(program.contains(&format!("atrest_fuzz::{name}(data)")), "fuzz_targets/{name}.rs");
    }
}

macro_rules! samples {
    ($($name:ident: $rounds:expr;)*) => {$(
        #[test]
        fn $name() {
            sample(stringify!($name), $rounds);
        }
    )*

        #[test]
        fn every_target_has_a_sample() {
            let sampled = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), sampled);
        }
    };
}

samples! {
    cipher_spec: 20_000;
    cipher_modes: 150;
    plain_options: 20_000;
    luks1_header: 300;
    flash_header: 1_000;
    luks2_header: 2_000;
    luks2_json: 1_000;
    luks2_volume: 150;
    header_restore: 500;
    keyslot: 300;
    gpt: 1_500;
    mbr: 5_000;
    ext4: 1_500;
    fat: 500;
    exfat: 500;
    ntfs: 500;
    nbd: 1_000;
    session: 2_000;
    checkpoint: 300;
    crypttab: 20_000;
    cmdline: 20_000;
    initramfs: 3_000;
    fit: 10_000;
    modules: 10_000;
    ecryptfs_header: 10_000;
    ecryptfs_name: 10_000;
    ecryptfs_wrapped: 20_000;
    fscrypt_metadata: 20_000;
    fscrypt_context: 5_000;
    ext4_encrypted: 800;
    sealed_flash: 60;
    sealed_store: 2_000;
    sealed_volume: 5_000;
    s3: 10_000;
    azure: 10_000;
    google: 10_000;
    littlefs: 1_000;
    dm_answer: 5_000;
    control: 500;
    nbd_handshake: 500;
    reencrypt: 40;
    vhost_user: 10_000;
    luks2_built: 150;
    flash_header_built: 2_000;
    fit_edited: 1_000;
    nbd_client: 3_000;
    token: 10_000;
    tpm: 5_000;
    fido2: 2_000;
    key_value: 2_000;
    verity: 2_000;
    integrity: 5_000;
    tcrypt: 2_000;
    bitlocker: 5_000;
    fvault2: 1_000;
    loopaes: 2_000;
    wipekey: 2_000;
}
