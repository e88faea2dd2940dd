//! The client against a software TPM, with somebody on the wire between them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use atrest_secret::SecretArray;
use atrest_testkit::Swtpm;
use atrest_tpm::{Bank, Counter, Device, Pcrs, Policy, Template, Tpm, TpmError, Transport};

const SECRET: &[u8; 32] = b"thirty-two bytes that are sealed";
const UNSEAL: &[u8] = &[0, 0, 1, 0x5e];
const START_AUTH_SESSION: &[u8] = &[0, 0, 1, 0x76];

/// What somebody does to the answer of a command.
type Change = fn(command: &[u8], answer: &mut Vec<u8>);

/// Somebody on the wire: writes down everything, and changes answers.
struct Wire {
    tpm: Box<dyn Transport>,
    heard: Rc<RefCell<Vec<u8>>>,
    change: Change,
}

impl Transport for Wire {
    fn transmit(&mut self, command: &[u8]) -> Result<Vec<u8>, TpmError> {
        let mut answer = self.tpm.transmit(command)?;
        let mut heard = self.heard.borrow_mut();
        heard.extend_from_slice(command);
        heard.extend_from_slice(&answer);
        (self.change)(command, &mut answer);
        Ok(answer)
    }
}

fn over(swtpm: &Swtpm, change: Change) -> (Tpm, Rc<RefCell<Vec<u8>>>) {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let tpm = Device::parse(&swtpm.place()).and_then(|device| device.open()).expect("it is there");
    (Tpm::over(Box::new(Wire { tpm, heard: heard.clone(), change })), heard)
}

fn pin(byte: u8) -> SecretArray<32> {
    let mut pin = SecretArray::zeroed();
    pin[..20].fill(byte);
    pin
}

#[test]
fn a_secret_never_crosses_the_wire_in_the_clear_and_only_its_policy_brings_it_back() {
    let swtpm = Swtpm::new();
    swtpm.extend(7);
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    assert_eq!(tpm.bank_in_use(1 << 9).err(), Some(TpmError::Unused { mask: 1 << 9 }));
    assert!(Bank::named("md5").is_none());
    let bank = tpm.bank_in_use(1 << 7).expect("a bank");
    assert_eq!(bank.name(), "sha256");
    drop(tpm);
    let seven = Pcrs { bank, mask: 1 << 7 };
    let policies = [
        Policy::default(),
        Policy { pcrs: Some(seven), ..Policy::default() },
        Policy { pin: true, ..Policy::default() },
        Policy { pcrs: Some(seven), pin: true, ..Policy::default() },
    ];
    let made = [Template::Ecc(atrest_kdf::Hash::Sha256), Template::Rsa(atrest_kdf::Hash::Sha256)].map(Some);
    for template in core::iter::once(None).chain(made) {
        // A TPM has room for three objects, and keeps those of whoever came before.
        let swtpm = Swtpm::new();
        swtpm.extend(7);
        let (mut tpm, heard) = over(&swtpm, |_, _| {});
        let parent = match template {
            None => tpm.storage_root(),
            Some(template) => tpm.create_primary(template),
        };
        let parent = parent.expect("a key");
        // Whatever was said of them before.
        let unused = Policy { pcrs: Some(Pcrs { mask: 1 << 9, ..seven }), ..Policy::default() };
        let refused = tpm.seal(&parent, &unused, &pin(0), SECRET).err();
        assert_eq!(refused, Some(TpmError::Unused { mask: 1 << 9 }));
        for policy in &policies {
            let made = tpm.seal(&parent, policy, &pin(0x5a), SECRET).expect("it is sealed");
            let back = tpm.unseal(&parent, &made.sealed, policy, &made.policy, &pin(0x5a));
            assert!(*back.expect("it comes back") == *SECRET);
            // Three wrong ones would lock it.
            if policy.pin && template.is_none() {
                let wrong = tpm.unseal(&parent, &made.sealed, policy, &made.policy, &pin(0x5b));
                assert_eq!(wrong.err(), Some(TpmError::WrongPin));
            }
        }
        let heard = heard.borrow();
        for clear in [&SECRET[..], &[0x5a; 20]] {
            assert!(!heard.windows(clear.len()).any(|window| window == clear), "in the clear");
        }
        assert!(heard.windows(4).any(|window| window == UNSEAL), "the wire was listened to");
    }
}

