//! The modes, keyed: contents in runs of data units, names one at a time.

use atrest_cipher::{
    Adiantum, CbcCts, Cipher, CipherSpec, DataUnitIndex, Hctr2, KeyError, Mapper, MapperOptions, RunError,
};
use atrest_filetree::EncryptionFault;
use atrest_secret::Locked;

use super::mode::EncryptionMode;
use super::policy::NONCE_LEN;

/// Bytes of the IV of Adiantum and HCTR2; the other modes take the first 16 of them.
const IV_LEN: usize = 32;

/// Less than this of contents is not worth handing to another core: it is done before that wakes.
const GRAIN: usize = 1 << 20;
/// Fewer bytes of contents than this are not worth handing to another core under Adiantum, which is slower.
const GRAIN_OF_ADIANTUM: usize = 128 << 10;

/// Encrypting or decrypting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Encrypt,
    Decrypt,
}

/// How the IV of a data unit is made of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IvRule {
    /// The index.
    Index,
    /// The index, then the nonce.
    Nonce([u8; NONCE_LEN]),
    /// The index in 32 bits, then the inode's number.
    Inode(u32),
    /// The sum of the index and a hash of the inode's number, in 32 bits.
    HashedInode(u32),
}

impl IvRule {
    /// The IV of the data unit with this index (kernel, `fscrypt_generate_iv`).
    fn iv(self, index: u64) -> [u8; IV_LEN] {
        let (number, nonce) = match self {
            Self::Index => (index, [0; NONCE_LEN]),
            Self::Nonce(nonce) => (index, nonce),
            Self::Inode(inode) => (index | u64::from(inode) << 32, [0; NONCE_LEN]),
            Self::HashedInode(hash) => (
                // cannot fail: 32 bits are left.
                u64::from(u32::try_from(index & 0xffff_ffff).unwrap_or(0).wrapping_add(hash)),
                [0; NONCE_LEN],
            ),
        };
        let mut iv = [0; IV_LEN];
        let (start, rest) = iv.split_at_mut(8);
        start.copy_from_slice(&number.to_le_bytes());
        if let Some(place) = rest.get_mut(..NONCE_LEN) {
            place.copy_from_slice(&nonce);
        }
        iv
    }

    /// Whether a policy of this rule can have a data unit of this index.
    fn has(self, index: u64) -> bool {
        matches!(self, Self::Index | Self::Nonce(_)) || u32::try_from(index).is_ok()
    }
}

/// A keyed cipher for contents.
pub(super) enum Contents {
    /// IVs that `cipher` makes itself.
    Mapped(Locked<Mapper>),
    /// Adiantum with a nonce in its IV.
    Adiantum(Locked<Adiantum>, IvRule, usize),
}

impl Contents {
    /// For data units of `unit` bytes.
    pub(super) fn new(
        mode: EncryptionMode,
        key: &[u8],
        rule: IvRule,
        unit: usize,
        single_snapshot: bool,
    ) -> Result<Self, EncryptionFault> {
        let (text, iv_offset) = match (mode, rule) {
            (EncryptionMode::Aes256Xts, IvRule::Index) => ("aes-xts-plain64", 0),
            (EncryptionMode::Aes256Xts, IvRule::Inode(inode)) => ("aes-xts-plain64", u64::from(inode) << 32),
            (EncryptionMode::Aes256Xts, IvRule::HashedInode(hash)) => ("aes-xts-plain", hash.into()),
            (EncryptionMode::Aes128CbcEssiv, IvRule::Index) => ("aes-cbc-essiv:sha256", 0),
            (EncryptionMode::ChaCha20, IvRule::Index) => ("chacha20-stream-plain64", 0),
            (EncryptionMode::Adiantum, IvRule::Index) => ("xchacha12,aes-adiantum-plain64", 0),
            (EncryptionMode::Adiantum, IvRule::Nonce(_)) => {
                let adiantum = || Adiantum::new(Cipher::XChaCha12Aes, key, &MapperOptions::default());
                let adiantum = Locked::try_new_with(adiantum).map_err(refused)?;
                return Ok(Self::Adiantum(adiantum, rule, unit));
            }
            _ => return Err(EncryptionFault::Cipher),
        };
        let spec: CipherSpec = text.parse().map_err(|_| EncryptionFault::Cipher)?;
        // Equal halves of an XTS key, which a master key of version 1 that repeats itself gives, are refused, as the kernel does.
        let options = MapperOptions {
            data_unit: unit,
            iv_offset,
            iv_large: true,
            single_snapshot,
            ..MapperOptions::default()
        };
        let mapper = Locked::try_new_with(|| Mapper::new(&spec, key, &options)).map_err(refused)?;
        Ok(Self::Mapped(mapper))
    }

