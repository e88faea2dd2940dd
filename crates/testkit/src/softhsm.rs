//! Smart cards in software (SoftHSM), which systemd-cryptenroll finds by p11-kit as well.

use std::path::PathBuf;

use crate::Scratch;
use crate::oracle::{Outcome, Program};

/// The library of SoftHSM.
const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Some cards that are plugged in.
#[derive(Debug)]
pub struct SoftCards {
    place: Scratch,
}

impl SoftCards {
    /// None yet.
    pub fn new() -> Self {
        let place = Scratch::new();
        let cards = place.directory("cards");
        place.file(
            "softhsm2.conf",
            format!("directories.tokendir = {}\nlog.level = ERROR\n", cards.display()),
        );
        Self { place }
    }

    /// A program for which these are the cards.
    pub fn seen_by(&self, program: Program) -> Program {
        program.env("SOFTHSM2_CONF", self.place.path("softhsm2.conf"))
    }

    /// What `ATREST_PKCS11_MODULE` says, for our programs.
    pub fn module(&self) -> PathBuf {
        MODULE.into()
    }

    /// Plugs in a card with this label and the PIN 1234.
    ///
    /// # Panics
    /// When SoftHSM is missing.
    pub fn plug_in(&self, label: &str) {
        let line = format!("--init-token --free --label {label} --pin 1234 --so-pin 5678");
        self.seen_by(Program::named("softhsm2-util")).words(&line).ok();
    }

    /// Puts a fresh RSA key on a card, and a certificate of it, which systemd 252 looks for.
    pub fn put_key(&self, label: &str, name: &str, id: &str) {
        let (key, certificate) = (self.place.path("key.pem"), self.place.path("certificate.der"));
        let line = "req -x509 -newkey rsa:2048 -nodes -subj /CN=atrest -days 3650 -outform DER -keyout";
        Program::named("openssl").words(line).arg(&key).arg("-out").arg(&certificate).ok();
        let line = format!("--token {label} --label {name} --id {id} --pin 1234 --import");
        self.seen_by(Program::named("softhsm2-util")).words(&line).arg(&key).ok();
        let line =
            format!("--login --token-label {label} --type cert --label {name} --id {id} --write-object");
        self.tool(&line, &certificate);
        std::fs::remove_file(key).expect("a key");
    }

    /// Makes a key on P-256 on a card, and returns its public part in DER.
    pub fn make_curve_key(&self, label: &str, name: &str, id: &str) -> PathBuf {
        let line = format!(
            "--module {MODULE} --pin 1234 --login --token-label {label} --keypairgen --key-type EC:prime256v1"
        );
        let program = self.seen_by(Program::named("pkcs11-tool")).words(&line);
        program.words(&format!("--usage-derive --label {name} --id {id}")).ok();
        self.public_key(label, name)
    }

    /// The certificate of the RSA key that was put on a card last, in DER.
    pub fn certificate(&self) -> Vec<u8> {
        self.place.read("certificate.der")
    }

    /// The public part of a key in DER.
    pub fn public_key(&self, label: &str, name: &str) -> PathBuf {
        let file = self.place.path("public.der");
        let line = format!("--token-label {label} --read-object --type pubkey --label {name} --output-file");
        self.tool(&line, &file);
        file
    }

    fn tool(&self, line: &str, file: &std::path::Path) -> Outcome {
        let program =
            self.seen_by(Program::named("pkcs11-tool")).words(&format!("--module {MODULE} --pin 1234"));
        program.words(line).arg(file).ok()
    }
}

impl Default for SoftCards {
    fn default() -> Self {
        Self::new()
    }
}
