//! `atrest verity`.

mod describe;
mod parts;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::contents::in_the_way;
use atrest_engine::verity::{
    BlockPlace, Digest, Extent, Layout, Pace, Part, Report, Superblock, VerityDevice, VerityError,
    VerityOptions, build, check,
};
use atrest_engine::{Access, is_same};
use serde_json::json;

use super::serve;
use super::target::open_device;
use crate::args::open::{OpenArgs, UnlockArgs};
use crate::args::verity::{
    RootArgs, TreeArgs, TreePlaceArgs, VerityDumpArgs, VerityFormatArgs, VerityOpenArgs, VerityVerifyArgs,
};
use crate::failure::{Code, Failure};
use crate::output::{Output, plain};
use crate::progress;
use describe::Described;
use parts::{Opened, hex};

/// Bad blocks that are named on a terminal.
const NAMED: usize = 20;

/// An error of the engine, said of whichever file it is about.
fn at<'a>(data: &'a Path, tree: &'a Path, parity: Option<&'a Path>) -> impl Fn(VerityError) -> Failure + 'a {
    move |error| {
        let part = match error {
            VerityError::Device { part, .. } | VerityError::TooShort { part, .. } => part,
            VerityError::Superblock(_) => Part::Tree,
            _ => return error.into(),
        };
        let path = match part {
            Part::Data => data,
            Part::Tree => tree,
            Part::Parity => parity.unwrap_or(tree),
        };
        Failure::from(error).at(path)
    }
}

pub fn format(args: &VerityFormatArgs, output: &Output) -> Result<(), Failure> {
    let parity = args.place.fec_device.as_deref();
    let failed = at(&args.data, &args.tree, parity);
    let planned = parts::plan(args)?;
    let layout = &planned.layout;
    ask(args, layout, output)?;
    let parts = planned.open(args)?;
    let uuid = parts::uuid(args.uuid.as_deref())?;
    let superblock = Superblock { uuid, parameters: layout.parameters().clone() };
    let bar = progress::bytes_bar(0, output);
    let mut update = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let mut pace = pace(args.threads, &mut update);
    let built = build(&parts, planned.together, layout, Some(&superblock), &mut pace);
    bar.finish_and_clear();
    let root = built.map_err(failed)?;
    if let Some(path) = &args.root_hash_file {
        write_root(path, &root).map_err(|error| Failure::io(&error).at(path))?;
    }
    let described = Described {
        tree: &args.tree,
        uuid: layout.place().superblock.then_some(uuid),
        layout,
        hash: args.tree_args.hash.as_deref(),
        together: planned.together,
        root: Some(root),
    };
    described.print(output)
}

/// Before something is overwritten that may be worth something.
fn ask(args: &VerityFormatArgs, layout: &Layout, output: &Output) -> Result<(), Failure> {
    let mut places = vec![(&args.tree, layout.place().offset..layout.tree().end_bytes())];
    if let (Some(path), Some(fec)) = (&args.place.fec_device, layout.fec()) {
        places.push((path, fec.offset()..fec.end()));
    }
    for (path, range) in places {
        if !path.exists() {
            continue;
        }
        let device = open_device(path, Access::ReadOnly)?;
        let range = range.start.min(device.size())..range.end.min(device.size());
        if let Some(found) = in_the_way(&device, range).map_err(|error| Failure::from(error).at(path))? {
            output.confirm(&format!("{} holds {found}, which is overwritten", path.display()))?;
        }
    }
    Ok(())
}

/// As veritysetup writes it: no line end.
fn write_root(path: &Path, root: &Digest) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    write!(file, "{root}")?;
    file.sync_all()
}

fn pace(threads: Option<u16>, progress: &mut dyn atrest_engine::bulk::Progress) -> Pace<'_> {
    Pace { threads: threads.map_or(0, usize::from), cancel: None, progress, done: 0, total: 0 }
}

