//! AES peripherals below modes. Here is AES-XTS; `ccm.rs` and `cmac.rs` are for engines that encrypt alone.
//!
//! AES-XTS (IEEE 1619-2018, clause 5) over an AES peripheral that takes many cipher blocks per call: the tweaks of the whole
//! run, XOR, one call, XOR. A call has its price (keys are loaded, DMA is set up), so there is one for the data of a run
//! and one for the IVs of its units, and none per cipher block.

mod ccm;
mod checked;
mod cmac;
mod encrypt;
mod shared;
mod software;
mod waiting;

use core::convert::Infallible;
use core::fmt;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use atrest_secret::wipe;

use crate::block::{Block, Direction, xor};
use crate::gf128::{double, times_x_to};
use crate::key_error::KeyError;
use crate::options::{MapperOptions, Numbering};
use crate::run::{DataUnitIndex, Position, RunError};
use crate::tweak::NumberForm;

pub use ccm::EngineCcm;
pub use checked::{CheckedEngine, CheckedEngineError};
pub use cmac::aes_cmac;
pub use encrypt::{AesEncrypt, LoadAesKey, SoftwareAes};
pub use shared::SharedEngineXts;
pub use software::SoftwareEngine;
pub use waiting::AsyncEngineCipher;

/// One of the two keys of XTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XtsKey {
    /// The first half: encrypts and decrypts data.
    Data,
    /// The second half: encrypts the numbers of data units.
    Tweak,
}

/// A peripheral (or anything else) that does AES on many cipher blocks per call and knows both keys of XTS. Whoever gives
/// it the keys refuses a key with two equal halves.
pub trait AesEngine {
    /// Blocks handed over begin at a multiple of so many bytes. Ask for no more than DMA needs.
    const ALIGNMENT: usize;

    /// Why it could not.
    type Error;

    /// Encrypts or decrypts each block on its own, in place.
    ///
    /// # Errors
    ///
    /// The engine's own error. What is in the blocks does not count then.
    fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Self::Error>;
}

/// An [`AesEngine`] that lets others run while it works.
pub trait AsyncAesEngine {
    /// Blocks handed over begin at a multiple of so many bytes. Ask for no more than DMA needs.
    const ALIGNMENT: usize;

    /// Why it could not.
    type Error;

    /// Encrypts or decrypts each block on its own, in place. Dropping the future stops the peripheral before the blocks are
    /// given back.
    ///
    /// # Errors
    ///
    /// The engine's own error. What is in the blocks does not count then.
    fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Why an engine did not encrypt or decrypt a run.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineError<E = Infallible> {
    /// The run does not fit. Nothing was written.
    Run(RunError),
    /// The run or the room for tweaks does not begin where the engine can take it. Nothing was written.
    Alignment {
        /// What addresses have to be multiples of.
        alignment: usize,
    },
    /// There is no room for the tweak of a single data unit. Nothing was written.
    NoRoomForTweaks,
    /// The engine failed. What it had of the data is zeros now; what it had not come to is as it was.
    Engine(E),
}

/// `aes-xts-plain64` by an engine. The methods want room for tweaks from the caller: with a block for every data unit that
/// the run touches, the engine is called once for the tweaks and once for the data. With fewer the run goes in several
/// pieces, each with two calls. It is wiped in the end.
pub struct EngineXts<E>(Xts<Blocking<E>>);

/// [`EngineXts`] by an engine that is waited for. A future that is dropped leaves zeros where the engine was at work.
pub struct AsyncEngineXts<E>(Xts<E>);

/// Both.
struct Xts<E> {
    engine: E,
    numbering: Numbering,
}

impl<E: AesEngine> EngineXts<E> {
    /// Of the options, those about the numbers of data units count.
    ///
    /// # Errors
    ///
    /// [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    pub fn new(engine: E, options: &MapperOptions) -> Result<Self, KeyError> {
        Ok(Self(Xts { engine: Blocking(engine), numbering: Numbering::new(options)? }))
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.0.numbering.data_unit
    }

    /// Gives the engine back.
    pub fn into_engine(self) -> E {
        self.0.engine.0
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of 16 bytes, the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// * [`EngineError::Run`] if offset or length is no multiple of 16 bytes, or the offset lies behind the data unit.
    /// * [`EngineError::NoRoomForTweaks`] if there is no room for a single tweak.
    /// * [`EngineError::Alignment`] if the run or the room for tweaks does not begin where the engine can take it.
    /// * [`EngineError::Engine`] if the engine failed. What it had of the data is zeros then.
    pub fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
        tweaks: &mut [[u8; 16]],
    ) -> Result<(), EngineError<E::Error>> {
        at_once(self.0.apply(Direction::Encrypt, (unit, offset), bytes, tweaks))
    }

    /// Decrypts what [`EngineXts::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// * [`EngineError::Run`] if offset or length is no multiple of 16 bytes, or the offset lies behind the data unit.
    /// * [`EngineError::NoRoomForTweaks`] if there is no room for a single tweak.
    /// * [`EngineError::Alignment`] if the run or the room for tweaks does not begin where the engine can take it.
    /// * [`EngineError::Engine`] if the engine failed. What it had of the data is zeros then.
    pub fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
        tweaks: &mut [[u8; 16]],
    ) -> Result<(), EngineError<E::Error>> {
        at_once(self.0.apply(Direction::Decrypt, (unit, offset), bytes, tweaks))
    }
}

