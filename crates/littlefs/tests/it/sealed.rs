//! The library on a sealed volume, as the desk has it on an image: power lost at every program, erase and write of the store. The check
//! of the metadata and the library take void and closed blocks for what they are; nothing that was synced is lost.

use std::collections::BTreeMap;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashCause, FlashDevice, FlashGeometry};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedFlash, SealedKey, SealedMedium, SealedOptions, SealedReader, Tickets,
    Verify,
};
use atrest_littlefs::{FormatOptions, Kind, LittleFs, LittleFsError, MountError, OpenMode, format};
use atrest_testkit::Campaign;
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear, TrustedMemory,
    TrustedRecord, TrustedWrite,
};

const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };
const BLOCKS: u64 = 48;
const STRIDE: u32 = 96;

/// As the desk opens an image: a medium with a cache, whose bytes nobody reads back.
const OPTIONS: SealedOptions = SealedOptions {
    payload: 72,
    tickets: Tickets::Slot,
    medium: SealedMedium::Cached,
    anchor_every: 1,
    reserve: 12,
    read_back: false,
    verify: Verify::OnRead,
};

type Volume = SealedFlash<ChaCha20Poly1305, SharedFlash, TrustedMemory, Vec<BlockState>, Vec<u8>>;
type Reader = SealedReader<ChaCha20Poly1305, SharedFlash, Vec<BlockState>, Vec<u8>>;
/// Every path, and the contents of files.
type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Medium and store.
struct Parts {
    medium: SharedFlash,
    store: TrustedMemory,
}

impl Parts {
    fn new(image: FlashImage, record: Option<TrustedRecord>) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { medium, store: TrustedMemory::with_record(record) }
    }

    /// An empty filesystem, closed in good order.
    fn formatted() -> Self {
        let geometry = FlashGeometry::new(1, 32, 8 * STRIDE + 96, BLOCKS).expect("a geometry");
        let parts = Self::new(FlashImage::erased(geometry), None);
        let mut volume =
            format(parts.open(Volume::format).expect("new"), &FormatOptions::default()).expect("format");
        volume.close().expect("close");
        parts
    }

    fn open(
        &self,
        open: impl FnOnce(
            SharedFlash,
            TrustedMemory,
            &SealedKey<'_>,
            SealedOptions,
            Vec<BlockState>,
            Vec<u8>,
            &mut dyn atrest_secret::Random,
        ) -> Result<Volume, SealedError>,
    ) -> Result<Volume, SealedError> {
        let (table, buffer) = memory();
        open(
            self.medium.clone(),
            self.store.clone(),
            &KEY,
            OPTIONS,
            table,
            buffer,
            &mut atrest_secret::OsRandom,
        )
    }

    fn without_freshness(&self) -> Reader {
        let (table, buffer) = memory();
        Reader::open_without_freshness(self.medium.clone(), &KEY, OPTIONS, table, buffer).expect("a reader")
    }
}

fn memory() -> (Vec<BlockState>, Vec<u8>) {
    (vec![BlockState::default(); BLOCKS as usize], vec![0; STRIDE as usize + 32])
}