pub fn verify(args: &VerityVerifyArgs, output: &Output) -> Result<(), Failure> {
    let failed = at(&args.data, &args.tree, args.place.fec_device.as_deref());
    parts::refuse_beside_superblock(&args.tree_args, &args.place)?;
    let Opened { parts, layout } = parts::open(&args.data, &args.tree, &args.tree_args, &args.place)?;
    let root = root(&args.root, &layout)?;
    let bar = progress::bytes_bar(0, output);
    let mut update = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let extent = if args.all { Extent::All } else { Extent::ToFirstBad };
    let report = check(parts, layout.clone(), root.as_bytes(), extent, &mut pace(args.threads, &mut update));
    bar.finish_and_clear();
    let report = report.map_err(failed)?;
    if output.is_json() {
        output.report(&json_of(&report), "")?;
    }
    for place in report.repaired.iter().take(NAMED) {
        output.warn(format!(
            "{}: {} was repaired; on its device it is as bad as before",
            args.data.display(),
            named(*place)
        ));
    }
    verdict(&report, &layout).map_or(Ok(()), |failure| Err(failure.at(&args.data)))
}

/// Why the data can't be trusted, if it can't.
fn verdict(report: &Report, layout: &Layout) -> Option<Failure> {
    if report.is_good() {
        return None;
    }
    if let Some(root) = report.other_root {
        return Some(
            Failure::parameters(format!("the root hash is not that of this tree, which would be {root}"))
                .hint("take the root hash from where you trust it; if it is right, the data and its tree were replaced"),
        );
    }
    let mut lines: Vec<String> = report.bad.iter().take(NAMED).map(|place| named(*place)).collect();
    lines.extend(
        report
            .spare
            .iter()
            .take(NAMED)
            .map(|place| format!("what lies beside the hashes of {}", named(*place))),
    );
    if report.is_root_wrong(layout) {
        lines.insert(0, "the root hash does not vouch for this tree".into());
    }
    // intended: fewer are named than there are.
    let more = (report.bad.len() + report.spare.len()).saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let unknown = match report.unknown {
        0 => String::new(),
        count => format!("; of {count} blocks of data nothing can be said"),
    };
    let rest = if report.ended_early {
        "; the rest was not looked at (`atrest verity verify --all` does)"
    } else {
        ""
    };
    let what = format!("it is not what it was: {}{more}{unknown}{rest}", lines.join(", "));
    Some(
        Failure::new(Code::Refused, what)
            .hint("restore the data and its tree from a copy; --fec-device repairs, where there is parity"),
    )
}

fn named(place: BlockPlace) -> String {
    match place {
        BlockPlace { height: 0, block } => format!("block {block} of the data"),
        BlockPlace { height, block } => format!("block {block} in level {height} of the tree"),
    }
}

fn json_of(report: &Report) -> serde_json::Value {
    let places = |places: &std::collections::BTreeSet<BlockPlace>| -> Vec<serde_json::Value> {
        places.iter().map(|place| json!({ "level": place.height, "block": place.block })).collect()
    };
    json!({
        "good": report.is_good(),
        "bad": places(&report.bad),
        "spare": places(&report.spare),
        "repaired": places(&report.repaired),
        "bad_data_blocks": report.bad_data,
        "unknown_data_blocks": report.unknown,
        "ended_early": report.ended_early,
        "other_root_hash": report.other_root.map(|root| root.to_string()),
    })
}

/// The root hash that was given.
fn root(args: &RootArgs, layout: &Layout) -> Result<Digest, Failure> {
    let needed = layout.tree().digest_len();
    let text = match (&args.root_hash, &args.root_hash_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => {
            let at = |error: std::io::Error| Failure::io(&error).with_code(Some(1)).at(path);
            let mut text = String::new();
            let file = std::fs::File::open(path).map_err(at)?;
            // What follows is not looked at: a line end, as a rule.
            std::io::Read::read_to_string(&mut std::io::Read::take(file, 2 * needed as u64), &mut text)
                .map_err(at)?;
            text
        }
        (None, None) => {
            return Err(Failure::parameters("the root hash is missing").hint("give it, or --root-hash-file"));
        }
    };
    let root = hex(&text).filter(|root| root.len() == needed).and_then(|root| Digest::new(&root));
    root.ok_or_else(|| {
        Failure::parameters(format!(
            "the root hash is not one of this tree: those have {} hexadecimal digits",
            2 * needed
        ))
    })
}

/// What a mapping of the kernel is made of.
pub struct Ready {
    pub layout: Layout,
    pub root: Digest,
    /// The superblock's UUID, if there is a superblock.
    pub uuid: Option<String>,
}

