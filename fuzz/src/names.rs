//! What users and LUKS1 headers write as text, and plain mode's options.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_format::plain::PlainOptions;
use atrest_kdf::Hash;
use atrest_kdf::plain::PlainHash;
use atrest_volume::{Passphrase, UnlockOptions};

use crate::{Image, Reader};

/// Cipher strings: what parses prints itself so that it parses to the same again, and every key that it allows works.
pub fn cipher_spec(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let _ = Hash::from_name(text);
    let _ = text.parse::<PlainHash>();
    if let Some((name, mode)) = text.split_once('-').filter(|(_, mode)| !mode.is_empty()) {
        let parts = CipherSpec::from_parts(name, mode);
        assert!(parts.is_err() || text.parse::<CipherSpec>().is_ok() || name.contains(':'), "{text}");
    }
    let Ok(spec) = text.parse::<CipherSpec>() else { return };
    let printed = spec.to_string();
    assert_eq!(printed.parse::<CipherSpec>(), Ok(spec.clone()), "{text} prints as {printed}");
    for &len in spec.key_lens() {
        let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let options = MapperOptions { single_snapshot: true, ..MapperOptions::default() };
        let Ok(mapper) = Mapper::new(&spec, &key, &options) else { continue };
        let mut run = [0x5a; 1024];
        mapper.encrypt(DataUnitIndex(3), &mut run).expect("whole units");
        mapper.decrypt(DataUnitIndex(3), &mut run).expect("whole units");
        assert_eq!(run, [0x5a; 1024], "{text}");
    }
    assert!(Mapper::new(&spec, &[1, 2, 3], &MapperOptions::default()).is_err());
}

/// Plain mode: options and key rule from text and numbers.
pub fn plain_options(data: &[u8]) {
    let mut reader = Reader(data);
    let (key_len, data_unit) = (usize::from(reader.u16()), reader.u16());
    let (offset, skip, size, device) = (reader.u64(), reader.u64(), reader.u64(), reader.u64());
    let flags = reader.u8();
    let Ok(text) = core::str::from_utf8(reader.0) else { return };
    let mut parts = text.split('\n');
    let Ok(cipher) = parts.next().unwrap_or("").parse::<CipherSpec>() else { return };
    let mut options = PlainOptions::new(cipher, key_len);
    options.offset = offset;
    options.skip = skip;
    options.size = (flags & 1 != 0).then_some(size);
    options.data_unit = data_unit.into();
    options.iv_large = flags & 2 != 0;
    if let Ok(layout) = options.layout(device) {
        assert!(layout.media_offset.checked_add(layout.len).is_some_and(|end| end <= device));
        assert!(layout.len > 0);
    }
    let Ok(hash) = parts.next().unwrap_or("").parse::<PlainHash>() else { return };
    let passphrase = Passphrase::copy_from(parts.next().unwrap_or("").as_bytes());
    let image = Image::new(device % (1 << 30), &[]);
    let key = atrest_volume::plain::PlainKey::Passphrase(&passphrase, hash);
    let _ = atrest_volume::plain::open(&*image, &options, key, &UnlockOptions::default());
    assert_eq!(image.writes(), 0);
}
