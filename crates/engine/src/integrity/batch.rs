//! Units with their tags that are not in their places yet: the newest of each.

use std::collections::BTreeMap;

use atrest_device::DeviceError;

/// Bytes of a run that is put in its place at a time.
const RUN: usize = 256 << 10;

/// Units by their numbers.
pub struct Batch {
    unit: usize,
    tag: usize,
    /// Where each unit is among the others.
    index: BTreeMap<u64, usize>,
    data: Vec<u8>,
    tags: Vec<u8>,
}

impl Batch {
    pub fn new(unit: usize, tag: usize) -> Self {
        Self { unit, tag, index: BTreeMap::new(), data: Vec::new(), tags: Vec::new() }
    }

    /// Units.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Takes units, instead of what was here of them.
    pub fn put(&mut self, first: u64, run: &[u8], tags: &[u8]) {
        for ((data, tag), number) in run.chunks_exact(self.unit).zip(tags.chunks_exact(self.tag)).zip(first..)
        {
            let next = self.index.len();
            let at = *self.index.entry(number).or_insert(next);
            if at == next {
                self.data.extend_from_slice(data);
                self.tags.extend_from_slice(tag);
            } else {
                self.data[at * self.unit..][..self.unit].copy_from_slice(data);
                self.tags[at * self.tag..][..self.tag].copy_from_slice(tag);
            }
        }
    }

    /// Copies what is here of a run over it.
    pub fn overlay(&self, first: u64, run: &mut [u8], tags: &mut [u8]) {
        let units = (run.len() / self.unit) as u64;
        for (number, at) in self.index.range(first..first + units) {
            let skip = (number - first) as usize;
            run[skip * self.unit..][..self.unit].copy_from_slice(self.data_at(*at));
            tags[skip * self.tag..][..self.tag].copy_from_slice(self.tag_at(*at));
        }
    }

    /// All units in order.
    pub fn units(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        self.index.iter().map(|(number, at)| (*number, self.data_at(*at), self.tag_at(*at)))
    }

    /// Hands over all units in order, in runs.
    pub fn runs(
        &self,
        mut take: impl FnMut(u64, &[u8], &[u8]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let (mut first, mut next) = (0, None);
        let (mut run, mut tags) = (Vec::new(), Vec::new());
        for (number, data, tag) in self.units() {
            if next != Some(number) || run.len() >= RUN {
                if !run.is_empty() {
                    take(first, &run, &tags)?;
                }
                run.clear();
                tags.clear();
                first = number;
            }
            run.extend_from_slice(data);
            tags.extend_from_slice(tag);
            next = Some(number + 1);
        }
        if run.is_empty() { Ok(()) } else { take(first, &run, &tags) }
    }

    fn data_at(&self, at: usize) -> &[u8] {
        &self.data[at * self.unit..][..self.unit]
    }

    fn tag_at(&self, at: usize) -> &[u8] {
        &self.tags[at * self.tag..][..self.tag]
    }
}
