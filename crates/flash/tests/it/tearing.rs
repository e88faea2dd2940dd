//! A chip that goes on by itself when nobody waits for it any more, or stops half-way.

use std::cell::RefCell;
use std::rc::Rc;

use atrest_device::asynchronous::FlashDevice;
use atrest_device::{FlashDevice as _, FlashError, FlashGeometry};
use atrest_testkit::Random;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash};

use crate::waits::pause;

/// Each operation is awaited once before it happens, and once after. Of one that is dropped then all has happened, nothing, or some of its
/// prog units.
#[derive(Clone)]
pub struct TearingChip {
    pub flash: SharedFlash,
    random: Rc<RefCell<Random>>,
}

impl TearingChip {
    pub fn new(geometry: FlashGeometry, random: &mut Random) -> Self {
        Self {
            flash: SharedFlash::new(EmulatedFlash::new(geometry)),
            random: Rc::new(RefCell::new(Random::new(random.draw()))),
        }
    }

    fn draw(&self, bound: u64) -> usize {
        self.random.borrow_mut().below(bound) as usize
    }

    /// Prog units of a range, counted from the beginning of the chip.
    fn units(&self, address: u64, len: usize) -> std::ops::Range<usize> {
        let prog = self.flash.geometry().prog_size() as usize;
        address as usize / prog..(address as usize + len) / prog
    }

    fn put(&self, unit: usize, content: impl Fn(usize, usize) -> Vec<u8>) {
        let geometry = self.flash.geometry();
        let in_block = (geometry.erase_size() / geometry.prog_size()) as usize;
        let (block, unit) = (unit / in_block, unit % in_block);
        self.flash.lock().image_mut().put_unit(block, unit, &content(block, unit));
    }
}

/// What becomes of an operation that has begun when its future is dropped.
struct Begun<F: FnMut()> {
    is_awaited: bool,
    tear: F,
}

impl<F: FnMut()> Begun<F> {
    async fn end(mut self) {
        pause().await;
        self.is_awaited = true;
    }
}

impl<F: FnMut()> Drop for Begun<F> {
    fn drop(&mut self) {
        if !self.is_awaited {
            (self.tear)();
        }
    }
}

impl FlashDevice for TearingChip {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        pause().await;
        self.flash.read(address, buf)
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        pause().await;
        self.flash.prog(address, data)?;
        let (chip, units) = (self.clone(), self.units(address, data.len()));
        let blank = vec![0xff; data.len() / units.len()];
        let tear = move || {
            let kept = match chip.draw(3) {
                0 => units.len(),
                _ => chip.draw(units.len() as u64),
            };
            units.clone().skip(kept).for_each(|unit| chip.put(unit, |_, _| blank.clone()));
        };
        Begun { is_awaited: false, tear }.end().await;
        Ok(())
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        pause().await;
        let before = self.flash.lock().image().clone();
        self.flash.erase(address, len)?;
        let (chip, units) = (self.clone(), self.units(address, len as usize));
        let tear = move || {
            let (kept, from_the_end) = (chip.draw(units.len() as u64 + 1), chip.draw(2) == 0);
            let kept = if chip.draw(3) == 0 { 0 } else { kept };
            let skipped = if from_the_end { units.len() - kept } else { 0 };
            let kept = units.clone().skip(skipped).take(kept);
            kept.for_each(|unit| chip.put(unit, |block, unit| before.unit(block, unit).to_vec()));
        };
        Begun { is_awaited: false, tear }.end().await;
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        pause().await;
        self.flash.sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        self.flash.erased_byte()
    }

    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        pause().await;
        self.flash.is_blank(address, len, scratch)
    }
}
