//! What must hold before a TPM unseals: digests of PCRs, a PIN, what somebody signed (part 1, "Enhanced Authorization").

use atrest_codec::Reader;
use atrest_kdf::{Hash, digest};

use crate::commands;
use crate::exchange::Auth;
use crate::parent::hash_number;
use crate::session::Session;
use crate::wire::{Bytes, sized};
use crate::{SignedPolicy, Tpm, TpmError};

/// The hash of a bank of PCRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank(Hash);

impl Bank {
    /// Those that there are, in the order in which they are preferred.
    pub const ALL: [Self; 4] = [Self(Hash::Sha256), Self(Hash::Sha384), Self(Hash::Sha512), Self(Hash::Sha1)];

    /// By its name in tokens: `sha1`, `sha256`, `sha384` or `sha512`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bank| bank.name() == name)
    }

    /// The hash.
    pub(crate) fn hash(self) -> Hash {
        self.0
    }

    /// Its name in tokens.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

/// PCRs of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcrs {
    /// The bank.
    pub bank: Bank,
    /// Bit n is PCR n, up to 23.
    pub mask: u32,
}

impl Pcrs {
    /// `TPML_PCR_SELECTION` with one bank.
    fn selection(self) -> Result<Vec<u8>, TpmError> {
        let [low, middle, high, 0] = self.mask.to_le_bytes() else { return Err(TpmError::NoBank) };
        Ok(Bytes::default().u32(1).u16(hash_number(self.bank.0)?).u8(3).bytes(&[low, middle, high]).0)
    }
}

/// What must hold. An empty policy is met by everybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy<'a> {
    /// PCRs whose values somebody signed.
    pub signed: Option<SignedPolicy<'a>>,
    /// PCRs that have the values of when it was sealed.
    pub pcrs: Option<Pcrs>,
    /// The PIN is asked for.
    pub pin: bool,
}

impl Tpm {
    /// Runs the steps of a policy, and returns the digest to which they lead. The signing key's exponent is written as `exponent`.
    pub(crate) fn meet(
        &mut self,
        session: &mut Session,
        policy: &Policy<'_>,
        exponent: u32,
    ) -> Result<[u8; 32], TpmError> {
        if let Some(signed) = &policy.signed {
            self.meet_signed(session, signed, exponent)?;
        }
        if let Some(pcrs) = policy.pcrs {
            self.policy_pcr(session, pcrs)?;
        }
        if policy.pin {
            self.exchange(commands::POLICY_AUTH_VALUE, &[session.handle], &Auth::Nobody, &[])?;
            session.with_auth_value = true;
        }
        self.policy_digest(session)
    }

    pub(crate) fn policy_pcr(&mut self, session: &Session, pcrs: Pcrs) -> Result<(), TpmError> {
        let parameters = Bytes::default().u16(0).bytes(&pcrs.selection()?).0;
        self.exchange(commands::POLICY_PCR, &[session.handle], &Auth::Nobody, &parameters).map(drop)
    }

    pub(crate) fn policy_digest(&mut self, session: &Session) -> Result<[u8; 32], TpmError> {
        let answer = self.exchange(commands::POLICY_GET_DIGEST, &[session.handle], &Auth::Nobody, &[])?;
        let mut reader = Reader::new(&answer.parameters);
        let digest = sized(&mut reader)?.try_into().map_err(|_| TpmError::Malformed)?;
        reader.finish()?;
        Ok(digest)
    }

    /// The values of PCRs, in rising order.
    ///
    /// # Errors
    /// [`TpmError::NoBank`] if the TPM does not keep them with this hash; otherwise as all commands.
    pub fn pcr_values(&mut self, pcrs: Pcrs) -> Result<Vec<Vec<u8>>, TpmError> {
        let mut values = Vec::new();
        for pcr in (0..24).filter(|pcr| pcrs.mask >> pcr & 1 == 1) {
            let one = Pcrs { mask: 1 << pcr, ..pcrs }.selection()?;
            let answer = self.exchange(commands::PCR_READ, &[], &Auth::Nobody, &one)?;
            let mut reader = Reader::new(&answer.parameters);
            let _changes = reader.be32()?;
            // A bank that is not there is answered with a shorter selection, or with one that selects nothing.
            let selected = reader.bytes(one.len()).ok().filter(|selected| *selected == one);
            selected.ok_or(TpmError::NoBank)?;
            if reader.be32()? != 1 {
                return Err(TpmError::NoBank);
            }
            values.push(sized(&mut reader)?.to_vec());
            reader.finish()?;
        }
        Ok(values)
    }

    /// The bank in which these PCRs are kept and have been used: one whose values are not all zeros or all ones.
    ///
    /// # Errors
    /// [`TpmError::Unused`] if there is none; otherwise as all commands.
    pub fn bank_in_use(&mut self, mask: u32) -> Result<Bank, TpmError> {
        for bank in Bank::ALL {
            match self.pcr_values(Pcrs { bank, mask }) {
                Ok(values) if are_in_use(&values) => return Ok(bank),
                Ok(_) | Err(TpmError::NoBank) => {}
                Err(error) => return Err(error),
            }
        }
        Err(TpmError::Unused { mask })
    }
}

/// Whether something was measured into one of these PCRs: they are neither all zeros nor all ones.
pub fn are_in_use(values: &[Vec<u8>]) -> bool {
    values.iter().flatten().any(|byte| !matches!(byte, 0 | 0xff))
}

/// The digest of a policy of PCRs alone, or of none, and a PIN or none, from the values of the PCRs.
pub fn digest_of(pcrs: Option<(Pcrs, &[Vec<u8>])>, pin: bool) -> Result<[u8; 32], TpmError> {
    let mut policy = [0; 32];
    if let Some((pcrs, values)) = pcrs {
        let mut of_values = [0; 32];
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        digest(Hash::Sha256, &values, &mut of_values);
        let before = policy;
        let code = commands::POLICY_PCR.to_be_bytes();
        digest(Hash::Sha256, &[&before, &code, &pcrs.selection()?, &of_values], &mut policy);
    }
    if pin {
        let before = policy;
        digest(Hash::Sha256, &[&before, &commands::POLICY_AUTH_VALUE.to_be_bytes()], &mut policy);
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests that systemd 252 and swtpm had.
    #[test]
    fn digests_are_those_of_a_tpm() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let seven = Pcrs { bank: Bank(Hash::Sha256), mask: 1 << 7 };
        let value = "44F12027AB81DFB6E096018F5A9F19645F988D45529CDED3427159DC0032D921";
        let value = (0..32).map(|at| u8::from_str_radix(&value[2 * at..2 * at + 2], 16).expect("hex"));
        let values = [value.collect::<Vec<u8>>()];
        let of = |pcrs, pin| hex(&digest_of(pcrs, pin).expect("a policy"));
        assert_eq!(
            of(Some((seven, &values)), false),
            "aa211dddae225c6ea273196a6d9306a8312d17f75002784d970aef1e4b61c5b7"
        );
        assert_eq!(
            of(Some((seven, &values)), true),
            "fc59357192ba1930a803e50f106fcd746d53b19dda828dd4b1b7c41788ea4844"
        );
        assert_eq!(of(None, true), "8fcd2169ab92694e0c633f1ab772842b8241bbc20288981fc7ac1eddc1fddb0e");
        assert_eq!(Pcrs { mask: 1 << 24, ..seven }.selection(), Err(TpmError::NoBank));
    }
}