impl<E: AsyncAesEngine> AsyncEngineXts<E> {
    /// Of the options, those about the numbers of data units count.
    ///
    /// # Errors
    ///
    /// [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    pub fn new(engine: E, options: &MapperOptions) -> Result<Self, KeyError> {
        Ok(Self(Xts { engine, numbering: Numbering::new(options)? }))
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.0.numbering.data_unit
    }

    /// Gives the engine back.
    pub fn into_engine(self) -> E {
        self.0.engine
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of 16 bytes, the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// * [`EngineError::Run`] if offset or length is no multiple of 16 bytes, or the offset lies behind the data unit.
    /// * [`EngineError::NoRoomForTweaks`] if there is no room for a single tweak.
    /// * [`EngineError::Alignment`] if the run or the room for tweaks does not begin where the engine can take it.
    /// * [`EngineError::Engine`] if the engine failed. What it had of the data is zeros then.
    pub async fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
        tweaks: &mut [[u8; 16]],
    ) -> Result<(), EngineError<E::Error>> {
        self.0.apply(Direction::Encrypt, (unit, offset), bytes, tweaks).await
    }

    /// Decrypts what [`AsyncEngineXts::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// * [`EngineError::Run`] if offset or length is no multiple of 16 bytes, or the offset lies behind the data unit.
    /// * [`EngineError::NoRoomForTweaks`] if there is no room for a single tweak.
    /// * [`EngineError::Alignment`] if the run or the room for tweaks does not begin where the engine can take it.
    /// * [`EngineError::Engine`] if the engine failed. What it had of the data is zeros then.
    pub async fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
        tweaks: &mut [[u8; 16]],
    ) -> Result<(), EngineError<E::Error>> {
        self.0.apply(Direction::Decrypt, (unit, offset), bytes, tweaks).await
    }
}

impl<E: AsyncAesEngine> Xts<E> {
    async fn apply(
        &mut self,
        direction: Direction,
        (unit, offset): (DataUnitIndex, usize),
        bytes: &mut [u8],
        tweaks: &mut [Block],
    ) -> Result<(), EngineError<E::Error>> {
        let position = self.numbering.position_at(unit, offset, bytes.len(), 16).map_err(EngineError::Run)?;
        let Some(mut position) = position else { return Ok(()) };
        if tweaks.is_empty() {
            return Err(EngineError::NoRoomForTweaks);
        }
        let addresses = bytes.as_ptr().addr() | tweaks.as_ptr().addr();
        if !addresses.is_multiple_of(E::ALIGNMENT.max(1)) {
            return Err(EngineError::Alignment { alignment: E::ALIGNMENT });
        }
        let mut left = bytes.as_chunks_mut().0;
        while !left.is_empty() {
            // intended: more room than a run has blocks is as good.
            let room = tweaks.len().saturating_mul(position.unit_blocks) - position.skipped;
            let (piece, rest) = left.split_at_mut(room.min(left.len()));
            let units = (position.skipped + piece.len()).div_ceil(position.unit_blocks);
            self.piece(direction, position, piece, &mut tweaks[..units]).await?;
            position = position.after(units);
            left = rest;
        }
        Ok(())
    }

    /// A piece of the run, with the blocks that will be its units' tweaks.
    async fn piece(
        &mut self,
        direction: Direction,
        position: Position,
        blocks: &mut [Block],
        tweaks: &mut [Block],
    ) -> Result<(), EngineError<E::Error>> {
        for (at, tweak) in tweaks.iter_mut().enumerate() {
            *tweak = NumberForm::Plain64.iv(position.after(at).number);
        }
        let call = self.engine.apply(XtsKey::Tweak, Direction::Encrypt, tweaks);
        call.await.map_err(EngineError::Engine)?;
        if let Some(first) = tweaks.first_mut() {
            *first = times_x_to(u128::from_le_bytes(*first), position.skipped).to_le_bytes();
        }
        let mut masked = Masked { blocks, tweaks, finished: false };
        masked.mask(position);
        let call = self.engine.apply(XtsKey::Data, direction, masked.blocks);
        call.await.map_err(EngineError::Engine)?;
        masked.mask(position);
        masked.finished = true;
        Ok(())
    }
}

/// Blocks that are neither plaintext nor ciphertext. Wiped when dropped so, whether the engine failed or nobody waited for
/// it; the tweaks are wiped in any case.
struct Masked<'a> {
    blocks: &'a mut [Block],
    tweaks: &'a mut [Block],
    finished: bool,
}

impl Masked<'_> {
    /// Adds the tweak of each block.
    fn mask(&mut self, position: Position) {
        let mut blocks = self.blocks.iter_mut();
        let mut left = position.unit_blocks - position.skipped;
        for tweak in self.tweaks.iter() {
            let mut tweak = u128::from_le_bytes(*tweak);
            for block in blocks.by_ref().take(left) {
                *block = xor(block, &tweak.to_le_bytes());
                tweak = double(tweak);
            }
            left = position.unit_blocks;
        }
    }
}

impl Drop for Masked<'_> {
    fn drop(&mut self) {
        wipe(self.tweaks.as_flattened_mut());
        if !self.finished {
            wipe(self.blocks.as_flattened_mut());
        }
    }
}

/// An engine that is ready when it returns.
struct Blocking<E>(E);

impl<E: AesEngine> AsyncAesEngine for Blocking<E> {
    const ALIGNMENT: usize = E::ALIGNMENT;

    type Error = E::Error;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), E::Error> {
        self.0.apply(key, direction, blocks)
    }
}

/// What a future that never waits comes to.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

impl<E> fmt::Debug for EngineXts<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineXts(..)")
    }
}

impl<E> fmt::Debug for AsyncEngineXts<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncEngineXts(..)")
    }
}

impl<E: fmt::Display> fmt::Display for EngineError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Alignment { alignment } => {
                write!(f, "the AES engine takes buffers at multiples of {alignment} bytes only")
            }
            Self::NoRoomForTweaks => f.write_str("there is no room for the tweak of a data unit"),
            Self::Engine(error) => write!(f, "the AES engine failed: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for EngineError<E> {}
