//! LUKS2 headers that no program would write, with checksums that are right.

use atrest_kdf::{Hash, digest};
use serde_json::Value;

use super::Scratch;

/// Where the JSON text begins in a header copy.
const JSON: usize = 4096;
const CHECKSUM: usize = 448;

/// Bytes in a header copy.
fn copy_len(image: &[u8]) -> usize {
    u64::from_be_bytes(image[8..16].try_into().expect("eight bytes")) as usize
}

/// The JSON text of the first copy.
pub fn text(image: &[u8]) -> String {
    let area = &image[JSON..copy_len(image)];
    let end = area.iter().position(|byte| *byte == 0).unwrap_or(area.len());
    String::from_utf8(area[..end].to_vec()).expect("text")
}

/// A copy of `image` with this JSON text in both header copies, and right checksums.
pub fn with_text(image: &[u8], text: &str) -> Vec<u8> {
    let mut image = image.to_vec();
    let len = copy_len(&image);
    assert!(text.len() < len - JSON, "too long for the header");
    for start in [0, len] {
        let area = &mut image[start + JSON..start + len];
        area.fill(0);
        area[..text.len()].copy_from_slice(text.as_bytes());
    }
    sealed(image)
}

/// A copy of `image` with the metadata of its first header copy changed, written to both copies with right checksums.
pub fn with(image: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut metadata: Value = serde_json::from_str(&text(image)).expect("JSON");
    change(&mut metadata);
    with_text(image, &metadata.to_string())
}

/// Gives both header copies of `image` the SHA-256 checksums that they must have.
pub fn sealed(mut image: Vec<u8>) -> Vec<u8> {
    let len = copy_len(&image);
    for start in [0, len] {
        let copy = &mut image[start..start + len];
        copy[CHECKSUM..CHECKSUM + 64].fill(0);
        let mut sum = [0; 32];
        digest(Hash::Sha256, &[copy], &mut sum);
        copy[CHECKSUM..CHECKSUM + 32].copy_from_slice(&sum);
    }
    image
}

/// A re-encryption as cryptsetup leaves it when it is killed at its end, made by cryptsetup and then edited: the volume
/// `ended`, the same volume when all went well as `whole`, both of which `key` opens, and the plaintext.
///
/// All data is done, and the mark is still there. The old keyslot is wiped, and `listed` or not.
pub fn ended_reencryption(scratch: &Scratch, listed: bool) -> Vec<u8> {
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    scratch.file("key", b"correct horse\n");
    scratch.bash("head -c 1M /dev/urandom > plaintext && truncate -s 3M whole").ok();
    let small = "--luks2-keyslots-size 1M --offset 4096 --sector-size 512";
    scratch.bash(&format!("cryptsetup -q luksFormat {cheap} {small} whole key")).ok();
    scratch.atrest(&["encrypt", "--key-file", "key", "plaintext", "whole"]).ok();
    let reencrypt = format!("cryptsetup -q reencrypt --force-offline-reencrypt --key-file key {cheap}");
    scratch
        .bash(&format!("{reencrypt} --init-only whole && cp whole begun && {reencrypt} --resume-only whole"))
        .ok();
    let read = |name: &str| std::fs::read(scratch.path(name)).expect("an image");
    let (begun, mut image) = (read("begun"), read("whole"));
    let metadata: Value = serde_json::from_str(&text(&begun)).expect("JSON");
    let segment = |flag: &str| {
        let segments = metadata["segments"].as_object().expect("segments").iter();
        let mut found = segments
            .filter(|(_, segment)| segment["flags"].as_array().is_some_and(|f| f.contains(&flag.into())));
        let (id, segment) = found.next().expect("a backup segment");
        (id.clone(), segment.clone())
    };
    let ((old, _), (new, mut last)) = (segment("backup-previous"), segment("backup-final"));
    last.as_object_mut().expect("an object").remove("flags");
    let start: usize = last["offset"].as_str().expect("an offset").parse().expect("a number");
    image[..start].copy_from_slice(&begun[..start]);
    let area = &metadata["keyslots"]["0"]["area"];
    let number = |name: &str| area[name].as_str().expect("text").parse::<usize>().expect("a number");
    let (from, len) = (number("offset"), number("size"));
    image[from..from + len]
        .iter_mut()
        .zip(1_u32..)
        .for_each(|(byte, n)| *byte = (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    let image = with(&image, |metadata| {
        metadata["segments"]["0"] = last;
        for digest in metadata["digests"].as_object_mut().expect("digests").values_mut() {
            let segments = digest["segments"].as_array_mut().expect("segments");
            segments.retain(|segment| *segment != "0");
            if segments.contains(&new.as_str().into()) {
                segments.insert(0, "0".into());
            }
            let of_old =
                digest["segments"].as_array().is_some_and(|segments| segments.contains(&old.as_str().into()));
            if of_old && !listed {
                digest["keyslots"] = serde_json::json!([]);
            }
        }
        if !listed {
            metadata["keyslots"].as_object_mut().expect("keyslots").remove("0");
        }
    });
    scratch.file("ended", &image);
    image
}
