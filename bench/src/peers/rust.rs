//! Peers that are crates: RustCrypto's XTS and CBC, `adiantum`, `hctr2-rs`.

use adiantum::cipher::KeyInit;
use aes::cipher::array::Array;
use aes::cipher::consts::{U16, U24, U32};
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser, InnerIvInit,
    IvSizeUser, KeyIvInit, KeySizeUser, StreamCipher,
};
use aes::{Aes128, Aes256};
use xts_mode::{Xts128, get_tweak_default};

use super::{Step, essiv};
use crate::case::{Case, Cipher};

/// What a crate is called, and what it makes of a run, if there is one that has the cipher.
pub fn step(case: &Case) -> Option<(&'static str, Step<'static>)> {
    let key = case.cipher.key();
    let step = match case.cipher {
        Cipher::Aes128Xts => xts::<Aes128>(&key, case),
        Cipher::Aes256Xts => xts::<Aes256>(&key, case),
        Cipher::CbcEssiv => cbc(&key, case),
        Cipher::Adiantum12 => return Some(("`adiantum`", adiantum::<chacha20::XChaCha12>(&key, case))),
        Cipher::Adiantum20 => return Some(("`adiantum`", adiantum::<chacha20::XChaCha20>(&key, case))),
        Cipher::HPolyC12 | Cipher::HPolyC20 => return None,
        Cipher::Hctr2 => return Some(("`hctr2-rs`", hctr2(&key, case))),
    };
    Some(("RustCrypto", step))
}

fn xts<C>(key: &[u8], case: &Case) -> Step<'static>
where
    C: KeyInit + BlockSizeUser<BlockSize = U16> + BlockCipherEncrypt + BlockCipherDecrypt + 'static,
{
    let cipher = |key| C::new_from_slice(key).expect("half of the key");
    let (data, tweak) = key.split_at(key.len() / 2);
    let xts = Xts128::new(cipher(data), cipher(tweak));
    let unit = case.unit;
    if case.encrypt {
        Box::new(move |run| xts.encrypt_area(run, unit, 0, get_tweak_default))
    } else {
        Box::new(move |run| xts.decrypt_area(run, unit, 0, get_tweak_default))
    }
}

fn cbc(key: &[u8], case: &Case) -> Step<'static> {
    let data = Aes256::new_from_slice(key).expect("32 bytes");
    let salted = Aes256::new(&essiv::salt(key).into());
    let (unit, encrypt) = (case.unit, case.encrypt);
    let mut ivs = Vec::new();
    Box::new(move |run| {
        essiv::numbers(&mut ivs, run.len() / unit);
        salted.encrypt_blocks(Array::cast_slice_from_core_mut(&mut ivs));
        for (iv, unit) in ivs.iter().zip(run.chunks_exact_mut(unit)) {
            let blocks = Array::cast_slice_from_core_mut(unit.as_chunks_mut::<16>().0);
            if encrypt {
                cbc::Encryptor::inner_iv_init(&data, &(*iv).into()).encrypt_blocks(blocks);
            } else {
                cbc::Decryptor::inner_iv_init(&data, &(*iv).into()).decrypt_blocks(blocks);
            }
        }
    })
}

fn adiantum<S>(key: &[u8], case: &Case) -> Step<'static>
where
    S: KeyIvInit + StreamCipher + KeySizeUser<KeySize = U32> + IvSizeUser<IvSize = U24> + 'static,
{
    let key: &[u8; 32] = key.try_into().expect("32 bytes");
    let cipher = adiantum::Cipher::<S, Aes256>::new(key.into());
    let (unit, encrypt) = (case.unit, case.encrypt);
    Box::new(move |run| {
        for (number, unit) in run.chunks_exact_mut(unit).enumerate() {
            let mut tweak = [0; 32];
            tweak[..8].copy_from_slice(&(number as u64).to_le_bytes());
            if encrypt {
                cipher.encrypt(unit, &tweak);
            } else {
                cipher.decrypt(unit, &tweak);
            }
        }
    })
}

/// It works between buffers only: the unit is copied first, which costs next to nothing beside it.
fn hctr2(key: &[u8], case: &Case) -> Step<'static> {
    let cipher = hctr2_rs::Hctr2_256::new(key);
    let (encrypt, mut source) = (case.encrypt, vec![0; case.unit]);
    Box::new(move |run| {
        for (number, unit) in run.chunks_exact_mut(source.len()).enumerate() {
            let mut tweak = [0; 32];
            tweak[..8].copy_from_slice(&(number as u64).to_le_bytes());
            source.copy_from_slice(unit);
            let done = match encrypt {
                true => cipher.encrypt(&source, &tweak, unit),
                false => cipher.decrypt(&source, &tweak, unit),
            };
            done.expect("a unit of more than 15 bytes");
        }
    })
}
