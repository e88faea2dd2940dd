//! `atrest format --type flash|sealed` and `atrest image`.

use std::path::Path;
use std::sync::Arc;

use atrest_engine::FileDevice;
use atrest_engine::flash::{self, FlashOpenError, FlashVolume, PlainFlash, SealedPlain};
use atrest_filetree::{CopyOptions, CopySummary, FileTree, TreePath, copy_in};
use atrest_flash::NewSlot;
use atrest_inside::make_flash_tree;
use atrest_keyslot::flash::{AnyKdf, FlashKey};
use atrest_nbd::Uri;
use atrest_open::DeviceOpenError;
use atrest_secret::{OsRandom, Passphrase};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::info::uuid_text;
use super::options::Plan;
use super::store::NewStore;
use crate::args::flash::ImageArgs;
use crate::args::format::{FormatArgs, LuksType};
use crate::commands::format::{Media, Place};
use crate::commands::inside::{Listener, copy_failure, host_bytes_below};
use crate::commands::text::counted;
use crate::failure::Failure;
use crate::output::{Output, path_text};
use crate::progress;
use crate::secrets::Source;

pub fn format(args: &FormatArgs, output: &Output) -> Result<(), Failure> {
    let mut made = make(args, output)?;
    if !args.flash.empty {
        let tree = made.filesystem()?;
        tree.flush().map_err(|error| Failure::from(error).at(&args.path))?;
    }
    let (sealed, answer) = (made.sealed(), made.answer());
    let uuid = made.uuid.clone();
    made.appear()?;
    let what = if sealed { "sealed" } else { "encrypted" };
    output.done(&answer, &format!("{}: new {what} flash, UUID {uuid}", args.path.display()))
}

pub fn image(args: &ImageArgs, output: &Output) -> Result<(), Failure> {
    let flash = matches!(args.format.kind, LuksType::Flash | LuksType::Sealed);
    if !flash || args.format.flash.empty {
        return Err(Failure::parameters("an image of a directory is made for flash")
            .hint("--type flash or --type sealed, without --empty"));
    }
    // Before a passphrase is asked for.
    let listed = std::fs::read_dir(&args.source).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries: Vec<_> = listed
        .map_err(|error| Failure::io(&error).at(&args.source))?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    // The same order every time.
    entries.sort();
    let path = &args.format.path;
    let mut made = make(&args.format, output)?;
    let tree = made.filesystem()?;
    let options = CopyOptions { recursive: true, ..CopyOptions::default() };
    let mut done = CopySummary::default();
    let bar = match progress::is_drawn(output) {
        true => progress::bytes_bar(host_bytes_below(&entries), output),
        false => ProgressBar::hidden(),
    };
    let mut listener = Listener::new(bar, output);
    for entry in entries {
        let copied = copy_in(&entry, &*tree, &TreePath::root(), &options, &mut listener);
        let part = copied.map_err(copy_failure)?;
        done.files += part.files;
        done.directories += part.directories;
        done.bytes += part.bytes;
    }
    listener.end();
    let space = tree.space().map_err(|error| Failure::from(error).at(path))?;
    tree.flush().map_err(|error| Failure::from(error).at(path))?;
    drop(tree);
    let (uuid, CopySummary { files, directories, bytes, .. }) = (made.uuid.clone(), done);
    let mut answer = made.answer();
    for (name, value) in
        [("files", files), ("directories", directories), ("bytes", bytes), ("free_blocks", space.free)]
    {
        answer[name] = value.into();
    }
    made.appear()?;
    output.done(
        &answer,
        &format!(
            "{}: {}, {}, {}; UUID {uuid}",
            path.display(),
            counted(files, "file", "files"),
            counted(directories, "directory", "directories"),
            counted(bytes, "byte", "bytes"),
        ),
    )
}

/// A volume that is made, not yet under its name.
struct Made<'a> {
    path: &'a Path,
    media: Media<'a>,
    plain: Option<Plain>,
    store: Option<NewStore<'a>>,
    uuid: String,
}

