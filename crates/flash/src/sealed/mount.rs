//! Formatting and opening: what is on the medium is held against the record, and accepted once.

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};
use atrest_secret::Random;

use super::cells::Cells;
use super::error::{NotOpened, SealedError};
use super::fast::Reach;
use super::header::AnchoredHeader;
use super::keys::{Keys, SealedKey};
use super::layout::SealedLayout;
use super::options::{SealedMedium, SealedOptions, Verify};
use super::record::{Record, Stored};
use super::rotation::Rotation;
use super::scan::{self, Scan};
use super::serial::{self, RECORD_BITS, Salt};
use super::slots::Slots;
use super::table::BlockState;
use super::volume::{SealedFlash, stamp};
use super::{FlashDevice, TrustedStore, Unfinished, twin};

#[twin]
impl<A, D, S, T, B> SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    /// Makes an empty volume. Nothing on the medium is changed: every block is void, and erased before it is used.
    ///
    /// Pair of volume key and identifier have never been used before. A record of any volume in the store is not
    /// replaced; [`format_over`](Self::format_over) does that. That the store holds none is proof of a new volume
    /// only if nobody else can write it: a log beside a counter, and the medium, can have been wiped by anybody.
    /// Serials begin behind all that the counter can have seen there, so that none seals twice even then; but what was
    /// on the medium is lost, and nobody should make a volume because one did not open.
    ///
    /// # Errors
    /// [`SealedError::StoreInUse`] if the store holds a record. Otherwise it fails where
    /// [`format_over`](Self::format_over) does.
    pub async fn format(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        Self::try_format(device, store, key, options, table, buffer, random).await.map_err(SealedError::from)
    }

    /// Makes an empty volume as [`format`](Self::format) does. If that fails, everything that was passed comes back.
    ///
    /// # Errors
    /// [`NotOpened`], with the error of [`format`](Self::format).
    pub async fn try_format(
        device: D,
        mut store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, NotOpened<D, S, T, B>> {
        let error = match store.load().await {
            Ok(None) => {
                return Self::try_format_over(device, store, key, options, table, buffer, random).await;
            }
            Ok(Some(_)) => SealedError::StoreInUse,
            Err(error) => SealedError::Store(error),
        };
        Err(NotOpened { error, device, store, table, buffer })
    }

    /// Makes an empty volume and replaces what the store holds, otherwise like [`format`](Self::format). If the store held
    /// the record of another volume, that one can then be read without freshness only.
    ///
    /// # Errors
    /// Before anything is written: [`SealedError::NoKey`], [`SealedError::Key`], [`SealedError::Option`],
    /// [`SealedError::ShortLived`], [`SealedError::Layout`], [`SealedError::BufferTooSmall`] or
    /// [`SealedError::TableTooSmall`] for what the caller passes, [`SealedError::Random`] if `random` fails,
    /// and [`SealedError::KeyInUse`] if the medium has units under this key.
    ///
    /// [`SealedError::Medium`] or [`SealedError::Store`] if medium or store fail, [`SealedError::WornOut`] if
    /// no serials are left.
    pub async fn format_over(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        let volume = Self::try_format_over(device, store, key, options, table, buffer, random).await;
        volume.map_err(SealedError::from)
    }

    /// Makes an empty volume as [`format_over`](Self::format_over) does. If that fails, everything that was passed comes back.
    ///
    /// # Errors
    /// [`NotOpened`], with the error of [`format_over`](Self::format_over).
    pub async fn try_format_over(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, NotOpened<D, S, T, B>> {
        let mut volume = Self::lent((device, store, table, buffer), key, options, random)?;
        match volume.format_lent(key).await {
            Ok(()) => Ok(volume),
            Err(error) => Err(volume.not_opened(error)),
        }
    }

    async fn format_lent(&mut self, key: &SealedKey<'_>) -> Result<(), SealedError> {
        let volume = self;
        for block in 0..blocks(&volume.cells.layout) {
            if volume.cells.open_first(block).await.map_err(SealedError::Medium)?.is_some() {
                return Err(SealedError::KeyInUse { block });
            }
        }
        let first = match volume.records().await? {
            Some(records) => serial::unused_after(records).ok_or(SealedError::WornOut)?,
            None => 1,
        };
        (volume.next, volume.start) = (first, first);
        volume.header = AnchoredHeader::settled(key.header)?;
        volume.write_record(false, None).await.map_err(failed)
    }

    /// Opens a volume. With [`Verify::OnRead`], the default, reads the serials on the medium, and verifies what is newer than
    /// the record; only if the record does not confirm that, the whole medium. With [`Verify::AtOpening`] reads the whole medium.
    ///
    /// After anything but [`close`](Self::close) what was in flight is accepted, if it is a state that the volume had since the
    /// store was written last; then the store is written, and a block whose erase was cut is erased. Nothing is changed,
    /// on the medium or in the store, when the medium is refused.
    ///
    /// # Errors
    /// What [`format_over`](Self::format_over) refuses of what the caller passes.
    ///
    /// [`SealedError::NotAnchored`], [`SealedError::Gap`] or [`SealedError::StoreOlder`] if the medium is not
    /// in a state that the store allows, [`SealedError::HeaderOlder`] or [`SealedError::HeaderOther`] if its
    /// header is not, [`SealedError::CounterBehind`] if the record is not of this counter.
    /// [`SealedError::StoreEmpty`], [`SealedError::OtherVolume`], [`SealedError::HandedOver`],
    /// [`SealedError::EarlierVersion`] or [`SealedError::LaterVersion`] if the store has no record for this
    /// volume and program.
    ///
    /// [`SealedError::Medium`] or [`SealedError::Store`] if medium or store fail, [`SealedError::WornOut`] if
    /// no serials are left.
    pub async fn mount(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        Self::try_mount(device, store, key, options, table, buffer, random).await.map_err(SealedError::from)
    }

    /// Opens a volume as [`mount`](Self::mount) does. If it does not open, everything that was passed comes back: to format, to
    /// read without freshness, or to try again.
    ///
    /// # Errors
    /// [`NotOpened`], with the error of [`mount`](Self::mount).
    pub async fn try_mount(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, NotOpened<D, S, T, B>> {
        let mut volume = Self::lent((device, store, table, buffer), key, options, random)?;
        match volume.mount_lent(key).await {
            Ok(()) => Ok(volume),
            Err(error) => Err(volume.not_opened(error)),
        }
    }

    pub(crate) async fn mount_lent(&mut self, key: &SealedKey<'_>) -> Result<(), SealedError> {
        let volume = self;
        let records = volume.records().await?;
        let stored = volume.load().await?;
        let record = stored.record;
        volume.header = stored.header.after(key.header)?;
        let mut scan = Scan::new(&record);
        volume.confirm(&mut scan, &stored).await?;
        record.check_counter(records)?;
        if record.clean {
            volume.resume(&record, scan.sum);
            volume.store.claim().await.map_err(SealedError::Store)?;
            // A smaller reserve counts from now on, not from the first change on.
            if volume.header != stored.header || volume.options.reserve_bits() < record.reserve {
                volume.write_record(true, None).await.map_err(failed)?;
            }
        } else {
            // Storing another record claims this one.
            volume.recover(scan.limit, scan.torn).await?;
        }
        Ok(())
    }

    /// The record in the store, if it is of this volume.
    pub(crate) async fn load(&mut self) -> Result<Stored, SealedError> {
        let stored = self.store.load().await.map_err(SealedError::Store)?.ok_or(SealedError::StoreEmpty)?;
        if *Stored::mark(&stored) != self.cells.keys.mark {
            return Err(SealedError::OtherVolume);
        }
        let stored = Stored::from_bytes(&stored)?;
        if !stored.record.rotation.goes_with(&self.rotation) {
            return Err(SealedError::Rotating);
        }
        Ok(stored)
    }

    /// Finds what the record confirms of what the medium holds: by serials, if that is asked for and enough; otherwise by all units; at last
    /// past what fails.
    async fn confirm(&mut self, scan: &mut Scan, stored: &Stored) -> Result<(), SealedError> {
        let record = &stored.record;
        if self.options.verify == Verify::OnRead {
            for reach in [Reach::Serials, Reach::Ends] {
                *scan = Scan::reaching(record, reach);
                match self.compare(scan, stored).await {
                    Ok(()) => {
                        self.unread = true;
                        return Ok(());
                    }
                    Err(error @ SealedError::Medium(_)) => return Err(error),
                    // Whether the medium is refused, and why, nothing but a look at all of it tells.
                    Err(_) => {}
                }
            }
        }
        *scan = Scan::new(record);
        if let Err(error) = self.compare(scan, stored).await {
            *scan = Scan::past_damage(record);
            let may_be_damage = matches!(error, SealedError::NotAnchored { .. } | SealedError::Gap { .. });
            if !may_be_damage || self.compare(scan, stored).await.is_err() {
                return Err(error);
            }
            self.damaged = true;
        }
        Ok(())
    }

    /// Reads the medium and holds it against a record. Nothing is changed but what is in memory.
    async fn compare(&mut self, scan: &mut Scan, stored: &Stored) -> Result<(), SealedError> {
        let (cells, table) = (&mut self.cells, self.table.as_mut());
        let body = stored.record.body();
        let good =
            |keys: &Keys<A>, sum| atrest_secret::constant_time_eq(&keys.anchor(sum, &body), &stored.tag);
        scan.read(cells, table).await?;
        if scan.reach != Reach::Units {
            scan.read_announced(cells, table).await?;
        }
        scan.take_back_marginal(cells, table).await?;
        scan.check_serials()?;
        scan.apply_tickets(cells, table).await?;
        if good(&cells.keys, scan.sum) {
            return Ok(());
        }
        if scan.past {
            let found = scan.explain(cells, table, |cells, sum| good(&cells.keys, sum)).await?;
            scan.sum = found.ok_or(scan.not_anchored())?;
            return Ok(());
        }
        if scan.reach != Reach::Units {
            return Err(scan.not_anchored());
        }
        let found = scan::without_one(scan.sum, table, &cells.keys, |sum| good(&cells.keys, sum));
        let Some((block, state, sum)) = found else { return Err(scan.not_anchored()) };
        if let Some(entry) = table.get_mut(block) {
            *entry = state;
        }
        scan.sum = sum;
        Ok(())
    }

    /// After a clean record: serials go on where that left off. Blocks that were begun before take no more units, as one of them may
    /// have been closed because a program or erase failed: what failed and what came in its place would share block, epoch and unit.
    fn resume(&mut self, record: &Record, sum: u128) {
        (self.next, self.anchor, self.start) = (record.anchor, record.anchor, record.anchor);
        self.limit = record.limit();
        (self.sum, self.clean) = (sum, true);
    }

    /// After any other: what was found is anchored, with serials that nobody can have used, and only then is a block scrubbed
    /// whose erase was cut.
    pub(crate) async fn recover(&mut self, limit: u64, torn: Option<u32>) -> Result<(), SealedError> {
        // If no serials are left behind these, the record below can't be written, and nothing was changed.
        (self.next, self.start) = (limit, limit);
        self.sum_up();
        self.write_record(false, torn).await.map_err(failed)?;
        if let Some(block) = torn {
            // As the record that names it has left it.
            self.changed = true;
            let mut scrubbed = self.cells.erase(block).await;
            if scrubbed.is_ok() && self.options.medium == SealedMedium::Card {
                scrubbed = self.cells.overwrite(block).await;
            }
            match scrubbed {
                Ok(()) | Err(FlashCause::BadBlock { .. }) => {}
                Err(cause) => return Err(SealedError::Medium(cause)),
            }
        }
        Ok(())
    }

    /// The sum of all blocks as they are in memory, none of which is in flight any more.
    pub(crate) fn sum_up(&mut self) {
        self.sum = 0;
        for block in 0..blocks(&self.cells.layout) {
            let state = self.state(block);
            self.sum = self.sum.wrapping_add(self.cells.keys.share(stamp(block, &state)));
            if let Some(state) = self.state_mut(block) {
                state.set_in_flight(false);
            }
        }
    }

    /// As many records as the store can have forgotten, if it can; they then allow so many serials.
    pub(crate) async fn records(&mut self) -> Result<Option<u64>, SealedError> {
        let records = self.store.stored_at_most().await.map_err(SealedError::Store)?;
        if records.is_some() && self.options.reserve_bits() > RECORD_BITS {
            return Err(SealedError::Option);
        }
        Ok(records)
    }

    /// A volume of which nothing is known yet. What the caller lent for it comes back if it can't be one.
    pub(crate) fn lent(
        (device, store, mut table, mut buffer): (D, S, T, B),
        key: &SealedKey<'_>,
        options: SealedOptions,
        random: &mut dyn Random,
    ) -> Result<Self, NotOpened<D, S, T, B>> {
        let checked = checked(device.geometry(), key, &options, &mut buffer);
        let begun =
            checked.and_then(|(layout, keys)| Ok((layout, keys, begin(&mut table, &layout, random)?)));
        match begun {
            Ok((layout, keys, salt)) => {
                Ok(Self::with_salt(Cells::new(device, keys, layout, buffer), store, table, options, salt))
            }
            Err(error) => Err(NotOpened { error, device, store, table, buffer }),
        }
    }

    /// What the caller lent, back.
    pub(crate) fn not_opened(self, error: SealedError) -> NotOpened<D, S, T, B> {
        let Self { cells, store, table, .. } = self;
        let (device, buffer) = cells.into_parts();
        NotOpened { error, device, store, table, buffer }
    }

    /// A volume of which nothing is known yet.
    pub(crate) fn closed(
        cells: Cells<A, D, B>,
        store: S,
        mut table: T,
        options: SealedOptions,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        let salt = begin(&mut table, &cells.layout, random)?;
        Ok(Self::with_salt(cells, store, table, options, salt))
    }

    fn with_salt(cells: Cells<A, D, B>, store: S, table: T, options: SealedOptions, salt: Salt) -> Self {
        Self {
            cells,
            store,
            table,
            options,
            sum: 0,
            next: 0,
            anchor: 0,
            limit: 0,
            start: 0,
            salt,
            header: AnchoredHeader::default(),
            clean: false,
            changed: false,
            gap: false,
            tickets: 0,
            slots: Slots::default(),
            syncs: 0,
            tampered: false,
            damaged: false,
            unfinished: Unfinished::nothing(),
            rotation: Rotation::default(),
            unread: false,
        }
    }
}

/// Layout, keys and buffer, checked.
pub(crate) fn cells<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
    device: D,
    key: &SealedKey<'_>,
    options: &SealedOptions,
    mut buffer: B,
) -> Result<Cells<A, D, B>, SealedError> {
    let (layout, keys) = checked(device.geometry(), key, options, &mut buffer)?;
    Ok(Cells::new(device, keys, layout, buffer))
}

/// What the caller lends of memory, and draws: the table is void, the salt this session's.
fn begin(
    table: &mut impl AsMut<[BlockState]>,
    layout: &SealedLayout,
    random: &mut dyn Random,
) -> Result<Salt, SealedError> {
    scan::clear(table.as_mut(), layout)?;
    serial::draw(random).ok_or(SealedError::Random)
}

/// Layout and keys for a medium, if key, options and buffer go with it.
fn checked<A: Aead>(
    medium: FlashGeometry,
    key: &SealedKey<'_>,
    options: &SealedOptions,
    buffer: &mut impl AsMut<[u8]>,
) -> Result<(SealedLayout, Keys<A>), SealedError> {
    if !key.is_filled_in() {
        return Err(SealedError::NoKey);
    }
    options.check()?;
    let layout = SealedLayout::new(medium, options.payload, A::TAG_LEN, options.tickets)
        .map_err(SealedError::Layout)?;
    let (needs, has) = (layout.buffer_len(), buffer.as_mut().len());
    if has < needs as usize {
        return Err(SealedError::BufferTooSmall { needs, has });
    }
    let keys = Keys::derive(key, &layout).map_err(SealedError::Key)?;
    Ok((layout, keys))
}

/// Erase blocks; the layout has checked that 32 bits number them.
pub(crate) fn blocks(layout: &SealedLayout) -> u32 {
    layout.medium().block_count() as u32
}

pub(crate) fn failed(cause: FlashCause) -> SealedError {
    match cause {
        FlashCause::TrustedStore(error) => SealedError::Store(error),
        FlashCause::WornOut => SealedError::WornOut,
        cause => SealedError::Medium(cause),
    }
}

/// What a read-only view says to who wants to write.
pub(crate) fn read_only(operation: FlashOperation, address: u64, len: u64) -> FlashError {
    FlashError::new(operation, address, len, FlashCause::ReadOnly)
}
