//! A re-encryption that cryptsetup was killed in at its very end: the old keyslots are destroyed, the mark is still there.

use std::fs;

use crate::common::luks2::ended_reencryption;
use crate::common::{CHEAP, Scratch};

#[test]
fn every_command_says_what_is_the_matter_and_resume_finishes_it() {
    for listed in [true, false] {
        let scratch = Scratch::new();
        let before = ended_reencryption(&scratch, listed);
        let unchanged =
            || assert_eq!(fs::read(scratch.path("ended")).expect("the volume"), before, "it was written");
        scratch.file("wrong", "battery staple");
        scratch.bash("mkdir dir; echo x > f").ok();
        // cryptsetup can do nothing with it.
        assert_ne!(
            scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "ended"]).code,
            0
        );
        for line in [
            "decrypt $K ended out",
            "encrypt $K plaintext ended",
            "open ended --nbd ./sock $K --run true",
            "mount ended dir $K --run true",
            "ls $K ended /",
            "cp $K f ended:/f",
            "key add $K --new-key-file wrong ended",
            "key export --yes $K ended vk",
            "--yes header set ended --label x",
        ] {
            let ran = scratch.bash(&format!("K='--key-file key'; $ATREST {line}"));
            let ran = ran.fails(4, "a re-encryption is not finished");
            assert!(ran.stderr.contains("reencrypt --resume"), "{line}: {}", ran.stderr);
            unchanged();
        }
        assert!(scratch.atrest(&["info", "ended"]).ok().stdout.contains("in progress"));
        scratch.atrest(&["key", "test", "--key-file", "key", "ended"]).ok();
        let mut again = vec!["reencrypt", "--key-file", "key", "ended"];
        again.extend(CHEAP);
        assert!(scratch.atrest(&again).stderr.contains("reencrypt --resume"));
        scratch
            .atrest(&["reencrypt", "--resume", "--key-file", "wrong", "ended"])
            .fails(2, "wrong passphrase");
        unchanged();
        scratch.atrest(&["reencrypt", "--resume", "--key-file", "key", "ended"]).ok();
        // It is what cryptsetup would have made of it.
        scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "ended"]).ok();
        let dump = scratch.tool("cryptsetup", &["luksDump", "ended"]).ok().stdout;
        assert!(!dump.contains("online-reencrypt") && !dump.contains("0: luks2"), "{dump}");
        let volume_key = |name: &str| {
            let file = format!("vk-{name}");
            scratch
                .bash(&format!(
                    "cryptsetup -q luksDump --dump-volume-key --key-file key --volume-key-file {file} {name}"
                ))
                .ok();
            fs::read(scratch.path(&file)).expect("a volume key")
        };
        assert_eq!(volume_key("ended"), volume_key("whole"));
        scratch.atrest(&["decrypt", "--key-file", "key", "ended", "out"]).ok();
        let read = |name: &str| fs::read(scratch.path(name)).expect("plaintext");
        assert_eq!(read("out"), read("plaintext"));
        scratch
            .atrest(&["reencrypt", "--resume", "--key-file", "key", "ended"])
            .fails(4, "no re-encryption is in progress");
    }
}
