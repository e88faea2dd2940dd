//! `atrest passphrase`.

use std::io;

use atrest_kdf::words::{BITS_PER_WORD, generate, max_len};
use atrest_secret::{OsRandom, SecretBytes, with_wiped_stack};

use crate::args::tools::PassphraseCommandArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;

pub fn passphrase(args: &PassphraseCommandArgs, output: &Output) -> Result<(), Failure> {
    let count = usize::from(args.words);
    let bits = count * BITS_PER_WORD;
    let mut words = SecretBytes::zeroed(max_len(count));
    let len = with_wiped_stack(|| generate(&mut OsRandom, count, &mut words))
        .map_err(|error| Failure::new(Code::Device, error))?;
    words.truncate(len);
    output.warn_if_unlocked();
    // Letters and spaces need no escapes; the line never passes through memory that is not wiped.
    if output.is_json() {
        let rest = format!("\",\"words\":{count},\"entropy_bits\":{bits}}}\n");
        write_secret(&[b"{\"passphrase\":\"", &words, rest.as_bytes()])
    } else {
        output.note(format_args!("{count} words, {bits} bits of entropy"));
        write_secret(&[&words, b"\n"])
    }
}

/// Straight to standard output, whose buffer would keep a copy.
pub fn write_secret(parts: &[&[u8]]) -> Result<(), Failure> {
    for part in parts {
        let mut left = *part;
        while !left.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), left) {
                Ok(written) => left = &left[written..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
    Ok(())
}