    pub(super) fn data_unit(&self) -> usize {
        match self {
            Self::Mapped(mapper) => mapper.data_unit(),
            Self::Adiantum(_, _, unit) => *unit,
        }
    }

    /// Whole data units in place, on all cores where there are many.
    pub(super) fn apply(&self, way: Way, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault> {
        let unit = self.data_unit().max(1);
        // cannot be divided by 0: a data unit has bytes.
        let count = units.len().checked_div(unit).unwrap_or(0);
        let grain = match self {
            Self::Mapped(_) => GRAIN,
            Self::Adiantum(..) => GRAIN_OF_ADIANTUM,
        };
        let is_long = units.len() / 2 >= grain;
        if is_long && count >= 2 {
            let half = count / 2;
            // cannot overflow: half of the units that are there.
            let (left, right) = units.split_at_mut(half.saturating_mul(unit));
            let middle = first.checked_add(half as u64).ok_or(EncryptionFault::Run)?;
            let (left, right) =
                rayon_core::join(|| self.apply(way, first, left), || self.apply(way, middle, right));
            return left.and(right);
        }
        match self {
            Self::Mapped(mapper) => {
                let first = DataUnitIndex(first);
                let done = match way {
                    Way::Encrypt => mapper.encrypt(first, units),
                    Way::Decrypt => mapper.decrypt(first, units),
                };
                done.map_err(|error| match error {
                    RunError::SingleSnapshot => EncryptionFault::SingleSnapshot,
                    _ => EncryptionFault::Run,
                })
            }
            Self::Adiantum(adiantum, rule, _) => {
                if !units.len().is_multiple_of(unit) {
                    return Err(EncryptionFault::Run);
                }
                // Not a range from `first`: that steps once more after the last unit there can be.
                for (index, unit) in units.chunks_mut(unit).enumerate() {
                    // cannot overflow: `check` has added the number of units.
                    let iv = rule.iv(first.saturating_add(index as u64));
                    let done = match way {
                        Way::Encrypt => adiantum.encrypt(&iv, unit),
                        Way::Decrypt => adiantum.decrypt(&iv, unit),
                    };
                    done.map_err(|_| EncryptionFault::Run)?;
                }
                Ok(())
            }
        }
    }

    /// Whether `count` units from `first` on can be, under this rule.
    pub(super) fn check(rule: IvRule, first: u64, count: usize) -> Result<(), EncryptionFault> {
        // intended: a run of no units ends where it begins.
        let last = first.checked_add((count as u64).saturating_sub(1)).ok_or(EncryptionFault::Run)?;
        if rule.has(last) { Ok(()) } else { Err(EncryptionFault::Run) }
    }
}

/// A keyed cipher for names and link targets, with the IV that all of an inode's have.
pub(super) struct Names {
    cipher: NameCipher,
    iv: [u8; IV_LEN],
}

enum NameCipher {
    Cts(Locked<CbcCts>),
    Adiantum(Locked<Adiantum>),
    Hctr2(Locked<Hctr2>),
}

impl Names {
    pub(super) fn new(mode: EncryptionMode, key: &[u8], rule: IvRule) -> Result<Self, EncryptionFault> {
        let options = MapperOptions::default();
        let cipher = match mode {
            EncryptionMode::Aes256Cts | EncryptionMode::Aes128Cts => {
                let cts = || CbcCts::new(Cipher::Aes, key, &options);
                NameCipher::Cts(Locked::try_new_with(cts).map_err(refused)?)
            }
            EncryptionMode::Adiantum => {
                let adiantum = || Adiantum::new(Cipher::XChaCha12Aes, key, &options);
                NameCipher::Adiantum(Locked::try_new_with(adiantum).map_err(refused)?)
            }
            EncryptionMode::Aes256Hctr2 => {
                let hctr2 = || Hctr2::new(Cipher::Aes, key, &options);
                NameCipher::Hctr2(Locked::try_new_with(hctr2).map_err(refused)?)
            }
            EncryptionMode::Aes256Xts | EncryptionMode::Aes128CbcEssiv | EncryptionMode::ChaCha20 => {
                return Err(EncryptionFault::Cipher);
            }
        };
        Ok(Self { cipher, iv: rule.iv(0) })
    }

