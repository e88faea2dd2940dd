//! The packets behind a header: OpenPGP's formats (RFC 2440) with eCryptfs' own restrictions.
//!
//! A passphrase's key wraps the file's key in a tag 3 packet, and the tag 11 packet after it has that key's signature. A
//! public key's has both in a tag 1 packet. Several keys may wrap the same file key.

use atrest_codec::Reader;

use super::{FileCipher, PacketDamage, Signature};

/// Tags with OpenPGP's old or new marks, as eCryptfs writes them.
pub(super) const TAG_1: u8 = 0x01;
const TAG_3: u8 = 0x8c;
const TAG_11: u8 = 0xed;
pub(super) const TAG_70: u8 = 0x46;

/// The bytes of a tag 3 packet between its length and the wrapped key, the salt included.
const TAG_3_FIXED: usize = 13;
/// The kernel's limit for a wrapped key (`ECRYPTFS_MAX_ENCRYPTED_KEY_BYTES`); those of passphrases are far shorter.
const MAX_WRAPPED: usize = 512;
/// The name and date that a tag 11 packet begins with: binary data, "_CONSOLE", the epoch.
const TAG_11_FIXED: [u8; 14] = *b"\x62\x08_CONSOLE\0\0\0\0";

/// A file's key as one packet, or a pair of them, wraps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKeyPacket {
    /// Tag 3 and tag 11: under a key made of a passphrase.
    Passphrase(WrappedKey),
    /// Tag 1: under a public key.
    PublicKey {
        /// Of the key that opens it.
        signature: Signature,
    },
}

/// What a tag 3 packet and the tag 11 packet after it say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Of the key that unwraps it.
    pub signature: Signature,
    /// What the file is encrypted with.
    pub cipher: FileCipher,
    /// What the wrapping key was derived with.
    pub salt: [u8; 8],
    /// The wrapped key.
    pub wrapped: Vec<u8>,
}

impl WrappedKey {
    /// Bytes in the file's key. Where the cipher's number does not tell, the length of what is wrapped does.
    pub fn key_len(&self) -> usize {
        if self.cipher == FileCipher::Aes192 { 24 } else { self.wrapped.len() }
    }
}

/// All packets of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSet(pub Vec<FileKeyPacket>);

impl PacketSet {
    /// Reads packets until the zero that ends them, or the end of `bytes`.
    ///
    /// # Errors
    /// [`PacketDamage::None`] if there is no packet, [`PacketDamage::Unexpected`] if the first one, or the one
    /// behind a wrapped key, is of another kind. [`PacketDamage::Cipher`] if no cipher has its number; the other
    /// variants if a packet can't be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketDamage> {
        let mut packets = Vec::new();
        let mut reader = Reader::new(bytes);
        // cannot be less: the reader reads these bytes.
        let place = |reader: &Reader<'_>| bytes.len().saturating_sub(reader.remaining());
        loop {
            let at = place(&reader);
            packets.push(match reader.u8() {
                Ok(TAG_3) => {
                    let tag_3 = body(&mut reader, at)?;
                    let at_11 = place(&reader);
                    match reader.u8().map_err(|_| PacketDamage::Short { at: at_11 })? {
                        TAG_11 => {}
                        tag => return Err(PacketDamage::Unexpected { at: at_11, tag }),
                    }
                    let signature = signature(body(&mut reader, at_11)?);
                    passphrase(tag_3, signature.ok_or(PacketDamage::Field { at: at_11 })?, at)?
                }
                Ok(TAG_1) => public_key(body(&mut reader, at)?).ok_or(PacketDamage::Field { at })?,
                // The kernel stops at whatever it does not know.
                _ if !packets.is_empty() => return Ok(Self(packets)),
                Ok(0) | Err(_) => return Err(PacketDamage::None),
                Ok(tag) => return Err(PacketDamage::Unexpected { at, tag }),
            });
        }
    }

    /// Writes the packets of passphrases, and the zero that ends them.
    pub(super) fn write(keys: &[WrappedKey], out: &mut Vec<u8>) {
        for key in keys {
            out.push(TAG_3);
            // cannot overflow: wrapped keys are at most 512 bytes.
            write_len(TAG_3_FIXED.saturating_add(key.wrapped.len()), out);
            // Version, cipher, salted and iterated, MD5 (which it is not, but what everybody writes).
            out.extend([4, key.cipher.code(), 3, 1]);
            out.extend(key.salt);
            out.push(0x60); // 65536 iterations
            out.extend(&key.wrapped);
            out.push(TAG_11);
            // cannot overflow: a constant.
            write_len(TAG_11_FIXED.len().saturating_add(8), out);
            out.extend(TAG_11_FIXED);
            out.extend(key.signature.0);
        }
        out.push(0);
    }

    /// The signatures of the keys that open the file.
    pub fn signatures(&self) -> impl Iterator<Item = Signature> {
        self.0.iter().map(|packet| match packet {
            FileKeyPacket::Passphrase(key) => key.signature,
            FileKeyPacket::PublicKey { signature } => *signature,
        })
    }
}

