//! Tokens whose passphrase a TPM or a server has: their JSON, and what the TPM, the server and the network on the way to it answer.

use atrest_boot::net::{Answer, Conversation};
use atrest_format::luks2::CounterToken;
use atrest_open::token::{clevis, fido2, pkcs11, shares, tpm2};
use atrest_secret::SecretArray;
use atrest_tpm::{
    Bank, Counter, Pcrs, Policy, Sealed, SignedPolicy, SigningKey, Template, Tpm, TpmError, Transport,
};

use crate::Reader;

/// The text of a token, or what a server answers.
pub fn token(data: &[u8]) {
    if let Ok(text) = core::str::from_utf8(data) {
        let _ = tpm2::check(text);
        let _ = clevis::check(text);
        let _ = fido2::check(text);
        let _ = pkcs11::check(text);
        let _ = shares::check(text);
        if let Some(counter) = CounterToken::parse(text) {
            assert_eq!(CounterToken::parse(&counter.to_json()), Some(counter));
        }
        if let Some(key) = SigningKey::from_der(data) {
            assert_ne!(key.fingerprint(), &[0; 32]);
        }
    }
    let _ = SigningKey::from_der(data);
    clevis::check_answer(data);
    lease(data);
}

/// What a DHCP server answers to whatever conversation it names.
fn lease(data: &[u8]) {
    let number = data.get(4..).and_then(|rest| rest.first_chunk());
    let hardware = data.get(28..).and_then(|rest| rest.first_chunk());
    let (Some(number), Some(hardware)) = (number, hardware) else { return };
    let asked = Conversation { number: *number, hardware: *hardware };
    if let Some(Answer::Offer(lease) | Answer::Given(lease)) = asked.answer(data) {
        assert!((1..=32).contains(&lease.prefix) && lease.servers.len() <= 3 && !lease.own.is_multicast());
        assert_eq!(asked.request(&lease).len(), 300);
    }
}

/// A TPM that answers what the input says. It ends where the input does.
struct Scripted {
    answers: Vec<u8>,
    at: usize,
}

impl Transport for Scripted {
    fn transmit(&mut self, _: &[u8]) -> Result<Vec<u8>, TpmError> {
        let mut reader = Reader(&self.answers[self.at..]);
        if reader.0.is_empty() {
            return Err(TpmError::Io("the input has ended".into()));
        }
        let kind = reader.u8();
        let len = usize::from(reader.u16()) % 700;
        let body = reader.bytes(len);
        self.at = self.answers.len() - reader.0.len();
        let answer = match kind {
            // Right but for its content.
            0..128 => {
                let tag = 0x8001 + u16::from(kind & 1);
                let len = u32::try_from(body.len() + 10).expect("short");
                [&tag.to_be_bytes(), &len.to_be_bytes()[..], &[0; 4], body].concat()
            }
            _ => body.to_vec(),
        };
        match answer.get(6..10) {
            // It would be waited for.
            Some([0, 0, 9, 0x22 | 0x08 | 0x0a]) => Err(TpmError::Slow),
            _ => Ok(answer),
        }
    }
}