/// Its plaintext.
enum Plain {
    Encrypted(PlainFlash),
    Sealed(SealedPlain),
}

fn make<'a>(args: &'a FormatArgs, output: &Output) -> Result<Made<'a>, Failure> {
    let path = args.path.as_path();
    if Uri::is_meant(path) {
        return Err(Failure::from(DeviceOpenError::NotHere)
            .at(path)
            .hint("make an image, and copy it there (`nbdcopy`)"));
    }
    let place = Place::look(path, args.size)?;
    let plan = Plan::of(args, &place).map_err(|failure| failure.at(path))?;
    if !args.flash.empty {
        plan.check_filesystem().map_err(|failure| failure.at(path))?;
    }
    let mut store = match args.kind {
        LuksType::Sealed => Some(NewStore::look(args)?),
        _ => None,
    };
    place.confirm(output)?;
    if let Some(store) = &store {
        store.confirm(output)?;
    }
    let prompt = format!("New passphrase for {}", path.display());
    let passphrase = Source::from(&args.passphrase).read_new(&prompt, output)?;
    let media = place.open()?;
    let at = |error: FlashOpenError| Failure::from(error).at(path);
    let (volume, key) =
        derive_and_write(media.shared().map_err(|failure| failure.at(path))?, &plan, &passphrase, output)
            .map_err(at)?;
    let header = volume.header().map_err(|error| Failure::from(error).at(path))?;
    let uuid = uuid_text(&header.params().uuid);
    let plain = match &mut store {
        None => Plain::Encrypted(flash::plaintext(volume, &key, true).map_err(at)?),
        Some(store) => {
            let (plain, record) = flash::make_sealed(volume, &key).map_err(at)?;
            store.holds(record);
            Plain::Sealed(plain)
        }
    };
    Ok(Made { path, media, plain: Some(plain), store, uuid })
}

impl Made<'_> {
    /// Makes an empty filesystem over all of it.
    fn filesystem(&mut self) -> Result<Box<dyn FileTree>, Failure> {
        let made = match self.plain.take() {
            Some(Plain::Encrypted(plain)) => make_flash_tree(plain),
            Some(Plain::Sealed(plain)) => make_flash_tree(plain),
            None => return Err(Failure::parameters("there is a filesystem already").at(self.path)),
        };
        made.map_err(|error| Failure::from(error).at(self.path))
    }

    fn sealed(&self) -> bool {
        self.store.is_some()
    }

    /// What there is to say of it as JSON.
    fn answer(&self) -> Value {
        let kind = if self.sealed() { "sealed" } else { "flash" };
        let mut answer = json!({ "path": path_text(self.path), "type": kind, "uuid": self.uuid });
        if let Some(store) = &self.store {
            answer["store"] = path_text(store.path()).into();
        }
        answer
    }

    /// Gives everything its name: the store first, without which the volume is of little use.
    fn appear(self) -> Result<(), Failure> {
        let Self { media, plain, store, .. } = self;
        // Closes a sealed volume in good order.
        drop(plain);
        let Some(mut store) = store else { return media.appear() };
        store.keep()?;
        media.appear().map_err(|failure| match store.forget() {
            Ok(()) => failure,
            Err(kept) => failure.adding(format_args!(
                "what the trusted store held can't be put back either: {}",
                kept.what()
            )),
        })
    }
}

fn derive_and_write(
    device: Arc<FileDevice>,
    plan: &Plan,
    passphrase: &Passphrase,
    output: &Output,
) -> Result<(FlashVolume, FlashKey), FlashOpenError> {
    let spinner = progress::spinner("deriving the key", output);
    let first = NewSlot {
        passphrase: passphrase.expose(),
        cost: plan.cost,
        kdf: &mut AnyKdf,
        device: None,
        random: &mut OsRandom,
    };
    let made = flash::format(device, plan.geometry, &plan.options, first);
    spinner.finish_and_clear();
    made
}
