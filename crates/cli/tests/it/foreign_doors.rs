//! Every kind of TrueCrypt and VeraCrypt volume through the commands that people have for files: `ls`, `cat`, `cp` and `decrypt -`. libgcrypt has
//! made the volumes, and mtools reads what they hold afterwards.

use std::fs;
use std::ops::Range;

use atrest_testkit::oracle::Outcome;
use atrest_testkit::tcrypt::Tcrypt;

use crate::common::Scratch;

/// Bytes of the plaintext: a FAT file system.
const PLAIN: usize = 512 << 10;
/// Bytes of headers and their copies beside it.
const HEADERS: usize = 256 << 10;
/// Where the data of an encrypted system begins on its drive.
const SYSTEM: usize = 64 << 10;

/// A volume with a file in it, and the words that open it.
struct Door {
    scratch: Scratch,
    words: &'static str,
    /// Where the volume's data lies in the file `vol`.
    data: Range<usize>,
}

impl Door {
    /// Makes `vol` of so many bytes.
    fn new(volume: &Tcrypt, size: usize, data: usize, words: &'static str) -> Self {
        let scratch = Scratch::new();
        let fat = format!(
            "truncate -s {PLAIN} plain && mkfs.vfat plain && echo hello > letter && mcopy -i plain letter ::letter"
        );
        scratch.bash(&fat).ok();
        scratch.file("password", b"correct horse");
        scratch.file("wrong", b"incorrect horse");
        volume.make(&scratch.path("vol"), size, &scratch.path("plain"));
        Self { scratch, words, data: data..data + PLAIN }
    }

    fn run(&self, command: &str, key: &str) -> Outcome {
        let program = self.scratch.program(env!("CARGO_BIN_EXE_atrest")).words(command);
        program.words(self.words).args(["--key-file", key]).without_terminal().run()
    }

    /// What a command prints that must succeed.
    fn prints(&self, command: &str) -> String {
        self.run(command, "password").expect_code(0).text()
    }

    fn volume(&self) -> Vec<u8> {
        fs::read(self.scratch.path("vol")).expect("the volume")
    }

    /// Goes through every door in both directions.
    fn leads_in_and_out(&self) {
        let before = self.volume();
        let plain = fs::read(self.scratch.path("plain")).expect("the plaintext");
        assert!(self.run("decrypt vol - --quiet", "password").stdout == plain, "another plaintext");
        assert_eq!(self.prints("ls vol"), "letter\n");
        assert_eq!(self.prints("cat vol /letter"), "hello\n");
        assert!(self.volume() == before, "reading has written");

        self.scratch.bash("mkdir -p tree/branch && seq 5000 > tree/branch/leaf").ok();
        self.prints("cp -r tree vol:/");
        assert_eq!(self.prints("ls -R vol /tree"), "/tree:\nbranch\n\n/tree/branch:\nleaf\n");
        self.prints("cp -r vol:/tree back");
        assert_eq!(self.scratch.bash("diff -r tree back").ok().stdout, "");
        // What another program finds there.
        let shown = self.run("decrypt vol - --quiet", "password");
        self.scratch.file("shown", &shown.stdout);
        self.scratch
            .bash(
                "mcopy -i shown ::tree/branch/leaf found && cmp found tree/branch/leaf && fsck.fat -n shown",
            )
            .ok();
        let mut after = self.volume();
        assert!(after != before, "nothing was written");
        after[self.data.clone()].copy_from_slice(&before[self.data.clone()]);
        assert!(after == before, "something was written beside the data");

        let before = self.volume();
        for command in
            ["ls vol", "cat vol /letter", "cp letter vol:/more", "cp vol:/letter stolen", "decrypt vol -"]
        {
            let refused = self.run(command, "wrong").expect_code(2);
            assert!(refused.stdout.is_empty(), "{command}");
            assert!(refused.messages().contains("nothing here opens with this password"), "{command}");
        }
        assert!(self.volume() == before, "a wrong password has written");
        assert!(!self.scratch.path("stolen").exists());
    }
}

fn veracrypt() -> Tcrypt {
    Tcrypt { magic: "VERA", iterations: 16_000, ..Tcrypt::default() }
}

#[test]
fn a_hidden_volume_leads_in_and_out() {
    let hidden = Tcrypt { place: "hidden", chain: "serpent-twofish-aes", ..veracrypt() };
    let words = "--type veracrypt --veracrypt-pim 1 --hash sha512 --tcrypt-hidden";
    Door::new(&hidden, PLAIN + HEADERS, HEADERS / 2, words).leads_in_and_out();
}

#[test]
fn a_volume_whose_first_header_is_lost_leads_in_and_out_by_the_other_one() {
    let backup = Tcrypt { place: "backup", ..Tcrypt::default() };
    let words = "--type tcrypt --hash sha512 --cipher aes --tcrypt-backup";
    Door::new(&backup, PLAIN + HEADERS, HEADERS / 2, words).leads_in_and_out();
}

#[test]
fn an_encrypted_system_leads_in_and_out_on_its_drive_and_by_its_partition() {
    let system = Tcrypt { place: "system", ..veracrypt() };
    let size = SYSTEM + PLAIN + SYSTEM;
    Door::new(&system, size, SYSTEM, "--type tcrypt --veracrypt-pim 1 --hash sha512 --tcrypt-system")
        .leads_in_and_out();

    let words = "--type tcrypt --veracrypt-pim 1 --hash sha512 --tcrypt-system --header track";
    let mut door = Door::new(&system, size, SYSTEM, words);
    let drive = door.volume();
    door.scratch.file("track", &drive[..32 << 10]);
    door.scratch.file("vol", &drive[SYSTEM..][..PLAIN]);
    door.data = 0..PLAIN;
    door.leads_in_and_out();
}

#[test]
fn volumes_of_old_truecrypt_lead_in_and_out() {
    for (mode, chain) in [("cbc", "blowfish_le-aes"), ("lrw", "cast5")] {
        let old = Tcrypt { mode, hash: "sha1", iterations: 2000, chain, place: "old", ..Tcrypt::default() };
        Door::new(&old, 512 + PLAIN, 512, "--type truecrypt --hash sha1").leads_in_and_out();
    }
}
