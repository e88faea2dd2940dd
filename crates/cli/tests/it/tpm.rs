//! Volumes that a TPM opens, with a software TPM: enrolled by systemd 252, which Debian has, and by us.

use std::time::{Duration, Instant};

use atrest_testkit::liar::{self, TPM_LIES};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Swtpm, cryptsetup};

use crate::common::{Ran, Scratch};

/// `systemd-cryptenroll` on `vol`, whose passphrase is in `key`.
fn enrol(scratch: &Scratch, tpm: &Swtpm, words: &str, pin: &str) {
    let passphrase = String::from_utf8(scratch.read("key")).expect("text");
    Program::named("systemd-cryptenroll")
        .arg(format!("--tpm2-device={}", tpm.tcti()))
        .words(words)
        .arg(scratch.path("vol"))
        .env("PASSWORD", passphrase)
        .env("NEWPIN", pin)
        .ok();
    tpm.forget();
}

fn atrest(scratch: &Scratch, tpm: &Swtpm, line: &str) -> Ran {
    scratch
        .program(env!("CARGO_BIN_EXE_atrest"))
        .words(line)
        .env("ATREST_TPM", tpm.place())
        .without_terminal()
        .run()
        .into()
}

#[test]
fn what_systemd_enrolled_opens_while_the_machine_is_as_it_was() {
    let mut tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    let test = |tpm: &Swtpm, more: &str| atrest(&scratch, tpm, &format!("key test vol --token-only {more}"));
    tpm.extend(7);
    enrol(&scratch, &tpm, "--tpm2-pcrs=7+11", "");
    enrol(&scratch, &tpm, "--tpm2-pcrs= --tpm2-with-pin=yes", "1234");
    enrol(&scratch, &tpm, "--tpm2-pcrs=7 --tpm2-with-pin=yes", "äöü");
    test(&tpm, "--token-id 0").ok();
    scratch.file("pin1", "1234");
    scratch.file("pin2", "äöü");
    test(&tpm, "--token-id 1 --token-pin-file pin1").ok();
    test(&tpm, "--token-id 2 --token-pin-file pin2").ok();
    test(&tpm, "--token-id 2 --token-pin-file pin1").fails(2, "the PIN is wrong");
    atrest(&scratch, &tpm, "decrypt vol plain --token-id 1 --token-pin-file pin1").ok();
    // Without a reset, a PCR goes one way only.
    tpm.extend(11);
    test(&tpm, "--token-id 0")
        .fails(2, "token 0 (systemd-tpm2): the PCRs 7+11 of the TPM have changed since it was enrolled");
    test(&tpm, "--token-id 2 --token-pin-file pin2").ok();
    tpm.reboot();
    test(&tpm, "--token-id 2 --token-pin-file pin2")
        .fails(2, "PCR 7 of the TPM has changed since it was enrolled");
    test(&tpm, "--token-id 1 --token-pin-file pin1").ok();
    tpm.extend(7);
    test(&tpm, "--token-id 0").ok();
    test(&Swtpm::new(), "--token-id 0")
        .fails(2, "it was sealed by another TPM, or by this one before it was cleared");
}

#[test]
fn what_we_enrol_opens_here_and_by_systemd() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    scratch.file("pin", "1234");
    let add = |line: &str| atrest(&scratch, &tpm, &format!("key add vol --key-file key {line}"));
    let before = scratch.read("vol");
    add("--tpm2").fails(4, "no keyslot is made: nothing was measured into PCR 7 of the TPM");
    assert!(scratch.read("vol") == before, "nothing is written");
    tpm.extend(7);
    add("--tpm2").ok();
    add("--tpm2 --pcrs 7+11 --pin-file pin").ok();
    add("--tpm2 --pcrs none --pin-file pin --old-systemd").ok();
    add("--tpm2 --old-systemd").ok();
    let test = |line: &str| atrest(&scratch, &tpm, &format!("key test vol --token-only {line}"));
    for token in 0..4 {
        test(&format!("--token-id {token} --token-pin-file pin")).ok();
    }
    test("--token-id 1").fails(2, "token 1 (systemd-tpm2): it needs a PIN");
    test("--token-id 1 --token-pin-file key").fails(2, "token 1 (systemd-tpm2): the PIN is wrong");
    let list = atrest(&scratch, &tpm, "key list vol").ok().stdout;
    for words in ["PCR 7 as it was\n", "PCR 7+11 as it was and a PIN\n", "the TPM of one machine, a PIN\n"] {
        assert!(list.contains(words), "{words}: {list}");
    }
    // tpm2-tools load what is under the storage root key, and unseal it in their own way.
    let unsealed = scratch.bash(&format!(
        r#"export TPM2TOOLS_TCTI={}; {} token export vol 0 | python3 -c '
import base64, json, sys
blob = base64.b64decode(json.load(sys.stdin)["tpm2-blob"])
middle = 2 + int.from_bytes(blob[:2], "big")
open("private", "wb").write(blob[:middle]); open("public", "wb").write(blob[middle:])'
tpm2_load -Q -C 0x81000001 -r private -u public -c object && tpm2_flushcontext -Q -t
tpm2_unseal -Q -c object -p pcr:sha256:7 -o secret; tpm2_flushcontext -Q -t; tpm2_flushcontext -Q -s
base64 -w0 secret > theirs"#,
        tpm.tcti(),
        env!("CARGO_BIN_EXE_atrest"),
    ));
    unsealed.ok();
    scratch.atrest(&["key", "test", "vol", "--key-file", "theirs", "--key-slot", "1"]).ok();
    // systemd 252 opens those that were made for it. It takes the first token that it can; without the kernel's mapper it says that it
    // has the key, and ends.
    for (token, others) in [(2, [0, 1, 3]), (3, [0, 1, 2])] {
        std::fs::copy(scratch.path("vol"), scratch.path("copy")).expect("a copy");
        for other in others {
            scratch.atrest(&["token", "remove", "copy", &other.to_string()]).ok();
        }
        let attached = Program::at("/lib/systemd/systemd-cryptsetup")
            .words("attach atrest-no-such-name")
            .arg(scratch.path("copy"))
            .arg("-")
            .arg(format!("tpm2-device=swtpm:port={},headless,tries=1", tpm.port()))
            .env("SYSTEMD_LOG_LEVEL", "debug")
            .env("SYSTEMD_LOG_TARGET", "console")
            .env("PIN", "1234")
            .run();
        tpm.forget();
        let said = attached.messages();
        let keyslot = format!("[keyslot {}] using passphrase", token + 1);
        assert!(said.contains("Completed TPM2 key unsealing") && said.contains(&keyslot), "{token}: {said}");
    }
}

