//! Headers encrypted anew: for a new volume, another password, or out of a backup.
//!
//! A header and its copy near the end are written one after the other, and last the one that was opened: the other may be damaged. Whatever
//! happens meanwhile, one of them is whole, and opens with the old password or the new one.

use atrest_device::Media;
use atrest_format::tcrypt::{Chain, HEADER_LEN, Header, Magic, Mode, Place, SALT_LEN};
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::{Derivation, Family, KeyFiles, Password, new_derivation};
use atrest_secret::Random;

use super::opened::{Opened, encrypted};
use super::{TcryptError, TcryptWriteError};
use crate::{Passphrase, UnlockOptions};

/// What a header is to open with.
#[derive(Debug)]
pub struct NewPassword<'a> {
    /// The password, which may be empty where there are key files.
    pub passphrase: &'a Passphrase,
    /// Key files, mixed.
    pub key_files: &'a KeyFiles,
    /// Personal iterations multiplier of VeraCrypt.
    pub pim: Option<u32>,
    /// The hash of the derivation.
    pub hash: Hash,
}

impl NewPassword<'_> {
    /// How its key is derived, and of what, if a volume of this program can have that.
    fn key(&self, family: Family) -> Result<(Derivation, Password), TcryptWriteError> {
        if self.passphrase.expose().is_empty() && self.key_files.are_none() {
            return Err(TcryptWriteError::Empty);
        }
        let derivation = new_derivation(family, self.hash, self.pim).map_err(TcryptError::Kdf)?;
        let derivation = derivation.ok_or(TcryptWriteError::Hash { family, hash: self.hash })?;
        let password =
            Password::new(family, self.passphrase.expose(), self.key_files).map_err(TcryptError::Kdf)?;
        Ok((derivation, password))
    }
}

/// A header of a new volume.
pub(super) fn sealed(
    header: &Header,
    chain: &Chain,
    new: &NewPassword<'_>,
    random: &mut dyn Random,
) -> Result<[u8; HEADER_LEN], TcryptWriteError> {
    let (derivation, password) = new.key(family(header.magic))?;
    under_new_salt(header, chain, (&derivation, &password), random)
}

fn under_new_salt(
    header: &Header,
    chain: &Chain,
    (derivation, password): (&Derivation, &Password),
    random: &mut dyn Random,
) -> Result<[u8; HEADER_LEN], TcryptWriteError> {
    let mut salt = [0; SALT_LEN];
    random.fill(&mut salt)?;
    let key = derivation.derive(password, &salt)?;
    let unit = encrypted(chain, &*key, header.to_bytes())?;
    let mut sealed = [0; HEADER_LEN];
    for (to, from) in sealed.iter_mut().zip(salt.iter().chain(&*unit)) {
        *to = *from;
    }
    Ok(sealed)
}

fn family(magic: Magic) -> Family {
    match magic {
        Magic::TrueCrypt => Family::TrueCrypt,
        Magic::VeraCrypt => Family::VeraCrypt,
    }
}

impl Opened {
    /// Has the header and its copy on a device open with another password from now on. Volume keys and data stay. Whoever has an old header opens the
    /// volume with the old password. On a device that has grown since the volume was made the copy of before is overwritten, too; that of a hidden
    /// volume is not.
    ///
    /// # Errors
    /// [`TcryptWriteError::NoCopy`] for headers without a copy: those of encrypted systems and of TrueCrypt before 6.0.
    /// [`TcryptWriteError::Truncated`] if the device has lost its end, so that the place of the copy is not behind the data.
    /// [`TcryptWriteError::Unlock`] if the volume would not open, or the password is too long. Nothing was written in any of these cases, nor if the
    /// key can't be derived or the random source fails. [`TcryptWriteError::Device`] if the device fails: one of the headers is whole then.
    pub fn change_password(
        &self,
        device: &dyn Media,
        new: &NewPassword<'_>,
        random: &mut dyn Random,
    ) -> Result<(), TcryptWriteError> {
        let (derivation, password) = new.key(family(self.header().magic))?;
        self.write_under((&derivation, &password), device, true, random)
    }

    /// Writes the header, which was opened elsewhere or at the place of its copy, to a device: it and its copy, under new salts. The password
    /// stays.
    ///
    /// # Errors
    /// Those of [`change_password`](Self::change_password).
    pub fn restore(
        &self,
        device: &dyn Media,
        (passphrase, key_files): (&Passphrase, &KeyFiles),
        random: &mut dyn Random,
    ) -> Result<(), TcryptWriteError> {
        let family = family(self.header().magic);
        let password = Password::new(family, passphrase.expose(), key_files).map_err(TcryptError::Kdf)?;
        // One from elsewhere may know another end of the data: what lies there is not touched.
        self.write_under((&self.derivation(), &password), device, false, random)
    }

    fn write_under(
        &self,
        key: (&Derivation, &Password),
        device: &dyn Media,
        is_in_force: bool,
        random: &mut dyn Random,
    ) -> Result<(), TcryptWriteError> {
        let header = self.header();
        let places = self.place().pair().filter(|_| header.version >= 4 && self.chain().mode == Mode::Xts);
        let [first, copy] = places.ok_or(TcryptWriteError::NoCopy)?;
        // What does not fit the device is no header of it.
        let options = UnlockOptions { allow_equal_xts_halves: true, ..UnlockOptions::default() };
        self.volume(device.size(), &options)?;
        let data = header.layout(self.place(), self.chain().mode, device.size());
        let data = data.map_err(TcryptError::Layout)?;
        let (first, copy) = ((first, at(device, first)?), (copy, at(device, copy)?));
        // cannot overflow: both lie on the device.
        let in_front = first.1.saturating_add(HEADER_LEN as u64) <= data.start;
        if !in_front || copy.1 < data.start.saturating_add(data.len) {
            return Err(TcryptWriteError::Truncated { copy: copy.1 });
        }
        let (earlier, later) = if self.place() == copy.0 { (first, copy) } else { (copy, first) };
        let sealed_earlier = under_new_salt(header, self.chain(), key, random)?;
        let sealed_later = under_new_salt(header, self.chain(), key, random)?;
        // Where the device has grown since, the copy of before lies right behind the data, and would open with the old password for ever. It is
        // written first, as it may touch the new one. Behind a hidden volume may be data of the outer one, which nobody here knows.
        // cannot overflow: the data lies on the device.
        let old = Some(data.start.saturating_add(data.len))
            .filter(|old| is_in_force && first.0 == Place::Normal && *old < copy.1);
        let sealed_old = old
            .map(|old| Ok::<_, TcryptWriteError>((old, under_new_salt(header, self.chain(), key, random)?)));
        if let Some((old, sealed)) = sealed_old.transpose()? {
            write(device, old, &sealed)?;
        }
        write(device, earlier.1, &sealed_earlier)?;
        write(device, later.1, &sealed_later)
    }
}

/// First byte of a header on a device.
fn at(device: &dyn Media, place: Place) -> Result<u64, TcryptWriteError> {
    let has = device.size();
    place.offset(has).ok_or(TcryptWriteError::TooSmall { has, needs: super::create::LEAST })
}

/// Writes a header, and nothing beside it, and has it reach the media.
fn write(device: &dyn Media, offset: u64, sealed: &[u8; HEADER_LEN]) -> Result<(), TcryptWriteError> {
    device.write_at(offset, sealed)?;
    device.flush()?;
    Ok(())
}