/// What is between the length of the packet at `at`, whose tag has been read, and its end.
pub(super) fn body<'a>(reader: &mut Reader<'a>, at: usize) -> Result<&'a [u8], PacketDamage> {
    let short = |_| PacketDamage::Short { at };
    let len = match reader.u8().map_err(short)? {
        len @ 0..=191 => usize::from(len),
        high @ 192..=223 => {
            let low = usize::from(reader.u8().map_err(short)?);
            // cannot be less: this form begins at 192.
            let high = usize::from(high.saturating_sub(192));
            // cannot overflow: a byte and a byte.
            high.saturating_mul(256).saturating_add(low).saturating_add(192)
        }
        224..=255 => return Err(PacketDamage::Length { at }),
    };
    reader.bytes(len).map_err(short)
}

/// In one byte, or in two.
pub(super) fn write_len(len: usize, out: &mut Vec<u8>) {
    match len.checked_sub(192) {
        None => out.push(len as u8),
        // cannot overflow: lengths of two bytes are below 8384.
        Some(more) => out.extend([(more >> 8).saturating_add(192) as u8, more as u8]),
    }
}

fn passphrase(body: &[u8], signature: Signature, at: usize) -> Result<FileKeyPacket, PacketDamage> {
    let (fixed, wrapped) = body.split_first_chunk::<TAG_3_FIXED>().ok_or(PacketDamage::Length { at })?;
    let [4, code, 3, 1, salt @ .., _iterations] = fixed else {
        return Err(PacketDamage::Field { at });
    };
    let cipher = FileCipher::from_code(*code).ok_or(PacketDamage::Cipher { code: *code })?;
    let expected = cipher.key_lens().iter().any(|len| cipher.wrapped_len(*len) == wrapped.len());
    if !expected {
        return Err(PacketDamage::Length { at });
    }
    let salt = *salt;
    Ok(FileKeyPacket::Passphrase(WrappedKey { signature, cipher, salt, wrapped: wrapped.to_vec() }))
}

fn signature(body: &[u8]) -> Option<Signature> {
    // Format, length of the name, name, date: the kernel skips a name of any length.
    let [0x62, name_len, rest @ ..] = body else { return None };
    let contents = rest.get(usize::from(*name_len).checked_add(4)?..)?;
    contents.try_into().ok().map(Signature)
}

