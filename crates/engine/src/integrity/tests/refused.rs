//! What is not opened, and not laid out.

use atrest_format::integrity::{JournalError, SuperblockError};

use super::*;

const SIZE: usize = 1 << 20;

fn try_open(kind: Kind, image: Vec<u8>, options: OpenOptions) -> Result<(), IntegrityError> {
    let media = Arc::new(FaultDevice::new(image));
    let superblock = read_superblock(&*media, 0)?;
    let opened = Integrity::open(media.clone(), 0, kind.tagged(&superblock), options);
    if opened.is_err() {
        assert_eq!(media.counts().0, 0, "nothing is written");
    }
    opened.map(|_| ())
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_nothing_is_written() {
    let kind = KINDS[0];
    let image = kind.made(SIZE, 0).image();
    let with = |at: usize, bytes: &[u8]| {
        let mut image = image.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        try_open(kind, image, OpenOptions::default())
    };
    assert_eq!(with(0, &[0]), Err(SuperblockError::Missing.into()));
    assert_eq!(with(8, &[6]), Err(SuperblockError::Inline.into()));
    let marked = {
        let mut image = image.clone();
        (image[24], image[4096]) = (24 | 4, 1);
        try_open(kind, image, OpenOptions::default())
    };
    assert_eq!(marked, Err(IntegrityError::DirtyBitmap));
    assert_eq!(with(24, &[24 | 1]), Err(IntegrityError::JournalKey { stored: true }));
    let sections = u32::MAX / 700;
    let found = with(12, &sections.to_le_bytes());
    assert_eq!(found, Err(atrest_format::integrity::LayoutError::Journal { sections }.into()));
    let error = with(16, &(SIZE as u64 >> 9).to_le_bytes());
    assert_eq!(error, Err(atrest_format::integrity::LayoutError::TooSmall { has: SIZE as u64 }.into()));
    assert_eq!(
        with(4096 + 5 * 512 + 504, &[0]),
        Err(JournalError::CommitId { section: 0, sector: 5 }.into())
    );
    let options = OpenOptions { journal_hash: Some(hash("hmac-sha256")), ..OpenOptions::default() };
    assert_eq!(try_open(kind, image.clone(), options), Err(IntegrityError::JournalKey { stored: false }));
    assert_eq!(try_open(kind, image.clone(), OpenOptions::default()), Ok(()));
    let mut longer = Superblock::parse(&image).expect("a superblock");
    longer.tag_len = 8;
    let media = Arc::new(FaultDevice::new(image.clone()));
    let error = Integrity::open(media.clone(), 0, checksum("crc32c", &longer), OpenOptions::default()).err();
    assert_eq!(error, Some(IntegrityError::Tags { stored: 4, wanted: 8 }));
    longer.data_unit = 1024;
    let error = Integrity::open(media, 0, checksum("crc32c", &longer), OpenOptions::default()).err();
    assert_eq!(error, Some(IntegrityError::DataUnit { stored: 512, wanted: 1024 }));
}

#[test]
fn a_journal_that_was_changed_under_its_keyed_hash_is_refused() {
    let kind = KINDS[2];
    let media = kind.made(SIZE, 0);
    let open = kind.open(media.clone(), 0, Mode::Journal);
    open.write(0, &mut vec![7; 4096]).expect("written");
    drop(open);
    let image = media.image();
    assert_eq!(try_open(kind, image.clone(), kind.options(Mode::Journal, false)), Ok(()));
    let mut changed = image.clone();
    changed[16] ^= 8;
    let found = try_open(kind, changed, kind.options(Mode::Journal, false));
    assert_eq!(found, Err(IntegrityError::SuperblockMac));
    let mut changed = image;
    changed[4096] ^= 8;
    for read_only in [true, false] {
        let found = try_open(kind, changed.clone(), kind.options(Mode::Journal, read_only));
        assert_eq!(found, Err(JournalError::Mac { section: 0 }.into()));
    }
}

#[test]
fn a_wrong_cipher_or_key_of_the_journal_is_refused_and_nothing_is_written() {
    for kind in [KINDS[2], KINDS[3]] {
        let media = kind.made(SIZE, 0);
        let open = kind.open(media.clone(), 0, Mode::Journal);
        open.write(0, &mut vec![7; 4096]).expect("written");
        drop(open);
        let image = media.image();
        let with = |cipher: Option<&str>, key: &[u8], mode| {
            let journal_cipher =
                cipher.map(|cipher| (cipher.parse().expect("known"), SecretBytes::copy_from(key)));
            try_open(kind, image.clone(), OpenOptions { journal_cipher, ..kind.options(mode, false) })
        };
        assert_eq!(with(kind.cipher, &KEY[..32], Mode::Journal), Ok(()));
        let no_id = Err(JournalError::CommitId { section: 0, sector: 0 }.into());
        assert_eq!(with(kind.cipher, &KEY[1..33], Mode::Journal), no_id);
        assert_eq!(with(None, &[], Mode::Journal), no_id);
        assert_eq!(with(kind.cipher, &KEY[..32], Mode::Bitmap), Err(IntegrityError::BitmapCipher));
        let short = with(kind.cipher, &KEY[..31], Mode::Journal);
        assert!(matches!(short, Err(IntegrityError::Cipher(_))), "{short:?}");
    }
}

#[test]
fn data_without_tags_is_read_only_where_the_caller_allows_it() {
    let kind = KINDS[0];
    let mut image = kind.made(SIZE, 0).image();
    image[24] |= 2;
    image[32] = 8;
    let error = try_open(kind, image.clone(), OpenOptions::default());
    assert_eq!(error, Err(IntegrityError::Recalculating { sector: 8 }));
    let superblock = Superblock::parse(&image).expect("a superblock");
    let layout = Layout::new(&superblock, SIZE as u64, None).expect("it lies there");
    for unit in [7, 8] {
        image[layout.span(unit, 1).expect("a unit").data as usize] = 1;
    }
    let options = OpenOptions { unkeyed: true, ..OpenOptions::default() };
    let open = Integrity::open(Arc::new(FaultDevice::new(image)), 0, kind.tagged(&superblock), options)
        .expect("allowed");
    let mut run = [9; 512];
    assert_eq!(open.read(7 * 512, &mut run).map_err(|error| error.cause), Err(Cause::Tag { unit: 7 }));
    open.read(8 * 512, &mut run).expect("not checked");
    assert_eq!(run[0], 1);
    assert!(open.read(6 * 512, &mut [0; 1536]).is_err(), "both in one read");
}

#[test]
fn what_is_there_is_not_laid_out_over() {
    let media = Arc::new(FaultDevice::zeroed(SIZE));
    media.write_at(4095, &[1]).expect("written");
    let before = media.counts();
    assert_eq!(create(media.clone(), 0, KINDS[0].wanted(None)).err(), Some(IntegrityError::NotEmpty));
    assert!(matches!(create(media.clone(), 0, KINDS[0].wanted(Some(8192))), Err(IntegrityError::Layout(_))));
    assert_eq!(media.counts(), before);
}

#[test]
fn a_failing_flush_is_told_and_what_was_written_stays_readable() {
    let kind = KINDS[0];
    let media = kind.made(SIZE, 0);
    let open = kind.open(media.clone(), 0, Mode::Journal);
    open.write(512, &mut [3; 512]).expect("in memory");
    media.fail(atrest_testkit::fault::Fault::FailingFlush { number: media.counts().1 });
    assert!(open.flush().is_err() && open.flush().is_err() && open.write(0, &mut [4; 512]).is_err());
    let mut run = [0; 512];
    open.read(512, &mut run).expect("still there");
    assert_eq!(run, [3; 512]);
}
