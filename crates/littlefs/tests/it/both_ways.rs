//! These bindings and those of firmware, whose sizes are fixed when they are compiled, read what the other wrote. These
//! open every state in which a power loss leaves a filesystem.

#[path = "../../../flash/tests/it/littlefs/mod.rs"]
mod littlefs;

use atrest_device::FlashDevice;
use atrest_littlefs::{FormatOptions, Kind, LittleFs, LittleFsError, OpenMode, Version, check, format};
use atrest_testkit::Campaign;
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear,
};
use littlefs::{Adiantum, BareSmall, Change, Rig, Tree, Xts, XtsErased, formatted, play, read_all, suite};

/// Everything in it, as the tests of firmware's bindings tell it.
fn tree<D: FlashDevice>(fs: &mut LittleFs<D>) -> Tree {
    fn collect<D: FlashDevice>(fs: &mut LittleFs<D>, dir: &str, tree: &mut Tree) {
        for entry in fs.read_dir(dir.as_bytes()).expect("a directory") {
            let name = String::from_utf8(entry.name).expect("text");
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if entry.kind == Kind::Directory {
                collect(fs, &path, tree);
                tree.insert(path, None);
                continue;
            }
            let file = fs.open(path.as_bytes(), OpenMode::Read).expect("a file");
            let mut content = vec![0; entry.size as usize + 1];
            let mut len = 0;
            while let read @ 1.. = fs.read_at(&file, len as u64, &mut content[len..]).expect("read") {
                len += read;
            }
            content.truncate(len);
            assert_eq!(len as u64, entry.size, "{path}");
            fs.close(file).expect("closed");
            tree.insert(path, Some(content));
        }
    }
    let mut found = Tree::new();
    collect(fs, "", &mut found);
    found
}

/// Plays changes by these bindings; a full medium may refuse some.
fn play_here<D: FlashDevice>(fs: &mut LittleFs<D>, changes: &[Change]) -> usize {
    let mut refused = 0;
    for change in changes {
        let result = match change {
            Change::Create(path) => fs.open(path.as_bytes(), OpenMode::New).and_then(|file| fs.close(file)),
            Change::Write(path, data) => {
                fs.open(path.as_bytes(), OpenMode::Replace).and_then(|file| write(fs, file, 0, data))
            }
            Change::Append(path, data) => fs.open(path.as_bytes(), OpenMode::ReadWrite).and_then(|file| {
                let end = fs.file_size(&file)?;
                write(fs, file, end, data)
            }),
            Change::Rename(from, to) => fs.rename(from.as_bytes(), to.as_bytes()),
            Change::MakeDir(path) => fs.mkdir(path.as_bytes()),
            Change::Remove(path) => fs.remove(path.as_bytes()),
        };
        match result {
            Ok(()) => {}
            Err(LittleFsError::NoSpace) => refused += 1,
            Err(error) => panic!("{change:?}: {error}"),
        }
    }
    refused
}

fn write<D: FlashDevice>(
    fs: &mut LittleFs<D>,
    file: atrest_littlefs::FileId,
    at: u64,
    data: &[u8],
) -> Result<(), LittleFsError> {
    let written = fs.write_at(&file, at, data);
    fs.close(file).and(written)
}

fn medium(image: &FlashImage) -> SharedFlash {
    SharedFlash::new(EmulatedFlash::with_image(image.clone()))
}

fn firmware_reads_what_is_written_here<R: Rig>() {
    let medium = SharedFlash::new(EmulatedFlash::new(R::medium()));
    let device = format(R::device(medium.clone()), &FormatOptions::default()).expect("format");
    let mut fs = LittleFs::mount(device, true).expect("mount");
    let changes = suite(R::medium().size() as usize);
    let refused = play_here(&mut fs, &changes);
    assert!(refused > 0, "the suite fills the medium");
    let expected = tree(&mut fs);
    assert!(expected.len() > 3);
    drop(fs.unmount().expect("unmount"));
    let image = medium.lock().image().clone();
    assert!(read_all::<R>(&image) == Ok(expected.clone()), "firmware reads the same");
    // And goes on with it.
    let changes = [Change::MakeDir("chip".into()), Change::Create("chip/a".into())];
    let more = play::<R>(&medium, expected, &changes);
    let mut fs = LittleFs::mount(R::device(medium), false).expect("mount again");
    assert_eq!(&tree(&mut fs), more.states.last().expect("a state"));
}

