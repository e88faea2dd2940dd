//! `luksDump`, in the form that cryptsetup gives it: scripts take it apart. Held against cryptsetup's own by a test, byte by byte.

use std::fmt::Write;
use std::io::Write as _;

use atrest_volume::{Info, KdfInfo, KeyslotInfo, Priority, VolumeFormat};

use super::report::header;
use super::words::Request;
use crate::failure::Failure;
use crate::output::plain;

pub fn dump(request: &Request) -> Result<u8, Failure> {
    let info = header(request)?.info();
    let mut text = String::new();
    let written = match info.format {
        VolumeFormat::Luks1 => luks1(&mut text, &request.header().display().to_string(), &info),
        _ => luks2(&mut text, &info),
    };
    written.map_err(|_| Failure::parameters("the header can't be shown"))?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// A line `name: <tab>value`, whose value begins in column 15 and then a tab.
fn field(text: &mut String, name: &str, value: &str) -> std::fmt::Result {
    writeln!(text, "{name:15}\t{}", plain(value))
}

fn or_none<'a>(value: &'a str, none: &'a str) -> &'a str {
    if value.is_empty() { none } else { value }
}

fn luks2(text: &mut String, info: &Info) -> std::fmt::Result {
    writeln!(text, "LUKS header information")?;
    field(text, "Version:", "2")?;
    field(text, "Epoch:", &info.sequence.map_or_else(String::new, |sequence| sequence.to_string()))?;
    field(text, "Metadata area:", &format!("{} [bytes]", info.metadata_size))?;
    field(text, "Keyslots area:", &format!("{} [bytes]", info.keyslots_size))?;
    field(text, "UUID:", &info.uuid)?;
    field(text, "Label:", or_none(&info.label, "(no label)"))?;
    field(text, "Subsystem:", or_none(&info.subsystem, "(no subsystem)"))?;
    writeln!(text, "Flags:       \t{}", plain(or_none(&info.flags.join(" "), "(no flags)")))?;
    let requirements: Vec<&str> =
        info.requirements.iter().chain(&info.unknown_requirements).map(String::as_str).collect();
    if !requirements.is_empty() {
        writeln!(text, "Requirements:\t{}", plain(&requirements.join(" ")))?;
    }
    writeln!(text, "\nData segments:")?;
    for segment in &info.segments {
        writeln!(text, "  {}: {}", segment.id, plain(&segment.kind))?;
        writeln!(text, "\toffset: {} [bytes]", segment.offset)?;
        match segment.size {
            Some(size) => writeln!(text, "\tlength: {size} [bytes]")?,
            None => writeln!(text, "\tlength: (whole device)")?,
        }
        if segment.kind == "crypt" {
            writeln!(text, "\tcipher: {}", plain(&segment.cipher))?;
            writeln!(text, "\tsector: {} [bytes]", segment.data_unit)?;
        }
        if let Some(integrity) = &segment.integrity {
            writeln!(text, "\tintegrity: {}", plain(integrity))?;
            if let Some(bytes) = segment.integrity_key_len {
                writeln!(text, "\tintegrity key size: {} [bits]", u64::from(bytes) * 8)?;
            }
        }
        if !segment.flags.is_empty() {
            writeln!(text, "\tflags : {}", plain(&segment.flags.join(", ")))?;
        }
        text.push('\n');
    }
    writeln!(text, "Keyslots:")?;
    for slot in &info.keyslots {
        keyslot(text, slot)?;
    }
    writeln!(text, "Tokens:")?;
    for token in &info.tokens {
        writeln!(text, "  {}: {}", token.id, plain(&token.kind))?;
        if let Some(description) = &token.key_description {
            writeln!(text, "\tKey description: {}", plain(description))?;
        }
        for slot in &token.keyslots {
            writeln!(text, "\tKeyslot:    {slot}")?;
        }
    }
    writeln!(text, "Digests:")?;
    for digest in &info.digests {
        writeln!(text, "  {}: {}", digest.id, plain(&digest.kind))?;
        if let Some(hash) = &digest.hash {
            writeln!(text, "\tHash:       {}", plain(hash))?;
        }
        if let Some(iterations) = digest.iterations {
            writeln!(text, "\tIterations: {iterations}")?;
        }
        for (name, hex) in [("Salt:       ", &digest.salt), ("Digest:     ", &digest.digest)] {
            if let Some(hex) = hex {
                write!(text, "\t{name}")?;
                bytes(text, hex, LINE, "\t            ")?;
            }
        }
    }
    Ok(())
}

fn keyslot(text: &mut String, slot: &KeyslotInfo) -> std::fmt::Result {
    let unbound = if slot.unbound { " (unbound)" } else { "" };
    writeln!(text, "  {}: {}{unbound}", slot.id, plain(&slot.kind))?;
    // cannot overflow: a key has 512 bytes at most.
    writeln!(text, "\tKey:        {} bits", slot.key_len * 8)?;
    let priority = match slot.priority {
        Priority::Normal => "normal",
        Priority::Prefer => "preferred",
        Priority::Ignore => "ignored",
    };
    writeln!(text, "\tPriority:   {priority}")?;
    if let Some(area) = &slot.area {
        if let Some(cipher) = &area.cipher {
            writeln!(text, "\tCipher:     {}", plain(cipher))?;
        }
        if let Some(len) = area.key_len {
            writeln!(text, "\tCipher key: {} bits", len * 8)?;
        }
    }
    if let Some(kdf) = &slot.kdf {
        derivation(text, kdf)?;
    }
    if let Some(stripes) = slot.af_stripes {
        writeln!(text, "\tAF stripes: {stripes}")?;
    }
    if let Some(hash) = &slot.af_hash {
        writeln!(text, "\tAF hash:    {}", plain(hash))?;
    }
    if let Some(area) = &slot.area {
        writeln!(text, "\tArea offset:{} [bytes]", area.offset)?;
        writeln!(text, "\tArea length:{} [bytes]", area.size)?;
    }
    if let Some(digest) = slot.digest {
        writeln!(text, "\tDigest ID:  {digest}")?;
    }
    Ok(())
}

fn derivation(text: &mut String, kdf: &KdfInfo) -> std::fmt::Result {
    writeln!(text, "\tPBKDF:      {}", plain(&kdf.kind))?;
    match (kdf.memory_kib, kdf.lanes) {
        (Some(memory), Some(lanes)) => {
            writeln!(text, "\tTime cost:  {}", kdf.iterations)?;
            writeln!(text, "\tMemory:     {memory}")?;
            writeln!(text, "\tThreads:    {lanes}")?;
        }
        _ => {
            if let Some(hash) = &kdf.hash {
                writeln!(text, "\tHash:       {}", plain(hash))?;
            }
            writeln!(text, "\tIterations: {}", kdf.iterations)?;
        }
    }
    text.push_str("\tSalt:       ");
    bytes(text, &kdf.salt, LINE, "\t            ")
}

fn luks1(text: &mut String, path: &str, info: &Info) -> std::fmt::Result {
    writeln!(text, "LUKS header information for {}\n", plain(path))?;
    field(text, "Version:", "1")?;
    if let Some(segment) = info.segments.first() {
        let (name, mode) = segment.cipher.split_once('-').unwrap_or((&segment.cipher, ""));
        field(text, "Cipher name:", name)?;
        field(text, "Cipher mode:", mode)?;
        let digest = info.digests.first();
        let hash = digest.and_then(|digest| digest.hash.as_deref());
        field(text, "Hash spec:", hash.unwrap_or(""))?;
        field(text, "Payload offset:", &(segment.offset / 512).to_string())?;
        let bits = segment.key_len.map_or_else(String::new, |len| (len * 8).to_string());
        field(text, "MK bits:", &bits)?;
        if let Some(digest) = digest {
            for (name, hex) in [("MK digest:", &digest.digest), ("MK salt:", &digest.salt)] {
                write!(text, "{name:15}\t")?;
                let hex = hex.as_deref().unwrap_or("");
                // The digest stands in one line.
                let width = if name == "MK salt:" { LINE } else { hex.len().max(1) };
                bytes(text, hex, width, "               \t")?;
            }
            field(text, "MK iterations:", &digest.iterations.map_or_else(String::new, |n| n.to_string()))?;
        }
    }
    field(text, "UUID:", &info.uuid)?;
    text.push('\n');
    for number in 0..8 {
        let Some(slot) = info.keyslots.iter().find(|slot| slot.id == number) else {
            writeln!(text, "Key Slot {number}: DISABLED")?;
            continue;
        };
        writeln!(text, "Key Slot {number}: ENABLED")?;
        if let Some(kdf) = &slot.kdf {
            writeln!(text, "\tIterations:         \t{}", kdf.iterations)?;
            text.push_str("\tSalt:               \t");
            bytes(text, &kdf.salt, LINE, "\t                      \t")?;
        }
        if let Some(area) = &slot.area {
            writeln!(text, "\tKey material offset:\t{}", area.offset / 512)?;
        }
        if let Some(stripes) = slot.af_stripes {
            writeln!(text, "\tAF stripes:            \t{stripes}")?;
        }
    }
    Ok(())
}

/// Hexadecimal digits of 16 bytes, which stand in a line.
const LINE: usize = 32;

/// Bytes of hexadecimal, so many digits in a line; lines behind the first begin with `indent`.
fn bytes(text: &mut String, hex: &str, digits: usize, indent: &str) -> std::fmt::Result {
    for (number, line) in hex.as_bytes().chunks(digits).enumerate() {
        if number > 0 {
            text.push_str(indent);
        }
        for byte in line.chunks(2) {
            byte.iter().for_each(|digit| text.push(char::from(*digit)));
            text.push(' ');
        }
        text.push('\n');
    }
    Ok(())
}
