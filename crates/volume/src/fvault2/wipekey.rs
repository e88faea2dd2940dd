//! The file `EncryptedRoot.plist.wipekey`: the property list with the keys, encrypted by a key that stands in the header of the physical
//! volume. Without that header it tells nothing, and so the header is all that has to be wiped.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::BlockDevice;
use atrest_format::fvault2::{Context, Header, KEY_LEN};

use super::FileVaultError;
use crate::UnlockError;

/// Bytes that are read at most.
const LONGEST: u64 = 1 << 20;
/// Bytes of a block of AES.
const BLOCK: usize = 16;

/// Reads the keys out of such a file.
pub(super) fn read(file: &dyn BlockDevice, header: &Header) -> Result<Context, UnlockError> {
    let size = file.size();
    let len = usize::try_from(size).ok().filter(|_| size <= LONGEST && size >= BLOCK as u64);
    let mut bytes = vec![0; len.ok_or(FileVaultError::KeyFile)?];
    file.read_at(0, &mut bytes).map_err(UnlockError::Device)?;
    decrypt(&mut bytes, header)?;
    // What was decrypted with another key is no list at all.
    match bytes.starts_with(b"<?xml") {
        true => Context::read(&bytes).map_err(|error| FileVaultError::Block(error.into()).into()),
        false => Err(FileVaultError::KeyFile.into()),
    }
}

/// AES-128-XTS over the whole file as one data unit with the number 0, whose tweak key is zeros. Its last bytes are no whole block.
fn decrypt(bytes: &mut [u8], header: &Header) -> Result<(), UnlockError> {
    let spec: CipherSpec = "aes-xts-plain64".parse().map_err(UnlockError::UnsupportedCipher)?;
    let key = [header.metadata_key, [0; KEY_LEN]].concat();
    let options = MapperOptions {
        data_unit: bytes.len().next_multiple_of(BLOCK),
        iv_large: true,
        allow_equal_xts_halves: true,
        ..MapperOptions::default()
    };
    let mapper = Mapper::new(&spec, &key, &options).map_err(UnlockError::Key)?;
    let at = |offset: usize, bytes: &mut [u8]| {
        // cannot fail: whole blocks of the one data unit.
        mapper.decrypt_at(DataUnitIndex(0), offset, bytes).map_err(|_| UnlockError::UnsupportedType)
    };
    // cannot be less, nor outside: there is a block at least.
    let whole = bytes.len().saturating_sub(bytes.len() % BLOCK);
    let (blocks, rest) = bytes.split_at_mut_checked(whole).ok_or(FileVaultError::KeyFile)?;
    if rest.is_empty() {
        return at(0, blocks);
    }
    // The last whole block and the rest have lent each other bytes (ciphertext stealing, IEEE 1619, 5.3.2).
    // cannot be less: there is a whole block.
    let last = whole.saturating_sub(BLOCK);
    let (before, lent) = blocks.split_at_mut_checked(last).ok_or(FileVaultError::KeyFile)?;
    at(0, before)?;
    at(whole, lent)?;
    rest.swap_with_slice(lent.get_mut(..rest.len()).ok_or(FileVaultError::KeyFile)?);
    at(last, lent)
}
