//! The options of cryptsetup, veritysetup and integritysetup 2.8, each of which is known here under the same name: taken, or refused
//! by it. Debian 12 has 2.6, so those that came later are held against nothing but this list.

use clap::CommandFactory;

use crate::integritysetup::CommandLine;
use crate::popt::Known;
use crate::{cryptsetup, veritysetup};

/// With `=` if a value follows, and the letter behind a comma if there is one.
const CRYPTSETUP: &str = "
    active-name= align-payload= allow-discards batch-mode,q block-size=,B cancel-deferred cipher=,c debug debug-json decrypt deferred
    device-size= disable-blkid disable-external-tokens disable-keyring disable-locks disable-veracrypt dump-json-metadata
    dump-master-key dump-volume-key encrypt external-tokens-path= force-no-keyslots force-offline-reencrypt force-password hash=,h
    header= header-backup-file= hotzone-size= hw-opal hw-opal-factory-reset hw-opal-only init-only integrity=,I integrity-inline
    integrity-key-size= integrity-legacy-padding integrity-no-journal integrity-no-wipe iter-time=,i iv-large-sectors json-file=
    keep-key key-description= key-file=,d key-size=,s key-slot=,S keyfile-offset= keyfile-size=,l keyslot-cipher= keyslot-key-size=
    label= link-vk-to-keyring= luks2-keyslots-size= luks2-metadata-size= master-key-file= new,N new-key-description= new-key-size=
    new-key-slot= new-keyfile= new-keyfile-offset= new-keyfile-size= new-token-id= new-volume-key-file= new-volume-key-keyring=
    offset=,o pbkdf= pbkdf-force-iterations= pbkdf-memory= pbkdf-parallel= perf-high_priority perf-no_read_workqueue
    perf-no_write_workqueue perf-same_cpu_crypt perf-submit_from_crypt_cpus persistent priority= progress-frequency= progress-json
    readonly,r reduce-device-size= refresh resilience= resilience-hash= resume-only sector-size= serialize-memory-hard-pbkdf shared
    size=,b skip=,p subsystem= tcrypt-backup tcrypt-hidden tcrypt-system test-args test-passphrase timeout=,t token-id= token-only
    token-replace token-type= tries=,T type=,M unbound use-directio use-fsync use-random use-urandom uuid= veracrypt veracrypt-pim=
    veracrypt-query-pim verbose,v verify-passphrase,y volume-key-file= volume-key-keyring= write-log";
const VERITYSETUP: &str = "
    cancel-deferred check-at-most-once data-block-size= data-blocks= debug deferred error-as-corruption fec-device= fec-offset=
    fec-roots= format= hash=,h hash-block-size= hash-offset= ignore-corruption ignore-zero-blocks no-superblock panic-on-corruption
    restart-on-corruption root-hash-file= root-hash-signature= salt=,s shared use-tasklets uuid= verbose,v";
const INTEGRITYSETUP: &str = "
    allow-discards batch-mode,q bitmap-flush-time= bitmap-sectors-per-bit= buffer-sectors= cancel-deferred data-device= debug deferred
    device-size= disable-blkid integrity=,I integrity-bitmap-mode,B integrity-inline integrity-key-file= integrity-key-size=
    integrity-legacy-hmac integrity-legacy-padding integrity-legacy-recalculate integrity-no-journal,D integrity-recalculate
    integrity-recalculate-reset integrity-recovery-mode,R interleave-sectors= journal-commit-time= journal-crypt=
    journal-crypt-key-file= journal-crypt-key-size= journal-integrity= journal-integrity-key-file= journal-integrity-key-size=
    journal-size=,j journal-watermark= no-wipe progress-frequency= progress-json sector-size=,s size=,b tag-size=,t verbose,v wipe";

/// An option's name, whether a value follows, and its letter.
type Form = (String, bool, Option<char>);

fn listed(text: &str) -> Vec<Form> {
    let form = |word: &str| {
        let (word, letter) = word.split_once(',').unwrap_or((word, ""));
        (word.trim_end_matches('=').into(), word.ends_with('='), letter.chars().next())
    };
    text.split_whitespace().map(form).collect()
}

/// The options of cryptsetup, with their dashes, and their letters.
pub fn names_of_cryptsetup() -> Vec<String> {
    let forms = listed(CRYPTSETUP).into_iter();
    forms
        .flat_map(|(name, _, letter)| {
            letter.map(|letter| format!("-{letter}")).into_iter().chain([format!("--{name}")])
        })
        .collect()
}

fn known<O: Known>(options: &[O]) -> Vec<Form> {
    options.iter().map(|option| (option.name().into(), option.value().is_some(), option.letter())).collect()
}

/// The options of clap's, with each letter as an option of its own if it stands alone.
fn of_clap() -> Vec<Form> {
    let command = CommandLine::command();
    let mut forms = Vec::new();
    let mut lone = Vec::new();
    for arg in command.get_arguments() {
        match arg.get_long() {
            Some(long) if long.len() > 1 => {
                forms.push((long.into(), arg.get_action().takes_values(), arg.get_short()));
            }
            _ => lone.extend(arg.get_short()),
        }
    }
    // -q stands alone beside --batch-mode.
    for (name, _, letter) in &mut forms {
        if name == "batch-mode" && lone.contains(&'q') {
            *letter = Some('q');
        }
    }
    forms
}

#[test]
fn every_option_of_2_8_is_known_with_its_value_and_its_letter() {
    let programs = [
        ("cryptsetup", CRYPTSETUP, known(cryptsetup::OPTIONS)),
        ("veritysetup", VERITYSETUP, known(veritysetup::OPTIONS)),
        ("integritysetup", INTEGRITYSETUP, of_clap()),
    ];
    for (program, theirs, ours) in programs {
        let unknown: Vec<_> = listed(theirs).into_iter().filter(|form| !ours.contains(form)).collect();
        assert!(unknown.is_empty(), "{program}: {unknown:?}");
    }
    assert_eq!([CRYPTSETUP, VERITYSETUP, INTEGRITYSETUP].map(|text| listed(text).len()), [118, 26, 41]);
}