/// What a TPM answers while it unseals and seals. It can't have the key of the session, so nothing it says is taken for the secret.
pub fn tpm(data: &[u8]) {
    let (kind, answers) = data.split_first().unwrap_or((&0, &[]));
    let mut tpm = Tpm::over(Box::new(Scripted { answers: answers.to_vec(), at: 0 }));
    let parent = match kind & 1 {
        0 => tpm.create_primary(Template::StorageRoot),
        _ => tpm.storage_root(),
    };
    let Ok(parent) = parent else { return };
    if kind & 64 != 0 {
        let counter = Counter::at(0x0180_0001).expect("an index");
        let _ = tpm.make_counter(counter);
        assert!(tpm.counter(counter, &parent).is_err() && tpm.raise_counter(counter, &parent, 2).is_err());
        return;
    }
    let pcrs = Bank::named("sha256").map(|bank| Pcrs { bank, mask: 0x880 });
    let key = SigningKey::from_der(&signer());
    let find = |_: &[u8; 32]| Some(vec![1; 128]);
    let signed =
        key.as_ref().zip(pcrs).map(|(key, pcrs)| SignedPolicy { key, pcrs, reference: &[], find: &find });
    let policy = Policy {
        signed: signed.filter(|_| kind & 2 != 0),
        pcrs: pcrs.filter(|_| kind & 4 != 0),
        pin: kind & 8 != 0,
    };
    let pin = SecretArray::zeroed();
    let sealed = Sealed { private: vec![1; 20], public: vec![0, 8, 0, 11, 0, 0, 0, 18, 0, 0, 0, 16, 0, 0] };
    match kind >> 4 & 3 {
        0 => assert!(tpm.unseal(&parent, &sealed, &policy, &[0; 32], &pin).is_err()),
        1 => assert!(tpm.unseal_without_policy(&parent, &sealed).is_err()),
        _ => assert!(tpm.seal(&parent, &policy, &pin, b"a secret").is_err()),
    }
}

/// The public key of a signer (RSA, 1024 bits).
fn signer() -> Vec<u8> {
    let pkcs1 = [&[0x30, 0x81, 0x89, 2, 0x81, 0x81, 0][..], &[0xa5; 128], &[2, 3, 1, 0, 1]].concat();
    let algorithm = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 1, 5, 0];
    let bits = [&[3, 0x81, 0x8d, 0][..], &pkcs1].concat();
    [&[0x30, 0x81, 0x9f][..], &algorithm, &bits].concat()
}