#[test]
fn a_recovery_key_is_that_of_systemd() {
    let scratch = Scratch::with_volume();
    let key = scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--recovery"]).ok().stdout;
    let key = key.trim_end();
    assert_eq!(key.len(), 71);
    scratch.file("recovery", key);
    cryptsetup::cryptsetup("open --test-passphrase --key-slot 1 --key-file")
        .arg(scratch.path("recovery"))
        .arg(scratch.path("vol"))
        .ok();
    let passphrase = String::from_utf8(scratch.read("key")).expect("text");
    let theirs = Program::named("systemd-cryptenroll")
        .arg("--recovery-key")
        .arg(scratch.path("vol"))
        .env("PASSWORD", passphrase)
        .ok()
        .text();
    let theirs = theirs.split_whitespace().find(|word| word.len() == 71).expect("a key").to_owned();
    for typed in [key.to_owned(), key.to_uppercase().replace('-', ""), theirs.replace('-', " "), theirs] {
        scratch.file("typed", &typed);
        scratch
            .bash(&format!("{} key test vol --passphrase-fd 3 3< typed", env!("CARGO_BIN_EXE_atrest")))
            .ok();
        scratch
            .bash(&format!(
                "{} decrypt vol plain --passphrase-fd 3 3< typed && rm plain",
                env!("CARGO_BIN_EXE_atrest")
            ))
            .ok();
    }
    let list = scratch.atrest(&["key", "list", "vol"]).ok().stdout;
    assert_eq!(list.matches("a recovery key\n").count(), 2, "{list}");
}

#[test]
fn a_keyslot_that_no_token_can_name_is_not_made() {
    let scratch = Scratch::with_volume();
    let full =
        "for each in $(seq 32); do cryptsetup token add vol --key-description atrest:other --unbound; done";
    scratch.bash(full).ok();
    let keyslots = || scratch.atrest(&["key", "list", "vol", "--json"]).ok().stdout;
    let before = keyslots();
    let added = scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--recovery"]);
    added.fails(
        5,
        "no keyslot is made, as no token can say what opens it: the token number is in use, or all are",
    );
    assert_eq!(keyslots(), before);
}

/// Makes a key, and signs the digest of a policy of PCR 11 that is all zeros, as systemd-measure writes it.
const SIGN: &str = r#"
openssl genrsa -out signer 2048 2> /dev/null && openssl rsa -in signer -pubout -out signer.pem 2> /dev/null
openssl rsa -in signer -RSAPublicKey_out -outform DER -out signer.der 2> /dev/null
python3 -c '
import base64, hashlib, json, subprocess
sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
selection = bytes([0, 0, 0, 1, 0, 11, 3, 0, 8, 0])
policy = sha(bytes(32), bytes([0, 0, 1, 0x7f]), selection, sha(bytes(32)))
open("policy", "wb").write(policy)
subprocess.run("openssl dgst -sha256 -sign signer -out signature policy".split(), check=True)
sig = base64.b64encode(open("signature", "rb").read()).decode()
pkfp = hashlib.sha256(open("signer.der", "rb").read()).hexdigest()
entry = {"pcrs": [11], "pkfp": pkfp, "pol": policy.hex(), "sig": sig}
other = dict(entry, pol="00" * 32)
json.dump({"sha1": [entry], "sha256": [other, entry]}, open("signatures.json", "w"))
bad = dict(entry, sig=base64.b64encode(bytes(256)).decode())
json.dump({"sha256": [bad]}, open("bad.json", "w"))
'"#;