fn public_key(body: &[u8]) -> Option<FileKeyPacket> {
    // Version, signature, the algorithm, the wrapped key.
    let [3, rest @ ..] = body else { return None };
    let (signature, rest) = rest.split_first_chunk()?;
    let [_algorithm, wrapped @ ..] = rest else { return None };
    (wrapped.len() <= MAX_WRAPPED).then_some(FileKeyPacket::PublicKey { signature: Signature(*signature) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(cipher: FileCipher, len: usize) -> WrappedKey {
        WrappedKey { signature: Signature([5; 8]), cipher, salt: [7; 8], wrapped: vec![9; len] }
    }

    fn written(keys: &[WrappedKey]) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketSet::write(keys, &mut bytes);
        bytes
    }

    /// Where in the bytes of a passphrase's packets each thing is.
    const LEN_3: usize = 1;
    const CODE: usize = 3;
    const TAG_11_AT: usize = 31;

    #[test]
    fn a_packet_is_what_every_writer_writes_or_is_refused() {
        let key = wrapped(FileCipher::Aes128, 16);
        let good = written(std::slice::from_ref(&key));
        let set = PacketSet(vec![FileKeyPacket::Passphrase(key)]);
        assert_eq!(PacketSet::parse(&good), Ok(set.clone()));
        assert_eq!(PacketSet::parse(&good[..good.len() - 1]), Ok(set), "without the zero at the end");
        let bad = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            PacketSet::parse(&bytes)
        };
        // Version, cipher, a salt and iterations, the hash.
        for (at, byte, damage) in [
            (2, 3, PacketDamage::Field { at: 0 }),
            (2, 5, PacketDamage::Field { at: 0 }),
            (CODE, 1, PacketDamage::Cipher { code: 1 }),
            (CODE, 0x09, PacketDamage::Length { at: 0 }),
            (4, 1, PacketDamage::Field { at: 0 }),
            (5, 2, PacketDamage::Field { at: 0 }),
            (0, 2, PacketDamage::Unexpected { at: 0, tag: 2 }),
            (0, 0, PacketDamage::None),
            (LEN_3, 12, PacketDamage::Unexpected { at: 14, tag: 0x60 }),
            (LEN_3, 224, PacketDamage::Length { at: 0 }),
            (LEN_3, 255, PacketDamage::Length { at: 0 }),
            (LEN_3, 191, PacketDamage::Short { at: 0 }),
            (TAG_11_AT, TAG_3, PacketDamage::Unexpected { at: TAG_11_AT, tag: TAG_3 }),
            (TAG_11_AT + 2, 0x61, PacketDamage::Field { at: TAG_11_AT }),
            (TAG_11_AT + 3, 9, PacketDamage::Field { at: TAG_11_AT }),
            (TAG_11_AT + 3, 7, PacketDamage::Field { at: TAG_11_AT }),
            (TAG_11_AT + 3, 255, PacketDamage::Field { at: TAG_11_AT }),
        ] {
            assert_eq!(bad(at, byte), Err(damage), "byte {at} is {byte}");
        }
        // Nothing between the packets is optional.
        for len in 0..good.len() - 1 {
            let damage = match len {
                0 => PacketDamage::None,
                1..TAG_11_AT => PacketDamage::Short { at: 0 },
                _ => PacketDamage::Short { at: TAG_11_AT },
            };
            assert_eq!(PacketSet::parse(&good[..len]), Err(damage), "{len} bytes");
        }
    }

    #[test]
    fn a_wrapped_key_has_a_length_that_its_cipher_takes() {
        for cipher in (0..=255).filter_map(FileCipher::from_code) {
            for len in 0..=80 {
                let fits = cipher.key_lens().iter().any(|key| cipher.wrapped_len(*key) == len);
                let found = PacketSet::parse(&written(&[wrapped(cipher, len)]));
                match found {
                    Ok(set) => assert!(fits && set.0.len() == 1, "{cipher:?} {len}"),
                    Err(damage) => {
                        assert!(!fits, "{cipher:?} {len}");
                        assert_eq!(damage, PacketDamage::Length { at: 0 });
                    }
                }
            }
        }
        assert_eq!(wrapped(FileCipher::Aes192, 32).key_len(), 24);
        assert_eq!(wrapped(FileCipher::Aes256, 32).key_len(), 32);
        assert_eq!(wrapped(FileCipher::Blowfish, 56).key_len(), 56);
    }

    #[test]
    fn every_packet_is_found_until_one_that_is_unknown() {
        let (a, b) = (wrapped(FileCipher::Aes256, 32), wrapped(FileCipher::Cast5, 16));
        let mut bytes = written(&[a.clone(), b.clone()]);
        let both = [a, b].map(FileKeyPacket::Passphrase);
        assert_eq!(PacketSet::parse(&bytes), Ok(PacketSet(both.to_vec())));
        bytes.extend([TAG_3, 0xff]);
        assert_eq!(PacketSet::parse(&bytes), Ok(PacketSet(both.to_vec())), "behind the zero nothing counts");
    }

    #[test]
    fn a_public_key_s_packet_tells_its_signature() {
        let packet = |body: &[u8]| {
            let mut bytes = vec![TAG_1];
            write_len(body.len(), &mut bytes);
            bytes.extend(body);
            PacketSet::parse(&bytes)
        };
        let mut body = vec![3];
        body.extend([6; 8]);
        body.push(1);
        for len in [0, 1, 256, MAX_WRAPPED] {
            body.resize(10 + len, 2);
            let set = packet(&body).expect("a packet");
            assert_eq!(set.0, [FileKeyPacket::PublicKey { signature: Signature([6; 8]) }], "{len}");
            assert_eq!(set.signatures().collect::<Vec<_>>(), [Signature([6; 8])]);
        }
        body.resize(10 + MAX_WRAPPED + 1, 2);
        assert_eq!(packet(&body), Err(PacketDamage::Field { at: 0 }));
        assert_eq!(packet(&body[..9]), Err(PacketDamage::Field { at: 0 }));
        assert_eq!(packet(&body[..3]), Err(PacketDamage::Field { at: 0 }));
        body.truncate(20);
        body[0] = 2;
        assert_eq!(packet(&body), Err(PacketDamage::Field { at: 0 }));
    }

    #[test]
    fn lengths_are_written_in_one_byte_or_two_and_read_back() {
        // RFC 2440, section 4.2.2.
        for (len, written) in [
            (0, &[0][..]),
            (100, &[100]),
            (191, &[191]),
            (192, &[192, 0]),
            (447, &[192, 255]),
            (448, &[193, 0]),
            (1723, &[0xc5, 0xfb]),
            (8383, &[223, 255]),
        ] {
            let mut bytes = Vec::new();
            write_len(len, &mut bytes);
            assert_eq!(bytes, written, "{len}");
            bytes.resize(written.len() + len, 4);
            let mut reader = Reader::new(&bytes);
            assert_eq!(body(&mut reader, 0).map(<[u8]>::len), Ok(len));
            assert_eq!(reader.remaining(), 0);
        }
        for short in [&[][..], &[192], &[5, 0, 0, 0, 0]] {
            assert_eq!(body(&mut Reader::new(short), 3), Err(PacketDamage::Short { at: 3 }), "{short:?}");
        }
    }
}