    /// One padded name, in place.
    pub(super) fn apply(&self, way: Way, name: &mut [u8]) -> Result<(), EncryptionFault> {
        let len = name.len();
        let short = self.iv.first_chunk().ok_or(EncryptionFault::Cipher)?;
        let done = match (&self.cipher, way) {
            (NameCipher::Cts(cts), Way::Encrypt) => cts.encrypt(short, name).is_ok(),
            (NameCipher::Cts(cts), Way::Decrypt) => cts.decrypt(short, name).is_ok(),
            (NameCipher::Adiantum(wide), Way::Encrypt) => wide.encrypt(&self.iv, name).is_ok(),
            (NameCipher::Adiantum(wide), Way::Decrypt) => wide.decrypt(&self.iv, name).is_ok(),
            (NameCipher::Hctr2(wide), Way::Encrypt) => wide.encrypt(&self.iv, name).is_ok(),
            (NameCipher::Hctr2(wide), Way::Decrypt) => wide.decrypt(&self.iv, name).is_ok(),
        };
        if done { Ok(()) } else { Err(EncryptionFault::CiphertextLength { len }) }
    }
}

fn refused(_: KeyError) -> EncryptionFault {
    EncryptionFault::Cipher
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xts_key_of_two_equal_halves_is_refused() {
        let key = |second: u8| [[7; 32], [second; 32]].concat();
        let contents =
            |key: &[u8]| Contents::new(EncryptionMode::Aes256Xts, key, IvRule::Index, 4096, false).err();
        assert_eq!(contents(&key(7)), Some(EncryptionFault::Cipher));
        assert_eq!(contents(&key(8)), None);
    }

    #[test]
    fn an_iv_is_the_index_with_what_makes_it_the_inode_s_own() {
        let nonce = *b"a nonce of 16 B.";
        let iv = |start: u64, nonce: [u8; NONCE_LEN]| {
            let mut iv = [0; IV_LEN];
            iv[..8].copy_from_slice(&start.to_le_bytes());
            iv[8..24].copy_from_slice(&nonce);
            iv
        };
        let none = [0; NONCE_LEN];
        for (rule, index, expected) in [
            (IvRule::Index, 0x0102_0304_0506_0708, iv(0x0102_0304_0506_0708, none)),
            (IvRule::Nonce(nonce), 7, iv(7, nonce)),
            (IvRule::Inode(0x8000_0005), 0x7000_0003, iv(0x8000_0005_7000_0003, none)),
            (IvRule::HashedInode(5), 7, iv(12, none)),
            (IvRule::HashedInode(0xffff_fffe), 3, iv(1, none)),
        ] {
            assert_eq!(rule.iv(index), expected, "{rule:?} {index}");
        }
    }

    #[test]
    fn a_run_ends_before_its_indices_do() {
        let last = u64::from(u32::MAX);
        for rule in [IvRule::Inode(1), IvRule::HashedInode(1)] {
            for (first, count, fits) in
                [(0, 0, true), (last, 1, true), (last, 2, false), (last + 1, 1, false), (last - 7, 8, true)]
            {
                assert_eq!(Contents::check(rule, first, count).is_ok(), fits, "{rule:?} {first} {count}");
            }
        }
        for rule in [IvRule::Index, IvRule::Nonce([0; NONCE_LEN])] {
            for (first, count, fits) in [(last, 2, true), (u64::MAX, 1, true), (u64::MAX, 2, false)] {
                assert_eq!(Contents::check(rule, first, count).is_ok(), fits, "{rule:?} {first} {count}");
            }
        }
    }

    fn encrypted(mode: EncryptionMode, rule: IvRule, first: u64, plain: &[u8], unit: usize) -> Vec<u8> {
        let key: Vec<u8> = (0..mode.key_len() as u8).collect();
        let contents = Contents::new(mode, &key, rule, unit, true).expect("they go together");
        assert_eq!(contents.data_unit(), unit);
        let mut units = plain.to_vec();
        contents.apply(Way::Encrypt, first, &mut units).expect("whole units");
        let stored = units.clone();
        contents.apply(Way::Decrypt, first, &mut units).expect("whole units");
        assert!(units == plain, "{mode:?} {rule:?}");
        stored
    }

    #[test]
    fn the_number_of_the_inode_moves_the_ivs_of_contents() {
        let plain = [3; 4 * 512];
        let xts = |rule, first| encrypted(EncryptionMode::Aes256Xts, rule, first, &plain, 512);
        let index = |first| xts(IvRule::Index, first);
        assert_eq!(xts(IvRule::Inode(5), 7), index(5 << 32 | 7));
        assert_eq!(xts(IvRule::HashedInode(5), 7), index(12));
        // The sum has 32 bits, in the middle of a run, too.
        let wrapped = xts(IvRule::HashedInode(0xffff_fffe), 0);
        assert_eq!(wrapped[..1024], index(0xffff_fffe)[..1024]);
        assert_eq!(wrapped[1024..], index(0)[..1024]);
    }

    #[test]
    fn a_run_for_many_cores_is_that_of_its_units_one_by_one() {
        let unit = 4096;
        for (mode, rule, len) in [
            (EncryptionMode::Aes256Xts, IvRule::Index, 2 * GRAIN + 3 * unit),
            (EncryptionMode::Aes256Xts, IvRule::HashedInode(u32::MAX - 300), 2 * GRAIN),
            (EncryptionMode::Adiantum, IvRule::Index, 2 * GRAIN_OF_ADIANTUM + unit),
            (EncryptionMode::Adiantum, IvRule::Nonce([9; NONCE_LEN]), 2 * GRAIN_OF_ADIANTUM + unit),
        ] {
            let plain: Vec<u8> = (0..len).map(|i| (i / 100) as u8).collect();
            let whole = encrypted(mode, rule, 11, &plain, unit);
            let key: Vec<u8> = (0..mode.key_len() as u8).collect();
            let contents = Contents::new(mode, &key, rule, unit, true).expect("they go together");
            for (index, (plain, stored)) in (11..).zip(plain.chunks(unit).zip(whole.chunks(unit))) {
                let mut one = plain.to_vec();
                contents.apply(Way::Encrypt, index, &mut one).expect("a unit");
                assert!(one == stored, "{mode:?} {rule:?}: unit {index}");
            }
        }
    }

    #[test]
    fn a_nonce_is_part_of_every_iv_of_adiantum() {
        let key: Vec<u8> = (0..32).collect();
        let wide = Adiantum::new(Cipher::XChaCha12Aes, &key, &MapperOptions::default()).expect("a key");
        let plain = [8; 3 * 512];
        for first in [0, 70, u64::MAX - 2] {
            let rule = IvRule::Nonce(*b"a nonce of 16 B.");
            let stored = encrypted(EncryptionMode::Adiantum, rule, first, &plain, 512);
            for (i, (stored, plain)) in stored.chunks(512).zip(plain.chunks(512)).enumerate() {
                let mut iv = [0; 32];
                iv[..8].copy_from_slice(&(first + i as u64).to_le_bytes());
                iv[8..24].copy_from_slice(b"a nonce of 16 B.");
                let mut unit = plain.to_vec();
                wide.encrypt(&iv, &mut unit).expect("a unit");
                assert!(unit == stored, "{first} + {i}");
            }
        }
        let contents = Contents::new(EncryptionMode::Adiantum, &key, IvRule::Nonce([0; 16]), 512, false);
        let cut = contents.expect("they go together").apply(Way::Encrypt, 0, &mut [0; 700]);
        assert_eq!(cut, Err(EncryptionFault::Run));
    }

    #[test]
    fn modes_are_refused_where_they_do_not_belong() {
        use EncryptionMode as Mode;
        let nonce = IvRule::Nonce([0; NONCE_LEN]);
        for (mode, rule) in [
            (Mode::Aes256Xts, nonce),
            (Mode::Aes128CbcEssiv, IvRule::Inode(1)),
            (Mode::Aes128CbcEssiv, nonce),
            (Mode::ChaCha20, nonce),
            (Mode::ChaCha20, IvRule::Inode(1)),
            (Mode::Adiantum, IvRule::HashedInode(1)),
            (Mode::Aes256Cts, IvRule::Index),
            (Mode::Aes256Hctr2, IvRule::Index),
        ] {
            let key: Vec<u8> = (0..mode.key_len() as u8).collect();
            let refused = Contents::new(mode, &key, rule, 4096, true).err();
            assert_eq!(refused, Some(EncryptionFault::Cipher), "{mode:?} {rule:?}");
        }
        for mode in [Mode::Aes256Xts, Mode::Aes128CbcEssiv, Mode::ChaCha20] {
            let key: Vec<u8> = (0..mode.key_len() as u8).collect();
            assert_eq!(
                Names::new(mode, &key, IvRule::Index).err(),
                Some(EncryptionFault::Cipher),
                "{mode:?}"
            );
        }
        for mode in [Mode::Aes256Cts, Mode::Aes128Cts, Mode::Adiantum, Mode::Aes256Hctr2] {
            let key: Vec<u8> = (0..mode.key_len() as u8).collect();
            let names = Names::new(mode, &key, IvRule::Index).expect("a mode for names");
            for way in [Way::Encrypt, Way::Decrypt] {
                let short = names.apply(way, &mut [7; 15]);
                assert_eq!(short, Err(EncryptionFault::CiphertextLength { len: 15 }), "{mode:?}");
                let mut name = [7; 16];
                names.apply(way, &mut name).expect("a block");
                assert_ne!(name, [7; 16], "{mode:?}");
            }
        }
    }
}