/// What is done to the filesystem, one acknowledged change each.
#[derive(Clone, Debug)]
enum Change {
    Directory(&'static str),
    Write(&'static str, usize),
    Append(&'static str, usize),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}

fn suite() -> Vec<Change> {
    use Change::{Append, Directory, Remove, Rename, Write};
    let mut changes = vec![Directory("a"), Write("a/small", 20), Write("large", 3000), Directory("a/b")];
    for round in 0..4 {
        changes.extend([Append("a/small", 30), Append("large", 400), Write("a/b/again", 300 * (round + 1))]);
        changes.extend([Rename("a/b/again", "moved"), Remove("moved"), Write("a/inline", 5 + round)]);
    }
    changes.extend([
        Rename("a/b", "c"),
        Remove("large"),
        Write("c/last", 1500),
        Remove("c/last"),
        Remove("c"),
    ]);
    changes
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + seed * 13 + len) as u8).collect()
}

fn change<D: FlashDevice>(
    fs: &mut LittleFs<D>,
    tree: &mut Tree,
    change: &Change,
) -> Result<(), LittleFsError> {
    let path = |path: &str| path.as_bytes().to_vec();
    match change {
        Change::Directory(name) => {
            fs.mkdir(name.as_bytes())?;
            tree.insert(path(name), None);
        }
        Change::Write(name, len) => {
            let content = bytes(*len, tree.len());
            let file = fs.open(name.as_bytes(), OpenMode::Replace)?;
            fs.write_at(&file, 0, &content)?;
            fs.close(file)?;
            tree.insert(path(name), Some(content));
        }
        Change::Append(name, len) => {
            let mut content = tree.get(&path(name)).cloned().flatten().expect("a file");
            let file = fs.open(name.as_bytes(), OpenMode::ReadWrite)?;
            fs.write_at(&file, content.len() as u64, &bytes(*len, 99))?;
            fs.close(file)?;
            content.extend(bytes(*len, 99));
            tree.insert(path(name), Some(content));
        }
        Change::Rename(from, to) => {
            fs.rename(from.as_bytes(), to.as_bytes())?;
            let entry = tree.remove(&path(from)).expect("an entry");
            tree.insert(path(to), entry);
        }
        Change::Remove(name) => {
            fs.remove(name.as_bytes())?;
            tree.remove(&path(name));
        }
    }
    fs.sync()
}

fn read_all<D: FlashDevice>(fs: &mut LittleFs<D>) -> Result<Tree, LittleFsError> {
    let (mut tree, mut ways) = (Tree::new(), vec![Vec::new()]);
    while let Some(way) = ways.pop() {
        for entry in fs.read_dir(&way)? {
            let path = if way.is_empty() { entry.name } else { [&way, &b"/"[..], &entry.name].concat() };
            if entry.kind == Kind::Directory {
                ways.push(path.clone());
                tree.insert(path, None);
                continue;
            }
            let file = fs.open(&path, OpenMode::Read)?;
            let mut content = vec![0; entry.size as usize];
            assert_eq!(fs.read_at(&file, 0, &mut content)?, content.len());
            fs.close(file)?;
            tree.insert(path, Some(content));
        }
    }
    Ok(tree)
}

/// Everything that happened, and the trees between the changes.
struct Recorded {
    states: Vec<Tree>,
    recording: FlashRecording,
    writes: Vec<TrustedWrite>,
    first: Option<TrustedRecord>,
}

impl Recorded {
    fn of(parts: &Parts, changes: &[Change]) -> Self {
        parts.medium.lock().record();
        parts.store.beside(&parts.medium);
        let first = parts.store.record();
        let mut fs = LittleFs::mount(parts.open(Volume::mount).expect("mount"), true).expect("a filesystem");
        let mut states = vec![read_all(&mut fs).expect("read")];
        for (number, wanted) in changes.iter().enumerate() {
            let mut tree = states.last().expect("a tree").clone();
            change(&mut fs, &mut tree, wanted).unwrap_or_else(|error| panic!("{wanted:?}: {error}"));
            states.push(tree);
            parts.medium.lock().acknowledge(number as u64);
        }
        drop(fs);
        let recording = parts.medium.lock().finish_recording();
        Self { states, recording, writes: parts.store.writes(), first }
    }

    fn stored(&self, step: usize) -> Option<TrustedRecord> {
        let before = self.writes.iter().rev().find(|write| write.step <= step);
        before.map_or(self.first, |write| Some(write.after))
    }

    /// What a cut leaves, and how many changes were acknowledged before.
    fn aftermath(&self, cut: Cut) -> (Parts, usize) {
        match cut {
            Cut::Medium(cut) => {
                let (image, promises) = self.recording.aftermath(cut);
                (Parts::new(image, self.stored(cut.step)), promises.len())
            }
            Cut::Store(write) => {
                let image = self.recording.images().nth(write.step).expect("an image").clone();
                let step = write.step.min(self.recording.len() - 1);
                let all = self.recording.cuts(Caching::None);
                let cut = all.into_iter().find(|cut| cut.step == step).expect("a cut");
                (Parts::new(image, write.before), self.recording.aftermath(cut).1.len())
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Medium(PowerCut),
    Store(TrustedWrite),
}

impl Cut {
    /// Whether it can leave what does not verify.
    fn tears(&self) -> bool {
        match self {
            Self::Medium(cut) => cut.tear != Tear::Clean || cut.caching != Caching::None,
            Self::Store(_) => false,
        }
    }
}

#[test]
fn no_cut_loses_what_was_synced_nor_is_refused_by_the_check() {
    let run = Recorded::of(&Parts::formatted(), &suite());
    let medium = run.recording.cuts(Caching::UntilSync).into_iter().map(Cut::Medium);
    let cuts: Vec<Cut> = medium.chain(run.writes.iter().copied().map(Cut::Store)).collect();
    println!(
        "{} programs and erases, {} writes of the store, {} cuts",
        run.recording.len(),
        run.writes.len(),
        cuts.len()
    );
    assert!(cuts.len() > 1000, "the suite programs and erases");
    let (mut compared, mut closed, mut alarms) = (0, 0, 0);
    Campaign::matrix("the desk's littlefs on sealed flash, power loss", 250).over(&cuts, |cut| {
        let (parts, done) = run.aftermath(*cut);
        let mut allowed = run.states[done..(done + 2).min(run.states.len())].to_vec();
        if let Some(Change::Write(name, _)) = suite().get(done) {
            // A new file is there, and empty, before it is closed.
            let mut begun = run.states[done].clone();
            begun.entry(name.as_bytes().to_vec()).or_insert(Some(Vec::new()));
            allowed.push(begun);
        }
        // A reader without the store sees the same, everything here being what was written last, if it knows of the power loss. If it does
        // not, a torn unit looks like a changed one to it.
        let read = |reader| match LittleFs::mount(reader, false) {
            Ok(mut fs) => read_all(&mut fs),
            Err(MountError::Flash(error)) => Err(LittleFsError::Flash(error)),
            Err(error) => panic!("{cut:?}, read without freshness: {error}"),
        };
        let knowing = read(parts.without_freshness().assuming_torn())
            .unwrap_or_else(|error| panic!("{cut:?}, read without freshness: {error}"));
        assert!(allowed.contains(&knowing), "{cut:?}: without freshness, after change {done}");
        match read(parts.without_freshness()) {
            Ok(found) => assert_eq!(found, knowing, "{cut:?}: without freshness"),
            Err(LittleFsError::Flash(error)) => {
                assert!(matches!(error.cause, FlashCause::Tampered { .. }), "{cut:?}: {error}");
                assert!(cut.tears(), "{cut:?}: a false alarm: {error}");
                alarms += 1;
            }
            Err(error) => panic!("{cut:?}, read without freshness: {error}"),
        }
        let volume = parts.open(Volume::mount).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        let mut fs = LittleFs::mount(volume, true).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        let found = read_all(&mut fs).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        assert!(allowed.contains(&found), "{cut:?}: lost after change {done}");
        compared += 1;
        let mut tree = found;
        for wanted in [Change::Write("new", 700), Change::Append("new", 90), Change::Directory("made")] {
            change(&mut fs, &mut tree, &wanted)
                .unwrap_or_else(|error| panic!("{cut:?}, {wanted:?}: {error}"));
        }
        let mut volume = fs.unmount().unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        assert!(!volume.is_stopped(), "{cut:?}: an alarm");
        volume.close().expect("close");
        closed += 1;
        let mut again =
            LittleFs::mount(parts.open(Volume::mount).expect("mount"), false).expect("a filesystem");
        assert_eq!(read_all(&mut again).expect("read"), tree, "{cut:?}");
    });
    println!("{compared} cuts; without freshness {alarms} are taken for tampering");
    assert!(compared >= 250 && compared == closed, "{compared} cuts");
    assert!(alarms > 0, "a torn unit of metadata can't be told from a changed one");
}
