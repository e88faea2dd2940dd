//! A security key that answers what the input says.

use std::collections::VecDeque;
use std::time::Instant;

use atrest_fido2::{Fido2Error, REPORT, Reports, Request, SecurityKey};
use atrest_secret::Passphrase;

use crate::Reader;

/// Gives a channel, and then the input as messages. It ends where the input does.
struct Scripted {
    input: Vec<u8>,
    at: usize,
    reports: VecDeque<[u8; REPORT]>,
    left: usize,
}

const CHANNEL: [u8; 4] = [1, 2, 3, 4];

impl Scripted {
    /// Takes from the input.
    fn taken<T>(&mut self, take: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut reader = Reader(&self.input[self.at..]);
        let taken = take(&mut reader);
        self.at = self.input.len() - reader.0.len();
        taken
    }

    fn message(&mut self, command: u8, message: &[u8]) {
        let len = u16::try_from(message.len()).expect("short").to_be_bytes();
        let (first, rest) = message.split_at(message.len().min(REPORT - 7));
        self.report(&[&[command], &len[..], first].concat());
        for (number, piece) in (0..128_u8).zip(rest.chunks(REPORT - 5)) {
            self.report(&[&[number], piece].concat());
        }
    }

    fn report(&mut self, bytes: &[u8]) {
        let mut report = [0; REPORT];
        report[..4].copy_from_slice(&CHANNEL);
        report[4..4 + bytes.len()].copy_from_slice(bytes);
        self.reports.push_back(report);
    }
}

impl Reports for Scripted {
    fn send(&mut self, report: &[u8; REPORT]) -> Result<(), Fido2Error> {
        let [_, _, _, _, command, _, _, nonce @ ..] = report;
        if *command == 0x86 {
            let mut answer = [0; REPORT];
            answer[..7].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x86, 0, 17]);
            answer[7..15].copy_from_slice(&nonce[..8]);
            answer[15..24].copy_from_slice(&[1, 2, 3, 4, 2, 0, 0, 0, 4]);
            self.reports.push_back(answer);
        }
        Ok(())
    }

    fn receive(&mut self, _: Instant) -> Result<[u8; REPORT], Fido2Error> {
        if let Some(report) = self.reports.pop_front() {
            return Ok(report);
        }
        if self.at == self.input.len() || self.left == 0 {
            return Err(Fido2Error::Io("the input has ended".into()));
        }
        self.left -= 1;
        match self.taken(|input| input.u8()) {
            // Right but for its content.
            0..200 => {
                let message = self.taken(|input| {
                    let len = usize::from(input.u16()) % 2000;
                    [&[0], input.bytes(len)].concat()
                });
                self.message(0x90, &message);
            }
            200..220 => {
                let status = self.taken(|input| input.u8());
                self.message(0x90, &[status]);
            }
            220..240 => {
                let status = self.taken(|input| input.u8());
                self.message(0xbb, &[status]);
            }
            _ => {
                let bytes = self.taken(|input| input.bytes(REPORT - 4).to_vec());
                self.report(&bytes);
            }
        }
        self.reports.pop_front().ok_or(Fido2Error::Malformed)
    }
}

/// What a security key answers while it is enrolled and asked for a secret. A secret that it gives is 32 bytes.
pub fn fido2(data: &[u8]) {
    atrest_fido2::check(data);
    let (kind, input) = data.split_first().unwrap_or((&0, &[]));
    let scripted = Scripted { input: input.to_vec(), at: 0, reports: VecDeque::new(), left: 200 };
    let Ok(mut key) = SecurityKey::over(Box::new(scripted)) else { return };
    let pin = Passphrase::copy_from(b"1234");
    let pin = Some(&pin).filter(|_| kind & 1 != 0);
    if kind & 2 != 0 {
        let made = key.make_credential(("a", "b"), (&[1], "c"), pin, &mut || {});
        assert!(made.is_err() || made.is_ok_and(|made| (1..=1024).contains(&made.id.len())));
        return;
    }
    if kind & 4 != 0 {
        let _ = key.has("a", &[1]);
    }
    let touch = [None, Some(false), Some(true)][usize::from(kind >> 3) % 3];
    let request =
        Request { rp: "a", credential: &[1], salt: &[2; 32], touch, verification: kind & 64 != 0, pin };
    let secret = key.secret(&request, &mut || {});
    assert!(secret.is_err() || secret.is_ok_and(|secret| secret.len() == 32));
}

/// A key that says what it is, and the answers to a credential and to a secret, as far as they can be written without its key.
pub fn fido2_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let said = |body: &[u8]| [&[0, body.len() as u8, 0][..], body].concat();
    let info = said(b"\xa3\x01\x81\x68FIDO_2_0\x02\x81\x6bhmac-secret\x04\xa2\x62up\xf5\x69clientPin\xf5");
    // The generator of P-256 (SEC 2, section 2.4.2).
    let point = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    let point: Vec<u8> =
        (0..64).map(|at| u8::from_str_radix(&point[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let cose = |algorithm: u8| {
        [
            &[0xa5, 1, 2, 3, 0x38, algorithm, 0x20, 1, 0x21, 0x58, 32][..],
            &point[..32],
            &[0x22, 0x58, 32],
            &point[32..],
        ]
        .concat()
    };
    let agreed = said(&[&[0xa1, 1][..], &cose(24)].concat());
    let token = said(&[&[0xa1, 2, 0x58, 32][..], &[7; 32]].concat());
    // The hash of the relying party `a`.
    let party = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
    let party: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&party[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let secret = [&party[..], &[0x85, 0, 0, 0, 1], b"\xa1\x6bhmac-secret\x58\x20", &[9; 32]].concat();
    let secret = said(&[&[0xa1, 2, 0x58, secret.len() as u8][..], &secret].concat());
    let credential =
        [&party[..], &[0xc5, 0, 0, 0, 1], &[0; 16], &[0, 2, 5, 6], &cose(6)[..], b"\xa1\x6bhmac-secret\xf5"];
    let credential = credential.concat();
    let credential =
        said(&[&[0xa2, 1, 0x61, b'x', 2, 0x58, credential.len() as u8][..], &credential].concat());
    let alive = [220, 2];
    vec![
        ("secret", [&[16][..], &info, &agreed, &alive, &secret].concat()),
        ("pin", [&[17][..], &info, &agreed, &token, &secret].concat()),
        ("make", [&[2][..], &info, &alive, &credential].concat()),
        ("make_pin", [&[3][..], &info, &agreed, &token, &credential].concat()),
        ("has", [&[4][..], &info, &[200, 0x2e], &agreed, &secret].concat()),
    ]
}