/// Reads what the tree depends on, and checks that everything has room on its device.
pub fn ready(
    data: &Path,
    tree: &Path,
    tree_args: &TreeArgs,
    place: &TreePlaceArgs,
    root_args: &RootArgs,
) -> Result<Ready, Failure> {
    parts::refuse_beside_superblock(tree_args, place)?;
    let Opened { parts, layout } = parts::open(data, tree, tree_args, place)?;
    let uuid = match place.no_superblock {
        true => None,
        false => {
            let failed = at(data, tree, place.fec_device.as_deref());
            let offset = layout.place().offset;
            Some(parts::uuid_text(Layout::read(&*parts.tree, offset).map_err(failed)?.0.uuid))
        }
    };
    let root = root(root_args, &layout)?;
    Ok(Ready { layout, root, uuid })
}

pub fn open(args: &VerityOpenArgs, output: &Output) -> Result<u8, Failure> {
    let face = OpenArgs {
        path: Some(args.data.clone()),
        nbd: args.nbd.clone(),
        nbd_tcp: args.nbd_tcp,
        fuse: args.fuse.clone(),
        vhost_user: args.vhost_user.clone(),
        dm: None,
        name: args.name.clone(),
        read_only: true,
        allow_discards: false,
        reencrypt: false,
        link_vk_to_keyring: None,
        daemon: args.daemon,
        map: false,
        threads: args.threads,
        metrics: args.metrics.clone(),
        refresh: false,
        persistent: false,
        shared: false,
        tls: (&args.tls).into(),
        kernel: Default::default(),
        unlock: UnlockArgs::default(),
        run: args.run.clone(),
    };
    serve::present(&face, &args.data, args.nbd.as_ref().and_then(Option::as_deref), output, |ready| {
        let failed = at(&args.data, &args.tree, args.place.fec_device.as_deref());
        parts::refuse_beside_superblock(&args.tree_args, &args.place)?;
        let Opened { parts, layout } = parts::open(&args.data, &args.tree, &args.tree_args, &args.place)?;
        let root = root(&args.root, &layout)?;
        ready()?;
        let told = std::sync::atomic::AtomicUsize::new(0);
        let (of, to) = (args.data.clone(), *output);
        let mut options = VerityOptions::default();
        options.threads = args.threads.map_or(0, usize::from);
        options.ignore_zero_blocks = args.ignore_zero_blocks;
        options.repaired = Some(Box::new(move |place| {
            // A medium that fails everywhere must not fill a log.
            if told.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < NAMED {
                to.warn(format!("{}: {} was repaired as it was read", of.display(), named(place)));
            }
        }));
        let device = VerityDevice::new(parts, layout, root.as_bytes(), options).map_err(&failed)?;
        // The first read would tell it, too, but nobody who could choose another root hash.
        let mut first = [0; 1];
        device.read_at(0, &mut first).map_err(|error| Failure::from(error).at(&args.data))?;
        Ok(Arc::new(device) as Arc<dyn BlockDevice>)
    })
}

pub fn dump(args: &VerityDumpArgs, output: &Output) -> Result<(), Failure> {
    if args.place.no_superblock {
        return Err(Failure::parameters("without a superblock there is nothing to show"));
    }
    let device = open_device(&args.tree, Access::ReadOnly)?;
    // intended: where it is in most files.
    let offset = args.place.hash_offset.unwrap_or(0);
    let failed = at(&args.tree, &args.tree, args.place.fec_device.as_deref());
    let (superblock, layout) = Layout::read(&device, offset).map_err(&failed)?;
    let same = args.place.fec_device.as_ref().is_some_and(|parity| is_same(parity, &args.tree));
    let together = atrest_engine::verity::Together { tree_parity: same, ..Default::default() };
    let layout = match parts::fec_options(&args.place) {
        Some(fec) => layout.with_fec(fec, device.size(), together).map_err(&failed)?,
        None => layout,
    };
    let described = Described {
        tree: &args.tree,
        uuid: Some(superblock.uuid),
        layout: &layout,
        hash: None,
        together,
        root: None,
    };
    described.print(output)
}

/// For what is printed as it is: tabs and all.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A path on one line.
fn shown(path: &Path) -> String {
    plain(&path.display().to_string()).to_string()
}