fn what_firmware_writes_is_read_here<R: Rig>() {
    let medium = formatted::<R>();
    let changes = suite(R::medium().size() as usize);
    let played = play::<R>(&medium, Tree::new(), &changes);
    let before = medium.lock().image().to_bytes();
    let mut fs = LittleFs::mount(R::device(medium.clone()), false).expect("mount");
    assert_eq!(&tree(&mut fs), played.states.last().expect("a state"));
    assert_eq!(fs.mkdir(b"x"), Err(LittleFsError::ReadOnly));
    drop(fs);
    assert!(medium.lock().image().to_bytes() == before, "reading wrote");
}

#[test]
fn both_bindings_read_what_the_other_one_wrote() {
    firmware_reads_what_is_written_here::<BareSmall>();
    firmware_reads_what_is_written_here::<Xts>();
    firmware_reads_what_is_written_here::<XtsErased>();
    firmware_reads_what_is_written_here::<Adiantum>();
    what_firmware_writes_is_read_here::<BareSmall>();
    what_firmware_writes_is_read_here::<Xts>();
    what_firmware_writes_is_read_here::<XtsErased>();
    what_firmware_writes_is_read_here::<Adiantum>();
}

/// Every state that a power loss leaves passes the check, shows the tree that firmware finds, and can be written. A few
/// cuts leave something to complete; the first of them is tried whatever the sample is.
fn every_cut_opens<R: Rig>(name: &'static str, sample: usize) {
    let medium_here = formatted::<R>();
    medium_here.lock().record();
    play::<R>(&medium_here, Tree::new(), &suite(R::medium().size() as usize));
    let recording = medium_here.lock().finish_recording();
    let mut cuts = recording.cuts(Caching::None);
    cuts.retain(|cut| cut.tear != Tear::Uncorrectable);
    let is_interrupted = |cut: &&PowerCut| {
        let device = R::device(medium(&recording.aftermath(**cut).0));
        LittleFs::mount(device, false).unwrap_or_else(|e| panic!("{cut}: {e}")).was_interrupted()
    };
    let interrupted = cuts.iter().find(is_interrupted).expect("a cut that leaves something to complete");
    opens::<R>(&recording, interrupted);
    Campaign::matrix(name, sample).over(&cuts, |cut| opens::<R>(&recording, cut));
}

fn opens<R: Rig>(recording: &FlashRecording, cut: &PowerCut) {
    let (image, _) = recording.aftermath(*cut);
    let expected = read_all::<R>(&image).unwrap_or_else(|error| panic!("{cut}: {}", error.code()));
    let here = medium(&image);
    let mut fs = LittleFs::mount(R::device(here.clone()), false).unwrap_or_else(|e| panic!("{cut}: {e}"));
    assert_eq!(tree(&mut fs), expected, "{cut}");
    drop(fs);
    assert!(here.lock().image().to_bytes() == image.to_bytes(), "{cut}: reading wrote");
    let mut fs = LittleFs::mount(R::device(here.clone()), true).unwrap_or_else(|e| panic!("{cut}: {e}"));
    assert_eq!(tree(&mut fs), expected, "{cut}");
    drop(fs.unmount().unwrap_or_else(|e| panic!("{cut}: {e}")));
    let summary = check(&mut R::device(here)).unwrap_or_else(|e| panic!("{cut}: {e}"));
    assert!(!summary.interrupted, "{cut}");
}

#[test]
fn what_a_power_loss_leaves_is_read_whole() {
    every_cut_opens::<BareSmall>("littlefs here after a cut", 1500);
    every_cut_opens::<Adiantum>("littlefs here after a cut, Adiantum", 300);
}

#[test]
fn version_2_1_is_kept_and_refused_by_firmware() {
    let medium = SharedFlash::new(EmulatedFlash::new(BareSmall::medium()));
    let options = FormatOptions { version: Version::V2_1 };
    let device = format(medium.clone(), &options).expect("format");
    let mut fs = LittleFs::mount(device, true).expect("mount");
    fs.mkdir(b"dir").expect("a directory");
    drop(fs.unmount().expect("unmount"));
    assert_eq!(check(&mut medium.clone()).expect("checks").version, 0x0002_0001);
    assert!(read_all::<BareSmall>(medium.lock().image()).is_err());
}
