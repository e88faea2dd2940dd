//! A flash device in memory that holds its user to the rules of real ones and fails as they do.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

use super::image::FlashImage;
use super::power_cut::{FlashOp, FlashRecording};
use super::refusals::Refusals;

/// How a worn-out block shows it: the five ways of littlefs's own emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBlock {
    /// Programs report failure. Nothing is stored.
    ProgError,
    /// Erases report failure. Nothing changes.
    EraseError,
    /// Reads report that too many bits are wrong.
    ReadError,
    /// Programs report success and store nothing.
    ProgNoop,
    /// Erases report success and change nothing.
    EraseNoop,
}

impl BadBlock {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ProgError, Self::EraseError, Self::ReadError, Self::ProgNoop, Self::EraseNoop];
}

/// What was done to a medium, by its own count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wear {
    /// Times that each prog unit was programmed, from the first of the medium on.
    pub programs: Vec<u32>,
    /// Times that each block was erased.
    pub erases: Vec<u32>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Transfers from and to the medium: calls of read and prog.
    pub transfers: u64,
    /// Successful calls of sync.
    pub syncs: u64,
}

impl Wear {
    fn new(geometry: FlashGeometry) -> Self {
        let blocks = geometry.block_count() as usize;
        let units = blocks * geometry.units_per_block() as usize;
        Self { programs: vec![0; units], erases: vec![0; blocks], bytes_read: 0, transfers: 0, syncs: 0 }
    }

    /// Units programmed in all.
    pub fn programmed_units(&self) -> u64 {
        self.programs.iter().map(|count| u64::from(*count)).sum()
    }

    /// Blocks erased in all.
    pub fn erased_blocks(&self) -> u64 {
        self.erases.iter().map(|count| u64::from(*count)).sum()
    }
}

/// A [`FlashDevice`] in memory. A program of a unit that is not blank fails, as on parts whose error-correcting words take
/// one program between erases.
#[derive(Clone, Debug)]
pub struct EmulatedFlash {
    image: FlashImage,
    wear: Wear,
    bad: Vec<(usize, BadBlock)>,
    endurance: Option<(u32, BadBlock)>,
    recording: Option<FlashRecording>,
    refusals: Refusals,
}

impl EmulatedFlash {
    /// An erased medium.
    pub fn new(geometry: FlashGeometry) -> Self {
        Self::with_image(FlashImage::erased(geometry))
    }

    /// A medium that holds this, unworn.
    pub fn with_image(image: FlashImage) -> Self {
        let wear = Wear::new(image.geometry());
        Self { image, wear, bad: Vec::new(), endurance: None, recording: None, refusals: Refusals::default() }
    }

    /// Makes a block bad. A block may be bad in several ways.
    pub fn break_block(&mut self, block: usize, how: BadBlock) {
        self.bad.push((block, how));
    }

    /// Makes every block bad after so many erases.
    pub fn wear_out_after(&mut self, erases: u32, how: BadBlock) {
        self.endurance = Some((erases, how));
    }

    /// What the medium holds now. Shares its blocks.
    pub fn image(&self) -> &FlashImage {
        &self.image
    }

    /// What the medium holds now, to be changed past all rules.
    pub fn image_mut(&mut self) -> &mut FlashImage {
        &mut self.image
    }

    /// What was done to the medium.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// What an adversary on the bus refuses, and what he has kept of it.
    pub fn refusals(&mut self) -> &mut Refusals {
        &mut self.refusals
    }

    /// Starts a new recording from the present contents.
    pub fn record(&mut self) {
        self.recording = Some(FlashRecording::new());
    }

    /// Notes in the recording that something was promised to a user here ("file 2 is synced").
    pub fn acknowledge(&mut self, promise: u64) {
        if let Some(recording) = &mut self.recording {
            recording.acknowledge(promise);
        }
    }

    /// Operations that were recorded so far; 0 if none are.
    pub fn recorded(&self) -> usize {
        self.recording.as_ref().map_or(0, FlashRecording::len)
    }

    /// Ends the recording.
    ///
    /// # Panics
    /// When none was started.
    pub fn finish_recording(&mut self) -> FlashRecording {
        let mut recording = self.recording.take().expect("a recording that was started");
        recording.finish(self.image.clone());
        recording
    }