#[test]
fn an_answer_that_was_changed_is_refused() {
    let swtpm = Swtpm::new();
    for change in [
        // The secret, the nonce, the attributes, the HMAC.
        |command: &[u8], answer: &mut Vec<u8>| flip(command, answer, 20),
        |command: &[u8], answer: &mut Vec<u8>| flip(command, answer, 14 + 34 + 5),
        |command: &[u8], answer: &mut Vec<u8>| flip(command, answer, 14 + 34 + 34),
        |command: &[u8], answer: &mut Vec<u8>| {
            let last = answer.len() - 1;
            flip(command, answer, last);
        },
        // The nonce of the session: the TPM's key is another one then. Nobody has typed a PIN that would be wrong.
        |command: &[u8], answer: &mut Vec<u8>| {
            if command[6..10] == *START_AUTH_SESSION {
                answer[20] ^= 1;
            }
        },
    ] as [Change; 5]
    {
        let (mut honest, _) = over(&swtpm, |_, _| {});
        let parent = honest.storage_root().expect("a key");
        let made = honest.seal(&parent, &Policy::default(), &pin(0), SECRET).expect("it is sealed");
        drop(honest);
        let (mut tpm, _) = over(&swtpm, change);
        let parent = tpm.storage_root().expect("a key");
        let back = tpm.unseal(&parent, &made.sealed, &Policy::default(), &made.policy, &pin(0));
        assert_eq!(back.err(), Some(TpmError::Tampered));
    }
}

fn flip(command: &[u8], answer: &mut [u8], at: usize) {
    if command[6..10] == *UNSEAL {
        answer[at] ^= 1;
    }
}

#[test]
fn a_storage_key_in_place_of_another_is_refused() {
    let (ours, theirs) = (Swtpm::new(), Swtpm::new());
    let (mut tpm, _) = over(&ours, |_, _| {});
    let named = tpm.storage_root().and_then(|key| key.serialised()).expect("a key");
    assert!(tpm.persistent_as(&named).is_ok());
    drop(tpm);
    let (mut tpm, _) = over(&theirs, |_, _| {});
    assert_eq!(tpm.persistent_as(&named).err(), Some(TpmError::NoSuchKey { handle: 0x8100_0001 }));
    tpm.storage_root().expect("a key");
    assert_eq!(tpm.persistent_as(&named).err(), Some(TpmError::OtherParent));
}

#[test]
fn nothing_is_sealed_under_a_storage_key_that_may_be_known_elsewhere() {
    let swtpm = Swtpm::new();
    swtpm.tool("tpm2_createprimary -Q -C o -c primary");
    // One that may be taken from TPM to TPM: neither fixedTPM nor fixedParent.
    swtpm.tool(
        "tpm2_create -Q -C primary -G ecc:aes128cfb -u public -r private \
         -a sensitivedataorigin|userwithauth|restricted|decrypt",
    );
    swtpm.forget();
    swtpm.tool("tpm2_load -Q -C primary -u public -r private -c brought");
    swtpm.forget();
    swtpm.tool("tpm2_evictcontrol -Q -C o -c brought 0x81000001");
    swtpm.forget();
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    assert_eq!(tpm.storage_root().err(), Some(TpmError::ForeignKey { handle: 0x8100_0001 }));
}

