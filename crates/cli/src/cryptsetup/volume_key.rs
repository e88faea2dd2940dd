//! `luksDump --dump-volume-key`: the key on standard output, in cryptsetup's form. `--volume-key-file` writes it to a file instead.

use std::io::{self, Write};

use atrest_engine::Access;
use atrest_volume::Info;
use zeroize::Zeroizing;

use super::words::Request;
use crate::args::secrets::TokenArgs;
use crate::commands::target::{Target, open_device};
use crate::commands::tokens::with_tokens_or_passphrase;
use crate::failure::Failure;
use crate::output::{Output, Questions, plain};
use crate::secrets::Source;

pub fn dump(request: &Request, source: &Source, output: &Output) -> Result<u8, Failure> {
    let path = request.header();
    output.confirm(&format!(
        "the volume key of {} will be shown; whoever has it reads the volume for ever",
        path.display()
    ))?;
    let device = open_device(path, Access::ReadOnly)?;
    let locked = super::report::header(request)?;
    let target = Target::of(path, device, locked);
    let slot = request.number("key-slot").and_then(|slot| u32::try_from(slot).ok());
    let unbound = request.has("unbound");
    // Tokens that nobody has named give no key away.
    let output = output.asking(Questions { tokens_first: false, ..output.questions() });
    let (slot, key) = with_tokens_or_passphrase(
        &target,
        &tokens(request)?,
        (source, slot),
        &output,
        |passphrase, slot| match target.locked.luks2() {
            Some(luks2) if unbound => luks2.keyslot_key(&target.device, passphrase, slot),
            _ => target.locked.volume_key(&target.device, passphrase, slot),
        },
    )?;
    let info = target.locked.info();
    let head = head(&path.display().to_string(), &info, unbound.then_some(slot), key.len());
    let text = with_key(&head, &[key.expose()]);
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()?;
    Ok(0)
}

/// What stands before the key, and behind it the key's parts in hexadecimal, 16 bytes in a line.
pub fn with_key(head: &[u8], key: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let bytes: usize = key.iter().map(|part| part.len()).sum();
    // Three characters for a byte, and as many at most between lines: what has to grow leaves a copy.
    let mut text = Zeroizing::new(Vec::with_capacity(head.len() + 4 * bytes + 4));
    text.extend_from_slice(head);
    for (number, byte) in key.iter().copied().flatten().enumerate() {
        if number > 0 && number % 16 == 0 {
            text.extend_from_slice(b"\n\t\t");
        }
        // cannot fail: it goes into memory, where there is room.
        let _ = write!(text, "{byte:02x} ");
    }
    text.push(b'\n');
    text
}

/// The tokens that are meant.
fn tokens(request: &Request) -> Result<TokenArgs, Failure> {
    let token_id = request.number("token-id").map(u32::try_from).transpose();
    Ok(TokenArgs {
        token_id: token_id.map_err(|_| Failure::parameters("--token-id: there are no such numbers"))?,
        token_type: request.text("token-type").map(|kind| kind.to_string_lossy().into_owned()),
        token_only: request.has("token-only"),
        token_pin_file: None,
        factor_file: Vec::new(),
    })
}

/// What stands before the key.
fn head(path: &str, info: &Info, unbound: Option<u32>, key_len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut line =
        |name: &str, value: &str| text.extend_from_slice(format!("{name}\t{}\n", plain(value)).as_bytes());
    match unbound {
        Some(slot) => {
            line("UUID:    ", &info.uuid);
            line("Keyslot: ", &slot.to_string());
            line("Key bits:", &(key_len * 8).to_string());
        }
        None => {
            let segment = info.segments.first();
            let cipher = segment.map_or("", |segment| segment.cipher.as_str());
            let (name, mode) = cipher.split_once('-').unwrap_or((cipher, ""));
            let offset = segment.map_or(0, |segment| segment.offset / 512);
            line("Cipher name:   ", name);
            line("Cipher mode:   ", mode);
            line("Payload offset:", &offset.to_string());
            line("UUID:          ", &info.uuid);
            line("MK bits:       ", &(key_len * 8).to_string());
        }
    }
    let title = format!("LUKS header information for {}\n", plain(path));
    text.splice(0..0, title.bytes());
    let name: &[u8] = match unbound {
        Some(_) => b"Unbound Key:\t",
        None => b"MK dump:\t",
    };
    text.extend_from_slice(name);
    text
}