    fn is_bad(&self, block: usize, how: BadBlock) -> bool {
        let worn =
            self.endurance.is_some_and(|(erases, mode)| mode == how && self.wear.erases[block] >= erases);
        worn || self.bad.contains(&(block, how))
    }

    fn note(&mut self, op: FlashOp) {
        let before = self.image.clone();
        if let Some(recording) = &mut self.recording {
            recording.push(before, op);
        }
    }

    /// Block and byte in it.
    fn place(&self, address: u64) -> (usize, usize) {
        let erase = u64::from(self.image.geometry().erase_size());
        ((address / erase) as usize, (address % erase) as usize)
    }

    fn prog_unit(&mut self, address: u64, data: &[u8]) -> Result<(), FlashCause> {
        let (block, byte) = self.place(address);
        let unit = byte / data.len();
        if self.is_bad(block, BadBlock::ProgError) {
            return Err(FlashCause::BadBlock { block: block as u64 });
        }
        if self.is_bad(block, BadBlock::ProgNoop) {
            return Ok(());
        }
        if !self.image.is_blank(block, unit) && !self.is_bad(block, BadBlock::EraseNoop) {
            return Err(FlashCause::AlreadyProgrammed { unit: address });
        }
        self.note(FlashOp::Prog { block, unit, data: data.to_vec() });
        self.image.prog(block, unit, data);
        self.wear.programs[block * self.image.geometry().units_per_block() as usize + unit] += 1;
        Ok(())
    }

    fn erase_block(&mut self, block: usize) -> Result<(), FlashCause> {
        if self.is_bad(block, BadBlock::EraseError) {
            return Err(FlashCause::BadBlock { block: block as u64 });
        }
        if self.is_bad(block, BadBlock::EraseNoop) {
            return Ok(());
        }
        self.note(FlashOp::Erase { block });
        self.image.erase(block);
        self.wear.erases[block] += 1;
        Ok(())
    }
}

impl FlashDevice for EmulatedFlash {
    fn geometry(&self) -> FlashGeometry {
        self.image.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let len = buf.len() as u64;
        self.geometry().check(FlashOperation::Read, address, len)?;
        self.wear.transfers += 1;
        self.wear.bytes_read += len;
        let mut rest = buf;
        let mut at = address;
        while !rest.is_empty() {
            let (block, start) = self.place(at);
            let step = rest.len().min(self.geometry().erase_size() as usize - start);
            let (now, later) = rest.split_at_mut(step);
            if self.is_bad(block, BadBlock::ReadError) || !self.image.is_readable(block, start, step) {
                let cause = FlashCause::Uncorrectable;
                return Err(FlashError::new(FlashOperation::Read, at, step as u64, cause));
            }
            self.image.read(block, start, now);
            rest = later;
            at += step as u64;
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Prog, address, data.len() as u64)?;
        self.wear.transfers += 1;
        if let Err(cause) = self.refusals.take(FlashOperation::Prog) {
            self.refusals.withheld.push((address, data.to_vec()));
            return Err(FlashError::new(FlashOperation::Prog, address, data.len() as u64, cause));
        }
        let prog = self.geometry().prog_size() as usize;
        for (unit, at) in data.chunks(prog).zip((address..).step_by(prog)) {
            self.prog_unit(at, unit)
                .map_err(|cause| FlashError::new(FlashOperation::Prog, at, prog as u64, cause))?;
        }
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Erase, address, len)?;
        self.refusals
            .take(FlashOperation::Erase)
            .map_err(|cause| FlashError::new(FlashOperation::Erase, address, len, cause))?;
        let erase = u64::from(self.geometry().erase_size());
        for block in address / erase..(address + len) / erase {
            self.erase_block(block as usize)
                .map_err(|cause| FlashError::new(FlashOperation::Erase, block * erase, erase, cause))?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.refusals
            .take(FlashOperation::Sync)
            .map_err(|cause| FlashError::new(FlashOperation::Sync, 0, 0, cause))?;
        self.wear.syncs += 1;
        if let Some(recording) = &mut self.recording {
            recording.sync();
        }
        Ok(())
    }
}
