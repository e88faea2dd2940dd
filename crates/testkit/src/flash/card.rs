//! A memory card: sectors that are written over, a cache that loses any of them until the next sync, and no erase to speak of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use atrest_device::{FlashDevice, FlashError, FlashGeometry, FlashOperation};

use super::image::{Tear, torn};
use crate::Random;

type Sectors = Vec<Arc<[u8]>>;

/// A card in memory, whose clones are the same card. Its prog units are the sectors.
#[derive(Clone, Debug)]
pub struct EmulatedCard(Rc<RefCell<Contents>>);

#[derive(Debug)]
struct Contents {
    geometry: FlashGeometry,
    sectors: Sectors,
    recording: Option<CardRecording>,
}

/// Every write of a card since a recording was started.
#[derive(Clone, Debug)]
pub struct CardRecording {
    geometry: FlashGeometry,
    writes: Vec<Write>,
    first_unsynced: usize,
    promises: usize,
    last: Sectors,
}

#[derive(Clone, Debug)]
struct Write {
    before: Sectors,
    sector: usize,
    data: Arc<[u8]>,
    /// The first write that no sync had made durable by then.
    first_unsynced: usize,
    /// Promises made by then.
    promises: usize,
}

/// Power lost in a write of a card. Its `Display` form names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardCut {
    /// The write, counted from the start of the recording.
    pub write: usize,
    /// How far it came.
    pub tear: Tear,
    /// Chooses what the cache had written of the rest, and bytes.
    pub seed: u64,
}

impl fmt::Display for CardCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {} {}, seed {}", self.write, self.tear, self.seed)
    }
}

impl EmulatedCard {
    /// A card with something on it.
    pub fn used(geometry: FlashGeometry, random: &mut Random) -> Self {
        let count = geometry.size() / u64::from(geometry.prog_size());
        let sectors = (0..count).map(|_| random.bytes(geometry.prog_size() as usize).into()).collect();
        Self::holding(geometry, sectors)
    }

    fn holding(geometry: FlashGeometry, sectors: Sectors) -> Self {
        Self(Rc::new(RefCell::new(Contents { geometry, sectors, recording: None })))
    }

    /// Another card that holds the same.
    pub fn copy(&self) -> Self {
        let contents = self.0.borrow();
        Self::holding(contents.geometry, contents.sectors.clone())
    }

    /// Starts a new recording from the present contents, all of which are durable.
    pub fn record(&self) {
        let mut contents = self.0.borrow_mut();
        let (geometry, last) = (contents.geometry, contents.sectors.clone());
        let writes = Vec::new();
        contents.recording = Some(CardRecording { geometry, writes, first_unsynced: 0, promises: 0, last });
    }

    /// Notes that something was promised to a user here. Promises count from 1.
    pub fn acknowledge(&self) {
        self.recording(|recording| recording.promises += 1);
    }

    /// Writes recorded so far; 0 if none are.
    pub fn recorded(&self) -> usize {
        self.0.borrow().recording.as_ref().map_or(0, |recording| recording.writes.len())
    }

    /// Ends the recording.
    ///
    /// # Panics
    /// When none was started.
    pub fn finish_recording(&self) -> CardRecording {
        let mut contents = self.0.borrow_mut();
        let mut recording = contents.recording.take().expect("a recording that was started");
        recording.last.clone_from(&contents.sectors);
        recording
    }

    fn recording(&self, change: impl FnOnce(&mut CardRecording)) {
        self.0.borrow_mut().recording.as_mut().map(change);
    }

    fn sectors(&self, address: u64, len: usize) -> std::ops::Range<usize> {
        let size = u64::from(self.0.borrow().geometry.prog_size());
        (address / size) as usize..((address + len as u64) / size) as usize
    }
}

impl CardRecording {
    /// Every write, cut in each way in which a sector can be left.
    pub fn cuts(&self) -> Vec<CardCut> {
        let tears = [Tear::Clean, Tear::Bytes, Tear::Bits, Tear::Garbage];
        let cuts = (0..self.writes.len()).flat_map(|write| tears.map(|tear| (write, tear)));
        (0..).zip(cuts).map(|(seed, (write, tear))| CardCut { write, tear, seed }).collect()
    }

    /// The card after a power loss, and how many promises had been made by then.
    pub fn aftermath(&self, cut: CardCut) -> (EmulatedCard, usize) {
        let write = &self.writes[cut.write];
        let mut random = Random::new(cut.seed);
        let mut sectors = write.before.clone();
        // Each sector that was written since the last sync holds one of the versions that it had since then.
        let mut versions: BTreeMap<usize, Vec<Arc<[u8]>>> = BTreeMap::new();
        for unsynced in &self.writes[write.first_unsynced..cut.write] {
            let before = Arc::clone(&unsynced.before[unsynced.sector]);
            versions.entry(unsynced.sector).or_insert_with(|| vec![before]).push(Arc::clone(&unsynced.data));
        }
        for (sector, versions) in versions {
            sectors[sector] = Arc::clone(random.pick(&versions));
        }
        let mut cells = sectors[write.sector].to_vec();
        torn(&mut cells, &write.data, cut.tear, &mut random);
        sectors[write.sector] = cells.into();
        (EmulatedCard::holding(self.geometry, sectors), write.promises)
    }

    /// The card before a write, or at the end, if nothing was lost; and how many promises had been made by then.
    pub fn before(&self, write: usize) -> (EmulatedCard, usize) {
        let (sectors, promises) = self
            .writes
            .get(write)
            .map_or((&self.last, self.promises), |write| (&write.before, write.promises));
        (EmulatedCard::holding(self.geometry, sectors.clone()), promises)
    }

    /// Writes recorded.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl FlashDevice for EmulatedCard {
    fn geometry(&self) -> FlashGeometry {
        self.0.borrow().geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Read, address, buf.len() as u64)?;
        let size = self.geometry().prog_size() as usize;
        let (range, contents) = (self.sectors(address, buf.len()), self.0.borrow());
        for (to, sector) in buf.chunks_mut(size).zip(&contents.sectors[range]) {
            to.copy_from_slice(sector);
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Prog, address, data.len() as u64)?;
        let size = self.geometry().prog_size() as usize;
        for (sector, data) in self.sectors(address, data.len()).zip(data.chunks(size)) {
            let data: Arc<[u8]> = data.into();
            let before = self.0.borrow().sectors.clone();
            self.recording(|recording| {
                let CardRecording { first_unsynced, promises, .. } = *recording;
                let data = Arc::clone(&data);
                recording.writes.push(Write { before, sector, data, first_unsynced, promises });
            });
            self.0.borrow_mut().sectors[sector] = data;
        }
        Ok(())
    }

    /// Changes nothing.
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Erase, address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.recording(|recording| recording.first_unsynced = recording.writes.len());
        Ok(())
    }

    fn erased_byte(&self) -> Option<u8> {
        None
    }
}