/// What systemd-cryptsetup measures, by OpenSSL's HMAC and tpm2_pcrextend on another TPM.
#[test]
fn a_volume_key_is_measured_into_every_bank() {
    const TEXT: &str = "cryptsetup:root:11111111-9e27-4efe-a4d5-15ad146c258b";
    let (ours, theirs) = (Swtpm::new(), Swtpm::new());
    let (mut tpm, _) = over(&ours, |_, _| {});
    let key: Vec<u8> = (0..64).collect();
    let measured = tpm.measure(15, &key, TEXT.as_bytes()).expect("extends");
    assert!(measured.len() >= 2, "SHA-1 and SHA-256 at least: {measured:?}");
    assert_eq!(tpm.measure(24, &key, b"").err(), Some(TpmError::NoBank));
    drop(tpm);
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut digests = Vec::new();
    for (bank, _) in &measured {
        let mac = atrest_testkit::oracle::Program::named("openssl")
            .words(&format!("dgst -{} -mac HMAC -macopt hexkey:{hex}", bank.name()))
            .stdin(TEXT)
            .ok();
        let text = mac.text();
        let (_, value) = text.trim().rsplit_once(' ').expect("a digest");
        digests.push(format!("{}={value}", bank.name()));
    }
    theirs.tool(&format!("tpm2_pcrextend 15:{}", digests.join(",")));
    let read = |swtpm: &Swtpm| {
        let banks: Vec<String> = measured.iter().map(|(bank, _)| format!("{}:15", bank.name())).collect();
        swtpm.tool(&format!("tpm2_pcrread {}", banks.join("+"))).text()
    };
    assert_eq!(read(&ours), read(&theirs));
    assert_ne!(read(&ours), read(&Swtpm::new()), "something was measured");
}

const NV_READ: &[u8] = &[0, 0, 1, 0x4e];
const COUNTER: u32 = 0x0180_0a01;

fn counter() -> Counter {
    Counter::at(COUNTER).expect("an index")
}

/// What tpm2-tools read and see.
#[test]
fn a_counter_rises_and_begins_above_all_that_were_there_before() {
    let swtpm = Swtpm::new();
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    let parent = tpm.storage_root().expect("a key");
    assert_eq!(tpm.counter(counter(), &parent).err(), Some(TpmError::NoCounter { index: COUNTER }));
    assert_eq!(tpm.has_counter(counter()), Ok(false));
    assert_eq!(tpm.make_counter(counter()), Ok(true));
    assert_eq!(tpm.has_counter(counter()), Ok(true));
    let first = tpm.counter(counter(), &parent).expect("a value");
    assert_eq!(tpm.make_counter(counter()), Ok(false));
    for step in 1..=3 {
        tpm.raise_counter(counter(), &parent, 1).expect("it rises");
        assert_eq!(tpm.counter(counter(), &parent), Ok(first + step));
    }
    drop(tpm);
    let read = swtpm.tool(&format!("tpm2_nvread -C {COUNTER:#x} {COUNTER:#x}"));
    assert_eq!(read.stdout, (first + 3).to_be_bytes());
    let public = swtpm.tool(&format!("tpm2_nvreadpublic {COUNTER:#x}")).text();
    for word in ["authwrite", "nt=0x1", "authread", "no_da", "written", "size: 8"] {
        assert!(public.contains(word), "{word}: {public}");
    }
    // By its owner, who can take it away, but not set it back.
    swtpm.tool(&format!("tpm2_nvundefine -C o {COUNTER:#x}"));
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    let parent = tpm.storage_root().expect("a key");
    assert_eq!(tpm.make_counter(counter()), Ok(true));
    assert!(tpm.counter(counter(), &parent).expect("a value") > first + 3);
    for index in [0, COUNTER - 0x0100_0000, 0x01c0_0000, u32::MAX] {
        assert_eq!(Counter::at(index), Err(TpmError::BadIndex { index }));
    }
}

/// A session takes a slow TPM longer than what is asked in it.
#[test]
fn a_counter_is_raised_many_times_in_one_session() {
    thread_local!(static SESSIONS: Cell<u32> = const { Cell::new(0) });
    let swtpm = Swtpm::new();
    let (mut tpm, _) = over(&swtpm, |command, _| {
        if command[6..10] == [0, 0, 1, 0x76] {
            SESSIONS.set(SESSIONS.get() + 1);
        }
    });
    let parent = tpm.storage_root().expect("a key");
    tpm.make_counter(counter()).expect("makes");
    let first = tpm.counter(counter(), &parent).expect("a value");
    SESSIONS.set(0);
    tpm.raise_counter(counter(), &parent, 40).expect("it rises");
    assert_eq!(SESSIONS.get(), 1);
    assert_eq!(tpm.counter(counter(), &parent), Ok(first + 40));
}

