//! A volume key measured into a PCR, as systemd-cryptsetup does (`tpm2-measure-pcr=`): the PCR then says which volume was opened.

use atrest_kdf::digest;
use atrest_secret::{SecretArray, SecretBytes};

use crate::commands;
use crate::exchange::Auth;
use crate::parent::hash_number;
use crate::wire::Bytes;
use crate::{Bank, Pcrs, Tpm, TpmError};

impl Tpm {
    /// Extends a PCR, in every bank in which it is kept, by HMAC of the text under the key, with the bank's hash. Returns the values that it
    /// was extended by. A bank that was left out could be extended by anything afterwards.
    ///
    /// # Errors
    /// [`TpmError::NoBank`] if no bank is there, otherwise as all commands.
    pub fn measure(&mut self, pcr: u32, key: &[u8], text: &[u8]) -> Result<Vec<(Bank, Vec<u8>)>, TpmError> {
        let mask = 1_u32.checked_shl(pcr).filter(|_| pcr < 24).ok_or(TpmError::NoBank)?;
        let mut values = Vec::new();
        for bank in Bank::ALL {
            match self.pcr_values(Pcrs { bank, mask }) {
                Ok(_) => values.push((bank, keyed(bank, key, text))),
                Err(TpmError::NoBank | TpmError::Code { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let count = u32::try_from(values.len()).ok().filter(|count| *count > 0).ok_or(TpmError::NoBank)?;
        let mut parameters = Bytes::default().u32(count);
        for (bank, value) in &values {
            parameters = parameters.u16(hash_number(bank.hash())?).bytes(value);
        }
        self.exchange(commands::PCR_EXTEND, &[pcr], &Auth::Empty, &parameters.0)?;
        Ok(values)
    }
}

/// HMAC (RFC 2104) with the hash of a bank.
pub fn keyed(bank: Bank, key: &[u8], text: &[u8]) -> Vec<u8> {
    let (hash, len) = (bank.hash(), bank.hash().output_len());
    // SHA-1 and SHA-256 take 64 bytes at once, SHA-384 and SHA-512 128.
    let taken = if len > 32 { 128 } else { 64 };
    let mut block = SecretBytes::zeroed(taken);
    match key.len() > taken {
        true => {
            // cannot be less: a block is longer than the hash.
            digest(hash, &[key], block.get_mut(..len).unwrap_or_default());
        }
        false => block.iter_mut().zip(key).for_each(|(to, from)| *to = *from),
    }
    block.iter_mut().for_each(|byte| *byte ^= 0x36);
    let mut inner = SecretArray::<64>::zeroed();
    // cannot be less: no bank has a hash of more than 64 bytes.
    digest(hash, &[&block, text], inner.get_mut(..len).unwrap_or_default());
    block.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
    let mut out = vec![0; len];
    // cannot be less: the same.
    digest(hash, &[&block, inner.get(..len).unwrap_or_default()], &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bank: &str, key: &[u8], text: &[u8]) -> String {
        let bank = Bank::named(bank).expect("a bank");
        keyed(bank, key, text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 2202 and RFC 4231, test cases 2 and 6.
    #[test]
    fn values_are_those_of_hmac() {
        let text = b"what do ya want for nothing?";
        assert_eq!(hex("sha1", b"Jefe", text), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        assert_eq!(
            hex("sha256", b"Jefe", text),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert!(hex("sha384", b"Jefe", text).starts_with("af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47"));
        assert!(hex("sha512", b"Jefe", text).starts_with("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd6"));
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            hex("sha256", &[0xaa; 131], long),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        assert!(
            hex("sha512", &[0xaa; 131], long).starts_with("80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1")
        );
    }
}
