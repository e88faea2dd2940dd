//! Prints a file of an encrypted image: `cargo run -p atrest-open --example cat -- IMAGE /path < passphrase`.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use atrest_filetree::{LastLink, Stop, resolve};
use atrest_inside::{Access, open_tree};
use atrest_open::{Format, Key, OneKey, Options};
use atrest_secret::{Passphrase, SecretBytes};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, path] = &arguments[..] else { return Err("cat IMAGE /path < passphrase".into()) };
    let mut typed = SecretBytes::zeroed(513);
    let len = std::fs::File::open("/dev/stdin")?.read(&mut typed)?;
    let passphrase = typed[..len].strip_suffix(b"\n").ok_or("a passphrase is a line of at most 512 bytes")?;
    let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(passphrase)));
    let disk = atrest_open::open(image.as_ref(), &Format::ByHeader, &mut keys, &Options::default())?;
    let tree = open_tree(Arc::new(disk), Access::ReadOnly)?;
    let file = resolve(&*tree, path.as_bytes(), LastLink::Follow)?;
    let mut out = io::stdout().lock();
    tree.read_to(&file, &mut |piece| out.write_all(piece).map_err(|_| Stop))?;
    Ok(out.flush()?)
}