#[test]
fn signed_values_of_pcrs_are_as_good_as_those_of_enrolment() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    scratch.bash(SIGN).ok();
    tpm.extend(7);
    let signer = scratch.path("signer.pem").display().to_string();
    enrol(&scratch, &tpm, &format!("--tpm2-pcrs=7 --tpm2-public-key={signer} --tpm2-public-key-pcrs=11"), "");
    let test = |signatures: &str| -> Ran {
        let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words("key test vol --token-only");
        let program = program.env("ATREST_TPM", tpm.place());
        program.env("ATREST_TPM_SIGNATURE", scratch.path(signatures)).without_terminal().run().into()
    };
    test("signatures.json").ok();
    test("bad.json").fails(2, "the key or the signatures of its policy can't be read");
    // A file that is named is taken, or nothing.
    test("none.json").fails(2, "the key or the signatures of its policy can't be read");
    tpm.extend(11);
    test("signatures.json").fails(2, "no signature fits PCR 11 of this machine");
}

/// A TPM, and what later versions of systemd sealed in it. `later-tokens.py` unsealed it by tpm2-tools, and cryptsetup took the passphrase.
#[derive(serde::Deserialize)]
struct Later {
    state: String,
    tokens: Vec<LaterToken>,
}

#[derive(serde::Deserialize)]
struct LaterToken {
    by: String,
    did: String,
    pin: String,
    passphrase: String,
    token: serde_json::Value,
}

#[test]
fn what_systemd_257_and_262_enrolled_opens_while_the_machine_is_as_it_was() {
    let later: Later = serde_json::from_str(include_str!("../vectors/later-tokens.json")).expect("JSON");
    let digit = |digit: &u8| char::from(*digit).to_digit(16).expect("hexadecimal") as u8;
    let state: Vec<u8> =
        later.state.as_bytes().chunks(2).map(|two| digit(&two[0]) << 4 | digit(&two[1])).collect();
    let tpm = Swtpm::of(&state);
    let mut opened = 0;
    for LaterToken { by, did, pin, passphrase, mut token } in later.tokens {
        println!("{by}: {did}");
        let scratch = Scratch::new();
        scratch.file("key", &passphrase);
        scratch.file("vol", vec![0; 18 << 20]);
        scratch.file("pin", &pin);
        scratch.file("wrong", "1111");
        token["keyslots"] = serde_json::json!(["0"]);
        scratch.file("token", token.to_string());
        let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
        for line in
            [format!("luksFormat --type luks2 {cost} vol key"), "token import --json-file token vol".into()]
        {
            cryptsetup::cryptsetup(&line).current_dir(scratch.as_path()).ok();
        }
        let test = |line: &str| atrest(&scratch, &tpm, &format!("key test vol --token-only {line}"));
        if pin.is_empty() {
            test("").ok();
        } else {
            test("").fails(2, "it needs a PIN");
            test("--token-pin-file wrong").fails(2, "the PIN is wrong");
            tpm.tool("tpm2_dictionarylockout -Q -c");
            test("--token-pin-file pin").ok();
        }
        opened += 1;
        // Another machine's TPM opens nothing, nor does this one once the machine is in another state.
        let other = Swtpm::new();
        let refused = atrest(&scratch, &other, "key test vol --token-only --token-pin-file pin");
        refused.fails(2, "token 0 (systemd-tpm2)");
        let pcrs = token["tpm2-pcrs"].as_array().expect("an array");
        if !pcrs.is_empty() {
            let changed = Swtpm::of(&state);
            changed.extend(7);
            let refused = atrest(&scratch, &changed, "key test vol --token-only --token-pin-file pin");
            refused.fails(2, "changed since it was enrolled");
        }
    }
    assert_eq!(opened, 8);
}

#[test]
fn a_hostile_tpm_opens_nothing_within_bounded_time_and_keeps_nobody_from_a_passphrase() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    scratch.file("pin", "1234");
    tpm.extend(7);
    atrest(&scratch, &tpm, "key add vol --key-file key --tpm2 --pcrs 7 --pin-file pin").ok();
    let vol = scratch.read("vol");
    for (answer, said) in TPM_LIES {
        let place = liar::tpm(*answer);
        let run = |line: &str| -> Ran {
            let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(line);
            program.env("ATREST_TPM", &place).without_terminal().run().into()
        };
        let begun = Instant::now();
        run("key test vol --token-only --token-pin-file pin").fails(2, said);
        run("key add vol --key-file key --tpm2 --pcrs 7").fails(4, said);
        run("key test vol --key-file key").ok();
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}: {:?}", begun.elapsed());
    }
    assert!(scratch.read("vol") == vol, "nothing is written");
    atrest(&scratch, &tpm, "key test vol --token-only --token-pin-file pin").ok();
}
