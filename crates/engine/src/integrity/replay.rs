//! The journal as it is found: what of it is still to be done, and doing that.

use atrest_device::DeviceError;
use atrest_format::integrity::{Continue, Entry, JournalError, Replay, Sections};

use super::IntegrityError;
use super::batch::Batch;
use super::commit::{JournalMac, Ring};
use super::places::Places;

/// A reader keeps in memory what the journal has for it: journals longer than this only the writer opens.
const READER_MOST: u64 = 1 << 30;

/// A journal that was read and checked.
pub struct Found {
    replay: Replay,
    empty: bool,
}

impl Found {
    /// Reads all sections, and checks those that are to be done again.
    pub fn read(places: &Places, mac: Option<&JournalMac>) -> Result<Self, IntegrityError> {
        let layout = &places.layout;
        let mut section = vec![0; layout.section_len() as usize];
        let (mut rounds, mut empty) = (Vec::new(), true);
        for number in 0..layout.sections() {
            places.read_section(number, &mut section)?;
            match Sections(layout).rounds(number, &section) {
                Some(Ok(found)) => rounds.push(found),
                Some(Err(sector)) => return Err(JournalError::CommitId { section: number, sector }.into()),
                None => return Err(JournalError::Rounds.into()),
            }
            empty = empty && entries(places, &section).next().is_none();
        }
        let replay = Replay::decide(&rounds, empty)?;
        let found = Self { replay, empty: empty || replay.count == 0 };
        found.each(places, |number, section| {
            if let Some(mac) = mac {
                let stored = Sections(layout).mac(section);
                if stored != Some(mac.of(layout, number, section)) {
                    return Err(JournalError::Mac { section: number }.into());
                }
            }
            let per_unit = (layout.data_unit() >> 9) as u64;
            let wrong = entries(places, section).find(|(_, sector, _)| sector % per_unit != 0);
            match wrong {
                Some((_, sector, _)) => Err(JournalError::Sector { section: number, sector }.into()),
                None => Ok(()),
            }
        })?;
        Ok(found)
    }

    /// What a reader has to see of the journal.
    pub fn pending(&self, places: &Places) -> Result<Batch, IntegrityError> {
        let layout = &places.layout;
        let mut all = Batch::new(layout.data_unit(), layout.tag_len());
        if !self.empty && layout.section_len() * u64::from(layout.sections()) > READER_MOST {
            let sections = layout.sections();
            return Err(atrest_format::integrity::LayoutError::Journal { sections }.into());
        }
        self.each(places, |_, section| {
            gather(places, section, &mut all);
            Ok(())
        })?;
        Ok(all)
    }

    /// Puts everything in its place, and empties the journal unless it goes on. Returns the next section and its round.
    pub fn replay(
        &self,
        places: &Places,
        mac: Option<&JournalMac>,
        goes_on: bool,
    ) -> Result<(u32, u8), IntegrityError> {
        let layout = &places.layout;
        self.each(places, |_, section| {
            let mut batch = Batch::new(layout.data_unit(), layout.tag_len());
            gather(places, section, &mut batch);
            Ok(batch.runs(|first, run, tags| places.write(first, run, tags))?)
        })?;
        if self.replay.count > 0 {
            places.flush()?;
        }
        let replay = if goes_on || self.empty { self.replay } else { self.replay.clearing() };
        if let Continue::Cleared { round, start } = replay.then {
            clear(places, mac, round, start)?;
        }
        Ok(replay.then.next())
    }

    /// Reads each section that is to be done again, in order.
    fn each(
        &self,
        places: &Places,
        mut take: impl FnMut(u32, &[u8]) -> Result<(), IntegrityError>,
    ) -> Result<(), IntegrityError> {
        let mut section = vec![0; places.layout.section_len() as usize];
        let mut ring = Ring { section: self.replay.start, round: 0, held: 0 };
        for _ in 0..self.replay.count {
            places.read_section(ring.section, &mut section)?;
            take(ring.section, &section)?;
            ring.advance(places.layout.sections());
        }
        Ok(())
    }
}

/// Empties all sections in a round. The oldest goes alone: until it is durable, the rest says what it said before.
pub fn clear(places: &Places, mac: Option<&JournalMac>, round: u8, start: u32) -> Result<(), DeviceError> {
    let sections = places.layout.sections();
    let mut ring = Ring { section: start, round: 0, held: 0 };
    for at in 0..sections {
        let mut section = vec![0; places.layout.section_len() as usize];
        let composed =
            Sections(&places.layout).compose(ring.section, round, std::iter::empty(), &mut section);
        debug_assert!(composed.is_some(), "an empty section");
        if let Some(mac) = mac {
            mac.set(&places.layout, ring.section, &mut section);
        }
        places.write_section(ring.section, &mut section)?;
        if at == 0 || at + 2 >= sections {
            places.flush()?;
        }
        ring.advance(sections);
    }
    Ok(())
}

/// The entries of a section that name a sector: their number, the sector, and the tag.
fn entries<'s>(places: &Places, section: &'s [u8]) -> impl Iterator<Item = (u64, u64, &'s [u8])> {
    let layout = places.layout;
    (0..layout.entries()).filter_map(move |at| match Sections(&layout).entry(at, section) {
        Some(Entry::Unit { sector, tag }) => Some((at, sector, tag)),
        _ => None,
    })
}

/// Takes the units of a section. Those behind the data are left out, as the kernel does.
fn gather(places: &Places, section: &[u8], batch: &mut Batch) {
    let layout = &places.layout;
    let mut data = vec![0; layout.data_unit()];
    for (at, sector, tag) in entries(places, section) {
        let unit = sector / (layout.data_unit() >> 9) as u64;
        if unit < layout.units() && Sections(layout).restore(at, section, &mut data).is_some() {
            batch.put(unit, &data, tag);
        }
    }
}
