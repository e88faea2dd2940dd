//! Header information as text for people. JSON is the same data, written by serde.

use std::fmt::Write;

use atrest_cipher::CipherSpec;
use atrest_volume::{Info, KdfInfo, KeyslotInfo, Priority, ReencryptionInfo, SegmentInfo};

use super::format::name;
use crate::amount::{Bytes, Human};
use crate::output::plain;

/// A right-aligned name and its value on a line. The value may be a hostile header's.
fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "{name:>14}  {}", plain(&value.to_string()));
}

/// A number and what it counts.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Everything that the header says.
pub fn info(info: &Info) -> String {
    let mut out = String::new();
    line(&mut out, "type", name(info.format));
    line(&mut out, "UUID", &info.uuid);
    for (name, value) in [("label", &info.label), ("subsystem", &info.subsystem)] {
        if !value.is_empty() {
            line(&mut out, name, value);
        }
    }
    if let Some(sequence) = info.sequence {
        line(&mut out, "sequence", sequence);
    }
    line(&mut out, "metadata", format_args!("{} in each copy", Bytes(info.metadata_size)));
    line(&mut out, "keyslots area", Bytes(info.keyslots_size));
    for copy in &info.copies {
        let state =
            copy.damage.as_deref().map_or(String::from("intact"), |damage| format!("DAMAGED: {damage}"));
        line(&mut out, "header copy", format_args!("at {}: {state}", copy.offset));
    }
    for (name, values) in [("flags", &info.flags), ("requirements", &info.requirements)] {
        if !values.is_empty() {
            line(&mut out, name, values.join(", "));
        }
    }
    if !info.unknown_requirements.is_empty() {
        line(
            &mut out,
            "unknown",
            format_args!("{} (can't be unlocked here)", info.unknown_requirements.join(", ")),
        );
    }
    if let Some(reencryption) = &info.reencryption {
        line(&mut out, "in progress", reencryption_text(reencryption));
    }
    for segment in &info.segments {
        line(&mut out, &format!("segment {}", segment.id), segment_text(segment));
    }
    out.push_str(&keyslots(info));
    for token in &info.tokens {
        line(
            &mut out,
            &format!("token {}", token.id),
            format_args!("{}, keyslots {:?}", token.kind, token.keyslots),
        );
    }
    for digest in &info.digests {
        let mut text = digest.kind.clone();
        if let Some(hash) = &digest.hash {
            let _ = write!(text, " {hash}");
        }
        if let Some(iterations) = digest.iterations {
            let _ = write!(text, ", {}", counted(iterations.into(), "iteration", "iterations"));
        }
        let _ = write!(text, ", keyslots {:?}, segments {:?}", digest.keyslots, digest.segments);
        line(&mut out, &format!("digest {}", digest.id), text);
    }
    out
}

/// The keyslots, one line each.
pub fn keyslots(info: &Info) -> String {
    let mut out = String::new();
    if info.keyslots.is_empty() {
        line(&mut out, "keyslots", "none: only a header backup or the volume key can open it");
    }
    for slot in &info.keyslots {
        line(&mut out, &format!("keyslot {}", slot.id), keyslot_text(slot));
    }
    out
}

/// What else than a passphrase opens a keyslot.
pub fn opens_with(slot: u32, need: &str) -> String {
    let mut out = String::new();
    line(&mut out, &format!("keyslot {slot} by"), plain(need));
    out
}

fn reencryption_text(info: &ReencryptionInfo) -> String {
    let mut text = format!("{} ({}), protected by {}", info.mode, info.direction, info.resilience);
    if let (Some(hash), Some(sector)) = (&info.hash, info.checksum_sector) {
        let _ = write!(text, ", {hash} of {sector} bytes");
    }
    if let Some(shift) = info.shift {
        let _ = write!(text, ", data moves by {}", Bytes(shift));
    }
    match info.hot {
        Some((offset, Some(len))) => {
            let _ = write!(text, "; {} at {offset} may be half-written", Bytes(len));
        }
        Some((offset, None)) => {
            let _ = write!(text, "; what follows {offset} may be half-written");
        }
        None => text.push_str("; between two zones"),
    }
    text
}

