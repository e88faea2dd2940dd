//! `--link-vk-to-keyring`: the volume key of what was opened, in a keyring of the kernel.

use std::io;

use atrest_engine::keyring::{Found, Linked, Place};
use atrest_secret::VolumeKey;
use atrest_volume::Volume;

use crate::args::open::{UnlockArgs, VolumeType};
use crate::failure::{Code, Failure};

/// The keyring that is asked for. It is looked for before anybody types a passphrase.
pub fn keyring(place: Option<&Place>) -> Result<Option<Found<'_>>, Failure> {
    let found = place.map(Place::find).transpose();
    found.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::parameters("--link-vk-to-keyring: there is no such keyring")
            .hint("`keyctl show` lists what this session has"),
        io::ErrorKind::NotADirectory => {
            Failure::parameters("--link-vk-to-keyring: that is a key, and no keyring")
        }
        _ => Failure::parameters(format!("--link-vk-to-keyring: the keyring can't be used: {error}")),
    })
}

/// Looks for the keyring for a volume that is opened as `args` say: only a header tells which key is the volume's.
pub fn keyring_for<'a>(place: Option<&'a Place>, args: &UnlockArgs) -> Result<Option<Found<'a>>, Failure> {
    match place.is_some() && args.kind != VolumeType::Luks {
        true => Err(Failure::parameters("--link-vk-to-keyring is for LUKS")),
        false => keyring(place),
    }
}

/// Puts the key of a volume that has kept it there.
pub fn put<'a>(found: Option<&Found<'a>>, volume: &Volume) -> Result<Option<Linked<'a>>, Failure> {
    let Some(found) = found else { return Ok(None) };
    match volume.targets() {
        [first, rest @ ..] if rest.iter().all(|target| target.key == first.key) => {
            put_key(found, &first.key).map(Some)
        }
        [] => {
            Err(Failure::parameters("--link-vk-to-keyring: the volume has no key that the kernel could use"))
        }
        _ => {
            let why = "--link-vk-to-keyring: the volume has two keys until its re-encryption is finished";
            Err(Failure::parameters(why).hint("`atrest reencrypt --resume` finishes it"))
        }
    }
}

/// Puts a volume key there.
pub fn put_key<'a>(found: &Found<'a>, key: &VolumeKey) -> Result<Linked<'a>, Failure> {
    found.put(key.expose()).map_err(|error| {
        Failure::new(Code::Device, format!("--link-vk-to-keyring: the keyring does not take the key: {error}"))
            .hint("a key of type logon has a colon in its description, and the keyring must be one that may be written")
    })
}

/// Leaves the key there.
pub fn keep(linked: Option<Linked<'_>>) {
    linked.map(Linked::keep);
}