/// Tokens and answers as they should be.
pub fn token_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let policy = "8b".repeat(32);
    let first = format!(
        r#"{{"type":"systemd-tpm2","keyslots":["1"],"tpm2-blob":"AAEBAAEB","tpm2-pcrs":[7],"tpm2-policy-hash":"{policy}"}}"#
    );
    let more = r#","tpm2-pcr-bank":"sha256","tpm2-primary-alg":"ecc","tpm2-pin":true,"tpm2_salt":"AAEC","tpm2_srk":"gQAAAQ==","tpm2_argon2id_memcost":1048576,"tpm2_argon2id_iterations":4,"tpm2_argon2id_lanes":2}"#;
    let last = first.replace('}', more);
    let header = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIiwiY2xldmlzIjp7InBpbiI6InNzcyIsInNzcyI6eyJ0IjoxLCJwIjoiX19fX19fX19fX19fX19fX19fX19fX19fX19fX19fX19fX19fX19fX19fOCIsImp3ZSI6W119fX0";
    let clevis = format!(
        r#"{{"type":"clevis","keyslots":["1"],"jwe":{{"ciphertext":"AA","encrypted_key":"","iv":"AAAAAAAAAAAAAAAA","protected":"{header}","tag":"AAAAAAAAAAAAAAAAAAAAAA"}}}}"#
    );
    let fido2 = r#"{"type":"systemd-fido2","keyslots":["1"],"fido2-credential":"AQI=","fido2-salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","fido2-rp":"io.systemd.cryptsetup","fido2-clientPin-required":true,"fido2-up-required":true,"fido2-uv-required":false}"#.to_owned();
    let counter = r#"{"type":"atrest-counter","keyslots":[],"version":1,"index":"0x01800001","storage-key":"000b","number":"7","value":"12"}"#;
    let pkcs11 = format!(
        r#"{{"type":"systemd-pkcs11","keyslots":["1"],"pkcs11-uri":"pkcs11:model=a%20b;token=c;id=%01;object=d","pkcs11-key":"{}"}}"#,
        "BwcH".repeat(64)
    );
    // The generator of P-256 (SEC 2, section 2.4.2), and zeros.
    let point = "BGsX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT+NC4v4af5uO5+tKfA+eFivOM1drMV7Oy7ZAaDe/UfU=";
    let (set, salt, share) = ("A".repeat(22) + "==", "A".repeat(43) + "=", "A".repeat(64));
    let factor = |number: u8, how: &str| {
        format!(
            r#"{{"number":{number},"how":{how},"salt":"{salt}","key":"{point}","commitment":"{salt}","ephemeral":"{point}","share":"{share}"}}"#
        )
    };
    let passphrase = format!(
        r#"{{"type":"passphrase","kdf":"argon2id","salt":"{salt}","time":4,"memory":65536,"lanes":4}}"#
    );
    let factors = [
        factor(1, &passphrase),
        factor(2, &fido2.replace(r#""keyslots":["1"],"#, "")),
        factor(3, r#"{"type":"systemd-recovery"}"#),
    ];
    let shares = format!(
        r#"{{"type":"atrest-shares","keyslots":["1"],"version":1,"threshold":2,"set":"{set}","factors":[{}],"mac":"{salt}"}}"#,
        factors.join(",")
    );
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/jwk+json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    vec![
        ("first", first.into_bytes()),
        ("last", last.into_bytes()),
        ("clevis", clevis.into_bytes()),
        ("fido2", fido2.into_bytes()),
        ("pkcs11", pkcs11.into_bytes()),
        ("counter", counter.into()),
        ("shares", shares.into_bytes()),
        ("answer", answer.into()),
        ("signer", signer()),
    ]
}

/// The answers of a TPM up to the session.
pub fn tpm_seeds() -> Vec<(&'static str, Vec<u8>)> {
    // Of the generator of P-256 (SEC 2, section 2.4.2), as the storage root key.
    let point = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    let point: Vec<u8> =
        (0..64).map(|at| u8::from_str_radix(&point[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let template = [0, 0x23, 0, 11, 0, 3, 4, 0x72, 0, 0, 0, 6, 0, 0x80, 0, 0x43, 0, 16, 0, 3, 0, 16];
    let public = [&template[..], &[0, 32], &point[..32], &[0, 32], &point[32..]].concat();
    let sized = |bytes: &[u8]| [&[0, bytes.len() as u8][..], bytes].concat();
    let said = |kind: u8, body: &[u8]| [&[kind, body.len() as u8, 0][..], body].concat();
    let with_sessions = |handle: &[u8], parameters: &[u8]| {
        let len = u32::try_from(parameters.len()).expect("short").to_be_bytes();
        said(1, &[handle, &len, parameters, &[0, 0, 1, 0, 0]].concat())
    };
    let primary = with_sessions(&[0x80, 0, 0, 1], &sized(&public));
    let loaded = with_sessions(&[0x80, 0, 0, 2], &sized(&[1]));
    let session = said(0, &[&[3, 0, 0, 0][..], &sized(&[7; 32])].concat());
    let digest = said(0, &sized(&[0; 32]));
    let unsealed =
        said(1, &[&[0, 0, 0, 4][..], &sized(&[1, 2]), &sized(&[7; 32]), &[1], &sized(&[5; 32])].concat());
    let nothing = said(0, &[]);
    let done = with_sessions(&[], &[]);
    let read = with_sessions(&[], &sized(&[0, 0, 0, 0, 0, 0, 0, 9]));
    let flow = |kind: u8, more: &[&[u8]]| [&[kind][..], &primary, &more.concat()].concat();
    vec![
        ("unseal", flow(0, &[&loaded, &session, &digest, &unsealed])),
        ("pcrs", flow(4, &[&loaded, &session, &nothing, &digest, &unsealed])),
        ("pin", flow(8, &[&loaded, &session, &nothing, &digest, &unsealed])),
        (
            "signed",
            flow(2, &[&loaded, &session, &nothing, &digest, &session, &nothing, &nothing, &nothing, &digest]),
        ),
        ("password", flow(16, &[&loaded, &session, &unsealed])),
        ("seal", flow(32, &[&session, &unsealed])),
        ("counter", flow(64, &[&done, &done, &session, &read, &nothing, &session, &done])),
    ]
}