fn segment_text(segment: &SegmentInfo) -> String {
    let mut text = segment.kind.clone();
    // A sealed volume has none: each of its objects says how it is sealed.
    if !segment.cipher.is_empty() {
        let _ = write!(text, ", {}", segment.cipher);
    }
    if let Ok(cipher) = segment.cipher.parse::<CipherSpec>() {
        if cipher.is_discouraged() {
            text.push_str(" (not recommended)");
        }
        if cipher.is_single_snapshot() {
            text.push_str(" (safe for a single snapshot only)");
        }
        if !cipher.is_null() && !cipher.is_constant_time() {
            text.push_str(" (not constant-time)");
        }
    }
    if let Some(bytes) = segment.key_len {
        // cannot overflow: a key has 512 bytes at most.
        let _ = write!(text, ", key of {} bits", bytes.saturating_mul(8));
    }
    let _ = write!(text, ", data units of {} bytes, from {}", segment.data_unit, segment.offset);
    if segment.offset >= 1024 {
        let _ = write!(text, " ({})", Human(segment.offset));
    }
    match segment.size {
        Some(size) => {
            let _ = write!(text, ", {}", Bytes(size));
        }
        None => text.push_str(" to the end"),
    }
    if segment.iv_offset != 0 {
        let _ = write!(text, ", IVs from {}", segment.iv_offset);
    }
    if let Some(integrity) = &segment.integrity {
        let _ = write!(text, ", integrity {integrity}");
    }
    if !segment.flags.is_empty() {
        let _ = write!(text, ", {}", segment.flags.join(", "));
    }
    text
}

fn keyslot_text(slot: &KeyslotInfo) -> String {
    // cannot overflow: a key has 512 bytes at most.
    let mut text = format!("{}, key of {} bits", slot.kind, slot.key_len.saturating_mul(8));
    if let Some(kdf) = &slot.kdf {
        let _ = write!(text, ", {}", kdf_text(kdf));
    }
    if let Some(cipher) = slot.area.as_ref().and_then(|area| area.cipher.as_ref()) {
        let _ = write!(text, ", area {cipher}");
    }
    match slot.priority {
        Priority::Normal => {}
        Priority::Prefer => text.push_str(", preferred"),
        Priority::Ignore => text.push_str(", ignored"),
    }
    if slot.unbound {
        text.push_str(", UNBOUND: opens no data");
    }
    text
}

fn kdf_text(kdf: &KdfInfo) -> String {
    let mut text = kdf.kind.clone();
    if let Some(hash) = &kdf.hash {
        let _ = write!(text, " {hash}");
    }
    match (kdf.memory_kib, kdf.lanes) {
        (Some(memory), Some(lanes)) => {
            let passes = counted(kdf.iterations.into(), "pass", "passes");
            let lanes = counted(lanes.into(), "lane", "lanes");
            let _ = write!(text, ", {passes}, {memory} KiB");
            if memory >= 1024 {
                // cannot overflow: 32 bits of KiB are less than 64 bits of bytes.
                let _ = write!(text, " ({})", Human(u64::from(memory).saturating_mul(1024)));
            }
            let _ = write!(text, ", {lanes}");
        }
        _ => {
            let _ = write!(text, ", {}", counted(kdf.iterations.into(), "iteration", "iterations"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyslot_is_one_line_with_its_cost() {
        let slot = KeyslotInfo {
            id: 3,
            kind: String::from("luks2"),
            key_len: 64,
            priority: Priority::Ignore,
            unbound: true,
            kdf: Some(KdfInfo {
                kind: String::from("argon2id"),
                hash: None,
                iterations: 4,
                memory_kib: Some(1_048_576),
                lanes: Some(2),
                salt: String::new(),
            }),
            af_stripes: Some(4000),
            af_hash: None,
            area: None,
            digest: None,
        };
        assert_eq!(
            keyslot_text(&slot),
            "luks2, key of 512 bits, argon2id, 4 passes, 1048576 KiB (1 GiB), 2 lanes, ignored, UNBOUND: opens no data"
        );
    }
}
