//! The layouts of commands and answers (part 1, "Command/Response Structure"). All numbers have the highest byte first.

use atrest_codec::{ReadError, Reader};

use crate::TpmError;

/// Longest command and answer that is sent or taken, in bytes: what the kernel passes through.
pub const MAX: usize = 4096;

/// `TPM_ST_NO_SESSIONS` and `TPM_ST_SESSIONS`.
pub const NO_SESSIONS: u16 = 0x8001;
pub const SESSIONS: u16 = 0x8002;

/// Structures being put together.
#[derive(Clone, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u8(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    pub fn u16(self, number: u16) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A `TPM2B`: a length of two bytes, and as many bytes.
    pub fn sized(self, bytes: &[u8]) -> Result<Self, TpmError> {
        let len = u16::try_from(bytes.len()).map_err(|_| TpmError::TooLong)?;
        Ok(self.u16(len).bytes(bytes))
    }
}

/// The content of a `TPM2B`.
pub fn sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ReadError> {
    let len = reader.be16()?;
    reader.bytes(len.into())
}

/// A whole command.
pub fn command(
    code: u32,
    handles: &[u32],
    auth: Option<&[u8]>,
    parameters: &[u8],
) -> Result<Vec<u8>, TpmError> {
    let mut body = Bytes::default();
    for handle in handles {
        body = body.u32(*handle);
    }
    if let Some(auth) = auth {
        let len = u32::try_from(auth.len()).map_err(|_| TpmError::TooLong)?;
        body = body.u32(len).bytes(auth);
    }
    let body = body.bytes(parameters).0;
    let tag = if auth.is_some() { SESSIONS } else { NO_SESSIONS };
    let len = body.len().checked_add(10).filter(|len| *len <= MAX).ok_or(TpmError::TooLong)?;
    let len = u32::try_from(len).map_err(|_| TpmError::TooLong)?;
    Ok(Bytes::default().u16(tag).u32(len).u32(code).bytes(&body).0)
}

/// What a TPM has answered.
#[derive(Debug)]
pub struct Answer {
    pub handle: Option<u32>,
    pub parameters: Vec<u8>,
    /// What the sessions say.
    pub auth: Vec<u8>,
}

/// Takes a whole answer apart: a code that is not zero, or its content.
pub fn answer(
    bytes: &[u8],
    with_handle: bool,
    with_sessions: bool,
) -> Result<Result<Answer, u32>, ReadError> {
    let mut reader = Reader::new(bytes);
    let (tag, len, code) = (reader.be16()?, reader.be32()?, reader.be32()?);
    if u32::try_from(bytes.len()) != Ok(len) {
        return Err(ReadError::Trailing);
    }
    if code != 0 {
        return Ok(Err(code));
    }
    if tag != if with_sessions { SESSIONS } else { NO_SESSIONS } {
        return Err(ReadError::Trailing);
    }
    let handle = with_handle.then(|| reader.be32()).transpose()?;
    let parameters = match with_sessions {
        true => {
            let len = usize::try_from(reader.be32()?).map_err(|_| ReadError::Short)?;
            reader.bytes(len)?
        }
        false => reader.rest(),
    };
    Ok(Ok(Answer { handle, parameters: parameters.to_vec(), auth: reader.rest().to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_to_their_last_byte_or_refused() {
        let good = [0x80, 2, 0, 0, 0, 21, 0, 0, 0, 0, 0x80, 0, 0, 1, 0, 0, 0, 2, 7, 8, 9];
        let answered = answer(&good, true, true).expect("an answer").expect("no error");
        assert_eq!(
            (answered.handle, &answered.parameters[..], &answered.auth[..]),
            (Some(0x8000_0001), &[7, 8][..], &[9][..])
        );
        for len in 0..good.len() {
            assert!(answer(&good[..len], true, true).is_err(), "{len} bytes");
        }
        assert!(answer(&[&good[..], &[0]].concat(), true, true).is_err(), "a byte more");
        assert!(answer(&good, true, false).is_err(), "sessions where none were asked for");
        let mut long = good;
        long[17] = 4;
        assert!(answer(&long, true, true).is_err(), "parameters past the end");
        let failed = [0x80, 1, 0, 0, 0, 10, 0, 0, 0x09, 0x8e];
        assert!(matches!(answer(&failed, true, true), Ok(Err(0x98e))));
    }
}
