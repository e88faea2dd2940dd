//! A part of an object, as it is asked for and told (RFC 9110, section 14).

use atrest_sealedvolume::store::StoreError;

use crate::http::Answer;

/// The value of the header `range` for `len` bytes from `offset`. `None` if that is nothing that could be asked for.
///
/// # Errors
/// [`StoreError::TooLong`] if there are no such bytes in any object.
pub(crate) fn header(offset: u64, len: usize) -> Result<Option<String>, StoreError> {
    let Some(more) = (len as u64).checked_sub(1) else { return Ok(None) };
    let last = offset.checked_add(more).ok_or(StoreError::TooLong)?;
    Ok(Some(format!("bytes={offset}-{last}")))
}

/// What an answer has of that range: fewer bytes where the object ends before. `None` if it says something else than what is there.
pub(crate) fn bytes(answer: &mut Answer, offset: u64, len: usize) -> Option<Result<Vec<u8>, StoreError>> {
    let mut body = std::mem::take(&mut answer.body);
    match answer.status {
        206 if body.len() <= len => Some(Ok(body)),
        206 => Some(Err(StoreError::Malformed)),
        // The server knows no ranges: it is all of the object.
        200 => {
            let start = usize::try_from(offset).map_or(body.len(), |start| start.min(body.len()));
            body.drain(..start);
            body.truncate(len);
            Some(Ok(body))
        }
        // The object ends before.
        416 => Some(Ok(Vec::new())),
        _ => {
            answer.body = body;
            None
        }
    }
}