#[test]
fn what_is_no_counter_of_ours_is_not_taken_for_one() {
    let swtpm = Swtpm::new();
    swtpm.tool(&format!("tpm2_nvdefine -Q -C o -s 8 -a authread|authwrite|no_da {COUNTER:#x}"));
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    let parent = tpm.storage_root().expect("a key");
    let other = Some(TpmError::NotOurCounter { index: COUNTER });
    assert_eq!(tpm.make_counter(counter()).err(), other);
    assert_eq!(tpm.has_counter(counter()).err(), other);
    assert_eq!(tpm.counter(counter(), &parent).err(), other);
    drop(tpm);
    swtpm.tool(&format!("tpm2_nvundefine -C o {COUNTER:#x}"));
    // Whoever made it was interrupted before it was raised.
    let attributes = "authread|authwrite|no_da|nt=0x1";
    swtpm.tool(&format!("tpm2_nvdefine -Q -C o -s 8 -a {attributes} {COUNTER:#x}"));
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    let parent = tpm.storage_root().expect("a key");
    assert_eq!(tpm.counter(counter(), &parent).err(), other);
    assert_eq!(tpm.has_counter(counter()), Ok(false));
    assert_eq!(tpm.make_counter(counter()), Ok(true));
    assert!(tpm.counter(counter(), &parent).is_ok());
}

/// Somebody on the wire who wants an older header to be taken shows a smaller value, an old answer, or another TPM's.
#[test]
fn no_smaller_value_of_a_counter_is_believed() {
    let swtpm = Swtpm::new();
    let (mut tpm, _) = over(&swtpm, |_, _| {});
    let parent = tpm.storage_root().expect("a key");
    let name = parent.name().to_vec();
    tpm.make_counter(counter()).expect("makes");
    tpm.raise_counter(counter(), &parent, 1).expect("it rises");
    drop(tpm);
    // The last byte of the value, its length, the nonce, the HMAC, and an answer that is cut.
    let changes: [(Change, TpmError); 5] = [
        (|command, answer| lie(command, answer, |answer| answer[23] -= 1), TpmError::Tampered),
        (|command, answer| lie(command, answer, |answer| answer[15] = 7), TpmError::Tampered),
        (|command, answer| lie(command, answer, |answer| answer[30] ^= 1), TpmError::Tampered),
        (
            |command, answer| lie(command, answer, |answer| *answer.last_mut().expect("a byte") ^= 1),
            TpmError::Tampered,
        ),
        (
            |command, answer| lie(command, answer, |answer| answer.truncate(answer.len() - 1)),
            TpmError::Malformed,
        ),
    ];
    for (change, expected) in changes {
        let (mut tpm, _) = over(&swtpm, change);
        let parent = tpm.storage_root_named(&name).expect("its key");
        assert_eq!(tpm.counter(counter(), &parent), Err(expected));
    }
    // An answer that was true once.
    let replayed: Change = |command, answer| {
        thread_local!(static FIRST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        if command[6..10] == *NV_READ {
            FIRST.with_borrow_mut(|first| match first.is_empty() {
                true => first.clone_from(answer),
                false => answer.clone_from(first),
            });
        }
    };
    let (mut tpm, _) = over(&swtpm, replayed);
    let parent = tpm.storage_root_named(&name).expect("its key");
    tpm.counter(counter(), &parent).expect("the first one is true");
    tpm.raise_counter(counter(), &parent, 1).expect("it rises");
    assert_eq!(tpm.counter(counter(), &parent), Err(TpmError::Tampered));
    drop(tpm);
    // Another TPM, in which everything is as it would have to be but for its key.
    let theirs = Swtpm::new();
    let (mut tpm, _) = over(&theirs, |_, _| {});
    tpm.storage_root().expect("a key");
    tpm.make_counter(counter()).expect("makes");
    assert_eq!(tpm.storage_root_named(&name).err(), Some(TpmError::OtherParent));
}

fn lie(command: &[u8], answer: &mut Vec<u8>, how: impl Fn(&mut Vec<u8>)) {
    if command[6..10] == *NV_READ {
        how(answer);
    }
}
