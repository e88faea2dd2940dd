//! Two slots of a secure element, or of any memory that keeps 88 bytes under a number.

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStoreError};

use super::{TrustedStore, twin};
use crate::sealed::frame::{self, FRAME_LEN};

/// Two numbered slots of [`FRAME_LEN`] bytes. A slot that was never written holds anything that is no record: zeros, 0xFF.
#[twin]
#[allow(async_fn_in_trait, reason = "executors of microcontrollers have one thread")]
pub trait ElementSlots {
    /// Reads slot 0 or 1.
    ///
    /// # Errors
    /// [`TrustedStoreError`] if the element does not answer. What is no record is no error here.
    async fn read(&mut self, slot: u8, out: &mut [u8; FRAME_LEN]) -> Result<(), TrustedStoreError>;

    /// Replaces what slot 0 or 1 holds. A power loss may leave anything in it, and nothing else touched.
    ///
    /// # Errors
    /// [`TrustedStoreError`] if the element does not confirm that it is written.
    async fn write(&mut self, slot: u8, bytes: &[u8; FRAME_LEN]) -> Result<(), TrustedStoreError>;
}

/// A [`TrustedStore`] in two slots that are written in turn.
#[derive(Debug)]
pub struct SlotStore<E> {
    element: E,
    /// The newest whole record: its sequence number and slot.
    newest: Option<(u32, u8)>,
    looked: bool,
}

#[twin]
impl<E: ElementSlots> SlotStore<E> {
    /// Reads nothing yet.
    pub const fn new(element: E) -> Self {
        Self { element, newest: None, looked: false }
    }

    /// Gives the element back.
    pub fn into_inner(self) -> E {
        self.element
    }

    async fn look(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        let (mut found, mut blank) = (None, true);
        // If this comes to no end, what was seen of one slot says nothing of the other.
        (self.newest, self.looked) = (None, false);
        for slot in [0, 1] {
            let mut bytes = [0; FRAME_LEN];
            self.element.read(slot, &mut bytes).await?;
            match frame::split(&bytes) {
                Some((sequence, record)) if self.newest.is_none_or(|(newest, _)| newest < sequence) => {
                    self.newest = Some((sequence, slot));
                    found = Some(record);
                }
                Some(_) => {}
                None => blank &= bytes.iter().all(|byte| Some(byte) == bytes.first()),
            }
        }
        self.looked = true;
        if found.is_none() && !blank { Err(TrustedStoreError::Damaged) } else { Ok(found) }
    }
}

#[twin]
impl<E: ElementSlots> TrustedStore for SlotStore<E> {
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.look().await
    }

    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        if !self.looked {
            // What is damaged holds nothing that could be lost.
            match self.look().await {
                Ok(_) | Err(TrustedStoreError::Damaged) => {}
                Err(error) => return Err(error),
            }
        }
        let (sequence, slot) = self.newest.map_or((0, 1), |newest| newest);
        let sequence = sequence.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        let other = u8::from(slot == 0);
        // Whatever comes of this, the slot is looked at before the next write.
        self.looked = false;
        self.element.write(other, &frame::join(record, sequence)).await?;
        (self.newest, self.looked) = (Some((sequence, other)), true);
        Ok(())
    }
}
